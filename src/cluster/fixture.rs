//! A real Redis for tests.

use std::io;
use std::net::TcpListener;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpStream;

use super::RedisServer;
use super::WhenAway;
use super::redis::Answer;
use super::redis::Connection;
use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::telemetry::metrics::Metrics;
use crate::tls::client::TlsClient;

pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// A Redis of a test's own; it ends with this.
pub(super) struct Redis {
    process: Child,
    port: u16,
    /// Where it is a node of a cluster: its other port, and where it keeps what it knows of the others.
    member: Option<(u16, TempDir)>,
}

impl Redis {
    pub(super) async fn start() -> Self {
        let port = free_port();
        let redis = Self { process: run(port, &[]), port, member: None };
        redis.wait().await;
        redis
    }

    /// Starts a node of a cluster, which knows no other one.
    pub(super) async fn start_in_cluster() -> Self {
        let (port, bus, folder) = (free_port(), free_port(), tempfile::tempdir().unwrap());
        let (bus_port, place) = (bus.to_string(), folder.path().display().to_string());
        let more = ["--cluster-enabled", "yes", "--cluster-port", &bus_port, "--dir", &place];
        let redis = Self { process: run(port, &more), port, member: Some((bus, folder)) };
        redis.wait().await;
        redis
    }

    /// Returns the port it answers at, and that of the cluster's own talk.
    pub(super) fn ports(&self) -> [u16; 2] {
        [self.port, self.member.as_ref().map_or(0, |(bus, _)| *bus)]
    }

    async fn wait(&self) {
        let begun = std::time::Instant::now();
        while self.open().await.is_err() {
            assert!(begun.elapsed() < PATIENCE, "Redis does not start");
            tokio::task::yield_now().await;
        }
    }

    /// Lets it die as it stands.
    pub(super) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Starts it again, with nothing in it.
    pub(super) async fn restart(&mut self) {
        self.process = run(self.port, &[]);
        self.wait().await;
    }

    pub(super) fn server(&self, when_away: WhenAway) -> RedisServer {
        server_at(self.port, when_away)
    }

    pub(super) async fn forget_all(&self) {
        self.does(&["FLUSHALL"]).await;
    }

    /// Lets it take nothing any more, as one does that another one took over from.
    pub(super) async fn becomes_replica(&self) {
        self.does(&["REPLICAOF", "127.0.0.1", "1"]).await;
    }

    async fn does(&self, words: &[&str]) {
        assert_eq!(self.says(words).await, "OK");
    }

    pub(super) async fn open(&self) -> io::Result<Connection> {
        let server = self.server(WhenAway::Local);
        server.open(&server.url).await
    }

    /// Returns what it answers.
    pub(super) async fn says(&self, words: &[&str]) -> String {
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        match self.open().await.unwrap().ask(&words).await.unwrap() {
            Answer::Text(text) => String::from_utf8(text).unwrap(),
            Answer::Number(number) => number.to_string(),
            Answer::Refused(reason) => panic!("{words:?}: {reason}"),
            Answer::Nothing => String::new(),
        }
    }

    /// Waits until there is something in what it answers.
    pub(super) async fn eventually_says(&self, words: &[&str], what: &str) {
        let begun = std::time::Instant::now();
        while !self.says(words).await.contains(what) {
            assert!(begun.elapsed() < PATIENCE, "{words:?}: never {what}");
            tokio::task::yield_now().await;
        }
    }

    /// Hands what it has in a slot over to another node of its cluster.
    pub(super) async fn hands_over_to(&self, other: &Self, slot: &str) {
        let script = "for _, key in ipairs(redis.call('KEYS', '*')) do return key end return ''";
        let port = other.port.to_string();
        while self.says(&["CLUSTER", "COUNTKEYSINSLOT", slot]).await != "0" {
            let key = self.says(&["EVAL", script, "0"]).await;
            self.says(&["MIGRATE", "127.0.0.1", &port, &key, "0", "5000"]).await;
        }
    }

    /// Returns an address that leads here, until it leads to another one.
    pub(super) async fn failover(&self) -> Failover {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, leads_to) = (listener.local_addr().unwrap().port(), Arc::new(AtomicU16::new(self.port)));
        let leads = Arc::clone(&leads_to);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let port = leads.load(Ordering::Relaxed);
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Failover { port, leads_to }
    }
}

/// An address at which another server may take over; connections that are open stay where they lead.
pub(super) struct Failover {
    port: u16,
    leads_to: Arc<AtomicU16>,
}

impl Failover {
    pub(super) fn server(&self, when_away: WhenAway) -> RedisServer {
        server_at(self.port, when_away)
    }

    pub(super) fn lead_to(&self, redis: &Redis) {
        self.leads_to.store(redis.port, Ordering::Relaxed);
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn run(port: u16, more: &[&str]) -> Child {
    let mut program = Command::new("redis-server");
    program.args(more).args([
        "--port",
        &port.to_string(),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
    ]);
    program.stdout(Stdio::null()).spawn().expect("tests/setup/system.sh installs redis-server")
}

/// Returns what is taken for a Redis at a port of this machine.
pub(super) fn server_at(port: u16, when_away: WhenAway) -> RedisServer {
    RedisServer {
        url: format!("redis://127.0.0.1:{port}").parse().unwrap(),
        tls: TlsClient::new(None).unwrap(),
        timeout: Duration::from_secs(5),
        when_away,
        clock: Arc::new(SystemClock) as Arc<dyn Clock>,
        metrics: Arc::new(Metrics::new("0", "0")),
        reach: Arc::default(),
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}
