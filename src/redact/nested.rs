//! Masks inside a text that is JSON itself, such as a tool call's arguments: what is left can still be parsed.
//!
//! In: the text, whole or in pieces, and what is to be masked in it. Out: edits that leave quotes and signs between
//! values where they are, never part an escape, and put a string where a number stood. The name of a member stays where a
//! mask only runs over it: a value that began before it is none of its. The text is only followed, never parsed: one that
//! is no JSON comes out changed in its masked places alone. Values that are put back outside a string stand there as
//! they are.

use std::ops::Range;

/// Where what replaces a part of a text comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It hides a value.
    Mask,
    /// It is the value that a placeholder stood for.
    Restored,
}

/// A text of JSON, followed byte by byte.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nested {
    state: State,
    /// Whether what stands for the value under way was put somewhere.
    is_placed: bool,
    around: Around,
    /// Where the name of a member begins that the text is in.
    name_from: Option<usize>,
}

/// The objects and arrays around a place of a text.
#[derive(Clone, Copy, Debug, Default)]
struct Around {
    /// Which of them are objects, the innermost last; of more than there is room for, the innermost.
    objects: u128,
    /// Whether the next string is the name of a member.
    is_before_name: bool,
}

/// Where a text of JSON is.
#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// Where a value, a name or a sign may stand.
    #[default]
    Between,
    /// In a string.
    Text,
    /// Behind the backslash of an escape, all of which goes or stays.
    Escape { goes: bool },
    /// In the digits of an escape.
    Digits { left: u8, goes: bool },
    /// In a number that stays.
    Number,
    /// In anything else that stays: JSON has but three words, and no mask is for them.
    Word,
    /// In a number or a word that something else stands for.
    Gone,
}

/// What becomes of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    Goes,
    /// It goes with the value that another mask was put for.
    Swallowed,
    /// A value has to stand in its place.
    Value,
    /// A digit has to stand in its place: the number began before.
    Digit,
}

impl Nested {
    /// Returns what replaces parts of the next piece of the text, which begins at `from`.
    ///
    /// `masks` are ascending and disjoint, in offsets of the text, each with what stands for it and where that comes
    /// from; those that reach into the piece from before are among them. The ranges of the outcome are those of `piece`.
    pub fn mask<'m>(
        &mut self,
        piece: &[u8],
        from: usize,
        masks: impl Iterator<Item = (Range<usize>, &'m str, Origin)>,
    ) -> Vec<(Range<usize>, String)> {
        let mut edits: Vec<(Range<usize>, String)> = Vec::new();
        let mut masks = masks.peekable();
        for (at, byte) in piece.iter().enumerate() {
            while masks.next_if(|(range, ..)| range.end <= from + at).is_some() {}
            let covers =
                |range: &Range<usize>| range.contains(&(from + at)) && !self.is_over_name(range.start);
            let mask = masks.peek().filter(|(range, ..)| covers(range));
            self.is_placed &= mask.is_none_or(|(range, ..)| range.start != from + at);
            let fate = self.step(*byte, from + at, mask.map(|(.., origin)| *origin));
            if fate == Fate::Stays {
                continue;
            }
            match edits.last_mut().filter(|(range, _)| range.end == at) {
                Some((range, _)) => range.end = at + 1,
                None => edits.push((at..at + 1, String::new())),
            }
            if let (Some((_, text, _)), Some((_, written))) = (mask, edits.last_mut()) {
                self.place(fate, text, written);
            }
        }
        edits
    }

    /// Writes what stands for the value under way, once.
    fn place(&mut self, fate: Fate, text: &str, written: &mut String) {
        match fate {
            Fate::Value if self.is_placed => written.push_str("null"),
            Fate::Value => written.extend(["\"", text, "\""]),
            Fate::Digit => written.push('0'),
            Fate::Goes if !self.is_placed => written.push_str(text),
            Fate::Goes | Fate::Swallowed | Fate::Stays => {}
        }
        self.is_placed = true;
    }

    /// Tells whether the text is in the name of a member that begins behind a place.
    fn is_over_name(&self, place: usize) -> bool {
        self.name_from.is_some_and(|from| place < from)
    }

    fn step(&mut self, byte: u8, at: usize, origin: Option<Origin>) -> Fate {
        let is_masked = origin.is_some();
        let goes = |goes| if goes { Fate::Goes } else { Fate::Stays };
        let (state, fate) = match (self.state, byte) {
            (State::Escape { goes: gone }, b'u') => (State::Digits { left: 4, goes: gone }, goes(gone)),
            (State::Escape { goes: gone }, _) => (State::Text, goes(gone)),
            (State::Digits { left: 1, goes: gone }, _) => (State::Text, goes(gone)),
            (State::Digits { left, goes: gone }, _) => {
                (State::Digits { left: left - 1, goes: gone }, goes(gone))
            }
            (State::Text, b'"') => {
                self.name_from = None;
                (State::Between, Fate::Stays)
            }
            (State::Text, b'\\') => (State::Escape { goes: is_masked }, goes(is_masked)),
            (State::Text, _) => (State::Text, goes(is_masked)),
            (_, b'"') => {
                self.name_from = std::mem::take(&mut self.around.is_before_name).then_some(at);
                (State::Text, Fate::Stays)
            }
            (_, b' ' | b'\t' | b'\n' | b'\r') => (State::Between, Fate::Stays),
            (_, b'{' | b'}' | b'[' | b']' | b',' | b':') => {
                self.around.pass(byte);
                (State::Between, Fate::Stays)
            }
            (bare, _) => bare.step_bare(byte, origin),
        };
        self.state = state;
        fate
    }
}

impl Around {
    /// Takes a sign between values.
    fn pass(&mut self, sign: u8) {
        match sign {
            b'{' | b'[' => self.objects = self.objects << 1 | u128::from(sign == b'{'),
            b'}' | b']' => self.objects >>= 1,
            _ => {}
        }
        let may_be = matches!(sign, b'{' | b',');
        self.is_before_name = may_be && self.objects & 1 == 1;
    }
}

impl State {
    /// Takes a byte that is neither of a string nor a sign between values.
    fn step_bare(self, byte: u8, origin: Option<Origin>) -> (Self, Fate) {
        match (self, origin) {
            (Self::Gone, Some(Origin::Mask)) => (Self::Gone, Fate::Swallowed),
            (Self::Gone, None) if byte.is_ascii_alphanumeric() || is_of_number(byte) => {
                (Self::Gone, Fate::Swallowed)
            }
            (Self::Between, Some(Origin::Mask)) if begins_value(byte) => (Self::Gone, Fate::Value),
            (Self::Number, Some(Origin::Mask)) => (Self::Gone, Fate::Digit),
            (_, Some(Origin::Mask | Origin::Restored)) => (Self::Word, Fate::Goes),
            (Self::Between, None) if begins_number(byte) => (Self::Number, Fate::Stays),
            (Self::Number, None) if is_of_number(byte) => (Self::Number, Fate::Stays),
            (_, None) => (Self::Word, Fate::Stays),
        }
    }
}

fn begins_number(byte: u8) -> bool {
    byte == b'-' || byte.is_ascii_digit()
}

fn is_of_number(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E')
}

/// Tells whether a number or one of JSON's words begins so.
fn begins_value(byte: u8) -> bool {
    begins_number(byte) || matches!(byte, b't' | b'f' | b'n')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Masks parts of a text that comes in pieces of so many bytes.
    fn masked(text: &str, masks: &[(Range<usize>, &str, Origin)], step: usize) -> String {
        let (mut nested, mut out) = (Nested::default(), Vec::new());
        for (nth, piece) in text.as_bytes().chunks(step).enumerate() {
            let from = nth * step;
            let mut kept = 0;
            for (range, written) in nested.mask(piece, from, masks.iter().cloned()) {
                out.extend_from_slice(&piece[kept..range.start]);
                out.extend_from_slice(written.as_bytes());
                kept = range.end;
            }
            out.extend_from_slice(&piece[kept..]);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn masks_stay_within_strings_and_stand_as_values() {
        for (text, value, expected) in [
            (r#"{"a":"see x@y.z"}"#, "x@y.z", r#"{"a":"see [M]"}"#),
            // A match that begins or ends within an escape.
            (r#"{"a":"to\nann@y.z"}"#, "nann@y.z", r#"{"a":"to\n[M]"}"#),
            (r#"{"a":"\u00e9abc"}"#, "e9abc", r#"{"a":"\u00e9[M]"}"#),
            (r#"{"a":"abc\\d"}"#, r"abc\", r#"{"a":"[M]d"}"#),
            (r#"{"a":"abc\u00e9d"}"#, r"abc\u0", r#"{"a":"[M]d"}"#),
            // One that goes beyond its string.
            (r#"{"a":"abc"}"#, r#"abc"}"#, r#"{"a":"[M]"}"#),
            (r#"{"a":"abc","b":"def","c":1}"#, r#"bc","b":"de"#, r#"{"a":"a[M]","b":"f","c":1}"#),
            (r#"{"a":"abc","b":12}"#, r#"bc","b":12"#, r#"{"a":"a[M]","b":null}"#),
            (r#"[["abc"],{"\"b":["def"]},"g"]"#, r#"bc"],{"\"b":["de"#, r#"[["a[M]"],{"\"b":["f"]},"g"]"#),
            (r#"{"a":["abc","def"],"b":1}"#, r#"bc","de"#, r#"{"a":["a[M]","f"],"b":1}"#),
            // A name that a mask begins in.
            (r#"{"a":1,"bcd":"efg"}"#, r#"cd":"ef"#, r#"{"a":1,"b[M]":"g"}"#),
            // Numbers and words.
            (r#"{"a":4111,"b":2}"#, "4111", r#"{"a":"[M]","b":2}"#),
            (r#"{"a":4111.50}"#, "4111", r#"{"a":"[M]"}"#),
            (r#"{"a":-4111.50}"#, "4111", r#"{"a":-0}"#),
            (r#"[4111,22]"#, "4111,22", r#"["[M]",null]"#),
            (r#"[1,{"a":"b"}]"#, r#",{"#, r#"[1,{"a":"b"}]"#),
        ] {
            let start = text.find(value).unwrap();
            let masks = [(start..start + value.len(), "[M]", Origin::Mask)];
            for step in 1..=text.len() {
                let out = masked(text, &masks, step);
                assert_eq!(out, expected, "{text} by {step}");
                assert!(serde_json::from_str::<serde_json::Value>(&out).is_ok(), "{out}");
            }
        }
    }

    #[test]
    fn neighbours_are_both_told_and_the_rest_stays() {
        let text = r#"{"a":"abcd","n":[1.5e-3, true, null],"t":"\"\\\u0041"}"#;
        let masks = [(6..8, "[1]", Origin::Mask), (8..10, "[2]", Origin::Mask)];
        assert_eq!(masked(text, &masks, text.len()), text.replace("abcd", "[1][2]"));
        assert_eq!(masked(text, &[], 3), text);
        let masks = [(1..3, "[1]", Origin::Mask), (3..5, "[2]", Origin::Mask)];
        assert_eq!(masked("[41112]", &masks, 2), r#"["[1]"]"#);
    }

    #[test]
    fn what_is_no_json_keeps_its_other_bytes_and_values_come_back_as_they_are() {
        for (text, value) in [
            ("[auth]\nuser=PII_1\n", "PII_1"),
            ("[Ann](mailto:PII_1) wrote", "PII_1"),
            ("[x] Ann <PII_1>, Bob", "PII_1"),
            ("{4111PII_1.5, Bob", "PII_1"),
            ("[auth]\nuser=ann@y.z\n", "ann@y.z"),
            ("[Ann](mailto:ann@y.z) wrote", "ann@y.z"),
            ("[x] Ann <ann@y.z>, Bob", "ann@y.z"),
        ] {
            let start = text.find(value).unwrap();
            let origin = if value == "PII_1" { Origin::Restored } else { Origin::Mask };
            let masks = [(start..start + value.len(), "bo@y.z", origin)];
            for step in 1..=text.len() {
                assert_eq!(masked(text, &masks, step), text.replace(value, "bo@y.z"), "{text} by {step}");
            }
        }
    }
}
