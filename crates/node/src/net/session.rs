//! One connection, from the first frame of each side to its end.

use std::io;
use std::time::{Duration, Instant};

use tenure_core::model::identity::ActorId;
use tenure_core::wire::message::{Envelope, Sealed};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::budget::{Budget, Rate};
use super::frame::{BATCH_BYTES, Frame, FrameError, Hello, MAX_FRAME, read_frame};
use crate::transport::{Greeting, GreetingKind, Packet, Transport};

/// How long the first frames of both sides may take.
const HELLO_WITHIN: Duration = Duration::from_secs(5);

/// The longest first frame.
const MAX_HELLO: usize = 1 << 10;

/// After how long a side that has nothing to say says so.
pub(super) const ALIVE_EVERY: Duration = Duration::from_secs(10);

/// After how long without a frame the other side is given up.
const SILENT_FOR: Duration = Duration::from_secs(30);

/// How long one write may take.
const WRITE_WITHIN: Duration = Duration::from_secs(10);

/// How long a receiver whose mailbox is full is waited for before a message is dropped. Its sender repeats
/// it; nothing else is read of the connection meanwhile, which holds the sender back.
const FULL_FOR: Duration = Duration::from_millis(500);

/// The most messages in a frame.
const MOST_IN_BATCH: usize = 64;

/// What an actor has to say to another one.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Message(Sealed),
    Greeting(GreetingKind),
}

/// Why a connection ended.
#[derive(Debug, Error)]
pub(super) enum SessionEnd {
    #[error("it was closed by the other side")]
    Closed,
    #[error("the other side left: {0}")]
    Bye(String),
    #[error("the other side has said nothing for {} s", SILENT_FOR.as_secs())]
    Silent,
    #[error("the other side takes nothing more")]
    Stuck,
    #[error("the first frame is no `hello`")]
    NoHello,
    #[error("the first frame did not come within {} s", HELLO_WITHIN.as_secs())]
    SlowHello,
    #[error("it speaks for {said}, and its key is another's")]
    OtherSpeaker { said: ActorId },
    #[error("it is for {said}, who is not here")]
    OtherReceiver { said: ActorId },
    #[error("the other side speaks versions {oldest} to {newest} of the frames, this one {}", super::frame::VERSIONS.1)]
    Version { oldest: u16, newest: u16 },
    #[error("a message of {0} that this connection is not for")]
    Foreign(ActorId),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Whose connection it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) here: ActorId,
    pub(super) there: ActorId,
}

/// A connection on which both sides have said who they are.
pub(super) struct Session<S> {
    ends: Ends,
    stream: S,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<S> {
    /// Says hello, and hears who is there.
    pub(super) async fn begin(mut stream: S, ends: Ends) -> Result<Self, SessionEnd> {
        let Ends { here, there } = ends;
        say(&mut stream, &Frame::Hello(Hello::new(here, there))).await?;
        let hello = hear_hello(&mut stream).await?;
        if hello.from != there {
            return Err(SessionEnd::OtherSpeaker { said: hello.from });
        }
        if hello.to != here {
            return Err(SessionEnd::OtherReceiver { said: hello.to });
        }
        if hello.agreed().is_none() {
            let Hello { oldest, newest, .. } = hello;
            let end = SessionEnd::Version { oldest, newest };
            say(&mut stream, &Frame::Bye(end.to_string())).await?;
            return Err(end);
        }
        Ok(Self { ends, stream })
    }

    /// Closes the connection, and says why.
    pub(super) async fn part(self, why: &str) {
        part(self.stream, why).await;
    }

    /// Carries what comes to `local`, and what `queue` has to the other side, until the connection ends.
    pub(super) async fn run(
        self,
        queue: &mut mpsc::Receiver<Item>,
        local: &dyn Transport,
    ) -> SessionEnd {
        let (mut read, mut write) = tokio::io::split(self.stream);
        tokio::select! {
            end = listen(&mut read, self.ends, local) => end,
            end = speak(&mut write, queue) => end,
        }
    }
}

async fn hear_hello(stream: &mut (impl AsyncRead + Unpin)) -> Result<Hello, SessionEnd> {
    let first = timeout(HELLO_WITHIN, read_frame(stream, MAX_HELLO)).await;
    match first.map_err(|_| SessionEnd::SlowHello)?? {
        Some((Frame::Hello(hello), _)) => Ok(hello),
        Some((Frame::Bye(why), _)) => Err(SessionEnd::Bye(why)),
        Some(_) => Err(SessionEnd::NoHello),
        None => Err(SessionEnd::Closed),
    }
}

async fn say(stream: &mut (impl AsyncWrite + Unpin), frame: &Frame) -> Result<(), SessionEnd> {
    let bytes = frame.to_bytes();
    let written = async {
        stream.write_all(&bytes).await?;
        stream.flush().await
    };
    Ok(timeout(WRITE_WITHIN, written).await.map_err(|_| SessionEnd::Stuck)??)
}

/// Says goodbye on a connection, as far as the other side still listens.
pub(super) async fn part(mut stream: impl AsyncWrite + Unpin, why: &str) {
    drop(say(&mut stream, &Frame::Bye(why.to_owned())).await);
    drop(stream.shutdown().await);
}

async fn listen<S: AsyncRead>(
    read: &mut ReadHalf<S>,
    ends: Ends,
    local: &dyn Transport,
) -> SessionEnd {
    let mut budget = Budget::new(Rate::PEER, Instant::now());
    loop {
        let (frame, bytes) = match timeout(SILENT_FOR, read_frame(read, MAX_FRAME)).await {
            Ok(Ok(Some(read))) => read,
            Ok(Ok(None)) => return SessionEnd::Closed,
            Ok(Err(error)) => return error.into(),
            Err(_) => return SessionEnd::Silent,
        };
        if let Err(end) = take(frame, ends, local).await {
            return end;
        }
        let pause = budget.spend(bytes, Instant::now());
        if !pause.is_zero() {
            sleep(pause).await;
        }
    }
}

/// Brings a frame to its receiver.
async fn take(frame: Frame, ends: Ends, local: &dyn Transport) -> Result<(), SessionEnd> {
    let Ends { here, there } = ends;
    let greet = |says| local.greet(Greeting { from: there, to: here, says });
    match frame {
        Frame::Messages(messages) => {
            for sealed in messages {
                // One that cannot be read is the receiver's to refuse, but nobody's to bring.
                let Ok(Envelope { header, message }) = sealed.peek() else { continue };
                if (header.from, header.to) != (there, here) {
                    return Err(SessionEnd::Foreign(header.from));
                }
                let packet = Packet {
                    from: there,
                    to: here,
                    sequence: header.sequence,
                    kind: message.kind(),
                    sealed,
                };
                bring(packet, local).await;
            }
        }
        Frame::Started => drop(greet(GreetingKind::Hello)),
        Frame::Watermark(word) => drop(greet(GreetingKind::Watermarks(word))),
        Frame::Alive => {}
        Frame::Unknown(kind) => debug!(%there, kind, "passed over a frame of a later version"),
        Frame::Bye(why) => return Err(SessionEnd::Bye(why)),
        Frame::Hello(_) => return Err(SessionEnd::NoHello),
    }
    Ok(())
}

/// A receiver whose mailbox is full is waited for, for a while.
async fn bring(packet: Packet, local: &dyn Transport) {
    let until = Instant::now() + FULL_FOR;
    while !local.send(packet.clone()) && Instant::now() < until {
        sleep(Duration::from_millis(10)).await;
    }
}

async fn speak<S: AsyncWrite>(
    write: &mut WriteHalf<S>,
    queue: &mut mpsc::Receiver<Item>,
) -> SessionEnd {
    let mut next = None;
    loop {
        let first = match next.take() {
            Some(item) => item,
            None => match timeout(ALIVE_EVERY, queue.recv()).await {
                Ok(Some(item)) => item,
                Ok(None) => return SessionEnd::Closed,
                Err(_) => {
                    if let Err(end) = say(write, &Frame::Alive).await {
                        return end;
                    }
                    continue;
                }
            },
        };
        let (frame, left) = frame_of(first, queue);
        next = left;
        if let Err(end) = say(write, &frame).await {
            return end;
        }
    }
}

/// What goes out next: messages that wait go together. What does not go with them is left.
fn frame_of(first: Item, queue: &mut mpsc::Receiver<Item>) -> (Frame, Option<Item>) {
    let mut batch = match first {
        Item::Greeting(GreetingKind::Hello) => return (Frame::Started, None),
        Item::Greeting(GreetingKind::Watermarks(word)) => return (Frame::Watermark(word), None),
        Item::Message(sealed) => vec![sealed],
    };
    let mut bytes = batch[0].bytes().len();
    while batch.len() < MOST_IN_BATCH {
        match queue.try_recv() {
            Ok(Item::Message(sealed)) if bytes + sealed.bytes().len() <= BATCH_BYTES => {
                bytes += sealed.bytes().len();
                batch.push(sealed);
            }
            Ok(other) => return (Frame::Messages(batch), Some(other)),
            Err(_) => break,
        }
    }
    (Frame::Messages(batch), None)
}
