//! What is asked of a request as a whole: whether tickets meet it, and how long it is known.

use crate::model::time::Time;
use crate::ticket::Ticket;
use crate::wire::message::Request;

impl Request {
    /// Until when a broker that knows any of its revisions surely remembers it, the same for all of them.
    pub fn known_until(&self) -> Time {
        self.history.first_word.unwrap_or_else(|| self.last_word())
    }

    /// How long a broker that knows this revision remembers it.
    pub fn remembered_until(&self) -> Time {
        self.last_word().max(self.known_until())
    }

    /// Whether tickets, each with the item it is for, are in type, number and time what was asked for.
    pub fn is_met_with(&self, tickets: &[(u16, Ticket)]) -> bool {
        let mut sums = vec![0u64; self.items.len()];
        let suits = tickets.iter().all(|(place, ticket)| {
            let (link, place) = (ticket.bottom(), usize::from(*place));
            let (Some(item), Some(sum)) = (self.items.get(place), sums.get_mut(place)) else {
                return false;
            };
            *sum += u64::from(link.units.get());
            item.resource == link.resource
                && (self.earliest..=self.latest).contains(&link.term.start().minus(item.offset))
                && (self.min_duration..=self.duration).contains(&link.term.duration())
        });
        suits && self.is_met_by(&sums)
    }
}
