//! Heartbeats of a guest: one message to each site with leases that end if nothing is heard from the guest.
//!
//! When they were sent and answered is in no journal. After a restart a site has the keep-alive to be heard, and until
//! it is, its leases are unconfirmed. That it was not heard in time is a fact, and the guest leaves the lease while it is
//! still its own.

use std::collections::{BTreeMap, BTreeSet};

use super::{Lease, Output, ServiceManager};
use crate::actor::Emit as _;
use crate::actor::timers::Timers;
use crate::model::identity::ActorId;
use crate::model::slice::LeaseId;
use crate::model::time::{Span, Time};
use crate::mutants::mutant;
use crate::service_manager::facts::{CloseBegun, LeaveBegun, LeaveHastened, SiteUnheard};
use crate::service_manager::machine::{AfterLeave, State};
use crate::ticket::link::LinkHash;
use crate::wire::heartbeat::{self, MAX_LEASES, keep_alive};
use crate::wire::message::Message;

/// The leases that are kept by heartbeats, and when something is to be done about them. Volatile.
#[derive(Clone, Debug, Default)]
pub(super) struct Heartbeats {
    leases: BTreeMap<LeaseId, Kept>,
    sites: BTreeMap<ActorId, BTreeSet<LeaseId>>,
    /// When each site is sent the next.
    due: Timers<ActorId>,
    /// When the guest begins to leave each lease of which its site is silent.
    lapses: Timers<LeaseId>,
    /// The last time that was seen.
    now: Time,
}

impl PartialEq for Heartbeats {
    /// They are in no journal: two guests with the same facts are the same, whatever was heard.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A lease that is kept by heartbeats.
#[derive(Clone, Copy, Debug)]
struct Kept {
    site: ActorId,
    ticket: LinkHash,
    keep_alive: Span,
    /// When the last heartbeat was sent of which the site has said that it keeps the lease; the start of the guest until
    /// it has said so.
    heard: Time,
    /// Whether the site has said since the guest's start that it keeps the lease.
    confirmed: bool,
    /// Whether the guest has units that it would have to leave, and has not begun to for the silence of the site.
    holds: bool,
}

impl Kept {
    fn of(lease: &Lease, (heard, confirmed): (Time, bool)) -> Option<Self> {
        let (keep_alive, holds) = match &lease.state {
            State::Joining { .. } | State::Active { .. } => (lease.keep_alive?, true),
            State::Leaving { .. } => (lease.keep_alive?, lease.unheard.is_none()),
            // Until it is redeemed, what it says of that may change.
            State::Redeeming { .. } => (keep_alive(&lease.configuration).ok()??, false),
            State::Ticketed { .. }
            | State::Closing { .. }
            | State::Crediting { .. }
            | State::Closed { .. } => return None,
        };
        let ticket = lease.state.ticket()?;
        let (site, ticket) = (ticket.site(), ticket.hash());
        Some(Self { site, ticket, keep_alive, heard, confirmed, holds })
    }
}

impl Heartbeats {
    fn next(&self) -> Option<Time> {
        [self.due.next(), self.lapses.next()].into_iter().flatten().min()
    }

    /// How often a site is sent one: as often as the lease with the shortest keep-alive needs.
    fn period(&self, site: ActorId) -> Option<Span> {
        let leases = self.sites.get(&site)?.iter().filter_map(|id| self.leases.get(id));
        leases.map(|kept| heartbeat::period(kept.keep_alive)).min()
    }

    fn insert(&mut self, id: LeaseId, kept: Kept, at: Time) {
        self.leases.insert(id, kept);
        self.sites.entry(kept.site).or_default().insert(id);
        let next = at.plus(heartbeat::period(kept.keep_alive));
        let next = self.due.of(&kept.site).map_or(next, |due| due.min(next));
        self.due.set(kept.site, Some(next));
    }

    fn remove(&mut self, id: LeaseId) {
        let Some(kept) = self.leases.remove(&id) else { return };
        self.lapses.set(id, None);
        let Some(leases) = self.sites.get_mut(&kept.site) else { return };
        leases.remove(&id);
        if leases.is_empty() {
            self.sites.remove(&kept.site);
            self.due.set(kept.site, None);
        }
    }
}

impl ServiceManager {
    /// When the next heartbeat is due, or a site was silent for too long.
    pub(super) fn next_heartbeat(&self) -> Option<Time> {
        self.heartbeats.next()
    }

    /// Follows what became of a lease.
    pub(super) fn keep_beating(&mut self, id: LeaseId, at: Time) {
        let lease = self.state.leases.get(&id);
        let known = self.heartbeats.leases.get(&id).copied();
        let heard = known.map_or((at, true), |known| (known.heard, known.confirmed));
        match (lease.and_then(|lease| Kept::of(lease, heard)), known) {
            (None, None) => return,
            (None, Some(_)) => return self.heartbeats.remove(id),
            (Some(kept), Some(known)) if kept.keep_alive == known.keep_alive => {
                self.heartbeats.leases.insert(id, kept);
            }
            (Some(kept), Some(_) | None) => self.heartbeats.insert(id, kept, at),
        }
        self.set_lapse(id);
    }

    fn set_lapse(&mut self, id: LeaseId) {
        let Some(kept) = self.heartbeats.leases.get(&id).copied() else { return };
        let lead = self.leave_before.min(kept.keep_alive.part(heartbeat::LEAD));
        let lapse = self.believed_until(&kept).minus(lead);
        self.heartbeats.lapses.set(id, Some(lapse).filter(|_| kept.holds));
    }

    /// Until when the site surely keeps a lease: by its own clock it keeps it for the keep-alive and a margin.
    fn believed_until(&self, kept: &Kept) -> Time {
        let margins = if mutant!(BelievesBeyondSilence) { -4 } else { 2 };
        kept.heard.plus(kept.keep_alive).minus(self.base.margin().times(margins))
    }

    /// Whether nothing is known yet of a lease that depends on heartbeats: its site may have ended it while the guest was
    /// away.
    pub(super) fn is_unconfirmed(&self, id: LeaseId) -> bool {
        self.heartbeats.leases.get(&id).is_some_and(|kept| !kept.confirmed)
    }

    /// After a start nothing is known of what was heard before: the sites are sent heartbeats at once.
    pub(super) fn start_beating(&mut self, now: Time, out: &mut Output) {
        let ids: Vec<LeaseId> = self.heartbeats.leases.keys().copied().collect();
        for id in ids {
            if let Some(kept) = self.heartbeats.leases.get_mut(&id) {
                (kept.heard, kept.confirmed) = (now, false);
                self.heartbeats.due.set(kept.site, Some(now));
            }
            self.set_lapse(id);
        }
        self.beat_if_due(now, out);
    }

    /// Sends the heartbeats that are due, and has the guest leave leases of which its site is silent.
    pub(super) fn beat_if_due(&mut self, now: Time, out: &mut Output) {
        if self.heartbeats.leases.is_empty() {
            return;
        }
        if now < self.heartbeats.now {
            // A clock that was set back puts nothing off.
            for site in self.heartbeats.sites.keys().copied().collect::<Vec<_>>() {
                self.heartbeats.due.set(site, Some(now));
            }
        }
        self.heartbeats.now = now;
        while let Some(site) = self.heartbeats.due.due(now) {
            self.beat(now, site, out);
        }
        while let Some(lease) = self.heartbeats.lapses.due(now) {
            self.heartbeats.lapses.set(lease, None);
            self.site_is_silent(now, lease, out);
        }
    }

    fn beat(&mut self, now: Time, site: ActorId, out: &mut Output) {
        let next = self.heartbeats.period(site).map(|period| now.plus(period));
        self.heartbeats.due.set(site, next);
        let ids = self.heartbeats.sites.get(&site).into_iter().flatten();
        let kept = ids.filter_map(|id| self.heartbeats.leases.get(id));
        let leases: Vec<LinkHash> = kept.map(|kept| kept.ticket).collect();
        for leases in leases.chunks(MAX_LEASES) {
            let beat = Message::Heartbeat { leases: leases.to_vec() };
            out.replies.push(self.base.volatile(site, now, beat));
        }
    }

    /// The site keeps these leases, as of a heartbeat that was sent then.
    pub(super) fn heartbeat_heard(
        &mut self,
        now: Time,
        from: ActorId,
        (sent, leases): (Time, &[LinkHash]),
    ) -> Result<(), String> {
        if sent > now {
            return Err(format!("no heartbeat was sent at {sent} yet"));
        }
        for ticket in leases {
            self.kept_since(from, *ticket, sent);
        }
        Ok(())
    }

    /// The site of a lease has said that it kept it at an instant.
    pub(super) fn kept_since(&mut self, site: ActorId, ticket: LinkHash, sent: Time) {
        let Some(id) = self.lease_of(ticket) else { return };
        let Some(kept) = self.heartbeats.leases.get_mut(&id) else { return };
        if kept.site == site && kept.ticket == ticket && kept.heard <= sent {
            (kept.heard, kept.confirmed) = (sent, true);
            self.set_lapse(id);
        }
    }

    /// A site was silent for so long that it may end a lease soon: the guest leaves it while there is time.
    fn site_is_silent(&mut self, now: Time, lease: LeaseId, out: &mut Output) {
        let Some(kept) = self.heartbeats.leases.get(&lease).copied() else { return };
        let by = self.believed_until(&kept);
        if mutant!(SilenceIsIgnored) {
            return;
        }
        self.emit(now, SiteUnheard { lease, since: kept.heard }, out);
        if let Some(
            State::Joining { .. }
            | State::Active { .. }
            | State::Leaving { then: AfterLeave::End, .. },
        ) = self.lease(lease)
        {
            self.emit(now, LeaveBegun { lease, then: AfterLeave::Close }, out);
        }
        if !matches!(self.lease(lease), Some(State::Leaving { .. })) {
            return;
        }
        if by <= now {
            self.emit(now, CloseBegun { lease }, out);
        } else if self.gone_by(lease).is_some_and(|last| by < last) {
            self.emit(now, LeaveHastened { lease, by }, out);
        }
    }
}
