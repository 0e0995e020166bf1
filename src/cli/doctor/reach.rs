//! Certificates that are served, and providers that are called.

use std::io;
use std::time::Duration;

use jiff::Timestamp;
use tokio::net::TcpStream;

use super::Check;
use super::Outcome;
use crate::config::Config;
use crate::policy::route::Route;
use crate::policy::route::Upstream;
use crate::tls::CertificateStore;
use crate::tls::TlsFiles;
use crate::tls::client::TlsClient;

/// Certificates that end sooner are a warning.
const SOON_DAYS: i64 = 30;
const DAY_S: i64 = 86_400;
/// For one provider: its name, the connection, and TLS.
const REACH_MAX: Duration = Duration::from_secs(5);

/// Looks at the certificate of each listener.
pub(super) fn certificates(config: &Config, now: Timestamp) -> Vec<Check> {
    let named = [("proxy", &config.proxy.tls), ("admin", &config.admin.tls)];
    let served = named.into_iter().filter_map(|(name, files)| Some((name, files.as_ref()?)));
    served.map(|(name, files)| certificate(name, files, now)).collect()
}

fn certificate(name: &str, files: &TlsFiles, now: Timestamp) -> Check {
    let check = |outcome, detail: String| Check::new("certificates", name, outcome, detail);
    let facts = match CertificateStore::load(files.clone()) {
        Ok(store) => store.facts(),
        Err(error) => return check(Outcome::Fault, error.to_string()),
    };
    let Some(facts) = facts else { return check(Outcome::Fault, "it says nothing of itself".to_owned()) };
    let days = (facts.not_after.as_second() - now.as_second()).div_euclid(DAY_S);
    let names = facts.sans.join(", ");
    if now < facts.not_before {
        return check(Outcome::Fault, format!("counts from {} on ({names})", facts.not_before));
    }
    match days {
        ..0 => check(Outcome::Fault, format!("ended at {} ({names})", facts.not_after)),
        0..SOON_DAYS => check(Outcome::Warning, format!("ends in {days} days ({names})")),
        _ => check(Outcome::Good, format!("counts for {days} days ({names})")),
    }
}

/// Connects to every provider of every route, all at once.
pub(super) fn providers(config: &Config) -> Vec<Check> {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return vec![Check::new("providers", "all", Outcome::Fault, error.to_string())],
    };
    let targets = config
        .rules
        .routes
        .iter()
        .flat_map(|route| route.upstreams.iter().map(move |upstream| provider(route, upstream)));
    runtime.block_on(futures_util::future::join_all(targets))
}

async fn provider(route: &Route, upstream: &Upstream) -> Check {
    let to = format!("{}:{}", upstream.host, upstream.port);
    let check = |outcome, detail| Check::new("providers", route.name.clone(), outcome, detail);
    match tokio::time::timeout(REACH_MAX, reach(route, upstream)).await {
        Ok(Ok(())) => check(Outcome::Good, format!("{to} answers")),
        Ok(Err(error)) => check(Outcome::Fault, format!("{to}: {error}")),
        Err(_) => check(Outcome::Fault, format!("{to}: no connection within {} s", REACH_MAX.as_secs())),
    }
}

async fn reach(route: &Route, upstream: &Upstream) -> io::Result<()> {
    let stream = TcpStream::connect((upstream.host.as_str(), upstream.port)).await?;
    if upstream.tls {
        let client = TlsClient::new(route.upstream_ca_file.as_deref()).map_err(io::Error::other)?;
        client.connect(&upstream.host, stream).await?;
    }
    Ok(())
}
