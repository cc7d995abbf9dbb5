//! `jobs`: the jobs of a batch system, each a request of its own.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::actor::fact::Memo;
use crate::model::codec;
use crate::model::name::Name;
use crate::model::property::{BadProperties, Properties};
use crate::model::time::{Span, Time};
use crate::service_manager::group::Handling;
use crate::service_manager::mapper::{Ask, Decision, ServiceManagerMapper, View};
use crate::wire::offer::Reply;
use crate::wire::proviso::Provisos;
use crate::wire::request::Item;

/// The shortest run time of a job that is submitted, unless the settings say another.
pub const SHORTEST: Span = Span::from_secs(10);

/// Asks for the processors of each job when it is submitted, for as long as it runs, at the earliest start
/// there is. An emulation fills in the jobs of a log. What was asked for is remembered in the memo, so no job is
/// submitted twice.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", try_from = "Settings")]
pub struct Jobs(Settings);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Settings {
    #[serde(default)]
    jobs: Vec<Job>,
    /// The type of the units; one is a processor.
    #[serde(default = "super::node")]
    resource: Name,
    #[serde(default = "super::main_slice")]
    slice: Name,
    /// How late a job may start, from its submission on.
    #[serde(default = "ever")]
    patience: Span,
    /// Jobs that run for less are left out.
    #[serde(default = "shortest")]
    shortest: Span,
    /// Properties that differ among users: each user has one of the values of each, by the user's number.
    #[serde(default)]
    by_user: BTreeMap<Name, Vec<String>>,
}

/// A job of a log.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Job {
    /// When it is submitted, from the origin of the clock.
    at: Time,
    /// For how long it runs.
    run: Span,
    units: NonZeroU32,
    /// For the broker's mapper: `user`, and what else the log says.
    #[serde(default)]
    properties: Properties,
}

impl TryFrom<Settings> for Jobs {
    type Error = BadProperties;

    fn try_from(mut settings: Settings) -> Result<Self, BadProperties> {
        let shortest = settings.shortest;
        settings.jobs.retain(|job| job.run >= shortest);
        settings.jobs.sort_by_key(|job| job.at);
        for job in &mut settings.jobs {
            let user = job.properties.get("user").and_then(|user| user.parse::<usize>().ok());
            let of_user = settings.by_user.iter().filter_map(|(key, values)| {
                let place = user.unwrap_or(0).checked_rem(values.len())?;
                Some((key.clone(), values.get(place)?.clone()))
            });
            let own = job.properties.iter();
            let own = own.map(|(key, value)| (key.clone(), value.to_owned()));
            let all: BTreeMap<Name, String> = of_user.chain(own).collect();
            job.properties = all.try_into()?;
        }
        Ok(Self(settings))
    }
}

/// How many jobs were submitted.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Submitted(usize);

impl Jobs {
    fn ask(&self, now: Time, job: &Job) -> Ask {
        let latest = now.plus(self.0.patience);
        Ask {
            broker: None,
            slice: self.0.slice.clone(),
            items: vec![Item::new(self.0.resource.clone(), job.units)],
            earliest: now,
            latest,
            duration: job.run,
            min_duration: job.run,
            provisos: Provisos::NONE,
            again: None,
            reply: Reply::Grant,
            answer_by: latest,
            properties: job.properties.clone(),
            configuration: Properties::default(),
            reason: "submitted".to_owned(),
            handling: Handling::default(),
        }
    }
}

impl ServiceManagerMapper for Jobs {
    fn decide(&self, view: &View) -> Decision {
        let Submitted(before) = codec::decode(&view.memo().0).unwrap_or_default();
        let to_come = self.0.jobs.get(before..).unwrap_or_default();
        let due = to_come.iter().take_while(|job| job.at <= view.now()).count();
        Decision {
            round: view.round(),
            asks: to_come[..due].iter().map(|job| self.ask(view.now(), job)).collect(),
            memo: Some(Memo(codec::encode(&Submitted(before + due)))),
            wake: to_come.get(due).map(|job| job.at),
            ..Decision::default()
        }
    }
}

/// Ten years: longer than any log.
fn ever() -> Span {
    Span::DAY.times(3650)
}

fn shortest() -> Span {
    SHORTEST
}
