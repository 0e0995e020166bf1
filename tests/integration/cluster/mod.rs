//! Several gateways, and the servers they share: real ones, each on a port and in a directory of its own.

mod agents;
mod audit;
mod budgets;
mod doctor;
mod faults;
mod limits;
mod losses;
mod newcomers;
mod nodes;
#[path = "../../../src/store/fixture.rs"]
pub mod postgres;
mod relay;
mod sessions;
mod store;
mod upgrades;

use std::fs;
use std::net::TcpListener;
use std::time::Duration;
use std::time::Instant;

use serde_json::Value;

use self::postgres::Postgres;
use self::relay::Relay;
use crate::framing::POLICY;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::upstream::Upstream;
use crate::wire::Response;
use crate::wire::exchange;

/// What the nodes of a test share; long enough to be a secret, and none.
pub const SECRET: &str = "a-secret-of-thirty-two-characters-or-more";
/// How long what one node did may take until every node knows it.
const CONVERGED: Duration = Duration::from_secs(1);

/// How often it is looked whether something is so.
const POLL: Duration = Duration::from_millis(20);

/// Several gateways on one database, each behind a relay of its own that can be cut.
struct Deployment {
    server: Postgres,
    relays: Vec<Relay>,
    nodes: Vec<Gateway>,
    upstream: Upstream,
    /// The key of the first start.
    admin: String,
}

impl Deployment {
    fn start(count: usize) -> Self {
        Self::start_with(count, &format!("[cluster]\nenabled = true\n{UNLIMITED}"), &[])
    }

    /// Starts nodes with a configuration of the test's own, and files beside it.
    fn start_with(count: usize, more: &str, beside: &[(&str, String)]) -> Self {
        Self::start_through(count, more, beside, Relay::to)
    }

    /// Starts nodes that reach their database through relays of the test's own kind.
    fn start_through(count: usize, more: &str, beside: &[(&str, String)], relay: fn(u16) -> Relay) -> Self {
        let upstream = Upstream::answering("application/json", "{}");
        let port = free_port();
        let server = Postgres::start_on(port);
        let relays: Vec<Relay> = (0..count).map(|_| relay(port)).collect();
        let start = |relay: &Relay| {
            let folder = folder(&Postgres::url_at(relay.port), &format!("{more}\n{}", routes(&upstream)));
            beside.iter().for_each(|(name, text)| {
                fs::write(folder.path().join(name), text).expect("it is writable");
            });
            Gateway::launched(folder, vec!["--config".to_owned(), "gateway.toml".to_owned()])
        };
        let nodes: Vec<Gateway> = relays.iter().map(start).collect();
        let admin = nodes[0].admin_key();
        let made = Self { server, relays, nodes, upstream, admin };
        made.settle();
        made
    }

    /// Waits until every node sees every node.
    fn settle(&self) {
        for at in 0..self.nodes.len() {
            eventually(Duration::from_secs(20), "every node sees every node", || {
                let health = self.call(at, "GET", "/api/v1/cluster/health", &Value::Null).json();
                let nodes = health["nodes"].as_array().map_or(0, Vec::len);
                health["status"] == "healthy" && nodes == self.nodes.len()
            });
        }
    }

    fn call(&self, node: usize, method: &str, path: &str, body: &Value) -> Response {
        call(&self.nodes[node], &self.admin, method, path, body)
    }
}

fn routes(upstream: &Upstream) -> String {
    format!(
        "[audit]\ndurability = \"wait\"\n[[routes]]\nname = \"all\"\npath_prefix = \"/\"\nupstream = \"http://{}\"\n\
         dialect = \"auto\"\npolicy = \"default\"\n{POLICY}",
        upstream.address
    )
}

/// Returns a folder with a configuration that leads to a database.
fn folder(url: &str, more: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("postgres.url"), url).expect("it is writable");
    fs::write(folder.path().join("deployment.secret"), SECRET).expect("it is writable");
    let config = format!(
        "[store]\nbackend = \"postgres\"\n[store.postgres]\nurl_file = \"postgres.url\"\n\
         secret_file = \"deployment.secret\"\ntimeout_ms = 2000\ntls = false\n{more}"
    );
    fs::write(folder.path().join("gateway.toml"), config).expect("it is writable");
    folder
}

fn call(gateway: &Gateway, key: &str, method: &str, path: &str, body: &Value) -> Response {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {}\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        gateway.admin,
        body.len()
    );
    exchange(gateway.admin, request.as_bytes())
}

/// Waits until something is so, no longer than a limit; returns how long it took.
pub fn eventually(limit: Duration, what: &str, is_so: impl Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(POLL);
    }
    begun.elapsed()
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("a bound socket").port()
}
