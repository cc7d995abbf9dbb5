use std::num::NonZeroU32;

use tenure_config::Place;

use super::*;

/// The least a scenario says.
const LEAST: &str = r#"horizon = "1d"
term = "1h"
capacity = 5
[site.alpha]
[site.beta]
[broker.exchange]
[service-manager.web]
"#;

fn parse_with(text: &str, overrides: &[&str]) -> Result<Vec<Point>, ConfigError> {
    let overrides: Vec<Override> = overrides.iter().map(|text| text.parse().unwrap()).collect();
    parse(Source { name: "s.toml", text }, &overrides)
}

fn one(text: &str, overrides: &[&str]) -> Scenario {
    let points = parse_with(text, overrides).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(points.len(), 1);
    points.into_iter().next().unwrap().scenario
}

fn shown(text: &str, overrides: &[&str]) -> String {
    let error = parse_with(text, overrides).unwrap_err();
    let help = error.help.as_ref().map(|help| format!("\n{help}")).unwrap_or_default();
    format!("{error}{help}")
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn lent(shares: &[(&str, u32)]) -> BTreeMap<Name, NonZeroU32> {
    let share = |&(broker, units)| (name(broker), NonZeroU32::new(units).unwrap());
    shares.iter().map(share).collect()
}

fn swept(points: &[Point]) -> Vec<String> {
    let pair = |(key, value): &(String, String)| format!("{key}={value}");
    points.iter().map(|p| p.swept.iter().map(pair).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn every_default_is_filled_in() {
    let scenario = one(LEAST, &[]);
    assert_eq!((scenario.seed, scenario.step), (1, Span::MINUTE.times(5)));
    assert_eq!((scenario.signatures, scenario.margin), (Scheme::Ed25519, Span::SECOND));
    assert_eq!(
        scenario.network,
        Network {
            delay: Delay::ZERO,
            loss: 0.0,
            duplicate: 0.0,
            drop: BTreeSet::new(),
            retry: Span::from_secs(10),
        }
    );
    let (alpha, beta) = (&scenario.sites[&name("alpha")], &scenario.sites[&name("beta")]);
    assert!(alpha.setup.is_zero() && alpha.teardown.is_zero());
    let node = &alpha.stocks[&name("node")];
    assert_eq!((node.units, beta.stocks[&name("node")].units), (3, 2));
    assert_eq!(node.brokers, lent(&[("exchange", 3)]));
    assert_eq!(node.delegation, Span::DAY.times(2).plus(Span::HOUR.times(2)));
    assert!(node.attributes.is_empty() && node.named.is_empty() && alpha.stacks.is_empty());
    let web = &scenario.service_managers[&name("web")];
    assert_eq!(web.peak, 5);
    assert_eq!((&web.broker, &web.resource), (&name("exchange"), &name("node")));
    let wave = Wave::new(0.5, 0.4, Span::DAY, 0.05).unwrap();
    assert_eq!(web.workload, Workload::Wave(wave));
    let mappers: Vec<String> = scenario
        .mappers()
        .map(|(role, name, mapper)| format!("{role} {name}: {} {}", mapper.name, mapper.settings))
        .map(|line| line.trim_end().to_owned())
        .collect();
    assert_eq!(
        mappers,
        [
            "site authority alpha: first-fit",
            "site authority beta: first-fit",
            "broker exchange: fcfs placement = \"even\"",
            "service manager web: adaptive",
        ]
    );
}

const EVERYTHING: &str = r#"
seed = 7
step = "1m"
horizon = "2d"
term = "6h"
capacity = 12
signatures = "none"
margin = "2s"

[message]
delay = { uniform = ["10ms", "20ms"] }
loss = 0.1
duplicate = 1
drop = ["redeem"]
retry = "5s"

[workload]
file = "load.csv.gz"
column = 2
offset = "1d"

[site.alpha]
units = 2
resource = "big"
attributes = { cpus = 4, memory = "2GB", fast = true }
brokers = ["b"]
delegation = "7d"
setup = { normal = { mean = "30s", deviation = "5s" } }
teardown = { measured = ["31s", "29s"] }
failure = 0.5
mapper = { name = "best-fit", weight = 3 }

[site.beta]
brokers = ["a", "b", "c"]

[broker]
a = { mapper = { placement = "pack" } }
b = {}
c = {}

[service-manager.web]
broker = "b"
resource = "big"
join = 5
leave = "10s"

[service-manager.batch]
broker = "a"
workload = { kind = "swf-offered", file = "jobs.txt" }
"#;

#[test]
fn everything_can_be_set() {
    let scenario = one(EVERYTHING, &[]);
    assert_eq!(scenario.signatures, Scheme::None);
    assert_eq!(scenario.network.drop, BTreeSet::from(["redeem".to_owned()]));
    assert_eq!(scenario.network.delay.to_string(), "0.01s to 0.02s");
    let (alpha, beta) = (&scenario.sites[&name("alpha")], &scenario.sites[&name("beta")]);
    let (big, node) = (&alpha.stocks[&name("big")], &beta.stocks[&name("node")]);
    assert_eq!((big.units, node.units), (2, 10));
    assert_eq!(big.brokers, lent(&[("b", 2)]));
    assert_eq!(node.brokers, lent(&[("a", 4), ("b", 3), ("c", 3)]));
    assert_eq!((big.attributes.len(), big.delegation), (3, Span::DAY.times(7)));
    assert_eq!((alpha.mapper.name.as_str(), alpha.mapper.settings.len()), ("best-fit", 1));
    assert_eq!(scenario.brokers[&name("a")].mapper.name, "fcfs");
    let log = |file: &str, kind, column: Option<&str>, offset| {
        let (file, column) = (file.to_owned(), column.map(ToOwned::to_owned));
        Workload::Log(LogFile { file, kind, column, offset })
    };
    let (web, batch) =
        (&scenario.service_managers[&name("web")], &scenario.service_managers[&name("batch")]);
    assert_eq!(web.workload, log("load.csv.gz", Kind::Csv, Some("2"), Span::DAY));
    assert_eq!(batch.workload, log("jobs.txt", Kind::SwfOffered, None, Span::ZERO));
    assert_eq!(web.join.fixed(), Some(Span::from_secs(5)));
}

/// A lab with racks of named nodes, phones with their relays, and storage.
const STOCKS: &str = r#"
horizon = "1d"
term = "1h"
capacity = 11

[site.lab.stock.node]
units = 3
attributes = { cpus = 4 }
[site.lab.stock.node.named]
rack1-n01 = { rack = "one" }
rack2-n01 = { rack = "two" }
[site.lab.stock.phone.named]
phone-1 = { model = "p7" }
phone-2 = { model = "p9" }
[site.lab.stock.relay.named]
relay-1 = {}
relay-2 = {}
[site.lab.stock.storage]
units = 4000000000
kind = "share"
delegation = "9d"
[site.lab.stack]
bench-1 = ["phone-1", "relay-1"]
bench-2 = ["phone-2", "relay-2"]

[site.other]

[broker.exchange]
[service-manager.web]
[service-manager.disks]
resource = "storage"
[service-manager.lab-guest.mapper]
name = "static"
requests = [{ resource = "phone", units = 1, duration = "1h", with = [{ resource = "relay", units = 1 }] }]
"#;

#[test]
fn a_site_has_several_stocks_and_stacks() {
    let scenario = one(STOCKS, &[]);
    let (lab, other) = (&scenario.sites[&name("lab")], &scenario.sites[&name("other")]);
    let units = |site: &Site| -> Vec<String> {
        site.stocks.iter().map(|(of, stock)| format!("{of} {}", stock.units)).collect()
    };
    assert_eq!(units(lab), ["node 3", "phone 2", "relay 2", "storage 4000000000"]);
    assert_eq!(units(other), ["node 4"], "what the counted ones leave");
    let (node, storage) = (&lab.stocks[&name("node")], &lab.stocks[&name("storage")]);
    assert_eq!((node.attributes.len(), node.named.len()), (1, 2));
    assert_eq!(node.named[&name("rack2-n01")].len(), 1);
    assert!(storage.countable() == 0 && storage.delegation == Span::DAY.times(9));
    assert_eq!(lab.stacks[&name("bench-1")], BTreeSet::from(["phone-1", "relay-1"].map(name)));
    let peak = |manager: &str| scenario.service_managers[&name(manager)].peak;
    assert_eq!((peak("web"), peak("disks")), (7, 4_000_000_000), "the units of its type");
    assert_eq!(scenario.most_units()[&name("web")], 7);
}

#[test]
fn what_is_wrong_with_a_stock_is_reported_at_its_place() {
    for (old, new, error) in [
        (
            "[site.lab.stack]",
            "[site.lab.stock.gpu]\n[site.lab.stack]",
            "s.toml:22:17: a stock without `units`\nwrite how many there are",
        ),
        (
            "relay-1 = {}",
            "phone-1 = {}",
            "s.toml:16:1: two units are named `phone-1`\ngive each a name of its own",
        ),
        (
            "phone-2\", \"relay-2",
            "phone-2\", \"relay-9",
            "s.toml:24:23: no unit of the site is named `relay-9`\nname it in the stock of its \
             type: `[site.NAME.stock.TYPE.named]`",
        ),
        (
            "units = 3\n",
            "units = 1\n",
            "s.toml:7:9: `units` is 1, and 2 have names\ncount those with names as well",
        ),
        (
            "delegation = \"9d\"",
            "delegation = \"1m\"",
            "s.toml:21:14: a delegation of 1m holds no lease of 1h\nmake it at least as long as \
             `term`",
        ),
        (
            "[site.lab.stack]",
            "[site.lab]\nbrokers = [\"exchange\"]\n[site.lab.stack]",
            "s.toml:23:11: the site has no units of its own that this would hold for\nwrite it \
             into the tables of its stocks",
        ),
        (
            "resource = \"relay\", units = 1",
            "resource = \"relay\", units = 3",
            "s.toml:34:12: request 1 can never be met: it needs more than the 2 units of `relay` \
             there are\nask for at most 2, or for a range such as `\"1..2\"`",
        ),
        (
            "capacity = 11",
            "capacity = 6",
            "s.toml:4:12: the sites have 7 units, but the capacity is 6\nset `capacity = 7`, or \
             leave out the `units` of one site",
        ),
    ] {
        assert!(STOCKS.contains(old), "{old}");
        assert_eq!(shown(&STOCKS.replacen(old, new, 1), &[]), error);
    }
}

#[test]
fn an_override_beats_the_file() {
    let set = ["seed=9", "term=12h", "message.loss=0.3", "site.alpha.units=1"];
    let scenario = one(LEAST, &set);
    assert_eq!((scenario.seed, scenario.term), (9, Span::HOUR.times(12)));
    assert_eq!(scenario.network.loss, 0.3);
    assert_eq!(scenario.sites[&name("beta")].stocks[&name("node")].units, 4);

    let added = one(LEAST, &["site.gamma={ units = 2 }", "capacity = 6"]);
    assert_eq!(added.sites[&name("gamma")].stocks[&name("node")].units, 2);

    let option = Override::text("workload.file", "2024-01-01.swf", "--workload");
    let points = parse(Source { name: "s.toml", text: LEAST }, &[option]).unwrap();
    let workload = &points[0].scenario.service_managers[&name("web")].workload;
    assert!(matches!(workload, Workload::Log(log) if log.file == "2024-01-01.swf"));
}

const SWEEP: &str = r#"horizon = "1d"
term = "2h"
capacity = 5
[sweep]
term = ["1h", "12h"]
"message.loss" = [0.0, 0.1]
[site.alpha]
[broker.exchange]
[service-manager.web]
"#;

#[test]
fn a_sweep_gives_every_combination_in_the_order_written() {
    let points = parse_with(SWEEP, &[]).unwrap();
    assert_eq!(
        swept(&points),
        [
            "term=1h message.loss=0.0",
            "term=1h message.loss=0.1",
            "term=12h message.loss=0.0",
            "term=12h message.loss=0.1",
        ]
    );
    assert_eq!(points[2].scenario.term, Span::HOUR.times(12));
    assert_eq!(points[3].scenario.network.loss, 0.1);
}

#[test]
fn a_key_that_is_set_is_no_longer_swept() {
    for (set, expected) in [
        (&["term=3h"][..], &["message.loss=0.0", "message.loss=0.1"][..]),
        (&["message={ loss = 0.5 }"], &["term=1h", "term=12h"]),
        (&["term=3h", "message.loss=0.2"], &[""]),
        (&["sweep.term=[\"4h\"]", "message.loss=0"], &["term=4h"]),
        (&["sweep.message.loss=[0.2]"], &["term=1h message.loss=0.2", "term=12h message.loss=0.2"]),
        (&["sweep={ seed = [1, 2] }"], &["seed=1", "seed=2"]),
    ] {
        assert_eq!(swept(&parse_with(SWEEP, set).unwrap()), expected, "{set:?}");
    }
}

#[test]
fn a_sweep_reaches_any_key() {
    let text = LEAST.replace(
        "[site.alpha]",
        "[sweep]\n\"broker.exchange.mapper\" = [{ name = \"fcfs\" }, { name = \"priority\" }]\n\
         site.alpha.setup = [0, { uniform = [1, 2] }]\n[site.alpha]",
    );
    let points = parse_with(&text, &[]).unwrap();
    assert_eq!(points.len(), 4);
    assert_eq!(points[2].scenario.brokers[&name("exchange")].mapper.name, "priority");
    assert_eq!(points[3].scenario.sites[&name("alpha")].setup.to_string(), "1s to 2s");
    assert_eq!(points[3].swept[1].1, "{ uniform = [1, 2] }");
}

/// One case a paragraph: changes to the least scenario (`-` a line, `+` what stands there instead),
/// options, and the error with its help line that follow.
const ERRORS: &str = include_str!("errors.txt");

#[test]
fn errors_show_where_they_are_and_what_to_do() {
    for case in ERRORS.split("\n\n") {
        let lines = || case.lines().filter(|line| !line.starts_with('#'));
        let marked = |mark| lines().filter_map(move |line| line.strip_prefix(mark));
        let options: Vec<&str> = marked("--set ").collect();
        let (old, new) = (marked("- "), marked("+ "));
        let block = |lines: &mut dyn Iterator<Item = &str>| {
            lines.map(|line| format!("{line}\n")).collect::<String>()
        };
        let (old, new) = (block(&mut { old }), block(&mut { new }));
        assert!(LEAST.contains(&old), "no such lines: {old}");
        let error = shown(&LEAST.replacen(&old, &new, 1), &options);
        let input =
            lines().filter(|line| ["- ", "+ ", "--set "].iter().any(|m| line.starts_with(m)));
        let expected: Vec<&str> = lines().skip(input.count()).collect();
        assert_eq!(error, expected.join("\n"), "in the case\n{case}");
    }
}

#[test]
fn an_option_without_a_value_sets_nothing() {
    for text in ["term", "=3"] {
        let message =
            format!("`{text}` sets nothing: write `key=value`, for example `message.loss=0.1`");
        assert_eq!(text.parse::<Override>().unwrap_err().to_string(), message);
    }
}

#[test]
fn a_sweep_has_its_limit() {
    let seeds: Vec<String> = (0..501).map(|seed| seed.to_string()).collect();
    assert_eq!(
        shown(SWEEP, &[&format!("sweep.seed=[{}]", seeds.join(","))]),
        "s.toml:5:1: the sweep has 2004 points, more than 1000\nsweep fewer values, or fix a swept \
         key with `--set`"
    );
}

#[test]
fn a_mapper_knows_where_it_is_written() {
    let text = LEAST.replace("[site.beta]", "mapper = { name = \"odd\", weight = 3 }\n[site.beta]");
    let column = |scenario: &Scenario, setting| match scenario.sites[&name("alpha")]
        .mapper
        .place_of(setting)
    {
        Place::File { line: 5, column, .. } => Some(*column),
        Place::File { .. } | Place::Override(_) | Place::Whole => None,
    };
    let scenario = one(&text, &[]);
    assert_eq!(column(&scenario, "name"), Some(19));
    assert_eq!(column(&scenario, "weight"), Some(35));
    assert_eq!(column(&scenario, "other"), Some(19));
    let set = one(&text, &["site.alpha.mapper.name=even"]);
    let mapper = &set.sites[&name("alpha")].mapper;
    assert_eq!(mapper.name, "even");
    let error = ConfigError::at(&set.file, mapper.place(), "no mapper `even`", None);
    assert_eq!(error.to_string(), "in --set site.alpha.mapper.name=even: no mapper `even`");
}
