//! What the gateway needs beside providers: the database, Redis, and whoever is sent traces, metrics and audit entries.

use std::io;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use tokio::net::TcpStream;

use super::Check;
use super::Outcome;
use crate::app;
use crate::config::Config;
use crate::config::siem;
use crate::govern::siem::config::Peer;
use crate::govern::siem::config::SinkConfig;
use crate::govern::siem::config::SyslogTransport;
use crate::govern::siem::config::Target;
use crate::store::PostgresFacts;
use crate::tls::client::TlsClient;

const AREA: &str = "services";
/// The oldest PostgreSQL that the statements are tried with.
const POSTGRES_MAJOR_MIN: u32 = 15;
/// How far the clock of the database may be away: audit entries of all nodes are in the order of their nodes' clocks.
const CLOCKS_APART_MAX_S: i64 = 5;
/// For one service: its name, the connection, and TLS.
const REACH_MAX: Duration = Duration::from_secs(5);
const HTTPS: &str = "https";

/// Asks every service of a configuration, all that need no database at once.
pub(super) fn checks(config: &Config, now: Timestamp) -> Vec<Check> {
    let mut checks: Vec<Check> = database(config, now).into_iter().collect();
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => checks.extend(runtime.block_on(others(config))),
        Err(error) => checks.push(Check::new(AREA, "all", Outcome::Fault, error.to_string())),
    }
    checks
}

fn database(config: &Config, now: Timestamp) -> Option<Check> {
    let (outcome, detail) = match app::ask_database(config)? {
        Ok(facts) => judged(&facts, now),
        Err(error) => (Outcome::Fault, error.to_string()),
    };
    Some(Check::new(AREA, "database", outcome, detail))
}

fn judged(facts: &PostgresFacts, now: Timestamp) -> (Outcome, String) {
    let release = &facts.release;
    if !facts.is_writable {
        return (Outcome::Fault, format!("{release} takes no writes: it is a standby, or read-only"));
    }
    if facts.major.is_some_and(|major| major < POSTGRES_MAJOR_MIN) {
        return (Outcome::Fault, format!("{release} is older than PostgreSQL {POSTGRES_MAJOR_MIN}"));
    }
    let apart_s = facts.at.duration_since(now).as_secs().abs();
    match apart_s > CLOCKS_APART_MAX_S {
        true => (Outcome::Warning, format!("{release} answers; its clock is {apart_s} s away from ours")),
        false => (Outcome::Good, format!("{release} answers")),
    }
}

async fn others(config: &Config) -> Vec<Check> {
    let sinks = siem::of(&config.document).unwrap_or_default().sinks;
    let told = futures_util::future::join_all(sinks.iter().map(sink));
    let (redis, collector, told) = tokio::join!(redis(config), collector(config), told);
    redis.into_iter().chain(collector).chain(told.into_iter().flatten()).collect()
}

async fn redis(config: &Config) -> Option<Check> {
    let (outcome, detail) = match app::ask_shared_memory(config).await? {
        Ok(facts) if facts.is_replica => (Outcome::Fault, "is a replica, which takes no writes".to_owned()),
        Ok(facts) => match facts.refuses {
            Some(reason) => (Outcome::Fault, format!("answers, and refuses to write: {reason}")),
            None if facts.evicts => {
                let detail = "answers, and forgets when its memory is full: set maxmemory-policy noeviction";
                (Outcome::Warning, detail.to_owned())
            }
            None => (Outcome::Good, "answers".to_owned()),
        },
        Err(error) => (Outcome::Fault, error.to_string()),
    };
    Some(Check::new(AREA, "redis", outcome, detail))
}

/// Traffic does not wait for a collector: one that is away is no fault.
async fn collector(config: &Config) -> Option<Check> {
    let otlp = config.otlp.as_ref()?;
    let is_secured = otlp.endpoint.scheme_str() == Some(HTTPS);
    let host = otlp.endpoint.host().unwrap_or_default();
    let port = otlp.endpoint.port_u16().unwrap_or(if is_secured { 443 } else { 80 });
    let ca = is_secured.then_some(otlp.ca_file.as_deref());
    Some(reached("collector".to_owned(), (host, port), ca, Outcome::Warning).await)
}

/// `None`: nobody is connected to.
async fn sink(sink: &SinkConfig) -> Option<Check> {
    let peer = peer(&sink.target)?;
    let ca = peer.tls.then_some(peer.ca.as_deref());
    Some(reached(format!("sink {}", sink.name), (&peer.host, peer.port), ca, Outcome::Fault).await)
}

fn peer(target: &Target) -> Option<&Peer> {
    match target {
        Target::SplunkHec(http, _) | Target::Elastic(http, _) | Target::Webhook(http) => Some(&http.peer),
        Target::Syslog(syslog) => (syslog.transport != SyslogTransport::Udp).then_some(&syslog.peer),
        // TLS begins after the server's first line.
        Target::Nats(_) | Target::OcsfFile(_) => None,
    }
}

/// Connects, over TLS where there are certificates to trust beside the system's or none (`Some`).
async fn reached(name: String, (host, port): (&str, u16), ca: Option<Option<&Path>>, away: Outcome) -> Check {
    let connecting = async {
        let stream = TcpStream::connect((host, port)).await?;
        if let Some(ca) = ca {
            TlsClient::new(ca).map_err(io::Error::other)?.connect(host, stream).await?;
        }
        Ok::<(), io::Error>(())
    };
    let (outcome, said) = match tokio::time::timeout(REACH_MAX, connecting).await {
        Ok(Ok(())) => (Outcome::Good, "answers".to_owned()),
        Ok(Err(error)) => (away, error.to_string()),
        Err(_) => (away, format!("no connection within {} s", REACH_MAX.as_secs())),
    };
    Check::new(AREA, name, outcome, format!("{host}:{port}: {said}"))
}
