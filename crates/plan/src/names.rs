//! Names of places and parts, of which there can be several equal ones.

use std::ops::Range;

use crate::error::BadProblem;

/// Where the copies of each name are in the list of all copies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names<'p> {
    /// The noun for messages.
    noun: &'static str,
    /// The entries by name.
    sorted: Vec<u32>,
    /// The first copy of each entry, and at the end how many there are.
    starts: Vec<u32>,
    /// The name of each, and whether its copies have numbers.
    entries: Vec<(&'p str, bool)>,
}

/// The most copies of all entries together.
const MAX_COPIES: u32 = 16_000_000;

impl<'p> Names<'p> {
    pub(crate) fn new(
        noun: &'static str,
        entries: impl Iterator<Item = (&'p str, Option<u32>)>,
    ) -> Result<Self, BadProblem> {
        let mut names = Self { noun, ..Self::default() };
        let mut total = 0_u32;
        for (entry, (name, count)) in entries.enumerate() {
            let at = || format!("{noun} `{name}`");
            if name.is_empty() || name.chars().any(char::is_control) {
                return Err(BadProblem::new(format!("{noun}[{entry}].name"), "give it a name"));
            }
            if count == Some(0) {
                return Err(BadProblem::new(format!("{}, count", at()), "must be 1 or more"));
            }
            names.starts.push(total);
            names.entries.push((name, count.is_some()));
            let sum = total.checked_add(count.unwrap_or(1)).filter(|sum| *sum <= MAX_COPIES);
            total = sum.ok_or_else(|| {
                BadProblem::new(at(), format!("there are more than {MAX_COPIES} in all"))
            })?;
        }
        names.starts.push(total);
        names.sorted = sorted(&names.entries);
        let twice = |pair: &&[u32]| names.name(pair[0]) == names.name(pair[1]);
        if let Some(pair) = names.sorted.windows(2).find(twice) {
            let message = format!("there are two of this name; each {noun} needs its own");
            return Err(BadProblem::new(format!("{noun} `{}`", names.name(pair[0])), message));
        }
        Ok(names)
    }

    fn name(&self, entry: u32) -> &'p str {
        self.entries[entry as usize].0
    }

    /// The entries in the order of their names.
    pub(crate) fn by_name(&self) -> impl Iterator<Item = usize> {
        self.sorted.iter().map(|entry| *entry as usize)
    }

    /// The entry of a name.
    fn entry(&self, name: &str) -> Option<usize> {
        let place = self.sorted.binary_search_by(|entry| self.name(*entry).cmp(name)).ok()?;
        Some(self.sorted[place] as usize)
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
        if let Some(entry) = self.entry(name) {
            return Some(self.copies(entry));
        }
        let (entry, number) = name.rsplit_once('/')?;
        let entry = self.entry(entry).filter(|entry| self.entries[*entry].1)?;
        let copies = self.copies(entry);
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
        let known: Vec<&str> = self.sorted.iter().take(8).map(|entry| self.name(*entry)).collect();
        let more = if self.sorted.len() > known.len() { ", ..." } else { "" };
        let message = format!("no {noun} has the name `{name}`; known: {}{more}", known.join(", "));
        BadProblem::new(at, message)
    }
}

/// The entries by name. Their first letters are compared as numbers, which is much faster for many.
fn sorted(entries: &[(&str, bool)]) -> Vec<u32> {
    let key = |(entry, (name, _)): (u32, &(&str, bool))| (first_letters(name), entry);
    let mut keys: Vec<(u128, u32)> = (0..).zip(entries).map(key).collect();
    keys.sort_unstable_by(|(first, one), (second, other)| {
        let names = || entries[*one as usize].0.cmp(entries[*other as usize].0);
        first.cmp(second).then_with(names).then(one.cmp(other))
    });
    keys.into_iter().map(|(_, entry)| entry).collect()
}

/// The first letters of a name, ordered as names are: none of them is zero.
fn first_letters(name: &str) -> u128 {
    let mut letters = [0; 16];
    for (to, from) in letters.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    u128::from_be_bytes(letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_also_where_their_first_letters_are_equal() {
        let long = "a long name that ends with ";
        let all = [format!("{long}b"), "b".to_owned(), format!("{long}a"), String::from("é")];
        let names = Names::new("part", all.iter().map(|name| (name.as_str(), None))).unwrap();
        assert_eq!(names.by_name().collect::<Vec<_>>(), [2, 0, 1, 3]);
        for (entry, name) in all.iter().enumerate() {
            assert_eq!(names.find(name), Some(entry..entry + 1));
        }
        assert_eq!(names.find("a"), None);
        let twice = all.iter().chain(&all[..1]).map(|name| (name.as_str(), None));
        assert!(Names::new("part", twice).unwrap_err().message.contains("two of this name"));
    }
}
