//! The form of a script: blocks of commands, each followed by `----` and the trace that it caused.

use std::collections::{BTreeMap, VecDeque};

use tenure_core::model::resource::Expr;
use tenure_core::model::time::{Span, Time};
use tenure_core::wire::message::Message;

use super::names;

/// What is wrong, in words.
pub type Bad = String;

/// A script as it is written.
pub struct Script {
    pub parts: Vec<Part>,
}

/// A piece of a script.
pub enum Part {
    /// A comment or an empty line.
    Verbatim(String),
    /// Commands that are carried out one after the other, and then shown with their trace.
    Block(Vec<Command>),
}

/// One command: its line, and the indented lines below it.
pub struct Command {
    pub number: usize,
    pub lines: Vec<String>,
}

/// Where commands end and their trace begins.
const RULE: &str = "----";

impl Script {
    /// Reads a script. The traces in it are not looked at: they are what comes out.
    pub fn read(text: &str) -> Result<Self, (usize, Bad)> {
        let mut parts = Vec::new();
        let mut lines = (1..).zip(text.lines());
        while let Some((number, line)) = lines.next() {
            if line.trim().is_empty() || line.starts_with('#') {
                parts.push(Part::Verbatim(line.to_owned()));
                continue;
            }
            parts.push(Part::Block(commands((number, line), &mut lines)?));
            for (_, line) in lines.by_ref() {
                if line.trim().is_empty() {
                    parts.push(Part::Verbatim(String::new()));
                    break;
                }
            }
        }
        Ok(Self { parts })
    }

    /// The comment at the top.
    pub fn head(&self) -> Vec<&str> {
        let comments = self.parts.iter().map_while(|part| match part {
            Part::Verbatim(line) => line.strip_prefix('#').map(str::trim),
            Part::Block(_) => None,
        });
        comments.collect()
    }

    /// The script with the trace that each block caused.
    pub fn with_traces(&self, traces: &[Vec<String>]) -> String {
        let (mut out, mut traces) = (Vec::new(), traces.iter());
        for part in &self.parts {
            match part {
                Part::Verbatim(line) => out.push(line.clone()),
                Part::Block(commands) => {
                    out.extend(commands.iter().flat_map(|command| command.lines.clone()));
                    out.push(RULE.to_owned());
                    out.extend(traces.next().into_iter().flatten().cloned());
                }
            }
        }
        out.join("\n") + "\n"
    }
}

/// The commands from a first line on, down to the rule.
fn commands<'a>(
    first: (usize, &'a str),
    rest: &mut impl Iterator<Item = (usize, &'a str)>,
) -> Result<Vec<Command>, (usize, Bad)> {
    let mut commands: Vec<Command> = Vec::new();
    for (number, line) in std::iter::once(first).chain(rest) {
        if line == RULE {
            return Ok(commands);
        }
        if line.trim().is_empty() {
            break;
        }
        match commands.last_mut() {
            Some(command) if line.starts_with(' ') => command.lines.push(line.to_owned()),
            None if line.starts_with(' ') => {
                let bad = "an indented line belongs to a command above it".to_owned();
                return Err((number, bad));
            }
            _ => commands.push(Command { number, lines: vec![line.to_owned()] }),
        }
    }
    Err((first.0, format!("these commands have no `{RULE}` below them")))
}

/// The words of a line: plain ones in order, and `key=value` ones by key.
pub struct Args {
    plain: VecDeque<String>,
    options: BTreeMap<String, String>,
    /// The indented lines below.
    pub below: Vec<Self>,
}

impl Args {
    pub fn of(command: &Command) -> Self {
        let mut lines = command.lines.iter().map(|line| Self::of_line(line));
        let first = lines.next().unwrap_or_else(|| Self::of_line(""));
        Self { below: lines.collect(), ..first }
    }

    pub fn of_line(line: &str) -> Self {
        let (mut plain, mut options) = (VecDeque::new(), BTreeMap::new());
        let mut rest = line.trim_start();
        while !rest.is_empty() {
            // What stands between single quotes is one plain word, and keeps the first of them.
            let quoted = rest.starts_with('\'').then(|| rest[1..].find('\'')).flatten();
            let end = quoted.map_or_else(
                || rest.find(char::is_whitespace).unwrap_or(rest.len()),
                |end| end + "'".len(),
            );
            let word = &rest[..end];
            match word.split_once('=').filter(|_| quoted.is_none()) {
                Some((key, value)) => {
                    options.insert(key.to_owned(), value.to_owned()).map_or((), drop)
                }
                None => plain.push_back(word.to_owned()),
            }
            rest = rest[end..].trim_start_matches('\'').trim_start();
        }
        Self { plain, options, below: Vec::new() }
    }

    /// All that is left, as text.
    pub fn text(&self) -> String {
        format!("{:?} {:?}", self.plain, self.options)
    }

    /// The next word as a condition, which stands between single quotes.
    pub fn condition(&mut self) -> Result<Expr, Bad> {
        let word = self.next("a condition")?;
        let source = word.strip_prefix('\'').ok_or("a condition stands between single quotes")?;
        Expr::parse_condition(source).map_err(|error| format!("\n{}", error.render(source)))
    }

    /// The next plain word.
    pub fn next(&mut self, what: &str) -> Result<String, Bad> {
        self.plain.pop_front().ok_or_else(|| format!("{what} is missing"))
    }

    /// Whether the plain words begin with these.
    pub fn begin_with(&self, words: &[&str]) -> bool {
        self.plain.len() >= words.len() && self.plain.iter().zip(words).all(|(a, b)| a == b)
    }

    /// The next plain word as a kind of message; any kind if there is none.
    pub fn kind(&mut self) -> Result<String, Bad> {
        let kind = self.maybe().unwrap_or_else(|| "*".to_owned());
        if kind == "*" || Message::KINDS.contains(&kind.as_str()) {
            return Ok(kind);
        }
        Err(format!("`{kind}` is no kind of message; known: {}", Message::KINDS.join(", ")))
    }

    /// The next plain word if it is this one.
    pub fn has(&mut self, word: &str) -> bool {
        let found = self.plain.front().is_some_and(|next| next == word);
        if found {
            self.plain.pop_front();
        }
        found
    }

    /// The next plain word, if there is one.
    pub fn maybe(&mut self) -> Option<String> {
        self.plain.pop_front()
    }

    pub fn number<N: std::str::FromStr>(&mut self, what: &str) -> Result<N, Bad> {
        let word = self.next(what)?;
        word.parse().map_err(|_| format!("`{word}` is no number ({what})"))
    }

    pub fn option(&mut self, key: &str) -> Option<String> {
        self.options.remove(key)
    }

    /// All options that are left.
    pub fn all_options(&mut self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.options)
    }

    pub fn number_option<N: std::str::FromStr>(&mut self, key: &str) -> Result<Option<N>, Bad> {
        self.read_option(key, |text| text.parse().map_err(|_| format!("`{text}` is no number")))
    }

    pub fn time_option(&mut self, key: &str) -> Result<Option<Time>, Bad> {
        self.read_option(key, time)
    }

    pub fn span_option(&mut self, key: &str) -> Result<Option<Span>, Bad> {
        self.read_option(key, span)
    }

    fn read_option<T>(
        &mut self,
        key: &str,
        read: impl Fn(&str) -> Result<T, Bad>,
    ) -> Result<Option<T>, Bad> {
        let value = self.option(key);
        value.map(|value| read(&value)).transpose().map_err(|bad| format!("{key}: {bad}"))
    }

    /// Reports arguments that were not used.
    pub fn done(&self) -> Result<(), Bad> {
        let below = self.below.first().map(|_| "an indented line".to_owned());
        let option = self.options.keys().next().map(|key| format!("`{key}=`"));
        match self.plain.front().map(|word| format!("`{word}`")).or(option).or(below) {
            Some(word) => Err(format!("{word} has no meaning here")),
            None => Ok(()),
        }
    }
}

/// `10:00`, `10:00:30`, `10:00+1d`: a time of the first day, or of a later one.
pub fn time(text: &str) -> Result<Time, Bad> {
    let bad = || format!("`{text}` is no time: write `10:00`, `10:00:30` or `10:00+1d`");
    let (clock, days) = match text.split_once('+') {
        Some((clock, days)) => {
            (clock, days.strip_suffix('d').and_then(|d| d.parse().ok()).ok_or_else(bad)?)
        }
        None => (text, 0),
    };
    let parts: Option<Vec<i64>> = clock.split(':').map(|part| part.parse().ok()).collect();
    let secs = match parts.ok_or_else(bad)?[..] {
        [hours, minutes] => hours * 3600 + minutes * 60,
        [hours, minutes, seconds] => hours * 3600 + minutes * 60 + seconds,
        _ => return Err(bad()),
    };
    Ok(Time::ZERO.plus(Span::DAY.times(days)).plus(Span::from_secs(secs)))
}

/// `2h`, `30m`, `-4s`.
pub fn span(text: &str) -> Result<Span, Bad> {
    let (sign, length) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    length.parse::<Span>().map(|span| span.times(sign)).map_err(|bad| bad.to_string())
}

/// `a->b`.
pub fn way(text: &str) -> Result<(String, String), Bad> {
    let both = text.split_once("->").filter(|(from, to)| !from.is_empty() && !to.is_empty());
    let (from, to) = both.ok_or_else(|| format!("`{text}` is no way: write `FROM->TO`"))?;
    Ok((from.to_owned(), to.to_owned()))
}

/// `guest/1`: a lease or a request, by its guest and number.
pub fn numbered(text: &str) -> Result<(String, String), Bad> {
    let both = text.split_once('/').ok_or_else(|| format!("`{text}` is not `GUEST/NUMBER`"))?;
    Ok((both.0.to_owned(), both.1.to_owned()))
}

#[test]
fn times_are_read_as_they_are_shown() {
    for shown in ["10:00", "09:59:30", "00:00+1d", "23:59:59+30d"] {
        assert_eq!(names::clock(time(shown).unwrap()), shown);
    }
    assert!(time("noon").unwrap_err().contains("`noon` is no time"));
}
