//! Tickets that service managers keep: redeemed, split, brought by users, listed.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use tenure_core::actor::{Actor as _, Role};
use tenure_core::model::codec;
use tenure_core::model::identity::{ActorId, PublicKey};
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::resource::{Constraints, Expr};
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Term};
use tenure_core::runtime::Fact;
use tenure_core::service_manager::facts::Fact as F;
use tenure_core::service_manager::machine::State;
use tenure_core::service_manager::{Command, LeaseSurvey, Part, ServiceManager};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{LinkHash, SignedLink};
use tenure_core::wire::recall::Accepts;

use super::asker::Asker;
use super::moment::Moment;
use super::proof::{self, TicketView};
use super::server::AppState;
use super::ticket_hash::HashPrefix;
use super::view::{self, LeaseView, Names, name, time};
use super::{ApiError, Code, LeaseName};

/// Parts of a kept ticket to be handed on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SplitRequest {
    /// The ticket: the lease that it would become, or the beginning of its hash.
    pub ticket: String,
    /// How many units each part has.
    pub units: NonZeroU32,
    /// Who gets a part each: a service manager of this deployment, an id of 64 digits, or `key:` and the 64
    /// digits of a public key.
    pub to: Vec<String>,
    /// For how long.
    pub duration: Span,
    /// From when on; now, or from the start of the ticket, unless set.
    #[serde(default)]
    pub start: Option<Moment>,
    /// What must hold beside the ticket's own constraints.
    #[serde(default)]
    pub condition: Option<String>,
    /// When each part has to be redeemed by.
    #[serde(default)]
    pub redeem_by: Option<Moment>,
    /// The notice after which units in use can be recalled, if they can.
    #[serde(default)]
    pub notice: Option<Span>,
    /// How long no recall takes units in use.
    #[serde(default)]
    pub min_tenure: Option<Span>,
}

/// A ticket that a user brings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TakeRequest {
    /// The service manager that holds it; found by the ticket unless set.
    pub manager: Option<Name>,
    /// Its links as they travel, root first, in hexadecimal digits.
    pub links: Vec<String>,
    /// The slice of its lease.
    pub slice: Name,
    /// For the site's driver.
    #[serde(default)]
    pub configuration: Properties,
    /// Whether it is kept and not redeemed yet.
    #[serde(default)]
    pub keep: bool,
}

/// A ticket in a service manager's hands, or a part that it handed on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldTicketView {
    /// Its hash.
    pub ticket: String,
    /// The ticket that it is a part of, if it was handed on.
    pub part_of: Option<String>,
    /// The lease that it, or the ticket it is a part of, would become.
    pub lease: String,
    /// `kept`, `split`, `handed-on`, or `returned`.
    pub state: String,
    /// Who holds it.
    pub holder: String,
    /// How many units.
    pub units: u32,
    /// How many of them are not handed on now, of one that is held.
    pub left: Option<i64>,
    /// How many stay, if it is recalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stay: Option<u32>,
    /// The type.
    pub resource: String,
    /// From when.
    pub start: String,
    /// Until when.
    pub end: String,
}

impl HeldTicketView {
    fn of(link: &SignedLink, lease: &str, names: &Names) -> Self {
        Self {
            ticket: link.hash().to_hex(),
            part_of: None,
            lease: lease.to_owned(),
            state: "kept".to_owned(),
            holder: name(names, link.holder),
            units: link.units.get(),
            left: None,
            stay: None,
            resource: link.resource.to_string(),
            start: time(link.term.start()),
            end: time(link.term.end()),
        }
    }
}

/// The fewest digits of a hash by which a kept ticket is named.
const LEAST_DIGITS: usize = 6;

/// The ticket of a lease that keeps it.
fn kept_ticket(state: &State) -> Option<&Ticket> {
    if let State::Ticketed { ticket, .. } = state { Some(ticket) } else { None }
}

/// A kept ticket and its parts.
fn held(
    guest: &ServiceManager,
    lease: &LeaseSurvey<'_>,
    (manager, names): (&Name, &Names),
    now: tenure_core::model::time::Time,
) -> Vec<HeldTicketView> {
    let Some(State::Ticketed { ticket, split }) = lease.state.lease() else { return Vec::new() };
    let (told, lease) = (lease.recalled, view::lease_name(manager.as_str(), lease.id));
    let at = now.max(ticket.bottom().term.start());
    let left = guest.left_of(ticket).map(|left| left.free_at(at));
    let whole = HeldTicketView {
        state: if *split { "split" } else { "kept" }.to_owned(),
        left: left.or(Some(i64::from(ticket.bottom().units.get()))),
        stay: told.map(|told| told.units),
        ..HeldTicketView::of(ticket.bottom(), &lease, names)
    };
    // In the order in which they were handed on.
    let mut parts: Vec<_> = guest.parts_of(ticket).collect();
    parts.sort_by_key(|part| part.link.serial);
    let parts = parts.into_iter().map(|part| HeldTicketView {
        part_of: Some(ticket.hash().to_hex()),
        state: match part.charged {
            Some(charged) if now < charged.end() => "handed-on".to_owned(),
            Some(_) | None => "returned".to_owned(),
        },
        stay: stays(guest, part.link),
        ..HeldTicketView::of(part.link, &lease, names)
    });
    std::iter::once(whole).chain(parts).collect()
}

/// How many units of a part stay, if it is recalled.
pub(super) fn stays(guest: &ServiceManager, part: &SignedLink) -> Option<u32> {
    let level = guest.recall_of(part.hash())?.level;
    Some(level.units).filter(|units| *units < part.units.get())
}

impl AppState {
    /// The tickets kept, and their parts.
    pub(super) async fn tickets(
        &self,
        manager: Option<&Name>,
    ) -> Result<Vec<HeldTicketView>, ApiError> {
        let mut tickets = Vec::new();
        for handle in self.chosen(Role::ServiceManager, manager)? {
            let (manager, names) = (handle.info().name.clone(), self.names());
            let now = self.now();
            let of = self.guest(&handle.info().name, move |guest| {
                let leases = guest.survey();
                let held = leases.flat_map(|lease| held(guest, &lease, (&manager, &names), now));
                Some(held.collect::<Vec<_>>())
            });
            tickets.extend(of.await?.unwrap_or_default());
        }
        Ok(tickets)
    }

    /// Splits a kept ticket; answers the parts.
    pub(super) async fn split(
        &self,
        request: SplitRequest,
        by: &Asker,
    ) -> Result<Vec<TicketView>, ApiError> {
        super::sense::lasts(request.duration)?;
        let (manager, lease, ticket) = self.kept(&request.ticket).await?;
        let holders = request.to.iter().map(|to| self.holder(to));
        let holders = holders.collect::<Result<Vec<_>, _>>()?;
        let bad = |message: String| ApiError::new(Code::Usage, message);
        let now = self.now();
        let start = request.start.map(|start| start.on(now));
        let start = start.unwrap_or_else(|| now.max(ticket.bottom().term.start()));
        let term = Term::lasting(start, request.duration).map_err(|e| bad(e.to_string()))?;
        let constraints = condition(request.condition.as_deref())?;
        let units = request.units;
        let redeem_by = request.redeem_by.map(|by| by.on(now));
        let accepts = Accepts { notice: request.notice, min_tenure: request.min_tenure };
        let part = |holder| {
            let constraints = constraints.clone();
            Part { holder, units, term, constraints, redeem_by, accepts }
        };
        let parts = holders.into_iter().map(part).collect();
        let handle = self.actor(Role::ServiceManager, &manager)?;
        let committed = self.order(handle, (by, ""), Command::Split { lease, parts }).await?;
        let links = committed.facts.iter().find_map(|entry| match &entry.fact {
            Fact::ServiceManager(F::TicketsSplit(fact)) => Some(&fact.links),
            Fact::ServiceManager(_) | Fact::Broker(_) | Fact::SiteAuthority(_) => None,
        });
        let name = view::lease_name(manager.as_str(), lease);
        let keys = self.guest(&manager, |guest| Some(guest.keys().clone())).await?;
        let keys = keys.unwrap_or_default();
        let view = |link: &SignedLink| {
            proof::ticket(&ticket.with(link.clone()), Some(name.clone()), (&self.names(), &keys))
        };
        Ok(links.into_iter().flatten().map(view).collect())
    }

    /// The kept ticket that is meant, with its service manager and the lease that it would become.
    async fn kept(&self, text: &str) -> Result<(Name, LeaseId, Ticket), ApiError> {
        let help = "`tenure ticket list` has the tickets that are kept; \
                    ask for one with `tenure lease request --keep-ticket`";
        let none = || ApiError::new(Code::NoSuch, format!("no kept ticket {text}")).help(help);
        // Few digits are the number of a lease.
        if let Some(prefix) = HashPrefix::new(text).filter(|prefix| prefix.len() >= LEAST_DIGITS)
            && let Some((_, known)) = prefix.only(self.kept_tickets(&prefix).await?)?
        {
            return Ok(known);
        }
        let lease: LeaseName = text.parse().map_err(|_| none())?;
        let (manager, parts) = self.parts(&lease).await.map_err(|error| match error.code {
            Code::NoSuch => none(),
            Code::Busy | Code::Denied | Code::Usage | Code::Failed | Code::SessionClosed => error,
        })?;
        let kept = self.guest(&manager, move |guest| {
            let kept = |id: &LeaseId| Some((*id, kept_ticket(guest.lease(*id)?)?.clone()));
            Some(parts.iter().filter_map(kept).collect::<Vec<_>>())
        });
        match &kept.await?.unwrap_or_default()[..] {
            [] => Err(none()),
            [(id, ticket)] => Ok((manager, *id, ticket.clone())),
            several => {
                let names = several.iter().map(|(id, _)| format!("{manager}/{id}"));
                let message = format!("{lease} has {} kept tickets", several.len());
                let help = format!("write {}", names.collect::<Vec<_>>().join(" or "));
                Err(ApiError::new(Code::Usage, message).help(help))
            }
        }
    }

    /// The kept tickets whose hashes begin so, each with its service manager and lease.
    async fn kept_tickets(
        &self,
        prefix: &HashPrefix,
    ) -> Result<BTreeMap<LinkHash, (String, (Name, LeaseId, Ticket))>, ApiError> {
        let mut kept = BTreeMap::new();
        for handle in self.chosen(Role::ServiceManager, None)? {
            let (manager, prefix) = (handle.info().name.clone(), prefix.clone());
            let found = self.guest(&manager, move |guest| {
                let of = |(hash, id)| Some((hash, id, kept_ticket(guest.lease(id)?)?.clone()));
                Some(prefix.leases_of(guest).into_iter().filter_map(of).collect::<Vec<_>>())
            });
            for (hash, id, ticket) in found.await?.unwrap_or_default() {
                let name = view::lease_name(manager.as_str(), id);
                kept.insert(hash, (name, (manager.clone(), id, ticket)));
            }
        }
        Ok(kept)
    }

    fn holder(&self, text: &str) -> Result<ActorId, ApiError> {
        if let Ok(name) = Name::new(text)
            && let Ok(handle) = self.actor(Role::ServiceManager, &name)
        {
            return Ok(handle.info().id);
        }
        let json = |digits: &str| serde_json::Value::from(digits.to_lowercase());
        let id = match text.strip_prefix("key:") {
            Some(key) => {
                serde_json::from_value::<PublicKey>(json(key)).ok().map(|k| ActorId::of(&k))
            }
            None => serde_json::from_value::<ActorId>(json(text)).ok(),
        };
        id.ok_or_else(|| {
            let message = format!("`{text}` is no service manager here, no id and no key");
            let help = "write a name, the 64 digits of an id, or key: and those of a public key";
            ApiError::new(Code::Usage, message).help(help)
        })
    }

    /// Takes a ticket that a user brought.
    pub(super) async fn take(
        &self,
        request: TakeRequest,
        by: &Asker,
    ) -> Result<LeaseView, ApiError> {
        let bad = |message: String| ApiError::new(Code::Usage, message);
        let links = request.links.iter().map(|link| read_link(link));
        let links = links.collect::<Result<Vec<_>, _>>().map_err(bad)?;
        let ticket = Ticket::try_from(links).map_err(|fault| bad(fault.to_string()))?;
        let manager = match request.manager {
            Some(manager) => manager,
            None => {
                let holder = ticket.bottom().holder;
                let handle = self.handle_of(holder).ok_or_else(|| {
                    bad(format!("the holder of the ticket, {holder}, is not of this deployment"))
                })?;
                handle.info().name.clone()
            }
        };
        let TakeRequest { slice, configuration, keep, .. } = request;
        let command = Command::Take { ticket, slice, configuration, keep };
        let lease = self.command(&manager, (by, ""), command).await?;
        let lease = lease.ok_or_else(|| ApiError::new(Code::Failed, "it made no lease"))?;
        self.lease(&manager, lease).await
    }

    /// Grows a lease; answers it and the lease that grows it.
    pub(super) async fn grow(
        &self,
        lease: &LeaseName,
        units: NonZeroU32,
        condition: Option<&str>,
        by: &Asker,
    ) -> Result<Vec<LeaseView>, ApiError> {
        let requirements = self::condition(condition)?;
        let (manager, parts) = self.parts(lease).await?;
        let Some(&lease) = parts.first() else {
            return Err(ApiError::new(Code::NoSuch, format!("no lease {lease}")));
        };
        let grow = Command::Grow { lease, units, requirements };
        let further = self.command(&manager, (by, ""), grow).await?;
        let further = further.ok_or_else(|| ApiError::new(Code::Failed, "it made no lease"))?;
        Ok(vec![self.lease(&manager, lease).await?, self.lease(&manager, further).await?])
    }
}

/// A condition of a user's as constraints.
fn condition(source: Option<&str>) -> Result<Constraints, ApiError> {
    let parsed = source.map(Expr::parse_condition).transpose();
    let parsed = parsed.map_err(|error| {
        ApiError::new(Code::Usage, format!("the condition cannot be read: {error}"))
    })?;
    Ok(parsed.into_iter().collect())
}

/// A link as it travels, from hexadecimal digits.
fn read_link(hex: &str) -> Result<SignedLink, String> {
    let digits = hex.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).map_err(|_| "a link has odd digits".to_owned())?;
        u8::from_str_radix(pair, 16).map_err(|_| format!("`{pair}` are no hexadecimal digits"))
    });
    let bytes = digits.collect::<Result<Vec<u8>, String>>()?;
    if bytes.len() > codec::MAX_BYTES {
        return Err("a link is too long".to_owned());
    }
    SignedLink::read(&bytes).map_err(|error| format!("a link cannot be read: {error}"))
}
