//! Every framing of a request body, on every pair of protocols: it arrives byte for byte, once, whole;
//! and what is blocked never reaches a socket of the provider.

use std::io::Read as _;
use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use http::HeaderMap;
use tokio::runtime::Runtime;

use crate::answers::encode;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::h2;
use crate::h2::H2Client;
use crate::upstream::Recorded;
use crate::upstream::Upstream;
use crate::upstream_h2::Answer;
use crate::upstream_h2::H2Upstream;
use crate::wire::Client;
use crate::wire::find;

/// Around what one read, one frame and Pingora's own retry buffer hold.
const SIZES: [usize; 7] = [0, 1, (64 << 10) - 1, 64 << 10, (64 << 10) + 1, 1 << 20, 3 << 20];
/// No other limit may decide here.
pub const POLICY: &str = "[limits]\nscan_ms = 60000\n[policies.default]\nfail_mode = \"closed\"\n\
                          [policies.default.categories.secrets]\nmode = \"block\"\n";

/// A text that the policy blocks.
pub fn secret() -> String {
    format!("AKIA{}", "Z7RQ3N5WLM2JX4KD")
}

/// JSON of exactly so many bytes; a single digit and nothing at all are the shortest.
fn body_of(size: usize) -> Vec<u8> {
    match size {
        0 => Vec::new(),
        1 => b"7".to_vec(),
        _ => {
            let mut body = b"{\"input\":\"".to_vec();
            let prose = "The quick brown fox jumps over the lazy dog again, ".bytes().cycle();
            body.extend(prose.take(size - body.len() - 2));
            body.extend(b"\"}");
            body
        }
    }
}

fn chunked(body: &[u8], size: usize) -> Vec<u8> {
    let chunks = body.chunks(size).flat_map(crate::upstream::chunk);
    chunks.chain(*b"0\r\n\r\n").collect()
}

fn head(path: &str, framing: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nhost: gateway.test\r\ncontent-type: application/json\r\n{framing}\r\n\r\n"
    )
    .into_bytes()
}

/// The ways to send a body on HTTP/1, each on a connection of its own.
fn send_h1(gateway: &Gateway, path: &str, body: &[u8]) -> Vec<u16> {
    let known = head(path, &format!("content-length: {}", body.len()));
    let expecting = head(path, &format!("content-length: {}\r\nexpect: 100-continue", body.len()));
    let unknown = head(path, "transfer-encoding: chunked");
    let mut statuses = Vec::new();
    for (head, body) in
        [(known, body.to_vec()), (unknown.clone(), chunked(body, 1000)), (unknown, chunked(body, 100 << 10))]
    {
        let mut client = Client::connect(gateway.proxy);
        client.send(&[head, body].concat());
        statuses.push(client.response().expect("an answer").status);
    }
    let mut client = Client::connect(gateway.proxy);
    client.send(&expecting);
    assert_eq!(client.head().expect("an interim answer").status, 100);
    client.send(body);
    statuses.push(client.response().expect("an answer").status);
    statuses
}

/// The ways to send a body on HTTP/2, all on one connection.
async fn send_h2(gateway: &Gateway, path: &str, body: &[u8]) -> Vec<u16> {
    let mut client = H2Client::plain(gateway.proxy).await;
    let mut statuses = Vec::new();
    for declares in [true, false] {
        for size in [1000, 16 << 10] {
            let pieces = body.chunks(size).map(<[u8]>::to_vec).collect();
            statuses.push(client.send(h2::post(path, pieces, declares)).await.status);
        }
    }
    statuses
}

fn bodies(received: &[Recorded]) -> Vec<Vec<u8>> {
    let sent = received.iter().filter(|connection| !connection.bytes.is_empty());
    sent.map(|connection| {
        connection.bytes[find(&connection.bytes, b"\r\n\r\n").expect("a head") + 4..].to_vec()
    })
    .collect()
}

fn in_front_of(upstream: &Upstream) -> Gateway {
    Gateway::start(&format!(
        "[[routes]]\nname = \"any\"\npath_prefix = \"/\"\nupstream = \"http://{}\"\ndialect = \"generic\"\n\
         policy = \"default\"\n{UNLIMITED}{POLICY}",
        upstream.address
    ))
}

/// Callers of HTTP/1.0 know no interim answer, and would take it for the final one (RFC 9110, section 10.1.1).
#[test]
fn who_speaks_http_1_0_is_not_asked_to_continue() {
    let plain = Upstream::answering("application/json", "{}");
    let gateway = in_front_of(&plain);
    let mut client = Client::connect(gateway.proxy);
    let head = "POST /x HTTP/1.0\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 2\r\n";
    client.send(format!("{head}expect: 100-continue\r\n\r\n{{}}").as_bytes());
    assert_eq!(client.head().expect("an answer").status, 200);
    assert_eq!(bodies(&plain.take()), [b"{}"]);
}

#[test]
fn an_empty_body_has_nothing_to_decode_and_none_has_anything_behind_its_end() {
    let plain = Upstream::answering("application/json", "{}");
    let gateway = in_front_of(&plain);
    let send = |coding: &str, body: &[u8]| {
        let framing = format!("content-encoding: {coding}\r\ncontent-length: {}", body.len());
        let mut client = Client::connect(gateway.proxy);
        client.send(&[head("/x", &framing), body.to_vec()].concat());
        client.response().expect("an answer").status
    };
    for coding in ["gzip", "deflate", "br", "zstd"] {
        assert_eq!(send(coding, b""), 200, "{coding}, empty");
        let encoded = encode(coding, b"{}");
        assert_eq!(send(coding, &encoded), 200, "{coding}");
        assert_eq!(send(coding, &[&encoded, b"{\"more\":1}".as_slice()].concat()), 400, "{coding} and more");
    }
}

/// Where the end of a request is in doubt, nothing that follows is taken for another one (RFC 9112, section 7.1).
#[test]
fn a_request_without_a_sure_end_ends_its_connection() {
    let plain = Upstream::answering("application/json", "{}");
    let gateway = in_front_of(&plain);
    let chunked = head("/x", "transfer-encoding: chunked");
    for (what, message) in [
        ("no hexadecimal size", [&chunked, b"ZZ\r\n".as_slice()].concat()),
        ("no line end behind a chunk", [&chunked, b"2\r\n{}XX".as_slice()].concat()),
        ("a size beyond all numbers", [&chunked, b"FFFFFFFFFFFFFFFFF\r\n".as_slice()].concat()),
        ("two lengths", head("/x", "content-length: 2\r\ncontent-length: 2")),
    ] {
        let mut connection = TcpStream::connect(gateway.proxy).expect("a connection");
        connection.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
        connection.write_all(&message).expect("the request leaves");
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).unwrap_or_else(|_| panic!("{what}: the connection stays"));
        assert!(answer.starts_with(b"HTTP/1.1 400 "), "{what}: {}", String::from_utf8_lossy(&answer));
        assert!(find(&answer.to_ascii_lowercase(), b"\r\nconnection: close\r\n").is_some(), "{what}");
    }
    assert!(plain.take().is_empty(), "something of a broken request reached the provider");
}

#[test]
fn a_body_arrives_byte_for_byte_once_and_whole_or_not_at_all() {
    let plain = Upstream::answering("application/json", "{}");
    let answer =
        Answer { content_type: "application/json", pieces: vec![b"{}".to_vec()], trailers: HeaderMap::new() };
    let framed = H2Upstream::start(answer);
    let route = |name: &str, upstream: std::net::SocketAddr, h2: &str| {
        format!(
            "[[routes]]\nname = \"{name}\"\npath_prefix = \"/{name}\"\nupstream = \"http://{upstream}\"\n\
             h2 = \"{h2}\"\ndialect = \"generic\"\npolicy = \"default\"\n"
        )
    };
    let routes = [route("h1", plain.address, "never"), route("h2", framed.address, "always")].concat();
    let gateway = Gateway::start(&format!("{routes}{UNLIMITED}{POLICY}"));
    let runtime = Runtime::new().expect("a runtime");
    let mut seen = 0;
    for size in SIZES {
        let body = body_of(size);
        let statuses = |path| {
            [send_h1(&gateway, path, &body), runtime.block_on(send_h2(&gateway, path, &body))].concat()
        };
        assert_eq!(statuses("/h1/x"), [200; 8], "{size} bytes to HTTP/1");
        let arrived = bodies(&plain.take());
        assert!(
            arrived.len() == 8 && arrived.iter().all(|arrived| *arrived == body),
            "{size} bytes to HTTP/1"
        );
        assert_eq!(statuses("/h2/x"), [200; 8], "{size} bytes to HTTP/2");
        let arrived = framed.received();
        let fresh = &arrived[seen..];
        assert!(
            fresh.len() == 8 && fresh.iter().all(|request| request.body == body),
            "{size} bytes to HTTP/2"
        );
        seen = arrived.len();
    }
    let mut blocked = body_of(200 << 10);
    let at = blocked.len() - 100;
    blocked.splice(at..at, format!(" {} ", secret()).bytes());
    for path in ["/h1/x", "/h2/x"] {
        let statuses =
            [send_h1(&gateway, path, &blocked), runtime.block_on(send_h2(&gateway, path, &blocked))];
        assert_eq!(statuses.concat(), [403; 8], "{path}");
    }
    assert!(plain.take().is_empty(), "a blocked request connected the provider");
    assert_eq!(framed.received().len(), seen, "a blocked request reached the provider");
}
