//! Expressions as trees.

use std::fmt;
use std::ops::Range;

use crate::value::Value;

/// A part of an expression.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// Where it stands in the text that was parsed.
    pub(crate) span: Range<usize>,
    /// How many nodes are below one another, itself included.
    pub(crate) height: usize,
}

/// What a node is.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Literal(Value),
    Attribute(String),
    Negative(Box<Node>),
    Not(Box<Node>),
    /// Two or more, none of which is itself `All`.
    All(Vec<Node>),
    /// Two or more, none of which is itself `Any`.
    Any(Vec<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
}

/// An operator between two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `=`, also written `==`.
    Equal,
    /// `!=`
    Different,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
    /// `in`: the set on the right holds the value on the left.
    In,
    /// `has`: the set on the left holds the value on the right.
    Has,
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
}

impl Operator {
    /// As it is written in an expression.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Different => "!=",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
            Self::In => "in",
            Self::Has => "has",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.symbol())
    }
}

impl Node {
    pub(crate) fn new(kind: Kind, span: Range<usize>) -> Self {
        let below = children(&kind).map(|node| node.height).max().unwrap_or(0);
        Self { kind, span, height: below + 1 }
    }

    /// The nodes directly below, from left to right.
    pub(crate) fn children(&self) -> impl Iterator<Item = &Self> {
        children(&self.kind)
    }

    /// Calls `visit` with each attribute, from left to right.
    pub(crate) fn visit_attributes<'a>(
        &'a self,
        visit: &mut impl FnMut(&'a str, &'a Range<usize>),
    ) {
        if let Kind::Attribute(name) = &self.kind {
            visit(name, &self.span);
        }
        for child in self.children() {
            child.visit_attributes(visit);
        }
    }
}

fn children(kind: &Kind) -> impl Iterator<Item = &Node> {
    let (pair, list): ([Option<&Node>; 2], &[Node]) = match kind {
        Kind::Literal(_) | Kind::Attribute(_) => ([None, None], &[]),
        Kind::Negative(node) | Kind::Not(node) => ([Some(node), None], &[]),
        Kind::Binary(_, left, right) => ([Some(left), Some(right)], &[]),
        Kind::All(nodes) | Kind::Any(nodes) => ([None, None], nodes),
    };
    pair.into_iter().flatten().chain(list)
}
