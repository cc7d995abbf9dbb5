//! The way of tasks to executors: a connection for each, which both ends know by their keys. Hello, the task, signs
//! of life, its end.

use std::future::Future;
use std::io;
use std::sync::Arc;

use rustls::ServerConfig;
use tenure_core::model::identity::{ActorId, PublicKey, Signer};
use tenure_core::model::keys::KeyChain;
use thiserror::Error;
use tokio::io::{AsyncReadExt as _, AsyncWrite, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::time::{interval, timeout};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::frame::{Frame, Hello, MAX_FRAME, read_frame};
use super::lane::CONNECT_WITHIN;
use super::session::{ALIVE_EVERY, SILENT_FOR, SessionEnd, first, hear_hello, say};
use super::task::{Errand, Task, TaskEnd};
use super::tls;

/// Where an executor is, and who.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorAt {
    /// The id of its key.
    pub id: ActorId,
    /// Where it is dialled, as `host:port`.
    pub address: String,
}

/// Who asks, and by what it shows that.
#[derive(Clone, Debug)]
pub struct Asker {
    /// The actor.
    pub id: ActorId,
    /// Its key in force.
    pub signer: Signer,
    /// What it has stated about its keys.
    pub keys: KeyChain,
}

/// Why there is no answer to a task.
#[derive(Debug, Error)]
pub enum TaskError {
    /// The executor cannot be reached: nothing was done.
    #[error("the executor at {address} cannot be reached: {cause}")]
    Unreachable {
        /// Where it should be.
        address: String,
        /// Why not.
        cause: String,
    },
    /// The connection ended before the task did; it may have been done all the same.
    #[error("the executor at {address} has not answered: {cause}")]
    NoAnswer {
        /// Where it is.
        address: String,
        /// What happened.
        cause: String,
    },
}

/// Has an executor do something, and waits for its end.
///
/// # Errors
/// See [`TaskError`].
pub async fn ask(by: &Asker, at: &ExecutorAt, errand: Errand) -> Result<TaskEnd, TaskError> {
    let address = || at.address.clone();
    let late = || SessionEnd::from(io::Error::from(io::ErrorKind::TimedOut));
    let dialled = timeout(CONNECT_WITHIN, dial(by, at)).await.unwrap_or_else(|_| Err(late()));
    let unreachable =
        |cause: SessionEnd| TaskError::Unreachable { address: address(), cause: cause.to_string() };
    let mut stream = dialled.map_err(unreachable)?;
    let task = Frame::Task(Box::new(Task { keys: by.keys.clone(), errand }));
    let answered = async {
        say(&mut stream, &task).await?;
        loop {
            match timeout(SILENT_FOR, read_frame(&mut stream, MAX_FRAME)).await {
                Ok(Ok(Some((Frame::TaskEnd(end), _)))) => return Ok(*end),
                Ok(Ok(Some((Frame::Bye(why), _)))) => return Err(SessionEnd::Bye(why)),
                Ok(Ok(Some(_))) => {}
                Ok(Ok(None)) => return Err(SessionEnd::Closed),
                Ok(Err(error)) => return Err(error.into()),
                Err(_) => return Err(SessionEnd::Silent),
            }
        }
    };
    let failed =
        |cause: SessionEnd| TaskError::NoAnswer { address: address(), cause: cause.to_string() };
    answered.await.map_err(failed)
}

async fn dial(by: &Asker, at: &ExecutorAt) -> Result<TlsStream<TcpStream>, SessionEnd> {
    let stream = TcpStream::connect(&at.address).await?;
    stream.set_nodelay(true)?;
    let there = at.id;
    let client = tls::client_of(&by.signer, move |key| ActorId::of(key) == there);
    let name = tls::server_name(there, 0).map_err(io::Error::other)?;
    let client = TlsConnector::from(client.map_err(io::Error::other)?);
    let mut stream = TlsStream::from(client.connect(name, stream).await?);
    say(&mut stream, &Frame::Hello(Hello::new(by.id, there))).await?;
    let hello = hear_hello(&mut stream).await?;
    check(&hello, there, by.id)?;
    Ok(stream)
}

/// Whether a hello is by who it should be by, for who is here, in a version that is spoken.
fn check(hello: &Hello, there: ActorId, here: ActorId) -> Result<(), SessionEnd> {
    let Hello { oldest, newest, from, to } = *hello;
    match () {
        () if from != there => Err(SessionEnd::OtherSpeaker { said: from }),
        () if to != here => Err(SessionEnd::OtherReceiver { said: to }),
        () if hello.agreed().is_none() => Err(SessionEnd::Version { oldest, newest }),
        () => Ok(()),
    }
}

/// Where an executor takes tasks.
pub(crate) struct Endpoint {
    id: ActorId,
    server: Arc<ServerConfig>,
}

/// A task that has come.
pub(crate) struct Heard {
    /// For whom it says it comes.
    pub(crate) from: ActorId,
    /// The key that was shown.
    pub(crate) key: PublicKey,
    pub(crate) task: Task,
    read: ReadHalf<TlsStream<TcpStream>>,
    write: WriteHalf<TlsStream<TcpStream>>,
}

/// Why no task came.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct NotHeard(String);

impl From<SessionEnd> for NotHeard {
    fn from(end: SessionEnd) -> Self {
        Self(end.to_string())
    }
}

impl From<io::Error> for NotHeard {
    fn from(error: io::Error) -> Self {
        SessionEnd::from(error).into()
    }
}

impl Endpoint {
    /// The endpoint of an executor with this key.
    pub(crate) fn new(signer: &Signer) -> Result<Self, rustls::Error> {
        Ok(Self { id: signer.id(), server: tls::server_with(signer)? })
    }

    /// Hears the task of one who has dialled.
    pub(crate) async fn hear(&self, stream: TcpStream) -> Result<Heard, NotHeard> {
        stream.set_nodelay(true)?;
        let accepted = TlsAcceptor::from(Arc::clone(&self.server)).accept(stream);
        let late = || NotHeard("its handshake took too long".to_owned());
        let stream = timeout(CONNECT_WITHIN, accepted).await.map_err(|_| late())??;
        let (_, session) = stream.get_ref();
        let key = tls::peer_key(session.peer_certificates());
        let named = session.alpn_protocol() == Some(tls::PROTOCOL);
        let Some(key) = key.filter(|_| named) else {
            return Err(NotHeard("it did not name the protocol, or showed no key".to_owned()));
        };
        let mut stream = TlsStream::from(stream);
        let hello = hear_hello(&mut stream).await?;
        say(&mut stream, &Frame::Hello(Hello::new(self.id, hello.from))).await?;
        check(&hello, hello.from, self.id)?;
        let Some((Frame::Task(task), _)) = first(&mut stream, MAX_FRAME).await? else {
            return Err(NotHeard("its first frame is no task".to_owned()));
        };
        let (read, write) = tokio::io::split(stream);
        Ok(Heard { from: hello.from, key, task: *task, read, write })
    }
}

impl Heard {
    /// Works, with signs of life, and answers. Who asks may go before the end: then `gone` is called.
    pub(crate) async fn answer(
        mut self,
        work: impl Future<Output = TaskEnd>,
        gone: impl FnOnce(),
    ) -> Result<(), NotHeard> {
        let done = async {
            tokio::select! {
                end = work => Some(end),
                () = left(&mut self.read) => None,
                () = live(&mut self.write) => None,
            }
        };
        let Some(end) = done.await else {
            gone();
            return Err(NotHeard("who has asked is gone".to_owned()));
        };
        Ok(say(&mut self.write, &Frame::TaskEnd(Box::new(end))).await?)
    }
}

/// Waits until who has asked is gone.
async fn left(read: &mut ReadHalf<TlsStream<TcpStream>>) {
    let mut bytes = [0; 64];
    while read.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
}

/// Says that there is still somebody, until that fails.
async fn live(write: &mut (impl AsyncWrite + Unpin)) {
    let mut pace = interval(ALIVE_EVERY);
    loop {
        pace.tick().await;
        if say(write, &Frame::Alive).await.is_err() {
            return;
        }
    }
}
