//! Why a service has not what it claims, in sentences.

use tenure_core::model::name::Name;
use tenure_core::model::slice::LeaseId;
use tenure_core::service::definition::Mode;
use tenure_core::service::kpi::Kpis;
use tenure_core::service::slo::{Met, Slo};
use tenure_core::service::state::State;
use tenure_core::service_manager::ServiceManager;
use tenure_core::service_manager::advice::Advice;
use tenure_core::service_manager::services::{Demand, ServiceSurvey, ServiceView};
use tenure_expr::Fault;

use super::view::time;

/// What is amiss, by how much, and what is done about it or in its way.
pub(super) fn of(
    manager: &Name,
    guest: &ServiceManager,
    survey: &ServiceSurvey<'_>,
    view: &ServiceView,
) -> Vec<String> {
    let mut why: Vec<String> = slos(survey).chain(unjudged(survey)).collect();
    why.extend(view.demands.iter().filter_map(|demand| missing(manager, guest, view, demand)));
    why.extend(resting(view));
    why.extend(advice(manager, survey));
    why
}

/// A sentence for each SLO that is missed, with what was measured.
fn slos(survey: &ServiceSurvey<'_>) -> impl Iterator<Item = String> {
    survey.definition.slo.iter().filter_map(|(name, slo)| {
        let assessed = survey.assessed.get(name).filter(|a| a.assessment.met == Met::No)?;
        let rule = slo.rule.as_ref()?;
        let kpis = rule.attributes().into_iter().filter_map(|kpi| {
            let kpi = kpi.to_string();
            let value = survey.kpis.iter().find(|(known, _)| known.to_string() == kpi)?.1;
            Some(format!("{kpi} is {value}"))
        });
        let kpis: Vec<String> = kpis.collect();
        let since = time(assessed.since);
        Some(format!(
            "{name} is missed since {since}: {} does not hold, {}",
            rule.as_str(),
            kpis.join(", ")
        ))
    })
}

/// A sentence for each SLO that cannot be judged, of a service that runs.
fn unjudged(survey: &ServiceSurvey<'_>) -> impl Iterator<Item = String> {
    let runs = survey.state == State::Running;
    let slos = survey.definition.slo.iter().filter(move |_| runs);
    slos.filter_map(|(name, slo)| {
        Some(format!("{name} cannot be judged: {}", obstacle(slo, survey.kpis)?))
    })
}

/// Why an SLO cannot be judged by what was measured, if it cannot.
pub(super) fn obstacle(slo: &Slo, kpis: &Kpis) -> Option<String> {
    let error = slo.obstacle(kpis)?;
    let unknown = match error.fault() {
        Fault::UnknownAttribute(kpi) => Some(format!("the KPI `{kpi}` is not measured")),
        Fault::Type(_) | Fault::NotACondition(_) | Fault::Overflow | Fault::DivisionByZero => None,
    };
    Some(unknown.unwrap_or_else(|| error.to_string()))
}

/// What a service claims of a kind of units, and what becomes of that.
fn missing(
    manager: &Name,
    guest: &ServiceManager,
    view: &ServiceView,
    demand: &Demand,
) -> Option<String> {
    let claimed = demand.steps.claimed(demand.held);
    if claimed == 0 {
        return None;
    }
    let (resource, held) = (&demand.kind.resource, demand.held);
    let urgency = demand.steps.claim(held + 1).unwrap_or(0);
    let lacks = format!("{claimed} more `{resource}` are claimed at {urgency}, {held} are held");
    let done = match demand.request {
        Some(request) => {
            let named = format!("{manager}/{} asks for {}", request.number, demand.asked);
            let waits = guest.stands(request).map(|waiting| waiting.reason.clone());
            waits.map_or_else(|| named.clone(), |reason| format!("{named} and waits: {reason}"))
        }
        None if view.behaviour.mode != Mode::Managed => "it is not managed".to_owned(),
        None if view.state != State::Running => format!("it is {}", view.state.word()),
        None if view.behaviour.most.is_some_and(|most| most <= held) => {
            format!("it has the most that it may, {held}")
        }
        None => "nothing is asked for yet".to_owned(),
    };
    Some(format!("{lacks}: {done}"))
}

/// What would be done for a service that is only advised on.
fn advice(manager: &Name, survey: &ServiceSurvey<'_>) -> Option<String> {
    if survey.definition.behaviour.mode != Mode::Advise {
        return None;
    }
    let Advice { asks, returns, extensions } = survey.advice;
    let asks = asks.iter().map(|(kind, units)| format!("ask for {units} `{}`", kind.resource));
    let lease = |id: &LeaseId| format!("{manager}/{id}");
    let returns = returns.iter().map(|(id, units)| format!("give {units} of {} back", lease(id)));
    let extensions = extensions
        .iter()
        .map(|(id, units)| format!("keep {units} of {} beyond its end", lease(id)));
    let all: Vec<String> = asks.chain(returns).chain(extensions).collect();
    Some(match all.is_empty() {
        true => "it is only advised on: nothing would be done".to_owned(),
        false => format!("it is only advised on: it would {}", all.join(", ")),
    })
}

/// Why nothing is done for a service, if nothing is.
fn resting(view: &ServiceView) -> Option<String> {
    match view.state {
        State::Running => None,
        State::Unknown => Some(
            "nothing that counts was measured, so nothing is asked for or given back".to_owned(),
        ),
        State::Error | State::Stopped | State::Starting | State::Shutdown => {
            Some(format!("it is {}, so nothing is asked for or given back", view.state.word()))
        }
    }
}
