//! What is safe to print: text of other parties reaches terminals, and must not steer them.
//!
//! Control characters, and those that hide or turn around what follows, are shown by their numbers. Tables,
//! CSV and lines for people go through [`printable`]; behind them all that is printed goes through
//! [`Guarded`]. JSON keeps its values: such characters become escapes of JSON itself.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::io::{self, Write};

/// Whether a terminal would do something else with it than show it: controls, zero-width characters, those
/// that turn the direction of text around, and tags.
fn steers(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

/// Text of one line, whatever it holds: `\n`, `\u{1b}` and the like stand for what would not be shown.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false, |letter, out| out.extend(letter.escape_default()))
}

/// The same of text that may have several lines.
pub(crate) fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| letter == '\n', |letter, out| out.extend(letter.escape_default()))
}

/// JSON with the same value, in which nothing but its own line breaks steers a terminal.
pub(crate) fn printable_json(json: &str) -> Cow<'_, str> {
    // Outside of its strings, JSON has no other such characters than these.
    escaped(
        json,
        |letter| matches!(letter, '\n' | '\r' | '\t'),
        |letter, out| {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                // A string takes everything.
                let _ = write!(out, "\\u{unit:04x}");
            }
        },
    )
}

fn escaped(
    text: &str,
    keep: impl Fn(char) -> bool,
    escape: impl Fn(char, &mut String),
) -> Cow<'_, str> {
    let stays = |letter: char| !steers(letter) || keep(letter);
    if text.chars().all(stays) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if stays(letter) {
            out.push(letter);
        } else {
            escape(letter, &mut out);
        }
    }
    Cow::Owned(out)
}

/// Writes a line for people.
pub(crate) fn line(out: &mut dyn Write, text: impl Display) -> io::Result<()> {
    writeln!(out, "{}", printable(&text.to_string()))
}

/// What passes through a [`Guarded`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Text of several lines, or CSV.
    Text,
    /// JSON.
    Json,
    /// An event of a log, a line in one piece.
    Event,
}

/// An output that passes nothing on that would steer a terminal.
pub(crate) struct Guarded<W> {
    inner: W,
    form: Form,
    /// The beginning of a character whose end has not been written yet.
    begun: Vec<u8>,
}

impl<W: Write> Guarded<W> {
    pub(crate) fn new(inner: W, form: Form) -> Self {
        Self { inner, form, begun: Vec::new() }
    }

    fn pass(&mut self, text: &str) -> io::Result<()> {
        let text = match self.form {
            Form::Text => {
                let keep = |letter| matches!(letter, '\n' | '\t');
                escaped(text, keep, |letter, out| out.extend(letter.escape_default()))
            }
            Form::Json => printable_json(text),
            Form::Event => match text.strip_suffix('\n') {
                Some(event) => Cow::Owned(format!("{}\n", printable(event))),
                None => printable(text),
            },
        };
        self.inner.write_all(text.as_bytes())
    }
}

impl<W: Write> Write for Guarded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let (true, Ok(text)) = (self.begun.is_empty(), std::str::from_utf8(bytes)) {
            self.pass(text)?;
            return Ok(bytes.len());
        }
        let all = [&std::mem::take(&mut self.begun), bytes].concat();
        // Of a character that is cut off here the rest comes with the next bytes.
        let whole = match std::str::from_utf8(&all) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Ok(_) | Err(_) => all.len(),
        };
        self.pass(&String::from_utf8_lossy(&all[..whole]))?;
        self.begun = all[whole..].to_vec();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Colours, a title, a C1 control, a turned direction, a hidden character, a tag, a new line.
    const EVIL: &str = "a\u{1b}[31m\u{7}\u{9b}2J\u{202e}b\u{200b}\u{e0041}\nc\u{7f}";

    fn guarded(form: Form, writes: &[&[u8]]) -> String {
        let mut out = Vec::new();
        let mut guarded = Guarded::new(&mut out, form);
        writes.iter().for_each(|bytes| guarded.write_all(bytes).unwrap());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_would_steer_a_terminal_is_shown_by_its_number() {
        let shown = "a\\u{1b}[31m\\u{7}\\u{9b}2J\\u{202e}b\\u{200b}\\u{e0041}\\nc\\u{7f}";
        assert_eq!(printable(EVIL), shown);
        assert_eq!(printable_lines(EVIL), shown.replace("\\n", "\n"));
        assert_eq!(printable("grün 日本 é"), "grün 日本 é");
        assert_eq!(guarded(Form::Text, &[EVIL.as_bytes(), b"\n"]), printable_lines(EVIL) + "\n");
        let event = format!("{EVIL}\n");
        assert_eq!(guarded(Form::Event, &[event.as_bytes()]), format!("{shown}\n"));
    }

    #[test]
    fn json_keeps_its_value() {
        let json = serde_json::to_string_pretty(&serde_json::json!([EVIL, "é"])).unwrap();
        let shown = guarded(Form::Json, &[json.as_bytes()]);
        assert!(!shown.chars().any(|letter| steers(letter) && letter != '\n'), "{shown}");
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()[0], EVIL);
    }

    #[test]
    fn a_character_that_is_written_in_pieces_stays_one() {
        for split in 0..=EVIL.len() {
            let (one, other) = EVIL.as_bytes().split_at(split);
            assert_eq!(guarded(Form::Text, &[one, other]), printable_lines(EVIL), "{split}");
        }
        assert_eq!(guarded(Form::Text, &[b"a\xffb", "é".as_bytes()]), "a\u{fffd}bé");
    }
}
