//! A changed configuration of a deployment that has journals already: what can continue, and what cannot.
//!
//! More units and other attributes are journaled by the site at its start, and surplus units are withdrawn
//! after it. What the journals do not allow is refused here, before any actor starts.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use tenure_config::{ConfigError, Files, Place, Source};
use tenure_core::actor::Role;
use tenure_core::actor::settings::Described;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::runtime::AnyActor;
use tenure_core::site_authority::{SiteAuthority, WithdrawError};
use thiserror::Error;

use super::assemble::{AssemblyError, key_of};
use super::{Config, Site, keys, parse, parse_files};
use crate::api::time;
use crate::journal::{Owner, Reader};

/// The name of the file in a data folder that says what the deployment was last started with.
pub const KEPT: &str = "config.toml";

const HEADER: &str = "# What this deployment last ran with, with all that options have set.\n\n";

/// The most differences between two configurations that are reported.
const MOST_DIFFERENCES: usize = 20;

/// Why journals cannot continue under a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Conflict {
    /// An actor was removed or renamed.
    #[error(
        "{} is the journal of the {role} `{name}`, which is not configured{}",
        journal.display(),
        renamed.as_ref().map(|new| format!("; `{new}` has none")).unwrap_or_default()
    )]
    Removed {
        /// The journal.
        journal: PathBuf,
        /// Its role.
        role: Role,
        /// Its name.
        name: Name,
        /// An actor of the same role without a journal.
        renamed: Option<Name>,
    },
    /// An actor has another role.
    #[error("`{name}` is a {configured} here, and {} is that of a {journaled}", journal.display())]
    Role {
        /// The actor.
        name: Name,
        /// The journal.
        journal: PathBuf,
        /// Its role in the journal.
        journaled: Role,
        /// Its configured role.
        configured: Role,
    },
    /// An actor has another key.
    #[error("the key of `{name}` is not the one under which {} was written", journal.display())]
    Key {
        /// The actor.
        name: Name,
        /// Its configured role.
        role: Role,
        /// The journal.
        journal: PathBuf,
    },
    /// The margin was changed.
    #[error("`margin` is {configured}, and the leases in the journals were made under {journaled}")]
    Margin {
        /// The margin that the deployment last ran with.
        journaled: Span,
        /// The configured one.
        configured: Span,
    },
    /// The units of a site have another type.
    #[error(
        "`{site}` has no stock of type `{journaled}`, and its journal has {units} of that type"
    )]
    Resource {
        /// The site.
        site: Name,
        /// How many units its journal has.
        units: u32,
        /// Their type.
        journaled: Name,
    },
    /// A site is to have fewer units, which are in use or delegated.
    #[error("`{site}` has {configured} units, and {journaled} in its journal: {cause}", cause = in_words(cause))]
    Units {
        /// The site.
        site: Name,
        /// How many units its journal has.
        journaled: u32,
        /// The type.
        resource: Name,
        /// The configured number.
        configured: u32,
        /// Why the others cannot be withdrawn.
        cause: WithdrawError,
    },
}

/// A cause as users read it, with times of their calendar.
fn in_words(cause: &WithdrawError) -> String {
    match cause {
        WithdrawError::Delegated { delegated, until, .. } => {
            format!("{delegated} of them are delegated to brokers until {}", time(*until))
        }
        WithdrawError::TooMany { .. } | WithdrawError::Named(_) => cause.to_string(),
        WithdrawError::InUse { idle, .. } => {
            format!("only {idle} of them are idle, the others are leased or being cleaned")
        }
    }
}

impl Conflict {
    /// The key that is to blame.
    fn key(&self) -> String {
        match self {
            Self::Removed { role, renamed, .. } => {
                renamed.as_ref().map(|name| table(*role, name)).unwrap_or_default()
            }
            Self::Role { name, configured: role, .. } | Self::Key { name, role, .. } => {
                table(*role, name)
            }
            Self::Margin { .. } => "margin".to_owned(),
            Self::Resource { site, .. } => format!("site.{site}.resource"),
            Self::Units { site, resource, .. } => format!("site.{site}.stock.{resource}.units"),
        }
    }

    /// What to do about it.
    fn help(&self) -> String {
        let back = match self {
            Self::Removed { role, name, .. } => format!("put `[{}]` back", table(*role, name)),
            Self::Role { name, journaled, .. } => {
                format!("put `[{}]` back", table(*journaled, name))
            }
            Self::Key { name, .. } => format!("put the key `keys/{name}` back"),
            Self::Margin { journaled, .. } => format!("put `margin = \"{journaled}\"` back"),
            Self::Resource { journaled, .. } => format!("put the stock of `{journaled}` back"),
            Self::Units { journaled, .. } => {
                format!("put `units = {journaled}` back and try again later")
            }
        };
        format!("{back}, or start with a new data folder (`--data`)")
    }
}

/// The table of an actor.
fn table(role: Role, name: &Name) -> String {
    let role = match role {
        Role::SiteAuthority => "site",
        Role::Broker => "broker",
        Role::ServiceManager => "service-manager",
    };
    format!("{role}.{name}")
}

impl Config {
    /// Whether the journals in the folder `data` can continue under this configuration. Nothing is made or
    /// changed there.
    ///
    /// # Errors
    /// The first [`Conflict`], with its place, or what cannot be read.
    pub fn admit(&self, data: &Path) -> Result<(), AssemblyError> {
        let owners = owners(&data.join("journals"))?;
        for (journal, owner) in &owners {
            self.admit_actor(data, journal, owner, &owners)?;
        }
        let before = kept(data).filter(|_| !owners.is_empty());
        if let Some(before) = &before
            && before.margin != self.margin
        {
            let (journaled, configured) = (before.margin, self.margin);
            return Err(self.refused(&Conflict::Margin { journaled, configured }));
        }
        for (journal, Owner { name, .. }) in &owners {
            let Some(site) = self.sites.get(name) else { continue };
            let before = before.as_ref().and_then(|before| before.sites.get(name));
            if before.is_none_or(|before| before.stocks != site.stocks) {
                self.admit_inventory(data, journal, name, site)?;
            }
        }
        Ok(())
    }

    fn admit_actor(
        &self,
        data: &Path,
        journal: &Path,
        owner: &Owner,
        owners: &[(PathBuf, Owner)],
    ) -> Result<(), AssemblyError> {
        let (name, journal) = (owner.name.clone(), journal.to_owned());
        let Some((_, role)) = self.actors().find(|(actor, _)| **actor == name) else {
            let is_new = |name: &Name| !owners.iter().any(|(_, owner)| owner.name == *name);
            let mut alike =
                self.actors().filter(|(name, role)| *role == owner.role && is_new(name));
            let renamed = alike.next().map(|(name, _)| name.clone());
            return Err(self.refused(&Conflict::Removed {
                journal,
                role: owner.role,
                name,
                renamed,
            }));
        };
        if role != owner.role {
            let (journaled, configured) = (owner.role, role);
            return Err(self.refused(&Conflict::Role { name, journal, journaled, configured }));
        }
        if keys::signer(&key_of(data, &name), &journal)?.id() != owner.id {
            return Err(self.refused(&Conflict::Key { name, role, journal }));
        }
        Ok(())
    }

    fn admit_inventory(
        &self,
        data: &Path,
        journal: &Path,
        name: &Name,
        site: &Site,
    ) -> Result<(), AssemblyError> {
        // Tried before; a mapper that cannot be built is reported by the start.
        let Ok(mut hosted) = self.builder(name, &self.known(data)?)?() else { return Ok(()) };
        Reader::open(journal)?.recall(&mut hosted)?;
        let AnyActor::SiteAuthority(actor) = hosted.actor() else { return Ok(()) };
        match inventory_conflict(actor, name, site) {
            Some(conflict) => Err(self.refused(&conflict)),
            None => Ok(()),
        }
    }

    fn refused(&self, conflict: &Conflict) -> AssemblyError {
        let key = conflict.key();
        let mut keys = std::iter::successors(Some(&*key), |key| Some(key.rsplit_once('.')?.0));
        let place = keys.find_map(|key| self.places.get(key));
        let place = place.unwrap_or(&Place::Whole);
        ConfigError::at(&self.file, place, conflict.to_string(), conflict.help()).into()
    }

    /// Keeps what the deployment runs with beside its journals, for the next start and for anyone who looks
    /// at them later.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep(&self, data: &Path) -> std::io::Result<()> {
        let aside = data.join(format!("{KEPT}.new"));
        // Members of a group may be let into the folder, to the socket.
        let options =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).clone();
        options.open(&aside)?.write_all(format!("{HEADER}{}", self.text).as_bytes())?;
        fs::rename(aside, data.join(KEPT))
    }

    /// How the file differs by now from what was read of it, a sentence for each key.
    pub fn changes_since_start(&self) -> Vec<String> {
        if self.paths.is_empty() {
            return Vec::new();
        }
        let mut files = Vec::new();
        for path in &self.paths {
            let name = path.display().to_string();
            match fs::read_to_string(path) {
                Ok(text) => files.push((name, text)),
                Err(error) => return vec![format!("{name} cannot be read: {error}")],
            }
        }
        let files = Files::new(files);
        let now = match parse_files(&files, &self.overrides) {
            Ok(now) => now,
            Err(error) => return vec![format!("the configuration file now has an error: {error}")],
        };
        let tables = (self.text.parse::<toml::Table>(), now.text.parse::<toml::Table>());
        let (Ok(was), Ok(is)) = tables else { return Vec::new() };
        let mut differences = Vec::new();
        compare("", &toml::Value::Table(was), &toml::Value::Table(is), &mut differences);
        let next = format!("{} has; restart the deployment to use it", files.name());
        let changes = differences.into_iter().take(MOST_DIFFERENCES);
        changes.map(|(key, was, is)| format!("`{key}` is {was} here, {is} in {next}")).collect()
    }
}

/// The keys with other values, each with both.
fn compare(
    key: &str,
    was: &toml::Value,
    is: &toml::Value,
    differences: &mut Vec<(String, String, String)>,
) {
    let (toml::Value::Table(was), toml::Value::Table(is)) = (was, is) else {
        if was != is {
            differences.push((key.to_owned(), was.to_string(), is.to_string()));
        }
        return;
    };
    let under =
        |inner: &str| if key.is_empty() { inner.to_owned() } else { format!("{key}.{inner}") };
    for (inner, was) in was {
        match is.get(inner) {
            Some(is) => compare(&under(inner), was, is, differences),
            None => differences.push((under(inner), was.to_string(), "not set".to_owned())),
        }
    }
    for (inner, is) in is.iter().filter(|(inner, _)| !was.contains_key(*inner)) {
        differences.push((under(inner), "not set".to_owned(), is.to_string()));
    }
}

impl Config {
    /// The settings of an actor, each by its key: those of its own table, and those that hold for all.
    pub(super) fn described(&self, name: &Name, role: Role) -> Described {
        let Ok(all) = self.text.parse::<toml::Table>() else { return Described::new() };
        let role = table(role, name);
        let kind = role.split('.').next().unwrap_or_default();
        let own = all.get(kind).and_then(|actors| actors.get(name.as_str()));
        let mut settings = Described::new();
        for (key, value) in all.iter().filter(|(_, value)| !value.is_table()) {
            settings.insert(key.clone(), value.to_string());
        }
        if let Some(own) = own {
            flatten("", own, &mut settings);
        }
        settings
    }
}

/// Every value under a key that is no table, by its whole key.
fn flatten(key: &str, value: &toml::Value, settings: &mut Described) {
    let toml::Value::Table(table) = value else {
        settings.insert(key.to_owned(), value.to_string());
        return;
    };
    for (inner, value) in table {
        let key = if key.is_empty() { inner.clone() } else { format!("{key}.{inner}") };
        flatten(&key, value, settings);
    }
}

/// Why the units of a site cannot become those that are configured.
fn inventory_conflict(actor: &SiteAuthority, name: &Name, site: &Site) -> Option<Conflict> {
    let of = |resource: &Name| site.stocks.get(resource);
    let mut others = actor.inventory().filter(|(resource, ..)| of(resource).is_none());
    if let Some((resource, _, units)) = others.find(|(.., units)| *units > 0) {
        let (site, journaled) = (name.clone(), resource.clone());
        return Some(Conflict::Resource { site, units, journaled });
    }
    let mut planned = site.stocks.iter().map(|(resource, stock)| stock.planned(resource));
    let planned = planned.find_map(|stock| Some((actor.surplus(&stock).err()?, stock)));
    planned.map(|(cause, stock)| Conflict::Units {
        site: name.clone(),
        journaled: units_of(actor, &stock.resource),
        configured: stock.units,
        resource: stock.resource,
        cause,
    })
}

/// How many units of a type a site has by its journal.
pub(crate) fn units_of(actor: &SiteAuthority, resource: &Name) -> u32 {
    let mut inventory = actor.inventory();
    inventory.find(|(of, ..)| *of == resource).map_or(0, |(.., units)| units)
}

/// What the deployment was started with the last time, if that is known.
pub(super) fn kept(data: &Path) -> Option<Config> {
    let path = data.join(KEPT);
    let text = fs::read_to_string(&path).ok()?;
    parse(Source { name: &path.display().to_string(), text: &text }, &[]).ok()
}

/// The journals in a folder, each with its owner, by path.
fn owners(folder: &Path) -> Result<Vec<(PathBuf, Owner)>, AssemblyError> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut journals: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "db")).collect();
    journals.sort();
    let owner = |path: PathBuf| {
        let owner = Reader::open(&path)?.owner().clone();
        Ok((path, owner))
    };
    journals.into_iter().map(owner).collect()
}
