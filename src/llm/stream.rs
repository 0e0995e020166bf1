//! What all streams have in common: exact pieces of the original bytes, each with the payload inside it.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use bytes::BytesMut;
use smallvec::SmallVec;

use crate::llm::array::ArrayParser;
use crate::llm::eventstream::EventStreamParser;
use crate::llm::eventstream::Frame;
use crate::llm::eventstream::FrameFault;
use crate::llm::media::BYTE_ORDER_MARK;
use crate::llm::ndjson::NdjsonParser;
use crate::llm::plain::PlainParser;
use crate::llm::sse::SseParser;
use crate::llm::typed;

/// The default limit of one piece: a Responses event may carry a whole image.
pub const PIECE_BYTES_MAX: usize = 16 << 20;

/// How much of a stream is looked at for what it begins with, in bytes: more white space than that begins none.
const BEGIN_BYTES_MAX: usize = 1024;

/// How a stream is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamFormat {
    /// Server-sent events (WHATWG HTML, section 9.2).
    Sse,
    /// One JSON document a line.
    Ndjson,
    /// One JSON value a line, behind a sign of its type and a colon (Vercel's AI SDK).
    TypedLines,
    /// One JSON array whose elements come one by one.
    JsonArray,
    /// Amazon's frames with checksums, around JSON.
    AmazonEvents,
    /// Text as it stands, without any frame.
    Text,
}

/// Why a stream cannot be cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamFault {
    /// A piece outgrew the limit before it ended.
    #[error("one event of the stream is larger than {limit} bytes")]
    PieceTooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The stream is no JSON array of objects.
    #[error("the stream is not a JSON array of objects, at byte {offset}")]
    NotAnArray {
        /// Where, in bytes of the stream.
        offset: u64,
    },
    /// A frame cannot be read.
    #[error(transparent)]
    Frame(#[from] FrameFault),
}

/// One event, line, element or frame. The pieces of a stream, put together, are the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamPiece {
    /// What is read of it: the original bytes, separators included, or the texts of its frame.
    pub raw: Bytes,
    /// The event's name, where it has one.
    pub event: Option<String>,
    /// Where the payload sits in `raw`; none for heartbeats and separators. Several lines of one SSE event read as
    /// joined by line feeds.
    pub data: SmallVec<[Range<usize>; 1]>,
    /// Whether the piece was ended by its separator, not by the end of the stream.
    pub terminated: bool,
    /// The frame that its texts lie in, where it has one.
    pub frame: Option<Box<Frame>>,
}

impl StreamPiece {
    /// Returns its bytes as they came.
    pub fn original(&self) -> &Bytes {
        self.frame.as_ref().map_or(&self.raw, |frame| frame.bytes())
    }

    /// Returns how many bytes it takes while it waits.
    pub fn held_bytes(&self) -> usize {
        self.raw.len() + self.frame.as_ref().map_or(0, |frame| frame.bytes().len())
    }

    /// Tells whether the piece carries a payload.
    pub fn has_payload(&self) -> bool {
        self.data.iter().any(|line| !line.is_empty())
    }

    /// Returns the payload: the bytes themselves when they are in one place.
    pub fn payload(&self) -> Cow<'_, [u8]> {
        let line = |range: &Range<usize>| self.raw.get(range.clone()).unwrap_or_default();
        match self.data.as_slice() {
            [] => Cow::Borrowed(&[]),
            [only] => Cow::Borrowed(line(only)),
            many => Cow::Owned(many.iter().map(line).collect::<Vec<_>>().join(&b'\n')),
        }
    }

    /// Returns the bytes of `raw` that make up a range of the payload.
    ///
    /// A range over a line's end takes the field name of the next line with it.
    pub fn raw_range(&self, payload: Range<usize>) -> Range<usize> {
        self.raw_offset(payload.start)..self.raw_offset(payload.end)
    }

    fn raw_offset(&self, offset: usize) -> usize {
        let mut before = 0;
        for line in &self.data {
            if offset <= before + line.len() {
                return line.start + (offset - before);
            }
            before += line.len() + 1;
        }
        self.data.last().map_or(0, |line| line.end)
    }
}

/// Cuts a stream into pieces, however its bytes arrive.
#[derive(Debug)]
pub struct StreamParser {
    framing: Framing,
    piece_bytes_max: usize,
    fault: Option<StreamFault>,
    /// Whether its begin has shown what it is.
    is_begun: bool,
    /// The framing that its begin showed, where that is another than was told and nobody asked yet.
    reframed: Option<StreamFormat>,
}

#[derive(Debug)]
enum Framing {
    Sse(SseParser),
    Ndjson(NdjsonParser),
    TypedLines(NdjsonParser),
    JsonArray(ArrayParser),
    AmazonEvents(EventStreamParser),
    Text(PlainParser),
}

impl StreamParser {
    /// Returns a parser at the begin of a stream, whose pieces may be `piece_bytes_max` long.
    pub fn new(format: StreamFormat, piece_bytes_max: usize) -> Self {
        let framing = Framing::new(format, piece_bytes_max);
        let is_begun = format != StreamFormat::Sse;
        Self { framing, piece_bytes_max, fault: None, is_begun, reframed: None }
    }

    /// Returns the framing that the stream's begin showed, where that is another than was told; once.
    pub fn take_reframed(&mut self) -> Option<StreamFormat> {
        self.reframed.take()
    }

    /// Takes what events begin with for what it is, whatever it is called, once enough of it is there to tell.
    fn begin(&mut self) {
        let Some(format) = format_begun(self.pending()) else { return };
        self.is_begun = true;
        if format != StreamFormat::Sse {
            let begin = std::mem::take(self.pending());
            self.framing = Framing::new(format, self.piece_bytes_max);
            *self.pending() = begin;
            self.reframed = Some(format);
        }
    }

    /// Takes the next bytes and returns the pieces they complete.
    ///
    /// # Errors
    /// Fails when a piece is too large or the framing is broken, and on every call after that. Pieces that were
    /// complete before the fault are always returned first; then the next call tells the fault.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<StreamPiece>, StreamFault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let mut pieces = Vec::new();
        self.pending().extend_from_slice(bytes);
        if !self.is_begun {
            self.begin();
        }
        if !self.is_begun {
            return Ok(pieces);
        }
        let outcome = match &mut self.framing {
            Framing::Sse(parser) => parser.advance(&mut pieces),
            Framing::Ndjson(parser) => parser.advance(&mut pieces),
            Framing::TypedLines(parser) => {
                let advanced = parser.advance(&mut pieces);
                pieces.iter_mut().for_each(typed::read);
                advanced
            }
            Framing::JsonArray(parser) => parser.advance(&mut pieces),
            Framing::AmazonEvents(parser) => parser.advance(&mut pieces),
            Framing::Text(parser) => {
                parser.advance(&mut pieces);
                Ok(())
            }
        };
        self.fault = outcome.err();
        match self.fault {
            Some(fault) if pieces.is_empty() => Err(fault),
            Some(_) | None => Ok(pieces),
        }
    }

    /// Returns how many bytes make no whole piece yet.
    pub fn unread_bytes(&mut self) -> usize {
        self.pending().len()
    }

    /// Takes the bytes that make no whole piece yet, for a stream that is not read any further.
    pub fn take_rest(&mut self) -> Bytes {
        std::mem::take(self.pending()).freeze()
    }

    /// Returns what is left at the end of the stream.
    ///
    /// # Errors
    /// Fails when the stream had a fault.
    pub fn finish(&mut self) -> Result<Option<StreamPiece>, StreamFault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        Ok(match &mut self.framing {
            Framing::Sse(parser) => parser.finish(),
            Framing::Ndjson(parser) => parser.finish(),
            Framing::TypedLines(parser) => {
                let mut last = parser.finish();
                last.iter_mut().for_each(typed::read);
                last
            }
            Framing::JsonArray(parser) => parser.finish(),
            Framing::AmazonEvents(parser) => return parser.finish().map(|()| None),
            Framing::Text(parser) => parser.finish(),
        })
    }

    fn pending(&mut self) -> &mut BytesMut {
        match &mut self.framing {
            Framing::Sse(parser) => parser.pending(),
            Framing::Ndjson(parser) | Framing::TypedLines(parser) => parser.pending(),
            Framing::JsonArray(parser) => parser.pending(),
            Framing::AmazonEvents(parser) => parser.pending(),
            Framing::Text(parser) => parser.pending(),
        }
    }
}

impl Framing {
    fn new(format: StreamFormat, piece_bytes_max: usize) -> Self {
        match format {
            StreamFormat::Sse => Self::Sse(SseParser::new(piece_bytes_max)),
            StreamFormat::Ndjson => Self::Ndjson(NdjsonParser::new(piece_bytes_max)),
            StreamFormat::TypedLines => Self::TypedLines(NdjsonParser::new(piece_bytes_max)),
            StreamFormat::JsonArray => Self::JsonArray(ArrayParser::new(piece_bytes_max)),
            StreamFormat::AmazonEvents => Self::AmazonEvents(EventStreamParser::new(piece_bytes_max)),
            StreamFormat::Text => Self::Text(PlainParser::default()),
        }
    }
}

/// Returns what a stream of events is by its begin, for no event begins as JSON does; nothing, while that may still
/// come. An object in lines of its own is none of one a line.
fn format_begun(begin: &[u8]) -> Option<StreamFormat> {
    let is_short = begin.len() < BEGIN_BYTES_MAX;
    let looked_at = begin.get(..BEGIN_BYTES_MAX).unwrap_or(begin);
    if is_short && BYTE_ORDER_MARK.starts_with(looked_at) {
        return None;
    }
    match looked_at.strip_prefix(BYTE_ORDER_MARK).unwrap_or(looked_at).trim_ascii_start() {
        [] | [b'{'] if is_short => None,
        [b'[', ..] => Some(StreamFormat::JsonArray),
        [b'{', b'"' | b'}' | b' ' | b'\t', ..] => Some(StreamFormat::Ndjson),
        begin @ ([_] | [_, b':']) if is_short && typed::begins(begin).is_none() => None,
        begin if typed::may_begin(begin) => Some(StreamFormat::TypedLines),
        [] | [_, ..] => Some(StreamFormat::Sse),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Parsed = (Vec<StreamPiece>, Option<StreamFault>);

    fn parsed(format: StreamFormat, piece_bytes_max: usize, chunks: &[&[u8]]) -> Parsed {
        let mut parser = StreamParser::new(format, piece_bytes_max);
        let mut pieces = Vec::new();
        for chunk in chunks {
            match parser.push(chunk) {
                Ok(found) => pieces.extend(found),
                Err(fault) => return (pieces, Some(fault)),
            }
        }
        match parser.finish() {
            Ok(rest) => pieces.extend(rest),
            Err(fault) => return (pieces, Some(fault)),
        }
        (pieces, None)
    }

    fn cut<'a>(stream: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        at.extend([0, stream.len()]);
        at.sort_unstable();
        at.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect()
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(
            text in "(data: ?|event:|id: 1|retry: 5|: c|\\{\"a\":\"x\\\\\"\\]\"\\}|[\\[\\],x ]|\\{|\\}|\r|\n|\r\n|\u{feff}){0,40}",
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
            limit in prop_oneof![Just(PIECE_BYTES_MAX), 1..60_usize],
            format in prop_oneof![
                Just(StreamFormat::Sse), Just(StreamFormat::Ndjson), Just(StreamFormat::JsonArray),
                Just(StreamFormat::TypedLines)
            ],
        ) {
            let whole = parsed(format, limit, &[text.as_bytes()]);
            prop_assert_eq!(&parsed(format, limit, &cut(text.as_bytes(), &cuts)), &whole);
            let bytewise: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            prop_assert_eq!(&parsed(format, limit, &bytewise), &whole);
            let (pieces, fault) = whole;
            let raw: Vec<u8> = pieces.iter().flat_map(|piece| piece.raw.to_vec()).collect();
            match fault {
                None => prop_assert_eq!(raw, text.as_bytes()),
                Some(_) => prop_assert!(text.as_bytes().starts_with(&raw)),
            }
        }
    }
}
