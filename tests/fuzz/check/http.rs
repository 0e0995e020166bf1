//! What comes before a body is read: heads, paths, media types, codings, parts.

use http::HeaderMap;
use http::HeaderName;
use http::HeaderValue;
use http::Method;
use http::Uri;
use http::Version;
use portcullis::admin::head;
use portcullis::admin::head::HeadLimits;
use portcullis::llm::media::Media;
use portcullis::llm::multipart;
use portcullis::otlp::Sampling;
use portcullis::otlp::Trace;
use portcullis::proxy::coding::Coding;
use portcullis::proxy::coding::CodingLimits;
use portcullis::proxy::coding::StreamDecoder;
use portcullis::proxy::gate::ByteBudget;
use portcullis::proxy::gate::Reserved;
use portcullis::proxy::path::normalise;

use super::cuttings;

const HEAD_LIMITS: HeadLimits = HeadLimits { bytes_max: 4096, fields_max: 20 };
const CODING_LIMITS: CodingLimits =
    CodingLimits { decoded_bytes_max: 64 << 10, ratio_max: 100, ratio_from_bytes: 4 << 10 };
/// Room for what is decoded twice over, its window and its decoder.
const CODING_ROOM_BYTES: usize = 1 << 20;
const BOUNDARY: &str = "b0undary";
const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";
/// As much as everybody has to pass on.
const STATE_BYTES_MAX: usize = 512;

/// A head that is accepted has one meaning.
pub fn head(raw: &[u8]) {
    let Some((method, uri, headers)) = loosely(raw) else { return };
    let checked = head::check((&method, &uri, Version::HTTP_11, &headers), Some(raw), HEAD_LIMITS);
    if checked.is_err() {
        return;
    }
    assert!(raw.len() <= HEAD_LIMITS.bytes_max && headers.len() <= HEAD_LIMITS.fields_max);
    assert_eq!(headers.get_all("host").iter().count(), 1, "a provider could choose its host");
    let framings = ["content-length", "transfer-encoding"].map(|name| headers.get_all(name).iter().count());
    assert!(framings.iter().sum::<usize>() <= 1, "two ways to find the end of the body");
    assert!(headers.keys().all(|name| !name.as_str().contains('_')));
    let ends = raw.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(ends, raw.windows(2).filter(|pair| pair == b"\r\n").count(), "a bare line feed");
    assert!(!matches!(method, Method::TRACE | Method::CONNECT));
}

/// Reads a head as the loosest parser would.
fn loosely(raw: &[u8]) -> Option<(Method, Uri, HeaderMap)> {
    let mut lines = raw.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let mut words = lines.next()?.split(|byte| *byte == b' ');
    let method = Method::from_bytes(words.next()?).ok()?;
    let uri = Uri::try_from(words.next()?).ok()?;
    let mut headers = HeaderMap::new();
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':');
        let Some((name, value)) = colon.and_then(|at| Some((line.get(..at)?, line.get(at + 1..)?))) else {
            continue;
        };
        let name = HeaderName::from_bytes(name).ok()?;
        headers.append(name, HeaderValue::from_bytes(value.trim_ascii()).ok()?);
    }
    Some((method, uri, headers))
}

/// A place in a trace is the caller's, or a new one; a provider is told one that everybody reads alike.
pub fn trace_parent(bytes: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let Ok(value) = HeaderValue::from_bytes(line) else { return };
        headers.append(if line.contains(&b'=') { STATE } else { PARENT }, value);
    }
    let (id, told) = placed(&headers, true);
    let parents: Vec<&[u8]> = headers.get_all(PARENT).iter().map(HeaderValue::as_bytes).collect();
    if let Some(id) = &id {
        let is_said = |parent: &[u8]| parent.windows(id.len()).any(|part| part == id.as_bytes());
        assert!(matches!(parents[..], [parent] if is_said(parent)), "{id} is not what the caller said");
    }
    let (id_again, told_again) = placed(&told, true);
    assert_eq!(id_again, id, "what is told is another trace");
    assert_eq!(told_again.get(STATE), told.get(STATE), "what is told has another state");
    assert_ne!(told_again[PARENT], told[PARENT], "two spans have one name");
    let (own, told) = placed(&headers, false);
    assert!(own.is_none() && !told.contains_key(STATE), "whom nobody trusts was followed");
}

/// Returns the id of the trace where it is to be sent, and what a provider is told of it.
fn placed(headers: &HeaderMap, trust_caller: bool) -> (Option<String>, HeaderMap) {
    let trace = Trace::begin(headers, Sampling { trust_caller, percent: 0 });
    let id = trace.sampled().map(|id| format!("{id:032x}"));
    let mut told = HeaderMap::new();
    trace.tell(&mut told);
    let parent = told[PARENT].to_str().expect("it is text");
    let flags = if id.is_some() { "01" } else { "00" };
    let parts: Vec<&str> = parent.split('-').collect();
    assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [2, 32, 16, 2], "{parent}");
    assert!(parts[0] == "00" && parts[3] == flags && id.is_none_or(|id| id == parts[1]), "{parent}");
    assert!(told.get(STATE).is_none_or(|state| (1..=STATE_BYTES_MAX).contains(&state.len())));
    (trace.sampled().map(|id| format!("{id:032x}")), told)
}

/// A path that is accepted has one spelling, which names no other place when it is decoded again.
pub fn path(bytes: &[u8]) {
    let Ok(path) = std::str::from_utf8(bytes) else { return };
    let Ok(normal) = normalise(path) else { return };
    assert!(normal.starts_with('/') && normal.is_ascii() && !normal.contains("//") && !normal.contains('\\'));
    assert!(normal.split('/').all(|segment| segment != "." && segment != ".."));
    assert_eq!(normalise(&normal).as_deref(), Ok(normal.as_str()), "a normal path has another spelling");
}

/// A media type is read alike in any case, and a boundary is one that a body can have.
pub fn media_type(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Media::parse(Some(text)) {
        Ok(Media::Multipart { boundary }) => {
            assert!(
                (1..=70).contains(&boundary.len())
                    && boundary.bytes().all(|byte| matches!(byte, b' '..=b'~'))
            );
        }
        read => assert_eq!(Media::parse(Some(&text.to_ascii_uppercase())), read, "case makes a difference"),
    }
}

/// The parts of a body are in order, apart, and hold no boundary.
pub fn multipart(body: &[u8]) {
    let Ok(parts) = multipart::parts(body, BOUNDARY, 20) else { return };
    assert!(parts.len() <= 20);
    let delimiter = format!("\r\n--{BOUNDARY}");
    let mut end = 0;
    for part in &parts {
        assert!(end <= part.head.start && part.head.end <= part.content.start);
        assert!(part.content.start <= part.content.end && part.content.end <= body.len());
        let content = &body[part.content.clone()];
        let holds = content.windows(delimiter.len()).any(|window| window == delimiter.as_bytes());
        assert!(!holds, "a part holds a boundary");
        assert!(body[part.content.end..].starts_with(delimiter.as_bytes()));
        end = part.content.end;
    }
}

/// A coded body unfolds within its limits, and to the same bytes in pieces as in one.
pub fn coding(bytes: &[u8]) {
    let Some((which, body)) = bytes.split_first() else { return };
    let codings = [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd];
    let coding = codings[usize::from(*which) % codings.len()];
    let room = ByteBudget::new(CODING_ROOM_BYTES);
    let mut reserved = Reserved::none(&room);
    let whole = coding.decode(body, CODING_LIMITS, &mut reserved);
    if let Ok(decoded) = &whole {
        assert!(decoded.len() <= CODING_LIMITS.decoded_bytes_max);
    }
    assert_eq!(room.used(), whole.as_ref().map_or(0, |decoded| decoded.len()), "what is held is counted");
    for cutting in cuttings(body).into_iter().skip(1) {
        let mut decoder = StreamDecoder::new(coding, CODING_LIMITS).expect("a decoder");
        let mut decoded = Vec::new();
        let read = cutting.iter().try_for_each(|piece| decoder.push(piece).map(|more| decoded.extend(more)));
        if let (Ok(()), Ok(whole)) = (read, &whole) {
            assert_eq!(decoded, *whole, "{coding:?} unfolds to other bytes in pieces");
        }
    }
}
