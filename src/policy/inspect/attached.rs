//! Documents that a body brings: PDFs, office files and the like, which providers read for their models.
//!
//! In: strings in base64, files of forms, and bodies, that begin or end as a document does. Their texts are judged as
//! those of the member that brings them, each by its place in the document. Nothing can be masked in there: where a policy
//! says `redact`, the body is refused, as where it says `block`.
//!
//! A document that cannot be read as a whole is judged by what was read, passes, and is counted, unless the policy
//! requires that documents can be read. They come last, so that one that takes long leaves the rest of its body judged.

use std::sync::Arc;

use bytes::Bytes;

use super::Unreadable;
use super::layer2;
use super::text::Sheet;
use super::text::Written;
use crate::attachment;
use crate::attachment::Form;
use crate::attachment::Unread;
use crate::llm::dialect::Channel;
use crate::llm::json::Document;
use crate::llm::json::JsonString;
use crate::llm::media::Media;
use crate::policy::decision::Action;
use crate::policy::decision::DocumentMode;
use crate::policy::inspect::Inspector;
use crate::policy::memo::Tag;
use crate::scan::rule::fact::Place;

/// The shortest base64 of a document that says anything, in signs.
const SIGNS_MIN: usize = 64;
/// What became of a document that was read as a whole, beside the [reasons](Unread::as_str) why others were not.
const READ: &str = "read";
/// What became of one whose texts could not be judged.
const UNJUDGED: &str = "unjudged";

/// A document that waits to be read.
pub(in crate::policy) struct Attached {
    file: Bytes,
    form: Form,
    channel: Channel,
    place: Place,
    /// What to know it by once it is clean.
    tag: Option<Tag>,
}

/// The documents of a body.
#[derive(Default)]
pub(in crate::policy) struct Attachments {
    /// The body that brings them as they are.
    pub(super) body: Bytes,
    /// How many were found.
    found: usize,
    /// Those that are still to be read, by their number.
    waiting: Vec<(usize, Attached)>,
    /// What became of each that was read, in one word.
    pub(super) told: Vec<&'static str>,
    /// The part of a document that is read.
    pub(super) within: Option<Arc<str>>,
    /// Whether one could not be read, where the policy requires that.
    is_unread: bool,
}

impl Attachments {
    /// Adds a document that is read once the rest of the body is.
    pub(super) fn push(&mut self, attached: Attached) {
        self.found += 1;
        self.waiting.push((self.found, attached));
    }

    /// Adds a document that a part of the body is, or all of it; tells whether it is one.
    pub(super) fn push_part(&mut self, part: &[u8], mode: DocumentMode) -> bool {
        let tail = part.get(part.len().saturating_sub(attachment::TAIL_BYTES)..).unwrap_or_default();
        let form = Form::of(part, tail).filter(|_| mode != DocumentMode::Pass);
        let Some(form) = form else { return false };
        let file = self.body.slice_ref(part);
        let (channel, place) = (Channel::User, Place::default());
        self.push(Attached { file, form, channel, place, tag: None });
        true
    }

    /// Lets a document pass that is known to be clean.
    pub(super) fn pass(&mut self) {
        self.found += 1;
    }

    /// Returns how an action about a finding is carried out: within a document nothing can be masked.
    pub(super) fn carried(&self, action: Action) -> Action {
        match action {
            Action::Redact if self.within.is_some() => Action::Block,
            action => action,
        }
    }

    /// Returns what is done about documents that could not be read, whatever the fail mode says.
    pub(super) fn action(&self) -> Action {
        if self.is_unread { Action::Block } else { Action::Allow }
    }
}

impl Attached {
    /// Returns a document that a string of a JSON text is.
    pub(in crate::policy) fn of_string(
        inspector: &Inspector<'_>,
        text: &[u8],
        document: &Document,
        string: &JsonString,
    ) -> Option<Self> {
        let raw = text.get(string.raw.clone())?;
        if string.key
            || raw.len() < SIGNS_MIN
            || inspector.policy.documents == DocumentMode::Pass
            || !Media::may_be_base64(raw)
        {
            return None;
        }
        let ends = (attachment::HEAD_BYTES, attachment::TAIL_BYTES);
        let (file, form) = Media::file_of_base64(&document.text(text, string), ends, Form::of)?;
        let channel = inspector.dialect.channel(text, document, string);
        let place = layer2::place(inspector.direction, channel, text, document, string);
        Some(Self { file: file.into(), form, channel, place, tag: None })
    }

    /// Returns it with what to know it by.
    pub(super) fn known_by(self, tag: Tag) -> Self {
        Self { tag: Some(tag), ..self }
    }

    /// Returns whose words it holds, and its bytes.
    pub(super) fn told(&self) -> (Channel, &[u8]) {
        (self.channel, &self.file)
    }
}

impl Sheet<'_, '_> {
    /// Reads the documents that were found in a body, wherever that holds up nobody.
    ///
    /// # Errors
    /// One could not be read, where the policy requires that.
    pub(super) fn read_attached(&mut self) -> Result<(), Unreadable> {
        let attached = std::mem::take(&mut self.attachments.waiting);
        if attached.is_empty() {
            return Ok(());
        }
        let (aside, mut read) = (self.inspector.aside, Ok(()));
        aside(usize::MAX, &mut || read = attached.iter().try_for_each(|it| self.document(it)));
        read
    }

    /// Reads documents of a stream, of which so many came before.
    ///
    /// # Errors
    /// One could not be read, where the policy requires that.
    pub(in crate::policy) fn read_more(
        &mut self,
        more: Vec<Attached>,
        before: usize,
    ) -> Result<(), Unreadable> {
        self.attachments.found = before;
        more.into_iter().for_each(|it| self.attachments.push(it));
        self.read_attached()
    }

    /// Takes what became of each document that was read, in one word.
    pub(in crate::policy) fn take_documents(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.attachments.told)
    }

    /// Takes how many bytes pass unread.
    pub(in crate::policy) fn take_opaque_bytes(&mut self) -> usize {
        std::mem::take(&mut self.opaque_bytes)
    }

    /// Reads a document, and judges what it says.
    ///
    /// # Errors
    /// It could not be read, where the policy requires that.
    fn document(&mut self, (number, attached): &(usize, Attached)) -> Result<(), Unreadable> {
        let Inspector { ruleset, policy, expired, .. } = *self.inspector;
        let reading = attachment::read(&attached.file, attached.form, &ruleset.limits.documents, expired);
        let (found, before) = (self.found, self.gathered().len());
        let mut unjudged = None;
        for part in &reading.parts {
            self.attachments.within = Some(Arc::from(format!("document {number}: {}", part.place)));
            // A part that cannot be judged takes no other with it.
            let read = self.text(part.text.as_bytes(), attached.channel, Written::Plain, |range| range);
            unjudged = read.err().or(unjudged);
        }
        self.attachments.within = None;
        if self.gathered().len() > before {
            self.gathered().place(before, &attached.place);
        }
        let unread = match &unjudged {
            Some(Unreadable::Late) => Some(Unread::Late),
            _ => reading.unread,
        };
        self.attachments.told.push(match (unread, &unjudged) {
            (Some(unread), _) => unread.as_str(),
            (None, Some(_)) => UNJUDGED,
            (None, None) => READ,
        });
        if unread.is_none() && unjudged.is_none() {
            attached.tag.filter(|_| self.found == found).inspect(|tag| ruleset.memo.note(*tag));
            return Ok(());
        }
        if policy.documents != DocumentMode::Require {
            self.opaque_bytes += attached.file.len();
            return Ok(());
        }
        self.attachments.is_unread = true;
        Err(match (unread, unjudged) {
            (None, Some(unjudged)) => unjudged,
            (unread, _) => unread.unwrap_or(Unread::Damaged).into(),
        })
    }
}
