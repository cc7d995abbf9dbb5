//! How errors look: as text with the line of the file that is wrong, or as JSON.

use std::io;

use annotate_snippets::{AnnotationKind, Level, Origin, Renderer, Snippet};
use serde::Serialize;
use tenure_sim::scenario::{Place, ScenarioError};

use crate::Console;
use crate::error::Error;

/// The width of a terminal that errors are made for.
const WIDTH: usize = 100;

/// Writes `error` to standard error.
pub(crate) fn error(error: &Error, json: bool, console: &mut Console<'_>) -> io::Result<()> {
    if error.is_broken_pipe() {
        return Ok(());
    }
    if json {
        serde_json::to_writer(&mut *console.err, &Wrapped { error: Report::of(error) })?;
        return writeln!(console.err);
    }
    match error {
        Error::Usage(usage) if console.color => write!(console.err, "{}", usage.render().ansi()),
        Error::Usage(usage) => write!(console.err, "{}", usage.render()),
        Error::Scenario { error, text } => {
            writeln!(console.err, "{}", scenario(error, text, renderer(console.color)))
        }
        Error::File { .. }
        | Error::Workload(_)
        | Error::NoDemand { .. }
        | Error::Emulation { .. }
        | Error::Incomplete { .. }
        | Error::Show(_)
        | Error::Write(_) => {
            let (message, help) = (error.to_string(), error.help());
            let help = help.as_deref().map(|help| Level::HELP.message(help));
            let group = Level::ERROR.primary_title(message).elements(help);
            writeln!(console.err, "{}", renderer(console.color).render(&[group]))
        }
    }
}

/// Writes something that is worth knowing, but no error.
pub(crate) fn warning(message: &str, console: &mut Console<'_>) -> io::Result<()> {
    let group = Level::WARNING.primary_title(message).elements(None::<annotate_snippets::Padding>);
    writeln!(console.err, "{}", renderer(console.color).render(&[group]))
}

fn renderer(color: bool) -> Renderer {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    renderer.term_width(WIDTH)
}

/// The error with the line it is in.
fn scenario(error: &ScenarioError, text: &str, renderer: Renderer) -> String {
    let title = Level::ERROR.primary_title(error.message.as_str());
    let help = error.help.as_deref().map(|help| Level::HELP.message(help));
    let group = match &error.place {
        Place::File { span, .. } => title.element(
            Snippet::source(text)
                .path(error.file.as_str())
                .annotation(AnnotationKind::Primary.span(span.clone())),
        ),
        Place::Override(option) => title.element(Origin::path(option.as_str())),
        Place::Whole => title.element(Origin::path(error.file.as_str())),
    };
    renderer.render(&[group.elements(help)])
}

#[derive(Serialize)]
struct Wrapped {
    error: Report,
}

/// An error for programs; the keys are stable.
#[derive(Serialize)]
struct Report {
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    /// The option of the command line that is to blame.
    #[serde(skip_serializing_if = "Option::is_none")]
    option: Option<String>,
}

impl Report {
    fn of(error: &Error) -> Self {
        let mut report = Self {
            message: error.to_string().trim_end().to_owned(),
            help: error.help(),
            file: None,
            line: None,
            column: None,
            option: None,
        };
        match error {
            Error::Scenario { error, .. } => {
                report.message.clone_from(&error.message);
                report.file = Some(error.file.clone());
                match &error.place {
                    Place::File { line, column, .. } => {
                        (report.line, report.column) = (Some(*line), Some(*column));
                    }
                    Place::Override(option) => report.option = Some(option.clone()),
                    Place::Whole => {}
                }
            }
            Error::File { path, .. } => report.file = Some(path.display().to_string()),
            Error::Usage(_)
            | Error::Workload(_)
            | Error::NoDemand { .. }
            | Error::Emulation { .. }
            | Error::Incomplete { .. }
            | Error::Show(_)
            | Error::Write(_) => {}
        }
        report
    }
}
