//! The other side of the socket: asks, and reads answers.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::{Answer, ApiError, More, Request};

/// How long an answer is waited for: longer than a deployment takes to say that it has none.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(120);

/// How long a connection is waited for, and the pause between two tries while many others wait.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_PAUSE: Duration = Duration::from_millis(20);

/// A connection to a deployment.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    path: PathBuf,
    /// The key of the changes that are asked for.
    key: Option<String>,
    /// What follows the list that was answered last.
    more: Option<More>,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No deployment listens.
    #[error("no deployment listens at {}: {cause}", .path.display())]
    NobodyThere {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// A deployment runs, and belongs to another user.
    #[error("the deployment at {} is not yours to ask", .path.display())]
    Denied {
        /// The socket.
        path: PathBuf,
    },
    /// The connection broke; what was asked for may have happened all the same.
    #[error("the connection to {} broke: {cause}", .path.display())]
    Broken {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// No answer came in time; what was asked for may still happen.
    #[error("no answer came within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// The deployment refused.
    #[error(transparent)]
    Refused(#[from] ApiError),
    /// The answer is not one that this program knows: the deployment runs another version.
    #[error("the answer makes no sense to this version of the program: {0}")]
    Strange(serde_json::Error),
}

impl Client {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// [`ClientError::NobodyThere`], [`ClientError::Denied`].
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let nobody = |cause: io::Error| {
            let path = path.to_owned();
            if cause.kind() == io::ErrorKind::PermissionDenied {
                ClientError::Denied { path }
            } else {
                ClientError::NobodyThere { path, cause }
            }
        };
        let stream = open(path).map_err(nobody)?;
        Ok(Self { stream: BufReader::new(stream), path: path.to_owned(), key: None, more: None })
    }

    /// Asks for changes under this key: each of them is made once.
    pub fn under(self, key: Option<String>) -> Self {
        Self { key, ..self }
    }

    /// The socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What ends the connection from another thread: anyone who reads an answer then finds it broken.
    ///
    /// # Errors
    /// What the system says.
    pub fn hang_up(&self) -> io::Result<impl FnOnce() + Send + 'static> {
        let stream = self.stream.get_ref().try_clone()?;
        Ok(move || drop(stream.shutdown(std::net::Shutdown::Both)))
    }

    /// What follows the list that was answered last, if that was cut short.
    pub fn more(&self) -> Option<&More> {
        self.more.as_ref()
    }

    /// Asks, and reads the first answer, which is waited for [two minutes](REPLY_TIMEOUT).
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, ClientError> {
        self.ask_within(request, Some(REPLY_TIMEOUT))
    }

    /// As [`ask`](Self::ask), and waits so long; without a limit only for someone who follows what happens.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn ask_within<T: DeserializeOwned>(
        &mut self,
        request: &Request,
        timeout: Option<Duration>,
    ) -> Result<T, ClientError> {
        let broken = |cause| ClientError::Broken { path: self.path.clone(), cause };
        let mut object = serde_json::to_value(request).map_err(ClientError::Strange)?;
        if let (Some(object), Some(key)) = (object.as_object_mut(), &self.key) {
            object.insert("key".to_owned(), key.clone().into());
        }
        let mut line = serde_json::to_vec(&object).map_err(ClientError::Strange)?;
        line.push(b'\n');
        let sent = self.stream.get_mut().write_all(&line).map_err(broken);
        match (self.next(timeout), sent) {
            // A rejected client receives the reason before it has sent a request.
            (Err(ClientError::Refused(why)), Err(_)) => Err(why.into()),
            (_, Err(broken)) => Err(broken),
            (answer, Ok(())) => answer,
        }
    }

    /// Reads the next answer to what was asked last, and waits for it no longer than `timeout`.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn next<T: DeserializeOwned>(
        &mut self,
        timeout: Option<Duration>,
    ) -> Result<T, ClientError> {
        let broken = |cause| ClientError::Broken { path: self.path.clone(), cause };
        // The system takes no pause of zero.
        let pause = timeout.map(|timeout| timeout.max(Duration::from_millis(1)));
        self.stream.get_mut().set_read_timeout(pause).map_err(broken)?;
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => Err(broken(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => match serde_json::from_str(&line).map_err(ClientError::Strange)? {
                Answer::Ok { ok, more } => {
                    self.more = more;
                    serde_json::from_value(ok).map_err(ClientError::Strange)
                }
                Answer::Error { error } => Err(error.into()),
            },
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
            {
                Err(ClientError::TimedOut(timeout.unwrap_or_default()))
            }
            Err(error) => Err(broken(error)),
        }
    }
}

/// Connects, and waits for a place in the queue of a deployment that has many to answer; a connection that is not
/// read from is not waited for either.
pub(crate) fn open(path: &Path) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let end = Instant::now() + CONNECT_TIMEOUT;
    let (flags, kind) = (SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, SocketType::STREAM);
    let socket = net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
    // The queue is full: of these sockets none can wait by the system's doing and stop in time.
    while let Err(full) = net::connect(&socket, &address) {
        if full != Errno::AGAIN || Instant::now() > end {
            return Err(full.into());
        }
        thread::sleep(CONNECT_PAUSE);
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
    Ok(stream)
}
