//! What is kept of what programs write.

use std::io;

/// What is kept of what a program writes.
pub(crate) struct Streams {
    pub(crate) output: Kept,
    pub(crate) errors: Kept,
}

/// What is kept of a stream: its first bytes, or its last.
pub(crate) struct Kept {
    pub(crate) bytes: Vec<u8>,
    most: usize,
    last: bool,
    /// Whether there was more.
    pub(crate) cut: bool,
}

impl Kept {
    pub(crate) fn first(most: usize) -> Self {
        Self { bytes: Vec::new(), most, last: false, cut: false }
    }

    pub(crate) fn last(most: usize) -> Self {
        Self { last: true, ..Self::first(most) }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let surplus = self.bytes.len().saturating_sub(self.most);
        self.cut |= surplus > 0;
        if self.last {
            self.bytes.drain(..surplus);
        } else {
            self.bytes.truncate(self.most);
        }
    }
}

impl Streams {
    /// The end of what it complained of, on one line and harmless on a terminal.
    pub(crate) fn complaint(&self) -> String {
        let text = String::from_utf8_lossy(&self.errors.bytes);
        let lines: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let line = lines.join("; ").escape_debug().to_string();
        if line.is_empty() { line } else { format!(": {line}") }
    }
}

/// Takes what is there to be read; says whether more may come.
pub(crate) fn take(pipe: &mut impl io::Read, kept: &mut Kept) -> io::Result<bool> {
    let mut bytes = [0; 8192];
    // A bound, so that one who writes without end does not keep us from the clock.
    for _ in 0..64 {
        match pipe.read(&mut bytes) {
            Ok(0) => return Ok(false),
            Ok(count) => kept.add(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
