//! Requests that a broker's mapper cannot meet are passed on, one neighbour after the other, and the best of the
//! answers is kept.

use std::collections::BTreeMap;

use crate::broker::mapper::{BrokerMapper, Choice, Decision, Swing, Verdict, View};
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
/// first of its [routes](View::routes). Once nobody is left, the best refusal that was heard is given.
pub fn route(view: &View, mut decision: Decision) -> Decision {
    let open: BTreeMap<_, _> = match view.neighbours() {
        [] => BTreeMap::new(),
        [..] => view.open_requests().map(|request| (request.id, request)).collect(),
    };
    for choice in &mut decision.choices {
        route_one(view, choice, open.get(&choice.request).copied());
    }
    decision
}

fn route_one(view: &View, choice: &mut Choice, request: Option<&Request>) {
    let others_may = match &choice.verdict {
        Verdict::Refuse { refusal, .. } => may_be_met_elsewhere(refusal),
        Verdict::Wait(_) => true,
        Verdict::Grant(_) | Verdict::Offer { .. } | Verdict::Pass(_) => false,
    };
    if !others_may {
        return;
    }
    let routes = request.map(|request| view.routes(request)).unwrap_or_default();
    if let Some((to, hops)) = routes.first() {
        let hint = match hops {
            None => String::new(),
            Some(1) => ", which advertises room".to_owned(),
            Some(hops) => format!(", which advertises room within {hops} hops"),
        };
        choice.reason = format!("passed on to {}{hint}: {}", to.name, choice.reason);
        choice.verdict = Verdict::Pass(to.broker);
    } else if let (Verdict::Refuse { refusal, .. }, Some(tried)) =
        (&mut choice.verdict, view.tried(choice.request))
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
