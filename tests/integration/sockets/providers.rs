//! Which provider a socket is opened with, and over what: several targets, and real TLS.

use std::fs;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::sync::Arc;

use portcullis::llm::websocket::Said;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use super::CARD;
use super::CLOSE;
use super::MASK;
use super::SWITCH;
use super::delta;
use super::event;
use super::frame;
use super::heard;
use super::open;
use super::read;
use super::read_event;
use super::route;
use super::said;
use super::start;
use super::wait_for_texts;
use crate::answers::handshake;
use crate::h2::Certificate;
use crate::upstream::Step;
use crate::upstream::Upstream;
use crate::wire::exchange;

const TOLD: &str = "response.output_text.delta";

/// Takes TLS off what comes and hands it on.
fn over_tls(runtime: &Runtime, certificate: &Certificate, to: SocketAddr) -> SocketAddr {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let key = PrivateKeyDer::from_pem_slice(certificate.key_pem.as_bytes()).expect("a key");
    let config = config.expect("protocol versions").with_no_client_auth();
    let mut config = config.with_single_cert(vec![certificate.der.clone()], key).expect("a certificate");
    // As those of real providers do: a socket has to ask for the older of the two.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a free port");
    let address = listener.local_addr().expect("an address");
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // Who does not trust the certificate goes away here.
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                assert_ne!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
                let mut inner = TcpStream::connect(to).await.expect("the provider listens");
                let _ = copy_bidirectional(&mut stream, &mut inner).await;
            });
        }
    });
    address
}

#[test]
fn a_provider_behind_tls_is_spoken_with_in_frames_by_whom_it_can_be_trusted() {
    let runtime = Runtime::new().expect("a runtime");
    let files = tempfile::tempdir().expect("a directory");
    let (right, wrong) = (Certificate::make(), Certificate::make());
    for (name, certificate) in [("right", &right), ("wrong", &wrong)] {
        fs::write(files.path().join(name), &certificate.cert_pem).expect("a writable directory");
    }
    let words = ["The card ", "4111 11", "11 1111 1111 is yours."].map(|text| event(&delta(TOLD, "r", text)));
    let done = event(&json!({ "type": "response.done", "response": { "id": "r", "output": [] } }));
    let upstream = Upstream::start(vec![Step::Send([SWITCH, &words.concat(), &done].concat()), Step::Wait]);
    let port = over_tls(&runtime, &right, upstream.address).port();
    let secure = |name: &str, ca: &str| {
        let upstream = format!("upstream = \"https://localhost:{port}\"\n");
        let ca = format!("upstream_ca_file = \"{}\"\n", files.path().join(ca).display());
        route(name, SocketAddr::from(([127, 0, 0, 1], port)), &ca)
            .replace(&format!("upstream = \"http://127.0.0.1:{port}\"\n"), &upstream)
    };
    let gateway = start(&[secure("ws", "right"), secure("stranger", "wrong")].concat());
    let mut client = open(&gateway, "ws");
    let texts: Vec<String> =
        words.iter().map(|_| read_event(&mut client)["delta"].as_str().expect("a text").to_owned()).collect();
    let text = texts.concat();
    assert!(
        text.starts_with("The card ") && text.ends_with(" is yours.") && !text.contains("4111"),
        "{text}"
    );
    assert_eq!(read_event(&mut client)["type"], "response.done");
    let item = json!({ "type": "conversation.item.create", "item": { "type": "message", "role": "user",
        "content": [{ "type": "input_text", "text": format!("my card is {CARD}, thanks") }] } });
    client.send(&said(&item));
    let told = wait_for_texts(&upstream, 1).remove(0);
    assert!(told.contains("my card is ") && !told.contains("4111"), "{told}");
    let farewell = 1000_u16.to_be_bytes();
    client.send(&frame(CLOSE, &farewell, Some(MASK)));
    let received = upstream.wait_until(|all| matches!(heard(all).last(), Some(Said::Close(_))));
    assert!(
        String::from_utf8_lossy(&received[0].bytes).contains(&format!("localhost:{port}")),
        "{received:?}"
    );
    drop(client);
    upstream.wait_until(|all| all.iter().all(|one| one.closed));
    let count = upstream.received().len();
    assert_eq!(exchange(gateway.proxy, &handshake("/stranger/v1/realtime")).status, 502);
    assert_eq!(upstream.received().len(), count, "a stranger's certificate was trusted");
}

/// Only the first target was ever tried: a socket did not open while it was away.
#[test]
fn where_one_provider_is_away_a_socket_is_opened_with_the_next() {
    let closed = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let away = closed.local_addr().expect("an address");
    drop(closed);
    let hello = event(&json!({ "type": "session.created" }));
    let upstream = Upstream::start(vec![Step::Send([SWITCH, &hello].concat()), Step::Wait]);
    let both = route("ws", upstream.address, "").replace(
        &format!("upstream = \"http://{}\"", upstream.address),
        &format!("upstream = [\"http://{away}\", \"http://{}\"]", upstream.address),
    );
    let none = route("none", away, "");
    let gateway = start(&(both + &none));
    // Whichever of the two comes first.
    for _ in 0..4 {
        assert_eq!(read(&mut open(&gateway, "ws")).1, hello[2..]);
    }
    assert_eq!(exchange(gateway.proxy, &handshake("/none/v1/realtime")).status, 502);
}

/// A provider that has heard the handshake and does not switch is not asked a second time, nor is another.
#[test]
fn no_other_provider_is_asked_once_one_has_heard() {
    let refusing = [(); 2].map(|()| Upstream::answering("application/json", "{}"));
    let first = &refusing[0];
    let both = route("ws", first.address, "").replace(
        &format!("upstream = \"http://{}\"", first.address),
        &format!("upstream = [\"http://{}\", \"http://{}\"]", first.address, refusing[1].address),
    );
    let gateway = start(&both);
    assert_eq!(exchange(gateway.proxy, &handshake("/ws/v1/realtime")).status, 502);
    assert_eq!(refusing.iter().map(|one| one.received().len()).sum::<usize>(), 1);
}
