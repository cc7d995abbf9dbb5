//! Requests that go to several brokers.

use serde::{Deserialize, Serialize};
use tenure_core::actor::Role;
use tenure_core::model::identity::ActorId;
use tenure_core::model::time::Span;
use tenure_core::service_manager::mapper::Ask;
use tenure_core::service_manager::{Command as GuestCommand, LeaseSurvey, ServiceManager};
use tenure_core::wire::request::{Item, Relation};

use super::server::AppState;
use super::view::{self, Names, RefusalView};
use super::why::group_lost;
use super::{ApiError, Code, LeaseRequest};

/// How long each of several brokers holds, and how many attempts there are, unless the request says otherwise.
const HOLD: Span = Span::MINUTE.times(5);
const TRIES: u32 = 5;

/// How an attempt at a request stands that goes to several brokers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptView {
    /// The number of its group.
    pub group: u64,
    /// Which attempt it is, from 1.
    pub number: u32,
    /// How many there are at most.
    pub of: u32,
    /// The broker of this part.
    pub broker: String,
    /// Where the group is in its life: holding, accepting, assembling, whole, giving-back, over.
    pub state: String,
    /// Why the attempt failed, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// What a broker or a site said by which it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<RefusalView>,
    /// Whether another attempt follows, or has followed.
    #[serde(default)]
    pub again: bool,
}

impl AttemptView {
    /// The attempt that a lease is a part of.
    pub(super) fn of(
        guest: &ServiceManager,
        lease: &LeaseSurvey<'_>,
        names: &Names,
    ) -> Option<Self> {
        let number = lease.id.number;
        let attempt = guest.attempt(number)?;
        let place = usize::try_from(number - attempt.asked.group).ok()?;
        let (broker, _) = attempt.asked.parts().into_iter().nth(place)?;
        Some(Self {
            group: attempt.asked.group,
            number: attempt.asked.request.history.tries,
            of: attempt.asked.tries,
            broker: view::name(names, broker),
            state: view::plain(attempt.state.word()),
            failed: attempt.failed.map(group_lost),
            refusal: attempt.refusal.map(RefusalView::of),
            again: attempt.again,
        })
    }

    /// How it stands, in words.
    pub(super) fn in_words(&self) -> String {
        let Self { number, of, broker, state, failed, refusal, again, .. } = self;
        let said = refusal.as_ref().map(|said| format!(" ({})", said.message)).unwrap_or_default();
        let failed = failed.as_ref().map(|why| format!(": {why}{said}")).unwrap_or_default();
        let again = if *again { "; another attempt follows" } else { "" };
        format!(
            "attempt {number} of {of} at several brokers, {broker} for this part, is {state}{failed}{again}"
        )
    }
}

/// What a request says of its brokers.
pub(super) struct Several {
    brokers: Vec<ActorId>,
    hold: Span,
    tries: u32,
}

impl Several {
    /// The brokers of a request, if they are named item by item.
    pub(super) fn of(app: &AppState, request: &mut LeaseRequest) -> Result<Option<Self>, ApiError> {
        let bad = |message: &str, help: &str| ApiError::new(Code::Usage, message).help(help);
        if request.brokers.is_empty() {
            return match request.tries {
                Some(_) => {
                    Err(bad("there are tries at several brokers only", "name a broker each"))
                }
                None => Ok(None),
            };
        }
        if request.id.is_some() || request.broker.is_some() || request.plan {
            let message = "what goes to several brokers has no id, no broker for all and no plan";
            return Err(bad(message, "ask one broker for that"));
        }
        let party = |name| app.party(Role::Broker, name);
        let brokers = request.brokers.iter().map(party).collect::<Result<_, _>>()?;
        let (hold, tries) = (request.hold.take().unwrap_or(HOLD), request.tries.unwrap_or(TRIES));
        Ok(Some(Self { brokers, hold, tries }))
    }

    /// The command for what is asked for. A link whose ends are other brokers' is one edge by its type.
    pub(super) fn command(self, mut ask: Ask) -> Result<GuestCommand, ApiError> {
        let Self { brokers, hold, tries } = self;
        let broker = |item: usize| brokers.get(item);
        for (place, item) in ask.items.iter_mut().enumerate() {
            let Some(joins) = item.joins() else { continue };
            if joins.ends.iter().all(|end| broker(usize::from(*end)) == broker(place)) {
                continue;
            }
            if joins.hops.is_some() || joins.latency.is_some() {
                let message = format!("the link from item {} has its own broker", joins.ends[0]);
                let help = "it is one edge, `resource`, without `hops` and `latency`";
                return Err(ApiError::new(Code::Usage, message).help(help));
            }
            *item = Item { relation: Relation::Alone, ..item.clone() };
        }
        Ok(GuestCommand::AskSeveral { ask: Box::new(ask), brokers, hold, tries })
    }
}
