//! `/version`, `/stats`, `/api/v1/status`: which program runs, and what it did today.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use super::health;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::clock::rfc3339;
use crate::telemetry::health::Dependency;

/// The running release.
#[derive(Serialize, ToSchema)]
pub struct VersionRecord {
    /// The release.
    pub version: String,
    /// The commit it was built from.
    pub commit: String,
    /// When it was built, in ISO 8601.
    pub build_date: String,
}

/// The figures of the current UTC day, of this node: those of exchanges with providers outlast a restart, unless nodes share
/// a store.
#[derive(Serialize, ToSchema)]
pub struct Statistics {
    /// Requests answered.
    pub requests_today: u64,
    /// Exchanges that a policy blocked.
    pub threats_blocked: u64,
    /// The mean time an exchange took, in milliseconds.
    pub avg_latency_ms: f64,
}

/// The running node.
#[derive(Serialize, ToSchema)]
pub struct NodeStatus {
    /// `healthy` or `degraded`.
    pub status: &'static str,
    /// The running release.
    pub version: String,
    /// The deployment's tier.
    pub tier: &'static str,
    /// How long the process has run.
    pub uptime_seconds: u64,
    /// The node's name.
    pub node_id: String,
    /// The revision in force.
    pub revision: u64,
    /// `up` or `down` by name.
    pub dependencies: BTreeMap<&'static str, &'static str>,
    /// When the process began.
    pub started_at: String,
}

/// `GET /version`.
pub async fn version(call: Call) -> Answer {
    let build = call.office.facts.build.clone();
    ok(&VersionRecord { version: build.version, commit: build.commit, build_date: build.build_date })
}

/// `GET /stats`.
pub async fn stats(call: Call) -> Answer {
    let figures = call.office.telemetry.today.figures(call.office.clock.now());
    ok(&Statistics {
        requests_today: figures.requests,
        threats_blocked: figures.threats_blocked,
        avg_latency_ms: figures.latency_ms_mean(),
    })
}

/// `GET /api/v1/status`.
pub async fn status(call: Call) -> Answer {
    let office = &call.office;
    let uptime = office.clock.monotonic().saturating_sub(office.facts.started);
    ok(&NodeStatus {
        status: health::status_name(office),
        version: office.facts.build.version.clone(),
        tier: office.tier().as_str(),
        uptime_seconds: uptime.as_secs(),
        node_id: office.facts.node_id.clone(),
        revision: office.reloader.current().revision.number,
        dependencies: health::dependencies(office, &Dependency::ALL),
        started_at: rfc3339(office.facts.started_at),
    })
}
