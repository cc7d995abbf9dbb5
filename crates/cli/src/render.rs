//! How errors look: as text with the line of the file that is wrong, or as JSON.

use std::{io, iter};

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use serde::Serialize;
use tenure_config::{ConfigError, Place};

use crate::Console;
use crate::error::Error;
use crate::text::{printable, printable_json, printable_lines};

/// The width of a terminal that errors are made for.
const WIDTH: usize = 100;

/// The version of errors and warnings as JSON.
const VERSION: u32 = 1;

/// Writes `error` to standard error.
pub(crate) fn error(error: &Error, console: &mut Console<'_>) -> io::Result<()> {
    if console.json {
        return json_line(&Note::Error(Facts::of(error)), console);
    }
    match error {
        Error::Usage(error) => usage(error, console),
        Error::Config { error, text } | Error::Definition { error, text } => {
            writeln!(console.err, "{}", config(error, text, console.color))
        }
        Error::File { .. }
        | Error::Solver { .. }
        | Error::Workload(_)
        | Error::PastEnd { .. }
        | Error::Emulation { .. }
        | Error::Incomplete { .. }
        | Error::Broken { .. }
        | Error::Unreached(_)
        | Error::Journal(_)
        | Error::Backup(_)
        | Error::NoJournals(_)
        | Error::Fork { .. }
        | Error::Violated(_)
        | Error::Show(_)
        | Error::NotExtended(_)
        | Error::Stays(_)
        | Error::NotFlexed(_)
        | Error::NotModified(_)
        | Error::NotTaken(_)
        | Error::NoKey(_)
        | Error::NoSla(_)
        | Error::NotAnswered(_)
        | Error::NotFreed { .. }
        | Error::NotEmptied { .. }
        | Error::NotJoined(_)
        | Error::Run(_)
        | Error::Executor(_)
        | Error::CommandEnded(_)
        | Error::SessionLost(_)
        | Error::CommandTimedOut { .. }
        | Error::Client(_)
        | Error::Wrong(_)
        | Error::Demand(_)
        | Error::NotGranted(_)
        | Error::TimedOut { .. }
        | Error::WithdrawnInTime { .. }
        | Error::Interrupted(_)
        | Error::Void { .. }
        | Error::Ill(_)
        | Error::Problem { .. }
        | Error::NoPlan(_)
        | Error::NoPlanYet(_)
        | Error::Plan(_)
        | Error::Write(_) => {
            let message = if let Error::Ill(wrong) = error {
                wrong.iter().map(|wrong| printable(wrong)).collect::<Vec<_>>().join("\n")
            } else if let Error::Demand(wrong) = error {
                printable_lines(wrong).into_owned()
            } else if let Error::Problem { .. } = error {
                printable_lines(&error.to_string()).into_owned()
            } else {
                printable(&error.to_string()).into_owned()
            };
            let title = Level::ERROR.primary_title(message);
            let text = report(Group::with_title(title), error.help(), console.color);
            writeln!(console.err, "{text}")
        }
    }
}

/// That a command line is wrong, in colours where nothing in it would steer the terminal.
fn usage(error: &clap::Error, console: &mut Console<'_>) -> io::Result<()> {
    let plain = error.render().to_string();
    let shown = printable_lines(&plain);
    if console.color && shown == plain {
        write!(console.err, "{}", error.render().ansi())
    } else {
        write!(console.err, "{shown}")
    }
}

/// Writes something that is worth knowing, but no error.
pub(crate) fn warning(message: &str, console: &mut Console<'_>) -> io::Result<()> {
    if console.json {
        let facts = Facts { version: VERSION, message: message.to_owned(), ..Facts::default() };
        return json_line(&Note::Warning(facts), console);
    }
    let group = Group::with_title(Level::WARNING.primary_title(printable(message)));
    writeln!(console.err, "{}", renderer(console.color).render(&[group]))
}

fn json_line(note: &Note, console: &mut Console<'_>) -> io::Result<()> {
    writeln!(console.err, "{}", printable_json(&serde_json::to_string(note)?))
}

fn renderer(color: bool) -> Renderer {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    renderer.term_width(WIDTH)
}

/// The error with the line it is in.
fn config(error: &ConfigError, text: &str, color: bool) -> String {
    let title = Level::ERROR.primary_title(printable_lines(&error.message));
    let group = match &error.place {
        Place::File { span, .. } => title.element(
            Snippet::source(text)
                .path(error.file())
                .annotation(AnnotationKind::Primary.span(span.clone())),
        ),
        Place::Override(option) => title.element(Origin::path(printable(option))),
        Place::Whole => title.element(Origin::path(error.file.as_str())),
    };
    report(group, error.help.clone(), color)
}

fn report(group: Group<'_>, help: Option<String>, color: bool) -> String {
    let renderer = renderer(color);
    let title = |help: String| Level::HELP.secondary_title(printable(&help).into_owned());
    let help = help.map(|help| Group::with_title(title(help)));
    let groups = iter::once(group).chain(help);
    groups.map(|group| renderer.render(&[group])).collect::<Vec<_>>().join("\n")
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Note {
    Error(Facts),
    Warning(Facts),
}

/// An error or a warning for programs; the keys are stable.
#[derive(Default, Serialize)]
struct Facts {
    /// Of this form.
    version: u32,
    /// The kind of error in a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u32>,
    /// The option of the command line that is to blame.
    #[serde(skip_serializing_if = "Option::is_none")]
    option: Option<String>,
}

impl Facts {
    #[allow(clippy::too_many_lines, reason = "a line for each kind of error")]
    fn of(error: &Error) -> Self {
        let mut facts = Self {
            version: VERSION,
            code: Some(error.code()),
            message: error.to_string(),
            help: error.help(),
            ..Self::default()
        };
        match error {
            Error::Config { error, .. } | Error::Definition { error, .. } => {
                facts.message.clone_from(&error.message);
                facts.file = Some(error.file().to_owned());
                match &error.place {
                    Place::File { line, column, .. } => {
                        (facts.line, facts.column) = (Some(*line), Some(*column));
                    }
                    Place::Override(option) => facts.option = Some(option.clone()),
                    Place::Whole => {}
                }
            }
            Error::File { path, .. } => facts.file = Some(path.display().to_string()),
            Error::Problem { file, message } => {
                facts.file = Some(file.display().to_string());
                facts.message.clone_from(message);
            }
            Error::Usage(_) => {
                // What follows the first paragraph is for people.
                let message = facts.message.split("\n\n").next().unwrap_or_default();
                facts.message = message.trim_start_matches("error: ").to_owned();
            }
            Error::Solver { .. }
            | Error::Workload(_)
            | Error::PastEnd { .. }
            | Error::Emulation { .. }
            | Error::Incomplete { .. }
            | Error::Broken { .. }
            | Error::Unreached(_)
            | Error::Journal(_)
            | Error::Backup(_)
            | Error::NoJournals(_)
            | Error::Fork { .. }
            | Error::Violated(_)
            | Error::Show(_)
            | Error::NotExtended(_)
            | Error::Stays(_)
            | Error::NotFlexed(_)
            | Error::NotModified(_)
            | Error::NotTaken(_)
            | Error::NoKey(_)
            | Error::NoSla(_)
            | Error::NotAnswered(_)
            | Error::NotFreed { .. }
            | Error::NotEmptied { .. }
            | Error::NotJoined(_)
            | Error::Run(_)
            | Error::Executor(_)
            | Error::CommandEnded(_)
            | Error::SessionLost(_)
            | Error::CommandTimedOut { .. }
            | Error::Client(_)
            | Error::Wrong(_)
            | Error::Demand(_)
            | Error::NotGranted(_)
            | Error::TimedOut { .. }
            | Error::WithdrawnInTime { .. }
            | Error::Interrupted(_)
            | Error::Void { .. }
            | Error::Ill(_)
            | Error::NoPlan(_)
            | Error::NoPlanYet(_)
            | Error::Plan(_)
            | Error::Write(_) => {}
        }
        facts
    }
}
