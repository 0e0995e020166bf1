//! TLS on both sides: certificates that change while they are served, authorities of one's own.

use std::fs;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;

use http::HeaderMap;
use http::Version;
use jiff::Timestamp;
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::runtime::Runtime;

use crate::framing::POLICY;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::h2;
use crate::h2::Certificate;
use crate::h2::H2Client;
use crate::upstream::Upstream;
use crate::upstream_h2::Answer;
use crate::upstream_h2::H2Upstream;
use crate::wire::Client;
use crate::wire::PATIENCE;
use crate::wire::WireFault;
use crate::wire::exchange;
use crate::wire::post;

fn install(directory: &Path, certificate: &Certificate) {
    fs::write(directory.join("cert.pem"), &certificate.cert_pem).expect("a writable directory");
    fs::write(directory.join("key.pem"), &certificate.key_pem).expect("a writable directory");
}

#[test]
fn a_certificate_changes_under_an_open_connection_and_an_authority_decides() {
    let files = tempfile::tempdir().expect("a directory");
    let (first, second) = (Certificate::make(), Certificate::make());
    install(files.path(), &first);
    let upstream = Upstream::answering("application/json", "{}");
    let folder = files.path().display();
    let secure = Gateway::start(&format!(
        "[proxy.tls]\ncert = \"{folder}/cert.pem\"\nkey = \"{folder}/key.pem\"\n[[routes]]\nname = \"all\"\n\
         upstream = \"http://{}\"\ndialect = \"generic\"\npolicy = \"default\"\n{UNLIMITED}{POLICY}",
        upstream.address
    ));
    let runtime = Runtime::new().expect("a runtime");
    let before = told(&secure);
    runtime.block_on(hot_swap(&secure, files.path(), &first, &second));
    let after = told(&secure);
    assert_eq!((&before["name"], &after["name"]), (&"proxy".into(), &"proxy".into()));
    for certificate in [&before, &after] {
        assert!(
            certificate["sans"].as_array().is_some_and(|names| names.contains(&"localhost".into())),
            "{certificate}"
        );
        assert!(
            certificate["days_left"].as_i64() > Some(30) && certificate["status"] == "valid",
            "{certificate}"
        );
        assert!(!certificate.to_string().contains(&folder.to_string()), "{certificate}");
    }
    upstreams_over_tls(&secure, files.path(), &first, &second);
}

/// A certificate that ends soon is a warning, one that has ended is a reason to be degraded; the log names both.
#[test]
fn the_end_of_a_certificate_is_told_before_it_comes() {
    let files = tempfile::tempdir().expect("a directory");
    let now = Timestamp::now().as_second();
    let write = |ends: i64| install(files.path(), &Certificate::ending(ends));
    write(now + 5 * 86_400 + 60);
    let folder = files.path().display();
    let gateway = Gateway::start(&format!(
        "[proxy.tls]\ncert = \"{folder}/cert.pem\"\nkey = \"{folder}/key.pem\"\n{UNLIMITED}{POLICY}"
    ));
    let health = || exchange(gateway.admin, b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n");
    gateway.wait_for_log("a certificate will expire soon", 1);
    let warned = gateway.log();
    let line = warned.lines().find(|line| line.contains("will expire soon")).expect("a line");
    assert!(
        ["WARN", "listener=\"proxy\"", "CN=", "days_left=5"].iter().all(|told| line.contains(told)),
        "{line}"
    );
    let soon = health();
    assert_eq!((soon.status, &told(&gateway)["status"]), (200, &"expiring".into()));
    let warning = soon.json()["warnings"][0].as_str().unwrap_or_default().to_owned();
    assert!(warning.starts_with("the certificate of proxy ends at "), "{warning}");
    write(now - 60);
    gateway.signal("HUP");
    gateway.wait_for_log("a certificate has expired", 1);
    assert_eq!((health().status, &told(&gateway)["status"]), (503, &"expired".into()));
    assert_eq!(gateway.log().matches("a certificate will expire soon").count(), 1);
    std::fs::write(files.path().join("cert.pem"), "no certificate").expect("a file");
    gateway.signal("HUP");
    gateway.wait_for_log("a certificate could not be reloaded", 1);
    let unread = health().json()["reasons"]["certificates"].as_str().unwrap_or_default().to_owned();
    assert_eq!(unread, "a certificate could not be read: the one before it is served");
}

/// A browser that was here over TLS does not come again without it; who was not is told nothing.
#[test]
fn browsers_come_back_over_tls_where_the_management_plane_speaks_it() {
    let files = tempfile::tempdir().expect("a directory");
    let certificate = Certificate::make();
    install(files.path(), &certificate);
    let folder = files.path().display();
    let route = format!(
        "[[routes]]\nname = \"all\"\nupstream = \"http://127.0.0.1:9\"\ndialect = \"generic\"\npolicy = \"default\"\n\
         {UNLIMITED}{POLICY}"
    );
    let secure = Gateway::start(&format!(
        "[admin.tls]\ncert = \"{folder}/cert.pem\"\nkey = \"{folder}/key.pem\"\n{route}"
    ));
    let ask = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let runtime = Runtime::new().expect("a runtime");
    for path in ["/login", "/health", "/api/v1/keys", "/nowhere"] {
        let told = runtime.block_on(async {
            let mut stream = h2::tls(secure.admin, &certificate, "http/1.1").await.expect("a handshake");
            stream.write_all(ask(path).as_bytes()).await.expect("a connection");
            let mut answer = Vec::new();
            // The end of TLS may be missing; the answer is what counts.
            let _ = stream.read_to_end(&mut answer).await;
            String::from_utf8_lossy(&answer).to_ascii_lowercase()
        });
        assert!(told.contains("\r\nstrict-transport-security: max-age=31536000\r\n"), "{path}: {told}");
    }
    let plain = Gateway::start(&route);
    for address in [secure.proxy, plain.admin, plain.proxy] {
        let told = exchange(address, ask("/health").as_bytes());
        assert_eq!((told.status, told.header("strict-transport-security")), (200, None));
    }
}

/// How long a handshake may take.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(3);

/// Who connects and makes no handshake counts, and is let go in time, on both planes; whoever comes after is served.
#[test]
fn connections_count_and_are_timed_before_their_handshake() {
    let files = tempfile::tempdir().expect("a directory");
    let certificate = Certificate::make();
    install(files.path(), &certificate);
    let upstream = Upstream::answering("application/json", "{}");
    let tls = format!("cert = \"{0}/cert.pem\"\nkey = \"{0}/key.pem\"\n", files.path().display());
    let secure = Gateway::start(&format!(
        "[proxy]\nmax_connections_per_address = 6\n[proxy.timeouts]\nheader_ms = {}\n[proxy.tls]\n{tls}\
         [admin.tls]\n{tls}[[routes]]\nname = \"all\"\nupstream = \"http://{}\"\ndialect = \"generic\"\n\
         policy = \"default\"\n{UNLIMITED}{POLICY}",
        HANDSHAKE_LIMIT.as_millis(),
        upstream.address
    ));
    let began = Instant::now();
    let mut silent: Vec<_> = (0..7).map(|_| Client::connect(secure.proxy)).collect();
    silent.iter().for_each(|client| client.patience(Duration::from_millis(10)));
    while !silent.iter_mut().any(Client::is_closed) {
        assert!(began.elapsed() < HANDSHAKE_LIMIT, "one more than may be was let in");
    }
    silent.push(Client::connect(secure.admin));
    for client in &mut silent {
        client.patience(PATIENCE);
        assert!(client.is_closed(), "a connection without a handshake is kept");
    }
    assert!(began.elapsed() >= HANDSHAKE_LIMIT, "those that fit have their time");
    drips_a_handshake(&secure);
    let answer = Runtime::new().expect("a runtime").block_on(async {
        let mut stream = h2::tls(secure.proxy, &certificate, "http/1.1").await.expect("a handshake");
        stream.write_all(&post("/x", "connection: close\r\n", "{}")).await.expect("a connection");
        let mut answer = Vec::new();
        // The end of TLS may be missing; the answer is what counts.
        let _ = stream.read_to_end(&mut answer).await;
        answer
    });
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
}

/// Sends a first record byte by byte, so that no single read is late.
fn drips_a_handshake(secure: &Gateway) {
    let began = Instant::now();
    let mut client = Client::connect(secure.proxy);
    client.patience(Duration::from_millis(50));
    let mut record = [0x16, 3, 1, 0x40, 0].into_iter().chain(std::iter::repeat(1));
    let end = loop {
        client.send(&[record.next().expect("endless")]);
        match client.head() {
            Err(WireFault::Silent) => assert!(began.elapsed() < PATIENCE, "a drip is endured"),
            ended => break ended,
        }
    };
    assert!(matches!(end, Err(WireFault::Closed)), "{end:?}");
    assert!(began.elapsed() >= HANDSHAKE_LIMIT, "it was refused for something else");
}

/// Returns what the management API tells of the one certificate there is.
fn told(gateway: &Gateway) -> Value {
    let key = gateway.admin_key();
    let ask = format!("GET /api/v1/certs HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\n\r\n");
    let answer = exchange(gateway.admin, ask.as_bytes()).json();
    assert_eq!(answer["certificates"].as_array().map(Vec::len), Some(1), "{answer}");
    answer["certificates"][0].clone()
}

async fn hot_swap(secure: &Gateway, files: &Path, first: &Certificate, second: &Certificate) {
    let clean = || h2::post("/x", vec![b"{}".to_vec()], true);
    let stream = h2::tls(secure.proxy, first, "h2").await.expect("a handshake");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut open = H2Client::over(stream).await;
    assert_eq!(open.send(clean()).await.status, 200);
    let mut plain = h2::tls(secure.proxy, first, "http/1.1").await.expect("a handshake");
    plain.write_all(&post("/x", "connection: close\r\n", "{}")).await.expect("a connection");
    let mut answer = Vec::new();
    // The end of TLS may be missing; the answer is what counts.
    let _ = plain.read_to_end(&mut answer).await;
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    fs::write(files.join("cert.pem"), "no certificate").expect("a writable directory");
    secure.signal("HUP");
    until(|| secure.log().contains("could not be reloaded")).await;
    assert!(h2::tls(secure.proxy, first, "h2").await.is_ok(), "faulty files changed something");
    let health = tokio::task::block_in_place(|| {
        exchange(secure.admin, b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    });
    assert!(health.status == 503 && health.text().contains("degraded"), "{}", health.text());
    install(files, second);
    secure.signal("HUP");
    let deadline = Instant::now() + Duration::from_secs(20);
    while h2::tls(secure.proxy, second, "h2").await.is_err() {
        assert!(Instant::now() < deadline, "the new certificate is not served");
    }
    assert!(h2::tls(secure.proxy, first, "h2").await.is_err(), "the old certificate is still served");
    assert_eq!(open.send(clean()).await.status, 200, "an open connection was disturbed");
}

async fn until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "in vain");
        tokio::task::yield_now().await;
    }
}

/// What a route may speak, and what the provider offers under TLS, make the protocol; each way a request arrives whole.
#[test]
fn a_provider_under_tls_is_spoken_to_as_it_offers() {
    let files = tempfile::tempdir().expect("a directory");
    let certificate = Certificate::make();
    install(files.path(), &certificate);
    let provider = |protocols: &[&str]| {
        let pieces = vec![b"{\"answer\":".to_vec(), b"42}".to_vec()];
        let answer = Answer { content_type: "application/json", pieces, trailers: HeaderMap::new() };
        H2Upstream::start_under_tls(answer, &certificate, protocols)
    };
    let (both, old, silent) = (provider(&["h2", "http/1.1"]), provider(&["http/1.1"]), provider(&[]));
    // The route, what it may speak, its provider, and what that hears.
    let table = [
        ("auto", "auto", &both, Version::HTTP_2),
        ("never", "never", &both, Version::HTTP_11),
        ("always", "always", &both, Version::HTTP_2),
        ("old", "auto", &old, Version::HTTP_11),
        ("silent", "auto", &silent, Version::HTTP_11),
    ];
    let route = |(name, h2, provider, _): &(&str, &str, &H2Upstream, Version)| {
        format!(
            "[[routes]]\nname = \"{name}\"\npath_prefix = \"/{name}\"\nh2 = \"{h2}\"\n\
             upstream = \"https://localhost:{}\"\nupstream_ca_file = \"{}/cert.pem\"\n\
             dialect = \"generic\"\npolicy = \"default\"\n",
            provider.address.port(),
            files.path().display()
        )
    };
    let routes: String = table.iter().map(route).collect();
    let gateway = Gateway::start(&format!("{routes}{UNLIMITED}{POLICY}"));
    // The second one finds a connection that is kept.
    for turn in ["first", "second"] {
        for (name, _, provider, version) in &table {
            let before = provider.received().len();
            let body = format!("{{\"turn\":\"{turn}\"}}");
            let answer = exchange(gateway.proxy, &post(&format!("/{name}/x"), "", &body));
            assert_eq!((answer.status, answer.text().as_str()), (200, "{\"answer\":42}"), "{name} {turn}");
            let received = provider.received();
            let [request] = &received[before..] else { panic!("{name} {turn}: {received:?}") };
            assert_eq!((request.version, request.path.as_str()), (*version, format!("/{name}/x").as_str()));
            assert_eq!(request.body, body.as_bytes(), "{name} {turn}");
        }
    }
}

/// The gateway under TLS is itself the upstream of another: it speaks HTTP/1 and HTTP/2.
fn upstreams_over_tls(secure: &Gateway, files: &Path, wrong: &Certificate, right: &Certificate) {
    let authority = |name: &str, certificate: &Certificate| {
        fs::write(files.join(name), &certificate.cert_pem).expect("a writable directory");
    };
    authority("right.pem", right);
    authority("wrong.pem", wrong);
    let route = |name: &str, ca: &str, h2: &str| {
        format!(
            "[[routes]]\nname = \"{name}\"\npath_prefix = \"/{name}\"\nstrip_prefix = true\nh2 = \"{h2}\"\n\
             upstream = \"https://localhost:{}\"\nupstream_ca_file = \"{}/{ca}\"\ndialect = \"generic\"\n\
             policy = \"default\"\n",
            secure.proxy.port(),
            files.display()
        )
    };
    let routes = [
        route("auto", "right.pem", "auto"),
        route("never", "right.pem", "never"),
        route("always", "right.pem", "always"),
        route("wrong", "wrong.pem", "auto"),
    ];
    let gateway = Gateway::start(&format!("{}{UNLIMITED}{POLICY}", routes.concat()));
    for name in ["auto", "never", "always", "auto"] {
        assert_eq!(exchange(gateway.proxy, &post(&format!("/{name}/x"), "", "{}")).status, 200, "{name}");
    }
    let refused = exchange(gateway.proxy, &post("/wrong/x", "", "{}"));
    assert_eq!(refused.status, 502, "a stranger's certificate was trusted");
}
