//! What the begin of a response shows of it, whatever that is called.

use std::borrow::Cow;

use bytes::Bytes;

use super::context::Exchange;
use crate::attachment::Form;
use crate::llm::media::Media;
use crate::llm::media::MediaFault;
use crate::llm::ndjson;
use crate::llm::sse;
use crate::llm::stream::StreamFormat;
use crate::llm::typed;
use crate::proxy::coding::Coding;
use crate::proxy::coding::CodingFault;
use crate::proxy::coding::CodingLimits;
use crate::proxy::coding::StreamDecoder;

/// How much of a response shows whether it is text, in bytes.
pub(super) const BEGIN_BYTES: usize = 512;
/// How long the first of JSON lines may be that are not declared as such, in bytes.
pub(super) const LINE_BYTES: usize = 64 << 10;
/// The same where it is coded, and how much that may unfold to: it is undone anew with each piece.
pub(super) const CODED_LINE_BYTES: usize = 4 << 10;
const UNFOLDED_BYTES: usize = 256 << 10;

/// What a response begins with.
#[derive(Default)]
pub(super) struct Begun {
    pub(super) bytes: Bytes,
    /// Whether that is all of it.
    pub(super) is_over: bool,
}

/// Returns what the begin of a body says, without its content coding as far as it goes.
pub(super) fn shown<'b>(
    begin: &'b [u8],
    coding: &Result<Option<Coding>, CodingFault>,
    limits: CodingLimits,
) -> Cow<'b, [u8]> {
    match coding {
        Ok(None) => Cow::Borrowed(begin),
        Ok(Some(coding)) => {
            let limits = CodingLimits { decoded_bytes_max: UNFOLDED_BYTES, ..limits };
            let begin = begin.get(..CODED_LINE_BYTES).unwrap_or(begin);
            let decoded = StreamDecoder::new(*coding, limits).and_then(|mut decoder| decoder.push(begin));
            Cow::Owned(decoded.unwrap_or_default().into())
        }
        Err(_) => Cow::Borrowed(&[]),
    }
}

/// Returns which stream a body begins as, if as any; nothing, while it may still.
pub(super) fn stream_begun(begin: &[u8]) -> Option<Option<StreamFormat>> {
    match (sse::begins(begin), ndjson::begins(begin), typed::begins(begin)) {
        (Some(true), _, _) => Some(Some(StreamFormat::Sse)),
        (_, Some(true), _) => Some(Some(StreamFormat::Ndjson)),
        (_, _, Some(true)) => Some(Some(StreamFormat::TypedLines)),
        (Some(false), Some(false), Some(false)) => Some(None),
        (_, _, None) if begin.len() >= BEGIN_BYTES && typed::may_begin(begin) => {
            Some(Some(StreamFormat::TypedLines))
        }
        (None, _, _) | (_, None, _) | (_, _, None) => None,
    }
}

/// Returns whether a body that is declared to be one object begins as events do or, where its API speaks lines, as several
/// objects, one a line; nothing, while it may still.
pub(super) fn begun_as_json(begin: &[u8], speaks_lines: bool) -> Option<Option<StreamFormat>> {
    match sse::begins(begin)? {
        true => Some(Some(StreamFormat::Sse)),
        false if speaks_lines => {
            ndjson::goes_on(begin).map(|goes_on| goes_on.then_some(StreamFormat::Ndjson))
        }
        false => Some(None),
    }
}

/// Tells whether an API is one whose streams are objects, one a line: some call them JSON.
pub(super) fn speaks_lines(exchange: &Exchange) -> bool {
    exchange.detected.as_ref().is_some_and(|detected| detected.dialect.speaks_lines())
}

/// Takes an answer for one of an application, whatever provider's path it was asked at: none speaks in typed lines.
pub(super) fn speak_generic(exchange: &mut Exchange) {
    let generic = exchange.rules.dialects.detect("", None).dialect;
    if let Some(detected) = exchange.detected.as_mut().filter(|it| !it.dialect.is_between_peers()) {
        detected.dialect = generic;
    }
}

/// Tells whether what comes in pieces may be read so, by how it begins: neither JSON, which is judged whole, nor in another
/// encoding.
pub(super) fn may_be_text(begin: &[u8]) -> bool {
    !Media::may_be_json(begin) && !Media::looks_wide(begin) && !Media::looks_binary(begin)
}

/// Tells whether a response is a document that can be read, by how it begins.
pub(super) fn is_document(begin: &[u8]) -> bool {
    Form::of(begin, &[]).is_some()
}

/// Tells whether what is declared to hold no text is none by how it begins. A PDF looks like one for a while; what it
/// holds is compressed.
pub(super) fn is_opaque(begin: &[u8]) -> bool {
    begin.starts_with(b"%PDF-") || Media::looks_binary(begin) && !Media::looks_wide(begin)
}

/// Returns what an error is read as: whoever stands before a provider tells one in plain text under the type of its
/// answers, or in an older encoding whose ASCII is ASCII.
pub(super) fn error_media(
    declared: Option<&str>,
    media: Result<Media, MediaFault>,
    body: &[u8],
) -> Result<Media, MediaFault> {
    let is_readable = match &media {
        Ok(Media::Json | Media::Text | Media::Undeclared) => true,
        Err(MediaFault::Charset) => declared.is_some_and(has_older_charset),
        Ok(_) | Err(_) => false,
    };
    match std::str::from_utf8(body) {
        _ if !is_readable => media,
        Ok(_) => Ok(Media::Undeclared),
        Err(_) if Media::looks_binary(body) => media,
        Err(_) => Ok(Media::Opaque),
    }
}

/// Tells whether a Content-Type names one of the charsets of one byte a sign that ASCII is a part of.
fn has_older_charset(declared: &str) -> bool {
    let declared = declared.to_ascii_lowercase();
    let charset = declared.split("charset=").nth(1).unwrap_or_default().trim_start_matches(['"', '\'']);
    ["iso-8859-", "windows-125", "latin1"].iter().any(|known| charset.starts_with(known))
}
