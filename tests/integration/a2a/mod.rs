//! Guardrails between agents, over real TLS with real certificates, on HTTP/1 and HTTP/2.

mod bodies;
mod chain;
mod expiry;
mod files;
mod inside;
mod integrity;
mod internal;
mod pki;
mod sdk;
mod seats;
mod talk;
mod trust;

use std::convert::Infallible;
use std::fs;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hmac::Hmac;
use hmac::KeyInit;
use hmac::Mac;
use http::HeaderMap;
use http::Request;
use http_body_util::BodyExt;
use http_body_util::Full;
use hyper::body::Body;
use hyper::client::conn::http1;
use hyper::client::conn::http2;
use hyper_util::rt::TokioExecutor;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use portcullis::access::jose::SigningKey;
use portcullis::access::license::License;
use portcullis::access::tier::Tier;
use serde_json::Value;
use sha2::Sha256;
use tempfile::TempDir;
use tokio::time::timeout;

use self::pki::Authority;
use self::pki::Identity;
use self::pki::connect;
use crate::framing::POLICY;
use crate::gateway::Gateway;
use crate::h2::Certificate;
use crate::upstream::Step;
use crate::upstream::Upstream;
use crate::upstream::chunk;
use crate::upstream::chunked_head;
use crate::wire::PATIENCE;
use crate::wire::exchange;

pub const SECRET: &str = "planner-signs-with-this";
pub const NEXT_SECRET: &str = "planner-will-sign-with-this";
pub const BODY: &str = r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{}}"#;
/// The first event of an answer that does not end.
const EVENT: &str = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"kind\":\"task\",\"id\":\"t\"}}\n\n";
/// No agent and no other caller is paced.
pub const UNPACED: &str = "[a2a.tiers.community]\nrequests_per_minute = 0\nburst = 0\n[limits.tiers.community]\n\
                           requests_per_minute = 0\nburst = 0\n";
const MAP: &str = "
capabilities:
  ask:
  fly:
  pay: {min_tier: professional}
agents:
  planner:
    capabilities: [ask, pay]
    secrets: [{file: planner.secret}, {file: next.secret}]
  busy:
    capabilities: [ask]
    secrets: [{file: planner.secret}]
";

/// Headers by name, in the order they are sent.
pub type Headers = Vec<(&'static str, String)>;

/// The files of a deployment: a server's certificate, an authority, a map, secrets, and who signs licences.
pub struct Deployment {
    pub server: Certificate,
    pub authority: Authority,
    pub licenses: SigningKey,
}

/// A whole answer.
#[derive(Debug)]
pub struct Told {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Deployment {
    pub fn make() -> Self {
        Self { server: Certificate::make(), authority: Authority::make(), licenses: SigningKey::generate() }
    }

    /// Returns the files, by name.
    pub fn files(&self) -> [(&'static str, String); 7] {
        [
            ("cert.pem", self.server.cert_pem.clone()),
            ("key.pem", self.server.key_pem.clone()),
            ("agents.pem", self.authority.pem()),
            ("licenses.pem", self.licenses.public_pem()),
            ("planner.secret", format!("{SECRET}\n")),
            ("next.secret", NEXT_SECRET.to_owned()),
            ("capabilities.yaml", MAP.to_owned()),
        ]
    }

    /// Writes all files into a directory, and a configuration with one route for agents and one for others.
    pub fn install(&self, directory: &Path, upstream: SocketAddr, more: &str) {
        let write = |name: &str, text: &str| fs::write(directory.join(name), text).expect("it is writable");
        self.files().iter().for_each(|(name, text)| write(name, text));
        write("gateway.toml", &config(upstream, more));
    }

    /// Starts a gateway on these files.
    pub fn start(&self, upstream: SocketAddr, more: &str) -> Gateway {
        let directory = tempfile::tempdir().expect("a temporary directory");
        self.install(directory.path(), upstream, more);
        launched(directory)
    }

    pub fn license(&self, tier: Tier, agent: Option<&str>, expires: &str) -> String {
        let moment = |text: &str| text.parse::<Timestamp>().expect("a moment");
        License {
            subject: "Northwind".to_owned(),
            tier,
            issued_at: moment("2020-01-01T00:00:00Z"),
            not_before: None,
            expires_at: moment(expires),
            agent: agent.map(str::to_owned),
            features: Vec::new(),
        }
        .sign(&self.licenses)
    }
}

pub fn config(upstream: SocketAddr, more: &str) -> String {
    format!(
        "[proxy.tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n[license]\ntrusted_keys = [\"licenses.pem\"]\n\
         [a2a]\nclient_ca = \"agents.pem\"\ncapabilities = \"capabilities.yaml\"\n{more}\n\
         [[routes]]\nname = \"agents\"\npath_prefix = \"/agents\"\nupstream = \"http://{upstream}\"\n\
         strip_prefix = true\nauth = \"a2a\"\npolicy = \"default\"\n\
         [[routes]]\nname = \"others\"\npath_prefix = \"/\"\nupstream = \"http://{upstream}\"\n\
         dialect = \"generic\"\npolicy = \"default\"\n{POLICY}"
    )
}

pub fn launched(directory: TempDir) -> Gateway {
    Gateway::launched(directory, vec!["--config".to_owned(), "gateway.toml".to_owned()])
}

/// Returns the signature of some bytes.
pub fn sign(secret: &str, parts: &[&[u8]]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key of any length");
    parts.iter().for_each(|part| mac.update(part));
    STANDARD.encode(mac.finalize().into_bytes())
}

/// Returns the headers of a sound call.
pub fn sound() -> Headers {
    vec![
        ("x-a2a-agent-id", "planner".to_owned()),
        ("a2a-capability", "ask".to_owned()),
        ("a2a-signature", sign(SECRET, &[BODY.as_bytes()])),
    ]
}

/// Returns other headers: those of a sound call, one of them replaced, or left out where it is empty.
pub fn but(name: &'static str, value: &str) -> Headers {
    let mut headers: Vec<_> = sound().into_iter().filter(|(known, _)| *known != name).collect();
    if !value.is_empty() {
        headers.push((name, value.to_owned()));
    }
    headers
}

/// Makes one call on a connection of its own.
pub async fn call(
    at: (SocketAddr, &Certificate),
    client: Option<&Identity>,
    protocol: &str,
    path: &str,
    headers: &[(&'static str, String)],
) -> Told {
    call_with(at, client, protocol, path, headers, Full::new(Bytes::from_static(BODY.as_bytes()))).await
}

/// Makes one with another body, in whatever pieces that comes.
pub async fn call_with<B>(
    (address, server): (SocketAddr, &Certificate),
    client: Option<&Identity>,
    protocol: &str,
    path: &str,
    headers: &[(&'static str, String)],
    body: B,
) -> Told
where
    B: Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
{
    let stream = TokioIo::new(connect(address, server, client, protocol).await);
    let mut request = Request::post(path).header("content-type", "application/json");
    if protocol == "h2" {
        request = request.uri(format!("https://localhost{path}"));
    } else {
        request = request.header("host", "localhost");
    }
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
    let request = request.body(body).expect("a request");
    let answer = if protocol == "h2" {
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.expect("HTTP/2");
        tokio::spawn(connection);
        timeout(PATIENCE, sender.send_request(request)).await
    } else {
        let (mut sender, connection) = http1::handshake(stream).await.expect("HTTP/1.1");
        tokio::spawn(connection);
        timeout(PATIENCE, sender.send_request(request)).await
    };
    let (head, body) = answer.expect("in time").expect("an answer").into_parts();
    let body = timeout(PATIENCE, body.collect()).await.expect("in time").expect("a whole answer").to_bytes();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Told { status: head.status.as_u16(), headers: head.headers, body }
}

/// Asks the management API.
pub fn ask(gateway: &Gateway, path: &str) -> Value {
    let key = gateway.admin_key();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\nx-api-key: {key}\r\n\r\n", gateway.admin);
    exchange(gateway.admin, request.as_bytes()).json()
}

/// Starts an upstream that begins an answer of events and does not end it.
pub fn streaming() -> Upstream {
    let begun =
        vec![Step::Send(chunked_head("text/event-stream")), Step::Send(chunk(EVENT.as_bytes())), Step::Wait];
    Upstream::start(begun)
}

/// Calls over HTTP/2, lets something happen once the first event is there, and returns what comes after it.
pub async fn rest_of_stream(
    (proxy, server): (SocketAddr, &Certificate),
    identity: &Identity,
    headers: &Headers,
    happening: impl Future<Output = ()>,
) -> String {
    let stream = connect(proxy, server, Some(identity), "h2").await;
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
    tokio::spawn(connection);
    let request = Request::post("https://localhost/agents/x").header("content-type", "application/json");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
    let request = request.body(Full::new(Bytes::from_static(BODY.as_bytes()))).expect("a request");
    let answer = timeout(PATIENCE, sender.send_request(request)).await.expect("in time");
    let (head, mut body) = answer.expect("an answer").into_parts();
    assert_eq!(head.status.as_u16(), 200);
    let first = timeout(PATIENCE, body.frame()).await.expect("in time").expect("a piece").expect("whole");
    assert_eq!(first.data_ref().map(|it| it.as_ref()), Some(EVENT.as_bytes()));
    happening.await;
    let rest = timeout(PATIENCE, body.collect()).await.expect("in time").expect("it ends as streams do");
    String::from_utf8(rest.to_bytes().to_vec()).expect("text")
}

/// Waits until a condition holds.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::yield_now();
    }
}
