//! What a broker tells a peer that asks what is free.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Broker, Output};
use crate::actor::dropped;
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::time::Time;
use crate::wire::inquiry::{Availability, AvailableStock, Inquiry, MOST_ENTRIES};
use crate::wire::message::{Header, Message};

/// How much a broker discloses, the least first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Disclosure {
    /// Nothing.
    None,
    /// Whether anything of a type is free.
    YesNo,
    /// How many units of a type are free.
    Totals,
    /// What each site has delegated: attributes, price, free units.
    #[default]
    All,
}

impl Disclosure {
    /// The word for it in configurations.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::YesNo => "yes-no",
            Self::Totals => "totals",
            Self::All => "all",
        }
    }
}

/// What a broker discloses to whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disclosures {
    /// To those that are not named.
    pub others: Disclosure,
    /// By the names of peers.
    pub named: BTreeMap<Name, Disclosure>,
}

impl Disclosures {
    /// How much is disclosed to a peer of that name.
    pub fn to(&self, name: &Name) -> Disclosure {
        self.named.get(name).copied().unwrap_or(self.others)
    }
}

impl Broker {
    /// Answers a peer; who is none gets no answer. Nothing is remembered of it.
    pub(super) fn inquired(&self, now: Time, header: &Header, inquiry: &Inquiry, out: &mut Output) {
        let Some(peer) = self.base.peers.get(&header.from) else {
            out.problems.push(dropped("inquire", "it comes from no peer"));
            return;
        };
        let availability = self.availability(now, inquiry, self.disclosures.to(&peer.name));
        let answer = Message::Available { asked: header.at, availability };
        out.replies.push(self.base.volatile(header.from, now, answer));
    }

    /// What is free, as far as it is disclosed. Tokens of stacks are left aside: of two units that share a machine
    /// both count as free.
    pub fn availability(
        &self,
        now: Time,
        inquiry: &Inquiry,
        disclosed: Disclosure,
    ) -> Availability {
        match disclosed {
            Disclosure::None => Availability::Undisclosed,
            Disclosure::YesNo => {
                let totals = self.totals(inquiry, now).into_iter();
                Availability::Types(totals.map(|(resource, free)| (resource, free > 0)).collect())
            }
            Disclosure::Totals => Availability::Totals(self.totals(inquiry, now)),
            Disclosure::All => {
                let mut stocks: Vec<_> = self.stocks(inquiry, now).collect();
                let more = stocks.len().saturating_sub(MOST_ENTRIES);
                stocks.truncate(MOST_ENTRIES);
                Availability::Stocks { stocks, more: u32::try_from(more).unwrap_or(u32::MAX) }
            }
        }
    }

    fn totals(&self, inquiry: &Inquiry, now: Time) -> BTreeMap<Name, u32> {
        let mut totals = BTreeMap::<Name, u32>::new();
        for stock in self.stocks(inquiry, now) {
            let total = totals.entry(stock.resource).or_default();
            *total = total.saturating_add(stock.free);
        }
        totals
    }

    /// What the broker can cut from that meets the requirements, by type and site.
    fn stocks<'a>(
        &'a self,
        inquiry: &'a Inquiry,
        now: Time,
    ) -> impl Iterator<Item = AvailableStock> + 'a {
        let Inquiry { resource, requirements, term } = inquiry;
        let none = Properties::default();
        let sources = self.index.listed(resource.as_ref());
        sources
            .filter(move |source| requirements.first_broken(source.attributes, &none).is_none())
            .map(move |source| {
                let calendar = self.free_to_sell(source.account, now);
                let free = calendar.map_or(0, |calendar| calendar.free_over(*term));
                AvailableStock {
                    resource: source.resource.clone(),
                    site: source.site_name.clone(),
                    attributes: source.attributes.clone(),
                    units: source.units,
                    free: u32::try_from(free.max(0)).unwrap_or(u32::MAX),
                    until: source.until,
                }
            })
    }
}
