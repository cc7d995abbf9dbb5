//! Keys: rotated, revoked, stolen.

use tenure_core::actor::Actor as _;
use tenure_core::actor::Role;
use tenure_core::actor::keys::KeyCommand;
use tenure_core::broker::Command as BrokerCommand;
use tenure_core::model::identity::{PublicKey, Scheme, Signer};
use tenure_core::model::keys::{KeyChange, KeyStatement, SignedStatement};
use tenure_core::model::name::Name;
use tenure_core::runtime::Input;
use tenure_core::runtime::fact::KeysFact;
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::site_authority::Command as SiteCommand;

use super::language::perform;
use super::names::{self, Names};
use super::script::{Args, Bad};
use super::world::World;

/// The most keys that an actor of a script has.
const MOST: u8 = 8;

/// The secret of an actor's key of this number, from 1.
pub fn secret(name: &Name, number: u8) -> Signer {
    let mut secret = [0; 32];
    for (place, byte) in secret.iter_mut().zip(name.as_str().bytes()) {
        *place = byte;
    }
    secret[31] = number - 1;
    Signer::from_seed(Scheme::Ed25519, secret)
}

/// The secrets of the keys after the first.
pub fn later_secrets(name: &Name) -> impl Iterator<Item = Signer> {
    (2..=MOST).map(|number| secret(name, number))
}

/// An actor signs with its next key.
pub fn rotate(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = world.index(&args.next("the actor")?)?;
    let participant = &world.participants[who];
    let known = participant.actor().keys().chain(participant.id).map_or(1, |c| c.keys().count());
    let next = u8::try_from(known + 1).ok().filter(|next| *next <= MOST);
    let secret = secret(&participant.name, next.ok_or("it has no more keys")?);
    hand(world, who, KeyCommand::Rotate(secret));
    Ok(())
}

/// An actor revokes an earlier key.
pub fn revoke(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = world.index(&args.next("the actor")?)?;
    let number = args.number("the number of the key")?;
    let key = secret(&world.participants[who].name, number).key();
    hand(world, who, KeyCommand::Revoke(key));
    Ok(())
}

fn hand(world: &mut World, who: usize, command: KeyCommand) {
    let input = match world.participants[who].role {
        Role::ServiceManager => Input::Command(GuestCommand::Keys(command).into()),
        Role::Broker => Input::Command(BrokerCommand::Keys(command).into()),
        Role::SiteAuthority => Input::Command(SiteCommand::Keys(command).into()),
    };
    world.hand(who, input);
}

/// A thief does as the actor whose key it has stolen.
pub fn stolen(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = world.index(&args.next("the actor")?)?;
    let number = args.number("the number of the key")?;
    world.stolen = Some((who, secret(&world.participants[who].name, number)));
    let done = perform(world, args);
    world.stolen = None;
    done
}

/// What a fact says about keys.
pub fn fact(names: &Names, fact: KeysFact<'_>) -> String {
    match fact {
        KeysFact::Stated(signed) => statement(names, signed),
        KeysFact::Learned(peer, chain) => {
            let last = chain.statements().last().map(|signed| statement(names, signed));
            format!("{}, {}", names.actor(peer), last.unwrap_or_default())
        }
        KeysFact::Noted(peer, number) => format!("{}, {number}", names.actor(peer)),
    }
}

/// `#1, key 2 from 09:00 on`
fn statement(names: &Names, signed: &SignedStatement) -> String {
    let KeyStatement { actor, number, at, change } = &signed.statement;
    let name = Name::new(&names.actor(*actor)).expect("an actor of the script");
    let place = |key: &PublicKey| (1..=MOST).find(|&n| secret(&name, n).key() == *key).unwrap_or(0);
    let at = names::clock(*at);
    match change {
        KeyChange::Rotated { key } => format!("#{number}, key {} from {at} on", place(key)),
        KeyChange::Revoked { key, honoured } => {
            let (key, left) = (place(key), honoured.len());
            format!("#{number}, key {key} is void from {at} on, {left} signatures are honoured")
        }
    }
}
