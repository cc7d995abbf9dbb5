//! Tickets that have to be redeemed by an instant.

use tenure_core::actor::effect::Problem;
use tenure_core::model::time::Span;
use tenure_core::runtime::Input;
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::service_manager::group::Handling;
use tenure_core::service_manager::mapper::Ask;
use tenure_core::wire::proviso::Provisos;

use crate::common::world::Scene;
use crate::common::{GUEST, HOUR, MARGIN, ask_for, at};

/// A clock that was set on: the command comes before the tick at which the ticket lapses.
#[test]
fn a_command_to_redeem_comes_too_late_one_margin_before() {
    for (early, state) in [(1, "Redeeming"), (0, "Ticketed")] {
        let mut world = Scene::default().open();
        let ask = Ask {
            handling: Handling { keep_tickets: true, ..Handling::default() },
            provisos: Provisos { redeem_by: Some(at(HOUR / 2)), ..Provisos::NONE },
            ..ask_for(2, 0, HOUR)
        };
        let lease = world.ask(GUEST, ask);
        assert_eq!(world.state(GUEST, lease), "Ticketed");
        let last = Span::from_secs(HOUR / 2 - early).plus(MARGIN.times(-1));
        world.set_ahead(GUEST, last);
        let out = world.hand(GUEST, Input::Command(GuestCommand::Redeem { lease }.into()));
        assert_eq!(world.state(GUEST, lease), state);
        assert_eq!(matches!(out.problems[..], [Problem::Command(_)]), state == "Ticketed");
    }
}
