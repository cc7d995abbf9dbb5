//! Types, and which of them an operator takes. The rules are here and nowhere else.

use std::fmt;

use thiserror::Error;

use crate::error::EvalError;
use crate::tree::{Kind, Node, Operator};
use crate::units::Dimension;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Type {
    /// A single value.
    Scalar(Scalar),
    /// A set of them; of nothing in particular, if it is empty.
    Set(Option<Scalar>),
}

/// The type of a single value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scalar {
    /// True or false.
    Flag,
    /// A number or a quantity, which differ in their dimension.
    Quantity(Dimension),
    /// A text.
    Text,
    /// A version.
    Version,
}

/// Operands that an operator does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TypeError {
    /// One operand is of the wrong type, whatever the other is.
    #[error("`{operator}` takes a {wanted} here, not a {operand}")]
    Operand {
        /// The operator.
        operator: &'static str,
        /// What it takes.
        wanted: &'static str,
        /// The operand.
        operand: Type,
    },
    /// The two operands do not go together.
    #[error("`{operator}` does not take a {left} and a {right}{}", hint(*left, *right))]
    Operands {
        /// The operator.
        operator: Operator,
        /// The operand before it.
        left: Type,
        /// The operand behind it.
        right: Type,
    },
}

/// A plain number beside something else is mostly a unit, or the `v` of a version, that was forgotten.
fn hint(left: Type, right: Type) -> String {
    let other = match (left, right) {
        (Type::NUMBER, other) | (other, Type::NUMBER) => other,
        (Type::Scalar(_) | Type::Set(_), _) => return String::new(),
    };
    match other {
        Type::Scalar(Scalar::Quantity(dimension)) => dimension
            .usual_unit()
            .map(|unit| format!("; give the number a unit, such as `{unit}`"))
            .unwrap_or_default(),
        Type::Scalar(Scalar::Version) => "; a version of two components is written `v1.2`".into(),
        Type::Scalar(Scalar::Flag | Scalar::Text) | Type::Set(_) => String::new(),
    }
}

impl Type {
    /// True or false.
    pub const FLAG: Self = Self::Scalar(Scalar::Flag);
    /// A plain number.
    pub const NUMBER: Self = Self::Scalar(Scalar::Quantity(Dimension::Number));

    /// Whether values of both types can be equal.
    fn is_comparable_with(self, other: Self) -> bool {
        match (self, other) {
            (Self::Set(None), Self::Set(_)) | (Self::Set(_), Self::Set(None)) => true,
            (Self::Scalar(_) | Self::Set(_), _) => self == other,
        }
    }

    /// Whether a set of this type can hold a value of type `element`.
    fn can_hold(self, element: Self) -> bool {
        match (self, element) {
            (Self::Set(of), Self::Scalar(element)) => of.is_none_or(|of| of == element),
            (Self::Scalar(_) | Self::Set(_), _) => false,
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Quantity(dimension) => dimension.fmt(f),
            Self::Text => f.write_str("text"),
            Self::Version => f.write_str("version"),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(scalar) => scalar.fmt(f),
            Self::Set(Some(Scalar::Quantity(Dimension::Frequency))) => {
                f.write_str("set of frequencies")
            }
            Self::Set(Some(scalar)) => write!(f, "set of {scalar}s"),
            Self::Set(None) => f.write_str("set"),
        }
    }
}

/// What an operator takes on one side.
#[derive(Clone, Copy)]
enum Wanted {
    Anything,
    Condition,
    Quantity,
    Ordered,
    Single,
    Set,
}

impl Wanted {
    fn admits(self, operand: Type) -> bool {
        match self {
            Self::Anything => true,
            Self::Condition => operand == Type::FLAG,
            Self::Quantity => matches!(operand, Type::Scalar(Scalar::Quantity(_))),
            Self::Ordered => {
                matches!(operand, Type::Scalar(Scalar::Quantity(_) | Scalar::Version))
            }
            Self::Single => matches!(operand, Type::Scalar(_)),
            Self::Set => matches!(operand, Type::Set(_)),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Anything => "value",
            Self::Condition => "condition",
            Self::Quantity => "number or quantity",
            Self::Ordered => "number, quantity or version",
            Self::Single => "single value",
            Self::Set => "set",
        }
    }

    /// What a binary operator takes on its left and on its right.
    fn of(operator: Operator) -> (Self, Self) {
        match operator {
            Operator::Equal | Operator::Different => (Self::Anything, Self::Anything),
            Operator::Less | Operator::AtMost | Operator::Greater | Operator::AtLeast => {
                (Self::Ordered, Self::Ordered)
            }
            Operator::In => (Self::Single, Self::Set),
            Operator::Has => (Self::Set, Self::Single),
            Operator::Add | Operator::Subtract | Operator::Multiply | Operator::Divide => {
                (Self::Quantity, Self::Quantity)
            }
        }
    }
}

/// The type of `node`, as far as the types of its attributes are known: `type_of` answers `None` for one
/// that is not.
///
/// # Errors
/// If no value of an attribute whose type is not known could give the node a value.
pub(crate) fn infer(
    node: &Node,
    type_of: &dyn Fn(&str) -> Option<Type>,
) -> Result<Option<Type>, EvalError> {
    let operand = |node: &Node, operator, wanted| check(node, operator, wanted, type_of);
    let all = |operands: &[Node], operator| {
        operands.iter().try_for_each(|node| operand(node, operator, Wanted::Condition).map(drop))
    };
    match &node.kind {
        Kind::Literal(value) => Ok(Some(value.type_of())),
        Kind::Attribute(name) => Ok(type_of(name)),
        Kind::Negative(inner) => operand(inner, "-", Wanted::Quantity),
        Kind::Not(inner) => all(std::slice::from_ref(inner), "not").map(|()| Some(Type::FLAG)),
        Kind::All(nodes) => all(nodes, "and").map(|()| Some(Type::FLAG)),
        Kind::Any(nodes) => all(nodes, "or").map(|()| Some(Type::FLAG)),
        Kind::Binary(operator, left, right) => {
            let (wanted_left, wanted_right) = Wanted::of(*operator);
            let left = operand(left, operator.symbol(), wanted_left)?;
            let right = operand(right, operator.symbol(), wanted_right)?;
            together(*operator, left, right).map_err(|error| EvalError::new(&node.span, error))
        }
    }
}

/// The type of an operand, if the operator takes it.
fn check(
    node: &Node,
    operator: &'static str,
    wanted: Wanted,
    type_of: &dyn Fn(&str) -> Option<Type>,
) -> Result<Option<Type>, EvalError> {
    match infer(node, type_of)? {
        Some(operand) if !wanted.admits(operand) => {
            let error = TypeError::Operand { operator, wanted: wanted.name(), operand };
            Err(EvalError::new(&node.span, error))
        }
        found => Ok(found),
    }
}

/// The type of the result of `operator`, as far as it is known, if its operands go together.
fn together(
    operator: Operator,
    left: Option<Type>,
    right: Option<Type>,
) -> Result<Option<Type>, TypeError> {
    if let (Some(left), Some(right)) = (left, right) {
        let fit = match operator {
            Operator::In => right.can_hold(left),
            Operator::Has => left.can_hold(right),
            Operator::Multiply => left == Type::NUMBER || right == Type::NUMBER,
            Operator::Divide => right == Type::NUMBER || left == right,
            Operator::Equal
            | Operator::Different
            | Operator::Less
            | Operator::AtMost
            | Operator::Greater
            | Operator::AtLeast
            | Operator::Add
            | Operator::Subtract => left.is_comparable_with(right),
        };
        if !fit {
            return Err(TypeError::Operands { operator, left, right });
        }
    }
    Ok(match operator {
        Operator::Add | Operator::Subtract => left.or(right),
        Operator::Multiply => product(left, right),
        Operator::Divide => quotient(left, right),
        Operator::Equal
        | Operator::Different
        | Operator::Less
        | Operator::AtMost
        | Operator::Greater
        | Operator::AtLeast
        | Operator::In
        | Operator::Has => Some(Type::FLAG),
    })
}

/// What has a unit gives it to the product; a number leaves that to the other side.
fn product(left: Option<Type>, right: Option<Type>) -> Option<Type> {
    let with_unit = |side: Option<Type>| side.filter(|side| *side != Type::NUMBER);
    let number = left.and(right).map(|_| Type::NUMBER);
    with_unit(left).or(with_unit(right)).or(number)
}

fn quotient(left: Option<Type>, right: Option<Type>) -> Option<Type> {
    match (left, right) {
        (_, Some(Type::NUMBER)) => left,
        (Some(Type::NUMBER), _) | (_, Some(_)) => Some(Type::NUMBER),
        (Some(_) | None, None) => None,
    }
}
