//! A text with what is known of its tokens.

use std::ops::Range;

use portcullis::scan::tagger::chain::STATES;
use portcullis::scan::tagger::chain::State;
use portcullis::scan::tagger::chain::Tag;

use crate::lists::tokens;

/// Every state a token may have, as bits.
pub const ANY: u16 = (1 << STATES) - 1;
/// That of a token that is part of nothing.
pub const OUTSIDE: u16 = 1;

/// A text to learn from.
pub struct Sample {
    /// The text.
    pub text: String,
    /// The states that each token may have.
    pub allowed: Vec<u16>,
}

impl Sample {
    /// Returns a text of which everything is known.
    pub fn known(text: String, spans: &[(Range<usize>, Tag)]) -> Self {
        let cut = tokens(&text);
        let allowed = cut.iter().map(|token| {
            let place = token.range.clone();
            let within = spans.iter().find(|(span, _)| span.start < place.end && place.start < span.end);
            within.map_or(OUTSIDE, |(span, tag)| {
                let is_first = !cut
                    .iter()
                    .any(|other| other.range.start >= span.start && other.range.start < place.start);
                let state = if is_first { State::first(*tag) } else { State::further(*tag) };
                1 << state.index()
            })
        });
        let allowed = allowed.collect();
        Self { text, allowed }
    }
}
