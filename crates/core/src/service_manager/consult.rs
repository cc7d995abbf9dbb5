//! Leases in sequence of which the mapper is asked before they go on.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::mapper::GateChoice;
use super::sequence::{Gate, MAX_AFTER, On};
use super::{Output, ServiceManager};
use crate::actor::Emit as _;
use crate::actor::fact::truncate_text;
use crate::model::property::Properties;
use crate::model::slice::LeaseId;
use crate::model::time::{Span, Time};
use crate::service_manager::facts::{GateAnswered, GateReached};
use crate::wire::message::MAX_CONFIGURATION;

/// How long a lease stays at a gate for its mapper's answer.
pub const ANSWER_WITHIN: Span = Span::MINUTE.times(5);

/// How far the question to the mapper is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Consult {
    /// It is asked once all else that the gate waits for is in use.
    Wanted,
    /// It is asked.
    Open {
        /// The first round that shows it.
        round: u64,
        /// Without an answer the lease goes on then.
        until: Time,
    },
}

/// What a mapper answers of a lease at a gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateAnswer {
    /// It goes on, with these properties beside those that it has: at `redeem` in its configuration, in which
    /// `${3.address}` is filled in then; at `join` beside those of its units, for the guest's driver.
    GoOn(Properties),
    /// It also waits for the leases of these requests; then the mapper is asked again.
    Wait(Vec<u64>),
    /// It is given back.
    GiveUp,
}

impl ServiceManager {
    pub(super) fn gate_reached(&mut self, at: Time, fact: &GateReached) {
        let round = self.state.rounds.call();
        if let Some(lease) = self.state.leases.get_mut(&fact.lease) {
            let open = Consult::Open { round, until: fact.until };
            lease.sequence.consults.insert(fact.gate, open);
            self.state.consulting.insert(fact.lease);
        }
        self.set_sequence(fact.lease, at);
    }

    /// The leases at gates of which the mapper is asked, with the first round that shows it.
    pub(super) fn at_gates(&self) -> Vec<(LeaseId, Gate, u64)> {
        let at_gate = |id: &LeaseId| {
            let consults = &self.state.leases.get(id)?.sequence.consults;
            consults.iter().find_map(|(&gate, consult)| match consult {
                Consult::Open { round, .. } => Some((*id, gate, *round)),
                Consult::Wanted => None,
            })
        };
        self.state.consulting.iter().filter_map(at_gate).collect()
    }

    /// Carries out what a mapper answers of a lease at a gate.
    pub(super) fn answer_gate(
        &mut self,
        now: Time,
        choice: GateChoice,
        out: &mut Output,
    ) -> Result<(), String> {
        let GateChoice { lease, answer, reason } = choice;
        let at_gate = self.at_gates().into_iter().find(|(id, ..)| *id == lease);
        let (_, gate, _) = at_gate.ok_or_else(|| format!("lease {lease} is at no gate"))?;
        match &answer {
            GateAnswer::GoOn(properties) => drop(self.edited(lease, gate, properties)?),
            GateAnswer::Wait(on) => self.check_wait((lease, gate), on)?,
            GateAnswer::GiveUp => {}
        }
        let reason = truncate_text(&reason);
        self.emit(now, GateAnswered { lease, gate, answer, reason }, out);
        self.sequence_due(now, lease, out);
        Ok(())
    }

    /// Lets go on what a mapper was asked of and has said nothing about.
    pub(super) fn pass_gates(&mut self, now: Time, answered: u64, out: &mut Output) {
        for (lease, gate, round) in self.at_gates() {
            if round <= answered {
                self.unblock(now, lease, gate, out);
            }
        }
    }

    /// The properties that a mapper's edits make of a lease.
    fn edited(&self, lease: LeaseId, gate: Gate, edits: &Properties) -> Result<Properties, String> {
        let lease = self.state.leases.get(&lease).ok_or("there is no such lease")?;
        let before = match gate {
            Gate::Redeem => &lease.configuration,
            Gate::Join => &lease.sequence.told,
        };
        let properties = beside(before, edits).map_err(|error| error.to_string())?;
        let fits = properties.check_bytes(MAX_CONFIGURATION);
        fits.map_err(|error| format!("the configuration is too long: {error}"))?;
        Ok(properties)
    }

    /// Whether a lease can also wait for these requests.
    fn check_wait(&self, (id, gate): (LeaseId, Gate), on: &[u64]) -> Result<(), String> {
        let waits = self.state.leases.get(&id).and_then(|lease| lease.sequence.waits.get(&gate));
        let waits = waits.ok_or("there is no such gate")?;
        if on.is_empty() || waits.len() + on.len() > MAX_AFTER {
            return Err(format!("a lease waits for 1 to {MAX_AFTER} others at a gate"));
        }
        for &number in on {
            if !self.state.requests.contains_key(&number) {
                return Err(format!("there is no request {number} to wait for"));
            }
            if waits.contains(&(number, None)) {
                return Err(format!("lease {id} waits for request {number} already"));
            }
            if let Some(path) = self.path(number, id.number, &mut BTreeSet::new()) {
                let path: Vec<String> = path.iter().map(u64::to_string).collect();
                let (first, path) = (id.number, path.join(" -> "));
                return Err(format!("requests wait for each other: {first} -> {path}"));
            }
        }
        Ok(())
    }

    /// A way from what one request waits for to another one.
    fn path(&self, from: u64, to: u64, seen: &mut BTreeSet<u64>) -> Option<Vec<u64>> {
        if from == to {
            return Some(vec![to]);
        }
        if !seen.insert(from) {
            return None;
        }
        let leases = self.leases_ahead((from, None));
        let waits = leases.flat_map(|(_, lease)| lease.sequence.waits.values().flatten());
        let mut next: BTreeSet<u64> = waits.map(|(number, _)| *number).collect();
        let request = self.state.requests.get(&from).filter(|request| request.state.is_open());
        let after = request.into_iter().flat_map(|request| &request.handling.after);
        next.extend(after.filter_map(|after| match after.on {
            On::Request(number) => Some(number),
            On::Item(_) | On::Mapper => None,
        }));
        // Its own items are no way to another request.
        next.remove(&from);
        let rest = next.into_iter().find_map(|number| self.path(number, to, seen))?;
        Some([vec![from], rest].concat())
    }

    pub(super) fn gate_answered(&mut self, at: Time, fact: &GateAnswered) {
        let edits = match &fact.answer {
            GateAnswer::GoOn(edits) => self.edited(fact.lease, fact.gate, edits).ok(),
            GateAnswer::Wait(_) | GateAnswer::GiveUp => None,
        };
        self.state.consulting.remove(&fact.lease);
        let Some(lease) = self.state.leases.get_mut(&fact.lease) else { return };
        let sequence = &mut lease.sequence;
        match &fact.answer {
            GateAnswer::GoOn(_) => {
                sequence.consults.remove(&fact.gate);
                match (fact.gate, edits) {
                    (Gate::Redeem, Some(edited)) => lease.configuration = edited,
                    (Gate::Join, Some(edited)) => sequence.told = edited,
                    (Gate::Redeem | Gate::Join, None) => {}
                }
                self.refresh(fact.lease, at);
            }
            GateAnswer::Wait(on) => {
                sequence.consults.insert(fact.gate, Consult::Wanted);
                let waits = sequence.waits.entry(fact.gate).or_default();
                waits.extend(on.iter().map(|number| (*number, None)));
                self.wait_for_others(fact.lease, at);
            }
            GateAnswer::GiveUp => {
                sequence.consults.remove(&fact.gate);
                sequence.given_up = true;
            }
        }
        self.set_sequence(fact.lease, at);
    }
}

/// Properties, and others beside them that come first.
pub(super) fn beside(
    before: &Properties,
    edits: &Properties,
) -> Result<Properties, crate::model::property::BadProperties> {
    let mut all = BTreeMap::from(before.clone());
    all.extend(BTreeMap::from(edits.clone()));
    Properties::try_from(all)
}
