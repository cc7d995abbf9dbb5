//! Limits, and what callers rely on beside the language itself.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may panic as the test may")]

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_expr::demand::{Alternative, BadDemand, Bundle, Item};
use tenure_expr::{BadSet, Demand, Dimension, Expr, Fault, Quantity, Scalar, Set, Type, Value};

fn parse(source: &str) -> Expr {
    Expr::parse(source).unwrap()
}

/// What is wrong with an expression.
fn wrong(source: &str) -> String {
    Expr::parse(source).unwrap_err().message().to_owned()
}

#[test]
fn an_expression_is_short() {
    let fits = format!("a = \"{}\"", "x".repeat(Expr::MAX_LEN - 6));
    assert_eq!(parse(&fits).as_str(), fits);
    assert_eq!(wrong(&format!("{fits} ")), "this is longer than 1024 bytes");
    let grows = format!("a = \"{}\"", "\u{202e}".repeat(200));
    assert_eq!(wrong(&grows), "this is longer than 1024 bytes when written out");
}

#[test]
fn an_expression_is_shallow() {
    let nested = |depth| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(parse(&nested(Expr::MAX_DEPTH)), parse("a"));
    for deep in [
        nested(Expr::MAX_DEPTH + 1),
        "(".repeat(1_000),
        "not ".repeat(250),
        "-".repeat(1_000),
        "1+".repeat(500) + "1",
        "not (a and ".repeat(16) + "b" + &")".repeat(16),
    ] {
        assert_eq!(wrong(&deep), "this is nested more than 32 deep", "{deep}");
    }
    // A list is one level, however long.
    parse(&("a or ".repeat(200) + "a"));
}

#[test]
fn a_conjunction_keeps_the_limits() {
    let long = parse(&format!("a = \"{}\"", "x".repeat(600)));
    assert!(long.and(&parse("b = 1")).is_ok());
    assert_eq!(long.and(&long).unwrap_err().message(), "this is longer than 1024 bytes");
    let message = parse("a").and(&parse("1 + 1")).unwrap_err().message().to_owned();
    assert_eq!(message, "`and` takes a condition here, not a number");
    let joined = parse("a and b").and(&parse("c or d")).unwrap();
    assert_eq!(joined.as_str(), "a and b and (c or d)");
}

#[test]
fn what_two_parties_send_is_compared_by_its_meaning() {
    assert_eq!(parse("memory>=16384MiB"), parse("(memory  >=  16GiB)"));
    assert_ne!(parse("a and b"), parse("b and a"));
    let json = serde_json::to_string(&parse(r#"a == "x""#)).unwrap();
    assert_eq!(json, r#""a = \"x\"""#);
    let error = serde_json::from_str::<Expr>(r#""a = = 1""#).unwrap_err().to_string();
    assert_eq!(error, "expected a value, an attribute or `(`, found `=` (column 5)");
    let value: Value = serde_json::from_str(r#""16GiB""#).unwrap();
    assert_eq!(value, Quantity::bytes(16 << 30).into());
    let demand: Demand = serde_json::from_str(r#""4 node|8 node""#).unwrap();
    assert_eq!(serde_json::to_string(&demand).unwrap(), r#""4 node | 8 node""#);
}

#[test]
fn an_expression_is_checked_before_there_are_values() {
    let types = BTreeMap::from([
        ("cpus", Type::NUMBER),
        ("memory", Type::Scalar(Scalar::Quantity(Dimension::Size))),
        ("features", Type::Set(Some(Scalar::Text))),
    ]);
    let check = |source: &str| parse(source).check(|name| types.get(name).copied());
    assert_eq!(check("memory / cpus >= 2GiB"), Ok(Type::FLAG));
    assert_eq!(check("memory / cpus"), Ok(Type::Scalar(Scalar::Quantity(Dimension::Size))));
    assert_eq!(check("memory / memory"), Ok(Type::NUMBER));
    let error = check("cpus >= 8 and memroy >= 8s").unwrap_err();
    assert_eq!(error.fault(), &Fault::UnknownAttribute("memroy".into()));
    assert_eq!(error.span(), 14..20);
    assert!(matches!(check("features has 1").unwrap_err().fault(), Fault::Type(_)));
    assert!(Expr::parse_condition("cpus + 1").is_err());
    assert!(Expr::parse_condition("exclusive").is_ok());
}

#[test]
fn attributes_are_named_once() {
    let expr = parse("b > a or b < 1 and `x y`");
    assert_eq!(expr.attributes().into_iter().collect::<Vec<_>>(), ["a", "b", "x y"]);
}

#[test]
fn what_the_first_of_a_pair_states_the_second_cannot_change() {
    let site = BTreeMap::from([("cpus", Value::from(1))]);
    let guest = BTreeMap::from([("cpus", Value::from(64)), ("image", Value::from("debian"))]);
    let matches = |source: &str| parse(source).matches(&(&site, &guest));
    assert_eq!(matches("cpus >= 4"), Ok(false));
    assert_eq!(matches(r#"cpus = 1 and image = "debian""#), Ok(true));
}

#[test]
fn values_are_read_leniently_where_people_write_settings() {
    assert_eq!(Value::read("8"), Value::from(8));
    assert_eq!(Value::read("-1h"), Quantity::microseconds(-3_600_000_000).into());
    assert_eq!(Value::read("true"), Value::from(true));
    assert_eq!(Value::read("debian 12"), Value::from("debian 12"));
    assert_eq!(Value::read(""), Value::from(""));
    assert!(Value::parse(&"9".repeat(Value::MAX_LEN + 1)).is_err());
    for bad in ["", "cpus", "1 + 1", "(1)", "--1", "-true", "{{}}", "1 2"] {
        assert!(Value::parse(bad).is_err(), "{bad:?} was taken");
    }
}

#[test]
fn a_set_holds_values_of_one_type() {
    let (number, text) = (Value::from(1), Value::from("a"));
    let mixed = Set::new([number.clone(), text]);
    let scalar = Scalar::Quantity(Dimension::Number);
    assert_eq!(mixed, Err(BadSet::Mixed(scalar, Scalar::Text)));
    let set = Set::new([number]).unwrap();
    assert_eq!(set.element_type(), Some(scalar));
    assert_eq!(Set::new([Value::Set(set)]), Err(BadSet::Nested));
}

fn demand(items: Vec<Item>) -> Result<Demand, BadDemand> {
    Demand::new([Alternative { bundles: vec![Bundle { items }] }])
}

#[test]
fn a_demand_makes_sense() {
    let item = || Item::new(4, "node");
    assert_eq!(demand(vec![item()]).unwrap().to_string(), "4 node");
    assert_eq!(demand(vec![item(); 64]).map(drop), Ok(()));
    assert_eq!(demand(vec![item(); 65]), Err(BadDemand::TooMany(65)));
    assert_eq!(demand(vec![]), Err(BadDemand::Empty));
    assert_eq!(Demand::new([]), Err(BadDemand::Empty));
    assert_eq!(demand(vec![Item::new(0, "node")]), Err(BadDemand::NoUnits));
    let bad = Item { max_units: 3, ..item() };
    assert_eq!(demand(vec![bad]), Err(BadDemand::NoRange { min: 4, max: 3 }));
    assert_eq!(demand(vec![Item::new(1, "a b")]), Err(BadDemand::Kind("a b".into())));
    assert_eq!(demand(vec![Item::new(1, "after")]), Err(BadDemand::Reserved("after".into())));
    let optional = Item { optional: true, ..item() };
    assert_eq!(demand(vec![optional]), Err(BadDemand::AllOptional));
    for after in [Duration::from_nanos(1), Duration::MAX] {
        assert_eq!(demand(vec![Item { after, ..item() }]), Err(BadDemand::Offset));
    }
    let sum = parse("1 + 1");
    let bad = Item { condition: Some(sum.clone()), ..item() };
    assert_eq!(demand(vec![bad]), Err(BadDemand::NotACondition(sum)));
    let long = Some(parse(&format!("a = \"{}\"", "x".repeat(1_000))));
    let long = Item { condition: long, ..item() };
    assert_eq!(demand(vec![long; 17]), Err(BadDemand::TooLong));
    assert!(Demand::parse(&" ".repeat(Demand::MAX_LEN + 1)).is_err());
    assert!(Demand::parse(&["1 a"; 65].join(" | ")).is_err());
}

#[test]
fn items_of_a_demand_say_what_they_want() {
    let demand =
        Demand::parse("(2..4 node, optional 1 gpu where 'memory > 1GiB'), 1 disk after 1h")
            .unwrap();
    let [alternative] = demand.alternatives() else { panic!("{demand}") };
    let sizes: Vec<usize> = alternative.bundles.iter().map(|bundle| bundle.items.len()).collect();
    assert_eq!(sizes, [2, 1]);
    let items: Vec<Item> = alternative.items().cloned().collect();
    let condition = Some(parse("memory > 1GiB"));
    let expected = [
        Item { max_units: 4, ..Item::new(2, "node") },
        Item { optional: true, condition, ..Item::new(1, "gpu") },
        Item { after: Duration::from_secs(3_600), ..Item::new(1, "disk") },
    ];
    assert_eq!(items, expected);
}
