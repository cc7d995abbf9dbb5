//! Invitations: by one line of text two actors become peers that did not know each other.

use std::net::Ipv6Addr;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::actor::Role;
use crate::model::codec;
use crate::model::identity::{ActorId, Label, Signer};
use crate::model::keys::{KeyBook, KeyChain};
use crate::model::name::Name;
use crate::model::signed::{ProvenSignature, SignatureFault};
use crate::model::time::Time;
use crate::model::verifier::Verifier;

/// What a line begins with.
const PREFIX: &str = "tenure-invitation-1:";

/// The longest address, in bytes.
pub const MAX_ADDRESS: usize = 256;

/// Whether a text is a host and a port, as `alpha.example:7400`, `192.0.2.1:7400` or `[2001:db8::1]:7400`.
pub fn can_be_dialled(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    let port = digits && port.parse::<u16>().is_ok_and(|port| port > 0);
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').is_some_and(|ip| ip.parse::<Ipv6Addr>().is_ok()),
        None => {
            let in_a_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
            !host.is_empty() && host.bytes().all(in_a_name)
        }
    };
    text.len() <= MAX_ADDRESS && port && host
}

/// The longest line, in bytes: its bytes fit into what is read of an actor that is not known.
pub const MAX_LINE: usize = 120_000;

/// What a peer may begin with an actor; all else follows from tickets and from what was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Permission {
    /// It may request units of a broker.
    Request,
    /// It may delegate units to a broker.
    Delegate,
}

impl Permission {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Delegate => "delegate",
        }
    }
}

impl FromStr for Permission {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let all = [Self::Request, Self::Delegate];
        let found = all.into_iter().find(|permission| permission.word() == word);
        found.ok_or_else(|| format!("`{word}` is no permission: write `request` or `delegate`"))
    }
}

/// All that a peer may begin.
pub type Permissions = BTreeSet<Permission>;

/// All that a peer of one role may be allowed by an actor of another.
pub fn permissions_of(peer: Role, at: Role) -> Permissions {
    match (peer, at) {
        (Role::ServiceManager, Role::Broker) => [Permission::Request].into(),
        (Role::SiteAuthority | Role::Broker, Role::Broker) => [Permission::Delegate].into(),
        (_, Role::SiteAuthority | Role::ServiceManager) => Permissions::new(),
    }
}

/// An actor's offer to the first actor that presents it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invitation {
    /// The inviting actor.
    pub inviter: ActorId,
    /// What it calls itself.
    pub name: Name,
    /// Its role.
    pub role: Role,
    /// Where it is dialled, as `host:port`.
    pub address: String,
    /// The number of the invitation, which is used once.
    pub number: u64,
    /// The role of the actor that may join.
    pub joiner: Role,
    /// What who comes may begin.
    pub may: BTreeSet<Permission>,
    /// Until when it holds, by the clock of who invites.
    pub until: Time,
}

/// An invitation with the signature of who invites.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedInvitation {
    /// What is signed.
    pub invitation: Invitation,
    signature: ProvenSignature,
}

/// Why a line is no invitation.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadLine {
    /// It is something else, or a part of it is missing.
    #[error("this is no invitation: one begins with `{PREFIX}`")]
    Prefix,
    /// It is too long.
    #[error("an invitation has at most {MAX_LINE} characters")]
    Long,
    /// A part of it is missing, or was changed.
    #[error("the invitation is damaged: copy the whole line again")]
    Damaged,
}

/// Why an actor does not become a peer by an invitation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
pub enum JoinFault {
    /// The inviter has made no such invitation.
    #[error("it was never made by who is asked")]
    Unknown,
    /// Another has come with it, or it was answered and the peer removed since.
    #[error("it was used before")]
    Used,
    /// It is over.
    #[error("it has expired")]
    Expired,
    /// It is for an actor of another role.
    #[error("it is for a {0}")]
    Role(Role),
    /// The inviter has another peer of that name.
    #[error("the inviter has another peer `{0}`: ask for an invitation with a name for this one")]
    Name(Name),
    /// The inviter knows it already.
    #[error("the inviter knows this actor by its configuration")]
    Known,
    /// The inviter has as many peers as it may.
    #[error("the inviter has no room for another peer")]
    Full,
}

impl SignedInvitation {
    /// Signs an invitation, by the key that is in force by these statements.
    pub fn sign(invitation: Invitation, signer: &Signer, keys: KeyChain) -> Self {
        let bytes = codec::encode(&invitation);
        let signature = ProvenSignature::sign((Label::Invitation, &bytes), signer, keys);
        Self { invitation, signature }
    }

    /// Whether the inviter has signed it, by what is known of keys.
    ///
    /// # Errors
    /// Why it does not count.
    pub fn check(&self, known: &KeyBook, verifier: &mut Verifier) -> Result<(), SignatureFault> {
        let bytes = codec::encode(&self.invitation);
        self.signature.check(
            self.invitation.inviter,
            (Label::Invitation, &bytes),
            (known, verifier),
        )
    }
}

impl fmt::Display for SignedInvitation {
    /// As one line, to be pasted elsewhere.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        codec::encode(self).iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for SignedInvitation {
    type Err = BadLine;

    fn from_str(line: &str) -> Result<Self, BadLine> {
        let line = line.trim();
        if line.len() > MAX_LINE {
            return Err(BadLine::Long);
        }
        let digits = line.strip_prefix(PREFIX).ok_or(BadLine::Prefix)?;
        let bytes = digits.as_bytes().chunks(2).map(|pair| {
            let is_byte = pair.len() == 2 && pair.iter().all(u8::is_ascii_hexdigit);
            let pair = std::str::from_utf8(pair).ok().filter(|_| is_byte)?;
            u8::from_str_radix(pair, 16).ok()
        });
        let bytes: Option<Vec<u8>> = bytes.collect();
        codec::decode(&bytes.ok_or(BadLine::Damaged)?).map_err(|_| BadLine::Damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::identity::Scheme;

    fn signed(by: u8) -> SignedInvitation {
        let signer = |seed| Signer::from_seed(Scheme::Ed25519, [seed; 32]);
        let invitation = Invitation {
            inviter: signer(1).id(),
            name: Name::literal("exchange"),
            role: Role::Broker,
            address: "192.0.2.1:7400".to_owned(),
            number: 1,
            joiner: Role::SiteAuthority,
            may: permissions_of(Role::SiteAuthority, Role::Broker),
            until: Time::from_secs(60),
        };
        SignedInvitation::sign(invitation, &signer(by), KeyChain::default())
    }

    fn check(signed: &SignedInvitation) -> Result<(), SignatureFault> {
        signed.check(&KeyBook::default(), &mut Verifier::new(Scheme::Ed25519))
    }

    #[test]
    fn a_line_reads_back_as_the_invitation_that_it_was() {
        let invitation = signed(1);
        let line = invitation.to_string();
        assert!(line.len() < 500, "{} characters", line.len());
        assert_eq!(format!(" {line}\n").parse(), Ok(invitation));
    }

    #[test]
    fn an_invitation_that_was_altered_or_forged_does_not_count() {
        assert_eq!(check(&signed(1)), Ok(()));
        assert_eq!(check(&signed(2)), Err(SignatureFault::NotItsKey));
        let line = signed(1).to_string();
        for place in PREFIX.len()..line.len() {
            let digit = if line.as_bytes()[place] == b'0' { "1" } else { "0" };
            let changed = format!("{}{digit}{}", &line[..place], &line[place + 1..]);
            let read: Result<SignedInvitation, _> = changed.parse();
            assert!(read.is_err() || read.is_ok_and(|read| check(&read).is_err()), "{place}");
        }
        for end in 0..line.len() {
            assert!(line[..end].parse::<SignedInvitation>().is_err(), "{end}");
        }
    }
}
