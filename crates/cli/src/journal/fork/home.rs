//! Where journals come from: an emulation with its scenario, or a live deployment with its configuration.

use std::fs;
use std::path::{Path, PathBuf};

use tenure_config::{ConfigError, Override, PluginSpec, Source};
use tenure_core::actor::Role;
use tenure_core::driver::Step;
use tenure_core::model::time::{Span, Term};
use tenure_core::runtime::outbox::RetryPolicy;
use tenure_node::config::{AssemblyError, Config, KEPT, parse};
use tenure_sim::capacity::capacity;
use tenure_sim::emulation::{EmulationError, RunContext};
use tenure_sim::fork::{ForkError, Moments, Past, Recorded, Setting, Timings};
use tenure_sim::network::Network;
use tenure_sim::participants::{Driver, Part, Plugins};
use tenure_sim::scenario::{self, Scenario};

use super::of_fork;
use crate::demand::reader;
use crate::error::Error;
use crate::journal::ForkArgs;
use crate::keep::SCENARIO;

/// What a deployment ran with, and what it is to continue with.
pub(super) enum Home {
    Emulated {
        was: Box<Scenario>,
        now: Box<Scenario>,
        file: PathBuf,
        text: String,
    },
    Live {
        was: Box<Config>,
        now: Box<Config>,
        file: PathBuf,
        text: String,
        data: PathBuf,
        delay: Option<Span>,
    },
}

/// The longest pause between two sendings of a message.
const LONGEST_PAUSE: Span = Span::MINUTE;

/// The most steps at which need and holding of a live deployment are compared.
const MOST_STEPS: i64 = 10_000;

impl Home {
    /// Finds out what the journals at `paths` were made with.
    pub(super) fn of(paths: &[PathBuf], args: &ForkArgs) -> Result<Self, Error> {
        let wrong = |message: String, help: &str| Error::Fork { message, help: help.to_owned() };
        let folder = |path: &PathBuf| path.parent().unwrap_or(Path::new("")).to_owned();
        only_mappers(&args.set)?;
        let Some(first) = paths.first().map(folder) else {
            return Err(wrong("there are no journals".to_owned(), "name a folder with some"));
        };
        if let Some(other) = paths.iter().map(folder).find(|other| *other != first) {
            let message =
                format!("{} and {} are two deployments", first.display(), other.display());
            return Err(wrong(message, "fork one of them at a time"));
        }
        let kept = first.join(SCENARIO);
        if kept.is_file() || args.scenario.is_some() {
            return Self::emulated(&kept, args);
        }
        let data = first.parent().unwrap_or(Path::new("")).to_owned();
        if data.join("keys").is_dir() {
            return Self::live(data, args);
        }
        Err(wrong(
            format!("nothing in {} says what the deployment ran with", first.display()),
            "give the scenario of an emulation with `--scenario`; the journals of a live deployment \
             belong into its data folder, with the keys of its actors",
        ))
    }

    fn emulated(kept: &Path, args: &ForkArgs) -> Result<Self, Error> {
        if args.config.is_some() {
            let message = format!("{} is what an emulation ran with", kept.display());
            return Err(Error::Fork { message, help: "leave out `--config`".to_owned() });
        }
        let file = match &args.scenario {
            Some(given) if !kept.is_file() => given.clone(),
            _ => kept.to_owned(),
        };
        let text = read(&file)?;
        let point = one(&file, &text, &[])?;
        if let Some(given) = args.scenario.as_ref().filter(|given| **given != file) {
            let points = points(given, &read(given)?, &[])?;
            if !points.iter().any(|given| given.text == point.text) {
                return Err(Error::Fork {
                    message: format!(
                        "the journals were not made with {}, but with what {} says",
                        given.display(),
                        file.display()
                    ),
                    help: "leave out `--scenario`: what was kept beside the journals is taken"
                        .to_owned(),
                });
            }
        }
        let now = one(&file, &text, &args.set)?;
        let (was, now) = (Box::new(point.scenario), Box::new(now.scenario));
        Ok(Self::Emulated { was, now, file, text })
    }

    fn live(data: PathBuf, args: &ForkArgs) -> Result<Self, Error> {
        let kept = data.join(KEPT);
        let file = match &args.config {
            Some(given) if !kept.is_file() => given.clone(),
            _ => kept,
        };
        if !file.is_file() {
            return Err(Error::Fork {
                message: format!("{} does not say what the deployment ran with", data.display()),
                help: "give its configuration with `--config`".to_owned(),
            });
        }
        let text = read(&file)?;
        let was = Box::new(config(&file, &text, &[])?);
        if let Some(given) = args.config.as_ref().filter(|given| **given != file) {
            let source = read(given)?;
            let text_of = |text: &str, path: &Path| {
                let name = path.display().to_string();
                tenure_config::text_of_first(Source { name: &name, text }, &[])
                    .map_err(|error| of_config(error, text))
            };
            if text_of(&source, given)? != text_of(&text, &file)? {
                return Err(Error::Fork {
                    message: format!(
                        "the deployment did not run with {}, but with what {} says",
                        given.display(),
                        file.display()
                    ),
                    help: "leave out `--config`: what was kept in the data folder is taken"
                        .to_owned(),
                });
            }
        }
        let now = Box::new(config(&file, &text, &args.set)?);
        Ok(Self::Live { was, now, file, text, data, delay: args.delay })
    }

    /// The deployment with nothing in its journals, under the mappers as they were or as they are `changed`.
    pub(super) fn setting(
        &self,
        changed: bool,
        pasts: &[Past],
        moments: Moments,
    ) -> Result<Setting, Error> {
        match self {
            Self::Emulated { was, now, text, .. } => {
                let scenario = if changed { now } else { was };
                Setting::of(scenario, &Plugins::default()).map_err(|error| match error {
                    EmulationError::Mapper { role, name, cause } => {
                        of_config(scenario.mapper_error(role, &name, &cause), text)
                    }
                    other @ (EmulationError::NoTime
                    | EmulationError::Journal { .. }
                    | EmulationError::Livelock { .. }) => self.failed(other.into()),
                })
            }
            Self::Live { was, now, .. } => {
                let config = if changed { now } else { was };
                let parts = self.parts(config, pasts)?;
                let stage = self.stage(config, pasts, moments)?;
                Ok(Setting { parts, stage, emulated: false })
            }
        }
    }

    fn parts(&self, config: &Config, pasts: &[Past]) -> Result<Vec<Part>, Error> {
        let Self::Live { data, text, .. } = self else { return Ok(Vec::new()) };
        let hosted_actors = config.hosted_actors(data).map_err(|error| match error {
            AssemblyError::Config(error) => of_config(*error, text),
            other @ (AssemblyError::Key(_)
            | AssemblyError::Journal(_)
            | AssemblyError::Driver { .. }
            | AssemblyError::Folder { .. }) => Error::Fork {
                message: other.to_string(),
                help: "fork within the data folder of the deployment: its keys are there"
                    .to_owned(),
            },
        })?;
        let mut parts = Vec::new();
        for (info, hosted) in hosted_actors {
            let build = || {
                hosted().map_err(|error| Error::Fork {
                    message: error.to_string(),
                    help: "choose another mapper".to_owned(),
                })
            };
            let facts = pasts.iter().find(|past| past.id == info.id);
            let facts = facts.map_or(&[][..], |past| &past.facts);
            let recorded = Recorded::of(&mut build()?, facts).map_err(|(position, cause)| {
                self.failed(ForkError::BadFact { name: info.name.clone(), position, cause })
            })?;
            let driver = match info.role {
                Role::SiteAuthority => Some(Driver::Site(Box::new(recorded))),
                Role::ServiceManager => Some(Driver::Guest(Box::new(recorded))),
                Role::Broker => None,
            };
            let retry_policy =
                RetryPolicy { first: config.retry, longest: LONGEST_PAUSE.max(config.retry) };
            parts.push(Part {
                name: info.name,
                id: info.id,
                hosted: build()?,
                driver,
                mapper_delay: Span::ZERO,
                retry_policy,
            });
        }
        Ok(parts)
    }

    fn stage(
        &self,
        config: &Config,
        pasts: &[Past],
        moments: Moments,
    ) -> Result<RunContext, Error> {
        let timings = Timings::of(pasts);
        let begin = moments.delegated.unwrap_or(moments.first);
        let window = Term::new(begin, moments.last.plus(Span::from_micros(1)));
        let window = window.map_err(|_| Error::Fork {
            message: "the journals end before a broker had anything to sell".to_owned(),
            help: "fork a deployment that has run for longer".to_owned(),
        })?;
        let seconds = window.duration().as_micros() / 1_000_000 / MOST_STEPS + 1;
        let term = timings.longest.max(Span::HOUR);
        Ok(RunContext {
            network: Network::steady(self.delay(&timings), config.retry),
            window,
            step: Span::from_secs(seconds),
            give_up_at: window.end().plus(term.times(3)).plus(Span::DAY.times(7)),
            capacity: capacity(config.sites.values().map(|site| &site.stocks)),
            term,
            compute: None,
            network_of_brokers: false,
        })
    }

    fn delay(&self, timings: &Timings) -> Span {
        match self {
            Self::Live { delay: Some(delay), .. } => *delay,
            Self::Live { .. } | Self::Emulated { .. } => timings.message,
        }
    }

    /// How long messages and drivers take: a line for each actor.
    pub(super) fn times(&self, pasts: &[Past]) -> Result<Vec<String>, Error> {
        let Self::Live { was, delay, .. } = self else {
            return Ok(vec!["of messages and drivers as in the scenario".to_owned()]);
        };
        let timings = Timings::of(pasts);
        let messages = match delay {
            Some(delay) => format!("messages take {delay}"),
            None => {
                format!("messages take {} ({} measured)", self.delay(&timings), timings.messages)
            }
        };
        let mut times = vec![messages];
        for part in self.parts(was, pasts)? {
            let steps: &[Step] = match part.hosted.role() {
                Role::SiteAuthority => &[Step::Setup, Step::Teardown],
                Role::ServiceManager => &[Step::Join, Step::Leave],
                Role::Broker => &[],
            };
            let facts = pasts.iter().find(|past| past.id == part.id).map(|past| &past.facts);
            let mut hosted = part.hosted;
            let recorded = Recorded::of(&mut hosted, facts.map_or(&[][..], |facts| facts));
            let Ok(recorded) = recorded else { continue };
            let of_step = |step: &Step| {
                let (usual, count) = recorded.usual(*step);
                (count > 0).then(|| format!("{} {usual} ({count} measured)", step.word()))
            };
            let of_steps: Vec<String> = steps.iter().filter_map(of_step).collect();
            if !of_steps.is_empty() {
                times.push(format!("at {}: {}", part.name, of_steps.join(", ")));
            }
        }
        Ok(times)
    }

    /// The mappers that are changed: whose, from what, to what.
    pub(super) fn changed(&self) -> Vec<(String, String, String)> {
        let mappers: Vec<(String, &PluginSpec, &PluginSpec)> = match self {
            Self::Emulated { was, now, .. } => was
                .mappers()
                .zip(now.mappers())
                .map(|((role, name, was), (.., now))| (format!("{role} {name}"), was, now))
                .collect(),
            Self::Live { was, now, .. } => mappers(was)
                .zip(mappers(now))
                .map(|((who, was), (_, now))| (who, was, now))
                .collect(),
        };
        let changed = mappers
            .into_iter()
            .filter(|(_, was, now)| (&was.name, &was.settings) != (&now.name, &now.settings));
        changed.map(|(who, was, now)| (who, words(was), words(now))).collect()
    }

    /// What is wrong with the journals, and where their deployment is described.
    pub(super) fn failed(&self, error: ForkError) -> Error {
        let (Self::Emulated { file, .. } | Self::Live { file, .. }) = self;
        of_fork(error, &format!(" (as {} has it)", file.display()))
    }
}

fn mappers(config: &Config) -> impl Iterator<Item = (String, &PluginSpec)> {
    let sites = config.sites.iter().map(|(n, site)| (Role::SiteAuthority, n, &site.mapper));
    let brokers = config.brokers.iter().map(|(n, broker)| (Role::Broker, n, &broker.mapper));
    let managers = config.service_managers.iter();
    let managers = managers.map(|(n, manager)| (Role::ServiceManager, n, &manager.mapper));
    sites.chain(brokers).chain(managers).map(|(role, name, spec)| (format!("{role} {name}"), spec))
}

/// A mapper with its settings, in a line.
fn words(spec: &PluginSpec) -> String {
    let settings = spec.settings.iter().map(|(key, value)| format!("{key}={value}"));
    let all: Vec<String> = std::iter::once(spec.name.clone()).chain(settings).collect();
    all.join(" ")
}

/// Whether only mappers are set: everything else was recorded as it was.
fn only_mappers(set: &[Override]) -> Result<(), Error> {
    let of_mapper = |set: &Override| set.key.split('.').nth(2).is_some_and(|key| key == "mapper");
    let Some(other) = set.iter().find(|set| !of_mapper(set)) else { return Ok(()) };
    Err(Error::Fork {
        message: format!(
            "`{}` changes more than a mapper, and all else is as it was recorded",
            other.option
        ),
        help: "set mappers alone, such as `--set broker.exchange.mapper.name=priority`; \
               `tenure emulate` runs a scenario with anything set"
            .to_owned(),
    })
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|error| Error::reading(path, error, "check the path"))
}

fn of_config(error: ConfigError, text: &str) -> Error {
    Error::Config { error: Box::new(error), text: text.to_owned() }
}

fn points(path: &Path, text: &str, set: &[Override]) -> Result<Vec<scenario::Point>, Error> {
    let name = path.display().to_string();
    let beside = path.parent().unwrap_or(Path::new(""));
    scenario::parse_with(Source { name: &name, text }, set, &reader(beside))
        .map_err(|error| of_config(error, text))
}

fn one(path: &Path, text: &str, set: &[Override]) -> Result<scenario::Point, Error> {
    let mut points = points(path, text, set)?;
    match (points.pop(), points.is_empty()) {
        (Some(point), true) => Ok(point),
        _ => Err(Error::Fork {
            message: format!("{} sweeps, and a fork is of one run", path.display()),
            help: "give the scenario of that run, without a sweep".to_owned(),
        }),
    }
}

fn config(path: &Path, text: &str, set: &[Override]) -> Result<Config, Error> {
    let name = path.display().to_string();
    parse(Source { name: &name, text }, set).map_err(|error| of_config(error, text))
}
