//! Base64 of UTF-16, `ZwBoAHAAXwA`, as PowerShell takes its commands.
//!
//! In: a text. Out: what such runs say. Every other byte in them is NUL, which ends a run of [`decode`]. They are told by
//! the sign that NUL is written with, of which no other base64 of a text has many.

use std::ops::Range;

use super::Spelt;
use super::code;
use crate::scan::decode;
use crate::scan::threat::Encoding;
use crate::scan::threat::Spelling;

/// The shortest run, in signs: a dozen letters.
const RUN_SIGNS_MIN: usize = 32;
/// One sign in so many at least is the one of NUL.
const NUL_SIGN_SHARE: usize = 5;
/// The share of bytes that are NUL from which a run is UTF-16, in percent.
const NUL_PERCENT_MIN: usize = 40;
/// How many signs make whole bytes.
const GROUP_SIGNS: usize = 4;

/// Adds what runs of base64 say in UTF-16.
pub(super) fn read(text: &[u8], found: &mut Vec<Spelt>) {
    let mut at = 0;
    while let Some(stretch) = decode::stretch(text, at) {
        at = stretch.end;
        read_stretch(text, stretch, found);
    }
}

fn read_stretch(text: &[u8], stretch: Range<usize>, found: &mut Vec<Spelt>) {
    let bytes = text.get(stretch.clone()).unwrap_or_default();
    let nul_signs = memchr::memchr_iter(b'A', bytes).count();
    if stretch.len() < RUN_SIGNS_MIN || nul_signs * NUL_SIGN_SHARE < stretch.len() {
        return;
    }
    // A long run goes on over the ends of its lines.
    let signs: Vec<u8> = bytes.iter().copied().filter(|byte| decode::in_alphabet(*byte)).collect();
    let from = |first: usize| decode::decoded(signs.get(first..)?, Encoding::Base64);
    // What stands right before a run may be of its alphabet, too.
    for wide in (0..GROUP_SIGNS).filter_map(from).filter(|bytes| is_wide(bytes)) {
        code::add(Spelling::Utf16, wide, stretch.clone(), found);
    }
}

/// Tells whether almost half of some bytes are NUL, and not all of them.
fn is_wide(bytes: &[u8]) -> bool {
    let nuls = memchr::memchr_iter(0, bytes).count();
    nuls * 100 >= bytes.len() * NUL_PERCENT_MIN && nuls * 100 <= bytes.len() * (100 - NUL_PERCENT_MIN)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    const TEXT: &str = "Write-Host ghp_4a7C91e0b2d3";

    fn said(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        read(text.as_bytes(), &mut found);
        found.iter().map(|spelt| String::from_utf8_lossy(spelt.bytes()).into_owned()).collect()
    }

    fn wide(text: &str) -> String {
        STANDARD.encode(text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>())
    }

    #[test]
    fn commands_of_powershell_are_read() {
        let other_end = TEXT.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>();
        for run in [wide(TEXT), STANDARD.encode(other_end)] {
            for text in [run.clone(), format!("powershell -enc {run} -w 1"), format!("-{run}")] {
                assert!(said(&text).iter().any(|it| it.contains("ghp_4a7C91e0b2d3")), "{text}");
            }
        }
    }

    #[test]
    fn no_other_base64_is() {
        let zeros = STANDARD.encode([0_u8; 90]);
        let picture = STANDARD.encode((0..=255).cycle().take(3000).collect::<Vec<u8>>());
        let words =
            "AAAA BANANA DATABASE_AREA_MAP_ALPHA_AND_BETA and AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        for text in [STANDARD.encode(TEXT), zeros, picture, words.to_owned(), wide("short")] {
            assert!(said(&text).is_empty(), "{text}: {:?}", said(&text));
        }
    }
}
