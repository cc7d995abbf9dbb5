//! Problems and reports as gCube's matchmaker takes them: packages in groups of which each goes to one node
//! (gHN), and lists of nodes.

use std::collections::{BTreeMap, BTreeSet};

use roxmltree::Node;
use tenure_core::service_manager::plan::PackageReport;
use tenure_plan::{Package, Part, Place, Problem};

use crate::xml::{BadXml, expect, inside, text, wrong};

/// The components of a package, in the order of its identity.
const IDENTITY: [&str; 5] =
    ["ServiceClass", "ServiceName", "ServiceVersion", "PackageName", "PackageVersion"];

/// The problem of a request: a part for each package, a place for each node that a list names.
///
/// The packages of a group go where its list says or, if it has none, where the list of the request says.
pub(super) fn problem(elements: &[Node<'_, '_>], name: &str) -> Result<Problem, BadXml> {
    let (mut groups, mut all) = (Vec::new(), None);
    for element in elements {
        if element.has_tag_name("GHNList") {
            list(*element, &mut all)?;
        } else {
            groups.push(group(*element)?);
        }
    }
    let mut problem = Problem { name: name.to_owned(), ..Problem::default() };
    let mut copies = BTreeMap::new();
    let mut places: BTreeSet<String> = all.iter().flatten().cloned().collect();
    for group in groups {
        places.extend(group.only.iter().flatten().cloned());
        let only = group.only.or_else(|| all.clone());
        let part = |(package, reuse)| part(package, reuse, &only, &mut copies);
        let parts: Vec<Part> = group.packages.into_iter().map(part).collect();
        if parts.len() > 1 {
            problem.same_host.push(parts.iter().map(|part| part.name.clone()).collect());
        }
        problem.part.extend(parts);
    }
    problem.place = places.into_iter().map(|name| Place { name, ..Place::default() }).collect();
    Ok(problem)
}

/// Packages that go to one node.
struct Group {
    packages: Vec<(Package, bool)>,
    /// The nodes that they may go to.
    only: Option<Vec<String>>,
}

/// `<GHN><Package>...</Package>...<GHNList>...</GHNList></GHN>`
fn group(node: Node<'_, '_>) -> Result<Group, BadXml> {
    expect(node, "GHN", &[])?;
    let mut group = Group { packages: Vec::new(), only: None };
    for child in inside(node) {
        if child.has_tag_name("GHNList") {
            list(child, &mut group.only)?;
        } else {
            expect(child, "Package", &["reuse"])?;
            group.packages.push((package(child)?, reuse(child)?));
        }
    }
    if group.packages.is_empty() {
        return Err(wrong(node, "a <GHN> needs a <Package>".to_owned()));
    }
    Ok(group)
}

fn reuse(node: Node<'_, '_>) -> Result<bool, BadXml> {
    match node.attribute("reuse") {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => Err(wrong(node, format!("`reuse` is `{other}`, not `true` or `false`"))),
    }
}

/// `<GHNList><GHN>ID</GHN>...</GHNList>`, once.
fn list(node: Node<'_, '_>, into: &mut Option<Vec<String>>) -> Result<(), BadXml> {
    expect(node, "GHNList", &[])?;
    if into.is_some() {
        return Err(wrong(node, "there is a <GHNList> before".to_owned()));
    }
    let mut nodes = Vec::new();
    for child in inside(node) {
        expect(child, "GHN", &[])?;
        nodes.push(text(child)?.to_owned());
    }
    if nodes.is_empty() {
        return Err(wrong(node, "a <GHNList> needs a <GHN>".to_owned()));
    }
    *into = Some(nodes);
    Ok(())
}

/// The identity of a package by its five elements, in any order.
fn package(node: Node<'_, '_>) -> Result<Package, BadXml> {
    let mut found: BTreeMap<&str, &str> = BTreeMap::new();
    for child in inside(node) {
        let name = child.tag_name().name();
        if !child.is_element() || !IDENTITY.contains(&name) {
            return Err(wrong(child, format!("a <Package> has {} alone", elements())));
        }
        expect(child, name, &[])?;
        if found.insert(name, text(child)?).is_some() {
            return Err(wrong(child, format!("there is a <{name}> before")));
        }
    }
    let component = |name: &&str| {
        found.get(name).copied().ok_or_else(|| wrong(node, format!("a <Package> needs <{name}>")))
    };
    let components: Vec<&str> = IDENTITY.iter().map(component).collect::<Result<_, _>>()?;
    components.join("/").parse().map_err(|message| wrong(node, message))
}

fn elements() -> String {
    IDENTITY.map(|name| format!("<{name}>")).join(", ")
}

/// A part with the identity of its package as its name, and a number if it is not the first of that.
fn part(
    package: Package,
    reuse: bool,
    only: &Option<Vec<String>>,
    copies: &mut BTreeMap<String, u32>,
) -> Part {
    let copy = copies.entry(package.to_string()).or_default();
    *copy += 1;
    let name = if *copy == 1 { package.to_string() } else { format!("{package} ({copy})") };
    Part { name, package: Some(package), reuse, only: only.clone(), ..Part::default() }
}

/// What became of packages: `<GHN id="NODE"><Package status="succeeded">...</Package>...</GHN>`.
pub(crate) fn reports(elements: &[Node<'_, '_>]) -> Result<Vec<PackageReport>, BadXml> {
    let mut reports = Vec::new();
    for element in elements {
        expect(*element, "GHN", &["id"])?;
        let missing = || wrong(*element, "a <GHN> needs `id`".to_owned());
        let node = element.attribute("id").ok_or_else(missing)?;
        for child in inside(*element) {
            reports.push(report(child, node)?);
        }
    }
    Ok(reports)
}

fn report(element: Node<'_, '_>, node: &str) -> Result<PackageReport, BadXml> {
    expect(element, "Package", &["status"])?;
    let error = match element.attribute("status") {
        Some("succeeded") => None,
        Some("failed") => Some("failed".to_owned()),
        Some(other) => {
            let message = format!("`status` is `{other}`, not `succeeded` or `failed`");
            return Err(wrong(element, message));
        }
        None => return Err(wrong(element, "a <Package> needs `status`".to_owned())),
    };
    let package = package(element)?.to_string();
    Ok(PackageReport { node: node.to_owned(), package, error })
}

#[cfg(test)]
mod tests {
    use tenure_plan::{Settings, Status, solve};

    use super::*;
    use crate::xml;

    /// The request that the documentation of gCube prints.
    const PRINTED: &str = "<GHN> <Package reuse=\"false\"> <ServiceClass>ABE</ServiceClass> \
        <ServiceName>Annotation</ServiceName> <ServiceVersion>1.00.00</ServiceVersion> \
        <PackageName>Main</PackageName> <PackageVersion>1.00.00</PackageVersion> </Package> \
        <Package reuse=\"false\"> <ServiceClass>InformationSystem</ServiceClass> \
        <ServiceName>IS-Notifier</ServiceName> <ServiceVersion>1.00.00</ServiceVersion> \
        <PackageName>Notifier-service</PackageName> <PackageVersion>1.00.00</PackageVersion> \
        </Package> <GHNList> <GHN>f57331e0-8be2-11dd-bd6a-e3813256862a</GHN> </GHNList> </GHN> \
        <GHNList> <GHN>6a5c5d50-8950-11dd-889c-83ac6328d38a</GHN> \
        <GHN>846a0730-88cc-11dd-94de-8b2d8231edf0</GHN> </GHNList>";

    /// The five elements of a package that is named by a letter.
    fn identity(name: &str) -> String {
        let element = |(tag, text): (&&str, &str)| format!("<{tag}>{text}</{tag}>");
        let values = ["c", name, "1.0", "main", "1.0"];
        IDENTITY.iter().zip(values).map(element).collect()
    }

    fn read(text: &str) -> Result<Problem, BadXml> {
        xml::read(text, |elements| problem(elements, "request"))
    }

    #[track_caller]
    fn refused(text: &str, why: &str) {
        assert_eq!(read(text).unwrap_err().to_string(), why);
    }

    #[test]
    fn the_printed_request_has_both_packages_on_the_node_of_their_group() {
        let problem = read(PRINTED).unwrap();
        assert_eq!(problem.place.len(), 3);
        let answer = solve(&problem, &Settings::default()).unwrap();
        assert_eq!(answer.status, Status::Optimal);
        let packages = [
            "ABE/Annotation/1.00.00/Main/1.00.00",
            "InformationSystem/IS-Notifier/1.00.00/Notifier-service/1.00.00",
        ];
        let node = "f57331e0-8be2-11dd-bd6a-e3813256862a";
        for package in packages {
            assert_eq!(answer.plan.placement[package], [node]);
        }
        assert_eq!(
            answer.plan.install,
            BTreeMap::from([(node.to_owned(), packages.map(str::to_owned).to_vec())])
        );
        assert_eq!(answer.objective.unwrap().to_string(), "installs 2, nodes 1, spread 0, uses 0");
    }

    #[test]
    fn a_group_without_a_list_goes_by_that_of_the_request_and_copies_have_numbers() {
        let package = format!("<Package reuse='true'>{}</Package>", identity("a"));
        let text = format!(
            "<?xml version='1.0'?>\n<GHNList><GHN>n1</GHN><GHN>n2</GHN></GHNList>\n\
             <GHN>{package}</GHN><GHN>{package}</GHN>"
        );
        let problem = read(&text).unwrap();
        let only = Some(vec!["n1".to_owned(), "n2".to_owned()]);
        let names: Vec<_> = problem.part.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["c/a/1.0/main/1.0", "c/a/1.0/main/1.0 (2)"]);
        assert!(problem.part.iter().all(|part| part.only == only && part.reuse));
        // A node has one instance of a package.
        let answer = solve(&problem, &Settings::default()).unwrap();
        assert_eq!(answer.objective.unwrap().to_string(), "installs 2, nodes 2, spread 0, uses 0");
    }

    #[test]
    fn what_is_not_printed_is_refused_with_its_place() {
        let package = format!("<Package>{}</Package>", identity("a"));
        refused("<Node/>", "<GHN> is expected at 1:1");
        refused("\n <GHN name='x'/>", "<GHN> has no `name` at 2:2");
        refused("<GHN>\n</GHN>", "a <GHN> needs a <Package> at 1:1");
        refused("<GHNList>n1</GHNList>", "<GHN> is expected at 1:10");
        refused("<GHNList/>", "a <GHNList> needs a <GHN> at 1:1");
        refused("<GHNList><GHN/></GHNList>", "a <GHN> needs text at 1:10");
        let list = "<GHNList><GHN>n</GHN></GHNList>";
        refused(&format!("{list}{list}"), "there is a <GHNList> before at 1:32");
        refused(
            &format!("<GHN>{}", package.replace("<Package>", "<Package reuse='no'>")),
            "<GHN> is not closed at 1:197",
        );
        refused(
            &format!("<GHN>{}</GHN>", package.replace("<Package>", "<Package reuse='no'>")),
            "`reuse` is `no`, not `true` or `false` at 1:6",
        );
        refused(
            "<GHN><Package><Price/></Package></GHN>",
            &format!("a <Package> has {} alone at 1:15", elements()),
        );
        refused("<GHN><Package/></GHN>", "a <Package> needs <ServiceClass> at 1:6");
        refused(
            &format!("<GHN>{}</GHN>", package.replace(">1.0<", ">one<")),
            "`one` is not a dotted version such as 1.2.0 at 1:6",
        );
    }

    #[test]
    fn the_printed_report_says_what_became_of_each_package() {
        let text = format!(
            "<GHN id=\"1\"><Package status=\"succeeded\">{}</Package></GHN>\n\
             <GHN id=\"2\"><Package status=\"failed\">{}</Package></GHN>",
            identity("a"),
            identity("b")
        );
        let reported = xml::read(&text, reports).unwrap();
        let report = |node: &str, package: &str, error: Option<&str>| PackageReport {
            node: node.to_owned(),
            package: package.to_owned(),
            error: error.map(str::to_owned),
        };
        assert_eq!(
            reported,
            [
                report("1", "c/a/1.0/main/1.0", None),
                report("2", "c/b/1.0/main/1.0", Some("failed")),
            ]
        );
        let wrong = |text: &str| xml::read(text, reports).unwrap_err().to_string();
        assert_eq!(wrong("<GHN/>"), "a <GHN> needs `id` at 1:1");
        assert_eq!(wrong("<GHN id='1'><Package/></GHN>"), "a <Package> needs `status` at 1:13");
        let status = "<GHN id='1'><Package status='ok'/></GHN>";
        assert_eq!(wrong(status), "`status` is `ok`, not `succeeded` or `failed` at 1:13");
    }
}
