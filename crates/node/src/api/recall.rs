//! Recalls: what issuers take back, and what holders are told of it.

use serde::{Deserialize, Serialize};
use tenure_core::actor::Role;
use tenure_core::actor::recalls::IssuedRecall;
use tenure_core::broker::Command as BrokerCommand;
use tenure_core::driver::UnitId;
use tenure_core::model::name::Name;
use tenure_core::runtime::Command;
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::ticket::ledger::Ledger;
use tenure_core::ticket::link::LinkHash;
use tenure_core::wire::recall::Notice;

use super::asker::Asker;
use super::moment::Moment;
use super::server::{ApiResult, AppState};
use super::view::{LeaseView, time};
use super::{ApiError, Code, LeaseName};

/// A recall at who asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecallView {
    /// The hash of the ticket.
    pub ticket: String,
    /// Who issued it, and recalls units of it.
    pub issuer: String,
    /// Counts the recalls of the ticket, from 0.
    pub number: u32,
    /// How many units stay; all of them withdraw an earlier recall.
    pub units: u32,
    /// From when on.
    pub from: String,
    /// When the last of the others are taken, once the site has said so.
    pub at: Option<String>,
    /// Whether all that it takes has been taken.
    pub enforced: bool,
}

/// What the next recall leaves a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecalledView {
    /// How many units stay.
    pub units: u32,
    /// From when on.
    pub at: String,
    /// The units that go first.
    pub victims: Vec<UnitId>,
}

impl RecalledView {
    pub(super) fn of(told: &Notice) -> Self {
        Self { units: told.units, at: time(told.at), victims: told.victims.clone() }
    }
}

impl AppState {
    /// Has the issuer of a ticket recall units of it.
    pub(super) async fn recall(
        &self,
        hash: &str,
        (units, from): (Option<u32>, Option<Moment>),
        by: &Asker,
    ) -> ApiResult<RecallView> {
        let (role, name, ticket) = self.issuer_of(hash).await?;
        let from = from.map(|from| from.on(self.now()));
        let command: Command = match role {
            Role::Broker => BrokerCommand::Recall { ticket, units, from }.into(),
            Role::ServiceManager | Role::SiteAuthority => {
                GuestCommand::Recall { ticket, units, from }.into()
            }
        };
        let handle = self.actor(role, &name)?;
        self.order(handle, (by, ""), command).await?;
        let found = match role {
            Role::Broker => self
                .broker(handle, move |broker| broker.recall_of(ticket).cloned())
                .await?
                .flatten(),
            Role::ServiceManager | Role::SiteAuthority => {
                self.guest(&name, move |guest| guest.recall_of(ticket).cloned()).await?
            }
        };
        let recall = found.ok_or_else(|| ApiError::new(Code::Failed, "the recall is gone"))?;
        Ok(view(&name, ticket, &recall))
    }

    /// The broker, or the service manager that handed it on, that issued the ticket whose hash begins so.
    async fn issuer_of(&self, hash: &str) -> ApiResult<(Role, Name, LinkHash)> {
        for handle in self.chosen(Role::Broker, None)? {
            let (name, hash) = (handle.info().name.clone(), hash.to_owned());
            let found = self.broker(handle, move |broker| issued(broker.ledger(), &hash)).await?;
            if let Some(ticket) = found.flatten() {
                return Ok((Role::Broker, name, ticket));
            }
        }
        for handle in self.chosen(Role::ServiceManager, None)? {
            let (name, hash) = (handle.info().name.clone(), hash.to_owned());
            let found = self.guest(&name, move |guest| issued(guest.splits(), &hash)).await?;
            if let Some(ticket) = found {
                return Ok((Role::ServiceManager, name, ticket));
            }
        }
        Err(ApiError::new(Code::NoSuch, format!("nobody here issued a ticket {hash}")))
    }

    /// Names the units of a lease that go first by a recall.
    pub(super) async fn name_victims(
        &self,
        lease: &LeaseName,
        units: &[UnitId],
        by: &Asker,
    ) -> ApiResult<Vec<LeaseView>> {
        let victims = |lease| GuestCommand::Victims { lease, units: units.to_vec() };
        self.each((lease, by), victims).await
    }
}

/// The link in a ledger whose hash begins so.
fn issued(ledger: &Ledger, hash: &str) -> Option<LinkHash> {
    let children = ledger.accounts().flat_map(|(account, _)| ledger.children(account));
    children.map(|(link, _)| link.hash()).find(|link| link.to_hex().starts_with(hash))
}

fn view(issuer: &Name, ticket: LinkHash, recall: &IssuedRecall) -> RecallView {
    let IssuedRecall { level, at, enforced, refusal: _ } = recall;
    RecallView {
        ticket: ticket.to_hex(),
        issuer: issuer.to_string(),
        number: level.number,
        units: level.units,
        from: time(level.from),
        at: at.map(time),
        enforced: *enforced,
    }
}
