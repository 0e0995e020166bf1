//! The checksum algorithms that many identifiers share.
//!
//! Functions take digit values (0 to 9) unless they say otherwise, check digit included.

use super::varied;

/// Fewest digits a Luhn number has.
const LUHN_DIGITS_MIN: usize = 2;

/// Most digits a Luhn number has: ISO/IEC 7812 stops at 19, ICCIDs at 20.
const LUHN_DIGITS_MAX: usize = 20;

/// Tells whether `value` satisfies the Luhn formula (ISO/IEC 7812-1 annex B).
pub fn luhn(value: &[u8]) -> bool {
    let mut found = [0; LUHN_DIGITS_MAX];
    let mut length = 0;
    for &byte in value {
        match byte {
            b'0'..=b'9' => match found.get_mut(length) {
                Some(place) => {
                    *place = byte - b'0';
                    length += 1;
                }
                None => return false,
            },
            b' ' | b'-' | b'.' | b'/' => {}
            _ => return false,
        }
    }
    let digits = found.get(..length).unwrap_or_default();
    length >= LUHN_DIGITS_MIN && varied(digits) && luhn_sum(digits).is_multiple_of(10)
}

/// Returns the Luhn sum of `digits`, the last of which is the check digit.
pub(super) fn luhn_sum(digits: &[u8]) -> u32 {
    digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, &digit)| match u32::from(digit) << (place % 2) {
            doubled @ 10.. => doubled - 9,
            plain => plain,
        })
        .sum()
}

/// Returns the remainder by 97 of ASCII letters (A = 10 … Z = 35) and digits, read as one number.
pub(super) fn mod_97(ascii: impl Iterator<Item = u8>) -> u32 {
    ascii.fold(0, |rest, byte| match byte {
        b'0'..=b'9' => (rest * 10 + u32::from(byte - b'0')) % 97,
        _ => (rest * 100 + u32::from(byte.saturating_sub(b'A')) + 10) % 97,
    })
}

/// Tells whether `digits` satisfy ISO/IEC 7064 MOD 11,10.
pub(super) fn mod_11_10(digits: &[u8]) -> bool {
    let Some((&check, body)) = digits.split_last() else { return false };
    let carried = body.iter().fold(10, |carried, &digit| match (carried + u32::from(digit)) % 10 {
        0 => 20 % 11,
        sum => sum * 2 % 11,
    });
    (carried + u32::from(check)) % 10 == 1
}

/// Returns the digit that ends `body` by the EAN scheme: weights 1 and 3 from the left.
pub(super) fn ean(body: &[u8]) -> u32 {
    let sum: u32 =
        body.iter().enumerate().map(|(place, &digit)| u32::from(digit) * (1 + 2 * (place as u32 % 2))).sum();
    (10 - sum % 10) % 10
}

/// Products of the dihedral group of order ten.
const DIHEDRAL: [[u8; 10]; 10] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    [1, 2, 3, 4, 0, 6, 7, 8, 9, 5],
    [2, 3, 4, 0, 1, 7, 8, 9, 5, 6],
    [3, 4, 0, 1, 2, 8, 9, 5, 6, 7],
    [4, 0, 1, 2, 3, 9, 5, 6, 7, 8],
    [5, 9, 8, 7, 6, 0, 4, 3, 2, 1],
    [6, 5, 9, 8, 7, 1, 0, 4, 3, 2],
    [7, 6, 5, 9, 8, 2, 1, 0, 4, 3],
    [8, 7, 6, 5, 9, 3, 2, 1, 0, 4],
    [9, 8, 7, 6, 5, 4, 3, 2, 1, 0],
];

/// Verhoeff's permutation, applied once for each place from the right.
const PERMUTATION: [u8; 10] = [1, 5, 7, 6, 2, 8, 3, 0, 9, 4];

/// Tells whether `digits` satisfy Verhoeff's dihedral check.
pub(super) fn verhoeff(digits: &[u8]) -> bool {
    let total = digits.iter().rev().enumerate().fold(0_u8, |total, (place, &digit)| {
        let moved = (0..place % 8).fold(digit, |digit, _| pick(&PERMUTATION, digit));
        DIHEDRAL.get(usize::from(total)).map_or(0, |row| pick(row, moved))
    });
    total == 0
}

fn pick(row: &[u8; 10], digit: u8) -> u8 {
    row.get(usize::from(digit)).copied().unwrap_or_default()
}
