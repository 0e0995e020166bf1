//! How the body of an answer is written: the codings that its fields tell, and where it ends.

use crate::answers::encode;
use crate::framing::POLICY;
use crate::framing::secret;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::upstream::Step;
use crate::upstream::Upstream;
use crate::upstream::chunk;
use crate::wire::exchange;
use crate::wire::post;

/// An answer in one chunk, with some fields more.
fn answering(kind: &str, fields: &[&str], body: &[u8]) -> Upstream {
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n{fields}\r\n");
    Upstream::start(vec![Step::Send([head.into_bytes(), chunk(body), chunk(b"")].concat())])
}

/// A gateway with a route `/0`, `/1` and so on to each provider.
fn in_front_of(upstreams: &[Upstream]) -> Gateway {
    let route = |(at, upstream): (usize, &Upstream)| {
        format!(
            "[[routes]]\nname = \"r{at}\"\npath_prefix = \"/{at}\"\nupstream = \"http://{}\"\n\
             dialect = \"openai\"\npolicy = \"default\"\n",
            upstream.address
        )
    };
    let routes: String = upstreams.iter().enumerate().map(route).collect();
    Gateway::start(&format!("{routes}{UNLIMITED}{POLICY}"))
}

const KINDS: [&str; 4] = ["application/json", "text/plain", "application/octet-stream", "text/event-stream"];

#[test]
fn codings_in_two_fields_are_one_list_and_two_of_them_reach_nobody() {
    let leak = |kind: &str| match kind {
        "text/event-stream" => format!("data: {{\"a\":\"take {} now\"}}\n\n", secret()),
        _ => format!("{{\"a\":\"take {} now\"}}", secret()),
    };
    let twice = ["content-encoding: gzip", "content-encoding: gzip"];
    let once = ["content-encoding: identity", "content-encoding: gzip"];
    let encoded = KINDS.map(|kind| encode("gzip", leak(kind).as_bytes()));
    let clean = encode("gzip", b"{\"a\":\"nothing\"}");
    let (kinds, bodies) = (KINDS.iter(), encoded.iter());
    let mut upstreams: Vec<Upstream> = kinds
        .clone()
        .zip(bodies.clone())
        .map(|(kind, body)| answering(kind, &twice, &encode("gzip", body)))
        .collect();
    upstreams.extend(kinds.zip(bodies).map(|(kind, body)| answering(kind, &once, body)));
    upstreams.push(answering("application/json", &once, &clean));
    let gateway = in_front_of(&upstreams);
    let ask = |at: usize| exchange(gateway.proxy, &post(&format!("/{at}/x"), "", "{}"));
    for (at, kind) in KINDS.iter().enumerate() {
        assert_eq!(ask(at).status, 502, "{kind}, coded twice");
        let answer = ask(KINDS.len() + at);
        let is_stream = *kind == "text/event-stream";
        assert_eq!(answer.status, if is_stream { 200 } else { 403 }, "{kind}: {}", answer.text());
        assert!(!answer.text().contains(&secret()) && answer.text().contains("content_blocked"), "{kind}");
    }
    let answer = ask(2 * KINDS.len());
    assert_eq!((answer.status, &answer.body[..]), (200, &b"{\"a\":\"nothing\"}"[..]));
    assert_eq!(answer.header("content-encoding"), None);
}

/// RFC 9112, section 6.1: who speaks HTTP/1.0 knows no chunks.
#[test]
fn to_a_caller_of_http_1_0_the_end_of_an_answer_is_that_of_its_connection() {
    let events = b"data: {\"a\":\"b\"}\n\ndata: [DONE]\n\n";
    let sound = b"\x01sound".repeat(400);
    let upstreams = [answering("text/event-stream", &[], events), answering("audio/mpeg", &[], &sound)];
    let gateway = in_front_of(&upstreams);
    for (at, body) in [&events[..], &sound].into_iter().enumerate() {
        for more in ["", "connection: keep-alive\r\n"] {
            let request = String::from_utf8(post(&format!("/{at}/x"), more, "{}")).expect("text");
            let answer = exchange(gateway.proxy, request.replace("HTTP/1.1", "HTTP/1.0").as_bytes());
            assert_eq!((answer.status, &answer.body[..]), (200, body), "{more}");
            assert_eq!(answer.header("transfer-encoding"), None, "{more}");
            assert_eq!(answer.header("connection"), Some("close"), "{more}");
        }
        let answer = exchange(gateway.proxy, &post(&format!("/{at}/x"), "", "{}"));
        assert_eq!((answer.header("transfer-encoding"), &answer.body[..]), (Some("chunked"), body));
    }
}

/// RFC 9110, sections 7.6.1 and 8.8; RFC 9530.
#[test]
fn what_tells_of_a_connection_or_of_bytes_that_changed_stays_behind() {
    let fields =
        ["connection: x-hop", "x-hop: 1", "etag: \"v1\"", "content-digest: sha-256=:AA==:", "x-own: 2"];
    let told = |text: &str| format!("{{\"a\":\"{text}\"}}");
    let upstreams = [
        answering("application/json", &fields, told("nothing").as_bytes()),
        answering("application/json", &fields, told(&secret()).as_bytes()),
    ];
    let gateway = {
        let route = |(at, upstream): (usize, &Upstream)| {
            format!(
                "[[routes]]\nname = \"r{at}\"\npath_prefix = \"/{at}\"\nupstream = \"http://{}\"\n",
                upstream.address
            )
        };
        let routes: String = upstreams.iter().enumerate().map(route).collect();
        Gateway::start(&format!(
            "{routes}{UNLIMITED}[policies.default]\n[policies.default.categories.secrets]\nmode = \"redact\"\n"
        ))
    };
    for (at, etag) in [(0, Some("\"v1\"")), (1, None)] {
        let answer = exchange(gateway.proxy, &post(&format!("/{at}/x"), "", "{}"));
        assert_eq!((answer.status, answer.header("x-own")), (200, Some("2")), "{}", answer.text());
        assert_eq!((answer.header("x-hop"), answer.header("etag")), (None, etag));
        assert_eq!(answer.header("content-digest").is_some(), etag.is_some());
        assert!(!answer.text().contains(&secret()));
    }
}
