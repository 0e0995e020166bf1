//! Callers whom nobody knew make keys in the database: nobody else waits for that.

use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::call;
use super::eventually;
use super::folder;
use super::free_port;
use super::postgres::Postgres;
use super::routes;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::upstream::Upstream;
use crate::wire::exchange;
use crate::wire::post;

/// More than the gateway has threads for traffic.
const STRANGERS: usize = 16;
const KNOWN_CALLS: usize = 20;
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a call of the database may take: longer than anybody waits here.
const TIMEOUT: &str = "timeout_ms = 60000";
/// Keeps everybody from making keys of names, until it is ended.
const HOLD: &str =
    "BEGIN; SELECT 1 FROM portcullis_tables WHERE name = 'subject_keys' FOR UPDATE; SELECT pg_sleep(60)";
const HOLDERS: &str = "FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
const WAITING: &str = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";

fn start(server: &Postgres, upstream: &Upstream) -> Gateway {
    let folder = folder(&Postgres::url_at(server.port), &format!("{UNLIMITED}\n{}", routes(upstream)));
    let file = folder.path().join("gateway.toml");
    let text = fs::read_to_string(&file).expect("it is there").replace("timeout_ms = 2000", TIMEOUT);
    fs::write(file, text).expect("it is writable");
    Gateway::launched(folder, vec!["--config".to_owned(), "gateway.toml".to_owned()])
}

fn ask(gateway: &Gateway, credential: &str) -> u16 {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#;
    let credential = format!("authorization: Bearer sk-{credential}\r\n");
    exchange(gateway.proxy, &post("/v1/chat/completions", &credential, body)).status
}

#[test]
fn callers_whom_nobody_knew_let_nobody_else_wait_for_the_database() {
    let server = Postgres::start_on(free_port());
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = start(&server, &upstream);
    let admin = gateway.admin_key();
    let asked = |path: &str| call(&gateway, &admin, "GET", path, &Value::Null);
    assert_eq!(ask(&gateway, "known"), 200);

    thread::scope(|scope| {
        let holder = scope.spawn(|| server.tries(HOLD).is_ok());
        eventually(PATIENCE, "the table is held", || {
            server.sql(&format!("SELECT count(*) {HOLDERS}")) == "1"
        });
        let strangers: Vec<_> = (0..STRANGERS)
            .map(|number| {
                scope.spawn({
                    let gateway = &gateway;
                    move || ask(gateway, &format!("stranger-{number}"))
                })
            })
            .collect();
        eventually(PATIENCE, "a key is to be made", || server.sql(WAITING) != "0");
        // Whoever is known, and whoever asks whether traffic may come, is answered meanwhile; the strangers are, too.
        for _ in 0..KNOWN_CALLS {
            assert_eq!(ask(&gateway, "known"), 200);
        }
        assert_eq!(asked("/ready").status, 200);
        let ready = b"GET /ready HTTP/1.1\r\nhost: gateway.test\r\n\r\n";
        assert_eq!(exchange(gateway.proxy, ready).status, 200);
        for stranger in strangers {
            assert_eq!(stranger.join().expect("an answer"), 200);
        }
        assert_eq!(server.sql(WAITING), "1", "the key of the first of them is still waited for");
        server.sql(&format!("SELECT pg_terminate_backend(pid) {HOLDERS}"));
        assert!(!holder.join().expect("it ended"), "it did not end by itself");
    });

    // Nothing that was answered is missing, and whoever got no key in time is named nowhere.
    let found = || asked("/api/v1/audit?event_type=exchange&limit=200").json();
    eventually(PATIENCE, "every exchange is recorded", || found()["total"] == 1 + STRANGERS + KNOWN_CALLS);
    let unlisted = |found: &Value| {
        let entries = found["entries"].as_array().cloned().unwrap_or_default();
        entries.iter().filter(|entry| entry.to_string().contains("[unlisted]")).count()
    };
    assert_eq!(unlisted(&found()), STRANGERS, "{}", found());
    eventually(PATIENCE, "whoever comes now is named again", || {
        let before = unlisted(&found());
        ask(&gateway, &format!("later-{before}"));
        unlisted(&found()) == before
    });
}
