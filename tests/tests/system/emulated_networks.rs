//! Networks of brokers, emulated, and the requests of their users.

use std::fs;

use serde_json::{Value, json};
use tenure_tests::{emulate, run};

/// A network of a few brokers, as a scenario.
const FEW: &str = r#"
horizon = "4h"
term = "1h"
signatures = "none"

[network]
brokers = 12
shape = "mesh"
degree = 4
types = 4
per-broker = 2
units = 2
delay = "20ms"

[share]
term = "2d"

[forward]
advertise = "10m"

[workload]
kind = "requests"
requests = { load = 1.0, skew = 1.0 }
"#;

/// Runs a scenario that has these files beside it.
fn emulated(scenario: &str, files: &[(&str, &str)], overrides: &[&str]) -> (i32, Vec<Value>) {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    let path = folder.path().join("scenario.toml");
    fs::write(&path, scenario).expect("a file");
    emulate(&path.display().to_string(), overrides)
}

fn complete(scenario: &str, files: &[(&str, &str)], overrides: &[&str]) -> Vec<Value> {
    let (code, runs) = emulated(scenario, files, overrides);
    assert_eq!(code, 0, "{runs:?}");
    runs
}

fn number(run: &Value, field: &str) -> u64 {
    run[field].as_u64().unwrap_or_else(|| panic!("{field}: {run}"))
}

#[test]
fn all_that_is_shared_to_one_broker_grants_as_much_as_one_with_everything() {
    let shapes = "sweep.network.shape=[\"central\", \"tree\", \"both\"]";
    for seed in ["seed=1", "seed=2"] {
        let runs = complete(FEW, &[], &[shapes, seed]);
        let [central, tree, both] = &runs[..] else { panic!("{runs:?}") };
        let asks = number(central, "asks");
        let (grants, busy) = (number(central, "grants"), number(central, "busy"));
        assert!(asks > 150 && busy > 10 && grants + busy == asks, "{central}");
        assert_eq!((number(tree, "grants"), number(both, "grants")), (grants, grants), "{seed}");
        assert_eq!((number(central, "broker_messages"), number(central, "adverts")), (0, 0));
        assert_eq!(tree["stranded_unit_s"], 0.0);
    }
}

#[test]
fn a_search_without_limits_grants_as_much_as_one_broker_with_everything() {
    let limits = "forward.reach={ search = \"depth-first\", hops = 64, asks = 1024 }";
    // Few enough for the longest way to be gone in time.
    let shapes = "sweep.network.shape=[\"central\", \"mesh\", \"ring\", \"line\"]";
    // No broker has more than two units of a type: four are of several together.
    for units in ["workload.requests.units=1", "workload.requests.units=4"] {
        let runs = complete(FEW, &[], &[shapes, limits, units, "network.brokers=6"]);
        let [central, others @ ..] = &runs[..] else { panic!("{runs:?}") };
        assert!(number(central, "grants") > 0 && number(central, "busy") > 0, "{central}");
        for run in others {
            assert_eq!(number(run, "grants"), number(central, "grants"), "{units}: {run}");
            assert_eq!(run["stranded_unit_s"], 0.0, "{units}: {run}");
        }
    }
}

#[test]
fn hints_find_nearly_all_of_it_with_few_messages_and_one_hop_does_not() {
    let adverts = "forward.advertise=\"1m\"";
    let hinted = &complete(FEW, &[], &[adverts])[0];
    let blind = &complete(FEW, &[], &["forward.reach.search=\"depth-first\""])[0];
    let near = &complete(FEW, &[], &["forward.reach.search=\"one-hop\""])[0];
    let central = &complete(FEW, &[], &["network.shape=\"central\""])[0];
    let grants = |run| number(run, "grants");
    assert!(grants(hinted) * 100 >= grants(central) * 97, "{hinted}");
    assert!(grants(near) < grants(hinted), "{near}");
    let messages = |run: &Value| run["messages_per_request"]["mean"].as_f64().expect("a number");
    assert!(messages(hinted) < messages(blind), "{hinted} {blind}");
}

#[test]
fn in_a_cut_each_part_grants_what_it_has_and_afterwards_all_is_as_before() {
    let cut = format!("{FEW}\n[[network.cut]]\nfirst = 6\nfrom = \"1h\"\nuntil = \"2h\"\n");
    let apart = &complete(&cut, &[], &[])[0];
    let whole = &complete(FEW, &[], &[])[0];
    assert_eq!(
        (&apart["verdict"], number(apart, "asks")),
        (&json!("complete"), number(whole, "asks"))
    );
    let refused = |run: &Value, word: &str| run["refusals_by_reason"][word].as_u64().unwrap_or(0);
    assert_eq!(refused(whole, "unheard"), 0, "{whole}");
    assert!(refused(apart, "unheard") > 0, "{apart}");
    assert!(number(apart, "grants") > number(whole, "grants") / 2, "{apart}");
    assert_eq!(number(apart, "never"), 0, "a cut makes nothing impossible");
}

#[test]
fn leases_that_depend_on_heartbeats_last_while_they_come() {
    let keep_alive = "workload.requests.keep-alive=\"5m\"";
    let without = &complete(FEW, &[], &[])[0];
    let heard = &complete(FEW, &[], &[keep_alive])[0];
    assert_eq!(number(heard, "grants"), number(without, "grants"));
    // Four heartbeats and their answers in five minutes for each guest and site with leases.
    let more = number(heard, "messages") - number(without, "messages");
    let each = 1 + number(heard, "grants") * 2 * 4 * 12;
    assert!((each / 4..each).contains(&more), "{more} of {each}");
    let unheard = &complete(FEW, &[], &[keep_alive, "message.drop=[\"heartbeat\"]"])[0];
    assert!(number(unheard, "grants") > number(heard, "grants"), "units are free earlier");
}

#[test]
fn brokers_that_are_listed_share_and_pass_on_too() {
    let scenario = r#"
        horizon = "6h"
        term = "1h"
        capacity = 8
        [workload.wave]
        base = 1.0
        amplitude = 0.0
        [site.north]
        brokers = ["lab-a"]
        [site.south]
        brokers = ["lab-b"]
        [broker.lab-a.peer.campus]
        share = { units = 3, term = "8h" }
        [broker.lab-b.peer.campus]
        accept = true
        [broker.campus.peer.lab-b]
        forward = true
        [service-manager.guest]
        broker = "campus"
        peak = 4
    "#;
    let run = &complete(scenario, &[], &[])[0];
    // It has three units of lab-a to sell; the four of lab-b are had by requests that are passed on.
    assert!(number(run, "grants") > 0 && run["rmse"].as_f64().expect("a number") < 2.0, "{run}");
    assert!(run["hops"]["p99"] == 1.0 && number(run, "broker_messages") > 0, "{run}");
}

const EDGES: (&str, &str) =
    ("edges.csv", "from,to,kind\nlab-a,lab-b,forward\nlab-b,lab-a,forward\n");
const STOCK: (&str, &str) =
    ("stock.csv", "broker,resource,units\nlab-a,phone,1\nlab-a,relay,1\nlab-b,phone,2\n");
/// A service manager with requests of its own.
const LISTED: &str = r#"
horizon = "4h"
term = "1h"
capacity = 1
[site.north]
[broker.lab-a]
[service-manager.guest]
workload = { kind = "requests", file = "requests.csv" }
"#;
const LABS: &str = r#"
horizon = "4h"
term = "1h"

[network]
edges = "edges.csv"
stock = "stock.csv"
delay = "20ms"

[workload]
kind = "requests"
file = "requests.csv"
"#;

#[test]
fn brokers_stock_and_requests_come_from_files() {
    let requests = "at,broker,resource,units,duration,group\n\
                    0,lab-a,phone,1,1h,\n\
                    10m,lab-a,phone,2,1h,\n\
                    20m,lab-b,phone,1,1h,\n\
                    90m,lab-a,phone,1,1h,both\n\
                    90m,lab-a,relay,1,1h,both\n\
                    95m,lab-a,disk,1,1h,\n";
    let runs = complete(LABS, &[EDGES, STOCK, ("requests.csv", requests)], &[]);
    let run = &runs[0];
    let counts = ["asks", "grants", "busy", "never"].map(|field| number(run, field));
    assert_eq!(counts, [5, 3, 1, 1], "{run}");
    // The second request goes to lab-b, of which the third then has nothing left, and asks lab-a in vain.
    assert_eq!(run["hops"]["p99"], 1.0);
    assert_eq!(number(run, "broker_messages"), 6);
    assert_eq!(
        (&run["types"]["phone"]["leases"], &run["types"]["relay"]["leases"]),
        (&json!(3), &json!(1))
    );
}

#[test]
fn each_message_takes_as_long_as_between_the_places_of_its_ends() {
    // A guest whose broker is in the middle, without a site, and before the others by name.
    let edges = ("edges.csv", "from,to,kind\na,c,forward\nb,c,forward\n");
    let stock = ("stock.csv", "broker,resource,units\nb,relay,1\nc,phone,1\n");
    let requests = ("requests.csv", "at,broker,resource,units,duration\n10m,a,phone,1,1h\n");
    let labs = LABS.replace("20ms", "1s");
    let run = &complete(&labs, &[edges, stock, requests], &[])[0];
    assert_eq!((number(run, "grants"), &run["answer_s"]["p99"]), (1, &json!(2.0)), "{run}");
    let apart = "network.cut=[{ edges = [[\"a\", \"c\"]], from = \"0s\", until = \"4h\" }]";
    let run = &complete(&labs, &[edges, stock, requests], &[apart])[0];
    assert_eq!(number(run, "grants"), 0, "{run}");
    let other = "network.cut=[{ edges = [[\"b\", \"c\"]], from = \"0s\", until = \"4h\" }]";
    let run = &complete(&labs, &[edges, stock, requests], &[other])[0];
    assert_eq!(number(run, "grants"), 1, "{run}");
}

#[test]
fn what_is_wrong_with_a_network_is_said_with_its_place() {
    let requests = |rows: &str| format!("at,broker,resource,units,duration\n{rows}");
    let fine = requests("0,lab-a,phone,1,1h\n");
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    let says = |scenario: &str, requests: &str, edges: &str| {
        file("scenario.toml", scenario);
        file("requests.csv", requests);
        file("edges.csv", edges);
        file("stock.csv", STOCK.1);
        let path = folder.path().join("scenario.toml").display().to_string();
        let output = run(&["emulate", &path]);
        assert_eq!(output.status.code(), Some(1), "{scenario}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (scenario, requests, edges, expected) in [
        (LABS.replace("edges =", "shape = \"ring\"\nedges ="), &fine, EDGES.1, "the edges have a shape and a file"),
        (LABS.replace("edges = \"edges.csv\"", ""), &fine, EDGES.1, "how are the brokers joined?"),
        (LABS.replace("stock =", "units = 3\nstock ="), &fine, EDGES.1, "the stock is in a file"),
        (LABS.replace("edges.csv", "none.csv"), &fine, EDGES.1, "`none.csv` cannot be read"),
        (LABS.to_owned(), &requests("0,lab-c,phone,1,1h\n"), EDGES.1, "`lab-c`, which no guest asks"),
        (LABS.to_owned(), &requests("0,lab-a,phone,0,1h\n"), EDGES.1, "`requests.csv`: line 2"),
        (LABS.to_owned(), &fine, "from,to,kind\nlab-a,lab-b,lend\n", "line 2: unknown variant `lend`"),
        (LABS.to_owned(), &fine, "from,to,kind\nlab-a,lab-a.site,forward\n", "two actors would have the same name"),
        (LABS.to_owned(), &fine, &*format!("from,to,kind\nlab-a,{},forward\n", "x".repeat(60)), "give the broker a shorter name"),
        (LISTED.to_owned(), &requests("0,lab-a,node,1,1h\n0,lab-c,node,1,1h\n"), EDGES.1, "`lab-c`, which no guest asks"),
        (format!("{LABS}\n[site.alpha]\nunits = 1\n"), &fine, EDGES.1, "has all its actors"),
        (LABS.replace("delay", "cut = [{ edges = [[\"lab-a\", \"lab-d\"]], from = \"1h\", until = \"2h\" }]\ndelay"), &fine, EDGES.1, "no broker `lab-d`"),
    ] {
        let found = says(&scenario, requests, edges);
        assert!(found.contains(expected), "{found}");
        assert!(found.contains("scenario.toml"), "{found}");
    }
}

/// What `tenure emulate --plot` leaves in a folder, and what it says on standard error.
fn plotted(field: &str, overrides: &[&str]) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("scenario.toml");
    fs::write(&path, FEW).expect("a file");
    let (scenario, out) = (path.display().to_string(), folder.path().display().to_string());
    let mut args = vec!["emulate", &scenario, "--out", &out, "--plot", field];
    args.extend(overrides.iter().flat_map(|set| ["--set", set]));
    let output = run(&args);
    let svg = fs::read_to_string(folder.path().join(format!("{field}.svg"))).unwrap_or_default();
    (output.status.code(), svg, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_field_of_a_network_is_plotted_against_what_is_swept() {
    let sweep = [
        "horizon=1h",
        "sweep.network.brokers=[6, 8, 12]",
        "sweep.network.shape=[\"tree\", \"mesh\"]",
        "network.fan-out=3",
    ];
    let (code, svg, said) = plotted("messages_per_request.mean", &sweep);
    assert_eq!(code, Some(0), "{said}");
    for word in ["messages_per_request.mean", "network.brokers", "network.shape = tree", "mesh"] {
        assert!(svg.contains(word), "no {word}");
    }
    // One for each run, one for each label.
    assert_eq!(svg.matches("<circle").count(), 6 + 2, "{svg}");
}

#[test]
fn a_plot_of_no_number_or_without_a_sweep_is_refused() {
    let sweep = ["horizon=1h", "sweep.seed=[1, 2]"];
    let (code, svg, said) = plotted("messages_per_request", &sweep);
    assert_eq!((code, svg.as_str()), (Some(2), ""), "{said}");
    assert!(said.contains("no number `messages_per_request`"), "{said}");
    assert!(said.contains("did you mean `messages_per_request."), "{said}");
    let (code, svg, said) = plotted("facts", &["horizon=1h"]);
    assert_eq!((code, svg.as_str()), (Some(2), ""), "{said}");
    assert!(said.contains("sweeps none"), "{said}");
}
