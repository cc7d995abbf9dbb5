//! Attributes as a file has them.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;

use tenure_expr::{Set, Value};
use toml::Spanned;

/// The value of an attribute: numbers, flags, texts and arrays of these. A text is
/// [read](Value::read), so `"16GiB"` is a size.
///
/// # Errors
/// If there is no such value; in words.
fn attribute(given: &toml::Value) -> Result<Value, String> {
    let value = match given {
        toml::Value::Boolean(flag) => Value::from(*flag),
        toml::Value::Integer(number) => Value::from(*number),
        toml::Value::Float(number) => {
            Value::parse(&number.to_string()).map_err(|error| error.message().to_owned())?
        }
        toml::Value::String(text) => Value::read(text),
        toml::Value::Array(values) => {
            let values = values.iter().map(attribute).collect::<Result<Vec<_>, _>>()?;
            Value::Set(Set::new(values).map_err(|error| error.to_string())?)
        }
        toml::Value::Datetime(_) | toml::Value::Table(_) => {
            return Err("an attribute is no date and no table".to_owned());
        }
    };
    // A value travels as its literal, so it must be readable from that.
    let literal = Value::parse(&value.to_string());
    literal.map_err(|error| error.message().to_owned())
}

/// An attribute that a file may not state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadAttribute {
    /// Where its value is.
    pub span: Range<usize>,
    /// What is wrong with it.
    pub message: String,
    /// What to do about it.
    pub help: &'static str,
}

/// The attribute that is always a price.
const PRICE: &str = "price";

/// The attribute that says how many units more are delegated than there are.
const OVERBOOKED: &str = "overbooked";

/// The attribute of units that go only to those who accept a recall.
const BEST_EFFORT: &str = "best-effort";

/// The attributes of a site. `reserved` is the key of the site's own name, which no file states.
///
/// # Errors
/// The first one that is not a number, flag, text (`"16GiB"` is a size) or array of these, or reserved.
pub fn attributes<K: Ord + Display>(
    given: BTreeMap<K, Spanned<toml::Value>>,
    reserved: &str,
) -> Result<BTreeMap<K, Value>, BadAttribute> {
    let read = |(key, value): (K, Spanned<toml::Value>)| {
        let bad = |message, help| BadAttribute { span: value.span(), message, help };
        let name = key.to_string();
        if name == reserved {
            let message = format!("the attribute `{name}` is always the name of the site");
            return Err(bad(message, "leave it out, or choose another key"));
        }
        let whole = value.get_ref().as_integer().and_then(|whole| u32::try_from(whole).ok());
        if name == PRICE && whole.is_none() {
            let message = format!("the attribute `{name}` is what a unit costs an hour");
            return Err(bad(message, "write a whole number from 0 on"));
        }
        if name == OVERBOOKED && whole.is_none() {
            let message = format!("the attribute `{name}` is how many units more are delegated");
            return Err(bad(message, "write a whole number from 0 on"));
        }
        if name == BEST_EFFORT && !value.get_ref().is_bool() {
            let message = format!("the attribute `{name}` is true or false");
            return Err(bad(message, "write it without quotes"));
        }
        match attribute(value.get_ref()) {
            Ok(read) => Ok((key, read)),
            Err(cause) => Err(bad(format!("`{name}` has no such values: {cause}"), VALUES)),
        }
    };
    given.into_iter().map(read).collect()
}

/// What may be written for an attribute.
const VALUES: &str =
    "write a number, true or false, text such as \"west\" or \"16GiB\", or an array of these";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(toml: &str) -> Result<String, String> {
        let table: toml::Table = format!("value = {toml}").parse().unwrap();
        attribute(&table["value"]).map(|value| value.to_string())
    }

    #[test]
    fn values_are_those_of_expressions() {
        for (toml, literal) in [
            ("8", "8"),
            ("-2.5", "-2.5"),
            ("true", "true"),
            (r#""west""#, r#""west""#),
            (r#""16384MiB""#, "16GiB"),
            (r#""1.20.3""#, "v1.20.3"),
            (r#"["b", "a", "b"]"#, r#"{"a", "b"}"#),
            ("[]", "{}"),
        ] {
            assert_eq!(read(toml).as_deref(), Ok(literal), "{toml}");
        }
    }

    #[test]
    fn what_is_no_value_is_an_error() {
        for toml in ["nan", "1e300", "{ a = 1 }", "2026-11-22", "[1, true]", "[[1]]"] {
            assert!(read(toml).is_err(), "{toml} is {:?}", read(toml));
        }
        let long = format!("\"{}\"", "x".repeat(20_000));
        assert!(read(&long).is_err());
    }
}
