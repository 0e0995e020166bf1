//! The escapes of JSON, undone byte by byte while a text arrives.
//!
//! In: bytes, cut anywhere. Out: each byte as it stands, or the letter that an escape stands for. Escapes are undone in
//! the strings of a text that begins as an object or an array does, such as the arguments of a tool: many writers leave
//! no letter but those of ASCII as it is. A backslash anywhere else means itself, and so does what is no escape. The text
//! is only followed, never parsed: whether it is JSON to its end nobody knows while it arrives.

use smallvec::SmallVec;

/// The longest escape, in bytes: the two halves of one letter.
const ESCAPE_BYTES_MAX: usize = 12;
/// One half of such a letter, in bytes.
const HALF_BYTES: usize = 6;

/// What stands in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A byte that means itself.
    Byte(u8),
    /// An escape.
    Letter {
        /// What it stands for.
        letter: char,
        /// Its length in bytes.
        taken: usize,
    },
}

/// A text under way.
#[derive(Clone, Debug, Default)]
pub struct Escapes {
    place: Place,
    /// An escape that is not complete yet.
    held: SmallVec<[u8; ESCAPE_BYTES_MAX]>,
}

/// Where in a text the next byte stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Nothing but white space stands before it.
    #[default]
    Begin,
    /// In a text that is no JSON.
    Plain,
    /// Between the strings of one that is.
    Between,
    /// In a string.
    Text,
}

/// What the bytes from a backslash on are.
enum Escape {
    Pending,
    Letter(char),
    /// Half of a letter, with nothing that belongs to it behind.
    Half,
    None,
}

/// Tells whether a text begins as JSON does, so that its escapes are undone.
pub fn begins_json(text: &[u8]) -> bool {
    matches!(text.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Returns a part of a string of JSON with its escapes undone.
pub fn undone(part: &[u8]) -> Vec<u8> {
    let (mut escapes, mut text) = (Escapes { place: Place::Text, ..Escapes::default() }, Vec::new());
    let mut each = |meaning| match meaning {
        Meaning::Byte(byte) => text.push(byte),
        Meaning::Letter { letter, .. } => text.extend(letter.encode_utf8(&mut [0; 4]).as_bytes()),
    };
    part.iter().for_each(|byte| escapes.take(*byte, &mut each));
    escapes.finish(&mut each);
    text
}

impl Escapes {
    /// Tells whether the text begins as JSON does, so that its escapes are undone.
    pub fn is_json(&self) -> bool {
        matches!(self.place, Place::Between | Place::Text)
    }

    /// Takes the next byte.
    #[inline]
    pub fn take(&mut self, byte: u8, each: &mut impl FnMut(Meaning)) {
        match (self.place, byte) {
            (Place::Plain, _) => {}
            (Place::Text, _) if !self.held.is_empty() => {
                self.held.push(byte);
                return self.settle(false, each);
            }
            (Place::Text, b'\\') => return self.held.push(byte),
            (Place::Text, b'"') => self.place = Place::Between,
            (Place::Between, b'"') => self.place = Place::Text,
            (Place::Begin, b'{' | b'[') => self.place = Place::Between,
            (Place::Begin, _) if !byte.is_ascii_whitespace() => self.place = Place::Plain,
            (Place::Text | Place::Between | Place::Begin, _) => {}
        }
        each(Meaning::Byte(byte));
    }

    /// Ends the text: what is incomplete means itself.
    pub fn finish(&mut self, each: &mut impl FnMut(Meaning)) {
        while !self.held.is_empty() {
            self.settle(true, each);
        }
    }

    /// Tells what is held as far as it is known; what is behind it is read anew.
    fn settle(&mut self, is_over: bool, each: &mut impl FnMut(Meaning)) {
        let (meaning, taken) = match escape(&self.held) {
            Escape::Pending if !is_over => return,
            Escape::Letter(letter) => (letter, self.held.len()),
            Escape::Pending | Escape::Half if self.held.len() >= HALF_BYTES => {
                (char::REPLACEMENT_CHARACTER, HALF_BYTES)
            }
            Escape::Pending | Escape::Half | Escape::None => ('\\', 1),
        };
        let rest: SmallVec<[u8; ESCAPE_BYTES_MAX]> = self.held.drain(..).skip(taken).collect();
        each(if taken == 1 { Meaning::Byte(b'\\') } else { Meaning::Letter { letter: meaning, taken } });
        rest.into_iter().for_each(|byte| self.take(byte, each));
    }
}

/// Reads bytes that begin with a backslash.
fn escape(bytes: &[u8]) -> Escape {
    let letter = match bytes.get(1) {
        None => return Escape::Pending,
        Some(b'u') => return utf16(bytes),
        Some(byte @ (b'"' | b'\\' | b'/')) => char::from(*byte),
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(_) => return Escape::None,
    };
    Escape::Letter(letter)
}

/// Reads `\uXXXX`, twice where the first is one half of a letter.
fn utf16(bytes: &[u8]) -> Escape {
    let (first, behind) = bytes.split_at_checked(HALF_BYTES).unwrap_or((bytes, &[]));
    let first = match unit(first) {
        Ok(first) => first,
        Err(broken) => return broken,
    };
    if let Some(letter) = char::from_u32(first) {
        return Escape::Letter(letter);
    }
    if first >= 0xdc00 {
        return Escape::Half;
    }
    match unit(behind) {
        Ok(second @ 0xdc00..=0xdfff) => {
            let letter = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            char::from_u32(letter).map_or(Escape::Half, Escape::Letter)
        }
        Err(Escape::Pending) => Escape::Pending,
        Ok(_) | Err(_) => Escape::Half,
    }
}

/// Reads one `\uXXXX`, or says what it is instead.
fn unit(bytes: &[u8]) -> Result<u32, Escape> {
    let mut value = 0;
    for (at, byte) in bytes.iter().enumerate() {
        match (at, char::from(*byte).to_digit(16)) {
            (0, _) if *byte == b'\\' => {}
            (1, _) if *byte == b'u' => {}
            (2.., Some(digit)) => value = value << 4 | digit,
            _ => return Err(Escape::None),
        }
    }
    if bytes.len() == HALF_BYTES { Ok(value) } else { Err(Escape::Pending) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what a text means, escapes marked, and checks that none of its bytes is lost.
    fn read(text: &str) -> String {
        let (mut escapes, mut told, mut bytes) = (Escapes::default(), String::new(), 0);
        let mut each = |meaning: Meaning| match meaning {
            Meaning::Byte(byte) => {
                told.push(char::from(byte));
                bytes += 1;
            }
            Meaning::Letter { letter, taken } => {
                told.extend(['<', letter, '>']);
                bytes += taken;
            }
        };
        text.bytes().for_each(|byte| escapes.take(byte, &mut each));
        escapes.finish(&mut each);
        assert_eq!(bytes, text.len(), "{text}");
        told
    }

    #[test]
    fn escapes_are_undone_in_the_strings_of_json_alone() {
        assert_eq!(read(r#"{"a\u00e9":"\"b\"\n"}"#), "{\"a<é>\":\"<\">b<\"><\n>\"}");
        assert_eq!(read(r#" ["\ud83d\ude00"]"#), " [\"<😀>\"]");
        for plain in [r"C:\new", r#"say "\n""#, r"[\n]", r#"{a\n: "b"}"#] {
            assert_eq!(read(plain), plain);
        }
    }

    #[test]
    fn what_is_no_escape_means_itself() {
        let lost = char::REPLACEMENT_CHARACTER;
        for (text, meaning) in [
            (r#"["\q\n"]"#, "[\"\\q<\n>\"]".to_owned()),
            (r#"["\u12"]"#, "[\"\\u12\"]".to_owned()),
            (r#"["\u12\n"#, "[\"\\u12<\n>".to_owned()),
            (r#"["\ud83dx"#, format!("[\"<{lost}>x")),
            (r#"["\ud83d\n"#, format!("[\"<{lost}><\n>")),
            (r#"["\ud83d\u00e9"#, format!("[\"<{lost}><é>")),
            (r#"["\udc00\"#, format!("[\"<{lost}>\\")),
            (r#"["\ud83d\ude0"#, format!("[\"<{lost}>\\ude0")),
            (r#"["\ud8"#, "[\"\\ud8".to_owned()),
        ] {
            assert_eq!(read(text), meaning, "{text}");
        }
    }
}
