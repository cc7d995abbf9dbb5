//! Presets: how brokers move units between services, in a word.

use serde::Deserialize;
use tenure_config::PluginSpec;
use toml::Spanned;

use super::resolve::{Check, Checked};

/// The mapper that moves units between services.
const MOVER: &str = "urgency";

/// How brokers move units between services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Preset {
    /// As their mappers say.
    Tenure,
    /// At once, as Hedeby did: without any bound.
    Hedeby,
    /// Not at all.
    Static,
}

impl Check<'_> {
    /// The mapper of a broker under a preset. `given` is that of the file, if it has one.
    pub(super) fn preset(
        &self,
        preset: &Spanned<Preset>,
        given: Option<PluginSpec>,
    ) -> Checked<PluginSpec> {
        let mut mapper = given.unwrap_or_else(|| PluginSpec::new(MOVER, &[]));
        if mapper.name != MOVER {
            let message = format!("the mapper `{}` moves nothing between services", mapper.name);
            let help = format!("set `mapper = {{ name = \"{MOVER}\" }}`, or leave `preset` out");
            return self.refuse(preset.span(), message, &help);
        }
        match preset.get_ref() {
            Preset::Tenure => {}
            Preset::Hedeby => {
                let unbounded = [("min-tenure", "0s"), ("budget", "none"), ("stable-for", "0s")];
                let unbounded = unbounded.map(|(key, value)| (key.to_owned(), value.into()));
                mapper
                    .settings
                    .insert("recall".to_owned(), toml::Table::from_iter(unbounded).into());
            }
            Preset::Static => mapper = PluginSpec::new("fcfs", &[]),
        }
        Ok(mapper)
    }
}
