//! Requests that name a lease: for units beside it, or for its own units again.

use std::collections::BTreeSet;
use std::path::Path;

use tenure_core::actor::Role;
use tenure_core::driver::UnitId;
use tenure_core::mapper::prefer::PREFERRED;
use tenure_core::model::identity::ActorId;
use tenure_core::model::resource::{Expr, SITE};
use tenure_core::model::slice::RequestId;
use tenure_core::runtime::{Entry, Fact};
use tenure_core::service_manager::facts::Fact as F;
use tenure_expr::Demand;

use super::server::{ApiResult, AppState};
use super::view::LeaseView;
use super::{ApiError, Code, LeaseName, LeaseRequest, demand};
use crate::journal::Reader;

impl AppState {
    /// Puts what a request says of other leases into its demand and its configuration.
    pub(super) async fn place(&self, request: &mut LeaseRequest) -> ApiResult<()> {
        if let Some(lease) = request.with.take() {
            self.named(&lease).await?;
            let had = self.had(&lease).await?;
            let [site] = &Vec::from_iter(had.sites)[..] else {
                let message = format!("lease {lease} is not, or not yet, of one site");
                let help = "name one of its parts, once it is granted";
                return Err(ApiError::new(Code::Usage, message).help(help));
            };
            let demand = read(&request.demand)?;
            request.demand = at(&demand, std::slice::from_ref(site))?.to_string();
        }
        if let Some(lease) = request.again.take() {
            self.ask_again(request, &lease).await?;
        }
        Ok(())
    }

    /// Prefers the sites of a lease, and there its units.
    async fn ask_again(&self, request: &mut LeaseRequest, lease: &LeaseName) -> ApiResult<()> {
        let leases = self.named(lease).await?;
        if request.demand.is_empty() {
            request.demand = same(&leases);
        }
        let Had { sites, units } = self.had(lease).await?;
        if sites.is_empty() {
            let message = format!("lease {lease} has had no units");
            return Err(ApiError::new(Code::Usage, message).help("name one that was granted"));
        }
        let wanted = read(&request.demand)?;
        let there = at(&wanted, &Vec::from_iter(sites))?;
        let alternatives = there.alternatives().iter().chain(wanted.alternatives());
        let either = Demand::new(alternatives.cloned().collect::<Vec<_>>());
        request.demand = either.map_err(|error| wrong(error.to_string()))?.to_string();

        let units: Vec<String> = units.iter().map(ToString::to_string).collect();
        request.configure(PREFERRED, units.join(" "))
    }

    /// What a lease has, or had, by the journal of its service manager: of one that is over nothing else is known.
    async fn had(&self, lease: &LeaseName) -> ApiResult<Had> {
        let manager = self.manager_of(lease).await?;
        let origin = self.actor(Role::ServiceManager, &manager)?.info().id;
        let request = RequestId { origin, number: lease.number };
        let read = move |path: &Path| Reader::open(path)?.about(request);
        let facts = self.read_journal(&manager, read).await?;
        let mut had = Had::default();
        for (_, entry) in &facts {
            had.sites.extend(sites_of(entry, lease).into_iter().map(|site| self.name(site)));
            had.units.extend(units_of(entry, lease));
        }
        Ok(had)
    }
}

/// What a lease has, or had.
#[derive(Default)]
struct Had {
    /// The names of its sites.
    sites: BTreeSet<String>,
    units: BTreeSet<UnitId>,
}

fn is_of(name: &LeaseName, number: u64, part: usize) -> bool {
    name.number == number && name.part.is_none_or(|named| usize::from(named) == part)
}

/// The sites of a lease by a fact: the tickets of a request become its parts, in their order.
fn sites_of(entry: &Entry, name: &LeaseName) -> Vec<ActorId> {
    let Fact::ServiceManager(F::Granted(fact)) = &entry.fact else { return Vec::new() };
    let tickets = fact.tickets.iter().enumerate();
    let tickets = tickets.filter(|(part, _)| is_of(name, fact.number, *part));
    tickets.map(|(_, (_, ticket))| ticket.site()).collect()
}

/// The units that a lease got by a fact.
fn units_of(entry: &Entry, name: &LeaseName) -> Vec<UnitId> {
    let Fact::ServiceManager(F::Leased(fact)) = &entry.fact else { return Vec::new() };
    let is_named = is_of(name, fact.lease.number, fact.lease.part.into());
    let units = fact.units.iter().filter(|_| is_named);
    units.map(|unit| unit.unit).collect()
}

/// As many units of the same types.
fn same(leases: &[LeaseView]) -> String {
    let items = leases.iter().map(|lease| format!("{} {}", lease.units, lease.resource));
    items.collect::<Vec<_>>().join(", ")
}

fn read(demand: &str) -> ApiResult<Demand> {
    Demand::parse(demand).map_err(|error| wrong(format!("the demand cannot be read: {error}")))
}

/// The same demand, of units at one of these sites.
fn at(demand: &Demand, sites: &[String]) -> ApiResult<Demand> {
    let names: Vec<String> = sites.iter().map(|site| format!("\"{site}\"")).collect();
    let condition = format!("{SITE} in {{{}}}", names.join(", "));
    let condition = Expr::parse_condition(&condition).map_err(|error| wrong(error.to_string()))?;
    let mut alternatives = demand.alternatives().to_vec();
    let bundles = alternatives.iter_mut().flat_map(|alternative| &mut alternative.bundles);
    for item in bundles.flat_map(|bundle| &mut bundle.items) {
        demand::narrow(item, &condition).map_err(|error| wrong(error.to_string()))?;
    }
    Demand::new(alternatives).map_err(|error| wrong(error.to_string()))
}

fn wrong(message: String) -> ApiError {
    ApiError::new(Code::Usage, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demand_is_moved_to_sites() {
        let moved = |demand, sites: &[&str]| {
            let sites: Vec<String> = sites.iter().map(ToString::to_string).collect();
            at(&read(demand).unwrap(), &sites).unwrap().to_string()
        };
        assert_eq!(moved("2 node", &["north"]), r#"2 node where 'site in {"north"}'"#);
        assert_eq!(
            moved("(1 phone where sim, 1 relay) | 1 phone", &["a", "b"]),
            r#"(1 phone where 'sim and site in {"a", "b"}', 1 relay where 'site in {"a", "b"}') | 1 phone where 'site in {"a", "b"}'"#
        );
    }
}
