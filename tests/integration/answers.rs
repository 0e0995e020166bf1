//! Codings, uploads, paths and header fields, each through one gateway and a provider that answers `{}`.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Instant;

use serde_json::Value;

use crate::framing::POLICY;
use crate::framing::secret;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::upstream::Step;
use crate::upstream::Upstream;
use crate::upstream::chunk;
use crate::usage::admin;
use crate::wire::Client;
use crate::wire::PATIENCE;
use crate::wire::Response;
use crate::wire::exchange;
use crate::wire::find;
use crate::wire::post;

const CODINGS: [&str; 4] = ["gzip", "deflate", "br", "zstd"];

/// Writes a body in a content coding.
pub fn encode(coding: &str, body: &[u8]) -> Vec<u8> {
    let level = flate2::Compression::default();
    let written = "memory can be written";
    match coding {
        "gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(body).expect(written);
            encoder.finish().expect(written)
        }
        "deflate" => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(body).expect(written);
            encoder.finish().expect(written)
        }
        "br" => {
            let mut encoded = Vec::new();
            brotli::CompressorWriter::new(&mut encoded, 4096, 5, 20).write_all(body).expect(written);
            encoded
        }
        _ => zstd::stream::encode_all(body, 3).expect(written),
    }
}

/// Asks with fields and a body, and returns the answer.
pub fn send(address: SocketAddr, path: &str, fields: &str, body: &[u8]) -> Response {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: gateway.test\r\n{fields}content-length: {}\r\n\r\n",
        body.len()
    );
    exchange(address, &[head.as_bytes(), body].concat())
}

fn get(gateway: &Gateway, target: &str, host: &str) -> Response {
    exchange(gateway.proxy, format!("GET {target} HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes())
}

/// The one request that reached the provider since the last look, as text.
fn forwarded(upstream: &Upstream) -> String {
    let received = upstream.take();
    assert_eq!(received.len(), 1, "{received:?}");
    String::from_utf8_lossy(&received[0].bytes).into_owned()
}

#[test]
fn requests_are_read_decoded_split_routed_and_answered() {
    let upstream = Upstream::answering("application/json", "{}");
    let to = format!("upstream = \"http://{}\"\npolicy = \"default\"\n", upstream.address);
    let gateway = Gateway::start(&format!(
        "[[routes]]\nname = \"strip\"\npath_prefix = \"/team\"\nstrip_prefix = true\n{to}\
         [[routes]]\nname = \"host\"\nhost = \"only.test\"\n{to}dialect = \"anthropic\"\n\
         [[routes]]\nname = \"all\"\n{to}{UNLIMITED}{POLICY}"
    ));
    coded_requests(&gateway, &upstream);
    uploads(&gateway, &upstream);
    paths(&gateway, &upstream);
    fields(&gateway, &upstream);
    upgrades_are_refused_or_ignored(&gateway, &upstream);
}

fn coded_requests(gateway: &Gateway, upstream: &Upstream) {
    let clean = br#"{"input":"nothing to see here"}"#;
    let leak = format!(r#"{{"input":"take {} now"}}"#, secret());
    let json = |coding: &str| format!("content-type: application/json\r\ncontent-encoding: {coding}\r\n");
    for coding in CODINGS {
        let answer = send(gateway.proxy, "/x", &json(coding), &encode(coding, clean));
        assert_eq!(answer.status, 200, "{coding}");
        let sent = forwarded(upstream);
        assert!(sent.to_lowercase().contains(&format!("content-length: {}\r\n", clean.len())), "{sent}");
        assert!(!sent.to_lowercase().contains("content-encoding"), "{sent}");
        assert!(sent.ends_with(std::str::from_utf8(clean).expect("text")), "{sent}");
        let answer = send(gateway.proxy, "/x", &json(coding), &encode(coding, leak.as_bytes()));
        assert_eq!(answer.status, 403, "{coding}");
        let bomb = encode(coding, &vec![b' '; 60 << 20]);
        assert_eq!(send(gateway.proxy, "/x", &json(coding), &bomb).status, 413, "{coding}");
        assert_eq!(send(gateway.proxy, "/x", &json(coding), b"not encoded at all").status, 400, "{coding}");
    }
    for unknown in ["compress", "gzip, br"] {
        assert_eq!(send(gateway.proxy, "/x", &json(unknown), clean).status, 415, "{unknown}");
    }
    assert!(upstream.take().is_empty(), "a refused body reached the provider");
}

fn uploads(gateway: &Gateway, upstream: &Upstream) {
    let form = "content-type: multipart/form-data; boundary=XyZ\r\n";
    let part = |head: &str, content: &[u8]| {
        [
            b"--XyZ\r\nContent-Disposition: form-data; name=\"a\"",
            head.as_bytes(),
            b"\r\n\r\n",
            content,
            b"\r\n",
        ]
        .concat()
    };
    let end = b"--XyZ--\r\n".to_vec();
    let binary: Vec<u8> = (0..=255u8).cycle().take(300_000).filter(|byte| *byte != b'-').collect();
    let file = "; filename=\"a.wav\"\r\nContent-Type: audio/wav";
    let clean = [part("", b"a prompt"), part(file, &binary), end.clone()].concat();
    assert_eq!(send(gateway.proxy, "/v1/files", form, &clean).status, 200);
    let received = upstream.take();
    let at = find(&received[0].bytes, b"\r\n\r\n").expect("a head") + 4;
    assert!(received[0].bytes[at..] == clean, "the upload was changed");
    office_files(gateway, upstream, |kind: &str, content: &[u8]| {
        let head = format!("; filename=\"a.bin\"\r\nContent-Type: {kind}");
        (form, [part(&head, content), end.clone()].concat())
    });
    let leak = [part("", format!("take {}", secret()).as_bytes()), part(file, &binary), end.clone()].concat();
    assert_eq!(send(gateway.proxy, "/v1/files", form, &leak).status, 403);
    let unread = [&part("", &[secret().as_bytes(), b"\xff"].concat())[..], &end].concat();
    assert_eq!(send(gateway.proxy, "/v1/files", form, &unread).status, 400);
    let wide: Vec<u8> = secret().encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(send(gateway.proxy, "/v1/files", "content-type: text/plain\r\n", &wide).status, 400);
    let twice = "content-type: multipart/form-data; boundary=XyZ; boundary=other\r\n";
    assert_eq!(send(gateway.proxy, "/v1/files", twice, &clean).status, 400);
    let malformed = [
        [b"before\r\n".to_vec(), part("", b"a"), end.clone()].concat(),
        part("", b"no end"),
        [part("", b"a"), end, b"after".to_vec()].concat(),
    ];
    for body in malformed {
        let answer = send(gateway.proxy, "/v1/files", form, &body);
        assert_eq!(answer.status, 400, "{}", String::from_utf8_lossy(&body));
    }
    assert!(upstream.take().is_empty(), "a refused upload reached the provider");
}

/// Files of applications pass with the type that SDKs guess from their names, unless what they hold is text.
fn office_files(
    gateway: &Gateway,
    upstream: &Upstream,
    form: impl Fn(&str, &[u8]) -> (&'static str, Vec<u8>),
) {
    let archive = [&b"PK\x03\x04\x14\0\x06\0"[..], &[0x8b, 0xff, 0x02, 0x9d].repeat(500)].concat();
    let kinds = [
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "application/msword",
        "application/vnd.ms-excel",
        "application/vnd.oasis.opendocument.text",
        "application/epub+zip",
        "application/vnd.apache.parquet",
        "application/x-hwp",
    ];
    for kind in kinds {
        let (fields, body) = form(kind, &archive);
        assert_eq!(send(gateway.proxy, "/v1/files", fields, &body).status, 200, "{kind}");
        assert!(upstream.take()[0].bytes.ends_with(&body), "{kind}: the upload was changed");
        let (fields, body) = form(kind, format!("take {}", secret()).as_bytes());
        assert_eq!(send(gateway.proxy, "/v1/files", fields, &body).status, 403, "{kind}");
    }
    let (fields, body) = form("application/xml", &archive);
    assert_eq!(send(gateway.proxy, "/v1/files", fields, &body).status, 400);
}

fn paths(gateway: &Gateway, upstream: &Upstream) {
    let cases = [
        ("/team/v1/x?q=%2e%2e", "/v1/x?q=%2e%2e"),
        ("/team//v1/./x", "/v1/x"),
        ("/other/../team/v1/x", "/v1/x"),
        ("/other/%2e%2e/team/v1/x", "/v1/x"),
        ("/%74eam/v1/x", "/v1/x"),
        ("/teams/v1", "/teams/v1"),
        ("/a/%7Eb", "/a/~b"),
    ];
    for (target, path) in cases {
        assert_eq!(get(gateway, target, "gateway.test").status, 200, "{target}");
        let sent = forwarded(upstream);
        assert!(sent.starts_with(&format!("GET {path} HTTP/1.1\r\n")), "{target}: {sent}");
    }
    for target in ["/team/..%2fadmin", "/../x", "/%2e%2e/x", "/a/%252e%252e/x", "/a%00", "/a%5cb", "/%zz"] {
        assert_eq!(get(gateway, target, "gateway.test").status, 400, "{target}");
    }
    assert!(upstream.take().is_empty(), "a refused path reached the provider");
}

fn fields(gateway: &Gateway, upstream: &Upstream) {
    let leak = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{}"}}]}}"#, secret());
    let limits = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "x-request-id"];
    let all = |answer: &Response, names: &[&str]| {
        let missing: Vec<_> = names.iter().filter(|name| answer.header(name).is_none()).collect();
        assert!(missing.is_empty(), "{missing:?} are missing in {:?}", answer.headers);
    };
    let answer = exchange(gateway.proxy, &post("/v1/chat/completions", "x-request-id: mine-1\r\n", "{}"));
    assert_eq!((answer.status, answer.header("x-request-id")), (200, Some("mine-1")));
    assert_eq!(answer.header("x-portcullis-action"), Some("allow"));
    assert!(answer.header("x-portcullis-policy").is_some_and(|policy| policy.starts_with("default@")));
    all(&answer, &limits);
    let long = format!("x-request-id: {}\r\n", "a".repeat(129));
    for insane in ["x-request-id: a b\r\n", "x-request-id: \r\n", &long] {
        let answer = exchange(gateway.proxy, &post("/v1/chat/completions", insane, "{}"));
        assert_eq!(answer.header("x-request-id").map(str::len), Some(26), "{insane}");
    }
    upstream.take();
    let blocked = exchange(gateway.proxy, &post("/v1/chat/completions", "", &leak));
    assert_eq!((blocked.status, blocked.header("x-should-retry")), (403, Some("false")));
    assert_eq!(blocked.header("x-portcullis-action"), Some("block"));
    assert_eq!(blocked.json()["error"]["code"], "content_blocked");
    all(&blocked, &limits);
    let named = post("/v1/messages", "x-request-id: mine-2\r\n", &leak);
    let named = String::from_utf8(named).expect("text").replace("gateway.test", "only.test");
    let blocked = exchange(gateway.proxy, named.as_bytes());
    assert_eq!((blocked.status, blocked.header("request-id")), (403, Some("mine-2")));
    assert_eq!(blocked.header("x-should-retry"), Some("false"));
    assert_eq!(blocked.json()["error"]["type"], "permission_error");
    let broken = exchange(gateway.proxy, &post("/v1/chat/completions", "x_y: z\r\n", "{}"));
    assert_eq!(broken.status, 400);
    all(&broken, &limits);
}

fn upgrades_are_refused_or_ignored(gateway: &Gateway, upstream: &Upstream) {
    upstream.take();
    let refused = exchange(gateway.proxy, &handshake("/x"));
    assert_eq!(refused.status, 403);
    assert!(upstream.take().is_empty(), "a refused upgrade reached the provider");
    let offer = "GET /x HTTP/1.1\r\nhost: a\r\nconnection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n\r\n";
    assert_eq!(exchange(gateway.proxy, offer.as_bytes()).status, 200);
    let sent = forwarded(upstream).to_lowercase();
    assert!(!sent.contains("upgrade") && !sent.contains("http2"), "{sent}");
}

/// Writes what asks for a WebSocket.
pub fn handshake(path: &str) -> Vec<u8> {
    format!(
        "GET {path} HTTP/1.1\r\nhost: gateway.test\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    .into_bytes()
}

#[test]
fn a_websocket_passes_both_ways_where_the_route_allows_it() {
    let switch = b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
                   sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n\x81\x05first"
        .to_vec();
    let upstream = Upstream::start(vec![Step::Send(switch)]);
    let plain = Upstream::answering("text/plain", &secret());
    let route = |name: &str, upstream: SocketAddr| {
        format!(
            "[[routes]]\nname = \"{name}\"\npath_prefix = \"/{name}\"\nstrip_prefix = true\nwebsocket = true\n\
             upstream = \"http://{upstream}/base\"\npolicy = \"default\"\n"
        )
    };
    let routes = [route("ws", upstream.address), route("no", plain.address)].concat();
    let waiting = "[audit]\ndurability = \"wait\"\n";
    let gateway = Gateway::start(&format!("{waiting}{routes}{UNLIMITED}{POLICY}"));
    let mut client = Client::connect(gateway.proxy);
    let asked = Instant::now();
    client.send(&handshake("/x/../ws/v1/realtime?m=1"));
    assert_eq!(client.head().expect("a head").status, 101);
    let answered = asked.elapsed();
    assert_eq!(client.raw(7), b"\x81\x05first");
    // Masked with nothing: it reads as it is written.
    client.send(b"\x81\x8f\0\0\0\0from the caller");
    let received = upstream.wait_until(|all| all.iter().any(|one| one.bytes.ends_with(b"from the caller")));
    assert!(received[0].bytes.starts_with(b"GET /base/v1/realtime?m=1 HTTP/1.1\r\n"), "{received:?}");
    // The log tells that it begins; and how long it lasts is no latency.
    assert_eq!(recorded(&gateway, "exchange_begun")["route"], "ws");
    while asked.elapsed() < 4 * answered {
        std::thread::yield_now();
    }
    drop(client);
    let latency_ms = recorded(&gateway, "exchange")["latency_ms"].as_f64().expect("a number");
    assert!(latency_ms <= answered.as_secs_f64() * 1000.0, "{latency_ms} ms, {answered:?}");
    let answer = exchange(gateway.proxy, &handshake("/no/x"));
    assert_eq!(answer.status, 502, "an answer that nobody reads reached the caller");
    assert!(!answer.text().contains(&secret()));
    plain.take();
    let carrying = String::from_utf8(handshake("/no/x")).expect("text").replace("GET", "POST");
    assert_eq!(exchange(gateway.proxy, carrying.as_bytes()).status, 400);
    assert!(plain.take().is_empty());
}

/// What is only monitored is as grave as it is, and a stream that waits for the log counts once.
#[test]
fn the_gravest_finding_is_what_an_entry_is_asked_for_by() {
    let upstream = Upstream::streaming("text/event-stream", &[b"data: {\"a\":\"b\"}\n\n"]);
    let gateway = Gateway::start(&format!(
        "[audit]\ndurability = \"wait\"\n[[routes]]\nname = \"all\"\nupstream = \"http://{}\"\n\
         dialect = \"generic\"\npolicy = \"default\"\n{UNLIMITED}[policies.default.categories.secrets]\n\
         mode = \"monitor\"\n[policies.default.categories.pii]\nmode = \"redact\"\n",
        upstream.address
    ));
    let body = format!("{{\"input\":\"{} of ada.lovelace@example.org\"}}", secret());
    assert_eq!(exchange(gateway.proxy, &post("/x", "", &body)).status, 200);
    let (entry, begun) = (recorded(&gateway, "exchange"), recorded(&gateway, "exchange_begun"));
    let names = |entry: &Value| entry["findings"].as_array().map_or(0, Vec::len);
    assert_eq!((&entry["category"], &entry["severity"]), (&"secrets".into(), &"high".into()), "{entry}");
    assert_eq!((&entry["action"], names(&entry)), (&"redact".into(), 2), "{entry}");
    assert_eq!((&begun["category"], names(&begun)), (&Value::Null, 2), "{begun}");
    for asked in ["severity=high", "category=secrets"] {
        let (_, told) = admin(&gateway, "GET", &format!("/api/v1/audit?{asked}"), &Value::Null);
        assert_eq!(told["total"], 1, "{asked}: {told}");
    }
}

/// Waits for the first entry of a type in the audit log.
pub fn recorded(gateway: &Gateway, event_type: &str) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let path = format!("/api/v1/audit?event_type={event_type}");
        let (_, mut told) = admin(gateway, "GET", &path, &Value::Null);
        if !told["entries"][0].is_null() {
            return told["entries"][0].take();
        }
        assert!(Instant::now() < deadline, "{event_type}: {told}");
    }
}

#[test]
fn encoded_answers_are_decoded_and_read() {
    let clean = br#"{"output":"nothing to see here"}"#;
    let leak = format!(r#"{{"output":"take {} now"}}"#, secret());
    let events = format!("data: {{\"a\":\"b\"}}\n\ndata: {leak}\n\n");
    let (mut routes, mut upstreams) = (String::new(), Vec::new());
    for coding in CODINGS {
        let whole = |body: &[u8]| Upstream::start(vec![Step::Send(whole(coding, body))]);
        let kinds = [
            ("good", whole(clean)),
            ("bad", whole(leak.as_bytes())),
            ("stream", Upstream::start(stream(coding, &events))),
        ];
        for (kind, upstream) in kinds {
            routes.push_str(&format!(
                "[[routes]]\nname = \"{kind}-{coding}\"\npath_prefix = \"/{kind}/{coding}\"\n\
                 upstream = \"http://{}\"\ndialect = \"generic\"\npolicy = \"default\"\n",
                upstream.address
            ));
            upstreams.push(upstream);
        }
    }
    let gateway = Gateway::start(&format!("{routes}{UNLIMITED}{POLICY}"));
    for coding in CODINGS {
        let ask = |kind: &str| exchange(gateway.proxy, &post(&format!("/{kind}/{coding}"), "", "{}"));
        let answer = ask("good");
        assert_eq!((answer.status, &answer.body[..]), (200, &clean[..]), "{coding}");
        assert_eq!(answer.header("content-encoding"), None);
        assert_eq!(ask("bad").status, 403, "{coding}");
        let answer = ask("stream");
        assert!(answer.text().starts_with("data: {\"a\":\"b\"}\n\n"), "{coding}: {}", answer.text());
        assert!(!answer.text().contains(&secret()[..12]), "{coding}: {}", answer.text());
    }
}

fn coded_head(coding: &str, kind: &str, framing: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-encoding: {coding}\r\n{framing}\r\n\r\n")
        .into_bytes()
}

fn whole(coding: &str, body: &[u8]) -> Vec<u8> {
    let encoded = encode(coding, body);
    let length = format!("content-length: {}", encoded.len());
    [coded_head(coding, "application/json", &length), encoded].concat()
}

fn stream(coding: &str, events: &str) -> Vec<Step> {
    let encoded = encode(coding, events.as_bytes());
    let mut steps = vec![Step::Send(coded_head(coding, "text/event-stream", "transfer-encoding: chunked"))];
    steps.extend(encoded.chunks(7).map(|piece| Step::Send(chunk(piece))));
    steps.push(Step::Send(chunk(b"")));
    steps
}

#[test]
fn answers_that_are_declared_to_hold_no_text_are_read_where_they_do() {
    let (leak, clean) = (format!("{{\"note\":\"use {}\"}}", secret()), "{\"note\":\"nothing\"}".to_owned());
    let sound = "\u{1}sound".repeat(400);
    let long = format!("{} {}", "a line of text\n".repeat(100), secret());
    let cases = [
        ("application/octet-stream", &leak, 403),
        ("application/octet-stream", &long, 403),
        ("image/svg+xml", &leak, 403),
        ("application/octet-stream", &clean, 200),
        ("audio/mpeg", &sound, 200),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", &sound, 200),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", &leak, 403),
    ];
    let upstreams = cases.map(|(media, body, _)| Upstream::answering(media, body));
    let route = |at: usize, upstream: &Upstream, policy: &str| {
        let address = upstream.address;
        format!(
            "[[routes]]\nname = \"r{at}\"\npath_prefix = \"/{at}\"\nupstream = \"http://{address}\"\n\
             dialect = \"openai\"\npolicy = \"{policy}\"\n"
        )
    };
    let routes = upstreams.iter().enumerate().map(|(at, upstream)| route(at, upstream, "default"));
    let framed = Upstream::answering("application/vnd.amazon.eventstream", &sound);
    let routes = routes.collect::<String>() + &route(7, &framed, "default") + &route(8, &framed, "open");
    let open = "[policies.open]\nfail_mode = \"open\"\n";
    let gateway = Gateway::start(&format!("{routes}{UNLIMITED}{POLICY}{open}"));
    let ask = |at: usize| exchange(gateway.proxy, &post(&format!("/{at}/x"), "", "{}"));
    for (at, (media, body, status)) in cases.into_iter().enumerate() {
        let answer = ask(at);
        assert_eq!(answer.status, status, "{media}: {}", answer.text());
        assert_eq!(answer.body == body.as_bytes(), status == 200, "{media}");
    }
    // What is declared to be frames and is none ends in one that raises, or passes where the policy says so.
    let ended = ask(7).text();
    assert!(ended.contains("internalServerException") && !ended.contains("sound"), "{ended}");
    assert_eq!(ask(8).body, sound.as_bytes());
}

#[test]
fn what_a_provider_says_of_an_error_reaches_its_caller_however_the_stream_would_have_come() {
    let gemini = "/v1beta/models/m:streamGenerateContent";
    let spoken = "{\n  \"error\": {\n    \"code\": 429,\n    \"status\": \"RESOURCE_EXHAUSTED\"\n  }\n}\n";
    let listed = format!("[{}]\n", spoken.trim_end());
    let leak = format!(r#"{{"error":{{"code":400,"message":"no such key: {}"}}}}"#, secret());
    let cases = [
        (format!("{gemini}?alt=sse"), spoken, true),
        (gemini.to_owned(), spoken, true),
        (gemini.to_owned(), &listed, true),
        (gemini.to_owned(), &leak, false),
        ("/v1/chat/completions".to_owned(), spoken, true),
        ("/v1/messages".to_owned(), spoken, true),
        ("/api/chat".to_owned(), spoken, true),
        ("/v1/other".to_owned(), spoken, true),
    ];
    let upstream = |body: &str| {
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json; charset=UTF-8\r\n\
             content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        Upstream::start(vec![Step::Send(answer.into_bytes()), Step::Close])
    };
    let upstreams: Vec<Upstream> = cases.iter().map(|(_, body, _)| upstream(body)).collect();
    let route = |(at, upstream): (usize, &Upstream)| {
        format!(
            "[[routes]]\nname = \"r{at}\"\npath_prefix = \"/{at}\"\nstrip_prefix = true\n\
             upstream = \"http://{}\"\npolicy = \"default\"\n",
            upstream.address
        )
    };
    let routes: String = upstreams.iter().enumerate().map(route).collect();
    let gateway = Gateway::start(&format!("{routes}{UNLIMITED}{POLICY}"));
    for (at, (path, body, is_clean)) in cases.into_iter().enumerate() {
        let answer = exchange(gateway.proxy, &post(&format!("/{at}{path}"), "", r#"{"stream":true}"#));
        assert_eq!(answer.body == body.as_bytes(), is_clean, "{path}: {}", answer.text());
        assert_eq!(answer.status == 429, is_clean, "{path}");
        assert!(!answer.text().contains(&secret()) && !answer.text().contains("UNAVAILABLE"), "{path}");
    }
}

#[test]
fn a_provider_plants_no_session_of_ours_and_ends_none() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\
                  set-cookie: __Host-portcullis-session=evil; Path=/; Secure\r\nset-cookie: a=b\r\n\
                  set-cookie: portcullis-session=evil\r\nclear-site-data: \"cookies\"\r\n\r\n{}";
    let upstream = Upstream::start(vec![Step::Send(answer.into())]);
    let gateway = Gateway::in_front_of(upstream.address, POLICY);
    let answer = exchange(gateway.proxy, &post("/v1/embeddings", "", "{}"));
    let cookies: Vec<&str> = answer
        .headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"))
        .map(|(_, value)| value.as_str())
        .collect();
    assert_eq!((answer.status, cookies), (200, vec!["a=b"]));
    assert_eq!(answer.header("clear-site-data"), None);
}
