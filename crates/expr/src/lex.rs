//! From text to tokens.

use std::ops::Range;

use crate::error::{ParseError, escape, is_hidden};
use crate::quantity::{ONE, Quantity};
use crate::units::{self, Dimension};
use crate::value::Value;
use crate::version::Version;

/// The longest name of an attribute, in bytes.
pub(crate) const MAX_NAME: usize = 64;

/// The words that are no attributes.
const KEYWORDS: [&str; 5] = ["and", "has", "in", "not", "or"];

/// Operators and brackets, those of two characters first.
const SYMBOLS: [&str; 16] =
    ["==", "!=", "<=", ">=", "=", "<", ">", "+", "-", "*", "/", "(", ")", "{", "}", ","];

/// What people write in other languages, and what is meant.
const FOREIGN: [(&str, &str); 5] = [
    ("&&", "write `and`"),
    ("||", "write `or`"),
    ("!", "write `not`"),
    ("'", "write texts between double quotes"),
    ("%", "there is no remainder"),
];

/// A token and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Range<usize>,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    Literal(Value),
    Attribute(String),
    /// An operator, bracket or keyword.
    Symbol(&'static str),
    End,
}

/// What a name is, without backticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// Letters, digits and `_`, in parts with points between them.
    Plain,
    /// The same with `-` between two letters or digits, and labels between braces right behind it.
    Measured,
}

/// All tokens of `source`, with [`TokenKind::End`] behind the last.
pub(crate) fn tokens(source: &str, names: Names) -> Result<Vec<Token>, ParseError> {
    let mut lexer = Lexer { source, at: 0, names };
    let mut tokens = Vec::new();
    loop {
        let token = lexer.token()?;
        let end = token.kind == TokenKind::End;
        tokens.push(token);
        if end {
            return Ok(tokens);
        }
    }
}

/// Whether `text` can stand as an attribute as it is, without backticks.
pub(crate) fn is_plain_name(text: &str) -> bool {
    let part = |part: &str| part.starts_with(is_name_start) && part.chars().all(is_name_part);
    text.split('.').all(part) && !is_reserved(text)
}

fn is_reserved(word: &str) -> bool {
    KEYWORDS.contains(&word) || matches!(word, "true" | "false")
}

fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn is_name_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    names: Names,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    /// Takes the characters up to the first that is not `wanted`.
    fn take(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let taken = &rest[..rest.find(|c| !wanted(c)).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    /// Takes `text` if it comes next and a character that is `then` follows.
    fn take_before(&mut self, text: &str, then: impl Fn(char) -> bool) -> bool {
        let found = self.rest().strip_prefix(text).is_some_and(|rest| rest.starts_with(then));
        self.at += if found { text.len() } else { 0 };
        found
    }

    /// An error about everything since `start`.
    fn error(&self, start: usize, message: impl Into<String>) -> ParseError {
        ParseError::new(self.source, start..self.at, message)
    }

    fn token(&mut self) -> Result<Token, ParseError> {
        self.take(|c| matches!(c, ' ' | '\t' | '\r' | '\n'));
        let start = self.at;
        let kind = match self.rest().chars().next() {
            None => TokenKind::End,
            Some('"') => TokenKind::Literal(Value::Text(self.text()?)),
            Some('`') => TokenKind::Attribute(self.quoted_name()?),
            Some(c) if c.is_ascii_digit() => TokenKind::Literal(self.number()?),
            Some('v') if self.is_version() => {
                self.at += 1;
                TokenKind::Literal(self.version(start)?)
            }
            Some(c) if is_name_start(c) => self.word()?,
            Some(c) => TokenKind::Symbol(self.symbol(c)?),
        };
        Ok(Token { kind, span: start..self.at })
    }

    fn symbol(&mut self, c: char) -> Result<&'static str, ParseError> {
        let start = self.at;
        if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| self.rest().starts_with(symbol)) {
            self.at += symbol.len();
            return Ok(symbol);
        }
        let foreign = FOREIGN.into_iter().find(|(foreign, _)| self.rest().starts_with(foreign));
        self.at += foreign.map_or(c.len_utf8(), |(foreign, _)| foreign.len());
        let found = escape(&self.source[start..self.at]);
        Err(match foreign {
            Some((_, help)) => self.error(start, format!("unexpected `{found}`; {help}")),
            None if c.is_alphabetic() => {
                let help = "a name with other than ASCII letters stands between backticks";
                self.error(start, format!("unexpected `{found}`; {help}"))
            }
            None => self.error(start, format!("unexpected `{found}`")),
        })
    }

    fn word(&mut self) -> Result<TokenKind, ParseError> {
        let start = self.at;
        self.take(is_name_part);
        while self.take_before(".", is_name_start) || self.take_hyphen() {
            self.take(is_name_part);
        }
        let labelled = self.names == Names::Measured && self.rest().starts_with('{');
        if labelled && !is_reserved(&self.source[start..self.at]) {
            self.take(|c| c != '}' && !is_hidden(c));
            if !self.rest().starts_with('}') {
                return Err(self.error(start, "expected `}` behind the labels"));
            }
            self.at += 1;
        }
        let word = &self.source[start..self.at];
        if let Some(keyword) = KEYWORDS.into_iter().find(|keyword| *keyword == word) {
            return Ok(TokenKind::Symbol(keyword));
        }
        match word {
            "true" => Ok(TokenKind::Literal(Value::Flag(true))),
            "false" => Ok(TokenKind::Literal(Value::Flag(false))),
            name => self.name(start, name),
        }
    }

    /// Takes a `-` that is part of a name.
    fn take_hyphen(&mut self) -> bool {
        self.names == Names::Measured && self.take_before("-", |c| c.is_ascii_alphanumeric())
    }

    fn quoted_name(&mut self) -> Result<String, ParseError> {
        let start = self.at;
        self.at += 1;
        let name = self.take(|c| !matches!(c, '`' | '\'') && !is_hidden(c)).to_owned();
        if !self.rest().starts_with('`') {
            return Err(self.error(start, "expected a backtick at the end of the name"));
        }
        self.at += 1;
        if name.is_empty() {
            return Err(self.error(start, "expected a name between the backticks"));
        }
        self.name(start, &name).map(|_| name)
    }

    fn name(&self, start: usize, name: &str) -> Result<TokenKind, ParseError> {
        if name.len() > MAX_NAME {
            return Err(self.error(start, format!("a name has at most {MAX_NAME} bytes")));
        }
        Ok(TokenKind::Attribute(name.to_owned()))
    }

    /// A text between double quotes.
    fn text(&mut self) -> Result<String, ParseError> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            text.push_str(self.take(|c| !matches!(c, '"' | '\\') && !c.is_control()));
            let here = self.at;
            let Some(c) = self.rest().chars().next() else {
                return Err(self.error(start, "expected `\"` at the end of the text"));
            };
            self.at += c.len_utf8();
            match c {
                '"' => return Ok(text),
                '\\' => text.push(self.escaped(here)?),
                c => {
                    let message = format!("write `{}` in a text", c.escape_default());
                    return Err(self.error(here, message));
                }
            }
        }
    }

    /// The character that the escape at `start` stands for; its backslash is taken already.
    fn escaped(&mut self, start: usize) -> Result<char, ParseError> {
        let c = self.rest().chars().next();
        self.at += c.map_or(0, char::len_utf8);
        match c {
            Some('n') => return Ok('\n'),
            Some('r') => return Ok('\r'),
            Some('t') => return Ok('\t'),
            Some(c @ ('"' | '\\')) => return Ok(c),
            Some('u') if self.take_before("{", |c| c.is_ascii_hexdigit()) => {
                let code = u32::from_str_radix(self.take(|c| c.is_ascii_hexdigit()), 16);
                let closed = self.rest().starts_with('}');
                self.at += usize::from(closed);
                if let Some(c) = code.ok().filter(|_| closed).and_then(char::from_u32) {
                    return Ok(c);
                }
            }
            Some(_) | None => {}
        }
        Err(self.error(start, "expected one of the escapes \\\" \\\\ \\n \\r \\t \\u{...}"))
    }

    /// Whether `v`, digits, a point and a digit come next.
    fn is_version(&self) -> bool {
        let rest = &self.rest()[1..];
        let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        digits.len() < rest.len()
            && digits
                .strip_prefix('.')
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    }

    /// Digits, and more of them behind points.
    fn dotted(&mut self) -> &'a str {
        let start = self.at;
        self.take(|c| c.is_ascii_digit());
        while self.take_before(".", |c| c.is_ascii_digit()) {
            self.take(|c| c.is_ascii_digit());
        }
        &self.source[start..self.at]
    }

    fn version(&mut self, start: usize) -> Result<Value, ParseError> {
        let components: Result<Vec<u32>, _> = self.dotted().split('.').map(str::parse).collect();
        if !self.take(is_name_part).is_empty() {
            return Err(self.error(start, "a version consists of numbers and points only"));
        }
        let components =
            components.map_err(|_| self.error(start, "a number in this version is too large"))?;
        let version = Version::new(components).ok_or_else(|| {
            let most = Version::MAX_COMPONENTS;
            self.error(start, format!("a version has at most {most} components"))
        })?;
        Ok(Value::Version(version))
    }

    /// A number, with or without a unit, or a version without a `v`.
    fn number(&mut self) -> Result<Value, ParseError> {
        let start = self.at;
        let digits = self.dotted();
        if digits.bytes().filter(|&c| c == b'.').count() > 1 {
            self.at = start;
            return self.version(start);
        }
        if self.rest().starts_with('.') {
            self.at += 1;
            return Err(self.error(start, "expected a digit behind the point"));
        }
        let symbol = self.take(|c| c.is_ascii_alphabetic());
        let (dimension, factor) = self.unit(start + digits.len(), symbol)?;
        let mut sum = self.scaled(start, digits, dimension, factor)?;
        // A duration may go on in smaller units: `1h30m`.
        let mut last = factor;
        while dimension == Dimension::Duration
            && self.rest().starts_with(|c: char| c.is_ascii_digit())
        {
            let (before, digits, at) = (self.at, self.dotted(), self.at);
            if digits.bytes().filter(|&c| c == b'.').count() > 1 {
                return Err(self.error(before, "expected a number"));
            }
            let symbol = self.take(|c| c.is_ascii_alphabetic());
            let (dimension, factor) = self.unit(at, symbol)?;
            if dimension != Dimension::Duration || factor >= last {
                return Err(self.error(at, "expected a smaller unit of time"));
            }
            sum = sum
                .checked_add(self.scaled(start, digits, dimension, factor)?)
                .unwrap_or(i128::MAX);
            last = factor;
        }
        let quantity = Quantity::from_millionths(sum, dimension);
        quantity.map(Value::Quantity).ok_or_else(|| self.error(start, "this number is too large"))
    }

    /// The dimension of a unit, and its millionths.
    fn unit(&self, start: usize, symbol: &str) -> Result<(Dimension, i128), ParseError> {
        if symbol.is_empty() {
            return Ok((Dimension::Number, ONE));
        }
        let unit = units::find(symbol).map_err(|message| self.error(start, message))?;
        Ok((unit.dimension, unit.millionths))
    }

    /// `digits`, a decimal number, times `factor`; the result must be whole.
    fn scaled(
        &self,
        start: usize,
        digits: &str,
        dimension: Dimension,
        factor: i128,
    ) -> Result<i128, ParseError> {
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let fraction = fraction.trim_end_matches('0');
        let product = format!("{whole}{fraction}").parse::<i128>().ok();
        let product = product.and_then(|number| number.checked_mul(factor));
        let scale = u32::try_from(fraction.len()).ok().and_then(|len| 10_i128.checked_pow(len));
        match (product, scale) {
            (Some(product), Some(scale)) if product % scale == 0 => Ok(product / scale),
            (Some(_), _) => {
                let of = dimension.base_unit().map(|base| format!(" of 1{base}"));
                let message = format!("this is finer than a millionth{}", of.unwrap_or_default());
                Err(self.error(start, message))
            }
            (None, _) => Err(self.error(start, "this number is too large")),
        }
    }
}
