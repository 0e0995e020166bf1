//! A text in parts that a tokenizer takes one after the other, and its tokens in windows that a graph reads.
//!
//! Every token is in a window, and whatever is no longer than a window less a stride is whole in one, wherever in the
//! text it stands. No more of a text is kept than a window and a part.

use std::ops::Range;

/// The most bytes that are cut into tokens before it is asked again whether there is time left.
pub const PART_BYTES_MAX: usize = 16 << 10;
/// How far before its end a part may end, to end where a word does, in bytes.
const WORD_BYTES_MAX: usize = 1 << 10;

/// A token, and which bytes of the text it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its number.
    pub id: u32,
    /// Its bytes.
    pub range: Range<usize>,
}

/// The tokens of a text that no window has been taken of yet, after up to a window less a stride that were in one.
#[derive(Debug, Default)]
pub struct Ahead(pub Vec<Token>);

impl Ahead {
    /// Hands over each window that is full and has something behind it.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn take_full<E>(
        &mut self,
        room: usize,
        stride: usize,
        mut read: impl FnMut(&[Token]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut from = 0;
        while let Some(window) = self.0.get(from..from + room).filter(|_| self.0.len() > from + room) {
            read(window)?;
            from += stride;
        }
        self.0.drain(..from);
        Ok(())
    }
}

/// Returns the ranges of the parts of a text; they end at characters, and before blanks where there are some.
pub fn parts(text: &[u8]) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut from = 0;
    std::iter::from_fn(move || {
        let rest = text.get(from..).filter(|rest| !rest.is_empty())?;
        let part = from..from + part_bytes(rest);
        from = part.end;
        Some(part)
    })
}

/// Returns how much of a text is in its first part.
fn part_bytes(text: &[u8]) -> usize {
    let Some(head) = text.get(..PART_BYTES_MAX).filter(|head| head.len() < text.len()) else {
        return text.len();
    };
    let least = PART_BYTES_MAX - WORD_BYTES_MAX;
    let blank = (least..head.len()).rev().find(|at| head.get(*at).is_some_and(u8::is_ascii_whitespace));
    let is_boundary = |at: &usize| text.get(*at).is_none_or(|byte| byte & 0xc0 != 0x80);
    blank.or_else(|| (least..=head.len()).rev().find(is_boundary)).unwrap_or(head.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the windows of so many tokens, as the first and last of each.
    fn windows(tokens: usize, room: usize, stride: usize, at_once: usize) -> Vec<(u32, u32)> {
        let (mut ahead, mut seen) = (Ahead::default(), Vec::new());
        let mut see = |window: &[Token]| {
            seen.push((window[0].id, window[window.len() - 1].id));
            Ok::<_, ()>(())
        };
        let all: Vec<Token> = (0..tokens).map(|at| Token { id: at as u32, range: at..at + 1 }).collect();
        for some in all.chunks(at_once) {
            ahead.0.extend_from_slice(some);
            ahead.take_full(room, stride, &mut see).unwrap();
        }
        if !ahead.0.is_empty() {
            see(&ahead.0).unwrap();
        }
        seen
    }

    #[test]
    fn windows_cover_every_token_and_hold_what_is_short_whole() {
        for (tokens, room, stride) in [(1, 8, 4), (8, 8, 4), (9, 8, 4), (100, 8, 3), (100, 8, 8), (31, 10, 1)]
        {
            let seen = windows(tokens, room, stride, 1000);
            for at_once in [1, 3, 8, 50] {
                assert_eq!(windows(tokens, room, stride, at_once), seen, "{at_once} at once");
            }
            assert_eq!(seen.len(), 1 + tokens.saturating_sub(room).div_ceil(stride));
            let whole = room - stride + 1;
            for from in 0..=tokens.saturating_sub(whole) {
                let until = (from + whole - 1).min(tokens - 1);
                let is_in = |(first, last): &(u32, u32)| *first as usize <= from && until <= *last as usize;
                assert!(seen.iter().any(is_in), "{from} to {until} of {tokens}");
            }
        }
        assert_eq!(windows(0, 8, 4, 1), []);
    }

    #[test]
    fn parts_cover_a_text_and_cut_neither_words_nor_characters() {
        let words = "wörter und noch mehr Wörter ".repeat(3000);
        let letters = "漢字仮名".repeat(9000);
        for text in [words.as_str(), letters.as_str(), "", "short", &"x".repeat(PART_BYTES_MAX)] {
            let parts: Vec<Range<usize>> = parts(text.as_bytes()).collect();
            assert_eq!(parts.iter().map(|part| &text[part.clone()]).collect::<String>(), text);
            assert!(parts.iter().all(|part| part.len() <= PART_BYTES_MAX));
        }
        assert!(parts(words.as_bytes()).skip(1).all(|part| words[part].starts_with(' ')));
        let broken = vec![0x80; 3 * PART_BYTES_MAX];
        assert_eq!(parts(&broken).count(), 3);
    }
}
