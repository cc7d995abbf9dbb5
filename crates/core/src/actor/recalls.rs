//! What an issuer keeps of the recalls that it has asked for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::time::Time;
use crate::ticket::link::{Link, LinkHash};
use crate::wire::recall::Level;
use crate::wire::refusal::Refusal;

/// How the recall of a link stands at its issuer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuedRecall {
    /// How many units stay, from when on.
    pub level: Level,
    /// When it takes the last of the units, once its site has said so.
    pub at: Option<Time>,
    /// Whether it has taken all that it takes.
    pub enforced: bool,
    /// Why its site did not take it.
    pub refusal: Option<Refusal>,
}

/// The recalls of an issuer, the highest number of each link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IssuedRecalls(BTreeMap<LinkHash, IssuedRecall>);

impl IssuedRecalls {
    /// All of them, by link.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (LinkHash, &IssuedRecall)> {
        self.0.iter().map(|(&link, recall)| (link, recall))
    }

    /// How the recall of a link stands.
    pub(crate) fn get(&self, link: LinkHash) -> Option<&IssuedRecall> {
        self.0.get(&link)
    }

    /// The level of the next recall of what is recalled as `key`, by the link as it is now: see
    /// [`Level::after`].
    pub(crate) fn next(
        &self,
        key: LinkHash,
        link: &Link,
        stay: Option<u32>,
        from: Time,
    ) -> Result<Level, String> {
        Level::after(self.0.get(&key).map(|last| last.level), link, stay, from)
    }

    /// The site was asked.
    pub(crate) fn asked(&mut self, link: LinkHash, level: Level) {
        let recall = IssuedRecall { level, at: None, enforced: false, refusal: None };
        self.0.insert(link, recall);
    }

    /// Whether an answer of the site's says something new.
    pub(crate) fn is_news(&self, link: LinkHash, number: u32, at: Time, enforced: bool) -> bool {
        self.0.get(&link).is_some_and(|recall| {
            recall.level.number == number
                && !recall.enforced
                && recall.refusal.is_none()
                && (recall.at, recall.enforced) != (Some(at), enforced)
        })
    }

    /// Whether the site is waited for.
    pub(crate) fn is_open(&self, link: LinkHash, number: u32) -> bool {
        self.0.get(&link).is_some_and(|recall| {
            recall.level.number == number && !recall.enforced && recall.refusal.is_none()
        })
    }

    /// The site has answered; whether that was its last word.
    pub(crate) fn answered(&mut self, link: LinkHash, at: Time, enforced: bool) -> bool {
        if let Some(recall) = self.0.get_mut(&link) {
            (recall.at, recall.enforced) = (Some(at), enforced);
        }
        enforced
    }

    /// The site does not take it.
    pub(crate) fn refused(&mut self, link: LinkHash, refusal: &Refusal) {
        if let Some(recall) = self.0.get_mut(&link) {
            recall.refusal = Some(refusal.clone());
        }
    }

    /// Forgets a link.
    pub(crate) fn forget(&mut self, link: LinkHash) {
        self.0.remove(&link);
    }
}
