//! Changes: what is done to leases, to quotas and to units in quarantine.

use std::num::NonZeroU32;

use tenure_core::actor::Role;
use tenure_core::broker::Command as BrokerCommand;
use tenure_core::broker::quota::Quota;
use tenure_core::driver::UnitId;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Time};
use tenure_core::service_manager::{Command as GuestCommand, Victims};
use tenure_core::site_authority::Command as SiteCommand;

use super::server::{ApiResult, AppState, refused};
use super::view::{LeaseView, QuotaView, SiteView};
use super::{LeaseName, sense};

impl AppState {
    pub(super) async fn extend(
        &self,
        lease: &LeaseName,
        duration: Span,
        units: Option<NonZeroU32>,
        victims: &Victims,
    ) -> ApiResult<Vec<LeaseView>> {
        sense::lasts(duration)?;
        sense::goes_on(&self.named(lease).await?)?;
        let extend = |lease| {
            let victims = victims.clone();
            GuestCommand::Extend { lease, duration, units, victims }
        };
        self.each(lease, extend).await
    }

    pub(super) async fn flex(
        &self,
        lease: &LeaseName,
        shrink: NonZeroU32,
        victims: &Victims,
    ) -> ApiResult<Vec<LeaseView>> {
        sense::changes(&self.named(lease).await?)?;
        let flex = |lease| GuestCommand::Flex { lease, shrink, victims: victims.clone() };
        self.each(lease, flex).await
    }

    pub(super) async fn shorten(
        &self,
        lease: &LeaseName,
        until: Time,
    ) -> ApiResult<Vec<LeaseView>> {
        sense::changes(&self.named(lease).await?)?;
        self.each(lease, |lease| GuestCommand::Shorten { lease, until }).await
    }

    pub(super) async fn modify(
        &self,
        lease: &LeaseName,
        configuration: &Properties,
    ) -> ApiResult<Vec<LeaseView>> {
        sense::changes(&self.named(lease).await?)?;
        let modify = |lease| GuestCommand::Modify { lease, changes: configuration.clone() };
        self.each(lease, modify).await
    }

    pub(super) async fn redeem(&self, lease: &LeaseName) -> ApiResult<Vec<LeaseView>> {
        self.each(lease, |lease| GuestCommand::Redeem { lease }).await
    }

    pub(super) async fn close(&self, lease: &LeaseName) -> ApiResult<Vec<LeaseView>> {
        self.each(lease, |lease| GuestCommand::Close { lease }).await
    }

    pub(super) async fn withdraw(&self, lease: &LeaseName) -> ApiResult<Vec<LeaseView>> {
        let manager = self.manager_of(lease).await?;
        self.command(&manager, GuestCommand::Withdraw { number: lease.number }).await?;
        self.named(lease).await
    }

    /// Takes an offer. One that was not held is asked for by a new request, and that is answered.
    pub(super) async fn accept(&self, lease: &LeaseName, offer: u8) -> ApiResult<Vec<LeaseView>> {
        let manager = self.manager_of(lease).await?;
        let number = lease.number;
        let asked = self.command(&manager, GuestCommand::Accept { number, offer }).await?;
        match asked {
            Some(asked) => Ok(vec![self.lease(&manager, asked).await?]),
            None => self.named(lease).await,
        }
    }

    pub(super) async fn set_quota(
        &self,
        broker: &Name,
        manager: Option<&Name>,
        quota: Option<Quota>,
    ) -> ApiResult<Vec<QuotaView>> {
        let handle = self.actor(Role::Broker, broker)?;
        let manager = manager.map(|name| self.actor(Role::ServiceManager, name));
        let whose = manager.transpose()?.map(|manager| manager.info().id);
        let set = handle.command(BrokerCommand::SetQuota { whose, quota }).await;
        set.map_err(|error| refused(&error))?;
        self.quotas(Some(broker)).await
    }

    pub(super) async fn reset(&self, site: &Name, unit: UnitId) -> ApiResult<Option<SiteView>> {
        let handle = self.actor(Role::SiteAuthority, site)?;
        if let Some(view) = self.sites(Some(site)).await?.first() {
            sense::is_quarantined(view, &format!("{site}/{unit}"))?;
        }
        let reset = handle.command(SiteCommand::Reset { unit }).await;
        reset.map_err(|error| refused(&error))?;
        Ok(self.sites(Some(site)).await?.pop())
    }

    /// Has something done to each part of a request; answers how they are then.
    async fn each(
        &self,
        lease: &LeaseName,
        command: impl Fn(LeaseId) -> GuestCommand,
    ) -> ApiResult<Vec<LeaseView>> {
        let (manager, parts) = self.parts(lease).await?;
        let mut views = Vec::new();
        for id in parts {
            self.command(&manager, command(id)).await?;
            views.push(self.lease(&manager, id).await?);
        }
        Ok(views)
    }
}
