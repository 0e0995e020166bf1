//! Streams: the same pieces however the bytes arrive, and the pieces together are the stream.

use std::borrow::Cow;

use portcullis::llm::stream::StreamFault;
use portcullis::llm::stream::StreamFormat;
use portcullis::llm::stream::StreamParser;
use portcullis::llm::stream::StreamPiece;
use portcullis::llm::websocket::Said;
use portcullis::llm::websocket::Side;
use portcullis::llm::websocket::SocketFault;
use portcullis::llm::websocket::SocketParser;

use super::cuttings;

/// Small enough that a corpus reaches it.
const PIECE_BYTES_MAX: usize = 96;

/// Cuts server-sent events.
pub fn sse(bytes: &[u8]) {
    pieces(StreamFormat::Sse, bytes);
}

/// Cuts lines of JSON.
pub fn ndjson(bytes: &[u8]) {
    pieces(StreamFormat::Ndjson, bytes);
}

/// Cuts lines of JSON behind signs of their types.
pub fn typed_lines(bytes: &[u8]) {
    pieces(StreamFormat::TypedLines, bytes);
}

/// Cuts the elements of a JSON array.
pub fn array(bytes: &[u8]) {
    pieces(StreamFormat::JsonArray, bytes);
}

/// Cuts Amazon's frames.
pub fn amazon_events(bytes: &[u8]) {
    pieces(StreamFormat::AmazonEvents, bytes);
}

/// Cuts plain text: where the bytes end that came, and never within a character.
pub fn text(bytes: &[u8]) {
    let is_text = std::str::from_utf8(bytes).is_ok();
    for cutting in cuttings(bytes) {
        let (pieces, fault) = parsed(StreamFormat::Text, PIECE_BYTES_MAX, &cutting);
        assert_eq!(fault, None, "there is nothing wrong with a text");
        let told: Vec<u8> = pieces.iter().flat_map(|piece| piece.payload().into_owned()).collect();
        assert_eq!(told, bytes, "a text says something else in pieces");
        let is_whole = |piece: &StreamPiece| !piece.raw.is_empty() && std::str::from_utf8(&piece.raw).is_ok();
        assert!(!is_text || pieces.iter().all(is_whole), "a character was cut");
        pieces.iter().for_each(check);
    }
}

/// Cuts the frames of either side of a socket.
pub fn websocket(bytes: &[u8]) {
    for side in [Side::Caller, Side::Provider] {
        let whole = said(side, &[bytes]);
        for cutting in cuttings(bytes) {
            assert_eq!(said(side, &cutting), whole, "what is said depends on the cutting");
        }
        for said in &whole.0 {
            if let Said::Message(message) = said {
                let again = self::said(side, &[&message.with(&message.payload)]);
                let kept = matches!(&again.0[..], [Said::Message(it)] if it.payload == message.payload);
                assert!(kept, "a message that is written says something else");
            }
        }
    }
}

fn said(side: Side, chunks: &[&[u8]]) -> (Vec<Said>, Option<SocketFault>) {
    let (mut parser, mut said) = (SocketParser::new(side, PIECE_BYTES_MAX * 8), Vec::new());
    for chunk in chunks.iter().chain([&&[][..]]) {
        match parser.push(chunk) {
            Ok(found) => said.extend(found),
            Err(fault) => return (said, Some(fault)),
        }
    }
    (said, None)
}

fn pieces(format: StreamFormat, bytes: &[u8]) {
    for limit in [PIECE_BYTES_MAX, 16 << 20] {
        let whole = parsed(format, limit, &[bytes]);
        for cutting in cuttings(bytes) {
            assert_eq!(parsed(format, limit, &cutting), whole, "pieces depend on the cutting");
        }
        let (pieces, fault) = whole;
        let raw: Vec<u8> = pieces.iter().flat_map(|piece| piece.original().to_vec()).collect();
        match fault {
            None => assert_eq!(raw, bytes, "bytes were lost"),
            Some(_) => assert!(bytes.starts_with(&raw), "bytes were made up"),
        }
        pieces.iter().for_each(check);
    }
}

fn check(piece: &StreamPiece) {
    let mut end = 0;
    for line in &piece.data {
        assert!(end <= line.start && line.start <= line.end && line.end <= piece.raw.len());
        end = line.end;
    }
    if let Some(frame) = &piece.frame {
        let texts: Vec<Cow<'_, [u8]>> = frame.texts().map(|text| Cow::Borrowed(&piece.raw[text])).collect();
        assert_eq!(frame.with(&texts).as_ref(), Ok(frame.bytes()), "the same texts make another frame");
    }
    let payload = piece.payload();
    let all = piece.raw_range(0..payload.len());
    assert!(all.start <= all.end && all.end <= piece.raw.len());
}

fn parsed(format: StreamFormat, limit: usize, chunks: &[&[u8]]) -> (Vec<StreamPiece>, Option<StreamFault>) {
    let mut parser = StreamParser::new(format, limit);
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
