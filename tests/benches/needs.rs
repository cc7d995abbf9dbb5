//! How long a broker takes to decide on a changed need, among a thousand services with a hundred thousand units.
//!
//! Each service has a hundred units by four tickets, worth what is random. Twenty of them also have a request that waits,
//! and claim a unit more, then none, one after the other: each time the mapper `urgency` orders the unit that is worth
//! least, or the order ends. What is timed, in processor time, is all from the message to the decision that the broker
//! took, and in the same run a sort of what all units are worth. One line of JSON.

#![allow(clippy::print_stdout, reason = "it prints what it has measured")]
#![allow(clippy::unwrap_used, reason = "a measurement that fails has nothing to say")]

mod common;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Duration;

use common::{Random, Trader, processor_time};
use serde_json::json;
use tenure_core::mapper::urgency::policy::Known;
use tenure_core::mapper::urgency::{Recalls, Urgency};
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::RequestId;
use tenure_core::model::time::{Span, Time};
use tenure_core::service::steps::{Kind, Step, Steps};
use tenure_core::ticket::link::LinkHash;
use tenure_core::wire::credentials::Credentials;
use tenure_core::wire::message::Message;
use tenure_core::wire::need::{Need, SERVICE, Want};
use tenure_core::wire::offer::Reply;
use tenure_core::wire::proviso::{History, Provisos};
use tenure_core::wire::recall::Accepts;
use tenure_core::wire::request::{Item, Request};

const GUESTS: u8 = 10;
/// Of each guest.
const SERVICES: u64 = 100;
/// Of each service.
const TICKETS: u32 = 4;
const UNITS_OF_EACH: u32 = 25;
/// Those that claim more.
const CLAIMING: u64 = 20;
/// How often each of those claims a unit, and none any more.
const ROUNDS: u64 = 25;

fn main() {
    let mut market = Market::new();
    let mut sorts: Vec<Duration> = (0..ROUNDS).map(|_| market.sort()).collect();
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        for claims in [1, 0] {
            for number in 0..CLAIMING {
                times.push(market.claim(number, claims));
                assert_eq!(
                    market.orders(),
                    if claims == 1 { number + 1 } else { CLAIMING - number - 1 }
                );
            }
        }
    }
    times.sort_unstable();
    sorts.sort_unstable();
    let micros = |times: &[Duration], share: usize| times[times.len() * share / 100].as_micros();
    println!(
        "{}",
        json!({
            "services": market.services.len(),
            "units": market.services.len() * (TICKETS * UNITS_OF_EACH) as usize,
            "p50_us": micros(&times, 50),
            "p99_us": micros(&times, 99),
            "sort_p50_us": micros(&sorts, 50),
            "ratio": micros(&times, 50) as f64 / micros(&sorts, 50) as f64,
        })
    );
}

struct Service {
    guest: usize,
    name: Name,
    tickets: Vec<LinkHash>,
    /// What its units are worth, by ticket.
    urgencies: Vec<u32>,
    revision: u64,
}

struct Market {
    seller: Trader,
    guests: Vec<(ActorId, Credentials)>,
    services: Vec<Service>,
    mapper: Urgency,
    random: Random,
    requests: u64,
}

impl Market {
    /// All units are leased, and all needs known.
    fn new() -> Self {
        let recalls = Recalls {
            min_tenure: Span::ZERO,
            budget: None,
            stable_for: Span::ZERO,
            ..Recalls::default()
        };
        let mut market = Self {
            seller: Trader::new(1, GUESTS),
            guests: (0..GUESTS).map(Trader::guest).collect(),
            services: Vec::new(),
            mapper: Urgency::new(Known::default()).with_recalls(recalls),
            random: Random(7),
            requests: 0,
        };
        let services = u64::from(GUESTS) * SERVICES;
        let units = u32::try_from(services).unwrap() * TICKETS * UNITS_OF_EACH;
        market.seller.delegate(0, 1, "node", NonZeroU32::new(units).unwrap());
        for number in 0..services {
            let guest = usize::try_from(number / SERVICES).unwrap();
            let name = Name::new(&format!("service-{number}")).unwrap();
            let mut urgencies: Vec<u32> = (0..TICKETS)
                .map(|_| if number < CLAIMING { 99 } else { 10 + market.random.below(80) as u32 })
                .collect();
            urgencies.sort_unstable_by(|a, b| b.cmp(a));
            market.services.push(Service {
                guest,
                name,
                tickets: Vec::new(),
                urgencies,
                revision: 0,
            });
            for _ in 0..TICKETS {
                market.ask(number, UNITS_OF_EACH);
            }
        }
        market.seller.decide(&market.mapper);
        (0..CLAIMING).for_each(|number| market.ask(number, 1));
        market.name_tickets();
        (0..services).for_each(|number| market.state(number, 0));
        market.seller.decide(&market.mapper);
        market
    }

    /// A service asks for units: by tickets that the broker knows nothing of, and once more as what it is.
    fn ask(&mut self, number: u64, units: u32) {
        self.requests += 1;
        let service = &self.services[usize::try_from(number).unwrap()];
        let (guest, credentials) = &mut self.guests[service.guest];
        let accepts = Accepts { notice: Some(Span::MINUTE), ..Accepts::default() };
        let item =
            Item { accepts, ..Item::new(Name::literal("node"), NonZeroU32::new(units).unwrap()) };
        let known = (units == 1).then(|| (Name::literal(SERVICE), service.name.to_string()));
        let properties: BTreeMap<_, _> = known.into_iter().collect();
        let request = Request {
            id: RequestId { origin: *guest, number: self.requests },
            items: vec![item],
            earliest: Time::ZERO,
            latest: Time::ZERO.plus(Span::DAY),
            duration: Span::DAY.times(30),
            min_duration: Span::DAY.times(30),
            provisos: Provisos::NONE,
            history: History::first(Time::ZERO),
            receipts: Vec::new(),
            reply: Reply::Grant,
            answer_by: Time::ZERO.plus(Span::DAY),
            properties: Properties::try_from(properties).unwrap(),
        };
        self.seller.hand(*guest, &mut credentials.clone(), Message::Request(request));
    }

    /// Services learn which tickets are theirs.
    fn name_tickets(&mut self) {
        let view = self.seller.broker.view(Time::ZERO).unwrap();
        for grant in view.grants() {
            let service = (grant.request.number - 1) / u64::from(TICKETS);
            self.services[usize::try_from(service).unwrap()].tickets.push(grant.ticket);
        }
        assert!(self.services.iter().all(|service| service.tickets.len() == TICKETS as usize));
    }

    /// A service says what it wants: what it has, and so many units more, which only the most urgent do.
    fn state(&mut self, number: u64, claims: u32) {
        let service = &mut self.services[usize::try_from(number).unwrap()];
        service.revision += 1;
        let more = Step { units: claims, urgency: 99, claim: Some(99) };
        let had = service.urgencies.iter().map(|&urgency| {
            let claim = (claims > 0).then_some(urgency);
            Step { units: UNITS_OF_EACH, urgency, claim }
        });
        let steps: Vec<Step> = had.chain((claims > 0).then_some(more)).collect();
        let need = Need {
            service: service.name.clone(),
            revision: service.revision,
            wants: vec![Want {
                kind: Kind { resource: Name::literal("node"), requirement: None },
                steps: Steps::checked(steps).unwrap(),
                tickets: service.tickets.clone(),
                elsewhere: 0,
            }],
        };
        let (guest, credentials) = &mut self.guests[service.guest];
        self.seller.hand(*guest, &mut credentials.clone(), Message::Need(need));
    }

    /// The time of a changed need, from the message to what the broker does about it.
    fn claim(&mut self, number: u64, claims: u32) -> Duration {
        let begun = processor_time();
        self.state(number, claims);
        self.seller.decide(&self.mapper);
        processor_time() - begun
    }

    fn orders(&self) -> u64 {
        self.seller.broker.orders().count() as u64
    }

    /// The time of a sort of what all units are worth, to find the least.
    fn sort(&self) -> Duration {
        let of_each = |service: &Service| {
            let worths = service.urgencies.iter().map(|urgency| u64::from(*urgency));
            worths
                .flat_map(|worth| std::iter::repeat_n(worth, UNITS_OF_EACH as usize))
                .collect::<Vec<_>>()
        };
        let mut worths: Vec<(u64, usize)> = self
            .services
            .iter()
            .enumerate()
            .flat_map(|(at, service)| of_each(service).into_iter().map(move |worth| (worth, at)))
            .collect();
        let begun = processor_time();
        worths.sort_unstable();
        black_box(&worths);
        processor_time() - begun
    }
}
