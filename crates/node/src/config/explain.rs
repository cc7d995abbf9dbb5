//! What each key of a configuration is, as docs/CONFIGURATION.md and, for drivers, docs/DRIVERS.md have it: the
//! tables there are read.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use tenure_config::suggestion;
use thiserror::Error;

const DOCUMENT: &str = include_str!("../../../../docs/CONFIGURATION.md");

const DRIVERS: &str = include_str!("../../../../docs/DRIVERS.md");

/// The keys that a further stock of a site has as the site itself.
const OF_A_STOCK: [&str; 7] =
    ["units", "kind", "mint", "attributes", "named", "brokers", "delegation"];

/// A key, explained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explained {
    /// The key; words in capitals stand for names.
    pub key: String,
    /// The type of its value.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its default; `none` if there is none, `required` if it must be set.
    pub default: String,
    /// What its value counts, or how it is measured.
    pub unit: Option<String>,
    /// What it means.
    pub meaning: String,
}

/// There is no such key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no key `{key}`")]
pub struct UnknownKey {
    /// The key.
    pub key: String,
    /// The nearest ones.
    pub help: String,
}

/// All keys, in the order of the documents.
pub fn keys() -> Vec<Explained> {
    let mut keys = of_actors();
    keys.extend(of_drivers());
    keys
}

/// The settings of drivers: `driver.NAME.calls` of each, `driver.netns.bridge` of one.
fn of_drivers() -> Vec<Explained> {
    let (mut keys, mut prefix) = (Vec::new(), None);
    for line in DRIVERS.lines() {
        if let Some(of) = line.strip_prefix("| setting of ") {
            let named = of.strip_prefix('`').and_then(|of| of.split('`').next());
            prefix = Some(format!("driver.{}.", named.unwrap_or("NAME")));
        } else if !line.starts_with('|') {
            prefix = None;
        } else if let Some(prefix) = &prefix {
            keys.extend(row(line, prefix));
        }
    }
    keys
}

fn of_actors() -> Vec<Explained> {
    let (mut keys, mut table, mut prefix) = (Vec::new(), String::new(), None);
    for line in DOCUMENT.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            table = heading.trim_matches(['`', '[', ']']).to_owned();
            prefix = match heading {
                "Top level" => Some(String::new()),
                _ => heading.starts_with("`[").then(|| format!("{table}.")),
            };
        } else if let Some(heading) = line.strip_prefix("### ") {
            let inner = heading.strip_prefix('`').and_then(|name| name.strip_suffix('`'));
            prefix = inner.map(|inner| format!("{table}.{inner}."));
        } else if let Some(prefix) = &prefix {
            keys.extend(row(line, prefix));
        }
    }
    keys
}

/// A key, or all keys whose last part is this word.
///
/// # Errors
/// That there is none, with the nearest ones.
pub fn explain(key: &str) -> Result<Vec<Explained>, UnknownKey> {
    let keys = keys();
    let parts: Vec<&str> = key.split('.').collect();
    if let Some(found) = find(&keys, &parts) {
        return Ok(vec![found.clone()]);
    }
    let last = |known: &Explained| known.key.rsplit('.').next().unwrap_or_default().to_owned();
    let named: Vec<Explained> = keys.iter().filter(|known| last(known) == key).cloned().collect();
    if !named.is_empty() {
        return Ok(named);
    }
    let wanted = parts.last().copied().unwrap_or_default();
    let words: std::collections::BTreeSet<String> = keys.iter().map(last).collect();
    // A key of the right table is nearer than one of the same spelling elsewhere.
    let all = keys.iter().map(|known| known.key.as_str());
    let whole = suggestion(&pattern(&parts), all);
    let help = match whole.starts_with("did you mean") {
        true => whole,
        false => suggestion(wanted, words.iter().map(String::as_str)),
    };
    let help = help.split("known: ").next().unwrap_or_default().trim().to_owned();
    let help = match help.is_empty() {
        true => "`tenure config explain` lists all keys".to_owned(),
        false => format!("{help} `tenure config explain` lists all keys"),
    };
    Err(UnknownKey { key: key.to_owned(), help })
}

/// The key that is meant, or the table that it is a key of.
fn find<'a>(keys: &'a [Explained], parts: &[&str]) -> Option<&'a Explained> {
    if let ["site", name, "stock", _, rest @ ..] = parts
        && let [first, ..] = rest
        && OF_A_STOCK.contains(first)
    {
        return find(keys, &[&["site", name], rest].concat());
    }
    let matches = |known: &&Explained| {
        let known: Vec<&str> = known.key.split('.').collect();
        known.len() == parts.len()
            && known.iter().zip(parts).all(|(known, part)| is_name(known) || known == part)
    };
    let exact = keys.iter().find(matches);
    exact.or_else(|| {
        let (_, table) = parts.split_last()?;
        let table = find(keys, table)?;
        table.kind.starts_with("table").then_some(table)
    })
}

/// Whether a part of a key stands for a name.
fn is_name(part: &str) -> bool {
    !part.is_empty() && part.chars().all(|c| c.is_ascii_uppercase() || c == '-')
}

/// A key as the document would write it, as far as its tables are known.
fn pattern(parts: &[&str]) -> String {
    let mut pattern = String::new();
    for (place, part) in parts.iter().enumerate() {
        let name = place == 1 && parts.len() > 2;
        write!(pattern, "{}{}", if place > 0 { "." } else { "" }, if name { "NAME" } else { part })
            .unwrap_or_default();
    }
    pattern
}

/// The key of a row of a table.
fn row(line: &str, prefix: &str) -> Option<Explained> {
    let line = line.strip_prefix("| `")?.strip_suffix(" |")?;
    let (key, rest) = line.split_once("` | ")?;
    let mut cells = rest.splitn(3, " | ").map(plain);
    let (kind, default, meaning) = (cells.next()?, cells.next()?, cells.next()?);
    let unit = unit_of(&kind);
    Some(Explained { key: format!("{prefix}{key}"), kind, default, unit, meaning })
}

/// What a value of this type counts, or how it is measured.
fn unit_of(kind: &str) -> Option<String> {
    if kind.starts_with("length") {
        return Some("time, such as 90s, 10m, 1h30m or 7d".to_owned());
    }
    let counted = kind.strip_prefix("whole number of ")?;
    let end = [" from ", " ≥ ", ","].iter().filter_map(|word| counted.find(word)).min();
    Some(counted[..end.unwrap_or(counted.len())].to_owned())
}

/// Text without the targets of its links.
fn plain(markdown: &str) -> String {
    let (mut text, mut rest) = (String::new(), markdown);
    while let Some((before, after)) = rest.split_once('[') {
        let link = after.split_once("](").and_then(|(label, after)| {
            let (_, after) = after.split_once(')')?;
            (!label.contains('[')).then_some((label, after))
        });
        match link {
            Some((label, after)) => {
                text.push_str(before);
                text.push_str(label);
                rest = after;
            }
            None => {
                text.push_str(before);
                text.push('[');
                rest = after;
            }
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_by_its_place_and_by_its_name() {
        let found = |key: &str| -> Vec<String> {
            explain(key).unwrap().into_iter().map(|found| found.key).collect()
        };
        assert_eq!(found("margin"), ["margin"]);
        assert_eq!(found("site.alpha.fail-after"), ["site.NAME.fail-after"]);
        assert_eq!(found("site.NAME.fail-after"), ["site.NAME.fail-after"]);
        assert_eq!(found("site.a.stock.gpu.delegation"), ["site.NAME.delegation"]);
        assert_eq!(found("site.a.driver.workers"), ["site.NAME.driver"]);
        assert_eq!(found("broker.b.quota.guest.holds"), ["broker.NAME.quota.PEER.holds"]);
        assert_eq!(found("leave-before"), ["service-manager.NAME.leave-before"]);
        assert!(found("driver").len() > 1);
        assert_eq!(found("driver.netns.rate_mbit"), ["driver.netns.rate_mbit"]);
        assert_eq!(found("driver.exec.calls"), ["driver.NAME.calls"]);
        assert_eq!(found("driver.null.setup"), ["driver.null.setup"]);
        assert_eq!(found("setup"), ["driver.null.setup", "driver.exec.setup"]);
        let margin = &explain("margin").unwrap()[0];
        assert_eq!((margin.default.as_str(), &margin.kind[..]), ("`\"1s\"`", "length > 0"));
        let snapshot = &explain("snapshot-after").unwrap()[0];
        assert_eq!(snapshot.unit.as_deref(), Some("facts"));
    }

    #[test]
    fn an_unknown_key_names_the_nearest() {
        let help = |key| explain(key).unwrap_err().help;
        assert!(help("magrin").starts_with("did you mean `margin`?"), "{}", help("magrin"));
        let near = help("site.alpha.fail-afte");
        assert!(near.starts_with("did you mean `site.NAME.fail-after`?"), "{near}");
    }
}
