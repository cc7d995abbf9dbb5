//! Lease requests of users, made idempotent by their ids.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tenure_config::Profiles;
use tenure_core::actor::Role;
use tenure_core::driver::UnitId;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::resource::{Expr, UNIT_ID};
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::{Entry, Fact};
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::service_manager::facts::{Asked, Fact as F};
use tenure_core::service_manager::group::{ASSEMBLE, Handling};
use tenure_core::service_manager::mapper::Ask;
use tenure_core::service_manager::sequence::{After, On};
use tenure_core::wire::message::MAX_CONFIGURATION;
use tenure_core::wire::offer::Reply;
use tenure_core::wire::proviso::Provisos;
use tenure_core::wire::recall::Accepts;
use tenure_core::wire::refusal::Outlook;
use tenure_core::wire::request::{Item, Joins, Relation, Request};
use tenure_expr::Demand;

use super::asker::Asker;
use super::attempt::Several;
use super::server::AppState;
use super::view::LeaseView;
use super::{ApiError, Code, LeaseName, LeaseRequest, LinkRequest, ReviseRequest, demand};
use crate::journal::{REQUEST_KEY, Reader};

/// The request properties that carry the earliest and the latest start as they were named, of a request with
/// an id.
const START: &str = "request.start";
const LATEST: &str = "request.latest";

/// The request property that carries the instant to redeem by as it was named, of a request with an id.
const REDEEM_BY: &str = "request.redeem-by";

/// The longest id, in bytes.
const MAX_ID: usize = 256;

/// The longest that a broker may take to say something about a request that cannot wait.
const RETRY_FOR: Span = Span::MINUTE;

/// Asks for a lease. An id is an idempotency key: of the requests under one id at most one is open or
/// granted, and a repetition returns that one, unless it was refused for now.
pub(super) async fn ask(
    app: &AppState,
    request: LeaseRequest,
    by: &Asker,
) -> Result<LeaseView, ApiError> {
    super::sense::lasts(request.duration)?;
    let manager = manager(app, request.manager.as_ref())?;
    let (id, named) = (request.id.clone(), request.broker.is_some());
    if id.as_ref().is_some_and(|id| id.is_empty() || id.len() > MAX_ID) {
        let message = format!("an id has 1 to {MAX_ID} bytes");
        return Err(ApiError::new(Code::Usage, message).help("leave it out, or choose another"));
    }
    let mut request = request;
    app.place(&mut request).await?;
    if let Some(several) = Several::of(app, &mut request)? {
        let ask = ask_of(app, &manager, request)?;
        return made(app, &manager, several.command(ask)?, by).await;
    }
    let ask = ask_of(app, &manager, request)?;
    let Some(id) = id else { return make(app, &manager, ask, by).await };
    // Held while the request is made, so that two at a time make one lease.
    let _asking = app.asking().lock().await;
    let made = Made::under(app, &manager, &id).await?;
    once(app, &manager, (&id, named, by), ask, made).await
}

/// The request that an id stands for, or a new one in its place.
async fn once(
    app: &AppState,
    manager: &Name,
    (id, names_broker, by): (&str, bool, &Asker),
    mut ask: Ask,
    made: Option<Made>,
) -> Result<LeaseView, ApiError> {
    if let Some(Made { number, body, refused_for_now }) = made {
        let now = Body::of_ask(&ask);
        let differences = body.differences(&now, names_broker, |id| app.name(id));
        if !differences.is_empty() {
            let message = format!("id `{id}` stands for another request: {differences}");
            let help = "choose another --id, or ask for the same as before";
            return Err(ApiError::new(Code::Usage, message).help(help));
        }
        let name = LeaseName { manager: None, number, part: None };
        let parts = app.leases_named(manager, name).await?;
        match parts.first() {
            Some(first) if !parts.iter().any(|part| may_be_met_later(app, part)) => {
                return Ok(first.clone());
            }
            None if !refused_for_now => {
                let message = format!("the request under id `{id}` is over and forgotten");
                return Err(ApiError::new(Code::NoSuch, message).help("choose another --id"));
            }
            Some(_) | None => {
                withdraw(app, manager, &parts, by).await?;
                ask.again = Some(number);
            }
        }
    }
    make(app, manager, ask, by).await
}

/// Whether a part of a request came to nothing, but another try may come to something. What its user gave up
/// in time is not tried again.
fn may_be_met_later(app: &AppState, part: &LeaseView) -> bool {
    let two_margins = app.config().margin.times(2).as_secs_f64();
    let given_up = part.state == "given-up" || part.outcome.as_deref() == Some("withdrawn");
    (given_up && part.left_s <= two_margins)
        || part.outcome.as_deref() == Some("unanswered")
        || part.refusal.as_ref().is_some_and(|refusal| refusal.outlook == "later")
}

/// Gives back leases, and withdraws what is asked for them. A ticket that comes later goes back by itself.
pub(super) async fn withdraw(
    app: &AppState,
    manager: &Name,
    parts: &[LeaseView],
    by: &Asker,
) -> Result<(), ApiError> {
    let on_its_way_out = ["given-up", "planned", "closing", "crediting", "closed"];
    for part in parts.iter().filter(|part| !on_its_way_out.contains(&part.state.as_str())) {
        if let Ok(LeaseName { number, part: Some(part), .. }) = part.lease.parse() {
            let lease = LeaseId { number, part };
            let part = format!("close {lease}");
            app.command(manager, (by, &part), GuestCommand::Close { lease }).await?;
        }
    }
    Ok(())
}

/// The service manager that asks.
pub(super) fn manager(app: &AppState, named: Option<&Name>) -> Result<Name, ApiError> {
    if let Some(name) = named {
        return Ok(app.actor(Role::ServiceManager, name)?.info().name.clone());
    }
    let managers = &app.config().service_managers;
    let mut for_users = managers.iter().filter(|(_, manager)| manager.demand.is_none());
    if let (Some((name, _)), None) = (for_users.next(), for_users.next()) {
        return Ok(name.clone());
    }
    if managers.is_empty() {
        return Err(ApiError::new(Code::Usage, "no service manager runs in this process")
            .help("name the data folder of a process that runs one: `--data FOLDER`"));
    }
    let names: Vec<&str> = managers.keys().map(Name::as_str).collect();
    Err(ApiError::new(Code::Usage, "several service managers could ask")
        .help(format!("choose one: `--as {}`", names.join("`, `--as "))))
}

/// What a request excludes, and by when its tickets are redeemed.
fn provisos(app: &AppState, request: &LeaseRequest, now: Time) -> Result<Provisos, ApiError> {
    let site = |name| app.party(Role::SiteAuthority, name);
    let not_at = request.not_sites.iter().map(site);
    let not_on = request.not_units.iter().map(|(name, unit)| Ok((site(name)?, *unit)));
    Ok(Provisos {
        redeem_by: request.redeem_by.map(|by| by.on(now)),
        not_at: not_at.collect::<Result<_, ApiError>>()?,
        not_on: not_on.collect::<Result<_, ApiError>>()?,
    })
}

/// Has items be met by the units that are named alone, if some are.
fn name_units(items: &mut [Item], named: &BTreeSet<(Name, UnitId)>) -> Result<(), ApiError> {
    let Some((site, _)) = named.first() else { return Ok(()) };
    let bad = |message: String| {
        ApiError::new(Code::Usage, message).help("name as many units of one site as are asked for")
    };
    if named.iter().any(|(other, _)| other != site) {
        return Err(bad("units that are named are of one site".to_owned()));
    }
    let wanted: usize = items.iter().map(|item| item.units.get() as usize).sum();
    if wanted > named.len() {
        let named = named.len();
        return Err(bad(format!("{wanted} units are asked for, and {named} are named")));
    }
    let units = list(named.iter().map(|(_, unit)| format!("\"{unit}\"")));
    for condition in [format!("site = \"{site}\""), format!("{UNIT_ID} in {{{units}}}")] {
        let condition =
            Expr::parse_condition(&condition).map_err(|error| bad(error.to_string()))?;
        items.iter_mut().for_each(|item| item.requirements.add(condition.clone()));
    }
    Ok(())
}

/// A link as it is compared.
fn link_text(item: &Item) -> Option<String> {
    let Joins { ends: [from, to], latency, hops } = item.joins()?;
    Some(format!("{from}-{to} {latency:?} {hops:?}"))
}

/// The item of a link between the first so many items.
fn link_of(link: &LinkRequest, items: usize) -> Result<Item, ApiError> {
    let LinkRequest { ends, bandwidth, min_bandwidth, resource, hops, latency, condition } = link;
    if let Some(end) = ends.iter().find(|end| usize::from(**end) >= items) {
        let message = format!("a link ends at item {end}, and the demand has {items} items");
        return Err(ApiError::new(Code::Usage, message).help("items are numbered from 0"));
    }
    let joins = Joins { ends: *ends, latency: *latency, hops: *hops };
    Ok(Item {
        min_units: min_bandwidth.unwrap_or(*bandwidth),
        requirements: condition.iter().cloned().collect(),
        relation: Relation::Joins(joins),
        ..Item::new(resource.clone(), *bandwidth)
    })
}

/// The items of a request, its links last.
fn items_of(request: &LeaseRequest, profiles: &Profiles) -> Result<Vec<Item>, ApiError> {
    let mut items = items(&request.demand, profiles)?;
    let units = items.len();
    if request.apart {
        items.iter_mut().for_each(|item| item.relation = Relation::Apart(0));
    }
    for link in &request.links {
        items.push(link_of(link, units)?);
    }
    let accepts = Accepts { notice: request.notice, min_tenure: request.min_tenure };
    items.iter_mut().for_each(|item| item.accepts = accepts);
    name_units(&mut items, &request.only_units)?;
    Ok(items)
}

/// Converts a lease request into the core's command.
fn ask_of(app: &AppState, manager: &Name, request: LeaseRequest) -> Result<Ask, ApiError> {
    let broker = match &request.broker {
        Some(name) => Some(app.party(Role::Broker, name)?),
        None => {
            let brokers = app.config().service_managers.get(manager).map(|m| &m.brokers);
            brokers.and_then(|brokers| app.party(Role::Broker, brokers.first()?).ok())
        }
    };
    let bad = |message: String| ApiError::new(Code::Usage, message);
    if let Some((site, _)) = request.only_units.iter().find(|(site, _)| !app.knows(site)) {
        let message = format!("no site {site} is known");
        return Err(ApiError::new(Code::NoSuch, message).help("`tenure unit list` lists the units"));
    }
    request
        .configuration
        .check_bytes(MAX_CONFIGURATION)
        .map_err(|error| bad(format!("the configuration is too long: {error}")))?;
    let (start, last) = (request.start, request.latest.unwrap_or(request.start));
    let now = app.now();
    let (earliest, latest) = (start.on(now), last.on(now));
    if latest < earliest {
        return Err(bad(format!("the latest start, {last}, is before the earliest, {start}")));
    }
    if latest < now {
        return Err(bad(format!("the latest start, {last}, is over")));
    }
    let reply = match (request.plan, request.hold) {
        (false, None) => Reply::Grant,
        (true, None) => Reply::Plan,
        (false, Some(span)) => Reply::Hold(span),
        (true, Some(_)) => return Err(bad("a plan holds nothing: ask for one of them".to_owned())),
    };
    let retry_policy = RETRY_FOR.min(Span::from_micros(request.duration.as_micros() / 2));
    let provisos = provisos(app, &request, now)?;
    let items = items_of(&request, app.profiles())?;
    let mut properties: BTreeMap<Name, String> =
        request.properties.iter().map(|(key, text)| (key.clone(), text.to_owned())).collect();
    if let Some(id) = request.id {
        properties.insert(Name::literal(REQUEST_KEY), id);
        properties.insert(Name::literal(START), start.to_string());
        properties.insert(Name::literal(LATEST), last.to_string());
        if let Some(by) = request.redeem_by {
            properties.insert(Name::literal(REDEEM_BY), by.to_string());
        }
    }
    let handling = Handling {
        bundle: request.bundle,
        assemble: request.assemble.unwrap_or(ASSEMBLE),
        keep_tickets: request.keep_ticket,
        after: request.after,
    };
    Ok(Ask {
        broker,
        slice: request.slice,
        items,
        earliest,
        latest,
        duration: request.duration,
        min_duration: request.min_duration.unwrap_or(request.duration),
        provisos,
        again: None,
        reply,
        answer_by: latest.plus(retry_policy),
        properties: Properties::try_from(properties).map_err(|error| bad(error.to_string()))?,
        configuration: request.configuration,
        reason: request.reason,
        handling,
    })
}

/// Replaces a request that is open.
pub(super) async fn revise(
    app: &AppState,
    request: ReviseRequest,
    by: &Asker,
) -> Result<Vec<LeaseView>, ApiError> {
    let ReviseRequest { lease, mut wanted } = request;
    super::sense::lasts(wanted.duration)?;
    app.place(&mut wanted).await?;
    let manager = app.manager_of(&lease).await?;
    let ask = ask_of(app, &manager, wanted)?;
    let command = GuestCommand::Revise { number: lease.number, ask };
    app.command(&manager, (by, ""), command).await?;
    app.named(&lease).await
}

/// Asks, and answers the lease.
async fn make(app: &AppState, manager: &Name, ask: Ask, by: &Asker) -> Result<LeaseView, ApiError> {
    made(app, manager, GuestCommand::Ask(ask), by).await
}

async fn made(
    app: &AppState,
    manager: &Name,
    command: GuestCommand,
    by: &Asker,
) -> Result<LeaseView, ApiError> {
    let lease = app.command(manager, (by, ""), command).await?;
    let lease = lease.ok_or_else(|| ApiError::new(Code::Failed, "the request made no lease"))?;
    app.lease(manager, lease).await
}

/// What a request is for, each part of it by the name that users have for it. The reason is no part of it.
#[derive(Debug)]
struct Body {
    broker: Option<ActorId>,
    parts: Vec<(&'static str, String)>,
}

impl Body {
    fn of_ask(ask: &Ask) -> Self {
        let Ask { broker, slice, items, duration, min_duration, reply, .. } = ask;
        let how = (*duration, *min_duration, *reply, ask.handling.clone());
        let mut body = Self::of(*broker, slice, items, how, [&ask.properties, &ask.configuration]);
        body.keep(&ask.provisos);
        body
    }

    fn of_fact(fact: &Asked) -> Self {
        let Request { items, duration, min_duration, reply, properties, .. } = &fact.request;
        let properties = [properties, &fact.configuration];
        let how = (*duration, *min_duration, *reply, fact.handling.clone());
        let mut body = Self::of(Some(fact.broker), &fact.slice, items, how, properties);
        body.keep(&fact.request.provisos);
        body
    }

    fn of(
        broker: Option<ActorId>,
        slice: &Name,
        items: &[Item],
        (duration, min_duration, reply, handling): (Span, Span, Reply, Handling),
        [properties, configuration]: [&Properties; 2],
    ) -> Self {
        let parts = vec![
            ("demand", demand::text(items)),
            ("slice", slice.to_string()),
            ("duration", duration.to_string()),
            ("shortest duration", min_duration.to_string()),
            ("answer", answer(reply)),
            ("handling", handling_text(handling)),
            ("apart", list(items.iter().filter_map(|item| item.apart()).map(|n| n.to_string()))),
            ("links", list(items.iter().filter_map(link_text))),
            ("redeem by", properties.get(REDEEM_BY).unwrap_or_default().to_owned()),
            ("start", properties.get(START).unwrap_or("now").to_owned()),
            ("latest", properties.get(LATEST).unwrap_or("now").to_owned()),
            ("configuration", list(configuration.iter().map(|(k, v)| format!("{k}={v}")))),
        ];
        Self { broker, parts }
    }

    /// Adds the conditions on how it is met. The instant by which to redeem is named by its words.
    fn keep(&mut self, provisos: &Provisos) {
        let sites = list(provisos.not_at.iter().map(ToString::to_string));
        self.parts.push(("excluded sites", sites));
        let units = list(provisos.not_on.iter().map(|(site, unit)| format!("{site}/{unit}")));
        self.parts.push(("excluded units", units));
    }

    /// What is different now, in words. The broker counts only if it is named.
    fn differences(&self, now: &Self, broker: bool, name: impl Fn(ActorId) -> String) -> String {
        let changed = |what: &str, (was, is): (&str, &str)| {
            let describe =
                |text: &str| if text.is_empty() { "none".to_owned() } else { format!("`{text}`") };
            format!("{what} was {} and is now {}", describe(was), describe(is))
        };
        let parts = self.parts.iter().zip(&now.parts);
        let differ = parts.filter(|(was, is)| was != is);
        let mut differences: Vec<String> =
            differ.map(|((what, was), (_, is))| changed(what, (was, is))).collect();
        if broker && self.broker != now.broker {
            let [was, is] = [self.broker, now.broker].map(|id| id.map(&name).unwrap_or_default());
            differences.push(changed("broker", (&was, &is)));
        }
        differences.join("; ")
    }
}

/// The answer that is asked for, in words.
fn answer(reply: Reply) -> String {
    match reply {
        Reply::Grant => "a lease".to_owned(),
        Reply::Plan => "a plan".to_owned(),
        Reply::Hold(span) => format!("offers held for {span}"),
    }
}

/// How leases are handled, in the words of the command.
fn handling_text(handling: Handling) -> String {
    let Handling { bundle, assemble, keep_tickets, after } = handling;
    let words = [
        bundle.then(|| "bundle".to_owned()),
        (assemble != ASSEMBLE).then(|| format!("assemble {assemble}")),
        keep_tickets.then(|| "keep-ticket".to_owned()),
    ];
    list(words.into_iter().flatten().chain(after.iter().map(after_text)))
}

/// `1:join-after item0`
fn after_text(After { item, on, gate }: &After) -> String {
    let item = item.map_or_else(String::new, |item| format!("{item}:"));
    let on = match on {
        On::Request(number) => number.to_string(),
        On::Item(item) => format!("item{item}"),
        On::Mapper => "mapper".to_owned(),
    };
    format!("{item}{}-after {on}", gate.word())
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

/// The items of a demand in the words of its user, who may name profiles of this process.
pub(super) fn items(source: &str, profiles: &Profiles) -> Result<Vec<Item>, ApiError> {
    let bad = |message| ApiError::new(Code::Usage, message);
    let read = Demand::parse(source).map_err(|error| {
        bad(format!("the demand cannot be read: {error}"))
            .help("write, for example, `4..8 node where 'cpus >= 8'`")
    })?;
    demand::items(&read, profiles).map_err(bad)
}

/// The newest request under an id, as the journal has it.
struct Made {
    number: u64,
    body: Body,
    /// As [`may_be_met_later`], for a request that is remembered by the journal alone.
    refused_for_now: bool,
}

impl Made {
    /// Looks an id up in the journal of a service manager, however long that is.
    async fn under(app: &AppState, manager: &Name, id: &str) -> Result<Option<Self>, ApiError> {
        let key = id.to_owned();
        let read = move |path: &Path| Reader::open(path)?.request(&key);
        let facts = app.read_journal(manager, read).await?;
        Ok(Self::of(&facts, app.config().margin.times(2)))
    }

    fn of(facts: &[Entry], two_margins: Span) -> Option<Self> {
        let (first, rest) = facts.split_first()?;
        let Fact::ServiceManager(F::Asked(asked)) = &first.fact else { return None };
        let too_late = asked.request.last_end().minus(two_margins);
        Some(Self {
            number: asked.request.id.number,
            body: Body::of_fact(asked),
            refused_for_now: rest.iter().any(|entry| is_refusal_for_now(entry, too_late)),
        })
    }
}

/// Whether a request came to nothing by this fact, but another try may come to something.
fn is_refusal_for_now(Entry { at, fact }: &Entry, too_late: Time) -> bool {
    let Fact::ServiceManager(fact) = fact else { return false };
    let refusal = if let F::AskRefused(fact) = fact {
        Some(&fact.refusal)
    } else if let F::RedeemRefused(fact) = fact {
        Some(&fact.refusal)
    } else if let F::SiteClosed(fact) = fact {
        fact.refusal.as_ref()
    } else {
        return matches!(fact, F::GaveUp(_)) && too_late <= *at;
    };
    refusal.is_some_and(|refusal| refusal.outlook() == Outlook::Later)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demand_that_cannot_be_asked_for_is_wrong_usage() {
        let none = Profiles::new();
        assert_eq!(items("2..4 node where 'speed = 3', 1 gpu", &none).unwrap().len(), 2);
        for (demand, why) in [
            ("4 node where 'speed ='", "found the end (column 22)"),
            ("4 node where 'speed = 3", "expected `'`"),
            ("4 Node", "`Node` is not a type"),
            ("4 node where '3'", "not a condition"),
        ] {
            let error = items(demand, &none).unwrap_err();
            assert!(error.message.contains(why), "{demand}: {}", error.message);
            assert_eq!(error.code, Code::Usage);
        }
    }
}
