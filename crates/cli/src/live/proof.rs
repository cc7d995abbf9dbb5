//! Proofs as files: tickets, evidence and receipts as `-o json` prints them, or as their bytes.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tenure_core::model::codec;
use tenure_core::model::identity::{Label, Scheme};
use tenure_core::model::keys::KeyChain;
use tenure_core::model::time::Time;
use tenure_core::model::verifier::Verifier;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::evidence::Evidence;
use tenure_core::ticket::link::SignedLink;
use tenure_core::ticket::receipt::Receipt;
use tenure_node::api::{EvidenceView, KeysView};

use crate::error::Error;
use crate::moment;

/// The longest file that is read: many times the longest message.
const MOST: u64 = 64 << 20;

/// What a file says of the links of a ticket beside their bytes, root first; nothing if it is bytes alone.
pub(super) type Stated = Vec<serde_json::Map<String, Value>>;

/// A ticket: its bytes, or JSON with `links` that have `bytes`; and the names printed with them.
pub(super) fn ticket(path: &Path) -> Result<(Ticket, Stated), Error> {
    let bytes = read(path)?;
    let values = match values(&bytes) {
        Err(no_json) => {
            return Ok((decoded(path, "ticket", &bytes, &no_json)?, Stated::new()));
        }
        Ok(values) => values,
    };
    let help = "JSON has a ticket where `tenure ticket show -o json` has it: `links` with `bytes`";
    let links = find(&values, &|object| {
        let links = object.get("links")?.as_array()?.iter();
        links.map(|link| Some((link.get("bytes")?.as_str()?, link.as_object()?))).collect()
    });
    let links: Vec<_> = links.ok_or_else(|| void(path, "there is no ticket in it", help))?;
    let bytes = links.iter().map(|(bytes, _)| *bytes);
    let ticket = chain(bytes).map_err(|cause| void(path, &cause, help))?;
    let stated = links.iter().map(|(_, stated)| (*stated).clone()).collect();
    let named = find(&values, &|object| object.get("ticket")?.as_str());
    match named.filter(|named| *named != ticket.hash().to_hex()) {
        None => Ok((ticket, stated)),
        Some(named) => {
            let cause = format!("it names ticket {named}, but its links are {}", ticket.hash());
            Err(void(path, &cause, help))
        }
    }
}

/// Evidence: its bytes, or JSON that has it somewhere.
pub(super) fn evidence(path: &Path) -> Result<Evidence, Error> {
    let bytes = read(path)?;
    let values = match values(&bytes) {
        Err(no_json) => return decoded(path, "evidence", &bytes, &no_json),
        Ok(values) => values,
    };
    let help = "a refusal has evidence if its word is `conflict`: `tenure lease show -o json`, or \
                `tenure journal show --kind refused -o json`";
    let found = find(&values, &|object| {
        serde_json::from_value::<EvidenceView>(Value::Object(object.clone())).ok()
    });
    let view = found.ok_or_else(|| void(path, "there is no evidence in it", help))?;
    let read = || {
        let parents = view.parents.iter().map(|links| chain(links.iter().map(String::as_str)));
        let links = view.links.iter().map(|link| self::link(link));
        Ok(Evidence {
            parents: parents.collect::<Result<_, String>>()?,
            links: links.collect::<Result<_, String>>()?,
            at: moment::parse(&view.at)?,
        })
    };
    read().map_err(|cause: String| void(path, &cause, help))
}

/// The statements about keys in a file of JSON.
pub(super) fn keys(path: &Path) -> Result<Vec<KeyChain>, Error> {
    let bytes = read(path)?;
    let help = "`tenure keys show -o json` prints them";
    let Ok(values) = values(&bytes) else { return Err(void(path, "it is no JSON", help)) };
    let mut views = Vec::new();
    for value in &values {
        let each = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        views.extend(each.iter().map(|view| serde_json::from_value::<KeysView>(view.clone())));
    }
    let views: Result<Vec<KeysView>, _> = views.into_iter().collect();
    let views = views.map_err(|error| void(path, &error.to_string(), help))?;
    let chains = views.iter().map(chain_of).collect::<Result<Vec<_>, _>>();
    chains.map_err(|cause| void(path, &cause, help))
}

/// The statements of an actor, if they are signed as they must be.
pub(super) fn chain_of(view: &KeysView) -> Result<KeyChain, String> {
    let bytes = bytes(&view.statements)?;
    let chain: KeyChain = codec::decode(&bytes).map_err(|error| error.to_string())?;
    let mut verifier = Verifier::new(Scheme::Ed25519);
    let holds = chain.continues(&KeyChain::default(), &mut |key, bytes, signature| {
        verifier.verifies(key, Label::Keys, bytes, signature)
    });
    if chain.statements().is_empty() || holds {
        Ok(chain)
    } else {
        Err(format!("the statements of {} about its keys do not hold", view.actor))
    }
}

/// All receipts in a file of JSON.
pub(super) fn receipts(path: &Path) -> Result<Vec<Receipt>, Error> {
    let bytes = read(path)?;
    let values = values(&bytes).unwrap_or_default();
    let mut found = Vec::new();
    values.iter().for_each(|value| collect(value, &mut found));
    let help = "`tenure journal show --kind receipt -o json` shows those that a broker has taken";
    if found.is_empty() { Err(void(path, "there is no receipt in it", help)) } else { Ok(found) }
}

fn collect(value: &Value, found: &mut Vec<Receipt>) {
    let mut plain = value.clone();
    as_written(&mut plain);
    if let Ok(receipt) = serde_json::from_value(plain) {
        return found.push(receipt);
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(fields) => fields.values().for_each(|item| collect(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Times as serde writes them, in the place of those that people read.
fn as_written(value: &mut Value) {
    let time = |text: &Value| -> Option<Time> { moment::parse(text.as_str()?).ok() };
    if let Value::Object(fields) = value {
        if let (2, Some(start), Some(end)) = (fields.len(), fields.get("start"), fields.get("end"))
            && let (Some(start), Some(end)) = (time(start), time(end))
        {
            *value = serde_json::json!([start, end]);
            return;
        }
        fields.values_mut().for_each(as_written);
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let help = "write - for standard input";
    let mut bytes = Vec::new();
    let done = if path == Path::new("-") {
        io::stdin().lock().take(MOST).read_to_end(&mut bytes)
    } else {
        fs::File::open(path).and_then(|file| file.take(MOST).read_to_end(&mut bytes))
    };
    done.map_err(|error| Error::reading(path, error, help))?;
    Ok(bytes)
}

/// The JSON values of a file, one or one after another, or why it is none.
fn values(bytes: &[u8]) -> Result<Vec<Value>, String> {
    let begins = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if !begins.is_some_and(|byte| matches!(byte, b'{' | b'[')) {
        return Err(String::new());
    }
    let values = serde_json::Deserializer::from_slice(bytes).into_iter();
    values.collect::<Result<_, _>>().map_err(|error| format!(", and it is no JSON: {error}"))
}

/// What `get` finds in the first object in which it finds anything, outer ones first.
fn find<'a, T>(
    values: &'a [Value],
    get: &dyn Fn(&'a serde_json::Map<String, Value>) -> Option<T>,
) -> Option<T> {
    values.iter().find_map(|value| match value {
        Value::Array(items) => find(items, get),
        Value::Object(fields) => get(fields)
            .or_else(|| fields.values().find_map(|item| find(std::slice::from_ref(item), get))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

fn chain<'a>(links: impl Iterator<Item = &'a str>) -> Result<Ticket, String> {
    let links = links.map(link).collect::<Result<Vec<_>, _>>()?;
    Ticket::try_from(links).map_err(|fault| fault.to_string())
}

fn link(text: &str) -> Result<SignedLink, String> {
    SignedLink::read(&bytes(text)?).map_err(|error| format!("a link cannot be read: {error}"))
}

/// The bytes of hexadecimal digits.
fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let digits =
        || format!("`{}…` are no hexadecimal digits", text.chars().take(16).collect::<String>());
    let pairs = text.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok().filter(|_| !pair.starts_with('+'))
    });
    pairs.collect::<Option<Vec<u8>>>().ok_or_else(digits)
}

fn decoded<T: Serialize + DeserializeOwned>(
    path: &Path,
    what: &str,
    bytes: &[u8],
    no_json: &str,
) -> Result<T, Error> {
    codec::decode(bytes).map_err(|error| {
        let help = "docs/FORMATS.md has the layout; JSON of `-o json` will do as well";
        void(path, &format!("its bytes are no {what}: {error}{no_json}"), help)
    })
}

fn void(path: &Path, cause: &str, help: &str) -> Error {
    let file =
        if path == Path::new("-") { "standard input".into() } else { path.to_string_lossy() };
    Error::Void { message: format!("{file}: {cause}"), help: help.to_owned() }
}
