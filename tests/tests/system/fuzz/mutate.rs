//! Changes to samples, as many as follow from a seed: of bytes, and of texts by their words.

use tenure_tests::Numbers;

/// Bytes at which encodings of numbers and lengths change their form, and some of text.
const BYTES: &[u8] = &[0, 1, 2, 0x7f, 0x80, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff, b'"', b'\n', b'0'];

/// Numbers of the encodings that are as large as can be, and some that are spelled too long.
const NUMBERS: &[&[u8]] = &[
    &[0xfb, 0xff, 0xff],
    &[0xfb, 1, 0],
    &[0xfc, 0xff, 0xff, 0xff, 0xff],
    &[0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0xfd, 0, 0, 0, 0, 0, 0, 0, 0x80],
];

/// Words that mean something, or are meant to be too much.
const WORDS: &[&str] = &[
    "-1",
    "0",
    "1",
    "255",
    "65536",
    "4294967296",
    "9223372036854775807",
    "18446744073709551616",
    "1e308",
    "-0.0",
    "nan",
    "1e-400",
    "\"",
    "'",
    "\\",
    "\\u0000",
    "\u{0}",
    "\u{feff}",
    "\u{10ffff}",
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    "((((((((((((((((",
    "[[[[[[[[[[[[[[[[",
    "!!!!!!!!!!!!!!!!",
    "not ",
    " and ",
    " or ",
    " in ",
    "==",
    "<=",
    ",",
    ";",
    ":",
    "=",
    ".",
    "..",
    "1..",
    "node",
    "where",
    "null",
    "true",
    "GiB",
    "9999d",
    "-5s",
    "0s",
    "\n",
    "\r\n",
    "\t",
    "#",
];

/// A sample with some changes, spliced with another one now and then.
pub(super) fn mutated(sample: &[u8], other: &[u8], text: bool, numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = sample.to_vec();
    for _ in 0..1 + numbers.below(4) {
        let at = numbers.below(bytes.len() + 1);
        let length = numbers.below(1 + numbers_of(bytes.len() - at));
        match numbers.below(if text { 11 } else { 9 }) {
            0 if at < bytes.len() => bytes[at] ^= 1 << numbers.below(8),
            1 if at < bytes.len() => bytes[at] = *numbers.one_of(BYTES),
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..at + length)),
            4 => {
                let again = bytes[at..at + length].to_vec();
                bytes.splice(at..at, again);
            }
            5 => {
                let from = numbers.below(other.len() + 1);
                bytes.splice(at.., other[from..].iter().copied());
            }
            6 => drop(bytes.splice(at..at, numbers.one_of(NUMBERS).iter().copied())),
            7 => bytes.insert(at, *numbers.one_of(BYTES)),
            8 if at < bytes.len() => {
                bytes[at] = bytes[at].wrapping_add(1 + (numbers.draw() % 255) as u8)
            }
            9 => drop(bytes.splice(at..at, numbers.one_of(WORDS).bytes())),
            10 => replace_word(&mut bytes, at, numbers),
            _ => {}
        }
    }
    bytes
}

/// How long a piece may be: short ones more often.
fn numbers_of(left: usize) -> usize {
    left.min(64)
}

/// Puts another word in the place of the one at a position, or a word of the same text.
fn replace_word(bytes: &mut Vec<u8>, at: usize, numbers: &mut Numbers) {
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    let start =
        bytes[..at].iter().rposition(|byte| !is_of_word(byte)).map_or(0, |before| before + 1);
    let end = bytes[at..]
        .iter()
        .position(|byte| !is_of_word(byte))
        .map_or(bytes.len(), |after| at + after);
    let words: Vec<&[u8]> =
        bytes.split(|byte| !is_of_word(byte)).filter(|word| !word.is_empty()).collect();
    let word = match numbers.below(2) {
        0 if !words.is_empty() => numbers.one_of(&words).to_vec(),
        _ => numbers.one_of(WORDS).as_bytes().to_vec(),
    };
    bytes.splice(start..end, word);
}
