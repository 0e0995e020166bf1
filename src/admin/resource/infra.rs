//! `/api/v1/certs`, `/api/v1/cluster/health`: what the node serves with, and the nodes there are.

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::Office;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::clock::rfc3339;
use crate::cluster::AuditFacts;
use crate::cluster::Lease;
use crate::cluster::Node;
use crate::cluster::NodeFacts;
use crate::govern::audit::ShipStatus;
use crate::tls::CertificateStore;
use crate::tls::facts::Validity;

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
    /// `single`: the node keeps its own state; `cluster`: nodes share it.
    pub mode: &'static str,
    /// `healthy`; `degraded` where a node is missing, behind or not well itself.
    pub status: &'static str,
    /// The node that answers.
    pub node_id: String,
    /// The newest revision of the rules that a node serves.
    pub revision: u64,
    /// Every node that was heard of in the last day.
    pub nodes: Vec<ClusterNode>,
    /// What only one node does at a time, and which one does it.
    pub jobs: Vec<ClusterJob>,
}

/// What only one node does at a time.
#[derive(Serialize, ToSchema)]
pub struct ClusterJob {
    /// What it is: `audit_checkpoint`, `audit_retention`, `audit_verification` or `erasures`.
    pub name: &'static str,
    /// The node that does it; `null` while nobody does.
    pub node_id: Option<String>,
    /// Since when, in ISO 8601.
    pub since: Option<String>,
}

/// How far a node's audit log was shipped to the database that nodes share.
#[derive(Serialize, ToSchema)]
pub struct ClusterAudit {
    /// The number of the newest entry that was shipped; 0: none was.
    pub shipped: u64,
    /// How many entries were waiting to be, when the node was heard of last.
    pub waiting: u64,
    /// How long the oldest of them had been, in seconds.
    pub waiting_seconds: f64,
}

/// One node.
#[derive(Serialize, ToSchema)]
pub struct ClusterNode {
    /// Its name.
    pub id: String,
    /// The first address of its management listener; `null` where it has none.
    pub address: Option<String>,
    /// `healthy`, `degraded` where it says so itself, `behind` where it serves an older revision than another
    /// node, `missing` where it was not heard for 5 seconds.
    pub status: &'static str,
    /// The release it runs.
    pub release: String,
    /// The revision of the rules it serves.
    pub revision: u64,
    /// How many revisions of another node it does not serve yet.
    pub lag: u64,
    /// When it was heard of last, by its own clock, in ISO 8601.
    pub last_seen: String,
    /// How long ago that was, by the clock of the node that answers, in milliseconds.
    pub silent_ms: u64,
    /// How far its audit log was shipped; `null` where nothing is shipped.
    pub audit: Option<ClusterAudit>,
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
    let own = Node {
        id: office.facts.node_id.clone(),
        facts: NodeFacts {
            address: office.facts.addresses.first().map(ToString::to_string),
            release: office.facts.build.version.clone(),
            revision: office.reloader.handle().load().revision,
            is_healthy: office.telemetry.health.is_healthy(),
            audit: office.audit.shipping().map(|shipping| facts_of(&shipping.status())),
        },
        at: office.clock.now(),
        silent_ms: 0,
        is_there: true,
    };
    let Some(members) = &office.members else {
        return ok(&nodes("single", &own.id.clone(), vec![own], Vec::new()));
    };
    let mut all = members.nodes();
    let is_seen = all.iter().any(|node| node.id == own.id);
    if !is_seen || !members.is_in_touch() {
        // What it would be told of itself is old; and as long as it has not seen itself, it knows of nobody else.
        all.retain(|node| node.id != own.id);
        all.push(Node { facts: NodeFacts { is_healthy: false, ..own.facts.clone() }, ..own.clone() });
    }
    let held = office.leases.as_ref().map(|leases| leases.held()).unwrap_or_default();
    let job = |(name, lease): (&'static str, Option<Lease>)| ClusterJob {
        name,
        since: lease.as_ref().map(|lease| rfc3339(lease.since)),
        node_id: lease.map(|lease| lease.node),
    };
    ok(&nodes("cluster", &own.id, all, held.into_iter().map(job).collect()))
}

/// Returns what a node tells of its audit log.
pub fn facts_of(status: &ShipStatus) -> AuditFacts {
    let waiting_ms = u64::try_from(status.waiting_for.as_millis()).unwrap_or(u64::MAX);
    AuditFacts { shipped: status.sequence, waiting: status.waiting, waiting_ms }
}

fn nodes(mode: &'static str, node_id: &str, all: Vec<Node>, jobs: Vec<ClusterJob>) -> ClusterHealth {
    let newest = all.iter().filter(|node| node.is_there).map(|node| node.facts.revision).max().unwrap_or(0);
    let shown: Vec<ClusterNode> = all.into_iter().map(|node| node_of(node, newest)).collect();
    let is_well = shown.iter().all(|node| node.status == "healthy");
    ClusterHealth {
        enabled: mode == "cluster",
        mode,
        status: if is_well { "healthy" } else { "degraded" },
        node_id: node_id.to_owned(),
        revision: newest,
        nodes: shown,
        jobs,
    }
}

fn node_of(node: Node, newest: u64) -> ClusterNode {
    let lag = newest.saturating_sub(node.facts.revision);
    let status = match (node.is_there, lag, node.facts.is_healthy) {
        (false, ..) => "missing",
        (true, 1.., _) => "behind",
        (true, 0, false) => "degraded",
        (true, 0, true) => "healthy",
    };
    ClusterNode {
        id: node.id,
        address: node.facts.address,
        status,
        release: node.facts.release,
        revision: node.facts.revision,
        lag,
        last_seen: rfc3339(node.at),
        silent_ms: node.silent_ms,
        audit: node.facts.audit.map(|audit| ClusterAudit {
            shipped: audit.shipped,
            waiting: audit.waiting,
            waiting_seconds: audit.waiting_ms as f64 / 1000.0,
        }),
    }
}

/// Tells whether every certificate that is served counts at this moment: clients refuse one that has ended.
pub fn all_count(office: &Office) -> bool {
    let now = office.clock.now();
    let served = office.certificates.iter().filter_map(|(_, store)| store.facts());
    served.into_iter().all(|facts| facts.validity(now).counts())
}

/// Returns what is to be said of certificates that end soon.
pub fn warnings(office: &Office) -> Vec<String> {
    let now = office.clock.now();
    let served = office.certificates.iter().filter_map(|(name, store)| Some((name, store.facts()?)));
    let ending = served.filter(|(_, facts)| facts.validity(now) == Validity::Expiring);
    let told = ending.map(|(name, facts)| format!("the certificate of {name} ends at {}", facts.not_after));
    told.collect()
}

fn show(name: &'static str, store: &CertificateStore, now: Timestamp) -> Option<Certificate> {
    let facts = store.facts()?;
    Some(Certificate {
        name,
        days_left: facts.days_left(now),
        status: facts.validity(now).as_str(),
        subject: facts.subject,
        issuer: facts.issuer,
        sans: facts.sans,
        not_before: facts.not_before.to_string(),
        not_after: facts.not_after.to_string(),
    })
}
