//! S7: an input delivered several times takes effect once.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{SiteLease, SiteModel, Subject};
use super::{Check, Law, Observation, Scene, Tally, LawVerdict};
use tenure_core::actor::common::CommonFact;
use tenure_core::model::codec::{self, Hash};
use tenure_core::driver::{Call, Epoch, Step, UnitId};
use tenure_core::broker::facts as broker;
use tenure_core::service_manager::facts as service_manager;
use tenure_core::site_authority::facts as site_authority;
use tenure_core::actor::order::{self, Order};
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::LeaseId;
use tenure_core::ticket::link::LinkHash;
use tenure_core::model::time::Time;
use tenure_core::wire::handover::Outcome;
use tenure_core::wire::portion::PortionOutcome;
use tenure_core::wire::message::{self, Envelope, Message, Sealed, Sequence};
use tenure_core::ticket::Ticket;

pub(super) const LAW: Law = Law {
    id: "S7",
    name: "idempotent redelivery",
    statement: "However often and in whatever order messages arrive, a ticket becomes one lease, \
                a receipt is credited once, a grant is accepted once; the same question gets the \
                same answer, to the byte; a driver step is called once for each unit and epoch, \
                and once more after a crash; a guest's driver is warned of a unit once for each \
                recall that its site told of. A command with a key is carried out \
                once as long as its key is remembered, and no other under its key. By an invitation \
                one peer comes.",
    source: "at-most-once effects; Shirako S22, S48",
    on: "facts of all actors; messages; driver calls",
};

/// Caller, driver's site, unit and step.
type StepOf = (ActorId, ActorId, UnitId, Step);

#[derive(Default)]
pub(super) struct Checker {
    /// Each answer as it left first, by sender, receiver, what it answers, and how often its sender has
    /// forgotten what it is about.
    answers: BTreeMap<(ActorId, ActorId, Hash, u32), Sealed>,
    /// How often what is forgotten was: it may come back.
    forgotten: BTreeMap<Subject, u32>,
    /// How often units of each lease were recalled; later answers name fewer units.
    recalled: BTreeMap<Subject, u32>,
    /// The last call of each step, and the life of the caller in which it was made.
    called: BTreeMap<StepOf, (Epoch, u32, u32)>,
    /// The recalls that each guest was told of for a lease, by link and number.
    told: BTreeMap<(ActorId, LeaseId), BTreeSet<(LinkHash, u32)>>,
    /// The numbers of the warnings of a unit of a lease in an epoch.
    warned: BTreeMap<(ActorId, LeaseId, UnitId, Epoch), BTreeSet<u32>>,
    /// How often each actor has come back.
    lives: BTreeMap<ActorId, u32>,
    /// The orders of each actor by their keys: when each was carried out last, and its digest.
    orders: BTreeMap<(ActorId, String), BTreeMap<String, (Time, Hash)>>,
}

impl Check for Checker {
    fn site(
        &mut self,
        scene: &Scene<'_>,
        fact: &site_authority::Fact,
        tally: &mut Tally,
    ) -> LawVerdict {
        use site_authority::Fact;
        let site = scene.model.sites.get(&scene.actor);
        if let Fact::Common(fact) = fact {
            return self.common(scene, fact, tally);
        }
        let ticket = match fact {
            Fact::Redeemed(fact) => &fact.ticket,
            Fact::LeaseExtended(fact) => &fact.ticket,
            Fact::TicketSurrendered(fact) => &fact.ticket,
            Fact::UnitsRecalled(fact) => {
                for ticket in tickets_of(site, fact.lease) {
                    *self.recalled.entry(Subject::Ticket(scene.actor, ticket)).or_default() += 1;
                }
                return Ok(());
            }
            Fact::LeaseForgotten(fact) => {
                for ticket in tickets_of(site, fact.lease) {
                    self.forget(Subject::Ticket(scene.actor, ticket));
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        let known = site.and_then(|site| site.leases.get(site.by_ticket.get(&ticket.hash())?));
        // A clock that fell back may bring a forgotten ticket back, and a lease without the extensions
        // that it had; nothing is promised then.
        let clocks_hold = scene.model.participants.clocks_hold;
        let remembered = known.is_some_and(|lease| {
            let names = |lease: &SiteLease| lease.tickets.iter().any(|t| t.hash() == ticket.hash());
            clocks_hold || !lease.forgotten && names(lease)
        });
        tally.check(!remembered, || {
            format!("{} takes ticket {} twice", scene.name(), ticket.hash())
        })
    }

    fn broker(&mut self, scene: &Scene<'_>, fact: &broker::Fact, tally: &mut Tally) -> LawVerdict {
        if let broker::Fact::Common(fact) = fact {
            return self.common(scene, fact, tally);
        }
        if let broker::Fact::RequestForgotten(fact) = fact {
            self.forget(Subject::Request(scene.actor, fact.request));
        }
        let broker::Fact::ReceiptTaken(fact) = fact else { return Ok(()) };
        let (hash, number) = (fact.receipt.what.link, fact.receipt.what.number);
        let broker = scene.model.brokers.get(&scene.actor);
        let cut = broker.and_then(|broker| Some(&broker.cut.get(&hash)?.receipts));
        let issued = broker.and_then(|broker| Some(&broker.issued.get(&hash)?.1));
        let known = cut.or(issued).is_some_and(|receipts| receipts.contains_key(&number));
        tally.check(!known, || {
            format!("{} credits receipt {number} of ticket {hash} twice", scene.name())
        })
    }

    fn guest(
        &mut self,
        scene: &Scene<'_>,
        fact: &service_manager::Fact,
        tally: &mut Tally,
    ) -> LawVerdict {
        use service_manager::Fact;
        if let Fact::Common(fact) = fact {
            return self.common(scene, fact, tally);
        }
        if let Fact::RecallTold(fact) = fact {
            let told = self.told.entry((scene.actor, fact.lease)).or_default();
            told.insert((fact.told.link, fact.told.number));
        }
        let one = |ticket| vec![ticket];
        let all = |tickets: &'_ [(u16, Ticket)]| tickets.iter().map(|(_, t)| t.hash()).collect();
        let tickets = match fact {
            Fact::Granted(fact) => all(&fact.tickets),
            Fact::UnwantedGranted(fact) => all(&fact.tickets),
            Fact::ExtensionGranted(fact) => one(fact.ticket.hash()),
            _ => return Ok(()),
        };
        let guest = scene.model.guests.get(&scene.actor);
        let twice = |ticket| guest.is_some_and(|guest| guest.tickets.contains_key(ticket));
        let twice = tickets.iter().find(|ticket| twice(ticket));
        tally.check(twice.is_none(), || {
            let ticket = twice.map_or_else(String::new, ToString::to_string);
            format!("{} takes ticket {ticket} twice", scene.name())
        })
    }

    fn happened(&mut self, scene: &Scene<'_>, seen: &Observation<'_>, tally: &mut Tally) -> LawVerdict {
        match *seen {
            Observation::Crashed { actor } | Observation::Recovered { actor, .. } => {
                *self.lives.entry(actor).or_default() += 1;
                Ok(())
            }
            Observation::Called { actor, call } => self.called(scene, actor, call, tally),
            Observation::Sent { envelope, sealed } => {
                self.answered(scene, envelope, sealed, tally)
            }
            _ => Ok(()),
        }
    }
}

impl Checker {
    fn forget(&mut self, subject: Subject) {
        *self.forgotten.entry(subject).or_default() += 1;
    }

    fn called(
        &mut self,
        scene: &Scene<'_>,
        actor: ActorId,
        call: &Call,
        tally: &mut Tally,
    ) -> LawVerdict {
        let Call { site, unit, epoch, step, number, .. } = *call;
        let life = self.lives.get(&actor).copied().unwrap_or(0);
        // What was left and goes on after all is joined once more.
        match step {
            Step::Join => drop(self.called.remove(&(actor, site, unit, Step::Leave))),
            Step::Leave => drop(self.called.remove(&(actor, site, unit, Step::Join))),
            Step::Setup | Step::Teardown | Step::Modify | Step::Install | Step::Remove => {}
            Step::Warn => self.warned(scene, actor, call, tally)?,
        }
        let last = self.called.insert((actor, site, unit, step), (epoch, number, life));
        tally.check(last != Some((epoch, number, life)), || {
            let (name, unit) = (scene.name(), scene.model.unit(site, unit));
            format!("{name} has {} of {unit} called twice in epoch {epoch:?}", step.word())
        })
    }

    fn warned(
        &mut self,
        scene: &Scene<'_>,
        actor: ActorId,
        call: &Call,
        tally: &mut Tally,
    ) -> LawVerdict {
        let Call { site, unit, epoch, number, lease, .. } = *call;
        let told = self.told.get(&(actor, lease)).map_or(0, BTreeSet::len);
        let warned = self.warned.entry((actor, lease, unit, epoch)).or_default();
        warned.insert(number);
        tally.check(warned.len() <= told, || {
            let (name, unit) = (scene.name(), scene.model.unit(site, unit));
            format!("{name} is warned of {unit} {} times, of {told} recalls", warned.len())
        })
    }

    /// An order is carried out once, and stands alone under its key.
    #[allow(clippy::wildcard_enum_match_arm, reason = "all other facts may come again")]
    fn common(&mut self, scene: &Scene<'_>, fact: &CommonFact, tally: &mut Tally) -> LawVerdict {
        match fact {
            CommonFact::Commanded(fact) => self.ordered(scene, &fact.order, tally),
            CommonFact::PeerJoined(fact) => {
                let number = fact.invitation;
                let joins = scene.model.joins.get(&scene.actor);
                let used = joins.is_some_and(|joins| joins.came.iter().any(|(_, n)| *n == number));
                tally.check(!used, || {
                    format!("{} takes two peers by invitation {number}", scene.name())
                })
            }
            _ => Ok(()),
        }
    }

    fn ordered(&mut self, scene: &Scene<'_>, order: &Order, tally: &mut Tally) -> LawVerdict {
        let under_key = self.orders.entry((scene.actor, order.key.clone())).or_default();
        let fresh = |at: Time| scene.at < at.plus(order::REMEMBERED);
        let bad = under_key.iter().any(|(part, (at, digest))| {
            fresh(*at) && (*part == order.part || *digest != order.digest)
        });
        under_key.insert(order.part.clone(), (scene.at, order.digest));
        tally.check(!bad, || {
            format!("{} carries out more than one command under key {}", scene.name(), order.key)
        })
    }

    fn answered(
        &mut self,
        scene: &Scene<'_>,
        envelope: &Envelope,
        sealed: &Sealed,
        tally: &mut Tally,
    ) -> LawVerdict {
        let header = envelope.header;
        // What several facts answer together does not say what was asked: its bytes are held to its
        // number (S9).
        if header.sequence.index != Sequence::ANSWER {
            return Ok(());
        }
        let Some(question) = question(&envelope.message) else { return Ok(()) };
        let about = subject(header.from, &envelope.message);
        let subject = about.filter(|subject| scene.model.participants.may_return(*subject));
        let again = subject.and_then(|subject| self.forgotten.get(&subject)).copied().unwrap_or(0);
        let units = matches!(envelope.message, Message::Leased { .. } | Message::Modified { .. });
        let leased = units.then_some(about).flatten();
        let recalled = leased.and_then(|subject| self.recalled.get(&subject)).copied().unwrap_or(0);
        let again = again + recalled;
        let key = (header.from, header.to, question, again);
        let first = self.answers.entry(key).or_insert_with(|| sealed.clone());
        tally.check(first.bytes() == sealed.bytes(), || {
            let (name, to) = (scene.name(), scene.model.name(header.to));
            format!("{name} gives {to} two different `{}` for one question", envelope.message.kind())
        })
    }
}

/// The tickets of a lease, its first among them whatever its site still knows.
fn tickets_of(site: Option<&SiteModel>, lease: LinkHash) -> Vec<LinkHash> {
    let known = site.and_then(|site| site.leases.get(&lease));
    let tickets = known.into_iter().flat_map(|lease| &lease.tickets).map(Ticket::hash);
    tickets.filter(|ticket| *ticket != lease).chain([lease]).collect()
}

/// The subject of an answer, if it can be forgotten.
fn subject(of: ActorId, message: &Message) -> Option<Subject> {
    match message {
        Message::Granted { request, .. } | Message::Offered { request, .. } => {
            Some(Subject::Request(of, *request))
        }
        Message::Leased { ticket, .. }
        | Message::Closed { ticket, .. }
        | Message::Modified { ticket, .. }
        | Message::Returned { ticket, .. }
        | Message::Reclaimed { ticket, .. } => {
            Some(Subject::Ticket(of, *ticket))
        }
        Message::Refused { subject, .. } => match subject {
            message::Subject::Request(id) => Some(Subject::Request(of, *id)),
            message::Subject::Ticket(ticket)
            | message::Subject::Modify(ticket, _)
            | message::Subject::Return(ticket, _) => {
                Some(Subject::Ticket(of, *ticket))
            }
            message::Subject::Delegation(_) | message::Subject::Recall(..) => None,
        },
        _ => None,
    }
}

/// What an answer answers, if it is one.
fn question(message: &Message) -> Option<Hash> {
    let about = match message {
        Message::Delegated { delegation, generation } => codec::encode(&(delegation, generation)),
        Message::Granted { request, .. } | Message::Offered { request, .. } => {
            codec::encode(request)
        }
        Message::Leased { ticket, .. } => codec::encode(ticket),
        // What came back depends on which tickets were to be taken back.
        Message::Closed { ticket, receipts, .. } => {
            let links: Vec<_> = receipts.iter().map(|receipt| receipt.what.link).collect();
            codec::encode(&(ticket, links))
        }
        Message::Returned { ticket, number, .. } | Message::Modified { ticket, number, .. } => codec::encode(&(ticket, number)),
        Message::Reclaimed { ticket, .. } => codec::encode(ticket),
        Message::Credited { receipts } => codec::encode(receipts),
        // What is offered is granted, or lapses.
        Message::HandedBack(back) => {
            let offered = matches!(back.outcome, Outcome::Offered(_, Some(_)));
            codec::encode(&(back.request, offered))
        }
        // What is held is granted, or lapses.
        Message::PortionBack(back) => {
            let held = matches!(back.outcome, PortionOutcome::Held { .. });
            codec::encode(&(back.request, back.round, held))
        }
        Message::Refused { subject, .. } => codec::encode(subject),
        // Where a request stands in a queue changes, and how a recall does.
        Message::Recall { .. }
        | Message::Recalled { .. }
        | Message::RecallNotice { .. }
        | Message::RecallNoted { .. }
        | Message::UnitFailed { .. }
        | Message::Ping
        | Message::Inquire(_)
        | Message::Available { .. }
        | Message::Pong { .. }
        | Message::Waiting { .. }
        | Message::Delegate { .. }
        | Message::Request(_)
        | Message::Accept { .. }
        | Message::Withdraw(_)
        | Message::Redeem { .. }
        | Message::Close { .. }
        | Message::Return { .. }
        | Message::Modify { .. }
        | Message::Reclaim { .. }
        | Message::Credit { .. }
        | Message::Keys { .. }
        | Message::KeysNoted { .. }
        | Message::Need(_)
        | Message::Noted { .. }
        | Message::Hosts(_)
        | Message::HostsNoted { .. }
        | Message::HostsChanged { .. }
        | Message::Restate { .. }
        | Message::HandOver(_)
        | Message::AskPortion(_)
        | Message::PortionDecided { .. }
        | Message::Heartbeat { .. }
        | Message::HeartbeatHeard { .. }
        | Message::Advert(_)
        | Message::AdvertWanted
        | Message::Join(_)
        | Message::Joined { fault: Some(_), .. } => return None,
        Message::Joined { number, fault: None } => codec::encode(number),
    };
    Some(Hash::of(message.kind(), &[&about]))
}
