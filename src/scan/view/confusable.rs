//! Letters of rarer scripts, and rarer Latin ones, that are taken for one ASCII letter or digit.
//!
//! The table is made, at first use, of the skeletons of UTS #39 (`confusables.txt`), for the blocks in which letters have
//! look-alikes and hardly any prose is written that is scanned here. The living alphabets of Cyrillic and Greek have a
//! table of their own beside this one. Small capitals, letters in boxes and circles, and regional indicators, which that
//! standard does not map, read as the letters they are drawings of.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

use unicode_security::skeleton;

/// Latin and phonetic letters, Armenian, Cherokee, Canadian syllabics, phonetic extensions, Latin Extended-C, Coptic,
/// Lisu, Latin Extended-D and -E, small Cherokee; beyond the first plane, Lycian to Old Italic, Deseret to Osage, Warang
/// Citi, Miao.
const BLOCKS: [RangeInclusive<u32>; 16] = [
    0x131..=0x131,
    0x180..=0x2af,
    0x531..=0x58f,
    0x13a0..=0x13ff,
    0x1400..=0x167f,
    0x1d00..=0x1dbf,
    0x2c60..=0x2c7f,
    0x2c80..=0x2cff,
    0xa4d0..=0xa4ff,
    0xa720..=0xa7ff,
    0xab30..=0xabbf,
    0x10280..=0x1031f,
    0x10400..=0x104ff,
    0x10500..=0x1056f,
    0x118a0..=0x118ff,
    0x16f00..=0x16f9f,
];
const SMALL_CAPITALS: [(char, u8); 27] = [
    ('ᴀ', b'a'),
    ('ʙ', b'b'),
    ('ᴄ', b'c'),
    ('ᴅ', b'd'),
    ('ᴇ', b'e'),
    ('ꜰ', b'f'),
    ('ɢ', b'g'),
    ('ʜ', b'h'),
    ('ɪ', b'i'),
    ('ᴊ', b'j'),
    ('ᴋ', b'k'),
    ('ʟ', b'l'),
    ('ᴍ', b'm'),
    ('ɴ', b'n'),
    ('ᴏ', b'o'),
    ('ᴘ', b'p'),
    ('ꞯ', b'q'),
    ('ʀ', b'r'),
    ('ꜱ', b's'),
    ('ᴛ', b't'),
    ('ᴜ', b'u'),
    ('ᴠ', b'v'),
    ('ᴡ', b'w'),
    ('ʏ', b'y'),
    ('ᴢ', b'z'),
    ('ı', b'i'),
    ('ȷ', b'j'),
];
/// Where alphabets from A to Z begin: in circles, in boxes, and the halves of flags.
const ALPHABETS: [u32; 3] = [0x1f150, 0x1f170, 0x1f1e6];
const LETTERS: u32 = 26;

/// For each block, what each of its characters is taken for; 0 for none.
static TABLE: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let one = |code: u32| char::from_u32(code).and_then(made).unwrap_or(0);
    BLOCKS.iter().map(|block| block.clone().map(one).collect()).collect()
});

fn made(character: char) -> Option<u8> {
    if let Some((_, letter)) = SMALL_CAPITALS.iter().find(|(of, _)| *of == character) {
        return Some(*letter);
    }
    let mut room = [0; 4];
    let mut parts = skeleton(character.encode_utf8(&mut room));
    let (first, more) = (parts.next()?, parts.next());
    let letter = u8::try_from(first).ok().filter(u8::is_ascii_alphanumeric)?;
    more.is_none().then_some(letter)
}

/// Returns the ASCII letter or digit that a character is taken for.
pub(super) fn look_alike(character: char) -> Option<u8> {
    let code = character as u32;
    if let Some(begin) = ALPHABETS.iter().find(|begin| (**begin..**begin + LETTERS).contains(&code)) {
        return u8::try_from(code - begin).ok().map(|at| b'A' + at);
    }
    let block = BLOCKS.iter().position(|block| block.contains(&code))?;
    let letter = TABLE.get(block)?.get((code - BLOCKS[block].start()) as usize)?;
    Some(*letter).filter(|letter| *letter != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_rare_scripts_read_as_what_they_look_like() {
        for (written, read) in [
            ("ɪɢɴᴏʀᴇ", "ignore"),
            ("ᴀʟʟ ᴘʀᴇᴠɪᴏᴜꜱ", "all previous"),
            ("ɑɡıօ", "agio"),
            ("ꓐꓮꓝꓰ", "BAFE"),
            ("ᎪᏚᏴ", "ASB"),
            ("ⲞⲤ", "OC"),
            ("🅸🅶🅝", "IGN"),
            ("🇮🇬", "IG"),
        ] {
            let seen: String = written.chars().map(|it| look_alike(it).map_or(it, char::from)).collect();
            assert_eq!(seen, read);
        }
        for kept in "éßøœşğčžł漢字привет😀".chars() {
            assert_eq!(look_alike(kept), None, "{kept}");
        }
    }
}
