//! `tenure service watch`: services as they change.

use tenure_node::api::{Request, ServiceView};

use super::super::print_changes;
use super::WatchArgs;
use crate::Console;
use crate::error::Error;

pub(super) fn watch(args: &WatchArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let WatchArgs { endpoint, service } = args;
    let request = Request::WatchServices { service: service.clone() };
    print_changes(endpoint, &request, change, console)
}

/// A service as it is now, in a line.
fn change(view: &ServiceView) -> String {
    let demands = view.demands.iter().map(|demand| {
        let claimed = match demand.claimed {
            0 => String::new(),
            claimed => format!(", claims {claimed} more"),
        };
        format!("{} of {} `{}`{claimed}", demand.held, demand.wanted, demand.resource)
    });
    let missed = view.slos.iter().filter(|slo| slo.state == "missed");
    let missed = missed.map(|slo| format!("{} missed", slo.slo));
    let all: Vec<String> = demands.chain(missed).collect();
    format!("{:<20} {:<9} {}", view.service, view.state, all.join("; "))
}
