//! Items that belong apart: each from one site, and no two from the same.

use std::collections::BTreeMap;

use super::stacks::{Spot, Taken};
use super::window::Window;
use super::{Parts, Search};
use crate::model::identity::ActorId;
use crate::model::time::Term;

/// The sites that have room for an item, the first by name first, each with the parts it would give.
type Rooms = Vec<(ActorId, Parts)>;

impl Search<'_> {
    /// The places of the items that belong apart, by their number.
    fn apart(&self) -> impl Iterator<Item = Vec<usize>> + use<> {
        let mut apart: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
        for (place, wanted) in self.items.iter().enumerate() {
            if let Some(number) = wanted.as_ref().and_then(|wanted| wanted.item.apart()) {
                apart.entry(number).or_default().push(place);
            }
        }
        apart.into_values()
    }

    /// Places the items that belong apart. An optional item is left out where no site is left for it.
    pub(super) fn place_apart(
        &self,
        (term, windows): (Term, &[Option<&Window<'_>>]),
        taken: &mut Taken,
        placed: &mut [Parts],
    ) -> Option<()> {
        for items in self.apart() {
            let rooms = items.iter().map(|&place| self.rooms(place, (term, windows), taken));
            let rooms: Vec<Rooms> = rooms.collect::<Option<_>>()?;
            let chosen = matched(&rooms);
            for (index, &place) in items.iter().enumerate() {
                let wanted = self.items.get(place)?.as_ref()?;
                let Some(&room) = chosen.get(&index) else {
                    if wanted.item.optional {
                        continue;
                    }
                    return None;
                };
                let parts = rooms.get(index)?.get(room)?.1.clone();
                let term = wanted.item.term(term)?;
                for &(account, units) in &parts {
                    let source = wanted.suiting().find(|source| source.account == account)?;
                    taken.take(source, term, units);
                }
                *placed.get_mut(place)? = parts;
            }
        }
        Some(())
    }

    /// The sites that have room for an item beside what is taken.
    fn rooms(
        &self,
        place: usize,
        (term, windows): (Term, &[Option<&Window<'_>>]),
        taken: &Taken,
    ) -> Option<Rooms> {
        let (wanted, window) = (self.items.get(place)?.as_ref()?, (*windows.get(place)?)?);
        let mut sites = Vec::new();
        for source in self.suiting(&[place]) {
            if !sites.contains(&source.site) {
                sites.push(source.site);
            }
        }
        let room = |site: ActorId| {
            let mut trial = taken.clone();
            let parts = wanted.place(
                (term, window),
                self.placement,
                Some(Spot::any_of(site)),
                &mut trial,
            )?;
            (!parts.is_empty()).then_some((site, parts))
        };
        Some(sites.into_iter().filter_map(room).collect())
    }
}

/// A room for as many items as can have one, no site twice: for each item by its place that of its room.
/// Items before others keep a room if they can have one.
fn matched(rooms: &[Rooms]) -> BTreeMap<usize, usize> {
    let mut owners: BTreeMap<ActorId, (usize, usize)> = BTreeMap::new();
    for item in 0..rooms.len() {
        let mut seen = Vec::new();
        assign(item, rooms, &mut owners, &mut seen);
    }
    owners.into_values().collect()
}

/// Finds a site for an item, moving others to other sites where need be.
fn assign(
    item: usize,
    rooms: &[Rooms],
    owners: &mut BTreeMap<ActorId, (usize, usize)>,
    seen: &mut Vec<ActorId>,
) -> bool {
    for (room, (site, _)) in rooms.get(item).into_iter().flatten().enumerate() {
        if seen.contains(site) {
            continue;
        }
        seen.push(*site);
        let owner = owners.get(site).map(|(owner, _)| *owner);
        if owner.is_none_or(|owner| assign(owner, rooms, owners, seen)) {
            owners.insert(*site, (item, room));
            return true;
        }
    }
    false
}
