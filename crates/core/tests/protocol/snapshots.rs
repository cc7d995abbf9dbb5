//! Snapshots: the state at any fact can be stored, and continues from there as if every fact had been folded.

use tenure_core::actor::Actor as _;
use tenure_core::actor::Role;
use tenure_core::runtime::Entry;

use tenure_core::actor::snapshot::{self, RestoreError};
use tenure_core::model::codec::DecodeError;
use tenure_core::model::time::Span;
use tenure_core::runtime::AnyActor;

use crate::common::world::{Scene, World};
use crate::common::{BROKER, GUEST, RIVAL, SITE};
use crate::recovery::lived;

const EVERYBODY: [u8; 4] = [SITE, BROKER, GUEST, RIVAL];

fn fold(actor: &mut AnyActor, facts: &[Entry]) {
    facts.iter().for_each(|entry| actor.replay(entry).unwrap());
}

#[test]
fn at_every_fact_a_snapshot_gives_the_same_actor_which_goes_on_alike() {
    let world = lived(false);
    for who in EVERYBODY {
        let facts = world.facts(who);
        let mut whole = world.fresh(who);
        fold(&mut whole, &facts);
        let mut actor = world.fresh(who);
        for position in 0..=facts.len() {
            let bytes = actor.snapshot();
            let mut restored = world.fresh(who);
            restored.restore(&bytes).unwrap();
            assert!(restored == actor, "{who} at {position}");
            assert_eq!(format!("{:?}", restored), format!("{:?}", actor));
            assert_eq!(restored.snapshot(), bytes, "{who} at {position}");
            fold(&mut restored, &facts[position..]);
            assert!(restored == whole, "{who} from {position} on");
            if let Some(entry) = facts.get(position) {
                fold(&mut actor, std::slice::from_ref(entry));
            }
        }
    }
}

#[test]
fn other_states_have_other_hashes() {
    let world = lived(false);
    for who in EVERYBODY {
        let mut actor = world.fresh(who);
        let mut last = snapshot::hash(&actor.snapshot());
        for entry in world.facts(who) {
            fold(&mut actor, &[entry]);
            let next = snapshot::hash(&actor.snapshot());
            assert_ne!(next, last);
            last = next;
        }
    }
}

#[test]
fn cut_lengthened_or_changed_bytes_are_an_error_or_another_state_and_change_nothing_on_an_error() {
    let world = lived(false);
    for who in EVERYBODY {
        let mut actor = world.fresh(who);
        let facts = world.facts(who);
        fold(&mut actor, &facts[..facts.len() * 2 / 3]);
        let bytes = actor.snapshot();
        let fresh = world.fresh(who);
        let refused = |bytes: &[u8]| {
            let mut other = world.fresh(who);
            let error = other.restore(bytes).err();
            assert!(error.is_none() || other == fresh);
            (error, other)
        };
        for length in (0..bytes.len()).step_by(7) {
            assert!(refused(&bytes[..length]).0.is_some(), "{who}: {length} bytes were taken");
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        let (error, _) = refused(&longer);
        assert_eq!(error, Some(RestoreError::Decode(DecodeError::LeftOver(1))));
        for at in (0..bytes.len()).step_by(5) {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 7);
            if let (None, other) = refused(&changed) {
                assert_eq!(other.snapshot(), changed, "{who}: two spellings of a state");
            }
        }
    }
}

#[test]
fn a_snapshot_of_another_role_version_or_of_other_settings_is_refused() {
    let world = lived(false);
    let bytes = world.actor(SITE).snapshot();
    let role = RestoreError::Role { found: Role::SiteAuthority, expected: Role::Broker };
    assert_eq!(world.fresh(BROKER).restore(&bytes), Err(role));
    let mut newer = bytes;
    newer[0] += 1;
    let version = RestoreError::Version(snapshot::VERSION + 1);
    assert_eq!(world.fresh(SITE).restore(&newer), Err(version));
    let delegation = (Span::HOUR.times(3), Span::HOUR);
    let other: World = Scene { delegation, leave_before: Span::SECOND, ..Scene::default() }.open();
    for who in [SITE, GUEST] {
        let bytes = world.actor(who).snapshot();
        let (_, settings) = snapshot::about(&bytes).unwrap();
        assert_eq!(settings, world.actor(who).settings());
        assert_eq!(other.fresh(who).restore(&bytes), Err(RestoreError::Settings));
    }
}
