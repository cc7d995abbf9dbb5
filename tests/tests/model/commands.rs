//! The commands that a step stands for.

use std::num::NonZeroU32;

use tenure_core::broker::Command as BrokerCommand;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::resource::Constraints;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::runtime::Input;
use tenure_core::service_manager::{Command, Part, Victims};
use tenure_core::wire::recall::Accepts;

use super::cases::Budget;
use super::participants::{self, MARGIN, RIVAL};
use super::summary::Summary;
use super::world::{Step, World};

/// What the user of a guest may ask for.
pub(super) fn of_user(guest: &Summary, left: Budget) -> Vec<Step> {
    let leases = guest.words.iter().map(|&((_, number, part), _)| LeaseId { number, part });
    let mut steps = Vec::new();
    let mut may = |how_often: u8, step: fn(LeaseId) -> Step| {
        if how_often > 0 {
            steps.extend(leases.clone().map(step));
        }
    };
    may(left.extends, Step::Extend);
    may(left.parts, Step::Flex);
    may(left.parts, Step::Shrink);
    may(left.parts, Step::Shorten);
    may(left.closes, Step::Close);
    may(left.accepts, Step::Accept);
    may(left.redeems, Step::Redeem);
    may(left.hastens, Step::Hasten);
    steps
}

impl World {
    /// The command of a guest's user or a broker's operator; `None` for a step that is none.
    pub(super) fn command(&self, now: Time, what: Step) -> Option<Input> {
        let longer = Span::from_secs(self.case.longer);
        let command = match what {
            Step::Extend(lease) => Command::extend(lease, longer),
            Step::Flex(lease) => {
                Command::Flex { lease, shrink: NonZeroU32::MIN, victims: Victims::Youngest }
            }
            Step::Shrink(lease) => Command::Extend {
                lease,
                duration: longer,
                units: Some(NonZeroU32::MIN),
                victims: Victims::Oldest,
            },
            Step::Shorten(lease) => {
                let until = now.plus(MARGIN.times(2)).plus(Span::from_secs(1));
                Command::Shorten { lease, until }
            }
            Step::Close(lease) => Command::Close { lease },
            Step::Accept(LeaseId { number, .. }) => Command::Accept { number, offer: 1 },
            Step::Redeem(lease) => Command::Redeem { lease },
            Step::Hasten(lease) => Command::Hasten { lease, by: now.plus(Span::from_secs(1)) },
            Step::Split(lease) => Command::Split { lease, parts: vec![self.whole()] },
            Step::Take(part) => Command::Take {
                ticket: self.handed_on(part)?,
                slice: Name::literal("slice"),
                configuration: Properties::default(),
                keep: false,
            },
            Step::Recall(ticket) => {
                let units = Some(self.case.stay);
                let command = BrokerCommand::Recall { ticket, units, from: None };
                return Some(Input::Command(command.into()));
            }
            Step::Withdraw(ticket) => {
                let command = BrokerCommand::Recall { ticket, units: None, from: None };
                return Some(Input::Command(command.into()));
            }
            Step::Receive(_)
            | Step::Done(..)
            | Step::Refuse(_)
            | Step::Tick
            | Step::Decide
            | Step::Fail(_)
            | Step::Reset
            | Step::Crash
            | Step::ReceiveAndCrash(_)
            | Step::DecideAndCrash => return None,
        };
        Some(Input::Command(command.into()))
    }

    /// All of what the first request was for, for the rival.
    fn whole(&self) -> Part {
        let request = &self.case.requests[0];
        let start = Time::from_secs(request.window.0);
        let term = Term::lasting(start, Span::from_secs(request.length));
        Part {
            holder: participants::id(RIVAL),
            units: participants::units(request.items[0].0),
            term: term.expect("a term"),
            constraints: Constraints::NONE,
            redeem_by: None,
            accepts: Accepts::default(),
        }
    }
}
