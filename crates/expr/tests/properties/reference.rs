//! An evaluator as plain as can be, to compare with.

use std::collections::BTreeMap;
use std::fmt;

use proptest::prelude::*;
use tenure_expr::{Dimension, Quantity, Value};

/// One, in millionths.
const ONE: i128 = 1_000_000;

const NAMES: [&str; 3] = ["a", "b.c", "`x-y`"];

/// An expression over the numbers `a`, `b.c` and `x-y`.
#[derive(Clone, Debug)]
pub(crate) enum Tree {
    Number(Number),
    Flag(Flag),
}

#[derive(Clone, Debug)]
pub(crate) enum Number {
    Literal(&'static str, i128),
    Attribute(usize),
    Negative(Box<Self>),
    Binary(char, Box<Self>, Box<Self>),
}

#[derive(Clone, Debug)]
pub(crate) enum Flag {
    Literal(bool),
    Not(Box<Self>),
    Both(Box<Self>, Box<Self>),
    Either(Box<Self>, Box<Self>),
    Compare(&'static str, Number, Number),
}

impl Number {
    /// The value in millionths; none where there is none.
    fn value(&self, numbers: &[i128; 3]) -> Option<i128> {
        let value = match self {
            Self::Literal(_, value) => *value,
            Self::Attribute(place) => numbers[*place],
            Self::Negative(number) => -number.value(numbers)?,
            Self::Binary(operator, left, right) => {
                let (left, right) = (left.value(numbers)?, right.value(numbers)?);
                match operator {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => rounded(left.checked_mul(right)?, ONE)?,
                    _ => rounded(left * ONE, right)?,
                }
            }
        };
        (value.abs() < Quantity::LIMIT).then_some(value)
    }
}

/// `a / b` to the nearest whole number, halves away from zero.
fn rounded(a: i128, b: i128) -> Option<i128> {
    let twice = a.abs().checked_mul(2)?.checked_add(b.abs())?;
    Some(a.signum() * b.signum() * twice.checked_div(2 * b.abs())?)
}

impl Flag {
    pub(crate) fn value(&self, numbers: &[i128; 3]) -> Option<bool> {
        match self {
            Self::Literal(flag) => Some(*flag),
            Self::Not(flag) => Some(!flag.value(numbers)?),
            Self::Both(left, right) => Some(left.value(numbers)? && right.value(numbers)?),
            Self::Either(left, right) => Some(left.value(numbers)? || right.value(numbers)?),
            Self::Compare(operator, left, right) => {
                let (left, right) = (left.value(numbers)?, right.value(numbers)?);
                Some(match *operator {
                    "=" | "==" => left == right,
                    "!=" => left != right,
                    "<" => left < right,
                    "<=" => left <= right,
                    ">" => left > right,
                    _ => left >= right,
                })
            }
        }
    }
}

impl Tree {
    pub(crate) fn value(&self, numbers: &[i128; 3]) -> Option<Value> {
        match self {
            Self::Number(number) => Some(quantity(number.value(numbers)?)),
            Self::Flag(flag) => flag.value(numbers).map(Value::Flag),
        }
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Flag(flag) => flag.fmt(f),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(text, _) => f.write_str(text),
            Self::Attribute(place) => f.write_str(NAMES[*place]),
            Self::Negative(number) => write!(f, "(-{number})"),
            Self::Binary(operator, left, right) => write!(f, "({left}{operator}{right})"),
        }
    }
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(flag) => flag.fmt(f),
            Self::Not(flag) => write!(f, "(not {flag})"),
            Self::Both(left, right) => write!(f, "({left} and {right})"),
            Self::Either(left, right) => write!(f, "({left} or {right})"),
            Self::Compare(operator, left, right) => write!(f, "({left} {operator} {right})"),
        }
    }
}

fn number_trees() -> impl Strategy<Value = Number> {
    let literals = [("0", 0), ("1", ONE), ("2.5", 2_500_000), ("0.000001", 1), ("7", 7 * ONE)];
    let leaf = prop_oneof![
        prop::sample::select(literals.to_vec())
            .prop_map(|(text, value)| Number::Literal(text, value)),
        (0..NAMES.len()).prop_map(Number::Attribute),
    ];
    leaf.prop_recursive(3, 6, 2, |inner| {
        let operators = prop::sample::select(vec!['+', '-', '*', '/']);
        prop_oneof![
            inner.clone().prop_map(|number| Number::Negative(Box::new(number))),
            (operators, inner.clone(), inner).prop_map(|(operator, left, right)| {
                Number::Binary(operator, Box::new(left), Box::new(right))
            }),
        ]
    })
}

/// Conditions of moderate size.
pub(crate) fn conditions() -> impl Strategy<Value = Flag> {
    let operators = prop::sample::select(vec!["=", "==", "!=", "<", "<=", ">", ">="]);
    let leaf = prop_oneof![
        1 => any::<bool>().prop_map(Flag::Literal),
        8 => (operators, number_trees(), number_trees())
            .prop_map(|(operator, left, right)| Flag::Compare(operator, left, right)),
    ];
    leaf.prop_recursive(3, 4, 2, |inner| {
        let pair = (inner.clone(), inner.clone());
        prop_oneof![
            inner.prop_map(|flag| Flag::Not(Box::new(flag))),
            pair.clone().prop_map(|(left, right)| Flag::Both(Box::new(left), Box::new(right))),
            pair.prop_map(|(left, right)| Flag::Either(Box::new(left), Box::new(right))),
        ]
    })
}

/// Expressions of moderate size.
pub(crate) fn trees() -> impl Strategy<Value = Tree> {
    prop_oneof![number_trees().prop_map(Tree::Number), conditions().prop_map(Tree::Flag)]
}

/// Values of the attributes, in millionths.
pub(crate) fn numbers() -> impl Strategy<Value = [i128; 3]> {
    let limit = Quantity::LIMIT;
    let number = prop_oneof![
        8 => (-9_i128..=9).prop_map(|number| number * ONE),
        2 => -ONE..=ONE,
        1 => 1 - limit..limit,
    ];
    prop::array::uniform3(number)
}

/// The attributes with these values.
pub(crate) fn attributes(numbers: &[i128; 3]) -> BTreeMap<&'static str, Value> {
    NAMES.into_iter().map(|name| name.trim_matches('`')).zip(numbers.map(quantity)).collect()
}

fn quantity(millionths: i128) -> Value {
    Quantity::from_millionths(millionths, Dimension::Number).unwrap().into()
}
