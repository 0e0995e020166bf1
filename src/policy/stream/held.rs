//! What of a stream has not left yet.

use std::ops::Range;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::llm::json::Document;
use crate::llm::json::JsonString;
use crate::llm::stream::StreamPiece;
use crate::redact::splice::Edit;

/// An event that waits for its texts to be judged.
pub(super) struct Held {
    pub(super) piece: StreamPiece,
    pub(super) payload: Bytes,
    pub(super) document: Option<Document>,
    pub(super) segments: SmallVec<[Segment; 2]>,
    pub(super) edits: Vec<Edit>,
}

/// The part of a lane's text that lies in one event.
pub(super) struct Segment {
    pub(super) slot: usize,
    pub(super) text: Range<usize>,
    pub(super) string: JsonString,
}
