//! `membership`: a guest's driver that keeps a file of the units it has.
//!
//! An application that reads a list of its hosts, such as a batch system or a load balancer, needs no
//! more. The file is replaced as a whole, so anyone who reads it sees one state or the next.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use tenure_core::driver::{DriverError, GuestDriver, Step};
use tenure_core::model::property::Properties;

use super::fence::{DriverSteps, Fence, Guest, Work, hold};
use super::record::{Key, Record, about, read, replace, write};
use super::step_input::StepInput;

/// What `membership` takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// The file to keep: `members` in the driver's own folder unless set.
    file: Option<MembersFile>,
    #[serde(default)]
    format: Format,
}

/// An absolute path.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "PathBuf")]
struct MembersFile(PathBuf);

impl TryFrom<PathBuf> for MembersFile {
    type Error = String;

    fn try_from(path: PathBuf) -> Result<Self, String> {
        if path.is_absolute() && path.file_name().is_some() {
            Ok(Self(path))
        } else {
            Err(format!("`{}` is not the absolute path of a file", path.display()))
        }
    }
}

/// What a line of the file is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    /// A unit with all that is known of it, as one JSON object.
    #[default]
    Json,
    /// Address and host name, as in `/etc/hosts`.
    Hosts,
}

/// The units that have joined, in the order in which they did.
struct Members {
    format: Format,
    file: PathBuf,
    /// The driver's own copy: the file is for others, and they may have lost it.
    record: PathBuf,
    members: Mutex<Vec<Member>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Member {
    key: Key,
    properties: Properties,
    line: String,
}

/// Opens the driver, and puts the file right.
pub(crate) fn guest(home: &Path, settings: Settings) -> io::Result<Box<dyn GuestDriver>> {
    let fence = Arc::new(Fence::open(home)?);
    let record = home.join("members.json");
    let members = Mutex::new(read(&record)?.unwrap_or_default());
    let file = settings.file.map_or_else(|| home.join("members"), |file| file.0);
    let steps = Members { format: settings.format, file, record, members };
    steps.publish(&hold(&steps.members))?;
    Ok(Box::new(Guest { fence, steps }))
}

impl DriverSteps for Members {
    fn perform(&self, work: &Work<'_>) -> Result<Properties, DriverError> {
        let key = work.key();
        let joins = match work.call.step {
            Step::Join | Step::Setup | Step::Modify => Some(self.line(work)?),
            Step::Leave | Step::Teardown | Step::Warn | Step::Install | Step::Remove => None,
        };
        let mut members = hold(&self.members);
        let mut changed = members.clone();
        changed.retain(|member| member.key != key);
        changed.extend(joins.map(|line| {
            let properties = work.call.properties.clone();
            Member { key, properties, line }
        }));
        let written = write(&self.record, &changed).and_then(|()| self.publish(&changed));
        written.map_err(|error| DriverError(error.to_string()))?;
        *members = changed;
        Ok(Properties::default())
    }

    fn modifies(&self) -> bool {
        true
    }

    fn probe(&self, key: Key, _: Option<&Record>) -> Result<Properties, DriverError> {
        let members = hold(&self.members);
        let member = members.iter().find(|member| member.key == key);
        let absent = || DriverError(format!("{} is no member", key.unit));
        member.map(|member| member.properties.clone()).ok_or_else(absent)
    }
}

impl Members {
    fn line(&self, work: &Work<'_>) -> Result<String, DriverError> {
        let call = work.call;
        match self.format {
            Format::Json => {
                let line = serde_json::to_string(&StepInput::of(call).until(None));
                line.map_err(|error| DriverError(error.to_string()))
            }
            Format::Hosts => {
                let word = |key: &str| {
                    // What a site says goes into a file that others read: nothing but one word.
                    let word = call.properties.get(key).filter(|text| {
                        let plain = |c: char| c.is_ascii_alphanumeric() || ".:-".contains(c);
                        !text.is_empty() && text.chars().all(plain)
                    });
                    word.ok_or_else(|| DriverError(format!("{} has no usable `{key}`", call.unit)))
                };
                Ok(format!("{} {}", word("host.privipaddr")?, word("host.name")?))
            }
        }
    }

    fn publish(&self, members: &[Member]) -> io::Result<()> {
        let path = &self.file;
        let lines: String = members.iter().map(|member| format!("{}\n", member.line)).collect();
        replace(path, lines.as_bytes()).map_err(|error| about(path, error))
    }
}
