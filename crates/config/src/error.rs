//! What is wrong with a file, and where.

use std::fmt;
use std::ops::Range;

use thiserror::Error;

/// How alike two words must be before one is suggested for the other.
const ALIKE: f64 = 0.8;

/// How many known words a help line lists.
const LISTED: usize = 24;

/// Where in its sources a configuration is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the file.
    File {
        /// Which file, if there are several.
        file: Option<Box<str>>,
        /// The line, counted from 1.
        line: u32,
        /// The column in characters, counted from 1.
        column: u32,
        /// The bytes of the text that are to blame.
        span: Range<usize>,
    },
    /// In an option of the command line; its text as it was given.
    Override(String),
    /// Not in one place: something is missing, or a default does not fit.
    Whole,
}

/// Why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}: {message}", Where(file, place))]
pub struct ConfigError {
    /// The name of the file.
    pub file: String,
    /// Where it is wrong.
    pub place: Place,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl ConfigError {
    /// An error at a place of `file`.
    pub fn at(
        file: &str,
        place: &Place,
        message: impl Into<String>,
        help: impl Into<Option<String>>,
    ) -> Self {
        let (file, place) = (file.to_owned(), place.clone());
        Self { file, place, message: message.into(), help: help.into() }
    }
}

impl ConfigError {
    /// The file that is to blame.
    pub fn file(&self) -> &str {
        match &self.place {
            Place::File { file: Some(file), .. } => file,
            Place::File { file: None, .. } | Place::Override(_) | Place::Whole => &self.file,
        }
    }
}

struct Where<'a>(&'a str, &'a Place);

impl fmt::Display for Where<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(file, place) = self;
        match place {
            Place::File { file: one, line, column, .. } => {
                write!(f, "{}:{line}:{column}", one.as_deref().unwrap_or(file))
            }
            Place::Override(option) => write!(f, "in {option}"),
            Place::Whole => f.write_str(file),
        }
    }
}

/// A help line for a word that is not among the known ones: the nearest of them, and all of them.
pub fn suggestion<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let nearest = known
        .iter()
        .map(|word| (strsim::jaro_winkler(unknown, word), word))
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, word)| format!("did you mean `{word}`? "))
        .unwrap_or_default();
    match known.len() {
        0 => "none is known".to_owned(),
        n if n > LISTED => format!("{nearest}known: {}, ...", known[..LISTED].join(", ")),
        _ => format!("{nearest}known: {}", known.join(", ")),
    }
}

/// What serde says, in words that name no type of Rust, with a help line.
pub fn in_plain_words(message: &str) -> (String, Option<String>) {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let first = quoted.next().unwrap_or_default();
    if message.starts_with("unknown field") {
        return (format!("unknown key `{first}`"), Some(suggestion(first, quoted)));
    }
    if message.starts_with("unknown variant") {
        return (format!("unknown value `{first}`"), Some(suggestion(first, quoted)));
    }
    if message.starts_with("missing field") {
        return (format!("the key `{first}` is missing"), example(first));
    }
    let mut message = message.to_owned();
    for (word, plain) in [
        ("expected a nonzero u32", "expected a whole number from 1 to 4294967295"),
        ("expected a nonzero u64", "expected a whole number of at least 1"),
        ("expected path string", "expected a path"),
        ("expected u32", "expected a whole number from 0 to 4294967295"),
        ("expected u64", "expected a whole number of at least 0"),
        ("expected f64", "expected a number"),
        ("expected a map", "expected a table"),
        ("expected a sequence", "expected an array"),
        ("invalid type: map,", "invalid type: table,"),
        ("invalid type: sequence,", "invalid type: array,"),
        ("invalid type: unit variant, expected string only", "expected text"),
    ] {
        message = message.replace(word, plain);
    }
    (message, None)
}

fn example(key: &str) -> Option<String> {
    if key == "id" {
        return Some("its owner reads it with `tenure keys show`".to_owned());
    }
    let example = match key {
        "horizon" => "horizon = \"30d\"",
        "term" => "term = \"1h\"",
        "capacity" => "capacity = 140",
        _ => return None,
    };
    Some(format!("write, for example, `{example}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_where_it_is() {
        let shown = |place| ConfigError::at("a.toml", &place, "wrong", None).to_string();
        assert_eq!(
            shown(Place::File { file: None, line: 3, column: 7, span: 30..34 }),
            "a.toml:3:7: wrong"
        );
        assert_eq!(shown(Place::Override("--set term=12x".into())), "in --set term=12x: wrong");
        assert_eq!(shown(Place::Whole), "a.toml: wrong");
    }

    #[test]
    fn a_suggestion_names_the_nearest_and_all() {
        assert_eq!(
            suggestion("hozizon", ["step", "horizon"]),
            "did you mean `horizon`? known: step, horizon"
        );
        assert_eq!(suggestion("xyz", ["step", "horizon"]), "known: step, horizon");
        assert_eq!(suggestion("xyz", []), "none is known");
    }
}
