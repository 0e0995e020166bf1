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

#[cfg(test)]
mod tests {
    use super::*;

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
