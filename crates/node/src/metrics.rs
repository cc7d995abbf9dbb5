//! What is counted while a deployment runs, as text that Prometheus reads.

use std::array;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use tenure_core::runtime::AnyActor;
use tenure_core::runtime::{Entry, Fact, Input};
use tenure_core::service_manager::facts as service_manager;
use tenure_core::service_manager::machine::State;

use crate::host::ActorInfo;

type Labels = Vec<(&'static str, String)>;
type Counters = Family<Labels, Counter>;
type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// The figures of all hosts of a deployment.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    families: Families,
}

#[derive(Clone)]
struct Families {
    inputs: Counters,
    facts: Counters,
    syncs: Counters,
    messages: Counters,
    calls: Counters,
    probes: Counters,
    failures: Counters,
    inbox: Family<Labels, Gauge>,
    full: Family<Labels, Gauge>,
    down: Family<Labels, Gauge>,
    hung: Family<Labels, Gauge>,
    append: Histograms,
    active: Histograms,
}

/// How many connections the network has refused, by cause.
#[derive(Clone, Debug, Default)]
pub(crate) struct RefusedConnections(Counters);

impl RefusedConnections {
    /// Another one was refused.
    pub(crate) fn count(&self, cause: &'static str) {
        self.0.get_or_create(&vec![("cause", cause.to_owned())]).inc();
    }
}

/// From a tenth of a millisecond to about three seconds.
fn short() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 2.0, 16))
}

/// From a millisecond to about nine hours.
fn long() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 26))
}

impl Metrics {
    /// Figures that are all zero, but for those of the network.
    pub(crate) fn new(refused: &RefusedConnections) -> Self {
        let families = Families {
            inputs: Counters::default(),
            facts: Counters::default(),
            syncs: Counters::default(),
            messages: Counters::default(),
            calls: Counters::default(),
            probes: Counters::default(),
            failures: Counters::default(),
            inbox: Family::default(),
            full: Family::default(),
            down: Family::default(),
            hung: Family::default(),
            append: Histograms::new_with_constructor(short),
            active: Histograms::new_with_constructor(long),
        };
        let mut all = Registry::with_prefix("tenure");
        let f = families.clone();
        all.register("inputs", "Inputs that an actor has handled", f.inputs);
        all.register("facts", "Facts that became durable", f.facts);
        all.register("syncs", "Commits of a journal, each synced once", f.syncs);
        all.register("messages", "Messages by what became of them", f.messages);
        all.register("driver_calls", "Steps on units by how they ended", f.calls);
        all.register("probes", "Probes of live units by how these were", f.probes);
        all.register("falls", "Times an actor had to come back from its journal", f.failures);
        all.register("inbox", "Inputs that wait for an actor", f.inbox);
        let help = "1 while an actor lives on its reserve since its disk is full, else 0";
        all.register("disk_full", help, f.full);
        all.register("units_down", "Live units whose probe fails", f.down);
        let help = "Driver calls and probes that were given up and have not come back";
        all.register("driver_calls_hung", help, f.hung);
        let help = "Connections that were refused, by cause";
        all.register("connections_refused", help, refused.0.clone());
        let help = "From the handing over of facts until they are durable";
        all.register_with_unit("append", help, Unit::Seconds, f.append);
        let help = "From a request until its lease is active at the guest";
        all.register_with_unit("request_to_active", help, Unit::Seconds, f.active);
        Self { registry: Arc::new(all), families }
    }

    /// All figures, in version 0.0.4 of the text format of Prometheus.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing into a string does not fail.
        let _ = encode(&mut text, &self.registry);
        to_prometheus(&text)
    }

    /// Whether an actor runs on its disk reserve because its disk is full.
    pub(crate) fn disk_full(&self, info: &ActorInfo) -> bool {
        self.families.full.get_or_create(&labels_of(info)).get() == 1
    }

    /// How many of an actor's driver calls were given up and have not come back.
    pub(crate) fn hung(&self, info: &ActorInfo) -> usize {
        usize::try_from(self.families.hung.get_or_create(&labels_of(info)).get()).unwrap_or(0)
    }

    /// The figures of one host.
    pub(crate) fn of(&self, info: &ActorInfo) -> HostMetrics {
        let f = &self.families;
        let labels = || labels_of(info);
        let with = |key: &'static str, value: &str| {
            let mut labels = labels();
            labels.push((key, value.to_owned()));
            labels
        };
        let message = |fate| f.messages.get_or_create_owned(&with("fate", fate));
        let call = |outcome| f.calls.get_or_create_owned(&with("outcome", outcome));
        let probe = |found| f.probes.get_or_create_owned(&with("found", found));
        let inputs =
            array::from_fn(|kind| f.inputs.get_or_create_owned(&with("kind", WORDS[kind])));
        HostMetrics {
            inputs,
            facts: f.facts.get_or_create_owned(&labels()),
            syncs: f.syncs.get_or_create_owned(&labels()),
            commits: 0,
            sent: message("sent"),
            repeated: message("repeated"),
            dropped: message("dropped"),
            refused: message("refused"),
            done: call("done"),
            failed: call("failed"),
            given_up: call("given up"),
            up_probes: probe("up"),
            down_probes: probe("down"),
            down: f.down.get_or_create_owned(&labels()),
            hung: f.hung.get_or_create_owned(&labels()),
            failures: f.failures.get_or_create_owned(&labels()),
            inbox: f.inbox.get_or_create_owned(&labels()),
            full: f.full.get_or_create_owned(&labels()),
            append: f.append.get_or_create_owned(&labels()),
            active: f.active.get_or_create_owned(&labels()),
            asked: BTreeMap::new(),
        }
    }
}

fn labels_of(info: &ActorInfo) -> Labels {
    vec![("actor", info.name.to_string()), ("role", info.role.to_string())]
}

/// Turns the text of OpenMetrics into that of Prometheus, which declares a counter under the name of its
/// samples, and knows neither units nor a mark of the end.
fn to_prometheus(text: &str) -> String {
    let (mut lines, mut help) = (Vec::new(), None);
    for line in text.lines() {
        let declared =
            line.strip_prefix("# ").map(|words| words.splitn(3, ' ').collect::<Vec<_>>());
        match declared.as_deref() {
            Some(["HELP", name, words]) => help = Some((*name, *words)),
            Some(["TYPE", name, kind]) => {
                let suffix = if *kind == "counter" { "_total" } else { "" };
                let help = help.take().filter(|(of, _)| of == name);
                lines.extend(help.map(|(_, words)| format!("# HELP {name}{suffix} {words}\n")));
                lines.push(format!("# TYPE {name}{suffix} {kind}\n"));
            }
            Some(_) => {}
            None => lines.push(format!("{line}\n")),
        }
    }
    lines.concat()
}

/// The number of kinds of inputs.
pub(crate) const KINDS: usize = 7;

/// The words for the kinds of inputs, by their numbers.
const WORDS: [&str; KINDS] =
    ["start", "message", "tick", "driver", "observation", "command", "decision"];

/// The number of the kind of an input.
pub(crate) fn kind(input: &Input) -> usize {
    match input {
        Input::Start => 0,
        Input::Message(_) => 1,
        Input::Tick => 2,
        Input::Driver(_) => 3,
        Input::Observe { .. } => 4,
        Input::Command(_) | Input::Ordered(..) => 5,
        Input::Decision(_) => 6,
    }
}

/// The figures of one host.
pub(crate) struct HostMetrics {
    inputs: [Counter; KINDS],
    facts: Counter,
    syncs: Counter,
    /// The commits of this life's journal that are counted already.
    commits: u64,
    /// Messages sent for the first time.
    pub(crate) sent: Counter,
    /// Messages sent again.
    pub(crate) repeated: Counter,
    /// Messages that got nowhere.
    pub(crate) dropped: Counter,
    /// Messages that came when there was no room.
    pub(crate) refused: Counter,
    done: Counter,
    failed: Counter,
    /// Calls that took too long.
    pub(crate) given_up: Counter,
    up_probes: Counter,
    down_probes: Counter,
    /// Live units that are down.
    pub(crate) down: Gauge,
    /// Calls that were given up and have not come back.
    pub(crate) hung: Gauge,
    /// Times it fell.
    pub(crate) failures: Counter,
    /// What waits.
    pub(crate) inbox: Gauge,
    /// Whether it lives on its reserve.
    pub(crate) full: Gauge,
    append: Histogram,
    active: Histogram,
    /// When the requests were made that are not active yet.
    asked: BTreeMap<u64, Instant>,
}

impl HostMetrics {
    /// So many inputs of each kind were handled.
    pub(crate) fn handled(&self, inputs: &[u64; KINDS]) {
        for (counter, &more) in self.inputs.iter().zip(inputs) {
            counter.inc_by(more);
        }
    }

    /// A life begins, with a journal that has made no commit yet.
    pub(crate) fn begins(&mut self) {
        self.commits = 0;
    }

    /// Appended facts became durable, by the last of so many commits.
    pub(crate) fn synced(&mut self, since: Instant, commits: u64) {
        self.syncs.inc_by(commits.saturating_sub(self.commits));
        self.commits = commits;
        self.append.observe(since.elapsed().as_secs_f64());
    }

    /// A driver has answered.
    pub(crate) fn called(&self, well: bool) {
        if well {
            self.done.inc()
        } else {
            self.failed.inc()
        };
    }

    /// A live unit was probed.
    pub(crate) fn probed(&self, up: bool) {
        if up {
            self.up_probes.inc()
        } else {
            self.down_probes.inc()
        };
    }

    /// A fact is durable.
    pub(crate) fn fact(&mut self, entry: &Entry, actor: &AnyActor) {
        use service_manager::Fact as Guest;
        self.facts.inc();
        let (Fact::ServiceManager(fact), AnyActor::ServiceManager(actor)) = (&entry.fact, actor)
        else {
            return;
        };
        if let Guest::Asked(fact) = fact {
            self.asked.insert(fact.request.id.number, Instant::now());
        } else if let Guest::LeaseForgotten(service_manager::LeaseForgotten { lease }) = fact {
            self.asked.remove(&lease.number);
        } else if let Guest::Joined(service_manager::Joined { lease, .. }) = fact
            && matches!(actor.lease(*lease), Some(State::Active { .. }))
            && let Some(since) = self.asked.remove(&lease.number)
        {
            self.active.observe(since.elapsed().as_secs_f64());
        }
    }
}
