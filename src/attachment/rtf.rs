//! Rich Text Format: its text, what is hidden and what is noted beside it included.

use super::Place;
use super::Reader;
use super::Unread;

/// Groups that hold no text of anybody's.
const TEXTLESS: &[&[u8]] = &[
    b"blipuid",
    b"colorschememapping",
    b"colortbl",
    b"datastore",
    b"filetbl",
    b"fonttbl",
    b"latentstyles",
    b"listtable",
    b"objdata",
    b"pict",
    b"rsidtbl",
    b"stylesheet",
    b"themedata",
    b"xmlnstbl",
];
/// How deep groups may lie in one another; deeper ones are read as part of that.
const DEPTH_MAX: usize = 1 << 10;

/// How a group is read.
#[derive(Clone, Copy)]
struct Group {
    is_text: bool,
    /// How many signs stand behind each one of Unicode, for readers that know none.
    spare: usize,
}

/// Reads the signs and words of a text.
struct Writer<'a> {
    rest: &'a [u8],
    group: Group,
    outer: Vec<Group>,
    text: String,
    /// The first half of a sign whose second half is to come.
    half: Option<u16>,
    /// How many signs are passed over.
    passed: usize,
}

impl Reader<'_> {
    /// Reads a file of rich text.
    pub(super) fn rich_text(&mut self, bytes: &[u8], place: &Place) -> Result<(), Unread> {
        self.spend(bytes.len())?;
        let group = Group { is_text: true, spare: 1 };
        let mut writer =
            Writer { rest: bytes, group, outer: Vec::new(), text: String::new(), half: None, passed: 0 };
        while writer.step() {}
        self.take(place.of("body"), writer.text)
    }
}

impl Writer<'_> {
    /// Reads what comes next; tells whether there was anything.
    fn step(&mut self) -> bool {
        let Some((byte, rest)) = self.rest.split_first() else { return false };
        self.rest = rest;
        match byte {
            b'{' if self.outer.len() < DEPTH_MAX => self.outer.push(self.group),
            b'}' => self.group = self.outer.pop().unwrap_or(self.group),
            b'\\' => self.control(),
            b'{' | b'\r' | b'\n' | 0 => {}
            byte => self.put(char::from(*byte)),
        }
        true
    }

    fn control(&mut self) {
        let letters = self.rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        if letters == 0 {
            return self.symbol();
        }
        let (word, rest) = self.rest.split_at(letters);
        let is_part = |(at, byte): &(usize, &u8)| byte.is_ascii_digit() || *at == 0 && **byte == b'-';
        let digits = rest.iter().enumerate().take_while(is_part).count();
        let (digits, rest) = rest.split_at(digits);
        self.rest = rest.strip_prefix(b" ").unwrap_or(rest);
        let number: i64 =
            std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0);
        match word {
            b"par" | b"line" | b"sect" | b"page" | b"row" => self.put('\n'),
            b"tab" | b"cell" | b"nestcell" => self.put('\t'),
            b"emdash" => self.put('—'),
            b"endash" => self.put('–'),
            b"bullet" => self.put('•'),
            b"lquote" | b"rquote" => self.put('\''),
            b"ldblquote" | b"rdblquote" => self.put('"'),
            b"u" => self.unicode(number as u16),
            b"uc" => self.group.spare = usize::try_from(number).unwrap_or(0),
            b"bin" => {
                let bytes = usize::try_from(number).unwrap_or(0);
                self.rest = self.rest.get(bytes..).unwrap_or(self.rest);
            }
            word if TEXTLESS.contains(&word) => self.group.is_text = false,
            _ => {}
        }
    }

    /// Reads what is no word behind a backslash.
    fn symbol(&mut self) {
        let Some((symbol, rest)) = self.rest.split_first() else { return };
        self.rest = rest;
        match symbol {
            b'\'' => {
                let (digits, rest) = rest.split_at(2.min(rest.len()));
                let code = std::str::from_utf8(digits).ok().and_then(|it| u8::from_str_radix(it, 16).ok());
                if let Some(code) = code {
                    self.rest = rest;
                    self.put(char::from(code));
                }
            }
            b'\\' | b'{' | b'}' => self.put(char::from(*symbol)),
            b'~' => self.put(' '),
            b'_' => self.put('-'),
            b'\r' | b'\n' => self.put('\n'),
            _ => {}
        }
    }

    /// Adds a unit of UTF-16.
    fn unicode(&mut self, unit: u16) {
        let halves = self.half.take().map_or_else(|| vec![unit], |half| vec![half, unit]);
        self.passed = 0;
        match char::decode_utf16(halves.iter().copied()).last() {
            Some(Ok(sign)) => self.put(sign),
            _ => self.half = Some(unit),
        }
        self.passed = self.group.spare;
    }

    fn put(&mut self, sign: char) {
        if self.passed > 0 {
            self.passed -= 1;
        } else if self.group.is_text {
            self.text.push(sign);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Bounds;
    use super::super::Form;
    use super::super::read;

    #[test]
    fn texts() {
        let bounds = Bounds {
            text_bytes_max: 999,
            expanded_bytes_max: 9999,
            entries_max: 1,
            objects_max: 1,
            depth_max: 1,
        };
        let cases = [
            ("{\\rtf1{\\fonttbl{\\f0 Arial;}}AK{\\b IA}\\v Q\\v0\\par x}", "AKIAQ\nx"),
            ("{\\rtf1 \\u233?\\uc2\\u8364ab\\'41\\\\ {\\*\\annotation note}}", "é€A\\ note"),
            ("{\\rtf1 \\u-10179?\\u-8704?!}", "😀!"),
            ("{\\rtf1 a{\\pict\\bin3 }}}}b", "ab"),
        ];
        for (source, text) in cases {
            let reading = read(source.as_bytes(), Form::RichText, &bounds, &|| false);
            assert_eq!(reading.parts.first().map(|part| &*part.text), Some(text), "{source}");
        }
    }
}
