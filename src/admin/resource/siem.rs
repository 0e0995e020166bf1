//! `/api/v1/siem/status`: how the forwarding of the audit log stands.

use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::govern::siem::SinkStatus;

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
    /// What it speaks to: `splunk_hec`, `elastic`, `syslog`, `webhook` or `ocsf_file`.
    pub platform: &'static str,
    /// `idle` before the first attempt, `connected` after one that succeeded, `retrying` after one that failed.
    pub status: &'static str,
    /// How many entries the platform has taken.
    pub events_forwarded: u64,
    /// When it took the last one, in ISO 8601.
    pub last_forward: Option<String>,
    /// How many attempts failed.
    pub errors: u64,
    /// How many entries it refused for good.
    pub dead_letters: u64,
    /// How many entries the log's retention dropped before they could be sent.
    pub events_missed: u64,
    /// The last audit entry that is done with; what is newer waits.
    pub cursor: Option<String>,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
}

/// `GET /api/v1/siem/status`.
pub async fn status(call: Call) -> Answer {
    let sinks = call.office.sinks.all();
    ok(&SiemStatus { enabled: !sinks.is_empty(), platforms: sinks.iter().map(|sink| show(sink)).collect() })
}

fn show(sink: &SinkStatus) -> SiemPlatform {
    let told = sink.told();
    SiemPlatform {
        name: sink.name.clone(),
        platform: sink.platform,
        status: told.state.as_str(),
        events_forwarded: told.forwarded,
        last_forward: told.last_forward.map(|at| at.to_string()),
        errors: told.errors,
        dead_letters: told.dead,
        events_missed: told.missed,
        cursor: told.cursor,
        last_error: told.trouble,
    }
}
