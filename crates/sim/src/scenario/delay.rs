//! How long something takes: always the same, or drawn again each time.

use std::fmt;

use rand::{Rng, RngExt};
use rand_distr::{Distribution, Normal};
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use tenure_core::model::time::Span;

/// A length of time that may differ from one time to the next; never negative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay(Law);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Law {
    Fixed(Span),
    Uniform { low: Span, high: Span },
    Normal { mean: Span, deviation: Span },
    Measured(Vec<Span>),
}

impl Delay {
    /// No delay.
    pub const ZERO: Self = Self(Law::Fixed(Span::ZERO));

    /// Drawn evenly between two lengths, both included.
    pub(crate) fn uniform(low: Span, high: Span) -> Self {
        Self(Law::Uniform { low, high })
    }

    /// Whether it never takes any time.
    pub fn is_zero(&self) -> bool {
        self.fixed() == Some(Span::ZERO)
    }

    /// The one length it always has, if nothing has to be drawn.
    pub fn fixed(&self) -> Option<Span> {
        match &self.0 {
            Law::Fixed(span) => Some(*span),
            Law::Uniform { low, high } => (low == high).then_some(*low),
            Law::Normal { mean, deviation } => (*deviation == Span::ZERO).then_some(*mean),
            Law::Measured(spans) => spans.iter().all(|span| *span == spans[0]).then(|| spans[0]),
        }
    }

    /// How long it takes this time. Draws nothing when the length is [`fixed`](Self::fixed).
    pub fn sample(&self, rng: &mut impl Rng) -> Span {
        if let Some(span) = self.fixed() {
            return span;
        }
        match &self.0 {
            Law::Fixed(span) => *span,
            Law::Uniform { low, high } => {
                Span::from_micros(rng.random_range(low.as_micros()..=high.as_micros()))
            }
            Law::Normal { mean, deviation } => {
                let (mean, deviation) = (mean.as_micros() as f64, deviation.as_micros() as f64);
                let drawn = Normal::new(mean, deviation).map_or(mean, |law| law.sample(rng));
                Span::from_micros((drawn.round() as i64).max(0))
            }
            Law::Measured(spans) => spans[rng.random_range(0..spans.len())],
        }
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Law::Fixed(span) => span.fmt(f),
            Law::Uniform { low, high } => write!(f, "{low} to {high}"),
            Law::Normal { mean, deviation } => write!(f, "{mean} with a deviation of {deviation}"),
            Law::Measured(spans) => write!(f, "one of {} measured", spans.len()),
        }
    }
}

impl<'de> Deserialize<'de> for Delay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Read)
    }
}

/// A length of time that a delay may have.
struct NotNegative(Span);

impl<'de> Deserialize<'de> for NotNegative {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        not_negative(Span::deserialize(deserializer)?).map(Self)
    }
}

fn not_negative<E: de::Error>(span: Span) -> Result<Span, E> {
    if span < Span::ZERO {
        return Err(E::custom(format_args!("a delay of {span} is negative")));
    }
    Ok(span)
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Family {
    Uniform,
    Normal,
    Measured,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NormalDelay {
    mean: NotNegative,
    deviation: NotNegative,
}

struct Read;

impl<'de> Visitor<'de> for Read {
    type Value = Delay;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a delay: \"30s\", whole seconds, { uniform = [\"10s\", \"60s\"] }, \
             { normal = { mean = \"30s\", deviation = \"5s\" } } or { measured = [\"31s\", ...] }",
        )
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Delay, E> {
        let span = text.parse().map_err(E::custom)?;
        not_negative(span).map(|span| Delay(Law::Fixed(span)))
    }

    fn visit_i64<E: de::Error>(self, secs: i64) -> Result<Delay, E> {
        not_negative(Span::from_secs(secs)).map(|span| Delay(Law::Fixed(span)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Delay, A::Error> {
        let law = match map.next_key()? {
            Some(Family::Uniform) => {
                let (low, high): (NotNegative, NotNegative) = map.next_value()?;
                if low.0 > high.0 {
                    let (low, high) = (low.0, high.0);
                    return Err(de::Error::custom(format_args!(
                        "a uniform delay goes from the shorter to the longer, not {low} to {high}"
                    )));
                }
                Law::Uniform { low: low.0, high: high.0 }
            }
            Some(Family::Normal) => {
                let NormalDelay { mean, deviation } = map.next_value()?;
                Law::Normal { mean: mean.0, deviation: deviation.0 }
            }
            Some(Family::Measured) => {
                let spans: Vec<NotNegative> = map.next_value()?;
                if spans.is_empty() {
                    return Err(de::Error::custom("a table of measured delays must not be empty"));
                }
                Law::Measured(spans.into_iter().map(|span| span.0).collect())
            }
            None => return Err(de::Error::invalid_length(0, &self)),
        };
        if map.next_key::<Family>()?.is_some() {
            return Err(de::Error::custom("a delay is uniform, normal or measured, not several"));
        }
        Ok(Delay(law))
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    #[derive(serde::Deserialize)]
    struct One {
        delay: Delay,
    }

    fn read(text: &str) -> Result<Delay, String> {
        toml::from_str(&format!("delay = {text}"))
            .map(|one: One| one.delay)
            .map_err(|error| error.message().to_owned())
    }

    fn samples(text: &str) -> Vec<Span> {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let delay = read(text).unwrap();
        (0..1000).map(|_| delay.sample(&mut rng)).collect()
    }

    #[test]
    fn a_delay_is_read_in_all_its_forms() {
        for (text, shown) in [
            ("\"30s\"", "30s"),
            ("90", "1m30s"),
            ("{ uniform = [\"10s\", 60] }", "10s to 1m"),
            ("{ normal = { mean = 30, deviation = \"5s\" } }", "30s with a deviation of 5s"),
            ("{ measured = [\"31s\", 29] }", "one of 2 measured"),
        ] {
            assert_eq!(read(text).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_is_no_delay_is_refused() {
        for (text, message) in [
            ("-1", "a delay of -1s is negative"),
            (
                "{ uniform = [60, 10] }",
                "a uniform delay goes from the shorter to the longer, not 1m to 10s",
            ),
            ("{ measured = [] }", "a table of measured delays must not be empty"),
            (
                "{ measured = [1], uniform = [1, 2] }",
                "a delay is uniform, normal or measured, not several",
            ),
            ("{ normal = { mean = 30, deviation = -5 } }", "a delay of -5s is negative"),
            (
                "{ even = [1] }",
                "unknown variant `even`, expected one of `uniform`, `normal`, `measured`",
            ),
        ] {
            assert_eq!(read(text).unwrap_err(), message);
        }
        assert!(read("true").unwrap_err().ends_with("or { measured = [\"31s\", ...] }"));
    }

    #[test]
    fn only_what_varies_is_drawn() {
        assert!(read("0").unwrap().is_zero());
        for fixed in ["30", "{ uniform = [30, 30] }", "{ measured = [30, 30] }"] {
            assert_eq!(read(fixed).unwrap().fixed(), Some(Span::from_secs(30)));
        }
        assert_eq!(read("{ uniform = [1, 2] }").unwrap().fixed(), None);
    }

    #[test]
    fn samples_follow_their_law() {
        let secs = Span::from_secs;
        let uniform = samples("{ uniform = [10, 60] }");
        assert!(uniform.iter().all(|span| (secs(10)..=secs(60)).contains(span)));
        let normal = samples("{ normal = { mean = 2, deviation = 5 } }");
        assert!(normal.iter().all(|span| *span >= Span::ZERO));
        assert!(normal.iter().any(|span| *span > secs(2)));
        let measured = samples("{ measured = [31, 29] }");
        let slow = measured.iter().filter(|span| **span == secs(31)).count();
        assert!((400..600).contains(&slow) && measured.len() == 1000);
    }
}
