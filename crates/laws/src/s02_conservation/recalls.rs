//! What is recalled: no more runs under a delegation than stays of it, and no claimed right comes back.

use std::collections::BTreeMap;

use tenure_core::model::time::Time;
use tenure_core::site_authority::facts::{Recalled, RightsRecalled};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{AccountId, LinkHash, SignedLink};
use tenure_core::wire::recall::Level;

use super::{Charge, Checker};
use crate::{LawVerdict, Scene, Tally};

impl Checker {
    /// A site holds a delegation down to a level.
    pub(super) fn recalled(&mut self, scene: &Scene<'_>, fact: &Recalled) -> LawVerdict {
        let link = fact.ticket.bottom();
        if link.delegation.is_some() {
            self.levels.insert((scene.actor, link.account()), fact.level);
        }
        Ok(())
    }

    /// A broker hands a part of a delegation on, no more than stays of it.
    pub(super) fn sold(&mut self, scene: &Scene<'_>, ticket: &Ticket, tally: &mut Tally) -> LawVerdict {
        let [.., parent, child] = ticket.links() else { return Ok(()) };
        self.take(scene, parent, child, tally)?;
        let id = parent.account();
        self.within_level(scene, (id, child), |_, charge| charge.account == id, tally)
    }

    /// A site accepts a ticket, within what stays of each delegation above it.
    pub(super) fn accepted(&mut self, scene: &Scene<'_>, ticket: &Ticket, tally: &mut Tally) -> LawVerdict {
        self.claimed(scene, ticket, tally)?;
        let above = ticket.links().iter().filter(|link| link.delegation.is_some());
        let above: Vec<AccountId> = above.map(|link| link.account()).collect();
        self.above.insert((scene.actor, ticket.hash()), above.clone());
        above.iter().try_for_each(|&id| {
            let under = |hash, _: &Charge| {
                self.above.get(&(scene.actor, hash)).is_some_and(|above| above.contains(&id))
            };
            self.within_level(scene, (id, ticket.bottom()), under, tally)
        })
    }

    /// What runs under a delegation beside a new link is no more than stays of it.
    fn within_level(
        &self,
        scene: &Scene<'_>,
        (id, new): (AccountId, &SignedLink),
        under: impl Fn(LinkHash, &Charge) -> bool,
        tally: &mut Tally,
    ) -> LawVerdict {
        let me = scene.actor;
        let Some(level) = self.levels.get(&(me, id)).filter(|level| level.units < Level::ALL) else {
            return Ok(());
        };
        let Some(term) = new.term.from(level.from.max(scene.at)) else { return Ok(()) };
        let charges = self.taken.iter().filter(|((eyes, hash), charge)| *eyes == me && under(*hash, charge));
        let charges: Vec<&Charge> = charges.map(|(_, charge)| charge).collect();
        let edges = charges.iter().flat_map(|charge| charge.out.levels());
        let edges = edges.map(|(from, _)| from).filter(|&from| term.contains(from));
        let others = charges.iter().copied().filter(|charge| charge.link.hash() != new.hash());
        let others: Vec<&Charge> = others.collect();
        // What ran before the recall may exceed it; a later generation of that adds to it where it covers more only.
        let over = edges.chain([term.start()]).find(|&t| {
            let runs = runs_at(&charges, t);
            runs > i64::from(level.units) && runs > runs_at(&others, t)
        });
        tally.check(over.is_none(), || {
            let (name, link, at) = (scene.name(), new.hash(), over.unwrap_or(term.start()));
            format!("{name} lets ticket {link} exceed the {} units that stay of {id} at {at}", level.units)
        })
    }

    /// Rights that nobody had claimed are claimed and come back.
    pub(super) fn rights_recalled(
        &mut self,
        scene: &Scene<'_>,
        fact: &RightsRecalled,
        tally: &mut Tally,
    ) -> LawVerdict {
        let site = scene.model.sites.get(&scene.actor);
        let recall = site.and_then(|site| site.recalls.get(&fact.link));
        let Some(ticket) = recall.map(|recall| &recall.ticket) else { return Ok(()) };
        if fact.receipts.is_empty() {
            return Ok(());
        }
        for pair in ticket.links().windows(2) {
            self.take(scene, &pair[0], &pair[1], tally)?;
        }
        let key = (scene.actor, ticket.bottom().account());
        if !self.left.contains_key(&key) {
            self.open(scene.actor, ticket.bottom());
        }
        self.signed(scene, &[ticket], &fact.receipts, tally)?;
        let left = self.left.get(&key).and_then(|account| {
            account.left.first_short(ticket.bottom().term.from(scene.at)?, 0)
        });
        tally.check(left.is_none(), || {
            let (name, link) = (scene.name(), fact.link);
            format!("{name} recalls units of ticket {link} that were claimed")
        })
    }
}

/// How many units run at an instant. Of the generations of one delegation the largest counts.
fn runs_at(charges: &[&Charge], t: Time) -> i64 {
    let mut accounts: BTreeMap<AccountId, Vec<&Charge>> = BTreeMap::new();
    for &charge in charges {
        accounts.entry(charge.link.account()).or_default().push(charge);
    }
    let most = |generations: &Vec<&Charge>| {
        generations.iter().map(|generation| left_of(generation, generations, t)).max().unwrap_or(0)
    };
    accounts.values().map(most).sum()
}

/// What a generation has left at an instant: what came back of a later one came back of it too.
fn left_of(generation: &Charge, generations: &[&Charge], t: Time) -> i64 {
    if !generation.link.term.contains(t) {
        return 0;
    }
    let units = |charge: &Charge| i64::from(charge.link.units.get());
    let number = |charge: &Charge| charge.link.delegation.map(|one| one.generation);
    let later = generations.iter().filter(|other| {
        other.link.term.contains(t) && number(other) >= number(generation)
    });
    let back: i64 = later.map(|other| units(other) - other.out.free_at(t)).sum();
    (units(generation) - back).max(0)
}
