//! `tenure journal fork`: a recorded deployment continues under other mappers.

mod home;
mod print;

use std::path::Path;

use tenure_core::model::time::Time;
use tenure_node::journal::JournalError;
use tenure_sim::fork::{self, Branch, ForkError, Moments, Past, Recording};

use super::verify::{self, Whole};
use super::{ForkArgs, paths};
use crate::Console;
use crate::error::Error;
use crate::moment;
use crate::render;
use home::Home;

/// Both branches, and what they have in common.
struct Forked {
    at: Time,
    moments: Moments,
    facts: usize,
    journals: usize,
    /// Whether the branch with the mappers as they were repeats the journals to the last fact.
    repeats: bool,
    /// How many requests of that branch ended as the journals have it, as far as the journals go.
    as_recorded: usize,
    /// How many the journals have.
    recorded: usize,
    /// What came from outside after the fork: signals, requests.
    inputs: (usize, usize),
    /// How long messages and drivers take, in some lines.
    times: Vec<String>,
    /// Which mappers are changed: whose, from what, to what.
    changed: Vec<(String, String, String)>,
    baseline: Branch,
    other: Branch,
}

/// Runs both branches and prints where they differ.
pub(super) fn fork(args: &ForkArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let paths = paths::journals(&args.paths)?;
    if let Some(missing) = paths.iter().find(|path| !path.exists()) {
        return Err(JournalError::Missing(missing.clone()).into());
    }
    let home = Home::of(&paths, args)?;
    let pasts = paths.iter().map(|path| read(path)).collect::<Result<Vec<Past>, Error>>()?;
    let (at, moments) = moment_of(args, &pasts)?;
    let failed = |error| home.failed(error);
    let setting = |changed| home.setting(changed, &pasts, moments);
    let recording = Recording::of(setting(false)?, &pasts, at).map_err(failed)?;
    let baseline = fork::go_on(setting(false)?, &recording, &pasts, at).map_err(failed)?;
    let other = fork::go_on(setting(true)?, &recording, &pasts, at).map_err(failed)?;
    if other.dropped > 0 {
        let dropped = other.dropped;
        let message = format!(
            "{dropped} requests of users are left out: they are about leases that the changed mappers \
             did not ask for"
        );
        render::warning(&message, console)?;
    }
    let recorded = fork::as_recorded(&pasts, &recording, at);
    let forked = Forked {
        at,
        moments,
        facts: pasts.iter().map(|past| past.facts.len()).sum(),
        journals: pasts.len(),
        repeats: baseline.report.journal_hash == fork::hash(&pasts),
        as_recorded: fork::repeated(&recorded, &baseline.requests),
        recorded: recorded.len(),
        inputs: recording.counts(),
        times: home.times(&pasts)?,
        changed: home.changed(),
        baseline,
        other,
    };
    Ok(print::print(&forked, args.output, console.out)?)
}

fn read(path: &Path) -> Result<Past, Error> {
    let Whole { owner, facts, .. } = verify::read(path)?;
    Ok(Past { name: owner.name, role: owner.role, id: owner.id, facts })
}

/// The moment of the fork: the one that is asked for, if the deployment was there, else the first at which
/// brokers had something to sell.
fn moment_of(args: &ForkArgs, pasts: &[Past]) -> Result<(Time, Moments), Error> {
    let wrong = |message: String, help: &str| Error::Fork { message, help: help.to_owned() };
    let moments = fork::moments(pasts).ok_or_else(|| {
        let help = "fork a deployment that has run";
        wrong("a journal is empty: there is nothing to continue from".to_owned(), help)
    })?;
    let Moments { first, delegated, last } = moments;
    let (from, to) = (moment::show(first), moment::show(last));
    match (args.at, delegated) {
        (Some(at), _) if at < first => Err(wrong(
            format!("at {} not every actor had started", moment::show(at)),
            &format!("choose a moment from {from} to {to}"),
        )),
        (Some(at), _) if at > last => Err(wrong(
            format!("the journals end before {}", moment::show(at)),
            &format!("choose a moment from {from} to {to}"),
        )),
        (Some(at), _) => Ok((at, moments)),
        (None, Some(delegated)) => Ok((delegated.max(first), moments)),
        (None, None) => Err(wrong(
            "no broker was ever given anything to sell, so that no moment suggests itself"
                .to_owned(),
            &format!("choose one with `--at`, from {from} to {to}"),
        )),
    }
}

/// What is wrong with journals that do not fit their deployment.
fn of_fork(error: ForkError, whose: &str) -> Error {
    let help = match &error {
        ForkError::NoJournal { .. } => "give the journals of all actors, or the folder with them",
        ForkError::Stranger { .. } => {
            "leave that journal out, or give what its deployment ran with"
        }
        ForkError::OtherKey { .. } => "give the journals of one deployment, and no others",
        ForkError::BadFact { .. } => "look for the damage with `tenure journal verify`",
        ForkError::Unlike { .. } => "give the scenario that the journals were made with",
        ForkError::Emulation(_) => "fork at another moment, or change less",
    };
    Error::Fork { message: format!("{error}{whose}"), help: help.to_owned() }
}
