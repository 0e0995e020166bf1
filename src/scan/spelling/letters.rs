//! Letters moved, turned round, or written as digits.

/// How far before the end of a word its digits are looked for, in bytes.
const LEET_BYTES: usize = 6;

/// Moves ASCII letters along the alphabet by so many places.
pub(super) fn moved(text: &[u8], places: u8) -> Vec<u8> {
    let along = |byte: u8, first: u8| first + (byte - first + places) % 26;
    text.iter()
        .map(|byte| match byte {
            b'a'..=b'z' => along(*byte, b'a'),
            b'A'..=b'Z' => along(*byte, b'A'),
            other => *other,
        })
        .collect()
}

/// Turns a text round, character by character, and byte by byte what is none.
pub(super) fn reversed(text: &[u8]) -> Vec<u8> {
    let mut turned: Vec<u8> = text.iter().rev().copied().collect();
    let mut end = turned.len();
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            let start = end - character.len_utf8();
            if end - start > 1 {
                turned.get_mut(start..end).unwrap_or_default().reverse();
            }
            end = start;
        }
        end -= chunk.invalid().len();
    }
    turned
}

/// Tells whether a word that ends at an offset has a sign in the place of a letter.
pub(super) fn has_leet(text: &[u8], end: usize) -> bool {
    let word = text.get(end.saturating_sub(LEET_BYTES)..end).unwrap_or_default();
    word.iter().any(|byte| letter(*byte, b'i') != *byte)
}

/// Writes letters for digits and signs; `one` is what 1 stands for.
pub(super) fn unleeted(text: &[u8], one: u8) -> Vec<u8> {
    text.iter().map(|byte| letter(*byte, one)).collect()
}

fn letter(byte: u8, one: u8) -> u8 {
    match byte {
        b'0' => b'o',
        b'1' | b'|' => one,
        b'!' => b'i',
        b'3' => b'e',
        b'4' | b'@' => b'a',
        b'5' | b'$' => b's',
        b'6' | b'9' => b'g',
        b'7' | b'+' => b't',
        other => other,
    }
}
