//! Reports on packages as files have them: JSON, or XML.

use roxmltree::{Document, Node};
use tenure_core::service_manager::plan::PackageReport;
use thiserror::Error as ThisError;

/// Why a report cannot be read.
#[derive(Debug, ThisError)]
pub(crate) enum BadReport {
    /// It is no JSON, or says something else.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// It is no XML; the parser names the place.
    #[error("{0}")]
    Xml(roxmltree::Error),
    /// It is XML that says something else.
    #[error("{message} at {at}")]
    Strange {
        /// What is wrong.
        message: String,
        /// Where, by line and column.
        at: roxmltree::TextPos,
    },
}

/// Reads reports; a text that begins with `<` is XML.
pub(crate) fn read(text: &str) -> Result<Vec<PackageReport>, BadReport> {
    if !text.trim_start_matches('\u{feff}').trim_start().starts_with('<') {
        return Ok(serde_json::from_str(text)?);
    }
    let document = Document::parse(text).map_err(|error| located(error, text))?;
    let root = document.root_element();
    expect(root, "report", &[])?;
    root.children().filter(|child| !is_filler(*child)).map(package).collect()
}

/// `<package node="alpha/u0" name="svc/web/1.0/main/1.0" error="no space left"/>`
fn package(node: Node<'_, '_>) -> Result<PackageReport, BadReport> {
    expect(node, "package", &["node", "name", "error"])?;
    if let Some(inner) = node.children().find(|child| !is_filler(*child)) {
        return Err(strange(inner, "a <package> has nothing inside".to_owned()));
    }
    let needed = |name: &str| {
        let value = node.attribute(name).map(ToOwned::to_owned);
        value.ok_or_else(|| strange(node, format!("a <package> needs `{name}`")))
    };
    let error = node.attribute("error").map(ToOwned::to_owned);
    Ok(PackageReport { node: needed("node")?, package: needed("name")?, error })
}

/// Whether an element has this name, and no other attributes than these.
fn expect(node: Node<'_, '_>, name: &str, attributes: &[&str]) -> Result<(), BadReport> {
    if !node.has_tag_name(name) {
        return Err(strange(node, format!("<{name}> is expected")));
    }
    match node.attributes().find(|given| !attributes.contains(&given.name())) {
        Some(given) => Err(strange(node, format!("<{name}> has no `{}`", given.name()))),
        None => Ok(()),
    }
}

/// Whether it is a comment, or space between elements.
fn is_filler(node: Node<'_, '_>) -> bool {
    let blank = node.text().is_none_or(|text| text.trim().is_empty());
    node.is_comment() || node.is_pi() || (node.is_text() && blank)
}

/// The parser names no place where the outermost element is not closed: it is the end of the text.
fn located(error: roxmltree::Error, text: &str) -> BadReport {
    if !matches!(error, roxmltree::Error::UnclosedRootNode) {
        return BadReport::Xml(error);
    }
    let row = 1 + text.matches('\n').count();
    let column = 1 + text.chars().rev().take_while(|&c| c != '\n').count();
    let at = roxmltree::TextPos::new(
        u32::try_from(row).unwrap_or(u32::MAX),
        u32::try_from(column).unwrap_or(u32::MAX),
    );
    BadReport::Strange { message: error.to_string(), at }
}

fn strange(node: Node<'_, '_>, message: String) -> BadReport {
    BadReport::Strange { message, at: node.document().text_pos_at(node.range().start) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn xml_says_the_same_as_json() {
        let json = r#"[{"node": "a/u0", "package": "x"}, {"node": "a/u1", "package": "y", "error": "no <space>"}]"#;
        let xml = "<?xml version=\"1.0\"?>\n<report><!-- both -->\n  <package node='a/u0' name='x'/>\n  \
                   <package node='a/u1' name='y' error='no &lt;space>'></package>\n</report>\n";
        assert_eq!(read(xml).unwrap(), read(json).unwrap());
        assert_eq!(read("\u{feff} <report/>").unwrap(), []);
    }

    #[test]
    fn what_is_no_report_is_refused_with_its_place() {
        assert_eq!(wrong("<plan/>"), "<report> is expected at 1:1");
        assert_eq!(wrong("<report>\n <node/>\n</report>"), "<package> is expected at 2:2");
        assert_eq!(wrong("<report> u0 </report>"), "<package> is expected at 1:9");
        assert_eq!(
            wrong("<report><package node='a'/></report>"),
            "a <package> needs `name` at 1:9"
        );
        let twice = "<report><package node='a' name='b' version='2'/></report>";
        assert_eq!(wrong(twice), "<package> has no `version` at 1:9");
        let inside = "<report><package node='a' name='b'><error/></package></report>";
        assert_eq!(wrong(inside), "a <package> has nothing inside at 1:36");
        assert_eq!(
            wrong("<report>\n <!-- -->"),
            "the root node was opened but never closed at 2:10"
        );
        assert!(wrong("<report><package").contains("1:"), "{}", wrong("<report><package"));
        assert!(wrong("[{]").contains("line 1 column 3"), "{}", wrong("[{]"));
    }
}
