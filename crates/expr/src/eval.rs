//! The value of an expression for given attributes.

use std::borrow::Cow;
use std::ops::Range;

use crate::error::{EvalError, Fault};
use crate::quantity::Quantity;
use crate::tree::{Kind, Node, Operator};
use crate::types::{self, TypeError};
use crate::value::{Attributes, Value};

/// The value of `node`.
///
/// First all attributes must be stated and all types must fit, wherever they stand; only then does
/// evaluation begin. So neither depends on the order of the parts, and `and` and `or` may pass over the
/// rest once they are decided, which can only spare an overflow or a division by zero.
pub(crate) fn value(node: &Node, attributes: &dyn Attributes) -> Result<Value, EvalError> {
    if let Some(error) = first_missing(node, |name| attributes.value(name).is_some()) {
        return Err(error);
    }
    types::infer(node, &|name| attributes.value(name).map(Value::type_of))?;
    evaluate(node, attributes).map(Cow::into_owned)
}

/// The first attribute, from left to right, that is not stated.
pub(crate) fn first_missing(node: &Node, stated: impl Fn(&str) -> bool) -> Option<EvalError> {
    let mut missing = None;
    node.visit_attributes(&mut |name, span| {
        if missing.is_none() && !stated(name) {
            missing = Some(EvalError::new(span, Fault::UnknownAttribute(name.to_owned())));
        }
    });
    missing
}

/// The value of a node whose attributes are stated and whose types fit.
pub(crate) fn evaluate<'a>(
    node: &'a Node,
    attributes: &'a dyn Attributes,
) -> Result<Cow<'a, Value>, EvalError> {
    match &node.kind {
        Kind::Literal(value) => Ok(Cow::Borrowed(value)),
        Kind::Attribute(name) => attributes
            .value(name)
            .map(Cow::Borrowed)
            .ok_or_else(|| EvalError::new(&node.span, Fault::UnknownAttribute(name.clone()))),
        Kind::Negative(operand) => match &*evaluate(operand, attributes)? {
            Value::Quantity(quantity) => Ok(Cow::Owned(quantity.negated().into())),
            other @ (Value::Flag(_) | Value::Text(_) | Value::Version(_) | Value::Set(_)) => {
                let error = TypeError::Operand {
                    operator: "-",
                    wanted: "quantity",
                    operand: other.type_of(),
                };
                Err(EvalError::new(&node.span, error))
            }
        },
        Kind::Not(operand) => Ok(Cow::Owned(Value::Flag(!condition(operand, attributes)?))),
        Kind::All(nodes) => joined(nodes, attributes, true),
        Kind::Any(nodes) => joined(nodes, attributes, false),
        Kind::Binary(operator, left, right) => {
            let (left, right) = (evaluate(left, attributes)?, evaluate(right, attributes)?);
            binary(*operator, &left, &right, &node.span).map(Cow::Owned)
        }
    }
}

/// Whether `node` is true.
pub(crate) fn condition(node: &Node, attributes: &dyn Attributes) -> Result<bool, EvalError> {
    match &*evaluate(node, attributes)? {
        Value::Flag(flag) => Ok(*flag),
        other @ (Value::Quantity(_) | Value::Text(_) | Value::Version(_) | Value::Set(_)) => {
            Err(EvalError::new(&node.span, Fault::NotACondition(other.type_of())))
        }
    }
}

/// `usual`, unless one of the conditions is otherwise.
fn joined<'a>(
    nodes: &'a [Node],
    attributes: &'a dyn Attributes,
    usual: bool,
) -> Result<Cow<'a, Value>, EvalError> {
    for node in nodes {
        if condition(node, attributes)? != usual {
            return Ok(Cow::Owned(Value::Flag(!usual)));
        }
    }
    Ok(Cow::Owned(Value::Flag(usual)))
}

fn binary(
    operator: Operator,
    left: &Value,
    right: &Value,
    span: &Range<usize>,
) -> Result<Value, EvalError> {
    let unfit = || {
        let (left, right) = (left.type_of(), right.type_of());
        EvalError::new(span, TypeError::Operands { operator, left, right })
    };
    let arithmetic = |result: fn(Quantity, Quantity) -> Option<Quantity>| match (left, right) {
        (Value::Quantity(left), Value::Quantity(right)) => result(*left, *right)
            .map(Value::Quantity)
            .ok_or_else(|| EvalError::new(span, Fault::Overflow)),
        _ => Err(unfit()),
    };
    let membership = |set: &Value, element: &Value| match set {
        Value::Set(set) => Ok(Value::Flag(set.contains(element))),
        Value::Flag(_) | Value::Quantity(_) | Value::Text(_) | Value::Version(_) => Err(unfit()),
    };
    match operator {
        Operator::Equal => Ok(Value::Flag(left == right)),
        Operator::Different => Ok(Value::Flag(left != right)),
        // Both are of one type, and so in the order of that type.
        Operator::Less => Ok(Value::Flag(left < right)),
        Operator::AtMost => Ok(Value::Flag(left <= right)),
        Operator::Greater => Ok(Value::Flag(left > right)),
        Operator::AtLeast => Ok(Value::Flag(left >= right)),
        Operator::In => membership(right, left),
        Operator::Has => membership(left, right),
        Operator::Add => arithmetic(Quantity::plus),
        Operator::Subtract => arithmetic(|left, right| left.plus(right.negated())),
        Operator::Multiply => arithmetic(Quantity::times),
        Operator::Divide if is_zero(right) => Err(EvalError::new(span, Fault::DivisionByZero)),
        Operator::Divide => arithmetic(Quantity::over),
    }
}

fn is_zero(value: &Value) -> bool {
    matches!(value, Value::Quantity(quantity) if quantity.millionths() == 0)
}
