use proptest::prelude::*;

use super::*;

const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// Runs a parser over chunks, and returns what was said, and the fault.
fn run(side: Side, bytes: &[u8], size: usize) -> (Vec<Said>, Option<SocketFault>) {
    let (mut parser, mut said) = (SocketParser::new(side, 1 << 20), Vec::new());
    for chunk in bytes.chunks(size.max(1)).chain([&[][..]]) {
        match parser.push(chunk) {
            Ok(found) => said.extend(found),
            Err(fault) => return (said, Some(fault)),
        }
    }
    (said, None)
}

fn fault(side: Side, bytes: &[u8]) -> Option<SocketFault> {
    run(side, bytes, bytes.len()).1
}

fn message(said: &Said) -> &Message {
    match said {
        Said::Message(message) => message,
        other => panic!("no message: {other:?}"),
    }
}

#[test]
fn the_examples_of_the_standard_are_read() {
    // RFC 6455, section 5.7.
    let (said, _) = run(Side::Provider, b"\x81\x05Hello", 1);
    assert_eq!((&*message(&said[0]).payload, message(&said[0]).is_text), (&b"Hello"[..], true));
    let masked = b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
    let (said, _) = run(Side::Caller, masked, 1);
    assert_eq!(&*message(&said[0]).payload, b"Hello");
    assert_eq!(&message(&said[0]).with(b"Hello")[..], masked);
    let (said, _) = run(Side::Provider, b"\x01\x03Hel\x80\x02lo", 3);
    assert_eq!(&*message(&said[0]).payload, b"Hello");
    assert_eq!(&*message(&said[0]).raw, b"\x01\x03Hel\x80\x02lo");
    let (said, _) = run(Side::Provider, b"\x89\x05Hello", 1);
    assert!(matches!(&said[0], Said::Ping(ping) if &*ping.payload == b"Hello"));
    let long = [&b"\x82\x7e\x01\x00"[..], &[7; 256]].concat();
    assert_eq!(message(&run(Side::Provider, &long, 5).0[0]).payload.len(), 256);
    let longer = [&b"\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00"[..], &vec![7; 1 << 16]].concat();
    let (said, _) = run(Side::Provider, &longer, 1000);
    assert_eq!((message(&said[0]).payload.len(), message(&said[0]).is_text), (1 << 16, false));
    assert_eq!(message(&said[0]).with(&vec![7; 1 << 16]), longer);
}

#[test]
fn control_frames_may_come_between_and_close_is_the_end() {
    let (said, fault) = run(Side::Provider, b"\x01\x01a\x89\x01p\x80\x01b\x88\x04\x03\xe8ok\x81\x01c", 1);
    assert_eq!((said.len(), fault), (3, None));
    assert!(matches!(&said[0], Said::Ping(ping) if &*ping.raw == b"\x89\x01p"));
    assert_eq!(
        (&*message(&said[1]).payload, &*message(&said[1]).raw),
        (&b"ab"[..], &b"\x01\x01a\x80\x01b"[..])
    );
    assert!(matches!(&said[2], Said::Close(close) if &*close.payload == b"ok"));
}

#[test]
fn what_the_standard_forbids_is_a_fault() {
    let cases: [(Side, &[u8], SocketFault); 14] = [
        (Side::Provider, b"\xc1\x01a", SocketFault::Reserved),
        (Side::Provider, b"\x83\x01a", SocketFault::Reserved),
        (Side::Provider, b"\x8b\x00", SocketFault::Reserved),
        (Side::Provider, b"\x81\x81\0\0\0\0a", SocketFault::Mask),
        (Side::Caller, b"\x81\x01a", SocketFault::Mask),
        (Side::Provider, b"\x81\x7e\x00\x7d", SocketFault::Length),
        (Side::Provider, b"\x81\x7f\0\0\0\0\0\0\xff\xff", SocketFault::Length),
        (Side::Provider, b"\x09\x00", SocketFault::Control),
        (Side::Provider, b"\x89\x7e\x00\x7e", SocketFault::Control),
        (Side::Provider, b"\x88\x01a", SocketFault::Control),
        (Side::Provider, b"\x88\x03\x03\xe8\xff", SocketFault::Control),
        (Side::Provider, b"\x80\x01a", SocketFault::Order),
        (Side::Provider, b"\x01\x01a\x81\x01b", SocketFault::Order),
        (Side::Provider, b"\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff", SocketFault::TooLarge(1 << 20)),
    ];
    for (side, bytes, expected) in cases {
        assert_eq!(fault(side, bytes), Some(expected), "{}", bytes.escape_ascii());
    }
    let many = [&b"\x01\x00"[..], &b"\x00\x00".repeat(FRAGMENTS_MAX - 1)].concat();
    assert_eq!(fault(Side::Provider, &many), None);
    assert_eq!(
        fault(Side::Provider, &[&many[..], b"\x00\x00"].concat()),
        Some(SocketFault::TooManyFragments)
    );
    let mut small = SocketParser::new(Side::Provider, 4);
    assert_eq!(small.push(b"\x01\x03abc").expect("it fits"), []);
    // Told by the head, before the payload comes.
    assert_eq!(small.push(b"\x80\x02"), Err(SocketFault::TooLarge(4)));
    assert_eq!(&*small.take_rest(), b"\x01\x03abc\x80\x02");
}

#[test]
fn frames_are_written_for_either_side() {
    assert_eq!(&text(b"Hello")[..], b"\x81\x05Hello");
    assert_eq!(&close(POLICY_VIOLATION, "no", None)[..], b"\x88\x04\x03\xf0no");
    assert_eq!(&close(POLICY_VIOLATION, &"x".repeat(124), None)[..], b"\x88\x02\x03\xf0");
    let masked = close(GOING_AWAY, "", Some(MASK));
    assert!(matches!(&run(Side::Caller, &masked, 9).0[0], Said::Close(close) if close.payload.is_empty()));
}

proptest! {
    #[test]
    fn what_is_said_does_not_depend_on_chunks(
        parts in prop::collection::vec((0..5_u8, prop::collection::vec(any::<u8>(), 0..140)), 0..8),
        damage in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        is_masked in any::<bool>(),
        size in 1..50_usize,
    ) {
        let (side, mask) = if is_masked { (Side::Caller, Some(MASK)) } else { (Side::Provider, None) };
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for (kind, payload) in &parts {
            match kind {
                0 => bytes.extend(frame(PING, &payload[..payload.len().min(CONTROL_BYTES_MAX)], mask)),
                1 => {
                    let (head, tail) = payload.split_at(payload.len() / 2);
                    let mut first = frame(TEXT, head, mask).to_vec();
                    let mut last = frame(CONTINUATION, tail, mask).to_vec();
                    first[0] &= !FINAL;
                    bytes.append(&mut first);
                    bytes.extend(frame(PONG, b"between", mask));
                    bytes.append(&mut last);
                    expected.push(payload.clone());
                }
                _ => {
                    bytes.extend(frame(BINARY, payload, mask));
                    expected.push(payload.clone());
                }
            }
        }
        if let Some((at, flip)) = damage.filter(|_| !bytes.is_empty()) {
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
        }
        let whole = run(side, &bytes, bytes.len());
        prop_assert_eq!(&run(side, &bytes, size), &whole);
        prop_assert_eq!(&run(side, &bytes, 1), &whole);
        if damage.is_none() {
            let payloads = whole.0.iter().filter_map(|said| match said {
                Said::Message(message) => Some(message.payload.to_vec()),
                Said::Ping(_) | Said::Close(_) => None,
            });
            prop_assert_eq!(payloads.collect::<Vec<_>>(), expected);
            prop_assert_eq!(whole.1, None);
        }
    }
}
