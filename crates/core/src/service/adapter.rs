//! What connects a service with its software, as its definition names it. A shell has the adapters; here they are
//! names with settings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::label_map::LabelMap;
use crate::model::name::Name;

/// The adapter of a service: settings, of which `name` says which adapter they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Adapter(#[serde(with = "plain")] BTreeMap<Name, Setting>);

/// A value of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Setting {
    /// `true` or `false`.
    Flag(bool),
    /// A whole number.
    Number(i64),
    /// A text, such as a length of time.
    Text(String),
    /// A list of texts, such as a command.
    Texts(Vec<String>),
    /// A table of texts.
    Table(BTreeMap<String, String>),
}

impl Adapter {
    /// The most settings of one.
    pub const MAX_SETTINGS: usize = 64;
    /// The most bytes of one.
    pub const MAX_BYTES: usize = 16 << 10;

    /// Which adapter it is; none if it does not say so.
    pub fn name(&self) -> Option<&str> {
        match self.0.get("name")? {
            Setting::Text(name) => Some(name),
            Setting::Flag(_) | Setting::Number(_) | Setting::Texts(_) | Setting::Table(_) => None,
        }
    }

    /// What labels of its KPIs say of units: its setting `map`.
    ///
    /// # Errors
    /// The key that is wrong, and why.
    pub fn label_map(&self) -> Result<LabelMap, (String, String)> {
        match self.0.get("map") {
            Some(Setting::Table(table)) => LabelMap::read(table),
            Some(_) => Err(("map".to_owned(), "it is no table".to_owned())),
            None => Ok(LabelMap::default()),
        }
    }

    /// The settings without the name and without what labels say of units, for a shell to read.
    pub fn settings(&self) -> Self {
        let settings = self.0.iter().filter(|(key, _)| !matches!(key.as_str(), "name" | "map"));
        Self(settings.map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    /// Whether there is a setting of this name.
    pub fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// The same with one more setting.
    pub(super) fn with(&self, key: Name, value: Setting) -> Self {
        let mut settings = self.0.clone();
        settings.insert(key, value);
        Self(settings)
    }

    /// Whether it has a name and is small enough to be remembered.
    pub(super) fn is_sound(&self) -> bool {
        let bytes = |value: &Setting| match value {
            Setting::Flag(_) | Setting::Number(_) => 8,
            Setting::Text(text) => text.len(),
            Setting::Texts(texts) => texts.iter().map(|text| text.len() + 8).sum(),
            Setting::Table(table) => {
                table.iter().map(|(key, text)| key.len() + text.len() + 16).sum()
            }
        };
        let sum: usize = self.0.iter().map(|(key, value)| key.as_str().len() + bytes(value)).sum();
        self.name().is_some() && self.0.len() <= Self::MAX_SETTINGS && sum <= Self::MAX_BYTES
    }
}

/// In files and on the control socket a value is written plainly; where types are not told by the format, it is
/// encoded with its variant.
mod plain {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Setting;
    use crate::model::name::Name;

    #[derive(Serialize, Deserialize)]
    #[serde(
        untagged,
        expecting = "expected a text, a list of texts, a table of texts, a whole number or a boolean"
    )]
    enum Plain {
        Flag(bool),
        Number(i64),
        Text(String),
        Texts(Vec<String>),
        Table(BTreeMap<String, String>),
    }

    impl From<Plain> for Setting {
        fn from(plain: Plain) -> Self {
            match plain {
                Plain::Flag(flag) => Self::Flag(flag),
                Plain::Number(number) => Self::Number(number),
                Plain::Text(text) => Self::Text(text),
                Plain::Texts(texts) => Self::Texts(texts),
                Plain::Table(table) => Self::Table(table),
            }
        }
    }

    impl From<Setting> for Plain {
        fn from(setting: Setting) -> Self {
            match setting {
                Setting::Flag(flag) => Self::Flag(flag),
                Setting::Number(number) => Self::Number(number),
                Setting::Text(text) => Self::Text(text),
                Setting::Texts(texts) => Self::Texts(texts),
                Setting::Table(table) => Self::Table(table),
            }
        }
    }

    pub(super) fn serialize<S: Serializer>(
        settings: &BTreeMap<Name, Setting>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return settings.serialize(serializer);
        }
        let plain = settings.iter().map(|(key, value)| (key, Plain::from(value.clone())));
        serializer.collect_map(plain)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<Name, Setting>, D::Error> {
        if !deserializer.is_human_readable() {
            return BTreeMap::deserialize(deserializer);
        }
        let plain = BTreeMap::<Name, Plain>::deserialize(deserializer)?;
        Ok(plain.into_iter().map(|(key, value)| (key, value.into())).collect())
    }
}
