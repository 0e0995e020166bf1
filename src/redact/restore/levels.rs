//! How deep a place in a text of JSON lies in strings: JSON that stands in a string has strings of its own, whose quotes
//! and values are escaped once more.
//!
//! The text is only followed. A string whose first sign is a bracket is taken for JSON; quotes in others are their text.

/// How many strings within one another are told apart; deeper ones are taken for text.
const DEPTH_MAX: usize = 6;

/// A text of JSON, followed byte by byte.
#[derive(Clone, Copy, Debug, Default)]
pub struct Levels {
    /// In how many strings the text is.
    depth: usize,
    /// How many backslashes stand right before.
    backslashes: usize,
    /// What each of them holds, the outermost first.
    holds: [Content; DEPTH_MAX],
}

/// What a string holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Content {
    /// Nothing yet.
    #[default]
    Unknown,
    Json,
    Text,
}

impl Levels {
    /// Takes the next bytes of the text.
    pub fn follow(&mut self, text: &[u8]) {
        text.iter().for_each(|byte| self.step(*byte));
    }

    /// Returns how often a value that is put here has to be escaped: at least once, for it is put into strings.
    pub fn escapes(&self) -> usize {
        self.depth.max(1)
    }

    fn step(&mut self, byte: u8) {
        match byte {
            b'\\' => {
                self.backslashes += 1;
                return;
            }
            b'"' => self.quote(),
            // Behind a backslash it stands for white space, or for a sign that begins no JSON.
            _ if self.backslashes > 0 => {}
            _ => self.begin(byte),
        }
        self.backslashes = 0;
    }

    /// Takes a sign for what the innermost string holds, if it is its first.
    fn begin(&mut self, byte: u8) {
        let Some(holds) = self.depth.checked_sub(1).and_then(|at| self.holds.get_mut(at)) else { return };
        if *holds == Content::Unknown && !byte.is_ascii_whitespace() {
            *holds = if matches!(byte, b'{' | b'[') { Content::Json } else { Content::Text };
        }
    }

    /// Closes a string, or opens one. In a string at depth `k` its own backslashes are written `2^k` times, its closing
    /// quote behind `2^(k-1) - 1` more.
    fn quote(&mut self) {
        let backslashes = self.backslashes;
        let closes = |depth: &usize| backslashes % (1 << depth) == (1 << (depth - 1)) - 1;
        if let Some(closed) = (1..=self.depth).rev().find(closes) {
            self.depth = closed - 1;
            return;
        }
        let holds_json = self.depth == 0 || self.holds.get(self.depth - 1) == Some(&Content::Json);
        match self.holds.get_mut(self.depth) {
            Some(holds) if holds_json && backslashes == (1 << self.depth) - 1 => {
                *holds = Content::Unknown;
                self.depth += 1;
            }
            Some(_) | None => self.begin(b'"'),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_escaped_as_often_as_strings_are_around_it() {
        let text = |value: Value| value.to_string();
        let inner = text(json!({ "a": "b\"c\\", "n": "HERE", "e": "é\n" }));
        let middle = text(json!([{ "x": inner }, "so"]));
        for (body, escapes) in [
            (text(json!({ "n": "HERE" })), 1),
            (text(json!({ "a": "\\", "b": "say \"HERE\"" })), 1),
            (text(json!({ "b": inner })), 2),
            (text(json!({ "b": " \n [\"HERE\"]", "c": "x" })), 2),
            (text(json!({ "b": "\"HERE\"" })), 1),
            (text(json!({ "b": middle, "c": inner })), 3),
            (text(json!({ "b": text(json!(["x"])), "c": "HERE" })), 1),
            (text(json!({ "b": "{ \"open\": \"HERE" })), 2),
            ("HERE".to_owned(), 1),
        ] {
            let mut levels = Levels::default();
            levels.follow(body.split("HERE").next().unwrap().as_bytes());
            assert_eq!(levels.escapes(), escapes, "{body}");
        }
    }
}
