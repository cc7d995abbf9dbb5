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
            Kind::Binary(operator, ..) => Self::of_operator(*operator),
            Kind::Negative(_) => Self::Unary,
            Kind::Literal(_) | Kind::Attribute(_) => Self::Primary,
        }
    }

    fn of_operator(operator: Operator) -> Self {
        match operator {
            Operator::Equal
            | Operator::Different
            | Operator::Less
            | Operator::AtMost
            | Operator::Greater
            | Operator::AtLeast
            | Operator::In
            | Operator::Has => Self::Comparison,
            Operator::Add | Operator::Subtract => Self::Sum,
            Operator::Multiply | Operator::Divide => Self::Product,
        }
    }

    /// What the operands of a binary operator must be at least.
    fn of_operands(self) -> (Self, Self) {
        match self {
            Self::Sum => (Self::Sum, Self::Product),
            Self::Product => (Self::Product, Self::Unary),
            Self::Any | Self::All | Self::Not | Self::Comparison => (Self::Sum, Self::Sum),
            Self::Unary | Self::Primary => (Self::Primary, Self::Primary),
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
            let (least_left, least_right) = rank.of_operands();
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
