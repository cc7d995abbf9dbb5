//! Errors in a configuration name their place.

use tempfile::TempDir;
use tenure_config::{ConfigError, Override, Source};
use tenure_core::model::name::Name;

use super::{AssemblyError, Config, parse};

const REST: &str = "[site.a]\nunits = 1\n[broker.b]\n[service-manager.g]\n";

fn read(text: &str, set: &[&str]) -> Result<Config, ConfigError> {
    let set: Vec<Override> = set.iter().map(|set| set.parse().unwrap()).collect();
    parse(Source { name: "live.toml", text }, &set)
}

/// What is wrong, with its place and its help line, whether the parser or a driver reports it.
#[track_caller]
fn wrong(text: &str, set: &[&str]) -> String {
    let data = TempDir::new().unwrap();
    let assembled = read(text, set).map_err(AssemblyError::from);
    match assembled.and_then(|config| config.assemble(data.path())) {
        Err(AssemblyError::Config(error)) => match &error.help {
            Some(help) => format!("{error}; {help}"),
            None => error.to_string(),
        },
        Err(error) => panic!("an error without a place: {error}"),
        Ok(_) => panic!("this is no error"),
    }
}

fn names(config: &Config) -> Vec<&str> {
    let managers = config.service_managers.values();
    managers.flat_map(|manager| manager.drivers.iter().map(|driver| &*driver.name)).collect()
}

#[test]
fn a_service_manager_has_one_driver_or_several() {
    for (text, drivers) in [
        ("", &["null"] as &[_]),
        ("driver = { name = \"membership\" }\n", &["membership"]),
        ("[service-manager.g.driver]\nname = \"membership\"\n", &["membership"]),
        ("[[service-manager.g.driver]]\nname = \"membership\"\n", &["membership"]),
        (
            "[[service-manager.g.driver]]\nname = \"null\"\njoin = 3\n\
             [[service-manager.g.driver]]\nname = \"membership\"\n",
            &["null", "membership"],
        ),
        ("driver = [{ name = \"membership\" }, { name = \"null\" }]\n", &["membership", "null"]),
    ] {
        let config = read(&format!("{REST}{text}"), &[]).unwrap();
        assert_eq!(names(&config), drivers, "{text}");
        let data = TempDir::new().unwrap();
        let part = config.assemble(data.path()).unwrap().parts;
        assert!(part.iter().any(|part| part.driver.is_some()));
    }
    let set = "service-manager.g.driver=[{ name = \"null\" }, { name = \"null\" }]";
    assert_eq!(names(&read(REST, &[set]).unwrap()), ["null", "null"]);
}

#[test]
fn what_is_wrong_with_one_of_several_drivers_is_reported_at_its_place() {
    let second = |lines: &str| {
        format!(
            "{REST}[[service-manager.g.driver]]\nname = \"null\"\n\n\
             [[service-manager.g.driver]]\n{lines}\n"
        )
    };
    for (text, error) in [
        (
            second("name = \"memberships\""),
            "live.toml:9:8: there is no guest driver `memberships`; \
             did you mean `membership`? known: exec, membership, null, packages, start",
        ),
        (
            second("name = \"null\"\njion = 3"),
            "live.toml:10:8: driver `null` of the service manager `g`: unknown key `jion`; \
             did you mean `join`? known: join, leave, durable",
        ),
        (
            second("name = \"membership\"\nfile = \"members\""),
            "live.toml:10:8: driver `membership` of the service manager `g`: \
             `members` is not the absolute path of a file",
        ),
        (
            second("name = 3"),
            "live.toml:9:8: the name of a driver is text; write, for example, `name = \"null\"`",
        ),
        (
            second("durable = 3"),
            "live.toml:9:11: driver `null` of the service manager `g`: \
             invalid type: integer `3`, expected a boolean",
        ),
        (
            second("")
                + "name = \"membership\"\nfile = \"/m\"\n\
                   [[service-manager.g.driver]]\nname = \"membership\"\nfile = \"/m\"\n",
            "live.toml:14:8: two drivers keep the same file; give each driver a file of its own",
        ),
        (
            format!("{REST}driver = []\n"),
            "live.toml:5:10: a list without a driver; \
             write, for example, `[{ name = \"null\" }]`, or leave the key out",
        ),
        (
            format!("{REST}driver = [{{ name = \"null\" }}, 3]\n"),
            "live.toml:5:30: invalid type: integer `3`, expected a table",
        ),
        (
            format!("{REST}driver = \"null\"\n"),
            "live.toml:5:10: invalid type: string \"null\", expected a table or an array of tables",
        ),
    ] {
        assert_eq!(wrong(&text, &[]), error, "{text}");
    }
    let set = "service-manager.g.driver=[{ name = \"null\" }, { name = \"nil\" }]";
    let error = wrong(REST, &[set]);
    assert!(
        error.starts_with(&format!("in --set {set}: there is no guest driver `nil`")),
        "{error}"
    );
    let error = wrong(&second("name = \"null\""), &["service-manager.g.driver.name=start"]);
    assert!(error.contains("`service-manager.g.driver` is no table"), "{error}");
}

#[test]
fn what_can_never_work_is_reported_at_its_place() {
    for (text, error) in [
        (
            REST.replace("units = 1", "units = 99_999_999"),
            "live.toml:2:9: 99999999 units are more than the 100000 of one site; \
             make several sites of them",
        ),
        (
            REST.replace("units = 1", "units = 1\ndelegation = \"1s\""),
            "live.toml:3:14: `delegation` of 1s can never be granted: \
             it must be longer than two margins, 2s; \
             set a longer `delegation`, or a smaller `margin`",
        ),
        (
            format!("{REST}mapper = {{ name = \"adaptive\", term = \"1s\" }}\n"),
            "live.toml:5:38: `term` of 1s can never be granted: \
             it must be longer than two margins, 2s; set a longer `term`, or a smaller `margin`",
        ),
        (
            format!(
                "margin = \"1m\"\n{REST}mapper = {{ requests = [{{ duration = 120, units = 1 }}] }}\n"
            ),
            "live.toml:6:23: `duration` of 2m can never be granted: \
             it must be longer than two margins, 2m; set a longer `duration`, or a smaller `margin`",
        ),
    ] {
        assert_eq!(wrong(&text, &[]), error, "{text}");
    }
}

#[test]
fn a_program_that_cannot_be_run_is_reported_at_its_place() {
    let folder = TempDir::new().unwrap();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "no program").unwrap();
    let (plain, folder) = (plain.display().to_string(), folder.path().display().to_string());
    let exec = |probe: &str| {
        format!(
            "driver = {{ name = \"exec\", setup = \"/bin/sh\", teardown = \"/bin/sh\", \
             probe = \"{probe}\", allow = [] }}\n"
        )
    };
    let process = |name: &str, program: &str| {
        format!("driver = {{ name = \"{name}\", command = [\"{program}\", \"-x\"] }}\n")
    };
    for (site, guest, place, cause) in [
        (exec("/nowhere/probe"), String::new(), "3:76", "No such file or directory"),
        (exec(&folder), String::new(), "3:76", "it is no file"),
        (process("process", "/nowhere/sh"), String::new(), "3:40", "No such file or directory"),
        (process("process", &plain), String::new(), "3:40", "Permission denied"),
        (String::new(), process("start", &plain), "5:38", "Permission denied"),
    ] {
        let text = format!("[site.a]\nunits = 1\n{site}[broker.b]\n[service-manager.g]\n{guest}");
        let error = match read(&text, &[]).unwrap().check() {
            Err(AssemblyError::Config(error)) => error.to_string(),
            other => panic!("{other:?}: {text}"),
        };
        assert!(error.starts_with(&format!("live.toml:{place}: driver `")), "{error}");
        assert!(error.contains("cannot be run") && error.contains(cause), "{error}");
    }
    for site in [exec("/bin/sh"), process("process", "/bin/sh"), exec(&plain)] {
        let text = format!("[site.a]\nunits = 1\n{site}[broker.b]\n[service-manager.g]\n");
        read(&text, &[]).unwrap().check().unwrap();
    }
}

#[test]
fn units_are_not_probed_without_a_pause() {
    let text = "probe-every = \"99ms\"\n[site.a]\nunits = 1\n[broker.b]\n[service-manager.g]\n";
    let error = read(text, &[]).unwrap_err().to_string();
    assert!(error.starts_with("live.toml:1:15: `probe-every` must be at least 0.1s"), "{error}");
    read(&text.replace("99ms", "100ms"), &[]).unwrap();
}

#[test]
fn how_far_requests_are_passed_on_is_bounded() {
    let text = |reach: &str| {
        format!("[site.a]\nunits = 1\n[broker.b]\nreach = {{ {reach} }}\n[service-manager.g]\n")
    };
    for (reach, cause) in [
        ("hold = \"31s\"", "`hold` must not be 31s; write a length from \"1s\" to \"30s\""),
        ("hold = \"0s\"", "`hold` must not be 0s"),
        ("search = \"one-hop\", hops = 2", "`hops` is at most 1 with `search = \"one-hop\"`"),
        ("hops = 65", "64 times"),
    ] {
        let error = wrong(&text(reach), &[]);
        assert!(error.starts_with("live.toml:4:") && error.contains(cause), "{error}");
    }
    let config = read(&text("search = \"one-hop\""), &[]).unwrap();
    assert_eq!(config.brokers[&Name::literal("b")].reach.hops, 1);
}

#[test]
fn what_is_wrong_with_a_stack_is_reported_at_its_place() {
    let stock = |kind: &str, names: [&str; 2], more: &str| {
        let names = names.map(|name| format!("{name} = {{}}\n")).concat();
        format!("[site.a.stock.{kind}]\n{more}\n[site.a.stock.{kind}.named]\n{names}")
    };
    let rest = "[broker.b]\n[broker.c]\n[service-manager.g]\n";
    let site = |phones: &str, relays: &str, stack: &str| {
        let phones = stock("phone", ["p1", "p2"], phones);
        let relays = stock("relay", ["r1", "r2"], relays);
        format!("{phones}{relays}[site.a.stack]\n{stack}\n{rest}")
    };
    let wrongs = [
        ("", "", "s = [\"p1\", \"r9\"]", "no unit of the site is named `r9`"),
        ("", "", "s = [\"p1\"]", "stack `s` has no two units"),
        (
            "units = 3",
            "",
            "s = [\"p1\", \"r1\"]",
            "some units of `phone` are in stacks, and some have no name",
        ),
        (
            "brokers = [\"b\"]",
            "brokers = [\"c\"]",
            "s = [\"p1\", \"r1\"]",
            "`p1` is delegated to `b`, and `r1` of the same stack to `c`",
        ),
    ];
    for (phones, relays, stack, says) in wrongs {
        let error = wrong(&site(phones, relays, stack), &[]);
        assert!(error.contains(says) && error.contains("live.toml:"), "{error}");
    }
    let good = site("brokers = [\"b\"]", "brokers = [\"b\"]", "s = [\"p1\", \"r1\"]");
    assert_eq!(read(&good, &[]).unwrap().sites.values().next().unwrap().stacks.len(), 1);
}

#[test]
fn a_weak_assurance_is_stated_as_it_is_meant() {
    for (attribute, says) in [
        ("best-effort = \"yes\"", "`best-effort` is true or false"),
        ("overbooked = -1", "`overbooked` is how many units more are delegated"),
    ] {
        let text =
            REST.replace("units = 1\n", &format!("units = 1\nattributes = {{ {attribute} }}\n"));
        let error = wrong(&text, &[]);
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_driver_takes_how_many_calls_it_gets_and_how_long_each_may_take() {
    let calls = |text: &str| {
        let config = read(&format!("{REST}{text}"), &[]).unwrap();
        let data = TempDir::new().unwrap();
        let parts = config.assemble(data.path()).unwrap().parts;
        let part = parts.iter().find(|part| part.info.name.as_str() == "g").unwrap();
        (part.calls.at_a_time.get(), part.calls.timeout.as_secs())
    };
    let two = "[[service-manager.g.driver]]\nname = \"null\"\ncall-timeout = \"10m\"\ncalls = 3\n\
               [[service-manager.g.driver]]\nname = \"membership\"\ncalls = 5\n";
    assert_eq!(calls(""), (64, 3600));
    assert_eq!(calls("driver = { name = \"null\", calls = 7 }\n"), (7, 3600));
    assert_eq!(calls("driver = { name = \"null\", call-timeout = 5 }\n"), (64, 5));
    assert_eq!(calls(two), (3, 4200), "the least, and all of the time");
    for (set, error) in [
        ("calls = 0", "`calls` must not be 0; write a whole number from 1 to 4096"),
        ("calls = \"many\"", "`calls` must not be \"many\"; "),
        (
            "call-timeout = \"0s\"",
            "`call-timeout` must not be \"0s\"; write a length of time above",
        ),
    ] {
        let text = format!("{REST}driver = {{ name = \"null\", {set} }}\n");
        let wrong = wrong(&text, &[]);
        assert!(wrong.starts_with("live.toml:5:") && wrong.contains(error), "{wrong}");
    }
}

#[test]
fn actors_have_as_many_threads_as_set_or_as_there_are_processors() {
    let threads = |set: &[&str]| {
        let data = TempDir::new().unwrap();
        read(REST, set).unwrap().assemble(data.path()).unwrap().threads
    };
    assert_eq!(threads(&["threads=3"]).get(), 3);
    assert_eq!(threads(&[]), std::thread::available_parallelism().unwrap());
}
