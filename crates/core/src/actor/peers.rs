//! Peers: the actors that one deals with, by configuration.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use super::Role;
use crate::model::identity::ActorId;
use crate::model::name::Name;

/// An actor known by configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name.
    pub name: Name,
    /// Its role.
    pub role: Role,
}

/// The actors that one deals with. A clone shares them: where all actors know each other, there is one
/// list and not one for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers(Arc<Lists>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Lists {
    by_id: BTreeMap<ActorId, Peer>,
    /// The names and ids of each role, in order.
    by_role: BTreeMap<Role, Vec<(Name, ActorId)>>,
}

impl Peers {
    /// Those of a role, by name.
    pub fn of(&self, role: Role) -> impl Iterator<Item = (&Name, ActorId)> {
        self.0.by_role.get(&role).into_iter().flatten().map(|(name, id)| (name, *id))
    }

    /// Those to keep: the same list if that is all of them.
    pub fn only(&self, keep: impl Fn(ActorId, &Peer) -> bool) -> Self {
        if self.iter().all(|(&id, peer)| keep(id, peer)) {
            return self.clone();
        }
        let kept = self.iter().filter(|(id, peer)| keep(**id, peer));
        kept.map(|(&id, peer)| (id, peer.clone())).collect()
    }
}

impl Deref for Peers {
    type Target = BTreeMap<ActorId, Peer>;

    fn deref(&self) -> &Self::Target {
        &self.0.by_id
    }
}

impl From<BTreeMap<ActorId, Peer>> for Peers {
    fn from(by_id: BTreeMap<ActorId, Peer>) -> Self {
        let mut by_role: BTreeMap<Role, Vec<(Name, ActorId)>> = BTreeMap::new();
        for (&id, peer) in &by_id {
            by_role.entry(peer.role).or_default().push((peer.name.clone(), id));
        }
        by_role.values_mut().for_each(|peers| peers.sort());
        Self(Arc::new(Lists { by_id, by_role }))
    }
}

impl FromIterator<(ActorId, Peer)> for Peers {
    fn from_iter<I: IntoIterator<Item = (ActorId, Peer)>>(peers: I) -> Self {
        peers.into_iter().collect::<BTreeMap<_, _>>().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::identity::{Scheme, Signer};

    fn peer(who: u8, name: &'static str, role: Role) -> (ActorId, Peer) {
        let id = Signer::from_seed(Scheme::None, [who; 32]).id();
        (id, Peer { name: Name::literal(name), role })
    }

    #[test]
    fn a_clone_and_what_keeps_all_share_one_list() {
        let peers: Peers =
            [peer(1, "b", Role::Broker), peer(2, "a", Role::Broker)].into_iter().collect();
        let names: Vec<_> = peers.of(Role::Broker).map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(peers.of(Role::SiteAuthority).count(), 0);
        assert!(Arc::ptr_eq(&peers.0, &peers.clone().0));
        assert!(Arc::ptr_eq(&peers.0, &peers.only(|_, _| true).0));
        let fewer = peers.only(|_, peer| peer.name.as_str() == "a");
        assert_eq!((fewer.len(), fewer.of(Role::Broker).count()), (1, 1));
    }
}
