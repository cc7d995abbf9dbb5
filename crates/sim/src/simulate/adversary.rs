//! A dishonest broker and a dishonest guest. Both run the real actor and, now and then, speak beside it:
//! with keys of their own, about tickets and messages that they have seen.

mod broker;
mod guest;

use std::collections::VecDeque;

use tenure_core::actor::Role;
use tenure_core::model::codec;
use tenure_core::model::identity::ActorId;
use tenure_core::model::keys::KeyChain;
use tenure_core::model::time::{Span, Time};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::SignedLink;
use tenure_core::ticket::receipt::Receipt;
use tenure_core::wire::batch::Path;
use tenure_core::wire::credentials::Credentials;
use tenure_core::wire::message::{Envelope, Header, Message, Sealed, Sequence};

use super::fault::{Family, Fault};
use super::world::World;

/// How many observed items adversaries keep.
const KEPT: usize = 24;

/// What adversaries have observed.
#[derive(Default)]
pub(super) struct Observed {
    /// Delegations to the dishonest broker, all generations.
    delegations: VecDeque<Ticket>,
    /// Tickets that were shown to sites.
    tickets: VecDeque<Ticket>,
    receipts: VecDeque<Receipt>,
    /// What the dishonest broker will do with the next requests that reach it.
    planned_fault: Option<(Fault, u32)>,
    /// Numbers for messages and links of their own.
    serial: u64,
}

fn keep<T>(kept: &mut VecDeque<T>, one: T) {
    if kept.len() >= KEPT {
        kept.pop_front();
    }
    kept.push_back(one);
}

impl World {
    /// The adversary in a role.
    fn adversary(&self, role: Role) -> Option<usize> {
        self.participants
            .iter()
            .position(|participant| participant.role == role && !participant.honest)
    }

    /// The dishonest see every message; tickets are not secret.
    pub(super) fn observe(&mut self, envelope: &Envelope) {
        if !self.setting.has(Family::DishonestBroker) && !self.setting.has(Family::DishonestGuest) {
            return;
        }
        let observed = &mut self.observed;
        if let Message::Delegate { ticket, .. } = &envelope.message {
            let to = self.by_id.get(&envelope.header.to);
            if to.is_some_and(|&to| !self.participants[to].honest) {
                keep(&mut observed.delegations, ticket.clone());
            }
        } else if let Message::Redeem { ticket, .. } = &envelope.message {
            keep(&mut observed.tickets, ticket.clone());
        } else if let Message::Granted { tickets, .. } = &envelope.message {
            let Some((_, ticket)) = tickets.first().cloned() else { return };
            self.intercept(ticket);
        } else if let Message::Closed { receipts, .. } = &envelope.message {
            receipts.iter().for_each(|receipt| keep(&mut observed.receipts, receipt.clone()));
        }
    }

    /// Sends a message in a participant's name that its actor did not send.
    fn send_forged(&mut self, who: usize, to: ActorId, message: Message) {
        let kind = message.kind();
        let (sequence, sealed) = self.forged_envelope(who, to, message);
        self.transmit(who, sequence, to, kind, &sealed);
    }

    fn forged_envelope(&mut self, who: usize, to: ActorId, message: Message) -> (Sequence, Sealed) {
        self.observed.serial += 1;
        let sequence = Sequence { position: (1 << 40) + self.observed.serial, index: 0 };
        let header = Header { from: self.participants[who].id, to, sequence, at: self.now };
        let mut credentials = Credentials::new(self.participants[who].signer.clone());
        (sequence, Envelope { header, message }.seal(&mut credentials))
    }

    /// Sends forged bytes.
    fn send_bytes(&mut self, who: usize, to: ActorId, bytes: Vec<u8>) {
        self.observed.serial += 1;
        let sequence = Sequence { position: (1 << 40) + self.observed.serial, index: 0 };
        let mut credentials = Credentials::new(self.participants[who].signer.clone());
        let (key, signature) = credentials.sign_message(&bytes);
        if let Ok(sealed) = codec::decode::<Sealed>(&codec::encode(&(
            bytes,
            key,
            signature,
            Path::default(),
            Vec::<KeyChain>::new(),
        ))) {
            self.transmit(who, sequence, to, "garbage", &sealed);
        }
    }
}

/// The words of one link under the key and signature of another.
fn reworded(real: &SignedLink, words: &SignedLink) -> Option<SignedLink> {
    let mut bytes = real.as_bytes()[..96].to_vec();
    bytes.extend_from_slice(&words.as_bytes()[96..]);
    SignedLink::read(&bytes).ok()
}

/// Whether the time has come when the dishonest are all that is wrong.
pub(super) fn goes_on(family: Family, healed: bool) -> bool {
    !healed || matches!(family, Family::DishonestBroker | Family::DishonestGuest)
}

/// How long dishonest participants continue after all faults are healed.
pub(super) fn last(heal: Time, term: Span) -> Time {
    heal.plus(term.times(3))
}
