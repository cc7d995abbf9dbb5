//! What haproxy answered, recorded in a file; `tests/tests/system/haproxy.rs` runs one.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tenure_core::service::kpi::Kpis;
use tenure_core::service_manager::services::Found;

use super::super::haproxy::answers::lines;
use super::super::haproxy::measure::{Counted, Totals};
use super::super::registry::{Place, open};
use super::super::{AdapterError, Sensed};
use super::spec;
use crate::driver::stop::Stop;

const STAT: &str = include_str!("recorded/haproxy-2.6-stat.txt");

fn shown(kpis: &Kpis) -> String {
    kpis.iter().map(|(kpi, value)| format!("{kpi} {value}; ")).collect()
}

#[test]
fn recorded_servers_make_the_kpis() {
    let now = lines(STAT).unwrap();
    let up: Vec<bool> = now.iter().map(|line| line.is_up()).collect();
    assert_eq!(up, [true, true, false, false, true]);
    let counted = Counted { backend: "pool", ours: true };
    let kpis = shown(&counted.kpis(&now, None).unwrap()).replace("{backend=\"pool\"}", "");
    assert_eq!(kpis, "queue 2; response-time 403ms; sessions 7; units 1; ");
    let all = Counted { ours: false, ..counted };
    let before = Totals::of(&lines(&STAT.replace(",16,765,", ",6,765,")).unwrap()).unwrap();
    let since = Some((Duration::from_secs(4), before));
    let kpis = shown(&all.kpis(&now, since).unwrap()).replace("{backend=\"pool\"}", "");
    let rates = "errors-per-second 0; queue 2; requests-per-second 2.5; ";
    assert_eq!(kpis, format!("{rates}response-time 403ms; sessions 7; units 2; "));
    // After a restart haproxy counts from zero.
    let began = lines(&STAT.replace(",16,765,", ",3,765,")).unwrap();
    let since = Some((Duration::from_secs(4), Totals::of(&now).unwrap()));
    let kpis = shown(&all.kpis(&began, since).unwrap());
    assert!(!kpis.contains("requests-per-second"), "{kpis}");
    assert_eq!(all.kpis(&now[..2], None), None);
}

#[test]
fn servers_that_no_unit_has_become_are_static_units() {
    let counted = Counted { backend: "pool", ours: false };
    let shown = |text: &str| {
        let statics = counted.statics(&lines(text).unwrap()).unwrap();
        statics.iter().map(|(id, up)| format!("{id} {up};")).collect::<String>()
    };
    // A loopback address identifies no host.
    assert_eq!(shown(STAT), "pool/fixed true;");
    let own = STAT.replace("127.0.0.1:18970,,http", "192.0.2.7:80,,http");
    assert_eq!(shown(&own), "192.0.2.7 true;");
    let six = STAT.replace("127.0.0.1:18970,,http", "[2001:DB8::7]:80,,http");
    assert_eq!(shown(&six.replacen("no check", "DOWN", 1)), "2001:db8::7 false;");
}

#[test]
fn servers_with_sessions_are_at_work() {
    let counted = Counted { backend: "pool", ours: true };
    let busy = counted.busy(&lines(STAT).unwrap()).into_iter().collect::<Vec<_>>();
    let of = |unit: &str| (format!("00000000000000ab-{unit}"), 2);
    assert_eq!(busy, [of("u3:9"), of("u4:7")]);
}

#[test]
fn what_is_no_table_is_refused_with_what_it_is() {
    let no = "haproxy answers `show stat` by `No such proxy.`";
    assert_eq!(lines("No such proxy.\n\n").unwrap_err(), no);
    let quoted = STAT.replace("Layer4 connection problem", "\"Layer4, connection problem\"");
    assert_eq!(lines(&quoted), lines(STAT));
    let broken = lines(&STAT.replace(",DRAIN,", ",\"DRAIN,")).unwrap_err();
    assert!(broken.contains("`pool,tenure:00000000000000ab-u4:7,"), "{broken}");
}

fn sensed(socket: &Path) -> Result<Sensed, AdapterError> {
    let home = TempDir::new().unwrap();
    let settings = json!({
        "name": "haproxy", "socket": socket, "backend": "pool", "timeout": "200ms",
    });
    let adapter = open(&spec(&settings), Place { home: home.path(), service: "web" }).unwrap();
    adapter.sense(&Stop::new().unwrap())
}

#[test]
fn a_socket_that_does_not_answer_has_failed() {
    let home = TempDir::new().unwrap();
    let path = home.path().join("socket");
    let missing = sensed(&path).unwrap();
    assert_eq!((missing.found, missing.kpis.count()), (Found::Failed, 0));
    assert!(missing.why.unwrap().contains("No such file"));
    let _silent = UnixListener::bind(&path).unwrap();
    let silent = sensed(&path).unwrap();
    assert_eq!((silent.found, silent.kpis.count()), (Found::Failed, 0));
    assert!(silent.why.unwrap().ends_with("no answer in 200ms"));
}
