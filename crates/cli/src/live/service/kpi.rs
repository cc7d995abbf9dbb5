//! `tenure service kpi`: what is measured of services.

use serde::Serialize;
use tenure_node::api::{Request, ServiceView};

use super::super::{ask, print};
use super::KpiArgs;
use crate::Console;
use crate::error::Error;

/// A KPI of a service.
#[derive(Debug, Serialize)]
struct KpiView {
    /// The service.
    service: String,
    /// The KPI, with its labels.
    kpi: String,
    /// Its value.
    value: String,
    /// When it was measured.
    measured_at: Option<String>,
    /// The SLOs that look at it.
    slos: Vec<String>,
}

pub(super) fn kpi(args: &KpiArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let KpiArgs { endpoint, service } = args;
    let services: Vec<ServiceView> = match service {
        Some(service) => vec![ask(&endpoint.data, &Request::Service { service: service.clone() })?],
        None => ask(&endpoint.data, &Request::Services { manager: None })?,
    };
    let kpis: Vec<KpiView> = services.iter().flat_map(kpis).collect();
    let empty = "nothing that counts was measured: tenure service report SERVICE KPI=VALUE...";
    print::rows(&kpis, endpoint.output, empty, console)
}

fn kpis(service: &ServiceView) -> impl Iterator<Item = KpiView> {
    service.kpis.iter().map(|(kpi, value)| {
        let name = kpi.split('{').next().unwrap_or_default();
        let slos = service.slos.iter().filter(|slo| slo.kpis.iter().any(|kpi| kpi == name));
        KpiView {
            service: service.service.clone(),
            kpi: kpi.clone(),
            value: value.clone(),
            measured_at: service.measured_at.clone(),
            slos: slos.map(|slo| slo.slo.clone()).collect(),
        }
    })
}

impl print::Row for KpiView {
    const COLUMNS: &'static [&'static str] = &["service", "kpi", "value", "measured", "slos"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.service.clone(),
            self.kpi.clone(),
            self.value.clone(),
            print::or_dash(self.measured_at.as_ref()),
            if self.slos.is_empty() { "-".to_owned() } else { self.slos.join(" ") },
        ]
    }
}
