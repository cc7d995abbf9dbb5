//! From tokens to a tree. The grammar is in the documentation of the crate.

use std::ops::Range;

use crate::Expr;
use crate::error::{EvalError, ParseError, escape};
use crate::lex::{Names, Token, TokenKind, tokens};
use crate::tree::{Kind, Node, Operator};
use crate::types::infer;
use crate::units::UNITS;
use crate::value::{Set, Value};

/// Parses an expression and checks its types as far as they are known without attributes.
pub(crate) fn expression(source: &str, names: Names) -> Result<Node, ParseError> {
    let mut parser = Parser::new(source, names, Expr::MAX_LEN)?;
    let node = parser.any()?;
    parser.end("an operator or the end")?;
    infer(&node, &|_| None).map_err(|error| blame(source, &error))?;
    Ok(node)
}

/// What is wrong with the types of `source`.
pub(crate) fn blame(source: &str, error: &EvalError) -> ParseError {
    ParseError::new(source, error.span(), error.fault().to_string())
}

/// Parses a literal.
pub(crate) fn value(source: &str) -> Result<Value, ParseError> {
    let mut parser = Parser::new(source, Names::Plain, Value::MAX_LEN)?;
    let value = if parser.eat("{") { parser.set().map(Value::Set) } else { parser.scalar() }?;
    parser.end("the end")?;
    Ok(value)
}

struct Parser<'a> {
    source: &'a str,
    tokens: Vec<Token>,
    next: usize,
    /// How many brackets and prefixes are open.
    depth: usize,
}

impl<'a> Parser<'a> {
    fn new(source: &'a str, names: Names, most: usize) -> Result<Self, ParseError> {
        if source.len() > most {
            // Only where it gets too long: the message is shown with the source.
            let message = format!("this is longer than {most} bytes");
            return Err(ParseError::new(source, source.len()..source.len(), message));
        }
        Ok(Self { source, tokens: tokens(source, names)?, next: 0, depth: 0 })
    }

    fn token(&self) -> &Token {
        // The last token is `End`, which is never passed.
        &self.tokens[self.next]
    }

    fn start(&self) -> usize {
        self.token().span.start
    }

    fn span_since(&self, start: usize) -> Range<usize> {
        let end = self.next.checked_sub(1).map_or(start, |last| self.tokens[last].span.end);
        start..end
    }

    fn advance(&mut self) {
        if self.token().kind != TokenKind::End {
            self.next += 1;
        }
    }

    fn eat(&mut self, symbol: &str) -> bool {
        let found = matches!(self.token().kind, TokenKind::Symbol(next) if next == symbol);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), ParseError> {
        if self.eat(symbol) { Ok(()) } else { Err(self.unexpected(&format!("`{symbol}`"))) }
    }

    fn end(&self, expected: &str) -> Result<(), ParseError> {
        if self.token().kind == TokenKind::End { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    fn unexpected(&self, expected: &str) -> ParseError {
        let Token { kind, span } = self.token();
        let found = match kind {
            TokenKind::End => "the end".to_owned(),
            TokenKind::Literal(_) | TokenKind::Attribute(_) | TokenKind::Symbol(_) => {
                let text = escape(&self.source[span.clone()]);
                if text.starts_with('`') { text } else { format!("`{text}`") }
            }
        };
        let help = self.forgotten_join().unwrap_or_default();
        ParseError::new(
            self.source,
            span.clone(),
            format!("expected {expected}, found {found}{help}"),
        )
    }

    /// What to say of a number and its unit with a space between them.
    fn forgotten_join(&self) -> Option<String> {
        let last = &self.tokens[self.next.checked_sub(1)?];
        let number = matches!(last.kind, TokenKind::Literal(Value::Quantity(_)));
        let unit = &self.source[self.token().span.clone()];
        let known = number && UNITS.iter().any(|known| known.symbol == unit);
        known.then(|| format!("; write `{}{unit}`", &self.source[last.span.clone()]))
    }

    /// Parses what a bracket or a prefix opens.
    fn nested<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, ParseError>,
    ) -> Result<T, ParseError> {
        if self.depth == Expr::MAX_DEPTH {
            return Err(self.too_deep(self.token().span.clone()));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn too_deep(&self, span: Range<usize>) -> ParseError {
        let message = format!("this is nested more than {} deep", Expr::MAX_DEPTH);
        ParseError::new(self.source, span, message)
    }

    /// The node of everything since `start`.
    fn node(&self, kind: Kind, start: usize) -> Result<Node, ParseError> {
        let node = Node::new(kind, self.span_since(start));
        if node.height > Expr::MAX_DEPTH { Err(self.too_deep(node.span)) } else { Ok(node) }
    }

    fn any(&mut self) -> Result<Node, ParseError> {
        let start = self.start();
        let mut nodes = vec![self.all()?];
        while self.eat("or") {
            nodes.push(self.all()?);
        }
        let flat = |node: Node| {
            if let Kind::Any(nodes) = node.kind { nodes } else { vec![node] }
        };
        self.list(nodes, flat, Kind::Any, start)
    }

    fn all(&mut self) -> Result<Node, ParseError> {
        let start = self.start();
        let mut nodes = vec![self.negation()?];
        while self.eat("and") {
            nodes.push(self.negation()?);
        }
        let flat = |node: Node| {
            if let Kind::All(nodes) = node.kind { nodes } else { vec![node] }
        };
        self.list(nodes, flat, Kind::All, start)
    }

    /// One node as it is, several joined. Lists within a list of their kind become part of it.
    fn list(
        &self,
        mut nodes: Vec<Node>,
        flat: impl Fn(Node) -> Vec<Node>,
        kind: impl Fn(Vec<Node>) -> Kind,
        start: usize,
    ) -> Result<Node, ParseError> {
        match nodes.pop() {
            Some(only) if nodes.is_empty() => Ok(only),
            last => {
                let nodes = nodes.into_iter().chain(last).flat_map(flat).collect();
                self.node(kind(nodes), start)
            }
        }
    }

    fn negation(&mut self) -> Result<Node, ParseError> {
        let start = self.start();
        if !self.eat("not") {
            return self.comparison();
        }
        let operand = self.nested(Self::negation)?;
        self.node(Kind::Not(Box::new(operand)), start)
    }

    fn comparison(&mut self) -> Result<Node, ParseError> {
        let start = self.start();
        let left = self.sum()?;
        let Some(operator) = self.comparison_operator() else { return Ok(left) };
        let right = self.sum()?;
        let second = self.token().span.clone();
        if self.comparison_operator().is_some() {
            let message = "comparisons do not chain; join two of them with `and`";
            return Err(ParseError::new(self.source, second, message));
        }
        self.node(Kind::Binary(operator, Box::new(left), Box::new(right)), start)
    }

    fn comparison_operator(&mut self) -> Option<Operator> {
        let operator = match self.token().kind {
            TokenKind::Symbol("=" | "==") => Operator::Equal,
            TokenKind::Symbol("!=") => Operator::Different,
            TokenKind::Symbol("<") => Operator::Less,
            TokenKind::Symbol("<=") => Operator::AtMost,
            TokenKind::Symbol(">") => Operator::Greater,
            TokenKind::Symbol(">=") => Operator::AtLeast,
            TokenKind::Symbol("in") => Operator::In,
            TokenKind::Symbol("has") => Operator::Has,
            TokenKind::Symbol(_)
            | TokenKind::Literal(_)
            | TokenKind::Attribute(_)
            | TokenKind::End => return None,
        };
        self.advance();
        Some(operator)
    }

    fn sum(&mut self) -> Result<Node, ParseError> {
        self.chain([("+", Operator::Add), ("-", Operator::Subtract)], Self::product)
    }

    fn product(&mut self) -> Result<Node, ParseError> {
        self.chain([("*", Operator::Multiply), ("/", Operator::Divide)], Self::unary)
    }

    /// Operands with operators of one rank between them, applied from left to right.
    fn chain(
        &mut self,
        operators: [(&str, Operator); 2],
        operand: impl Fn(&mut Self) -> Result<Node, ParseError>,
    ) -> Result<Node, ParseError> {
        let start = self.start();
        let mut left = operand(self)?;
        while let Some((_, operator)) = operators.into_iter().find(|(symbol, _)| self.eat(symbol)) {
            let right = operand(self)?;
            left = self.node(Kind::Binary(operator, Box::new(left), Box::new(right)), start)?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Node, ParseError> {
        let start = self.start();
        if !self.eat("-") {
            return self.primary();
        }
        let operand = self.nested(Self::unary)?;
        // The negative of a literal is a literal, so that every value has one.
        let kind = if let Kind::Literal(Value::Quantity(quantity)) = operand.kind {
            Kind::Literal(quantity.negated().into())
        } else {
            Kind::Negative(Box::new(operand))
        };
        self.node(kind, start)
    }

    fn primary(&mut self) -> Result<Node, ParseError> {
        let start = self.start();
        if self.eat("(") {
            let inner = self.nested(Self::any)?;
            self.expect(")")?;
            return Ok(Node { span: self.span_since(start), ..inner });
        }
        if self.eat("{") {
            let set = self.set()?;
            return self.node(Kind::Literal(Value::Set(set)), start);
        }
        let kind = match &self.token().kind {
            TokenKind::Literal(value) => Kind::Literal(value.clone()),
            TokenKind::Attribute(name) => Kind::Attribute(name.clone()),
            TokenKind::Symbol(_) | TokenKind::End => {
                return Err(self.unexpected("a value, an attribute or `(`"));
            }
        };
        self.advance();
        self.node(kind, start)
    }

    /// The elements of a set; its brace is open already.
    fn set(&mut self) -> Result<Set, ParseError> {
        let start = self.start();
        let mut values = Vec::new();
        if !self.eat("}") {
            loop {
                values.push(self.scalar()?);
                if self.eat("}") {
                    break;
                }
                if !self.eat(",") {
                    return Err(self.unexpected("`,` or `}`"));
                }
            }
        }
        let span = self.span_since(start);
        Set::new(values).map_err(|bad| ParseError::new(self.source, span, bad.to_string()))
    }

    /// A literal that is no set.
    fn scalar(&mut self) -> Result<Value, ParseError> {
        let negative = self.eat("-");
        let TokenKind::Literal(value) = &self.token().kind else {
            return Err(self.unexpected("a value"));
        };
        let value = if !negative {
            value.clone()
        } else if let Value::Quantity(quantity) = value {
            quantity.negated().into()
        } else {
            return Err(self.unexpected("a number"));
        };
        self.advance();
        Ok(value)
    }
}
