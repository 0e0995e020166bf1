use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

use super::FrameFault;
use super::exception;
use crate::llm::stream::StreamFault;
use crate::llm::stream::StreamFormat;
use crate::llm::stream::StreamParser;
use crate::llm::stream::StreamPiece;

/// A frame with a header of each form.
const ALL_FORMS: &str = "000000cc000000af0fae64ca0a6576656e742d74797065040000a00c0c636f6e74656e742d747970650700106170706c\
    69636174696f6e2f6a736f6e0a626f6f6c2066616c73650109626f6f6c207472756500046279746502cf086279746520\
    62756606001449276d2061206c6974746c6520746561706f74210974696d657374616d70080000000000845fed05696e\
    74313603002a05696e7436340500000000028757b2047575696409010203040506070809101112131415167b27666f6f\
    273a27626172277ddae1d84e";

fn parser(frame_bytes_max: usize) -> StreamParser {
    StreamParser::new(StreamFormat::AmazonEvents, frame_bytes_max)
}

/// Writes a frame independently of what reads it.
fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut written = Vec::new();
    for (name, value) in headers {
        written.push(name.len() as u8);
        written.extend(name.as_bytes());
        written.push(7);
        written.extend((value.len() as u16).to_be_bytes());
        written.extend(value.as_bytes());
    }
    let mut frame = ((written.len() + payload.len() + 16) as u32).to_be_bytes().to_vec();
    frame.extend((written.len() as u32).to_be_bytes());
    frame.extend(crc32fast::hash(&frame).to_be_bytes());
    frame.extend(written);
    frame.extend(payload);
    frame.extend(crc32fast::hash(&frame).to_be_bytes());
    frame
}

fn event(name: &str, payload: &[u8]) -> Vec<u8> {
    frame(
        &[(":event-type", name), (":content-type", "application/json"), (":message-type", "event")],
        payload,
    )
}

fn read(stream: &[u8]) -> Result<Vec<StreamPiece>, StreamFault> {
    let mut parser = parser(1 << 20);
    let pieces = parser.push(stream)?;
    parser.push(b"")?;
    parser.finish().map(|_| pieces)
}

fn only(stream: &[u8]) -> StreamPiece {
    let mut pieces = read(stream).expect("it is sound");
    assert_eq!(pieces.len(), 1);
    pieces.remove(0)
}

#[test]
fn a_frame_is_its_event_and_its_payload() {
    let written = event("contentBlockDelta", br#"{"delta":{"text":"hi"}}"#);
    let piece = only(&written);
    assert_eq!(piece.event.as_deref(), Some("contentBlockDelta"));
    assert_eq!(&*piece.payload(), br#"{"delta":{"text":"hi"}}"#);
    assert_eq!(piece.original(), &written);
    let outside = &piece.raw[..piece.data[0].start];
    assert!(outside.ends_with(b":message-type\nevent\n"), "{}", outside.escape_ascii());
}

#[test]
fn an_envelope_is_the_event_that_is_in_it() {
    let inner = br#"{"type":"content_block_delta"}"#;
    let outer = format!(r#"{{"bytes":"{}","p":"abcd"}}"#, STANDARD.encode(inner));
    let piece = only(&event("chunk", outer.as_bytes()));
    assert_eq!((piece.event.as_deref(), &*piece.payload()), (None, &inner[..]));
    let outside = String::from_utf8_lossy(&piece.raw[..piece.data[0].start]);
    assert!(outside.contains(r#"{"bytes":"","p":"abcd"}"#), "{outside}");
    // Elsewhere the same is a payload like any other.
    assert_eq!(&*only(&event("else", outer.as_bytes())).payload(), outer.as_bytes());
    assert_eq!(read(&event("chunk", br#"{"bytes":"!"}"#)), Err(FrameFault::Envelope.into()));
}

#[test]
fn every_form_of_a_header_is_read() {
    let digits = |at: usize| u8::from_str_radix(&ALL_FORMS[at..at + 2], 16).expect("digits");
    let written: Vec<u8> = (0..ALL_FORMS.len()).step_by(2).map(digits).collect();
    let piece = only(&written);
    let text = String::from_utf8_lossy(&piece.raw);
    assert!(
        text.contains("content-type\napplication/json\n") && text.contains("I'm a little teapot!"),
        "{text}"
    );
    assert_eq!(&*piece.payload(), b"{'foo':'bar'}");
}

#[test]
fn other_texts_make_the_frame_of_them() {
    let piece =
        only(&event("chunk", format!(r#"{{"bytes":"{}","p":"ab"}}"#, STANDARD.encode("abc")).as_bytes()));
    let frame = piece.frame.as_ref().expect("a frame");
    let texts: Vec<Cow<'_, [u8]>> = frame.texts().map(|text| Cow::Borrowed(&piece.raw[text])).collect();
    assert_eq!(frame.with(&texts).as_ref(), Ok(frame.bytes()));
    let mut others = texts.clone();
    others[2] = Cow::Borrowed(b"an event of another length");
    others[3] = Cow::Borrowed(b"{}");
    let expected = format!(r#"{{"bytes":"{}","p":"ab"}}"#, STANDARD.encode("{}"));
    let headers = [
        (":event-type", "chunk"),
        (":content-type", "application/json"),
        (":message-type", "an event of another length"),
    ];
    assert_eq!(frame.with(&others).as_deref(), Ok(&super::tests::frame(&headers, expected.as_bytes())[..]));
    others[2] = Cow::Owned(vec![b'x'; 1 << 16]);
    assert_eq!(frame.with(&others), Err(FrameFault::Header));
}

#[test]
fn an_exception_is_a_frame() {
    let written = exception("validationException", br#"{"message":"no"}"#);
    let expected = [
        (":exception-type", "validationException"),
        (":content-type", "application/json"),
        (":message-type", "exception"),
    ];
    assert_eq!(written, frame(&expected, br#"{"message":"no"}"#));
    assert_eq!(only(&written).event.as_deref(), Some("validationException"));
}

#[test]
fn damage_is_told_from_the_rest() {
    let sound = event("a", b"{}");
    let with = |at: usize| {
        let mut frame = sound.clone();
        frame[at] ^= 1;
        read(&frame)
    };
    for at in 0..12 {
        assert_eq!(with(at), Err(FrameFault::Prelude.into()), "{at}");
    }
    for at in 12..sound.len() {
        assert_eq!(with(at), Err(FrameFault::Checksum.into()), "{at}");
    }
    let twice = [sound.clone(), sound[..9].to_vec()].concat();
    assert_eq!(read(&twice), Err(FrameFault::Truncated.into()));
    assert_eq!(read(&frame(&[("a", "x"), ("a", "y")], b"")), Err(FrameFault::Header.into()));
    assert_eq!(read(&frame(&[("", "x")], b"")), Err(FrameFault::Header.into()));
    let many: Vec<String> = (0..65).map(|number| number.to_string()).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|name| (&**name, "")).collect();
    assert!(read(&frame(&many[..64], b"")).is_ok());
    assert_eq!(read(&frame(&many, b"")), Err(FrameFault::Header.into()));
    assert_eq!(parser(40).push(&sound), Err(StreamFault::PieceTooLarge { limit: 40 }));
    // The fault is told by the prelude, before the rest would have to be kept.
    assert_eq!(parser(40).push(&sound[..12]), Err(StreamFault::PieceTooLarge { limit: 40 }));
}

#[test]
fn what_cannot_be_read_stays_to_be_passed_on() {
    let mut stream = [event("a", b"{}"), event("b", b"{}"), b"rest".to_vec()].concat();
    let (first, end) = (event("a", b"{}").len(), event("b", b"{}").len() * 2);
    stream[end - 1] ^= 1;
    let mut parser = parser(1 << 20);
    assert_eq!(parser.push(&stream).expect("the first is sound").len(), 1);
    assert_eq!(parser.push(b""), Err(FrameFault::Checksum.into()));
    assert_eq!(parser.take_rest(), &stream[first..]);
}

proptest! {
    #[test]
    fn frames_do_not_depend_on_chunks(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..5),
        enveloped in any::<bool>(),
        damage in prop::option::of(any::<prop::sample::Index>()),
        size in 1..30_usize,
    ) {
        let payload = |bytes: &Vec<u8>| match enveloped {
            true => format!(r#"{{"p":"","bytes":"{}"}}"#, STANDARD.encode(bytes)).into_bytes(),
            false => bytes.clone(),
        };
        let frames: Vec<Vec<u8>> = payloads.iter().map(|it| event("chunk", &payload(it))).collect();
        let mut stream = frames.concat();
        if let Some(at) = damage.filter(|_| !stream.is_empty()) {
            let at = at.index(stream.len());
            stream[at] ^= 0x10;
        }
        let run = |size: usize| {
            let (mut parser, mut pieces) = (parser(1 << 20), Vec::new());
            let fault = stream.chunks(size).find_map(|chunk| match parser.push(chunk) {
                Ok(found) => { pieces.extend(found); None }
                Err(fault) => Some(fault),
            });
            (pieces, fault.or(parser.finish().err()))
        };
        let whole = run(stream.len().max(1));
        prop_assert_eq!(&run(size), &whole);
        prop_assert_eq!(&run(1), &whole);
        let original: Vec<u8> = whole.0.iter().flat_map(|piece| piece.original().to_vec()).collect();
        prop_assert!(stream.starts_with(&original));
        if damage.is_none() {
            prop_assert_eq!(original, stream);
            let read: Vec<Vec<u8>> = whole.0.iter().map(|piece| piece.payload().into_owned()).collect();
            prop_assert_eq!(read, payloads);
        }
    }
}
