//! The texts of a JSON document, one behind another, and what is known of each before it is read.

use std::cell::Cell;
use std::ops::Range;

use super::name_of_secret;
use crate::llm::dialect::Channel;
use crate::llm::json::Document;
use crate::llm::json::JsonString;
use crate::policy::decision::CallerId;
use crate::policy::decision::Direction;
use crate::policy::inspect::Inspector;
use crate::policy::inspect::layer3;
use crate::policy::inspect::names;
use crate::policy::inspect::text::Sheet;
use crate::policy::memo;
use crate::policy::memo::Circumstances;
use crate::policy::memo::Tag;

/// What is known of a text before it is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing, and it is not worth knowing.
    Unknown,
    /// Nothing; this is what to know it by.
    New(Tag),
    /// Nothing is to be found in it.
    Clean,
}

/// Asks for texts that were clean before: of requests, whose history comes again with each turn.
pub(super) struct Recall(Option<Circumstances>);

impl Recall {
    pub(super) fn of(sheet: &Sheet<'_, '_>) -> Self {
        let Inspector { ruleset, caller, trial, .. } = sheet.inspector;
        // What one model finds clean says nothing of another.
        if sheet.inspector.judged() == Direction::Response || trial.is_some() {
            return Self(None);
        }
        Self(ruleset.memo.circumstances(sheet.wanted(), caller.map_or("", CallerId::as_str)))
    }

    /// Returns the standing of a text; one that may be a secret for its name, or hold a value to be put back, is
    /// always read.
    pub(super) fn standing(
        &self,
        sheet: &Sheet<'_, '_>,
        (text, document, at): (&[u8], &Document, usize),
        channel: Option<Channel>,
        alone: &[u8],
    ) -> Standing {
        let (Some(circumstances), Some(channel)) = (self.0, channel) else { return Standing::Unknown };
        if alone.len() < memo::TEXT_BYTES_MIN
            || name_of_secret(text, document, at).is_some()
            || sheet.may_restore(alone)
        {
            return Standing::Unknown;
        }
        let ruleset = sheet.inspector.ruleset;
        let reading = layer3::reading(sheet.inspector.judged(), channel) ^ names::reading(channel, alone);
        match ruleset.memo.tag(circumstances, reading, alone) {
            Some(tag) if ruleset.memo.knows(tag) => Standing::Clean,
            Some(tag) => Standing::New(tag),
            None => Standing::Unknown,
        }
    }
}

/// The texts of all strings of a document, escapes undone, with a byte between them that joins nothing; a member's name
/// and its value stand as they do in JSON, for some values are known by it.
///
/// Those that are known to be clean are left out.
pub(super) struct Texts {
    pub(super) joined: Vec<u8>,
    places: Vec<Range<usize>>,
    known: Vec<Known>,
}

/// What is known of one text.
#[derive(Clone, Copy)]
pub(super) struct Known {
    /// Whose words it is, if that was asked.
    pub(super) channel: Option<Channel>,
    pub(super) standing: Standing,
}

impl Known {
    /// Returns what is known of sound, which is counted and not read.
    pub(super) fn sound(text: &[u8], counted: &Cell<usize>) -> Self {
        counted.set(counted.get() + text.len());
        Self { channel: Some(Channel::Metadata), standing: Standing::Clean }
    }
}

impl Texts {
    const BETWEEN: &[u8] = &[0];
    const BEHIND_NAME: &[u8] = b"\": \"";

    pub(super) fn of(
        text: &[u8],
        document: &Document,
        ask: impl Fn(usize, &JsonString, &[u8]) -> Known,
    ) -> Self {
        let count = document.strings.len();
        let mut texts = Self {
            joined: Vec::with_capacity(text.len()),
            places: Vec::with_capacity(count),
            known: Vec::with_capacity(count),
        };
        for (at, string) in document.strings.iter().enumerate() {
            let alone = document.text(text, string);
            let known = ask(at, string, &alone);
            let start = texts.joined.len();
            if known.standing != Standing::Clean {
                texts.joined.extend_from_slice(&alone);
            }
            texts.known.push(known);
            texts.places.push(start..texts.joined.len());
            texts.joined.extend_from_slice(if string.key { Self::BEHIND_NAME } else { Self::BETWEEN });
        }
        texts
    }

    /// Returns where each text lies in `joined`, and what is known of it.
    pub(super) fn places(&self) -> impl Iterator<Item = (Range<usize>, Known)> + '_ {
        self.places.iter().cloned().zip(self.known.iter().copied())
    }
}
