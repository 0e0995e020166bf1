//! Puts hidden values back into an answer: whole texts, streams, and JSON inside a string.

mod levels;

use std::ops::Range;

pub use self::levels::Levels;
use crate::llm::json::escape_into;
use crate::redact::token::PLACEHOLDER_BYTES_MAX;
use crate::redact::token::PLACEHOLDER_PREFIX;
use crate::redact::token::Vault;

/// What the text is that values are put back into, once the transport's own escapes are undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// What a person reads.
    Text,
    /// JSON, such as a tool call's arguments: a value is escaped as the inside of a string, and once more for each string
    /// of JSON around it.
    Json,
}

/// Puts values back into a text that is known whole.
///
/// What was put back is never looked at again: a value that itself looks like a placeholder stays as it is.
pub fn restore(vault: &Vault, text: &str, inside: Inside) -> String {
    let mut stream = Restorer::new(inside);
    let mut out = stream.push(vault, text);
    out.push_str(&stream.finish());
    out
}

/// Where placeholders stand in a text, and how far it is known.
#[derive(Debug, Default)]
pub struct Found {
    /// Each placeholder's bytes and the value to put there, escaped as asked: ascending, disjoint.
    pub values: Vec<(Range<usize>, String)>,
    /// From here on more text may still make a placeholder.
    pub settled_to: usize,
}

/// Tells whether a text may hold a placeholder of this exchange.
pub fn may_hold(vault: &Vault, text: &[u8]) -> bool {
    !vault.is_empty() && memchr::memmem::find(text, PLACEHOLDER_PREFIX.as_bytes()).is_some()
}

/// Finds the placeholders of this exchange in a whole text.
pub fn find(vault: &Vault, text: &[u8], inside: Inside) -> Found {
    find_from(vault, text, (inside, Levels::default()), true)
}

/// Finds the placeholders of this exchange in what follows of a text, which is so deep in strings there; `is_whole` tells
/// that no text follows.
pub fn find_from(
    vault: &Vault,
    text: &[u8],
    (inside, mut levels): (Inside, Levels),
    is_whole: bool,
) -> Found {
    let mut found = Found { values: Vec::new(), settled_to: text.len() };
    if vault.is_empty() {
        return found;
    }
    let (mut at, mut followed_to) = (0, 0);
    while let Some(next) = candidate_bytes(text.get(at..).unwrap_or_default()) {
        let from = text.get(at + next..).unwrap_or_default();
        at += next;
        if !is_whole && from.len() < PLACEHOLDER_BYTES_MAX && vault.may_become(from) {
            found.settled_to = at;
            return found;
        }
        match vault.match_at(from) {
            Some((length, value)) => {
                if inside == Inside::Json {
                    levels.follow(text.get(followed_to..at).unwrap_or_default());
                    followed_to = at;
                }
                found.values.push((at..at + length, written(value, inside, levels)));
                at += length;
            }
            None => at += 1,
        }
    }
    found
}

/// Returns where a placeholder begins, or might.
fn candidate_bytes(text: &[u8]) -> Option<usize> {
    let prefix = PLACEHOLDER_PREFIX.as_bytes();
    memchr::memchr_iter(prefix[0], text).find(|at| {
        let rest = &text[*at..];
        let shared = rest.len().min(prefix.len());
        rest[..shared] == prefix[..shared]
    })
}

/// Puts values back into a text that comes in pieces. It keeps back only what may still become a placeholder.
#[derive(Debug)]
pub struct Restorer {
    inside: Inside,
    /// How deep in strings what was taken ends.
    levels: Levels,
    /// The begin of what may become a placeholder; shorter than [`PLACEHOLDER_BYTES_MAX`].
    held: String,
}

impl Restorer {
    /// Returns a restorer at the begin of a text.
    pub fn new(inside: Inside) -> Self {
        Self { inside, levels: Levels::default(), held: String::new() }
    }

    /// Takes the next piece and returns what may leave.
    pub fn push(&mut self, vault: &Vault, piece: &str) -> String {
        if vault.is_empty() {
            return piece.to_string();
        }
        let text = std::mem::take(&mut self.held) + piece;
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(at) = candidate(rest) {
            let (before, from) = rest.split_at(at);
            self.pass(before, &mut out);
            if vault.may_become(from.as_bytes()) && from.len() < PLACEHOLDER_BYTES_MAX {
                self.held = from.to_string();
                return out;
            }
            match vault.match_at(from.as_bytes()) {
                Some((length, value)) => {
                    out.push_str(&written(value, self.inside, self.levels));
                    rest = from.get(length..).unwrap_or_default();
                }
                None => {
                    let (skipped, after) = from.split_at(1);
                    self.pass(skipped, &mut out);
                    rest = after;
                }
            }
        }
        self.pass(rest, &mut out);
        out
    }

    fn pass(&mut self, text: &str, out: &mut String) {
        if self.inside == Inside::Json {
            self.levels.follow(text.as_bytes());
        }
        out.push_str(text);
    }

    /// Returns what was kept back, at the end of the text: it never became a placeholder.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Returns how many bytes are kept back.
    pub fn held_bytes(&self) -> usize {
        self.held.len()
    }
}

/// Returns a value as it is put into a text.
fn written(value: &str, inside: Inside, levels: Levels) -> String {
    let escaped = |value: String| {
        let mut escaped = Vec::with_capacity(value.len());
        escape_into(&value, &mut escaped);
        String::from_utf8_lossy(&escaped).into_owned()
    };
    match inside {
        Inside::Text => value.to_owned(),
        Inside::Json => (0..levels.escapes()).fold(value.to_owned(), |value, _| escaped(value)),
    }
}

/// Returns where a placeholder begins or, at the text's end, may begin.
fn candidate(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let whole = memchr::memmem::find(bytes, PLACEHOLDER_PREFIX.as_bytes());
    let cut_off = || {
        let longest = PLACEHOLDER_PREFIX.len().min(bytes.len() + 1) - 1;
        (1..=longest).rev().find_map(|length| {
            let at = bytes.len() - length;
            bytes.get(at..)?.eq(PLACEHOLDER_PREFIX.as_bytes().get(..length)?).then_some(at)
        })
    };
    whole.or_else(cut_off)
}

#[cfg(test)]
mod tests;
