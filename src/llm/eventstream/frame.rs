//! One frame: what is read of it, and the same frame with parts of that replaced.
//!
//! A frame's texts are laid out one behind another: the names and values of its headers, then its payload. `InvokeModel`
//! puts the provider's own event into an envelope, `{"bytes": base64}`: there the event is the payload, and the envelope
//! without it stands before. An edit of a text becomes an edit of the frame, with new lengths and checksums; all else of
//! the frame keeps its bytes.

use std::borrow::Cow;
use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::BufMut;
use bytes::Bytes;
use bytes::BytesMut;
use smallvec::SmallVec;
use smallvec::smallvec;

use crate::llm::json::JsonLimits;
use crate::llm::json::walk;
use crate::llm::stream::StreamPiece;

/// The length of a frame, that of its headers, and the checksum of both.
const PRELUDE_BYTES: usize = 12;
const CHECKSUM_BYTES: usize = 4;
/// The most bytes of headers, as Amazon says.
const HEADERS_BYTES_MAX: usize = 128 << 10;
/// The most headers of a frame: Amazon's own have three.
const HEADERS_MAX: usize = 64;
/// The form of a header's value.
const BYTE_ARRAY: u8 = 6;
const STRING: u8 = 7;
/// The kind of event whose payload is an envelope, and the member that it carries the event in.
const ENVELOPE: &str = "chunk";
const ENVELOPED: &str = "bytes";
/// Headers that name an event.
const NAMES: [&str; 2] = [":event-type", ":exception-type"];

/// Why a frame cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameFault {
    /// Its prelude is damaged, or this is no event stream.
    #[error("a frame's prelude does not fit its checksum")]
    Prelude,
    /// Its lengths contradict each other.
    #[error("a frame's lengths contradict each other")]
    Length,
    /// It is damaged.
    #[error("a frame does not fit its checksum")]
    Checksum,
    /// A header has no known form, stands there twice, or is too long to be written.
    #[error("a frame's headers cannot be read")]
    Header,
    /// Its envelope holds no event.
    #[error("a frame's payload is not what its envelope says")]
    Envelope,
    /// The stream ends within it.
    #[error("the stream ends within a frame")]
    Truncated,
}

/// A frame, and where in it the texts lie that were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    bytes: Bytes,
    parts: SmallVec<[Part; 4]>,
}

/// Where the texts of a message are.
type Texts = SmallVec<[Range<usize>; 1]>;

/// A text of a frame that may be replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    /// Where it is in what is read of the frame.
    text: Range<usize>,
    /// Where it is in the frame.
    at: Range<usize>,
    form: Form,
}

/// How a text is written into a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// As the value of a header, behind its length.
    Header,
    /// As it is.
    Payload,
    /// In base64.
    Base64,
}

impl Frame {
    /// Returns the frame as it came.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns where the texts are that may be replaced, in what is read of the frame.
    pub fn texts(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.parts.iter().map(|part| part.text.clone())
    }

    /// Returns the frame with other texts, one for each of [`Frame::texts`].
    ///
    /// # Errors
    /// Fails when a header's text is longer than a header may be, or the frame than a frame.
    pub fn with(&self, texts: &[Cow<'_, [u8]>]) -> Result<Bytes, FrameFault> {
        let mut out = BytesMut::with_capacity(self.bytes.len());
        out.put_slice(&[0; PRELUDE_BYTES]);
        let mut headers = usize::try_from(u32_at(&self.bytes, 4)).map_err(|_| FrameFault::Length)?;
        let mut copied_to = PRELUDE_BYTES;
        for (part, text) in self.parts.iter().zip(texts) {
            let kept_to = part.at.start - if part.form == Form::Header { 2 } else { 0 };
            out.put_slice(self.bytes.get(copied_to..kept_to).ok_or(FrameFault::Length)?);
            match part.form {
                Form::Header => {
                    out.put_u16(u16::try_from(text.len()).map_err(|_| FrameFault::Header)?);
                    out.put_slice(text);
                    headers = headers + text.len() - part.at.len();
                }
                Form::Payload => out.put_slice(text),
                Form::Base64 => out.put_slice(STANDARD.encode(text).as_bytes()),
            }
            copied_to = part.at.end;
        }
        let end = self.bytes.len() - CHECKSUM_BYTES;
        out.put_slice(self.bytes.get(copied_to..end).ok_or(FrameFault::Length)?);
        seal(out, headers)
    }
}

/// Returns how long the frame is that bytes begin with; none while too few have come to tell.
pub(super) fn frame_bytes(bytes: &[u8]) -> Result<Option<usize>, FrameFault> {
    let Some(prelude) = bytes.first_chunk::<PRELUDE_BYTES>() else { return Ok(None) };
    if crc32fast::hash(&prelude[..8]) != u32_at(prelude, 8) {
        return Err(FrameFault::Prelude);
    }
    let length = |at| usize::try_from(u32_at(prelude, at)).map_err(|_| FrameFault::Length);
    let (total, headers) = (length(0)?, length(4)?);
    if headers > HEADERS_BYTES_MAX || headers.saturating_add(PRELUDE_BYTES + CHECKSUM_BYTES) > total {
        return Err(FrameFault::Length);
    }
    Ok(Some(total))
}

/// Reads a whole frame, whose prelude is sound.
pub(super) fn read(bytes: Bytes) -> Result<StreamPiece, FrameFault> {
    let end = bytes.len() - CHECKSUM_BYTES;
    if crc32fast::hash(&bytes[..end]) != u32_at(&bytes, end) {
        return Err(FrameFault::Checksum);
    }
    let payload_at = PRELUDE_BYTES + usize::try_from(u32_at(&bytes, 4)).map_err(|_| FrameFault::Length)?;
    let mut reading =
        Reading { bytes: &bytes, text: Vec::with_capacity(bytes.len()), parts: SmallVec::new() };
    let event = reading.headers(payload_at)?;
    let (event, data) = reading.payload(event, payload_at..end)?;
    let Reading { text, parts, .. } = reading;
    let frame = Some(Box::new(Frame { bytes: bytes.clone(), parts }));
    Ok(StreamPiece { raw: text.into(), event, data, terminated: true, frame })
}

/// Writes the frame of an exception, which ends a stream.
pub(crate) fn exception(kind: &str, payload: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::from(&[0; PRELUDE_BYTES][..]);
    for (name, value) in
        [(":exception-type", kind), (":content-type", "application/json"), (":message-type", "exception")]
    {
        out.put_u8(name.len() as u8);
        out.put_slice(name.as_bytes());
        out.put_u8(STRING);
        out.put_u16(value.len() as u16);
        out.put_slice(value.as_bytes());
    }
    let headers = out.len() - PRELUDE_BYTES;
    out.put_slice(payload);
    seal(out, headers).map(Vec::from).unwrap_or_default()
}

/// Puts lengths and checksums to a frame whose prelude is empty.
fn seal(mut frame: BytesMut, headers: usize) -> Result<Bytes, FrameFault> {
    let length = |bytes: usize| u32::try_from(bytes).map_err(|_| FrameFault::Length);
    if headers > HEADERS_BYTES_MAX {
        return Err(FrameFault::Header);
    }
    let (total, headers) = (length(frame.len() + CHECKSUM_BYTES)?, length(headers)?);
    frame[..4].copy_from_slice(&total.to_be_bytes());
    frame[4..8].copy_from_slice(&headers.to_be_bytes());
    let checksum = crc32fast::hash(&frame[..8]);
    frame[8..PRELUDE_BYTES].copy_from_slice(&checksum.to_be_bytes());
    let checksum = crc32fast::hash(&frame);
    frame.put_u32(checksum);
    Ok(frame.freeze())
}

/// A frame under way.
struct Reading<'a> {
    bytes: &'a [u8],
    text: Vec<u8>,
    parts: SmallVec<[Part; 4]>,
}

impl Reading<'_> {
    /// Reads the headers, which end at `end`; returns what names the event.
    fn headers(&mut self, end: usize) -> Result<Option<String>, FrameFault> {
        let mut at = PRELUDE_BYTES;
        let mut names: SmallVec<[Range<usize>; 4]> = SmallVec::new();
        let mut event = None;
        while at < end {
            let name = self.counted::<1>(&mut at, end)?;
            let is_known = names.iter().any(|known| self.bytes[known.clone()] == self.bytes[name.clone()]);
            if name.is_empty() || is_known || names.len() == HEADERS_MAX {
                return Err(FrameFault::Header);
            }
            self.say(name.clone());
            if let Some(value) = self.value(&mut at, end)? {
                let called = &self.bytes[name.clone()];
                if NAMES.iter().any(|known| known.as_bytes() == called) {
                    event = Some(String::from_utf8_lossy(&self.bytes[value.clone()]).into_owned());
                }
                let text = self.say(value.clone());
                self.parts.push(Part { text, at: value, form: Form::Header });
            }
            names.push(name);
        }
        Ok(event)
    }

    /// Reads the value of a header; returns where it is, if it is a text.
    fn value(&self, at: &mut usize, end: usize) -> Result<Option<Range<usize>>, FrameFault> {
        let form = *self.bytes.get(*at).filter(|_| *at < end).ok_or(FrameFault::Header)?;
        *at += 1;
        let fixed = match form {
            0 | 1 => 0,
            2 => 1,
            3 => 2,
            4 => 4,
            5 | 8 => 8,
            9 => 16,
            BYTE_ARRAY | STRING => return self.counted::<2>(at, end).map(Some),
            _ => return Err(FrameFault::Header),
        };
        *at += fixed;
        if *at > end { Err(FrameFault::Header) } else { Ok(None) }
    }

    /// Returns where the bytes are that stand behind their number, which is `N` bytes long.
    fn counted<const N: usize>(&self, at: &mut usize, end: usize) -> Result<Range<usize>, FrameFault> {
        let number = self.bytes.get(*at..*at + N).filter(|_| *at + N <= end).ok_or(FrameFault::Header)?;
        let count = number.iter().fold(0, |count, byte| count << 8 | usize::from(*byte));
        let range = *at + N..*at + N + count;
        *at = range.end;
        if range.end > end { Err(FrameFault::Header) } else { Ok(range) }
    }

    /// Reads the payload; returns the event's name and where its payload is in the text.
    fn payload(
        &mut self,
        event: Option<String>,
        payload: Range<usize>,
    ) -> Result<(Option<String>, Texts), FrameFault> {
        if payload.is_empty() {
            return Ok((event, SmallVec::new()));
        }
        let enveloped = match event.as_deref() {
            Some(ENVELOPE) => self.enveloped(&payload),
            _ => None,
        };
        let Some(base64) = enveloped else {
            let from = self.text.len();
            self.text.extend_from_slice(&self.bytes[payload.clone()]);
            let text = from..self.text.len();
            self.parts.push(Part { text: text.clone(), at: payload, form: Form::Payload });
            return Ok((event, smallvec![text]));
        };
        let inner = STANDARD.decode(&self.bytes[base64.clone()]).map_err(|_| FrameFault::Envelope)?;
        self.text.extend_from_slice(&self.bytes[payload.start..base64.start]);
        self.say(base64.end..payload.end);
        let from = self.text.len();
        self.text.extend_from_slice(&inner);
        let text = from..self.text.len();
        self.parts.push(Part { text: text.clone(), at: base64, form: Form::Base64 });
        Ok((None, smallvec![text]))
    }

    /// Returns where an envelope holds its event, if that is what the payload is.
    fn enveloped(&self, payload: &Range<usize>) -> Option<Range<usize>> {
        let body = &self.bytes[payload.clone()];
        let document = walk(body, &JsonLimits::STRICT).ok()?;
        let string = document.string(document.find(body, &[ENVELOPED])?)?;
        Some(payload.start + string.raw.start..payload.start + string.raw.end)
    }

    /// Adds a line to the text, and returns where it is.
    fn say(&mut self, of_frame: Range<usize>) -> Range<usize> {
        let from = self.text.len();
        self.text.extend_from_slice(&self.bytes[of_frame]);
        let range = from..self.text.len();
        self.text.push(b'\n');
        range
    }
}

/// Reads a number, of bytes whose length is known to suffice.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let number = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
    number.map_or(0, |number| u32::from_be_bytes(*number))
}
