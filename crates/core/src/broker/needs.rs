//! What a broker knows of the services of its guests.

use std::collections::VecDeque;
use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use super::facts::NeedNoted;
use super::{Broker, Output};
use crate::actor::{Emit as _, Role, dropped};
use crate::model::identity::ActorId;
use crate::model::slice::SliceName;
use crate::model::time::{Span, Time};
use crate::mutants::mutant;
use crate::service::steps::{Kind, Steps};
use crate::wire::message::Message;
use crate::wire::need::{Need, Want};

/// The most services of one guest that are known.
pub const MAX_OF_ONE: usize = 1000;

/// For how long what a service wanted before is known.
pub const KEPT: Span = Span::HOUR;

/// The most changes of a service's wants that are known.
const MAX_KEPT: usize = 32;

/// A service, by the guest that has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ServiceId {
    /// The guest.
    pub guest: ActorId,
    /// The service.
    pub service: SliceName,
}

/// What a service wants, as far as its guest has said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownNeed {
    /// The revision.
    pub revision: u64,
    /// Since when anything is known of it.
    pub known_since: Time,
    /// By kind of units.
    pub wants: Vec<Want>,
    /// What it wanted before, the oldest first.
    pub before: VecDeque<Earlier>,
}

/// What a service wanted before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earlier {
    /// Until when.
    pub until: Time,
    /// By kind of units.
    pub wants: Vec<(Kind, Steps)>,
}

/// The needs of all services.
pub(super) type Needs = OrdMap<ServiceId, Arc<KnownNeed>>;

impl KnownNeed {
    /// What it wants of a kind of units.
    pub fn want(&self, kind: &Kind) -> Option<&Want> {
        self.wants.iter().find(|want| want.kind == *kind)
    }

    /// All steps of a kind that it has told after an instant, and those that held at it; `None` if it has not been
    /// known since then. What it did not want then is no steps.
    pub fn steps_since(&self, kind: &Kind, since: Time) -> Option<Vec<Steps>> {
        if since < self.known_since {
            return None;
        }
        let before = self.before.iter().filter(|earlier| since < earlier.until);
        let before = before.map(|earlier| {
            let steps = earlier.wants.iter().find(|(of, _)| of == kind).map(|(_, steps)| steps);
            steps.cloned().unwrap_or_default()
        });
        let now = self.want(kind).map(|want| want.steps.clone()).unwrap_or_default();
        Some(before.chain([now]).collect())
    }

    /// Takes a later statement.
    fn follow(&mut self, need: &Need, at: Time) {
        let told = std::mem::replace(&mut self.wants, need.wants.clone());
        let wants: Vec<_> = told.into_iter().map(|want| (want.kind, want.steps)).collect();
        self.revision = need.revision;
        let same = |now: &Vec<(Kind, Steps)>| {
            let new = self.wants.iter().map(|want| (&want.kind, &want.steps));
            now.iter().map(|(kind, steps)| (kind, steps)).eq(new)
        };
        // A statement of other tickets alone changes nothing that was wanted.
        if !same(&wants) {
            self.before.push_back(Earlier { until: at, wants });
        }
        let old = at.minus(KEPT);
        while self
            .before
            .front()
            .is_some_and(|first| first.until <= old || self.before.len() > MAX_KEPT)
        {
            self.before.pop_front();
        }
    }
}

impl Broker {
    /// The services that are known, with what they want.
    pub fn needs(&self) -> impl Iterator<Item = (&ServiceId, &KnownNeed)> {
        self.state.needs.iter().map(|(service, need)| (service, &**need))
    }

    /// A guest says what a service of it wants.
    pub(super) fn told_need(&mut self, now: Time, guest: ActorId, need: Need, out: &mut Output) {
        if !self.base.is_known(guest, Role::ServiceManager) {
            return out.problems.push(dropped("need", "its sender is no guest"));
        }
        if let Err(cause) = need.check() {
            return out.problems.push(dropped("need", cause));
        }
        let id = ServiceId { guest, service: need.service.clone() };
        let known = self.state.needs.get(&id);
        if known.is_none() && self.has_too_many_needs(guest) {
            return out.problems.push(dropped("need", "too many services of its sender are known"));
        }
        let is_new = known.is_none_or(|known| known.revision < need.revision);
        if is_new || mutant!(OldNeedCounts) {
            self.emit(now, NeedNoted { guest, need }, out);
        }
        let ServiceId { service, .. } = id.clone();
        let revision = self.state.needs.get(&id).map_or(0, |known| known.revision);
        out.replies.push(self.base.volatile(guest, now, Message::Noted { service, revision }));
    }

    fn has_too_many_needs(&self, guest: ActorId) -> bool {
        let wanting = self.needs_of(guest).filter(|(_, need)| !need.wants.is_empty());
        wanting.take(MAX_OF_ONE).count() == MAX_OF_ONE
    }

    fn needs_of(&self, guest: ActorId) -> impl Iterator<Item = (&ServiceId, &KnownNeed)> {
        self.needs().filter(move |(id, _)| id.guest == guest)
    }

    /// What is not wanted any more stays known by its revision, so that an older statement that comes late is none; of
    /// many, those of the highest revisions.
    pub(super) fn need_noted(&mut self, at: Time, fact: &NeedNoted) {
        let NeedNoted { guest, need } = fact;
        let id = ServiceId { guest: *guest, service: need.service.clone() };
        let known = match self.state.needs.get(&id) {
            Some(known) => {
                let mut known = (**known).clone();
                known.follow(need, at);
                known
            }
            None => KnownNeed {
                revision: need.revision,
                known_since: at,
                wants: need.wants.clone(),
                before: VecDeque::new(),
            },
        };
        self.state.needs.insert(id, Arc::new(known));
        self.forget_oldest_need(*guest);
        self.state.rounds.call();
    }

    fn forget_oldest_need(&mut self, guest: ActorId) {
        let all = self.state.needs.len();
        if all <= MAX_OF_ONE || self.needs_of(guest).count() <= MAX_OF_ONE {
            return;
        }
        let over = self.needs_of(guest).filter(|(_, need)| need.wants.is_empty());
        let oldest = over.min_by_key(|(_, need)| need.revision).map(|(id, _)| id.clone());
        if let Some(id) = oldest {
            self.state.needs.remove(&id);
        }
    }
}
