//! What sockets hold is of the room of all bodies: it keeps others out, and is given back.

use std::time::Instant;

use super::*;
use crate::wire::PATIENCE;
use crate::wire::post;

const ROOM: &str = "[limits]\nbuffered_bytes_total = 1048576\nscan_ms = 60000\n";
/// Longer than what a socket may have always.
const HELD: usize = 600_000;

/// Writes the begin of a frame of so many bytes, of which `HELD` come.
fn unfinished(length: usize, mask: Option<[u8; 4]>) -> Vec<u8> {
    let bit = if mask.is_some() { 0x80 } else { 0 };
    let mut frame = vec![TEXT, bit | 127];
    frame.extend((length as u64).to_be_bytes());
    frame.extend(mask.unwrap_or_default().iter().take(if mask.is_some() { 4 } else { 0 }));
    frame.extend(vec![b'a'; HELD]);
    frame
}

/// Messages of the provider that wait, in their order, for the end of a text before them.
fn waiting() -> Vec<u8> {
    let begun = event(&delta("response.output_text.delta", "r", "the key AKIA"));
    let other = json!({ "type": "rate_limits.updated", "note": "well ".repeat(8000) });
    let others = (0..10).flat_map(|_| event(&other));
    begun.into_iter().chain(others).collect()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
    }
}

/// Brings a body whose last byte does not come as long as the client is kept.
fn holder(gateway: &Gateway, bytes: usize) -> Client {
    until("nobody holds anything any more", || gateway.buffered_bytes() == 0);
    let mut client = Client::connect(gateway.proxy);
    client.send(
        format!(
            "POST /plain/v1/embeddings HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n\
             content-length: {bytes}\r\n\r\n"
        )
        .as_bytes(),
    );
    client.send(&vec![b'a'; bytes - 1]);
    until("what came of a body is counted", || gateway.buffered_bytes() == bytes - 1);
    client
}

#[test]
fn what_a_socket_holds_back_is_of_the_room_of_all() {
    let switching = |said: &[u8]| Upstream::start(vec![Step::Send([SWITCH, said].concat()), Step::Wait]);
    let upstreams = [
        ("frame", switching(&unfinished(HELD + 1, None))),
        ("waiting", switching(&waiting())),
        ("asking", switching(&[])),
        ("plain", Upstream::answering("application/json", "{}")),
    ];
    let routes: String = upstreams.iter().map(|(name, upstream)| route(name, upstream.address, "")).collect();
    let gateway = Gateway::start(&format!("{routes}{ROOM}{UNLIMITED}"));
    let opened = |name: &str| {
        let mut client = open(&gateway, name);
        if name == "asking" {
            client.send(&unfinished(HELD + 1, Some(MASK)));
        }
        client
    };
    // Of what is asked for as a whole, nothing is held any more once it is answered. While it is judged, its text takes
    // as much again.
    let ask = |bytes: usize| {
        let body = format!("\"{}\"", "a".repeat(bytes));
        exchange(gateway.proxy, &post("/plain/v1/embeddings", "", &body)).status
    };
    // What waits is held as it came and as it is judged.
    for (name, held) in [("frame", HELD), ("waiting", 2 * waiting().len()), ("asking", HELD)] {
        until("nobody holds anything", || gateway.buffered_bytes() == 0);
        let client = opened(name);
        until(&format!("what the socket of `{name}` holds is counted"), || gateway.buffered_bytes() >= held);
        assert_eq!(ask(300_000), 503, "{name}");
        drop(client);
        // Where others take the room, a socket that needs much of it ends, and says why; a little may be had always.
        let other = holder(&gateway, 900_000);
        let mut client = opened(name);
        let mut told = read(&mut client);
        while told.1.starts_with(b"{\"type\":\"rate_limits") || told.1.starts_with(b"{\"content_index") {
            told = read(&mut client);
        }
        let error: Value = serde_json::from_slice(&told.1).expect("JSON");
        assert_eq!(
            (&error["type"], &error["error"]["code"]),
            (&json!("error"), &json!("overloaded")),
            "{name}"
        );
        let close = [&1013_u16.to_be_bytes()[..], b"overloaded"].concat();
        assert_eq!(read(&mut client), (CLOSE, close), "{name}");
        drop(other);
        // A few bytes may be had, whoever holds the rest.
        let other = holder(&gateway, 1_000_000);
        let mut client = open(&gateway, "asking");
        client.send(&said(&json!({ "type": "session.update", "session": { "instructions": "Be brief." } })));
        let asking = &upstreams[2].1;
        asking.wait_until(|all| all.iter().any(|one| !heard_texts(std::slice::from_ref(one)).is_empty()));
        asking.take();
        drop(other);
    }
}
