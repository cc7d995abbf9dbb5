//! What a broker's journal folds to.

use std::collections::BTreeMap;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use super::delegating::Delegated;
use super::forwarding::Neighbour;
use super::giving_back::Returning;
use super::hosts::KnownHosts;
use super::machine;
use super::needs::Needs;
use super::orders::Orders;
use super::quota::Quotas;
use super::rules::Rules;
use super::sharing::Sharings;
use super::{Holding, IssuedTicket, Obligation, Record, Timer, Usage};
use crate::actor::invitations::{Newcomer, PeerRelation};
use crate::actor::pending::PendingEffects;
use crate::actor::recalls::IssuedRecalls;
use crate::actor::rounds::MapperRounds;
use crate::actor::timers::Timers;
use crate::model::calendar::Calendar;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::slice::RequestId;
use crate::ticket::Ticket;
use crate::ticket::ledger::Ledger;
use crate::ticket::link::{AccountId, LinkHash};

/// The state that a snapshot holds, in this order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(super) rounds: MapperRounds,
    /// What was cut from the tickets it holds.
    pub(super) ledger: Ledger,
    /// What is free on all of its tickets of a type together.
    #[serde(deserialize_with = "crate::model::codec::ord_map")]
    pub(super) totals: OrdMap<Name, Calendar>,
    /// The tickets it holds, newest generation, with what their units are like.
    pub(super) holdings: BTreeMap<AccountId, Holding>,
    pub(super) requests: BTreeMap<RequestId, Box<Record>>,
    /// What each peer that answers for some takes up of them.
    #[serde(deserialize_with = "crate::model::codec::ord_map")]
    pub(super) of_each: OrdMap<ActorId, Usage>,
    pub(super) quotas: Quotas,
    /// Open requests by the position at which they came.
    pub(super) open: BTreeMap<u64, RequestId>,
    /// The tickets it has cut.
    pub(super) issued: BTreeMap<LinkHash, IssuedTicket>,
    pub(super) serial: u64,
    pub(super) timers: Timers<Timer>,
    /// The delegations to other brokers that have not ended, by their numbers.
    pub(super) delegated: BTreeMap<u64, Delegated>,
    /// The number of the newest of them there ever was: none is used again.
    pub(super) last_delegation: u64,
    /// What is on its way back to a site, by the delegation that it is part of.
    pub(super) returning: BTreeMap<AccountId, Returning>,
    pub(super) pending: PendingEffects<Obligation>,
    /// The recalls of tickets that it has cut.
    pub(super) recalls: IssuedRecalls,
    /// What the services of guests want.
    #[serde(deserialize_with = "crate::model::codec::ord_map")]
    pub(super) needs: Needs,
    pub(super) orders: Orders,
    /// Which hosts they use.
    pub(super) hosts: KnownHosts,
    /// What it shares with other brokers.
    pub(super) sharings: Sharings,
    /// Whether it sells nothing.
    pub(super) is_drained: bool,
    /// With which brokers it passes on requests.
    pub(super) neighbours: Rules<ActorId, Neighbour>,
    /// What it will do for brokers that are yet to become peers.
    pub(super) relations: BTreeMap<Newcomer, PeerRelation>,
}

impl State {
    /// A ticket that was cut, while its request is remembered.
    pub(super) fn ticket(&self, issued: &IssuedTicket) -> Option<&Ticket> {
        match &self.requests.get(&issued.request)?.state {
            machine::State::Granted { tickets, .. } | machine::State::Returned { tickets } => {
                tickets.get(issued.place).map(|(_, ticket)| ticket)
            }
            machine::State::Held { offers, .. } => {
                offers.iter().flatten().nth(issued.place).map(|(_, ticket)| ticket)
            }
            machine::State::Gathering { gathered, .. }
            | machine::State::Reserved { gathered, .. }
            | machine::State::Committing { gathered } => {
                gathered.own.get(issued.place).map(|(_, ticket)| ticket)
            }
            machine::State::Open { .. }
            | machine::State::Passed { .. }
            | machine::State::Brought { .. }
            | machine::State::Proposed { .. }
            | machine::State::Taking { .. }
            | machine::State::Planned { .. }
            | machine::State::Refused { .. } => None,
        }
    }
}
