//! What brokers tell those that pass requests on to them: that they are there, and what they have.
//!
//! Neither a fact nor a promise: it says whom to ask first, and whom not at all.

use std::borrow::Borrow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::codec::{self, Hash};
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::resource::Attributes;
use crate::model::time::{Span, Time};
use crate::wire::request::Item;

/// The most entries of an advert; those that are furthest away are left out.
pub const MAX_ENTRIES: usize = 256;

/// The most bytes that they take.
pub const MAX_BYTES: usize = 1 << 16;

/// How far away units are that a broker tells of: those that it would pass a request on for count as one hop more.
pub const FURTHEST: u8 = 3;

/// The longest that one advert counts.
pub const LONGEST: Span = Span::DAY;

/// What a broker tells one that passes requests on to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advert {
    /// For how long the sender is taken to be there.
    pub lasts: Span,
    /// What it has, as far as it discloses that.
    pub entries: Entries,
}

/// What an advert says of units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entries {
    /// All there is to say.
    All(Vec<AdvertEntry>),
    /// As an earlier advert whose entries have this [digest].
    Same(Hash),
}

/// Units of one type that a broker has or knows of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdvertEntry {
    /// How many times a request is passed on to get there: 1 for those of the sender.
    pub hops: u8,
    /// The type.
    pub resource: Name,
    /// What the units are like, if that is disclosed.
    pub attributes: Option<Arc<Attributes>>,
    /// How many are free; without a number, some are.
    pub free: Option<u32>,
    /// If none is free: when one will be, unless it is taken before.
    pub next: Option<Time>,
}

impl AdvertEntry {
    /// Whether the units are what an item asks for, as far as their attributes are disclosed.
    pub fn suits(&self, item: &Item) -> bool {
        let none = Properties::default();
        let meets = |attributes: &Arc<Attributes>| {
            item.requirements.first_broken(attributes, &none).is_none()
        };
        self.resource == item.resource && self.attributes.as_ref().is_none_or(meets)
    }
}

/// Tells the entries of two adverts apart.
pub fn digest(entries: &[AdvertEntry]) -> Hash {
    Hash::of("tenure advert v1", &[&codec::encode(&entries)])
}

/// The first of these entries, as many as one advert has.
pub(crate) fn fitting<E: Borrow<AdvertEntry>>(
    entries: impl IntoIterator<Item = E>,
) -> impl Iterator<Item = E> {
    let (mut bytes, mut encoded) = (0, Vec::new());
    let fits = move |entry: &E| {
        encoded.clear();
        codec::encode_into(entry.borrow(), &mut encoded);
        bytes += encoded.len();
        bytes <= MAX_BYTES
    };
    entries.into_iter().take(MAX_ENTRIES).take_while(fits)
}

impl Advert {
    /// Whether it is within its bounds; the reason if not.
    ///
    /// # Errors
    /// Which bound it exceeds.
    pub fn check(&self) -> Result<(), String> {
        if !self.lasts.is_positive() || self.lasts > LONGEST {
            return Err(format!("an advert counts for more than no time and at most {LONGEST}"));
        }
        let Entries::All(entries) = &self.entries else { return Ok(()) };
        if entries.len() > MAX_ENTRIES {
            return Err(format!("an advert has at most {MAX_ENTRIES} entries"));
        }
        if fitting(entries).count() < entries.len() {
            return Err(format!("the entries of an advert take at most {MAX_BYTES} bytes"));
        }
        let away = |entry: &AdvertEntry| (1..=FURTHEST).contains(&entry.hops);
        if !entries.iter().all(away) {
            return Err(format!("an advert tells of units that are 1 to {FURTHEST} hops away"));
        }
        Ok(())
    }
}
