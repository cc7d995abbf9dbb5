//! Answers for people and for programs.

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use tenure_plan::{Answer, Problem};

use crate::Console;
use crate::error::Error;
use crate::text::printable;

use super::{By, Timed};

/// The width of tables where the output is no terminal.
const WIDTH: u16 = 100;

pub(super) fn line(answer: &Timed, console: &mut Console<'_>) -> Result<(), Error> {
    let json = serde_json::to_string(answer).map_err(std::io::Error::other)?;
    writeln!(console.out, "{json}")?;
    Ok(())
}

pub(super) fn json(
    answers: &[(Problem, Timed)],
    several: bool,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let all: Vec<&Timed> = answers.iter().map(|(_, answer)| answer).collect();
    let json = match all.as_slice() {
        [one] if !several => serde_json::to_string_pretty(one),
        all => serde_json::to_string_pretty(all),
    };
    writeln!(console.out, "{}", json.map_err(std::io::Error::other)?)?;
    Ok(())
}

/// A line for each problem.
pub(super) fn list(answers: &[(Problem, Timed)], console: &mut Console<'_>) -> Result<(), Error> {
    let mut table = table(console, &["PROBLEM", "STATUS", "OBJECTIVE", "BOUND", "STEPS", "TIME"]);
    for (problem, Timed { answer, by }) in answers {
        table.add_row([
            printable(&problem.name).into_owned(),
            format!("{}{}", answer.status, if by.claims() { ", as claimed" } else { "" }),
            answer.objective.as_ref().map(ToString::to_string).unwrap_or_default(),
            bound(answer),
            answer.steps.to_string(),
            by.time(),
        ]);
    }
    writeln!(console.out, "{}", trimmed(&table))?;
    Ok(())
}

/// What is known of the value of plans, where it is not that of the plan.
fn bound(answer: &Answer) -> String {
    let bound = answer.bound.as_ref().filter(|bound| Some(*bound) != answer.objective.as_ref());
    bound.map(ToString::to_string).unwrap_or_default()
}

impl By {
    /// Whether nothing but the word of a program stands behind the status.
    fn claims(&self) -> bool {
        matches!(self, Self::Program { claimed: true, .. })
    }

    fn time(&self) -> String {
        let (Self::Us { cpu_s: seconds } | Self::Program { wall_s: seconds, .. }) = self;
        format!("{:.1} ms", seconds * 1e3)
    }
}

/// A problem with its plan, or why there is none.
pub(super) fn one(
    problem: &Problem,
    timed: &Timed,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let Timed { answer, by } = timed;
    let objective =
        answer.objective.as_ref().map(|objective| format!(": {objective}")).unwrap_or_default();
    let name = printable(&problem.name);
    let (status, steps, time) = (answer.status, answer.steps, by.time());
    writeln!(console.out, "{name}: {status}{objective} ({steps} steps, {time})")?;
    if let By::Program { solver, claimed: true, .. } = by {
        writeln!(console.out, "`{status}` is what {} claims", printable(solver))?;
    }
    let bound = bound(answer);
    if !bound.is_empty() {
        writeln!(console.out, "no plan is below {bound}")?;
    }
    if !answer.plan.placement.is_empty() {
        placement(answer, console)?;
    }
    if !answer.plan.paths.is_empty() {
        paths(answer, console)?;
    }
    if let Some(why) = &answer.why {
        let all = why.parts.iter().chain(&why.links).map(|name| printable(name).into_owned());
        let all: Vec<String> = all.collect();
        let exactly = if why.irreducible { "; without any of them there is" } else { "" };
        writeln!(console.out, "no plan has room for: {}{exactly}", all.join(", "))?;
        for reason in &why.reasons {
            writeln!(console.out, "  {}", printable(reason))?;
        }
    }
    for offer in &answer.offers {
        writeln!(console.out, "offer: {}", printable(&offer.change))?;
    }
    for (index, alternative) in answer.alternatives.iter().enumerate() {
        let places = alternative
            .plan
            .placement
            .iter()
            .map(|(part, places)| format!("{part} on {}", places.join(", ")));
        let places: Vec<String> = places.collect();
        writeln!(
            console.out,
            "alternative {}: {}: {}",
            index + 1,
            alternative.objective,
            printable(&places.join("; "))
        )?;
    }
    Ok(())
}

/// Each place with what is on it.
fn placement(answer: &Answer, console: &mut Console<'_>) -> Result<(), Error> {
    let mut on: std::collections::BTreeMap<&str, Vec<String>> = std::collections::BTreeMap::new();
    for (part, places) in &answer.plan.placement {
        for (index, place) in places.iter().enumerate() {
            let title =
                if places.len() > 1 { format!("{part}/{}", index + 1) } else { part.clone() };
            let reused = answer.plan.reused.contains(&title) || answer.plan.reused.contains(part);
            on.entry(place).or_default().push(if reused {
                format!("{title} (reused)")
            } else {
                title
            });
        }
    }
    let installs = !answer.plan.install.is_empty();
    let head: &[&str] =
        if installs { &["PLACE", "PARTS", "INSTALLS"] } else { &["PLACE", "PARTS"] };
    let mut table = table(console, head);
    for (place, parts) in on {
        let mut row =
            vec![printable(place).into_owned(), printable(&parts.join(", ")).into_owned()];
        if installs {
            let packages = answer.plan.install.get(place).map(|packages| packages.join("\n"));
            row.push(packages.unwrap_or_default());
        }
        table.add_row(row);
    }
    writeln!(console.out, "{}", trimmed(&table))?;
    Ok(())
}

fn paths(answer: &Answer, console: &mut Console<'_>) -> Result<(), Error> {
    let mut table = table(console, &["LINK", "PATH"]);
    for (link, path) in &answer.plan.paths {
        let path = if path.is_empty() { "within a place".to_owned() } else { path.join(", ") };
        table.add_row([printable(link).into_owned(), printable(&path).into_owned()]);
    }
    writeln!(console.out, "{}", trimmed(&table))?;
    Ok(())
}

fn table(console: &Console<'_>, head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(console.width.unwrap_or(WIDTH)).set_header(head);
    table
}

/// Without blanks at the ends of lines.
fn trimmed(table: &Table) -> String {
    let text = table.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}
