//! Short names for what the system names by hashes, and times as a clock shows them.

use std::collections::BTreeMap;

use tenure_core::driver::UnitId;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::slice::{LeaseId, RequestId};
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{DelegationId, LinkHash, SignedLink};
use tenure_core::ticket::receipt::Receipt;

/// Who and what is who and what: actors by their names, delegations `d1`, `d2`, …, tickets `t1`, `t2`, … in
/// the order in which they come up.
#[derive(Default)]
pub struct Names {
    actors: BTreeMap<ActorId, Name>,
    delegations: BTreeMap<DelegationId, usize>,
    labels: BTreeMap<LinkHash, String>,
    tickets: BTreeMap<String, Ticket>,
    cut: usize,
    forged: usize,
}

impl Names {
    pub fn add_actor(&mut self, id: ActorId, name: Name) {
        self.actors.insert(id, name);
    }

    pub fn actor(&self, id: ActorId) -> String {
        self.actors.get(&id).map_or_else(|| "a stranger".to_owned(), ToString::to_string)
    }

    /// The label of a ticket, a new one if it was never seen.
    pub fn ticket(&mut self, ticket: &Ticket) -> String {
        if let Some(label) = self.labels.get(&ticket.hash()) {
            return label.clone();
        }
        let label = match ticket.bottom().delegation {
            Some(generation) => {
                let (issuer, next) = (ticket.bottom().issuer, self.delegations.len() + 1);
                let id = DelegationId { issuer, number: generation.delegation };
                self.delegations.entry(id).or_insert(next);
                self.delegation(id, generation.generation)
            }
            None => {
                self.cut += 1;
                format!("t{}", self.cut)
            }
        };
        self.label(ticket, label)
    }

    /// `d1`, and `d1.1` for its first renewal.
    pub fn delegation(&self, id: DelegationId, generation: u32) -> String {
        match (self.delegations.get(&id), generation) {
            (None, _) => "an unknown delegation".to_owned(),
            (Some(number), 0) => format!("d{number}"),
            (Some(number), later) => format!("d{number}.{later}"),
        }
    }

    /// Labels a ticket that no honest actor made: `x1`, `x2`, …
    pub fn forged(&mut self, ticket: &Ticket) -> String {
        self.forged += 1;
        self.label(ticket, format!("x{}", self.forged))
    }

    fn label(&mut self, ticket: &Ticket, label: String) -> String {
        self.labels.insert(ticket.hash(), label.clone());
        self.tickets.insert(label.clone(), ticket.clone());
        label
    }

    /// The ticket of that label.
    pub fn find(&self, label: &str) -> Result<&Ticket, String> {
        let known = || self.tickets.keys().cloned().collect::<Vec<_>>().join(", ");
        self.tickets
            .get(label)
            .ok_or_else(|| format!("there is no ticket `{label}`; known: {}", known()))
    }

    pub fn hash(&self, hash: LinkHash) -> String {
        self.labels.get(&hash).cloned().unwrap_or_else(|| "an unknown ticket".to_owned())
    }

    /// `t1 (2 node over 10:00-12:00)`.
    pub fn ticket_in_full(&mut self, ticket: &Ticket) -> String {
        format!("{} ({})", self.ticket(ticket), right(ticket.bottom()))
    }

    /// The ticket that a link makes of the one it is a part of, in full.
    pub fn part(&mut self, link: &SignedLink) -> String {
        let parent = link.parent.and_then(|parent| self.labels.get(&parent));
        match parent.and_then(|label| self.tickets.get(label)).cloned() {
            Some(parent) => self.ticket_in_full(&parent.with(link.clone())),
            None => right(link),
        }
    }

    /// `1` for the guest's own use, where it is clear whose it is.
    pub fn lease(&self, id: LeaseId) -> String {
        lease(id)
    }

    /// `guest/1`.
    pub fn request(&self, id: RequestId) -> String {
        format!("{}/{}", self.actor(id.origin), id.number)
    }

    pub fn receipt(&self, receipt: &Receipt) -> String {
        let what = &receipt.what;
        format!("{} from {} on", self.hash(what.link), clock(what.term.start()))
    }

    /// A text of the system's own, with names in the places of hashes.
    pub fn plain(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (id, name) in &self.actors {
            text = text.replace(&id.to_string(), name.as_str());
        }
        for (hash, label) in &self.labels {
            text = text.replace(&hash.to_string(), label);
        }
        text
    }
}

/// `2 node over 10:00-12:00`.
pub fn right(link: &SignedLink) -> String {
    format!("{} {} over {}", link.units, link.resource, term(link.term))
}

/// `1` for the first part of request 1, `1.1` for the second.
pub fn lease(id: LeaseId) -> String {
    match id.part {
        0 => id.number.to_string(),
        part => format!("{}.{part}", id.number),
    }
}

/// `u0, u1`.
pub fn units<'a>(units: impl IntoIterator<Item = &'a UnitId>) -> String {
    list(units.into_iter().map(ToString::to_string))
}

pub fn list(words: impl IntoIterator<Item = String>) -> String {
    words.into_iter().collect::<Vec<_>>().join(", ")
}

/// `10:00-12:00`.
pub fn term(term: Term) -> String {
    format!("{}-{}", clock(term.start()), clock(term.end()))
}

/// `10:00`, with seconds only where there are some, and `+1d` on the next day.
pub fn clock(time: Time) -> String {
    let (day, hour, minute) =
        (Span::DAY.as_micros(), Span::HOUR.as_micros(), Span::MINUTE.as_micros());
    let (days, rest) = (time.as_micros().div_euclid(day), time.as_micros().rem_euclid(day));
    let mut text = format!("{:02}:{:02}", rest / hour, rest % hour / minute);
    let (secs, micros) = (rest % minute / 1_000_000, rest % 1_000_000);
    if secs + micros > 0 {
        text += &format!(":{secs:02}");
    }
    if micros > 0 {
        text += format!(".{micros:06}").trim_end_matches('0');
    }
    if days != 0 {
        text += &format!("{days:+}d");
    }
    text
}
