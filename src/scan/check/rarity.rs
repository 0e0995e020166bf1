//! How rare a value is: whether its letters follow one another as in words and identifiers, or as dice fall.
//!
//! Entropy cannot tell `getMapPosFromGpsPos` from a key; the pairs of neighbouring characters can. The table says
//! for each pair how much likelier it is in text and code than in a random value; `rarity/train.py` makes it.
//! What has no words to be made of, such as a row of digits, counts as ordinary.

/// Eight times the binary logarithm of how much likelier a pair is in words than in random values.
const PAIRS: &[u8] = include_bytes!("rarity/bigrams.bin");

/// The unit of the table: so many steps make one bit.
const STEPS_PER_BIT: i32 = 8;

/// Kinds of characters the table knows: letters, digits, `_-./`, any other, and the edge of a word.
const SYMBOLS: usize = 68;

/// The shortest value that is judged, in bytes.
const BYTES_MIN: usize = 8;

/// From this length on, in bytes, less is asked of each pair.
const LONG_BYTES: usize = 16;

/// The mean bits a pair that a long value has at most: one identifier in two thousand has as few.
const LONG_BITS_MAX: f32 = -0.45;

/// The same for a short value, in which chance weighs more.
const SHORT_BITS_MAX: f32 = -1.2;

/// Tells whether `value` is as random as what a machine draws.
pub fn rare(value: &[u8]) -> bool {
    value.len() >= BYTES_MIN
        && bits(value) <= if value.len() >= LONG_BYTES { LONG_BITS_MAX } else { SHORT_BITS_MAX }
}

/// Tells whether `value` is long, and as random as a short one has to be: no identifier of 7,592 of twenty letters and
/// more is, and 99 of 100 random values in both cases are.
pub fn drawn(value: &[u8]) -> bool {
    value.len() >= LONG_BYTES && bits(value) <= SHORT_BITS_MAX
}

/// Returns the mean bits by which the pairs of `value` speak for words; below zero they speak for chance.
pub fn bits(value: &[u8]) -> f32 {
    let pairs = value.len().saturating_sub(1).max(1);
    let sum: i32 = value.windows(2).map(|pair| i32::from(steps(pair[0], pair[1]))).sum();
    sum as f32 / (STEPS_PER_BIT as f32 * pairs as f32)
}

fn steps(before: u8, after: u8) -> i8 {
    PAIRS.get(symbol(before) * SYMBOLS + symbol(after)).map_or(0, |cell| *cell as i8)
}

fn symbol(byte: u8) -> usize {
    let place = match byte {
        b'a'..=b'z' => byte - b'a',
        b'A'..=b'Z' => byte - b'A' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'_' => 62,
        b'-' => 63,
        b'.' => 64,
        b'/' => 65,
        _ => 66,
    };
    usize::from(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_identifiers_are_ordinary() {
        for value in [
            "get_password_hash_from_settings",
            "com.example.service.AuthenticationToken",
            "getMapPosFromGpsPosition",
            "correct-horse-battery-staple",
            "CLOUDFLARE_ACCESS_KEY_ID",
            "node_modules/@scope/package",
            "1234567890123456",
            "20250314T092653",
        ] {
            assert!(!rare(value.as_bytes()), "{value} {}", bits(value.as_bytes()));
        }
    }

    #[test]
    fn drawn_values_are_rare() {
        for value in [
            "q7Xw2ZpL9vKc4RtB",
            "zk3v9q0x7hj2m5pw8r1t",
            "HvQzXjKwPbRtYcLdNfGs",
            "9f8Q-x2L_z0Wk7Yb3Rj6Tn1Mv5Hp",
        ] {
            assert!(rare(value.as_bytes()), "{value} {}", bits(value.as_bytes()));
        }
    }

    #[test]
    fn letters_alone_may_be_drawn() {
        for value in ["hfCnuVcYOgiRjlDEmAoRbN", "DZbwDHYjSEeVJNeDcCuJRxqanONwLDpQttSNjISw"] {
            assert!(drawn(value.as_bytes()), "{value} {}", bits(value.as_bytes()));
        }
        for value in
            ["xmlSecKeysMngrGetKeyFromFile", "PFNGLDRAWBUFFERSNVPROC", "FXgafvValueValuesEnum", "hfCnuVcYOgi"]
        {
            assert!(!drawn(value.as_bytes()), "{value} {}", bits(value.as_bytes()));
        }
    }

    #[test]
    fn the_table_is_whole() {
        assert_eq!(PAIRS.len(), SYMBOLS * SYMBOLS);
    }
}
