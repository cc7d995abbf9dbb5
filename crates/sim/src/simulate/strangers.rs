//! Guests that are no peers of a site. It lets them in by a ticket or a broker's endorsement, has places for few of
//! them, hears only what they are let in for, and not much of all of them at once.

use std::collections::BTreeMap;

use tenure_core::actor::{Actor as _, Role};
use tenure_core::model::identity::ActorId;
use tenure_core::model::keys::KeyBook;
use tenure_core::model::time::{Span, Time};
use tenure_core::model::verifier::Verifier;
use tenure_core::runtime::AnyActor;
use tenure_core::ticket::Ticket;
use tenure_core::wire::admission::{GRACE, Stranger, holder_until};
use tenure_core::wire::endorsement::{ENDORSEMENT_HOLDS, Endorsement, SignedEndorsement};
use tenure_core::wire::message::{Message, Sealed};

use super::fault::{Family, Fault};
use super::keys::held;
use super::setting::Setting;
use super::world::World;

/// How many strangers a site has places for, until the faults stop.
const PLACES: usize = 2;

/// How many messages of strangers a site hears at one instant; each further one waits for a second.
const AT_ONCE: u32 = 3;

/// A site and a guest.
type Ends = (usize, usize);

/// What each two that are no peers know of one another.
pub(super) struct Strangers {
    pairs: BTreeMap<Ends, Acquaintance>,
    /// How many messages of strangers have left for a site, at which instant.
    heard: BTreeMap<usize, (Time, u32)>,
}

#[derive(Default)]
struct Acquaintance {
    /// Of the tickets that the guest has held, the one that ends last.
    ticket: Option<Ticket>,
    /// How often in a row the guest was not let in.
    failures: u32,
    /// As what the guest is let in, until when by the site's clock.
    let_in: Option<(Stranger, Time)>,
}

impl Acquaintance {
    fn note(&mut self, ticket: &Ticket) {
        let end = |ticket: &Ticket| ticket.bottom().term.end();
        if self.ticket.as_ref().is_none_or(|known| end(known) < end(ticket)) {
            self.ticket = Some(ticket.clone());
        }
    }
}

impl Strangers {
    pub(super) fn new(setting: &Setting) -> Self {
        let before = setting.sites.len() + setting.brokers.len();
        let pairs = setting.strangers.iter();
        let pairs = pairs.map(|&(site, guest)| ((site, before + guest), Acquaintance::default()));
        Self { pairs: pairs.collect(), heard: BTreeMap::new() }
    }

    /// A participant has no connections any more.
    pub(super) fn leave(&mut self, who: usize) {
        let mine =
            self.pairs.iter_mut().filter(|((site, guest), _)| [*site, *guest].contains(&who));
        mine.for_each(|(_, known)| known.let_in = None);
    }

    /// The connection of two breaks.
    pub(super) fn part(&mut self, one: usize, other: usize) {
        if let Some(known) = self.pairs.get_mut(&(one.min(other), one.max(other))) {
            known.let_in = None;
        }
    }
}

/// The tickets that a message to a site shows.
fn shown(message: &Message) -> Vec<&Ticket> {
    if let Message::Close { tickets } = message {
        return tickets.iter().collect();
    }
    if let Message::Redeem { ticket, .. }
    | Message::Return { ticket, .. }
    | Message::Modify { ticket, .. }
    | Message::Reclaim { ticket } = message
    {
        return vec![ticket];
    }
    Vec::new()
}

impl World {
    /// Why a message between a site and a stranger does not arrive, if it does not.
    pub(super) fn kept_out(&mut self, from: usize, to: usize, sealed: &Sealed) -> Option<Fault> {
        // Sites come first among the participants.
        let ends = (from.min(to), from.max(to));
        self.strangers.pairs.get(&ends)?;
        let message = sealed.peek().ok().map(|envelope| envelope.message);
        self.note_tickets(ends, message.as_ref().filter(|_| from == ends.1));
        let site_now = self.participants[ends.0].time(self.now);
        let let_in = self.strangers.pairs.get(&ends)?.let_in.filter(|(_, until)| site_now < *until);
        let stranger = match let_in {
            Some((stranger, _)) => stranger,
            None => match self.let_in(ends) {
                Ok(stranger) => stranger,
                Err(fault) => return Some(fault),
            },
        };
        let kind = message.as_ref().map_or("garbage", Message::kind);
        if from == ends.1 && !stranger.may_say(kind) {
            self.strangers.part(from, to);
            return Some(Fault::MayNotSay);
        }
        None
    }

    /// How much later a message arrives because strangers have said so much at this instant.
    pub(super) fn slowed(&mut self, from: usize, to: usize) -> Span {
        if !self.strangers.pairs.contains_key(&(to, from)) {
            return Span::ZERO;
        }
        let now = self.now;
        let (at, count) = self.strangers.heard.entry(to).or_insert((now, 0));
        if *at != now {
            (*at, *count) = (now, 0);
        }
        *count += 1;
        let over = count.saturating_sub(AT_ONCE);
        if over > 0 {
            self.watch.fault(Fault::Slowed);
        }
        Span::SECOND.times(over.into())
    }

    /// Notes the tickets of a site that a guest holds, and those that it shows.
    fn note_tickets(&mut self, ends: Ends, message: Option<&Message>) {
        let (site, guest) = (self.participants[ends.0].id, self.participants[ends.1].id);
        let Some(known) = self.strangers.pairs.get_mut(&ends) else { return };
        let own = |ticket: &&Ticket| ticket.site() == site && ticket.bottom().holder == guest;
        message.into_iter().flat_map(shown).filter(own).for_each(|ticket| known.note(ticket));
        let Some(AnyActor::ServiceManager(guest)) = self.participants[ends.1].actor() else {
            return;
        };
        held(guest).filter(|ticket| own(&ticket)).for_each(|ticket| known.note(&ticket));
    }

    /// A guest dials a site, and shows its ticket, or after each second pair of failures an endorsement.
    fn let_in(&mut self, ends: Ends) -> Result<Stranger, Fault> {
        let (site, guest) = (&self.participants[ends.0], &self.participants[ends.1]);
        let Some(known) = self.strangers.pairs.get(&ends) else { return Err(Fault::NotLetIn) };
        let both = site.run.host.is_some() && guest.run.host.is_some();
        let sought = known
            .ticket
            .clone()
            .filter(|ticket| guest.time(self.now) < ticket.bottom().term.end().plus(GRACE));
        let until = match sought {
            Some(ticket) if both && (known.failures / 2).is_multiple_of(2) => {
                self.admits_holder(ends, &ticket).map(|until| (Stranger::Holder, until))
            }
            Some(_) if both => self.endorsed(ends).map(|until| (Stranger::Endorsed, until)),
            _ => None,
        };
        let outcome = until.ok_or(Fault::NotLetIn).and_then(|let_in| self.take_place(ends, let_in));
        let Some(known) = self.strangers.pairs.get_mut(&ends) else { return Err(Fault::NotLetIn) };
        known.failures = if outcome.is_ok() { 0 } else { known.failures.wrapping_add(1) };
        outcome
    }

    /// There may be no place left. Who has one gives it up after a while, until the faults stop.
    fn take_place(
        &mut self,
        ends: Ends,
        (stranger, until): (Stranger, Time),
    ) -> Result<Stranger, Fault> {
        let now = self.participants[ends.0].time(self.now);
        let mut until = until;
        if !self.healed {
            let taken = self.strangers.pairs.iter().filter(|((site, _), known)| {
                *site == ends.0 && known.let_in.is_some_and(|(_, until)| now < until)
            });
            if taken.count() >= PLACES {
                return Err(Fault::NoPlace);
            }
            until = until.min(now.plus(self.spell(Family::Stranger)));
        }
        if let Some(known) = self.strangers.pairs.get_mut(&ends) {
            known.let_in = Some((stranger, until));
        }
        Ok(stranger)
    }

    fn verifier(&self, keys: &KeyBook) -> Verifier {
        let mut verifier = Verifier::new(self.setting.scheme);
        verifier.keys_mut().clone_from(keys);
        verifier
    }

    /// Until when a site lets in the holder of a ticket.
    fn admits_holder(&self, (site, guest): Ends, ticket: &Ticket) -> Option<Time> {
        let (site, guest) = (&self.participants[site], self.participants[guest].id);
        let mut verifier = self.verifier(site.actor()?.keys());
        holder_until(ticket, (guest, site.id), site.time(self.now), &mut verifier).ok()
    }

    /// Until when a site lets in a guest that one of its brokers endorses, if the guest reaches one and takes what it
    /// gives.
    fn endorsed(&self, (site, guest): Ends) -> Option<Time> {
        let brokers = self.of_role(Role::Broker);
        let reached = brokers.into_iter().filter(|&who| self.wire.joins(who, guest, self.now));
        let (site, guest) = (&self.participants[site], &self.participants[guest]);
        let counts = |at: &super::participant::Participant, signed: &SignedEndorsement| {
            let keys = at.actor()?.keys();
            let mut verifier = Verifier::new(self.setting.scheme);
            signed.check((guest.id, site.id), at.time(self.now), (keys, &mut verifier)).ok()
        };
        let given = reached.filter_map(|broker| self.endorse(broker, (site.id, guest.id)));
        let mut counting = given
            .filter(|signed| counts(guest, signed).is_some() && counts(site, signed).is_some());
        counting.next().map(|signed| signed.endorsement.until)
    }

    /// A broker's word for a guest, by its key in force.
    fn endorse(
        &self,
        broker: usize,
        (site, guest): (ActorId, ActorId),
    ) -> Option<SignedEndorsement> {
        let broker = &self.participants[broker];
        let keys = broker.actor()?.keys().chain(broker.id).cloned().unwrap_or_default();
        let secret = broker.secrets.get(keys.keys().count().saturating_sub(1))?;
        let until = broker.time(self.now).plus(ENDORSEMENT_HOLDS);
        let endorsement = Endorsement { broker: broker.id, guest, site, until };
        Some(SignedEndorsement::sign(endorsement, secret, keys))
    }
}
