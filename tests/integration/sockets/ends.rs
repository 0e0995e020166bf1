//! How long what is said on a socket may wait, and how a socket ends.

use std::io::Read;
use std::io::Write;
use std::net::TcpListener;
use std::thread;

use portcullis::llm::websocket::Said;
use serde_json::Value;
use serde_json::json;

use super::CARD;
use super::CLOSE;
use super::MASK;
use super::POLICY;
use super::SWITCH;
use super::TEXT;
use super::delta;
use super::event;
use super::frame;
use super::heard;
use super::open;
use super::read;
use super::read_event;
use super::refused;
use super::route;
use super::start;
use crate::answers::handshake;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::upstream::Step;
use crate::upstream::Upstream;
use crate::wire::Client;
use crate::wire::find;

const GOING_AWAY: [u8; 2] = 1001_u16.to_be_bytes();
const TOLD: &str = "response.output_text.delta";

fn saying(frames: &[Vec<u8>]) -> Upstream {
    Upstream::start(vec![Step::Send([SWITCH, &frames.concat()].concat()), Step::Wait])
}

/// A reply that ended in what may be the begin of a card once waited for the next, and was dropped with the socket.
#[test]
fn where_nothing_ends_a_text_each_message_is_one() {
    let replies = [json!({ "text": "my number is 4111" }), json!({ "text": format!("it is {CARD}") })];
    let upstream = saying(&[event(&replies[0])]);
    let masked = saying(&[event(&replies[1])]);
    let routes = [route("ws", upstream.address, ""), route("masked", masked.address, "")];
    let gateway = start(&routes.concat());
    let connected = |name: &str| {
        let mut client = Client::connect(gateway.proxy);
        client.send(&handshake(&format!("/{name}/talk")));
        assert_eq!(client.head().expect("a head").status, 101);
        client
    };
    assert_eq!(read_event(&mut connected("ws")), replies[0]);
    let told = read_event(&mut connected("masked"))["text"].as_str().expect("a text").to_owned();
    assert!(told.starts_with("it is ") && !told.contains("4111"), "{told}");
}

#[test]
fn a_socket_that_falls_silent_gives_up_what_waits_and_is_closed_on_both_sides() {
    let waits = event(&delta(TOLD, "r", "the number is 4111"));
    let upstream = saying(std::slice::from_ref(&waits));
    let idle = "timeouts = { upstream_idle_ms = 400 }\n";
    let gateway = start(&route("ws", upstream.address, idle));
    let mut client = open(&gateway, "ws");
    assert_eq!(client.raw(waits.len()), waits);
    assert_eq!(read(&mut client), (CLOSE, GOING_AWAY.to_vec()));
    assert!(client.is_closed());
    let received = upstream.wait_until(|all| all.iter().all(|one| one.closed));
    assert!(matches!(heard(&received).last(), Some(Said::Close(_))), "{received:?}");
}

#[test]
fn what_waits_behind_a_message_is_bounded() {
    let limited = |messages: &[Vec<u8>]| {
        let upstream = saying(&[&[event(&delta(TOLD, "r", "4111"))], messages].concat());
        let limits = POLICY.replacen("[limits]\n", "[limits]\nstream_hold_bytes_max = 8192\n", 1);
        let gateway = Gateway::start(&format!("{}{UNLIMITED}{limits}", route("ws", upstream.address, "")));
        refused(&mut open(&gateway, "ws"), "unreadable_response");
        upstream.wait_until(|all| all.iter().all(|one| one.closed));
    };
    limited(&[(); 10].map(|()| frame(0x82, &[0x91, 0x01].repeat(500), None)));
    // Those that say nothing take room too.
    limited(&[(); 8192].map(|()| frame(TEXT, b"", None)));
}

/// The texts of the second response lie where those of the first did, and no id tells them apart.
#[test]
fn one_response_follows_another() {
    let told = |text: &str| {
        event(&json!({ "type": TOLD, "item_id": "i", "output_index": 0, "content_index": 0, "delta": text }))
    };
    let turn = |id: &str| {
        vec![
            event(
                &json!({ "type": "response.created", "response": { "id": id, "object": "response", "output": [] } }),
            ),
            told("The card 4111 11"),
            told("11 1111 1111 is yours."),
            event(
                &json!({ "type": "response.output_text.done", "item_id": "i", "output_index": 0, "content_index": 0,
                           "text": format!("The card {CARD} is yours.") }),
            ),
            event(
                &json!({ "type": "response.completed", "response": { "id": id, "object": "response", "output": [] } }),
            ),
        ]
    };
    let upstream = saying(&[turn("a"), turn("b"), turn("c")].concat());
    let gateway = start(&route("ws", upstream.address, ""));
    let mut client = Client::connect(gateway.proxy);
    client.send(&handshake("/ws/v1/responses"));
    assert_eq!(client.head().expect("a head").status, 101);
    for _ in 0..3 {
        let events: Vec<Value> = (0..5).map(|_| read_event(&mut client)).collect();
        let text: String = events.iter().filter_map(|event| event["delta"].as_str()).collect();
        assert!(text.starts_with("The card ") && text.ends_with(" is yours."), "{events:?}");
        assert!(!events.iter().any(|event| event.to_string().contains("4111")), "{events:?}");
        assert_eq!(events[4]["type"], "response.completed");
    }
}

/// Once both have said farewell, how the provider's connection ends is nobody's concern.
#[test]
fn a_provider_that_resets_after_farewell_has_not_failed() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let provider = listener.local_addr().expect("an address");
    let farewell = frame(CLOSE, &1000_u16.to_be_bytes(), None);
    let said = [SWITCH, &farewell].concat();
    let served = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let (mut head, mut byte) = (Vec::new(), [0]);
        while find(&head, b"\r\n\r\n").is_none() {
            stream.read_exact(&mut byte).expect("a handshake");
            head.push(byte[0]);
        }
        stream.write_all(&said).expect("the gateway reads");
        // What is left unread makes a reset of the end.
        stream.peek(&mut byte).expect("the caller's farewell")
    });
    let gateway = start(&route("ws", provider, ""));
    let mut client = open(&gateway, "ws");
    assert_eq!(client.raw(farewell.len()), farewell);
    client.send(&frame(CLOSE, &1000_u16.to_be_bytes(), Some(MASK)));
    assert_eq!(served.join().expect("it serves"), 1);
    assert!(client.is_closed(), "something was told after the provider's farewell");
}

#[test]
fn a_process_that_ends_closes_its_sockets() {
    let upstream = Upstream::start(vec![Step::Send(SWITCH.to_vec()), Step::Wait]);
    let unread = route("unread", upstream.address, "websocket_uninspected = true\n");
    let gateway = start(&(route("ws", upstream.address, "") + &unread));
    let (mut client, mut other) = (open(&gateway, "ws"), open(&gateway, "unread"));
    gateway.signal("TERM");
    assert_eq!(read(&mut client), (CLOSE, GOING_AWAY.to_vec()));
    assert!(client.is_closed());
    assert!(other.is_closed(), "a frame was put into what nobody reads");
    upstream.wait_until(|all| all.iter().all(|one| one.closed));
}
