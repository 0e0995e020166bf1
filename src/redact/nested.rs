//! Masks inside a text that is JSON itself, such as a tool call's arguments: what is left can still be parsed.
//!
//! In: the text, whole or in pieces, and what is to be masked in it. Out: edits that leave quotes and signs between
//! values where they are, never part an escape, and put a string where a number stood. The text is only followed,
//! never parsed: one that is no JSON comes out changed in its masked places alone.

use std::ops::Range;

/// A text of JSON, followed byte by byte.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nested {
    state: State,
    /// Whether what stands for the value under way was put somewhere.
    is_placed: bool,
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
    /// In a number or a word that stays.
    Bare,
    /// In one that something else stands for.
    Gone,
}

/// What becomes of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    Goes,
    /// A value has to stand in its place.
    Value,
    /// A digit has to stand in its place: the number began before.
    Digit,
}

impl Nested {
    /// Returns what replaces parts of the next piece of the text, which begins at `from`.
    ///
    /// `masks` are ascending and disjoint, in offsets of the text, each with what stands for it; those that reach into
    /// the piece from before are among them. The ranges of the outcome are those of `piece`.
    pub fn mask<'m>(
        &mut self,
        piece: &[u8],
        from: usize,
        masks: impl Iterator<Item = (Range<usize>, &'m str)>,
    ) -> Vec<(Range<usize>, String)> {
        let mut edits: Vec<(Range<usize>, String)> = Vec::new();
        let mut masks = masks.peekable();
        for (at, byte) in piece.iter().enumerate() {
            while masks.next_if(|(range, _)| range.end <= from + at).is_some() {}
            let mask = masks.peek().filter(|(range, _)| range.contains(&(from + at)));
            self.is_placed &= mask.is_none_or(|(range, _)| range.start != from + at);
            let fate = self.step(*byte, mask.is_some());
            if fate == Fate::Stays {
                continue;
            }
            match edits.last_mut().filter(|(range, _)| range.end == at) {
                Some((range, _)) => range.end = at + 1,
                None => edits.push((at..at + 1, String::new())),
            }
            if let (Some((_, text)), Some((_, written))) = (mask, edits.last_mut()) {
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
            Fate::Goes | Fate::Stays => {}
        }
        self.is_placed = true;
    }

    fn step(&mut self, byte: u8, is_masked: bool) -> Fate {
        let goes = |goes| if goes { Fate::Goes } else { Fate::Stays };
        let (state, fate) = match (self.state, byte) {
            (State::Escape { goes: gone }, b'u') => (State::Digits { left: 4, goes: gone }, goes(gone)),
            (State::Escape { goes: gone }, _) => (State::Text, goes(gone)),
            (State::Digits { left: 1, goes: gone }, _) => (State::Text, goes(gone)),
            (State::Digits { left, goes: gone }, _) => {
                (State::Digits { left: left - 1, goes: gone }, goes(gone))
            }
            (State::Text, b'"') => (State::Between, Fate::Stays),
            (State::Text, b'\\') => (State::Escape { goes: is_masked }, goes(is_masked)),
            (State::Text, _) => (State::Text, goes(is_masked)),
            (_, b'"') => (State::Text, Fate::Stays),
            (_, b' ' | b'\t' | b'\n' | b'\r' | b'{' | b'}' | b'[' | b']' | b',' | b':') => {
                (State::Between, Fate::Stays)
            }
            (State::Between, _) if is_masked => (State::Gone, Fate::Value),
            (State::Bare, _) if is_masked => (State::Gone, Fate::Digit),
            (State::Between | State::Bare, _) => (State::Bare, Fate::Stays),
            (State::Gone, _) => (State::Gone, Fate::Goes),
        };
        self.state = state;
        fate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Masks parts of a text that comes in pieces of so many bytes.
    fn masked(text: &str, masks: &[(Range<usize>, &str)], step: usize) -> String {
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
            (r#"{"a":"abc","b":"def","c":1}"#, r#"bc","b":"de"#, r#"{"a":"a[M]","":"f","c":1}"#),
            (r#"{"a":"abc","b":12}"#, r#"bc","b":12"#, r#"{"a":"a[M]","":null}"#),
            // Numbers and words.
            (r#"{"a":4111,"b":2}"#, "4111", r#"{"a":"[M]","b":2}"#),
            (r#"{"a":4111.50}"#, "4111", r#"{"a":"[M]"}"#),
            (r#"{"a":-4111.50}"#, "4111", r#"{"a":-0}"#),
            (r#"[4111,22]"#, "4111,22", r#"["[M]",null]"#),
            (r#"[1,{"a":"b"}]"#, r#",{"#, r#"[1,{"a":"b"}]"#),
        ] {
            let start = text.find(value).unwrap();
            let masks = [(start..start + value.len(), "[M]")];
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
        let masks = [(6..8, "[1]"), (8..10, "[2]")];
        assert_eq!(masked(text, &masks, text.len()), text.replace("abcd", "[1][2]"));
        assert_eq!(masked(text, &[], 3), text);
    }
}
