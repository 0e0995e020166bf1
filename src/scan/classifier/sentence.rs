//! Where sentences end in what tools give back: prose, markup, and values of JSON.
//!
//! In: some lines of a text. Out: the range of each part, in order, without the white space and the signs around it.

use std::ops::Range;

/// What parts texts that stand beside one another: tags, quotes, cells of tables.
const FENCES: &[u8] = b"<>\"|\n";
/// What ends a sentence where white space follows it.
const STOPS: &[u8] = b".!?:";
/// What ends one in Chinese and Japanese.
const WIDE_STOPS: [&[u8]; 3] = ["\u{3002}".as_bytes(), "\u{ff01}".as_bytes(), "\u{ff1f}".as_bytes()];

/// Returns the lines of a text.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    parts(text, |at| text.get(at) == Some(&b'\n'))
}

/// Returns the sentences of a text, and what stands between tags, quotes and the cells of a table.
pub(super) fn sentences(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    parts(text, |at| {
        let (before, here) = (text.get(..=at).unwrap_or_default(), text.get(at).copied().unwrap_or_default());
        let is_followed = || text.get(at + 1).is_none_or(u8::is_ascii_whitespace);
        FENCES.contains(&here)
            || STOPS.contains(&here) && is_followed()
            || WIDE_STOPS.iter().any(|stop| before.ends_with(stop))
    })
}

/// Returns what stands between the places at which a text is parted, each of which belongs to what is before it.
fn parts(text: &[u8], ends: impl Fn(usize) -> bool) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    (0..=text.len()).filter_map(move |at| {
        if at < text.len() && !ends(at) {
            return None;
        }
        let part = from..(at + 1).min(text.len());
        from = part.end;
        let is_of_it = |at: &usize| text.get(*at).is_some_and(|byte| !is_rim(*byte));
        let start = part.clone().find(is_of_it)?;
        Some(start..part.rev().find(is_of_it)? + 1)
    })
}

/// Tells whether a byte stands around a sentence and says nothing.
fn is_rim(byte: u8) -> bool {
    byte.is_ascii_whitespace() || FENCES.contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str, parts: impl Iterator<Item = Range<usize>>) -> Vec<&str> {
        parts.map(|part| &text[part]).collect()
    }

    #[test]
    fn sentences_end_at_stops_tags_quotes_and_cells() {
        for (text, expected) in [
            ("One. Two! Is 1.5 three?", &["One.", "Two!", "Is 1.5 three?"][..]),
            ("<p>One</p> <b>two</b>", &["p", "One", "/p", "b", "two", "/b"]),
            (r#"{"a": "one"}"#, &["{", "a", ":", "one", "}"]),
            ("\u{4e00}\u{3002}\u{4e8c}", &["\u{4e00}\u{3002}", "\u{4e8c}"]),
            ("", &[]),
        ] {
            assert_eq!(told(text, sentences(text.as_bytes())), expected);
        }
        assert_eq!(told("one. two\n\n three", lines(b"one. two\n\n three")), ["one. two", "three"]);
    }
}
