//! S12: the three views of a lease fit together.

use std::collections::BTreeSet;

use super::model::{Model, NOTHING, Subject};
use super::{Change, Check, Law, Scene, Tally, LawVerdict};
use tenure_core::broker::machine::State;
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::{LeaseId, RequestId};
use tenure_core::model::time::Time;
use tenure_core::site_authority::machine::{CloseReason, State as SiteState};

pub(super) const LAW: Law = Law {
    id: "S12",
    name: "joint legality",
    statement: "The states of a lease at its guest, of its request at the broker, and of its \
                ticket at the site form one of the triples that the model check reaches. For \
                others, a lease whose part goes back is as before; a request that was only a \
                plan is closed; a hold that lapsed is closed or still asked for at its guest \
                while its broker holds or forgets it; what was reclaimed or recalled may be \
                credited before its guest knows of the grant, or of the recall; what came back of a lease that is over, \
                before a guest that slept knows so; what a site ended for silence, before its guest knows so; what is left of a ticket that was \
                handed on in part may be credited; and of an extended lease the first \
                ticket may be credited while the lease goes on. Of a request that several brokers meet, \
                one may have its tickets back while leases of others go on. With dishonest actors, a \
                ticket that has ended may be credited before its holder knows.",
    source: "refinement, agreement; Shirako S44, S45",
    on: "facts of all three, in the order in which they happened, after each input, while the clocks keep \
         to the margin",
};

/// The legal triples, three words a line: guest, broker, site.
const TABLE: &str = include_str!("joint_states.txt");

type Triple<'a> = [&'a str; 3];

/// What the three say of one lease.
struct Joint {
    words: Triple<'static>,
    /// Whether the lease has further tickets at the site.
    extended: bool,
    /// Whether other brokers have cut tickets for the request, too.
    shared: bool,
    /// Whether what nobody claimed of the request's tickets is back, reclaimed or recalled.
    reclaimed: bool,
    /// Whether it is over by the site's clock, for its guest too had it looked.
    over: bool,
    /// Whether its site ended it for the silence of its guest, and has shown the issuer what came back.
    silent: bool,
    /// Whether its guest gave back what was left of its ticket beside the parts that it handed on.
    rest: bool,
}

pub(super) struct Checker {
    legal: BTreeSet<Triple<'static>>,
    /// The leases that the facts of this input touched.
    touched: BTreeSet<(ActorId, LeaseId)>,
}

impl Default for Checker {
    fn default() -> Self {
        Self { legal: legal_triples(TABLE), touched: BTreeSet::new() }
    }
}

/// Reads a table: a triple a line, `#` begins a comment.
fn legal_triples(table: &str) -> BTreeSet<Triple<'_>> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    let words = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    words.filter_map(|words| words.try_into().ok()).collect()
}

impl Check for Checker {
    fn change(&mut self, scene: &Scene<'_>, change: &Change, _: &mut Tally) -> LawVerdict {
        let model = scene.model;
        match change.subject {
            Subject::Lease(guest, lease) => {
                self.touched.insert((guest, lease));
            }
            Subject::Request(_, RequestId { origin, number }) => {
                let parts = LeaseId { number, part: 0 }..=LeaseId { number, part: u16::MAX };
                let leases = model.guests.get(&origin).map(|guest| guest.leases.range(parts));
                let leases = leases.into_iter().flatten().map(|(&lease, _)| (origin, lease));
                self.touched.extend(leases);
            }
            Subject::Ticket(site, hash) => {
                let lease = model.sites.get(&site).and_then(|site| site.leases.get(&hash));
                for ticket in lease.into_iter().flat_map(|lease| &lease.tickets) {
                    let holder = ticket.bottom().holder;
                    let guest = model.guests.get(&holder);
                    let lease = guest.and_then(|guest| guest.tickets.get(&ticket.hash()));
                    self.touched.extend(lease.map(|&lease| (holder, lease)));
                }
            }
            Subject::Unit(..) => {}
        }
        Ok(())
    }

    fn batched(&mut self, scene: &Scene<'_>, tally: &mut Tally) -> LawVerdict {
        let touched = std::mem::take(&mut self.touched);
        if !scene.model.participants.clocks_hold {
            return Ok(());
        }
        for (guest, lease) in touched {
            let Some(joint) = joint(scene.model, scene.at, guest, lease) else { continue };
            tally.check(joint.words == [NOTHING; 3] || self.allows(scene.model, &joint), || {
                let (name, [g, b, s]) = (scene.model.name(guest), joint.words);
                format!("lease {lease} of {name} is {g}, its request {b}, its ticket {s}")
            })?;
        }
        Ok(())
    }
}

impl Checker {
    /// A request that is passed on is open, and what another broker has brought is granted, whatever comes back of it:
    /// that only its issuer learns.
    fn allows(&self, model: &Model, joint: &Joint) -> bool {
        let [guest, broker, site] = joint.words;
        let like: &[_] = match broker {
            "Passed" | "Gathering" | "Committing" => &["Open"],
            "Granted" | "Returned" if joint.shared => &["Granted", "Returned"],
            "Proposed" | "Taking" => &["Held"],
            "Brought" => &["Granted", "Returned"],
            _ => return self.allows_at_one_broker(model, joint),
        };
        let mut like = like.iter().map(|like| Joint { words: [guest, like, site], ..*joint });
        like.any(|joint| self.allows_at_one_broker(model, &joint))
    }

    fn allows_at_one_broker(&self, model: &Model, joint: &Joint) -> bool {
        self.legal.contains(&joint.words)
            || self.is_like_another(joint)
            || model.participants.has_adversaries() && self.was_credited(joint.words)
    }

    /// Whether the states are those of a simpler life. A plan is over for its guest as a refused request is,
    /// whatever the broker has forgotten. A hold lapses by each clock alone, and so for the guest while the
    /// broker still has it. A part that goes back, or a change in
    /// place, is between its guest and the site.
    fn is_like_another(&self, joint: &Joint) -> bool {
        let [guest, broker, site] = joint.words;
        let own = ["+leaving", "+returning", "+modifying"];
        // Its units may be left while it is asked whether it goes on; in the model nobody sleeps meanwhile.
        let extending = match guest {
            "Leaving(end)+asking" => Some("Active+asking"),
            "Leaving(end)+redeeming" => Some("Active+redeeming"),
            _ => None,
        };
        let whole = own.iter().find_map(|change| guest.strip_suffix(change));
        let plain = match guest {
            "Planned" => "Closed",
            "Offered" | "Accepting" if broker == NOTHING => "Asking",
            guest => whole.or(extending).unwrap_or(guest),
        };
        // Of a first ticket that is over nothing is left, though its lease was extended.
        let outlived =
            joint.extended && broker == "Returned" && ["Active", "Closed"].contains(&site);
        // A guest that sleeps beyond the end of a lease is the last to know that it is over.
        let outlived = outlived || (joint.over || joint.silent) && broker == "Returned";
        let broker = if outlived { "Granted" } else { broker };
        // What was reclaimed came back though its guest may not even know that it was granted.
        let came_back = joint.reclaimed || joint.rest && guest == "Ticketed";
        let unclaimed = came_back && broker == "Returned" && [NOTHING, "Closed"].contains(&site);
        let plain = if unclaimed && guest == "Accepting" { "Asking" } else { plain };
        let broker = if unclaimed { "Granted" } else { broker };
        let lapsing = ["Closed", NOTHING].contains(&guest) && broker == "Held" && site == NOTHING;
        lapsing || self.legal.contains(&[plain, broker, site])
    }

    /// A receipt is its site's statement, no matter who shows it. An adversary that reads others' messages
    /// can have it credited before the holder has received it.
    fn was_credited(&self, [guest, broker, site]: Triple<'_>) -> bool {
        let over = [NOTHING, "Closed"].contains(&site);
        broker == "Returned" && over && self.legal.contains(&[guest, "Granted", site])
    }
}

/// The three states of a lease, if all who have one are honest.
fn joint(model: &Model, now: Time, guest: ActorId, id: LeaseId) -> Option<Joint> {
    let guest = model.guests.get(&guest)?;
    let lease = guest.leases.get(&id)?;
    let (broker, request, _) = guest.requests.get(&lease.number)?;
    if !model.participants.honest(*broker) {
        return None;
    }
    let record = model.brokers.get(broker).and_then(|broker| broker.requests.get(&request.id));
    let at_broker = record.map_or(NOTHING, |record| record.word());
    let lease_at_site = match &lease.first {
        Some(ticket) if !model.participants.honest(ticket.site()) => return None,
        Some(ticket) => {
            let site = model.sites.get(&ticket.site());
            site.and_then(|s| s.leases.get(s.by_ticket.get(&ticket.hash())?))
        }
        None => None,
    };
    let at_site = lease_at_site.map_or(NOTHING, |lease| lease.word());
    // A kept ticket that was split is one that is kept, to all others.
    let word = lease.word().strip_suffix("+split").unwrap_or(lease.word());
    let extended = lease_at_site.is_some_and(|lease| lease.tickets.len() > 1);
    let reclaimed = model.brokers.get(broker).is_some_and(|broker| {
        let cut = broker.cut.values().filter(|cut| cut.request == request.id);
        let mut sites = cut.map(|cut| (model.sites.get(&cut.ticket.site()), cut.ticket.hash()));
        sites.any(|(site, ticket)| {
            site.is_some_and(|s| {
                let recall = s.recalls.get(&ticket);
                s.reclaimed.contains_key(&ticket)
                    || recall.is_some_and(|recall| !recall.receipts.is_empty())
            })
        })
    });
    let silent = lease_at_site.is_some_and(|lease| {
        matches!(&lease.state, SiteState::Closed { why: CloseReason::Silent(_), .. })
    });
    let rest = guest.rests_given.contains(&id);
    let over = lease.expires_at <= now;
    let shared = record.is_some_and(|record| {
        matches!(&record.state, State::Granted { tickets, .. } | State::Returned { tickets }
            if tickets.iter().any(|(_, ticket)| ticket.bottom().issuer != *broker))
    });
    Some(Joint { words: [word, at_broker, at_site], extended, shared, reclaimed, over, silent, rest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_three_words_a_line_with_comments() {
        let table = "# guest broker site\nAsking Open -\n\nActive   Granted Active\n";
        let legal = legal_triples(table);
        assert_eq!(legal.len(), 2);
        assert!(legal.contains(&["Active", "Granted", "Active"]));
    }
}
