//! `tenure journal show`: the facts of a journal, one line each.

use std::io::{self, Write};

use serde_json::{Map, Value, json};
use tenure_core::fact::{Entry, Fact};
use tenure_core::ticket::Ticket;
use tenure_core::time::{Term, Time};
use tenure_node::journal::Reader;

use super::ShowArgs;
use super::subject::{Subject, Subjects, tickets};
use crate::args::Format;
use crate::error::Error;
use crate::moment;

/// A fact that is shown.
struct Shown<'a> {
    position: u64,
    entry: &'a Entry,
    subject: Subject,
}

/// Prints the facts that `args` ask for, in their order.
pub(super) fn show(args: &ShowArgs, out: &mut dyn Write) -> Result<(), Error> {
    let reader = Reader::open(&args.path)?;
    let (mut subjects, mut first, mut failed) = (Subjects::default(), true, None);
    begin(args.output, out)?;
    reader.read(|position, entry| {
        let subject = subjects.next(&entry.fact);
        let shown = Shown { position, entry: &entry, subject };
        if failed.is_none() && shown.is_wanted(args) {
            failed = shown.print(args.output, std::mem::take(&mut first), out).err();
        }
        Ok(())
    })?;
    failed.map_or(Ok(()), Err)?;
    if args.output == Format::Json {
        writeln!(out, "\n]}}")?;
    }
    Ok(out.flush()?)
}

fn begin(format: Format, out: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Table => {
            writeln!(out, "{:>8}  {:<20}  {:<8} {:<38} what", "fact", "time", "lease", "kind")
        }
        Format::Json => writeln!(out, "{{\"version\": 1, \"facts\": ["),
        Format::Jsonl => Ok(()),
        Format::Csv => writeln!(out, "position,time,kind,lease,slice,what"),
    }
}

impl Shown<'_> {
    fn is_wanted(&self, args: &ShowArgs) -> bool {
        let Subject { number, part, slice } = &self.subject;
        let (kind, _) = self.entry.fact.kind();
        args.lease.is_none_or(|wanted| number.is_some_and(|number| wanted.takes(number, *part)))
            && args.slice.as_ref().is_none_or(|wanted| slice.as_ref() == Some(wanted))
            && args.from.is_none_or(|from| self.entry.at >= from)
            && args.to.is_none_or(|to| self.entry.at < to)
            && args.kind.as_ref().is_none_or(|wanted| kind.contains(wanted.as_str()))
    }

    fn print(&self, format: Format, first: bool, out: &mut dyn Write) -> io::Result<()> {
        let (kind, _) = self.entry.fact.kind();
        let (at, lease) = (moment::show(self.entry.at), self.lease().unwrap_or_default());
        match format {
            Format::Table => {
                let words = words(&body(&self.entry.fact));
                let line = format!("{:>8}  {at:<20}  {lease:<8} {kind:<38} {words}", self.position);
                writeln!(out, "{}", line.trim_end())
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
                row.write_record([&position, &at, kind, &lease, slice, &words])?;
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
            let is_time = ["start", "end", "earliest", "latest", "answer_by", "wake", "at"];
            if is_time.contains(&key.as_str())
                && let Ok(time) = serde_json::from_value::<Time>(value.clone())
            {
                *value = moment::show(time).into();
            }
            if key == "term"
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
    let told = |key: &str| matches!(key, "lease" | "slice" | "memo");
    let field = |(key, value): (&String, &Value)| {
        let text = phrase(value);
        (!told(key) && !text.is_empty()).then(|| format!("{key} {text}"))
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
