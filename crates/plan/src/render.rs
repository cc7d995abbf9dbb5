//! From numbers back to names.

use std::collections::BTreeMap;

use crate::answer::Plan;
use crate::exact::Found;
use crate::model::Model;

/// The plan with the names of its problem.
pub(crate) fn plan(model: &Model<'_>, found: &Found) -> Plan {
    let mut plan = Plan::default();
    let mut placement: Vec<Vec<String>> = Vec::with_capacity(model.problem.part.len());
    let mut install: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    let mut libraries: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for (index, part) in model.problem.part.iter().enumerate() {
        let mut hosts = Vec::with_capacity(model.items.copies(index).len());
        for item in model.items.copies(index) {
            let place = found.host[model.block_of[item] as usize] as usize;
            hosts.push(model.places.title(place));
            if model.reuses(index, place) {
                plan.reused.push(model.items.title(item));
                continue;
            }
            if let Some(package) = &part.package {
                install.entry(place).or_default().push(package.to_string());
            }
            let needed = &model.rules[index].libraries;
            if !needed.is_empty() {
                libraries.entry(place).or_default().extend(needed);
            }
        }
        placement.push(hosts);
    }
    let by_name = model.items.by_name();
    let named =
        |part: usize| (model.problem.part[part].name.clone(), std::mem::take(&mut placement[part]));
    plan.placement = by_name.map(named).collect();
    for (place, mut needed) in libraries {
        needed.sort_unstable();
        needed.dedup();
        let kind = model.kind[place] as usize;
        for library in needed {
            if !model.libraries[library as usize].installed.contains(kind) {
                let package = &model.problem.library[library as usize].package;
                install.entry(place).or_default().push(package.to_string());
            }
        }
    }
    for (place, mut packages) in install {
        packages.sort();
        plan.install.insert(model.places.title(place), packages);
    }
    for (link, path) in model.problem.link.iter().zip(&found.paths) {
        let edges = path.iter().map(|edge| model.problem.edge[*edge as usize].title());
        plan.paths.insert(link.title(), edges.collect());
    }
    plan
}
