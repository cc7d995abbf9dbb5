//! The setting of one seed: who takes part, with what, and how much goes wrong.
//!
//! Every range is drawn again for each seed (swarm testing): a seed with few families of faults goes deep
//! where one with all of them is stopped by the first.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use tenure_core::model::identity::Scheme;
use tenure_core::model::name::Name;
use tenure_core::model::resource::{
    Attributes, CARRIES, DIVISIBLE, ENDS, LATENCY, OVERBOOKED, Value,
};
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::outbox::RetryPolicy;
use tenure_core::site_authority::Stacks;

use super::Options;
use super::fault::Family;
use super::sampler::Sampler;
use crate::random::Chance;
use crate::scenario::{Delay, Network};

/// The families that are drawn apart, so that seeds without them are what they were.
pub(super) const APART: [Family; 5] =
    [Family::Connection, Family::Takeover, Family::Stranger, Family::Foreign, Family::Absence];

/// How much of a seed is spent under faults, at least.
const SAFETY: Span = Span::DAY.times(30);

/// The mapper of brokers that move units between services.
pub(super) const MOVER: &str = "urgency";

/// The streams of draws; those of the families follow.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stream {
    Setting,
    Schedule,
    Users,
    Shell,
    Burst,
    Shares,
    Operators,
    Sequences,
    Overbooking,
    Stacks,
    Clocks,
    Keys,
    Links,
    Plans,
    Several,
    Services,
    Sharing,
    Forwarding,
    Adverts,
    Heartbeats,
    Silence,
    Family(Family),
    /// When a family strikes.
    Strikes(Family),
}

impl Stream {
    pub(super) fn sampler(self, chance: Chance) -> Sampler {
        Sampler::new(
            chance,
            match self {
                Self::Setting => 0,
                Self::Schedule => 1,
                Self::Users => 2,
                Self::Shell => 3,
                Self::Burst => 4,
                Self::Shares => 5,
                Self::Operators => 6,
                Self::Sequences => 7,
                Self::Overbooking => 8,
                Self::Stacks => 9,
                Self::Clocks => 10,
                Self::Keys => 11,
                Self::Links => 12,
                Self::Plans => 13,
                Self::Several => 14,
                Self::Services => 15,
                Self::Family(family) => 16 + family as u64,
                Self::Strikes(family) => 64 + family as u64,
                Self::Sharing => 128,
                Self::Forwarding => 129,
                Self::Adverts => 130,
                Self::Heartbeats => 131,
                Self::Silence => 132,
            },
        )
    }
}

/// What a seed is made of.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) scheme: Scheme,
    pub(super) margin: Span,
    /// The families that are on.
    pub(super) families: BTreeSet<Family>,
    /// The length that most terms are of.
    pub(super) term: Span,
    /// How many setups of a unit may fail in a row; 0: any number.
    pub(super) quarantine_after: u32,
    /// When the faults stop.
    pub(super) heal: Time,
    pub(super) network: Network,
    pub(super) retry_policy: RetryPolicy,
    /// How often actors ask for the clocks of their peers, if they do.
    pub(super) clock_check: Option<Span>,
    /// How often brokers tell those that pass requests on to them what they have, if they do.
    pub(super) adverts: Option<Span>,
    /// Whether brokers sell what others have lent them only while these are heard.
    pub(super) pauses: bool,
    /// How long the drivers of sites and of guests take.
    pub(super) setup: Delay,
    pub(super) teardown: Delay,
    pub(super) join: Delay,
    pub(super) leave: Delay,
    pub(super) delegation: Span,
    pub(super) renew_before: Span,
    pub(super) sites: Vec<Site>,
    pub(super) brokers: Vec<Broker>,
    pub(super) guests: Vec<Guest>,
    /// Sites and guests, by their places, that are no peers.
    pub(super) strangers: BTreeSet<(usize, usize)>,
    /// Whether there is bandwidth between sites, and guests ask for links.
    pub(super) links: bool,
    /// Whether guests have services, between which brokers move units.
    pub(super) services: bool,
    /// When guests become active.
    pub(super) visits: Vec<Time>,
    /// What comes once the faults have stopped, in some of the seeds.
    pub(super) burst: Option<Burst>,
}

/// Ten times the usual demand, in the midst of that: nothing of it may be felt later (L5).
#[derive(Clone, Debug)]
pub(super) struct Burst {
    pub(super) begins: Time,
    pub(super) ends: Time,
    /// From the end of the burst until it is forgotten.
    pub(super) bound: Span,
    /// When guests become active: before, during and after.
    pub(super) visits: Vec<Time>,
}

#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) stock: Vec<(Name, Attributes, u32)>,
    /// Units of a type for each broker by its place.
    pub(super) offers: Vec<(usize, Name, NonZeroU32)>,
    /// Units that are lent to one holder at a time. If there are any, all units have names.
    pub(super) stacks: Stacks,
}

#[derive(Clone, Debug)]
pub(super) struct Broker {
    /// Its mapper, and how that spreads units over sites.
    pub(super) mapper: &'static str,
    pub(super) placement: &'static str,
    pub(super) honest: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Guest {
    pub(super) leave_before: Span,
    pub(super) honest: bool,
}

impl Setting {
    /// Draws the setting of a seed.
    #[allow(clippy::too_many_lines, reason = "a line or two for each thing drawn")]
    pub(super) fn draw(chance: Chance, options: &Options) -> Self {
        let sampler = &mut Stream::Setting.sampler(chance);
        let shrunk = sampler.percent(25);
        let margin = if shrunk {
            sampler.span(Span::from_micros(1000), Span::from_secs(5))
        } else {
            sampler.scaled(Span::SECOND, Span::MINUTE.times(2))
        };
        let longest = if shrunk { Span::HOUR } else { Span::HOUR.times(12) };
        let term = sampler.scaled(Span::MINUTE.times(12), longest);
        let mut families = families(sampler);
        // Signatures take time, and matter where a participant is dishonest.
        let adversaries = [Family::DishonestBroker, Family::DishonestGuest];
        let signed =
            if adversaries.iter().any(|adversary| families.contains(adversary)) { 12 } else { 2 };
        let scheme = if sampler.percent(signed) { Scheme::Ed25519 } else { Scheme::None };
        for family in APART {
            if Stream::Family(family).sampler(chance).percent(50) {
                families.insert(family);
            }
        }
        families.retain(|family| !options.without.contains(family));
        let mut brokers = brokers(sampler, &families);
        let guests = guests(sampler, &families, term);
        let mut sites: Vec<Site> =
            (0..sampler.count(1, 3)).map(|_| site(sampler, brokers.len())).collect();
        diversify(&mut sites, chance);
        let links = Stream::Links.sampler(chance).percent(20) && connect(&mut sites);
        if links {
            brokers.iter_mut().for_each(|broker| broker.mapper = "co-allocate");
        }
        let services = !links && Stream::Services.sampler(chance).percent(30);
        if services {
            brokers.iter_mut().for_each(|broker| broker.mapper = MOVER);
        } else {
            families.retain(|family| ![Family::Foreign, Family::Absence].contains(family));
        }
        let part = |n: i64| Span::from_micros(term.as_micros() / n);
        let slowest = Span::MINUTE.min(part(if shrunk { 60 } else { 20 }));
        let retry = sampler.scaled(Span::SECOND, slowest);
        let longest = sampler.scaled(retry.max(part(30)), Span::MINUTE.times(30).min(part(4)));
        let retry_policy = RetryPolicy { first: retry, longest };
        let slow = part(20);
        let takes =
            |sampler: &mut Sampler| Delay::uniform(Span::ZERO, sampler.scaled(Span::SECOND, slow));
        let delegation = sampler.span(Span::DAY, Span::DAY.times(12)).max(term.times(5));
        let heal = Time::ZERO.plus(SAFETY).plus(sampler.span(Span::ZERO, Span::DAY));
        let healed = options.until.map_or(heal, |until| until.min(heal));
        let strangers = strangers(&families, chance, (sites.len(), guests.len()));
        Self {
            network: network(sampler, &families, retry),
            setup: takes(sampler),
            teardown: takes(sampler),
            join: takes(sampler),
            leave: takes(sampler),
            delegation,
            renew_before: term.times(4),
            visits: visits(sampler, heal, term),
            quarantine_after: match Stream::Operators.sampler(chance).count(0, 4) {
                0 | 1 => 0,
                most => most,
            },
            heal: healed,
            burst: burst(&mut Stream::Burst.sampler(chance), healed, term),
            clock_check: clock_check(&mut Stream::Clocks.sampler(chance)),
            adverts: adverts(&mut Stream::Adverts.sampler(chance)),
            pauses: Stream::Silence.sampler(chance).percent(20),
            scheme,
            margin,
            families,
            term,
            retry_policy,
            sites,
            brokers,
            guests,
            strangers,
            links,
            services,
        }
    }

    /// Whether a family of faults is on.
    pub(super) fn has(&self, family: Family) -> bool {
        self.families.contains(&family)
    }

    /// The types that are lent somewhere.
    pub(super) fn types() -> [Name; 2] {
        [Name::literal("node"), Name::literal("disk")]
    }
}

/// In half of the seeds peers' clocks are asked for, seldom enough to be few among all messages.
fn clock_check(sampler: &mut Sampler) -> Option<Span> {
    let pause = sampler.scaled(Span::HOUR.times(4), Span::DAY);
    sampler.percent(50).then_some(pause)
}

/// In half of the seeds brokers tell each other what they have, seldom enough to be few among all messages.
fn adverts(sampler: &mut Sampler) -> Option<Span> {
    let pause = sampler.scaled(Span::MINUTE.times(30), Span::HOUR.times(8));
    sampler.percent(50).then_some(pause)
}

/// Most families are on, dishonesty and wild clocks less often; never so few that nothing happens.
fn families(sampler: &mut Sampler) -> BTreeSet<Family> {
    loop {
        let on = |family: &&Family| {
            sampler.percent(match family {
                Family::DishonestBroker | Family::DishonestGuest => 35,
                Family::WildClock => 25,
                Family::Loss
                | Family::Duplication
                | Family::Delay
                | Family::Replay
                | Family::Partition
                | Family::Skew
                | Family::LateTimer
                | Family::Crash
                | Family::Pause
                | Family::Storage
                | Family::Twin
                | Family::Driver
                | Family::Mapper => 65,
                Family::Connection
                | Family::Takeover
                | Family::Stranger
                | Family::Foreign
                | Family::Absence => 0,
            })
        };
        let drawn = Family::ALL.iter().filter(|family| !APART.contains(family));
        let families: BTreeSet<Family> = drawn.filter(on).copied().collect();
        let rich = [Family::Crash, Family::Driver, Family::Storage, Family::Mapper];
        if families.len() >= 5 && rich.iter().filter(|family| families.contains(family)).count() > 1
        {
            return families;
        }
    }
}

/// More than half of all sites and guests, if there are any strangers.
fn strangers(
    families: &BTreeSet<Family>,
    chance: Chance,
    (sites, guests): (usize, usize),
) -> BTreeSet<(usize, usize)> {
    let mut sampler = Stream::Strikes(Family::Stranger).sampler(chance);
    let all = (0..sites).flat_map(|site| (0..guests).map(move |guest| (site, guest)));
    all.filter(|_| families.contains(&Family::Stranger) && sampler.percent(60)).collect()
}

/// Instants at which guests become active, in bursts so that their leases meet.
fn visits(sampler: &mut Sampler, heal: Time, term: Span) -> Vec<Time> {
    let mut visits = Vec::new();
    let last = heal.minus(Span::HOUR);
    for _ in 0..sampler.count(28, 36) {
        let burst = sampler.time(Time::ZERO, last);
        for _ in 0..sampler.count(6, 11) {
            visits.push(burst.plus(sampler.span(Span::ZERO, term.times(2))).min(last));
        }
    }
    visits.sort();
    visits
}

/// In one seed of eight, a while after the faults have stopped.
fn burst(sampler: &mut Sampler, heal: Time, term: Span) -> Option<Burst> {
    if !sampler.percent(12) {
        return None;
    }
    let calm = heal.plus(term.times(4));
    let begins = calm.plus(term.times(2));
    let (ends, bound) = (begins.plus(term), term.times(4));
    let forgotten = ends.plus(bound);
    let mut visits = Vec::new();
    for (from, until, count) in
        [(calm, begins, 10), (begins, ends, 50), (forgotten, forgotten.plus(term.times(2)), 10)]
    {
        visits.extend((0..count).map(|_| sampler.time(from, until)));
    }
    Some(Burst { begins, ends, bound, visits })
}

fn network(sampler: &mut Sampler, families: &BTreeSet<Family>, retry: Span) -> Network {
    let slowest = sampler.scaled(Span::from_micros(1000), Span::from_secs(5));
    let loss = sampler.fraction(0.3);
    let duplicate = sampler.fraction(0.5);
    Network {
        delay: Delay::uniform(Span::ZERO, slowest),
        loss: if families.contains(&Family::Loss) { loss } else { 0.0 },
        duplicate: if families.contains(&Family::Duplication) { duplicate } else { 0.0 },
        drop: BTreeSet::new(),
        retry,
    }
}

fn brokers(sampler: &mut Sampler, families: &BTreeSet<Family>) -> Vec<Broker> {
    let dishonest = families.contains(&Family::DishonestBroker);
    let count = if dishonest { 2 } else { sampler.count(1, 2) };
    let broker = |place| Broker {
        mapper: if sampler.percent(75) { "fcfs" } else { "priority" },
        placement: if sampler.percent(50) { "even" } else { "first-fit" },
        honest: !(dishonest && place == 1),
    };
    (0..count).map(broker).collect()
}

fn guests(sampler: &mut Sampler, families: &BTreeSet<Family>, term: Span) -> Vec<Guest> {
    let dishonest = families.contains(&Family::DishonestGuest);
    let count = sampler.count(if dishonest { 3 } else { 2 }, 4);
    let most = Span::from_micros(term.as_micros() / 8);
    let guest = |place| Guest {
        leave_before: if sampler.percent(50) { sampler.span(Span::ZERO, most) } else { Span::ZERO },
        honest: !(dishonest && place == 2),
    };
    (0..count).map(guest).collect()
}

/// A unit more is delegated than there are machines.
fn overbook(site: &mut Site) {
    for (resource, attributes, _) in &mut site.stock {
        let offer = site.offers.iter_mut().find(|(_, offered, _)| offered == resource);
        if let Some((_, _, units)) = offer.filter(|_| resource.as_str() != "disk") {
            *units = units.saturating_add(1);
            attributes.insert(Name::literal(OVERBOOKED), Value::from(1));
        }
    }
}

/// The name of a unit of a site with stacks.
pub(super) fn stacked_name(resource: &Name, nth: u32) -> Option<Name> {
    Name::new(&format!("{resource}-{nth:02}")).ok()
}

/// A node and a disk each share a stack, where both are machines that one broker sells. The second disk is in the
/// first stack too.
fn stack(site: &mut Site) {
    let is_machine = |(_, attributes, _): &(Name, Attributes, u32)| {
        !attributes.contains_key(DIVISIBLE) && !attributes.contains_key(OVERBOOKED)
    };
    if !site.stock.iter().all(is_machine) {
        return;
    }
    let [nodes, disks] = Setting::types();
    let sellers = |resource: &Name| -> Vec<usize> {
        let offers = site.offers.iter().filter(|(_, offered, _)| offered == resource);
        offers.flat_map(|&(broker, _, units)| (0..units.get()).map(move |_| broker)).collect()
    };
    let (of_nodes, of_disks) = (sellers(&nodes), sellers(&disks));
    let both = (0u32..).zip(of_nodes.iter().zip(&of_disks));
    for (nth, _) in both.filter(|(_, (node, disk))| node == disk) {
        let second = nth == 0 && of_disks.get(1) == of_disks.first();
        let units = [stacked_name(&nodes, nth), stacked_name(&disks, nth)];
        let second = second.then(|| stacked_name(&disks, 1)).flatten();
        let units = units.into_iter().flatten().chain(second).collect();
        site.stacks.extend(stacked_name(&Name::literal("stack"), nth).map(|name| (name, units)));
    }
}

/// In some of the seeds stocks are divisible, overbooked or in stacks.
fn diversify(sites: &mut [Site], chance: Chance) {
    if Stream::Shares.sampler(chance).percent(40) {
        sites.iter_mut().for_each(divide);
    }
    if Stream::Overbooking.sampler(chance).percent(40) {
        sites.iter_mut().for_each(overbook);
    }
    if Stream::Stacks.sampler(chance).percent(25) {
        sites.iter_mut().for_each(stack);
    }
}

/// The last site sells bandwidth between all pairs of sites, at the first broker. None if there is but one site, or if
/// units of the last have names, which shares have not.
fn connect(sites: &mut [Site]) -> bool {
    let count = sites.len();
    let Some(last) = sites.last_mut().filter(|last| last.stacks.is_empty()) else { return false };
    for (one, other) in (1..=count).flat_map(|one| (one + 1..=count).map(move |other| (one, other)))
    {
        let Ok(edge) = Name::new(&format!("edge-{one}-{other}")) else { continue };
        let ends = Value::read(&format!("{{\"site-{one}\", \"site-{other}\"}}"));
        let attributes = Attributes::from([
            (Name::literal(DIVISIBLE), Value::Flag(true)),
            (Name::literal(ENDS), ends),
            (Name::literal(CARRIES), Value::from("bandwidth")),
            (Name::literal(LATENCY), Value::read("1ms")),
        ]);
        last.stock.push((edge.clone(), attributes, EDGE));
        last.offers.extend(NonZeroU32::new(EDGE).map(|all| (0, edge, all)));
    }
    count > 1
}

/// How much bandwidth an edge has.
const EDGE: u32 = 6;

/// Disks are leased as shares.
fn divide(site: &mut Site) {
    for (resource, attributes, _) in &mut site.stock {
        if resource.as_str() == "disk" {
            attributes.insert(Name::literal(DIVISIBLE), Value::Flag(true));
        }
    }
}

fn site(sampler: &mut Sampler, brokers: usize) -> Site {
    let mut site = Site { stock: Vec::new(), offers: Vec::new(), stacks: Stacks::new() };
    let kinds = if sampler.percent(50) { 1 } else { 2 };
    for resource in Setting::types().into_iter().take(kinds) {
        let units = sampler.count(3, 9);
        let speed = Value::from(sampler.between(1, 3));
        let attributes = Attributes::from([(Name::literal("speed"), speed)]);
        let mut left = units;
        for broker in 0..brokers {
            let last = broker + 1 == brokers;
            let share = if last { left } else { sampler.count(1, left.max(2) - 1) };
            if let Some(share) = NonZeroU32::new(share.min(left)) {
                site.offers.push((broker, resource.clone(), share));
                left -= share.get();
            }
        }
        site.stock.push((resource, attributes, units));
    }
    site
}
