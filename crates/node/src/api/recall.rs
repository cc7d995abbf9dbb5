//! Recalls: what issuers take back, and what holders are told of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tenure_core::actor::Role;
use tenure_core::actor::recalls::IssuedRecall;
use tenure_core::broker::{Broker, Command as BrokerCommand};
use tenure_core::driver::UnitId;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::runtime::{AnyActor, Command};
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::service_manager::{ServiceManager, Standing};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::ledger::Ledger;
use tenure_core::ticket::link::{LinkHash, SignedLink};
use tenure_core::wire::part::surplus;
use tenure_core::wire::recall::Notice;
use tokio::time::{Instant, timeout_at};

use super::asker::Asker;
use super::moment::Moment;
use super::server::{ApiResult, AppState, refused};
use super::ticket_hash::HashPrefix;
use super::view::{LeaseView, Names, RefusalView, name, time};
use super::{ApiError, Code, DelegationName, LeaseName, pause};

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
    /// The notice that the ticket carries; without one units in use stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<Span>,
    /// Why the site did not take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<RefusalView>,
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
    /// The units that go, as things stand, once the lease has units.
    #[serde(default)]
    pub going: Vec<UnitId>,
    /// The hash of the ticket that is recalled: the lease's own, or one above it.
    #[serde(default)]
    pub ticket: String,
    /// Who issued that ticket, and recalls units of it.
    #[serde(default)]
    pub by: Option<String>,
}

impl RecalledView {
    /// What a lease was told, in this state.
    pub(super) fn of(told: &Notice, state: Standing<'_>, names: &Names) -> Self {
        let held = state.held();
        let tickets = held.into_iter().flat_map(|held| &held.tickets).chain(state.ticket());
        let mut links = tickets.flat_map(Ticket::links);
        let by = links.find(|link| link.hash() == told.link).map(|link| name(names, link.issuer));
        let units = held.into_iter().flat_map(|held| held.units.keys().copied());
        let mut going = surplus(units, told.units, &told.victims);
        going.sort_unstable();
        let (victims, ticket) = (told.victims.clone(), told.link.to_hex());
        Self { units: told.units, at: time(told.at), victims, going, ticket, by }
    }

    /// In a sentence, of a lease with so many units.
    pub fn in_words(&self, units: u32) -> String {
        let Self { units: stay, at, going, by, .. } = self;
        let by = by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
        let going: Vec<String> = going.iter().map(ToString::to_string).collect();
        if going.is_empty() {
            return format!("recalled{by}: {stay} of {units} units stay from {at} on");
        }
        format!("recalled{by}: {stay} of {units} units stay from {at} on, {} go", going.join(", "))
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
        self.recall_of(role, &name, ticket).await
    }

    /// How the last recall of a ticket stands at its issuer.
    async fn recall_of(&self, role: Role, name: &Name, ticket: LinkHash) -> ApiResult<RecallView> {
        let issuer = name.clone();
        let found = match role {
            Role::Broker => {
                let view = move |broker: &Broker| {
                    Some(view(&issuer, (broker.ledger(), ticket), broker.recall_of(ticket)?))
                };
                self.broker(self.actor(role, name)?, view).await?.flatten()
            }
            Role::ServiceManager | Role::SiteAuthority => {
                let view = move |guest: &ServiceManager| {
                    Some(view(&issuer, (guest.splits(), ticket), guest.recall_of(ticket)?))
                };
                self.guest(name, view).await?
            }
        };
        found.ok_or_else(|| ApiError::new(Code::NoSuch, "the ticket is not recalled"))
    }

    /// Waits until the last recall of a ticket has taken what it takes, but no longer than so long.
    pub(super) async fn recall_taken(&self, hash: &str, longest: Span) -> ApiResult<RecallView> {
        let (role, name, ticket) = self.issuer_of(hash).await?;
        let handle = self.actor(role, &name)?;
        let mut facts = handle.facts().await.map_err(|error| refused(&error))?.facts;

        let end = Instant::now() + pause(longest);
        loop {
            let recall = self.recall_of(role, &name, ticket).await?;
            let open = !recall.enforced && recall.refusal.is_none();
            if !open || !matches!(timeout_at(end, facts.recv()).await, Ok(Some(_))) {
                return Ok(recall);
            }
        }
    }

    /// The broker, or the service manager that handed it on, that issued the ticket whose hash begins so.
    async fn issuer_of(&self, ticket: &str) -> ApiResult<(Role, Name, LinkHash)> {
        let hash = self.ticket_meant(ticket).await?;
        let none = || ApiError::new(Code::NoSuch, format!("nobody here issued a ticket {hash}"));
        let prefix = HashPrefix::new(&hash).ok_or_else(none)?;
        let mut found = BTreeMap::new();
        for role in [Role::ServiceManager, Role::Broker] {
            for handle in self.of_role(role) {
                let prefix = prefix.clone();
                let hashes = self.look(handle, move |actor| match actor {
                    AnyActor::Broker(broker) => hashes(&prefix, broker.ledger()),
                    AnyActor::ServiceManager(guest) => hashes(&prefix, guest.splits()),
                    AnyActor::SiteAuthority(_) => Vec::new(),
                });
                let name = &handle.info().name;
                let issued = |hash| (hash, (format!("issued by {name}"), (role, name.clone())));
                found.extend(hashes.await?.into_iter().map(issued));
            }
        }
        let (hash, (role, name)) = prefix.only(found)?.ok_or_else(none)?;
        Ok((role, name, hash))
    }

    /// The hash of the newest generation of a delegation between brokers.
    async fn delegation_meant(&self, text: &str) -> ApiResult<Option<String>> {
        let Ok(DelegationName { issuer, number }) = text.parse() else { return Ok(None) };
        let Ok(handle) = self.actor(Role::Broker, &issuer) else { return Ok(None) };
        let now = self.now();
        let newest = move |broker: &Broker| {
            let mut issued = broker.issued_delegations(now).map(|issued| issued.ticket.bottom());
            let of = |link: &SignedLink| link.delegation.is_some_and(|g| g.delegation == number);
            issued.find(|link| of(link)).map(|link| link.hash().to_hex())
        };
        Ok(self.broker(handle, newest).await?.flatten())
    }

    /// The hash of the ticket that a lease, named with its service manager, came of, or of a delegation; or
    /// what was written.
    async fn ticket_meant(&self, text: &str) -> ApiResult<String> {
        if let Some(delegation) = self.delegation_meant(text).await? {
            return Ok(delegation);
        }
        let lease = text.parse::<LeaseName>().ok().filter(|lease| lease.manager.is_some());
        let Some(lease) = lease else { return Ok(text.to_owned()) };
        let (manager, parts) = self.parts(&lease).await?;
        let &[id] = &parts[..] else {
            let count = parts.len();
            let message = format!("{lease} has {count} tickets: name one, as in {lease}.0");
            return Err(ApiError::new(Code::Usage, message));
        };
        let ticket = move |guest: &ServiceManager| guest.survey_of(id)?.tickets.first().copied();
        let ticket = self.guest(&manager, ticket).await?;
        ticket
            .map(|ticket| ticket.to_hex())
            .ok_or_else(|| ApiError::new(Code::NoSuch, format!("{lease} has no ticket")))
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

fn hashes(prefix: &HashPrefix, ledger: &Ledger) -> Vec<LinkHash> {
    prefix.in_ledger(ledger).into_iter().map(SignedLink::hash).collect()
}

/// The recalls of a broker, by the hashes of their tickets.
pub(super) fn of_broker(name: &Name, broker: &Broker) -> Vec<RecallView> {
    let recalls = broker.recalls();
    recalls.map(|(ticket, recall)| view(name, (broker.ledger(), ticket), recall)).collect()
}

fn view(issuer: &Name, (ledger, ticket): (&Ledger, LinkHash), recall: &IssuedRecall) -> RecallView {
    let IssuedRecall { level, at, enforced, refusal } = recall;
    let link = ledger.entered(ticket).map(|(_, link)| link);
    RecallView {
        ticket: ticket.to_hex(),
        issuer: issuer.to_string(),
        number: level.number,
        units: link.map_or(level.units, |link| level.units.min(link.units.get())),
        from: time(level.from),
        at: at.map(time),
        enforced: *enforced,
        notice: link.and_then(|link| link.clauses.notice),
        refusal: refusal.as_ref().map(RefusalView::of),
    }
}
