//! An actor of any role: what shells hold, and what readers of journals replay.

use serde::{Deserialize, Serialize};

use crate::actor::effect::{self, Awaited, Effect, EffectId, Problem};
use crate::actor::fact::BadFact;
use crate::actor::settings::{Described, Start};
use crate::actor::snapshot::{RestoreError, Settings};
use crate::actor::{Actor, Base, Role};
use crate::broker::{self, Broker};
use crate::model::time::Time;
use crate::runtime::fact::{Entry, Fact};
use crate::service_manager::{self, ServiceManager};
use crate::site_authority::{self, SiteAuthority};

/// An input to an actor of any role.
pub type Input = effect::Input<Command, Decision>;

/// What one call of an actor of any role produced.
pub type Output = effect::Output<Fact>;

/// A command to an actor of any role.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// To a service manager.
    ServiceManager(service_manager::Command),
    /// To a broker.
    Broker(broker::Command),
    /// To a site authority.
    SiteAuthority(site_authority::Command),
}

impl Command {
    fn of_service_manager(self) -> Option<service_manager::Command> {
        match self {
            Self::ServiceManager(command) => Some(command),
            Self::Broker(_) | Self::SiteAuthority(_) => None,
        }
    }

    fn of_broker(self) -> Option<broker::Command> {
        match self {
            Self::Broker(command) => Some(command),
            Self::ServiceManager(_) | Self::SiteAuthority(_) => None,
        }
    }

    fn of_site_authority(self) -> Option<site_authority::Command> {
        match self {
            Self::SiteAuthority(command) => Some(command),
            Self::ServiceManager(_) | Self::Broker(_) => None,
        }
    }
}

impl From<service_manager::Command> for Command {
    fn from(command: service_manager::Command) -> Self {
        Self::ServiceManager(command)
    }
}

impl From<broker::Command> for Command {
    fn from(command: broker::Command) -> Self {
        Self::Broker(command)
    }
}

impl From<site_authority::Command> for Command {
    fn from(command: site_authority::Command) -> Self {
        Self::SiteAuthority(command)
    }
}

/// The decision of a mapper of any role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "kebab-case")]
pub enum Decision {
    /// A service manager's.
    ServiceManager(service_manager::mapper::Decision),
    /// A broker's.
    Broker(broker::mapper::Decision),
    /// A site authority's.
    SiteAuthority(site_authority::mapper::Decision),
}

impl Decision {
    /// The round that is answered.
    pub fn round(&self) -> u64 {
        match self {
            Self::ServiceManager(decision) => decision.round,
            Self::Broker(decision) => decision.round,
            Self::SiteAuthority(decision) => decision.round,
        }
    }

    fn of_service_manager(self) -> Option<service_manager::mapper::Decision> {
        match self {
            Self::ServiceManager(decision) => Some(decision),
            Self::Broker(_) | Self::SiteAuthority(_) => None,
        }
    }

    fn of_broker(self) -> Option<broker::mapper::Decision> {
        match self {
            Self::Broker(decision) => Some(decision),
            Self::ServiceManager(_) | Self::SiteAuthority(_) => None,
        }
    }

    fn of_site_authority(self) -> Option<site_authority::mapper::Decision> {
        match self {
            Self::SiteAuthority(decision) => Some(decision),
            Self::ServiceManager(_) | Self::Broker(_) => None,
        }
    }
}

/// An actor of any role.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyActor {
    /// A service manager.
    ServiceManager(Box<ServiceManager>),
    /// A broker.
    Broker(Box<Broker>),
    /// A site authority.
    SiteAuthority(Box<SiteAuthority>),
}

impl From<ServiceManager> for AnyActor {
    fn from(actor: ServiceManager) -> Self {
        Self::ServiceManager(Box::new(actor))
    }
}

impl From<Broker> for AnyActor {
    fn from(actor: Broker) -> Self {
        Self::Broker(Box::new(actor))
    }
}

impl From<SiteAuthority> for AnyActor {
    fn from(actor: SiteAuthority) -> Self {
        Self::SiteAuthority(Box::new(actor))
    }
}

/// Evaluates an expression on the actor inside, whatever its role.
macro_rules! on_actor {
    ($any:expr, $actor:ident => $value:expr) => {
        match $any {
            AnyActor::ServiceManager($actor) => $value,
            AnyActor::Broker($actor) => $value,
            AnyActor::SiteAuthority($actor) => $value,
        }
    };
}

impl AnyActor {
    /// What is known of the answer to a message of its.
    pub fn awaited(&self, id: EffectId) -> Awaited {
        match self.held_until(id) {
            _ if !self.is_pending(id) => Awaited::Nothing,
            Some(until) => Awaited::Held(until),
            None => Awaited::Answer,
        }
    }

    /// What the actor is for.
    pub fn role(&self) -> Role {
        match self {
            Self::ServiceManager(_) => Role::ServiceManager,
            Self::Broker(_) => Role::Broker,
            Self::SiteAuthority(_) => Role::SiteAuthority,
        }
    }

    /// It is started with these settings, and was before with those.
    pub fn started_with(&mut self, is: Described, was: Described) {
        on_actor!(self, actor => actor.base_mut().start = Start { was, is });
    }

    /// Applies a fact of a journal.
    pub fn replay(&mut self, entry: &Entry) -> Result<(), BadFact> {
        self.apply(entry.at, &entry.fact)
    }
}

/// Hands an input to an actor of one role and collects what it produced.
fn handle_as<A: Actor>(
    actor: &mut A,
    now: Time,
    input: effect::Input<A::Command, A::Decision>,
    out: &mut Output,
) where
    Fact: From<A::Fact>,
{
    let mut produced = effect::Output::default();
    actor.handle(now, input, &mut produced);
    let sum =
        |entry: crate::actor::fact::Entry<A::Fact>| Entry { at: entry.at, fact: entry.fact.into() };
    out.facts.extend(produced.facts.into_iter().map(sum));
    out.replies.extend(produced.replies);
    out.problems.extend(produced.problems);
    out.answered.extend(produced.answered);
}

impl Actor for AnyActor {
    type Fact = Fact;
    type Command = Command;
    type Decision = Decision;

    fn handle(&mut self, now: Time, input: Input, out: &mut Output) {
        let handled = match self {
            Self::ServiceManager(actor) => input
                .narrow(Command::of_service_manager, Decision::of_service_manager)
                .map(|input| handle_as(&mut **actor, now, input, out)),
            Self::Broker(actor) => input
                .narrow(Command::of_broker, Decision::of_broker)
                .map(|input| handle_as(&mut **actor, now, input, out)),
            Self::SiteAuthority(actor) => input
                .narrow(Command::of_site_authority, Decision::of_site_authority)
                .map(|input| handle_as(&mut **actor, now, input, out)),
        };
        if let Err(input) = handled {
            out.problems.push(Problem::WrongRole { role: self.role().word(), input });
        }
    }

    fn apply(&mut self, at: Time, fact: &Fact) -> Result<(), BadFact> {
        match (self, fact) {
            (Self::ServiceManager(actor), Fact::ServiceManager(fact)) => actor.apply(at, fact),
            (Self::Broker(actor), Fact::Broker(fact)) => actor.apply(at, fact),
            (Self::SiteAuthority(actor), Fact::SiteAuthority(fact)) => actor.apply(at, fact),
            (Self::ServiceManager(_) | Self::Broker(_) | Self::SiteAuthority(_), _) => {
                Err(BadFact::Foreign(fact.kind().0))
            }
        }
    }

    fn settings(&self) -> Settings {
        on_actor!(self, actor => actor.settings())
    }

    fn snapshot(&self) -> Vec<u8> {
        on_actor!(self, actor => actor.snapshot())
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        on_actor!(self, actor => actor.restore(bytes))
    }

    fn effects_after(&self, position: u64) -> Vec<(EffectId, Effect)> {
        on_actor!(self, actor => actor.effects_after(position))
    }

    fn is_pending(&self, id: EffectId) -> bool {
        on_actor!(self, actor => actor.is_pending(id))
    }

    fn held_until(&self, id: EffectId) -> Option<Time> {
        on_actor!(self, actor => actor.held_until(id))
    }

    fn open_round(&self) -> Option<u64> {
        on_actor!(self, actor => actor.open_round())
    }

    fn next_timeout(&self) -> Option<Time> {
        on_actor!(self, actor => actor.next_timeout())
    }

    fn next_volatile(&self) -> Option<Time> {
        on_actor!(self, actor => actor.next_volatile())
    }

    fn unfinished(&self, most: usize) -> Vec<String> {
        on_actor!(self, actor => actor.unfinished(most))
    }

    fn base(&self) -> &Base {
        on_actor!(self, actor => actor.base())
    }

    fn base_mut(&mut self) -> &mut Base {
        on_actor!(self, actor => actor.base_mut())
    }
}
