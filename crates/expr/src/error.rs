//! Errors, and how they are shown under the source they are about.

use std::fmt::Write as _;
use std::ops::Range;

use thiserror::Error;

use crate::types::{Type, TypeError};

/// A text that cannot be read as an expression, a value or a demand.
///
/// # Example
///
/// ```
/// let source = "cpus >= and memory >= 16GiB";
/// let error = tenure_expr::Expr::parse(source).unwrap_err();
/// assert_eq!(
///     error.render(source),
///     "cpus >= and memory >= 16GiB\n        ^^^\nexpected a value, an attribute or `(`, found `and`"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message} (column {column})")]
pub struct ParseError {
    message: String,
    span: Range<usize>,
    column: usize,
}

impl ParseError {
    pub(crate) fn new(source: &str, span: Range<usize>, message: impl Into<String>) -> Self {
        let column = column(source, span.start);
        Self { message: message.into(), span, column }
    }

    /// The same error, of a text that begins at `start` of `source`.
    pub(crate) fn within(self, source: &str, start: usize) -> Self {
        Self::new(source, start + self.span.start..start + self.span.end, self.message)
    }

    /// What is wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The bytes of the source that are to blame; empty if something is missing there.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// The column in characters, counted from 1.
    pub fn column(&self) -> usize {
        self.column
    }

    /// The source, the place marked under it, and what is wrong with it.
    pub fn render(&self, source: &str) -> String {
        render(source, &self.span, &self.message)
    }
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// An attribute that is not stated.
    #[error("unknown attribute `{}`", escape(.0))]
    UnknownAttribute(String),
    /// Operands of the wrong type.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// A value, where true or false is wanted.
    #[error("this is a {0}, not a condition")]
    NotACondition(Type),
    /// A result beyond the range of [`Quantity`](crate::Quantity).
    #[error("the result is too large")]
    Overflow,
    /// A division by zero.
    #[error("division by zero")]
    DivisionByZero,
}

/// An expression that has no value for some attributes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{fault}")]
pub struct EvalError {
    fault: Fault,
    span: Range<usize>,
}

impl EvalError {
    pub(crate) fn new(span: &Range<usize>, fault: impl Into<Fault>) -> Self {
        Self { fault: fault.into(), span: span.clone() }
    }

    /// What is wrong.
    pub fn fault(&self) -> &Fault {
        &self.fault
    }

    /// The bytes of the expression's text that are to blame.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// The expression's text, the place marked under it, and what is wrong with it; for an unknown
    /// attribute with the nearest of those that are `known`.
    ///
    /// `source` is the text of the expression, as [`Expr::as_str`](crate::Expr::as_str) has it.
    ///
    /// # Example
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use tenure_expr::{Expr, Value};
    ///
    /// let expr = Expr::parse("cpus >= 8 and memroy >= 16GiB").unwrap();
    /// let attributes = ["cpus", "memory"].map(|name| (name, Value::parse("8").unwrap()));
    /// let error = expr.evaluate(&BTreeMap::from(attributes)).unwrap_err();
    /// let shown = error.render(expr.as_str(), ["cpus", "memory"]);
    /// assert_eq!(shown, "\
    /// cpus >= 8 and memroy >= 16GiB
    ///               ^^^^^^
    /// unknown attribute `memroy`; did you mean `memory`?");
    /// ```
    pub fn render<'a>(&self, source: &str, known: impl IntoIterator<Item = &'a str>) -> String {
        let mut message = self.fault.to_string();
        if let Fault::UnknownAttribute(name) = &self.fault
            && let Some(near) = nearest(name, known)
        {
            let _ = write!(message, "; did you mean `{}`?", escape(near));
        }
        render(source, &self.span, &message)
    }
}

/// The column of the byte `at`, in characters from 1.
fn column(source: &str, at: usize) -> usize {
    1 + source.char_indices().take_while(|(start, _)| *start < at).count()
}

/// `source`, a caret under each column of `span`, and the message.
fn render(source: &str, span: &Range<usize>, message: &str) -> String {
    let (mut line, mut before, mut marked) = (String::new(), 0, 0);
    for (at, c) in source.char_indices() {
        let shown = escape(c.encode_utf8(&mut [0; 4]));
        let width: usize = shown.chars().map(width).sum();
        if at < span.start {
            before += width;
        } else if at < span.end {
            marked += width;
        }
        line.push_str(&shown);
    }
    format!("{line}\n{:before$}{:^<marked$}\n{message}", "", "", marked = marked.max(1))
}

/// How many columns of a terminal a character takes: two for those of East Asian scripts and for
/// pictures, none for accents that combine with the letter before them.
fn width(c: char) -> usize {
    match u32::from(c) {
        0x0300..=0x036F | 0x20D0..=0x20FF | 0xFE00..=0xFE0F => 0,
        0x1100..=0x115F
        | 0x2E80..=0x303E
        | 0x3041..=0xA4CF
        | 0xAC00..=0xD7A3
        | 0xF900..=0xFAFF
        | 0xFE30..=0xFE6F
        | 0xFF00..=0xFF60
        | 0xFFE0..=0xFFE6
        | 0x1F300..=0x1F64F
        | 0x1F900..=0x1F9FF
        | 0x20000..=0x3FFFD => 2,
        _ => 1,
    }
}

/// Whether a character would act on a terminal or hide there, rather than be seen: control characters,
/// and those of no width that turn or join text.
///
/// The list is fixed, rather than that of the newest Unicode, since the text of an expression depends on
/// it and must be the same in every build.
pub(crate) fn is_hidden(c: char) -> bool {
    let code = u32::from(c);
    c.is_control()
        || matches!(code, 0xAD | 0x61C | 0x180E | 0xFEFF | 0xE0000..=0xE007F)
        || matches!(code, 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F)
}

/// `text` with hidden characters as escapes, fit to be printed.
pub(crate) fn escape(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// The candidate that `word` is most likely a misspelling of, if any is near.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= limit && *distance < candidate.len())
        .min()
        .map(|(_, candidate)| candidate)
}

/// How many characters must be inserted, removed, replaced or swapped with their neighbour to make `b`
/// of `a`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carets_stand_under_what_is_seen() {
        assert_eq!(render("größe > x", &(10..11), "m"), "größe > x\n        ^\nm");
        assert_eq!(render("\"日本\" > x", &(11..12), "m"), "\"日本\" > x\n         ^\nm");
        assert_eq!(render("a\t\u{1b} b", &(4..5), "m"), "a\\t\\u{1b} b\n          ^\nm");
        assert_eq!(render("a >", &(3..3), "m"), "a >\n   ^\nm");
        assert_eq!(column("größe > x", 10), 9);
    }

    #[test]
    fn a_near_word_is_found() {
        let known = ["cpus", "memory", "site"];
        assert_eq!(nearest("memroy", known), Some("memory"));
        assert_eq!(nearest("cpu", known), Some("cpus"));
        assert_eq!(nearest("gpu.count", known), None);
        assert_eq!(nearest("x", ["y"]), None);
        assert_eq!(nearest("", known), None);
    }

    #[test]
    fn distances_count_edits() {
        for (a, b, edits) in [
            ("", "", 0),
            ("ab", "ba", 1),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("ca", "abc", 3),
        ] {
            assert_eq!((distance(a, b), distance(b, a)), (edits, edits), "{a} {b}");
        }
    }
}
