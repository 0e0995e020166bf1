//! Objects of a PDF as they are written.

/// How deep arrays and dictionaries may lie in one another.
const DEPTH_MAX: usize = 64;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Object {
    Null,
    Bool(bool),
    Number(f64),
    /// A string, its escapes undone.
    Text(Vec<u8>),
    Name(Vec<u8>),
    Array(Vec<Object>),
    Dict(Dict),
    /// Another object, by its number.
    Ref(u32),
    /// A word that is none of the above, such as an operator.
    Word(Vec<u8>),
}

/// A dictionary; of a name that stands there twice, the last value counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Dict(pub(super) Vec<(Vec<u8>, Object)>);

/// Reads objects from bytes.
#[derive(Clone)]
pub(super) struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Dict {
    /// Returns the value of a name.
    pub(super) fn get(&self, name: &str) -> Option<&Object> {
        self.0.iter().rev().find(|(key, _)| key == name.as_bytes()).map(|(_, value)| value)
    }

    /// Tells whether the value of a name is a certain name.
    pub(super) fn is(&self, name: &str, value: &str) -> bool {
        matches!(self.get(name), Some(Object::Name(found)) if found == value.as_bytes())
    }

    /// Tells whether there is a name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }
}

impl Object {
    /// Returns a number as a count.
    pub(super) fn count(&self) -> Option<usize> {
        match self {
            Self::Number(number) if *number >= 0.0 => Some(*number as usize),
            _ => None,
        }
    }

    /// Returns a number.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }
}

impl<'a> Lexer<'a> {
    /// Returns what reads bytes from somewhere on.
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at: at.min(bytes.len()) }
    }

    /// Returns where it is.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Returns the next object; none at the end, and where one is too deep or ends what was not begun.
    pub(super) fn object(&mut self) -> Option<Object> {
        self.nested(0)
    }

    /// Returns what is not read yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Goes on behind some bytes.
    pub(super) fn pass(&mut self, bytes: usize) {
        self.at = (self.at + bytes).min(self.bytes.len());
    }

    /// Goes on behind white space and comments.
    pub(super) fn pass_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let blanks = rest.iter().take_while(|byte| is_blank(**byte)).count();
            self.pass(blanks);
            if self.rest().first() != Some(&b'%') {
                return;
            }
            let comment = self.rest().iter().take_while(|byte| !matches!(byte, b'\r' | b'\n')).count();
            self.pass(comment);
        }
    }

    fn nested(&mut self, depth: usize) -> Option<Object> {
        self.pass_blanks();
        let rest = self.rest();
        match rest {
            [b'<', b'<', ..] => self.dict(depth),
            [b'<', ..] => Some(self.hexadecimal()),
            [b'(', ..] => Some(self.literal()),
            [b'[', ..] => self.array(depth),
            [b'/', ..] => Some(self.name()),
            [b'0'..=b'9' | b'+' | b'-' | b'.', ..] => Some(self.number()),
            [b']' | b'>' | b')' | b'{' | b'}', ..] | [] => None,
            _ => Some(self.word()),
        }
    }

    fn array(&mut self, depth: usize) -> Option<Object> {
        self.pass(1);
        let mut items = Vec::new();
        if depth >= DEPTH_MAX {
            return None;
        }
        while let Some(item) = self.nested(depth + 1) {
            items.push(item);
        }
        self.close(b"]").then_some(Object::Array(items))
    }

    fn dict(&mut self, depth: usize) -> Option<Object> {
        self.pass(2);
        let mut dict = Dict::default();
        if depth >= DEPTH_MAX {
            return None;
        }
        while let Some(key) = self.nested(depth + 1) {
            // What is no name is passed over, as readers do.
            let Object::Name(key) = key else { continue };
            let Some(value) = self.nested(depth + 1) else { break };
            dict.0.push((key, value));
        }
        // A dictionary whose end is missing is as good as its entries.
        self.close(b">>");
        Some(Object::Dict(dict))
    }

    fn close(&mut self, end: &[u8]) -> bool {
        self.pass_blanks();
        let closes = self.rest().starts_with(end);
        if closes {
            self.pass(end.len());
        }
        closes
    }

    fn number(&mut self) -> Object {
        let begin = self.at;
        let number = self.float();
        // Two whole numbers and an R are a reference.
        let mut ahead = self.clone();
        if let Some(of) = whole(number)
            && self.bytes.get(begin).is_some_and(u8::is_ascii_digit)
        {
            ahead.pass_blanks();
            let digits = ahead.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
            ahead.pass(digits);
            let is_parted = ahead.rest().first().is_some_and(|byte| is_blank(*byte));
            ahead.pass_blanks();
            if digits > 0 && is_parted && is_word_end(ahead.rest(), b"R") {
                ahead.pass(1);
                *self = ahead;
                return Object::Ref(of);
            }
        }
        Object::Number(number)
    }

    fn float(&mut self) -> f64 {
        let is_part = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.');
        let written = self.rest().iter().take_while(is_part).count();
        let text = self.rest().get(..written).unwrap_or_default();
        self.pass(written.max(1));
        let text = std::str::from_utf8(text).unwrap_or_default();
        // Some writers put a sign twice, or within a number, where it ends that.
        let digits = text.trim_start_matches('-').split('-').next().unwrap_or_default();
        let number = digits.parse().unwrap_or(0.0);
        let number = if f64::is_finite(number) { number } else { 0.0 };
        if text.starts_with('-') { -number } else { number }
    }

    fn name(&mut self) -> Object {
        self.pass(1);
        let written = self.rest().iter().take_while(|byte| is_regular(**byte)).count();
        let text = self.rest().get(..written).unwrap_or_default();
        self.pass(written);
        if !text.contains(&b'#') {
            return Object::Name(text.to_vec());
        }
        let mut name = Vec::with_capacity(text.len());
        let mut bytes = text;
        while let Some((byte, rest)) = bytes.split_first() {
            let digits = rest.first_chunk().filter(|_| *byte == b'#');
            match digits.and_then(|[high, low]| Some(hex(*high)? << 4 | hex(*low)?)) {
                Some(meant) => {
                    name.push(meant);
                    bytes = rest.get(2..).unwrap_or_default();
                }
                None => {
                    name.push(*byte);
                    bytes = rest;
                }
            }
        }
        Object::Name(name)
    }

    fn word(&mut self) -> Object {
        let written = self.rest().iter().take_while(|byte| is_regular(**byte)).count().max(1);
        let word = self.rest().get(..written).unwrap_or_default();
        self.pass(written);
        match word {
            b"null" => Object::Null,
            b"true" => Object::Bool(true),
            b"false" => Object::Bool(false),
            word => Object::Word(word.to_vec()),
        }
    }

    fn hexadecimal(&mut self) -> Object {
        self.pass(1);
        let end = memchr::memchr(b'>', self.rest()).unwrap_or(self.rest().len());
        let text = self.rest().get(..end).unwrap_or_default();
        self.pass(end + 1);
        Object::Text(of_hex(text))
    }

    fn literal(&mut self) -> Object {
        self.pass(1);
        let mut text = Vec::new();
        let mut open = 1;
        while let Some((byte, rest)) = self.rest().split_first() {
            self.pass(1);
            match byte {
                b'(' => open += 1,
                b')' => open -= 1,
                b'\\' => {
                    let (meant, used) = escaped(rest);
                    text.extend(meant);
                    self.pass(used);
                    continue;
                }
                _ => {}
            }
            if open == 0 {
                break;
            }
            text.push(*byte);
        }
        Object::Text(text)
    }
}

/// Returns the byte that an escape stands for, which goes on behind its backslash, and how long it is.
fn escaped(rest: &[u8]) -> (Option<u8>, usize) {
    match rest {
        [b'n', ..] => (Some(b'\n'), 1),
        [b'r', ..] => (Some(b'\r'), 1),
        [b't', ..] => (Some(b'\t'), 1),
        [b'b', ..] => (Some(8), 1),
        [b'f', ..] => (Some(12), 1),
        [b'\r', b'\n', ..] => (None, 2),
        [b'\r' | b'\n', ..] => (None, 1),
        [b'0'..=b'7', ..] => {
            let digits = rest.iter().take(3).take_while(|byte| matches!(byte, b'0'..=b'7'));
            let (value, used) = digits
                .fold((0_u16, 0), |(value, used), byte| (value << 3 | u16::from(byte - b'0'), used + 1));
            (Some(value as u8), used)
        }
        [byte, ..] => (Some(*byte), 1),
        [] => (None, 0),
    }
}

/// Returns the bytes that hexadecimal digits stand for; whatever else stands between them is none.
pub(super) fn of_hex(text: &[u8]) -> Vec<u8> {
    let digits: Vec<u8> = text.iter().filter_map(|byte| hex(*byte)).collect();
    digits
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |value, digit| value << 4 | digit) << (4 * (2 - pair.len())))
        .collect()
}

/// Tells whether bytes go on with a word that ends there.
pub(super) fn is_word_end(rest: &[u8], word: &[u8]) -> bool {
    rest.strip_prefix(word).is_some_and(|behind| behind.first().is_none_or(|byte| !is_regular(*byte)))
}

/// Tells whether a byte is white space.
pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, 0 | b'\t' | b'\n' | 12 | b'\r' | b' ')
}

fn is_regular(byte: u8) -> bool {
    !is_blank(byte) && !b"()<>[]{}/%".contains(&byte)
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

fn whole(number: f64) -> Option<u32> {
    (number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number)).then_some(number as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects() {
        let read = |text: &str| Lexer::new(text.as_bytes(), 0).object();
        let text = |text: &str| Some(Object::Text(text.as_bytes().to_vec()));
        let cases = [
            ("(a(b)\\)\\101\\\nc)", text("a(b))Ac")),
            ("<41 4 2>", text("AB")),
            ("<414>", text("A@")),
            ("% note\n /A#42", Some(Object::Name(b"AB".to_vec()))),
            ("12 0 R", Some(Object::Ref(12))),
            ("12 0 RG", Some(Object::Number(12.0))),
            ("--3.5", Some(Object::Number(-3.5))),
            (
                "[1 2 (x)]",
                Some(Object::Array(vec![
                    Object::Number(1.0),
                    Object::Number(2.0),
                    Object::Text(b"x".to_vec()),
                ])),
            ),
            ("]", None),
            ("[1", None),
        ];
        for (source, object) in cases {
            assert_eq!(read(source), object, "{source}");
        }
        let Some(Object::Dict(dict)) = read("<</A 1/B<</C[<</A 2>>]>>/A 3>>") else {
            panic!("no dictionary")
        };
        assert_eq!(dict.get("A"), Some(&Object::Number(3.0)));
        assert!(read(&"[".repeat(1 << 20)).is_none() && read(&"<<".repeat(1 << 20)).is_some());
    }
}
