//! The trace of a run: always a hash, and the steps themselves when requested.

/// How many lines a shortened trace has at most.
const SHOWN: usize = 60;

/// A running hash of all steps and, if asked for, the steps in words.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    hash: u64,
    lines: Option<Vec<String>>,
}

impl Trace {
    pub(super) fn new(kept: bool) -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, lines: kept.then(Vec::new) }
    }

    /// Takes a step into the hash (FNV-1a, by words).
    pub(super) fn add(&mut self, words: &[u64]) {
        for word in words {
            self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        }
    }

    /// Records a step as text, if requested.
    pub(super) fn line(&mut self, text: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(text());
        }
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// All steps.
    pub(super) fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }

    /// The last steps that mention what `about` does: actors, units, leases, tickets.
    pub(super) fn shortened(&self, about: &str) -> Vec<String> {
        let is_id = |word: &&str| {
            let number = word.bytes().filter(u8::is_ascii_digit).count();
            word.len() > 1 && number > 0
        };
        let plain = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '/' | '#'));
        let words: Vec<&str> = about.split(plain).filter(is_id).collect();
        let fits = |line: &&String| words.iter().any(|word| line.contains(word));
        let mut lines: Vec<String> =
            self.lines().iter().rev().filter(fits).take(SHOWN).cloned().collect();
        if lines.is_empty() {
            lines = self.lines().iter().rev().take(SHOWN).cloned().collect();
        }
        lines.reverse();
        lines
    }
}
