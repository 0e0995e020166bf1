//! `/api/v1/siem/status`: how the forwarding of the audit log stands.

use jiff::SignedDuration;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::Office;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::admin::error::ApiError;
use crate::clock::rfc3339;
use crate::govern::audit::Query;
use crate::govern::compliance::facts::LATE_MINUTES;
use crate::govern::siem::SinkStatus;
use crate::govern::siem::Told;

/// How forwarding stands.
#[derive(Serialize, ToSchema)]
pub struct SiemStatus {
    /// Whether anything is forwarded.
    pub enabled: bool,
    /// The sinks, in the order of the configuration.
    pub platforms: Vec<SiemPlatform>,
}

/// One sink.
#[derive(Serialize, ToSchema)]
pub struct SiemPlatform {
    /// The sink's name.
    pub name: String,
    /// What it speaks to: `splunk_hec`, `elastic`, `syslog`, `webhook`, `ocsf_file` or `nats`.
    pub platform: &'static str,
    /// `idle` before the first attempt, `connected` after one that succeeded, `retrying` after one that failed; `failed`
    /// while the sink does not run at all: it could not be opened, or broke down, and is begun again.
    pub status: &'static str,
    /// How many entries the platform has taken, each counted once, however often it was sent.
    pub events_forwarded: u64,
    /// When it took the last one, in ISO 8601.
    pub last_forward: Option<String>,
    /// How many attempts failed.
    pub errors: u64,
    /// How many entries it refused for good.
    pub dead_letters: u64,
    /// How many entries the log's retention dropped before they could be sent.
    pub events_missed: u64,
    /// How many entries of this node wait for longer than 15 minutes.
    pub events_late: u64,
    /// The last audit entry that is done with; what is newer waits.
    pub cursor: Option<String>,
    /// Why the last attempt failed, or why it does not run.
    pub last_error: Option<String>,
}

/// `GET /api/v1/siem/status`.
pub async fn status(call: Call) -> Answer {
    let (sinks, now) = (call.office.sinks.all(), call.office.clock.now());
    let mut platforms = Vec::with_capacity(sinks.len());
    for sink in &sinks {
        let told = sink.told();
        let late = late(&call.office, &told, now).await?;
        platforms.push(show(sink, told, late));
    }
    ok(&SiemStatus { enabled: !platforms.is_empty(), platforms })
}

/// Returns how many entries a sink has not sent that were recorded more than [`LATE_MINUTES`] ago; it forwards what its
/// own node recorded.
///
/// # Errors
/// The audit log failed.
pub(super) async fn late(office: &Office, told: &Told, now: Timestamp) -> Result<u64, ApiError> {
    let after = told.cursor.as_deref().and_then(|id| id.parse().ok());
    let to = Some(now - SignedDuration::from_mins(LATE_MINUTES));
    let node = Some(office.facts.node_id.clone());
    let query = Query { after, to, node, limit: 1, ..Query::default() };
    office.audit.query(query).await.map(|page| page.total).map_err(|_| ApiError::Unavailable)
}

fn show(sink: &SinkStatus, told: Told, late: u64) -> SiemPlatform {
    SiemPlatform {
        name: sink.name.clone(),
        platform: sink.platform,
        status: told.state.as_str(),
        events_forwarded: told.forwarded,
        last_forward: told.last_forward.map(rfc3339),
        errors: told.errors,
        dead_letters: told.dead,
        events_missed: told.missed,
        events_late: late,
        cursor: told.cursor,
        last_error: told.trouble,
    }
}
