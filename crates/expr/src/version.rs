//! Dotted versions.

use std::fmt;

/// A dotted version such as `1.20.3`, compared component by component; missing ones are 0, so `v1.2` is
/// `v1.2.0`.
///
/// It is written with a leading `v`, which may be left out where there are three components or more.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(Vec<u32>);

impl Version {
    /// The most components of a version.
    pub const MAX_COMPONENTS: usize = 8;

    /// The version with these components; none if there are none, or more than
    /// [`MAX_COMPONENTS`](Self::MAX_COMPONENTS).
    pub fn new(components: impl Into<Vec<u32>>) -> Option<Self> {
        let mut components = components.into();
        if components.is_empty() || components.len() > Self::MAX_COMPONENTS {
            return None;
        }
        // One spelling for equal versions, so that the order of components is the order of versions.
        components.resize(components.len().max(2), 0);
        while components.len() > 2 && components.last() == Some(&0) {
            components.pop();
        }
        Some(Self(components))
    }

    /// The components, without zeros at the end, but at least two.
    pub fn components(&self) -> &[u32] {
        &self.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        write!(f, "v{}", parts.join("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_component() {
        let version = |components: &[u32]| Version::new(components).unwrap();
        assert!(version(&[1, 9]) < version(&[1, 20]));
        assert!(version(&[1, 20]) < version(&[1, 20, 1]));
        assert_eq!(version(&[1]), version(&[1, 0, 0]));
        assert_eq!(version(&[1, 20, 0]).to_string(), "v1.20");
        assert_eq!(Version::new([]), None);
        assert_eq!(Version::new([1; 9]), None);
    }
}
