//! WebSockets through the real gateway: messages of OpenAI's Realtime in frames, judged both ways.

mod binary;
mod ends;
mod paying;
mod providers;
mod room;
mod session;

use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis::llm::websocket::Said;
use portcullis::llm::websocket::Side;
use portcullis::llm::websocket::SocketParser;
use serde_json::Value;
use serde_json::json;

use crate::answers::handshake;
use crate::answers::recorded;
use crate::framing::secret;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::upstream::Recorded;
use crate::upstream::Step;
use crate::upstream::Upstream;
use crate::wire::Client;
use crate::wire::exchange;
use crate::wire::find;

const SWITCH: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
                        sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
const CARD: &str = "4111 1111 1111 1111";
const MASK: [u8; 4] = [9, 8, 7, 6];
const POLICY: &str = "[limits]\nscan_ms = 60000\n[policies.default]\nfail_mode = \"closed\"\n\
                      [policies.default.categories.secrets]\nmode = \"block\"\n\
                      [policies.default.categories.pii]\nmode = \"redact\"\n\
                      [policies.open]\nfail_mode = \"open\"\n";
const TEXT: u8 = 0x81;
const CLOSE: u8 = 0x88;
const PING: u8 = 0x89;

/// Writes a frame; its first byte says what it is.
fn frame(first: u8, payload: &[u8], mask: Option<[u8; 4]>) -> Vec<u8> {
    let bit = if mask.is_some() { 0x80 } else { 0 };
    let mut frame = vec![first];
    match payload.len() {
        length @ 0..=125 => frame.push(bit | length as u8),
        length => {
            frame.push(bit | 126);
            frame.extend((length as u16).to_be_bytes());
        }
    }
    frame.extend(mask.unwrap_or_default().iter().take(if mask.is_some() { 4 } else { 0 }));
    let key = mask.unwrap_or_default();
    frame.extend(payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key));
    frame
}

fn event(event: &Value) -> Vec<u8> {
    frame(TEXT, event.to_string().as_bytes(), None)
}

pub fn said(event: &Value) -> Vec<u8> {
    frame(TEXT, event.to_string().as_bytes(), Some(MASK))
}

fn delta(kind: &str, response: &str, text: &str) -> Value {
    json!({ "type": kind, "response_id": response, "item_id": "i", "output_index": 0, "content_index": 0, "delta": text })
}

fn route(name: &str, upstream: SocketAddr, more: &str) -> String {
    format!(
        "[[routes]]\nname = \"{name}\"\npath_prefix = \"/{name}\"\nstrip_prefix = true\nwebsocket = true\n\
         upstream = \"http://{upstream}\"\n{more}"
    )
}

fn start(routes: &str) -> Gateway {
    Gateway::start(&format!("{routes}{UNLIMITED}{POLICY}"))
}

fn open(gateway: &Gateway, name: &str) -> Client {
    let mut client = Client::connect(gateway.proxy);
    client.send(&handshake(&format!("/{name}/v1/realtime?model=m")));
    assert_eq!(client.head().expect("a head").status, 101);
    client
}

/// Reads one frame as a client would; returns its first byte and its payload.
fn read(client: &mut Client) -> (u8, Vec<u8>) {
    let head = client.raw(2);
    let length = match head[1] {
        126 => u16::from_be_bytes(client.raw(2).try_into().expect("two bytes")).into(),
        short => usize::from(short),
    };
    (head[0], client.raw(length))
}

fn read_event(client: &mut Client) -> Value {
    let (kind, payload) = read(client);
    assert_eq!(kind, TEXT, "{}", payload.escape_ascii());
    serde_json::from_slice(&payload).expect("JSON")
}

/// Expects Realtime's error and the close frame that ends a socket.
pub fn refused(client: &mut Client, code: &str) {
    let told = read_event(client);
    assert_eq!((&told["type"], &told["error"]["code"]), (&json!("error"), &json!(code)), "{told}");
    let (kind, payload) = read(client);
    assert_eq!((kind, &payload[..2], &payload[2..]), (CLOSE, &1008_u16.to_be_bytes()[..], code.as_bytes()));
}

/// Returns what reached the provider behind its handshake, on the last connection.
fn heard(all: &[Recorded]) -> Vec<Said> {
    let text = all.last().map(|one| one.bytes.as_slice()).unwrap_or_default();
    let end = find(text, b"\r\n\r\n").map_or(text.len(), |at| at + 4);
    let mut parser = SocketParser::new(Side::Caller, 1 << 20);
    parser.push(&text[end..]).expect("frames")
}

fn heard_texts(all: &[Recorded]) -> Vec<String> {
    let text = |said: Said| match said {
        Said::Message(message) => Some(String::from_utf8(message.payload.to_vec()).expect("text")),
        Said::Ping(_) | Said::Close(_) => None,
    };
    heard(all).into_iter().filter_map(text).collect()
}

pub fn wait_for_texts(upstream: &Upstream, count: usize) -> Vec<String> {
    heard_texts(&upstream.wait_until(|all| heard_texts(all).len() >= count))
}

#[test]
fn what_the_caller_says_is_judged_message_by_message() {
    let upstream = Upstream::start(vec![Step::Send(SWITCH.to_vec())]);
    let gateway = start(&route("ws", upstream.address, ""));
    let mut client = open(&gateway, "ws");
    let clean = said(&json!({ "type": "session.update", "session": { "instructions": "Be brief." } }));
    client.send(&clean);
    client.send(&frame(PING, b"", Some(MASK)));
    let item = json!({ "type": "conversation.item.create", "item": { "type": "message", "role": "user",
        "content": [{ "type": "input_text", "text": format!("my card is {CARD}, thanks") }] } });
    // In three frames, with a ping between, and cut into single bytes.
    let text = item.to_string().into_bytes();
    let pieces = [
        frame(0x01, &text[..20], Some(MASK)),
        frame(0x00, &text[20..90], Some([1, 2, 3, 4])),
        frame(PING, b"still there", Some(MASK)),
        frame(0x80, &text[90..], Some(MASK)),
    ];
    pieces.concat().iter().for_each(|byte| client.send(&[*byte]));
    let texts = wait_for_texts(&upstream, 2);
    let sent = upstream.received().remove(0).bytes;
    assert!(sent.windows(clean.len()).any(|window| window == clean), "a clean message changed");
    assert!(texts[1].contains("my card is ") && texts[1].contains(", thanks"), "{}", texts[1]);
    assert!(!texts[1].contains("4111"), "{}", texts[1]);
    let leak =
        json!({ "type": "session.update", "session": { "instructions": format!("key {}", secret()) } });
    client.send(&said(&leak));
    refused(&mut client, "content_blocked");
    let received = upstream.wait_until(|all| all.iter().all(|one| one.closed));
    assert_eq!(heard_texts(&received).len(), 2, "what was blocked reached the provider");
    assert!(matches!(heard(&received).last(), Some(Said::Close(_))), "{received:?}");
    let entry = recorded(&gateway, "exchange");
    assert_eq!((&entry["action"], &entry["route"]), (&json!("block"), &json!("ws")), "{entry}");
    let types: Vec<&str> =
        entry["findings"].as_array().expect("findings").iter().filter_map(|it| it["type"].as_str()).collect();
    assert!(types.contains(&"payment_card") && types.len() >= 2, "{entry}");
    assert!(entry["message"].as_str().is_some_and(|text| text.contains("status 101")), "{entry}");
}

/// A conversation of two responses, in which a card is said in pieces, and sound.
fn conversation() -> Vec<Vec<u8>> {
    let sound = STANDARD.encode([0, 255, 3, 128, 7, 0, 0, 200].repeat(40));
    let done = |id: &str| json!({ "type": "response.done", "response": { "id": id, "output": [] } });
    let words = |kind: &str, id: &str, texts: &[&str]| -> Vec<Vec<u8>> {
        texts.iter().map(|text| event(&delta(kind, id, text))).collect()
    };
    let text = "response.output_text.delta";
    [
        vec![event(
            &json!({ "type": "session.created", "session": { "id": "s", "instructions": "Be brief." } }),
        )],
        words(text, "r1", &["The card ", "4111 11", "11 1111 1", "111 is yours. "]),
        vec![event(&delta("response.output_audio.delta", "r1", &sound))],
        words("response.function_call_arguments.delta", "r1", &["{\"card\":\"4111 1111 ", "1111 1111\"}"]),
        vec![event(&done("r1"))],
        words(
            "response.output_audio_transcript.delta",
            "r2",
            &["All ", "well: ", "4111 1111", " 1111 1111."],
        ),
        words(text, "r2", &["Nothing ", "else."]),
        vec![event(&done("r2"))],
    ]
    .concat()
}

#[test]
fn what_the_provider_says_is_judged_over_its_messages_however_they_are_cut() {
    let frames = conversation();
    let sent = frames.concat();
    let sizes = [1, 3, 7, 50, sent.len()];
    let upstreams = sizes.map(|size| {
        let pieces = sent.chunks(size).map(|piece| Step::Send(piece.to_vec()));
        Upstream::start(std::iter::once(Step::Send(SWITCH.to_vec())).chain(pieces).collect())
    });
    let routes: Vec<String> =
        sizes.iter().zip(&upstreams).map(|(size, it)| route(&size.to_string(), it.address, "")).collect();
    let gateway = start(&routes.concat());
    for size in sizes {
        let mut client = open(&gateway, &size.to_string());
        let got: Vec<Vec<u8>> = frames.iter().map(|_| read(&mut client).1).collect();
        let events: Vec<Value> = got.iter().map(|it| serde_json::from_slice(it).expect("JSON")).collect();
        let text = |kind: &str, id: &str| -> String {
            let of = |event: &&Value| event["type"] == kind && event["response_id"] == id;
            events.iter().filter(of).filter_map(|event| event["delta"].as_str()).collect()
        };
        let first = text("response.output_text.delta", "r1");
        assert!(first.starts_with("The card ") && first.ends_with(" is yours. "), "{size}: {first}");
        let arguments = text("response.function_call_arguments.delta", "r1");
        assert!(serde_json::from_str::<Value>(&arguments).is_ok(), "{size}: {arguments}");
        let transcript = text("response.output_audio_transcript.delta", "r2");
        assert!(transcript.starts_with("All well: "), "{size}: {transcript}");
        assert!(![&first, &arguments, &transcript].into_iter().any(|it| it.contains("4111")), "{size}");
        assert_eq!(text("response.output_text.delta", "r2"), "Nothing else.");
        for (at, (got, sent)) in got.iter().zip(&frames).enumerate() {
            let is_clean = !events[at]["delta"].as_str().is_some_and(|it| it.contains("REDACTED"))
                && sent.ends_with(got);
            let has_card = (2..=4).contains(&at) || (6..=7).contains(&at) || (11..=12).contains(&at);
            assert!(is_clean || has_card, "{size}: frame {at} changed");
        }
    }
    let metrics = {
        let ask = format!(
            "GET /metrics HTTP/1.1\r\nhost: {}\r\nx-api-key: {}\r\n\r\n",
            gateway.admin,
            gateway.admin_key()
        );
        exchange(gateway.admin, ask.as_bytes()).text()
    };
    let opaque = metrics.lines().find_map(|line| line.strip_prefix("portcullis_opaque_bytes_total "));
    assert!(opaque.is_some_and(|bytes| bytes != "0"), "sound was not counted");
}

#[test]
fn a_provider_that_says_a_secret_is_cut_before_it() {
    let key = secret();
    let frames = ["Here it is: ", &key[..9], &key[9..], " and that was it"]
        .map(|text| event(&delta("response.output_text.delta", "r", text)));
    let upstream = Upstream::start(vec![Step::Send([SWITCH, &frames.concat()].concat()), Step::Wait]);
    let gateway = start(&route("ws", upstream.address, ""));
    let mut client = open(&gateway, "ws");
    let mut told = String::new();
    let code = loop {
        let event = read_event(&mut client);
        match event["delta"].as_str() {
            Some(text) => told.push_str(text),
            None => break event["error"]["code"].clone(),
        }
    };
    assert_eq!((told.trim_end(), code), ("Here it is:", json!("content_blocked")));
    assert_eq!(&read(&mut client).1[..2], 1008_u16.to_be_bytes());
    upstream.wait_until(|all| all.iter().all(|one| one.closed));
}

#[test]
fn frames_and_texts_that_cannot_be_read_meet_the_fail_mode() {
    let clean = event(&json!({ "type": "session.created" }));
    let faults: [(&str, Vec<u8>); 4] = [
        ("reserved", frame(0xc1, b"compressed", None)),
        ("text", frame(TEXT, b"{\"a\":\"\xff\"}", None)),
        ("twice", frame(TEXT, b"{\"a\":1,\"a\":2}", None)),
        ("masked", frame(TEXT, b"hi", Some(MASK))),
    ];
    let upstreams = faults
        .each_ref()
        .map(|(_, fault)| Upstream::start(vec![Step::Send([SWITCH, &clean, fault].concat()), Step::Wait]));
    let both = |((name, _), upstream): (&(&str, Vec<u8>), &Upstream)| {
        route(name, upstream.address, "")
            + &route(&format!("open-{name}"), upstream.address, "policy = \"open\"\n")
    };
    let silent = Upstream::start(vec![Step::Send(SWITCH.to_vec())]);
    let routes: String = faults.iter().zip(&upstreams).map(both).collect();
    let unread = route("unread", silent.address, "websocket_uninspected = true\n");
    let gateway = start(&(routes + &route("caller", silent.address, "") + &unread));
    for (name, fault) in &faults {
        let mut client = open(&gateway, name);
        assert_eq!(client.raw(clean.len()), clean, "{name}");
        refused(&mut client, "unreadable_response");
        let mut client = open(&gateway, &format!("open-{name}"));
        assert_eq!(client.raw(clean.len() + fault.len()), [&clean[..], fault].concat(), "{name}");
    }
    let mut client = open(&gateway, "caller");
    client.send(&frame(TEXT, b"not masked", None));
    refused(&mut client, "unreadable_content");
    assert!(heard_texts(&silent.received()).is_empty());
    // What the route says is not read is not.
    let mut client = open(&gateway, "unread");
    client.send(&frame(TEXT, secret().as_bytes(), Some(MASK)));
    silent.wait_until(|all| {
        all.iter().any(|one| one.bytes.ends_with(&frame(TEXT, secret().as_bytes(), Some(MASK))))
    });
}

/// Who connects again has to tell a wrong key and a limit from a failure.
#[test]
fn a_provider_that_does_not_switch_is_told_as_it_answered() {
    let cases = [
        ("401 Unauthorized", "", 401, None),
        ("429 Too Many Requests", "retry-after: 7\r\n", 429, Some("7")),
        ("503 Service Unavailable", "", 503, None),
        // What is no error is none of a provider that was asked to switch.
        ("200 OK", "", 502, None),
        ("302 Found", "location: /elsewhere\r\n", 502, None),
    ];
    for (status, more, expected, wait) in cases {
        let head = format!("HTTP/1.1 {status}\r\n{more}content-length: 2\r\n\r\n{{}}");
        let upstream = Upstream::start(vec![Step::Send(head.into_bytes())]);
        let gateway = start(&route("live", upstream.address, ""));
        let answer = exchange(gateway.proxy, &handshake("/live/v1/realtime"));
        assert_eq!((answer.status, answer.header("retry-after")), (expected, wait), "{status}");
        assert!(answer.text().contains("upgrade_failed"), "{status}: {}", answer.text());
        assert_eq!(answer.header("www-authenticate"), None, "{status}: no key of ours is asked for");
    }
}

#[test]
fn no_extension_is_offered_and_none_is_taken() {
    let switch = String::from_utf8(SWITCH.to_vec()).expect("text");
    let plain = Upstream::start(vec![Step::Send(SWITCH.to_vec())]);
    let pushy = switch.replace("\r\n\r\n", "\r\nsec-websocket-extensions: permessage-deflate\r\n\r\n");
    let pushy = Upstream::start(vec![Step::Send(pushy.into_bytes())]);
    let gateway = start(&(route("plain", plain.address, "") + &route("pushy", pushy.address, "")));
    let asking = |name: &str| {
        let text = String::from_utf8(handshake(&format!("/{name}/x"))).expect("text");
        text.replace(
            "\r\n\r\n",
            "\r\nsec-websocket-extensions: permessage-deflate\r\nsec-websocket-protocol: realtime\r\n\r\n",
        )
    };
    let mut client = Client::connect(gateway.proxy);
    client.send(asking("plain").as_bytes());
    let head = client.head().expect("a head");
    assert_eq!((head.status, head.header("sec-websocket-extensions")), (101, None));
    let received = String::from_utf8_lossy(&plain.received()[0].bytes).to_lowercase();
    assert!(
        received.contains("sec-websocket-protocol: realtime") && !received.contains("deflate"),
        "{received}"
    );
    assert_eq!(exchange(gateway.proxy, asking("pushy").as_bytes()).status, 502);
}

/// The deadline of a request's head once ran on, from the first frame: no socket lived longer than that.
#[test]
fn a_socket_outlives_the_deadline_of_a_head() {
    let upstream = Upstream::start(vec![Step::Send(SWITCH.to_vec())]);
    let gateway = Gateway::start(&format!(
        "[proxy.timeouts]\nheader_ms = 300\n{}{UNLIMITED}{POLICY}",
        route("ws", upstream.address, "")
    ));
    let mut client = open(&gateway, "ws");
    client.send(&frame(TEXT, b"one", Some(MASK)));
    wait_for_texts(&upstream, 1);
    let until = Instant::now() + Duration::from_millis(700);
    while Instant::now() < until {
        std::thread::yield_now();
    }
    client.send(&frame(TEXT, b"two", Some(MASK)));
    assert_eq!(wait_for_texts(&upstream, 2), ["one", "two"]);
}
