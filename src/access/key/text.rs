//! How a key is written: `pk_`, 32 random bytes in base 62, a checksum.

use std::fmt;

use serde::Deserialize;
use serde::Serialize;

const PREFIX: &str = "pk_";
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const BODY_DIGITS: usize = 43;
const CHECKSUM_DIGITS: usize = 6;

/// Which text of a key is meant, by its keyed hash: what was begun with a text ends when the text does.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyText(pub(super) [u8; 32]);

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyText(***)")
    }
}

/// Returns a new key.
pub(super) fn generate() -> String {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    let body = base62(&bytes, BODY_DIGITS);
    format!("{PREFIX}{body}{}", checksum(&body))
}

/// Tells whether a text is written as a key is, its checksum included.
pub(super) fn is_well_formed(key: &str) -> bool {
    let Some(rest) = key.strip_prefix(PREFIX) else { return false };
    let Some((body, sum)) = rest.split_at_checked(BODY_DIGITS) else { return false };
    sum.len() == CHECKSUM_DIGITS && checksum(body) == sum
}

/// Tells whether a text holds what is written as a key is, wherever it stands.
pub(super) fn holds_well_formed(text: &str) -> bool {
    let digits = PREFIX.len() + BODY_DIGITS + CHECKSUM_DIGITS;
    text.match_indices(PREFIX).any(|(at, _)| text.get(at..at + digits).is_some_and(is_well_formed))
}

/// Writes bytes, read as one big-endian number, in a fixed count of digits.
fn base62(bytes: &[u8], digits: usize) -> String {
    let mut number = bytes.to_vec();
    let mut written = vec![b'0'; digits];
    for digit in written.iter_mut().rev() {
        let mut remainder = 0u32;
        for byte in &mut number {
            let value = remainder << 8 | u32::from(*byte);
            *byte = (value / 62) as u8;
            remainder = value % 62;
        }
        *digit = BASE62[remainder as usize];
    }
    String::from_utf8(written).expect("the digits are ASCII")
}

fn checksum(body: &str) -> String {
    base62(&crc32fast::hash(body.as_bytes()).to_be_bytes(), CHECKSUM_DIGITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_key_is_known_by_its_checksum() {
        let key = generate();
        assert!(is_well_formed(&key) && key.len() == 52);
        let mut typo = key.clone().into_bytes();
        typo[10] = if typo[10] == b'x' { b'y' } else { b'x' };
        assert!(!is_well_formed(std::str::from_utf8(&typo).unwrap()));
        assert!(!is_well_formed("pk_") && !is_well_formed("sk_abc") && !is_well_formed("pk_\u{e9}"));
    }
}
