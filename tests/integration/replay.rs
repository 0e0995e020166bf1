//! Recorded traffic of the providers over real sockets, both ways: what nobody has to change arrives as it was sent.
//!
//! The recordings are whole exchanges, a request and the answer to it, streamed or not. A provider answers with what was
//! recorded, its streams cut at odd places; what reached it, and what came back, is compared by SHA-256.

use std::collections::BTreeMap;
use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use serde_json::Value;
use sha2::Digest;
use sha2::Sha256;

use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::upstream::chunk;
use crate::upstream::chunked_head;
use crate::wire::Client;
use crate::wire::find;

/// Names the exchange that a request is of, to the provider.
const NUMBER: &str = "x-replayed";
/// How a stream is cut, over and over.
const CUTS: [usize; 6] = [1, 63, 7, 1500, 2, 512];
/// Of the bodies that the shipped default policy judges, so many in a hundred it may change or refuse.
const CHANGED_PERCENT_MAX: usize = 5;

type Hash = [u8; 32];

/// A recorded exchange.
#[derive(Default)]
struct Recorded {
    id: String,
    path: String,
    asked: String,
    answered: String,
    media: String,
    status: u64,
    is_stream: bool,
}

fn hash(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

/// Returns the exchanges of which both halves were recorded byte by byte; none, and says so, where they are not at hand.
#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
fn recorded() -> Vec<Recorded> {
    let named = std::env::var_os("PORTCULLIS_SHARED").map(PathBuf::from);
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let folder = named.unwrap_or_else(beside).join("data/train/traffic");
    let Ok(files) = std::fs::read_dir(&folder) else {
        eprintln!("SKIPPED: no recorded traffic in {}", folder.display());
        return Vec::new();
    };
    let mut pairs: BTreeMap<String, (Option<Value>, Option<Value>)> = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(file.expect("a file").path()).expect("a text");
        let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        for row in rows.filter(|row| row["exact"] == true && row["body_encoding"] == "utf-8") {
            let pair = pairs.entry(row["pair"].as_str().unwrap_or_default().to_owned()).or_default();
            let half = if row["direction"] == "request" { &mut pair.0 } else { &mut pair.1 };
            *half = Some(row);
        }
    }
    pairs.into_values().filter_map(|pair| Some(exchange(&pair.0?, &pair.1?))).collect()
}

fn exchange(asked: &Value, answered: &Value) -> Recorded {
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let is_stream = answered["stream"] == true;
    let spoken = text(asked, "dialect");
    let known = [
        ("openai-chat", "/v1/chat/completions"),
        ("openai-responses", "/v1/responses"),
        ("embeddings", "/v1/embeddings"),
        ("anthropic-messages", "/v1/messages"),
        ("gemini-generate", "/v1beta/models/gemini:generateContent"),
    ];
    let path = match known.iter().find(|(dialect, _)| *dialect == spoken) {
        Some(("gemini-generate", _)) if is_stream => "/v1beta/models/gemini:streamGenerateContent?alt=sse",
        Some((_, path)) => path,
        None => "/other",
    };
    Recorded {
        id: text(asked, "id"),
        path: path.to_owned(),
        asked: text(asked, "body"),
        answered: text(answered, "body"),
        media: text(answered, "content_type"),
        status: answered["status"].as_u64().unwrap_or(200),
        is_stream,
    }
}

impl Recorded {
    /// Returns the answer as it leaves the provider, in pieces.
    fn pieces(&self) -> Vec<Vec<u8>> {
        let (body, status) = (self.answered.as_bytes(), self.status);
        if !self.is_stream {
            let head = format!(
                "HTTP/1.1 {status} Recorded\r\ncontent-type: {}\r\ncontent-length: {}\r\n\r\n",
                self.media,
                body.len()
            );
            return vec![[head.as_bytes(), body].concat()];
        }
        let (mut pieces, mut rest) = (vec![chunked_head(&self.media)], body);
        for size in CUTS.iter().cycle() {
            let (piece, tail) = rest.split_at(rest.len().min(*size));
            if piece.is_empty() {
                break;
            }
            pieces.push(chunk(piece));
            rest = tail;
        }
        pieces.push(chunk(b""));
        pieces
    }
}

/// Starts the provider of all exchanges; it keeps the hashes of the bodies that reach it.
fn provider(all: &Arc<Vec<Recorded>>, arrived: &Arc<Mutex<BTreeMap<usize, Hash>>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let (all, arrived) = (Arc::clone(all), Arc::clone(arrived));
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (all, arrived) = (Arc::clone(&all), Arc::clone(&arrived));
            thread::spawn(move || serve(stream, &all, &arrived));
        }
    });
    address
}

/// Answers the requests of one connection, until it is closed.
fn serve(mut stream: TcpStream, all: &[Recorded], arrived: &Mutex<BTreeMap<usize, Hash>>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let (mut unread, mut piece) = (Vec::new(), [0; 16 << 10]);
    loop {
        let whole = find(&unread, b"\r\n\r\n").and_then(|head| {
            let text = String::from_utf8_lossy(&unread[..head]).to_ascii_lowercase();
            let field = |name: &str| {
                let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
                found.and_then(|value| value.trim().parse::<usize>().ok())
            };
            let end = head + 4 + field("content-length").unwrap_or(0);
            (unread.len() >= end).then_some((field(NUMBER)?, head + 4, end))
        });
        match whole {
            Some((number, start, end)) => {
                arrived.lock().insert(number, hash(&unread[start..end]));
                unread.drain(..end);
                all.get(number)?.pieces().iter().try_for_each(|piece| stream.write_all(piece)).ok()?;
            }
            None => match stream.read(&mut piece).ok()? {
                0 => return None,
                count => unread.extend_from_slice(&piece[..count]),
            },
        }
    }
}

#[test]
fn recorded_exchanges_arrive_as_they_were_sent_both_ways() {
    let all = Arc::new(recorded());
    if all.is_empty() {
        return;
    }
    let arrived = Arc::default();
    let address = provider(&all, &arrived);
    let route = |policy: &str| {
        format!(
            "[[routes]]\nname = \"{policy}\"\npath_prefix = \"/{policy}\"\nstrip_prefix = true\npolicy = \"{policy}\"\n\
             upstream = \"http://{address}\"\n"
        )
    };
    let limits = "[limits]\nscan_ms = 60000\n";
    let gateway = Gateway::start(&format!("{}{}{limits}{UNLIMITED}", route("monitor"), route("default")));
    let mut client = Client::connect(gateway.proxy);
    let (mut streams, mut judged, mut changed) = (0, 0, Vec::new());
    for (number, it) in all.iter().enumerate() {
        // What the policy does to a stream its head does not tell.
        let policy = if it.is_stream || number % 2 == 0 { "monitor" } else { "default" };
        let head = format!(
            "POST /{policy}{} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n{NUMBER}: {number}\r\n\
             content-length: {}\r\n\r\n",
            it.path,
            it.asked.len()
        );
        client.send(&[head.as_bytes(), it.asked.as_bytes()].concat());
        let answer = client.response().unwrap_or_else(|fault| panic!("{}: {fault:?}", it.id));
        streams += usize::from(it.is_stream);
        judged += usize::from(policy == "default");
        if policy == "default" && !matches!(answer.header("x-portcullis-action"), Some("allow" | "monitor")) {
            changed.push(&it.id);
            client = Client::connect(gateway.proxy);
            continue;
        }
        assert_eq!(u64::from(answer.status), it.status, "{}: {}", it.id, answer.text());
        let asked = arrived.lock().get(&number).copied();
        assert_eq!(asked, Some(hash(it.asked.as_bytes())), "{}: its request changed under {policy}", it.id);
        assert_eq!(
            hash(&answer.body),
            hash(it.answered.as_bytes()),
            "{}: its answer changed under {policy}",
            it.id
        );
    }
    assert!(all.len() > 500 && streams > 50 && judged > 200, "{} exchanges, {streams} streams", all.len());
    assert!(changed.len() * 100 <= judged * CHANGED_PERCENT_MAX, "of {judged} changed: {changed:?}");
}
