//! Identities of packages, and what is asked of installed software.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What serde and messages need of a type that is read from a text and keeps it.
macro_rules! written_as_text {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.text
            }
        }
    };
}

/// The identity of a package: `CLASS/NAME/VERSION/PACKAGE/PACKAGE-VERSION`.
///
/// Versions are compared component by component, so `1.00.00` and `1.0.0` are the same.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Package {
    text: String,
    names: [String; 3],
    versions: [Version; 2],
}

impl Package {
    fn key(&self) -> (&[String; 3], &[Version; 2]) {
        (&self.names, &self.versions)
    }

    /// The identity as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialEq for Package {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Package {}

impl PartialOrd for Package {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Package {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl FromStr for Package {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let [class, name, version, package, package_version] = components(text)?;
        Ok(Self {
            text: text.to_owned(),
            names: [class, name, package].map(str::to_owned),
            versions: [Version::parse(version)?, Version::parse(package_version)?],
        })
    }
}

written_as_text!(Package);

fn components(text: &str) -> Result<[&str; 5], String> {
    let parts: Vec<&str> = text.split('/').collect();
    let parts: Result<[&str; 5], _> = parts.try_into();
    match parts {
        Ok(parts) if parts.iter().all(|part| !part.is_empty()) => Ok(parts),
        Ok(_) | Err(_) => {
            Err(format!("`{text}` is not a package: CLASS/NAME/VERSION/PACKAGE/PACKAGE-VERSION"))
        }
    }
}

/// A dotted version of any length; missing components are 0.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version(Vec<u64>);

impl Version {
    fn parse(text: &str) -> Result<Self, String> {
        let components: Result<Vec<u64>, _> = text.split('.').map(str::parse).collect();
        let mut components =
            components.map_err(|_| format!("`{text}` is not a dotted version such as 1.2.0"))?;
        while components.last() == Some(&0) {
            components.pop();
        }
        Ok(Self(components))
    }
}

/// Software that must be installed on a place already: a package, each of whose versions may be `*` or
/// begin with `=` or `>=`.
///
/// ```
/// use tenure_plan::{Package, Software};
///
/// let software: Software = "lib/tls/>=1.2/main/*".parse()?;
/// assert!(software.is_met_by(&"lib/tls/1.10.0/main/3.0".parse::<Package>()?));
/// assert!(!software.is_met_by(&"lib/tls/1.1.9/main/3.0".parse::<Package>()?));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Software {
    text: String,
    names: [String; 3],
    versions: [VersionRule; 2],
}

impl Software {
    /// Whether an installed package is what is asked for.
    pub fn is_met_by(&self, package: &Package) -> bool {
        let mut pairs = self.versions.iter().zip(&package.versions);
        self.names == package.names && pairs.all(|(rule, version)| rule.allows(version))
    }
}

impl PartialEq for Software {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Software {}

impl FromStr for Software {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let [class, name, version, package, package_version] = components(text)?;
        Ok(Self {
            text: text.to_owned(),
            names: [class, name, package].map(str::to_owned),
            versions: [VersionRule::parse(version)?, VersionRule::parse(package_version)?],
        })
    }
}

written_as_text!(Software);

#[derive(Clone, Debug)]
enum VersionRule {
    Any,
    Exactly(Version),
    AtLeast(Version),
}

impl VersionRule {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Any);
        }
        match text.strip_prefix(">=") {
            Some(version) => Version::parse(version).map(Self::AtLeast),
            None => Version::parse(text.strip_prefix('=').unwrap_or(text)).map(Self::Exactly),
        }
    }

    fn allows(&self, version: &Version) -> bool {
        match self {
            Self::Any => true,
            Self::Exactly(wanted) => version == wanted,
            Self::AtLeast(wanted) => version >= wanted,
        }
    }
}
