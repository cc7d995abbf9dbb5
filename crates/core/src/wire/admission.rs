//! Who is no peer: by which ticket a site or a broker lets it in, until when, and what it may say.

use thiserror::Error;

use crate::model::identity::ActorId;
use crate::model::time::{Span, Time};
use crate::model::verifier::Verifier;
use crate::ticket::{Ticket, TicketFault};

/// For how long a ticket or an invitation lets its holder in once it has ended: what is left to be said of it must
/// still arrive.
pub const GRACE: Span = Span::HOUR;

/// Who is known by what it has shown alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stranger {
    /// The holder of a ticket, to its site.
    Holder,
    /// The holder of a ticket, to the broker that has cut it.
    Buyer,
    /// Who has an invitation, to the inviter.
    Invited,
    /// Who is endorsed by a broker, to the site.
    Endorsed,
}

impl Stranger {
    /// Whether it may send a message of that [kind](crate::wire::message::Message::kind).
    pub fn may_say(self, kind: &str) -> bool {
        match self {
            Self::Holder | Self::Endorsed => {
                let of_lease = ["redeem", "close", "return", "modify", "heartbeat"];
                let of_rights = ["reclaim", "recall", "recall-noted"];
                of_lease.contains(&kind) || of_rights.contains(&kind)
            }
            Self::Buyer => kind == "credit",
            Self::Invited => kind == "join",
        }
    }
}

/// Why a ticket does not let its holder in.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HolderFault {
    /// It is none of the site's, or not the holder's own.
    #[error("its ticket is void: {0}")]
    Void(TicketFault),
    /// Another actor issued it.
    #[error("its ticket was issued by another actor")]
    NotIssued,
    /// It has ended, more than [`GRACE`] ago.
    #[error("its ticket has ended")]
    Over,
}

/// Until when a site lets in a stranger by a ticket, by the keys that the verifier knows.
///
/// # Errors
/// Why it does not.
pub fn holder_until(
    ticket: &Ticket,
    (stranger, site): (ActorId, ActorId),
    now: Time,
    verifier: &mut Verifier,
) -> Result<Time, HolderFault> {
    ticket.check_shape(site, stranger).map_err(HolderFault::Void)?;
    counts_until(ticket, now, verifier)
}

/// Until when a broker lets in a stranger by a ticket that it has cut, so that receipts for it are credited.
///
/// # Errors
/// Why it does not.
pub fn buyer_until(
    ticket: &Ticket,
    (stranger, broker): (ActorId, ActorId),
    now: Time,
    verifier: &mut Verifier,
) -> Result<Time, HolderFault> {
    if ticket.bottom().issuer != broker {
        return Err(HolderFault::NotIssued);
    }
    ticket.check_shape(ticket.site(), stranger).map_err(HolderFault::Void)?;
    counts_until(ticket, now, verifier)
}

/// Until when a ticket counts, if it is signed.
fn counts_until(ticket: &Ticket, now: Time, verifier: &mut Verifier) -> Result<Time, HolderFault> {
    let until = ticket.bottom().term.end().plus(GRACE);
    if until <= now {
        return Err(HolderFault::Over);
    }
    for (depth, link) in (0..).zip(ticket.links()) {
        if !link.verifies(verifier) {
            return Err(HolderFault::Void(TicketFault::BadSignature(depth)));
        }
    }
    Ok(until)
}
