//! The problem as it is written down.

use std::collections::BTreeMap;

use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use tenure_expr::{Attributes, Expr, Set, Value};

use crate::amount::{Amount, Price};
use crate::error::BadProblem;
use crate::package::{Package, Software};
use crate::score::Term;

/// Parts that are to be put on places, with what binds both.
///
/// `docs/PLANNING.md` says what each key means.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Problem {
    /// Named in the answer.
    pub name: String,
    /// What is least, first to last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objective: Vec<Term>,
    /// Where parts can be put.
    pub place: Vec<Place>,
    /// What is to be put somewhere.
    pub part: Vec<Part>,
    /// Packages that others depend on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub library: Vec<Library>,
    /// Lists of parts that go to one place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub same_host: Vec<Vec<String>>,
    /// Lists of parts of which no two go to one place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub apart: Vec<Vec<String>>,
    /// Parts that talk to each other and would best be together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<Uses>,
    /// Connections between places.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edge: Vec<Edge>,
    /// Connections that are asked for between parts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub link: Vec<Link>,
}

impl Problem {
    /// The problem as it is when a place, and with it its edges, is gone.
    ///
    /// # Errors
    /// If there is no such place.
    pub fn without(&self, name: &str) -> Result<Self, BadProblem> {
        let mut changed = self.clone();
        changed.place.retain(|place| place.name != name);
        if changed.place.len() == self.place.len() {
            return Err(BadProblem::new("without", format!("no place has the name `{name}`")));
        }
        let named = |other: &String| {
            other == name || other.rsplit_once('/').is_some_and(|(entry, _)| entry == name)
        };
        changed.edge.retain(|edge| !edge.ends.iter().any(named));
        for part in &mut changed.part {
            part.favourites.retain(|place| !named(place));
            if let Some(only) = &mut part.only {
                only.retain(|place| !named(place));
            }
        }
        Ok(changed)
    }
}

/// A place, or several equal ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Place {
    /// Unique among places.
    pub name: String,
    /// How many equal ones there are, `NAME/1` and so on; without it one, `NAME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// What is free, by dimension. A dimension that is not named is 0.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, Amount>,
    /// What `where` of parts can ask for.
    #[serde(default, skip_serializing_if = "Properties::is_empty")]
    pub attributes: Properties,
    /// Packages that are there already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub installed: Vec<Package>,
    /// What a unit of what parts need costs.
    #[serde(default, skip_serializing_if = "UnitPrice::is_zero")]
    pub price: UnitPrice,
}

/// The price of a unit: one for all dimensions, or one for each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a price must be a number, or a table of dimensions and numbers")]
pub enum UnitPrice {
    /// The same for a unit of any dimension.
    Same(Price),
    /// By dimension; one that is not named costs nothing.
    Each(BTreeMap<String, Price>),
}

impl Default for UnitPrice {
    fn default() -> Self {
        Self::Same(Price::default())
    }
}

impl UnitPrice {
    /// Whether nothing costs anything.
    pub fn is_zero(&self) -> bool {
        match self {
            Self::Same(price) => price.is_zero(),
            Self::Each(prices) => prices.values().all(Price::is_zero),
        }
    }

    /// The price of a unit of `dimension`.
    pub fn of(&self, dimension: &str) -> Price {
        match self {
            Self::Same(price) => *price,
            Self::Each(prices) => prices.get(dimension).copied().unwrap_or_default(),
        }
    }
}

/// A part, or several equal ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Part {
    /// Unique among parts.
    pub name: String,
    /// How many equal ones there are, `NAME/1` and so on; without it one, `NAME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// What is installed. A place has one instance of a package at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<Package>,
    /// What it takes of its place.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub needs: BTreeMap<String, Amount>,
    /// What holds of the attributes of its place.
    #[serde(default, rename = "where", skip_serializing_if = "Option::is_none")]
    pub condition: Option<Expr>,
    /// What must be installed on its place already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub software: Vec<Software>,
    /// Libraries that are installed with it where they are not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends: Vec<Package>,
    /// The places that it may go to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Vec<String>>,
    /// The places that it would best go to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub favourites: Vec<String>,
    /// Whether an instance that is installed already will do.
    #[serde(default, skip_serializing_if = "is_false")]
    pub reuse: bool,
}

/// A package that parts and libraries depend on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Library {
    /// Its identity.
    pub package: Package,
    /// What it takes of a place, once.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub needs: BTreeMap<String, Amount>,
    /// Libraries that it needs in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends: Vec<Package>,
}

/// Two parts that talk to each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Uses {
    /// The part that uses the other.
    pub from: String,
    /// The part that is used.
    pub to: String,
    /// What it costs to have them on two places.
    #[serde(default = "one")]
    pub weight: u64,
}

/// A connection between two places, whose directions share one capacity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Edge {
    /// Unique among edges; without it the ends, joined by `--`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The two places.
    pub ends: [String; 2],
    /// The bandwidth that is free.
    pub capacity: Amount,
    /// How long a message takes, in any unit that all edges and links share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Amount>,
    /// The price of a unit of bandwidth.
    #[serde(default, skip_serializing_if = "Price::is_zero")]
    pub price: Price,
    /// What `where` of links can ask for.
    #[serde(default, skip_serializing_if = "Properties::is_empty")]
    pub attributes: Properties,
}

/// A connection that is asked for between two parts. It has one path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Link {
    /// Unique among links; without it the ends, joined by `--`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The two parts.
    pub ends: [String; 2],
    /// How much of each edge on its path it takes.
    pub bandwidth: Amount,
    /// The most that the latencies of the edges on its path may sum up to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Amount>,
    /// The most edges on its path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops: Option<u32>,
    /// What holds of the attributes of each edge on its path.
    #[serde(default, rename = "where", skip_serializing_if = "Option::is_none")]
    pub condition: Option<Expr>,
}

impl Edge {
    /// Its name, or that which it has by its ends.
    pub fn title(&self) -> String {
        title(self.name.as_deref(), &self.ends)
    }
}

impl Link {
    /// Its name, or that which it has by its ends.
    pub fn title(&self) -> String {
        title(self.name.as_deref(), &self.ends)
    }
}

fn title(name: Option<&str>, [from, to]: &[String; 2]) -> String {
    name.map_or_else(|| format!("{from}--{to}"), str::to_owned)
}

fn one() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Named values of a place or an edge: numbers, flags, texts such as `"linux"` or `"16GiB"`, and lists of
/// them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Properties(BTreeMap<String, Value>);

impl Properties {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// States one, instead of what was stated before.
    pub fn insert(&mut self, name: impl Into<String>, value: Value) {
        self.0.insert(name.into(), value);
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

impl Attributes for Properties {
    fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}

impl Serialize for Properties {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, &Plain(value))?;
        }
        map.end()
    }
}

/// A value as people write it in a file: without the quotes of its literal where it can be.
struct Plain<'a>(&'a Value);

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Flag(flag) => serializer.serialize_bool(*flag),
            Value::Text(text) if Value::read(text) == *self.0 => serializer.serialize_str(text),
            Value::Set(set) => serializer.collect_seq(set.iter().map(Plain)),
            Value::Quantity(quantity) => match quantity.whole() {
                Some(whole) if Value::from(whole) == *self.0 => serializer.serialize_i64(whole),
                Some(_) | None => serializer.collect_str(self.0),
            },
            Value::Text(_) | Value::Version(_) => serializer.collect_str(self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Properties {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map;

        impl<'de> Visitor<'de> for Map {
            type Value = Properties;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a table of attributes")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Properties, A::Error> {
                let mut properties = Properties::default();
                while let Some((name, Read(value))) = map.next_entry::<String, Read>()? {
                    properties.insert(name, value);
                }
                Ok(properties)
            }
        }

        deserializer.deserialize_map(Map)
    }
}

/// A value as people write it in a file.
struct Read(Value);

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ReadVisitor).map(Self)
    }
}

struct ReadVisitor;

impl<'de> Visitor<'de> for ReadVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a flag, a number, a text or a list of them")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Flag(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        i64::try_from(value).map(Value::from).map_err(|_| E::custom("the number is too large"))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        // The digits as they are written, which a decimal of a file is short enough for.
        match Value::parse(&value.to_string()) {
            Ok(Value::Quantity(quantity)) => Ok(Value::Quantity(quantity)),
            Ok(_) | Err(_) => {
                Err(E::custom(format!("{value} is not a decimal number of six places")))
            }
        }
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::read(value))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Read(value)) = seq.next_element()? {
            values.push(value);
        }
        Set::new(values).map(Value::Set).map_err(de::Error::custom)
    }
}
