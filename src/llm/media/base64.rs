//! Files in base64: what a text must be to be one, and what it is one of.

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::GeneralPurpose;
use base64::engine::GeneralPurposeConfig;
use base64::engine::general_purpose::STANDARD;

use super::Media;

/// How many bytes of a text show at a glance that it is no base64.
const GLANCE_BYTES: usize = 64;
/// The shortest base64 that may be a file, in bytes.
const BASE64_BYTES_MIN: usize = 24;
/// The longest line of base64 that is written in several, in signs, and how many signs fill up its end.
const LINE_BYTES_MAX: usize = 80;
const PADDING_MAX: usize = 2;
/// How an address begins that holds what it leads to.
const DATA: &[u8] = b"data:";
/// What stands before the data there is no longer, in bytes: a media type and its parameters.
const ADDRESS_HEAD_BYTES_MAX: usize = 128;
/// Base64 whose padding was taken away; what is left of the last sign is not looked at.
const UNPADDED: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

impl Media {
    /// Tells at a glance whether a string, as it stands in JSON, may be base64, alone or in an address of its own
    /// (RFC 2397).
    pub fn may_be_base64(raw: &[u8]) -> bool {
        let begin = raw.get(..GLANCE_BYTES.min(raw.len())).unwrap_or_default();
        raw.len() >= BASE64_BYTES_MIN
            && (begin.starts_with(DATA)
                || begin.iter().all(|byte| is_base64(*byte) || is_base64_aside(*byte)))
    }

    /// Tells whether a text is base64 of a text in wide characters, alone or in an address of its own: in lines or in
    /// one, padded or not, in either alphabet.
    pub fn is_wide_base64(text: &[u8]) -> bool {
        let signs = match text.starts_with(DATA) {
            true => text.iter().position(|byte| *byte == b',').and_then(|at| text.get(at + 1..)),
            false => Some(text),
        };
        let file = UNPADDED.decode(usual_base64(signs.unwrap_or_default()));
        file.is_ok_and(|file| Self::is_wide_file(&file))
    }

    /// Returns the bytes of a text that is base64 of what is no text, alone or in an address of its own (RFC 2397).
    pub fn binary_of_base64(text: &[u8]) -> Option<Vec<u8>> {
        let text = match text.starts_with(DATA) {
            true => in_address(text)?,
            false => text,
        };
        // Seen at a glance in most texts, before there is room made for what they would decode to.
        if !text.len().is_multiple_of(4) || !text.iter().take(GLANCE_BYTES).all(|byte| is_base64(*byte)) {
            return None;
        }
        STANDARD.decode(text).ok().filter(|bytes| Self::is_binary(bytes))
    }

    /// Tells whether a text is nothing but base64, in one line or in lines of one length (RFC 2045, 6.8), alone or in an
    /// address of its own: what is glued to it otherwise is no part of a file.
    pub fn is_pure_base64(text: &[u8]) -> bool {
        let signs = if text.starts_with(DATA) { in_address(text) } else { Some(text) };
        let Some(signs) = signs.map(<[u8]>::trim_ascii_end) else { return false };
        let padding = signs.iter().rev().take(PADDING_MAX).take_while(|byte| **byte == b'=').count();
        let signs = signs.get(..signs.len() - padding).unwrap_or_default();
        let mut lines = signs
            .split(|byte| *byte == b'\n')
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
            .peekable();
        let (first, mut is_pure) = (lines.peek().map_or(0, |line| line.len()), true);
        while let Some(line) = lines.next() {
            let is_alone = line.len() == signs.len();
            let is_long = line.len() == first || lines.peek().is_none() && line.len() < first;
            is_pure &= is_alone || is_long && first <= LINE_BYTES_MAX;
            // Every byte is looked at, many at once.
            is_pure &= line.iter().fold(true, |pure, byte| pure & is_sign(*byte));
        }
        is_pure
    }

    /// Returns the file that a text is in base64, alone or in an address of its own, with what `kind` takes it for by so many
    /// of its first and of its last bytes; nothing, if for nothing. In lines or in one, padded or not, in either alphabet.
    pub fn file_of_base64<T>(
        text: &[u8],
        (head_bytes, tail_bytes): (usize, usize),
        kind: impl Fn(&[u8], &[u8]) -> Option<T>,
    ) -> Option<(Vec<u8>, T)> {
        let signs = match text.starts_with(DATA) {
            true => text.iter().position(|byte| *byte == b',').and_then(|at| text.get(at + 1..))?,
            false => text,
        };
        let decoded = |signs: &[u8]| {
            let signs = usual_base64(signs);
            // Some readers pass over what is no base64.
            let strict = UNPADDED.decode(&signs);
            strict.or_else(|_| {
                UNPADDED.decode(signs.iter().copied().filter(|it| is_base64(*it)).collect::<Vec<_>>())
            })
        };
        // Lines and an alphabet of its own make it longer than its bytes; three of them are four signs.
        let head = usual_base64(signs.get(..head_bytes * 2).unwrap_or(signs)).into_owned();
        let head = UNPADDED.decode(head.get(..head.len() / 4 * 4).unwrap_or_default()).unwrap_or_default();
        let tail =
            usual_base64(signs.get(signs.len().saturating_sub(tail_bytes * 2 + 4)..).unwrap_or_default());
        // Where its last bytes begin among the signs is not known before all are read.
        let tails = (0..4).filter_map(|skipped| UNPADDED.decode(tail.get(skipped..)?).ok());
        kind(&head, &[]).or_else(|| tails.into_iter().find_map(|tail| kind(&[], &tail)))?;
        let file = decoded(signs).ok()?;
        let kind = kind(&file, file.get(file.len().saturating_sub(tail_bytes)..)?)?;
        Some((file, kind))
    }
}

/// Returns what stands in an address that holds its data in base64, and says nothing else.
fn in_address(address: &[u8]) -> Option<&[u8]> {
    let comma = address.iter().take(ADDRESS_HEAD_BYTES_MAX).position(|byte| *byte == b',')?;
    let (head, data) = address.split_at(comma);
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b":;/=.+-".contains(byte);
    (head.ends_with(b";base64") && head.iter().all(is_plain)).then(|| data.get(1..))?
}

/// Returns base64 in the usual alphabet and in one line, without its padding.
fn usual_base64(signs: &[u8]) -> Cow<'_, [u8]> {
    let is_unusual = |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b'-' | b'_' | b'=');
    let signs = signs.trim_ascii_end();
    let padding = signs.iter().rev().take_while(|byte| **byte == b'=').count();
    let signs = signs.get(..signs.len() - padding).unwrap_or_default();
    // Every byte is looked at, many at once: most have none, and an early end would be the slower way to know.
    if !signs.iter().fold(false, |any, byte| any | is_unusual(*byte)) {
        return Cow::Borrowed(signs);
    }
    let usual = |byte: &u8| match byte {
        b'-' => b'+',
        b'_' => b'/',
        byte => *byte,
    };
    signs.iter().filter(|byte| !byte.is_ascii_whitespace() && **byte != b'=').map(usual).collect()
}

/// Tells whether a byte is a sign of base64, in either alphabet.
fn is_sign(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() | matches!(byte, b'+' | b'/' | b'-' | b'_')
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// Tells whether a sign stands in base64 as it is written for addresses, in lines, or in JSON.
fn is_base64_aside(byte: u8) -> bool {
    matches!(byte, b'-' | b'_' | b'\\' | b'\r' | b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_glued_to_base64_is_no_part_of_it() {
        let signs = "ab+/".repeat(60);
        let lines = |size: usize, end: &str| {
            let lines = signs.as_bytes().chunks(size).map(|line| std::str::from_utf8(line).unwrap());
            lines.collect::<Vec<_>>().join(end)
        };
        let address = format!("data:image/png;base64,{signs}==");
        for pure in [
            &signs,
            &format!("{signs}=\n"),
            &lines(76, "\n"),
            &lines(64, "\r\n"),
            &lines(60, "\n"),
            &signs.replace('+', "-").replace('/', "_"),
            &address,
        ] {
            assert!(Media::is_pure_base64(pure.as_bytes()), "{pure}");
        }
        for glued in [
            format!("{signs} AKIA"),
            format!("{signs}=AKIA"),
            format!("{signs}\nAKIA"),
            format!("AKIA\n{signs}"),
            format!("{}\nAKIA\nab", lines(76, "\n")),
            format!("{signs}==="),
            format!("data:image/png,{signs}"),
        ] {
            assert!(!Media::is_pure_base64(glued.as_bytes()), "{glued}");
        }
    }

    #[test]
    fn base64_of_wide_text_is_recognised_however_it_is_written() {
        let is_wide = |written: &str| {
            Media::may_be_base64(written.as_bytes()) && Media::is_wide_base64(written.as_bytes())
        };
        let text = "use it, caf\u{e9} \u{203a}\u{203a}?>?>";
        let two: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let far: Vec<u8> =
            "\u{feff}\u{4f60}\u{597d}\u{ff0c}".repeat(4).encode_utf16().flat_map(u16::to_be_bytes).collect();
        for file in [&two, &far] {
            let written = STANDARD.encode(file);
            let (first, rest) = written.split_at(10);
            assert!(is_wide(&written) && is_wide(written.trim_end_matches('=')));
            assert!(is_wide(&written.replace('+', "-").replace('/', "_")));
            assert!(
                is_wide(&format!("{first}\n{rest}\n"))
                    && is_wide(&format!("data:text/plain;base64,{written}"))
            );
        }
        let picture = [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &[0, 7, 200, 41].repeat(20)].concat();
        let sound: Vec<u8> = (0..64_i16).flat_map(|it| (it * 300).to_le_bytes()).collect();
        let marked = [&b"\xff\xfe"[..], &[0, 1, 0, 0xd8, 3, 0, 0, 0xd9].repeat(20)].concat();
        for file in [&b"some plain text of one byte"[..], &picture, &sound, &marked, &[0; 64]] {
            assert!(!is_wide(&STANDARD.encode(file)));
        }
    }
}
