//! One signature for many messages.
//!
//! What leaves an actor together is signed together: the hashes of the messages are the leaves of a binary
//! tree, and the signature is on its root (Merkle, *A Digital Signature Based on a Conventional Encryption
//! Function*, CRYPTO 1987). Each message carries the signature with the hashes that lead from it to the
//! root, so it stands alone as one that was signed alone does, and anyone who gets several of them checks one
//! signature.

use serde::{Deserialize, Serialize};

use crate::model::codec::Hash;

/// The longest path: far more messages than ever leave together.
const MAX_DEPTH: usize = 16;

/// The most messages under one signature.
pub const MAX_LEAVES: usize = 1 << MAX_DEPTH;

/// The hashes that lead from a message to the root, from the bottom up. Empty for one that was signed alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Sibling>", into = "Vec<Sibling>")]
pub struct Path(Vec<Sibling>);

/// What stands beside the way up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Sibling {
    /// It stands on the left.
    Left(Hash),
    /// It stands on the right.
    Right(Hash),
}

fn leaf(bytes: &[u8]) -> Hash {
    Hash::of("tenure batch leaf v1", &[bytes])
}

fn node(left: Hash, right: Hash) -> Hash {
    Hash::of("tenure batch node v1", &[&left.to_bytes(), &right.to_bytes()])
}

impl TryFrom<Vec<Sibling>> for Path {
    type Error = String;

    fn try_from(siblings: Vec<Sibling>) -> Result<Self, String> {
        if siblings.len() > MAX_DEPTH {
            return Err(format!("a path of {} hashes, more than {MAX_DEPTH}", siblings.len()));
        }
        Ok(Self(siblings))
    }
}

impl From<Path> for Vec<Sibling> {
    fn from(path: Path) -> Self {
        path.0
    }
}

impl Path {
    /// Whether the message was signed alone.
    pub fn is_alone(&self) -> bool {
        self.0.is_empty()
    }

    /// The root that it leads to from the message with these bytes.
    pub fn root(&self, bytes: &[u8]) -> Hash {
        let up = |below, sibling: &Sibling| match *sibling {
            Sibling::Left(left) => node(left, below),
            Sibling::Right(right) => node(below, right),
        };
        self.0.iter().fold(leaf(bytes), up)
    }
}

/// The root over messages with these bytes, and for each the path to it.
///
/// # Panics
/// If there are none, or more than [`MAX_LEAVES`].
pub fn tree(messages: &[Vec<u8>]) -> (Hash, Vec<Path>) {
    assert!((1..=MAX_LEAVES).contains(&messages.len()), "a batch of {}", messages.len());
    let mut level: Vec<Hash> = messages.iter().map(|bytes| leaf(bytes)).collect();
    let mut paths = vec![Path::default(); messages.len()];
    let mut height = 0;
    while level.len() > 1 {
        for (place, path) in paths.iter_mut().enumerate() {
            let place = place >> height;
            // A node without a right sibling moves up unchanged.
            if let Some(&sibling) = level.get(place ^ 1) {
                let left = place & 1 == 1;
                path.0.push(if left { Sibling::Left(sibling) } else { Sibling::Right(sibling) });
            }
        }
        let pair = |pair: &[Hash]| match *pair {
            [left, right] => node(left, right),
            _ => pair[0],
        };
        level = level.chunks(2).map(pair).collect();
        height += 1;
    }
    (level[0], paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::codec;

    fn messages(count: usize) -> Vec<Vec<u8>> {
        (0..count).map(|number| format!("message {number}").into_bytes()).collect()
    }

    #[test]
    fn each_path_leads_from_its_message_to_the_root_and_from_no_other() {
        for count in 1..=70 {
            let messages = messages(count);
            let (root, paths) = tree(&messages);
            for (place, path) in paths.iter().enumerate() {
                for (other, bytes) in messages.iter().enumerate() {
                    assert_eq!(path.root(bytes) == root, other == place, "{other} of {count}");
                }
            }
        }
    }

    #[test]
    fn a_root_stands_for_its_messages_in_their_order_and_number() {
        let (root, _) = tree(&messages(5));
        assert_ne!(tree(&messages(6)).0, root);
        assert_ne!(tree(&messages(4)).0, root);
        let mut swapped = messages(5);
        swapped.swap(1, 3);
        assert_ne!(tree(&swapped).0, root);
        let mut doubled = messages(5);
        doubled.push(doubled[4].clone());
        assert_ne!(tree(&doubled).0, root);
    }

    #[test]
    fn a_node_cannot_be_shown_as_a_message() {
        let messages = messages(4);
        let (root, paths) = tree(&messages);
        let [_, up @ ..] = paths[0].0.as_slice() else { panic!("four leaves are two levels") };
        let inside = [leaf(&messages[0]).to_bytes(), leaf(&messages[1]).to_bytes()].concat();
        assert_ne!(Path(up.to_vec()).root(&inside), root);
    }

    #[test]
    fn a_path_that_is_longer_than_any_can_be_is_not_read() {
        let path = |length| codec::encode(&vec![Sibling::Left(leaf(b"")); length]);
        assert!(codec::decode::<Path>(&path(MAX_DEPTH)).is_ok());
        assert!(codec::decode::<Path>(&path(MAX_DEPTH + 1)).is_err());
    }
}
