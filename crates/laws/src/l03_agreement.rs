//! L3: in the end all three say the same.

use super::model::{Model, GuestLease, SiteLease};
use super::{Bounds, Check, Law, Tally, LawVerdict};
use tenure_core::model::identity::ActorId;
use tenure_core::broker::machine as broker;
use tenure_core::service_manager::{Standing, request};
use tenure_core::service_manager::machine::{Outcome, State as AtGuest};
use tenure_core::site_authority::machine::State as AtSite;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Time;

pub(super) const LAW: Law = Law {
    id: "L3",
    name: "agreement",
    statement: "When there are no new requests and everything has settled, guest, broker and \
                site agree on each lease: requested and open; granted and held; running, with \
                the same units until the same end; or ended, with everything given back \
                credited.",
    source: "convergence, quiescent consistency; Shirako S47",
    on: "the model, when the run has settled",
};

#[derive(Default)]
pub(super) struct Checker {
    healed: bool,
}

impl Check for Checker {
    fn healed(&mut self, _: Time, _: Bounds) {
        self.healed = true;
    }

    fn settled(&mut self, model: &Model, now: Time, tally: &mut Tally) -> LawVerdict {
        if !self.healed {
            return Ok(());
        }
        for (&guest, record) in &model.guests {
            for (&id, lease) in &record.leases {
                let differ = difference(model, now, guest, lease);
                tally.check(differ.is_none(), || sentence(model, (guest, id), lease, differ))?;
            }
        }
        Ok(())
    }
}

/// How the views of a lease differ, if they do; dishonest actors are left out.
fn difference(
    model: &Model,
    now: Time,
    guest: ActorId,
    lease: &GuestLease,
) -> Option<&'static str> {
    let asked = model.guests.get(&guest)?.requests.get(&lease.number);
    let site = lease.first.as_ref().map(|ticket| ticket.site());
    let dishonest = |actor| !model.participants.honest(actor);
    let asked_of = asked.map(|(broker, ..)| *broker);
    if asked_of.is_some_and(dishonest) || site.is_some_and(dishonest) {
        return None;
    }
    let record = asked.and_then(|(broker, request, _)| {
        model.brokers.get(broker)?.requests.get(&request.id)
    });
    let sold = record.map(|record| &record.state);
    let at_site = at_site(model, lease);
    let state = match lease.standing() {
        Standing::Request(state) if state.is_open() => {
            let same = match state {
                request::State::Asked => matches!(sold, Some(broker::State::Open { .. })),
                request::State::Offered { .. } => matches!(
                    sold,
                    Some(broker::State::Held { .. } | broker::State::Proposed { .. })
                ),
                _ => false,
            };
            return (!same).then_some("its broker says otherwise");
        }
        Standing::Request(_) => return None,
        Standing::Lease(state) => state,
    };
    match state {
        AtGuest::Ticketed { .. } => None,
        AtGuest::Redeeming { .. } => {
            let held = at_site.is_some_and(|l| !matches!(l.state, AtSite::Closed { .. }));
            (!held).then_some("its site does not hold it")
        }
        AtGuest::Joining { held } | AtGuest::Active { held } | AtGuest::Leaving { held, .. } => {
            let same = at_site.is_some_and(|lease| {
                let units = held.units.values().map(|(unit, _)| (&unit.unit, &unit.epoch));
                matches!(lease.state, AtSite::Active { .. })
                    && lease.term.end() == held.term.end()
                    && lease.active_with.iter().eq(units)
            });
            (!same).then_some("its site does not let it run with these units until this end")
        }
        AtGuest::Closing { .. } | AtGuest::Crediting { .. } => Some("it is still being given back"),
        AtGuest::Closed { outcome } => {
            let ends = at_site.map_or(Time::MIN, |lease| lease.term.end());
            // Its guest lets go two margins, by the site's clock, before the end at the earliest.
            let soon = ends <= now.plus(model.participants.margin.times(2));
            let open = at_site.is_some_and(|l| !matches!(l.state, AtSite::Closed { .. }));
            let back = matches!(outcome, Outcome::GivenBack);
            let credited = !back || soon || is_credited(model, lease);
            if open && !soon {
                Some("its site lets it run on")
            } else {
                (!credited).then_some("its broker has not credited it")
            }
        }
    }
}

/// Whether every receipt of a lease is in its broker's model.
fn is_credited(model: &Model, lease: &GuestLease) -> bool {
    let receipts = at_site(model, lease).map_or(&[][..], |lease| &lease.receipts);
    receipts.iter().all(|receipt| {
        if let Some(guest) = model.guests.get(&receipt.what.issuer) {
            return guest.has_credited((receipt.what.link, receipt.what.number));
        }
        let broker = model.brokers.get(&receipt.what.issuer);
        broker.is_none_or(|broker| {
            let cut = broker.cut.get(&receipt.what.link);
            cut.is_some_and(|cut| {
                cut.receipts.contains_key(&receipt.what.number) || broker.has_forgotten(cut.request)
            })
        })
    })
}

/// The lease of the first ticket, at its site.
fn at_site<'a>(model: &'a Model, lease: &GuestLease) -> Option<&'a SiteLease> {
    let ticket = lease.first.as_ref()?;
    let site = model.sites.get(&ticket.site())?;
    site.leases.get(site.by_ticket.get(&ticket.hash())?)
}

fn sentence(
    model: &Model,
    (guest, id): (ActorId, LeaseId),
    lease: &GuestLease,
    differ: Option<&'static str>,
) -> String {
    let at_site = at_site(model, lease).map_or("unknown", |lease| lease.word());
    let (name, word, differ) = (model.name(guest), lease.word(), differ.unwrap_or_default());
    format!("lease {id} of {name} is {word} there and {at_site} at its site: {differ}")
}
