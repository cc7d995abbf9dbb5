//! What a broker can give of a request that several brokers are to meet together.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::place::{Draft, Placement};
use crate::broker::mapper::{Allocation, Decision, Source, Verdict, View};
use crate::model::property::Properties;
use crate::model::slice::RequestId;
use crate::model::time::{Term, Time};
use crate::wire::portion::{bundles, from_then_on};
use crate::wire::refusal::{Outlook, Refusal};
use crate::wire::request::{Item, Request};

/// A draft in which all is taken that a decision on these open requests grants or offers.
pub(super) fn after<'a>(
    view: &'a View,
    open: &BTreeMap<RequestId, &Request>,
    decision: &Decision,
) -> Draft<'a> {
    let mut draft = Draft::new(view);
    for choice in &decision.choices {
        let Some(request) = open.get(&choice.request) else { continue };
        match &choice.verdict {
            Verdict::Grant(met) | Verdict::Keep { portion: met, .. } => draft.book(request, met),
            Verdict::Offer { offers, .. } => {
                offers.iter().for_each(|offer| draft.book(request, offer));
            }
            Verdict::Refuse { .. } | Verdict::Wait(_) | Verdict::Pass(_) => {}
        }
    }
    draft
}

/// The most that is free of a request from `start` on, bundle by bundle: of items that belong together all or nothing,
/// of others as many units as there are. It is taken from the draft. `None` if the term has no end.
pub(super) fn most(draft: &mut Draft<'_>, request: &Request, start: Time) -> Option<Allocation> {
    let term = Term::lasting(start, request.duration).ok()?;
    let mut parts = vec![Vec::new(); request.items.len()];
    for bundle in bundles(request) {
        let items = bundle.iter().filter_map(|place| request.items.get(*place)).cloned();
        let all = from_then_on(request, start, items.collect());
        let Some(found) = meet(draft, &all) else { continue };
        for (place, part) in bundle.into_iter().zip(found.parts) {
            if let Some(of) = parts.get_mut(place) {
                *of = part;
            }
        }
    }
    Some(Allocation { term, parts })
}

/// Why a portion is not all of a request. A refusal for good becomes busy if some existing units were not free: at
/// another time there may be enough.
pub(super) fn lacking(
    view: &View,
    request: &Request,
    portion: &Allocation,
    refusal: &Refusal,
) -> Refusal {
    let kept =
        |part: &Vec<(_, u32)>| part.iter().fold(0, |sum: u32, (_, n)| sum.saturating_add(*n));
    let mut items = request.items.iter().zip(portion.parts.iter().map(kept));
    let taken = items.find(|(item, kept)| *kept < item.units.get().min(exist(view, item)));
    match (taken, refusal) {
        (Some((item, free)), _) if refusal.outlook() == Outlook::Never => Refusal::Busy {
            resource: item.resource.clone(),
            asked: item.units.get(),
            free,
            earliest: None,
            in_the_way: Vec::new(),
        },
        (Some(_) | None, _) => refusal.clone(),
    }
}

/// How many units there are for an item, free or not.
fn exist(view: &View, item: &Item) -> u32 {
    let suits = |source: &Source| {
        item.requirements.first_broken(&source.attributes, &Properties::default()).is_none()
    };
    let units = view.sources_of(&item.resource).filter(suits).map(|source| source.units);
    units.fold(0, u32::saturating_add)
}

/// All of these items or, of a single one, as many units as there are.
fn meet(draft: &mut Draft<'_>, all: &Request) -> Option<Allocation> {
    let start = all.earliest;
    let keep = |_: &Item| None;
    if let Ok(found) = draft.meet(all, start, Placement::Even, keep) {
        return Some(found);
    }
    let [item] = all.items.as_slice() else { return None };
    if item.together.is_some() {
        return None;
    }
    let some = Item { min_units: NonZeroU32::MIN, ..item.clone() };
    draft.meet(&from_then_on(all, start, vec![some]), start, Placement::Even, keep).ok()
}
