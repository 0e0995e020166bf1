//! `/api/v1/config/revisions` and `/api/v1/config/rollback`: what was in force, and the way back.

use serde::Deserialize;
use serde::Serialize;
use utoipa::ToSchema;

use super::config;
use super::config::DryRun;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::admin::error::ApiError;
use crate::clock::rfc3339;
use crate::policy::reload::Reloader;
use crate::policy::revision::REVISIONS_MAX;
use crate::policy::revision::Revision;
use crate::store::StoreError;

const LISTED_DEFAULT: usize = 100;

/// One accepted change.
#[derive(Serialize, ToSchema)]
pub struct RevisionEntry {
    /// Its number.
    pub revision: u64,
    /// Who brought it.
    pub author: String,
    /// How it came: `start`, `file`, `api`, `profile` or `rollback`.
    pub source: &'static str,
    /// When it was accepted.
    pub created_at: String,
    /// The digest of the whole document.
    pub etag: String,
    /// Whether it is in force.
    pub active: bool,
}

/// Accepted changes, newest first.
#[derive(Serialize, ToSchema)]
pub struct RevisionList {
    /// The changes.
    pub revisions: Vec<RevisionEntry>,
    /// How many are kept.
    pub total: usize,
    /// The revision in force.
    pub revision: u64,
}

/// The revision to go back to.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rollback {
    /// Its number.
    pub revision: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listing {
    limit: Option<usize>,
}

/// `GET /api/v1/config/revisions`.
pub async fn list(call: Call) -> Answer {
    let limit = call.query::<Listing>()?.limit.unwrap_or(LISTED_DEFAULT);
    if !(1..=REVISIONS_MAX).contains(&limit) {
        return Err(ApiError::Invalid(format!("limit must lie between 1 and {REVISIONS_MAX}")));
    }
    let running = call.office.reloader.current().revision.number;
    let office = call.office.clone();
    let read = move || {
        let kept = office.reloader.revisions();
        Ok::<_, StoreError>((kept.newest(limit)?, kept.count()?))
    };
    let found = tokio::task::spawn_blocking(read).await;
    let (found, total) = found.map_err(|_| call.office.panicked())?.map_err(|_| ApiError::Unavailable)?;
    let revisions = found.into_iter().map(|revision| entry(revision, running)).collect();
    ok(&RevisionList { total, revisions, revision: running })
}

/// `POST /api/v1/config/rollback`.
pub async fn rollback(call: Call) -> Answer {
    let run = call.query::<DryRun>()?.run();
    let wanted = call.json::<Rollback>()?.revision;
    if i64::try_from(wanted).is_err() {
        return Err(ApiError::Invalid("revision must be the number of one that was".to_owned()));
    }
    let (author, if_match) = (call.author(), call.if_match()?);
    let back = move |reloader: &Reloader| reloader.rollback(wanted, &author, if_match.as_deref(), run);
    let change = config::changed(&call, run, back).await?;
    config::announce(&call, run, "config_rolled_back", &change).await;
    config::answer(run, &change, call.office.reloader.current().revision.number)
}

fn entry(revision: Revision, running: u64) -> RevisionEntry {
    RevisionEntry {
        revision: revision.number,
        author: revision.author,
        source: revision.source.as_str(),
        created_at: rfc3339(revision.created_at),
        etag: revision.etag,
        active: revision.number == running,
    }
}
