//! The auditor: shows every law what happens, in order.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Model, Unfounded};
use super::{
    Bounds, Breach, Check, LAWS, Law, LawVerdict, Observation, Participants, Scene, Tally,
    Violation, checkers,
};

use tenure_core::model::identity::ActorId;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::{Entry, Fact};
use tenure_core::ticket::Ticket;

/// Holds a deployment to all [`LAWS`], incrementally: a fact costs O(log n), whatever came before.
///
/// After a violation the auditor may be asked on, but what it then says may follow from the first.
pub struct Auditor {
    model: Model,
    checkers: Vec<Box<dyn Check>>,
    tallies: Vec<Tally>,
}

impl Auditor {
    /// An auditor that has seen nothing yet, of a deployment whose facts it is shown in the order in
    /// which they become durable.
    pub fn new(participants: Participants) -> Self {
        Self::of(Model::new(participants, true))
    }

    fn of(model: Model) -> Self {
        let checkers = checkers();
        let tallies = vec![Tally::default(); checkers.len()];
        Self { model, checkers, tallies }
    }

    /// Observes an event at the true time `now`; an error is the first law that it breaks. Whatever
    /// actors do that are not honest, or not in the cast, is passed over.
    pub fn observe(&mut self, now: Time, seen: &Observation<'_>) -> Result<(), Violation> {
        let actor = match seen {
            Observation::Sent { envelope, .. } => envelope.header.from,
            Observation::Durable { actor, .. }
            | Observation::Called { actor, .. }
            | Observation::Crashed { actor }
            | Observation::Recovered { actor, .. }
            | Observation::Unmoved { actor, .. }
            | Observation::Rested { actor, .. } => *actor,
        };
        if !self.model.participants.honest(actor) {
            return Ok(());
        }
        self.ask(now, actor, |checker, scene, tally| checker.happened(scene, seen, tally))?;
        if let Observation::Durable { entries, .. } = seen {
            for entry in *entries {
                self.fact(now, actor, entry)?;
            }
            self.ask(now, actor, |checker, scene, tally| checker.batched(scene, tally))?;
        }
        Ok(())
    }

    /// A burst of requests begins: ten times what came before, say.
    pub fn burst_begins(&mut self) {
        self.checkers.iter_mut().for_each(|checker| checker.burst(None));
    }

    /// The burst has ended at the true time `now`; within `bound` it must leave no trace (L5).
    pub fn burst_ends(&mut self, now: Time, bound: Span) {
        self.checkers.iter_mut().for_each(|checker| checker.burst(Some(now.plus(bound))));
    }

    /// The faults have stopped and the clocks keep to the margin: from now on everything must come to its
    /// end within `bounds`.
    pub fn healed(&mut self, now: Time, bounds: Bounds) {
        for checker in &mut self.checkers {
            checker.healed(now, bounds);
        }
    }

    /// The run has ended: what must have come to its end by now?
    pub fn settle(&mut self, now: Time) -> Result<(), Violation> {
        for ((checker, tally), law) in self.checkers.iter_mut().zip(&mut self.tallies).zip(LAWS) {
            let settled = checker.settled(&self.model, now, tally);
            settled.map_err(|Breach(what)| Violation { law, at: now, actor: None, what })?;
        }
        Ok(())
    }

    /// How often each law has looked at something, in the order of [`LAWS`]. A law that never has says
    /// nothing about the run.
    pub fn checked(&self) -> impl Iterator<Item = (&'static Law, u64)> {
        LAWS.iter().zip(&self.tallies).map(|(law, tally)| (law, tally.0))
    }

    fn fact(&mut self, now: Time, actor: ActorId, entry: &Entry) -> Result<(), Violation> {
        let position = self.model.length(actor);
        self.ask_about(now, (actor, entry.at), |checker, scene, tally| match &entry.fact {
            Fact::SiteAuthority(fact) => checker.site(scene, fact, tally),
            Fact::Broker(fact) => checker.broker(scene, fact, tally),
            Fact::ServiceManager(fact) => checker.guest(scene, fact, tally),
        })?;
        for ticket in tickets_in(&entry.fact) {
            self.ask_about(now, (actor, entry.at), |checker, scene, tally| {
                checker.ticket(scene, ticket, tally)
            })?;
        }
        let folded = self.model.fold(actor, entry).map_err(|Unfounded(cause)| {
            let (name, (kind, _)) = (self.model.name(actor), entry.fact.kind());
            format!("fact {position} of {name} (`{kind}`) does not follow: {cause}")
        });
        self.ask_about(now, (actor, entry.at), |checker, scene, tally| {
            checker.folded(scene, folded.as_ref().err().map(String::as_str), tally)?;
            folded.iter().flatten().try_for_each(|change| checker.change(scene, change, tally))
        })
    }

    fn ask(
        &mut self,
        now: Time,
        actor: ActorId,
        question: impl Fn(&mut dyn Check, &Scene<'_>, &mut Tally) -> LawVerdict,
    ) -> Result<(), Violation> {
        self.ask_about(now, (actor, now), question)
    }

    /// Asks every law in turn about something of one actor's.
    fn ask_about(
        &mut self,
        now: Time,
        (actor, at): (ActorId, Time),
        question: impl Fn(&mut dyn Check, &Scene<'_>, &mut Tally) -> LawVerdict,
    ) -> Result<(), Violation> {
        let scene = Scene { model: &self.model, now, actor, at };
        for ((checker, tally), law) in self.checkers.iter_mut().zip(&mut self.tallies).zip(LAWS) {
            question(&mut **checker, &scene, tally).map_err(|Breach(what)| Violation {
                law,
                at: now,
                actor: Some(actor),
                what,
            })?;
        }
        Ok(())
    }
}

/// The tickets that a fact vouches for.
fn tickets_in(fact: &Fact) -> Vec<&Ticket> {
    use tenure_core::broker::facts as broker;
    use tenure_core::service_manager::facts as service_manager;
    use tenure_core::site_authority::facts as site_authority;
    match fact {
        Fact::SiteAuthority(site_authority::Fact::DelegationIssued(fact)) => vec![&fact.ticket],
        Fact::SiteAuthority(site_authority::Fact::DelegatedByHand(fact)) => vec![&fact.ticket],
        Fact::SiteAuthority(site_authority::Fact::Redeemed(fact)) => vec![&fact.ticket],
        Fact::SiteAuthority(site_authority::Fact::LeaseExtended(fact)) => vec![&fact.ticket],
        Fact::SiteAuthority(site_authority::Fact::TicketRefused(fact)) => vec![&fact.ticket],
        Fact::SiteAuthority(site_authority::Fact::TicketSurrendered(fact)) => vec![&fact.ticket],
        Fact::Broker(broker::Fact::DelegationTaken(fact)) => vec![&fact.ticket],
        Fact::Broker(broker::Fact::DelegationIssued(fact)) => vec![&fact.ticket],
        Fact::Broker(broker::Fact::TicketsCut(fact)) => all(&fact.tickets),
        Fact::Broker(broker::Fact::PortionKept(fact)) => all(&fact.tickets),
        Fact::Broker(broker::Fact::OffersHeld(fact)) => {
            fact.offers.iter().flat_map(|offer| all(offer)).collect()
        }
        Fact::ServiceManager(service_manager::Fact::Granted(fact)) => all(&fact.tickets),
        Fact::ServiceManager(service_manager::Fact::UnwantedGranted(fact)) => all(&fact.tickets),
        Fact::ServiceManager(service_manager::Fact::TicketTaken(fact)) => vec![&fact.ticket],
        Fact::ServiceManager(service_manager::Fact::ExtensionGranted(fact)) => vec![&fact.ticket],
        Fact::SiteAuthority(_) | Fact::Broker(_) | Fact::ServiceManager(_) => Vec::new(),
    }
}

fn all(tickets: &[(u16, Ticket)]) -> Vec<&Ticket> {
    tickets.iter().map(|(_, ticket)| ticket).collect()
}

/// Holds a set of journals to the laws that need nothing else, whosever they are: facts are taken in the
/// order of their times, each on its own actor's clock, and words of actors whose journals are not
/// there count for nothing. Answers how often each law has looked at something.
pub fn audit_journals<'a>(
    participants: &Participants,
    journals: &BTreeMap<ActorId, &'a [Entry]>,
) -> Result<Vec<(&'static Law, u64)>, Violation> {
    let mut participants = participants.clone();
    for (id, participant) in &mut participants.members {
        participant.honest &= journals.contains_key(id);
    }
    let mut auditor = Auditor::of(Model::new(participants, false));
    let mut rest = journals.clone();
    let first = |(&id, facts): (&ActorId, &&'a [Entry])| Some((facts.first()?.at, id));
    let mut next: BTreeSet<(Time, ActorId)> = rest.iter().filter_map(first).collect();
    let mut last = Time::MIN;
    while let Some((at, actor)) = next.pop_first() {
        last = last.max(at);
        let Some((entry, left)) = rest.get(&actor).and_then(|facts| facts.split_first()) else {
            continue;
        };
        if auditor.model.participants.honest(actor) {
            auditor.fact(at, actor, entry)?;
        }
        next.extend(left.first().map(|entry| (entry.at, actor)));
        rest.insert(actor, left);
    }
    auditor.settle(last)?;
    Ok(auditor.checked().collect())
}
