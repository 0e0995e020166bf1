//! What a stream's end must know of its begin: ids, open blocks, the next number.

use std::collections::BTreeSet;

use super::items::Items;
use crate::llm::json::Document;
use crate::llm::json::NodeId;
use crate::llm::stream::StreamFormat;
use crate::llm::stream::StreamPiece;

/// More choices or blocks than this are not ended one by one.
const OPEN_MAX: usize = 128;
/// Longer ids are not repeated.
const ID_BYTES_MAX: usize = 256;
/// When the provider has told no time.
const NO_TIME: &str = "1970-01-01T00:00:00Z";

/// Follows what was sent of a stream, or reads a whole body, so that it can be ended in its own terms.
#[derive(Debug)]
pub struct StreamTrack {
    pub(super) format: StreamFormat,
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) created: u64,
    pub(super) created_at: String,
    /// Choices or blocks that have begun and not ended.
    pub(super) open: BTreeSet<u64>,
    /// Whether any choice was seen at all.
    pub(super) choices_seen: bool,
    pub(super) message_started: bool,
    pub(super) output_tokens: u64,
    pub(super) next_sequence_number: u64,
    /// Payloads sent.
    pub(super) payloads: u64,
    /// Whether the last byte sent was inside an event.
    pub(super) mid_event: bool,
    /// Whether the array's closing bracket was sent.
    pub(super) closed: bool,
    /// What a response of OpenAI's told of its items, if that is followed.
    pub(super) items: Option<Items>,
    follows_items: bool,
}

impl StreamTrack {
    /// Returns the track of a stream of which nothing was sent yet.
    pub fn new(format: StreamFormat) -> Self {
        Self {
            format,
            id: None,
            model: None,
            created: 0,
            created_at: NO_TIME.to_string(),
            open: BTreeSet::new(),
            choices_seen: false,
            message_started: false,
            output_tokens: 0,
            next_sequence_number: 0,
            payloads: 0,
            mid_event: false,
            closed: false,
            items: None,
            follows_items: false,
        }
    }

    /// Follows the items of a response from here on, too, for a stream that may end as if it were whole.
    pub fn follow_items(&mut self) {
        self.follows_items = true;
    }

    /// Returns how the stream is framed.
    pub fn format(&self) -> StreamFormat {
        self.format
    }

    /// Notes a piece that was sent; with its payload, where that was read.
    pub fn sent(&mut self, piece: &StreamPiece, payload: Option<(&[u8], &Document)>) {
        self.mid_event = !piece.terminated;
        self.payloads += u64::from(piece.has_payload());
        self.closed = self.format == StreamFormat::JsonArray && piece.terminated && !piece.has_payload();
        if let Some((body, doc)) = payload {
            self.read(body, doc);
        }
    }

    /// Notes what left of the piece that was sent last.
    pub fn left(&mut self, bytes: &[u8]) {
        if let Some(items) = &mut self.items {
            items.left(bytes);
        }
    }

    /// Reads what a body or event tells of itself.
    pub fn read(&mut self, body: &[u8], doc: &Document) {
        let text = |paths: &[&[&str]]| {
            let told = paths.iter().find_map(|path| doc.str_at(body, path));
            told.filter(|text| text.len() <= ID_BYTES_MAX).map(|text| text.into_owned())
        };
        let number = |paths: &[&[&str]]| paths.iter().find_map(|path| doc.u64_at(body, path));
        let id = text(&[&["message", "id"], &["response", "id"], &["id"], &["responseId"]]);
        self.id = id.or(self.id.take());
        let model = text(&[&["message", "model"], &["response", "model"], &["model"], &["modelVersion"]]);
        self.model = model.or(self.model.take());
        self.created = number(&[&["created"], &["response", "created_at"]]).unwrap_or(self.created);
        self.created_at = text(&[&["created_at"]]).unwrap_or(std::mem::take(&mut self.created_at));
        let output_tokens = number(&[&["usage", "output_tokens"], &["message", "usage", "output_tokens"]]);
        self.output_tokens = output_tokens.unwrap_or(self.output_tokens);
        if let Some(sent) = number(&[&["sequence_number"]]) {
            self.next_sequence_number = sent.saturating_add(1);
        }
        self.read_choices(body, doc);
        self.read_block(body, doc);
    }

    /// Notes that an event that was sent was cut within its texts: whatever it told, its choices are not over.
    pub fn cut(&mut self, body: &[u8], doc: &Document) {
        choices(body, doc).for_each(|(index, _)| self.begin(index));
    }

    fn read_choices(&mut self, body: &[u8], doc: &Document) {
        for (index, choice) in choices(body, doc) {
            let told =
                |reason| doc.is_set(reason) && doc.str_of(body, reason).is_none_or(|it| !it.is_empty());
            let finished = doc.child(body, choice, "finish_reason").is_some_and(told);
            self.choices_seen = true;
            match finished {
                true => self.end(index),
                false => self.begin(index),
            }
        }
    }

    fn read_block(&mut self, body: &[u8], doc: &Document) {
        let index = doc.u64_at(body, &["index"]);
        match (doc.str_at(body, &["type"]).as_deref(), index) {
            (Some("message_start"), _) => self.message_started = true,
            (Some("response.created"), _) => {
                self.message_started = true;
                self.items = self.follows_items.then(|| Items::new(self.format));
            }
            (Some("content_block_start" | "content-start"), Some(index)) => self.begin(index),
            (Some("content_block_stop" | "content-end"), Some(index)) => self.end(index),
            _ => {}
        }
    }

    fn begin(&mut self, index: u64) {
        if self.open.len() < OPEN_MAX {
            self.open.insert(index);
        }
    }

    fn end(&mut self, index: u64) {
        self.open.remove(&index);
    }
}

/// Returns the choices of an event by their numbers.
fn choices<'a>(body: &'a [u8], doc: &'a Document) -> impl Iterator<Item = (u64, NodeId)> + 'a {
    let choices = doc.find(body, &["choices"]).into_iter().flat_map(|choices| doc.children(choices));
    choices.enumerate().map(|(position, choice)| {
        let told = doc.child(body, choice, "index").and_then(|it| doc.number_text(body, it)?.parse().ok());
        (told.unwrap_or(position as u64), choice)
    })
}
