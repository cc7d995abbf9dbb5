//! Requests that a broker's mapper cannot meet are passed on, one neighbour after the other, and the best of the
//! answers is kept.

use std::collections::BTreeMap;

use super::place::Draft;
use super::portion;
use crate::broker::mapper::{
    Allocation, BrokerMapper, Choice, Decision, Stage, Swing, Verdict, View,
};
use crate::model::slice::RequestId;
use crate::wire::refusal::Refusal;
use crate::wire::request::Request;

/// A mapper whose refusals are passed on before they are given. One that passes requests on by itself goes first.
pub struct Routed(pub Box<dyn BrokerMapper>);

impl BrokerMapper for Routed {
    fn decide(&self, view: &View) -> Decision {
        route(view, self.0.decide(view))
    }

    fn least_gain(&self) -> Option<u64> {
        self.0.least_gain()
    }

    fn swing(&self) -> Swing {
        self.0.swing()
    }
}

/// The same decision, but for requests that others may meet: those that would be refused or wait are passed on to the
/// first of its [routes](View::routes). One that can be divided, and that no direct neighbour promises to meet alone, is
/// met together with others: what is free of it is kept, and the rest is passed on. Once nobody is left, the best
/// refusal that was heard is given.
pub fn route(view: &View, mut decision: Decision) -> Decision {
    let alone = view.neighbours().is_empty();
    let concerns = |choice: &Choice| {
        let is_portion = || view.stage(choice.request) == Stage::Portion;
        others_may_meet(choice) && (!alone || is_portion())
    };
    if !decision.choices.iter().any(concerns) {
        return decision;
    }
    let open: BTreeMap<_, _> = view.open_requests().map(|request| (request.id, request)).collect();
    decision = wait_for_younger(view, &open, decision);
    let divides = |choice: &Choice| {
        concerns(choice)
            && matches!(view.stage(choice.request), Stage::Divisible(_) | Stage::Portion)
    };
    let mut draft =
        decision.choices.iter().any(divides).then(|| portion::after(view, &open, &decision));
    for choice in decision.choices.iter_mut().filter(|choice| concerns(choice)) {
        let Some(request) = open.get(&choice.request) else { continue };
        let kept = draft.as_mut().and_then(|draft| keep(view, request, draft));
        match kept {
            Some(portion) => {
                let refusal = match &choice.verdict {
                    Verdict::Refuse { refusal, .. } => refusal.clone(),
                    Verdict::Wait(waiting) => request.busy_until(waiting.expected),
                    Verdict::Grant(_)
                    | Verdict::Offer { .. }
                    | Verdict::Pass(_)
                    | Verdict::Keep { .. } => continue,
                };
                let refusal = portion::lacking(view, request, &portion, &refusal);
                choice.reason = format!("met together with others: {}", choice.reason);
                choice.verdict = Verdict::Keep { portion, refusal };
            }
            None => pass(view, request, choice),
        }
    }
    decision
}

/// Portions that lack what is kept back of younger requests are left open for now.
fn wait_for_younger(
    view: &View,
    open: &BTreeMap<RequestId, &Request>,
    mut decision: Decision,
) -> Decision {
    let waits = |choice: &Choice| {
        let request = open.get(&choice.request).filter(|_| others_may_meet(choice))?;
        view.waits_for_younger(request)
    };
    let mut wake = decision.wake;
    decision.choices.retain(|choice| {
        let until = waits(choice);
        wake = wake.into_iter().chain(until).min();
        until.is_none()
    });
    decision.wake = wake;
    decision
}

/// Whether a request may be met by others, as far as its broker's own decision says.
fn others_may_meet(choice: &Choice) -> bool {
    match &choice.verdict {
        Verdict::Refuse { refusal, .. } | Verdict::Offer { refusal: Some(refusal), .. } => {
            may_be_met_elsewhere(refusal)
        }
        Verdict::Wait(_) => true,
        Verdict::Grant(_)
        | Verdict::Offer { refusal: None, .. }
        | Verdict::Pass(_)
        | Verdict::Keep { .. } => false,
    }
}

/// What is kept of a request, if it is divided: no direct neighbour is known to have room for all of it, or another
/// broker has asked for what there is.
fn keep(view: &View, request: &Request, draft: &mut Draft<'_>) -> Option<Allocation> {
    match view.stage(request.id) {
        Stage::Portion => portion::most(draft, request, request.earliest),
        Stage::Divisible(start) => {
            // What is further away may be the sum of several brokers' units.
            let promised = view.routes(request).first().is_some_and(|(_, hops)| *hops == Some(1));
            let start = start.unwrap_or_else(|| view.first_start(request));
            if promised { None } else { portion::most(draft, request, start) }
        }
        Stage::Whole | Stage::Rest => None,
    }
}

/// Passes a request on to the next broker, or gives the best answer that was heard.
fn pass(view: &View, request: &Request, choice: &mut Choice) {
    if let Some((to, hops)) = view.routes(request).first() {
        let hint = match hops {
            None => String::new(),
            Some(1) => ", which advertises room".to_owned(),
            Some(hops) => format!(", which advertises room within {hops} hops"),
        };
        choice.reason = format!("passed on to {}{hint}: {}", to.name, choice.reason);
        choice.verdict = Verdict::Pass(to.broker);
    } else if let (
        Verdict::Refuse { refusal, .. } | Verdict::Offer { refusal: Some(refusal), .. },
        Some(tried),
    ) = (&mut choice.verdict, view.tried(choice.request))
    {
        let neighbours = view.neighbours().iter().map(|known| (&known.name, known.broker));
        *refusal = tried.best(refusal.clone(), neighbours);
    }
}

/// Whether what is wrong is what this broker has, not what is asked for.
fn may_be_met_elsewhere(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::NoSuchType { .. }
            | Refusal::NoMatch { .. }
            | Refusal::TooMany { .. }
            | Refusal::Busy { .. }
            | Refusal::Beyond { .. }
            | Refusal::Excluded { .. }
            | Refusal::UnitsExcluded { .. }
            | Refusal::BestEffort { .. }
            | Refusal::Entangled { .. }
    )
}
