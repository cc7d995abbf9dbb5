//! The memory of a live lease, and the rates of returns, closes, recalls and splits beside the rates that their
//! signatures alone would allow.
//!
//! A guest, a broker and a site hand each other messages in one thread, in virtual time, without journals.
//! One line of JSON for the memory, and one for each kind of step, in processor time.

#![allow(clippy::print_stdout, reason = "it prints what it has measured")]
#![allow(clippy::unwrap_used, reason = "a measurement that fails has nothing to say")]

use std::collections::VecDeque;
use std::fs;
use std::hint::black_box;
use std::num::NonZeroU32;

use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use tenure_core::actor::effect::DriverResult;
use tenure_core::actor::{Actor as _, Peer, Peers, Role, Setup};
use tenure_core::broker::{Broker, Command as BrokerCommand};
use tenure_core::mapper::fcfs::Fcfs;
use tenure_core::mapper::first_fit::FirstFit;
use tenure_core::model::identity::{ActorId, Label, Scheme, Signer};
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::resource::{Attributes, Constraints};
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::model::verifier::Verifier;
use tenure_core::runtime::host::{Departure, Host, Turn};
use tenure_core::runtime::hosted::HostedActor;
use tenure_core::runtime::outbox::RetryPolicy;
use tenure_core::runtime::{AnyActor, AnyMapper, Command, Input};
use tenure_core::service_manager::group::Handling;
use tenure_core::service_manager::machine::State;
use tenure_core::service_manager::mapper::{Ask, Decision, ServiceManagerMapper, View};
use tenure_core::service_manager::{Command as GuestCommand, Part, ServiceManager, Victims};
use tenure_core::site_authority::{Offer, Plan, SiteAuthority, Stock};
use tenure_core::wire::offer::Reply;
use tenure_core::wire::proviso::Provisos;
use tenure_core::wire::request::Item;

/// How many leases live at a time where their memory is measured: a site remembers no more for one guest than
/// 64 MiB of tickets.
const LIVE: u32 = 50_000;
/// How many leases and tickets are changed where rates are measured.
const CHANGED: u32 = 2_000;
/// The leases of one request.
const ITEMS: usize = 10;
/// When everything happens: there is no need for time to pass.
const NOW: Time = Time::ZERO;

const GUEST: usize = 0;
const BROKER: usize = 1;
const ROLES: [(&str, Role); 3] =
    [("guest", Role::ServiceManager), ("broker", Role::Broker), ("site", Role::SiteAuthority)];

fn main() {
    let before = resident();
    let mut stage = Stage::new(LIVE);
    stage.ask(LIVE, 1, false);
    let grown = resident() - before;
    assert_eq!(stage.count(|state| matches!(state, State::Active { .. })), LIVE as usize);
    println!("{}", json!({"live_leases": LIVE, "bytes_per_lease": grown / u64::from(LIVE)}));
    drop(stage);

    let costs = signature_seconds();
    let mut stage = Stage::new(CHANGED * 8);
    let whole = |stage: &mut Stage| stage.ask(CHANGED, 2, false);
    measure(&mut stage, "lease", costs, whole);
    let flex = |lease| GuestCommand::Flex { lease, shrink: units(1), victims: Victims::Youngest };
    measure(&mut stage, "return", costs, |stage| stage.command_each("Active", flex));
    let close = |lease| GuestCommand::Close { lease };
    measure(&mut stage, "close", costs, |stage| stage.command_each("Active", close));
    stage.ask(CHANGED, 2, true);
    measure(&mut stage, "recall", costs, Stage::recall_each);
    stage.command_each("Ticketed", close);
    stage.ask(CHANGED, 2, true);
    let holder = stage.ids[GUEST];
    let split = |lease| {
        let term = Term::lasting(NOW, Span::HOUR).unwrap();
        let part = Part {
            holder,
            units: units(1),
            term,
            constraints: Constraints::NONE,
            redeem_by: None,
            accepts: Default::default(),
        };
        GuestCommand::Split { lease, parts: vec![part] }
    };
    measure(&mut stage, "split", costs, |stage| stage.command_each("Ticketed", split));
}

fn units(units: u32) -> NonZeroU32 {
    NonZeroU32::new(units).unwrap()
}

/// Prints how many steps a second there are, and how many there could be if they were nothing but signatures.
fn measure(
    stage: &mut Stage,
    what: &str,
    (sign, check): (f64, f64),
    steps: impl FnOnce(&mut Stage),
) {
    let before = stage.signatures();
    let began = processor_seconds();
    steps(stage);
    let (took, after) = (processor_seconds() - began, stage.signatures());
    let each = |count: u64| count as f64 / f64::from(CHANGED);
    let (made, checked) = (each(after.0 - before.0), each(after.1 - before.1));
    println!(
        "{}",
        json!({
            "step": what,
            "per_cpu_s": f64::from(CHANGED) / took,
            "signed": made,
            "checked": checked,
            "signatures_alone_per_cpu_s": 1.0 / (made * sign + checked * check),
        })
    );
}

/// A mapper that wants nothing.
struct Idle;

impl ServiceManagerMapper for Idle {
    fn decide(&self, view: &View) -> Decision {
        Decision { round: view.round(), ..Decision::default() }
    }
}

/// Three actors that hear each other at once.
struct Stage {
    hosts: Vec<(Host, AnyMapper)>,
    ids: Vec<ActorId>,
    inputs: Vec<VecDeque<Input>>,
}

impl Stage {
    fn new(stock: u32) -> Self {
        let signers: Vec<Signer> =
            (1..=3).map(|who| Signer::from_seed(Scheme::Ed25519, [who; 32])).collect();
        let ids: Vec<ActorId> = signers.iter().map(Signer::id).collect();
        let peer = |(&id, (name, role)): (&ActorId, (&'static str, Role))| {
            (id, Peer { name: Name::literal(name), role })
        };
        let peers: Peers = ids.iter().zip(ROLES).map(peer).collect();
        let setup = |(signer, (name, _)): (Signer, (&'static str, Role))| Setup {
            name: Name::literal(name),
            signer,
            margin: Span::from_micros(1000),
            peers: peers.clone(),
        };
        let mut setups = signers.into_iter().zip(ROLES).map(setup);
        let mut setup = || setups.next().unwrap();
        let guest = ServiceManager::new(setup(), Span::ZERO);
        let broker = Broker::new(setup());
        let site = SiteAuthority::new(setup(), plan(stock, ids[1]));
        let actors = [
            HostedActor::service_manager(guest, Box::new(Idle)),
            HostedActor::broker(broker, Box::new(Fcfs::default())),
            HostedActor::site_authority(site, Box::new(FirstFit {})),
        ];
        let retry = RetryPolicy { first: Span::MINUTE, longest: Span::MINUTE };
        let hosts = actors.map(|hosted| {
            let (actor, mapper) = hosted.into_parts();
            (Host::new(actor, retry), mapper)
        });
        let inputs = (0..3).map(|_| VecDeque::from([Input::Start])).collect();
        let mut stage = Self { hosts: hosts.into(), ids, inputs };
        stage.settle();
        stage
    }

    /// Has leases or kept tickets granted, of so many units each.
    fn ask(&mut self, leases: u32, units_of_each: u32, keep_tickets: bool) {
        let item = Item::new(Name::literal("node"), units(units_of_each));
        for _ in 0..leases as usize / ITEMS {
            let ask = Ask {
                broker: None,
                slice: Name::literal("main"),
                items: vec![item.clone(); ITEMS],
                earliest: NOW,
                latest: NOW,
                duration: Span::DAY,
                min_duration: Span::DAY,
                reply: Reply::Grant,
                answer_by: NOW.plus(Span::HOUR),
                properties: Properties::default(),
                configuration: Properties::default(),
                reason: String::new(),
                handling: Handling { keep_tickets, ..Handling::default() },
                provisos: Provisos::NONE,
                again: None,
            };
            self.command(GuestCommand::Ask(ask));
            if self.inputs[GUEST].len() >= 100 {
                self.settle();
            }
        }
        self.settle();
    }

    /// Gives a command for each lease whose state is called so.
    fn command_each(&mut self, word: &str, command: impl Fn(LeaseId) -> GuestCommand) {
        let leases = self.called(word, |(lease, _)| lease);
        leases.into_iter().for_each(|lease| self.command(command(lease)));
        self.settle();
    }

    /// Has the broker recall a unit of each ticket that is kept.
    fn recall_each(&mut self) {
        let tickets = self.called("Ticketed", |(_, state)| state.ticket().unwrap().hash());
        let recall = |ticket| BrokerCommand::Recall { ticket, units: Some(1), from: None };
        let commands = tickets.into_iter().map(|ticket| Command::Broker(recall(ticket)));
        self.inputs[BROKER].extend(commands.map(Input::Command));
        self.settle();
    }

    /// What there is of each lease whose state is called so.
    fn called<R>(&self, word: &str, what: impl Fn((LeaseId, &State)) -> R) -> Vec<R> {
        let AnyActor::ServiceManager(guest) = self.hosts[GUEST].0.actor() else {
            return Vec::new();
        };
        let leases = guest.leases().filter(|(_, state)| state.word() == word);
        let found: Vec<R> = leases.map(what).collect();
        assert_eq!(found.len(), CHANGED as usize);
        found
    }

    fn command(&mut self, command: GuestCommand) {
        self.inputs[GUEST].push_back(Input::Command(Command::ServiceManager(command)));
    }

    /// Hands in what there is until there is nothing more.
    fn settle(&mut self) {
        while self.inputs.iter().any(|inputs| !inputs.is_empty()) {
            (0..self.hosts.len()).for_each(|member| self.turn(member));
        }
    }

    fn turn(&mut self, member: usize) {
        let inputs = std::mem::take(&mut self.inputs[member]);
        let (host, mapper) = &mut self.hosts[member];
        let Turn { facts, problems, .. } = host.handle(NOW, inputs);
        assert!(problems.is_empty(), "{problems:?}");
        drop(facts);
        host.durable(host.position());
        let mut departures = Vec::new();
        host.release(NOW, |departure| departures.push(departure));
        // As every shell does, which lets go of messages that are answered.
        host.next_timeout();
        if let Some(view) = host.consultation(NOW) {
            let decision = mapper.decide(&view).unwrap();
            self.inputs[member].push_back(Input::Decision(decision));
        }
        for departure in departures {
            match departure {
                Departure::Message(_, outgoing) => {
                    let to = self.ids.iter().position(|id| *id == outgoing.to).unwrap();
                    self.inputs[to].push_back(Input::Message(outgoing.sealed));
                }
                Departure::Call(_, call) => {
                    let outcome = Ok(Properties::default());
                    let done = DriverResult {
                        unit: call.unit,
                        epoch: call.epoch,
                        step: call.step,
                        lease: call.lease,
                        number: call.number,
                        outcome,
                    };
                    self.inputs[member].push_back(Input::Driver(done));
                }
            }
        }
    }

    fn count(&self, wanted: impl Fn(&State) -> bool) -> usize {
        let AnyActor::ServiceManager(guest) = self.hosts[GUEST].0.actor() else { return 0 };
        guest.leases().filter(|(_, state)| wanted(state)).count()
    }

    /// Signatures made and checked by all actors.
    fn signatures(&self) -> (u64, u64) {
        let all = self.hosts.iter().map(|(host, _)| host.actor().signatures());
        all.fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1))
    }
}

fn plan(units_in_stock: u32, broker: ActorId) -> Plan {
    let (resource, attributes) = (Name::literal("node"), Attributes::default());
    let stock = Stock {
        resource: resource.clone(),
        attributes,
        units: units_in_stock,
        named: Default::default(),
    };
    let offer = Offer {
        broker,
        resource,
        unit: None,
        units: units(units_in_stock),
        length: Span::DAY.times(30),
        renew_before: Span::DAY,
    };
    Plan { stock: vec![stock], offers: vec![offer], ..Plan::default() }
}

/// How long it takes to sign a message, and to check that.
fn signature_seconds() -> (f64, f64) {
    const TIMES: u32 = 2000;
    let (signer, bytes) = (Signer::from_seed(Scheme::Ed25519, [1; 32]), [7; 512]);
    let signature = signer.sign(Label::Message, &bytes);
    let each = |what: &mut dyn FnMut()| {
        let began = processor_seconds();
        (0..TIMES).for_each(|_| what());
        (processor_seconds() - began) / f64::from(TIMES)
    };
    let sign = each(&mut || {
        black_box(signer.sign(Label::Message, black_box(&bytes)));
    });
    let (key, mut verifier) = (signer.key(), Verifier::new(Scheme::Ed25519));
    let check = each(&mut || {
        assert!(verifier.verifies(&key, Label::Message, black_box(&bytes), &signature));
    });
    (sign, check)
}

/// What this process has used of a processor so far: that others use it too does not count.
fn processor_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// The memory of this process that is in use, in bytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
