//! Quotas of several nodes, counted together in a real Redis.

use std::io::Read;
use std::io::Write;
use std::net::TcpStream;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use serde_json::json;

use super::Deployment;
use super::call;
use super::eventually;
use super::free_port;
use super::relay::Relay;
use crate::wire::exchange;
use crate::wire::post;

const PASSWORD: &str = "for-tests-only";
/// More than what the tests ask of the management plane, which counts, too.
const BURST: usize = 300;
const BODY: &str = r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#;
const PATIENCE: Duration = Duration::from_secs(20);

/// A Redis of a test's own; it ends with this.
pub(super) struct Redis {
    server: Child,
    folder: tempfile::TempDir,
    pub(super) port: u16,
}

impl Redis {
    pub(super) fn start() -> Self {
        let (folder, port) = (tempfile::tempdir().expect("a folder"), free_port());
        let server = run(&folder, port);
        Self { server, folder, port }
    }

    pub(super) fn kill(&mut self) {
        self.server.kill().expect("it runs");
        self.server.wait().expect("it ends");
    }

    pub(super) fn restart(&mut self) {
        self.server = run(&self.folder, self.port);
    }

    /// Bounds its memory, in bytes; 0: not at all.
    pub(super) fn bound(&self, bytes: u32) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        let said = format!("AUTH {PASSWORD}\r\nCONFIG SET maxmemory {bytes}\r\nQUIT\r\n");
        stream.write_all(said.as_bytes()).expect("it reads");
        let mut answers = String::new();
        stream.read_to_string(&mut answers).expect("it answers");
        assert_eq!(answers, "+OK\r\n".repeat(3));
    }

    /// Returns its URL at a port: its own, or that of a relay.
    pub(super) fn url_at(port: u16) -> String {
        format!("redis://:{PASSWORD}@127.0.0.1:{port}")
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn run(folder: &tempfile::TempDir, port: u16) -> Child {
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.args(["--requirepass", PASSWORD, "--dir"]).arg(folder.path()).stdout(Stdio::null());
    command.spawn().expect("Debian's package redis-server is installed: tests/setup/system.sh does it")
}

/// Returns what the first node's health warns of; `Null`: of nothing.
fn warnings(world: &Deployment) -> Value {
    world.call(0, "GET", "/health", &Value::Null).json()["warnings"].clone()
}

/// Starts two nodes that allow one request a second, after a burst.
fn start(port: u16, when_away: &str) -> Deployment {
    let more = format!(
        "[cluster]\nenabled = true\nlimits = \"redis\"\n[cluster.redis]\nurl_file = \"redis.url\"\n\
         when_away = \"{when_away}\"\n[limits.tiers.community]\nrequests_per_minute = 6\nburst = {BURST}\n\
         [limits.tiers.enterprise]\nrequests_per_minute = 0\nburst = 0"
    );
    Deployment::start_with(2, &more, &[("redis.url", Redis::url_at(port))])
}

/// Sends a request as a caller of a name, and tells whether it was let through.
fn passes(world: &Deployment, node: usize, caller: &str) -> bool {
    let request = post("/v1/chat/completions", &format!("authorization: Bearer {caller}\r\n"), BODY);
    match exchange(world.nodes[node].proxy, &request).status {
        200 => true,
        429 => false,
        other => panic!("{other}"),
    }
}

/// Returns how often two nodes told what they know (`told`), or could not (`away`).
pub(super) fn count(world: &Deployment, result: &str) -> u64 {
    let metrics =
        (0..2).map(|node| call(&world.nodes[node], &world.admin, "GET", "/metrics", &Value::Null).text());
    let wanted = format!("portcullis_shared_limits_total{{result=\"{result}\"}} ");
    metrics
        .filter_map(|text| text.lines().find_map(|line| line.strip_prefix(&wanted)?.parse::<u64>().ok()))
        .sum()
}

#[test]
fn a_quota_is_that_of_all_nodes_together() {
    let mut redis = Redis::start();
    let world = start(redis.port, "local");
    eventually(PATIENCE, "Redis is there", || passes(&world, 0, "sk-first") && count(&world, "told") > 0);
    // One after the other, at either node: what one let through the other knows a few milliseconds later.
    let mut passed = 0;
    for number in 0..BURST + 120 {
        passed += usize::from(passes(&world, number % 2, "sk-one"));
        thread::sleep(Duration::from_millis(8));
    }
    // One token comes back every ten seconds, and what one round is late for is let through.
    assert!((BURST..=BURST + 30).contains(&passed), "{passed}");

    // Without Redis each node counts for itself.
    let away = count(&world, "away");
    redis.kill();
    // A node asks Redis only when it has something to tell.
    eventually(PATIENCE, "it is counted", || {
        passes(&world, 0, "sk-first");
        count(&world, "away") > away
    });
    let passed = (0..2 * BURST + 40).filter(|number| passes(&world, number % 2, "sk-two")).count();
    assert!((2 * BURST..=2 * BURST + 10).contains(&passed), "{passed}");
    redis.restart();
    let told = count(&world, "told");
    eventually(PATIENCE, "what was taken meanwhile is told", || count(&world, "told") > told);
}

#[test]
fn without_redis_traffic_is_refused_where_that_is_wanted() {
    let mut redis = Redis::start();
    let world = start(redis.port, "refuse");
    eventually(PATIENCE, "Redis is there", || passes(&world, 0, "sk-first") && count(&world, "told") > 0);
    redis.kill();
    eventually(PATIENCE, "traffic is refused", || (0..2).all(|node| !passes(&world, node, "sk-second")));
    assert_eq!(warnings(&world), json!(["Redis is away: nothing is shared"]));
    redis.restart();
    eventually(PATIENCE, "and let through again", || (0..2).all(|node| passes(&world, node, "sk-third")));
    assert_eq!(warnings(&world), Value::Null);
    redis.bound(1);
    let refused = json!(["Redis answers, and refuses to share quotas"]);
    eventually(PATIENCE, "health tells of the refusal", || {
        passes(&world, 0, "sk-fourth");
        warnings(&world) == refused
    });
    redis.bound(0);
    eventually(PATIENCE, "and of nothing once it is over", || {
        passes(&world, 0, "sk-fifth");
        warnings(&world).is_null()
    });
}

#[test]
fn what_was_taken_while_redis_was_cut_off_counts_afterwards() {
    let redis = Redis::start();
    let relay = Relay::to(redis.port);
    let world = start(relay.port, "local");
    eventually(PATIENCE, "Redis is there", || passes(&world, 0, "sk-first") && count(&world, "told") > 0);
    let away = count(&world, "away");
    // Nothing passes any more, and nobody is told.
    relay.cut();
    eventually(PATIENCE, "it is noticed", || {
        passes(&world, 0, "sk-first");
        count(&world, "away") > away
    });
    let passed = (0..2 * BURST + 40).filter(|number| passes(&world, number % 2, "sk-two")).count();
    assert!((2 * BURST..=2 * BURST + 10).contains(&passed), "each node counts for itself: {passed}");
    relay.mend();
    let told = count(&world, "told");
    eventually(PATIENCE, "what was taken meanwhile is told", || count(&world, "told") > told);
    // Both bursts are gone now, and one more token came every ten seconds.
    let passed = (0..60).filter(|number| passes(&world, number % 2, "sk-two")).count();
    assert!(passed <= 10, "{passed}");
}
