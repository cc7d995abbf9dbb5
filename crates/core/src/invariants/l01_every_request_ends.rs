//! L1: whoever asks is answered.

use std::collections::BTreeMap;

use super::books::{Books, Subject};
use super::{Bounds, Change, Check, Law, Scene, Tally, Verdict};
use crate::identity::ActorId;
use crate::slice::LeaseId;
use crate::time::{Span, Time};

pub(super) const LAW: Law = Law {
    id: "L1",
    name: "every request ends",
    statement: "Once the faults have stopped, every lease that was asked for of honest actors is active or \
                over within the bound, counted from when its term may begin at the latest and its answer \
                is due.",
    source: "termination after stabilisation; Shirako S49, AVE A09",
    on: "facts of guests, in true time",
};

#[derive(Default)]
pub(super) struct Bench {
    /// When the faults stopped, and how long a request may take from then on.
    healed: Option<(Time, Span)>,
    /// The leases that wait, and since when.
    waiting: BTreeMap<(ActorId, LeaseId), Time>,
}

impl Check for Bench {
    fn change(&mut self, scene: &Scene<'_>, change: &Change, tally: &mut Tally) -> Verdict {
        let Subject::Lease(guest, lease) = change.subject else { return Ok(()) };
        let waits = ["Asking", "GivenUp", "Redeeming", "Joining"];
        let word = change.to.split('+').next().unwrap_or_default();
        if waits.contains(&word) {
            self.waiting.entry((guest, lease)).or_insert(scene.now);
            return Ok(());
        }
        match self.waiting.remove(&(guest, lease)) {
            Some(since) => self.in_time(scene.books, scene.now, ((guest, lease), since), tally),
            None => Ok(()),
        }
    }

    fn healed(&mut self, now: Time, bounds: Bounds) {
        self.healed = Some((now, bounds.request));
    }

    fn settled(&mut self, books: &Books, now: Time, tally: &mut Tally) -> Verdict {
        self.waiting
            .iter()
            .try_for_each(|(&lease, &since)| self.in_time(books, now, (lease, since), tally))
    }
}

impl Bench {
    fn in_time(
        &self,
        books: &Books,
        now: Time,
        ((guest, id), since): ((ActorId, LeaseId), Time),
        tally: &mut Tally,
    ) -> Verdict {
        let Some((healed, bound)) = self.healed else { return Ok(()) };
        let Some(record) = books.guests.get(&guest) else { return Ok(()) };
        let Some(lease) = record.leases.get(&id) else { return Ok(()) };
        let Some((broker, request, _)) = record.requests.get(&lease.number) else { return Ok(()) };
        let site = lease.first.as_ref().map(|ticket| ticket.site());
        if !books.cast.honest(*broker) || site.is_some_and(|site| !books.cast.honest(site)) {
            return Ok(());
        }
        let may_wait = request.latest.max(request.answer_by.min(request.last_end()));
        let due = since.max(healed).max(may_wait).plus(bound);
        tally.check(now <= due, || {
            let (name, word) = (books.name(guest), lease.word());
            format!("lease {id} of {name} waits since {since}, was due by {due}, and is {word}")
        })
    }
}
