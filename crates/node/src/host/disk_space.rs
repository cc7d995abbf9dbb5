//! Operation on a full disk: work in progress is completed, and nothing new begins.
//!
//! Beside each journal some room is kept back. When the disk is full it is given back, and the journal goes
//! on in it: leases are closed, expire and are cleaned up, which takes facts as well. Requests, tickets to be
//! redeemed and measurements wait until the disk has room for a reserve again.

use std::sync::Arc;

use actix::{AsyncContext as _, Context};
use tenure_core::broker::Command as BrokerCommand;
use tenure_core::runtime::{Command, Input};
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::service_manager::plan::PlanCommand;
use tenure_core::site_authority::Command as SiteCommand;
use tracing::{debug, info, warn};

use super::{Host, LONGEST_SLEEP};
use crate::journal::{JournalError, Reserve};

/// Whether a host has room to begin something new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiskSpace {
    /// As far as is known.
    Enough,
    /// It runs on its reserve.
    Short,
}

/// Whether a message of this kind begins something new at its receiver. Told by what is written on the
/// outside: anyone who lies about that only has a message taken in that is refused or answered anyway.
pub(super) fn message_begins(kind: &str) -> bool {
    matches!(kind, "request" | "redeem" | "delegate")
}

/// Whether what a user or a measurement asks for begins something new.
pub(super) fn input_begins(input: &Input) -> bool {
    match input {
        Input::Command(command) | Input::Ordered(command, _) => match command {
            Command::ServiceManager(command) => match command {
                GuestCommand::Ask(_)
                | GuestCommand::AskSeveral { .. }
                | GuestCommand::Extend { .. }
                | GuestCommand::Accept { .. }
                | GuestCommand::Grow { .. }
                | GuestCommand::Redeem { .. }
                | GuestCommand::Split { .. }
                | GuestCommand::Take { .. }
                | GuestCommand::Flex { .. }
                | GuestCommand::Modify { .. }
                | GuestCommand::Shorten { .. }
                | GuestCommand::Plan(PlanCommand::Propose(_) | PlanCommand::Accept { .. })
                | GuestCommand::Service(_)
                | GuestCommand::Revise { .. } => true,
                GuestCommand::Inquire { .. }
                | GuestCommand::Withdraw { .. }
                | GuestCommand::Close { .. }
                | GuestCommand::Victims { .. }
                | GuestCommand::ResetUnit { .. }
                | GuestCommand::Hasten { .. }
                | GuestCommand::ForceLeave { .. }
                | GuestCommand::Recall { .. }
                | GuestCommand::Plan(PlanCommand::Release { .. } | PlanCommand::Report { .. })
                | GuestCommand::Keys(_)
                | GuestCommand::Peers(_) => false,
            },
            Command::Broker(command) => match command {
                BrokerCommand::SetQuota { .. }
                | BrokerCommand::Return { .. }
                | BrokerCommand::Recall { .. }
                | BrokerCommand::Sell(_)
                | BrokerCommand::SetNeighbour { .. }
                | BrokerCommand::Keys(_)
                | BrokerCommand::Peers(_) => false,
                BrokerCommand::Delegate { .. } | BrokerCommand::Share { .. } => true,
            },
            Command::SiteAuthority(command) => match command {
                SiteCommand::Reset { .. }
                | SiteCommand::Drain { .. }
                | SiteCommand::Resume { .. }
                | SiteCommand::Quarantine { .. }
                | SiteCommand::Fail { .. }
                | SiteCommand::Remove { .. }
                | SiteCommand::Add { .. }
                | SiteCommand::Stock { .. }
                | SiteCommand::Withdraw { .. }
                | SiteCommand::Recall { .. }
                | SiteCommand::Keys(_)
                | SiteCommand::Peers(_) => false,
                SiteCommand::Delegate { .. } => true,
            },
        },
        Input::Observe { .. } => true,
        Input::Start | Input::Message(_) | Input::Tick | Input::Driver(_) | Input::Decision(_) => {
            false
        }
    }
}

impl Host {
    /// The journal has been opened, and room was to be kept back for it.
    pub(super) fn room_kept(&mut self, kept: Result<(), JournalError>, ctx: &mut Context<Self>) {
        match kept {
            Ok(()) => {}
            Err(JournalError::DiskFull { .. }) => self.become_short(ctx),
            // A disk that does not do even this will say more when it is written to.
            Err(error) => {
                warn!(actor = %self.part.info.name, %error, "no room is kept back for a full disk");
            }
        }
    }

    /// The journal goes on in the room that was kept back.
    pub(super) fn become_short(&mut self, ctx: &mut Context<Self>) {
        warn!(actor = %self.part.info.name, "the disk is full: no new work is accepted until space is free");
        self.disk_space = DiskSpace::Short;
        self.metrics.full.set(1);
        ctx.run_later(LONGEST_SLEEP, Self::check_disk_space);
    }

    /// Looks now and then whether the disk has room again.
    fn check_disk_space(&mut self, ctx: &mut Context<Self>) {
        let (reserve, disk) = (Reserve::of(&self.part.journal), Arc::clone(&self.disk));
        self.apart(
            ctx,
            move || reserve.regain(&*disk),
            |host, regained, ctx| {
                let actor = &host.part.info.name;
                if let Ok(Ok(())) = regained {
                    info!(%actor, "the disk has room again");
                    host.disk_space = DiskSpace::Enough;
                    host.metrics.full.set(0);
                    return host.stir(ctx);
                }
                debug!(%actor, ?regained, "still no room");
                ctx.run_later(LONGEST_SLEEP, Self::check_disk_space);
            },
        );
    }
}
