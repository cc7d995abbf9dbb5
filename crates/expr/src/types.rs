//! Types, and which of them an operator takes. The rules are here and nowhere else.

use std::fmt;

use thiserror::Error;

use crate::error::{EvalError, Fault};
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
    #[error("`{operator}` does not take a {operand}")]
    Operand {
        /// The operator.
        operator: &'static str,
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

/// A plain number beside a quantity is mostly a unit that was forgotten.
fn hint(left: Type, right: Type) -> String {
    let dimension = |operand| match operand {
        Type::Scalar(Scalar::Quantity(dimension)) => Some(dimension),
        Type::Scalar(Scalar::Flag | Scalar::Text | Scalar::Version) | Type::Set(_) => None,
    };
    match (dimension(left), dimension(right)) {
        (Some(Dimension::Number), Some(other)) | (Some(other), Some(Dimension::Number)) => other
            .usual_unit()
            .map(|unit| format!("; give the number a unit, such as `{unit}`"))
            .unwrap_or_default(),
        (Some(_) | None, _) => String::new(),
    }
}

impl Type {
    /// True or false.
    pub const FLAG: Self = Self::Scalar(Scalar::Flag);
    /// A plain number.
    pub const NUMBER: Self = Self::Scalar(Scalar::Quantity(Dimension::Number));

    fn is_quantity(self) -> bool {
        matches!(self, Self::Scalar(Scalar::Quantity(_)))
    }

    fn is_ordered(self) -> bool {
        matches!(self, Self::Scalar(Scalar::Quantity(_) | Scalar::Version))
    }

    fn is_set(self) -> bool {
        matches!(self, Self::Set(_))
    }

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

/// The type of `node`, as far as the types of its attributes are known: `type_of` answers `None` for one
/// that is not.
///
/// # Errors
/// If no value of an attribute whose type is not known could give the node a value.
pub(crate) fn infer(
    node: &Node,
    type_of: &dyn Fn(&str) -> Option<Type>,
) -> Result<Option<Type>, EvalError> {
    let at = |error| EvalError::new(&node.span, Fault::Type(error));
    match &node.kind {
        Kind::Literal(value) => Ok(Some(value.type_of())),
        Kind::Attribute(name) => Ok(type_of(name)),
        Kind::Negative(operand) => {
            let operand = infer(operand, type_of)?;
            check("-", operand, Type::is_quantity).map_err(at)?;
            Ok(operand)
        }
        Kind::Not(_) | Kind::All(_) | Kind::Any(_) => {
            for operand in node.children() {
                let found = infer(operand, type_of)?;
                check(connective(&node.kind), found, |found| found == Type::FLAG)
                    .map_err(|error| EvalError::new(&operand.span, error))?;
            }
            Ok(Some(Type::FLAG))
        }
        Kind::Binary(operator, left, right) => {
            let (left, right) = (infer(left, type_of)?, infer(right, type_of)?);
            binary(*operator, left, right).map_err(at)
        }
    }
}

fn connective(kind: &Kind) -> &'static str {
    match kind {
        Kind::All(_) => "and",
        Kind::Any(_) => "or",
        Kind::Not(_)
        | Kind::Literal(_)
        | Kind::Attribute(_)
        | Kind::Negative(_)
        | Kind::Binary(..) => "not",
    }
}

fn check(
    operator: &'static str,
    operand: Option<Type>,
    takes: impl Fn(Type) -> bool,
) -> Result<(), TypeError> {
    match operand {
        Some(operand) if !takes(operand) => Err(TypeError::Operand { operator, operand }),
        Some(_) | None => Ok(()),
    }
}

/// The type of the result of `operator`, as far as it is known.
fn binary(
    operator: Operator,
    left: Option<Type>,
    right: Option<Type>,
) -> Result<Option<Type>, TypeError> {
    let each = |left_takes: fn(Type) -> bool, right_takes: fn(Type) -> bool| {
        check(operator.symbol(), left, left_takes)?;
        check(operator.symbol(), right, right_takes)
    };
    let both = |go_together: fn(Type, Type) -> bool| match (left, right) {
        (Some(left), Some(right)) if !go_together(left, right) => {
            Err(TypeError::Operands { operator, left, right })
        }
        (Some(_) | None, _) => Ok(()),
    };
    match operator {
        Operator::Equal | Operator::Different => {
            both(Type::is_comparable_with)?;
            Ok(Some(Type::FLAG))
        }
        Operator::Less | Operator::AtMost | Operator::Greater | Operator::AtLeast => {
            each(Type::is_ordered, Type::is_ordered)?;
            both(Type::is_comparable_with)?;
            Ok(Some(Type::FLAG))
        }
        Operator::In => {
            each(|value| !value.is_set(), Type::is_set)?;
            both(|value, set| set.can_hold(value))?;
            Ok(Some(Type::FLAG))
        }
        Operator::Has => {
            each(Type::is_set, |value| !value.is_set())?;
            both(Type::can_hold)?;
            Ok(Some(Type::FLAG))
        }
        Operator::Add | Operator::Subtract => {
            each(Type::is_quantity, Type::is_quantity)?;
            both(|left, right| left == right)?;
            Ok(left.or(right))
        }
        Operator::Multiply => {
            each(Type::is_quantity, Type::is_quantity)?;
            both(|left, right| left == Type::NUMBER || right == Type::NUMBER)?;
            // What has a unit gives it to the product; a number leaves that to the other side.
            let with_unit = |side: Option<Type>| side.filter(|side| *side != Type::NUMBER);
            let number = left.and(right).map(|_| Type::NUMBER);
            Ok(with_unit(left).or(with_unit(right)).or(number))
        }
        Operator::Divide => {
            each(Type::is_quantity, Type::is_quantity)?;
            both(|left, right| right == Type::NUMBER || left == right)?;
            Ok(match (left, right) {
                (_, Some(Type::NUMBER)) => left,
                (Some(Type::NUMBER), _) | (_, Some(_)) => Some(Type::NUMBER),
                (Some(_) | None, None) => None,
            })
        }
    }
}
