//! Puts hidden values back into an answer: whole texts, streams, and JSON inside a string.

use crate::llm::json::escape_into;
use crate::redact::token::PLACEHOLDER_BYTES_MAX;
use crate::redact::token::PLACEHOLDER_PREFIX;
use crate::redact::token::Vault;

/// What the text is that values are put back into, once the transport's own escapes are undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// What a person reads.
    Text,
    /// JSON, such as a tool call's arguments: a value is escaped as the inside of a string.
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

/// Puts values back into a text that comes in pieces. It keeps back only what may still become a placeholder.
#[derive(Debug)]
pub struct Restorer {
    inside: Inside,
    /// The begin of what may become a placeholder; shorter than [`PLACEHOLDER_BYTES_MAX`].
    held: String,
}

impl Restorer {
    /// Returns a restorer at the begin of a text.
    pub fn new(inside: Inside) -> Self {
        Self { inside, held: String::new() }
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
            out.push_str(before);
            if vault.may_become(from.as_bytes()) && from.len() < PLACEHOLDER_BYTES_MAX {
                self.held = from.to_string();
                return out;
            }
            match vault.match_at(from.as_bytes()) {
                Some((length, value)) => {
                    self.write(value, &mut out);
                    rest = from.get(length..).unwrap_or_default();
                }
                None => {
                    let (skipped, after) = from.split_at(1);
                    out.push_str(skipped);
                    rest = after;
                }
            }
        }
        out.push_str(rest);
        out
    }

    /// Returns what was kept back, at the end of the text: it never became a placeholder.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Returns how many bytes are kept back.
    pub fn held_bytes(&self) -> usize {
        self.held.len()
    }

    fn write(&self, value: &str, out: &mut String) {
        match self.inside {
            Inside::Text => out.push_str(value),
            Inside::Json => {
                let mut escaped = Vec::with_capacity(value.len());
                escape_into(value, &mut escaped);
                out.push_str(&String::from_utf8_lossy(&escaped));
            }
        }
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
