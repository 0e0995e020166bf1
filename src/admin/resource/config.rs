//! `/api/v1/config`: the effective configuration, and the way to change its reloadable part.

mod shown;

use std::sync::Arc;

use http::HeaderValue;
use http::header;
use serde::Deserialize;
use serde_json::Map;
use serde_json::Value;
use utoipa::ToSchema;

pub use self::shown::ConfigChanged;
pub use self::shown::ConfigTrial;
pub use self::shown::EffectiveConfig;
use crate::access::role::Permission;
use crate::admin::Office;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::admin::call::unchanged;
use crate::admin::error::ApiError;
use crate::document::Document;
use crate::govern::audit::AuditEvent;
use crate::policy::reload::Author;
use crate::policy::reload::Change;
use crate::policy::reload::ChangeError;
use crate::policy::reload::Reach;
use crate::policy::reload::Reloader;
use crate::policy::reload::Run;
use crate::policy::revision::RevisionSource;

/// What it takes to lead a provider's key elsewhere.
const MOVE_KEYS: Permission = Permission("provider_keys:move");
const REVISION_KEY: &str = "revision";

/// Whether a change is only tried.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DryRun {
    #[serde(default)]
    dry_run: bool,
}

impl DryRun {
    /// Returns how the change is to run.
    pub fn run(&self) -> Run {
        if self.dry_run { Run::Dry } else { Run::Real }
    }
}

/// `GET /api/v1/config`.
pub async fn read(call: Call) -> Answer {
    let current = call.office.reloader.current();
    let etag = &current.revision.etag;
    let answer =
        if call.has(etag) { unchanged() } else { ok(&shown(&current.document, current.revision.number))? };
    tagged(answer, etag)
}

/// A JSON merge patch (RFC 7396) of the reloadable part of the configuration: keys as in `gateway.toml`.
#[derive(ToSchema)]
#[schema(value_type = Object)]
pub struct ConfigPatch(pub Map<String, Value>);

/// `PUT /api/v1/config`.
pub async fn change(call: Call) -> Answer {
    let run = call.query::<DryRun>()?.run();
    let mut patch = call.object()?;
    // It is no part of the document: what was read can be sent back.
    patch.remove(REVISION_KEY);
    let if_match = call.if_match()?;
    let author = call.author();
    let change = changed(&call, run, move |reloader| {
        reloader.patch(Value::Object(patch), &author, if_match.as_deref(), run)
    })
    .await?;
    announce(&call, run, "config_changed", &change).await;
    answer(run, &change, call.office.reloader.current().revision.number)
}

/// Runs a change on a thread of its own: compiling takes time.
///
/// # Errors
/// As the change; none is begun while it could not be recorded.
pub async fn changed(
    call: &Call,
    run: Run,
    change: impl FnOnce(&Reloader) -> Result<Change, ChangeError> + Send + 'static,
) -> Result<Change, ApiError> {
    if run == Run::Real {
        call.ensure_recordable()?;
    }
    let office: Arc<Office> = call.office.clone();
    let reloader = office.reloader.clone();
    let made = tokio::task::spawn_blocking(move || change(&reloader)).await;
    made.map_err(|_| office.panicked())?.map_err(ApiError::from)
}

/// Records a change that was made.
pub async fn announce(call: &Call, run: Run, event_type: &str, change: &Change) {
    if let Some(event) = event(call, run, event_type, change) {
        call.office.record(event).await;
    }
}

/// Returns the event of a change that was made; one that left all as it was is none.
pub fn event(call: &Call, run: Run, event_type: &str, change: &Change) -> Option<AuditEvent> {
    let is_new = change.source != RevisionSource::Api || !change.is_nothing();
    let message = format!("revision {} changed {}", change.revision, change.changed.join(", "));
    let event = AuditEvent { revision: Some(change.revision), ..call.event(event_type, message) };
    (run == Run::Real && is_new).then_some(event)
}

/// Answers with the document after a change, or with what a dry run found.
///
/// # Errors
/// The answer cannot be written.
pub fn answer(run: Run, change: &Change, running: u64) -> Answer {
    if run == Run::Real {
        return tagged(ok(&shown(&change.document, change.revision))?, &change.etag);
    }
    ok(&ConfigTrial {
        dry_run: true,
        revision: running,
        changed: change.changed.clone(),
        packs_changed: change.packs_changed,
        needs_restart: change.needs_restart.clone(),
        config: change.document.masked(),
    })
}

/// Puts an `ETag` on an answer.
///
/// # Errors
/// Never for a digest.
pub fn tagged(answer: axum::response::Response, etag: &str) -> Answer {
    let mut answer = answer;
    let value = HeaderValue::from_str(etag).map_err(|_| ApiError::Internal)?;
    answer.headers_mut().insert(header::ETAG, value);
    Ok(answer)
}

fn shown(document: &Document, revision: u64) -> Value {
    let mut shown = document.masked();
    if let Some(table) = shown.as_object_mut() {
        table.insert(REVISION_KEY.to_owned(), Value::from(revision));
    }
    shown
}

impl Call {
    /// Returns who makes the change that this call asks for.
    pub fn author(&self) -> Author {
        let may_move = self.principal.as_ref().is_some_and(|it| it.may(MOVE_KEYS));
        let reach = if may_move { Reach::Secrets } else { Reach::Rules };
        Author { name: self.actor().unwrap_or_default(), reach }
    }

    /// Tells whether the caller has what is of a digest already, as `If-None-Match` says; what cannot be read says nothing.
    fn has(&self, etag: &str) -> bool {
        let lines = self.headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
        let mut tags = lines.flat_map(|line| line.split(',')).map(str::trim);
        tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
    }

    /// Returns the digest the caller believes to be in force; of several, the one that is.
    ///
    /// # Errors
    /// The header is malformed, or names none: nothing fits that.
    pub fn if_match(&self) -> Result<Option<String>, ApiError> {
        let Some(value) = self.headers.get(header::IF_MATCH) else { return Ok(None) };
        let text = value.to_str().map_err(|_| ApiError::Invalid("If-Match is malformed".to_owned()))?;
        let tags: Vec<&str> = text.split(',').map(str::trim).filter(|tag| !tag.is_empty()).collect();
        let running = self.office.reloader.current().revision.etag.clone();
        let fits = tags.iter().find(|tag| **tag == "*" || **tag == running);
        let tag = fits.or(tags.first()).ok_or(ApiError::PreconditionFailed)?;
        Ok(Some((*tag).to_owned()))
    }
}

impl From<ChangeError> for ApiError {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Faulty(faults) => Self::Faults {
                message: "the configuration is faulty; nothing was changed",
                faults: faults.iter().map(ToString::to_string).collect(),
            },
            ChangeError::OutOfReach => Self::Forbidden(MOVE_KEYS),
            ChangeError::Stale { .. } => Self::PreconditionFailed,
            ChangeError::Overtaken | ChangeError::PolicyTaken => Self::Conflict(error.to_string()),
            ChangeError::UnknownRevision => {
                Self::NotFound("there is no such revision, or it is not kept any more".to_owned())
            }
            ChangeError::UnknownProfile => Self::NotFound("there is no such profile".to_owned()),
            ChangeError::Store(_) => Self::Unavailable,
        }
    }
}
