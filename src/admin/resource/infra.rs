//! `/api/v1/certs`, `/api/v1/cluster/health`: what the node serves with, and the nodes there are.

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::tls::CertificateStore;
use crate::tls::facts::CertificateFacts;

const SECONDS_PER_DAY: i64 = 86_400;
/// From how many days before its end on a certificate counts as expiring.
const EXPIRING_DAYS: i64 = 30;

/// The certificates of the listeners.
#[derive(Serialize, ToSchema)]
pub struct Certificates {
    /// One for each listener with TLS.
    pub certificates: Vec<Certificate>,
}

/// The certificate that a listener serves now.
#[derive(Serialize, ToSchema)]
pub struct Certificate {
    /// The listener: `proxy` or `admin`.
    pub name: &'static str,
    /// Whose it is.
    pub subject: String,
    /// Who vouches for it.
    pub issuer: String,
    /// The names and addresses it counts for.
    pub sans: Vec<String>,
    /// From when on it counts, in ISO 8601.
    pub not_before: String,
    /// Until when it counts, in ISO 8601.
    pub not_after: String,
    /// Whole days until then; negative once it is over.
    pub days_left: i64,
    /// `valid`, `expiring` in its last 30 days, `expired`, or `not_yet_valid`.
    pub status: &'static str,
}

/// The nodes of the deployment.
#[derive(Serialize, ToSchema)]
pub struct ClusterHealth {
    /// Whether nodes share their state.
    pub enabled: bool,
    /// `single`: the node keeps its own state.
    pub mode: &'static str,
    /// The node that answers.
    pub node_id: String,
    /// Every node.
    pub nodes: Vec<ClusterNode>,
}

/// One node.
#[derive(Serialize, ToSchema)]
pub struct ClusterNode {
    /// Its name.
    pub id: String,
    /// The first address of its management listener; `null` where it has none.
    pub address: Option<String>,
    /// `healthy` or `degraded`.
    pub status: &'static str,
    /// The revision of the rules it serves.
    pub revision: u64,
    /// When it was heard of last, in ISO 8601.
    pub last_seen: String,
}

/// `GET /api/v1/certs`.
pub async fn certs(call: Call) -> Answer {
    let now = call.office.clock.now();
    let shown = call.office.certificates.iter().filter_map(|(name, store)| show(name, store, now));
    ok(&Certificates { certificates: shown.collect() })
}

/// `GET /api/v1/cluster/health`.
pub async fn cluster(call: Call) -> Answer {
    let office = &call.office;
    let node = ClusterNode {
        id: office.facts.node_id.clone(),
        address: office.facts.addresses.first().map(ToString::to_string),
        status: if office.telemetry.health.is_healthy() { "healthy" } else { "degraded" },
        revision: office.reloader.handle().load().revision,
        last_seen: office.clock.now().to_string(),
    };
    ok(&ClusterHealth {
        enabled: false,
        mode: "single",
        node_id: office.facts.node_id.clone(),
        nodes: vec![node],
    })
}

fn show(name: &'static str, store: &CertificateStore, now: Timestamp) -> Option<Certificate> {
    let facts = CertificateFacts::of(&store.leaf()?)?;
    let days_left = (facts.not_after.as_second() - now.as_second()).div_euclid(SECONDS_PER_DAY);
    let status = match (now < facts.not_before, now >= facts.not_after) {
        (true, _) => "not_yet_valid",
        (false, true) => "expired",
        (false, false) if days_left < EXPIRING_DAYS => "expiring",
        (false, false) => "valid",
    };
    Some(Certificate {
        name,
        subject: facts.subject,
        issuer: facts.issuer,
        sans: facts.sans,
        not_before: facts.not_before.to_string(),
        not_after: facts.not_after.to_string(),
        days_left,
        status,
    })
}
