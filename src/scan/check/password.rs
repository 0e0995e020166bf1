//! Passwords that the syntax around them gives away.

use crate::scan::check::rarity;
use crate::scan::check::shape;

/// The fewest bytes of a password worth keeping.
const PASSWORD_BYTES_MIN: usize = 6;

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

/// Of the pairs of neighbours in a jumbled password so many in a hundred are of two kinds at least: in words and in code
/// letters stand beside letters, a drawn one changes its kind at three pairs of four.
const JUMBLED_PERCENT_MIN: usize = 60;

/// Tells whether `value` has two small letters, two capitals and a sign at least, changes from one kind to another all
/// along, and is no placeholder but for its angles.
pub fn jumbled(value: &[u8]) -> bool {
    let kind = |byte: u8| match byte {
        b'a'..=b'z' => 0,
        b'A'..=b'Z' => 1,
        b'0'..=b'9' => 2,
        _ => 3,
    };
    let count = |wanted: usize| value.iter().filter(|byte| kind(**byte) == wanted).count();
    let without_angles: Vec<u8> = value.iter().copied().filter(|byte| !matches!(byte, b'<' | b'>')).collect();
    let changes = value.windows(2).filter(|pair| kind(pair[0]) != kind(pair[1])).count();
    count(0) >= 2
        && count(1) >= 2
        && count(3) >= 1
        && changes * 100 >= value.len().saturating_sub(1) * JUMBLED_PERCENT_MIN
        && shape::not_placeholder(&without_angles)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_of_all_signs_is_jumbled() {
        for value in
            ["s]vBBb@#D)vpbVP2", "Tj]YJ>zYp-)*uUH2", "DXpkD%JgFNl.yU", "h8MXq<JyPviZ", "QRVaU^5PxRQ6"]
        {
            assert!(jumbled(value.as_bytes()), "{value}");
        }
        for value in [
            "Enter(your,password)",
            "config.get('API_KEY')",
            "MyApp/Secret-Name",
            "%s(%d)",
            "abcDEFghij",
            "test-api-key-YjH2c2T2",
            "",
        ] {
            assert!(!jumbled(value.as_bytes()), "{value}");
        }
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
