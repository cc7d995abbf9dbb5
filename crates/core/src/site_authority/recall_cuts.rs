//! What recalls take of leases at a site, and what the holders are told.

use std::collections::{BTreeMap, BTreeSet};

use super::recall::{Cut, takes_at};
use super::returns::Parts;
use super::{Lease, Obligation, SiteAuthority};
use crate::actor::Emit as _;
use crate::driver::UnitId;
use crate::model::calendar::Calendar;
use crate::model::identity::ActorId;
use crate::model::time::{Term, Time};
use crate::site_authority::Output;
use crate::site_authority::facts::{LeaseClosed, LeaseCut, RecallNoted, UnitsRecalled};
use crate::site_authority::machine::{CloseReason, State};
use crate::ticket::Ticket;
use crate::ticket::link::{AccountId, LinkHash, SignedLink};
use crate::ticket::receipt::Receipt;
use crate::wire::message::Message;
use crate::wire::part::surplus;
use crate::wire::recall::{Level, Notice};

impl Lease {
    /// What the next recall takes of it, and the link that is recalled. While its units are set up it loses
    /// none, unless those that stay are too few for its guest.
    pub(super) fn next_cut(&self) -> Option<(LinkHash, &Cut)> {
        let open = self.cuts.iter().filter(|(_, cut)| match self.state {
            State::Early | State::Due | State::Active { .. } => !cut.done,
            State::Priming { .. } => !cut.done && cut.units < self.min_units.get(),
            State::Closed { .. } => false,
        });
        open.map(|(&link, cut)| (link, cut)).min_by_key(|(_, cut)| cut.at)
    }
}

impl SiteAuthority {
    /// What a recall takes of leases, and when.
    pub(super) fn cuts_of(&self, now: Time, ticket: &Ticket, level: Level) -> Vec<LeaseCut> {
        let link = ticket.bottom();
        if level.leaves_all(link) {
            return Vec::new();
        }
        if let Some(&hash) = self.state.by_ticket.get(&ticket.hash()) {
            let lease = self.state.leases.get(&hash).filter(|lease| lease.wanted > level.units);
            let at = lease.and_then(|lease| takes_at(lease, link, now, level.from));
            return at
                .map(|at| LeaseCut { lease: hash, units: level.units, at })
                .into_iter()
                .collect();
        }
        let mut leases: Vec<_> = self.leases_under(link.account()).collect();
        // Those that cannot be recalled stay, and of the others those that began first.
        leases.sort_by_key(|(hash, lease)| {
            let notice = lease.tickets[0].bottom().clauses.notice;
            (notice.is_some(), lease.term.start(), *hash)
        });
        let mut free = Calendar::default();
        // The next generation of a delegation lasts longer.
        let lasting = Term::new(link.term.start(), Time::MAX).ok();
        let term = lasting.filter(|_| link.delegation.is_some()).unwrap_or(link.term);
        free.add(term, i64::from(level.units));
        let mut cuts = Vec::new();
        for (hash, lease) in leases {
            let at = takes_at(lease, lease.tickets[0].bottom(), now, level.from);
            let room = lease.term.from(at.unwrap_or(now)).map_or(0, |term| free.free_over(term));
            let room = u32::try_from(room).unwrap_or(0).min(lease.wanted);
            free.add(lease.term, -i64::from(at.map_or(lease.wanted, |_| room)));
            if let Some(at) = at.filter(|_| room < lease.wanted) {
                cuts.push(LeaseCut { lease: hash, units: room, at });
            }
        }
        cuts
    }

    /// The leases whose tickets were cut from an account, at any depth.
    pub(super) fn leases_under(
        &self,
        account: AccountId,
    ) -> impl Iterator<Item = (LinkHash, &Lease)> {
        let above = move |lease: &Lease| {
            let links = lease.tickets[0].links();
            links[..links.len() - 1].iter().any(|link| link.account() == account)
        };
        self.state.live.iter().filter_map(move |hash| {
            let lease = self.state.leases.get(hash).filter(|lease| above(lease))?;
            Some((*hash, &**lease))
        })
    }

    /// Takes units of a lease.
    pub(super) fn cut(&mut self, now: Time, hash: LinkHash, out: &mut Output) {
        let Some(lease) = self.state.leases.get(&hash) else { return };
        let Some((link, cut)) = lease.next_cut() else { return };
        let (most, victims) = (cut.units, cut.victims.clone());
        let active = matches!(lease.state, State::Active { .. });
        let ends = most == 0 || (!active && most < lease.min_units.get());
        let units = match &lease.state {
            // A share goes on with less.
            State::Active { .. } if lease.divisible => Vec::new(),
            State::Active { units } => surplus(units.iter().copied(), most, &victims),
            State::Early | State::Due | State::Priming { .. } | State::Closed { .. } => Vec::new(),
        };
        let receipts = self.receipts_up_to(now, hash, link, (if ends { 0 } else { most }, most));
        if ends {
            let why = CloseReason::Recalled(link);
            self.emit(now, LeaseClosed { lease: hash, why, receipts }, out);
            self.repeat_answer(hash, hash, out);
        } else {
            self.emit(now, UnitsRecalled { lease: hash, link, units, receipts }, out);
            self.settle_modification(now, hash, out);
        }
        self.answer_recall_at_last(now, link, out);
    }

    /// Receipts for each link from the one that is recalled down to the lease's own: of its own comes back
    /// what is more than the lease keeps, of those above what is more than the recall leaves.
    fn receipts_up_to(
        &mut self,
        now: Time,
        hash: LinkHash,
        recalled: LinkHash,
        (kept, most): (u32, u32),
    ) -> Vec<Receipt> {
        let account = self.state.recalls.get(&recalled).map(|recall| recall.link().account());
        let (mut receipts, mut above) = (Vec::new(), BTreeMap::<_, (SignedLink, Parts)>::new());
        for ticket in self.tickets_of(hash) {
            let parts = self.surplus_of(ticket.bottom(), now, kept);
            let passed = self.surplus_of(ticket.bottom(), now, most);
            let links = ticket.links();
            let top = links.iter().position(|link| Some(link.account()) == account);
            let between = &links[top.unwrap_or(links.len() - 1)..links.len() - 1];
            // A delegation stays what it was: the level of its recall holds it down.
            for link in between.iter().filter(|link| link.delegation.is_none()) {
                let above = above.entry(link.hash()).or_insert_with(|| (link.clone(), Vec::new()));
                above.1.extend(passed.iter().copied());
            }
            receipts.extend(self.sign_receipts(ticket.bottom(), parts));
        }
        for (link, parts) in above.into_values() {
            receipts.extend(self.sign_receipts(&link, parts));
        }
        receipts
    }

    /// The holder of a lease knows of a recall, and may have named who goes first.
    pub(super) fn noted(
        &mut self,
        now: Time,
        from: ActorId,
        (ticket, link, number): (LinkHash, LinkHash, u32),
        victims: Vec<UnitId>,
        out: &mut Output,
    ) {
        let Some(lease) = self.state.leases.get(&ticket).filter(|l| l.holder() == from) else {
            return;
        };
        let Some(cut) = lease.cuts.get(&link).filter(|cut| cut.number == number) else { return };
        let units = lease.state.units();
        let count = units.len().saturating_sub(cut.units as usize);
        let distinct: BTreeSet<_> = victims.iter().collect();
        let fit = distinct.len() == victims.len()
            && victims.len() <= count
            && victims.iter().all(|victim| units.contains(victim));
        let news = fit && !cut.done && !victims.is_empty() && cut.victims != victims;
        let open = self.state.pending.requires(&Obligation::Notice(ticket, link));
        let asks = !victims.is_empty();
        if news || open {
            let victims = if news { victims } else { cut.victims.clone() };
            self.emit(now, RecallNoted { lease: ticket, link, victims }, out);
        }
        // Whoever names victims waits for the word that they go first.
        if asks && let Some((holder, message)) = self.notice(ticket, link) {
            let cause = self.state.leases.get(&ticket).and_then(|lease| lease.cuts.get(&link));
            out.replies.extend(cause.map(|cut| self.base.answer(holder, cut.cause, message)));
        }
    }

    /// The holder of a ticket that is not redeemed knows of a recall.
    pub(super) fn rights_noted(
        &mut self,
        now: Time,
        from: ActorId,
        (link, number): (LinkHash, u32),
        out: &mut Output,
    ) {
        let recall = self.state.recalls.get(&link);
        let news = recall.is_some_and(|recall| {
            recall.link().holder == from
                && recall.level.number == number
                && !self.state.leases.contains_key(&link)
                && self.state.pending.requires(&Obligation::Notice(link, link))
        });
        if news {
            self.emit(now, RecallNoted { lease: link, link, victims: Vec::new() }, out);
        }
    }

    /// What the holder of a lease, or of a ticket that is not redeemed, is told of a recall.
    pub(super) fn notice(&self, lease: LinkHash, link: LinkHash) -> Option<(ActorId, Message)> {
        let Some(record) = self.state.leases.get(&lease) else {
            return self.rights_notice(link);
        };
        let Cut { number, units, at, victims, .. } = record.cuts.get(&link)?.clone();
        let told = Notice { link, number, units, at, victims, unclaimed: false };
        Some((record.holder(), Message::RecallNotice { ticket: lease, told }))
    }

    fn rights_notice(&self, link: LinkHash) -> Option<(ActorId, Message)> {
        let recall = self.state.recalls.get(&link)?;
        let (number, units) = (recall.level.number, recall.stay);
        let at = recall.level.from.max(recall.told);
        let told = Notice { link, number, units, at, victims: Vec::new(), unclaimed: true };
        Some((recall.link().holder, Message::RecallNotice { ticket: link, told }))
    }
}
