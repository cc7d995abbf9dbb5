//! What is free at brokers, asked by a service manager.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_core::actor::Role;
use tenure_core::broker::availability::Disclosure;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::resource::{Constraints, Expr};
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::runtime::AnyActor;
use tenure_core::service_manager::Command;
use tenure_core::wire::inquiry::{Answered, Availability, AvailableStock, Inquiry};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::delegation_view::setting;
use super::moment::Moment;
use super::server::{AppState, refused};
use super::view::{Names, name, time};
use super::{ApiError, Code, lease_request, pause, sense};

/// How long brokers are waited for unless a question says otherwise, and at most.
const WITHIN: Span = Span::from_secs(5);
const LONGEST: Span = Span::MINUTE;

/// What is free, from when on, for how long?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct AvailabilityRequest {
    /// The service manager that asks; needed if there are several.
    #[serde(default)]
    pub manager: Option<Name>,
    /// One broker only.
    #[serde(default)]
    pub broker: Option<Name>,
    /// One type only.
    #[serde(default)]
    pub resource: Option<Name>,
    /// What must hold of the attributes of the units.
    #[serde(default)]
    pub condition: Option<Expr>,
    /// From when on.
    #[serde(default)]
    pub start: Moment,
    /// For how long.
    pub duration: Span,
    /// How long brokers are waited for, at most a minute; 5 seconds unless set.
    #[serde(default)]
    pub within: Option<Span>,
}

/// What one broker says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AvailabilityView {
    /// The broker.
    pub broker: String,
    /// How much it discloses: `all`, `totals`, `yes-no` or `none`; `no-answer`, if it did not answer in time.
    pub discloses: String,
    /// What is free.
    pub free: Vec<FreeView>,
    /// How many more entries there are, of an answer that was cut short.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u32,
}

/// What is free of a type, or of a type at a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreeView {
    /// The type.
    pub resource: String,
    /// The site, if the broker tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// Whether a unit is free over the whole term.
    pub any: bool,
    /// How many units are, if the broker tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<u32>,
    /// How many there are, if the broker tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<u32>,
    /// Until when they are delegated, if the broker tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// What the units are like.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl AppState {
    /// Asks brokers what is free, and waits for them.
    pub(super) async fn availability(
        &self,
        request: AvailabilityRequest,
    ) -> Result<Vec<AvailabilityView>, ApiError> {
        sense::lasts(request.duration)?;
        let within = request.within.unwrap_or(WITHIN);
        if !within.is_positive() || within > LONGEST {
            let message = format!("brokers are waited for up to {LONGEST}, not {within}");
            return Err(ApiError::new(Code::Usage, message).help("say for how long: `--within 5s`"));
        }
        let manager = lease_request::manager(self, request.manager.as_ref())?;
        let handle = self.actor(Role::ServiceManager, &manager)?;
        let broker =
            request.broker.as_ref().map(|name| self.party(Role::Broker, name)).transpose()?;
        let inquiry = inquiry(&request, self.now())?;
        let known = self.look(handle, brokers).await?;
        let asked: Vec<ActorId> =
            known.into_iter().filter(|id| broker.is_none_or(|one| one == *id)).collect();
        let answers = handle.answers().await.map_err(|error| refused(&error))?;
        let command = Command::Inquire { broker, inquiry };
        handle.command(command).await.map_err(|error| refused(&error))?;
        let mut come = collected(answers, &asked, pause(within)).await;
        let names = self.names();
        Ok(asked.into_iter().map(|id| view(id, come.remove(&id), &names)).collect())
    }
}

fn brokers(actor: &AnyActor) -> Vec<ActorId> {
    match actor {
        AnyActor::ServiceManager(guest) => guest.brokers().collect(),
        AnyActor::Broker(_) | AnyActor::SiteAuthority(_) => Vec::new(),
    }
}

fn inquiry(request: &AvailabilityRequest, now: Time) -> Result<Inquiry, ApiError> {
    let start = request.start.on(now);
    let term = Term::new(start, start.plus(request.duration)).map_err(|error| {
        ApiError::new(Code::Usage, error.to_string())
            .help("ask for a later start or a shorter time")
    })?;
    let requirements: Constraints = request.condition.iter().cloned().collect();
    Ok(Inquiry { resource: request.resource.clone(), requirements, term })
}

/// The first answer of each broker that was asked, as far as they come in time.
async fn collected(
    mut answers: mpsc::Receiver<Answered>,
    asked: &[ActorId],
    within: Duration,
) -> BTreeMap<ActorId, Availability> {
    let mut come = BTreeMap::new();
    let all = async {
        while come.len() < asked.len() {
            let Some(Answered { broker, availability, .. }) = answers.recv().await else { return };
            if asked.contains(&broker) {
                come.entry(broker).or_insert(availability);
            }
        }
    };
    // Who has not answered by then is shown so.
    drop(timeout(within, all).await);
    come
}

fn view(id: ActorId, availability: Option<Availability>, names: &Names) -> AvailabilityView {
    let of_type = |resource: Name, any, free| FreeView {
        resource: resource.to_string(),
        site: None,
        any,
        free,
        units: None,
        until: None,
        attributes: BTreeMap::new(),
    };
    let (discloses, free, more) = match availability {
        None => ("no-answer", Vec::new(), 0),
        Some(Availability::Undisclosed) => (Disclosure::None.word(), Vec::new(), 0),
        Some(Availability::Types(types)) => {
            let free = types.into_iter().map(|(resource, any)| of_type(resource, any, None));
            (Disclosure::YesNo.word(), free.collect(), 0)
        }
        Some(Availability::Totals(totals)) => {
            let free = totals.into_iter();
            let free = free.map(|(resource, free)| of_type(resource, free > 0, Some(free)));
            (Disclosure::Totals.word(), free.collect(), 0)
        }
        Some(Availability::Stocks { stocks, more }) => {
            (Disclosure::All.word(), stocks.into_iter().map(stock).collect(), more)
        }
    };
    AvailabilityView { broker: name(names, id), discloses: discloses.to_owned(), free, more }
}

fn stock(stock: AvailableStock) -> FreeView {
    let AvailableStock { resource, site, attributes, units, free, until } = stock;
    FreeView {
        resource: resource.to_string(),
        site: Some(site.to_string()),
        any: free > 0,
        free: Some(free),
        units: Some(units),
        until: Some(time(until)),
        attributes: attributes
            .iter()
            .map(|(key, value)| (key.to_string(), setting(value)))
            .collect(),
    }
}
