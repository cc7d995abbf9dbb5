//! Units that several claim. Two services tell of the same host, or one tells of a host that is leased for another,
//! or two sites lend it, or a broker says that another guest claims it: who has it is not known, so it counts for nobody
//! and is not called on, until a rule or a user says whose it is.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::facts::{
    AmbiguitySettled, Fact, Leased, Left, MemberAmbiguous, MemberCeded, MemberContested,
};
use super::hosts::OtherClaim;
use super::machine::{State, UnitUse};
use super::members::{HOST, names};
use super::services::SiteUnit;
use super::{Lease, Obligation, Output, ServiceManager};
use crate::actor::Emit as _;
use crate::driver::UnitId;
use crate::model::slice::{LeaseId, SliceName};
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::service::member::{MemberId, is_qualified};
use crate::ticket::Ticket;
use crate::ticket::link::LinkHash;
use crate::wire::message::LeasedUnit;

/// The most claims of one unit that are recorded.
const MAX_CLAIMS: usize = 64;

/// Who claims a unit: a service whose software tells of it, or for which it is leased.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Claimant {
    /// The service, or the slice of the lease.
    pub service: SliceName,
    /// The unit, if it is leased.
    pub unit: Option<SiteUnit>,
}

/// That somebody has a unit, with what speaks for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Who.
    pub by: Claimant,
    /// When its service told of it first, or its lease began.
    pub since: Time,
    /// Its lease and the ticket that a site has taken for it, if it is leased.
    pub lease: Option<(LeaseId, LinkHash)>,
}

/// A unit that several claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ambiguity {
    /// Two or more, or one if there are others.
    pub claims: Vec<Claim>,
    /// The claims of other guests.
    pub others: Vec<OtherClaim>,
    /// Since when that is known.
    pub since: Time,
    /// Whose it is, if a rule or a user has said so.
    pub kept: Option<Claimant>,
    /// Whether it is another guest's, if a rule or a user has said so.
    pub ceded: bool,
    /// Its units that were being joined when it was found that others claim it.
    joining: BTreeSet<(LeaseId, UnitId)>,
}

/// Whose a unit is that several claim.
enum Settled {
    Kept(Claimant),
    Ceded,
}

impl Ambiguity {
    fn is_open(&self) -> bool {
        self.kept.is_none() && !self.ceded
    }

    /// Whether a claim does not count.
    fn shuts_out(&self, claim: &Claim) -> bool {
        self.kept.as_ref() != Some(&claim.by)
    }

    /// The leased units that are not known to be somebody's.
    fn shut_out(&self) -> impl Iterator<Item = (LeaseId, SiteUnit)> {
        let out = self.claims.iter().filter(|claim| self.shuts_out(claim));
        out.filter_map(|claim| Some((claim.lease?.0, claim.by.unit?)))
    }
}

/// What says by itself whose a unit is that several claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Nothing does: a user has to.
    #[default]
    Never,
    /// It is whose lease a site has signed for, if it is one only.
    SignedLeaseWins,
    /// It is whose claim is the oldest, if it is one only.
    FirstSeen,
}

impl Rule {
    /// All service managers that have the same claims before them come to the same.
    fn settle(self, claims: &[Claim], others: &[OtherClaim]) -> Option<Settled> {
        let foreign = others.iter().map(|other| &other.claim);
        let (mut own, others): (Vec<&Claim>, usize) = match self {
            Self::Never => return None,
            Self::SignedLeaseWins => {
                let own = claims.iter().filter(|claim| claim.lease.is_some());
                (own.collect(), foreign.filter(|claim| claim.ticket.is_some()).count())
            }
            Self::FirstSeen => {
                let all = claims.iter().map(|claim| claim.since);
                let oldest = all.chain(foreign.clone().map(|claim| claim.since)).min();
                let own = claims.iter().filter(|claim| Some(claim.since) == oldest);
                (own.collect(), foreign.filter(|claim| Some(claim.since) == oldest).count())
            }
        };
        match (own.pop(), own.len(), others) {
            (Some(one), 0, 0) => Some(Settled::Kept(one.by.clone())),
            (None, _, 1..) => Some(Settled::Ceded),
            (Some(_), _, _) | (None, _, 0) => None,
        }
    }
}

/// The claims of this guest, and those of others.
type Claims = (Vec<Claim>, Vec<OtherClaim>);

/// All units that several claim, by what they are called.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ambiguities(BTreeMap<MemberId, Ambiguity>);

impl ServiceManager {
    /// The same with a rule by which it settles whose a unit is that several claim.
    #[must_use]
    pub fn settling(mut self, rule: Rule) -> Self {
        self.rule = rule;
        self
    }

    /// The units that several claim, by what they are called.
    pub fn ambiguities(&self) -> impl Iterator<Item = (&MemberId, &Ambiguity)> {
        self.state.ambiguities.0.iter()
    }

    /// The units of a lease that are not known to be its own.
    pub(super) fn ambiguous_of(&self, id: LeaseId) -> BTreeSet<UnitId> {
        let all = self.state.ambiguities.0.values().flat_map(Ambiguity::shut_out);
        all.filter(|(lease, _)| *lease == id).map(|(_, (_, unit))| unit).collect()
    }

    /// The units of a lease that are not called on as they are not known to be its own. What was being joined already is.
    pub(super) fn held_back(&self, id: LeaseId) -> BTreeSet<UnitId> {
        let mut all = self.ambiguous_of(id);
        let held = self.lease(id).and_then(State::held).filter(|_| !all.is_empty());
        for (unit, (_, usage)) in held.iter().flat_map(|held| &held.units) {
            let joining = |one: &Ambiguity| one.joining.contains(&(id, *unit));
            if *usage == UnitUse::Joining && self.state.ambiguities.0.values().any(joining) {
                all.remove(unit);
            }
        }
        all
    }

    /// Whether a service tells of a unit that is not known to be its own.
    pub fn is_ambiguous(&self, service: &SliceName, member: &MemberId) -> bool {
        let ambiguity = self.state.ambiguities.0.get(member);
        ambiguity.is_some_and(|ambiguity| {
            ambiguity.kept.as_ref().is_none_or(|kept| kept.service != *service)
        })
    }

    /// Notes which units several claim after the facts of this input, from the one of this place on.
    pub(super) fn find_ambiguities(&mut self, now: Time, first: usize, out: &mut Output) {
        let facts = out.facts.get(first..).unwrap_or_default().iter().map(|entry| &entry.fact);
        if !self.may_be_ambiguous(facts) {
            return;
        }
        let count = out.facts.len().saturating_sub(first) as u64;
        self.find_all_ambiguities(now, self.base.position.saturating_sub(count), out);
    }

    /// Notes which units several claim. What was owed before a position has been called on.
    pub(super) fn find_all_ambiguities(&mut self, now: Time, before: u64, out: &mut Output) {
        // What is left by that is claimed by nobody any more.
        while self.note_ambiguities(now, before, out) && self.leave_ambiguous(now, out) {}
    }

    /// Whether facts change who claims what. Without members and names of hosts nothing does.
    fn may_be_ambiguous<'a>(&self, mut facts: impl Iterator<Item = &'a Fact>) -> bool {
        let some = || !self.state.ambiguities.0.is_empty() || self.state.services.has_members();
        facts.any(|fact| {
            if let Fact::Leased(fact) = fact {
                return some() || fact.names_hosts();
            }
            let of_members = matches!(fact, Fact::MembersTold(_) | Fact::ServiceRemoved(_));
            let of_others = matches!(fact, Fact::HostsAnswered(_));
            of_members || of_others || (fact.lease_event().is_some() && some())
        })
    }

    fn note_ambiguities(&mut self, now: Time, before: u64, out: &mut Output) -> bool {
        let claims = self.claims();
        let known = &self.state.ambiguities.0;
        let over = known.keys().filter(|id| !claims.contains_key(*id));
        let over = over.map(|id| (id.clone(), Claims::default()));
        let new = claims.iter().filter(|(id, (own, others))| {
            let known = known.get(*id);
            known.is_none_or(|known| known.claims != *own || known.others != *others)
        });
        let changed: Vec<_> = over.chain(new.map(|(id, all)| (id.clone(), all.clone()))).collect();
        for (member, (claims, others)) in &changed {
            let joining = self.being_joined(claims, before);
            self.note_claims(now, member, (claims, others, joining), out);
            if self.state.ambiguities.0.get(member).is_some_and(Ambiguity::is_open) {
                self.settle_by_rule(now, member, self.rule.settle(claims, others), out);
            }
        }
        !changed.is_empty()
    }

    fn note_claims(
        &mut self,
        now: Time,
        member: &MemberId,
        (claims, others, joining): (&[Claim], &[OtherClaim], Vec<(LeaseId, UnitId)>),
        out: &mut Output,
    ) {
        let (member, claims, others) = (member.clone(), claims.to_vec(), others.to_vec());
        match others.is_empty() && joining.is_empty() {
            true => self.emit(now, MemberAmbiguous { member, claims }, out),
            false => self.emit(now, MemberContested { member, claims, others, joining }, out),
        }
    }

    /// Which of the claimed units are being joined: their call is owed since before a position.
    fn being_joined(&self, claims: &[Claim], before: u64) -> Vec<(LeaseId, UnitId)> {
        let units = claims.iter().filter_map(|claim| Some((claim.lease?.0, claim.by.unit?.1)));
        let since = |(id, unit): &(LeaseId, UnitId)| {
            self.state.pending.since(&Obligation::Join(*id, *unit))
        };
        units.filter(|unit| since(unit).is_some_and(|since| since < before)).collect()
    }

    fn settle_by_rule(
        &mut self,
        now: Time,
        member: &MemberId,
        settled: Option<Settled>,
        out: &mut Output,
    ) {
        let (member, by) = (member.clone(), Some(self.rule));
        match settled {
            Some(Settled::Kept(keep)) => {
                self.emit(now, AmbiguitySettled { member, keep, by }, out);
            }
            Some(Settled::Ceded) => self.emit(now, MemberCeded { member, by }, out),
            None => {}
        }
    }

    /// What several claim is left without a call.
    fn leave_ambiguous(&mut self, now: Time, out: &mut Output) -> bool {
        let all = self.state.ambiguities.0.values().flat_map(Ambiguity::shut_out);
        let leaving = all.filter(|(lease, (_, unit))| {
            let held = self.lease(*lease).and_then(|lease| lease.held());
            let usage = held.and_then(|held| held.units.get(unit));
            usage.is_some_and(|(_, usage)| *usage == UnitUse::Leaving)
        });
        let leaving: BTreeSet<_> = leaving.map(|(lease, (_, unit))| (lease, unit)).collect();
        for (lease, unit) in &leaving {
            self.emit(now, Left { lease: *lease, unit: *unit, error: None }, out);
        }
        !leaving.is_empty()
    }

    /// All units that two or more claim.
    fn claims(&self) -> BTreeMap<MemberId, Claims> {
        let contests = self.contests();
        let all = self.all_claims().into_iter().map(|(id, mut own)| {
            let mut others = contests.of(&id);
            own.truncate(MAX_CLAIMS);
            others.truncate(MAX_CLAIMS);
            (id, (own, others))
        });
        all.filter(|(_, (own, others))| own.len() > 1 || !others.is_empty()).collect()
    }

    /// All claims of this guest, by what the units are called.
    pub(super) fn all_claims(&self) -> BTreeMap<MemberId, Vec<Claim>> {
        let mut all: BTreeMap<MemberId, Vec<Claim>> = BTreeMap::new();
        for (service, record) in self.state.services.iter() {
            for (id, member) in &record.members {
                let by = Claimant { service: service.clone(), unit: None };
                let claim = Claim { by, since: member.since, lease: None };
                all.entry(id.clone()).or_default().push(claim);
            }
        }
        let leases = self.live.iter().filter_map(|id| Some((*id, self.state.leases.get(id)?)));
        for (id, lease) in leases {
            lease.claim(id, &mut all);
        }
        all
    }

    /// A user says whose a unit is that several claim.
    pub(super) fn settle_ambiguity(
        &mut self,
        now: Time,
        (member, keep): (MemberId, Claimant),
        out: &mut Output,
    ) -> Result<(), String> {
        let known = self.state.ambiguities.0.get(&member);
        let known = known.ok_or_else(|| format!("nobody or one only claims {member}"))?;
        if !known.claims.iter().any(|claim| claim.by == keep) {
            return Err(format!("{} does not claim {member}", keep.service));
        }
        if known.kept.as_ref() != Some(&keep) {
            self.emit(now, AmbiguitySettled { member, keep, by: None }, out);
        }
        Ok(())
    }

    /// A user says that a unit is another guest's.
    pub(super) fn cede(
        &mut self,
        now: Time,
        member: MemberId,
        out: &mut Output,
    ) -> Result<(), String> {
        let known = self.state.ambiguities.0.get(&member);
        let known = known.filter(|known| !known.others.is_empty());
        let known = known.ok_or_else(|| format!("no other guest claims {member}"))?;
        if !known.ceded {
            self.emit(now, MemberCeded { member, by: None }, out);
        }
        Ok(())
    }

    pub(super) fn member_ambiguous(&mut self, at: Time, fact: &MemberAmbiguous) {
        self.claimed(at, &fact.member, (&fact.claims, &[], &[]));
    }

    pub(super) fn member_contested(&mut self, at: Time, fact: &MemberContested) {
        self.claimed(at, &fact.member, (&fact.claims, &fact.others, &fact.joining));
    }

    /// What was said of a unit stands for as long as the one that it was said for claims it.
    fn claimed(
        &mut self,
        at: Time,
        member: &MemberId,
        (claims, others, joining): (&[Claim], &[OtherClaim], &[(LeaseId, UnitId)]),
    ) {
        let held_back = self.held_back_of(member, claims);
        let before = self.state.ambiguities.0.remove(member);
        if !claims.is_empty() {
            let stands = |kept: &Claimant| claims.iter().any(|claim| claim.by == *kept);
            let since = before.as_ref().map_or(at, |before| before.since);
            let kept = before.as_ref().and_then(|before| before.kept.clone()).filter(stands);
            let ceded = before.as_ref().is_some_and(|before| before.ceded) && !others.is_empty();
            let (claims, others) = (claims.to_vec(), others.to_vec());
            let joining = joining.iter().copied().collect();
            let now = Ambiguity { claims, others, since, kept, ceded, joining };
            self.state.ambiguities.0.insert(member.clone(), now);
        }
        self.refresh_claimed(held_back, at);
    }

    pub(super) fn ambiguity_settled(&mut self, at: Time, fact: &AmbiguitySettled) {
        let held_back = self.held_back_of(&fact.member, &[]);
        let Some(ambiguity) = self.state.ambiguities.0.get_mut(&fact.member) else { return };
        (ambiguity.kept, ambiguity.ceded) = (Some(fact.keep.clone()), false);
        self.refresh_claimed(held_back, at);
    }

    pub(super) fn member_ceded(&mut self, at: Time, fact: &MemberCeded) {
        let held_back = self.held_back_of(&fact.member, &[]);
        let Some(ambiguity) = self.state.ambiguities.0.get_mut(&fact.member) else { return };
        (ambiguity.kept, ambiguity.ceded) = (None, true);
        self.refresh_claimed(held_back, at);
    }

    /// The leases that claim a member or are about to, each with its units that are not called on so far.
    fn held_back_of(
        &self,
        member: &MemberId,
        claims: &[Claim],
    ) -> BTreeMap<LeaseId, BTreeSet<UnitId>> {
        let known = self.state.ambiguities.0.get(member);
        let known = known.into_iter().flat_map(|ambiguity| &ambiguity.claims);
        let leases = known.chain(claims).filter_map(|claim| Some(claim.lease?.0));
        leases.map(|lease| (lease, self.held_back(lease))).collect()
    }

    /// What is owed for leases follows from whose their units are.
    fn refresh_claimed(&mut self, held_back: BTreeMap<LeaseId, BTreeSet<UnitId>>, at: Time) {
        for (lease, held_back) in held_back {
            self.refresh(lease, at);
            for unit in held_back {
                self.call_anew(lease, unit, at);
            }
        }
        self.services_changed();
    }

    /// Calls on a unit that were held back are owed from now on.
    fn call_anew(&mut self, id: LeaseId, unit: UnitId, at: Time) {
        let ranges = [
            (Obligation::Tell(id, unit, 0), Obligation::Tell(id, unit, u32::MAX)),
            (Obligation::Warn(id, unit, 0), Obligation::Warn(id, unit, u32::MAX)),
            (Obligation::Install(id, unit, 0), Obligation::Install(id, unit, u32::MAX)),
            (Obligation::Remove(id, unit, 0), Obligation::Remove(id, unit, u32::MAX)),
        ];
        for (from, to) in ranges {
            let owed: Vec<Obligation> = self.state.pending.between(from, to).copied().collect();
            for obligation in owed {
                self.state.pending.settle(&obligation);
                self.require(obligation, at);
            }
        }
    }

    /// Whether an obligation is a call on a unit that is not known to be its lease's own.
    pub(super) fn calls_ambiguous(&self, obligation: &Obligation) -> bool {
        let (Obligation::Join(id, unit)
        | Obligation::Leave(id, unit)
        | Obligation::Tell(id, unit, _)
        | Obligation::Warn(id, unit, _)
        | Obligation::Install(id, unit, _)
        | Obligation::Remove(id, unit, _)) = obligation
        else {
            return false;
        };
        if mutant!(AmbiguousIsCalled) {
            return false;
        }
        !self.state.ambiguities.0.is_empty() && self.held_back(*id).contains(unit)
    }
}

impl Lease {
    /// Enters its units as claims: by the qualified names of their hosts, and by short names and addresses, which several
    /// sites may give, where a service tells of those.
    /// A member that a service tells of is no other one than the unit that is leased for it.
    fn claim(&self, id: LeaseId, all: &mut BTreeMap<MemberId, Vec<Claim>>) {
        let Some((held, site)) = self.state.held().zip(self.site()) else { return };
        let Some(ticket) = held.tickets.first().map(Ticket::hash) else { return };
        for (unit, usage) in held.units.values() {
            if matches!(usage, UnitUse::Left | UnitUse::Refused) {
                continue;
            }
            let by = Claimant { service: self.slice.clone(), unit: Some((site, unit.unit)) };
            let claim = Claim { by, since: held.term.start(), lease: Some((id, ticket)) };
            for (key, name) in names(unit) {
                let alone = key == HOST && is_qualified(name.as_str());
                if !alone && !all.contains_key(&name) {
                    continue;
                }
                let claims = all.entry(name).or_default();
                // A site lends a unit to one at a time: an earlier lease of it is about to be over.
                claims.retain(|other| match other.by.unit {
                    Some(other) => other != (site, unit.unit),
                    None => other.by.service != self.slice,
                });
                claims.push(claim.clone());
            }
        }
    }
}

impl Leased {
    /// Whether one of its units is a host by its qualified name.
    pub(super) fn names_hosts(&self) -> bool {
        let has_host = |unit: &LeasedUnit| unit.properties.get(HOST).is_some_and(is_qualified);
        self.units.iter().any(has_host)
    }
}
