//! How cards spread: from their actors to their peers, and from broker to broker beside the tickets that are handed on.

use std::collections::BTreeSet;

use tenure_core::actor::Role;
use tenure_core::model::codec;
use tenure_core::model::identity::ActorId;
use tenure_core::ticket::Ticket;
use tenure_core::wire::handover::Outcome;
use tenure_core::wire::message::{Message, Sealed};
use tenure_core::wire::portion::PortionOutcome;
use tracing::debug;

use super::card::SignedCard;
use super::hub::Hub;
use super::lane::{Known, Lane};
use super::session::{Ends, Item};

/// The kinds of messages by which a broker hands tickets on to another one.
pub(super) const HANDS_ON: [&str; 3] = ["handed-back", "portion-back", "delegate"];

/// The longest card of another actor, in bytes: it has a few statements about keys.
const MOST_BYTES: usize = 4_096;

impl Hub {
    /// Keeps a card that a peer sends: its own, that of an actor that is looked for here, or, from one broker to
    /// another, of those whose tickets it hands on.
    pub(super) fn take_card(&self, ends: Ends, signed: SignedCard) {
        let Ends { here, there } = ends;
        if signed.card.actor != there && codec::encode(&signed).len() > MOST_BYTES {
            return debug!(of = %signed.card.actor, "a card of another was not kept: it is too long");
        }
        let (of, keys) = (signed.card.actor, self.keys_of(here));
        let is_broker = self.actors.get(&here).is_some_and(|actor| actor.role == Role::Broker);
        // Who has invited may send cards before the invitation is known to be accepted.
        let of_brokers = is_broker
            && self.lane(ends).is_some_and(|lane| {
                let invited = [Known::Configured, Known::Joined, Known::Inviting];
                lane.role == Some(Role::Broker) && invited.contains(&lane.known)
            });
        if of != there && !of_brokers && !self.seeks(Ends { here, there: of }) {
            debug!(%of, "a card came that nobody has asked for");
        } else if let Err(fault) = self.cards.take(signed, there, &keys, self.clock.now()) {
            debug!(%of, %fault, "a card was not kept");
        }
    }

    /// A card of an actor, its own if that is here.
    pub(super) fn card_of(&self, actor: ActorId) -> Option<SignedCard> {
        self.own_card(actor).or_else(|| self.cards.get(actor, self.clock.now()))
    }

    /// A broker that is asked by a peer asks the peer that last sent a card of an actor for a current one, now and then:
    /// so a question that goes round ends.
    pub(super) fn ask_on(&self, ends: Ends, whom: ActorId) {
        let is_broker = self.actors.get(&ends.here).is_some_and(|of| of.role == Role::Broker);
        if !is_broker || self.role_of(ends).is_none() {
            return;
        }
        let by = self.cards.brought_by(whom, self.clock.now());
        let Some(by) = by.filter(|by| *by != ends.there) else { return };
        let to = |(of, lane): &(Ends, Lane)| of.there == by && lane.role == Some(Role::Broker);
        if let Some((_, lane)) = self.lanes().into_iter().find(to) {
            drop(lane.queue.try_send(Item::Where(whom)));
        }
    }

    /// Sends another broker the cards of those who have signed the tickets in a message, before the message, so that
    /// its guests can reach them.
    pub(super) fn send_cards(&self, ends: Ends, sealed: &Sealed) {
        if self.role_of(ends) != Some(Role::Broker) {
            return;
        }
        let Ok(envelope) = sealed.peek() else { return };
        // The first of them is the site.
        let links = tickets_in(&envelope.message).into_iter().flat_map(Ticket::links);
        let signers: BTreeSet<ActorId> = links.map(|link| link.issuer).collect();
        for card in signers.into_iter().filter_map(|actor| self.card_of(actor)) {
            let of = card.card.actor;
            if of != ends.here && of != ends.there {
                self.say(ends, Item::Card(card));
            }
        }
    }
}

/// The tickets that a message hands on.
fn tickets_in(message: &Message) -> Vec<&Ticket> {
    if let Message::Delegate { ticket, .. } = message {
        return vec![ticket];
    }
    if let Message::HandedBack(back) = message
        && let Outcome::Granted(tickets) = &back.outcome
    {
        return tickets.iter().map(|(_, ticket)| ticket).collect();
    }
    if let Message::PortionBack(back) = message
        && let PortionOutcome::Granted(tickets) = &back.outcome
    {
        return tickets.iter().map(|(_, ticket)| ticket).collect();
    }
    Vec::new()
}
