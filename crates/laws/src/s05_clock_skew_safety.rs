//! S5: holders let go before the site takes.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{GuestLease, Subject};
use super::{Change, Check, Law, Observation, Scene, Tally, LawVerdict};
use tenure_core::actor::common::CommonFact;
use tenure_core::broker::facts as broker;
use tenure_core::driver::{Call, UnitId};
use tenure_core::service_manager::facts as service_manager;
use tenure_core::site_authority::facts::{self as site_authority, LeaseClosed};
use tenure_core::model::identity::ActorId;
use tenure_core::service_manager::machine::{Change as LeaseChange, Held};
use tenure_core::site_authority::machine::{State, CloseReason};
use tenure_core::model::slice::LeaseId;
use tenure_core::ticket::link::LinkHash;
use tenure_core::model::time::{Span, Time};

pub(super) const LAW: Law = Law {
    id: "S5",
    name: "clock-skew lease safety",
    statement: "By its own clock a holder takes no units, and at rest believes in none, from one \
                margin before the end of its lease; by its own clock a site ends no lease of its \
                own accord before its end unless its guest is silent (S27), nor a running one for any other reason. While the \
                clocks keep to the margin, no two running holders believe they hold one unit, \
                and a site ends no lease its holder still believes in. A guest's driver is given \
                time until then and no longer. Beyond the margin beliefs \
                may overlap, and S1 still holds. While the clocks keep to the margin, \
                no honest actor finds another's apart. A guest that could not be told of a recall, or of the end \
                of a lease for silence, may believe in units that are gone.",
    source: "Gray and Cheriton's leases, bounded drift; Shirako S15, S50, S51",
    on: "facts of sites and guests, each by its own clock; actors at rest; across actors, facts in the \
         order in which they happened",
};

type Holder = (ActorId, LeaseId);

#[derive(Default)]
pub(super) struct Checker {
    beliefs: BTreeMap<Holder, Belief>,
    by_unit: BTreeMap<(ActorId, UnitId), BTreeSet<Holder>>,
    by_end: BTreeSet<(ActorId, Time, LeaseId)>,
    /// Counts events, to order them.
    step: u64,
    /// When each guest was last seen awake.
    awake: BTreeMap<ActorId, u64>,
    /// When each lease ended at its site.
    ended: BTreeMap<(ActorId, LinkHash), u64>,
    /// Recalls that their sites have no word of from the holders, by lease and link.
    untold: BTreeSet<(ActorId, LinkHash, LinkHash)>,
    /// Leases that lost units while their guests could not be reached: they may believe in them.
    unreached: BTreeSet<(ActorId, LinkHash)>,
}

/// What a guest believes it holds.
struct Belief {
    site: ActorId,
    ticket: LinkHash,
    units: Vec<UnitId>,
    end: Time,
}

impl Check for Checker {
    fn site(
        &mut self,
        scene: &Scene<'_>,
        fact: &site_authority::Fact,
        tally: &mut Tally,
    ) -> LawVerdict {
        if let site_authority::Fact::Common(CommonFact::ClockCompared(fact)) = fact {
            return compared(scene, fact.peer, fact.ahead, tally);
        }
        if let site_authority::Fact::LeaseShrunk(fact) = fact {
            // Its guest lets go of the units when it wakes, at the latest.
            self.ended.insert((scene.actor, fact.lease), self.step);
        }
        self.recalls(scene.actor, fact);
        let site_authority::Fact::LeaseClosed(fact) = fact else { return Ok(()) };
        let site = scene.model.sites.get(&scene.actor);
        let Some(lease) = site.and_then(|site| site.leases.get(&fact.lease)) else { return Ok(()) };
        let (name, hash, end, at) = (|| scene.name(), fact.lease, lease.term.end(), scene.at);
        match fact.why {
            CloseReason::TermOver => tally.check(end <= at, || {
                format!("{} ends lease {hash} at {at} as ended, although it ends at {end}", name())
            }),
            CloseReason::Failed(_) => tally.check(!matches!(lease.state, State::Active { .. }), || {
                format!("{} ends lease {hash}, which runs, because it could not be set up", name())
            }),
            CloseReason::GivenBack => self.let_go(scene, lease.holder(), hash, tally),
            // S27 has when. A guest that was down may believe in it until it is told.
            CloseReason::Silent(_) => {
                self.unreached.insert((scene.actor, hash));
                Ok(())
            }
            // S19 has when.
            CloseReason::Recalled(_) => Ok(()),
        }
    }

    fn broker(&mut self, scene: &Scene<'_>, fact: &broker::Fact, tally: &mut Tally) -> LawVerdict {
        match fact {
            broker::Fact::Common(CommonFact::ClockCompared(fact)) => {
                compared(scene, fact.peer, fact.ahead, tally)
            }
            _ => Ok(()),
        }
    }

    fn guest(
        &mut self,
        scene: &Scene<'_>,
        fact: &service_manager::Fact,
        tally: &mut Tally,
    ) -> LawVerdict {
        if let service_manager::Fact::Common(CommonFact::ClockCompared(fact)) = fact {
            return compared(scene, fact.peer, fact.ahead, tally);
        }
        let service_manager::Fact::Leased(fact) = fact else { return Ok(()) };
        let last = fact.term.end().minus(scene.model.participants.margin);
        tally.check(scene.at < last, || {
            let (name, lease, at) = (scene.name(), fact.lease, scene.at);
            format!("{name} takes the units of lease {lease} at {at}; its margin begins at {last}")
        })
    }

    fn change(&mut self, scene: &Scene<'_>, change: &Change, tally: &mut Tally) -> LawVerdict {
        self.step += 1;
        match change.subject {
            Subject::Ticket(site, hash) if change.to == "Closed" => {
                self.ended.insert((site, hash), self.step);
                Ok(())
            }
            Subject::Lease(guest, lease) => {
                let record = scene.model.guests.get(&guest).and_then(|g| g.leases.get(&lease));
                self.believe(scene, (guest, lease), record, tally)
            }
            _ => Ok(()),
        }
    }

    fn happened(&mut self, scene: &Scene<'_>, seen: &Observation<'_>, tally: &mut Tally) -> LawVerdict {
        let (actor, clock) = match *seen {
            Observation::Rested { actor, clock } => (actor, clock),
            Observation::Called { actor, call } => return self.in_time(scene, actor, call, tally),
            _ => return Ok(()),
        };
        self.step += 1;
        self.awake.insert(actor, self.step);
        let first = (actor, Time::MIN, LeaseId { number: 0, part: 0 });
        let Some(&(guest, end, lease)) = self.by_end.range(first..).next() else { return Ok(()) };
        let last = end.minus(scene.model.participants.margin);
        tally.check(guest != actor || clock < last, || {
            let name = scene.name();
            format!("{name} rests at {clock} and believes in lease {lease}; its margin began at {last}")
        })
    }
}

/// While the clocks keep to the margin, nobody who is honest finds another's apart.
fn compared(scene: &Scene<'_>, peer: ActorId, ahead: Span, tally: &mut Tally) -> LawVerdict {
    let participants = &scene.model.participants;
    let holds = ahead == Span::ZERO || !participants.clocks_hold || !participants.honest(peer);
    tally.check(holds, || {
        let (name, peer) = (scene.name(), scene.model.name(peer));
        format!("{name} finds the clock of {peer} {ahead} ahead, although the clocks keep to the margin")
    })
}

impl Checker {
    /// No driver of a guest is told that it has time beyond its lease.
    fn in_time(
        &self,
        scene: &Scene<'_>,
        guest: ActorId,
        call: &Call,
        tally: &mut Tally,
    ) -> LawVerdict {
        let Some(belief) = self.beliefs.get(&(guest, call.lease)) else { return Ok(()) };
        let last = belief.end.minus(scene.model.participants.margin);
        tally.check(call.site == guest || call.deadline.is_some_and(|by| by <= last), || {
            let (name, lease, word) = (scene.name(), call.lease, call.step.word());
            let by = call.deadline;
            format!("{name} calls for a {word} of lease {lease} by {by:?}; its margin begins at {last}")
        })
    }

    /// Keeps which leases lose units without their guests' knowledge.
    fn recalls(&mut self, site: ActorId, fact: &site_authority::Fact) {
        use site_authority::Fact;
        match fact {
            Fact::Recalled(fact) => {
                let link = fact.ticket.hash();
                self.untold.extend(fact.cuts.iter().map(|cut| (site, cut.lease, link)));
            }
            Fact::Redeemed(fact) => {
                self.untold.insert((site, fact.ticket.hash(), fact.ticket.hash()));
            }
            Fact::RecallNoted(fact) => {
                self.untold.remove(&(site, fact.lease, fact.link));
            }
            Fact::UnitsRecalled(fact) => self.taken(site, fact.lease, fact.link),
            Fact::LeaseClosed(LeaseClosed { lease, why: CloseReason::Recalled(link), .. }) => {
                self.taken(site, *lease, *link);
            }
            _ => {}
        }
    }

    fn taken(&mut self, site: ActorId, lease: LinkHash, link: LinkHash) {
        self.ended.insert((site, lease), self.step);
        if self.untold.contains(&(site, lease, link)) {
            self.unreached.insert((site, lease));
        }
    }

    /// A site ends a lease in its holder's name: the holder has let go.
    fn let_go(
        &self,
        scene: &Scene<'_>,
        holder: ActorId,
        hash: LinkHash,
        tally: &mut Tally,
    ) -> LawVerdict {
        let model = scene.model;
        let Some(guest) = model.guests.get(&holder).filter(|_| model.in_order) else {
            return Ok(());
        };
        let lease = guest.tickets.get(&hash).copied();
        // Of units that were taken without its knowledge it cannot let go: with the last others the lease ends.
        let unreached = self.unreached.contains(&(scene.actor, hash));
        let believes = lease.is_some_and(|lease| self.beliefs.contains_key(&(holder, lease)));
        tally.check(unreached || !believes, || {
            let (name, guest) = (scene.name(), model.name(holder));
            format!("{name} has lease {hash} given back, in which {guest} still believes")
        })
    }

    /// What a guest believes of a lease, after a change of it.
    fn believe(
        &mut self,
        scene: &Scene<'_>,
        holder: Holder,
        record: Option<&GuestLease>,
        tally: &mut Tally,
    ) -> LawVerdict {
        let held = record.and_then(|record| record.standing().held());
        let Some((held, first)) = held.and_then(|held| Some((held, held.tickets.first()?))) else {
            self.forget(holder);
            return Ok(());
        };
        // The site may have ended a lease that it was asked to end.
        let end = held.change.until().map_or(held.term.end(), |until| until.min(held.term.end()));
        if let Some(belief) = self.beliefs.get_mut(&holder) {
            if belief.end != end {
                self.by_end.remove(&(holder.0, belief.end, holder.1));
                belief.end = end;
                self.by_end.insert((holder.0, belief.end, holder.1));
            }
            // What it has left and gives back it does not use any more, unless it joins it again.
            let units = in_use(held);
            if belief.units != units {
                for unit in std::mem::replace(&mut belief.units, units.clone()) {
                    self.by_unit.get_mut(&(belief.site, unit)).map(|of| of.remove(&holder));
                }
                for unit in units {
                    self.by_unit.entry((belief.site, unit)).or_default().insert(holder);
                }
            }
            return Ok(());
        }
        let belief = Belief { site: first.site(), ticket: first.hash(), units: in_use(held), end };
        let site = belief.site;
        let alone = self.alone(scene, holder, &belief, tally);
        for &unit in &belief.units {
            self.by_unit.entry((site, unit)).or_default().insert(holder);
        }
        self.by_end.insert((holder.0, belief.end, holder.1));
        self.beliefs.insert(holder, belief);
        alone
    }

    /// No other running guest believes it holds the same units.
    fn alone(
        &self,
        scene: &Scene<'_>,
        holder: Holder,
        belief: &Belief,
        tally: &mut Tally,
    ) -> LawVerdict {
        let model = scene.model;
        if !(model.in_order && model.participants.clocks_hold && model.participants.honest(belief.site)) {
            return Ok(());
        }
        // Its disk was so slow that the lease had ended before it knew that it had it.
        if !self.knows_better(holder.0, belief) {
            return Ok(());
        }
        for &unit in &belief.units {
            let others = self.by_unit.get(&(belief.site, unit)).into_iter().flatten();
            let other = others.copied().find(|other| {
                let belief = self.beliefs.get(other);
                belief.is_some_and(|belief| self.knows_better(other.0, belief))
            });
            tally.check(other.is_none(), || {
                let unit = model.unit(belief.site, unit);
                let (name, lease) = (model.name(holder.0), holder.1);
                let (who, theirs) = other.map_or((holder.0, lease), |other| other);
                let who = model.name(who);
                format!("{unit} is held by {name} as lease {lease} and by {who} as lease {theirs}")
            })?;
        }
        Ok(())
    }

    /// Whether a guest has been awake since the site ended the lease that it believes in, or the site
    /// never did.
    fn knows_better(&self, guest: ActorId, belief: &Belief) -> bool {
        if self.unreached.contains(&(belief.site, belief.ticket)) {
            return false;
        }
        let awake = self.awake.get(&guest);
        let ended = self.ended.get(&(belief.site, belief.ticket));
        ended.is_none_or(|ended| awake.is_some_and(|awake| ended < awake))
    }

    fn forget(&mut self, holder: Holder) {
        let Some(belief) = self.beliefs.remove(&holder) else { return };
        self.by_end.remove(&(holder.0, belief.end, holder.1));
        for unit in belief.units {
            if let Some(holders) = self.by_unit.get_mut(&(belief.site, unit)) {
                holders.remove(&holder);
            }
        }
    }
}

/// The units that a guest believes in: not those that it asked its site to take back.
fn in_use(held: &Held) -> Vec<UnitId> {
    let units = held.units.keys().copied();
    match &held.change {
        LeaseChange::Returning(back) => units.filter(|unit| !back.part.names(*unit)).collect(),
        _ => units.collect(),
    }
}
