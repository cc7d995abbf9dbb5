//! Peers by invitation.

use std::fmt::Write as _;

use tenure_core::actor::common::CommonFact;
use tenure_core::actor::invitations::{PeerCommand, PeerRelation};
use tenure_core::actor::{Actor as _, Role};
use tenure_core::broker::Command as BrokerCommand;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::runtime::Input;
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::site_authority::Command as SiteCommand;
use tenure_core::wire::invitation::{Invitation, JoinFault, Permissions, permissions_of};

use super::names::{self, Names};
use super::script::{Args, Bad};
use super::world::World;

fn may(may: &Permissions) -> String {
    let mut words = String::new();
    may.iter().for_each(|permission| write!(words, ", may {}", permission.word()).unwrap());
    words
}

/// `#1 of exchange for a service manager`
pub fn invitation(names: &Names, invitation: &Invitation) -> String {
    let Invitation { inviter, number, joiner, .. } = invitation;
    format!("#{number} of {} for a {joiner}", names.actor(*inviter))
}

/// `#1, accepted`
pub fn answer(number: u64, fault: Option<&JoinFault>) -> String {
    format!("#{number}, {}", outcome(fault))
}

fn outcome(fault: Option<&JoinFault>) -> String {
    fault.map_or_else(|| "accepted".to_owned(), |fault| format!("refused: {fault}"))
}

/// What a fact says about peers.
pub fn fact(names: &Names, fact: &CommonFact) -> String {
    match fact {
        CommonFact::InvitationMade(fact) => {
            let until = names::clock(fact.invitation.until);
            let what = invitation(names, &fact.invitation);
            format!("{what} until {until}{}", may(&fact.invitation.may))
        }
        CommonFact::InvitationTaken(fact) => {
            let what = invitation(names, &fact.invitation.invitation);
            format!("{what}{}", may(&fact.may))
        }
        CommonFact::InvitationAnswered(fact) => {
            format!("{}, {}", names.actor(fact.peer), outcome(fact.fault.as_ref()))
        }
        CommonFact::PeerJoined(fact) => {
            let (peer, role) = (names.actor(fact.peer), fact.role);
            format!("{peer}, a {role}, by invitation #{}{}", fact.invitation, may(&fact.may))
        }
        CommonFact::PeerChanged(fact) => format!("{}{}", names.actor(fact.peer), may(&fact.may)),
        CommonFact::PeerRemoved(fact) => names.actor(fact.peer),
        _ => String::new(),
    }
}

/// Hands an actor a command about its peers.
fn hand(world: &mut World, who: usize, command: PeerCommand) {
    let input = match world.participants[who].role {
        Role::ServiceManager => Input::Command(GuestCommand::Peers(command).into()),
        Role::Broker => Input::Command(BrokerCommand::Peers(command).into()),
        Role::SiteAuthority => Input::Command(SiteCommand::Peers(command).into()),
    };
    world.hand(who, input);
}

/// An actor invites another one.
pub fn invite(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = world.index(&args.next("the inviter")?)?;
    let joiner = match args.next("the role")?.as_str() {
        "site" => Role::SiteAuthority,
        "broker" => Role::Broker,
        "guest" => Role::ServiceManager,
        other => return Err(format!("`{other}` is no role; known: site, broker, guest")),
    };
    let holds = args.span_option("holds")?.unwrap_or(Span::HOUR);
    let called = called(args)?;
    let address = "192.0.2.1:7400".to_owned();
    let relation = relation(args)?;
    hand(world, who, PeerCommand::Invite { joiner, called, may: None, holds, address, relation });
    Ok(())
}

/// An actor takes the invitation of another one.
pub fn join(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = world.index(&args.next("who joins")?)?;
    let inviter = world.index(&args.next("the inviter")?)?;
    let number: u64 = args.number("the number of the invitation")?;
    let called = called(args)?;
    let inviter = &world.participants[inviter];
    let made = inviter.facts().into_iter().find_map(|entry| match entry.fact.common() {
        Some(CommonFact::InvitationMade(fact)) if fact.invitation.number == number => {
            Some(fact.invitation.clone())
        }
        _ => None,
    });
    let made = made.ok_or_else(|| format!("{} has made no invitation {number}", inviter.name))?;
    let invitation = Box::new(inviter.actor().sign_invitation(made));
    let relation = relation(args)?;
    let join = PeerCommand::Join { invitation, called, may: None, reached_at: None, relation };
    hand(world, who, join);
    Ok(())
}

/// A peer may begin all that its role is for, or nothing.
pub fn allow(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, peer) = two(world, args)?;
    let role = world.participants[who].role;
    let joined = world.participants[who].actor().joined().get(&peer);
    let joined = joined.ok_or("it is no peer by invitation")?;
    let may = match args.next("`all` or `nothing`")?.as_str() {
        "all" => permissions_of(joined.role, role),
        "nothing" => Permissions::new(),
        other => return Err(format!("`{other}` is neither `all` nor `nothing`")),
    };
    let address = joined.address.clone();
    hand(world, who, PeerCommand::Change { peer, address, may });
    Ok(())
}

/// A peer is none any more.
pub fn forget(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, peer) = two(world, args)?;
    hand(world, who, PeerCommand::Remove { peer });
    Ok(())
}

fn two(world: &World, args: &mut Args) -> Result<(usize, ActorId), Bad> {
    let who = world.index(&args.next("the actor")?)?;
    let peer = world.index(&args.next("its peer")?)?;
    Ok((who, world.participants[peer].id))
}

/// What a broker does for the other one, as `as=share` or `as=forward`, and for how many units at most.
fn relation(args: &mut Args) -> Result<Option<PeerRelation>, Bad> {
    let units = args.option("limit").map(|limit| limit.parse().map_err(|_| "`limit` is a number"));
    let units = units.transpose()?;
    match args.option("as").as_deref() {
        None => Ok(None),
        Some("share") => Ok(Some(PeerRelation::Share { units })),
        Some("forward") => Ok(Some(PeerRelation::Forward { units })),
        Some(other) => Err(format!("`{other}` is neither `share` nor `forward`")),
    }
}

fn called(args: &mut Args) -> Result<Option<Name>, Bad> {
    let name = args.option("called").map(|name| Name::new(&name));
    name.transpose().map_err(|bad| bad.to_string())
}
