//! Ledgers: at no instant do the parts of a ticket exceed it, and what came back can be cut again.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tenure_core::model::codec::{decode_state, encode};
use tenure_core::model::identity::{Scheme, Signer};
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::ledger::{LEDGER_RETENTION, Ledger, PartReturned};
use tenure_core::ticket::link::{Link, LinkHash, SignedLink};

use crate::common::{BROKER, GUEST, HOUR, RIVAL, SITE, at, cut, delegation, part, term, units};

/// What a model knows of a link that was entered.
struct Charge {
    link: SignedLink,
    charged: Option<Term>,
}

/// The reference: every charge kept, every question answered by looking at all of them, hour by hour.
#[derive(Default)]
struct Model {
    heads: Vec<SignedLink>,
    charges: Vec<Charge>,
}

impl Model {
    fn head(&self) -> &SignedLink {
        self.heads.last().unwrap()
    }

    fn running(&self, t: Time) -> impl Iterator<Item = &SignedLink> {
        let runs = move |charge: &&Charge| charge.charged.is_some_and(|term| term.contains(t));
        self.charges.iter().filter(runs).map(|charge| &charge.link)
    }

    fn limit(&self, t: Time) -> i64 {
        if self.head().term.contains(t) { i64::from(self.head().units.get()) } else { 0 }
    }

    fn free(&self, t: Time) -> i64 {
        self.limit(t) - self.running(t).map(|link| i64::from(link.units.get())).sum::<i64>()
    }

    /// The first hour at which a child exceeds the parent, and how many links show it at least.
    fn overdrawn(&self, child: &SignedLink) -> Option<(Time, usize)> {
        let wanted = i64::from(child.units.get());
        let at = hours(child.term.start(), child.term.end()).find(|&t| self.free(t) < wanted)?;
        let mut others: Vec<i64> = self.running(at).map(|l| i64::from(l.units.get())).collect();
        others.sort_unstable_by_key(|&units| -units);
        let (mut sum, mut links) = (wanted, 1);
        for units in others {
            if sum > self.limit(at) {
                break;
            }
            (sum, links) = (sum + units, links + 1);
        }
        Some((at, links))
    }

    fn find(&mut self, hash: LinkHash) -> Option<&mut Charge> {
        self.charges.iter_mut().find(|charge| charge.link.hash() == hash)
    }

    fn give_back(&mut self, hash: LinkHash, from: Time) -> Option<Term> {
        let charge = self.find(hash)?;
        let (charged, back) = (charge.charged?, charge.charged?.from(from)?);
        charge.charged = charged.until(from);
        Some(back)
    }
}

fn hours(from: Time, until: Time) -> impl Iterator<Item = Time> {
    let hour = |t: Time| t.as_micros() / Span::HOUR.as_micros();
    (hour(from)..hour(until)).map(|n| at(n * HOUR))
}

/// What happens to a ledger; times are in hours from now.
#[derive(Clone, Debug)]
enum Step {
    Enter { parent: usize, units: u32, start: i64, length: i64 },
    EnterAgain(usize),
    GiveBack { link: usize, from: i64 },
    Renew { units: u32, length: i64 },
    Wait(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let enter = (0..9usize, 1..5u32, -24..30i64, 1..30i64)
        .prop_map(|(parent, units, start, length)| Step::Enter { parent, units, start, length });
    prop_oneof![
        8 => enter,
        1 => (0..9usize).prop_map(Step::EnterAgain),
        3 => (0..9usize, 0..30i64).prop_map(|(link, from)| Step::GiveBack { link, from }),
        1 => (0..2u32, 0..40i64).prop_map(|(units, length)| Step::Renew { units, length }),
        2 => (1..12i64).prop_map(Step::Wait),
    ]
}

/// A ledger and its model, driven side by side.
struct Pair {
    ledger: Ledger,
    model: Model,
    now: i64,
    serial: u64,
}

impl Pair {
    fn new() -> Self {
        let (ledger, model) = (Ledger::default(), Model::default());
        let mut pair = Self { ledger, model, now: 0, serial: 0 };
        pair.open(4, 60);
        pair
    }

    fn hour(&self, from_now: i64) -> Time {
        at((self.now + from_now) * HOUR)
    }

    fn sign(&self, link: Link) -> SignedLink {
        SignedLink::sign(link, &Signer::from_seed(Scheme::None, [BROKER; 32]))
    }

    fn open(&mut self, n: u32, end: i64) {
        let of = term(0, end * HOUR);
        let generation = self.model.heads.len() as u32;
        let ticket = delegation(SITE, BROKER, n, of, (1, generation));
        let link = self.sign((**ticket.root()).clone());
        self.ledger.open(&link);
        self.model.heads.push(link);
    }

    fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let entered = self.model.charges.len();
        match *step {
            Step::Enter { parent, units, start, length } => {
                let parent = self.model.heads[parent % self.model.heads.len()].clone();
                self.serial += 1;
                let of = Term::new(self.hour(start), self.hour(start + length)).unwrap();
                let above = Ticket::root_of(parent.clone());
                let child = self.sign(part(&above, GUEST, units, of, self.serial));
                if child.follows(Some(&parent)).is_ok() {
                    self.enter(&parent, child)?;
                }
            }
            Step::EnterAgain(link) if entered > 0 => {
                let child = self.model.charges[link % entered].link.clone();
                let (parent, before) = (self.model.head().clone(), self.ledger.clone());
                if self.ledger.entered(child.hash()).is_some() {
                    prop_assert_eq!(self.ledger.check(&parent, &child), Ok(()));
                    self.ledger.enter(&parent, &child, self.hour(0));
                    prop_assert_eq!(&self.ledger, &before);
                }
            }
            Step::GiveBack { link, from } if entered > 0 => {
                let hash = self.model.charges[link % entered].link.hash();
                let from = self.hour(from);
                if self.ledger.entered(hash).is_some() {
                    let back = give_all(&mut self.ledger, hash, from);
                    prop_assert_eq!(back, self.model.give_back(hash, from));
                    prop_assert_eq!(give_all(&mut self.ledger, hash, from), None, "once only");
                }
            }
            Step::EnterAgain(_) | Step::GiveBack { .. } => {}
            Step::Renew { units, length } => {
                let head = self.model.head();
                let end = head.term.end().as_micros() / Span::HOUR.as_micros();
                self.open(head.units.get() + units, end + length);
            }
            Step::Wait(hours) => self.now += hours,
        }
        Ok(())
    }

    fn enter(&mut self, parent: &SignedLink, child: SignedLink) -> Result<(), TestCaseError> {
        let checked = self.ledger.check(parent, &child);
        match (self.model.overdrawn(&child), checked) {
            (None, Ok(())) => {
                self.ledger.enter(parent, &child, self.hour(0));
                let charged = Some(child.term);
                self.model.charges.push(Charge { link: child, charged });
            }
            (Some((at, fewest)), Err(shown)) => {
                prop_assert_eq!(shown.at, at, "the first instant");
                prop_assert_eq!(shown.links.len(), fewest, "no link too many");
                prop_assert_eq!(&shown.links[0], &child);
                let others = &shown.links[1..];
                prop_assert!(others.iter().all(|l| self.model.running(at).any(|r| r == l)));
                let sum: i64 = shown.links.iter().map(|link| i64::from(link.units.get())).sum();
                prop_assert!(sum > self.model.limit(at), "they exceed the parent");
            }
            other => prop_assert!(false, "the model and the ledger differ: {:?}", other),
        }
        Ok(())
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        let free = self.ledger.free(self.model.head().account()).unwrap();
        for t in hours(self.hour(-24), self.hour(100)) {
            prop_assert_eq!(free.free_at(t), self.model.free(t), "at {}", t);
            prop_assert!(free.free_at(t) >= 0, "exceeded at {}", t);
        }
        Ok(())
    }
}

#[test]
fn what_came_back_of_a_ticket_cannot_be_had_through_its_parts() {
    let hours = |start, end| term(start * HOUR, end * HOUR);
    let above = delegation(SITE, BROKER, 4, hours(0, 60), (1, 0));
    let ticket = cut(&above, BROKER, GUEST, 2, hours(0, 10), 1);
    let mut ledger = Ledger::default();
    ledger.enter(above.bottom(), ticket.bottom(), at(0));
    let back = PartReturned { number: 0, units: units(1), term: hours(4, 10) };
    ledger.give_back(ticket.bottom().hash(), back, at(4 * HOUR));
    let check = |ledger: &Ledger, n, of| {
        let part = cut(&ticket, GUEST, RIVAL, n, of, 2);
        ledger.check(ticket.bottom(), part.bottom()).map_err(|overdrawn| overdrawn.at)
    };
    assert_eq!(check(&ledger, 2, hours(0, 10)), Err(at(4 * HOUR)), "nothing is entered under it");
    assert_eq!(check(&ledger, 2, hours(0, 4)), Ok(()));
    let part = cut(&ticket, GUEST, RIVAL, 1, hours(0, 10), 3);
    ledger.enter(ticket.bottom(), part.bottom(), at(0));
    assert_eq!(check(&ledger, 1, hours(0, 10)), Err(at(4 * HOUR)), "one is");
    assert_eq!(check(&ledger, 1, hours(0, 4)), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_ledger_answers_as_the_list_of_its_charges(steps in prop::collection::vec(step(), 1..40)) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.take(step)?;
            pair.compare()?;
        }
    }
}

/// A delegation of 4 units over [0, 1h), and its renewal until 2h.
fn generations() -> (Ticket, Ticket) {
    let generation = |n, end| delegation(SITE, BROKER, 4, term(0, end), (1, n));
    (generation(0, HOUR), generation(1, 2 * HOUR))
}

fn free(ledger: &Ledger, of: &Ticket, secs: i64) -> i64 {
    ledger.free(of.bottom().account()).unwrap().free_at(at(secs))
}

#[test]
fn a_renewed_delegation_counts_once() {
    let (old, new) = generations();
    let mut ledger = Ledger::default();
    ledger.open(old.bottom());
    ledger.open(new.bottom());
    assert_eq!(free(&ledger, &old, 0), 4);
    assert_eq!(free(&ledger, &new, HOUR), 4);
    assert_eq!(free(&ledger, &new, 2 * HOUR), 0);
}

#[test]
fn a_generation_taken_in_twice_counts_once() {
    let (old, _) = generations();
    let mut ledger = Ledger::default();
    ledger.open(old.bottom());
    ledger.open(old.bottom());
    assert_eq!(free(&ledger, &old, 0), 4);
}

#[test]
fn what_was_cut_under_an_older_generation_is_charged_to_the_newer_one() {
    let (old, new) = generations();
    let first = cut(&old, BROKER, GUEST, 3, term(0, HOUR), 1);
    let second = cut(&new, BROKER, GUEST, 2, term(0, 2 * HOUR), 2);
    let mut ledger = Ledger::default();
    ledger.open(old.bottom());
    ledger.enter(old.bottom(), first.bottom(), at(0));
    ledger.open(new.bottom());
    let shown = ledger.check(new.bottom(), second.bottom()).unwrap_err();
    assert_eq!(shown.at, at(0));
    assert_eq!(shown.links, [second.bottom().clone(), first.bottom().clone()]);
}

#[test]
fn a_ticket_cut_under_an_older_generation_stays_good_after_the_renewal() {
    let (old, new) = generations();
    let mut ledger = Ledger::default();
    ledger.open(old.bottom());
    ledger.open(new.bottom());
    let late = cut(&old, BROKER, GUEST, 4, term(0, HOUR), 1);
    assert_eq!(ledger.check(old.bottom(), late.bottom()), Ok(()));
    ledger.enter(old.bottom(), late.bottom(), at(0));
    let next = cut(&new, BROKER, GUEST, 4, term(HOUR, 2 * HOUR), 2);
    assert_eq!(ledger.check(new.bottom(), next.bottom()), Ok(()));
}

#[test]
fn tickets_that_meet_at_an_instant_do_not_exceed_their_parent_there() {
    let (old, _) = generations();
    let mut ledger = Ledger::default();
    ledger.enter(old.bottom(), cut(&old, BROKER, GUEST, 4, term(0, 60), 1).bottom(), at(0));
    let next = cut(&old, BROKER, GUEST, 4, term(60, 120), 2);
    let overlapping = cut(&old, BROKER, GUEST, 1, term(59, 120), 3);
    assert_eq!(ledger.check(old.bottom(), next.bottom()), Ok(()));
    assert_eq!(ledger.check(old.bottom(), overlapping.bottom()).unwrap_err().at, at(59));
}

#[test]
fn a_link_given_back_twice_is_credited_once() {
    let (old, _) = generations();
    let link = cut(&old, BROKER, GUEST, 3, term(0, HOUR), 1);
    let mut ledger = Ledger::default();
    ledger.enter(old.bottom(), link.bottom(), at(0));
    assert_eq!(give_all(&mut ledger, link.hash(), at(600)), Some(term(600, HOUR)));
    assert_eq!(give_all(&mut ledger, link.hash(), at(600)), None);
    assert_eq!(give_all(&mut ledger, link.hash(), at(700)), None);
    assert_eq!((free(&ledger, &old, 599), free(&ledger, &old, 600)), (1, 4));
}

#[test]
fn a_link_is_forgotten_once_its_end_lies_beyond_what_is_remembered() {
    let (_, new) = generations();
    let [gone, kept, last] = [1, 2, 3].map(|n| {
        cut(&new, BROKER, GUEST, 1, term(0, if n == 1 { 60 } else { 61 }), n).bottom().clone()
    });
    let mut ledger = Ledger::default();
    ledger.enter(new.bottom(), &gone, at(0));
    ledger.enter(new.bottom(), &kept, at(0));
    ledger.enter(new.bottom(), &last, at(60).plus(LEDGER_RETENTION));
    assert_eq!(ledger.entered(gone.hash()), None);
    assert!(ledger.entered(kept.hash()).is_some());
    assert_eq!(units(1), kept.units);
}

/// Gives back all that is left of a link; answers when that is.
fn give_all(ledger: &mut Ledger, hash: LinkHash, from: Time) -> Option<Term> {
    let mut back = None;
    for (units, term) in ledger.left_of(hash, from) {
        let number = ledger.returns_of(hash).len() as u32;
        back = back.or(ledger.give_back(hash, PartReturned { number, units, term }, from));
    }
    back
}

/// Gives back some units of a link, or says why not.
fn give_part(ledger: &mut Ledger, hash: LinkHash, n: u32, over: Term) -> bool {
    let number = ledger.returns_of(hash).len() as u32;
    let part = PartReturned { number, units: units(n), term: over };
    let can = ledger.can_return(hash, &part);
    if can {
        ledger.give_back(hash, part, over.start());
    }
    can
}

#[test]
fn a_link_comes_back_part_by_part_and_never_twice() {
    let (old, _) = generations();
    let link = cut(&old, BROKER, GUEST, 3, term(0, HOUR), 1);
    let mut ledger = Ledger::default();
    ledger.enter(old.bottom(), link.bottom(), at(0));
    assert!(give_part(&mut ledger, link.hash(), 1, term(600, HOUR)));
    assert!(give_part(&mut ledger, link.hash(), 2, term(1800, HOUR)));
    assert!(!give_part(&mut ledger, link.hash(), 1, term(1800, HOUR)), "nothing is left by then");
    assert!(give_part(&mut ledger, link.hash(), 1, term(1200, 1800)));
    let levels = [599, 600, 1199, 1200, 1799, 1800].map(|t| free(&ledger, &old, t));
    assert_eq!(levels, [1, 2, 2, 3, 3, 4]);
    assert_eq!(ledger.left_of(link.hash(), at(1300)), [(units(1), term(1300, 1800))]);
    let left = ledger.left_of(link.hash(), at(0));
    assert_eq!(
        left,
        [(units(1), term(0, 1800)), (units(1), term(0, 1200)), (units(1), term(0, 600))]
    );
    let part = PartReturned { number: 0, units: units(1), term: term(1300, 1400) };
    assert!(!ledger.can_return(link.hash(), &part), "the number was used");
    let again: Ledger = decode_state(&encode(&ledger)).unwrap();
    assert_eq!(again, ledger);
}

#[test]
fn evidence_counts_what_was_charged_at_the_instant() {
    let (old, _) = generations();
    let link = cut(&old, BROKER, GUEST, 3, term(0, HOUR), 1);
    let mut ledger = Ledger::default();
    ledger.enter(old.bottom(), link.bottom(), at(0));
    give_part(&mut ledger, link.hash(), 2, term(600, HOUR));
    let fits = cut(&old, BROKER, GUEST, 3, term(600, HOUR), 2);
    assert_eq!(ledger.check(old.bottom(), fits.bottom()), Ok(()));
    let before = cut(&old, BROKER, GUEST, 3, term(599, HOUR), 3);
    let overdrawn = ledger.check(old.bottom(), before.bottom()).unwrap_err();
    assert_eq!((overdrawn.at, overdrawn.links.len(), overdrawn.shown), (at(599), 2, true));
}

#[test]
fn what_came_back_of_a_ticket_cannot_be_cut_from_it() {
    let (old, _) = generations();
    let link = cut(&old, BROKER, GUEST, 3, term(0, HOUR), 1);
    let mut ledger = Ledger::default();
    ledger.enter(old.bottom(), link.bottom(), at(0));
    ledger.open(link.bottom());
    give_part(&mut ledger, link.hash(), 2, term(600, HOUR));
    let small = cut(&link, GUEST, RIVAL, 1, term(0, HOUR), 2);
    let big = cut(&link, GUEST, RIVAL, 2, term(0, HOUR), 3);
    assert_eq!(ledger.check(link.bottom(), small.bottom()), Ok(()));
    assert_eq!(ledger.check(link.bottom(), big.bottom()).unwrap_err().at, at(600));
}
