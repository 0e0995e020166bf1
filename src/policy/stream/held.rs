//! What of a stream has not left yet.

use std::ops::Range;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::llm::json::Document;
use crate::llm::json::JsonString;
use crate::llm::stream::StreamPiece;
use crate::policy::inspect::attached::Attached;
use crate::policy::inspect::text::Written;
use crate::redact::splice::Edit;

/// An event that waits for its texts to be judged.
pub(super) struct Held {
    pub(super) piece: StreamPiece,
    pub(super) payload: Bytes,
    pub(super) document: Option<Document>,
    /// What its texts are written in.
    pub(super) written: Written,
    pub(super) segments: SmallVec<[Segment; 2]>,
    pub(super) edits: Vec<Edit>,
    /// What empties the parts that repeat its texts, if one of these is masked.
    pub(super) copies: Vec<Edit>,
    /// The files that it brings.
    pub(super) attached: Vec<Attached>,
    /// Whether every text in it was read; if not, it never leaves unless the policy fails open.
    pub(super) is_read: bool,
}

impl Held {
    /// Returns an event of which nothing was read yet.
    pub(super) fn new(piece: StreamPiece) -> Self {
        let payload = match piece.data.as_slice() {
            [only] => piece.raw.slice(only.clone()),
            _ => Bytes::from(piece.payload().into_owned()),
        };
        Self {
            piece,
            payload,
            document: None,
            written: Written::Json,
            segments: SmallVec::new(),
            edits: Vec::new(),
            copies: Vec::new(),
            attached: Vec::new(),
            is_read: false,
        }
    }
}

/// The part of a lane's text that lies in one event.
pub(super) struct Segment {
    pub(super) slot: usize,
    pub(super) text: Range<usize>,
    pub(super) string: JsonString,
}

/// Returns what puts a mask into the payload of an event, at a range of that.
pub(super) fn edit(piece: &StreamPiece, written: Written, range: Range<usize>, text: &str) -> Edit {
    let (range, mut replacement) = (piece.raw_range(range), written.write(text));
    // A blank behind the colon of a field is none of its text: what begins the line may be one.
    if written == Written::Lines && piece.raw.get(..range.start).is_some_and(|raw| raw.ends_with(b":")) {
        replacement.insert(0, b' ');
    }
    Edit { range, replacement }
}
