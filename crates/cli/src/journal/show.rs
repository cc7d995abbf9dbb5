//! `tenure journal show`: the facts of a journal, one line each.

use std::io::{self, Write};
use std::path::Path;

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use serde_json::{Map, Value, json};

use tenure_core::model::name::Name;
use tenure_core::model::time::{Term, Time};
use tenure_core::runtime::{Entry, Fact};
use tenure_core::ticket::Ticket;
use tenure_node::journal::{JournalError, Reader};

use super::ShowArgs;
use super::paths;
use super::subject::{Subject, Subjects, tickets};
use crate::Console;
use crate::args::Format;
use crate::error::Error;
use crate::moment;
use crate::text::printable;

/// The least room beside the head of a fact that its words are put into.
const LEAST_ROOM: u16 = 40;

/// A fact that is shown.
struct Shown {
    actor: Name,
    position: u64,
    entry: Entry,
    subject: Subject,
}

/// Prints the facts that `args` ask for: of one journal in their order, of several by their times.
pub(super) fn show(args: &ShowArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let paths = paths::journals(&args.paths)?;
    let form = Form { format: args.output, several: paths.len() > 1, width: console.width };
    let out = &mut *console.out;
    let (mut first, mut failed) = (true, None);
    form.begin(out)?;
    let mut print = |shown: &Shown| {
        if failed.is_none() {
            failed = shown.print(form, std::mem::take(&mut first), out).err();
        }
    };
    if let [path] = &paths[..] {
        wanted(path, args, |shown| print(&shown))?;
    } else {
        let mut all = Vec::new();
        for path in &paths {
            wanted(path, args, |shown| all.push(shown))?;
        }
        all.sort_by_key(|shown| shown.entry.at);
        all.iter().for_each(print);
    }
    failed.map_or(Ok(()), Err)?;
    if form.format == Format::Json {
        writeln!(out, "\n]}}")?;
    }
    Ok(out.flush()?)
}

/// Hands on the facts of a journal that `args` ask for.
fn wanted(path: &Path, args: &ShowArgs, mut each: impl FnMut(Shown)) -> Result<(), JournalError> {
    let reader = Reader::open(path)?;
    let mut subjects = Subjects::default();
    let read = reader.read(|position, entry| {
        let subject = subjects.next(&entry.fact);
        let shown = Shown { actor: reader.owner().name.clone(), position, entry, subject };
        if shown.is_wanted(args) {
            each(shown);
        }
        Ok(())
    });
    read.map(|_| ())
}

/// How facts are printed, and whether they need their actor's name.
#[derive(Clone, Copy)]
struct Form {
    format: Format,
    several: bool,
    /// How wide the terminal is, if it is one.
    width: Option<u16>,
}

impl Form {
    fn begin(self, out: &mut dyn Write) -> io::Result<()> {
        match self.format {
            Format::Table => {
                let (actor, kind) = (self.actor("actor"), "kind");
                let head =
                    format!("{:>8}  {:<27}  {actor}{:<8} {kind:<38}", "fact", "time", "lease");
                self.line(&head, "what", out)
            }
            Format::Json => writeln!(out, "{{\"version\": 1, \"facts\": ["),
            Format::Jsonl => Ok(()),
            Format::Csv => writeln!(out, "position,time,kind,lease,slice,what,actor"),
        }
    }

    /// Prints a fact in a line. On a terminal the words are wrapped beside its head or, where there is
    /// little room for them, below it.
    fn line(self, head: &str, words: &str, out: &mut dyn Write) -> io::Result<()> {
        let (head, words) = (printable(head), printable(words));
        let head_width = u16::try_from(head.chars().count()).unwrap_or(u16::MAX);
        let Some(width) = self.width else {
            return writeln!(out, "{}", format!("{head} {words}").trim_end());
        };
        let (indent, beside) = match width.checked_sub(head_width + 1) {
            Some(room) if room >= LEAST_ROOM => (head_width + 1, true),
            Some(_) | None => (4, false),
        };
        let mut words = wrapped(&words, width.saturating_sub(indent)).into_iter();
        if beside {
            let first = format!("{head} {}", words.next().unwrap_or_default());
            writeln!(out, "{}", first.trim_end())?;
        } else {
            let head = head.split_whitespace().collect::<Vec<_>>().join("  ");
            wrapped(&head, width).iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
        let indent = " ".repeat(usize::from(indent));
        words.try_for_each(|line| writeln!(out, "{indent}{line}"))
    }

    fn actor(self, name: &str) -> String {
        if self.several { format!("{name:<12} ") } else { String::new() }
    }
}

/// The lines of a text that is no wider than `width`.
fn wrapped(text: &str, width: u16) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width).add_row([text]);
    for column in table.column_iter_mut() {
        column.set_padding((0, 0));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

impl Shown {
    fn is_wanted(&self, args: &ShowArgs) -> bool {
        let Subject { number, part, slice } = &self.subject;
        let (kind, _) = self.entry.fact.kind();
        args.lease.is_none_or(|wanted| number.is_some_and(|number| wanted.takes(number, *part)))
            && args.slice.as_ref().is_none_or(|wanted| slice.as_ref() == Some(wanted))
            && args.from.is_none_or(|from| self.entry.at >= from)
            && args.to.is_none_or(|to| self.entry.at < to)
            && args.kind.as_ref().is_none_or(|wanted| kind.contains(wanted.as_str()))
    }

    fn print(&self, form: Form, first: bool, out: &mut dyn Write) -> io::Result<()> {
        let format = form.format;
        let (kind, _) = self.entry.fact.kind();
        let (at, lease) = (moment::show(self.entry.at), self.lease().unwrap_or_default());
        match format {
            Format::Table => {
                let words = words(&body(&self.entry.fact));
                let (position, actor) = (self.position, form.actor(self.actor.as_str()));
                let head = format!("{position:>8}  {at:<27}  {actor}{lease:<8} {kind:<38}");
                form.line(&head, &words, out)
            }
            Format::Json | Format::Jsonl => {
                if format == Format::Json && !first {
                    writeln!(out, ",")?;
                }
                serde_json::to_writer(&mut *out, &self.json())?;
                if format == Format::Jsonl { writeln!(out) } else { Ok(()) }
            }
            Format::Csv => {
                let mut row = csv::Writer::from_writer(out);
                let slice = self.subject.slice.as_ref().map_or("", |slice| slice.as_str());
                let position = self.position.to_string();
                let words = words(&body(&self.entry.fact));
                let (actor, words) = (self.actor.as_str(), printable(&words));
                row.write_record([&position, &at, kind, &lease, slice, &words, actor])?;
                row.flush()
            }
        }
    }

    fn lease(&self) -> Option<String> {
        let number = self.subject.number?;
        Some(
            self.subject.part.map_or_else(|| number.to_string(), |part| format!("{number}.{part}")),
        )
    }

    fn json(&self) -> Value {
        let (kind, version) = self.entry.fact.kind();
        json!({
            "actor": self.actor,
            "position": self.position,
            "micros": self.entry.at.as_micros(),
            "time": moment::show(self.entry.at),
            "kind": kind,
            "kind_version": version,
            "lease": self.lease(),
            "slice": self.subject.slice,
            "fact": body(&self.entry.fact),
        })
    }
}

/// The body of a fact, with tickets as what they say instead of their bytes.
fn body(fact: &Fact) -> Value {
    let mut body = serde_json::to_value(fact.body()).unwrap_or_default();
    let tickets = tickets(fact);
    if let Some(ticket) = body.get_mut("ticket") {
        *ticket = tickets.first().map_or(Value::Null, |ticket| of_ticket(ticket));
    }
    if let Some(list) = body.get_mut("tickets") {
        *list = tickets.iter().map(|ticket| of_ticket(ticket)).collect();
    }
    shorten(&mut body);
    body
}

fn of_ticket(ticket: &Ticket) -> Value {
    let link = ticket.bottom();
    json!({
        "ticket": ticket.hash().to_hex(),
        "units": link.units,
        "resource": link.resource,
        "start": moment::show(link.term.start()),
        "end": moment::show(link.term.end()),
        "site": ticket.site(),
        "issuer": link.issuer,
        "holder": link.holder,
        "extends": link.extends,
        "links": ticket.links().len(),
    })
}

/// Turns bytes into hexadecimal digits, and times into what people read.
fn shorten(value: &mut Value) {
    match value {
        Value::Array(items) => {
            let byte = |item: &Value| item.as_u64().and_then(|n| u8::try_from(n).ok());
            let bytes: Option<Vec<u8>> = items.iter().map(byte).collect();
            match bytes.filter(|bytes| bytes.len() >= 32) {
                Some(bytes) => {
                    *value = bytes.iter().map(|b| format!("{b:02x}")).collect::<String>().into()
                }
                None => items.iter_mut().for_each(shorten),
            }
        }
        Value::Object(fields) => fields.iter_mut().for_each(|(key, value)| {
            let is_time = [
                "start",
                "end",
                "earliest",
                "latest",
                "answer_by",
                "wake",
                "at",
                "until",
                "due",
                "since",
                "from",
                "by",
                "not_before",
                "redeem_by",
                "TooLate",
                "Undecided",
            ];
            if is_time.contains(&key.as_str())
                && let Ok(time) = serde_json::from_value::<Time>(value.clone())
            {
                *value = moment::show(time).into();
            }
            if matches!(key.as_str(), "term" | "NotExtendable")
                && let Ok(term) = serde_json::from_value::<Term>(value.clone())
            {
                let (start, end) = (moment::show(term.start()), moment::show(term.end()));
                *value = json!({ "start": start, "end": end });
            }
            shorten(value);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A body in a line: what is empty and what the line says already is left out.
fn words(body: &Value) -> String {
    let Value::Object(fields) = body else { return String::new() };
    let is_shown = |key: &str| matches!(key, "lease" | "slice" | "memo");
    let field = |(key, value): (&String, &Value)| {
        let text = phrase(value);
        (!is_shown(key) && !text.is_empty()).then(|| format!("{key} {text}"))
    };
    fields.iter().filter_map(field).collect::<Vec<_>>().join(", ")
}

fn phrase(value: &Value) -> String {
    let joined = |items: &[Value]| items.iter().map(phrase).collect::<Vec<_>>().join(" ");
    match value {
        Value::Null => String::new(),
        Value::String(text) if is_hex(text) => text.chars().take(10).collect(),
        Value::String(text) if text.contains(' ') => format!("\"{text}\""),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) if items.len() > 8 => {
            format!("{} and {} more", joined(&items[..8]), items.len() - 8)
        }
        Value::Array(items) => joined(items),
        Value::Object(fields) => object(fields),
    }
}

fn object(fields: &Map<String, Value>) -> String {
    let get = |key: &str| fields.get(key).map(phrase).unwrap_or_default();
    if fields.contains_key("ticket") && fields.contains_key("links") {
        let (units, resource) = (get("units"), get("resource"));
        return format!("{}({units} {resource} {} to {})", get("ticket"), get("start"), get("end"));
    }
    if fields.len() == 2 && fields.contains_key("start") && fields.contains_key("end") {
        return format!("{} to {}", get("start"), get("end"));
    }
    let field = |(key, value): (&String, &Value)| {
        let text = phrase(value);
        (!text.is_empty()).then(|| format!("{key} {text}"))
    };
    let fields: Vec<String> = fields.iter().filter_map(field).collect();
    if fields.is_empty() { String::new() } else { format!("{{{}}}", fields.join(", ")) }
}

fn is_hex(text: &str) -> bool {
    text.len() >= 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use tenure_core::wire::refusal::Refusal;

    use super::*;

    #[test]
    fn the_instants_of_orders_and_recalls_are_dates() {
        let at = Time::from_secs(1_795_003_200);
        for key in ["due", "since", "from", "by", "not_before", "redeem_by"] {
            let mut value = json!({ "level": { key: at }, "by": "guest" });
            shorten(&mut value);
            let shown =
                format!("{{\"by\":\"guest\",\"level\":{{\"{key}\":\"2026-11-18T12:00:00Z\"}}}}");
            assert_eq!(value.to_string(), shown);
        }
    }

    #[test]
    fn the_instants_of_a_refusal_are_dates() {
        let at = Time::from_secs(1_795_003_200);
        let term = Term::new(at, at.plus(tenure_core::model::time::Span::HOUR)).unwrap();
        for refusal in [
            Refusal::TooLate(at),
            Refusal::Undecided(at),
            Refusal::NotExtendable(term),
            Refusal::Beyond { resource: Name::literal("node"), until: at, end: at },
        ] {
            let mut shown = serde_json::to_value(&refusal).unwrap();
            shorten(&mut shown);
            let shown = shown.to_string();
            assert!(shown.contains("2026-11-18T12:00:00Z") && !shown.contains("20775d"), "{shown}");
            let words = refusal.to_string();
            assert!(
                words.contains("2026-11-18T12:00:00.000Z") && !words.contains("20775d"),
                "{words}"
            );
        }
    }

    #[test]
    fn a_fact_is_no_wider_than_the_terminal() {
        let form = |width| Form { format: Format::Table, several: false, width };
        let head =
            format!("{:>8}  {:<27}  {:<8} {:<38}", 13, "2026-11-18T12:00:00Z", "7.0", "kind");
        let words = "units 3 node, properties {note \u{1b}[2J} ".repeat(4);
        let shown = |width| {
            let mut out = Vec::new();
            form(width).line(&head, &words, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        for width in [70, 140] {
            let shown = shown(Some(width));
            assert!(shown.lines().all(|line| line.len() <= usize::from(width)), "{shown}");
            assert!(shown.lines().count() > 2 && shown.matches("note").count() == 4, "{shown}");
            assert!(!shown.contains('\u{1b}'), "{shown}");
        }
        assert_eq!(shown(None).lines().count(), 1, "elsewhere a fact is a line");
    }
}
