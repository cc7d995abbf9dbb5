//! Names and addresses: each unit has a number in its slice, each slice a block of addresses.
//!
//! A slice is known by its guest and its name, so that two guests who chose the same name share nothing.
//! The block is taken when the first unit of a slice comes, and given back with the last; a number is
//! the lowest that is free. All of it is on disk before a unit has it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use tenure_core::driver::{Call, DriverError};
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::SliceName;

use super::fence::hold;
use super::record::{Key, read, write};

/// Which numbers are taken.
#[derive(Debug)]
pub(crate) struct Roster {
    file: PathBuf,
    slices: Mutex<Vec<Slice>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Slice {
    guest: ActorId,
    slice: SliceName,
    block: u32,
    units: BTreeMap<u32, Key>,
}

/// Where a unit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Place {
    /// The block of its slice, from 0.
    pub(crate) block: u32,
    /// Its number in the slice, from 1.
    pub(crate) number: u32,
}

impl Roster {
    /// Opens the roster in a driver's folder.
    pub(crate) fn open(home: &Path) -> io::Result<Self> {
        let file = home.join("roster.json");
        let slices = Mutex::new(read(&file)?.unwrap_or_default());
        Ok(Self { file, slices })
    }

    /// Gives the unit of a call a place in its slice: the one it has, or a free one.
    pub(crate) fn take(&self, call: &Call) -> Result<Place, DriverError> {
        let key = Key::of(call);
        self.change(|slices| {
            let same = |slice: &Slice| slice.guest == call.guest && slice.slice == call.slice;
            strike(slices, key, |slice| !same(slice));
            let at = match slices.iter().position(same) {
                Some(at) => at,
                None => {
                    let taken = |block: &u32| slices.iter().any(|slice| slice.block == *block);
                    let block = (0..).find(|block| !taken(block)).unwrap_or(u32::MAX);
                    let (guest, slice) = (call.guest, call.slice.clone());
                    slices.push(Slice { guest, slice, block, units: BTreeMap::new() });
                    slices.len() - 1
                }
            };
            let Slice { block, units, .. } = &mut slices[at];
            let held = units.iter().find(|(_, unit)| **unit == key).map(|(number, _)| *number);
            let free = || (1..).find(|number| !units.contains_key(number)).unwrap_or(u32::MAX);
            let number = held.unwrap_or_else(free);
            units.insert(number, key);
            Place { block: *block, number }
        })
    }

    /// Takes its place from a unit, if it has one.
    pub(crate) fn release(&self, key: Key) -> Result<(), DriverError> {
        self.change(|slices| strike(slices, key, |_| true))
    }

    /// The slices that have a unit here.
    pub(crate) fn slices(&self) -> Vec<(ActorId, SliceName)> {
        hold(&self.slices).iter().map(|slice| (slice.guest, slice.slice.clone())).collect()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Slice>) -> T) -> Result<T, DriverError> {
        let mut slices = hold(&self.slices);
        let mut changed = slices.clone();
        let answer = change(&mut changed);
        write(&self.file, &changed).map_err(|error| DriverError(error.to_string()))?;
        *slices = changed;
        Ok(answer)
    }
}

fn strike(slices: &mut Vec<Slice>, key: Key, from: impl Fn(&Slice) -> bool) {
    for slice in slices.iter_mut().filter(|slice| from(slice)) {
        slice.units.retain(|_, unit| *unit != key);
    }
    slices.retain(|slice| !slice.units.is_empty());
}

/// The host name of a unit: prefix and number, below the slice's subnet in the site's domain, if that has
/// a name. `host.prefix` and `subnet.name` are the guest's choice, its slice's name if it makes none.
pub(crate) fn host_name(
    call: &Call,
    place: Place,
    domain: Option<&str>,
) -> Result<String, DriverError> {
    let chosen = |key: &str| match call.properties.get(key) {
        Some(text) if is_label(text) => Ok(text.to_owned()),
        Some(text) => Err(DriverError::untouched(format!(
            "property `{key}` is `{}`: use 1 to {LABEL} of a-z, 0-9 and `-`, with no `-` at either end",
            text.chars().take(LABEL).collect::<String>().escape_debug()
        ))),
        None => Ok(label(call.slice.as_str())),
    };
    let (prefix, subnet) = (chosen("host.prefix")?, chosen("subnet.name")?);
    let host = format!("{prefix}{:02}", place.number);
    Ok(domain.map_or_else(|| host.clone(), |domain| format!("{host}.{subnet}.{domain}")))
}

/// The longest prefix: a label of a host name has room for 63, the number too.
const LABEL: usize = 50;

fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=LABEL).contains(&text.len())
        && text.chars().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Whether text is a host name: labels with dots between them.
pub(crate) fn is_host(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

/// A slice's name as a label.
fn label(name: &str) -> String {
    let plain: String = name.replace(['.', '_'], "-").chars().take(LABEL).collect();
    plain.trim_matches('-').to_owned()
}

/// A list of properties that the program itself spells.
pub(crate) fn list<const N: usize>(
    pairs: [(&'static str, Option<String>); N],
) -> Result<Properties, DriverError> {
    let pairs = pairs.into_iter().filter_map(|(key, value)| Some((Name::literal(key), value?)));
    let map: BTreeMap<Name, String> = pairs.collect();
    Properties::try_from(map).map_err(|error| DriverError(error.to_string()))
}
