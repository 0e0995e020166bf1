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
use crate::policy::inspect::attached::Attached;
use crate::policy::inspect::attached::Brought;
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

/// What the names of members are known as, beside texts of channels.
const OF_NAMES: u8 = 0x80;

/// What documents are known as, beside texts of channels.
const OF_DOCUMENTS: u8 = 0x20;

/// Asks for texts that were clean before: of requests, whose history comes again with each turn; and for names that were,
/// such as those of an API's own members, which come with each body.
pub(super) struct Recall {
    texts: Option<Circumstances>,
    names: Option<Circumstances>,
}

impl Recall {
    pub(super) fn of(sheet: &Sheet<'_, '_>) -> Self {
        let Inspector { ruleset, caller, trial, .. } = sheet.inspector;
        // What one model finds clean says nothing of another.
        if trial.is_some() {
            return Self { texts: None, names: None };
        }
        let names = ruleset.memo.circumstances(sheet.wanted(), caller.map_or("", CallerId::as_str));
        Self { texts: names.filter(|_| sheet.inspector.judged() == Direction::Request), names }
    }

    /// Returns the standing of a short name of a value that holds no text: it says nothing of any other text.
    pub(super) fn of_name(&self, sheet: &Sheet<'_, '_>, name: &[u8]) -> Standing {
        match self.names {
            Some(circumstances) if !sheet.may_restore(name) => known(sheet, circumstances, OF_NAMES, name),
            _ => Standing::Unknown,
        }
    }

    /// Returns the standing of a document.
    fn of_document(&self, sheet: &Sheet<'_, '_>, attached: &Attached) -> Standing {
        let Some(circumstances) = self.texts else { return Standing::Unknown };
        let (channel, file) = attached.told();
        let reading = layer3::reading(sheet.inspector.judged(), channel) ^ names::reading(channel, file);
        known(sheet, circumstances, reading ^ OF_DOCUMENTS, file)
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
        let (Some(circumstances), Some(channel)) = (self.texts, channel) else { return Standing::Unknown };
        if alone.len() < memo::TEXT_BYTES_MIN
            || name_of_secret(text, document, at).is_some()
            || sheet.may_restore(alone)
        {
            return Standing::Unknown;
        }
        let reading = layer3::reading(sheet.inspector.judged(), channel) ^ names::reading(channel, alone);
        known(sheet, circumstances, reading, alone)
    }
}

/// Finds the files among the strings of a JSON text, to be read once its texts are; returns which strings are nothing else.
pub(super) fn find_files(
    sheet: &mut Sheet<'_, '_>,
    recall: &Recall,
    text: &[u8],
    document: &Document,
) -> Vec<usize> {
    let mut files = Vec::new();
    for (at, string) in document.strings.iter().enumerate() {
        let brought = Brought::of(sheet.inspector, None, (text, document), string);
        let Some(Brought { is_file, attached }) = brought else { continue };
        if is_file {
            files.push(at);
        }
        let Some(attached) = attached else { continue };
        match recall.of_document(sheet, &attached) {
            Standing::Clean => sheet.attachments.pass(),
            Standing::New(tag) => sheet.attachments.push(attached.known_by(tag)),
            Standing::Unknown => sheet.attachments.push(attached),
        }
    }
    files
}

/// Returns the standing of a text by what is remembered.
fn known(sheet: &Sheet<'_, '_>, circumstances: Circumstances, reading: u8, alone: &[u8]) -> Standing {
    let memo = &sheet.inspector.ruleset.memo;
    match memo.tag(circumstances, reading, alone) {
        Some(tag) if memo.knows(tag) => Standing::Clean,
        Some(tag) => Standing::New(tag),
        None => Standing::Unknown,
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
