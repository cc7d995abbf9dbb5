//! What a broker shares with another one, as it is written.

use serde::Deserialize;
use tenure_core::broker::sharing::Sharing;
use tenure_core::model::time::Span;

/// A table such as `{ units = "all", reserve = 2, notice = "10m", term = "1h" }`; what is left out is as in
/// [`Sharing::default`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub struct RawSharing(pub Sharing);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    units: Units,
    reserve: Option<u32>,
    notice: Option<Span>,
    term: Option<Span>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Units {
    Most(u32),
    Word(String),
}

impl Default for Units {
    fn default() -> Self {
        Self::Word(ALL.to_owned())
    }
}

/// Stands for any number of units.
pub const ALL: &str = "all";

impl TryFrom<Written> for RawSharing {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let units = match written.units {
            Units::Most(units) => Some(units),
            Units::Word(word) if word == ALL => None,
            Units::Word(word) => {
                return Err(format!("`{}` is no number of units, nor `all`", word.escape_debug()));
            }
        };
        let usual = Sharing::default();
        let sharing = Sharing {
            units,
            reserve: written.reserve.unwrap_or(usual.reserve),
            notice: written.notice.unwrap_or(usual.notice),
            term: written.term.unwrap_or(usual.term),
        };
        sharing.check()?;
        Ok(Self(sharing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Sharing, String> {
        let read: Result<RawSharing, _> = toml::from_str(text);
        read.map(|raw| raw.0).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn what_is_left_out_is_as_usual() {
        assert_eq!(read(""), Ok(Sharing::default()));
        assert_eq!(read("units = 'all'"), Ok(Sharing::default()));
        let some = Sharing {
            units: Some(4),
            reserve: 2,
            notice: Span::from_secs(60),
            term: Span::from_secs(7200),
        };
        assert_eq!(read("units = 4\nreserve = 2\nnotice = '1m'\nterm = '2h'"), Ok(some));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert_eq!(read("units = 'some'").unwrap_err(), "`some` is no number of units, nor `all`");
        assert_eq!(read("term = '1s'").unwrap_err(), "units are lent for 1m at least");
        assert!(read("units = -1").is_err());
        assert!(read("unit = 1").unwrap_err().contains("unknown field `unit`"));
    }
}
