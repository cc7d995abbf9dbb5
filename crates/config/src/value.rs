//! Attributes as a file has them.

use tenure_expr::{Set, Value};

/// The value of an attribute: numbers, flags, texts and arrays of these. A text is
/// [read](Value::read), so `"16GiB"` is a size.
///
/// # Errors
/// If there is no such value; in words.
pub fn attribute(given: &toml::Value) -> Result<Value, String> {
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
    // What is stated must be readable for those who are told of it.
    let literal = Value::parse(&value.to_string());
    literal.map_err(|error| error.message().to_owned())
}

/// What may be written for an attribute.
pub const ATTRIBUTES: &str =
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
    fn what_is_no_value_is_told() {
        for toml in ["nan", "1e300", "{ a = 1 }", "2026-11-22", "[1, true]", "[[1]]"] {
            assert!(read(toml).is_err(), "{toml} is {:?}", read(toml));
        }
        let long = format!("\"{}\"", "x".repeat(20_000));
        assert!(read(&long).is_err());
    }
}
