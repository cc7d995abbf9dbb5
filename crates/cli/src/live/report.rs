//! Reports on packages as files have them: JSON, or XML.

use roxmltree::Node;
use tenure_core::service_manager::plan::PackageReport;
use thiserror::Error as ThisError;

use crate::plan::gcube;
use crate::xml::{self, BadXml, expect, inside, wrong};

/// Why a report cannot be read.
#[derive(Debug, ThisError)]
pub(crate) enum BadReport {
    /// It is no JSON, or says something else.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// It is no XML, or says something else.
    #[error(transparent)]
    Xml(#[from] BadXml),
}

/// Reads reports; a text that begins with `<` is XML, in the words of gCube or in ours.
pub(crate) fn read(text: &str) -> Result<Vec<PackageReport>, BadReport> {
    if !text.trim_start_matches('\u{feff}').trim_start().starts_with('<') {
        return Ok(serde_json::from_str(text)?);
    }
    let reports = xml::read(text, |elements| match elements {
        [first, ..] if first.has_tag_name("GHN") => gcube::reports(elements),
        [_, second, ..] => Err(wrong(*second, "there is one <report>".to_owned())),
        [report] => packages(*report),
        [] => Ok(Vec::new()),
    });
    Ok(reports?)
}

/// `<report><package .../>...</report>`
fn packages(report: Node<'_, '_>) -> Result<Vec<PackageReport>, BadXml> {
    expect(report, "report", &[])?;
    inside(report).map(package).collect()
}

/// `<package node="alpha/u0" name="svc/web/1.0/main/1.0" error="no space left"/>`
fn package(node: Node<'_, '_>) -> Result<PackageReport, BadXml> {
    expect(node, "package", &["node", "name", "error"])?;
    if let Some(inner) = inside(node).next() {
        return Err(wrong(inner, "a <package> has nothing inside".to_owned()));
    }
    let needed = |name: &str| {
        let value = node.attribute(name).map(ToOwned::to_owned);
        value.ok_or_else(|| wrong(node, format!("a <package> needs `{name}`")))
    };
    let error = node.attribute("error").map(ToOwned::to_owned);
    Ok(PackageReport { node: needed("node")?, package: needed("name")?, error })
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
        assert_eq!(wrong("<report>\n <!-- -->"), "<report> is not closed at 2:10");
        assert_eq!(wrong("<report/><report/>"), "there is one <report> at 1:10");
        assert_eq!(wrong("<!-- -->"), "there is no element at 1:1");
        assert!(wrong("<report><package").contains("1:"), "{}", wrong("<report><package"));
        assert!(wrong("[{]").contains("line 1 column 3"), "{}", wrong("[{]"));
    }
}
