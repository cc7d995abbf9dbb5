//! Tickets: signed rights to units of a type over a term, and what is kept about them.
//!
//! A ticket is a chain of links, root first. The site signs the root; each further link is signed by the
//! holder of the one above it and hands a part on. [`ledger`] keeps the children of a ticket within it,
//! [`evidence`] convicts who did not, [`receipt`] is a site's word that units came back.

pub mod evidence;
pub mod ledger;
pub mod link;
pub mod receipt;
mod running;

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::time::Term;
use crate::mutants::mutant;
use link::{AccountId, LinkHash, SignedLink};

/// The longest chain, in links.
pub const MAX_DEPTH: usize = 8;

/// The most delegations in a chain: each passes units on to one more broker.
pub const MAX_DELEGATIONS: usize = 5;

/// A chain of signed links, root first, never empty once it is made or received whole.
///
/// Tickets are not secrets: only the bottom holder can redeem one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<SignedLink>")]
pub struct Ticket(Vec<SignedLink>);

/// Why a ticket is void.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum TicketFault {
    /// No link at all.
    #[error("the chain has no link")]
    Empty,
    /// More than [`MAX_DEPTH`] links.
    #[error("the chain has {0} links, more than {MAX_DEPTH}")]
    ChainTooLong(u32),
    /// The root is not signed by the site it was shown to.
    #[error("the ticket is rooted at {0}, not here")]
    WrongSite(ActorId),
    /// A link's key is not its issuer's, or the signature is not the key's.
    #[error("the signature on link {0} of the chain does not hold")]
    BadSignature(u32),
    /// A link that does not follow from the one above it.
    #[error("link {depth} of the chain does not follow from the one above: {cause}")]
    BadLink {
        /// Its place in the chain; the root is 0.
        depth: u32,
        /// What it broke.
        cause: LinkFault,
    },
    /// The last holder is another actor.
    #[error("the ticket is {0}'s")]
    NotHolder(ActorId),
    /// More than [`MAX_DELEGATIONS`] delegations.
    #[error("the chain has {0} delegations, more than {MAX_DELEGATIONS}")]
    TooManyDelegations(u32),
    /// It was delegated to one broker twice: it went in a circle.
    #[error("the chain is a loop: it was delegated to {0} twice")]
    Loop(ActorId),
}

/// How a link fails to be a part of the one above it (S3: attenuation).
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum LinkFault {
    /// It names another parent.
    #[error("it names another parent")]
    Parent,
    /// Its issuer does not hold the parent.
    #[error("its issuer does not hold the parent")]
    Issuer,
    /// It is of another resource type.
    #[error("it is for `{child}`, its parent for `{parent}`")]
    Resource {
        /// The type of the link.
        child: Name,
        /// The type of its parent.
        parent: Name,
    },
    /// It names more units than its parent.
    #[error("it is for {child} units, its parent for {parent}")]
    Units {
        /// The units of the link.
        child: u32,
        /// The units of its parent.
        parent: u32,
    },
    /// Its term leaves its parent's.
    #[error("its term {child} leaves its parent's {parent}")]
    Term {
        /// The term of the link.
        child: Term,
        /// The term of its parent.
        parent: Term,
    },
    /// A constraint of its parent is gone.
    #[error("a constraint of its parent is gone")]
    Constraints,
    /// It is marked as a delegation, and its parent is none.
    #[error("a delegation follows from a delegation only")]
    Delegation,
    /// It carries more constraints than a link may.
    #[error("it carries too many constraints")]
    TooManyConstraints,
    /// It can be redeemed for longer than its parent.
    #[error("it can be redeemed for longer than its parent")]
    RedeemBy,
    /// It allows units that its parent excludes.
    #[error("it allows units that its parent excludes")]
    NotOn,
    /// Another [`Assurance`](link::Assurance) than its parent.
    #[error("it promises more or less than its parent")]
    Assurance,
    /// Another [`StackedUnit`](link::StackedUnit) than its parent.
    #[error("it is for another unit than its parent, or without its tokens")]
    Stacked,
}

impl Ticket {
    /// The ticket of one link: a site's own.
    pub fn root_of(link: SignedLink) -> Self {
        Self(vec![link])
    }

    /// This ticket with one more link: what a holder hands on. Nothing is checked here; anyone who receives
    /// the result does.
    pub fn with(&self, link: SignedLink) -> Self {
        let mut links = Vec::with_capacity(self.0.len() + 1);
        links.extend_from_slice(&self.0);
        links.push(link);
        Self(links)
    }

    /// This ticket with an equal link for its root.
    pub(crate) fn with_root(mut self, root: SignedLink) -> Self {
        debug_assert_eq!(self.0[0], root);
        self.0[0] = root;
        self
    }

    /// All links, root first.
    pub fn links(&self) -> &[SignedLink] {
        &self.0
    }

    /// The site's own link.
    pub fn root(&self) -> &SignedLink {
        &self.0[0]
    }

    /// The link that says what this ticket is good for.
    pub fn bottom(&self) -> &SignedLink {
        &self.0[self.0.len() - 1]
    }

    /// The name of the ticket: the hash of its bottom link.
    pub fn hash(&self) -> LinkHash {
        self.bottom().hash()
    }

    /// The account that its last link was cut from; none if that is a site's own.
    pub fn account_above(&self) -> Option<AccountId> {
        let [.., above, _] = &self.0[..] else { return None };
        Some(above.account())
    }

    /// How many bytes its links take as they travel.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|link| link.as_bytes().len()).sum()
    }

    /// The site at which it can be redeemed.
    pub fn site(&self) -> ActorId {
        self.root().issuer
    }

    /// Checks everything about the chain but its signatures: it starts at `site`, each link lies inside
    /// its parent, and it ends with `holder`.
    pub fn check_shape(&self, site: ActorId, holder: ActorId) -> Result<(), TicketFault> {
        if self.site() != site {
            return Err(TicketFault::WrongSite(self.site()));
        }
        let mut parent: Option<&SignedLink> = None;
        for (depth, link) in (0..).zip(&self.0) {
            link.follows(parent).map_err(|cause| TicketFault::BadLink { depth, cause })?;
            parent = Some(link);
        }
        let delegations = self.0.iter().filter(|link| link.delegation.is_some()).count();
        if delegations > MAX_DELEGATIONS {
            let delegations = u32::try_from(delegations).unwrap_or(u32::MAX);
            return Err(TicketFault::TooManyDelegations(delegations));
        }
        let brokers = || self.0.iter().filter(|link| link.delegation.is_some()).map(|l| l.holder);
        let twice =
            brokers().zip(1..).find(|&(broker, next)| brokers().skip(next).any(|b| b == broker));
        if let Some((broker, _)) = twice {
            return Err(TicketFault::Loop(broker));
        }
        if self.bottom().holder != holder && !mutant!(HolderNotChecked) {
            return Err(TicketFault::NotHolder(self.bottom().holder));
        }
        Ok(())
    }
}

impl TryFrom<Vec<SignedLink>> for Ticket {
    type Error = TicketFault;

    fn try_from(links: Vec<SignedLink>) -> Result<Self, TicketFault> {
        match links.len() {
            0 => Err(TicketFault::Empty),
            1..=MAX_DEPTH => Ok(Self(links)),
            n => Err(TicketFault::ChainTooLong(u32::try_from(n).unwrap_or(u32::MAX))),
        }
    }
}

impl fmt::Display for Ticket {
    /// `4 node [0s, 1h) from site-hash via 2 links`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let link = self.bottom();
        write!(f, "{} {} {} at {}", link.units, link.resource, link.term, self.site())
    }
}
