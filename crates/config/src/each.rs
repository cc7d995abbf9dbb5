//! Tables with an entry for each of several actors.

use std::collections::BTreeMap;
use std::fmt;

use toml::Spanned;

use super::{ConfigError, Sources, suggestion};

/// Stands for each actor without an entry of its own.
pub const EACH: &str = "each";

/// The entries of a table by the names of the actors they are for; `None` is the entry of all others.
///
/// # Errors
/// An entry for a name that no actor of this `role` has.
pub fn by_actor<'a, N: Ord + fmt::Display + 'a, T>(
    table: BTreeMap<Spanned<N>, T>,
    role: &str,
    known: impl Iterator<Item = &'a N> + Clone,
    sources: &Sources<'_>,
) -> Result<BTreeMap<Option<N>, T>, ConfigError> {
    let whose = |name: Spanned<N>| {
        let text = name.get_ref().to_string();
        if text == EACH {
            return Ok(None);
        }
        if known.clone().any(|known| known == name.get_ref()) {
            return Ok(Some(name.into_inner()));
        }
        let names: Vec<_> = known.clone().map(ToString::to_string).collect();
        let help = suggestion(&text, names.iter().map(String::as_str).chain([EACH]));
        Err(sources.error(name.span(), format!("no {role} `{text}`"), help))
    };
    table.into_iter().map(|(name, entry)| Ok((whose(name)?, entry))).collect()
}
