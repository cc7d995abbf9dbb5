//! Frames: what travels on a connection.
//!
//! Four bytes of length, big-endian, one byte that says which kind, the body. The layout of `hello` never
//! changes; the others are those of the version on which both sides have agreed. A kind that is not known
//! is passed over, so that a newer peer may say more.

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_core::model::codec::{self, DecodeError};
use tenure_core::model::identity::ActorId;
use tenure_core::ticket::Ticket;
use tenure_core::wire::endorsement::SignedEndorsement;
use tenure_core::wire::invitation::SignedInvitation;
use tenure_core::wire::message::Sealed;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::timeout;

use super::card::SignedCard;
use super::task::{Task, TaskEnd};

/// The versions of the frames that are spoken here, the oldest and the newest.
pub const VERSIONS: (u16, u16) = (1, 1);

/// The longest frame: one message of any size, or a batch of smaller ones.
pub const MAX_FRAME: usize = codec::MAX_BYTES + (1 << 16);

/// A batch is not made longer than this by a further message.
pub const BATCH_BYTES: usize = 1 << 18;

/// How long the rest of a frame may take once it has begun.
const REST_OF_FRAME: Duration = Duration::from_secs(10);

/// What is said on a connection.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// The first of each side.
    Hello(Hello),
    /// Messages of one actor to another, in order.
    Messages(Vec<Sealed>),
    /// The sender has started: it asks for the newest message that was received from it.
    Started,
    /// The newest message that was received from the other side.
    Watermark(Option<Sealed>),
    /// Nothing, so that the other side hears something.
    Alive,
    /// The sender closes the connection.
    Bye(String),
    /// Before the hello: a ticket of the site that is dialled, by which it lets its holder in.
    Ticket(Ticket),
    /// Where an actor is.
    Card(SignedCard),
    /// Where is this actor? A card is the answer, if one is known.
    Where(ActorId),
    /// Before the hello: an invitation by who is dialled, by which it lets in who has it.
    Invitation(SignedInvitation),
    /// A broker's word by which a site lets in a guest: of the broker to the guest, and before the hello of the
    /// guest to the site.
    Endorsement(SignedEndorsement),
    /// To an executor: what it is to do, the only frame after the hello.
    Task(Box<Task>),
    /// Of an executor: what came of its task. The connection ends with it.
    TaskEnd(Box<TaskEnd>),
    /// The receiver is asked to take connections for these actors, which cannot be dialled.
    Relay(Vec<ActorId>),
    /// This actor was dialled at the sender, for which the receiver is to dial back with the token.
    Dialled(ActorId, [u8; 16]),
    /// The receiver is asked to take connections also for these actors, behind so many brokers: the sender takes them
    /// for their processes.
    RelayOn(Vec<(ActorId, u8)>),
    /// A kind of a later version.
    Unknown(u8),
}

/// Who speaks to whom, and in which versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The oldest version that is spoken.
    pub oldest: u16,
    /// The newest.
    pub newest: u16,
    /// Who speaks.
    pub from: ActorId,
    /// To whom.
    pub to: ActorId,
}

impl Hello {
    /// What this side says first.
    pub fn new(from: ActorId, to: ActorId) -> Self {
        let (oldest, newest) = VERSIONS;
        Self { oldest, newest, from, to }
    }

    /// The newest version that both sides speak.
    pub fn agreed(&self) -> Option<u16> {
        let (oldest, newest) = VERSIONS;
        let version = self.newest.min(newest);
        (version >= self.oldest.max(oldest)).then_some(version)
    }
}

/// Why no frame was read.
#[derive(Debug, Error)]
pub enum FrameError {
    /// The connection is broken, or was closed within a frame.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A frame that is longer than any may be.
    #[error("a frame of {length} bytes is longer than the {most} that are taken here")]
    TooLong {
        /// Its length.
        length: usize,
        /// The most that is taken.
        most: usize,
    },
    /// A frame without a kind.
    #[error("a frame of no bytes")]
    Empty,
    /// The body is none of its kind.
    #[error("a `{kind}` frame cannot be read: {cause}")]
    Malformed {
        /// The kind.
        kind: &'static str,
        /// What is wrong.
        cause: DecodeError,
    },
    /// The rest of a frame did not come.
    #[error("the rest of a frame did not come within {} s", REST_OF_FRAME.as_secs())]
    Slow,
}

const HELLO: u8 = 0;
const MESSAGES: u8 = 1;
const STARTED: u8 = 2;
const WATERMARK: u8 = 3;
const ALIVE: u8 = 4;
const BYE: u8 = 5;
const TICKET: u8 = 6;
const CARD: u8 = 7;
const WHERE: u8 = 8;
const INVITATION: u8 = 9;
const ENDORSEMENT: u8 = 10;
const TASK: u8 = 11;
const TASK_END: u8 = 12;
const RELAY: u8 = 13;
const DIALLED: u8 = 14;
const RELAY_ON: u8 = 15;

impl Frame {
    /// The bytes, with their length in front.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        match self {
            Self::Hello(hello) => {
                bytes.push(HELLO);
                codec::encode_into(hello, &mut bytes);
            }
            Self::Messages(messages) => {
                bytes.push(MESSAGES);
                messages.iter().for_each(|sealed| codec::encode_into(sealed, &mut bytes));
            }
            Self::Started => bytes.push(STARTED),
            Self::Watermark(sealed) => {
                bytes.push(WATERMARK);
                codec::encode_into(sealed, &mut bytes);
            }
            Self::Alive => bytes.push(ALIVE),
            Self::Bye(why) => {
                bytes.push(BYE);
                codec::encode_into(why, &mut bytes);
            }
            Self::Ticket(ticket) => {
                bytes.push(TICKET);
                codec::encode_into(ticket, &mut bytes);
            }
            Self::Card(card) => {
                bytes.push(CARD);
                codec::encode_into(card, &mut bytes);
            }
            Self::Where(actor) => {
                bytes.push(WHERE);
                codec::encode_into(actor, &mut bytes);
            }
            Self::Invitation(invitation) => {
                bytes.push(INVITATION);
                codec::encode_into(invitation, &mut bytes);
            }
            Self::Endorsement(endorsement) => {
                bytes.push(ENDORSEMENT);
                codec::encode_into(endorsement, &mut bytes);
            }
            Self::Task(task) => {
                bytes.push(TASK);
                codec::encode_into(task, &mut bytes);
            }
            Self::TaskEnd(end) => {
                bytes.push(TASK_END);
                codec::encode_into(end, &mut bytes);
            }
            Self::Relay(actors) => {
                bytes.push(RELAY);
                codec::encode_into(actors, &mut bytes);
            }
            Self::Dialled(to, token) => {
                bytes.push(DIALLED);
                codec::encode_into(&(to, token), &mut bytes);
            }
            Self::RelayOn(actors) => {
                bytes.push(RELAY_ON);
                codec::encode_into(actors, &mut bytes);
            }
            Self::Unknown(kind) => bytes.push(*kind),
        }
        let length = u32::try_from(bytes.len() - 4).unwrap_or(u32::MAX).to_be_bytes();
        bytes[..4].copy_from_slice(&length);
        bytes
    }

    /// The frame in bytes without their length.
    ///
    /// # Errors
    /// If there is no kind, or the body is none of it.
    pub fn read(bytes: &[u8]) -> Result<Self, FrameError> {
        let (&kind, body) = bytes.split_first().ok_or(FrameError::Empty)?;
        let malformed = |kind| move |cause| FrameError::Malformed { kind, cause };
        Ok(match kind {
            HELLO => Self::Hello(codec::decode(body).map_err(malformed("hello"))?),
            MESSAGES => Self::Messages(messages(body).map_err(malformed("messages"))?),
            STARTED => bare(body, Self::Started).map_err(malformed("started"))?,
            WATERMARK => Self::Watermark(codec::decode_fact(body).map_err(malformed("watermark"))?),
            ALIVE => bare(body, Self::Alive).map_err(malformed("alive"))?,
            BYE => Self::Bye(codec::decode(body).map_err(malformed("bye"))?),
            TICKET => Self::Ticket(codec::decode(body).map_err(malformed("ticket"))?),
            CARD => Self::Card(codec::decode(body).map_err(malformed("card"))?),
            WHERE => Self::Where(codec::decode(body).map_err(malformed("where"))?),
            INVITATION => Self::Invitation(codec::decode(body).map_err(malformed("invitation"))?),
            ENDORSEMENT => {
                Self::Endorsement(codec::decode(body).map_err(malformed("endorsement"))?)
            }
            TASK => Self::Task(codec::decode(body).map_err(malformed("task"))?),
            TASK_END => Self::TaskEnd(codec::decode(body).map_err(malformed("task end"))?),
            RELAY => Self::Relay(codec::decode(body).map_err(malformed("relay"))?),
            DIALLED => {
                let (to, token) = codec::decode(body).map_err(malformed("dialled"))?;
                Self::Dialled(to, token)
            }
            RELAY_ON => Self::RelayOn(codec::decode(body).map_err(malformed("relay on"))?),
            unknown => Self::Unknown(unknown),
        })
    }
}

/// A frame that is its kind alone.
fn bare(body: &[u8], frame: Frame) -> Result<Frame, DecodeError> {
    if body.is_empty() { Ok(frame) } else { Err(DecodeError::LeftOver(body.len())) }
}

/// Messages that follow each other.
fn messages(mut body: &[u8]) -> Result<Vec<Sealed>, DecodeError> {
    let mut messages = Vec::new();
    while !body.is_empty() {
        let (sealed, used) = codec::decode_first(body)?;
        messages.push(sealed);
        body = &body[used..];
    }
    Ok(messages)
}

/// Reads the next frame, of at most so many bytes. `None` if the connection was closed between two.
///
/// # Errors
/// See [`FrameError`].
pub async fn read_frame(
    from: &mut (impl AsyncRead + Unpin),
    most: usize,
) -> Result<Option<(Frame, usize)>, FrameError> {
    let mut length = [0; 4];
    // Until its first byte a frame may take as long as the connection may be idle.
    if from.read(&mut length[..1]).await? == 0 {
        return Ok(None);
    }
    let rest = async {
        from.read_exact(&mut length[1..]).await?;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > most {
            return Err(FrameError::TooLong { length, most });
        }
        let mut bytes = Vec::new();
        // What was announced is not set aside before it is there.
        from.take(length as u64).read_to_end(&mut bytes).await?;
        if bytes.len() < length {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok((Frame::read(&bytes)?, length + 4))
    };
    timeout(REST_OF_FRAME, rest).await.map_err(|_| FrameError::Slow)?.map(Some)
}

#[cfg(test)]
mod tests {
    use tenure_core::model::identity::PublicKey;

    use super::*;

    #[test]
    fn the_newest_version_that_both_sides_speak_is_agreed_on() {
        let id = ActorId::of(&PublicKey::from_bytes([7; 32]));
        let agreed = |oldest, newest| Hello { oldest, newest, ..Hello::new(id, id) }.agreed();
        assert_eq!(Hello::new(id, id).agreed(), Some(VERSIONS.1), "with its like");
        assert_eq!(agreed(1, 9), Some(1), "with one that speaks later ones, too");
        assert_eq!(agreed(0, 1), Some(1), "with one that speaks earlier ones, too");
        assert_eq!(agreed(2, 9), None, "with one that has left this one behind");
        assert_eq!(agreed(0, 0), None, "with one that is left behind");
    }
}
