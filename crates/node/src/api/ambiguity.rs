//! Units that several claim: how they are shown, and how a user says whose they are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tenure_core::actor::Role;
use tenure_core::model::name::Name;
use tenure_core::service::member::MemberId;
use tenure_core::service_manager::ambiguity::{Ambiguity, Claim};
use tenure_core::service_manager::hosts::OtherClaim;
use tenure_core::service_manager::services::ServiceCommand;
use tenure_core::service_manager::{ServiceManager, ambiguity::Claimant};

use super::asker::Asker;
use super::server::{ApiResult, AppState};
use super::view::{Names, lease_name, name, time};
use super::{ApiError, Code};

/// A claim of a unit that several claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimView {
    /// What its software or its site calls the unit.
    pub member: String,
    /// The service that claims it, as `guest/batch`; of another guest that its broker does not disclose, `?`.
    pub service: String,
    /// The service manager that is to know whose it is.
    pub manager: String,
    /// The broker that says so, if another guest claims it.
    pub broker: Option<String>,
    /// The unit, as `alpha/u3`, if it is leased.
    pub unit: Option<String>,
    /// Its lease.
    pub lease: Option<String>,
    /// The ticket that a site has taken for it.
    pub ticket: Option<String>,
    /// When its service told of it first, or its lease began.
    pub since: String,
    /// `ambiguous`, or once that is settled `kept` or `shut-out`.
    pub state: String,
}

impl ClaimView {
    fn all(manager: &Name, guest: &ServiceManager, names: &Names) -> Vec<Self> {
        let all = guest.ambiguities();
        let all = all.flat_map(|(member, ambiguity)| {
            let own = ambiguity.claims.iter();
            let own = own.map(move |claim| Self::of(manager, (member, ambiguity, claim), names));
            let others = ambiguity.others.iter();
            own.chain(
                others.map(move |claim| Self::of_other(manager, (member, ambiguity, claim), names)),
            )
        });
        all.collect()
    }

    fn of(
        manager: &Name,
        (member, ambiguity, claim): (&MemberId, &Ambiguity, &Claim),
        names: &Names,
    ) -> Self {
        let state = match &ambiguity.kept {
            None if ambiguity.ceded => "shut-out",
            None => "ambiguous",
            Some(kept) if *kept == claim.by => "kept",
            Some(_) => "shut-out",
        };
        Self {
            member: member.to_string(),
            service: format!("{manager}/{}", claim.by.service),
            manager: manager.to_string(),
            broker: None,
            unit: claim.by.unit.map(|(site, unit)| format!("{}/{unit}", name(names, site))),
            lease: claim.lease.map(|(lease, _)| lease_name(manager.as_str(), lease)),
            ticket: claim.lease.map(|(_, ticket)| ticket.to_string()),
            since: time(claim.since),
            state: state.to_owned(),
        }
    }

    fn of_other(
        manager: &Name,
        (member, ambiguity, other): (&MemberId, &Ambiguity, &OtherClaim),
        names: &Names,
    ) -> Self {
        let state = match (ambiguity.ceded, &ambiguity.kept) {
            (true, _) => "kept",
            (false, None) => "ambiguous",
            (false, Some(_)) => "shut-out",
        };
        let OtherClaim { broker, claim } = other;
        let service = claim.by.as_ref();
        let service = service.map(|(guest, service)| format!("{}/{service}", name(names, *guest)));
        Self {
            member: member.to_string(),
            service: service.unwrap_or_else(|| "?".to_owned()),
            manager: manager.to_string(),
            broker: Some(name(names, *broker)),
            unit: None,
            lease: None,
            ticket: claim.ticket.map(|ticket| ticket.to_string()),
            since: time(claim.since),
            state: state.to_owned(),
        }
    }

    /// Whether it is one of what a user calls so: the unit, or the name of its host.
    fn is(&self, unit: &str) -> bool {
        self.member == unit.to_ascii_lowercase() || self.unit.as_deref() == Some(unit)
    }
}

impl AppState {
    /// All claims of units that several claim, or those of one of them.
    pub(super) async fn claims(&self, unit: Option<&str>) -> ApiResult<Vec<ClaimView>> {
        let mut all = Vec::new();
        for handle in self.chosen(Role::ServiceManager, None)? {
            let (of, names) = (handle.info().name.clone(), self.names());
            let look = move |guest: &ServiceManager| Some(ClaimView::all(&of, guest, &names));
            all.extend(self.guest(&handle.info().name, look).await?.unwrap_or_default());
        }
        let Some(unit) = unit else { return Ok(all) };
        let called: Vec<String> =
            all.iter().filter(|claim| claim.is(unit)).map(|claim| claim.member.clone()).collect();
        all.retain(|claim| called.contains(&claim.member));
        if all.is_empty() {
            let message = format!("no two claim {unit}");
            return Err(ApiError::new(Code::NoSuch, message)
                .help("`tenure unit resolve` lists the units that several claim"));
        }
        Ok(all)
    }

    /// The claims of one unit, after a user has said whose it is.
    pub(super) async fn resolve(
        &self,
        unit: &str,
        keep: &str,
        by: &Asker,
    ) -> ApiResult<Vec<ClaimView>> {
        let claims = self.claims(Some(unit)).await?;
        let meant = |claim: &&ClaimView| {
            let service = claim.service.split_once('/').map(|(_, service)| service);
            claim.unit.as_deref() == Some(keep) || claim.service == keep || service == Some(keep)
        };
        let found: Vec<&ClaimView> = claims.iter().filter(meant).collect();
        let Some(first) = found.first() else {
            let message = format!("`{keep}` does not claim {unit}");
            return Err(
                ApiError::new(Code::Usage, message).help("`tenure unit resolve` lists who does")
            );
        };
        // Several service managers may have to know, and a claim of another guest may be told by several brokers.
        let mut settled = BTreeMap::new();
        for claim in &found {
            let (manager, command) = self.settlement(claim)?;
            let other = settled.insert(manager, command.clone());
            if other.is_some_and(|other| other != command) {
                let message = format!("several claims of {unit} are of `{keep}`");
                return Err(ApiError::new(Code::Usage, message)
                    .help("name the unit, as `alpha/u3`, or the service, as `guest/batch`"));
            }
        }
        for (manager, command) in settled {
            self.service_command(&manager, command, by).await?;
        }
        self.claims(Some(&first.member)).await
    }

    /// The service manager of a claim, and the command for it.
    fn settlement(&self, claim: &ClaimView) -> ApiResult<(Name, ServiceCommand)> {
        let wrong = || ApiError::new(Code::NoSuch, format!("{} is no service", claim.service));
        let parsed = |text: &str| Name::new(text).map_err(|_| wrong());
        let manager = parsed(&claim.manager)?;
        let member = MemberId::new(&claim.member).map_err(|_| wrong())?;
        if claim.broker.is_some() {
            return Ok((manager, ServiceCommand::Cede { member }));
        }
        let (_, service) = claim.service.split_once('/').ok_or_else(wrong)?;
        let service = parsed(service)?;
        let unit = match &claim.unit {
            Some(unit) => Some(self.site_unit(unit)?),
            None => None,
        };
        let keep = Claimant { service, unit };
        Ok((manager, ServiceCommand::Resolve { member, keep }))
    }
}
