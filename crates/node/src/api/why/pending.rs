//! The pending work of a lease: messages that wait for an answer, and driver steps.

use serde::{Deserialize, Serialize};
use tenure_core::actor::Actor as _;
use tenure_core::actor::effect::Effect;
use tenure_core::driver::Call;
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Time;
use tenure_core::runtime::AnyActor;
use tenure_core::runtime::outbox::Outbox;
use tenure_core::ticket::link::LinkHash;
use tenure_core::wire::message::{Envelope, Message};

/// A message or driver step that is pending for a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingView {
    /// The actor that waits.
    pub from: String,
    /// To whom: an actor, or `driver`.
    pub to: String,
    /// The kind of message, or the step and its unit.
    pub what: String,
    /// When it became pending.
    pub since: String,
    /// How often the message was sent, since its sender came up.
    pub sent: Option<u32>,
    /// The receiver's failure, if it is down.
    pub down: Option<String>,
}

/// The same, in the actor's terms.
#[derive(Clone, Debug)]
pub(super) enum PendingItem {
    Message { to: ActorId, kind: &'static str, at: Time, sent: u32 },
    Call { what: String, position: u64 },
}

/// All the ids by which effects can refer to a lease.
#[derive(Clone, Debug)]
pub(super) struct LeaseRefs {
    pub(super) origin: ActorId,
    pub(super) id: LeaseId,
    pub(super) tickets: Vec<LinkHash>,
}

impl LeaseRefs {
    /// The actor's pending work for the lease.
    pub(super) fn pending(&self, actor: &AnyActor, outbox: &Outbox) -> Vec<PendingItem> {
        let effects = actor.effects_after(0).into_iter();
        let pending = effects.filter_map(|(id, effect)| match effect {
            Effect::Send(envelope) if self.is_in(&envelope) => {
                let Envelope { header, message } = *envelope;
                let sent = outbox.times_sent(id);
                Some(PendingItem::Message {
                    to: header.to,
                    kind: message.kind(),
                    at: header.at,
                    sent,
                })
            }
            Effect::Call(call) if call.guest == self.origin && call.lease == self.id => {
                Some(PendingItem::Call { what: in_words(&call), position: id.position })
            }
            Effect::Send(_) | Effect::Call(_) => None,
        });
        pending.collect()
    }

    fn is_in(&self, envelope: &Envelope) -> bool {
        let ours = |ticket: LinkHash| self.tickets.contains(&ticket);
        match &envelope.message {
            Message::Request(request) | Message::Withdraw(request) => {
                let extends =
                    |item: &tenure_core::wire::request::Item| item.extends.is_some_and(ours);
                request.id.number == self.id.number || request.items.iter().any(extends)
            }
            Message::Accept { request, .. } => request.number == self.id.number,
            Message::Redeem { lease, .. } => *lease == self.id,
            Message::Return { ticket, .. }
            | Message::Modify { ticket, .. }
            | Message::Reclaim { ticket } => ours(ticket.hash()),
            Message::Close { tickets } => tickets.iter().any(|ticket| ours(ticket.hash())),
            Message::Credit { receipts } => receipts.iter().any(|receipt| ours(receipt.what.link)),
            Message::Recall { ticket, .. } => ours(ticket.hash()),
            Message::RecallNotice { ticket, .. }
            | Message::RecallNoted { ticket, .. }
            | Message::UnitFailed { ticket, .. } => ours(*ticket),
            Message::Ping
            | Message::Inquire(_)
            | Message::Available { .. }
            | Message::Pong { .. }
            | Message::Recalled { .. }
            | Message::Delegate { .. }
            | Message::Delegated { .. }
            | Message::Granted { .. }
            | Message::Waiting { .. }
            | Message::Offered { .. }
            | Message::Leased { .. }
            | Message::Closed { .. }
            | Message::Returned { .. }
            | Message::Modified { .. }
            | Message::Reclaimed { .. }
            | Message::Credited { .. }
            | Message::Refused { .. }
            | Message::Keys { .. }
            | Message::KeysNoted { .. }
            | Message::Need(_)
            | Message::Noted { .. }
            | Message::Hosts(_)
            | Message::HostsNoted { .. }
            | Message::HostsChanged { .. }
            | Message::Restate { .. }
            | Message::HandOver(_)
            | Message::HandedBack(_)
            | Message::AskPortion(_)
            | Message::PortionBack(_)
            | Message::PortionDecided { .. }
            | Message::Heartbeat { .. }
            | Message::HeartbeatHeard { .. }
            | Message::Advert(_)
            | Message::AdvertWanted
            | Message::Join(_)
            | Message::Joined { .. } => false,
        }
    }
}

fn in_words(call: &Call) -> String {
    format!("{} of {}", call.step.word(), call.unit)
}
