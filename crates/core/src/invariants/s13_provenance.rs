//! S13: every ticket comes from its site, link by link.

use std::collections::BTreeMap;

use super::{Check, Law, Scene, Tally, Verdict};
use crate::actor::Role;
use crate::ticket::link::{LinkHash, SignedLink};
use crate::ticket::Ticket;

pub(super) const LAW: Law = Law {
    id: "S13",
    name: "provenance",
    statement: "Every ticket that an honest actor takes for good is a chain of valid signatures: at a site \
                from its own key, at a broker or a guest from a site's to its own; what a broker cuts, it \
                signs.",
    source: "unforgeability, chain of custody; S11, S12, S13",
    on: "every ticket in a fact",
};

#[derive(Default)]
pub(super) struct Bench {
    /// Links whose signature was found good before.
    good: BTreeMap<LinkHash, SignedLink>,
}

impl Check for Bench {
    fn ticket(&mut self, scene: &Scene<'_>, ticket: &Ticket, tally: &mut Tally) -> Verdict {
        let (me, hash) = (scene.actor, ticket.hash());
        let role = scene.books.cast.players.get(&me).map(|player| player.role);
        let bottom = ticket.bottom();
        let mine = match role {
            Some(Role::SiteAuthority) => ticket.site() == me,
            // It takes what it holds, and cuts what it signs.
            Some(Role::Broker) => bottom.holder == me || bottom.issuer == me,
            Some(Role::ServiceManager) => bottom.holder == me,
            None => false,
        };
        tally.check(mine, || {
            let (name, site) = (scene.name(), scene.books.name(ticket.site()));
            let holder = scene.books.name(bottom.holder);
            format!("{name} takes ticket {hash} for good, from {site} to {holder}")
        })?;
        for link in ticket.links() {
            let good = self.is_good(scene, link);
            tally.check(good, || {
                let (name, issuer) = (scene.name(), scene.books.name(link.issuer));
                format!("{name} takes ticket {hash} for good, with a link that {issuer} never signed")
            })?;
        }
        Ok(())
    }
}

impl Bench {
    fn is_good(&mut self, scene: &Scene<'_>, link: &SignedLink) -> bool {
        if self.good.get(&link.hash()) == Some(link) {
            return true;
        }
        let good = link.verifies(scene.books.cast.scheme);
        if good {
            self.good.insert(link.hash(), link.clone());
        }
        good
    }
}
