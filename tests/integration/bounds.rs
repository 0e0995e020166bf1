//! Every limit of the data plane, one byte or one connection past it.

use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;

use crate::a2a::until;
use crate::answers::encode;
use crate::answers::send;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::h2;
use crate::h2::H2Client;
use crate::upstream::Step;
use crate::upstream::Upstream;
use crate::wire::Client;
use crate::wire::Response;
use crate::wire::WireFault;
use crate::wire::exchange;
use crate::wire::post;

const POLICY: &str =
    "[policies.default]\nfail_mode = \"closed\"\n[policies.default.categories.secrets]\nmode = \"block\"\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

/// What is told of a quota without a limit, and of what is left of it.
const UNLIMITED_QUOTA: [&str; 2] = ["2147483647"; 2];

fn gateway(upstream: &Upstream, settings: &str) -> Gateway {
    Gateway::start(&format!(
        "{settings}\n[[routes]]\nname = \"all\"\nupstream = \"http://{}\"\ndialect = \"openai\"\npolicy = \"default\"\n{POLICY}",
        upstream.address
    ))
}

#[test]
fn sizes_and_deadlines_are_kept() {
    let upstream = Upstream::start(vec![Step::Send(ANSWER.to_vec())]);
    let gateway = gateway(
        &upstream,
        &format!(
            "[proxy]\nmax_header_bytes = 4096\nmax_headers = 20\nmax_requests_per_connection = 3\n\
             [proxy.timeouts]\nheader_ms = 500\nbody_ms = 700\n\
             [limits]\nmax_inspect_bytes = 1000000\nmax_body_bytes = 1000000\nbuffered_bytes_total = 2097152\n{UNLIMITED}"
        ),
    );
    too_large(&gateway, &upstream);
    too_slow(&gateway);
    budget(&gateway);
    connections_are_kept(&gateway);
    frames(&gateway);
}

/// A pack of somebody's own.
const OWN_PACK: &str = r#"
[pack]
name = "own"
version = "1.0.0"

[[detector]]
type = "own_badge"
category = "secrets"
severity = "high"
confidence = "medium"
pattern = '\bbadge-[0-9]{6}\b'
why = "A badge opens doors."
finds = ["badge-123456"]
ignores = ["badge-12"]
"#;

/// What is the process's own at idle.
const IDLE_BYTES_MAX: usize = 56 << 20;
/// The same where packs of somebody's own were proven: what that took lay between what stays.
const OVERLAID_BYTES_MAX: usize = 80 << 20;
/// What it has of its files: code that runs at idle, not what a start has run.
const IDLE_MAPPED_BYTES_MAX: usize = 36 << 20;

#[test]
fn what_compiling_the_packs_took_is_given_back() {
    let gateway = gateway(&Upstream::start(vec![Step::Send(ANSWER.to_vec())]), "");
    let [own, of_files] = resident(&gateway);
    assert!(own <= IDLE_BYTES_MAX, "{own} bytes of its own");
    assert!(of_files <= IDLE_MAPPED_BYTES_MAX, "{of_files} bytes of files");
}

#[test]
fn what_proving_an_overlay_took_is_given_back() {
    let plugins = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(plugins.path().join("detectors")).expect("a folder of packs");
    std::fs::write(plugins.path().join("detectors/own.toml"), OWN_PACK).expect("a pack");
    let overlay = format!("[plugins]\npath = \"{}\"\n", plugins.path().display());
    let gateway = gateway(&Upstream::start(vec![Step::Send(ANSWER.to_vec())]), &overlay);
    let [own, _] = resident(&gateway);
    assert!(own <= OVERLAID_BYTES_MAX, "{own} bytes of its own");
}

/// Returns how many bytes of memory a gateway has of its own, and of files.
fn resident(gateway: &Gateway) -> [usize; 2] {
    let sums = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", gateway.pid())).expect("its memory");
    let sum = |name: &str| {
        let kib = sums.lines().find_map(|line| line.strip_prefix(name)).expect("a sum");
        kib.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
    };
    let own = sum("Anonymous:");
    [own, sum("Rss:") - own]
}

fn too_large(gateway: &Gateway, upstream: &Upstream) {
    let fits = format!("\"{}\"", "a".repeat(999_998));
    assert_eq!(exchange(gateway.proxy, &post("/x", "", &fits)).status, 200);
    upstream.take();
    // Declared: refused although not one byte of the body has come.
    let mut client = Client::connect(gateway.proxy);
    client.send(
        b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 1000001\r\n\r\n",
    );
    let answer = client.response().expect("an answer");
    assert_eq!((answer.status, client.is_closed()), (413, true), "{}", answer.text());
    // Sent regardless: the caller still reads the answer.
    let mut client = Client::connect(gateway.proxy);
    client.send(&post("/x", "", &format!("\"{}\"", "a".repeat(8 << 20))));
    assert_eq!(client.response().expect("an answer to a body that was not read").status, 413);
    let mut client = Client::connect(gateway.proxy);
    client.send(b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n");
    client.send(&crate::upstream::chunk(&vec![b'a'; 1_000_001]));
    assert_eq!(client.response().expect("an answer").status, 413);
    let wide = format!("x-wide: {}\r\n", "a".repeat(4096));
    assert_eq!(exchange(gateway.proxy, &post("/x", &wide, "{}")).status, 431);
    let many: String = (0..20).map(|count| format!("x-{count}: a\r\n")).collect();
    assert_eq!(exchange(gateway.proxy, &post("/x", &many, "{}")).status, 431);
    assert!(upstream.take().is_empty(), "a request past a limit reached the provider");
}

fn dripped(address: SocketAddr, plane: &str) {
    let began = Instant::now();
    let mut client = Client::connect(address);
    client.patience(Duration::from_millis(50));
    let mut drip = "POST /x HTTP/1.1\r\nhost: a\r\nx-slow: ".bytes().chain(std::iter::repeat(b'a'));
    let end = loop {
        client.send(&[drip.next().expect("endless")]);
        match client.response() {
            Err(WireFault::Silent) => assert!(began.elapsed() < Duration::from_secs(10), "a drip is endured"),
            ended => break ended,
        }
    };
    assert!(began.elapsed() >= Duration::from_millis(500));
    is_late(&end.expect("an answer"), plane);
    client.patience(Duration::from_secs(10));
    assert!(client.is_closed(), "{plane}");
}

fn is_late(answer: &Response, plane: &str) {
    assert_eq!(answer.status, 408, "{plane}: {}", answer.text());
    assert_eq!(answer.json()["error"]["code"], "request_timeout", "{plane}");
    is_named_and_tells_its_quota(answer, UNLIMITED_QUOTA);
}

/// Expects what every answer has, also one to a request that nobody has read: the quota is that of the address.
fn is_named_and_tells_its_quota(answer: &Response, [limit, remaining]: [&str; 2]) {
    let told = |name: &str| answer.header(&format!("x-ratelimit-{name}"));
    assert_eq!([told("limit"), told("remaining")], [Some(limit), Some(remaining)], "{}", answer.text());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs();
    let reset: u64 = told("reset").and_then(|reset| reset.parse().ok()).expect("a moment");
    assert!(reset.abs_diff(now) <= 180, "{reset}, {now}");
    assert_eq!(answer.header("x-request-id").map(str::len), Some(26), "a ULID");
}

#[test]
fn a_head_that_stalls_behind_a_request_is_told_nothing_within_its_answer() {
    let begun = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {}\n\n";
    let upstream = Upstream::start(vec![Step::Send(begun.to_vec()), Step::Wait]);
    let gateway = gateway(&upstream, &format!("[proxy.timeouts]\nheader_ms = 300\n{UNLIMITED}"));
    let mut client = Client::connect(gateway.proxy);
    client.send(&post("/x", "", "{}"));
    assert_eq!(client.head().expect("an answer").status, 200);
    assert!(matches!(client.piece(), Ok(Some(_))), "its first event");
    client.send(b"POST /x HT");
    client.patience(Duration::from_secs(1));
    let next = client.piece();
    assert!(matches!(next, Err(WireFault::Closed | WireFault::Silent)), "{next:?}");
}

fn too_slow(gateway: &Gateway) {
    for (address, plane) in [(gateway.proxy, "proxy"), (gateway.admin, "admin")] {
        let began = Instant::now();
        assert!(matches!(Client::connect(address).head(), Err(WireFault::Closed)), "{plane}");
        let waited = began.elapsed().as_millis();
        assert!((400..10_000).contains(&waited), "{plane}: {waited} ms");
    }
    for (address, plane) in [(gateway.proxy, "proxy"), (gateway.admin, "admin")] {
        dripped(address, plane);
        // One that stalls.
        let mut client = Client::connect(address);
        client.send(b"POST /x HTTP/1.1\r\nhost: a\r\n");
        is_late(&client.response().expect("an answer"), plane);
    }
    let mut client = Client::connect(gateway.proxy);
    client.send(
        b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{",
    );
    let answer = client.response().expect("an answer");
    assert_eq!((answer.status, client.is_closed()), (408, true), "{}", answer.text());
}

fn budget(gateway: &Gateway) {
    let head = "POST /x HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n";
    let mut holder = Client::connect(gateway.proxy);
    holder.send(format!("{head}content-length: 1000000\r\nexpect: 100-continue\r\n\r\n").as_bytes());
    assert_eq!(holder.head().expect("an invitation").status, 100);
    let body = format!("\"{}\"", "a".repeat(999_998));
    let (begun, rest) = body.as_bytes().split_at(900_000);
    holder.send(begun);
    until("what came is counted", || gateway.buffered_bytes() == begun.len());
    // The body itself would fit, but not its texts beside it.
    let refused = exchange(gateway.proxy, &post("/x", "", &format!("\"{}\"", "a".repeat(600_000))));
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert_eq!(exchange(gateway.proxy, &post("/x", "", "{}")).status, 200, "what fits is served");
    holder.send(rest);
    assert_eq!(holder.response().expect("an answer").status, 200);
}

fn connections_are_kept(gateway: &Gateway) {
    let mut client = Client::connect(gateway.proxy);
    client.send(&post("/x", "", "{"));
    assert_eq!(client.response().expect("an answer").status, 400);
    for _ in 0..2 {
        client.send(&post("/x", "", "{}"));
        assert_eq!(client.response().expect("an answer after an error").status, 200);
    }
    assert!(client.is_closed(), "more requests than a connection may carry");
}

/// HTTP/2 has no head deadline once it runs, and its refusals are seen although a body was not read.
fn frames(gateway: &Gateway) {
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let mut client = H2Client::plain(gateway.proxy).await;
        assert_eq!(client.send(h2::post("/x", vec![b"{}".to_vec()], true)).await.status, 200);
        let large = vec![vec![b'a'; 16 << 10]; 64];
        for declares in [true, false] {
            let answer = client.send(h2::post("/x", large.clone(), declares)).await;
            assert_eq!(
                (answer.status, answer.is_cut),
                (413, false),
                "{}",
                String::from_utf8_lossy(&answer.body)
            );
        }
        // Longer than the head deadline of HTTP/1, which is what is tested.
        tokio::time::sleep(Duration::from_millis(800)).await;
        assert_eq!(client.send(h2::post("/x", vec![b"{}".to_vec()], false)).await.status, 200);
    });
}

const ROOM: &str = "[limits]\nmax_inspect_bytes = 1000000\nbuffered_bytes_total = 1048576\n";
const EVENT: &[u8] = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"one \"}}]}\n\n";

/// How much of an event that does not end a stream holds back.
const HELD: usize = 600_000;

/// Returns a body that takes so many bytes of room, and as many for its texts while it is judged.
fn body_of(bytes: usize) -> Vec<u8> {
    post("/v1/chat/completions", "", &format!("\"{}\"", "a".repeat(bytes - 2)))
}

/// Asks to send a body of so many bytes, and is invited to.
fn announced(gateway: &Gateway, bytes: usize) -> Client {
    let mut client = Client::connect(gateway.proxy);
    let head = "POST /v1/embeddings HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n";
    client.send(format!("{head}content-length: {bytes}\r\nexpect: 100-continue\r\n\r\n").as_bytes());
    assert_eq!(client.head().expect("an invitation").status, 100);
    client
}

/// Who announces a body and sends none of it keeps nobody out. Of what comes, each has its room as it comes.
#[test]
fn room_is_taken_as_bytes_come() {
    let upstream = Upstream::start(vec![Step::Send(ANSWER.to_vec())]);
    let gateway = gateway(&upstream, &format!("{ROOM}{UNLIMITED}"));
    let mut silent: Vec<_> = (0..6).map(|_| announced(&gateway, 1_000_000)).collect();
    assert_eq!(gateway.buffered_bytes(), 0);
    assert_eq!(exchange(gateway.proxy, &body_of(400_000)).status, 200);
    let body = format!("\"{}\"", "a".repeat(499_998));
    let (begun, rest) = body.as_bytes().split_at(400_000);
    let mut first = announced(&gateway, body.len());
    first.send(begun);
    until("what came is counted", || gateway.buffered_bytes() == begun.len());
    // Another one comes that does not fit beside it: it does not wait, and is in the first one's way no more.
    let second = &mut silent[0];
    second.send(&vec![b'a'; 999_999]);
    let refused = second.response().expect("an answer to a body that is not whole");
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    until("what it had is given back", || gateway.buffered_bytes() == begun.len());
    first.send(rest);
    assert_eq!(first.response().expect("an answer").status, 200);
    until("nothing is held", || gateway.buffered_bytes() == 0);
}

/// Asks from another address of this machine; returns what the answer begins with.
async fn ask_from(address: &str, gateway: &Gateway, request: &[u8]) -> String {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(address.parse().expect("an address")).expect("an address of this machine");
    let mut stream = socket.connect(gateway.proxy).await.expect("it listens");
    stream.write_all(request).await.expect("a connection");
    let mut begun = [0; 12];
    stream.read_exact(&mut begun).await.expect("an answer");
    String::from_utf8_lossy(&begun).into_owned()
}

/// Bodies of which nearly all has come hold their room until they are late; they are one caller's.
#[test]
fn one_caller_has_no_more_than_its_share_of_the_room() {
    let upstream = Upstream::start(vec![Step::Send(ANSWER.to_vec())]);
    let room = "[limits]\nmax_inspect_bytes = 1000000\nbuffered_bytes_total = 4194304\n\
                buffered_bytes_per_caller = 1048576\n";
    let gateway = gateway(&upstream, &format!("{room}{UNLIMITED}"));
    let ask = || exchange(gateway.proxy, &body_of(400_000));
    let mut holder = announced(&gateway, 1_000_000);
    holder.send(&vec![b'a'; 900_000]);
    until("what came is counted", || gateway.buffered_bytes() == 900_000);
    let refused = ask();
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")), "{}", refused.text());
    let runtime = Runtime::new().expect("a runtime");
    let other = runtime.block_on(ask_from("127.0.0.2:0", &gateway, &body_of(400_000)));
    assert_eq!(other, "HTTP/1.1 200");
    drop(holder);
    until("what a body had that broke off is given back", || gateway.buffered_bytes() == 0);
    assert_eq!(ask().status, 200);
}

#[test]
fn a_body_that_has_left_takes_no_room_while_its_answer_comes() {
    let begun = [crate::upstream::chunked_head("text/event-stream"), crate::upstream::chunk(EVENT)].concat();
    let upstream = Upstream::start(vec![Step::Send(begun), Step::Wait]);
    let gateway = gateway(&upstream, &format!("{ROOM}{UNLIMITED}"));
    let mut under_way = Vec::new();
    for _ in 0..4 {
        let mut client = Client::connect(gateway.proxy);
        client.send(&body_of(400_000));
        assert_eq!(client.head().expect("an answer begins").status, 200);
        under_way.push(client);
    }
}

#[test]
fn what_a_stream_holds_back_is_of_the_room_of_all() {
    let unfinished = crate::upstream::chunk(format!("data: \"{}", "a".repeat(HELD)).as_bytes());
    let begun = [crate::upstream::chunked_head("text/event-stream"), crate::upstream::chunk(EVENT)].concat();
    let upstream = Upstream::start(vec![Step::Send(begun), Step::Send(unfinished), Step::Wait]);
    let gateway = gateway(&upstream, &format!("{ROOM}{UNLIMITED}"));
    let mut stream = Client::connect(gateway.proxy);
    stream.send(&body_of(10));
    assert_eq!(stream.head().expect("an answer begins").status, 200);
    until("what the stream holds is counted", || gateway.buffered_bytes() >= HELD);
    let mut other = Client::connect(gateway.proxy);
    other.send(&body_of(300_000));
    assert_eq!(other.head().expect("an answer").status, 503);
    drop(stream);
    // Where others take the room, a stream that needs much of it ends, and says why; a little may be had always.
    let head = "POST /v1/embeddings HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n";
    until("the room of a stream that was left is given back", || gateway.buffered_bytes() == 0);
    let mut holder = Client::connect(gateway.proxy);
    holder.send(format!("{head}content-length: 1000000\r\n\r\n\"{}", "a".repeat(899_999)).as_bytes());
    until("what came is counted", || gateway.buffered_bytes() == 900_000);
    let mut stream = Client::connect(gateway.proxy);
    stream.send(&body_of(10));
    let told = stream.response().expect("a whole answer");
    assert_eq!(told.status, 200);
    assert!(told.text().contains("one ") && told.text().contains("\"overloaded\""), "{}", told.text());
}

/// How much all bodies together may take while many unfold at once.
const UNFOLDED_ROOM: usize = 32 << 20;
/// What the process may take beside that: what its allocator has not given back yet.
const UNFOLDED_SLACK: usize = 160 << 20;

/// Bodies of a few kilobytes that unfold to fifty megabytes each, which no limit of one body refuses.
#[test]
fn bodies_that_unfold_at_once_take_no_more_than_the_room_of_all() {
    let upstream = Upstream::start(vec![Step::Send(ANSWER.to_vec())]);
    let settings = format!(
        "[limits]\nbuffered_bytes_total = {UNFOLDED_ROOM}\ndecompressed_ratio_max = 1000000\n{UNLIMITED}"
    );
    let gateway = gateway(&upstream, &settings);
    let coded = "content-type: application/json\r\ncontent-encoding: zstd\r\n";
    let small = encode("zstd", b"{}");
    assert_eq!(send(gateway.proxy, "/x", coded, &small).status, 200);
    let bomb = encode("zstd", &vec![b' '; 50_000_000]);
    let (idle, mut peak) = (gateway.resident_bytes(), 0);
    std::thread::scope(|scope| {
        let ask = || send(gateway.proxy, "/x", coded, &bomb);
        let asked: Vec<_> = (0..16).map(|_| scope.spawn(ask)).collect();
        while asked.iter().any(|one| !one.is_finished()) {
            peak = peak.max(gateway.resident_bytes());
            std::thread::sleep(Duration::from_millis(1));
        }
        for one in asked {
            let refused = one.join().expect("an answer");
            assert_eq!(
                (refused.status, refused.header("retry-after")),
                (503, Some("1")),
                "{}",
                refused.text()
            );
        }
    });
    let taken = peak.saturating_sub(idle);
    assert!(taken <= UNFOLDED_ROOM + UNFOLDED_SLACK, "{taken} bytes");
    until("what was taken is given back", || gateway.buffered_bytes() == 0);
    assert_eq!(send(gateway.proxy, "/x", coded, &small).status, 200);
}

#[test]
fn connections_and_requests_are_counted() {
    let upstream = Upstream::start(vec![Step::Send(ANSWER.to_vec())]);
    let gateway = gateway(
        &upstream,
        "[proxy]\nmax_connections_per_address = 3\n[limits.tiers.community]\nrequests_per_minute = 60\nburst = 2\n",
    );
    let ask = |client: &mut Client| {
        client.send(&post("/x", "", "{}"));
        client.response().expect("an answer")
    };
    let mut first = Client::connect(gateway.proxy);
    assert_eq!(ask(&mut first).status, 200);
    let last = ask(&mut first);
    assert_eq!((last.status, last.header("x-ratelimit-remaining")), (200, Some("0")));
    let refused = ask(&mut first);
    assert_eq!((refused.status, refused.header("x-ratelimit-remaining")), (429, Some("0")));
    let wait: u64 = refused.header("retry-after").and_then(|wait| wait.parse().ok()).expect("Retry-After");
    assert!((1..=60).contains(&wait) && refused.header("x-ratelimit-reset").is_some());
    let mut others = [Client::connect(gateway.proxy), Client::connect(gateway.proxy)];
    for other in &mut others {
        assert_eq!(ask(other).status, 429);
    }
    let over = Client::connect(gateway.proxy).response().expect("an answer before a request");
    assert_eq!((over.status, over.header("retry-after")), (503, Some("1")));
    assert_eq!(over.json()["error"]["code"], "overloaded");
    is_named_and_tells_its_quota(&over, ["60", "0"]);
    drop(others);
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut status = 503;
    while status == 503 && Instant::now() < deadline {
        let mut client = Client::connect(gateway.proxy);
        client.send(&post("/x", "", "{}"));
        status = client.response().map_or(503, |answer| answer.status);
    }
    assert_eq!(status, 429, "a place that was left is given again");
}

/// JSON may write a text in six bytes for each of its own: what counts is how long the text is.
#[test]
fn a_text_to_be_scanned_may_be_escaped_throughout() {
    let limits = |buffered_bytes_total: usize| {
        format!(
            "[admin]\nmax_body_bytes = 262144\n[limits]\nscan_ms = 60000\nmax_inspect_bytes = 200000\nmax_body_bytes = 200000\n\
             buffered_bytes_total = {buffered_bytes_total}\n{UNLIMITED}"
        )
    };
    let upstream = Upstream::start(vec![Step::Send(ANSWER.to_vec())]);
    let roomy = gateway(&upstream, &limits(64 << 20));
    let ask = |gateway: &Gateway, on: std::net::SocketAddr, path: &str, body: &str| {
        let (key, length) = (gateway.admin_key(), body.len());
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n"
        );
        let answer = exchange(on, &[head.as_bytes(), body.as_bytes()].concat());
        (answer.status, answer.text())
    };
    let written = |text: &str| format!(r#"{{"content": "{text}"}}"#);
    let escaped = written(&r"\u0061\u0062\u0020".repeat(66_600));
    for (on, path) in [
        (roomy.admin, "/v1/scan"),
        (roomy.proxy, "/v1/scan"),
        (roomy.admin, "/api/v1/scan"),
        (roomy.admin, "/api/v1/screen"),
    ] {
        let (status, told) = ask(&roomy, on, path, &escaped);
        assert_eq!(status, 200, "{path}: {told}");
    }
    let long = written(&"ab ".repeat(66_700));
    let (status, told) = ask(&roomy, roomy.admin, "/v1/scan", &long);
    assert!(status == 413 && told.contains("200000 bytes that are inspected"), "{status} {told}");
    let (status, told) = ask(&roomy, roomy.admin, "/api/v1/legal-holds", &escaped);
    assert!(status == 413 && told.contains("larger than 262144 bytes"), "{status} {told}");
    // What all bodies together may take holds for these, too.
    let narrow = gateway(&upstream, &limits(1 << 20));
    let (status, told) = ask(&narrow, narrow.admin, "/v1/scan", &escaped);
    assert!(status == 503 && told.contains("too many request bytes"), "{status} {told}");
    assert_eq!(ask(&narrow, narrow.admin, "/v1/scan", &written(&"ab ".repeat(66_600))).0, 200);
}
