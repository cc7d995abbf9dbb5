//! `tenure lease`.

use std::collections::BTreeMap;
use std::time::Instant;

use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::time::Span;
use tenure_core::service_manager::sequence::{After, Gate};
use tenure_node::api::client::{Client, ClientError};
use tenure_node::api::moment::Moment;
use tenure_node::api::{
    LeaseName, LeaseRequest, LeaseUnitView, LeaseView, More, Request, ReviseRequest,
    UnreachableView, WantedLeases,
};

use super::actors::{with_probe, with_quantity};
use super::args::{
    Change, Endpoint, LeaseCommand, OnTimeout, Output, RequestArgs, ReviseArgs, UnitsBy, WaitArgs,
};
use super::demand::{demand, demand_or_again};
use super::experiment::{self, Wanted};
use super::interrupt::Interrupt;
use super::{
    ask, ask_change, connect, connect_to, duration, offer, print, print_changes, recall, roughly,
    why,
};
use crate::Console;
use crate::error::Error;
use crate::{render, text};

/// `tenure lease ...`
pub(crate) fn lease(command: &LeaseCommand, console: &mut Console<'_>) -> Result<(), Error> {
    match command {
        LeaseCommand::Request(args) => request(args, console),
        LeaseCommand::Revise(args) => revise(args, console),
        LeaseCommand::Accept { endpoint, lease, offer, wait } => {
            offer::accept(endpoint, lease, *offer, *wait, console)
        }
        LeaseCommand::Release { endpoint, lease } => {
            offer::withdraw(endpoint, lease, true, console)
        }
        LeaseCommand::Withdraw { endpoint, lease } => {
            offer::withdraw(endpoint, lease, false, console)
        }
        LeaseCommand::List { endpoint, all, slice, manager, after, limit } => {
            let (manager, slice) = (manager.clone(), slice.clone());
            let (after, limit) = (after.clone(), Some(*limit));
            page(endpoint, WantedLeases { manager, slice, all: *all, after, limit }, console)
        }
        LeaseCommand::Show { endpoint, lease } => show(endpoint, lease, console),
        LeaseCommand::Extend { endpoint, lease, duration, units, victims, wait } => {
            let (lease, duration) = (lease.clone(), *duration);
            let (units, victims) = (*units, victims.choice());
            extend(endpoint, &Request::Extend { lease, duration, units, victims }, *wait, console)
        }
        LeaseCommand::Flex { endpoint, lease, units, condition, until, victims, wait } => {
            let request = match (units, until) {
                (Some(UnitsBy::More(units)), _) => {
                    let (lease, condition) = (lease.clone(), condition.clone());
                    let grow = Request::Grow { lease, units: *units, condition };
                    return begin(endpoint, &grow, *wait, console);
                }
                (Some(UnitsBy::Fewer(shrink)), _) => {
                    let (lease, shrink) = (lease.clone(), *shrink);
                    Request::Flex { lease, shrink, victims: victims.choice(), force: false }
                }
                (None, Some(until)) => Request::Shorten { lease: lease.clone(), until: *until },
                (None, None) => return Err(Error::Wrong("say what goes back".to_owned())),
            };
            flex(endpoint, lease, &request, *wait, console)
        }
        LeaseCommand::Modify { endpoint, lease, properties, wait } => {
            modify(endpoint, lease, properties, *wait, console)
        }
        LeaseCommand::Victims { endpoint, lease, units } => {
            let request = Request::Victims { lease: lease.clone(), units: units.clone() };
            let leases: Vec<LeaseView> = ask_change(endpoint, &request)?;
            list(&leases, endpoint.output, console)
        }
        LeaseCommand::Redeem { endpoint, lease, wait } => {
            begin(endpoint, &Request::Redeem { lease: lease.clone() }, *wait, console)
        }
        LeaseCommand::Close { endpoint, lease, by, force, wait } => {
            close(endpoint, (lease, *by, *force), *wait, console)
        }
        LeaseCommand::Watch { endpoint, lease } => watch(endpoint, lease.clone(), console),
        LeaseCommand::Why { endpoint, lease } => why::why(endpoint, lease, console),
    }
}

/// Lists leases, and says what follows.
fn page(endpoint: &Endpoint, wanted: WantedLeases, console: &mut Console<'_>) -> Result<(), Error> {
    let mut client = connect(&endpoint.data)?;
    let leases: Vec<LeaseView> = client.ask(&Request::Leases(wanted))?;
    list(&leases, endpoint.output, console)?;
    let Some(More { left, after }) = client.more() else { return Ok(()) };
    let message = format!(
        "{left} more leases follow: add `--after {after}` for the next, or list fewer with `--slice` or `--as`"
    );
    Ok(render::warning(&message, console)?)
}

fn request(args: &RequestArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let configuration: BTreeMap<_, _> = args.property.iter().cloned().collect();
    let configuration =
        Properties::try_from(configuration).map_err(|error| Error::Wrong(error.to_string()))?;
    let wanted = wanted(args)?;
    let request = LeaseRequest {
        manager: asker(args)?,
        broker: args.broker.clone(),
        id: args.id.clone(),
        slice: args.slice.clone(),
        demand: wanted.demand,
        duration: wanted.duration.longest,
        min_duration: Some(wanted.duration.shortest),
        plan: args.plan,
        hold: args.hold.or(wanted.hold),
        brokers: wanted.brokers,
        tries: wanted.tries,
        start: wanted.start,
        latest: wanted.latest,
        configuration,
        bundle: args.bundle,
        assemble: args.assemble,
        keep_ticket: args.keep_ticket,
        notice: args.notice,
        min_tenure: args.min_tenure,
        reason: args.reason.clone(),
        redeem_by: args.redeem_by,
        not_sites: args.not_site.iter().cloned().collect(),
        not_units: args.exclude.iter().cloned().collect(),
        only_units: args.units.iter().cloned().collect(),
        with: args.with.clone(),
        again: args.again.clone(),
        apart: wanted.apart,
        after: after(args),
        links: wanted.links,
        properties: wanted.properties,
    };
    let mut client = connect(&args.endpoint.data)?;
    // A plan and a hold are there to be looked at.
    let wait = WaitArgs { wait: args.wait.wait || args.plan || args.hold.is_some(), ..args.wait };
    let interrupt = Interrupt::watch(&client, wait.wait)?;
    let asked = client.ask(&Request::Ask(Box::new(request)));
    let view: LeaseView = asked.map_err(|error| interrupt.or(error, None))?;
    if !wait.wait {
        return list(&[view], args.endpoint.output, console);
    }
    follow((client, interrupt), &view, wait, args.endpoint.output, console)
}

/// What a request asks for, by its arguments or by a file.
fn wanted(args: &RequestArgs) -> Result<Wanted, Error> {
    if let Some(file) = &args.file {
        return experiment::read(file);
    }
    let Some(duration) = args.duration else {
        return Err(Error::Wrong("say how long: `--for 1h`".to_owned()));
    };
    Ok(Wanted {
        demand: demand_or_again(&args.demand, args.condition.as_deref(), args.again.as_ref())?,
        duration,
        start: args.at,
        latest: args.by,
        apart: args.apart,
        links: Vec::new(),
        properties: Properties::default(),
        brokers: Vec::new(),
        hold: None,
        tries: None,
    })
}

/// What the leases of a request wait for.
fn after(args: &RequestArgs) -> Vec<After> {
    let gates = [(Gate::Redeem, &args.redeem_after), (Gate::Join, &args.join_after)];
    let after = gates.into_iter().flat_map(|(gate, all)| all.iter().map(move |on| (gate, on)));
    after.map(|(gate, wait)| After { item: wait.item, on: wait.on, gate }).collect()
}

/// Who makes a request: whoever made those that it waits for.
fn asker(args: &RequestArgs) -> Result<Option<Name>, Error> {
    let mut asker = args.manager.clone();
    let waits = args.redeem_after.iter().chain(&args.join_after);
    for manager in waits.filter_map(|wait| wait.manager.as_ref()) {
        match &asker {
            Some(other) if other != manager => {
                let what = format!("{other} cannot wait for a request of {manager}");
                return Err(Error::Wrong(what));
            }
            Some(_) | None => asker = Some(manager.clone()),
        }
    }
    Ok(asker)
}

/// Replaces a request that is open.
fn revise(args: &ReviseArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let demand = demand(&args.demand, args.condition.as_deref())?.to_string();
    let wanted = LeaseRequest {
        min_duration: Some(args.duration.shortest),
        start: args.at,
        latest: args.by,
        reason: args.reason.clone(),
        redeem_by: args.redeem_by,
        not_sites: args.not_site.iter().cloned().collect(),
        not_units: args.exclude.iter().cloned().collect(),
        only_units: args.units.iter().cloned().collect(),
        apart: args.apart,
        notice: args.notice,
        min_tenure: args.min_tenure,
        ..LeaseRequest::new(Name::literal("main"), demand, args.duration.longest)
    };
    let revised = ReviseRequest { lease: args.lease.clone(), wanted };
    let leases: Vec<LeaseView> = ask_change(&args.change, &Request::Revise(Box::new(revised)))?;
    list(&leases, args.change.output, console)
}

/// Waits for what becomes of a request, and prints it.
pub(super) fn follow(
    (mut client, interrupt): (Client, Interrupt),
    view: &LeaseView,
    WaitArgs { timeout, on_timeout, .. }: WaitArgs,
    output: Output,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let request = LeaseName { part: None, ..name_of(view)? };
    let settled = until(&mut client, &request, timeout, is_settled);
    if let (Err(Error::TimedOut { .. }), OnTimeout::Withdraw) = (&settled, on_timeout) {
        let withdraw = Request::Withdraw { lease: request.clone() };
        let withdrawn: Result<Vec<LeaseView>, _> =
            Client::connect(client.path()).and_then(|mut client| client.ask(&withdraw));
        return Err(match withdrawn {
            Ok(_) => Error::WithdrawnInTime { lease: request, after: timeout },
            // What was granted meanwhile stays.
            Err(_) => Error::TimedOut { lease: request, after: timeout },
        });
    }
    let leases = settled.map_err(|error| interrupt.or(error, Some(&request)))?;
    list(&leases, output, console)?;
    offer::show_all(&leases, output, console)?;
    match leases.iter().find(|lease| lease.state == "closed") {
        Some(refused) => Err(Error::NotGranted(Box::new(refused.clone()))),
        None => Ok(()),
    }
}

fn extend(
    endpoint: &Change,
    request: &Request,
    WaitArgs { wait, timeout, .. }: WaitArgs,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let mut client = connect_to(endpoint)?;
    let asked: Vec<LeaseView> = client.ask(request)?;
    let Request::Extend { lease, .. } = request else { return Ok(()) };
    if !wait {
        return list(&asked, endpoint.output, console);
    }
    let interrupt = Interrupt::watch(&client, wait)?;
    let leases = until(&mut client, lease, timeout, |lease| lease.extension.is_none())
        .map_err(|error| interrupt.or(error, Some(lease)))?;
    list(&leases, endpoint.output, console)?;
    let same = |now: &&LeaseView| {
        asked
            .iter()
            .any(|was| was.extension.is_some() && (&was.lease, &was.end) == (&now.lease, &now.end))
    };
    match leases.iter().find(same) {
        Some(refused) => Err(Error::NotExtended(refused.lease.clone())),
        None => Ok(()),
    }
}

/// Gives a part of a lease back.
fn flex(
    endpoint: &Change,
    lease: &LeaseName,
    request: &Request,
    WaitArgs { wait, timeout, .. }: WaitArgs,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let mut client = connect_to(endpoint)?;
    let asked: Vec<LeaseView> = client.ask(request)?;
    if !wait {
        return list(&asked, endpoint.output, console);
    }
    let interrupt = Interrupt::watch(&client, wait)?;
    let leases = until(&mut client, lease, timeout, |lease| lease.returning.is_none())
        .map_err(|error| interrupt.or(error, Some(lease)))?;
    list(&leases, endpoint.output, console)?;
    let same = |now: &&LeaseView| {
        let as_now = |was: &&LeaseView| (was.units, &was.end) == (now.units, &now.end);
        asked.iter().find(|was| was.lease == now.lease).filter(as_now).is_some()
    };
    match leases.iter().find(same) {
        Some(refused) => Err(Error::NotFlexed(refused.lease.clone())),
        None => Ok(()),
    }
}

/// Changes properties of a lease's configuration.
fn modify(
    endpoint: &Change,
    lease: &LeaseName,
    properties: &[(Name, String)],
    WaitArgs { wait, timeout, .. }: WaitArgs,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let changes: BTreeMap<_, _> = properties.iter().cloned().collect();
    let configuration =
        Properties::try_from(changes).map_err(|error| Error::Wrong(error.to_string()))?;
    let request = Request::Modify { lease: lease.clone(), configuration };
    let asked: Vec<LeaseView> = ask_change(endpoint, &request)?;
    if !wait {
        return list(&asked, endpoint.output, console);
    }
    let mut client = connect(&endpoint.data)?;
    let interrupt = Interrupt::watch(&client, wait)?;
    let leases = until(&mut client, lease, timeout, |lease| lease.returning.is_none())
        .map_err(|error| interrupt.or(error, Some(lease)))?;
    list(&leases, endpoint.output, console)?;
    let has = |now: &LeaseView, (key, value): &(Name, String)| {
        now.configuration.get(key.as_str()) == Some(value)
    };
    match leases.iter().find(|now| !properties.iter().all(|pair| has(now, pair))) {
        Some(refused) => Err(Error::NotModified(refused.lease.clone())),
        None => Ok(()),
    }
}

/// Has something done that begins leases; with `--wait`, until the last of them has its units.
fn begin(
    endpoint: &Change,
    request: &Request,
    wait: WaitArgs,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let views: Vec<LeaseView> = ask_change(endpoint, request)?;
    settle(endpoint, views, wait, console)
}

/// Prints leases that have begun; with `--wait`, when the last of them has its units.
pub(super) fn settle(
    endpoint: &Endpoint,
    mut views: Vec<LeaseView>,
    WaitArgs { wait, timeout, .. }: WaitArgs,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let last = views.last().map(name_of).transpose()?;
    if let Some(name) = last.filter(|_| wait) {
        let mut client = connect(&endpoint.data)?;
        let interrupt = Interrupt::watch(&client, wait)?;
        let settled = until(&mut client, &name, timeout, is_settled);
        let settled = settled.map_err(|error| interrupt.or(error, Some(&name)))?;
        let known = |view: &LeaseView| settled.iter().any(|now| now.lease == view.lease);
        views.retain(|view| !known(view));
        views.extend(settled);
    }
    list(&views, endpoint.output, console)?;
    match views.iter().find(|lease| wait && lease.state == "closed") {
        Some(refused) => Err(Error::NotGranted(Box::new(refused.clone()))),
        None => Ok(()),
    }
}

/// Closes a lease; one that has already ended is left as it is.
fn close(
    endpoint: &Change,
    (lease, by, force): (&LeaseName, Option<Moment>, bool),
    WaitArgs { wait, timeout, .. }: WaitArgs,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let mut client = connect_to(endpoint)?;
    let request = Request::Close { lease: lease.clone(), by, force };
    let mut leases: Vec<LeaseView> = client.ask(&request)?;
    let settled = |lease: &LeaseView| is_given_back(lease) || lease.stays.is_some();
    if wait && !leases.iter().all(settled) {
        let interrupt = Interrupt::watch(&client, wait)?;
        leases = until(&mut client, lease, timeout, settled)
            .map_err(|error| interrupt.or(error, Some(lease)))?;
    }
    list(&leases, endpoint.output, console)?;
    match leases.into_iter().find(|lease| wait && lease.stays.is_some()) {
        Some(stays) => Err(Error::Stays(Box::new(stays))),
        None => Ok(()),
    }
}

pub(super) fn name_of(view: &LeaseView) -> Result<LeaseName, Error> {
    view.lease.parse().map_err(|_| Error::Wrong(format!("`{}` names no lease", view.lease)))
}

/// Whether its request has an outcome: its units are in use, or it has ended. What is on its way back
/// will be over.
pub(super) fn is_settled(lease: &LeaseView) -> bool {
    let of_several = lease.attempt.as_ref();
    match lease.state.as_str() {
        "active" | "given-back" | "planned" => true,
        // It waits for other brokers.
        "offered" | "ticketed" => of_several.is_none_or(|attempt| attempt.state == "whole"),
        "closed" => of_several.is_none_or(|attempt| !attempt.again),
        _ => false,
    }
}

fn is_over(lease: &LeaseView) -> bool {
    lease.state == "closed"
}

/// Whether nothing of it is left to give back; parts of its ticket may be with others.
pub(super) fn is_given_back(lease: &LeaseView) -> bool {
    is_over(lease) || lease.state == "given-back"
}

/// Follows the leases of a name until all of them are as they are wanted.
pub(super) fn until(
    client: &mut Client,
    lease: &LeaseName,
    timeout: Span,
    wanted: fn(&LeaseView) -> bool,
) -> Result<Vec<LeaseView>, Error> {
    let began = Instant::now();
    let mut leases = BTreeMap::new();
    let left = || Some(duration(timeout).saturating_sub(began.elapsed()));
    let mut next = client.ask_within(&Request::Watch { lease: Some(lease.clone()) }, left());
    loop {
        if let Err(ClientError::TimedOut(_)) = next {
            return Err(Error::TimedOut { lease: lease.clone(), after: timeout });
        }
        let view: LeaseView = next?;
        // Of what goes to several brokers, the last attempt counts.
        let group = |view: &LeaseView| view.attempt.as_ref().map(|attempt| attempt.group);
        leases.retain(|_, other: &mut LeaseView| group(other) == group(&view));
        leases.insert(view.lease.clone(), view);
        if leases.values().all(wanted) {
            // Several tickets become several leases, and each is printed by itself.
            let all: Vec<LeaseView> =
                Client::connect(client.path())?.ask(&Request::Lease { lease: lease.clone() })?;
            if all.iter().all(wanted) {
                return Ok(all);
            }
        }
        next = client.next(left());
    }
}

fn show(endpoint: &Endpoint, lease: &LeaseName, console: &mut Console<'_>) -> Result<(), Error> {
    let leases: Vec<LeaseView> = ask(&endpoint.data, &Request::Lease { lease: lease.clone() })?;
    if endpoint.output != Output::Table {
        return list(&leases, endpoint.output, console);
    }
    for (nth, lease) in leases.iter().enumerate() {
        if nth > 0 {
            writeln!(console.out)?;
        }
        for (key, value) in facts(lease) {
            text::line(console.out, format_args!("{key:<10} {value}"))?;
        }
        offer::show(lease, console)?;
        if !lease.in_hand.is_empty() {
            writeln!(console.out, "\n{}", print::table(&lease.in_hand, console.width))?;
        }
    }
    Ok(())
}

/// What is shown of one lease.
fn facts(lease: &LeaseView) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("lease", lease.lease.clone()),
        ("slice", lease.slice.clone()),
        ("state", state(lease)),
        ("units", format!("{} {}", lease.units, lease.resource)),
        ("site", site(lease)),
        ("from", lease.start.clone()),
        ("until", format!("{} ({})", lease.end, left(lease))),
    ];
    if let Some(attempt) = &lease.attempt {
        let (number, of, state) = (attempt.number, attempt.of, &attempt.state);
        facts.push(("broker", attempt.broker.clone()));
        facts.push(("attempt", format!("{number} of {of}, {state}")));
        facts.extend(attempt.failed.iter().map(|why| ("failed", why.clone())));
        facts.extend(attempt.refusal.iter().map(|refusal| ("because", refusal.in_words())));
    }
    if let Some(cost) = &lease.cost {
        facts.push(("cost", cost.clone()));
    }
    if let Some(assurance) = &lease.assurance {
        facts.push(("assurance", assurance.clone()));
    }
    if let Some(refusal) = &lease.refusal {
        facts.push(("refusal", refusal.in_words()));
    }
    facts.extend(recall::told(lease).map(|told| ("recall", told)));
    facts.extend(recall::choice(lease).map(|choice| ("to choose", choice)));
    for ticket in &lease.tickets {
        facts.push(("ticket", ticket.clone()));
    }
    facts
}

/// The site, and since when it cannot be reached.
fn site(lease: &LeaseView) -> String {
    let site = print::or_dash(lease.site.as_ref());
    match &lease.site_unreachable {
        Some(unreachable) => format!("{site}, {}: {}", since(unreachable), unreachable.error),
        None => site,
    }
}

/// Since when a site cannot be reached.
fn since(UnreachableView { since, .. }: &UnreachableView) -> String {
    match since {
        Some(since) => format!("unreachable since {since}"),
        None => "unreachable so far".to_owned(),
    }
}

/// The state with what is under way or how it went.
pub(super) fn state(lease: &LeaseView) -> String {
    match (&lease.outcome, &lease.extension, &lease.returning) {
        (Some(outcome), _, _) => format!("{} ({outcome})", lease.state),
        (None, Some(extension), _) => format!("{} (extension: {extension})", lease.state),
        (None, None, Some(modifying)) if modifying == "modifying" => {
            format!("{} (modifying)", lease.state)
        }
        (None, None, Some(returning)) => format!("{} (a part: {returning})", lease.state),
        (None, None, None) => lease.state.clone(),
    }
}

fn left(lease: &LeaseView) -> String {
    if lease.left_s < 0.0 {
        format!("{} ago", roughly(-lease.left_s))
    } else {
        format!("{} left", roughly(lease.left_s))
    }
}

pub(super) fn list(
    leases: &[LeaseView],
    output: Output,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let empty = "no leases; ask for one: tenure lease request 2 --for 10m --wait";
    print::rows(leases, output, empty, console)
}

fn watch(
    endpoint: &Endpoint,
    lease: Option<LeaseName>,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    print_changes(endpoint, &Request::Watch { lease }, change, console)
}

/// A lease as it is now, in a line.
fn change(view: &LeaseView) -> String {
    let refusal = view.refusal.as_ref().map(|refusal| format!(": {}", refusal.in_words()));
    let (state, left) = (state(view), left(view));
    let LeaseView { lease, units, resource, site, .. } = view;
    let site = site.as_deref().unwrap_or("-");
    let refusal = refusal.unwrap_or_default();
    let told = recall::told(view).map_or_else(String::new, |told| format!("; {told}"));
    format!("{lease:<12} {state:<28} {units:>3} {resource} at {site}, {left}{refusal}{told}")
}

impl print::Row for LeaseView {
    const COLUMNS: &'static [&'static str] =
        &["lease", "slice", "state", "units", "type", "site", "left", "why"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.lease.clone(),
            self.slice.clone(),
            state(self),
            self.units.to_string(),
            self.resource.clone(),
            print::or_dash(self.site.as_ref()),
            if is_over(self) { "-".to_owned() } else { roughly(self.left_s) },
            match &self.refusal {
                Some(refusal) => refusal.code.clone(),
                None => faults(self),
            },
        ]
    }
}

/// What is not as it should be: its site, or how many of its units; how many go by a recall.
fn faults(lease: &LeaseView) -> String {
    let down = |unit: &&LeaseUnitView| unit.probe.as_ref().is_some_and(|it| it.state == "down");
    let down = lease.in_hand.iter().filter(down).count();
    let counts = [(unusable(lease), "unusable"), (down, "down")];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts = counts.map(|(count, word)| format!("{count} {word}"));
    let unreachable = lease.site_unreachable.iter().map(|it| format!("site {}", since(it)));
    let recalled = lease.recalled.as_ref().map(|told| format!("recalled to {}", told.units));
    let waits = lease.waits_for.iter();
    let waits = waits.map(|wait| format!("to {} after {}", wait.gate, wait.in_words()));
    unreachable.chain(counts).chain(recalled).chain(waits).collect::<Vec<_>>().join(", ")
}

/// How many of its units the guest could not join.
pub(super) fn unusable(lease: &LeaseView) -> usize {
    lease.in_hand.iter().filter(|unit| unit.usage == "unusable").count()
}

impl print::Row for LeaseUnitView {
    const COLUMNS: &'static [&'static str] = &["unit", "epoch", "use", "properties"];

    fn cells(&self) -> Vec<String> {
        let properties = self.properties.iter().map(|(key, value)| format!("{key}={value}"));
        let properties = properties.collect::<Vec<_>>().join(" ");
        let usage = with_probe(&self.usage, self.probe.as_ref());
        vec![with_quantity(&self.unit, self.quantity), self.epoch.to_string(), usage, properties]
    }
}
