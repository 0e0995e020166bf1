//! Peers that press: too many connections in all, callers that do not read, providers that do not accept or
//! that answer before they have read.

use std::io::Read;
use std::io::Write;
use std::net::Shutdown;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use tokio::net::TcpSocket;
use tokio::runtime::Runtime;

use crate::framing::POLICY;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::upstream::Step;
use crate::upstream::Upstream;
use crate::upstream::chunk;
use crate::upstream::chunked_head;
use crate::wire::Client;
use crate::wire::exchange;
use crate::wire::find;
use crate::wire::post;

/// Far more than the sockets between a provider and a caller take up.
const FLOOD_BYTES: usize = 64 << 20;

fn route(name: &str, upstreams: &[SocketAddr]) -> String {
    let urls: Vec<_> = upstreams.iter().map(|upstream| format!("\"http://{upstream}\"")).collect();
    format!(
        "[[routes]]\nname = \"{name}\"\npath_prefix = \"/{name}\"\nupstream = [{}]\ndialect = \"openai\"\n\
         policy = \"default\"\ntimeouts = {{ upstream_connect_ms = 400 }}\n",
        urls.join(", ")
    )
}

#[test]
fn connections_in_all_are_capped() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = Gateway::start(&format!(
        "[proxy]\nmax_connections = 2\n{}{UNLIMITED}{POLICY}",
        route("x", &[upstream.address])
    ));
    let mut kept = [Client::connect(gateway.proxy), Client::connect(gateway.proxy)];
    for client in &mut kept {
        client.send(&post("/x/v1/embeddings", "", "{}"));
        assert_eq!(client.response().expect("an answer").status, 200);
    }
    let over = Client::connect(gateway.proxy).response().expect("an answer before a request");
    assert_eq!((over.status, over.header("retry-after")), (503, Some("1")));
    for client in &mut kept {
        client.send(&post("/x/v1/embeddings", "", "{}"));
        assert_eq!(client.response().expect("those who are in stay in").status, 200);
    }
}

#[test]
fn a_caller_that_does_not_read_is_given_up() {
    let event = format!("data: {{\"a\":\"{}\"}}\n\n", "all is well ".repeat(5000));
    let mut script = vec![Step::Send(chunked_head("text/event-stream"))];
    script.extend((0..FLOOD_BYTES / event.len()).map(|_| Step::Send(chunk(event.as_bytes()))));
    let upstream = Upstream::start(script);
    let gateway = Gateway::start(&format!(
        "[proxy.timeouts]\nwrite_ms = 400\n{}{UNLIMITED}{POLICY}",
        route("x", &[upstream.address])
    ));
    let mut client = Client::connect(gateway.proxy);
    client.send(&post("/x/v1/chat/completions", "", "{\"stream\":true}"));
    assert_eq!(client.head().expect("a head").status, 200);
    upstream.wait_until(|all| all.len() == 1 && all[0].closed);
}

/// A provider whose queue is full drops what wants to connect; the next one is tried.
#[test]
fn a_provider_that_does_not_accept_is_given_up() {
    let sound = Upstream::answering("application/json", "{}");
    let runtime = Runtime::new().expect("a runtime");
    let full = runtime.block_on(async {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        socket.listen(1).expect("a listener")
    });
    let address = full.local_addr().expect("an address");
    let mut queued = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        queued.push(stream);
        assert!(queued.len() < 64, "the queue of a listener that accepts nothing has no end");
    }
    let gateway = Gateway::start(&format!(
        "{}{}{UNLIMITED}{POLICY}",
        route("hole", &[address]),
        route("second", &[address, sound.address])
    ));
    let answer = exchange(gateway.proxy, &post("/hole/v1/embeddings", "", "{}"));
    assert_eq!(answer.status, 504, "{}", answer.text());
    assert!(answer.json()["error"]["message"].is_string(), "{}", answer.text());
    for _ in 0..2 {
        assert_eq!(exchange(gateway.proxy, &post("/second/v1/embeddings", "", "{}")).status, 200);
    }
}

/// RFC 9112 §9.3: a server may answer before it has read the request; its answer counts.
#[test]
fn an_early_answer_is_passed_on() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            refuse_early(stream);
        }
    });
    let gateway = Gateway::start(&format!("{}{UNLIMITED}{POLICY}", route("x", &[address])));
    let body = format!("\"{}\"", "all is well ".repeat(500_000));
    let answer = exchange(gateway.proxy, &post("/x/v1/embeddings", "", &body));
    assert_eq!((answer.status, answer.text().as_str()), (413, "{\"error\":\"too much\"}"));
}

/// Answers as soon as the head is there, and only then reads on, so that no reset destroys the answer.
fn refuse_early(mut stream: TcpStream) {
    let (mut head, mut piece) = (Vec::new(), [0; 1024]);
    while find(&head, b"\r\n\r\n").is_none() {
        let count = stream.read(&mut piece).unwrap_or(0);
        if count == 0 {
            return;
        }
        head.extend_from_slice(&piece[..count]);
    }
    let answer =
        b"HTTP/1.1 413 Payload Too Large\r\ncontent-type: application/json\r\ncontent-length: 20\r\n\
                   connection: close\r\n\r\n{\"error\":\"too much\"}";
    let _ = stream.write_all(answer);
    let _ = stream.shutdown(Shutdown::Write);
    stream.set_read_timeout(Some(Duration::from_secs(2))).expect("a time above zero");
    while stream.read(&mut piece).is_ok_and(|count| count > 0) {}
}
