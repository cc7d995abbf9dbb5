//! Names of places and parts, of which there can be several equal ones.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::BadProblem;

/// Where the copies of each name are in the list of all copies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names<'p> {
    /// The noun for messages.
    noun: &'static str,
    groups: BTreeMap<&'p str, Group>,
    /// The first copy of each entry, and at the end how many there are.
    starts: Vec<u32>,
    entries: Vec<(&'p str, bool)>,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    entry: usize,
    counted: bool,
}

/// The most copies of all entries together.
const MAX_COPIES: u32 = 16_000_000;

impl<'p> Names<'p> {
    pub(crate) fn new(
        noun: &'static str,
        entries: impl Iterator<Item = (&'p str, Option<u32>)>,
    ) -> Result<Self, BadProblem> {
        let mut names = Self { noun, ..Self::default() };
        let mut groups: Vec<(&str, Group)> = Vec::new();
        let mut total = 0_u32;
        for (entry, (name, count)) in entries.enumerate() {
            let at = || format!("{noun} `{name}`");
            if name.is_empty() || name.chars().any(char::is_control) {
                return Err(BadProblem::new(format!("{noun}[{entry}].name"), "give it a name"));
            }
            if count == Some(0) {
                return Err(BadProblem::new(format!("{}, count", at()), "must be 1 or more"));
            }
            groups.push((name, Group { entry, counted: count.is_some() }));
            names.starts.push(total);
            names.entries.push((name, count.is_some()));
            let sum = total.checked_add(count.unwrap_or(1)).filter(|sum| *sum <= MAX_COPIES);
            total = sum.ok_or_else(|| {
                BadProblem::new(at(), format!("there are more than {MAX_COPIES} in all"))
            })?;
        }
        names.starts.push(total);
        groups.sort_by_key(|(name, _)| *name);
        if let Some(pair) = groups.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let message = format!("there are two of this name; each {noun} needs its own");
            return Err(BadProblem::new(format!("{noun} `{}`", pair[0].0), message));
        }
        names.groups = groups.into_iter().collect();
        Ok(names)
    }

    /// How many copies there are of all.
    pub(crate) fn len(&self) -> usize {
        self.starts.last().map_or(0, |total| *total as usize)
    }

    /// The copies of an entry.
    pub(crate) fn copies(&self, entry: usize) -> Range<usize> {
        self.starts[entry] as usize..self.starts[entry + 1] as usize
    }

    /// The entry of each copy, in order.
    pub(crate) fn entries(&self) -> Vec<u32> {
        let mut entries = Vec::with_capacity(self.len());
        for (entry, pair) in self.starts.windows(2).enumerate() {
            let copies = (pair[1] - pair[0]) as usize;
            entries.resize(entries.len() + copies, u32::try_from(entry).unwrap_or(u32::MAX));
        }
        entries
    }

    /// The copies that a name means: all of an entry, or one.
    pub(crate) fn find(&self, name: &str) -> Option<Range<usize>> {
        if let Some(group) = self.groups.get(name) {
            return Some(self.copies(group.entry));
        }
        let (entry, number) = name.rsplit_once('/')?;
        let group = self.groups.get(entry).filter(|group| group.counted)?;
        let copies = self.copies(group.entry);
        let number: usize =
            number.parse().ok().filter(|number| (1..=copies.len()).contains(number))?;
        Some(copies.start + number - 1..copies.start + number)
    }

    /// The copies that a name means.
    pub(crate) fn resolve(&self, at: &str, name: &str) -> Result<Range<usize>, BadProblem> {
        self.find(name).ok_or_else(|| self.unknown(at, name))
    }

    /// The only copy that a name means.
    pub(crate) fn resolve_one(&self, at: &str, name: &str) -> Result<usize, BadProblem> {
        let copies = self.resolve(at, name)?;
        if copies.len() == 1 {
            return Ok(copies.start);
        }
        let message =
            format!("there are {} of `{name}`; name one, such as `{name}/1`", copies.len());
        Err(BadProblem::new(at, message))
    }

    /// The name of a copy.
    pub(crate) fn title(&self, copy: usize) -> String {
        let entry = self.starts.partition_point(|start| *start as usize <= copy) - 1;
        let (name, counted) = self.entries[entry];
        if counted {
            format!("{name}/{}", copy - self.starts[entry] as usize + 1)
        } else {
            name.to_owned()
        }
    }

    fn unknown(&self, at: &str, name: &str) -> BadProblem {
        let noun = self.noun;
        let known: Vec<&str> = self.groups.keys().copied().take(8).collect();
        let more = if self.groups.len() > known.len() { ", ..." } else { "" };
        let message = format!("no {noun} has the name `{name}`; known: {}{more}", known.join(", "));
        BadProblem::new(at, message)
    }
}
