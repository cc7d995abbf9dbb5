//! Evidence that convicts no actor although one is guilty.

use tenure_core::wire::message::Message;
use tenure_core::wire::refusal::Refusal;

use crate::common::world::Scene;
use crate::common::{
    BROKER, ED25519, GUEST, HOUR, RIVAL, SITE, STRANGER, cut, id, letter, redeem, term,
};

const DAY: i64 = 24 * HOUR;

/// The site has forgotten how full the delegation was before yesterday: it names an instant at which
/// nothing but the new ticket ran.
#[test]
fn a_ticket_that_starts_more_than_a_day_back_is_refused_with_evidence_that_convicts() {
    let mut world = Scene::default().open();
    let held = world.delegation();
    world.advance(3 * DAY);
    let first = cut(&held, BROKER, GUEST, 3, term(3 * DAY, 9 * DAY), 901);
    world.deliver(SITE, &letter(GUEST, SITE, redeem(&first)));
    world.run();
    world.advance(5 * DAY);
    let small = cut(&held, BROKER, STRANGER, 1, term(5 * DAY, 9 * DAY), 902);
    world.deliver(SITE, &letter(STRANGER, SITE, redeem(&small)));
    world.run();
    let oversold = cut(&held, BROKER, RIVAL, 3, term(DAY, 9 * DAY), 903);
    let out = world.deliver(SITE, &letter(RIVAL, SITE, redeem(&oversold)));
    let Message::Refused { refusal: Refusal::Conflict(evidence), .. } = &out.replies[0].message
    else {
        panic!("{:?}", out.replies)
    };
    assert_eq!(evidence.convicts(ED25519, &[]), Ok(id(BROKER)));
}
