//! One connection, from the first frame of each side to its end.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::model::identity::ActorId;
use tenure_core::ticket::Ticket;
use tenure_core::wire::admission::Stranger;
use tenure_core::wire::endorsement::SignedEndorsement;
use tenure_core::wire::invitation::SignedInvitation;
use tenure_core::wire::message::{Envelope, Sealed};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::allowance::Allowance;
use super::budget::{Budget, Rate};
use super::card::SignedCard;
use super::frame::{BATCH_BYTES, Frame, FrameError, Hello, MAX_FRAME, read_frame};
use super::hub::Hub;
use super::relay::{RelayedOn, Token};
use super::tls;
use crate::transport::{Greeting, GreetingKind, Packet, Transport as _};

/// How long the first frames of both sides may take.
pub(super) const HELLO_WITHIN: Duration = Duration::from_secs(5);

/// The longest hello.
const MAX_HELLO: usize = 1 << 10;

/// The longest pass, which is all that is read of who is not known.
pub(super) const MAX_PASS: usize = 1 << 16;

/// How often an actor that can be dialled renews its card.
const CARD_EVERY: Duration = Duration::from_secs(60 * 60);

/// What lets in who is not known.
#[derive(Clone, Debug)]
pub(super) enum Pass {
    /// A ticket of the site that is dialled.
    Ticket(Ticket),
    /// An invitation by the actor that is dialled.
    Invitation(Box<SignedInvitation>),
    /// The word of a broker to the site that is dialled.
    Endorsement(Box<SignedEndorsement>),
}

impl Pass {
    /// Whether it is short enough to be read.
    pub(super) fn fits(&self) -> bool {
        // The length stands in front of what is counted.
        self.frame().to_bytes().len() <= MAX_PASS + 4
    }

    fn frame(&self) -> Frame {
        match self {
            Self::Ticket(ticket) => Frame::Ticket(ticket.clone()),
            Self::Invitation(invitation) => Frame::Invitation((**invitation).clone()),
            Self::Endorsement(endorsement) => Frame::Endorsement((**endorsement).clone()),
        }
    }
}

/// After how long a side that has nothing to say says so.
pub(super) const ALIVE_EVERY: Duration = Duration::from_secs(10);

/// After how long without a frame the other side is given up.
pub(super) const SILENT_FOR: Duration = Duration::from_secs(30);

/// How long one write may take.
pub(super) const WRITE_WITHIN: Duration = Duration::from_secs(10);

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
    Card(SignedCard),
    Where(ActorId),
    Endorsement(Box<SignedEndorsement>),
    /// This actor of the receiver's process was dialled here; it is to dial back with the token.
    Dialled(ActorId, Token),
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
    #[error("who is known by a ticket, an invitation or an endorsement alone may not say `{0}`")]
    NotForStrangers(&'static str),
    #[error("its first frame is something else")]
    NoPass,
    #[error("no actor with this id is at its address")]
    NobodyThere,
    #[error("who is at its address shows the key of another actor")]
    OtherKey,
    #[error("it was cut off")]
    Cut,
    #[error(transparent)]
    Frame(FrameError),
    #[error(transparent)]
    Io(io::Error),
}

impl From<FrameError> for SessionEnd {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Io(error) => error.into(),
            FrameError::TooLong { .. }
            | FrameError::Empty
            | FrameError::Malformed { .. }
            | FrameError::Slow => Self::Frame(error),
        }
    }
}

impl From<io::Error> for SessionEnd {
    /// Errors of TLS about who is at the other end are named as such.
    fn from(error: io::Error) -> Self {
        match tls::cause(&error) {
            Some(tls::Cause::Nobody) => Self::NobodyThere,
            Some(tls::Cause::OtherKey) => Self::OtherKey,
            None if error.kind() == io::ErrorKind::UnexpectedEof => Self::Cut,
            None => Self::Io(error),
        }
    }
}

/// Whose connection it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

    /// Carries what comes to the actor here, and what `queue` has to the other side, until the connection
    /// ends. A stranger is known by its pass alone.
    pub(super) async fn run(
        self,
        queue: &mut mpsc::Receiver<Item>,
        (hub, stranger): (&Hub, Option<(Stranger, Arc<Allowance>)>),
    ) -> SessionEnd {
        let (mut read, mut write) = tokio::io::split(self.stream);
        let inlet = Inlet { hub, ends: self.ends, stranger };
        tokio::select! {
            end = inlet.listen(&mut read) => end,
            end = speak(&mut write, queue, (hub, self.ends)) => end,
        }
    }
}

/// Shows a pass to the actor that was dialled.
pub(super) async fn show(
    stream: &mut (impl AsyncWrite + Unpin),
    pass: &Pass,
) -> Result<(), SessionEnd> {
    say(stream, &pass.frame()).await
}

/// The pass that who is not known shows first.
pub(super) async fn shown(stream: &mut (impl AsyncRead + Unpin)) -> Result<Pass, SessionEnd> {
    match first(stream, MAX_PASS).await? {
        Some((Frame::Ticket(ticket), _)) => Ok(Pass::Ticket(ticket)),
        Some((Frame::Invitation(invitation), _)) => Ok(Pass::Invitation(Box::new(invitation))),
        Some((Frame::Endorsement(endorsement), _)) => Ok(Pass::Endorsement(Box::new(endorsement))),
        Some(_) => Err(SessionEnd::NoPass),
        None => Err(SessionEnd::Closed),
    }
}

pub(super) async fn first(
    stream: &mut (impl AsyncRead + Unpin),
    most: usize,
) -> Result<Option<(Frame, usize)>, SessionEnd> {
    let first = timeout(HELLO_WITHIN, read_frame(stream, most)).await;
    Ok(first.map_err(|_| SessionEnd::SlowHello)??)
}

pub(super) async fn hear_hello(stream: &mut (impl AsyncRead + Unpin)) -> Result<Hello, SessionEnd> {
    let hello = match first(stream, MAX_PASS).await? {
        // Who is known need not show one, and does not know that.
        Some((Frame::Ticket(_) | Frame::Invitation(_) | Frame::Endorsement(_), _)) => {
            first(stream, MAX_HELLO).await?
        }
        hello => hello,
    };
    match hello {
        Some((Frame::Hello(hello), _)) => Ok(hello),
        Some((Frame::Bye(why), _)) => Err(SessionEnd::Bye(why)),
        Some(_) => Err(SessionEnd::NoHello),
        None => Err(SessionEnd::Closed),
    }
}

pub(super) async fn say(
    stream: &mut (impl AsyncWrite + Unpin),
    frame: &Frame,
) -> Result<(), SessionEnd> {
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

/// Where what comes on a connection goes.
struct Inlet<'a> {
    hub: &'a Hub,
    ends: Ends,
    stranger: Option<(Stranger, Arc<Allowance>)>,
}

impl Inlet<'_> {
    async fn listen<S: AsyncRead>(&self, read: &mut ReadHalf<S>) -> SessionEnd {
        let mut budget = Budget::new(Rate::PEER, Instant::now());
        loop {
            let (frame, bytes) = match timeout(SILENT_FOR, read_frame(read, MAX_FRAME)).await {
                Ok(Ok(Some(read))) => read,
                Ok(Ok(None)) => return SessionEnd::Closed,
                Ok(Err(error)) => return error.into(),
                Err(_) => return SessionEnd::Silent,
            };
            if let Err(end) = self.take(frame).await {
                return end;
            }
            let pause = match &self.stranger {
                Some((_, allowance)) => allowance.spend(bytes),
                None => budget.spend(bytes, Instant::now()),
            };
            if !pause.is_zero() {
                sleep(pause).await;
            }
        }
    }

    /// Brings a frame to its receiver.
    async fn take(&self, frame: Frame) -> Result<(), SessionEnd> {
        let Ends { here, there } = self.ends;
        let greet = |says| self.hub.local.greet(Greeting { from: there, to: here, says });
        match frame {
            Frame::Messages(messages) => {
                for sealed in messages {
                    self.message(sealed).await?;
                }
            }
            Frame::Alive => {}
            Frame::Unknown(kind) => debug!(%there, kind, "passed over a frame of a later version"),
            Frame::Task(_) | Frame::TaskEnd(_) => debug!(%there, "an actor is no executor"),
            Frame::Bye(why) => return Err(SessionEnd::Bye(why)),
            Frame::Hello(_) | Frame::Ticket(_) | Frame::Invitation(_) => {
                return Err(SessionEnd::NoHello);
            }
            // Of what is not a message, nothing counts that a stranger says.
            _ if self.stranger.is_some() => {}
            Frame::Started => drop(greet(GreetingKind::Hello)),
            Frame::Watermark(word) => drop(greet(GreetingKind::Watermarks(word))),
            Frame::Card(signed) => self.hub.take_card(self.ends, signed),
            Frame::Where(actor) => self.tell_where(actor),
            Frame::Endorsement(signed) => self.hub.take_endorsement(self.ends, signed),
            Frame::Relay(actors) => {
                let actors = actors.into_iter().map(|actor| (actor, 0)).collect();
                self.hub.relay_for(self.ends, actors, false);
            }
            Frame::RelayOn(actors) => self.hub.relay_for(self.ends, actors, true),
            Frame::Dialled(to, token) => self.hub.dial_back(self.ends, (to, token)),
        }
        Ok(())
    }

    async fn message(&self, sealed: Sealed) -> Result<(), SessionEnd> {
        let Ends { here, there } = self.ends;
        // One that cannot be read is the receiver's to refuse, but nobody's to bring.
        let Ok(Envelope { header, message }) = sealed.peek() else { return Ok(()) };
        if (header.from, header.to) != (there, here) {
            return Err(SessionEnd::Foreign(header.from));
        }
        let kind = message.kind();
        if self.stranger.as_ref().is_some_and(|(stranger, _)| !stranger.may_say(kind)) {
            return Err(SessionEnd::NotForStrangers(kind));
        }
        let sequence = header.sequence;
        self.bring(Packet { from: there, to: here, sequence, kind, sealed }).await;
        Ok(())
    }

    /// A receiver whose mailbox is full is waited for, for a while.
    async fn bring(&self, packet: Packet) {
        let until = Instant::now() + FULL_FOR;
        while !self.hub.local.send(packet.clone()) && Instant::now() < until {
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Answers with the card of an actor, as far as one is known, and before it with what lets the asker in there.
    fn tell_where(&self, actor: ActorId) {
        let Some(card) = self.hub.card_of(actor) else {
            // Who asks asks again, and gets what has come by then.
            return self.hub.ask_on(self.ends, actor);
        };
        if let Some(signed) = self.hub.endorse(self.ends, actor) {
            self.hub.say(self.ends, Item::Endorsement(Box::new(signed)));
        }
        self.hub.say(self.ends, Item::Card(card));
    }
}

async fn speak<S: AsyncWrite>(
    write: &mut WriteHalf<S>,
    queue: &mut mpsc::Receiver<Item>,
    (hub, ends): (&Hub, Ends),
) -> SessionEnd {
    let card = || hub.own_card(ends.here);
    let actors = hub.to_be_relayed(ends);
    if !actors.is_empty()
        && let Err(end) = say(write, &Frame::Relay(actors)).await
    {
        return end;
    }
    let mut relays = RelayedOn::new(hub, ends);
    let (mut next, mut card_due) = (card().map(Item::Card), Instant::now() + CARD_EVERY);
    loop {
        if Instant::now() >= card_due && next.is_none() {
            (next, card_due) = (card().map(Item::Card), Instant::now() + CARD_EVERY);
        }
        if let Some(frame) = relays.due()
            && let Err(end) = say(write, &frame).await
        {
            return end;
        }
        let first = match next.take() {
            Some(item) => item,
            None => match timeout(relays.pause().unwrap_or(ALIVE_EVERY), queue.recv()).await {
                Ok(Some(item)) => item,
                Ok(None) => return SessionEnd::Closed,
                // They are told often enough to know that this side is alive.
                Err(_) if relays.pause().is_some() => continue,
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
        Item::Card(card) => return (Frame::Card(card), None),
        Item::Where(actor) => return (Frame::Where(actor), None),
        Item::Endorsement(signed) => return (Frame::Endorsement(*signed), None),
        Item::Dialled(to, token) => return (Frame::Dialled(to, token), None),
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
