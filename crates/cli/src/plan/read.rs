//! Problems from files.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde::de::DeserializeOwned;
use tenure_plan::{Answer, BadProblem, Problem};

use crate::error::Error;
use crate::xml;

use super::{foreign, gcube};

/// The largest file that is read, once inflated.
const MAX_BYTES: u64 = 1 << 30;

/// A problem that makes no sense.
pub(super) fn bad(file: &Path, name: &str, error: &BadProblem) -> Error {
    let name = if name.is_empty() { String::new() } else { format!("problem `{name}`: ") };
    wrong(file, &format!("{name}{error}"))
}

pub(crate) fn wrong(file: &Path, message: &str) -> Error {
    Error::Problem { file: file.to_owned(), message: message.to_owned() }
}

/// The only problem of a file.
pub(crate) fn problem(file: &Path) -> Result<Problem, Error> {
    let mut problems = problems(file)?;
    match problems.pop() {
        Some(problem) if problems.is_empty() => Ok(problem),
        Some(_) => Err(wrong(
            file,
            &format!("there are {} problems in it, and one is wanted", problems.len() + 1),
        )),
        None => Err(wrong(file, "there is no problem in it")),
    }
}

/// What a file asks for over the nodes of a deployment; lists of nodes in XML say nothing of what nodes have.
pub(crate) fn over_nodes(file: &Path) -> Result<Problem, Error> {
    let mut problem = problem(file)?;
    if is_xml(file) {
        problem.place.clear();
    }
    Ok(problem)
}

fn is_xml(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    name.trim_end_matches(".gz").ends_with(".xml")
}

/// A plan, or an answer with one.
pub(super) fn plan(file: &Path) -> Result<Answer, Error> {
    let (text, _) = text(file)?;
    from_json(file, &text)
}

/// The problems of a file, in its order.
pub(super) fn problems(file: &Path) -> Result<Vec<Problem>, Error> {
    let (text, extension) = text(file)?;
    let stem = file.file_name().unwrap_or_default().to_string_lossy();
    let stem = stem.trim_end_matches(".gz");
    let stem = stem.rsplit_once('.').map_or(stem, |(stem, _)| stem);
    let mut problems = match extension.as_str() {
        "toml" => {
            vec![toml::from_str(&text).map_err(|error| wrong(file, error.to_string().trim_end()))?]
        }
        "json" => json(file, stem, &text)?,
        "jsonl" => {
            let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
            let line = |(number, line): (usize, &str)| {
                let problem: Result<Problem, _> = serde_json::from_str(line);
                problem.map_err(|error| wrong(file, &format!("line {}: {error}", number + 1)))
            };
            lines.map(line).collect::<Result<_, _>>()?
        }
        "vbp" => vec![foreign::vbp(&text, stem).map_err(|message| wrong(file, &message))?],
        "bpp" => vec![foreign::bpp(&text, stem).map_err(|message| wrong(file, &message))?],
        "txt" => foreign::or_library(&text).map_err(|message| wrong(file, &message))?,
        "xml" => vec![
            xml::read(&text, |elements| gcube::problem(elements, stem))
                .map_err(|error| wrong(file, &error.to_string()))?,
        ],
        other => {
            let message = format!(
                "`.{other}` is no format of problems; known: toml, json, jsonl, xml, vbp, bpp, txt"
            );
            return Err(wrong(file, &message));
        }
    };
    for problem in &mut problems {
        if problem.name.is_empty() {
            stem.clone_into(&mut problem.name);
        }
    }
    Ok(problems)
}

/// One problem, or a list of problems, of `{problem}` or of co-allocation requests.
fn json(file: &Path, stem: &str, text: &str) -> Result<Vec<Problem>, Error> {
    if !text.trim_start().starts_with('[') {
        return Ok(vec![from_json(file, text)?]);
    }
    let entries: Vec<serde_json::Value> = from_json(file, text)?;
    let mut problems = Vec::new();
    for (index, entry) in entries.into_iter().enumerate() {
        let at = |error: serde_json::Error| wrong(file, &format!("entry {}: {error}", index + 1));
        if entry.get("frames").is_some() {
            let request: foreign::Request = serde_json::from_value(entry).map_err(at)?;
            let name = format!("{stem}-{}", index + 1);
            problems.extend(
                request
                    .problems(&name)
                    .map_err(|message| wrong(file, &format!("entry {}: {message}", index + 1)))?,
            );
        } else if entry.get("problem").is_some() {
            let known: foreign::Known = serde_json::from_value(entry).map_err(at)?;
            problems.push(known.problem);
        } else {
            problems.push(serde_json::from_value(entry).map_err(at)?);
        }
    }
    Ok(problems)
}

fn from_json<T: DeserializeOwned>(file: &Path, text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| wrong(file, &error.to_string()))
}

/// The text of a file, inflated, and its extension in small letters.
fn text(file: &Path) -> Result<(String, String), Error> {
    let help = "name a file with a problem; docs/PLANNING.md says what is in it";
    let opened = fs::File::open(file).map_err(|source| Error::reading(file, source, help))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let (plain, zipped) =
        name.strip_suffix(".gz").map_or((name.as_str(), false), |plain| (plain, true));
    let extension = plain.rsplit_once('.').map_or("", |(_, extension)| extension).to_owned();
    let mut text = String::new();
    let read = if zipped {
        MultiGzDecoder::new(opened).take(MAX_BYTES).read_to_string(&mut text)
    } else {
        opened.take(MAX_BYTES).read_to_string(&mut text)
    };
    match read {
        Ok(bytes) if bytes as u64 == MAX_BYTES => Err(wrong(file, "it is larger than 1 GiB")),
        Ok(_) => Ok((text, extension)),
        Err(source) => Err(Error::reading(file, source, help)),
    }
}
