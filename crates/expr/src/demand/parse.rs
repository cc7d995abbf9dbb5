//! From text to a demand. The grammar is in the documentation of the module above.

use std::ops::Range;
use std::time::Duration;

use crate::Expr;
use crate::demand::{Alternative, BadDemand, Bundle, Demand, Item, check_kind, check_units};
use crate::error::{ParseError, escape};
use crate::quantity::Quantity;
use crate::units::Dimension;
use crate::value::Value;

/// A token and where it stands.
struct Token<'a> {
    kind: TokenKind<'a>,
    span: Range<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TokenKind<'a> {
    /// A keyword, a number, a range, a kind or a duration.
    Word(&'a str),
    /// What stands between single quotes.
    Quoted(&'a str),
    /// What stands behind `where` without quotes.
    Bare(&'a str),
    /// A comma, a bar or a parenthesis.
    Mark(char),
    End,
}

/// Parses a demand and checks it.
pub(super) fn demand(source: &str) -> Result<Demand, ParseError> {
    if source.len() > Demand::MAX_LEN {
        let end = source.len();
        return Err(ParseError::new(source, end..end, BadDemand::TooLong.to_string()));
    }
    let mut parser = Parser { source, tokens: tokens(source)?, next: 0 };
    let mut alternatives = vec![parser.alternative()?];
    while parser.eat(TokenKind::Mark('|')) {
        alternatives.push(parser.alternative()?);
    }
    if parser.token().kind != TokenKind::End {
        return Err(parser.unexpected("`,`, `|`, `where`, `after` or the end"));
    }
    Demand::new(alternatives)
        .map_err(|bad| ParseError::new(source, 0..source.len(), bad.to_string()))
}

/// The condition without quotes that begins here, if one does.
fn bare<'a>(before: &[Token<'_>], rest: &'a str) -> Option<&'a str> {
    let behind_where = before.last().is_some_and(|last| last.kind == TokenKind::Word("where"));
    let may_begin = behind_where && !rest.starts_with('\'');
    let bare = may_begin.then(|| &rest[..condition_len(rest)]);
    bare.filter(|bare| !bare.is_empty())
}

/// How long the condition is with which `rest` begins. A comma, a bar or a parenthesis that is not its own ends it,
/// and so does `after`.
fn condition_len(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(c) = rest[at..].chars().next() {
        let word = rest[at..].find(|c| !is_word(c)).unwrap_or(rest.len() - at);
        match c {
            '(' | '{' => depth += 1,
            ')' | '}' if depth > 0 => depth -= 1,
            ')' | ',' | '|' if depth == 0 => break,
            _ if depth == 0 && &rest[at..at + word] == "after" => break,
            _ => {}
        }
        at += match c {
            '"' | '`' => quoted_len(&rest[at..], c),
            _ => word.max(c.len_utf8()),
        };
    }
    rest[..at].trim_end().len()
}

/// How long the text or name is with which `rest` begins, with both quotes; all of `rest` without a second one.
fn quoted_len(rest: &str, quote: char) -> usize {
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == quote {
            return at + 1;
        }
        // A name between backticks has no escapes.
        if c == '\\' && quote == '"' {
            chars.next();
        }
    }
    rest.len()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '_' | '-')
}

fn tokens(source: &str) -> Result<Vec<Token<'_>>, ParseError> {
    let (mut tokens, mut at) = (Vec::new(), 0);
    while let Some(c) = source[at..].chars().next() {
        let rest = &source[at..];
        if matches!(c, ' ' | '\t' | '\r' | '\n') {
            at += 1;
            continue;
        }
        if let Some(bare) = bare(&tokens, rest) {
            tokens.push(Token { kind: TokenKind::Bare(bare), span: at..at + bare.len() });
            at += bare.len();
            continue;
        }
        let (kind, len) = match c {
            '(' | ')' | ',' | '|' => (TokenKind::Mark(c), 1),
            '\'' => match rest[1..].split_once('\'') {
                Some((inside, _)) => (TokenKind::Quoted(inside), inside.len() + 2),
                None => {
                    let message = "expected `'` at the end of the condition";
                    return Err(ParseError::new(source, at..source.len(), message));
                }
            },
            c if is_word(c) => {
                let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                (TokenKind::Word(&rest[..len]), len)
            }
            c => {
                let found = escape(&rest[..c.len_utf8()]);
                let message = format!("unexpected `{found}`");
                return Err(ParseError::new(source, at..at + c.len_utf8(), message));
            }
        };
        tokens.push(Token { kind, span: at..at + len });
        at += len;
    }
    tokens.push(Token { kind: TokenKind::End, span: at..at });
    Ok(tokens)
}

struct Parser<'a> {
    source: &'a str,
    tokens: Vec<Token<'a>>,
    next: usize,
}

impl<'a> Parser<'a> {
    fn token(&self) -> &Token<'a> {
        // The last token is `End`, which is never passed.
        &self.tokens[self.next]
    }

    fn advance(&mut self) {
        if self.token().kind != TokenKind::End {
            self.next += 1;
        }
    }

    fn eat(&mut self, kind: TokenKind<'_>) -> bool {
        let found = self.token().kind == kind;
        if found {
            self.advance();
        }
        found
    }

    fn span_since(&self, start: usize) -> Range<usize> {
        let end = self.next.checked_sub(1).map_or(start, |last| self.tokens[last].span.end);
        start..end
    }

    fn error(&self, span: Range<usize>, message: impl Into<String>) -> ParseError {
        ParseError::new(self.source, span, message)
    }

    fn unexpected(&self, expected: &str) -> ParseError {
        let Token { kind, span } = self.token();
        let found = match kind {
            TokenKind::End => "the end".to_owned(),
            TokenKind::Word(_) | TokenKind::Quoted(_) | TokenKind::Bare(_) | TokenKind::Mark(_) => {
                format!("`{}`", escape(&self.source[span.clone()]))
            }
        };
        self.error(span.clone(), format!("expected {expected}, found {found}"))
    }

    fn alternative(&mut self) -> Result<Alternative, ParseError> {
        let start = self.token().span.start;
        let mut bundles = vec![self.bundle()?];
        while self.eat(TokenKind::Mark(',')) {
            bundles.push(self.bundle()?);
        }
        let alternative = Alternative { bundles };
        let checked = alternative.check();
        checked.map_err(|bad| self.error(self.span_since(start), bad.to_string()))?;
        Ok(alternative)
    }

    fn bundle(&mut self) -> Result<Bundle, ParseError> {
        if !self.eat(TokenKind::Mark('(')) {
            return Ok(Bundle { items: vec![self.item()?] });
        }
        let mut items = vec![self.item()?];
        while self.eat(TokenKind::Mark(',')) {
            items.push(self.item()?);
        }
        match self.token().kind {
            TokenKind::Mark(')') => self.advance(),
            TokenKind::Mark('|') => {
                let span = self.token().span.clone();
                return Err(self.error(span, "alternatives cannot stand between parentheses"));
            }
            TokenKind::Mark(_)
            | TokenKind::Word(_)
            | TokenKind::Quoted(_)
            | TokenKind::Bare(_)
            | TokenKind::End => {
                return Err(self.unexpected("`,` or `)`"));
            }
        }
        Ok(Bundle { items })
    }

    fn item(&mut self) -> Result<Item, ParseError> {
        let start = self.token().span.start;
        let optional = self.eat(TokenKind::Word("optional"));
        let (min_units, max_units) = self.units()?;
        let kind = self.kind()?;
        let mut item = Item { min_units, max_units, optional, ..Item::new(1, kind) };
        let (mut offset, mut condition) = (false, false);
        loop {
            if !offset && self.eat(TokenKind::Word("after")) {
                offset = true;
                item.after = self.duration()?;
            } else if !condition && self.eat(TokenKind::Word("where")) {
                condition = true;
                item.condition = Some(self.condition()?);
            } else {
                break;
            }
        }
        item.check().map_err(|bad| self.error(self.span_since(start), bad.to_string()))?;
        Ok(item)
    }

    /// The name of a resource type.
    fn kind(&mut self) -> Result<String, ParseError> {
        let TokenKind::Word(word) = self.token().kind else {
            return Err(self.unexpected("a type"));
        };
        check_kind(word).map_err(|bad| self.error(self.token().span.clone(), bad.to_string()))?;
        self.advance();
        Ok(word.to_owned())
    }

    /// How many units at least and at most; one if only a type is named.
    fn units(&mut self) -> Result<(u32, u32), ParseError> {
        let expected = "a type, or a number of units such as `4` or `2..4`";
        let TokenKind::Word(word) = self.token().kind else {
            return Err(self.unexpected(expected));
        };
        if !word.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok((1, 1));
        }
        let (min, max) = word.split_once("..").unwrap_or((word, word));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
        if !digits(min) || !digits(max) {
            return Err(self.unexpected(expected));
        }
        let (Ok(min), Ok(max)) = (min.parse(), max.parse()) else {
            return Err(self.error(self.token().span.clone(), "this number is too large"));
        };
        check_units(min, max)
            .map_err(|bad| self.error(self.token().span.clone(), bad.to_string()))?;
        self.advance();
        Ok((min, max))
    }

    fn duration(&mut self) -> Result<Duration, ParseError> {
        let expected = "a duration such as `30m`";
        let TokenKind::Word(word) = self.token().kind else {
            return Err(self.unexpected(expected));
        };
        let quantity = match Value::parse(word) {
            Ok(Value::Quantity(quantity)) if quantity.dimension() == Dimension::Duration => {
                quantity
            }
            Ok(_) => return Err(self.unexpected(expected)),
            Err(error) => return Err(error.within(self.source, self.token().span.start)),
        };
        let micros = micros(quantity)
            .ok_or_else(|| self.error(self.token().span.clone(), BadDemand::Offset.to_string()))?;
        self.advance();
        Ok(micros)
    }

    fn condition(&mut self) -> Result<Expr, ParseError> {
        let (text, quote) = match self.token().kind {
            TokenKind::Quoted(text) => (text, 1),
            TokenKind::Bare(text) => (text, 0),
            TokenKind::Word(_) | TokenKind::Mark(_) | TokenKind::End => {
                return Err(self.unexpected("a condition such as `cpus >= 8`"));
            }
        };
        let start = self.token().span.start + quote;
        let expr = Expr::parse_condition(text).map_err(|error| error.within(self.source, start))?;
        self.advance();
        Ok(expr)
    }
}

fn micros(quantity: Quantity) -> Option<Duration> {
    u64::try_from(quantity.millionths()).ok().map(Duration::from_micros)
}
