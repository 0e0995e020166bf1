//! Bytes of a file as text, in whichever of the usual encodings they are.

/// Of so many bytes of a text at most one is a control character; of what is packed one of ten is.
const TEXT_BYTES_PER_CONTROL_MIN: usize = 32;

/// Returns bytes as text: by their mark in UTF-16, else in UTF-8; what is neither reads as signs that stand for nothing.
pub(super) fn of(bytes: &[u8]) -> String {
    match bytes {
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        [0xfe, 0xff, rest @ ..] => wide(rest, u16::from_be_bytes),
        [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// Returns text in UTF-16.
pub(super) fn wide(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let (pairs, _) = bytes.as_chunks::<2>();
    let signs = char::decode_utf16(pairs.iter().map(|pair| unit(*pair)));
    signs.map(|sign| sign.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// Tells whether bytes begin as text does, in whichever encoding of eight bits or by its mark: hardly any of them are
/// control characters.
pub(super) fn begins(head: &[u8]) -> bool {
    let is_marked = matches!(head, [0xfe, 0xff, ..] | [0xff, 0xfe, ..]);
    let is_control = |byte: &&u8| matches!(byte, 0..=8 | 0x0e..=0x1a | 0x1c..=0x1f);
    let controls = head.iter().filter(is_control).count();
    !head.is_empty() && (is_marked || controls * TEXT_BYTES_PER_CONTROL_MIN <= head.len())
}
