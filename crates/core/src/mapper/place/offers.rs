//! Offers: the ways to meet a request, and what comes near it where there is none.

use super::{Draft, MAX_HINTS, Placement, Search, Wanted};
use crate::broker::mapper::Allocation;
use crate::model::time::{Span, Time};
use crate::wire::offer::MAX_OFFERS;
use crate::wire::refusal::Refusal;
use crate::wire::request::Request;

/// The most parts of one offer: what is to be looked over is short.
const MAX_PARTS: usize = 64;

impl Draft<'_> {
    /// The ways in which a request can be met, or what comes near it, with the reason why it cannot be met.
    /// With `hold` each offer is booked in the draft before the next is looked for.
    pub fn offers(
        &mut self,
        request: &Request,
        from: Time,
        placement: Placement,
        hold: bool,
    ) -> (Vec<Allocation>, Option<Refusal>) {
        self.load_all(request);
        let (mut offers, mut no) = (Vec::new(), None);
        for choice in request.choices() {
            match self.find_choice(request, choice, from, placement, &|_| None) {
                Ok(found) => self.take(request, found, hold, &mut offers),
                Err(refusal) => no = Some(super::better(no, refusal)),
            }
        }
        if !offers.is_empty() {
            return (offers, None);
        }
        (self.near(request, from, placement, hold), no)
    }

    /// What comes near a request that cannot be met: the same later, fewer units at the time asked for, or
    /// for a shorter time.
    pub fn near(
        &mut self,
        request: &Request,
        from: Time,
        placement: Placement,
        hold: bool,
    ) -> Vec<Allocation> {
        let mut offers = Vec::new();
        if request.items.iter().any(|item| item.extends.is_some()) {
            return offers;
        }
        self.load_all(request);
        let least = self.two_margins().plus(Span::from_micros(1));
        for near in [later, fewer, shorter] {
            let found = request.choices().into_iter().find_map(|choice| {
                let search = self.search(request, choice, placement, &|_| None).ok()?;
                near(search, (from, request.latest), least)
            });
            if let Some(found) = found {
                self.take(request, found, hold, &mut offers);
            }
        }
        offers
    }

    fn take(
        &mut self,
        request: &Request,
        offer: Allocation,
        hold: bool,
        offers: &mut Vec<Allocation>,
    ) {
        let parts: usize = offer.parts.iter().map(Vec::len).sum();
        if offers.len() < MAX_OFFERS && parts <= MAX_PARTS && !offers.contains(&offer) {
            if hold {
                self.book(request, &offer);
            }
            offers.push(offer);
        }
    }

    fn two_margins(&self) -> Span {
        self.view.two_margins()
    }
}

fn later(search: Search<'_>, (from, _): (Time, Time), _: Span) -> Option<Allocation> {
    search.earliest(from, Time::MAX, MAX_HINTS)
}

fn fewer(mut search: Search<'_>, (from, latest): (Time, Time), _: Span) -> Option<Allocation> {
    let with_one = |wanted: &mut Wanted<'_>| wanted.least = 1;
    search.items.iter_mut().flatten().for_each(with_one);
    search.earliest(from, latest, MAX_HINTS)
}

fn shorter(search: Search<'_>, (from, latest): (Time, Time), least: Span) -> Option<Allocation> {
    search.longest(least, from, latest).filter(|found| found.term.duration() < search.duration)
}
