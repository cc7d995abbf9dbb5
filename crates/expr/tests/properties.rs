//! What holds of every expression.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may panic as the test may")]

#[path = "properties/reference.rs"]
mod reference;

use std::collections::BTreeMap;

use proptest::prelude::*;
use reference::{conditions, numbers, trees};
use tenure_expr::{Demand, Expr, Fault, Value};

/// Words of the language, put together without sense.
fn soup() -> impl Strategy<Value = String> {
    let words = [
        "a",
        "b.c",
        "`x-y`",
        "1",
        "0",
        "1.5",
        "16GiB",
        "1h30m",
        "9999999999999999999",
        "true",
        "false",
        "\"t\"",
        "\"\\u{27}\"",
        "v1.2",
        "1.20.3",
        "{",
        "}",
        "{1, 2}",
        "{\"t\"}",
        ",",
        "(",
        ")",
        "and",
        "or",
        "not",
        "in",
        "has",
        "=",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "+",
        "-",
        "*",
        "/",
        "'",
        "|",
        "4 node",
        "where",
        "after",
        "optional",
        "é",
        "\u{202e}",
    ];
    prop::collection::vec(prop::sample::select(words.to_vec()), 0..24)
        .prop_map(|words| words.join(" "))
}

/// Operands with operators between them: most are expressions but for their types.
fn chains() -> impl Strategy<Value = String> {
    let operands = [
        "a",
        "b.c",
        "`x-y`",
        "-1.5",
        "16GiB",
        "1h30m",
        "true",
        "\"t\"",
        "v1.2",
        "{1}",
        "{\"t\"}",
        "not a",
        "(a or b.c)",
        "(a - 1)",
        "-`x-y`",
        "not (a and true)",
    ];
    let operators =
        ["and", "or", "in", "has", "=", "!=", "<", ">=", "+", "-", "*", "/", "and a =", "or b.c <"];
    let (operands, operators) = (operands.to_vec(), operators.to_vec());
    let pairs = (prop::sample::select(operands.clone()), prop::sample::select(operators));
    (prop::collection::vec(pairs, 0..6), prop::sample::select(operands)).prop_map(
        |(pairs, last)| {
            let words =
                pairs.into_iter().map(|(operand, operator)| format!("{operand} {operator} "));
            words.collect::<String>() + last
        },
    )
}

fn anything() -> impl Strategy<Value = String> {
    let bytes = prop::collection::vec(any::<u8>(), 0..200)
        .prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    prop_oneof![soup(), chains(), bytes]
}

fn attributes() -> impl Strategy<Value = BTreeMap<String, Value>> {
    let literals = ["0", "-1.5", "8GiB", "1h", "true", "\"t\"", "v1.2", "{1}", "{\"t\"}", "{}"];
    let values =
        prop::sample::select(literals.to_vec()).prop_map(|text| Value::parse(text).unwrap());
    prop::collection::btree_map(prop::sample::select(vec!["a", "b.c", "x-y"]), values, 0..4)
        .prop_map(|map| map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Whether the error is one that neither types nor missing attributes explain.
fn is_arithmetic(fault: &Fault) -> bool {
    matches!(fault, Fault::Overflow | Fault::DivisionByZero)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn nothing_panics_and_what_is_read_is_written_so_that_it_reads_the_same(
        source in anything(),
        attributes in attributes(),
    ) {
        match Expr::parse(&source) {
            Ok(expr) => {
                prop_assert_eq!(&Expr::parse(expr.as_str()).unwrap(), &expr);
                prop_assert!(!expr.as_str().contains('\''));
                prop_assert!(expr.as_str().len() <= Expr::MAX_LEN);
                let json = serde_json::to_string(&expr).unwrap();
                prop_assert_eq!(&serde_json::from_str::<Expr>(&json).unwrap(), &expr);
                let matches = expr.matches(&attributes);
                prop_assert_eq!(matches == Ok(true), expr.explain(&attributes).holds());
                if let Err(error) = expr.evaluate(&attributes) {
                    error.render(expr.as_str(), ["a", "b.c"]);
                }
                if let Ok(value) = expr.evaluate(&attributes) {
                    prop_assert_eq!(Value::parse(&value.to_string()), Ok(value));
                }
            }
            Err(error) => {
                prop_assert!(source.is_char_boundary(error.span().start));
                prop_assert!(source.is_char_boundary(error.span().end));
                prop_assert!(!error.render(&source).chars().any(|c| c.is_control() && c != '\n'));
            }
        }
    }

    #[test]
    fn values_and_demands_are_read_and_written(source in anything()) {
        if let Ok(value) = Value::parse(&source) {
            prop_assert_eq!(Value::parse(&value.to_string()), Ok(value));
        }
        match Demand::parse(&source) {
            Ok(demand) => prop_assert_eq!(Demand::parse(&demand.to_string()), Ok(demand)),
            Err(error) => { error.render(&source); }
        }
    }

    #[test]
    fn every_text_is_a_value(text in any::<String>()) {
        let value = Value::Text(text);
        prop_assert_eq!(Value::parse(&value.to_string()), Ok(value));
    }

    #[test]
    fn evaluation_agrees_with_the_reference(tree in trees(), numbers in numbers()) {
        let attributes = reference::attributes(&numbers);
        let expr = Expr::parse(&tree.to_string()).unwrap();
        match (expr.evaluate(&attributes), tree.value(&numbers)) {
            (Ok(found), Some(expected)) => prop_assert_eq!(found, expected),
            (Err(error), None) => prop_assert!(is_arithmetic(error.fault())),
            (found, expected) => prop_assert!(false, "{expr}: {found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn de_morgan(a in conditions(), b in conditions(), numbers in numbers()) {
        let attributes = reference::attributes(&numbers);
        let matches = |source: String| Expr::parse(&source).unwrap().matches(&attributes);
        for (left, right) in [("and", "or"), ("or", "and")] {
            let outside = matches(format!("not ({a} {left} {b})"));
            let inside = matches(format!("(not {a}) {right} (not {b})"));
            match (outside, inside) {
                (Ok(outside), Ok(inside)) => prop_assert_eq!(outside, inside),
                (Err(outside), Err(inside)) => prop_assert_eq!(outside.fault(), inside.fault()),
                (outside, inside) => prop_assert!(false, "{outside:?} {inside:?}"),
            }
        }
    }

    #[test]
    fn a_missing_attribute_makes_everything_false(condition in conditions(), numbers in numbers()) {
        let attributes = reference::attributes(&numbers);
        for source in [
            format!("{condition} or gone > 1"),
            format!("gone > 1 or {condition}"),
            format!("not ({condition} and gone > 1)"),
            format!("not gone and {condition}"),
        ] {
            let expr = Expr::parse(&source).unwrap();
            prop_assert_eq!(expr.matches(&attributes), Ok(false));
            prop_assert_eq!(expr.explain(&attributes).to_string(), "`gone` is not stated");
        }
    }

    #[test]
    fn a_conjunction_holds_where_both_do(a in conditions(), b in conditions(), numbers in numbers()) {
        let attributes = reference::attributes(&numbers);
        let (a, b) = (Expr::parse(&a.to_string()).unwrap(), Expr::parse(&b.to_string()).unwrap());
        if let (Ok(left), Ok(right)) = (a.matches(&attributes), b.matches(&attributes)) {
            prop_assert_eq!(a.and(&b).unwrap().matches(&attributes), Ok(left && right));
        }
    }
}
