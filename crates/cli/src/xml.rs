//! XML in files: outermost elements, of which there may be several, and where each wrong thing is.

use roxmltree::{Document, Error, Node, TextPos};
use thiserror::Error as ThisError;

/// What is wrong with a text, and where.
#[derive(Debug, ThisError)]
#[error("{message} at {at}")]
pub(crate) struct BadXml {
    message: String,
    /// Line and column.
    at: TextPos,
}

/// The element around all of a text, since a document has one outermost element.
const AROUND: &str = "elements";

/// Reads the outermost elements of a text.
pub(crate) fn read<T>(
    text: &str,
    read: impl FnOnce(&[Node<'_, '_>]) -> Result<T, BadXml>,
) -> Result<T, BadXml> {
    let begin = begin(text);
    let (before, after) = text.split_at(begin);
    let around = format!("{before}<{AROUND}>{after}</{AROUND}>");
    let result =
        Document::parse(&around).map_err(|error| syntax(&error, &around)).and_then(|document| {
            let elements: Vec<_> = inside(document.root_element()).collect();
            if elements.is_empty() {
                return Err(wrong(document.root_element(), "there is no element".to_owned()));
            }
            read(&elements)
        });
    result.map_err(|error| BadXml { at: without(before, error.at), ..error })
}

/// Where the elements begin: after the declaration.
fn begin(text: &str) -> usize {
    let start = text.len() - text.trim_start_matches('\u{feff}').len();
    let declared = text.get(start..).is_some_and(|rest| rest.starts_with("<?xml"));
    let end = if declared { text.find("?>").map(|end| end + "?>".len()) } else { None };
    end.unwrap_or(start)
}

/// A place in the text without the tag that was put in after `before`.
fn without(before: &str, at: TextPos) -> TextPos {
    let tag = end_of(before);
    let width = u32::try_from(AROUND.len() + 2).unwrap_or(0);
    if at.row != tag.row || at.col < tag.col {
        return at;
    }
    TextPos::new(at.row, at.col.saturating_sub(width).max(tag.col))
}

fn end_of(text: &str) -> TextPos {
    let row = 1 + text.matches('\n').count();
    let column = 1 + text.chars().rev().take_while(|&c| c != '\n').count();
    let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
    TextPos::new(number(row), number(column))
}

/// What the parser says; where it names no place, the text ends too early.
fn syntax(error: &Error, around: &str) -> BadXml {
    let closing = around.len() - AROUND.len() - "</>".len();
    let end = || end_of(around.get(..closing).unwrap_or_default());
    if let Error::UnexpectedCloseTag(open, close, _) = error
        && close == AROUND
    {
        return BadXml { message: format!("<{open}> is not closed"), at: end() };
    }
    let ends = matches!(error, Error::UnexpectedEndOfStream | Error::UnclosedRootNode);
    let (message, at) = (error.to_string(), error.pos());
    let message = message.strip_suffix(&format!(" at {at}")).unwrap_or(&message).to_owned();
    BadXml { message, at: if ends { end() } else { at } }
}

/// What is in an element, without comments and space.
pub(crate) fn inside<'a, 'i>(node: Node<'a, 'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(|child| !is_filler(*child))
}

fn is_filler(node: Node<'_, '_>) -> bool {
    let blank = node.text().is_none_or(|text| text.trim().is_empty());
    node.is_comment() || node.is_pi() || (node.is_text() && blank)
}

/// Whether it is an element of this name, with no other attributes than these.
pub(crate) fn expect(node: Node<'_, '_>, name: &str, attributes: &[&str]) -> Result<(), BadXml> {
    if !node.has_tag_name(name) {
        return Err(wrong(node, format!("<{name}> is expected")));
    }
    match node.attributes().find(|given| !attributes.contains(&given.name())) {
        Some(given) => Err(wrong(node, format!("<{name}> has no `{}`", given.name()))),
        None => Ok(()),
    }
}

/// The text of an element that has nothing else.
pub(crate) fn text<'a>(node: Node<'a, '_>) -> Result<&'a str, BadXml> {
    let name = node.tag_name().name();
    if let Some(element) = node.children().find(Node::is_element) {
        return Err(wrong(element, format!("a <{name}> has text alone")));
    }
    let text = node.text().map(str::trim).filter(|text| !text.is_empty());
    text.ok_or_else(|| wrong(node, format!("a <{name}> needs text")))
}

/// What is wrong about an element.
pub(crate) fn wrong(node: Node<'_, '_>, message: String) -> BadXml {
    BadXml { message, at: node.document().text_pos_at(node.range().start) }
}
