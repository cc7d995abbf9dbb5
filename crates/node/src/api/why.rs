//! Why a lease is as it is: the one thing that it waits for or that ended it, and what bears that out.

use serde::{Deserialize, Serialize};
use tenure_core::actor::Seat;
use tenure_core::actor::site_authority::SiteAuthority;
use tenure_core::identity::ActorId;
use tenure_core::lease::broker::State as RequestState;
use tenure_core::lease::service_manager::{Outcome, State};
use tenure_core::lease::site_authority::State as SiteState;
use tenure_core::lease::unit;
use tenure_core::slice::{LeaseId, RequestId};
use tenure_core::ticket::link::LinkHash;

use super::server::Deck;
use super::view::{self, LeaseView, RefusalView};
use super::{ApiError, Code};

/// Why a lease is as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WhyView {
    /// The lease.
    pub lease: LeaseView,
    /// The one reason that counts, in a sentence.
    pub reason: String,
    /// What the user can do, if anything.
    pub help: Option<String>,
    /// What bears it out: what each actor knows of it, the nearest first.
    pub findings: Vec<Finding>,
}

/// What an actor knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The actor.
    pub actor: String,
    /// In a sentence.
    pub says: String,
}

/// What a lease waits for.
enum Waits {
    Nothing(String, Option<String>),
    Broker(ActorId, RequestId),
    Site(ActorId, LinkHash),
}

/// Looks into a lease.
pub(super) async fn why(
    deck: &Deck,
    manager: &tenure_core::name::Name,
    id: LeaseId,
) -> Result<WhyView, ApiError> {
    let lease = deck.lease(manager, id).await?;
    let no_manager = || ApiError::new(Code::NoSuch, format!("no service manager `{manager}`"));
    let origin = deck.id(manager).ok_or_else(no_manager)?;
    let waits = deck
        .guest(manager, move |guest| guest.survey_of(id).map(|lease| waits(lease.state, origin)))
        .await?;
    let Some((waits, says)) = waits else {
        return Err(ApiError::new(Code::NoSuch, format!("no lease {manager}/{id}")));
    };
    let mut findings = vec![Finding { actor: manager.to_string(), says }];
    let (reason, help) = match waits {
        Waits::Nothing(reason, help) => (reason, help),
        Waits::Broker(broker, request) => at_broker(deck, broker, request, &mut findings).await?,
        Waits::Site(site, ticket) => at_site(deck, site, ticket, &mut findings).await?,
    };
    Ok(WhyView { lease, reason, help, findings })
}

/// What a lease waits for, and what its service manager says about it.
fn waits(state: &State, origin: ActorId) -> (Waits, String) {
    let nothing = |reason: &str| (Waits::Nothing(reason.to_owned(), None), reason.to_owned());
    match state {
        State::Asking { broker, request } => {
            let id = RequestId { origin, number: request.id.number };
            let until = view::time(request.answer_by);
            (
                Waits::Broker(*broker, id),
                format!("a broker was asked; an answer is of use until {until}"),
            )
        }
        State::GivenUp { .. } => nothing(
            "the broker's answer did not come in time; a ticket that still comes is given back",
        ),
        State::Redeeming { ticket } => {
            let says = format!("the site was shown ticket {}", ticket.hash());
            (Waits::Site(ticket.site(), ticket.hash()), says)
        }
        State::Joining { held } => nothing(&format!(
            "the units are there; {} of {} have yet to be joined by the guest's driver",
            held.awaited,
            held.units.len()
        )),
        State::Active { held } => {
            nothing(&format!("it is active until {}", view::time(held.term.end())))
        }
        State::Leaving { held, .. } => nothing(&format!(
            "the guest leaves its units; {} of {} have yet to be left",
            held.awaited,
            held.units.len()
        )),
        State::Closing { tickets } => {
            let Some(ticket) = tickets.first() else { return nothing("it is being given back") };
            let says = "the site was told to take the units back".to_owned();
            (Waits::Site(ticket.site(), ticket.hash()), says)
        }
        State::Crediting { .. } => {
            nothing("the broker was shown the receipts, and has yet to take them")
        }
        State::Closed { outcome } => {
            let (reason, help) = over(outcome);
            (Waits::Nothing(reason.clone(), help), reason)
        }
    }
}

/// How it went, and what to do about that.
fn over(outcome: &Outcome) -> (String, Option<String>) {
    match outcome {
        Outcome::Ended => ("its term is over".to_owned(), None),
        Outcome::GivenBack => ("it was given back before its end".to_owned(), None),
        Outcome::Unanswered => {
            let help = "see `tenure doctor`: the broker may be down or out of reach";
            ("no answer came in time".to_owned(), Some(help.to_owned()))
        }
        Outcome::Refused(refusal) => {
            let RefusalView { message, outlook, .. } = RefusalView::of(refusal);
            let help = match outlook.as_str() {
                "later" => {
                    "ask again later, for fewer units, or with `--slack` so that it may wait"
                }
                "denied" => "the ticket did not entitle to it; `tenure ticket show` has its links",
                _ => "the same request can never be met: ask for something else",
            };
            (format!("it was refused: {message}"), Some(help.to_owned()))
        }
    }
}

async fn at_broker(
    deck: &Deck,
    broker: ActorId,
    id: RequestId,
    findings: &mut Vec<Finding>,
) -> Result<(String, Option<String>), ApiError> {
    let name = deck.name(broker);
    let Some(handle) = deck.handle_of(broker) else {
        let help = Some("`tenure doctor` says who is down".to_owned());
        return Ok((format!("the broker {name} has yet to answer"), help));
    };
    let state = deck
        .look(handle, move |seat| match seat {
            Seat::Broker(broker, _) => broker.request(id).map(|state| match state {
                RequestState::Open { request } => Err(view::time(request.latest)),
                RequestState::Granted { .. }
                | RequestState::Returned { .. }
                | RequestState::Refused { .. } => Ok(view::plain(state.word())),
            }),
            Seat::ServiceManager(..) | Seat::SiteAuthority(..) => None,
        })
        .await?;
    let says = match &state {
        None => "the request has not arrived".to_owned(),
        Some(Err(latest)) => format!("the request waits for room; it may start until {latest}"),
        Some(Ok(word)) => format!("the request is {word}; the answer is on its way"),
    };
    findings.push(Finding { actor: name.clone(), says: says.clone() });
    let help =
        matches!(state, Some(Err(_))).then(|| "`tenure broker show` tells what is sold".to_owned());
    Ok((format!("at the broker {name}: {says}"), help))
}

async fn at_site(
    deck: &Deck,
    site: ActorId,
    ticket: LinkHash,
    findings: &mut Vec<Finding>,
) -> Result<(String, Option<String>), ApiError> {
    let name = deck.name(site);
    let Some(handle) = deck.handle_of(site) else {
        let help = Some("`tenure doctor` says who is down".to_owned());
        return Ok((format!("the site {name} has yet to answer"), help));
    };
    let seen = deck
        .look(handle, move |seat| match seat {
            Seat::SiteAuthority(site, _) => site_says(site, ticket),
            Seat::ServiceManager(..) | Seat::Broker(..) => None,
        })
        .await?;
    let Some((says, units)) = seen else {
        return Ok((format!("the site {name} has yet to hear of it"), None));
    };
    findings.push(Finding { actor: name.clone(), says: says.clone() });
    let units = units.into_iter().map(|says| Finding { actor: name.clone(), says });
    findings.extend(units);
    let help = Some(format!("`tenure site show {name}` tells how its units are"));
    Ok((format!("at the site {name}: {says}"), help))
}

/// What a site knows of a lease, and of each unit that it waits for.
fn site_says(site: &SiteAuthority, ticket: LinkHash) -> Option<(String, Vec<String>)> {
    let lease = site.lease_survey_of(ticket)?;
    let says = match lease.state {
        SiteState::Early => {
            format!("it waits for its term, from {}", view::time(lease.term.start()))
        }
        SiteState::Due => {
            format!("its term has begun, but it lacks all of its {} units", lease.units)
        }
        SiteState::Priming { pending, ready } => format!(
            "{} of {} units are ready, {} are being set up, {} are not there",
            ready.len(),
            lease.units,
            pending.len(),
            lease.lacks
        ),
        SiteState::Active { .. } => "the units are ready; the answer is on its way".to_owned(),
        SiteState::Closed { .. } => "it is over here; the answer is on its way".to_owned(),
    };
    let waits = matches!(lease.state, SiteState::Due | SiteState::Priming { .. });
    let units = site.unit_survey().filter(|unit| waits && unit.resource == lease.resource);
    let units = units.filter_map(|unit| {
        let word = match unit.state {
            unit::State::Free | unit::State::Ready { .. } => return None,
            unit::State::SettingUp { .. } => "is being set up",
            unit::State::Abandoned { .. } => "was given up while it was being set up",
            unit::State::TearingDown { .. } => "is being cleaned",
            unit::State::Quarantined => {
                "is quarantined: it could not be cleaned; `tenure site reset` once it is put right"
            }
        };
        Some(format!("unit {} {word}", unit.id))
    });
    Some((says, units.collect()))
}
