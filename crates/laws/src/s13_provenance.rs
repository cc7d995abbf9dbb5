//! S13: every ticket comes from its site, link by link.

use std::collections::{BTreeMap, BTreeSet};

use super::{Check, Law, Observation, Scene, Tally, LawVerdict};
use tenure_core::actor::Role;
use tenure_core::service_manager::request::State;
use tenure_core::service_manager::facts as service_manager;
use tenure_core::site_authority::facts as site_authority;
use tenure_core::model::verifier::Verifier;
use tenure_core::service_manager::machine::Change;
use tenure_core::wire::message::Message;
use tenure_core::ticket::link::{LinkHash, SignedLink};
use tenure_core::ticket::Ticket;
use tenure_core::wire::request::{Item, Request};
use tenure_core::wire::offer::Reply;

pub(super) const LAW: Law = Law {
    id: "S13",
    name: "provenance",
    statement: "Every ticket that an honest actor accepts is a chain of valid signatures: at a \
                site from its own key, at a broker or guest from a site's key to its own; a \
                broker signs what it issues. A guest accepts only what it requested, and a site \
                acts on a ticket only for its holder.",
    source: "unforgeability, chain of custody; Shirako S11, S12, S13",
    on: "every ticket in a fact; facts of sites and guests; messages",
};

#[derive(Default)]
pub(super) struct Checker {
    /// The tickets that their holders have shown to their sites.
    shown: BTreeSet<LinkHash>,
    /// Links whose signature was found good before.
    good: BTreeMap<LinkHash, SignedLink>,
    verifier: Option<Verifier>,
}

impl Check for Checker {
    fn site(
        &mut self,
        scene: &Scene<'_>,
        fact: &site_authority::Fact,
        tally: &mut Tally,
    ) -> LawVerdict {
        use site_authority::Fact;
        let ticket = match fact {
            Fact::Redeemed(fact) => &fact.ticket,
            Fact::LeaseExtended(fact) => &fact.ticket,
            Fact::TicketSurrendered(fact) => &fact.ticket,
            _ => return Ok(()),
        };
        let holder = ticket.bottom().holder;
        if !scene.model.in_order || !scene.model.participants.honest(holder) {
            return Ok(());
        }
        tally.check(self.shown.contains(&ticket.hash()), || {
            let (name, holder) = (scene.name(), scene.model.name(holder));
            format!("{name} acts on ticket {}, which {holder} never showed it", ticket.hash())
        })
    }

    fn guest(
        &mut self,
        scene: &Scene<'_>,
        fact: &service_manager::Fact,
        tally: &mut Tally,
    ) -> LawVerdict {
        use service_manager::Fact;
        match fact {
            Fact::Granted(fact) => fits(scene, fact.number, &fact.tickets, tally),
            Fact::UnwantedGranted(fact) => fits(scene, fact.number, &fact.tickets, tally),
            Fact::ExtensionGranted(fact) => {
                let guest = scene.model.guests.get(&scene.actor);
                let held = guest.and_then(|guest| guest.held(fact.lease));
                let Some(Change::Requested { number, .. }) = held.map(|held| &held.change)
                else {
                    return Ok(());
                };
                fits(scene, *number, &[(0, fact.ticket.clone())], tally)
            }
            _ => Ok(()),
        }
    }

    fn happened(&mut self, scene: &Scene<'_>, seen: &Observation<'_>, _: &mut Tally) -> LawVerdict {
        let Observation::Sent { envelope, .. } = seen else { return Ok(()) };
        let mut show = |ticket: &Ticket| {
            if ticket.bottom().holder == scene.actor {
                self.shown.insert(ticket.hash());
            }
        };
        match &envelope.message {
            Message::Redeem { ticket, .. } => show(ticket),
            Message::Return { ticket, .. } => show(ticket),
            Message::Close { tickets } => tickets.iter().for_each(show),
            _ => {}
        }
        Ok(())
    }

    fn ticket(&mut self, scene: &Scene<'_>, ticket: &Ticket, tally: &mut Tally) -> LawVerdict {
        let (me, hash) = (scene.actor, ticket.hash());
        let role = scene.model.participants.members.get(&me).map(|participant| participant.role);
        let bottom = ticket.bottom();
        let mine = match role {
            Some(Role::SiteAuthority) => ticket.site() == me,
            // It takes what it holds, and cuts what it signs.
            Some(Role::Broker) => bottom.holder == me || bottom.issuer == me,
            Some(Role::ServiceManager) => bottom.holder == me,
            None => false,
        };
        tally.check(mine, || {
            let (name, site) = (scene.name(), scene.model.name(ticket.site()));
            let holder = scene.model.name(bottom.holder);
            format!("{name} accepts ticket {hash}, from {site} to {holder}")
        })?;
        for link in ticket.links() {
            let good = self.is_good(scene, link);
            tally.check(good, || {
                let (name, issuer) = (scene.name(), scene.model.name(link.issuer));
                format!("{name} accepts ticket {hash}, with a link that {issuer} never signed")
            })?;
        }
        Ok(())
    }
}

impl Checker {
    fn is_good(&mut self, scene: &Scene<'_>, link: &SignedLink) -> bool {
        if self.good.get(&link.hash()) == Some(link) {
            return true;
        }
        let scheme = scene.model.participants.scheme;
        let verifier = self.verifier.get_or_insert_with(|| Verifier::new(scheme));
        if let Some(chain) = scene.model.keys.get(&link.issuer).and_then(|k| k.chain(link.issuer)) {
            verifier.keys_mut().learn(link.issuer, chain.clone());
        }
        let good = link.verifies(verifier);
        if good {
            self.good.insert(link.hash(), link.clone());
        }
        good
    }
}

/// Tickets that a guest takes are what it asked for under a number.
fn fits(
    scene: &Scene<'_>,
    number: u64,
    tickets: &[(u16, Ticket)],
    tally: &mut Tally,
) -> LawVerdict {
    let guest = scene.model.guests.get(&scene.actor);
    let Some((_, newest, _)) = guest.and_then(|guest| guest.requests.get(&number)) else {
        return Ok(());
    };
    let earlier = guest.and_then(|guest| guest.earlier.get(&number)).into_iter().flatten();
    let fit = earlier.chain([newest]).any(|request| {
        is_asked_for(request, guest.and_then(|guest| guest.request(number)), tickets)
    });
    tally.check(fit, || {
        let name = scene.name();
        format!("{name} takes tickets for request {number} that are not what it asked for")
    })
}

/// Whether tickets are what a request asks for, or what was accepted for it.
fn is_asked_for(request: &Request, asked: Option<&State>, tickets: &[(u16, Ticket)]) -> bool {
    let accepted = match asked {
        Some(State::Accepting { offer, .. }) => Some(offer),
        // Of what was given up, whatever was offered may come.
        Some(State::GivenUp) if matches!(request.reply, Reply::Hold(_)) => return true,
        _ => None,
    };
    let of_item = |index: u16| tickets.iter().filter(move |(of, _)| *of == index);
    let kind = (0u16..).zip(&request.items).all(|(index, item)| {
        of_item(index).map(|(_, ticket)| ticket.bottom()).all(|link| {
            (link.resource == item.resource || item.joins().is_some()) && link.extends == item.extends
        })
    });
    let fit = kind
        && match accepted {
            Some(offer) => {
                let mut parts = offer.parts.clone();
                let mut got = request.offer_of(tickets).parts;
                parts.sort();
                got.sort();
                parts == got
            }
            None => {
                let units = request.offer_of(tickets).units_of_each(request.items.len());
                let in_time = (0u16..).zip(&request.items).all(|(index, item)| {
                    of_item(index).map(|(_, ticket)| ticket.bottom().term).all(|term| {
                        let start = term.start().minus(item.offset);
                        let lasts = request.min_duration..=request.duration;
                        (request.earliest..=request.latest).contains(&start)
                            && lasts.contains(&term.duration())
                    })
                });
                in_time
                    && request.is_met_by(&units)
                    && from_one_site(request, tickets)
                    && joined(request, tickets)
            }
        };
    let known = tickets.iter().all(|(of, _)| usize::from(*of) < request.items.len());
    fit && known && keep_provisos(request, tickets)
}

/// Whether tickets are from sites that a request allows, to be redeemed as early as it says, without
/// the units that it excludes, and, where they
/// belong apart, from different sites.
fn keep_provisos(request: &Request, tickets: &[(u16, Ticket)]) -> bool {
    let mut sites = BTreeMap::new();
    tickets.iter().all(|(item, ticket)| {
        let by = ticket.bottom().clauses.redeem_by;
        let in_time = request.provisos.redeem_by.is_none_or(|most| by.is_some_and(|by| by <= most));
        let apart = request.items.get(usize::from(*item)).and_then(Item::apart);
        let alone = apart.is_none_or(|apart| {
            *sites.entry((apart, ticket.site())).or_insert(*item) == *item
        });
        let excluded = request.provisos.not_on_at(ticket.site());
        let without = ticket.bottom().clauses.not_on.is_superset(&excluded);
        let wanted = request.items.get(usize::from(*item));
        let named = wanted.is_none_or(|item| {
            let mut of_units = item.requirements.of_units();
            of_units.all(|unit| ticket.bottom().constraints.iter().any(|kept| kept == unit))
        });
        in_time && alone && without && named && !request.provisos.not_at.contains(&ticket.site())
    })
}

/// Whether the ends of each link are at one site each, and edges were sold for it if those are two.
fn joined(request: &Request, tickets: &[(u16, Ticket)]) -> bool {
    let of_item = |item: u16| tickets.iter().filter(move |(of, _)| *of == item);
    (0u16..).zip(&request.items).all(|(place, item)| {
        let Some(joins) = item.joins() else { return true };
        let [from, to] = joins.ends;
        let mut pairs = of_item(from).flat_map(|(_, a)| {
            of_item(to).map(move |(_, b)| a.site() != b.site())
        });
        let far = pairs.next().unwrap_or(false);
        pairs.all(|other| other == far) && far == of_item(place).next().is_some()
    })
}

/// Whether items that belong together come from one site.
fn from_one_site(request: &Request, tickets: &[(u16, Ticket)]) -> bool {
    let mut sites = BTreeMap::new();
    tickets.iter().all(|(item, ticket)| {
        let item = request.items.get(usize::from(*item));
        let Some(together) = item.and_then(|item| item.together) else { return true };
        *sites.entry(together).or_insert(ticket.site()) == ticket.site()
    })
}
