//! Streams through the real gateway: blocked, broken, slow, cut into single bytes, over HTTP/1.1 and HTTP/2.

use std::io::Read as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::net::TcpStream;

use base64::Engine as _;
use portcullis::scan::pack;
use portcullis::scan::proof;
use serde_json::Value;

use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::h2;
use crate::h2::H2Client;
use crate::upstream::Recorded;
use crate::upstream::Step;
use crate::upstream::Upstream;
use crate::upstream::chunk;
use crate::upstream::chunked_head;
use crate::upstream_h2::Answer;
use crate::upstream_h2::H2Upstream;
use crate::wire::Client;
use crate::wire::Response;
use crate::wire::exchange;
use crate::wire::post;

const SSE: &str = "text/event-stream";
const MASKED: &str = "[REDACTED:github_token]";
const POLICIES: &str = r#"
[policies.redacting.categories.secrets]
mode = "redact"
[policies.blocking.categories.secrets]
mode = "block"
[policies.graceful]
stream_block = "graceful"
[policies.graceful.categories.secrets]
mode = "block"
"#;

/// A token that is nobody's: made, not written down.
fn token() -> String {
    let packs = pack::builtin().expect("packs");
    let detector = packs.iter().find(|detector| detector.name == "github_token").expect("a detector");
    String::from_utf8(proof::valid_value(detector, 5).expect("a value")).expect("ASCII")
}

fn route(name: &str, policy: &str, upstream: &str, more: &str) -> String {
    format!(
        "[[routes]]\nname = \"{name}\"\npath_prefix = \"/{name}\"\nstrip_prefix = true\nupstream = \"{upstream}\"\n\
         policy = \"{policy}\"\n{more}\n"
    )
}

fn ask(gateway: &Gateway, route: &str) -> Response {
    let body = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    exchange(gateway.proxy, &post(&format!("/{route}/v1/chat/completions"), "", body))
}

fn content(text: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
}

/// Returns the content that a client puts together, and the last payload.
fn read(body: &str) -> (String, Value) {
    let payloads: Vec<Value> = body
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter(|data| *data != "[DONE]")
        .map(|data| serde_json::from_str(data).unwrap_or_else(|_| panic!("not JSON: {data}")))
        .collect();
    let text = payloads.iter().filter_map(|it| it.pointer("/choices/0/delta/content")?.as_str()).collect();
    (text, payloads.last().cloned().unwrap_or_default())
}

#[test]
fn streams_through_the_gateway() {
    let token = token();
    let (head, tail) = token.split_at(10);
    let events =
        [content("It is "), content(head), content(tail), content(" so"), "data: [DONE]\n\n".to_owned()]
            .concat();
    let bytewise: Vec<&[u8]> = events.as_bytes().chunks(1).collect();
    let h1 = Upstream::streaming(SSE, &bytewise);
    let pieces = events.as_bytes().chunks(1).map(<[u8]>::to_vec).collect();
    let trailers = http::HeaderMap::from_iter([(
        http::HeaderName::from_static("x-end"),
        http::HeaderValue::from_static("yes"),
    )]);
    let h2 = H2Upstream::start(Answer { content_type: SSE, pieces, trailers });
    let endless = || {
        let leak = content(&format!("It is {token} "));
        Upstream::start(vec![Step::Send(chunked_head(SSE)), Step::Send(chunk(leak.as_bytes())), Step::Wait])
    };
    let (blocked, gentle) = (endless(), endless());
    let half = || {
        vec![Step::Send(chunked_head(SSE)), Step::Send(chunk(content(&format!("It is. {head}")).as_bytes()))]
    };
    let dying = Upstream::start([half(), vec![Step::Close]].concat());
    let silent = Upstream::start([half(), vec![Step::Wait]].concat());
    let url = |address| format!("http://{address}");
    let gateway = Gateway::start(&format!(
        "{}{}{}{}{}{}{UNLIMITED}{POLICIES}",
        route("h1", "redacting", &url(h1.address), ""),
        route("h2", "redacting", &url(h2.address), "h2 = \"always\""),
        route("block", "blocking", &url(blocked.address), ""),
        route("gentle", "graceful", &url(gentle.address), ""),
        route("dying", "blocking", &url(dying.address), ""),
        route("silent", "blocking", &url(silent.address), "timeouts = { upstream_idle_ms = 300 }"),
    ));

    for over in ["h1", "h2"] {
        let answer = ask(&gateway, over);
        assert_eq!(answer.status, 200);
        let expected = events.replace(head, MASKED).replace(tail, "");
        assert_eq!(answer.text(), expected, "byte by byte over {over}");
    }

    let answer = ask(&gateway, "block");
    let (text, last) = read(&answer.text());
    assert_eq!((answer.status, text.as_str()), (200, "It is "));
    assert_eq!(last["error"]["code"], "content_blocked");
    assert!(answer.text().ends_with("data: [DONE]\n\n"));
    blocked.wait_until(|connections| connections.iter().all(|connection| connection.closed));

    let answer = ask(&gateway, "gentle");
    let (text, last) = read(&answer.text());
    assert_eq!(text, "It is ");
    assert_eq!(last["choices"][0]["finish_reason"], "content_filter");
    assert!(last.get("error").is_none() && answer.text().ends_with("data: [DONE]\n\n"));
    gentle.wait_until(|connections| connections.iter().all(|connection| connection.closed));

    for (broken, code) in [("dying", "upstream_unreachable"), ("silent", "upstream_timeout")] {
        let answer = ask(&gateway, broken);
        let (text, last) = read(&answer.text());
        assert!("It is. ".starts_with(&text), "{broken}: {text}");
        assert_eq!(last["error"]["code"], code, "{broken}");
    }
    silent.wait_until(|connections| connections.iter().all(|connection| connection.closed));
}

#[test]
fn events_are_read_as_events_whatever_they_are_called() {
    let token = token();
    let (head, tail) = token.split_at(10);
    let events = [content("It is "), content(head), content(tail), "data: [DONE]\n\n".to_owned()].concat();
    let bytewise: Vec<&[u8]> = events.as_bytes().chunks(1).collect();
    let called = [
        "text/plain",
        "application/octet-stream",
        "application/x-unheard-of",
        "image/png\r\nContent-Type: text/event-stream",
    ];
    let upstreams = called.map(|media| Upstream::streaming(media, &bytewise));
    let routes: String = upstreams
        .iter()
        .enumerate()
        .map(|(at, it)| route(&format!("r{at}"), "redacting", &format!("http://{}", it.address), ""))
        .collect();
    let gateway = Gateway::start(&format!("{routes}{UNLIMITED}{POLICIES}"));
    for (at, media) in called.iter().enumerate() {
        let answer = ask(&gateway, &format!("r{at}"));
        let expected = events.replace(head, MASKED).replace(tail, "");
        assert_eq!((answer.status, answer.text()), (200, expected), "{media}");
    }
}

#[test]
fn lines_are_read_as_lines_and_coded_events_as_events_whatever_they_are_called() {
    let token = token();
    let (head, tail) = token.split_at(10);
    let line =
        |text: &str| format!("{{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n");
    let lines = [line("It is "), line(head), line(tail), line(" so")].concat();
    let events = [content("It is "), content(head), content(tail), "data: [DONE]\n\n".to_owned()].concat();
    for (media, body, is_coded) in [
        ("text/plain", &lines, false),
        ("application/octet-stream", &lines, false),
        ("text/plain", &events, true),
        ("application/x-unheard-of", &events, true),
        ("text/plain", &lines, true),
    ] {
        let (mut encoder, mut pieces) =
            (flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default()), Vec::new());
        for piece in body.split_inclusive('\n') {
            encoder.write_all(piece.as_bytes()).expect("written");
            encoder.flush().expect("flushed");
            pieces.push(std::mem::take(encoder.get_mut()));
        }
        encoder.try_finish().expect("finished");
        pieces.push(std::mem::take(encoder.get_mut()));
        let coded = format!("{media}\r\nContent-Encoding: gzip");
        let bytewise: Vec<&[u8]> = body.as_bytes().chunks(1).collect();
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).filter(|it| !it.is_empty()).collect();
        let upstream = match is_coded {
            true => Upstream::streaming(&coded, &pieces),
            false => Upstream::streaming(media, &bytewise),
        };
        let url = format!("http://{}", upstream.address);
        let gateway = Gateway::start(&format!("{}{UNLIMITED}{POLICIES}", route("r", "redacting", &url, "")));
        let answer = ask(&gateway, "r");
        let expected = body.replace(head, MASKED).replace(tail, "");
        assert_eq!((answer.status, answer.text()), (200, expected), "{media}, coded: {is_coded}");
    }
}

/// The older data streams of Vercel's AI SDK are `text/plain`, or nothing is said of them.
#[test]
fn typed_lines_are_read_as_such_whatever_they_are_called_and_end_in_their_own_error() {
    let token = token();
    let (head, tail) = token.split_at(10);
    let line = |text: &str| format!("0:\"{text}\"\n");
    let long = format!("2:[\"{}\"]\n", "so and so ".repeat(200));
    let begin = "f:{\"messageId\":\"m\"}\n";
    let streams = [begin, &long]
        .map(|begin| [begin.to_owned(), line("It is "), line(head), line(tail), line(" so")].concat());
    let finish = "d:{\"finishReason\":\"content-filter\"}\n";
    let error = "3:\"the response was blocked by a security policy (github_token)\"\n";
    for (media, stream) in ["text/plain; charset=utf-8", "application/octet-stream", SSE]
        .iter()
        .flat_map(|media| streams.each_ref().map(|stream| (media, stream)))
    {
        let bytewise: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
        let upstreams = [(); 3].map(|()| Upstream::streaming(media, &bytewise));
        let [redacting, blocking, gentle] = upstreams.each_ref().map(|it| format!("http://{}", it.address));
        let gateway = Gateway::start(&format!(
            "{}{}{}{UNLIMITED}{POLICIES}",
            route("redacting", "redacting", &redacting, ""),
            route("blocking", "blocking", &blocking, ""),
            route("gentle", "graceful", &gentle, ""),
        ));
        let answer = |route: &str| exchange(gateway.proxy, &post(&format!("/{route}/api/ask"), "", "{}"));
        let expected = stream.replace(head, MASKED).replace(tail, "");
        assert_eq!((answer("redacting").status, answer("redacting").text()), (200, expected), "{media}");
        let before = stream.split(head).next().expect("text").trim_end_matches("0:\"");
        for (route, end) in [("blocking", error), ("gentle", finish)] {
            let text = answer(route).text();
            assert_eq!(text, format!("{before}{end}"), "{media} {route}");
        }
    }
}

/// Answers of applications came whole at their end, if nothing but text was in them.
#[test]
fn a_text_that_comes_in_pieces_is_judged_as_it_comes_and_breaks_off_where_it_is_blocked() {
    let token = token();
    let (head, tail) = token.split_at(10);
    let pieces: [&[u8]; 5] = [b"It ", b"is ", head.as_bytes(), tail.as_bytes(), b" so"];
    let upstreams = [(); 4].map(|()| Upstream::streaming("text/plain; charset=utf-8", &pieces));
    let [redacting, blocking, gentle, openai] =
        upstreams.each_ref().map(|it| format!("http://{}", it.address));
    let gateway = Gateway::start(&format!(
        "{}{}{}{}{UNLIMITED}{POLICIES}",
        route("redacting", "redacting", &redacting, ""),
        route("blocking", "blocking", &blocking, ""),
        route("gentle", "graceful", &gentle, ""),
        route("openai", "redacting", &openai, "dialect = \"openai\"\n"),
    ));
    let answer = |route: &str| exchange(gateway.proxy, &post(&format!("/{route}/api/ask"), "", "{}"));
    let expected = format!("It is {MASKED} so");
    let redacted = answer("redacting");
    assert_eq!(
        (redacted.status, redacted.text(), redacted.header("content-length")),
        (200, expected.clone(), None)
    );
    assert_eq!(answer("gentle").text(), "It is ");
    let (whole, broken) = (raw(gateway.proxy, "/gentle/api/ask"), raw(gateway.proxy, "/blocking/api/ask"));
    assert!(whole.ends_with("0\r\n\r\n") && !broken.ends_with("0\r\n\r\n"), "{broken}");
    assert!(broken.contains("It ") && !broken.contains(&token[..8]), "{broken}");
    let whole = answer("openai");
    assert_eq!((whole.text(), whole.header("content-length").is_some()), (expected, true));
}

/// Returns all that comes back on a connection, as it comes.
fn raw(proxy: SocketAddr, path: &str) -> String {
    let mut connection = TcpStream::connect(proxy).expect("a connection");
    let request =
        format!("POST {path} HTTP/1.1\r\nhost: gw\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}");
    connection.write_all(request.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    let _ = connection.read_to_end(&mut answer);
    String::from_utf8(answer).expect("UTF-8")
}

#[test]
fn an_image_of_megabytes_in_one_event_arrives() {
    let image: Vec<u8> = (0..=u8::MAX).cycle().take(3 << 20).collect();
    let image = base64::engine::general_purpose::STANDARD.encode(image);
    let event = format!(
        "data: {{\"type\":\"response.image_generation_call.partial_image\",\"partial_image_b64\":\"{image}\"}}\n\n"
    );
    let pieces: Vec<&[u8]> = event.as_bytes().chunks(64 << 10).collect();
    let upstream = Upstream::streaming(SSE, &pieces);
    let url = format!("http://{}", upstream.address);
    let gateway = Gateway::start(&format!("{}{UNLIMITED}{POLICIES}", route("image", "redacting", &url, "")));
    assert!(ask(&gateway, "image").text() == event, "it is another");
}

#[test]
fn a_coded_stream_that_breaks_off_is_no_whole_one() {
    let events = [content("It is "), content("so "), content("far.")].concat();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(events.as_bytes()).expect("written");
    encoder.flush().expect("flushed");
    let begun = encoder.get_ref().clone();
    let whole = encoder.finish().expect("encoded");
    let media = "text/event-stream\r\nContent-Encoding: gzip";
    let upstreams = [begun, whole].map(|bytes| Upstream::streaming(media, &[&bytes]));
    let [begun, whole] = upstreams.each_ref().map(|it| format!("http://{}", it.address));
    let gateway = Gateway::start(&format!(
        "{}{}{UNLIMITED}{POLICIES}",
        route("begun", "redacting", &begun, ""),
        route("whole", "redacting", &whole, ""),
    ));
    assert_eq!(ask(&gateway, "whole").text(), events);
    let (_, last) = read(&ask(&gateway, "begun").text());
    assert_eq!(last["error"]["code"], "unreadable_response");
}

/// What the caller does before it leaves.
enum Leaving {
    Reading,
    Unread,
    Pipelining,
    ByHalf,
}

#[test]
fn a_caller_who_leaves_ends_the_stream_at_the_provider() {
    let told = content("One. Two.\\n\\n");
    let held = content(&token()[..20]);
    let script = |events: &[&str]| {
        let mut script = vec![Step::Send(chunked_head(SSE))];
        script.extend(events.iter().map(|event| Step::Send(chunk(event.as_bytes()))));
        script.push(Step::Wait);
        Upstream::start(script)
    };
    let cases = [
        ("while the provider is silent", Leaving::Reading, script(&[&told])),
        ("with bytes unread", Leaving::Unread, script(&[&told, &told, &told])),
        ("while text is held", Leaving::Reading, script(&[&told, &held])),
        ("behind a second request", Leaving::Pipelining, script(&[&told])),
        ("by its own side of the connection only", Leaving::ByHalf, script(&[&told])),
    ];
    let routes: String = cases
        .iter()
        .enumerate()
        .map(|(at, (_, _, upstream))| {
            route(&at.to_string(), "redacting", &format!("http://{}", upstream.address), "")
        })
        .collect();
    let gateway = Gateway::start(&format!("{routes}{UNLIMITED}{POLICIES}"));
    let body = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    for (at, (when, leaving, upstream)) in cases.iter().enumerate() {
        let mut client = Client::connect(gateway.proxy);
        let request = post(&format!("/{at}/v1/chat/completions"), "", body);
        client.send(&request);
        assert_eq!(client.head().expect("a head").status, 200);
        match leaving {
            Leaving::Unread => {}
            Leaving::Reading => drop(client.piece().expect("the first event")),
            Leaving::Pipelining => {
                client.piece().expect("the first event");
                client.send(&request);
            }
            Leaving::ByHalf => {
                client.piece().expect("the first event");
                client.finish();
            }
        }
        if !matches!(leaving, Leaving::ByHalf) {
            drop(client);
        }
        // The provider waits for its peer to close, and closes by itself only when this has given up.
        upstream.wait_until(|connections| connections.iter().all(|connection| connection.closed));
        assert_eq!(upstream.received().len(), 1, "{when}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_h2_caller_who_leaves_ends_the_stream_at_the_provider() {
    let told = content("One. Two.\\n\\n");
    let start = || {
        Upstream::start(vec![Step::Send(chunked_head(SSE)), Step::Send(chunk(told.as_bytes())), Step::Wait])
    };
    let (reset, dropped) = (start(), start());
    let gateway = Gateway::start(&format!(
        "{}{}{UNLIMITED}{POLICIES}",
        route("reset", "redacting", &format!("http://{}", reset.address), ""),
        route("dropped", "redacting", &format!("http://{}", dropped.address), ""),
    ));
    let closed = |connections: &[Recorded]| connections.iter().all(|connection| connection.closed);
    let body = br#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let ask = |route: &str| h2::post(&format!("/{route}/v1/chat/completions"), vec![body.to_vec()], true);
    let mut kept = H2Client::plain(gateway.proxy).await;
    drop(kept.begin(ask("reset")).await);
    reset.wait_until(closed);
    let mut gone = H2Client::plain(gateway.proxy).await;
    let body = gone.begin(ask("dropped")).await;
    drop((body, gone));
    dropped.wait_until(closed);
    drop(kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_of_both_versions_are_told_the_same_however_the_provider_cuts() {
    let text = format!("It is {} and so on", token());
    let cuts: Vec<usize> = (0..=text.len()).step_by(5).collect();
    let way = |cut: &usize| {
        [content(&text[..*cut]), content(&text[*cut..]), "data: [DONE]\n\n".to_owned()].concat()
    };
    let upstreams: Vec<Upstream> = cuts
        .iter()
        .map(way)
        .map(|events| {
            Upstream::streaming(SSE, &events.as_bytes().chunks(events.len() / 3).collect::<Vec<_>>())
        })
        .collect();
    let routes: String = upstreams
        .iter()
        .enumerate()
        .map(|(at, upstream)| {
            route(&at.to_string(), "redacting", &format!("http://{}", upstream.address), "")
        })
        .collect();
    let gateway = Gateway::start(&format!("{routes}{UNLIMITED}{POLICIES}"));
    let expected = format!("It is {MASKED} and so on");
    let body = br#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let mut client = H2Client::plain(gateway.proxy).await;
    for (at, cut) in cuts.iter().enumerate() {
        let over_h1 = ask(&gateway, &at.to_string()).text();
        assert_eq!(read(&over_h1).0, expected, "cut at {cut}");
        let request = h2::post(&format!("/{at}/v1/chat/completions"), vec![body.to_vec()], true);
        let over_h2 = client.send(request).await;
        assert_eq!(String::from_utf8_lossy(&over_h2.body), over_h1, "cut at {cut}, over HTTP/2");
    }
}

/// Where each provider's errors say what they are.
const SHAPES: [(&str, &str); 5] = [
    ("/v1/chat/completions", "/error/code"),
    ("/v1/responses", "/error/code"),
    ("/v1/messages", "/error/type"),
    ("/v1beta/models/m:generateContent", "/error/status"),
    ("/api/chat", "/code"),
];

#[test]
fn a_head_that_is_refused_is_refused_in_the_callers_shape() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = Gateway::in_front_of(upstream.address, "");
    let ask = |line: &str, fields: &str| {
        let head = format!("{line} HTTP/1.1\r\nhost: gateway.test\r\n{fields}content-length: 0\r\n\r\n");
        exchange(gateway.proxy, head.as_bytes())
    };
    let large = format!("x-a: {}\r\n", "a".repeat(70_000));
    let cases = [
        ("POST", "x_y: z\r\n", 400),
        ("POST", "content-length: 0\r\n", 400),
        ("POST", "expect: 200-ok\r\n", 417),
        ("POST", &large, 431),
        ("TRACE", "", 405),
    ];
    for (path, pointer) in SHAPES {
        for (method, fields, status) in cases {
            let answer = ask(&format!("{method} {path}"), fields);
            assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
            assert!(answer.json().pointer(pointer).is_some(), "{method} {path}: {}", answer.text());
            assert_eq!(answer.header("request-id").is_some(), path == "/v1/messages", "{path}");
        }
    }
    assert!(ask("POST /v1/messages/%00", "").json().pointer("/error/code").is_some());
    // The gateway's own paths speak its own words.
    assert!(ask("TRACE /health", "").json()["error"].is_string());
    assert!(upstream.received().is_empty(), "something was forwarded");
}

#[test]
fn what_cannot_be_read_is_refused_in_the_callers_shape_and_never_forwarded() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = Gateway::in_front_of(upstream.address, "");
    for body in
        ["{\"a\":1,\"a\":2}", "\u{feff}{}", "{\"a\":\"\\ud800\"}", "{\"a\":1E400}", "{} {}", "{\"a\":NaN}"]
    {
        for (path, pointer) in SHAPES {
            let answer = exchange(gateway.proxy, &post(path, "", body));
            assert_eq!(answer.status, 400, "{path} {body}: {}", answer.text());
            assert!(answer.json().pointer(pointer).is_some(), "{path}: {}", answer.text());
        }
    }
    assert!(upstream.received().is_empty(), "something was forwarded");
}

/// Ollama's lines, as it writes them.
fn lines(texts: &[&str]) -> String {
    let line = |text: &&str| {
        format!(
            "{{\"model\":\"m\",\"message\":{{\"role\":\"assistant\",\"content\":\"{text}\"}},\"done\":false}}\n"
        )
    };
    texts.iter().map(line).chain(["{\"model\":\"m\",\"done\":true}\n".to_owned()]).collect()
}

/// Starts an upstream that streams a text, cut at some places.
fn cut_at(kind: &str, text: &str, cuts: &[usize]) -> Upstream {
    let ends = cuts.iter().copied().filter(|cut| (1..text.len()).contains(cut)).chain([text.len()]);
    let mut from = 0;
    let pieces: Vec<&[u8]> = ends.map(|to| &text.as_bytes()[std::mem::replace(&mut from, to)..to]).collect();
    Upstream::streaming(kind, &pieces)
}

/// A stream of lines whose first brace came alone was taken for events, of which every line was read alone.
#[test]
fn lines_are_lines_whatever_they_are_called_and_wherever_they_are_cut() {
    let token = token();
    let (head, tail) = token.split_at(10);
    let (leak, clean) = (lines(&["It is ", head, tail, " so"]), lines(&["It ", "is so"]));
    let kinds = [SSE, "application/json", "application/json; charset=utf-8", "text/plain"];
    let begins = ["\n", "\r\n ", "\u{feff}"].map(|begin| (SSE, begin));
    let mut cases = Vec::new();
    for (kind, begin) in kinds.map(|kind| (kind, "")).into_iter().chain(begins) {
        for cuts in [vec![1], vec![2], vec![begin.len(), begin.len() + 1], (1..200).collect()] {
            let [leak, clean] = [&leak, &clean].map(|text| format!("{begin}{text}"));
            let upstreams = [cut_at(kind, &leak, &cuts), cut_at(kind, &clean, &cuts)];
            cases.push((format!("{kind} {begin:?} {cuts:?}"), upstreams, clean));
        }
    }
    let mut config = POLICIES.to_owned();
    for (at, (_, upstreams, _)) in cases.iter().enumerate() {
        for (name, upstream) in ["leak", "clean"].iter().zip(upstreams) {
            config +=
                &route(&format!("{name}{at}"), "redacting", &format!("http://{}", upstream.address), "");
        }
    }
    let gateway = Gateway::start(&format!("{UNLIMITED}{config}"));
    let ask = |route: &str| exchange(gateway.proxy, &post(&format!("/{route}/api/chat"), "", "{}")).text();
    for (at, (case, _, clean)) in cases.iter().enumerate() {
        let told = ask(&format!("leak{at}"));
        assert!(!told.contains(head) && !told.contains(tail), "{case}: {told}");
        // No line begins with the mark of UTF-8.
        let is_marked = clean.starts_with('\u{feff}');
        assert_eq!(told.contains(MASKED), !is_marked, "{case}: {told}");
        let told = ask(&format!("clean{at}"));
        assert!(is_marked || told == *clean, "{case}: {told}");
    }
}

#[test]
fn events_are_events_though_they_are_called_json() {
    let token = token();
    let chunk = |text: &str| {
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
    };
    let (head, tail) = token.split_at(10);
    let stream = |texts: &[&str]| texts.iter().map(|it| chunk(it)).collect::<String>() + "data: [DONE]\n\n";
    let (leak, clean) = (stream(&["It is ", head, tail, " so"]), stream(&["It ", "is so"]));
    for cuts in [vec![], vec![1], vec![5], (1..200).collect()] {
        let upstreams = [&leak, &clean].map(|text| cut_at("application/json", text, &cuts));
        let routes = ["leak", "clean"]
            .iter()
            .zip(&upstreams)
            .map(|(name, upstream)| route(name, "redacting", &format!("http://{}", upstream.address), ""));
        let config = POLICIES.to_owned() + &routes.collect::<String>();
        let gateway = Gateway::start(&format!("{UNLIMITED}{config}"));
        let ask = |route: &str| {
            exchange(gateway.proxy, &post(&format!("/{route}/v1/chat/completions"), "", "{}")).text()
        };
        let told = ask("leak");
        assert!(told.contains(MASKED) && !told.contains(head) && !told.contains(tail), "{cuts:?}: {told}");
        assert_eq!(ask("clean"), clean, "{cuts:?}");
    }
}

/// What is one object stays one, and is judged before its status leaves.
#[test]
fn one_object_with_a_line_feed_behind_it_is_no_stream() {
    let body = format!("{{\"model\":\"m\",\"response\":\"It is {} so\",\"done\":true}}\n", token());
    let upstream = Upstream::streaming("application/json", &[&body.as_bytes()[..9], &body.as_bytes()[9..]]);
    let policy = "[policies.default]\n[policies.default.categories.secrets]\nmode = \"block\"\n";
    let gateway = Gateway::in_front_of(upstream.address, policy);
    let answer = exchange(gateway.proxy, &post("/api/generate", "", "{\"model\":\"m\"}"));
    assert_eq!(answer.status, 403, "{}", answer.text());
}

/// Servers that speak several dialects end the streams of all of them as OpenAI does.
#[test]
fn the_end_that_openai_tells_ends_streams_of_other_dialects_too() {
    let begin = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"content\":[]}}\n\n";
    let events = format!("{begin}data: [DONE]\n\n");
    let upstream = Upstream::streaming(SSE, &[events.as_bytes()]);
    let gateway = Gateway::in_front_of(upstream.address, "[policies.default]\n");
    for path in ["/v1/messages", "/v1beta/models/m:streamGenerateContent", "/api/chat", "/v2/chat"] {
        let answer = exchange(gateway.proxy, &post(path, "", "{\"model\":\"m\"}"));
        assert_eq!((answer.status, answer.text()), (200, events.clone()), "{path}");
    }
}
