//! The requests of a connection, line by line.

use std::io;
use std::mem;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::OwnedReadHalf;

use super::MAX_REQUEST;

/// Reads requests. What was read and not yet taken stays known: it can be passed on with the connection.
pub(super) struct Requests {
    half: OwnedReadHalf,
    read: Vec<u8>,
}

impl Requests {
    /// The requests that come by `half`, after what was `read` before.
    pub(super) fn new(half: OwnedReadHalf, read: Vec<u8>) -> Self {
        Self { half, read }
    }

    /// The next line, `None` at the end. One that is too long ends the conversation. Nothing is lost if this is not
    /// waited for to its end.
    pub(super) async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut searched = 0;
        loop {
            let end = self.read[searched..].iter().position(|&byte| byte == b'\n');
            if let Some(end) = end.map(|end| searched + end + 1) {
                let rest = self.read.split_off(end);
                return Ok(Some(mem::replace(&mut self.read, rest)));
            }
            if self.read.len() >= MAX_REQUEST {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a request is too long"));
            }
            searched = self.read.len();
            if self.half.read_buf(&mut self.read).await? == 0 {
                let last = mem::take(&mut self.read);
                return Ok((!last.is_empty()).then_some(last));
            }
        }
    }

    /// Waits until the client has disconnected, or asks for something else.
    pub(super) async fn gone(&mut self) {
        if self.read.is_empty() {
            // A connection that fails is gone, too.
            drop(self.half.read_buf(&mut self.read).await);
        }
    }

    /// What is left to go on with.
    pub(super) fn into_parts(self) -> (OwnedReadHalf, Vec<u8>) {
        (self.half, self.read)
    }
}
