//! `/api/v1/persistence`: what lies on disk.

use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::admin::error::ApiError;
use crate::clock::rfc3339;

/// The name of the backend that forgets everything with the process.
const IN_MEMORY: &str = "in-memory";
const SECONDS_PER_DAY: u64 = 86_400;

/// The state on disk.
#[derive(Serialize, ToSchema)]
pub struct Persistence {
    /// Whether state outlives the process.
    pub enabled: bool,
    /// The name of the store's backend.
    pub backend: &'static str,
    /// Entries of the audit log.
    pub entry_count: u64,
    /// The hash of the newest entry of the audit log.
    pub last_hash: Option<String>,
    /// What journal and store take, in bytes.
    pub size_bytes: u64,
    /// How long audit entries are kept; `null`: for ever.
    pub retention_days: Option<u64>,
    /// How large the journal may be, in bytes, before its oldest entries go; `null`: as large as it gets.
    pub retention_bytes: Option<u64>,
    /// When the oldest entry of the audit log was recorded.
    pub oldest_entry: Option<String>,
}

/// `GET /api/v1/persistence`.
pub async fn persistence(call: Call) -> Answer {
    let office = &call.office;
    let log = office.audit.status().await.map_err(|_| ApiError::Unavailable)?;
    let store_bytes = office.store.size_bytes().map_err(|_| ApiError::Unavailable)?;
    ok(&Persistence {
        enabled: office.store.backend_name() != IN_MEMORY,
        backend: office.store.backend_name(),
        entry_count: log.entry_count,
        last_hash: log.last_hash.map(|hash| hash.to_string()),
        size_bytes: log.size_bytes + store_bytes,
        retention_days: log.retention_age.map(|age| age.as_secs() / SECONDS_PER_DAY),
        retention_bytes: log.retention_bytes,
        oldest_entry: log.oldest.map(rfc3339),
    })
}
