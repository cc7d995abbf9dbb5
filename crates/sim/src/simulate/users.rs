//! What guests and operators do: ask, extend, give back, put broken units right.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use tenure_core::actor::Role;
use tenure_core::broker::Command as BrokerCommand;
use tenure_core::broker::facts as broker;
use tenure_core::broker::quota::Quota;
use tenure_core::driver::UnitId;
use tenure_core::runtime::AnyActor;
use tenure_core::runtime::{Entry, Fact, Input};
use tenure_core::service_manager::{Command as GuestCommand, Victims};
use tenure_core::site_authority::Command as SiteCommand;

use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::resource::{Constraints, Expr};
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::service_manager::facts as service_manager;
use tenure_core::service_manager::group::{ASSEMBLE, Handling};
use tenure_core::service_manager::mapper::Ask;
use tenure_core::service_manager::sequence::{After, Gate, On};
use tenure_core::site_authority::facts as site_authority;
use tenure_core::wire::heartbeat;
use tenure_core::wire::offer::{MAX_HOLD, Reply};
use tenure_core::wire::proviso::Provisos;
use tenure_core::wire::request::{Item, Joins, Relation};

use crate::users::kept_alive;

use super::operators::below;
use super::sampler::Sampler;
use super::violation::Violation;
use super::world::World;

impl World {
    /// A guest asks for something.
    pub(super) fn visit(&mut self) -> Result<(), Violation> {
        self.tend_services();
        let guests = self.of_role(Role::ServiceManager);
        let Some(&who) = self.users.pick(&guests) else { return Ok(()) };
        let now = self.participants[who].time(self.now);
        let mut ask = self.random_request(now);
        let lease = LeaseId { number: self.next_number(who), part: 0 };
        ask.handling.after = self.sequence(ask.items.len(), lease.number);
        if self.users.percent(7) {
            let at = self.now.plus(self.users.span(Span::ZERO, self.setting.term));
            self.close_later(at, who, lease);
        }
        if self.users.percent(12) {
            let ask = self.random_request(now);
            let at = self.now.plus(self.users.scaled(Span::from_micros(1), self.setting.term));
            self.command(at, who, GuestCommand::Revise { number: lease.number, ask });
        }
        let command = self.of_several(ask);
        self.hand_in(who, Input::Command(command.into()))
    }

    /// A guest asks for more than one broker may have, of one type or two.
    pub(super) fn ask_much(&mut self, draw: u64) -> Result<(), Violation> {
        let (guests, brokers) = (self.of_role(Role::ServiceManager), self.of_role(Role::Broker));
        let Some(&who) = guests.get(below(draw, guests.len())) else { return Ok(()) };
        let broker = brokers.get(below(draw >> 8, brokers.len()));
        let broker = broker.map(|&broker| self.participants[broker].id);
        let term = self.setting.term;
        let item = |resource, bits: u64| {
            let units = u32::try_from(bits % 8 + 2).unwrap_or(2);
            let units = NonZeroU32::new(units).unwrap_or(NonZeroU32::MIN);
            let elastic = bits % 64 >= 48;
            let min_units = if elastic { NonZeroU32::MIN } else { units };
            Item { min_units, ..Item::new(Name::literal(resource), units) }
        };
        let mut items = vec![item("node", draw >> 16)];
        if (draw >> 24).is_multiple_of(3) {
            items.push(item("disk", draw >> 26));
        }
        let window = if (draw >> 32).is_multiple_of(2) { Span::ZERO } else { term };
        let at = self.participants[who].time(self.now);
        let ask = Ask {
            broker,
            slice: Name::literal("main"),
            items,
            earliest: at,
            latest: at.plus(window),
            duration: term,
            min_duration: term,
            reply: Reply::Grant,
            provisos: Provisos::NONE,
            again: None,
            answer_by: at.plus(window).plus(term.part(2)),
            properties: Properties::default(),
            configuration: Properties::default(),
            reason: "much".to_owned(),
            handling: Handling::default(),
        };
        self.hand_in(who, Input::Command(GuestCommand::Ask(ask).into()))
    }

    /// Where there are several brokers, a request sometimes goes to two of them.
    fn of_several(&mut self, ask: Ask) -> GuestCommand {
        let offers = self.offers();
        let brokers: BTreeSet<usize> = offers.iter().map(|offer| offer.0).collect();
        if brokers.len() < 2 || !self.asks_several || !self.several.percent(40) {
            return GuestCommand::Ask(ask);
        }
        let two: Vec<usize> = brokers.into_iter().take(2).collect();
        let items = two.iter().map(|&broker| self.plain_item(broker, &offers)).collect();
        let ids = self.of_role(Role::Broker);
        let brokers = two.iter().filter_map(|&broker| ids.get(broker));
        let brokers = brokers.map(|&broker| self.participants[broker].id).collect();
        let (term, margin) = (self.setting.term, self.setting.margin);
        let sampler = &mut self.several;
        let hold = margin.times(4).plus(sampler.scaled(Span::SECOND, term));
        let tries = sampler.count(1, 4);
        let window = if sampler.percent(70) { term.times(2) } else { Span::ZERO };
        let reply = Reply::Grant;
        let (latest, duration) = (ask.earliest.plus(window), ask.duration);
        let handling = Handling { after: Vec::new(), ..ask.handling };
        let min_duration = duration;
        let answer_by = latest.plus(duration);
        let ask =
            Ask { items, latest, min_duration, reply, handling, answer_by, broker: None, ..ask };
        let (ask, hold) = (Box::new(ask), hold.min(MAX_HOLD));
        GuestCommand::AskSeveral { ask, brokers, hold, tries }
    }

    /// Some units of what a broker sells.
    fn plain_item(&mut self, broker: usize, offers: &[(usize, Name, u32)]) -> Item {
        let its: Vec<_> = offers.iter().filter(|offer| offer.0 == broker).collect();
        let sampler = &mut self.several;
        let (resource, most) = match sampler.pick(&its) {
            Some((_, resource, units)) => (resource.clone(), *units),
            None => (Name::literal("node"), 1),
        };
        let units = NonZeroU32::new(sampler.count(1, most.min(3))).unwrap_or(NonZeroU32::MIN);
        let apart = sampler.percent(30);
        let relation = if apart { Relation::Apart(0) } else { Relation::Alone };
        Item { relation, ..Item::new(resource, units) }
    }

    /// The number that a guest's next request will have, if nothing comes between.
    fn next_number(&self, who: usize) -> u64 {
        let AnyActor::ServiceManager(guest) = &self.participants[who].fold else {
            return 0;
        };
        guest.survey().last().map_or(1, |lease| lease.id.number + 1)
    }

    /// What a guest may want: mostly sensible, at times what cannot be had.
    pub(super) fn random_request(&mut self, now: Time) -> Ask {
        let (term, margin) = (self.setting.term, self.setting.margin);
        let sampler = &mut self.users;
        let micro = Span::from_micros(1);
        let duration = match sampler.below(30) {
            0 => margin.times(2).plus(micro),
            1 => margin.times(2),
            2 => margin.times(3),
            _ => sampler.span(Span::from_micros(term.as_micros() / 3), term.plus(term.times(1))),
        };
        let earliest = match sampler.below(20) {
            0 => now.minus(sampler.span(Span::ZERO, duration)),
            1 if sampler.percent(40) => now.minus(sampler.span(Span::ZERO, Span::DAY.times(2))),
            1..12 => now,
            _ => now.plus(sampler.span(Span::ZERO, term)),
        };
        let window =
            if sampler.percent(50) { Span::ZERO } else { sampler.span(Span::ZERO, term.times(2)) };
        let latest = earliest.plus(window);
        let soon = if sampler.percent(15) {
            Span::SECOND
        } else {
            Span::from_micros(duration.as_micros() / 2)
        };
        let answer_within = sampler.span(soon, duration.max(Span::SECOND));
        let items = if sampler.percent(75) { 1 } else { sampler.below(3) + 1 };
        let short = sampler.percent(30);
        let handling = Handling {
            bundle: sampler.percent(if items > 1 { 40 } else { 5 }),
            assemble: if short { sampler.scaled(Span::SECOND, term) } else { ASSEMBLE },
            keep_tickets: sampler.percent(12),
            after: Vec::new(),
        };
        let offers = self.offers();
        let (broker, ..) = offers[self.users.below(offers.len())].clone();
        let items: Vec<Item> = (0..items).map(|_| self.item(broker, &offers)).collect();
        let items = self.varied(items);
        let items = self.linked(items);
        let brokers = self.of_role(Role::Broker);
        let provisos = self.provisos(now);
        Ask {
            broker: brokers.get(broker).map(|&broker| self.participants[broker].id),
            slice: Name::literal("main"),
            items,
            earliest,
            latest,
            duration,
            min_duration: if self.users.percent(15) {
                Span::from_micros(duration.as_micros() / 2)
            } else {
                duration
            },
            reply: self.reply(),
            provisos,
            again: None,
            answer_by: latest.plus(answer_within),
            properties: Properties::default(),
            configuration: self.kept_alive(),
            reason: "a visit".to_owned(),
            handling,
        }
    }

    /// Some leases depend on heartbeats.
    fn kept_alive(&mut self) -> Properties {
        let least = self.setting.margin.times(heartbeat::MARGINS);
        let most = self.setting.term.clamp(least, heartbeat::LONGEST.max(least));
        if !self.heartbeats.percent(15) || heartbeat::check(least, self.setting.margin).is_err() {
            return Properties::default();
        }
        kept_alive(self.heartbeats.span(least, most))
    }

    /// Sometimes an item of a request waits for another, or all for one of the last requests.
    fn sequence(&mut self, items: usize, number: u64) -> Vec<After> {
        let sampler = &mut self.sequences;
        if !sampler.percent(1) {
            return Vec::new();
        }
        let gate = if sampler.percent(50) { Gate::Redeem } else { Gate::Join };
        let item = |sampler: &mut Sampler| u16::try_from(sampler.below(items)).unwrap_or(0);
        let on = if items > 1 && sampler.percent(80) {
            On::Item(item(sampler))
        } else {
            On::Request(number.saturating_sub(1 + sampler.any() % 3).max(1))
        };
        let who = sampler.percent(50).then(|| item(sampler));
        let after = |on| After { item: who, on, gate };
        // Of every other one the mapper is asked as well.
        let mapper = number.is_multiple_of(2).then(|| after(On::Mapper));
        [after(on)].into_iter().chain(mapper).collect()
    }

    /// Where there is bandwidth, often units at two places and a link between them instead.
    fn linked(&mut self, items: Vec<Item>) -> Vec<Item> {
        let sampler = &mut self.links;
        if !self.setting.links || !sampler.percent(60) {
            return items;
        }
        let number = |n| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        let relation = if sampler.percent(70) { Relation::Apart(0) } else { Relation::Alone };
        let unit = |sampler: &mut Sampler| {
            let units = number(sampler.count(1, 2));
            Item { relation: relation.clone(), ..Item::new(Name::literal("node"), units) }
        };
        let mut items = vec![unit(sampler), unit(sampler)];
        if sampler.percent(30) {
            items.push(unit(sampler));
        }
        for end in 1..u16::try_from(items.len()).unwrap_or(0) {
            let bandwidth = sampler.count(1, 4);
            let least = if sampler.percent(30) { 1 } else { bandwidth };
            let joins = Joins {
                ends: [end - 1, end],
                latency: sampler.percent(10).then_some(Span::from_micros(1000)),
                hops: sampler.percent(20).then_some(1),
            };
            items.push(Item {
                min_units: number(least),
                relation: Relation::Joins(joins),
                ..Item::new(Name::literal("bandwidth"), number(bandwidth))
            });
        }
        items
    }

    /// Some items as alternatives, later than others, from one site, or left out where there is no room.
    fn varied(&mut self, mut items: Vec<Item>) -> Vec<Item> {
        let term = self.setting.term;
        let sampler = &mut self.users;
        let together = sampler.percent(20).then_some(0);
        let apart = (together.is_none() && sampler.percent(20)).then_some(0);
        for (choice, item) in (0u8..).zip(&mut items) {
            item.together = together;
            item.relation = apart.map_or(Relation::Alone, Relation::Apart);
            match sampler.below(8) {
                0 if choice > 0 => item.choice = choice,
                1 if choice > 0 => item.optional = true,
                2 => item.offset = sampler.span(Span::ZERO, term),
                _ => {}
            }
        }
        items
    }

    /// Conditions on how a request is met: mostly none.
    fn provisos(&mut self, now: Time) -> Provisos {
        let mut provisos = Provisos::NONE;
        if self.users.percent(15) {
            let within = self.users.span(Span::SECOND, self.setting.term.times(2));
            provisos.redeem_by = Some(now.plus(within));
        }
        let sites = self.of_role(Role::SiteAuthority);
        if self.users.percent(8)
            && let Some(&site) = self.users.pick(&sites)
        {
            provisos.not_at.insert(self.participants[site].id);
        }
        if self.users.percent(15)
            && let Some(&site) = self.users.pick(&sites)
        {
            for _ in 0..=self.users.below(3) {
                let unit = UnitId(u32::try_from(self.users.below(6)).unwrap_or(0));
                provisos.not_on.insert((self.participants[site].id, unit));
            }
        }
        provisos
    }

    /// The answer that a guest wants.
    fn reply(&mut self) -> Reply {
        match self.users.below(20) {
            0 => Reply::Plan,
            1..4 => Reply::Hold(self.users.span(Span::SECOND, self.setting.term)),
            _ => Reply::Grant,
        }
    }

    /// What sites offer: to which broker, of which type, how many.
    fn offers(&self) -> Vec<(usize, Name, u32)> {
        let offers = self.setting.sites.iter().flat_map(|site| &site.offers);
        offers.map(|(broker, resource, units)| (*broker, resource.clone(), units.get())).collect()
    }

    /// An item that a broker can mostly meet.
    fn item(&mut self, broker: usize, offers: &[(usize, Name, u32)]) -> Item {
        let sampler = &mut self.users;
        let its: Vec<_> = offers.iter().filter(|offer| offer.0 == broker).collect();
        let (resource, most) = match sampler.pick(&its) {
            Some((_, resource, units)) if sampler.percent(97) => (resource.clone(), *units),
            _ => (Name::literal(if sampler.percent(50) { "gpu" } else { "disk" }), 3),
        };
        let many = if sampler.percent(70) { 2 } else { 4 };
        let units = if sampler.percent(1) { 60 } else { sampler.count(1, most.min(many)) };
        let min_units = if sampler.percent(30) { sampler.count(1, units) } else { units };
        let mut requirements = Constraints::NONE;
        if sampler.percent(8) {
            let speed = sampler.between(1, 3);
            requirements.extend(Expr::parse(&format!("speed = {speed}")).ok());
        }
        let number = |n| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        let accepts = self.accepts();
        let item = Item::new(resource, number(units));
        Item { min_units: number(min_units), requirements, accepts, ..item }
    }

    /// An operator limits what one guest, or each, may have of a broker; or takes that back.
    pub(super) fn set_quota(&mut self) -> Result<(), Violation> {
        let (brokers, guests) = (self.of_role(Role::Broker), self.of_role(Role::ServiceManager));
        let sampler = &mut self.users;
        let (Some(&broker), guest) = (sampler.pick(&brokers), sampler.pick(&guests).copied())
        else {
            return Ok(());
        };
        let guest = guest.filter(|_| sampler.percent(80));
        let quota = sampler.percent(75).then(|| Quota {
            units: sampler.percent(60).then(|| sampler.count(3, 12)),
            unit_hours: sampler.percent(30).then(|| sampler.count(10, 80)),
            period: sampler.percent(50).then(|| self.setting.term.times(4)),
            open_requests: sampler.percent(30).then(|| sampler.count(2, 6)),
            holds: sampler.percent(20).then(|| sampler.count(0, 2)),
            requests_per_second: sampler.percent(30).then(|| sampler.count(2, 6)),
        });
        // What a broker hands on counts for that broker.
        let others: Vec<usize> = brokers.iter().copied().filter(|other| *other != broker).collect();
        let other = sampler.pick(&others).copied().filter(|_| sampler.percent(30));
        let whose = other.or(guest).map(|peer| self.participants[peer].id);
        let command = BrokerCommand::SetQuota { whose, quota };
        self.hand_in(broker, Input::Command(command.into()))
    }

    /// Reactions of the outside to facts: guests make requests, operators repair.
    pub(super) fn follow_up(&mut self, who: usize, entry: &Entry) {
        self.tempt(who, &entry.fact);
        if let Fact::ServiceManager(fact) = &entry.fact {
            self.handle_tickets(who, fact);
            self.handle_plans(who, fact);
        }
        if let Fact::Broker(fact) = &entry.fact {
            self.handle_orders(fact);
        }
        if let Fact::ServiceManager(service_manager::Fact::Leased(fact)) = &entry.fact {
            self.live_with(who, fact.lease, fact.term);
            self.grow_later(who, fact.lease, fact.term);
        } else if let Fact::ServiceManager(service_manager::Fact::Extended(fact)) = &entry.fact {
            if !self.healed && self.users.percent(40) {
                let duration = self.users.span(Span::SECOND, self.setting.term);
                let at = self.now.plus(self.users.span(Span::ZERO, self.setting.term));
                self.command(at, who, GuestCommand::extend(fact.lease, duration));
            }
        } else if let Fact::ServiceManager(service_manager::Fact::Offered(fact)) = &entry.fact {
            self.choose(who, fact);
        } else if let Fact::Broker(broker::Fact::DelegationTaken(fact)) = &entry.fact {
            self.resell(who, &fact.ticket);
        } else if let Fact::SiteAuthority(site_authority::Fact::Stocked(fact)) = &entry.fact {
            self.delegate_by_hand(who, &fact.resource);
        } else if let Fact::SiteAuthority(
            site_authority::Fact::UnitTeardownFailed(site_authority::UnitTeardownFailed {
                unit,
                ..
            })
            | site_authority::Fact::UnitQuarantined(site_authority::UnitQuarantined { unit, .. }),
        ) = &entry.fact
        {
            let at = self.now.plus(self.users.scaled(Span::SECOND, self.setting.term));
            self.command(at, who, SiteCommand::Reset { unit: *unit });
        }
    }

    /// A guest has offers: it may accept one, let all go, or do nothing, now or at the last moment.
    fn choose(&mut self, who: usize, fact: &service_manager::Offered) {
        if self.healed || fact.offers.is_empty() {
            return;
        }
        let number = fact.number;
        let last = fact.until.unwrap_or_else(|| self.now.plus(self.setting.term));
        let sampler = &mut self.users;
        let at = match sampler.below(6) {
            0 => last,
            1 => last.minus(Span::from_micros(1)),
            _ => sampler.time(self.now, last.max(self.now)),
        };
        let at = at.max(self.now);
        let offer = u8::try_from(sampler.count(1, 3)).unwrap_or(1);
        match sampler.below(10) {
            0..6 => self.command(at, who, GuestCommand::Accept { number, offer }),
            6..8 => self.command(at, who, GuestCommand::Withdraw { number }),
            _ => {}
        }
    }

    /// Which units of a lease go.
    fn victims(&mut self) -> Victims {
        match self.users.below(4) {
            0 => Victims::Oldest,
            1 => Victims::Named(vec![UnitId(self.users.count(0, 4))]),
            2 => Victims::LeastUsed,
            _ => Victims::Youngest,
        }
    }

    /// A guest gives parts of a lease back: units, or time, one after the other.
    fn give_parts(&mut self, who: usize, lease: LeaseId, term: Term) {
        for _ in 0..self.users.below(4) {
            let at = self.moment(who, term);
            if self.users.percent(60) {
                let shrink = NonZeroU32::new(self.users.count(1, 2)).unwrap_or(NonZeroU32::MIN);
                let victims = self.victims();
                self.command(at, who, GuestCommand::Flex { lease, shrink, victims });
            } else {
                let until = self.users.time(at, term.end().max(at));
                self.command(at, who, GuestCommand::Shorten { lease, until });
            }
        }
    }

    /// A guest changes the configuration of a lease, once or several times.
    fn modify(&mut self, who: usize, lease: LeaseId, term: Term) {
        for _ in 0..self.users.count(1, 3) {
            let at = self.moment(who, term);
            let mode = format!("{}", self.users.below(100));
            let changes = [(Name::literal("mode"), mode)].into_iter().collect::<BTreeMap<_, _>>();
            if let Ok(changes) = Properties::try_from(changes) {
                self.command(at, who, GuestCommand::Modify { lease, changes });
            }
        }
    }

    /// A guest has units: it may keep them for longer, or give them back, now, later or at the last moment.
    fn live_with(&mut self, who: usize, lease: LeaseId, term: Term) {
        if self.healed {
            return;
        }
        let margin = self.setting.margin;
        if self.users.percent(30) {
            self.give_parts(who, lease, term);
        }
        if self.users.percent(25) {
            self.modify(who, lease, term);
        }
        if self.users.percent(45) {
            let at = self.moment(who, term);
            let duration = match self.users.below(12) {
                0 => margin.times(2),
                1 => margin.times(2).plus(Span::from_micros(1)),
                _ => self.users.span(Span::SECOND, self.setting.term.times(2)),
            };
            self.command(at, who, GuestCommand::extend(lease, duration));
            if self.users.percent(30) {
                let victims = self.victims();
                let units = NonZeroU32::new(self.users.count(1, 2));
                let fewer = GuestCommand::Extend { lease, duration, units, victims };
                let at = self.moment(who, term);
                self.command(at, who, fewer);
            }
            if self.users.percent(30) {
                // With the extension under way.
                let soon = at.plus(self.users.scaled(Span::from_micros(1), Span::MINUTE));
                self.close_later(soon, who, lease);
            }
        }
        if self.users.percent(30) {
            let at = self.moment(who, term);
            self.close_later(at, who, lease);
            if self.users.percent(25) {
                let soon = at.plus(self.users.scaled(Span::from_micros(1), Span::MINUTE));
                let by = soon.plus(self.users.scaled(Span::from_micros(1), Span::MINUTE));
                self.command(soon, who, GuestCommand::Hasten { lease, by });
            }
            if self.users.percent(20) {
                let soon = at.plus(self.users.scaled(Span::from_micros(1), Span::MINUTE));
                let duration = self.setting.term;
                self.command(soon, who, GuestCommand::extend(lease, duration));
            }
        }
    }

    /// An instant of a lease's life, at times its very end or start by its guest's clock.
    fn moment(&mut self, who: usize, term: Term) -> Time {
        let (margin, micro) = (self.setting.margin, Span::from_micros(1));
        let sampler = &mut self.users;
        let edge = match sampler.below(10) {
            0 => Some(term.start()),
            1 => Some(term.end().minus(margin)),
            2 => Some(term.end().minus(margin).minus(micro)),
            3 => Some(term.end()),
            _ => None,
        };
        let random = sampler.time(self.now, term.end().max(self.now));
        let edge = edge.and_then(|edge| self.participants[who].clock.when(edge));
        edge.filter(|at| *at > self.now).unwrap_or(random)
    }
}
