//! What the codes of a font stand for, and how wide they are.

use std::collections::HashMap;

use super::cmap::Code;
use super::cmap::Codes;
use super::cmap::Map;
use super::file::File;
use super::object::Dict;
use super::object::Object;
use crate::attachment::Reader;
use crate::attachment::Unread;

/// How many maps may extend one another.
const MAPS_MAX: usize = 4;
/// The most signs whose widths are known, and those of one range of them.
const WIDTHS_MAX: usize = 1 << 17;
const RANGE_WIDTHS_MAX: u32 = 1 << 16;
/// What a code whose text is kept, and a width, count as, in bytes: a range of a few bytes stands for many of them.
const TOLD_BYTES: usize = 64;
const WIDTH_BYTES: usize = 16;
/// How wide a sign is of which nothing is known, in thousandths.
const USUAL_WIDTH: f64 = 550.0;
/// How wide the signs of one byte are among those of two.
const NARROW_WIDTH: f64 = 500.0;

/// How wide the signs of ASCII are in the fonts that every reader has, from the space on, in thousandths.
const HELVETICA: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556,
    556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278,
    500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469,
    556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500,
    278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
];
const TIMES: [u16; 95] = [
    250, 333, 408, 500, 500, 833, 778, 180, 333, 333, 500, 564, 250, 333, 250, 278, 500, 500, 500, 500, 500,
    500, 500, 500, 500, 500, 278, 278, 564, 564, 564, 444, 921, 722, 667, 667, 722, 611, 556, 722, 722, 333,
    389, 722, 611, 889, 722, 722, 556, 722, 667, 556, 611, 722, 722, 944, 722, 722, 611, 333, 278, 333, 469,
    500, 333, 444, 500, 444, 500, 444, 333, 500, 500, 278, 278, 500, 278, 778, 500, 500, 500, 500, 333, 389,
    278, 500, 500, 722, 500, 500, 444, 480, 200, 480, 541,
];
const COURIER: f64 = 600.0;

/// What the codes 128 to 159 stand for in Windows' encoding; 0 for nothing.
const WINDOWS: [char; 32] = [
    '€', '\0', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\0', 'Ž', '\0', '\0', '‘', '’', '“',
    '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\0', 'ž', 'Ÿ',
];
/// What the codes 128 to 255 stand for in Apple's.
const APPLE: &str = "ÄÅÇÉÑÖÜáàâäãåçéèêëíìîïñóòôöõúùûü†°¢£§•¶ß®©™´¨≠ÆØ∞±≤≥¥µ∂∑∏π∫ªºΩæø¿¡¬√ƒ≈∆«»…\u{a0}ÀÃÕŒœ–—“”‘’÷◊ÿŸ⁄€‹›ﬁﬂ‡·‚„‰ÂÊÁËÈÍÎÏÌÓÔ\u{f8ff}ÒÚÛÙıˆ˜¯˘˙˚¸˝˛ˇ";
/// Names of signs of ASCII that are no letters, in order, from the space on.
const PUNCTUATION: &str = "space exclam quotedbl numbersign dollar percent ampersand quotesingle parenleft parenright asterisk plus comma hyphen period slash zero one two three four five six seven eight nine colon semicolon less equal greater question at";
const BRACKETS: &str = "bracketleft backslash bracketright asciicircum underscore grave";
const BRACES: &str = "braceleft bar braceright asciitilde";
/// Names of the signs from U+00A1 on, in order.
const LATIN: &str = "exclamdown cent sterling currency yen brokenbar section dieresis copyright ordfeminine guillemotleft logicalnot softhyphen registered macron degree plusminus twosuperior threesuperior acute mu paragraph periodcentered cedilla onesuperior ordmasculine guillemotright onequarter onehalf threequarters questiondown Agrave Aacute Acircumflex Atilde Adieresis Aring AE Ccedilla Egrave Eacute Ecircumflex Edieresis Igrave Iacute Icircumflex Idieresis Eth Ntilde Ograve Oacute Ocircumflex Otilde Odieresis multiply Oslash Ugrave Uacute Ucircumflex Udieresis Yacute Thorn germandbls agrave aacute acircumflex atilde adieresis aring ae ccedilla egrave eacute ecircumflex edieresis igrave iacute icircumflex idieresis eth ntilde ograve oacute ocircumflex otilde odieresis divide oslash ugrave uacute ucircumflex udieresis yacute thorn ydieresis";
/// Other names of signs.
const OTHERS: &[(&str, &str)] = &[
    ("Euro", "€"),
    ("bullet", "•"),
    ("dotlessi", "ı"),
    ("ellipsis", "…"),
    ("emdash", "—"),
    ("endash", "–"),
    ("f_f", "ff"),
    ("f_f_i", "ffi"),
    ("f_f_l", "ffl"),
    ("f_i", "fi"),
    ("f_l", "fl"),
    ("ff", "ff"),
    ("ffi", "ffi"),
    ("ffl", "ffl"),
    ("fi", "fi"),
    ("fl", "fl"),
    ("fraction", "/"),
    ("guilsinglleft", "‹"),
    ("guilsinglright", "›"),
    ("minus", "-"),
    ("nbspace", " "),
    ("oe", "œ"),
    ("OE", "Œ"),
    ("quotedblbase", "„"),
    ("quotedblleft", "“"),
    ("quotedblright", "”"),
    ("quoteleft", "‘"),
    ("quoteright", "’"),
    ("quotesinglbase", "‚"),
    ("scaron", "š"),
    ("Scaron", "Š"),
    ("trademark", "™"),
    ("zcaron", "ž"),
    ("Zcaron", "Ž"),
    ("Ydieresis", "Ÿ"),
];

/// A font, as far as text is told by it.
#[derive(Default)]
pub(super) struct Font {
    /// What codes stand for, as the font itself says.
    told: HashMap<u32, String>,
    /// What other codes of one byte stand for.
    encoding: Encoding,
    /// What single codes stand for, other than in their encoding.
    differing: HashMap<u32, String>,
    /// How codes are written, of a font of more signs than a byte tells apart.
    wide: Option<Codes>,
    widths: HashMap<u32, f64>,
    width: Option<f64>,
}

#[derive(Clone, Copy, Default)]
enum Encoding {
    #[default]
    Windows,
    Apple,
}

/// A code of a font in a text.
pub(super) struct Shown {
    pub(super) text: String,
    /// In thousandths of its size.
    pub(super) width: f64,
    /// Whether it is a space, which may be made wider than others.
    pub(super) is_space: bool,
}

impl Font {
    /// Reads a font.
    pub(super) fn read(file: &File<'_>, dict: &Dict, reader: &mut Reader<'_>) -> Result<Self, Unread> {
        let mut font = Self::default();
        if let Some(bytes) = file.stream_of(dict.get("ToUnicode"), reader)? {
            let mut map = Map::default();
            map.read(&bytes);
            font.told = map.told;
        }
        reader.spend(font.told.len() * TOLD_BYTES)?;
        if dict.is("Subtype", "Type0") {
            font.wide = Some(match file.value(dict.get("ToUnicode"), reader)? {
                // Some name a map instead of bringing one: codes stand for themselves.
                Some(Object::Name(_)) => Codes::Unicode,
                _ => codes(file, dict.get("Encoding"), reader)?,
            });
            font.read_wide(file, dict, reader)?;
            reader.spend(font.widths.len() * WIDTH_BYTES)?;
            return Ok(font);
        }
        match file.value(dict.get("Encoding"), reader)? {
            Some(Object::Name(name)) => font.encode(&name),
            Some(Object::Dict(encoding)) => {
                if let Some(Object::Name(name)) = encoding.get("BaseEncoding") {
                    font.encode(name);
                }
                let differences = file.value(encoding.get("Differences"), reader)?;
                font.differing = differing(differences);
            }
            _ => {}
        }
        let first = dict.get("FirstChar").and_then(Object::count).unwrap_or(0) as u32;
        if let Some(Object::Array(widths)) = file.value(dict.get("Widths"), reader)? {
            let widths =
                widths.iter().zip(first..=u32::MAX).filter_map(|(width, code)| Some((code, width.number()?)));
            font.widths.extend(widths.take(WIDTHS_MAX));
        }
        if font.widths.is_empty() {
            font.widths_of_standard(dict.get("BaseFont"));
        }
        Ok(font)
    }

    /// Takes the widths of the font that every reader has, by whose name a font goes or which stands in for it.
    fn widths_of_standard(&mut self, name: Option<&Object>) {
        let name = match name {
            Some(Object::Name(name)) => name.as_slice(),
            _ => &[],
        };
        let is_called = |part: &[u8]| name.windows(part.len()).any(|it| it == part);
        if is_called(b"Courier") {
            self.width = Some(COURIER);
            return;
        }
        let widths = if is_called(b"Times") { &TIMES } else { &HELVETICA };
        self.widths.extend((0x20..).zip(widths.iter().map(|width| f64::from(*width))));
    }

    /// Returns what the codes of a string stand for.
    pub(super) fn shown(&self, string: &[u8]) -> Vec<Shown> {
        let Some(codes) = &self.wide else {
            return string.iter().map(|byte| self.sign(u32::from(*byte))).collect();
        };
        let mut rest = string;
        let next = || {
            let code = codes.next(rest)?;
            rest = rest.get(code.bytes..)?;
            Some(self.wide_sign(code, codes))
        };
        std::iter::from_fn(next).collect()
    }

    fn sign(&self, code: u32) -> Shown {
        let width = self.widths.get(&code).copied().or(self.width).unwrap_or(USUAL_WIDTH);
        let text = match self.told.get(&code).or_else(|| self.differing.get(&code)) {
            Some(text) => text.clone(),
            None => self.encoding.sign(code).map(String::from).unwrap_or_default(),
        };
        Shown { text, width, is_space: code == 32 }
    }

    fn wide_sign(&self, code: Code, codes: &Codes) -> Shown {
        let told = self.told.get(&code.value).cloned();
        Shown {
            text: told.or_else(|| codes.text(code)).unwrap_or_default(),
            width: match (codes, code.bytes) {
                // Which signs of their fonts such codes select is not told; those of one byte are narrow.
                (Codes::Known(_), 1) => NARROW_WIDTH,
                _ => self.widths.get(&codes.sign(code)).copied().or(self.width).unwrap_or(USUAL_WIDTH),
            },
            is_space: code.value == 32 && code.bytes == 1,
        }
    }

    fn encode(&mut self, name: &[u8]) {
        if name == b"MacRomanEncoding" {
            self.encoding = Encoding::Apple;
        }
    }

    fn read_wide(&mut self, file: &File<'_>, dict: &Dict, reader: &mut Reader<'_>) -> Result<(), Unread> {
        let Some(Object::Array(descendants)) = file.value(dict.get("DescendantFonts"), reader)? else {
            return Ok(());
        };
        let Some(Object::Dict(inner)) = file.value(descendants.first(), reader)? else { return Ok(()) };
        self.width = Some(inner.get("DW").and_then(Object::number).unwrap_or(1000.0));
        let Some(Object::Array(runs)) = file.value(inner.get("W"), reader)? else { return Ok(()) };
        let (mut rest, mut left) = (runs.as_slice(), WIDTHS_MAX);
        while let [first, second, behind @ ..] = rest {
            let first = first.count().unwrap_or(0) as u32;
            match (second, behind) {
                (Object::Array(widths), _) => {
                    let widths = widths
                        .iter()
                        .zip(first..=u32::MAX)
                        .filter_map(|(width, code)| Some((code, width.number()?)));
                    let before = self.widths.len();
                    self.widths.extend(widths.take(left));
                    left = left.saturating_sub(self.widths.len() - before);
                    rest = behind;
                }
                (last, [width, behind @ ..]) => {
                    let last = (last.count().unwrap_or(0) as u32).min(first.saturating_add(RANGE_WIDTHS_MAX));
                    let width = width.number().unwrap_or(USUAL_WIDTH);
                    self.widths.extend((first..=last).take(left).map(|code| (code, width)));
                    left = left.saturating_sub((last.saturating_sub(first) + 1) as usize);
                    rest = behind;
                }
                _ => break,
            }
        }
        Ok(())
    }
}

/// Reads how the codes of a font of many signs are written.
fn codes(file: &File<'_>, encoding: Option<&Object>, reader: &mut Reader<'_>) -> Result<Codes, Unread> {
    let mut map = Map::default();
    let mut next = encoding.cloned();
    for step in 0..MAPS_MAX {
        let Some(bytes) = file.stream_of(next.as_ref(), reader)? else {
            return Ok(match file.value(next.as_ref(), reader)? {
                Some(Object::Name(name)) if step == 0 => Codes::named(&name),
                _ => Codes::Mapped(map),
            });
        };
        map.read(&bytes);
        next = file.dict(next.as_ref(), reader)?.get("UseCMap").cloned();
    }
    Ok(Codes::Mapped(map))
}

impl Encoding {
    fn sign(self, code: u32) -> Option<char> {
        match (self, code) {
            (_, 0..=8 | 11 | 12 | 14..=31) => None,
            (Self::Windows, 128..=159) => {
                WINDOWS.get(code as usize - 128).copied().filter(|sign| *sign != '\0')
            }
            (Self::Apple, 128..) => APPLE.chars().nth(code as usize - 128),
            _ => char::from_u32(code),
        }
    }
}

/// Returns what codes stand for that differ from their encoding.
fn differing(differences: Option<Object>) -> HashMap<u32, String> {
    let (mut differing, mut code) = (HashMap::new(), 0_u32);
    let Some(Object::Array(items)) = differences else { return differing };
    for item in items {
        match item {
            Object::Number(number) => code = number as u32,
            Object::Name(name) => {
                if let Some(text) = std::str::from_utf8(&name).ok().and_then(of_name) {
                    differing.insert(code, text);
                }
                code = code.saturating_add(1);
            }
            _ => {}
        }
    }
    differing
}

/// Returns what the name of a sign stands for.
fn of_name(name: &str) -> Option<String> {
    let plain = name.split('.').next().unwrap_or_default();
    let mut signs = plain.chars();
    if let (Some(sign), None) = (signs.next(), signs.next()) {
        return Some(sign.into());
    }
    let hexadecimal = plain.strip_prefix("uni").or_else(|| plain.strip_prefix('u'));
    let code = hexadecimal
        .filter(|digits| (4..=6).contains(&digits.len()))
        .and_then(|it| u32::from_str_radix(it, 16).ok());
    if let Some(sign) = code.and_then(char::from_u32) {
        return Some(sign.into());
    }
    let lists = [(PUNCTUATION, 0x20_u32), (BRACKETS, 0x5b), (BRACES, 0x7b), (LATIN, 0xa1)];
    let listed = lists.iter().find_map(|(names, first)| {
        let at = names.split(' ').position(|known| known == plain)?;
        char::from_u32(first + at as u32)
    });
    let other = || OTHERS.iter().find(|(known, _)| *known == plain).map(|(_, text)| (*text).to_owned());
    listed.map(String::from).or_else(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let cases = [
            ("A", "A"),
            ("seven", "7"),
            ("uni0041", "A"),
            ("u1F600", "😀"),
            ("eacute", "é"),
            ("ydieresis", "ÿ"),
            ("f_f_i", "ffi"),
            ("a.alt", "a"),
            ("asciitilde", "~"),
            ("underscore", "_"),
            ("at", "@"),
        ];
        for (name, text) in cases {
            assert_eq!(of_name(name).as_deref(), Some(text), "{name}");
        }
        assert_eq!(of_name("g123"), None);
    }
}
