//! What `tenure lease request` asks for, from the words of its command line.

use tenure_config::Profiles;
use tenure_expr::{Demand, Expr, ParseError};
use tenure_node::api::{LeaseName, demand};

use crate::error::Error;

/// The type of units that is meant where none is named.
const NODE: &str = "node";

/// The demand that the words of a command line make, with the condition of `--where`.
///
/// # Errors
/// If they make none, or one that cannot be asked for yet; with the place.
pub(super) fn demand(words: &[String], condition: Option<&str>) -> Result<Demand, Error> {
    let text = text(words);
    let mut demand = Demand::parse(&text).map_err(|error| wrong("the demand", &error, &text))?;
    if let Some(source) = condition {
        demand = narrowed(&demand, source)?;
    }
    // Its profiles are known where it is asked.
    demand::items(&demand, &Profiles::new()).map_err(Error::Wrong)?;
    Ok(demand)
}

/// The demand of a request in words; none if a lease is to be had again, and no words say what of it.
///
/// # Errors
/// As [`demand`].
pub(super) fn demand_or_again(
    words: &[String],
    condition: Option<&str>,
    again: Option<&LeaseName>,
) -> Result<String, Error> {
    match (words, condition, again) {
        ([], None, Some(_)) => Ok(String::new()),
        (words, condition, _) => Ok(demand(words, condition)?.to_string()),
    }
}

/// The words as one text. Units alone are those of nodes.
fn text(words: &[String]) -> String {
    let mut text = words.join(" ");
    if text.chars().all(|c| c.is_ascii_digit() || c == '.') && !text.is_empty() {
        text.extend([" ", NODE]);
    }
    text
}

/// The demand with a condition more on its only item.
fn narrowed(demand: &Demand, source: &str) -> Result<Demand, Error> {
    let condition =
        Expr::parse_condition(source).map_err(|error| wrong("--where", &error, source))?;
    let mut alternatives = demand.alternatives().to_vec();
    let mut items = alternatives.iter_mut().flat_map(|alternative| &mut alternative.bundles);
    let (Some([item]), None) = (items.next().map(|b| b.items.as_mut_slice()), items.next()) else {
        return Err(Error::Wrong(
            "--where goes with a demand of one item; write where 'EXPR' behind each of several"
                .to_owned(),
        ));
    };
    demand::narrow(item, &condition).map_err(|error| Error::Wrong(error.to_string()))?;
    Demand::new(alternatives).map_err(|bad| Error::Wrong(bad.to_string()))
}

/// What is wrong with a text, and the text with the place marked under it.
fn wrong(what: &str, error: &ParseError, source: &str) -> Error {
    let shown = error.render(source);
    let marked: Vec<String> = shown.lines().take(2).map(|line| format!("  {line}")).collect();
    Error::Demand(format!("{what}: {error}\n{}", marked.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[&str], condition: Option<&str>) -> Result<String, String> {
        let words: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
        match demand(&words, condition) {
            Ok(demand) => Ok(demand.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn one_text_and_several_words_are_the_same_demand() {
        let whole = "4..8 node where 'cpus >= 8', 1 gpu";
        assert_eq!(read(&[whole], None).as_deref(), Ok(whole));
        for split in [
            &["4..8 node where cpus >= 8, gpu"][..],
            &["4..8", "node", "where", "cpus >= 8", ",", "1", "gpu"],
            &["4..8", "node", "where", "cpus", ">=", "8,", "gpu"],
        ] {
            assert_eq!(read(split, None).as_deref(), Ok(whole), "{split:?}");
        }
        assert_eq!(read(&["2..4", "node,", "1", "gpu"], None).as_deref(), Ok("2..4 node, 1 gpu"));
    }

    #[test]
    fn units_alone_are_nodes() {
        assert_eq!(read(&["2"], None).as_deref(), Ok("2 node"));
        assert_eq!(
            read(&["2..4"], Some("cpus >= 8")).as_deref(),
            Ok("2..4 node where 'cpus >= 8'")
        );
    }

    #[test]
    fn where_adds_to_the_only_item() {
        let both = read(&["2 node where 'a = 1 or b = 1'"], Some("c = 1"));
        assert_eq!(both.as_deref(), Ok("2 node where '(a = 1 or b = 1) and c = 1'"));
        let several = read(&["2 node, 1 gpu"], Some("c = 1")).unwrap_err();
        assert!(several.starts_with("--where goes with a demand of one item"), "{several}");
    }

    #[test]
    fn errors_show_the_place() {
        assert_eq!(
            read(&["2", "node", "where", "cpus >="], None).unwrap_err(),
            "the demand: expected a value, an attribute or `(`, found the end (column 21)\n  \
             2 node where cpus >=\n                      ^"
        );
        assert_eq!(
            read(&["2"], Some("cpus >= 8 and")).unwrap_err(),
            "--where: expected a value, an attribute or `(`, found the end (column 14)\n  \
             cpus >= 8 and\n               ^"
        );
        let error = read(&["0"], None).unwrap_err();
        assert!(error.contains("at least 1 unit"), "{error}");
        assert_eq!(read(&["4 node | 8 small-node"], None).as_deref(), Ok("4 node | 8 small-node"));
    }
}
