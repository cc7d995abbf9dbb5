//! What an issuer keeps of the recalls that it has asked for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::time::Time;
use crate::ticket::link::LinkHash;
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

    /// The level of the next recall of a link with so many units: of `stay` of them, or, without a number,
    /// of all, which withdraws the last one.
    pub(crate) fn next(
        &self,
        link: LinkHash,
        all: u32,
        stay: Option<u32>,
        from: Time,
    ) -> Result<Level, String> {
        let last = self.0.get(&link);
        let units = match (stay, last) {
            (Some(units), _) if units < all => units,
            (Some(units), _) => {
                return Err(format!("{units} units cannot stay of {all}: fewer are to"));
            }
            (None, Some(_)) => all,
            (None, None) => return Err("the ticket is not recalled".to_owned()),
        };
        let number = last.map_or(0, |last| last.level.number.saturating_add(1));
        Ok(Level { number, units, from })
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
