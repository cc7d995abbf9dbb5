//! What plans of packages keep to, by the commands of a live deployment.

use std::fs;
use std::process::Output;
use std::time::SystemTime;

use serde_json::{Value, json};
use tenure_core::model::name::Name;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::Entry;
use tenure_core::service_manager::facts::{self as service_manager, PlanEnded, PlanRequested};
use tenure_core::service_manager::plan::{MAX_PLANS, PlanOutcome, PlanRequest};
use tenure_node::journal::{JournalFile, Reader};

use crate::deployment::{Deployment, stderr};

/// Two nodes at `alpha` and one at `beta`, with these lines in the mapper's table; a guest uses all three.
fn deployment(mapper: &str) -> Deployment {
    let config = format!(
        "[site.alpha]\nunits = 2\n[site.beta]\nunits = 1\n[broker.exchange]\n\
         [service-manager.guest.mapper]\nname = 'deploy'\n{mapper}\n"
    );
    let deployment = Deployment::of(&config, tempfile::tempdir().expect("a folder"));
    deployment.json("lease request 3 --for 1h --wait");
    deployment
}

const NODE: &str = "[[place]]\nname = 'node'\ncapacity = { memory = '8GiB' }\n\
                    attributes = { arch = 'x86' }\n";

/// A part with its package, and more keys.
fn part(name: &str, more: &str) -> String {
    format!("[[part]]\nname = '{name}'\npackage = 'svc/{name}/1.0/main/1.0'\n{more}\n")
}

/// Proposes these parts over nodes of 8 GiB.
fn propose(deployment: &Deployment, parts: &[String]) -> Output {
    let file = deployment.data.path().join("problem.toml");
    fs::write(&file, format!("{}{NODE}", parts.concat())).expect("a file");
    deployment.tenure(&format!("plan propose {} -o json", file.display()))
}

#[track_caller]
fn proposed(deployment: &Deployment, parts: &[String]) -> Value {
    let output = propose(deployment, parts);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[track_caller]
fn has_no_plan(deployment: &Deployment, parts: &[String]) {
    let output = propose(deployment, parts);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
}

fn name(plan: &Value) -> &str {
    plan["plan"].as_str().expect("a name")
}

/// The nodes of a part.
fn nodes_of(plan: &Value, part: &str) -> Value {
    let placement = plan["placement"].as_array().expect("a list").iter();
    let mut its = placement.filter(|at| at["part"] == part);
    its.next().map_or(Value::Null, |at| at["nodes"].clone())
}

/// The node and the name of each package.
fn packages(plan: &Value) -> Vec<(String, String)> {
    let packages = plan["packages"].as_array().expect("packages").iter();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    packages.map(|at| (text(&at["node"]), text(&at["package"]))).collect()
}

/// Has a plan installed by its user.
fn install(deployment: &Deployment, plan: &Value) {
    let accepted = deployment.json(&format!("plan accept {}", name(plan)));
    let reports = packages(&accepted).into_iter();
    let reports = reports.map(|(node, package)| json!({"node": node, "package": package}));
    let file = deployment.data.path().join("report.json");
    fs::write(&file, Value::Array(reports.collect()).to_string()).expect("a file");
    let shown = deployment.json(&format!("plan report {} {}", name(plan), file.display()));
    assert_eq!(shown["state"], "installed");
}

#[test]
fn a_plan_meets_each_requirement_on_the_fewest_nodes() {
    let deployment = deployment("");
    let parts = [
        part("db", "needs = { memory = '6GiB' }\nwhere = 'site = \"beta\"'"),
        part("web", "needs = { memory = '3GiB' }\nwhere = 'arch = \"x86\"'"),
        part("log", "needs = { memory = '2GiB' }"),
    ];
    let plan = proposed(&deployment, &parts);
    // What is needed on a node is summed: 11 GiB are on two nodes of 8 at least.
    assert_eq!(plan["objective"], "installs 3, nodes 2, spread 0, uses 0", "{plan}");
    assert_eq!((&plan["proven"], nodes_of(&plan, "db")), (&json!(true), json!(["beta/u0"])));
    assert_ne!(nodes_of(&plan, "web"), json!(["beta/u0"]), "3 GiB beside 6 are too much");
    install(&deployment, &plan);

    has_no_plan(&deployment, &[part("big", "needs = { memory = '9GiB' }")]);
    has_no_plan(&deployment, &[part("odd", "where = 'arch = \"arm\"'")]);
    // What is installed takes its room until it is removed.
    let full = part("full", "needs = { memory = '8GiB' }\nwhere = 'site = \"beta\"'");
    has_no_plan(&deployment, std::slice::from_ref(&full));
    deployment.json(&format!("plan release {}", name(&plan)));
    assert_eq!(nodes_of(&proposed(&deployment, &[full]), "full"), json!(["beta/u0"]));
}

#[test]
fn what_is_installed_is_reused_and_asked_for_by_its_identity() {
    let deployment = deployment("");
    has_no_plan(&deployment, &[part("probe", "software = ['svc/web/1.0/main/1.0']")]);
    let first = proposed(&deployment, &[part("web", "")]);
    install(&deployment, &first);
    let at = nodes_of(&first, "web");
    for software in ["svc/web/1.0/main/1.0", "svc/web/1.00/main/>=0.9", "svc/web/*/main/*"] {
        let probe = proposed(&deployment, &[part("probe", &format!("software = ['{software}']"))]);
        assert_eq!(nodes_of(&probe, "probe"), at, "{software}");
        deployment.json(&format!("plan release {}", name(&probe)));
    }
    for software in ["svc/web/1.1/main/1.0", "svc/web/1.0/main/>=1.1", "sys/web/1.0/main/1.0"] {
        has_no_plan(&deployment, &[part("probe", &format!("software = ['{software}']"))]);
    }
    let again = proposed(&deployment, &[part("web", "reuse = true")]);
    assert_eq!((nodes_of(&again, "web"), packages(&again)), (at.clone(), Vec::new()));
    deployment.json(&format!("plan release {}", name(&again)));
    // A node has one instance, so another one is elsewhere.
    assert_ne!(nodes_of(&proposed(&deployment, &[part("web", "")]), "web"), at);
}

/// A package of gCube with this attribute.
fn in_xml(attribute: &str) -> String {
    format!(
        "<Package {attribute}><ServiceClass>svc</ServiceClass><ServiceName>web</ServiceName>\
         <ServiceVersion>1.0</ServiceVersion><PackageName>main</PackageName>\
         <PackageVersion>1.0</PackageVersion></Package>"
    )
}

#[test]
fn a_request_and_a_report_are_taken_as_gcube_writes_them() {
    let deployment = deployment("");
    let [request, report] =
        ["request.xml", "report.xml"].map(|file| deployment.data.path().join(file));
    let propose = |group: &str, list: &str| {
        let package = in_xml("reuse='true'");
        fs::write(&request, format!("<GHN>{package}{group}</GHN>{list}")).expect("a file");
        deployment.json(&format!("plan propose {}", request.display()))
    };
    let plan = propose("", "<GHNList><GHN>alpha/u1</GHN><GHN>beta/u0</GHN></GHNList>");
    let at = nodes_of(&plan, "svc/web/1.0/main/1.0");
    assert!(at == json!(["alpha/u1"]) || at == json!(["beta/u0"]), "{plan}");
    let plan = deployment.json(&format!("plan accept {}", name(&plan)));
    let node = at[0].as_str().expect("a node");
    let done = format!("<GHN id='{node}'>{}</GHN>", in_xml("status='succeeded'"));
    fs::write(&report, done).expect("a file");
    let shown = deployment.json(&format!("plan report {} {}", name(&plan), report.display()));
    assert_eq!(shown["state"], "installed");
    // Without a list all nodes of the slice count, and an instance that is there is reused.
    let again = propose("", "");
    assert_eq!((nodes_of(&again, "svc/web/1.0/main/1.0"), packages(&again)), (at, Vec::new()));
    // The list of a group counts for it.
    let group = "<GHNList><GHN>alpha/u0</GHN></GHNList>";
    let third = propose(group, "<GHNList><GHN>beta/u0</GHN></GHNList>");
    assert_eq!(nodes_of(&third, "svc/web/1.0/main/1.0"), json!(["alpha/u0"]));
}

#[test]
fn lists_of_nodes_and_relations_between_parts_are_kept_and_plans_beside_each_other_are_listed() {
    let deployment = deployment("");
    let bound = [
        part("db", "only = ['alpha/u0', 'alpha/u1']\nfavourites = ['alpha/u1']"),
        part("web", ""),
        part("log", ""),
        part("tool", ""),
    ];
    let relations = "same-host = [['db', 'web']]\napart = [['db', 'log']]\n\
                     objective = ['installs', 'nodes', 'uses', 'favourites']\n\
                     [[uses]]\nfrom = 'tool'\nto = 'log'\n";
    let [db, rest @ ..] = bound;
    let parts = [vec![relations.to_owned(), db], rest.to_vec()].concat();
    let plan = proposed(&deployment, &parts);
    assert_eq!(nodes_of(&plan, "db"), json!(["alpha/u1"]), "{plan}");
    assert_eq!(nodes_of(&plan, "web"), json!(["alpha/u1"]));
    assert_ne!(nodes_of(&plan, "log"), json!(["alpha/u1"]));
    assert_eq!(nodes_of(&plan, "tool"), nodes_of(&plan, "log"));
    // A second plan gets what is left, as a list of all nodes would say.
    let second = proposed(&deployment, &[part("cache", "")]);
    let plans = deployment.json("plan list");
    let plans: Vec<&Value> = plans.as_array().expect("a list").iter().collect();
    assert_eq!(plans.len(), 2);
    for (listed, plan) in plans.iter().zip([&plan, &second]) {
        assert_eq!((&listed["plan"], &listed["state"]), (&plan["plan"], &json!("proposed")));
        assert_eq!(listed["requested"], plan["requested"]);
    }
    let used: Vec<Value> = [&plan, &second]
        .into_iter()
        .flat_map(|plan| {
            plan["placement"]
                .as_array()
                .expect("a list")
                .iter()
                .flat_map(|at| at["nodes"].as_array().expect("nodes").clone())
        })
        .collect();
    assert!(!used[..4].contains(&used[4]), "{used:?}");
}

#[test]
fn libraries_are_on_each_node_once_and_first_and_the_largest_part_is_placed_first() {
    let deployment = deployment("solver = 'first-fit'");
    // In the order of the file the small ones would share a node, and the large ones need one each.
    let sizes = [("a", 3), ("b", 3), ("c", 5), ("d", 5)];
    let parts =
        sizes.map(|(name, memory)| part(name, &format!("needs = {{ memory = '{memory}GiB' }}")));
    let plan = proposed(&deployment, &parts);
    assert_eq!(plan["objective"], "installs 4, nodes 2, spread 0, uses 0", "{plan}");
    assert_eq!(plan["proven"], false, "no solver has looked for a better one");
    deployment.json(&format!("plan release {}", name(&plan)));

    let library = "[[library]]\npackage = 'svc/lib/1.0/main/1.0'\nneeds = { memory = '1GiB' }\n";
    let on_lib = |memory: u32| {
        format!("needs = {{ memory = '{memory}GiB' }}\ndepends = ['svc/lib/1.0/main/1.0']")
    };
    let parts = [part("b-small", &on_lib(2)), part("a-large", &on_lib(5)), library.to_owned()];
    let plan = proposed(&deployment, &parts);
    // With the library, once, both fill a node.
    assert_eq!(nodes_of(&plan, "a-large"), json!(["alpha/u0"]), "{plan}");
    assert_eq!(nodes_of(&plan, "b-small"), json!(["alpha/u0"]));
    let accepted = deployment.json(&format!("plan accept {}", name(&plan)));
    let at = |package: &str| ("alpha/u0".to_owned(), format!("svc/{package}/1.0/main/1.0"));
    assert_eq!(packages(&accepted), [at("lib"), at("a-large"), at("b-small")]);
}

#[test]
fn two_service_managers_plan_over_one_infrastructure_and_never_have_a_node_both() {
    let config = "[site.alpha]\nunits = 3\n[broker.exchange]\n\
                  [service-manager.one.mapper]\nname = 'deploy'\n\
                  [service-manager.two.mapper]\nname = 'deploy'\n";
    let deployment = Deployment::of(config, tempfile::tempdir().expect("a folder"));
    let file = deployment.data.path().join("problem.toml");
    let place = "[[place]]\nname = 'node'\ncount = 2\n";
    fs::write(&file, format!("{}{place}", part("web", "count = 2"))).expect("a file");
    let ask = |who: &str| format!("plan propose {} --as {who} --lease 1h", file.display());
    let outputs = std::thread::scope(|scope| {
        let ask = |who: &'static str| {
            let (deployment, line) = (&deployment, ask(who));
            scope.spawn(move || deployment.tenure(&line).status.code())
        };
        [ask("one"), ask("two")].map(|thread| thread.join().expect("an answer"))
    });
    // There are three nodes and each wants two: one of them has a plan, and the other one is told to wait.
    let mut codes = outputs;
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(75)]);
    let holds = deployment.json("plan holds");
    let holds = holds.as_array().expect("a list");
    assert_eq!(holds.len(), 2, "{holds:?}");
    let loser = if outputs[0] == Some(0) { "two" } else { "one" };
    assert!(holds.iter().all(|node| node["manager"] != loser), "{holds:?}");
    // With what is left, a later plan differs.
    fs::write(&file, format!("{}{place}", part("web", ""))).expect("a file");
    let later = deployment.json(&ask(loser));
    let node = later["placement"][0]["nodes"][0].clone();
    assert!(holds.iter().all(|held| held["node"] != node), "{node} of {holds:?}");
}

/// As many plans as are remembered at most, all of them for a day from now on.
fn too_many_plans() -> Vec<Entry> {
    let since = SystemTime::UNIX_EPOCH.elapsed().expect("a clock").as_micros();
    let at = Time::from_micros(i64::try_from(since).expect("a time"));
    let entry = |fact: service_manager::Fact| Entry { at, fact: fact.into() };
    let plans = (1..=u64::try_from(MAX_PLANS).expect("a number")).flat_map(|plan| {
        let request = PlanRequest::new(Name::literal("main"), at.plus(Span::HOUR));
        let ended = PlanEnded { plan, outcome: PlanOutcome::Infeasible, why: Vec::new() };
        [entry(PlanRequested { plan, request }.into()), entry(ended.into())]
    });
    plans.collect()
}

#[test]
fn when_no_more_plans_can_be_remembered_the_answer_is_busy() {
    let mut deployment = Deployment::start();
    deployment.end("-TERM");
    let journal = deployment.data.path().join("journals/guest.db");
    let owner = Reader::open(&journal).expect("a journal").owner().clone();
    let mut file = JournalFile::open(&journal, &owner).expect("a journal");
    file.append(file.len(), &too_many_plans()).expect("room");
    file.close().expect("a journal");
    deployment.restart();

    let output = propose(&deployment, &[part("web", "")]);
    assert_eq!(output.status.code(), Some(75), "{}", stderr(&output));
    let error = stderr(&output);
    assert!(error.contains("guest remembers 10000 plans, the most that it can"), "{error}");
}
