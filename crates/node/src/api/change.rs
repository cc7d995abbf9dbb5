//! Changes: what is done to leases, to quotas and to units in quarantine.

use std::num::NonZeroU32;

use tenure_core::actor::Role;
use tenure_core::broker::Command as BrokerCommand;
use tenure_core::broker::quota::Quota;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Time};
use tenure_core::service_manager::{Command as GuestCommand, Victims};

use super::asker::Asker;
use super::broker_view::QuotaView;
use super::server::{ApiResult, AppState};
use super::view::LeaseView;
use super::{LeaseName, sense};

impl AppState {
    pub(super) async fn extend(
        &self,
        lease: &LeaseName,
        duration: Span,
        units: Option<NonZeroU32>,
        victims: &Victims,
        by: &Asker,
    ) -> ApiResult<Vec<LeaseView>> {
        sense::lasts(duration)?;
        if !self.is_again(lease, by).await? {
            sense::goes_on(&self.named(lease).await?)?;
        }
        let extend = |lease| {
            let victims = victims.clone();
            GuestCommand::Extend { lease, duration, units, victims }
        };
        self.each((lease, by), extend).await
    }

    pub(super) async fn flex(
        &self,
        lease: &LeaseName,
        (shrink, force): (NonZeroU32, bool),
        victims: &Victims,
        by: &Asker,
    ) -> ApiResult<Vec<LeaseView>> {
        if !self.is_again(lease, by).await? {
            sense::shrinks(&self.named(lease).await?)?;
        }
        self.force((lease, by), force).await?;
        let flex = |lease| GuestCommand::Flex { lease, shrink, victims: victims.clone() };
        self.each((lease, by), flex).await
    }

    pub(super) async fn shorten(
        &self,
        lease: &LeaseName,
        until: Time,
        by: &Asker,
    ) -> ApiResult<Vec<LeaseView>> {
        if !self.is_again(lease, by).await? {
            sense::changes(&self.named(lease).await?)?;
        }
        self.each((lease, by), |lease| GuestCommand::Shorten { lease, until }).await
    }

    pub(super) async fn modify(
        &self,
        lease: &LeaseName,
        configuration: &Properties,
        by: &Asker,
    ) -> ApiResult<Vec<LeaseView>> {
        sense::changes(&self.named(lease).await?)?;
        let modify = |lease| GuestCommand::Modify { lease, changes: configuration.clone() };
        self.each((lease, by), modify).await
    }

    pub(super) async fn redeem(&self, lease: &LeaseName, by: &Asker) -> ApiResult<Vec<LeaseView>> {
        self.each((lease, by), |lease| GuestCommand::Redeem { lease }).await
    }

    pub(super) async fn close(
        &self,
        lease: &LeaseName,
        (left_by, force): (Option<Time>, bool),
        by: &Asker,
    ) -> ApiResult<Vec<LeaseView>> {
        self.force((lease, by), force).await?;
        let close = |lease| match left_by {
            Some(by) => GuestCommand::Hasten { lease, by },
            None => GuestCommand::Close { lease },
        };
        self.each((lease, by), close).await
    }

    /// Has the software of a lease's service refuse to leave none of its units, if that is wanted.
    async fn force(&self, (lease, by): (&LeaseName, &Asker), force: bool) -> ApiResult<()> {
        if force {
            let (manager, parts) = self.parts(lease).await?;
            for lease in parts {
                let part = format!("{lease} forced");
                self.command(&manager, (by, &part), GuestCommand::ForceLeave { lease }).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn withdraw(
        &self,
        lease: &LeaseName,
        by: &Asker,
    ) -> ApiResult<Vec<LeaseView>> {
        let manager = self.manager_of(lease).await?;
        self.command(&manager, (by, ""), GuestCommand::Withdraw { number: lease.number }).await?;
        self.named(lease).await
    }

    /// Takes an offer. One that was not held is asked for by a new request, and that is answered.
    pub(super) async fn accept(
        &self,
        lease: &LeaseName,
        offer: u8,
        by: &Asker,
    ) -> ApiResult<Vec<LeaseView>> {
        let manager = self.manager_of(lease).await?;
        let number = lease.number;
        let asked =
            self.command(&manager, (by, ""), GuestCommand::Accept { number, offer }).await?;
        match asked {
            Some(asked) => Ok(vec![self.lease(&manager, asked).await?]),
            None => self.named(lease).await,
        }
    }

    pub(super) async fn set_quota(
        &self,
        broker: &Name,
        peer: Option<&Name>,
        quota: Option<Quota>,
        by: &Asker,
    ) -> ApiResult<Vec<QuotaView>> {
        let handle = self.actor(Role::Broker, broker)?;
        let guest = |name| self.party(Role::ServiceManager, name);
        let whose = peer.map(|name| self.party(Role::Broker, name).or_else(|_| guest(name)));
        let whose = whose.transpose()?;
        self.order(handle, (by, ""), BrokerCommand::SetQuota { whose, quota }).await?;
        self.quotas(Some(broker)).await
    }

    /// Whether a change to a lease was asked for before under the same key.
    async fn is_again(&self, lease: &LeaseName, by: &Asker) -> ApiResult<bool> {
        let manager = self.manager_of(lease).await?;
        self.is_repeated(self.actor(Role::ServiceManager, &manager)?, by).await
    }

    /// Has something done to each part of a request; answers how they are then.
    pub(super) async fn each(
        &self,
        (lease, by): (&LeaseName, &Asker),
        command: impl Fn(LeaseId) -> GuestCommand,
    ) -> ApiResult<Vec<LeaseView>> {
        let (manager, parts) = self.parts(lease).await?;
        let mut views = Vec::new();
        for id in parts {
            self.command(&manager, (by, &id.to_string()), command(id)).await?;
            views.push(self.lease(&manager, id).await?);
        }
        Ok(views)
    }
}
