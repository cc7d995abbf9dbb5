//! Leases that a site ends if nothing is heard from their guests.
//!
//! What was heard is in no journal: after a restart all guests count as heard. That one was not is a fact.

use std::collections::{BTreeMap, BTreeSet};

use super::{Lease, Output, SiteAuthority};
use crate::actor::timers::Timers;
use crate::actor::{Emit as _, dropped};
use crate::model::identity::ActorId;
use crate::model::time::{Span, Time};
use crate::mutants::mutant;
use crate::site_authority::facts::LeaseClosed;
use crate::site_authority::machine::{CloseReason, State};
use crate::ticket::link::LinkHash;
use crate::ticket::receipt::Receipt;
use crate::wire::heartbeat::MAX_LEASES;
use crate::wire::message::{Header, Message};

/// The most leases whose end is answered to one heartbeat; the next one brings up the others.
const MOST_ENDED: usize = 16;

/// When each guest was heard that has a lease which depends on it. Volatile.
#[derive(Clone, Debug, Default)]
pub(super) struct Heartbeats {
    /// When the newest heartbeat was sent that names a lease.
    heard: BTreeMap<LinkHash, Time>,
    /// When a lease ends if nothing is heard.
    due: Timers<LinkHash>,
}

impl PartialEq for Heartbeats {
    /// They are in no journal: two sites with the same facts are the same, whatever was heard.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Lease {
    /// How long it goes on without a heartbeat, if it depends on heartbeats and is not over.
    fn depends(&self) -> Option<Span> {
        self.keep_alive.filter(|_| !matches!(self.state, State::Closed { .. }))
    }
}

impl SiteAuthority {
    /// When a lease ends if nothing is heard from its guest.
    pub(super) fn next_silence(&self) -> Option<Time> {
        self.heartbeats.due.next()
    }

    /// Follows what became of a lease.
    pub(super) fn listen(&mut self, hash: LinkHash, at: Time) {
        let depends = self.state.leases.get(&hash).and_then(|lease| lease.depends());
        if depends.is_some() {
            let heard = self.heartbeats.heard.get(&hash).copied().unwrap_or(at);
            self.heard(hash, heard);
        } else if self.heartbeats.heard.remove(&hash).is_some() {
            self.heartbeats.due.set(hash, None);
        }
    }

    /// The guest of a lease was heard then.
    fn heard(&mut self, hash: LinkHash, sent: Time) {
        let Some(keep_alive) = self.state.leases.get(&hash).and_then(|lease| lease.depends())
        else {
            return;
        };
        let margin = self.base.margin();
        let after =
            if mutant!(SilentTooSoon) { keep_alive.part(2) } else { keep_alive.plus(margin) };
        self.heartbeats.heard.insert(hash, sent);
        self.heartbeats.due.set(hash, Some(sent.plus(after)));
    }

    /// The guest of a lease counts from an answer as from a heartbeat.
    pub(super) fn kept_since(&mut self, hash: LinkHash, at: Time) {
        if let Some(&heard) = self.heartbeats.heard.get(&hash) {
            self.heard(hash, heard.max(at));
        }
    }

    /// All guests count as heard now.
    pub(super) fn start_listening(&mut self, now: Time) {
        for hash in self.heartbeats.heard.keys().copied().collect::<Vec<_>>() {
            self.heard(hash, now);
        }
    }

    /// A guest is there: it keeps those of these leases that are its own and have not ended. The end of others is
    /// repeated.
    pub(super) fn heartbeat(
        &mut self,
        now: Time,
        header: &Header,
        leases: Vec<LinkHash>,
        out: &mut Output,
    ) {
        let from = header.from;
        if leases.len() > MAX_LEASES {
            let cause = format!("it names {} leases, {MAX_LEASES} are allowed", leases.len());
            return out.problems.push(dropped("heartbeat", cause));
        }
        // By a clock that keeps to the margin it was not sent later.
        let sent = header.at.min(now.plus(self.base.margin()));
        let (mut kept, mut ended, mut foreign) = (Vec::new(), 0, 0);
        for hash in leases.into_iter().collect::<BTreeSet<_>>() {
            // One that is not known may not be redeemed yet.
            let Some(lease) = self.state.leases.get(&hash) else { continue };
            if lease.holder() != from {
                foreign += 1;
            } else if lease.depends().is_some() {
                let heard = self.heartbeats.heard.get(&hash).copied().unwrap_or(sent);
                self.heard(hash, heard.max(sent));
                kept.push(hash);
            } else if lease.closed.is_some() && ended < MOST_ENDED {
                ended += 1;
                self.repeat_answer(hash, hash, out);
            }
        }
        if foreign > 0 {
            let cause = format!("{foreign} of its leases are not its sender's");
            out.problems.push(dropped("heartbeat", cause));
        }
        let heard = Message::HeartbeatHeard { sent, leases: kept };
        out.replies.push(self.base.volatile(from, now, heard));
    }

    /// Ends the leases from whose guests nothing was heard for too long.
    pub(super) fn end_silent(&mut self, now: Time, out: &mut Output) {
        while let Some(lease) = self.heartbeats.due.due(now) {
            let heard = self.heartbeats.heard.get(&lease).copied().unwrap_or(now);
            self.end_as_silent(now, lease, heard, out);
        }
    }

    fn end_as_silent(&mut self, now: Time, hash: LinkHash, heard: Time, out: &mut Output) {
        let Some(lease) = self.state.leases.get(&hash) else {
            return self.heartbeats.due.set(hash, None);
        };
        let tickets = lease.tickets.clone();
        let receipts = self.receipts(&tickets, now);
        let why = CloseReason::Silent(heard);
        let fact = LeaseClosed { lease: hash, why, receipts: receipts.clone() };
        self.emit(now, fact, out);
        self.repeat_answer(hash, hash, out);
        self.show_receipts(now, receipts, out);
    }

    /// Issuers hear of what came back from its guest, who may be gone for good: so they are shown the receipts, once.
    fn show_receipts(&self, now: Time, receipts: Vec<Receipt>, out: &mut Output) {
        let mut of: BTreeMap<ActorId, Vec<Receipt>> = BTreeMap::new();
        for receipt in receipts {
            of.entry(receipt.what.issuer).or_default().push(receipt);
        }
        for (issuer, receipts) in of {
            out.replies.push(self.base.volatile(issuer, now, Message::Credit { receipts }));
        }
    }
}
