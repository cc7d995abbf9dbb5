//! `tenure ticket`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use tenure_core::model::identity::{ActorId, PublicKey, Scheme};
use tenure_core::model::keys::{KeyBook, KeyChain};
use tenure_core::model::time::Time;
use tenure_core::model::verifier::Verifier;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::evidence::Evidence;
use tenure_core::ticket::link::SignedLink;
use tenure_core::ticket::receipt::Receipt;
use tenure_node::api::{HeldTicketView, KeysView, LinkView, Request, StatusView, TicketView};
use tenure_node::clock::{Clock as _, WallClock};

use super::args::{Endpoint, Output, TicketCommand, VerifyArgs};
use super::{ask, print, proof, recall, roughly, split};
use crate::error::Error;
use crate::text::line;
use crate::{Console, moment};

/// `tenure ticket ...`
pub(crate) fn ticket(command: &TicketCommand, console: &mut Console<'_>) -> Result<(), Error> {
    match command {
        TicketCommand::Show { endpoint, hash } => show(endpoint, hash, console),
        TicketCommand::Verify(args) => verify(args, console),
        TicketCommand::List { endpoint, manager } => {
            let held = Request::Tickets { manager: manager.clone() };
            let held: Vec<HeldTicketView> = ask(&endpoint.data, &held)?;
            let empty =
                "no tickets are kept; ask for one: tenure lease request 4 --for 8h --keep-ticket";
            print::rows(&held, endpoint.output, empty, console)
        }
        TicketCommand::Split(args) => split::split(args, console),
        TicketCommand::Redeem(args) => split::redeem(args, console),
        TicketCommand::Recall(args) => recall::recall(args, console),
    }
}

fn show(endpoint: &Endpoint, hash: &str, console: &mut Console<'_>) -> Result<(), Error> {
    let ticket: TicketView = ask(&endpoint.data, &Request::Ticket { hash: hash.to_owned() })?;
    if endpoint.output == Output::Table {
        line(console.out, format_args!("ticket {}", ticket.ticket))?;
        if let Some(lease) = &ticket.lease {
            line(console.out, format_args!("lease  {lease}"))?;
        }
        writeln!(console.out)?;
    }
    print::one(&ticket, &ticket.links, endpoint.output, "no links", console)
}

fn verify(args: &VerifyArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let mut known = Known::ask(&args.endpoint);
    for path in &args.keys {
        proof::keys(path)?.into_iter().for_each(|chain| known.learn(chain));
    }
    match (&args.evidence, &args.file) {
        (Some(path), _) => {
            let evidence = proof::evidence(path)?;
            let receipts = args.receipts.iter().map(|path| proof::receipts(path));
            let receipts = receipts.collect::<Result<Vec<_>, _>>()?.concat();
            check_evidence(&evidence, &receipts, &known, args.endpoint.output, console)
        }
        (None, Some(path)) => {
            let (ticket, stated) = proof::ticket(path)?;
            check(&ticket, &stated, &known, args, console)
        }
        (None, None) => Err(Error::Wrong("no ticket and no evidence is named".to_owned())),
    }
}

/// What a running deployment says; nothing where none runs.
#[derive(Default)]
struct Known {
    names: BTreeMap<String, String>,
    /// The ids of its sites.
    sites: Vec<String>,
    now: Option<Time>,
    /// What actors have stated about their keys.
    keys: KeyBook,
}

impl Known {
    /// An actor has stated this about its keys.
    fn learn(&mut self, chain: KeyChain) {
        if let Some(actor) = chain.actor() {
            self.keys.learn(actor, chain);
        }
    }

    /// Checks signatures by what is known of keys.
    fn verifier(&self) -> Verifier {
        let mut verifier = Verifier::new(Scheme::Ed25519);
        *verifier.keys_mut() = self.keys.clone();
        verifier
    }

    fn ask(endpoint: &Endpoint) -> Self {
        let status: Result<StatusView, Error> = ask(&endpoint.data, &Request::Status);
        let Ok(status) = status else { return Self::default() };
        let sites = status.actors.iter().filter(|actor| actor.role == "site-authority");
        let keys: Result<Vec<KeysView>, Error> =
            ask(&endpoint.data, &Request::Keys { actor: None });
        let mut known = Self {
            sites: sites.map(|site| site.id.clone()).collect(),
            names: status.actors.iter().map(|a| (a.id.clone(), a.name.clone())).collect(),
            now: moment::parse(&status.now).ok(),
            keys: KeyBook::default(),
        };
        let chains = keys.unwrap_or_default();
        chains.iter().flat_map(proof::chain_of).for_each(|chain| known.learn(chain));
        known
    }

    fn has_name(&self, name: &str) -> bool {
        self.names.values().any(|known| known == name)
    }

    fn name(&self, id: ActorId) -> String {
        self.names.get(&id.to_hex()).cloned().unwrap_or_else(|| id.to_string())
    }

    /// The ids of the sites that are meant, if that is known.
    fn sites_meant(&self, site: Option<&str>) -> Result<Option<Vec<String>>, Error> {
        let Some(site) = site else {
            return Ok(Some(self.sites.clone()).filter(|sites| !sites.is_empty()));
        };
        if let Some((id, _)) =
            self.names.iter().find(|(id, name)| *name == site && self.sites.contains(id))
        {
            return Ok(Some(vec![id.clone()]));
        }
        let key = serde_json::from_value::<PublicKey>(site.to_lowercase().into());
        let Ok(key) = key else {
            return Err(Error::Wrong(format!(
                "`{site}` is neither a site that runs here nor a key or an id of 64 digits"
            )));
        };
        Ok(Some(vec![site.to_lowercase(), ActorId::of(&key).to_hex()]))
    }
}

/// What was found of a ticket.
#[derive(Serialize)]
struct TicketVerdict {
    ticket: String,
    holds: bool,
    /// The site that it is good at, and whether that is an expected one; unknown if none is named.
    site: String,
    site_name: String,
    site_is_meant: Option<bool>,
    /// The moment that its term was held against, and how it is then: to-come, running, over.
    at: String,
    term: String,
    links: Vec<LinkVerdict>,
    faults: Vec<String>,
    /// What the file says that neither its signed bytes nor a deployment confirms.
    unchecked: Vec<String>,
}

/// What was found of a link.
#[derive(Serialize)]
struct LinkVerdict {
    link: usize,
    #[serde(flatten)]
    what: LinkView,
    /// `holds`, or what does not.
    verdict: String,
}

impl print::Row for LinkVerdict {
    const COLUMNS: &'static [&'static str] =
        &["link", "from", "to", "units", "type", "start", "end", "verdict"];

    fn cells(&self) -> Vec<String> {
        let LinkView { issuer, holder, units, resource, start, end, .. } = &self.what;
        let (link, units) = (self.link.to_string(), units.to_string());
        let words = [issuer, holder, &units, resource, start, end, &self.verdict];
        [&link].into_iter().chain(words).cloned().collect()
    }
}

fn link_view(link: &SignedLink, known: &Known) -> LinkView {
    LinkView::of(link, |id| known.name(id), &mut known.verifier())
}

/// The fields of a file that must say of a link what its signed bytes say; anyone who reads the file believes
/// them. Names of actors are not signed, and can be held against those of a running deployment only.
const STATED: [&str; 7] = ["hash", "resource", "units", "start", "end", "constraints", "signed"];

/// What a file says falsely of a link, and which names in it nothing confirms.
fn lies(
    stated: &serde_json::Map<String, Value>,
    link: &SignedLink,
    known: &Known,
) -> (Vec<String>, Vec<String>) {
    let signed = serde_json::to_value(link_view(link, known)).unwrap_or_default();
    let lie = |key: &str| {
        let (says, is) = (stated.get(key)?, signed.get(key)?);
        (says != is).then(|| format!("the file says `{key}` {says}, its signed bytes {is}"))
    };
    let (mut lies, mut unchecked): (Vec<String>, Vec<String>) =
        (STATED.into_iter().filter_map(lie).collect(), Vec::new());
    for (key, id) in [("issuer", link.issuer), ("holder", link.holder)] {
        let says = stated.get(key).and_then(Value::as_str).unwrap_or_default();
        let is_id = [id.to_hex(), id.to_string()].iter().any(|id| id == says);
        if is_id || !stated.contains_key(key) || says == known.name(id) {
            continue;
        }
        if known.names.contains_key(&id.to_hex()) || known.has_name(says) {
            let name = known.name(id);
            lies.push(format!("the file says `{key}` {says}, its signed bytes {name}"));
        } else {
            unchecked.push(format!("{id} is called {says}"));
        }
    }
    (lies, unchecked)
}

/// What holds of each link, root first, and which names in the file nothing confirms.
fn verdicts(
    ticket: &Ticket,
    stated: &[serde_json::Map<String, Value>],
    known: &Known,
    (at, site_is_meant): (Time, Option<bool>),
) -> (Vec<LinkVerdict>, Vec<String>) {
    let (mut links, mut parent): (Vec<LinkVerdict>, Option<&SignedLink>) = (Vec::new(), None);
    let (mut verifier, mut unchecked) = (known.verifier(), Vec::new());
    for (place, link) in ticket.links().iter().enumerate() {
        let mut wrong = Vec::new();
        if !link.verifies(&mut verifier) {
            wrong.push("its signature is not its issuer's".to_owned());
        }
        wrong.extend(link.follows(parent).err().map(|fault| fault.to_string()));
        if let Some(stated) = stated.get(place) {
            let (lies, names) = lies(stated, link, known);
            wrong.extend(lies);
            unchecked.extend(
                names.into_iter().filter(|name| !unchecked.contains(name)).collect::<Vec<_>>(),
            );
        }
        if place == 0 && site_is_meant == Some(false) {
            wrong.push("it is another site's".to_owned());
        }
        if place + 1 == ticket.links().len() && link.term.end() <= at {
            wrong.push("its term has ended".to_owned());
        }
        let verdict = if wrong.is_empty() { "holds".to_owned() } else { wrong.join("; ") };
        links.push(LinkVerdict { link: place, what: link_view(link, known), verdict });
        parent = Some(link);
    }
    (links, unchecked)
}

fn check(
    ticket: &Ticket,
    stated: &[serde_json::Map<String, Value>],
    known: &Known,
    args: &VerifyArgs,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let at = args.at.or(known.now).unwrap_or_else(|| WallClock::new().now());
    let expected = known.sites_meant(args.site.as_deref())?;
    let site_is_meant =
        expected.as_ref().map(|expected| expected.contains(&ticket.site().to_hex()));
    let (links, unchecked) = verdicts(ticket, stated, known, (at, site_is_meant));
    let wrong = links.iter().filter(|link| link.verdict != "holds");
    let faults: Vec<String> =
        wrong.map(|link| format!("link {}: {}", link.link, link.verdict)).collect();
    let term = ticket.bottom().term;
    let verdict = TicketVerdict {
        ticket: ticket.hash().to_hex(),
        holds: faults.is_empty(),
        site: ticket.site().to_hex(),
        site_name: known.name(ticket.site()),
        site_is_meant,
        at: moment::show(at),
        term: if at < term.start() {
            "to-come"
        } else if term.contains(at) {
            "running"
        } else {
            "over"
        }
        .to_owned(),
        links,
        faults,
        unchecked,
    };
    if args.endpoint.output == Output::Table {
        head(&verdict, ticket, at, console)?;
    }
    print::one(&verdict, &verdict.links, args.endpoint.output, "no links", console)?;
    if site_is_meant.is_none() {
        let site = &verdict.site;
        let message = format!("no site was given to compare with: compare {site}, or use --site");
        crate::render::warning(&message, console)?;
    }
    if !verdict.unchecked.is_empty() {
        let message = format!("it cannot be checked here whether {}", verdict.unchecked.join("; "));
        crate::render::warning(&message, console)?;
    }
    if verdict.holds {
        return Ok(());
    }
    Err(Error::Void {
        message: format!("the ticket does not hold: {}", verdict.faults.join("; ")),
        help: "docs/PROTOCOL.md says what a ticket must be".to_owned(),
    })
}

fn head(
    verdict: &TicketVerdict,
    ticket: &Ticket,
    at: Time,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let term = ticket.bottom().term;
    let apart = |a: Time, b: Time| roughly(a.since(b).as_secs_f64());
    let term = match verdict.term.as_str() {
        "to-come" => format!("begins in {}", apart(term.start(), at)),
        "running" => format!("runs for another {}", apart(term.end(), at)),
        _ => format!("was over {} before", apart(at, term.end())),
    };
    let site = match verdict.site_is_meant {
        Some(true) => "as expected",
        Some(false) => "NOT the expected one",
        None => "not compared",
    };
    line(console.out, format_args!("ticket {}", verdict.ticket))?;
    line(console.out, format_args!("site   {} ({site}), {}", verdict.site_name, verdict.site))?;
    line(console.out, format_args!("term   {term}, at {}", verdict.at))?;
    writeln!(console.out, "{}\n", if verdict.holds { "It holds." } else { "It does NOT hold." })?;
    Ok(())
}

/// What was found of evidence.
#[derive(Serialize)]
struct EvidenceVerdict {
    /// Whom it convicts, if anybody.
    convicts: Option<String>,
    convicts_name: Option<String>,
    /// Why, in a sentence.
    reason: String,
    /// How many receipts were checked, and what that leaves open.
    receipts: usize,
    caveat: Option<String>,
    at: String,
    links: Vec<Charge>,
}

/// A link of evidence.
#[derive(Serialize)]
struct Charge {
    /// `parent` or `child`.
    part: String,
    link: String,
    issuer: String,
    holder: String,
    units: u32,
    start: String,
    end: String,
    signed: bool,
    excused: bool,
}

impl print::Row for Charge {
    const COLUMNS: &'static [&'static str] =
        &["part", "link", "from", "to", "units", "start", "end", "signed", "excused"];

    fn cells(&self) -> Vec<String> {
        let word = |yes: bool, no: &str| if yes { "yes".to_owned() } else { no.to_owned() };
        vec![
            self.part.clone(),
            self.link.chars().take(10).collect(),
            self.issuer.clone(),
            self.holder.clone(),
            self.units.to_string(),
            self.start.clone(),
            self.end.clone(),
            word(self.signed, "NO"),
            word(self.excused, "-"),
        ]
    }
}

/// What is left open of a conviction without receipts.
const NO_RECEIPTS: &str = "no receipts were given: a broker may sell again what came back to its site by then; \
                       check its receipts with --receipts first";

fn check_evidence(
    evidence: &Evidence,
    receipts: &[Receipt],
    known: &Known,
    output: Output,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let site = evidence.parents.first().map(Ticket::site);
    let charge = |part: &str, link: &SignedLink| {
        let LinkView { hash, issuer, holder, units, start, end, signed, .. } =
            link_view(link, known);
        let excuses = |receipt: &Receipt| {
            site.is_some_and(|site| {
                receipt.excuses(&mut known.verifier(), site, link, evidence.at) > 0
            })
        };
        let excused = part == "child" && receipts.iter().any(excuses);
        let part = part.to_owned();
        Charge { part, link: hash, issuer, holder, units, start, end, signed, excused }
    };
    let parents = evidence.parents.iter().map(|parent| charge("parent", parent.bottom()));
    let links: Vec<Charge> =
        parents.chain(evidence.links.iter().map(|link| charge("child", link))).collect();
    let outcome = evidence.convicts_by(&mut known.verifier(), receipts);
    let charged = links.iter().filter(|link| link.part == "child" && !link.excused);
    let sold: u64 = charged.map(|link| u64::from(link.units)).sum();
    let held = links.iter().filter(|link| link.part == "parent").map(|link| link.units).max();
    let at = moment::show(evidence.at);
    let reason = match &outcome {
        Ok(culprit) => format!(
            "{} has handed on {sold} units for {at}, of {} that it held",
            known.name(*culprit),
            held.unwrap_or_default()
        ),
        Err(fault) => fault.to_string(),
    };
    let verdict = EvidenceVerdict {
        convicts: outcome.as_ref().ok().map(ActorId::to_hex),
        convicts_name: outcome.as_ref().ok().map(|id| known.name(*id)),
        reason,
        receipts: receipts.len(),
        caveat: (outcome.is_ok() && receipts.is_empty()).then(|| NO_RECEIPTS.to_owned()),
        at,
        links,
    };
    if output == Output::Table {
        let whom = verdict.convicts.as_deref().unwrap_or("no actor");
        line(console.out, format_args!("convicts {whom}: {}", verdict.reason))?;
        if let Some(caveat) = &verdict.caveat {
            line(console.out, format_args!("caveat: {caveat}"))?;
        }
        writeln!(console.out)?;
    }
    print::one(&verdict, &verdict.links, output, "no links", console)?;
    if verdict.convicts.is_some() {
        return Ok(());
    }
    Err(Error::Void {
        message: format!("the evidence convicts no actor: {}", verdict.reason),
        help: "docs/PROTOCOL.md says what evidence must show".to_owned(),
    })
}

/// What a link says of recalls.
fn clauses(link: &LinkView) -> impl Iterator<Item = String> {
    let notice = link.notice.map(|notice| format!("notice {notice}"));
    notice.into_iter().chain(link.stay.map(|stay| format!("recalled to {stay}")))
}

impl print::Row for LinkView {
    const COLUMNS: &'static [&'static str] =
        &["from", "to", "units", "type", "start", "end", "signed", "constraints"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.issuer.clone(),
            self.holder.clone(),
            self.units.to_string(),
            self.resource.clone(),
            self.start.clone(),
            self.end.clone(),
            if self.signed { "yes" } else { "NO" }.to_owned(),
            self.constraints.iter().cloned().chain(clauses(self)).collect::<Vec<_>>().join(", "),
        ]
    }
}
