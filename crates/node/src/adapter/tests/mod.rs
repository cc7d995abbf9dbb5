//! Adapters, without a deployment.

mod exec;
mod grid_engine;
mod haproxy;
mod joins;
mod kpis;
mod slurm;

use serde_json::{Value, json};
use tenure_core::service::adapter::Adapter as Spec;
use tenure_core::service::definition::Definition;

use super::registry;

/// The adapter of a definition, with these settings.
fn spec(settings: &Value) -> Spec {
    serde_json::from_value(settings.clone()).unwrap()
}

#[test]
fn what_no_adapter_takes_is_refused() {
    let refused = |settings: Value| {
        let adapter = Some(spec(&settings));
        let bad = registry::check(&Definition { adapter, ..Definition::default() }).unwrap_err();
        format!("{bad}; {}", bad.help())
    };
    let sense = ["/bin/true"];
    for (settings, says) in [
        (json!({ "name": "exek" }), "there is no adapter `exek`; did you mean `exec`?"),
        (json!({ "name": "exec" }), "adapter `exec`: the key `sense` is missing"),
        (json!({ "name": "exec", "sense": ["true"] }), "`true` is not an absolute path"),
        (json!({ "name": "exec", "sense": sense, "tim": "1s" }), "unknown key `tim`"),
        (json!({ "name": "exec", "sense": sense, "every": "1ms" }), "at least 100ms"),
        (json!({ "name": "exec", "sense": sense, "every": "2m" }), "set a shorter `every`"),
        (
            json!({ "name": "grid-engine", "group": "@a", "licence": "l" }),
            "units are hosts of a `group` or a `licence`, not both",
        ),
        (json!({ "name": "grid-engine", "group": "leased" }), "its name begins with `@`"),
        (json!({ "name": "grid-engine", "queue": "a b" }), "`a b` is not one word"),
        (json!({ "name": "haproxy" }), "the key `backend` is missing"),
        (json!({ "name": "haproxy", "backend": "a", "server": "check;" }), "have no `;`"),
        (json!({ "name": "slurm", "node": "CPUs" }), "`CPUs` is no KEY=VALUE"),
        (json!({ "name": "slurm", "node": "NodeName=a" }), "`NodeName` follows from the unit"),
        (json!({ "name": "slurm", "pool": ["c1 State=DOWN"] }), "is no name of a node"),
    ] {
        let said = refused(settings);
        assert!(said.contains(says), "{said}");
    }
}
