//! Brokers, their quotas and requests as users see them.

use serde::{Deserialize, Serialize};
use tenure_config::EACH;
use tenure_core::broker::machine as broker;
use tenure_core::broker::quota::WEEK;
use tenure_core::broker::{Broker, QuotaSurvey, RequestSurvey, Wanted};
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::time::{Span, Time};

use super::delegation_view::{DelegationView, delegation, holding};
use super::view::RefusalView;
use super::view::{Names, name, plain, time};

/// A broker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BrokerView {
    /// Its name.
    pub name: String,
    /// Its id, all 64 digits.
    pub id: String,
    /// What it can sell from.
    pub delegations: Vec<DelegationView>,
    /// The requests it remembers.
    pub requests: Vec<RequestView>,
    /// What it has delegated to other brokers.
    #[serde(default)]
    pub issued: Vec<DelegationView>,
    /// The last recall of each ticket of its that it recalled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recalls: Vec<super::RecallView>,
}

/// The quota of a peer at a broker, with what is used of it. What is not limited is not set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct QuotaView {
    /// The broker.
    pub broker: String,
    /// The service manager or the broker; `each` stands for those without a quota of their own.
    pub peer: String,
    /// Who has set a quota for just this: `configuration` or `operator`.
    pub by: Option<String>,
    /// The units that it holds now.
    pub units: u64,
    /// The most that it may hold at a time.
    pub most_units: Option<u32>,
    /// The unit-hours granted to it in this period.
    pub unit_hours: u64,
    /// The most in one period.
    pub most_unit_hours: Option<u32>,
    /// How long a period is.
    pub period: Option<Span>,
    /// Its requests that wait for a decision.
    pub open_requests: u32,
    /// The most at a time.
    pub most_open_requests: Option<u32>,
    /// The most requests that are taken in a second.
    pub most_requests_per_second: Option<u32>,
}

/// A request at a broker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestView {
    /// Its name: service manager and number.
    pub request: String,
    /// Where it is in its life: open, granted, returned, refused.
    pub state: String,
    /// The type that it asks for.
    pub resource: String,
    /// How many units.
    pub units: u32,
    /// How few would do.
    pub min_units: u32,
    /// The term: from the earliest start that suits, as long as it is to last.
    pub start: String,
    /// Its end, if it starts then.
    pub end: String,
    /// The latest start that suits.
    pub latest: String,
    /// When it is of no more use to its asker.
    pub answer_by: String,
    /// Why it was refused, if it was.
    pub refusal: Option<RefusalView>,
}

fn request(request: &RequestSurvey<'_>, names: &Names) -> RequestView {
    let Wanted { resource, units, min_units, earliest, latest, duration } = request.wanted;
    RequestView {
        resource: resource.to_string(),
        units: *units,
        min_units: *min_units,
        start: time(*earliest),
        end: time(earliest.plus(*duration)),
        latest: time(*latest),
        request: format!("{}/{}", name(names, request.id.origin), request.id.number),
        state: plain(request.state.word()),
        answer_by: time(request.answer_by),
        refusal: match request.state {
            broker::State::Refused { refusal, .. } => Some(RefusalView::of(refusal)),
            broker::State::Open { .. }
            | broker::State::Held { .. }
            | broker::State::Passed { .. }
            | broker::State::Brought { .. }
            | broker::State::Gathering { .. }
            | broker::State::Reserved { .. }
            | broker::State::Committing { .. }
            | broker::State::Proposed { .. }
            | broker::State::Taking { .. }
            | broker::State::Planned { .. }
            | broker::State::Granted { .. }
            | broker::State::Returned { .. } => None,
        },
    }
}

pub(super) fn broker(
    info: (&Name, ActorId),
    actor: &Broker,
    names: &Names,
    now: Time,
) -> BrokerView {
    let mut delegations: Vec<DelegationView> =
        actor.holdings().map(|held| holding(&held, names, now)).collect();
    delegations.sort_by(|a, b| (&a.site, &a.resource).cmp(&(&b.site, &b.resource)));
    BrokerView {
        name: info.0.to_string(),
        id: info.1.to_hex(),
        delegations,
        recalls: super::recall::of_broker(info.0, actor),
        requests: actor.request_survey().map(|asked| request(&asked, names)).collect(),
        issued: actor
            .issued_delegations(now)
            .map(|issued| DelegationView {
                left: issued.left,
                promised_until: Some(time(issued.until)),
                ..delegation(issued.ticket, names)
            })
            .collect(),
    }
}

/// The quotas at a broker.
pub(super) fn quotas(broker: &Name, actor: &Broker, names: &Names, now: Time) -> Vec<QuotaView> {
    let view = |survey: QuotaSurvey| QuotaView {
        broker: broker.to_string(),
        peer: survey.whose.map_or_else(|| EACH.to_owned(), |guest| name(names, guest)),
        by: survey.by.map(|by| by.word().to_owned()),
        units: survey.units,
        most_units: survey.quota.units,
        unit_hours: survey.unit_hours,
        most_unit_hours: survey.quota.unit_hours,
        period: survey.quota.unit_hours.map(|_| survey.quota.period.unwrap_or(WEEK)),
        open_requests: survey.open_requests,
        most_open_requests: survey.quota.open_requests,
        most_requests_per_second: survey.quota.requests_per_second,
    };
    actor.quotas(now).map(view).collect()
}
