//! What a broker's mapper sees and decides.

use std::collections::BTreeMap;

use crate::actor::fact::Memo;
use crate::broker::Broker;
use crate::model::calendar::Calendar;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::resource::Attributes;
use crate::model::slice::RequestId;
use crate::model::time::{Term, Time};
use crate::ticket::link::{AccountId, LinkHash};
use crate::wire::message::Request;
use crate::wire::refusal::Refusal;

/// Decides who gets how many units of what, where and when. It sees all open requests and may answer
/// any of them, several items of several types together.
pub trait BrokerMapper: Send {
    /// Answers one round. The same view, memo and all, must get the same answer. What it leaves out stays
    /// open.
    fn decide(&self, view: &View<'_>) -> Decision;
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is met.
    Grant {
        /// The term, the same for all items.
        term: Term,
        /// For each item the units to cut from each source.
        parts: Vec<Vec<(AccountId, u32)>>,
    },
    /// It is not.
    Refuse(Refusal),
}

/// A decision on one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The request.
    pub request: RequestId,
    /// What becomes of it.
    pub verdict: Verdict,
    /// Why, for whoever asks later.
    pub reason: String,
}

/// The answer to a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The round that is answered.
    pub round: u64,
    /// Carried out in this order.
    pub choices: Vec<Choice>,
    /// What to remember, if that changed.
    pub memo: Option<Memo>,
    /// When to be asked again even if nothing happens.
    pub wake: Option<Time>,
}

/// A ticket that the broker can cut from.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    /// Its account.
    pub account: AccountId,
    /// The site whose units they are.
    pub site: ActorId,
    /// The site's name, or its id where it has none here.
    pub site_name: &'a Name,
    /// The type.
    pub resource: &'a Name,
    /// What the units are like.
    pub attributes: &'a Attributes,
    /// The units of the ticket.
    pub units: u32,
    /// Until when it runs. Delegations are renewed, so it may be later tomorrow.
    pub until: Time,
    /// What is free, when. A clone is cheap: book in it to try things.
    pub free: Calendar,
}

/// A broker, read only, at one instant.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    actor: &'a Broker,
    now: Time,
    round: u64,
}

impl<'a> View<'a> {
    pub(crate) fn new(actor: &'a Broker, now: Time, round: u64) -> Self {
        Self { actor, now, round }
    }

    /// The time of the question.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The round to answer.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// What was remembered.
    pub fn memo(&self) -> &'a Memo {
        self.actor.state.rounds.memo()
    }

    /// The open requests in the order they came.
    pub fn open_requests(&self) -> impl Iterator<Item = &'a Request> {
        self.actor.open_requests()
    }

    /// What can be cut from, by site name and account.
    pub fn sources(&self) -> Vec<Source<'a>> {
        let of_all = self.types().flat_map(|resource| self.actor.sources_of(resource));
        let mut sources: Vec<_> = of_all.collect();
        sources.sort_by_key(|source| (source.site_name, source.account));
        sources
    }

    /// What units of a type can be cut from, by site name and account.
    pub fn sources_of(&self, resource: &Name) -> impl Iterator<Item = Source<'a>> + use<'a> {
        self.actor.sources_of(resource)
    }

    /// The types of units that there are.
    pub fn types(&self) -> impl Iterator<Item = &'a Name> + use<'a> {
        self.actor.types()
    }

    /// What all sources of each type have free together: an upper bound of what any term can have.
    pub fn totals(&self) -> &'a BTreeMap<Name, Calendar> {
        self.actor.totals()
    }

    /// The earliest start of a term that the core would still cut for a request: the earliest that it
    /// names, or now where the term from there is as good as over or begins too far back.
    pub fn first_start(&self, request: &Request) -> Time {
        self.actor.first_start(request, self.now)
    }

    /// The source that a ticket of this broker was cut from, and how many units it is for.
    pub fn cut_from(&self, ticket: LinkHash) -> Option<(AccountId, u32)> {
        self.actor.cut_from(ticket)
    }
}
