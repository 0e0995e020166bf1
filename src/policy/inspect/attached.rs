//! Documents that a body brings: PDFs, office files and the like, which providers read for their models.
//!
//! In: strings in base64, files of forms, and bodies, that begin or end as a document does. Their texts are judged as
//! those of the member that brings them, each by its place in the document. Nothing can be masked in there: where a policy
//! says `redact`, the body is refused, as where it says `block`.
//!
//! Where a dialect has its files, their base64 is no text: keys would be found in it by chance, two in five files of three
//! megabytes. A document is what its reader reads there, and of a picture, or of what the reader cannot read, the
//! stretches that are words are judged, as those of `words`.
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
use crate::attachment::Bounds;
use crate::attachment::Form;
use crate::attachment::Part;
use crate::attachment::Reading;
use crate::attachment::Unread;
use crate::attachment::archive;
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
/// The member of an object that says of which type the file in it is, as the dialects call it.
const TYPES: [&str; 4] = ["media_type", "mime_type", "mimeType", "mediaType"];
/// How the types of texts begin, in whichever case, and how an address begins that says one.
const TEXT: &[u8] = b"text/";
const TEXT_ADDRESS: &[u8] = b"data:text/";
/// The place of what is words among the bytes of a file.
const WORDS: &str = "words";
/// What became of a document that was read as a whole, beside the [reasons](Unread::as_str) why others were not.
const READ: &str = "read";
/// What became of one whose texts could not be judged.
const UNJUDGED: &str = "unjudged";

/// What a string in base64 brings.
#[derive(Default)]
pub(in crate::policy) struct Brought {
    /// Whether it is a file where the dialect has files, so that its signs say nothing by themselves.
    pub is_file: bool,
    /// What is to be read of it, if anything.
    pub attached: Option<Attached>,
}

/// A file that waits to be read.
pub(in crate::policy) struct Attached {
    file: Bytes,
    /// The format of a document; none of another file, of which words are read.
    form: Option<Form>,
    /// Whether its bytes are judged nowhere else.
    is_file: bool,
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

    /// Adds a document that a part of the body is, or all of it, unless the mode lets it pass; tells whether it is one.
    /// `is_file` says whether its bytes are judged nowhere else.
    pub(super) fn push_part(&mut self, part: &[u8], mode: DocumentMode, is_file: bool) -> bool {
        let tail = part.get(part.len().saturating_sub(attachment::TAIL_BYTES)..).unwrap_or_default();
        let form = Form::of(part, tail);
        if form.is_some() && mode != DocumentMode::Pass {
            let file = self.body.slice_ref(part);
            let (channel, place) = (Channel::User, Place::default());
            self.push(Attached { file, form, is_file, channel, place, tag: None });
        }
        form.is_some()
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

impl Brought {
    /// Returns what a string of a JSON text brings, or of an event of that name; none of what is no file.
    pub(in crate::policy) fn of(
        inspector: &Inspector<'_>,
        event: Option<&str>,
        (text, document): (&[u8], &Document),
        string: &JsonString,
    ) -> Option<Self> {
        let raw = text.get(string.raw.clone())?;
        if string.key || raw.len() < SIGNS_MIN || !Media::may_be_base64(raw) {
            return None;
        }
        let Inspector { dialect, policy, direction, .. } = *inspector;
        let said = document.text(text, string);
        let is_place = dialect.is_place_of_files(event, text, document, string)
            && Media::is_pure_base64(&said)
            && !is_called_text(&said, text, document, string);
        let ends = (attachment::HEAD_BYTES, attachment::TAIL_BYTES);
        let kind = |head: &[u8], tail: &[u8]| {
            let form = Form::of(head, tail);
            (is_place || form.is_some()).then_some(form)
        };
        let (file, form) = Media::file_of_base64(&said, ends, kind)?;
        let is_file = is_place && (form.is_some() || Media::is_binary(&file));
        let is_read = match form {
            Some(_) => policy.documents != DocumentMode::Pass,
            None => is_file && Media::has_words(&file),
        };
        let attached = is_read.then(|| {
            let channel = dialect.channel(text, document, string);
            let place = layer2::place(direction, channel, text, document, string);
            Attached { file: file.into(), form, is_file, channel, place, tag: None }
        });
        (is_file || attached.is_some()).then_some(Self { is_file, attached })
    }
}

impl Attached {
    /// Returns it with what to know it by.
    pub(super) fn known_by(self, tag: Tag) -> Self {
        Self { tag: Some(tag), ..self }
    }

    /// Reads it, as far as the bounds let it and there is time.
    fn read(&self, bounds: &Bounds, expired: &dyn Fn() -> bool) -> Reading {
        let mut reading = match self.form {
            Some(form) => attachment::read(&self.file, form, bounds, expired),
            None => Reading::default(),
        };
        // What is packed, encrypted or drawn in ways that are not read has no words but those of its format.
        let is_strange = matches!(reading.unread, None | Some(Unread::Encrypted | Unread::Format));
        let is_unknown = match self.form {
            None | Some(Form::Compound) => true,
            // Whatever else it is, an archive stands at its end.
            Some(Form::Archive) => !archive::begins(&self.file),
            Some(Form::Pdf | Form::RichText) => reading.is_other,
        };
        if self.is_file && (is_unknown || !is_strange) {
            let most = bounds.text_bytes_max;
            let text = match std::str::from_utf8(&self.file) {
                Ok(text) if !Media::looks_binary(&self.file) => {
                    text[..text.floor_char_boundary(most.min(text.len()))].to_owned()
                }
                _ => Media::words(&self.file, most),
            };
            reading.parts.push(Part { place: WORDS.to_owned(), text });
        }
        reading
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
        let reading = attached.read(&ruleset.limits.documents, expired);
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
        if attached.form.is_some() {
            self.attachments.told.push(match (unread, &unjudged) {
                (Some(unread), _) => unread.as_str(),
                (None, Some(_)) => UNJUDGED,
                (None, None) => READ,
            });
        }
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

/// Tells whether what brings a file calls it a text, by its address or by the member beside it: so it is read, whatever
/// else it begins like.
fn is_called_text(said: &[u8], text: &[u8], document: &Document, string: &JsonString) -> bool {
    let begins = |told: &[u8], begin: &[u8]| {
        told.get(..begin.len()).is_some_and(|head| head.eq_ignore_ascii_case(begin))
    };
    let beside = |name: &str| {
        let node = document.child(text, document.parent(string.node)?, name)?;
        Some(begins(document.str_of(text, node)?.as_bytes(), TEXT))
    };
    begins(said, TEXT_ADDRESS) || TYPES.into_iter().filter_map(beside).any(|is_text| is_text)
}
