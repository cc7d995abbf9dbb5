//! Which requests that another broker passes on are taken, as it is written.

use serde::Deserialize;
use tenure_core::broker::forwarding::Accepted;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;

/// `true` for all, `false` for none, or a table such as `{ types = ["node"], longest = "2h" }`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "`true`, `false`, or a table of `types` and `longest`")]
pub enum RawAccepted {
    /// All or none.
    Whether(bool),
    /// Some.
    Some {
        /// For units of these types alone.
        #[serde(default)]
        types: Vec<Name>,
        /// For terms no longer than this.
        longest: Option<Span>,
    },
}

impl RawAccepted {
    /// What is taken, if anything is.
    pub fn accepted(self) -> Option<Accepted> {
        match self {
            Self::Whether(whether) => whether.then(Accepted::default),
            Self::Some { types, longest } => {
                Some(Accepted { types: types.into_iter().collect(), longest })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct File {
        accept: RawAccepted,
    }

    fn read(text: &str) -> Result<Option<Accepted>, String> {
        let file: Result<File, _> = toml::from_str(text);
        file.map(|file| file.accept.accepted()).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn what_is_taken_is_all_nothing_or_some() {
        assert_eq!(read("accept = true"), Ok(Some(Accepted::default())));
        assert_eq!(read("accept = false"), Ok(None));
        let some =
            Accepted { types: [Name::literal("node")].into(), longest: Some(Span::HOUR.times(2)) };
        assert_eq!(read("accept = { types = ['node'], longest = '2h' }"), Ok(Some(some)));
        assert!(read("accept = 'all'").unwrap_err().contains("`true`, `false`, or a table"));
    }
}
