//! What settings say of nodes.

use serde::Deserialize;

use super::super::command::plain_word;

/// The name of a node in `slurm.conf`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct NodeName(pub(super) String);

impl TryFrom<String> for NodeName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        match plain_word(&name) {
            Some(_) => Ok(Self(name)),
            None => Err(format!("`{name}` is no name of a node: list each by its own")),
        }
    }
}

/// What a created node is like, as in a line of `slurm.conf`: `CPUs=2 RealMemory=512`.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct NodeWords(pub(super) Vec<String>);

impl TryFrom<String> for NodeWords {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        for word in &words {
            let (key, _) =
                word.split_once('=').ok_or_else(|| format!("`{word}` is no KEY=VALUE"))?;
            let ours = ["nodename", "nodeaddr", "nodehostname", "state", "comment", "reason"];
            if ours.contains(&key.to_ascii_lowercase().as_str()) {
                return Err(format!("`{key}` follows from the unit"));
            }
        }
        Ok(Self(words))
    }
}

impl NodeWords {
    /// How many processors it has, if that is said.
    pub(super) fn cpus(&self) -> Option<u64> {
        let cpus = self.0.iter().filter_map(|word| word.split_once('='));
        let mut cpus = cpus.filter(|(key, _)| key.eq_ignore_ascii_case("cpus"));
        cpus.next()?.1.parse().ok()
    }
}
