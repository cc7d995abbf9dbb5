//! Mappers and drivers as a file names them, and what is wrong when there is no such thing.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use crate::document::Sources;
use crate::error::{ConfigError, Place, in_plain_words, suggestion};

/// The settings of a plug-in as a file has them, its name among them.
pub type RawPlugin = Spanned<RawSettings>;

/// Settings by their keys.
type RawSettings = BTreeMap<String, Spanned<toml::Value>>;

/// Plug-ins where a file may name one, as a table, or several, as an array of tables.
#[derive(Debug)]
pub struct RawPlugins(Spanned<OneOrMany>);

/// An untagged enum of serde would lose the places, so the variant is chosen by hand.
#[derive(Debug)]
enum OneOrMany {
    One(RawSettings),
    Many(Vec<RawPlugin>),
}

impl<'de> Deserialize<'de> for RawPlugins {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Spanned::deserialize(deserializer).map(Self)
    }
}

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EitherWay)
    }
}

struct EitherWay;

impl<'de> Visitor<'de> for EitherWay {
    type Value = OneOrMany;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table or an array of tables")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OneOrMany, A::Error> {
        Deserialize::deserialize(MapAccessDeserializer::new(map)).map(OneOrMany::One)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<OneOrMany, A::Error> {
        Deserialize::deserialize(SeqAccessDeserializer::new(seq)).map(OneOrMany::Many)
    }
}

/// A plug-in by its name, with its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginSpec {
    /// The name.
    pub name: String,
    /// The settings, the name not among them.
    pub settings: toml::Table,
    places: BTreeMap<String, Place>,
}

impl PluginSpec {
    /// A plug-in that the file does not choose.
    pub fn new(name: &str, settings: &[(&str, &str)]) -> Self {
        let setting = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).into());
        let settings = settings.iter().map(setting).collect();
        Self { name: name.to_owned(), settings, places: BTreeMap::new() }
    }

    /// What the file says; the name of `default` where it has settings and no name.
    ///
    /// # Errors
    /// A name that is not text. `what` says what is named: a mapper, say.
    pub fn read(
        given: RawPlugin,
        default: &Self,
        what: &str,
        sources: &Sources<'_>,
    ) -> Result<Self, ConfigError> {
        let mut places = BTreeMap::from([("name".to_owned(), sources.place(given.span()))]);
        let mut settings = toml::Table::new();
        for (key, value) in given.into_inner() {
            places.insert(key.clone(), sources.place(value.span()));
            settings.insert(key, value.into_inner());
        }
        let name = match settings.remove("name") {
            None => default.name.clone(),
            Some(toml::Value::String(name)) => name,
            Some(_) => {
                let help = format!("write, for example, `name = \"{}\"`", default.name);
                let (file, place) = (sources.name(), &places["name"]);
                let message = format!("the name of a {what} is text");
                return Err(ConfigError::at(file, place, message, help));
            }
        };
        Ok(Self { name, settings, places })
    }

    /// What the file says where it may name several: at least one, in their order; as [`read`](Self::read).
    ///
    /// # Errors
    /// A name that is not text, or a list of none.
    pub fn read_all(
        given: RawPlugins,
        default: &Self,
        what: &str,
        sources: &Sources<'_>,
    ) -> Result<Vec<Self>, ConfigError> {
        let place = given.0.span();
        let all = match given.0.into_inner() {
            OneOrMany::One(settings) => vec![Spanned::new(place, settings)],
            OneOrMany::Many(none) if none.is_empty() => {
                let help = format!(
                    "write, for example, `[{{ name = \"{}\" }}]`, or leave the key out",
                    default.name
                );
                return Err(sources.error(place, format!("a list without a {what}"), help));
            }
            OneOrMany::Many(all) => all,
        };
        all.into_iter().map(|given| Self::read(given, default, what, sources)).collect()
    }

    /// Where the name is written.
    pub fn place(&self) -> &Place {
        self.places.get("name").unwrap_or(&Place::Whole)
    }

    /// Where the value of a setting is written, or else the name.
    pub fn place_of(&self, setting: &str) -> &Place {
        self.places.get(setting).unwrap_or_else(|| self.place())
    }

    /// That there is no plug-in of this name among the known ones. `what` says what there is none of.
    pub fn unknown<'a>(
        &self,
        file: &str,
        what: &str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> ConfigError {
        let message = format!("there is no {what} `{name}`");
        ConfigError::at(file, self.place(), message, suggestion(name, known))
    }

    /// That the plug-in does not take its settings, for a cause in the words of serde. `whose` says which
    /// plug-in of whom.
    pub fn bad_settings(&self, file: &str, whose: &str, cause: &str) -> ConfigError {
        // The message, then perhaps a line "in `key`"; or the key is what the message is about.
        let message = cause.lines().next().unwrap_or_default();
        let context = cause.lines().find(|line| line.starts_with("in `"));
        let setting = context.unwrap_or(message).split(['`', '.']).nth(1).unwrap_or_default();
        let (message, help) = in_plain_words(message);
        ConfigError::at(file, self.place_of(setting), format!("{whose}: {message}"), help)
    }
}
