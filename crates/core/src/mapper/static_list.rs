//! `static`: a list of requests, each made at its time.

use std::fmt;
use std::num::NonZeroU32;

use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::actor::fact::Memo;
use crate::model::codec;
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::resource::Expr;
use crate::model::time::{Span, Time};
use crate::service_manager::group::Handling;
use crate::service_manager::mapper::{Ask, Decision, ServiceManagerMapper, View};
use crate::wire::offer::Reply;
use crate::wire::proviso::Provisos;
use crate::wire::request::Item;

/// Makes the listed requests, and nothing else; without a list it leaves the asking to users. What was asked for is remembered in the memo, so no
/// request is made twice.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, from = "Settings")]
pub struct StaticList {
    /// By the time they are made.
    requests: Vec<Listed>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    #[serde(default)]
    requests: Vec<Listed>,
}

impl From<Settings> for StaticList {
    fn from(Settings { mut requests }: Settings) -> Self {
        requests.sort_by_key(|listed| listed.at);
        Self { requests }
    }
}

/// One request of the list.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Listed {
    /// When it is made, from the origin of the clock.
    #[serde(default)]
    at: Time,
    /// The earliest start; when it is made unless set.
    start: Option<Time>,
    /// How much later than that it may start.
    #[serde(default)]
    slack: Span,
    /// For how long.
    duration: Span,
    /// How many units; as a range also how few would do.
    units: Units,
    #[serde(default = "super::node")]
    resource: Name,
    /// What must hold of the attributes of the type.
    #[serde(default, rename = "where", deserialize_with = "condition")]
    condition: Option<Expr>,
    /// What else it asks for, for the same term.
    #[serde(default)]
    with: Vec<Further>,
    #[serde(default = "super::main_slice")]
    slice: Name,
    /// For the broker's mapper.
    #[serde(default)]
    properties: Properties,
    /// For the site's driver.
    #[serde(default, deserialize_with = "super::configuration")]
    configuration: Properties,
}

/// A further item of a request.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Further {
    units: Units,
    #[serde(default = "super::node")]
    resource: Name,
    #[serde(default, rename = "where", deserialize_with = "condition")]
    condition: Option<Expr>,
}

/// How many units are wanted: `4`, or `"2..4"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Units {
    min: NonZeroU32,
    max: NonZeroU32,
}

impl Units {
    fn read(text: &str) -> Option<Self> {
        let (min, max) = text.split_once("..").unwrap_or((text, text));
        let units = Self { min: min.parse().ok()?, max: max.parse().ok()? };
        (units.min <= units.max).then_some(units)
    }
}

impl<'de> Deserialize<'de> for Units {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrRange;

        impl Visitor<'_> for NumberOrRange {
            type Value = Units;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of units of at least 1, or a range such as \"2..4\"")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Units, E> {
                let wrong = || E::invalid_value(Unexpected::Signed(number), &self);
                Units::read(&number.to_string()).ok_or_else(wrong)
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Units, E> {
                let wrong = || E::invalid_value(Unexpected::Unsigned(number), &self);
                Units::read(&number.to_string()).ok_or_else(wrong)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Units, E> {
                let wrong = || E::invalid_value(Unexpected::Str(text), &self);
                Units::read(text).ok_or_else(wrong)
            }
        }

        deserializer.deserialize_any(NumberOrRange)
    }
}

/// Reads the condition of a request.
fn condition<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Expr>, D::Error> {
    let source = String::deserialize(deserializer)?;
    let bad = |error| de::Error::custom(format!("in the expression '{source}': {error}"));
    Expr::parse_condition(&source).map(Some).map_err(bad)
}

/// How many of the requests were made.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Made(usize);

impl Listed {
    fn ask(&self, now: Time) -> Ask {
        let earliest = self.start.unwrap_or(now);
        let latest = earliest.plus(self.slack);
        let mut items = vec![item(self.units, &self.resource, self.condition.as_ref())];
        let further = self.with.iter();
        items.extend(further.map(|with| item(with.units, &with.resource, with.condition.as_ref())));
        Ask {
            broker: None,
            slice: self.slice.clone(),
            items,
            earliest,
            latest,
            duration: self.duration,
            min_duration: self.duration,
            provisos: Provisos::NONE,
            again: None,
            reply: Reply::Grant,
            answer_by: latest.plus(Span::from_micros(self.duration.as_micros() / 2)),
            properties: self.properties.clone(),
            configuration: self.configuration.clone(),
            reason: "listed".to_owned(),
            handling: Handling::default(),
        }
    }
}

fn item(units: Units, resource: &Name, condition: Option<&Expr>) -> Item {
    Item {
        min_units: units.min,
        requirements: condition.into_iter().cloned().collect(),
        ..Item::new(resource.clone(), units.max)
    }
}

impl ServiceManagerMapper for StaticList {
    fn decide(&self, view: &View) -> Decision {
        let Made(made) = codec::decode(&view.memo().0).unwrap_or_default();
        let waiting = self.requests.get(made..).unwrap_or_default();
        let due = waiting.iter().take_while(|listed| listed.at <= view.now()).count();
        let asks = waiting[..due].iter().map(|listed| listed.ask(view.now())).collect();
        Decision {
            round: view.round(),
            asks,
            memo: Some(Memo(codec::encode(&Made(made + due)))),
            wake: waiting.get(due).map(|listed| listed.at),
            ..Decision::default()
        }
    }
}
