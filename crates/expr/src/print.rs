//! From a tree to its canonical text: one space around operators, parentheses only where they are needed.

use crate::lex::is_plain_name;
use crate::tree::{Kind, Node, Operator};

/// How strongly the parts of an expression bind, weakest first, as the grammar has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Any,
    All,
    Not,
    Comparison,
    Sum,
    Product,
    Unary,
    Primary,
}

impl Rank {
    fn of(node: &Node) -> Self {
        match &node.kind {
            Kind::Any(_) => Self::Any,
            Kind::All(_) => Self::All,
            Kind::Not(_) => Self::Not,
            Kind::Binary(operator, ..) => Self::around(*operator).0,
            Kind::Negative(_) => Self::Unary,
            Kind::Literal(_) | Kind::Attribute(_) => Self::Primary,
        }
    }

    /// The rank of a binary operator, and what its left and its right operand must have at least.
    fn around(operator: Operator) -> (Self, Self, Self) {
        match operator {
            Operator::Equal
            | Operator::Different
            | Operator::Less
            | Operator::AtMost
            | Operator::Greater
            | Operator::AtLeast
            | Operator::In
            | Operator::Has => (Self::Comparison, Self::Sum, Self::Sum),
            Operator::Add | Operator::Subtract => (Self::Sum, Self::Sum, Self::Product),
            Operator::Multiply | Operator::Divide => (Self::Product, Self::Product, Self::Unary),
        }
    }
}

/// The canonical text of `node`.
pub(crate) fn text(node: &Node) -> String {
    let mut text = String::new();
    print(node, Rank::Any, &mut text);
    text
}

/// The canonical text of `node`, as it stands beside an `and`.
pub(crate) fn in_conjunction(node: &Node) -> String {
    let mut text = String::new();
    print(node, Rank::All, &mut text);
    text
}

/// Writes `node`, in parentheses if it binds more weakly than `least`.
fn print(node: &Node, least: Rank, out: &mut String) {
    let rank = Rank::of(node);
    if rank < least {
        out.push('(');
    }
    match &node.kind {
        Kind::Literal(value) => out.push_str(&value.to_string()),
        Kind::Attribute(name) if is_plain_name(name) => out.push_str(name),
        Kind::Attribute(name) => {
            out.push('`');
            out.push_str(name);
            out.push('`');
        }
        Kind::Negative(operand) => {
            out.push('-');
            print(operand, Rank::Unary, out);
        }
        Kind::Not(operand) => {
            out.push_str("not ");
            print(operand, Rank::Not, out);
        }
        Kind::All(nodes) => join(nodes, " and ", Rank::Not, out),
        Kind::Any(nodes) => join(nodes, " or ", Rank::All, out),
        Kind::Binary(operator, left, right) => {
            let (_, least_left, least_right) = Rank::around(*operator);
            print(left, least_left, out);
            out.push(' ');
            out.push_str(operator.symbol());
            out.push(' ');
            print(right, least_right, out);
        }
    }
    if rank < least {
        out.push(')');
    }
}

fn join(nodes: &[Node], between: &str, least: Rank, out: &mut String) {
    for (place, node) in nodes.iter().enumerate() {
        if place > 0 {
            out.push_str(between);
        }
        print(node, least, out);
    }
}
