//! Maps of codes (CMaps): how long the codes of a font are, what they select, and what they stand for.
//!
//! Adobe's technical notes 5014 and 5411, and ISO 32000-1, 9.7.5 and 9.10.3, say how they are written.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use encoding_rs::BIG5;
use encoding_rs::EUC_JP;
use encoding_rs::EUC_KR;
use encoding_rs::Encoding;
use encoding_rs::GB18030;
use encoding_rs::SHIFT_JIS;

use super::object::Lexer;
use super::object::Object;
use crate::attachment::text;

/// The most codes that one range of a map stands for.
const RANGE_CODES_MAX: u32 = 1 << 16;
/// The most codes that a map tells the text of in all.
const CODES_MAX: usize = 1 << 17;
/// The most ranges of codes of one length that a map has.
const SPACES_MAX: usize = 32;
/// The most ranges of codes that select signs in it.
const SELECTED_MAX: usize = 1 << 16;
/// How many bytes a code has at most.
const CODE_BYTES_MAX: usize = 4;
/// Parts of the names of maps that every reader knows, by the encoding of their codes; the first that fits counts.
const KNOWN: &[(&str, &Encoding)] = &[
    ("RKSJ", SHIFT_JIS),
    ("GB", GB18030),
    ("B5", BIG5),
    ("ETen", BIG5),
    ("HKscs", BIG5),
    ("KSC", EUC_KR),
    ("EUC", EUC_JP),
];
/// The maps of JIS X 0208 without its high bits.
const SEVEN_BITS: &[&[u8]] = &[b"H", b"V"];
/// What the high bits of both bytes of a code add to it.
const HIGH_BITS: u32 = 0x8080;

/// A map that a file brings.
#[derive(Default)]
pub(super) struct Map {
    spaces: Vec<Space>,
    selected: Vec<Selected>,
    /// What codes stand for.
    pub(super) told: HashMap<u32, String>,
}

/// How the codes of a font of many signs are written.
#[derive(Default)]
pub(super) enum Codes {
    /// In two bytes, and what they stand for is not told by themselves.
    #[default]
    Pairs,
    /// In UTF-16.
    Unicode,
    /// In an encoding of one and of two bytes.
    Known(&'static Encoding),
    /// In JIS X 0208, without its high bits.
    SevenBits,
    /// As a map says.
    Mapped(Map),
}

/// A code in a string.
#[derive(Clone, Copy)]
pub(super) struct Code {
    pub(super) value: u32,
    /// How many bytes it has.
    pub(super) bytes: usize,
}

/// Codes of some length: each of their bytes lies between two.
struct Space {
    bytes: usize,
    first: u32,
    last: u32,
}

/// What signs of a font a range of codes selects.
struct Selected {
    codes: RangeInclusive<u32>,
    first: u32,
}

impl Code {
    fn of(bytes: &[u8]) -> Self {
        Self { value: value(bytes), bytes: bytes.len() }
    }
}

impl Codes {
    /// Returns how a map that every reader knows says that codes are written.
    pub(super) fn named(name: &[u8]) -> Self {
        let is_in = |part: &str| memchr::memmem::find(name, part.as_bytes()).is_some();
        if is_in("UCS2") || is_in("UTF16") {
            return Self::Unicode;
        }
        if SEVEN_BITS.contains(&name) {
            return Self::SevenBits;
        }
        let known = KNOWN.iter().find(|(part, _)| is_in(part));
        known.map_or(Self::Pairs, |(_, encoding)| Self::Known(encoding))
    }

    /// Returns the next code of a string; none at its end.
    pub(super) fn next(&self, string: &[u8]) -> Option<Code> {
        let bytes = match self {
            Self::Pairs | Self::Unicode | Self::SevenBits => 2,
            Self::Known(encoding) => {
                let is_one = |bytes: &[u8]| !encoding.decode_without_bom_handling(bytes).1;
                if string.get(..1).is_some_and(is_one) { 1 } else { 2 }
            }
            Self::Mapped(map) => map.bytes(string),
        };
        let code = string.get(..bytes.min(string.len()))?;
        (!code.is_empty()).then(|| Code::of(code))
    }

    /// Returns what a code stands for by itself, if that is known.
    pub(super) fn text(&self, code: Code) -> Option<String> {
        let decoded = |encoding: &'static Encoding, value: u32, bytes: usize| {
            let value = value.to_be_bytes();
            let code = value.get(value.len().saturating_sub(bytes)..)?;
            let (text, is_faulty) = encoding.decode_without_bom_handling(code);
            (!is_faulty).then(|| text.into_owned())
        };
        match self {
            Self::Pairs | Self::Mapped(_) => None,
            Self::Unicode => char::from_u32(code.value).map(String::from),
            Self::Known(encoding) => decoded(encoding, code.value, code.bytes),
            Self::SevenBits => decoded(EUC_JP, code.value | HIGH_BITS, code.bytes),
        }
    }

    /// Returns which sign of the font a code selects, by its number in there.
    pub(super) fn sign(&self, code: Code) -> u32 {
        match self {
            Self::Mapped(map) => map.sign(code.value),
            _ => code.value,
        }
    }
}

impl Map {
    /// Reads what a map says, in addition to what it said.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        let (mut lexer, mut operands) = (Lexer::new(bytes, 0), Vec::new());
        // A code that is told again counts again.
        let mut left = CODES_MAX;
        loop {
            lexer.pass_blanks();
            let Some(object) = lexer.object() else {
                if lexer.rest().is_empty() {
                    break;
                }
                lexer.pass(1);
                continue;
            };
            let Object::Word(word) = object else {
                operands.push(object);
                continue;
            };
            match word.as_slice() {
                b"endcodespacerange" => self.read_spaces(&operands),
                b"endcidchar" | b"endcidrange" => self.read_selected(&operands, &word),
                b"endbfchar" => self.read_texts(&operands, &mut left),
                b"endbfrange" => self.read_ranges(&operands, &mut left),
                _ => {}
            }
            operands.clear();
        }
        self.spaces.sort_by_key(|space| space.bytes);
        self.selected.sort_by_key(|range| *range.codes.start());
    }

    fn read_spaces(&mut self, operands: &[Object]) {
        for [first, last] in operands.as_chunks::<2>().0 {
            if let (Object::Text(first), Object::Text(last)) = (first, last)
                && (1..=CODE_BYTES_MAX).contains(&first.len())
                && self.spaces.len() < SPACES_MAX
            {
                self.spaces.push(Space { bytes: first.len(), first: value(first), last: value(last) });
            }
        }
    }

    fn read_selected(&mut self, operands: &[Object], word: &[u8]) {
        let each = if word == b"endcidchar" { 2 } else { 3 };
        for range in operands.chunks_exact(each) {
            let (first, last, sign) = match range {
                [Object::Text(first), Object::Text(last), sign] => (first, last, sign),
                [Object::Text(only), sign] => (only, only, sign),
                _ => continue,
            };
            if let Some(sign) = sign.count()
                && self.selected.len() < SELECTED_MAX
            {
                self.selected.push(Selected { codes: value(first)..=value(last), first: sign as u32 });
            }
        }
    }

    fn read_texts(&mut self, operands: &[Object], left: &mut usize) {
        for pair in operands.as_chunks::<2>().0 {
            if let [Object::Text(from), Object::Text(to)] = pair
                && *left > 0
            {
                *left -= 1;
                self.told.insert(value(from), said(to));
            }
        }
    }

    fn read_ranges(&mut self, operands: &[Object], left: &mut usize) {
        for range in operands.as_chunks::<3>().0 {
            let [Object::Text(first), Object::Text(last), to] = range else { continue };
            let first = value(first);
            let codes = first..=value(last).min(first.saturating_add(RANGE_CODES_MAX));
            let most = *left;
            *left = left.saturating_sub((codes.end().saturating_sub(first) + 1) as usize);
            match to {
                Object::Text(to) => {
                    self.told.extend(codes.take(most).map(|it| (it, said(&raised(to, it - first)))))
                }
                Object::Array(items) => {
                    let texts = items.iter().map(|item| match item {
                        Object::Text(to) => said(to),
                        _ => String::new(),
                    });
                    self.told.extend(codes.zip(texts).take(most));
                }
                _ => {}
            }
        }
    }

    /// Returns how many bytes the code has that a string begins with.
    fn bytes(&self, string: &[u8]) -> usize {
        let is_in = |space: &&Space| string.get(..space.bytes).is_some_and(|code| space.holds(value(code)));
        let shortest = self.spaces.first().map_or(2, |space| space.bytes);
        self.spaces.iter().find(is_in).map_or(shortest, |space| space.bytes)
    }

    fn sign(&self, code: u32) -> u32 {
        let behind = self.selected.partition_point(|range| *range.codes.start() <= code);
        let range = behind.checked_sub(1).and_then(|at| self.selected.get(at));
        range
            .filter(|range| range.codes.contains(&code))
            .map_or(code, |range| range.first.saturating_add(code - range.codes.start()))
    }
}

impl Space {
    fn holds(&self, code: u32) -> bool {
        let bytes = self.first.to_be_bytes().into_iter().zip(self.last.to_be_bytes());
        code.to_be_bytes().into_iter().zip(bytes).all(|(byte, (first, last))| (first..=last).contains(&byte))
    }
}

fn value(code: &[u8]) -> u32 {
    code.iter().take(CODE_BYTES_MAX).fold(0, |value, byte| value << 8 | u32::from(*byte))
}

fn said(text: &[u8]) -> String {
    text::wide(text, u16::from_be_bytes)
}

/// Returns the text of a code of a range: its last sign rises with the codes.
fn raised(first: &[u8], by: u32) -> Vec<u8> {
    let mut text = first.to_vec();
    let from = text.len().saturating_sub(2);
    if let Some(last) = text.get_mut(from..).and_then(|last| last.first_chunk_mut::<2>()) {
        *last = u16::from_be_bytes(*last).wrapping_add(by as u16).to_be_bytes();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(map: &[u8]) -> Map {
        let mut read = Map::default();
        read.read(map);
        read
    }

    fn values(codes: &Codes, string: &[u8]) -> Vec<u32> {
        let mut rest = string;
        std::iter::from_fn(|| {
            let code = codes.next(rest)?;
            rest = &rest[code.bytes..];
            Some(code.value)
        })
        .collect()
    }

    fn texts(name: &[u8], string: &[u8]) -> String {
        let codes = Codes::named(name);
        let mut rest = string;
        std::iter::from_fn(|| {
            let code = codes.next(rest)?;
            rest = &rest[code.bytes..];
            Some(codes.text(code).unwrap_or_default())
        })
        .collect()
    }

    #[test]
    fn what_codes_stand_for() {
        let map = read(b"1 beginbfchar <01> <00660069> endbfchar 2 beginbfrange <0002> <0004> <0041> <05><06>[<0058><0059>] endbfrange }}");
        let of = |code: u32| map.told.get(&code).map(String::as_str);
        assert_eq!(
            [1, 2, 4, 5, 6, 7].map(of),
            [Some("fi"), Some("A"), Some("C"), Some("X"), Some("Y"), None]
        );
        assert!(read(b"<00> <ffffffff> <0041> endbfrange").told.len() <= CODES_MAX);
    }

    #[test]
    fn codes_are_as_long_as_their_map_says() {
        let of = |map: &[u8]| Codes::Mapped(read(map));
        let one = of(b"1 begincodespacerange <00> <FF> endcodespacerange");
        assert_eq!(values(&one, b"key"), [0x6b, 0x65, 0x79]);
        let mixed = of(b"2 begincodespacerange <8140> <9FFC> <00> <80> endcodespacerange");
        assert_eq!(values(&mixed, b"a\x81\x40b\x81"), [0x61, 0x8140, 0x62, 0x81]);
        let none = of(b"");
        assert_eq!(values(&none, b"\0a\0b\x01"), [0x61, 0x62, 1]);
    }

    #[test]
    fn codes_select_signs() {
        let map = read(b"<20> <7e> 100 endcidrange <05> 7 endcidchar <30> <ffffffff> 900 endcidrange");
        assert_eq!([0x20, 0x21, 0x05, 0x06, 0x31].map(|code| map.sign(code)), [100, 101, 7, 6, 901]);
    }

    #[test]
    fn maps_that_every_reader_knows() {
        assert_eq!(texts(b"90ms-RKSJ-H", b"key \x93\xfa\xb6"), "key 日ｶ");
        assert_eq!(texts(b"GBK-EUC-H", b"a\xc4\xe3"), "a你");
        assert_eq!(texts(b"ETen-B5-V", b"a\xa4\xa4"), "a中");
        assert_eq!(texts(b"KSCms-UHC-H", b"a\xc7\xd1"), "a한");
        assert_eq!(texts(b"EUC-H", b"a\xc6\xfc"), "a日");
        assert_eq!(texts(b"H", b"\x46\x7c"), "日");
        assert_eq!(texts(b"UniGB-UCS2-H", b"\0a\x4f\x60"), "a你");
        assert_eq!(texts(b"Identity-H", b"\0a"), "");
    }
}
