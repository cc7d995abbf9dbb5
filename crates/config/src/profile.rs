//! Profiles: names that users ask for units by, with conditions, and what is meant unless they say otherwise.

use std::collections::BTreeMap;

use serde::Deserialize;
use tenure_core::model::name::Name;
use tenure_expr::{Expr, ParseError};
use toml::Spanned;

use crate::stock::RawAttributes;
use crate::{ConfigError, Sources, attributes};

/// Profiles by their names, as written.
pub type RawProfiles = BTreeMap<Spanned<Name>, RawProfile>;

/// A profile, as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RawProfile {
    /// The type of its units; the name of the profile unless set.
    #[serde(rename = "type")]
    pub resource: Option<Name>,
    /// What its units have to be like.
    #[serde(rename = "where")]
    pub condition: Option<Spanned<String>>,
    /// What its units are like unless a demand names the attribute.
    #[serde(default)]
    pub defaults: RawAttributes,
}

/// Profiles by their names.
pub type Profiles = BTreeMap<Name, Profile>;

/// A name that users ask for units by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The type of its units.
    pub resource: Name,
    /// What they have to be like.
    pub condition: Option<Expr>,
    /// For each attribute the condition that holds unless a demand names it.
    pub defaults: BTreeMap<Name, Expr>,
}

impl Profile {
    /// The condition of who asks for units of it with a condition of their own.
    ///
    /// # Errors
    /// If all of it together exceeds what a condition may be.
    pub fn narrowed(&self, wanted: Option<&Expr>) -> Result<Option<Expr>, ParseError> {
        let named = wanted.map(Expr::attributes).unwrap_or_default();
        let defaults = self.defaults.iter().filter(|(name, _)| !named.contains(name.as_str()));
        let mut all = wanted.into_iter().chain(&self.condition).chain(defaults.map(|(_, of)| of));
        let first = all.next().cloned();
        first.map(|first| all.try_fold(first, |sum, more| sum.and(more))).transpose()
    }
}

/// Reads profiles.
///
/// # Errors
/// A condition that cannot be read, a default that is no attribute, or that the condition sets already.
pub fn profiles(given: RawProfiles, sources: &Sources<'_>) -> Result<Profiles, ConfigError> {
    let each = given.into_iter().map(|(name, profile)| {
        let name = name.into_inner();
        Ok((name.clone(), read(name, profile, sources)?))
    });
    each.collect()
}

fn read(name: Name, given: RawProfile, sources: &Sources<'_>) -> Result<Profile, ConfigError> {
    let RawProfile { resource, condition, defaults } = given;
    let condition = condition.map(|text| {
        let read = Expr::parse_condition(text.get_ref());
        read.map_err(|error| {
            let help = "write a condition such as `where = \"cpus >= 8\"`".to_owned();
            sources.error(text.span(), format!("the condition of `{name}`: {error}"), help)
        })
    });
    let condition = condition.transpose()?;
    let named = condition.as_ref().map(Expr::attributes).unwrap_or_default();
    if let Some((key, value)) = defaults.iter().find(|(key, _)| named.contains(key.as_str())) {
        let message = format!("`where` of `{name}` says already what `{key}` is");
        let help = "what a demand may ask for otherwise is a default alone".to_owned();
        return Err(sources.error(value.span(), message, help));
    }
    let read = attributes(defaults, "");
    let read = read.map_err(|bad| sources.error(bad.span, bad.message, bad.help.to_owned()))?;
    let as_condition = |(key, value): (Name, _)| {
        let condition = Expr::parse_condition(&format!("{key} = {value}"));
        let condition = condition.map_err(|error| {
            let help = "write an attribute that conditions can name".to_owned();
            sources.error(
                Sources::NOWHERE,
                format!("the default `{key}` of `{name}`: {error}"),
                help,
            )
        });
        Ok((key, condition?))
    };
    let defaults = read.into_iter().map(as_condition).collect::<Result<_, ConfigError>>()?;
    Ok(Profile { resource: resource.unwrap_or(name), condition, defaults })
}
