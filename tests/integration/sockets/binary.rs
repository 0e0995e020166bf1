//! What says that it is binary: sound, what is drawn by chance, and JSON all the same.

use serde_json::Value;
use serde_json::json;

use super::CARD;
use super::MASK;
use super::PING;
use super::SWITCH;
use super::delta;
use super::frame;
use super::heard_texts;
use super::open;
use super::read;
use super::refused;
use super::route;
use super::start;
use crate::framing::secret;
use crate::upstream::Step;
use crate::upstream::Upstream;

const BINARY: u8 = 0x82;

/// A quiet tone in 16 bits, whose first sample looks like the begin of JSON in wide characters.
fn sound() -> Vec<u8> {
    (0..200_i16).map(|at| if at % 2 == 0 { 91 - at } else { at - 40 }).flat_map(i16::to_le_bytes).collect()
}

/// Each was once read as JSON, because of how it begins, and closed the socket.
#[test]
fn what_begins_like_json_by_chance_passes_both_ways() {
    let chances: [(u8, Vec<u8>); 6] = [
        (PING, b"{\x91\xa2\x03".to_vec()),
        (PING, b"[\0x\0".to_vec()),
        (PING, b"\"\0\x7f8".to_vec()),
        (PING, [&b"{ \x01"[..], &[0xfe; 40]].concat()),
        (BINARY, sound()),
        (BINARY, [b"[", &[0x91, 0x01].repeat(300)[..]].concat()),
    ];
    let frames = |mask| -> Vec<u8> {
        chances.iter().flat_map(|(first, payload)| frame(*first, payload, mask)).collect()
    };
    let upstream = Upstream::start(vec![Step::Send([SWITCH, &frames(None)].concat()), Step::Wait]);
    let gateway = start(&route("ws", upstream.address, ""));
    let mut client = open(&gateway, "ws");
    assert_eq!(client.raw(frames(None).len()), frames(None), "the provider's");
    client.send(&frames(Some(MASK)));
    upstream.wait_until(|all| all.iter().any(|one| one.bytes.ends_with(&frames(Some(MASK)))));
    // What can be read in them is.
    client.send(&frame(PING, secret().as_bytes(), Some(MASK)));
    refused(&mut client, "content_blocked");
}

#[test]
fn json_in_binary_frames_is_read_as_in_text() {
    let text = "response.output_text.delta";
    let done = json!({ "type": "response.done", "response": { "id": "r", "output": [] } });
    let events = ["It is 4111 1111 ", "1111 1111, they say."].map(|it| delta(text, "r", it));
    let frames: Vec<u8> = events
        .iter()
        .chain([&done])
        .flat_map(|event| frame(BINARY, event.to_string().as_bytes(), None))
        .collect();
    let upstream = Upstream::start(vec![Step::Send([SWITCH, &frames].concat()), Step::Wait]);
    let gateway = start(&route("ws", upstream.address, ""));
    let mut client = open(&gateway, "ws");
    let got = [(); 3].map(|()| read(&mut client));
    assert!(got.iter().all(|(first, _)| *first == BINARY), "{got:?}");
    let told: String = got
        .iter()
        .map(|(_, payload)| serde_json::from_slice::<Value>(payload).expect("JSON"))
        .filter_map(|event| event["delta"].as_str().map(str::to_owned))
        .collect();
    assert!(told.starts_with("It is ") && told.ends_with(", they say."), "{told}");
    assert!(!told.contains("4111") && !told.contains("1111 1111"), "{told}");
    let item = json!({ "type": "conversation.item.create", "item": { "type": "message", "role": "user",
        "content": [{ "type": "input_text", "text": format!("mine is {CARD}") }] } });
    client.send(&frame(BINARY, item.to_string().as_bytes(), Some(MASK)));
    let heard = upstream.wait_until(|all| heard_texts(all).len() == 1);
    assert!(!heard_texts(&heard)[0].contains("4111"), "{heard:?}");
}
