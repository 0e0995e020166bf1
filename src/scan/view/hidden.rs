//! What a text says in characters that nobody sees, apart from what stands around it.
//!
//! The canonical view reads hidden characters in their places. A word before them, or behind, then is one with theirs:
//! `Hello` and a key in tags have no edge between them. Here each message stands on a line of its own.

use super::View;
use super::fold::Fold;
use super::fold::fold;

/// What each hidden character begins with, and how long it is, in UTF-8.
const LEAD: &[u8] = b"\xf3\xa0";
const CHARACTER_BYTES: usize = 4;

/// The fewest hidden characters in a row that are a message: a single one only splits what is around it.
const MESSAGE_MIN: usize = 2;

/// How much else that nobody sees may stand between two characters of a message, in bytes.
const UNSEEN_BYTES_MAX: usize = 32;

/// Returns the hidden messages of a text; nothing if it has none.
pub fn hidden(text: &[u8]) -> Option<View> {
    let (mut view, mut message, mut end) = (View::default(), Vec::new(), 0);
    for at in memchr::memmem::find_iter(text, LEAD) {
        let Some(byte) = hidden_at(text, at) else { continue };
        if !is_unseen_between(text.get(end..at).unwrap_or_default()) {
            end_message(&mut message, &mut view);
        }
        message.push((byte, at));
        end = at + CHARACTER_BYTES;
    }
    end_message(&mut message, &mut view);
    (!view.bytes().is_empty()).then_some(view)
}

/// Returns what a hidden character at a place stands for.
fn hidden_at(text: &[u8], at: usize) -> Option<u8> {
    let character = std::str::from_utf8(text.get(at..at + CHARACTER_BYTES)?).ok()?.chars().next()?;
    match fold(character) {
        Fold::Hidden(byte) => Some(byte),
        Fold::Same | Fold::Gone | Fold::Text(_) => None,
    }
}

/// Tells whether nobody sees what stands between two hidden characters.
fn is_unseen_between(between: &[u8]) -> bool {
    let is_gone = |text: &str| text.chars().all(|character| fold(character) == Fold::Gone);
    between.len() <= UNSEEN_BYTES_MAX && std::str::from_utf8(between).is_ok_and(is_gone)
}

/// Writes a message on a line, if it is one, and begins another.
fn end_message(message: &mut Vec<(u8, usize)>, view: &mut View) {
    if let Some((_, start)) = message.first().filter(|_| message.len() >= MESSAGE_MIN) {
        view.append(b"\n", *start, CHARACTER_BYTES as u8, 1);
        message.iter().for_each(|(byte, at)| view.append(&[*byte], *at, CHARACTER_BYTES as u8, 1));
    }
    message.clear();
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Writes a text in tags.
    fn tags(text: &str) -> String {
        text.chars().filter_map(|character| char::from_u32(0xe0000 + character as u32)).collect()
    }

    fn said(text: &str) -> String {
        hidden(text.as_bytes()).map_or_else(String::new, |view| {
            String::from_utf8(view.bytes().to_vec()).expect("what is hidden is ASCII")
        })
    }

    #[test]
    fn each_message_stands_on_a_line() {
        let key = tags("ghp_1");
        for (text, expected) in [
            (format!("Hello{key}there"), "\nghp_1"),
            (format!("{key}! {}", tags("and more")), "\nghp_1\nand more"),
            (format!("a{}\u{200b}\u{e007f}{}", tags("b"), tags("c")), "\nbc"),
            (format!("a{}b{}", tags("c"), tags("d")), ""),
            ("😀\u{e0158}\u{e0159}".to_owned(), "\nhi"),
            ("葛\u{e0110}城 ❤\u{fe0f} naïve".to_owned(), ""),
            (String::new(), ""),
        ] {
            assert_eq!(said(&text), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_hidden_leads_back_to_its_characters(
            parts in proptest::collection::vec(("[a-zé]{0,3}\u{200b}?", "[ -~]{0,4}"), 0..8),
        ) {
            let text: String = parts.iter().map(|(seen, unseen)| format!("{seen}{}", tags(unseen))).collect();
            let view = hidden(text.as_bytes()).unwrap_or_default();
            let mut before = 0;
            for (at, byte) in view.bytes().iter().enumerate() {
                let place = view.source_range(at..at + 1);
                prop_assert!(before <= place.start);
                before = place.start;
                let is_as_written = hidden_at(text.as_bytes(), place.start) == Some(*byte);
                prop_assert!(*byte == b'\n' || is_as_written && place.len() == CHARACTER_BYTES);
            }
        }
    }
}
