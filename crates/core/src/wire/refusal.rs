//! Refusals: typed answers that say why, whether it can ever be had, and what to do next.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::resource::Unmet;
use crate::model::time::{Span, Term, Time};
use crate::ticket::TicketFault;
use crate::ticket::evidence::Evidence;
use crate::wire::offer::Booking;

/// Why something asked for was not given. Travels to the asker.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum Refusal {
    /// No site offers this type.
    #[error("no site offers `{resource}`; known: {}", list(.known))]
    NoSuchType {
        /// The type asked for.
        resource: Name,
        /// The types that can be had.
        known: Vec<Name>,
    },
    /// The type exists, but none of its kinds meets the requirements.
    #[error("no `{resource}` meets the requirements: {unmet}")]
    NoMatch {
        /// The type asked for.
        resource: Name,
        /// What one of them does not meet, and why.
        unmet: Unmet,
    },
    /// More units than all sites together offer.
    #[error("{asked} units of `{resource}` are more than the {most} that exist")]
    TooMany {
        /// The type asked for.
        resource: Name,
        /// The units asked for.
        asked: u32,
        /// The most there are.
        most: u32,
    },
    /// Not free for the term asked for.
    #[error("{asked} units of `{resource}` were asked for, {free} are free{}", hint(*.earliest))]
    Busy {
        /// The type asked for.
        resource: Name,
        /// The units asked for.
        asked: u32,
        /// The units free over the whole term.
        free: u32,
        /// The earliest start at which the request could be met, as things stand.
        earliest: Option<Time>,
        /// Bookings in the way, the biggest first.
        in_the_way: Vec<Booking>,
    },
    /// The term is too short for the clocks of two actors to agree that it happened.
    #[error("a term of {term} is too short: it must be longer than {min}")]
    TermTooShort {
        /// The length asked for.
        term: Span,
        /// Twice the clock margin.
        min: Span,
    },
    /// The requested term lies in the past.
    #[error("too late: it had to be asked for before {0}")]
    TooLate(Time),
    /// Nothing was decided before the answer was due.
    #[error("no decision was taken by {0}")]
    Undecided(Time),
    /// The ticket shown is void.
    #[error("the ticket is void: {0}")]
    Ticket(#[from] TicketFault),
    /// The ticket was cut from one that is used up; here is the proof.
    #[error("{}", conflict(.0))]
    Conflict(Box<Evidence>),
    /// The ticket's constraints do not hold of what was asked.
    #[error("the constraints of the ticket do not hold: {0}")]
    Constraint(Unmet),
    /// The lease to be extended is not here, not the asker's, not live, or not continued by this term.
    #[error("no lease of yours here ends at {start} and could go on until {end}", start = .0.start(), end = .0.end())]
    NotExtendable(Term),
    /// An extension keeps the units of its lease.
    #[error("an extension keeps its {held} units, {asked} were asked for")]
    UnitsDiffer {
        /// The units held.
        held: u32,
        /// The units asked for.
        asked: u32,
    },
    /// Setting up failed on more units than the request could do without.
    #[error("only {ready} of {wanted} units could be set up")]
    SetupFailed {
        /// The units that came up.
        ready: u32,
        /// The units of the ticket.
        wanted: u32,
    },
    /// A message beyond its bounds, or one that makes no sense.
    #[error("the message is malformed: {0}")]
    Malformed(String),
    /// The asker has no business asking this.
    #[error("not allowed")]
    Forbidden,
    /// Too much is waiting to be decided.
    #[error("too many requests are waiting; ask again later")]
    Overloaded,
    /// The ticket was cut from one that is used up, by so many tickets that they cannot all be shown.
    #[error("{links} tickets, too many to show, use up what this one was cut from at {at}")]
    Oversold {
        /// How many, this one among them.
        links: u32,
        /// When.
        at: Time,
    },
    /// The term leaves what sites have delegated so far, whatever is sold of it.
    #[error("`{resource}` is delegated until {until}, and was asked for until {end}")]
    Beyond {
        /// The type asked for.
        resource: Name,
        /// Until when a term may last that begins as early as the request allows.
        until: Time,
        /// The end of that term as it was asked for.
        end: Time,
    },
    /// The offers that were held have lapsed.
    #[error("the offers were held until {0}")]
    Lapsed(Time),
    /// The asker withdrew its request.
    #[error("the request was withdrawn")]
    Withdrawn,
    /// The broker's policy is against it.
    #[error("against the policy of the broker: {0}")]
    Policy(String),
    /// The holder has what it may have.
    #[error("{}", of.sentence(*.holder, *.most, *.would))]
    Quota {
        /// Whose quota.
        holder: ActorId,
        /// What is limited.
        of: Allowance,
        /// The most there may be of it.
        most: u64,
        /// How much there would be of it.
        would: u64,
    },
    /// The units of a lease could not take over a changed configuration; they have the old one.
    #[error("the lease stays as it was: {0}")]
    ModifyFailed(String),
    /// The ticket had to be redeemed earlier.
    #[error("the ticket had to be redeemed before {0}")]
    Unclaimed(Time),
    /// All sites that have the type are excluded by the request.
    #[error("the request excludes every site that offers `{resource}`")]
    Excluded {
        /// The type.
        resource: Name,
    },
    /// The ticket, or one above it, is recalled by its issuer.
    #[error("the ticket is recalled: {units} units stay from {from} on")]
    Recalled {
        /// How many units stay.
        units: u32,
        /// From when on.
        from: Time,
    },
    /// The units that are not excluded are too few.
    #[error(
        "{left} units of `{resource}` are left beside those that are excluded, {asked} were asked for"
    )]
    UnitsExcluded {
        /// The type.
        resource: Name,
        /// The fewest units that would do.
        asked: u32,
        /// How many there are that are not excluded.
        left: u32,
    },
    /// All that would do is lent only to those who accept that it is recalled.
    #[error("all `{resource}` that would do is best-effort: accept that it is recalled")]
    BestEffort {
        /// The type.
        resource: Name,
    },
    /// A unit of the ticket's stack is another holder's.
    #[error("the token of stack `{stack}` is another holder's until {until}")]
    Entangled {
        /// The stack.
        stack: Name,
        /// Until when.
        until: Time,
    },
    /// The ticket is for a unit that is in stacks now, and has not the token of each.
    #[error("the ticket has no token of stack `{stack}`, in which its unit is")]
    NoToken {
        /// The stack.
        stack: Name,
    },
    /// The broker sells nothing for the time being.
    #[error("the broker sells nothing for now: it is drained")]
    Drained,
    /// Others may have it, but not all that could be asked have said so.
    #[error("nobody who answered has it, and these did not answer: {}", list(.brokers))]
    Unheard {
        /// The brokers that were not heard.
        brokers: Vec<Name>,
    },
    /// The lease depended on heartbeats, and its guest sent none.
    #[error("nothing has been heard from its guest since {0}")]
    Silent(Time),
}

/// What a quota limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Allowance {
    /// The bytes that a site remembers for a holder.
    Bytes,
    /// The units held at any one time.
    Units,
    /// The unit-hours granted in one period.
    UnitHours,
    /// The requests that wait for a decision.
    OpenRequests,
    /// The requests that offers are held for.
    Holds,
}

impl Allowance {
    fn sentence(self, holder: ActorId, most: u64, would: u64) -> String {
        match self {
            Self::Bytes => format!(
                "the tickets of {holder} that are remembered take up the {most} bytes there are for \
                 them; ask again when some of them are over"
            ),
            Self::Units => {
                format!("a quota of {most} units: {holder} would hold {would} at a time")
            }
            Self::UnitHours => format!(
                "a quota of {most} unit-hours: {holder} would have been granted {would} in this period"
            ),
            Self::OpenRequests => {
                format!("a quota of {most} open requests: {holder} would have {would}")
            }
            Self::Holds => {
                format!(
                    "a quota of {most} requests that offers are held for: {holder} would have {would}"
                )
            }
        }
    }
}

/// What the asker can do about a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// The same request can never be met.
    Never,
    /// The same request may be met later.
    Later,
    /// The asker is not entitled to it.
    Denied,
}

impl Refusal {
    /// What the asker can do (busy is not the same as no such thing).
    pub fn outlook(&self) -> Outlook {
        match self {
            Self::NoSuchType { .. }
            | Self::NoMatch { .. }
            | Self::TooMany { .. }
            | Self::TermTooShort { .. }
            | Self::TooLate(_)
            | Self::UnitsDiffer { .. }
            | Self::NotExtendable(_)
            | Self::Withdrawn
            | Self::Unclaimed(_)
            | Self::Excluded { .. }
            | Self::UnitsExcluded { .. }
            | Self::BestEffort { .. }
            | Self::Malformed(_) => Outlook::Never,
            Self::Busy { .. }
            | Self::Beyond { .. }
            | Self::Undecided(_)
            | Self::SetupFailed { .. }
            | Self::Overloaded
            | Self::Lapsed(_)
            | Self::Entangled { .. }
            | Self::ModifyFailed(_)
            | Self::Drained
            | Self::Unheard { .. }
            | Self::Silent(_)
            | Self::Quota { .. } => Outlook::Later,
            Self::Ticket(_)
            | Self::Conflict(_)
            | Self::Oversold { .. }
            | Self::Constraint(_)
            | Self::Policy(_)
            | Self::Recalled { .. }
            | Self::NoToken { .. }
            | Self::Forbidden => Outlook::Denied,
        }
    }

    /// Of several refusals of one request, which to pass on: the one of the highest rank. First comes what
    /// may be met later, the sooner and the more surely the better; then what the asker is not entitled to;
    /// last what can never be, what another request can mend before what it cannot.
    pub fn rank(&self) -> u8 {
        match self {
            Self::Busy { earliest: Some(_), .. } => 16,
            Self::Busy { earliest: None, .. } => 15,
            Self::Beyond { .. } => 14,
            Self::Unheard { .. } => 13,
            Self::Quota { .. } => 12,
            Self::SetupFailed { .. }
            | Self::ModifyFailed(_)
            | Self::Lapsed(_)
            | Self::Silent(_) => 11,
            Self::Overloaded | Self::Undecided(_) | Self::Drained => 10,
            Self::Policy(_) => 9,
            Self::Constraint(_) => 8,
            Self::Conflict(_) | Self::Oversold { .. } | Self::Entangled { .. } => 7,
            Self::Ticket(_) | Self::Forbidden | Self::Recalled { .. } | Self::NoToken { .. } => 6,
            Self::TooMany { .. } | Self::TermTooShort { .. } | Self::UnitsDiffer { .. } => 5,
            Self::NoMatch { .. }
            | Self::Excluded { .. }
            | Self::UnitsExcluded { .. }
            | Self::BestEffort { .. } => 4,
            Self::TooLate(_) | Self::Unclaimed(_) | Self::NotExtendable(_) => 3,
            Self::NoSuchType { .. } => 2,
            Self::Withdrawn | Self::Malformed(_) => 1,
        }
    }

    /// A short stable word for tables and counters.
    pub fn word(&self) -> &'static str {
        match self {
            Self::NoSuchType { .. } => "no-such-type",
            Self::NoMatch { .. } => "no-match",
            Self::TooMany { .. } => "too-many",
            Self::Busy { .. } => "busy",
            Self::TermTooShort { .. } => "term-too-short",
            Self::TooLate(_) => "too-late",
            Self::Undecided(_) => "undecided",
            Self::Ticket(_) => "void-ticket",
            Self::Conflict(_) => "conflict",
            Self::Constraint(_) => "constraint",
            Self::NotExtendable(_) => "not-extendable",
            Self::UnitsDiffer { .. } => "units-differ",
            Self::SetupFailed { .. } => "setup-failed",
            Self::Malformed(_) => "malformed",
            Self::Forbidden => "forbidden",
            Self::Overloaded => "overloaded",
            Self::Oversold { .. } => "oversold",
            Self::Beyond { .. } => "beyond",
            Self::Lapsed(_) => "lapsed",
            Self::Withdrawn => "withdrawn",
            Self::Policy(_) => "policy",
            Self::Quota { .. } => "quota",
            Self::ModifyFailed(_) => "modify-failed",
            Self::Unclaimed(_) => "unclaimed",
            Self::Excluded { .. } => "excluded",
            Self::Recalled { .. } => "recalled",
            Self::UnitsExcluded { .. } => "units-excluded",
            Self::BestEffort { .. } => "best-effort",
            Self::Entangled { .. } => "entangled",
            Self::NoToken { .. } => "no-token",
            Self::Drained => "drained",
            Self::Unheard { .. } => "unheard",
            Self::Silent(_) => "silent",
        }
    }
}

fn list(names: &[Name]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.iter().map(Name::as_str).collect::<Vec<_>>().join(", "),
    }
}

/// What evidence shows, in a sentence.
fn conflict(evidence: &Evidence) -> String {
    if evidence.links.is_empty() {
        return "one number was given to two delegations".to_owned();
    }
    let (count, at) = (evidence.links.len(), evidence.at);
    format!("{count} links were cut from a ticket that does not cover them at {at}")
}

fn hint(earliest: Option<Time>) -> String {
    earliest.map_or_else(String::new, |t| format!("; from {t} on they would be"))
}
