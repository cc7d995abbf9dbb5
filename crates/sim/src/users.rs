//! Users: each makes its requests at their times, now or never.

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::Input;
use tenure_core::service_manager::Command;
use tenure_core::service_manager::group::Handling;
use tenure_core::service_manager::mapper::Ask;
use tenure_core::wire::heartbeat::KEEP_ALIVE;
use tenure_core::wire::offer::Reply;
use tenure_core::wire::proviso::Provisos;
use tenure_core::wire::request::Item;

use crate::workload::UserRequest;

/// How long an answer is waited for, at most.
const PATIENCE: Span = Span::MINUTE;

/// The users of a guest.
#[derive(Debug, Default)]
pub(crate) struct Users {
    /// Whom they ask.
    broker: Option<ActorId>,
    requests: Arc<[UserRequest]>,
    /// How many of the requests are made.
    made: usize,
}

impl Users {
    /// Those who make these requests, in their order.
    pub(crate) fn of(broker: Option<ActorId>, requests: Arc<[UserRequest]>) -> Self {
        Self { broker, requests, made: 0 }
    }

    /// When the next request is made.
    pub(crate) fn next(&self) -> Option<Time> {
        self.requests.get(self.made).map(|request| Time::ZERO.plus(request.at))
    }

    /// The requests that are made now.
    pub(crate) fn due(&mut self, now: Time) -> Vec<Input> {
        let mut due = Vec::new();
        while self.next().is_some_and(|next| next <= now) {
            let ask = self.ask(&self.requests[self.made], now);
            due.push(Input::Command(Command::Ask(ask).into()));
            self.made += 1;
        }
        due
    }

    fn ask(&self, request: &UserRequest, now: Time) -> Ask {
        let half = Span::from_micros(request.duration.as_micros() / 2);
        let latest = now.plus(PATIENCE.min(half));
        let items = request.items.iter();
        Ask {
            broker: self.broker,
            slice: Name::literal("main"),
            items: items.map(|(resource, units)| Item::new(resource.clone(), *units)).collect(),
            earliest: now,
            latest,
            duration: request.duration,
            min_duration: request.duration,
            provisos: Provisos::NONE,
            again: None,
            reply: Reply::Grant,
            answer_by: latest,
            properties: Properties::default(),
            configuration: request.keep_alive.map(kept_alive).unwrap_or_default(),
            reason: "asked for".to_owned(),
            handling: Handling::default(),
        }
    }
}

/// The configuration of a lease that depends on heartbeats.
pub(crate) fn kept_alive(keep_alive: Span) -> Properties {
    let configured = BTreeMap::from([(Name::literal(KEEP_ALIVE), keep_alive.to_string())]);
    configured.try_into().unwrap_or_default()
}
