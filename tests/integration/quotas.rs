//! How much of the gateway one caller can take: requests at once, connections, and a quota that a restart
//! does not refill.

use crate::framing::POLICY;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::upstream::Step;
use crate::upstream::Upstream;
use crate::wire::Client;
use crate::wire::Response;
use crate::wire::exchange;

/// An answer that speaks in the gateway's name.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-portcullis-action: block\r\n\
                        X-Portcullis-Forged: 1\r\ncontent-length: 2\r\n\r\n{}";
const LIMITS: &str = "[proxy]\nshutdown_notice_ms = 0\nshutdown_grace_ms = 100\n[admin]\nmax_connections_per_address = 4\n\
                      max_body_bytes = 2048\n";
const ONE_CALLER: &str = "[limits]\nconcurrent_requests_per_caller = 2\n";

fn request(credential: &str) -> Vec<u8> {
    let body = r#"{"model":"m"}"#;
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {credential}\r\n\
         x-portcullis-policy: none@0\r\nX-Portcullis-Role: admin\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn number(answer: &Response, name: &str) -> i64 {
    let value = answer.header(name).unwrap_or_else(|| panic!("{name} is missing"));
    value.parse().expect("a number")
}

#[test]
fn one_caller_takes_no_more_than_its_share() {
    let upstream = Upstream::start(vec![Step::Wait, Step::Send(ANSWER.to_vec())]);
    let route = format!(
        "[[routes]]\nname = \"all\"\npath_prefix = \"/\"\nupstream = \"http://{}\"\npolicy = \"default\"\n",
        upstream.address
    );
    let mut gateway = Gateway::start(&format!("{LIMITS}{route}{}", POLICY.replace("[limits]\n", ONE_CALLER)));
    requests_at_once(&gateway, &upstream);
    connections_to_the_management_plane(&gateway);
    every_refusal_tells_the_quota(&gateway);
    a_restart_refills_nothing(&mut gateway);
}

fn requests_at_once(gateway: &Gateway, upstream: &Upstream) {
    let mut under_way = [Client::connect(gateway.proxy), Client::connect(gateway.proxy)];
    for client in &mut under_way {
        client.send(&request("one"));
    }
    upstream.wait_until(|received| received.iter().filter(|it| !it.bytes.is_empty()).count() == 2);
    let refused = exchange(gateway.proxy, &request("one"));
    let code = refused.json()["error"]["code"].clone();
    assert_eq!(
        (refused.status, code, refused.header("retry-after")),
        (429, "too_many_at_once".into(), Some("1"))
    );
    // Tokens come back meanwhile, one a second.
    assert!(number(&refused, "x-ratelimit-remaining") >= 98, "a refusal costs nothing");
    // Somebody else is not concerned.
    let mut other = Client::connect(gateway.proxy);
    other.send(&request("two"));
    for _ in 0..3 {
        upstream.proceed();
    }
    for client in under_way.iter_mut().chain([&mut other]) {
        let answer = client.response().expect("an answer");
        assert_eq!((answer.status, answer.header("x-portcullis-action")), (200, Some("allow")));
        assert_eq!(answer.header("x-portcullis-forged"), None, "only the gateway speaks in its name");
    }
    for received in upstream.received() {
        let received = String::from_utf8_lossy(&received.bytes).to_ascii_lowercase();
        assert!(!received.contains("x-portcullis"), "{received}");
    }
    // Whoever is done may come again.
    upstream.proceed();
    assert_eq!(exchange(gateway.proxy, &request("one")).status, 200);
}

fn connections_to_the_management_plane(gateway: &Gateway) {
    let version = b"GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(gateway.admin)).collect();
    for client in &mut clients {
        client.send(version);
        assert_eq!(client.response().expect("an answer").status, 200);
    }
    let over = Client::connect(gateway.admin).response().expect("an answer before a request");
    assert_eq!((over.status, over.header("retry-after")), (503, Some("1")));
    drop(clients);
    let deadline = std::time::Instant::now() + crate::wire::PATIENCE;
    let mut status = 503;
    while status == 503 && std::time::Instant::now() < deadline {
        let mut client = Client::connect(gateway.admin);
        client.send(version);
        status = client.response().map_or(503, |answer| answer.status);
    }
    assert_eq!(status, 200, "a place that was left is given again");
}

fn every_refusal_tells_the_quota(gateway: &Gateway) {
    let long = format!(
        "POST /api/v1/keys HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4096\r\n\r\n{}",
        "a".repeat(4096)
    );
    let cases = [
        (gateway.admin, long, 413),
        (gateway.admin, "GET /nothing HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(), 404),
        (
            gateway.admin,
            "PUT /version HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n".to_owned(),
            405,
        ),
        (gateway.admin, "GET /version HTTP/1.1\r\nhost: evil.example\r\n\r\n".to_owned(), 421),
        (gateway.admin, "GET /stats HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(), 401),
        (gateway.admin, "GET /version HTTP/1.1\r\n\r\n".to_owned(), 400),
        (gateway.admin, "GET /version HTTP/1.1\r\nhost: localhost\r\nno header\r\n\r\n".to_owned(), 400),
        (
            gateway.admin,
            format!("GET /version HTTP/1.1\r\nhost: localhost\r\nx-wide: {}\r\n\r\n", "a".repeat(70_000)),
            431,
        ),
        (
            gateway.proxy,
            "GET /a HTTP/1.1\r\nhost: a\r\ncontent-type: a/b\r\ncontent-type: c/d\r\n\r\n".to_owned(),
            400,
        ),
        (gateway.proxy, "GET /stats HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(), 401),
    ];
    for (address, request, status) in cases {
        let answer = exchange(address, request.as_bytes());
        assert_eq!(answer.status, status, "{}", answer.text());
        let error = &answer.json()["error"];
        assert!(error.is_string() || error["message"].is_string(), "{}", answer.text());
        assert_eq!(number(&answer, "x-ratelimit-limit"), 60, "{status}");
        assert!((0..=100).contains(&number(&answer, "x-ratelimit-remaining")), "{status}");
        assert!(number(&answer, "x-ratelimit-reset") > 1_700_000_000, "{status}");
    }
}

/// Whoever knocks where nothing is is counted, but pushes no evidence out of the audit log.
#[test]
fn knocking_at_the_data_plane_does_not_fill_the_log() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = Gateway::start(&format!(
        "{UNLIMITED}[[routes]]\nname = \"one\"\npath_prefix = \"/one\"\nupstream = \"http://{}\"\n\
         auth = \"gateway_key\"\n",
        upstream.address
    ));
    let mut client = Client::connect(gateway.proxy);
    for (count, path) in (0..400).zip(["/nowhere", "/one/v1/models"].into_iter().cycle()) {
        client.send(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes());
        let status = client.response().expect("an answer").status;
        assert_eq!(status, if count % 2 == 0 { 404 } else { 401 });
    }
    let key = gateway.admin_key();
    let ask = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\n\r\n");
        exchange(gateway.admin, request.as_bytes())
    };
    // Each is in the log or in the count; the log has a burst of them and what came back meanwhile.
    let counted = || {
        let metrics = ask("/metrics").text();
        let line = metrics.lines().find(|it| it.starts_with("portcullis_refusals_unrecorded_total"));
        line.and_then(|it| it.rsplit(' ').next()).and_then(|it| it.parse::<u64>().ok()).unwrap_or(0)
    };
    let recorded = || ask("/api/v1/audit?event_type=exchange&limit=1").json()["total"].as_u64().unwrap_or(0);
    let deadline = std::time::Instant::now() + crate::wire::PATIENCE;
    while recorded() + counted() < 400 {
        assert!(std::time::Instant::now() < deadline, "{} and {}", recorded(), counted());
    }
    assert!((100..=200).contains(&recorded()), "{}", recorded());
}

fn a_restart_refills_nothing(gateway: &mut Gateway) {
    let key = gateway.admin_key();
    let stats = format!("GET /stats HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\n\r\n");
    let mut client = Client::connect(gateway.admin);
    let before = loop {
        client.send(stats.as_bytes());
        let answer = client.response().expect("an answer");
        if answer.status == 429 {
            break number(&answer, "x-ratelimit-reset");
        }
    };
    drop(client);
    gateway.end_and_restart();
    let answer = exchange(gateway.admin, stats.as_bytes());
    let after = number(&answer, "x-ratelimit-reset");
    // The bucket is full when it would have been, but for the tokens that were taken since.
    assert!((before..=before + 2).contains(&after), "{before} {after}");
}
