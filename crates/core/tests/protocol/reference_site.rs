//! A site beside a slow one that is obviously right: plain lists of tickets, each minute looked at.
//!
//! Random streams of tickets, some of them beyond what their issuer holds, redeemed, extended, handed on and given
//! back in parts and whole: both must accept the same, and lend the same number of units at each minute.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use proptest::prelude::*;
use tenure_core::driver::UnitId;
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::runtime::Fact;
use tenure_core::site_authority::facts;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{LinkHash, SignedLink};
use tenure_core::wire::message::Message;
use tenure_core::wire::part::Part;

use crate::common::world::{Scene, World};
use crate::common::{BROKER, GUEST, RIVAL, SITE, letter, part, redeem, signer, units};

/// The units of the one delegation.
const STOCK: u32 = 4;

/// How long a stream can last; no ticket ends later.
const MINUTES: Minute = 120;

/// Minutes since the beginning.
type Minute = i64;

fn minute(n: Minute) -> Time {
    Time::ZERO.plus(Span::MINUTE.times(n))
}

fn minutes(t: Time) -> Minute {
    t.as_micros() / Span::MINUTE.as_micros()
}

/// A ticket is named by how many there are newer ones.
#[derive(Clone, Debug)]
enum Act {
    /// The broker issues a ticket to the guest, whether or not it has the units.
    Cut {
        units: u32,
        start: Minute,
        lasts: Minute,
    },
    /// The guest hands a part of a ticket on.
    HandOn {
        nth: usize,
        units: u32,
    },
    /// The broker issues a ticket that continues the lease of another.
    CutExtension {
        nth: usize,
        fewer: u32,
        lasts: Minute,
    },
    Redeem(usize),
    Close(usize),
    ReturnUnits {
        nth: usize,
        units: usize,
    },
    ReturnTime {
        nth: usize,
        after: Minute,
    },
    ReturnRights {
        nth: usize,
        units: u32,
        after: Minute,
    },
    Pass(Minute),
}

/// What the slow site knows of a link.
#[derive(Debug)]
struct Claim {
    parent: LinkHash,
    /// For how many units it is charged, at each minute.
    charged: Vec<u32>,
}

/// What became of a ticket that was shown.
#[derive(Clone, Debug, PartialEq)]
enum Fate {
    Refused,
    /// Redeemed: the ticket that its lease began with.
    Lease(LinkHash),
    /// Given back without a lease.
    Surrendered,
}

#[derive(Debug)]
struct Lease {
    tickets: Vec<LinkHash>,
    /// The first minute in which it is over.
    end: Minute,
    closed: bool,
}

/// The slow site.
#[derive(Default)]
struct Reference {
    claims: BTreeMap<LinkHash, Claim>,
    fates: BTreeMap<LinkHash, Fate>,
    leases: BTreeMap<LinkHash, Lease>,
}

fn span(link: &SignedLink) -> std::ops::Range<usize> {
    let at = |t: Time| usize::try_from(minutes(t)).unwrap();
    at(link.term.start())..at(link.term.end())
}

impl Reference {
    fn used(&self, ticket: LinkHash) -> bool {
        matches!(self.fates.get(&ticket), Some(Fate::Lease(_) | Fate::Surrendered))
    }

    /// What a link can cover at a minute, beside what it covers already.
    fn room(&self, link: &SignedLink, t: usize) -> u32 {
        let has = match self.claims.get(&link.hash()) {
            Some(claim) => claim.charged[t],
            None => link.units.get(),
        };
        let children = self.claims.values().filter(|claim| claim.parent == link.hash());
        has - children.map(|claim| claim.charged[t]).sum::<u32>()
    }

    /// Whether each link of a chain fits under the one above, none of which is used itself.
    fn covers(&self, ticket: &Ticket) -> bool {
        let links = ticket.links();
        let used = links[..links.len() - 1].iter().any(|link| self.used(link.hash()));
        !used
            && links.windows(2).all(|pair| {
                let fits = |t| pair[1].units.get() <= self.room(&pair[0], t);
                self.claims.contains_key(&pair[1].hash()) || span(&pair[1]).all(fits)
            })
    }

    fn handed_on(&self, ticket: LinkHash) -> bool {
        self.claims.values().any(|claim| claim.parent == ticket)
    }

    fn enter(&mut self, ticket: &Ticket) {
        for pair in ticket.links().windows(2) {
            self.claims.entry(pair[1].hash()).or_insert_with(|| {
                let mut charged = vec![0; usize::try_from(MINUTES).unwrap()];
                charged[span(&pair[1])].fill(pair[1].units.get());
                Claim { parent: pair[0].hash(), charged }
            });
        }
    }

    /// From `from` on no more than `most` units of a ticket are charged.
    fn keep(&mut self, ticket: LinkHash, from: Minute, most: u32) {
        let charged = &mut self.claims.get_mut(&ticket).unwrap().charged;
        let later = charged.iter_mut().skip(usize::try_from(from).unwrap());
        later.for_each(|units| *units = most.min(*units));
    }

    /// The units of a lease at a minute.
    fn units_of(&self, lease: &Lease, t: Minute) -> u32 {
        let t = usize::try_from(t).unwrap();
        lease.tickets.iter().map(|ticket| self.claims[ticket].charged[t]).sum()
    }

    fn is_active(&self, lease: &Lease, now: Minute) -> bool {
        let begins = self.claims[&lease.tickets[0]].charged.iter().position(|units| *units > 0);
        let begun = begins.is_some_and(|begins| i64::try_from(begins).unwrap() <= now);
        !lease.closed && begun && now < lease.end
    }
}

struct Pair {
    now: Minute,
    world: World,
    slow: Reference,
    tickets: Vec<Ticket>,
    /// The number of the next return of a ticket.
    returns: u32,
}

impl Pair {
    fn new() -> Self {
        let world = Scene { stock: STOCK, ..Scene::default() }.open();
        Self { now: 0, world, slow: Reference::default(), tickets: Vec::new(), returns: 0 }
    }

    fn ticket(&self, nth: usize) -> Option<Ticket> {
        let place = self.tickets.len().checked_sub(1 + nth % self.tickets.len().max(1))?;
        Some(self.tickets[place].clone())
    }

    /// Shows the site something; the facts that follow at once.
    fn show(&mut self, ticket: &Ticket, message: Message) -> Vec<facts::Fact> {
        let holders = [GUEST, RIVAL];
        let holder = holders.into_iter().find(|&who| signer(who).id() == ticket.bottom().holder);
        let out = self.world.deliver(SITE, &letter(holder.unwrap(), SITE, message));
        self.world.run();
        let of_site = |entry: tenure_core::runtime::Entry| match entry.fact {
            Fact::SiteAuthority(fact) => Some(fact),
            Fact::Broker(_) | Fact::ServiceManager(_) => None,
        };
        out.facts.into_iter().filter_map(of_site).collect()
    }

    fn issue(
        &mut self,
        parent: &Ticket,
        (by, to): (u8, u8),
        n: u32,
        of: Term,
        extends: Option<LinkHash>,
    ) {
        let serial = 1000 + self.tickets.len() as u64;
        let mut link = part(parent, to, n, of, serial);
        link.extends = extends;
        self.tickets.push(parent.with(SignedLink::sign(link, &signer(by))));
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Cut { units, start, lasts } => {
                let start = minute(self.now + start);
                let of = Term::lasting(start, Span::MINUTE.times(lasts)).unwrap();
                let delegation = self.world.delegation();
                self.issue(&delegation, (BROKER, GUEST), units, of, None);
            }
            Act::HandOn { nth, units } => {
                let Some(ticket) = self.ticket(nth) else { return };
                let link = ticket.bottom();
                if link.holder == signer(GUEST).id() && link.extends.is_none() {
                    let units = units.min(link.units.get());
                    self.issue(&ticket, (GUEST, RIVAL), units, link.term, None);
                }
            }
            Act::CutExtension { nth, fewer, lasts } => self.cut_extension(nth, fewer, lasts),
            Act::Redeem(nth) => self.redeem(nth),
            Act::Close(nth) => self.close(nth),
            Act::ReturnUnits { nth, units } => self.return_units(nth, units),
            Act::ReturnTime { nth, after } => self.return_time(nth, after),
            Act::ReturnRights { nth, units, after } => self.return_rights(nth, units, after),
            Act::Pass(n) => {
                self.now += n;
                self.world.advance_to(minute(self.now));
            }
        }
    }

    fn cut_extension(&mut self, nth: usize, fewer: u32, lasts: Minute) {
        let Some(ticket) = self.ticket(nth) else { return };
        let Some(Fate::Lease(lease)) = self.slow.fates.get(&ticket.hash()) else { return };
        let lease = &self.slow.leases[lease];
        let (newest, end) = (*lease.tickets.last().unwrap(), lease.end);
        let units = self.slow.units_of(lease, end - 1).saturating_sub(fewer).max(1);
        let of = Term::lasting(minute(end), Span::MINUTE.times(lasts)).unwrap();
        let to = if ticket.bottom().holder == signer(GUEST).id() { GUEST } else { RIVAL };
        let delegation = self.world.delegation();
        self.issue(&delegation, (BROKER, to), units, of, Some(newest));
    }

    fn redeem(&mut self, nth: usize) {
        let Some(ticket) = self.ticket(nth) else { return };
        let (hash, link) = (ticket.hash(), ticket.bottom());
        let Message::Redeem { lease, slice, configuration, victims, .. } = redeem(&ticket) else {
            panic!()
        };
        let min_units = NonZeroU32::MIN;
        let message = Message::Redeem {
            ticket: ticket.clone(),
            lease,
            slice,
            min_units,
            configuration,
            victims,
        };
        let facts = self.show(&ticket, message);
        let slow = &mut self.slow;
        let over = minutes(link.term.end()) <= self.now;
        let spent = slow.claims.get(&hash).is_some_and(|claim| {
            let left = claim.charged.iter().skip(usize::try_from(self.now).unwrap());
            link.extends.is_some() || left.sum::<u32>() == 0
        });
        let extended = link.extends.map(|extends| {
            let Some(Fate::Lease(lease)) = slow.fates.get(&extends) else { return None };
            let state = &slow.leases[lease];
            let fits = slow.is_active(state, self.now)
                && state.end == minutes(link.term.start())
                && link.units.get() <= slow.units_of(state, state.end - 1);
            fits.then_some(*lease)
        });
        if slow.fates.contains_key(&hash) || over || extended == Some(None) || spent {
            assert_eq!(facts, [], "{ticket} changes nothing");
        } else if slow.handed_on(hash) || !slow.covers(&ticket) {
            assert!(matches!(facts[..], [facts::Fact::TicketRefused(_)]), "{ticket}: {facts:?}");
            slow.fates.insert(hash, Fate::Refused);
        } else if let Some(Some(lease)) = extended {
            assert!(matches!(facts[..], [facts::Fact::LeaseExtended(_)]), "{ticket}: {facts:?}");
            slow.enter(&ticket);
            slow.fates.insert(hash, Fate::Lease(lease));
            let lease = slow.leases.get_mut(&lease).unwrap();
            lease.tickets.push(hash);
            lease.end = minutes(link.term.end());
        } else {
            assert!(matches!(facts[..], [facts::Fact::Redeemed(_), ..]), "{ticket}: {facts:?}");
            slow.enter(&ticket);
            slow.fates.insert(hash, Fate::Lease(hash));
            let charged = &slow.claims[&hash].charged;
            let end = 1 + charged.iter().rposition(|units| *units > 0).unwrap();
            let end = i64::try_from(end).unwrap();
            slow.leases.insert(hash, Lease { tickets: vec![hash], end, closed: false });
        }
    }

    fn close(&mut self, nth: usize) {
        let Some(ticket) = self.ticket(nth) else { return };
        let hash = ticket.hash();
        let facts = self.show(&ticket, Message::Close { tickets: vec![ticket.clone()] });
        match self.slow.fates.get(&hash) {
            Some(Fate::Lease(lease)) => {
                let live =
                    !self.slow.leases[lease].closed && self.now < self.slow.leases[lease].end;
                assert_eq!(
                    matches!(facts[..], [facts::Fact::LeaseClosed(_), ..]),
                    live,
                    "{facts:?}"
                );
                self.end(*lease);
            }
            Some(Fate::Refused | Fate::Surrendered) => assert_eq!(facts, []),
            None if minutes(ticket.bottom().term.end()) <= self.now => assert_eq!(facts, []),
            None if self.slow.handed_on(hash) || !self.slow.covers(&ticket) => {
                assert!(matches!(facts[..], [facts::Fact::TicketRefused(_)]), "{facts:?}");
                self.slow.fates.insert(hash, Fate::Refused);
            }
            None => {
                assert!(matches!(facts[..], [facts::Fact::TicketSurrendered(_)]), "{facts:?}");
                self.slow.enter(&ticket);
                self.slow.keep(hash, self.now, 0);
                self.slow.fates.insert(hash, Fate::Surrendered);
            }
        }
    }

    /// A lease ends now, and all that is left of its tickets comes back.
    fn end(&mut self, lease: LinkHash) {
        let tickets = self.slow.leases[&lease].tickets.clone();
        tickets.into_iter().for_each(|ticket| self.slow.keep(ticket, self.now, 0));
        self.slow.leases.get_mut(&lease).unwrap().closed = true;
    }

    fn return_part(&mut self, ticket: &Ticket, part: Part) -> Vec<facts::Fact> {
        self.returns += 1;
        let number = self.returns;
        self.show(ticket, Message::Return { ticket: ticket.clone(), number, part })
    }

    fn return_units(&mut self, nth: usize, units: usize) {
        let Some(ticket) = self.ticket(nth) else { return };
        let hash = ticket.hash();
        let held = self.world.site().lease(hash).map(|state| state.units()).unwrap_or_default();
        let named: Vec<UnitId> = held.iter().copied().take(units).collect();
        let facts = self.return_part(&ticket, Part::Units(named.clone()));
        let lease =
            self.slow.leases.get(&hash).filter(|lease| self.slow.is_active(lease, self.now));
        let Some(lease) = lease else { return assert_eq!(facts, []) };
        if named.len() == held.len() {
            assert!(matches!(facts[..], [facts::Fact::LeaseClosed(_), ..]), "{facts:?}");
            return self.end(hash);
        }
        assert!(matches!(facts[..], [facts::Fact::UnitsReturned(_), ..]), "{facts:?}");
        let most = u32::try_from(held.len() - named.len()).unwrap();
        for ticket in lease.tickets.clone() {
            self.slow.keep(ticket, self.now, most);
        }
    }

    fn return_time(&mut self, nth: usize, after: Minute) {
        let Some(ticket) = self.ticket(nth) else { return };
        let (hash, until) = (ticket.hash(), self.now + after);
        let facts = self.return_part(&ticket, Part::Until(minute(until)));
        let lease =
            self.slow.leases.get(&hash).filter(|lease| self.slow.is_active(lease, self.now));
        let Some(lease) = lease.filter(|lease| self.now < until && until < lease.end) else {
            return assert_eq!(facts, []);
        };
        assert!(matches!(facts[..], [facts::Fact::TermReturned(_), ..]), "{facts:?}");
        for ticket in lease.tickets.clone() {
            self.slow.keep(ticket, until, 0);
        }
        self.slow.leases.get_mut(&hash).unwrap().end = until;
    }

    fn return_rights(&mut self, nth: usize, n: u32, after: Minute) {
        let Some(ticket) = self.ticket(nth) else { return };
        let (hash, link, from) = (ticket.hash(), ticket.bottom(), self.now + after);
        let facts = self.return_part(&ticket, Part::Rights { units: units(n), from: minute(from) });
        let over = minutes(link.term.end()) <= self.now;
        if over || self.slow.fates.contains_key(&hash) {
            return assert_eq!(facts, [], "{ticket} changes nothing");
        }
        if !self.slow.covers(&ticket) {
            assert!(matches!(facts[..], [facts::Fact::TicketRefused(_)]), "{facts:?}");
            self.slow.fates.insert(hash, Fate::Refused);
            return;
        }
        // They come back over all that is left of the term, and nobody has them.
        let first = usize::try_from(from).unwrap().max(span(link).start);
        let last = match self.slow.claims.get(&hash) {
            Some(claim) => claim.charged.iter().rposition(|units| *units > 0).map_or(0, |t| t + 1),
            None => span(link).end,
        };
        let left = (first..last).map(|t| self.slow.room(link, t)).min();
        if left.is_none_or(|left| left < n) {
            return assert_eq!(facts, [], "{n} units of {ticket} are not left");
        }
        assert!(matches!(facts[..], [facts::Fact::RightsReturned(_)]), "{facts:?}");
        self.slow.enter(&ticket);
        let charged = &mut self.slow.claims.get_mut(&hash).unwrap().charged;
        charged[first..last].iter_mut().for_each(|units| *units -= n);
    }

    /// Each lease has as many units as its tickets are charged for, and none has a unit of another.
    fn compare(&self) {
        let mut taken = BTreeSet::new();
        for (hash, lease) in &self.slow.leases {
            let state = self.world.site().lease(*hash);
            let lent = state.map(|state| state.units()).unwrap_or_default();
            let expected = if self.slow.is_active(lease, self.now) {
                self.slow.units_of(lease, self.now)
            } else {
                0
            };
            assert_eq!(lent.len(), usize::try_from(expected).unwrap(), "{state:?}");
            assert!(lent.into_iter().all(|unit| taken.insert(unit)), "a unit in two leases");
        }
    }
}

fn act() -> impl Strategy<Value = Act> {
    let (nth, few) = (0..6usize, 1..4u32);
    prop_oneof![
        4 => (1..=STOCK, 0..5i64, 2..12i64)
            .prop_map(|(units, start, lasts)| Act::Cut { units, start, lasts }),
        2 => (nth.clone(), few.clone()).prop_map(|(nth, units)| Act::HandOn { nth, units }),
        2 => (nth.clone(), 0..2u32, 2..6i64)
            .prop_map(|(nth, fewer, lasts)| Act::CutExtension { nth, fewer, lasts }),
        6 => nth.clone().prop_map(Act::Redeem),
        1 => nth.clone().prop_map(Act::Close),
        2 => (nth.clone(), 0..4usize).prop_map(|(nth, units)| Act::ReturnUnits { nth, units }),
        1 => (nth.clone(), 0..6i64).prop_map(|(nth, after)| Act::ReturnTime { nth, after }),
        2 => (nth, few, 0..6i64)
            .prop_map(|(nth, units, after)| Act::ReturnRights { nth, units, after }),
        3 => (1..3i64).prop_map(Act::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_site_decides_like_one_of_plain_lists(acts in prop::collection::vec(act(), 1..24)) {
        let mut pair = Pair::new();
        for act in &acts {
            pair.act(act);
            pair.compare();
        }
    }
}
