//! Taking units from those to whom they are worth least.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use super::Recalls;
use super::serving::Serving;
use super::standing::{Own, Standing, Standings};
use crate::broker::mapper::{Source, UnitOrder, View};
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::time::{Span, Time};
use crate::mutants::mutant;
use crate::service::steps::Kind;
use crate::ticket::link::{AccountId, LinkHash};

/// How long before its end nothing is taken from a lease any more.
const TOO_LATE: Span = Span::MINUTE;

/// What is taken in a round.
pub(super) struct Ordering<'a> {
    view: &'a View,
    standings: &'a Standings<'a>,
    min_gain: u64,
    notice: Span,
    /// How many units of each service and kind are taken.
    lost: BTreeMap<usize, u32>,
    /// How many of each ticket.
    taken: BTreeMap<LinkHash, u32>,
    /// How many may still be taken, by type.
    left: BTreeMap<Name, u32>,
    pub(super) orders: Vec<UnitOrder>,
    /// Why no more is ordered for a service.
    pub(super) blocked: BTreeMap<usize, String>,
}

/// The next unit that a service claims.
struct Claim {
    worth: u64,
    standing: usize,
    number: u32,
    left: u32,
}

/// The unit that is worth least, by its holder and its ticket.
struct Victim {
    worth: u64,
    standing: usize,
    ticket: LinkHash,
}

impl<'a> Ordering<'a> {
    pub(super) fn new(view: &'a View, standings: &'a Standings<'a>, recall: &Recalls) -> Self {
        Self {
            view,
            standings,
            min_gain: recall.min_gain.max(1),
            notice: recall.notice,
            lost: BTreeMap::new(),
            taken: BTreeMap::new(),
            left: BTreeMap::new(),
            orders: Vec::new(),
            blocked: BTreeMap::new(),
        }
    }

    /// Orders what is claimed and missing: each time for the claim that is worth most, of the use that is worth
    /// least. Each order raises what all units together are worth.
    pub(super) fn order(&mut self, serving: &Serving<'_>) {
        let mut claims: Vec<Claim> = Vec::new();
        for &(standing, request) in serving.open() {
            let of = self.standings.get(standing);
            let ordered = of.ordered - self.ended(of, serving);
            let missing = serving.missing(request).min(of.claimed()).saturating_sub(ordered);
            let number = of.held + ordered + 1;
            claims.extend(self.next_claim(standing, number, missing));
        }
        while let Some(at) =
            (0..claims.len()).max_by_key(|&at| (claims[at].worth, claims[at].standing))
        {
            let claim = claims.swap_remove(at);
            match self.victim(&claim) {
                Ok(victim) => {
                    self.place(&claim, &victim);
                    claims.extend(self.next_claim(
                        claim.standing,
                        claim.number + 1,
                        claim.left - 1,
                    ));
                }
                Err(why) => drop(self.blocked.insert(claim.standing, why)),
            }
        }
    }

    /// The units of orders for a service that end in this round.
    fn ended(&self, of: &Standing<'_>, serving: &Serving<'_>) -> u32 {
        let orders = self.view.orders().iter().filter(|(number, open)| {
            let for_it = open.order.claimant == *of.id && open.order.kind == of.want.kind;
            for_it && serving.has_ended(*number)
        });
        orders.map(|(_, open)| open.order.units.get()).sum()
    }

    fn next_claim(&mut self, standing: usize, number: u32, left: u32) -> Option<Claim> {
        if left == 0 {
            return None;
        }
        let worth = self.standings.get(standing).lasting_claim(number);
        if worth.is_none() {
            let until = self.standings.get(standing).lasts_from(number);
            let why = format!("what it claims has yet to last, until {until}");
            self.blocked.entry(standing).or_insert(why);
        }
        Some(Claim { worth: worth?, standing, number, left })
    }

    /// The use that is worth least of all that could end for a claim, if that is worth less by the least gain.
    fn victim(&self, claim: &Claim) -> Result<Victim, String> {
        let claimant = self.standings.get(claim.standing);
        let kind = &claimant.want.kind;
        let left = self.left.get(&kind.resource).copied();
        if left.unwrap_or_else(|| self.view.moves_left(&kind.resource)) == 0 {
            let until = self.view.moves_again(&kind.resource);
            let until = until.map_or_else(String::new, |at| format!(", until {at}"));
            return Err(format!("no more units of `{}` may be moved now{until}", kind.resource));
        }
        let sources: Vec<Source> = self.view.sources_of(&kind.resource).collect();
        let least = self.least(claimant, &suiting(&sources, kind));
        let Some(victim) = least else {
            return Err("no service has such units that can be recalled".to_owned());
        };
        let gains = victim.worth.saturating_add(self.min_gain) <= claim.worth;
        if gains || mutant!(OrdersWithoutGain) {
            return Ok(victim);
        }
        let holder = self.standings.get(victim.standing).name();
        let (worth, gain) = (victim.worth, self.min_gain);
        Err(format!("the least use is {holder}'s, worth {worth}: it takes {gain} more than that"))
    }

    fn least(&self, claimant: &Standing<'_>, suiting: &BTreeSet<AccountId>) -> Option<Victim> {
        let resource = &claimant.want.kind.resource;
        let all = self.standings.all().iter().enumerate();
        let others =
            all.filter(|(_, of)| of.id != claimant.id && of.want.kind.resource == *resource);
        let victims = others.filter_map(|(at, of)| {
            let lost = self.lost.get(&at).copied().unwrap_or(0);
            let number = of.held.checked_sub(lost).filter(|number| *number > 0)?;
            let urgency = of.urgency(number);
            let own = of.own.iter().filter(|own| suiting.contains(&own.grant.account));
            // Of those that are worth the same, the one that can be taken first.
            let least = own.filter_map(|own| {
                let due = self.due(own)?;
                Some((of.in_use((number, urgency), own), due, own.grant.ticket))
            });
            let (worth, _, ticket) = least.min()?;
            Some(Victim { worth, standing: at, ticket })
        });
        victims.min_by_key(|victim| (victim.worth, victim.standing))
    }

    /// When a unit of a ticket could be taken, if one can.
    fn due(&self, own: &Own<'_>) -> Option<Time> {
        let grant = own.grant;
        let taken = self.taken.get(&grant.ticket).copied().unwrap_or(0);
        let notice = grant.notice?.max(self.notice);
        let due = self.view.now().plus(notice).max(grant.not_before.unwrap_or(Time::MIN));
        (taken < own.units && due < grant.term.end().minus(TOO_LATE)).then_some(due)
    }

    fn place(&mut self, claim: &Claim, victim: &Victim) {
        let (claimant, holder) =
            (self.standings.get(claim.standing), self.standings.get(victim.standing));
        let resource = &claimant.want.kind.resource;
        let left = self.left.get(resource).copied();
        let left = left.unwrap_or_else(|| self.view.moves_left(resource));
        self.left.insert(resource.clone(), left - 1);
        *self.lost.entry(victim.standing).or_default() += 1;
        *self.taken.entry(victim.ticket).or_default() += 1;
        let same = |order: &&mut UnitOrder| {
            order.ticket == victim.ticket
                && order.claimant == *claimant.id
                && order.kind == claimant.want.kind
        };
        if let Some(order) = self.orders.iter_mut().find(same) {
            order.units = order.units.saturating_add(1);
            order.claim = order.claim.min(claim.worth);
            order.worth = order.worth.max(victim.worth);
            return;
        }
        self.orders.push(UnitOrder {
            claimant: claimant.id.clone(),
            kind: claimant.want.kind.clone(),
            holder: holder.id.clone(),
            ticket: victim.ticket,
            units: NonZeroU32::MIN,
            claim: claim.worth,
            worth: victim.worth,
        });
    }
}

/// The accounts whose units are of a kind.
fn suiting(sources: &[Source], kind: &Kind) -> BTreeSet<AccountId> {
    let requirements = kind.requirements();
    let suits = |source: &&Source| {
        requirements.first_broken(&source.attributes, &Properties::default()).is_none()
    };
    sources.iter().filter(suits).map(|source| source.account).collect()
}
