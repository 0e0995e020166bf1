//! Passwords that the syntax around them gives away, and phrases that hold the key of a wallet.

use std::collections::HashMap;
use std::sync::LazyLock;

use sha2::Digest;
use sha2::Sha256;

use crate::scan::check::rarity;
use crate::scan::check::shape;

/// The fewest bytes of a password worth keeping.
const PASSWORD_BYTES_MIN: usize = 6;

/// How many bits a word of a phrase stands for (BIP-39).
const WORD_BITS: usize = 11;

/// The 2048 English words of BIP-39, one a line, in the order of the standard.
const WORDS: &str = include_str!("password/bip39_english.txt");

/// By word: its place.
static PLACES: LazyLock<HashMap<&str, u16>> = LazyLock::new(|| WORDS.lines().zip(0..).collect());

/// Tells whether `value` is a password someone would want to keep: no example, no mask, no word of manuals.
pub fn kept(value: &[u8]) -> bool {
    value.len() >= PASSWORD_BYTES_MIN
        && !shape::is_common_password(value)
        && (!shape::says_password(value) || shape::is_embellished(value))
        && shape::not_placeholder(value)
        && !value.windows(2).any(|pair| pair == b"->" || pair == b"::")
        && !matches!(value.first(), Some(b'$' | b'%' | b'{' | b'[' | b'<' | b'('))
}

/// Tells whether `value` is a password of three classes, or as random as what a machine draws.
pub fn strong_or_rare(value: &[u8]) -> bool {
    shape::strong_password(value) || rarity::rare(value)
}

/// Tells whether `value` is 12, 15, 18, 21 or 24 words of BIP-39 with the right checksum.
pub fn bip39(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else { return false };
    let words: Option<Vec<u16>> = words(text).map(|word| PLACES.get(word.as_str()).copied()).collect();
    words.is_some_and(|places| is_checked(&places))
}

/// Returns a phrase of as many words as `value` has, with the right checksum.
pub fn repair_bip39(value: &[u8]) -> Option<Vec<u8>> {
    let count = words(std::str::from_utf8(value).ok()?).count().clamp(12, 24) / 3 * 3;
    let list: Vec<&str> = WORDS.lines().collect();
    let drawn = [Sha256::digest(value), Sha256::digest([value, b"2"].concat())].concat();
    let mut places: Vec<u16> =
        drawn.chunks(2).take(count).map(|pair| u16::from_be_bytes([pair[0], pair[1]]) & 0x7ff).collect();
    let last = (0..0x800).find(|last| {
        if let Some(place) = places.last_mut() {
            *place = *last;
        }
        is_checked(&places)
    })?;
    *places.last_mut()? = last;
    let words: Option<Vec<&str>> =
        places.iter().map(|place| list.get(usize::from(*place)).copied()).collect();
    Some(words?.join(" ").into_bytes())
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|sign: char| !sign.is_ascii_alphabetic())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
}

/// Tells whether the bits behind the entropy of a phrase are the first of its SHA-256.
fn is_checked(places: &[u16]) -> bool {
    if !matches!(places.len(), 12 | 15 | 18 | 21 | 24) {
        return false;
    }
    let mut bits = places.iter().flat_map(|place| (0..WORD_BITS).rev().map(move |bit| place >> bit & 1 == 1));
    let check_bits = places.len() / 3;
    let entropy_bytes = (places.len() * WORD_BITS - check_bits) / 8;
    let mut take = |count: usize| bits.by_ref().take(count).fold(0_u8, |byte, bit| byte << 1 | u8::from(bit));
    let entropy: Vec<u8> = (0..entropy_bytes).map(|_| take(8)).collect();
    let check = take(check_bits);
    Sha256::digest(&entropy).first().is_some_and(|first| first >> (8 - check_bits) == check)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phrase_is_checked() {
        let phrase = format!("{}about", "abandon ".repeat(11));
        assert!(bip39(phrase.as_bytes()), "a test vector of the standard");
        assert!(!bip39("abandon ".repeat(12).trim().as_bytes()));
        assert!(bip39(
            &repair_bip39(b"one two three four five six seven eight nine ten eleven twelve").unwrap()
        ));
        assert_eq!(PLACES.len(), 2048);
    }

    #[test]
    fn a_password_is_worth_keeping() {
        for (value, expected) in [
            ("qX7vmZ2k9", true),
            ("correcthorse", true),
            ("password1", false),
            ("$PASSWORD", false),
            ("changeme", false),
            ("self->pass", false),
        ] {
            assert_eq!(kept(value.as_bytes()), expected, "{value}");
        }
    }
}
