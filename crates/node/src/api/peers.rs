//! The actors of other processes: how they are reached, and how they become peers by invitation.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tenure_core::actor::common::CommonFact;
use tenure_core::actor::invitations::{PeerCommand, PeerRelation};
use tenure_core::actor::joined::{Joined, Standing};
use tenure_core::actor::{Actor as _, Role};
use tenure_core::broker::Command as BrokerCommand;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::runtime::Command;
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::site_authority::Command as SiteCommand;
use tenure_core::wire::invitation::{Invitation, Permissions, SignedInvitation};

use super::asker::Asker;
use super::server::{ApiResult, AppState};
use super::view::time;
use super::{ApiError, Code};
use crate::host::Handle;
use crate::net::{Connection, Known};

/// How long an invitation holds unless something else is asked for.
const HOLDS: Span = Span::HOUR;

/// An actor of another process, as an actor of this one knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerView {
    /// What it is called here; its id, if neither this actor nor its card names it.
    pub peer: String,
    /// The actor of this process.
    pub of: String,
    /// Its role, if it is known by more than a ticket.
    #[serde(default)]
    pub role: Option<Role>,
    /// Its id.
    pub id: String,
    /// `configuration`, `invitation`, `ticket`: of a site or a broker that is found by its card, or of the holder
    /// of a ticket; or `endorsement`.
    pub known_by: String,
    /// `peer`; `joining`, while who has invited has yet to confirm it; `refused`, if that did not; `stranger`, of
    /// who is known by a ticket, or has shown an invitation.
    pub state: String,
    /// What it may begin here: `request`, `delegate`. Of a peer by invitation.
    #[serde(default)]
    pub may: Permissions,
    /// Where it is dialled; null if it dials.
    #[serde(default)]
    pub address: Option<String>,
    /// Whether there is a connection.
    pub connected: bool,
    /// Since when there is one or none; null if there never was one.
    #[serde(default)]
    pub since: Option<String>,
    /// How many connections there were.
    pub connections: u64,
    /// Why there is none, if that is known; why it was refused.
    #[serde(default)]
    pub error: Option<String>,
}

/// An actor of another process that cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreachableView {
    /// Since when there is no connection; null if there never was one.
    pub since: Option<String>,
    /// Why there is none.
    pub error: String,
}

/// The actors elsewhere that cannot be reached.
pub(super) type UnreachableActors = BTreeMap<ActorId, UnreachableView>;

/// An invitation to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct InviteRequest {
    /// The inviting actor; may be left out if there is only one.
    #[serde(default)]
    pub of: Option<Name>,
    /// The role of the actor that may join.
    pub role: Role,
    /// What the new peer is called here; what it calls itself, unless set.
    #[serde(default)]
    pub name: Option<Name>,
    /// What who comes may begin here; all that its role may, unless set.
    #[serde(default)]
    pub may: Option<Permissions>,
    /// How long the invitation holds; an hour unless set.
    #[serde(default)]
    pub expires: Option<Span>,
    /// What the inviting broker does for the broker that comes.
    #[serde(default)]
    pub relation: Option<RelationRequest>,
}

/// What a broker does for another one once they are peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RelationRequest {
    /// Which of both.
    #[serde(rename = "as")]
    pub kind: RelationKind,
    /// It shares at most so many units of each type; of what the other passes on it meets requests for at most so
    /// many units at a time.
    #[serde(default)]
    pub limit: Option<u32>,
}

/// The two things that a broker can do for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RelationKind {
    /// It shares its units with it.
    Share,
    /// It passes requests on to it, and takes those that it passes on.
    Forward,
}

impl From<RelationRequest> for PeerRelation {
    fn from(RelationRequest { kind, limit: units }: RelationRequest) -> Self {
        match kind {
            RelationKind::Share => Self::Share { units },
            RelationKind::Forward => Self::Forward { units },
        }
    }
}

/// An invitation to be taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct JoinRequest {
    /// The line.
    pub invitation: String,
    /// Who takes it; may be left out if there is only one actor of the role that is invited.
    #[serde(default)]
    pub of: Option<Name>,
    /// What who has invited is called here; what it calls itself, unless set.
    #[serde(default)]
    pub name: Option<Name>,
    /// What who has invited may begin here; all that its role may, unless set.
    #[serde(default)]
    pub may: Option<Permissions>,
    /// What the joining broker does for the broker that has invited it.
    #[serde(default)]
    pub relation: Option<RelationRequest>,
}

/// What is to change about a peer by invitation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PeerChange {
    /// The peer.
    pub peer: Name,
    /// Of this actor only.
    #[serde(default)]
    pub of: Option<Name>,
    /// Where it is dialled from now on.
    #[serde(default)]
    pub address: Option<String>,
    /// Whether it dials from now on.
    #[serde(default)]
    pub dials: bool,
    /// What it may begin here.
    #[serde(default)]
    pub may: Option<Permissions>,
}

/// An invitation that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvitationView {
    /// The inviting actor.
    pub of: String,
    /// Its number.
    pub number: u64,
    /// The role of the actor that may join.
    pub role: Role,
    /// What the new peer is called here; null if as it calls itself.
    #[serde(default)]
    pub name: Option<String>,
    /// What who comes may begin here.
    pub may: Permissions,
    /// Where who invites is dialled.
    pub address: String,
    /// Until when it holds.
    pub expires: String,
    /// The line to be pasted at the other side.
    pub invitation: String,
}

/// The peers by invitation of each actor.
type PeersByActor = BTreeMap<ActorId, BTreeMap<ActorId, Joined>>;

impl AppState {
    /// How actors elsewhere are reached: all of them, or those of a name.
    pub(super) async fn peers(&self, peer: Option<&Name>) -> ApiResult<Vec<PeerView>> {
        let mut books = self.books().await?;
        let connections = self.network().into_iter().flat_map(|network| network.connections());
        let connected = connections.map(|one| {
            let joined = books.get_mut(&one.here).and_then(|book| book.remove(&one.there));
            self.peer(one, joined)
        });
        let mut peers: Vec<PeerView> = connected.collect();
        for (here, book) in books {
            peers.extend(
                book.into_iter().map(|(there, joined)| self.unconnected((here, there), joined)),
            );
        }
        peers.sort_by(|a, b| (&a.of, &a.peer).cmp(&(&b.of, &b.peer)));
        let Some(name) = peer.map(Name::as_str) else { return Ok(peers) };
        let (named, others): (Vec<_>, Vec<_>) = peers.into_iter().partition(|p| p.peer == name);
        if named.is_empty() {
            let help = tenure_config::suggestion(name, others.iter().map(|p| p.peer.as_str()));
            return Err(ApiError::new(Code::NoSuch, format!("no peer `{name}`")).help(help));
        }
        Ok(named)
    }

    /// The actors with which an actor here has no connection, although it is to have one.
    pub(super) fn unreachable(&self, here: ActorId) -> UnreachableActors {
        let connections = self.network().into_iter().flat_map(|network| network.connections());
        let lost = connections.filter(|one| one.here == here && !one.standing.connected);
        lost.filter_map(|Connection { there, standing, .. }| {
            let since = standing.since.map(time);
            Some((there, UnreachableView { since, error: standing.error? }))
        })
        .collect()
    }

    async fn books(&self) -> ApiResult<PeersByActor> {
        let mut books = PeersByActor::new();
        for handle in self.all_actors() {
            // One that is down has connections all the same.
            let book = handle.query(|actor| actor.joined().clone()).await.unwrap_or_default();
            books.insert(handle.info().id, book);
        }
        Ok(books)
    }

    fn peer(&self, connection: Connection, joined: Option<Joined>) -> PeerView {
        let Connection { here, there, known, name, role, address, standing } = connection;
        let (known_by, state) = match known {
            Known::Configured => ("configuration", "peer"),
            Known::Joined => ("invitation", "peer"),
            Known::Inviting => ("invitation", "joining"),
            Known::Invited => ("invitation", "stranger"),
            Known::Ticket => ("ticket", "stranger"),
            Known::Endorsement => ("endorsement", "stranger"),
        };
        let joined = joined.filter(|_| known != Known::Configured);
        PeerView {
            peer: name.map_or_else(|| self.name(there), |name| name.to_string()),
            of: self.name(here),
            role,
            id: there.to_hex(),
            known_by: known_by.to_owned(),
            state: joined.as_ref().map_or(state, state_of).to_owned(),
            may: joined.map(|joined| joined.may).unwrap_or_default(),
            address,
            connected: standing.connected,
            since: standing.since.map(time),
            connections: standing.connections,
            error: standing.error,
        }
    }

    /// One with which there is to be no connection, or none yet.
    fn unconnected(&self, (here, there): (ActorId, ActorId), joined: Joined) -> PeerView {
        let error = match &joined.standing {
            Standing::Refused(fault) => Some(format!("the invitation was refused: {fault}")),
            Standing::Asked { .. } | Standing::Confirmed | Standing::Came { .. } => None,
        };
        PeerView {
            peer: joined.name.to_string(),
            of: self.name(here),
            role: Some(joined.role),
            id: there.to_hex(),
            known_by: "invitation".to_owned(),
            state: state_of(&joined).to_owned(),
            may: joined.may,
            address: joined.address,
            connected: false,
            since: None,
            connections: 0,
            error,
        }
    }

    /// Where the actors of this process are dialled.
    fn dialled_at(&self) -> Option<String> {
        self.network().and_then(|network| network.public_address()).map(str::to_owned)
    }

    /// An actor invites another one.
    pub(super) async fn invite(
        &self,
        request: InviteRequest,
        by: &Asker,
    ) -> ApiResult<InvitationView> {
        let InviteRequest { of, role, name, may, expires, relation } = request;
        let handle = self.one_of(of.as_ref(), None)?;
        let address = self.dialled_at().ok_or_else(|| {
            let message = "nobody can come: the deployment takes no connections";
            ApiError::new(Code::Usage, message)
                .help("set `listen`, and `public` if others dial another address")
        })?;
        if let Some(name) = &name {
            self.is_free(name, None)?;
        }
        let holds = expires.unwrap_or(HOLDS);
        let (joiner, called, relation) = (role, name, relation.map(PeerRelation::from));
        let command = PeerCommand::Invite { joiner, called, may, holds, address, relation };
        let done = self.order(handle, (by, ""), of_role(handle, command)).await?;
        let made = done.facts.iter().find_map(|entry| match entry.fact.common() {
            Some(CommonFact::InvitationMade(fact)) => Some(fact.clone()),
            Some(_) | None => None,
        });
        let lost = || ApiError::new(Code::Failed, "the invitation is not in the journal");
        let made = made.ok_or_else(lost)?;
        let invitation = made.invitation.clone();
        let signed = self.look(handle, move |actor| actor.sign_invitation(invitation)).await?;
        let Invitation { number, joiner, may, address, until, .. } = made.invitation;
        Ok(InvitationView {
            of: handle.info().name.to_string(),
            number,
            role: joiner,
            name: made.called.map(|name| name.to_string()),
            may,
            address,
            expires: time(until),
            invitation: signed.to_string(),
        })
    }

    /// An actor takes the invitation of another one.
    pub(super) async fn join(&self, request: JoinRequest, by: &Asker) -> ApiResult<Vec<PeerView>> {
        let JoinRequest { invitation, of, name, may, relation } = request;
        let invitation: SignedInvitation = invitation.parse().map_err(|error| {
            let message = format!("{error}");
            ApiError::new(Code::Usage, message).help("`tenure peer invite` prints the line")
        })?;
        let Invitation { inviter, name: its_name, joiner, .. } = invitation.invitation.clone();
        let handle = self.one_of(of.as_ref(), Some(joiner))?;
        if !self.is_repeated(handle, by).await? {
            self.is_free(name.as_ref().unwrap_or(&its_name), Some(inviter))?;
        }
        let reached_at = self.dialled_at();
        let invitation = Box::new(invitation);
        let relation = relation.map(PeerRelation::from);
        let command = PeerCommand::Join { invitation, called: name, may, reached_at, relation };
        self.order(handle, (by, ""), of_role(handle, command)).await?;
        self.peers_between(handle.info().id, inviter).await
    }

    /// A peer by invitation is reached elsewhere, or may do something else.
    pub(super) async fn change_peer(
        &self,
        change: PeerChange,
        by: &Asker,
    ) -> ApiResult<Vec<PeerView>> {
        let PeerChange { peer: name, of, address, dials, may } = change;
        let (handle, peer, joined) = self.joined(&name, of.as_ref()).await?;
        let address = if dials { None } else { address.or(joined.address) };
        let may = may.unwrap_or(joined.may);
        let command = PeerCommand::Change { peer, address, may };
        self.order(handle, (by, ""), of_role(handle, command)).await?;
        self.peers_between(handle.info().id, peer).await
    }

    /// A peer by invitation is none any more.
    pub(super) async fn remove_peer(
        &self,
        name: &Name,
        of: Option<&Name>,
        by: &Asker,
    ) -> ApiResult<Vec<PeerView>> {
        let (handle, peer, _) = self.joined(name, of).await?;
        let last = self.peers_between(handle.info().id, peer).await?;
        let command = of_role(handle, PeerCommand::Remove { peer });
        self.order(handle, (by, ""), command).await?;
        Ok(last)
    }

    async fn peers_between(&self, here: ActorId, there: ActorId) -> ApiResult<Vec<PeerView>> {
        let (of, id) = (self.name(here), there.to_hex());
        let peers = self.peers(None).await?;
        Ok(peers.into_iter().filter(|peer| peer.of == of && peer.id == id).collect())
    }

    /// A peer by invitation, and whose it is.
    async fn joined(
        &self,
        name: &Name,
        of: Option<&Name>,
    ) -> ApiResult<(&Handle, ActorId, Joined)> {
        let handles = match of {
            Some(of) => vec![self.any_actor(of)?],
            None => self.all_actors().collect(),
        };
        let mut found = Vec::new();
        for handle in handles {
            let wanted = name.clone();
            let here = self.look(handle, move |actor| {
                let joined = actor.joined().iter().find(|(_, joined)| joined.name == wanted);
                joined.map(|(&id, joined)| (id, joined.clone()))
            });
            found.extend(here.await?.map(|(id, joined)| (handle, id, joined)));
        }
        let mut found = found.into_iter();
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one),
            (Some(_), Some(_)) => {
                let message = format!("several actors here have a peer `{name}`");
                Err(ApiError::new(Code::Usage, message).help("say whose with `--of ACTOR`"))
            }
            (None, _) if self.config().peers.contains_key(name) => {
                let message = format!("`{name}` is a peer by configuration");
                let help = format!("change `[peer.{name}]` in the file and restart");
                Err(ApiError::new(Code::Usage, message).help(help))
            }
            (None, _) => {
                let message = format!("no peer `{name}` by invitation");
                Err(ApiError::new(Code::NoSuch, message).help("`tenure peer list` shows them"))
            }
        }
    }

    /// The actor that is named, or the only one; of that role, if one is needed.
    fn one_of(&self, of: Option<&Name>, role: Option<Role>) -> ApiResult<&Handle> {
        if let Some(of) = of {
            return self.any_actor(of);
        }
        let suits = |handle: &&Handle| role.is_none_or(|role| handle.info().role == role);
        let suitable: Vec<&Handle> = self.all_actors().filter(suits).collect();
        match (suitable.as_slice(), role) {
            ([one], _) => Ok(one),
            ([], Some(role)) => {
                let message = format!("the invitation is for a {role}, and none is here");
                Err(ApiError::new(Code::Usage, message)
                    .help(format!("have it made with `--role {}`", self.roles_here())))
            }
            (several, _) => {
                let names: Vec<&str> = several.iter().map(|h| h.info().name.as_str()).collect();
                let message = "several actors are here: say which one";
                let help = format!("write `--of` with one of: {}", names.join(", "));
                Err(ApiError::new(Code::Usage, message).help(help))
            }
        }
    }

    /// The words of the roles that there are here.
    fn roles_here(&self) -> String {
        let word = |handle: &Handle| handle.info().role.word().replace(' ', "-");
        let words: std::collections::BTreeSet<String> = self.all_actors().map(word).collect();
        words.into_iter().collect::<Vec<_>>().join("` or `--role ")
    }

    /// Whether no other actor has this name here.
    fn is_free(&self, name: &Name, id: Option<ActorId>) -> ApiResult<()> {
        let names = self.names();
        let Some((other, _)) = names.iter().find(|(of, n)| *n == name && Some(**of) != id) else {
            return Ok(());
        };
        let message = format!("`{name}` is the name of {} here", other.to_hex());
        Err(ApiError::new(Code::Usage, message).help("give this one another with `--name`"))
    }
}

fn state_of(joined: &Joined) -> &'static str {
    match joined.standing {
        Standing::Asked { .. } => "joining",
        Standing::Confirmed | Standing::Came { .. } => "peer",
        Standing::Refused(_) => "refused",
    }
}

fn of_role(handle: &Handle, command: PeerCommand) -> Command {
    match handle.info().role {
        Role::ServiceManager => GuestCommand::Peers(command).into(),
        Role::Broker => BrokerCommand::Peers(command).into(),
        Role::SiteAuthority => SiteCommand::Peers(command).into(),
    }
}
