//! `/api/v1/legal-holds`: whose record must not be erased.

use serde::Deserialize;
use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::admin::call::with_status;
use crate::admin::error::ApiError;
use crate::clock::rfc3339;
use crate::govern::audit::AuditEvent;
use crate::govern::privacy::FieldFault;
use crate::govern::privacy::Hold;
use crate::govern::privacy::HoldError;
use crate::govern::privacy::HoldId;
use crate::govern::privacy::NewHold;
use crate::govern::privacy::PrivacyError;
use crate::govern::privacy::ProviderError;

/// A legal hold; it stays on record when it is released.
#[derive(Serialize, ToSchema)]
pub struct HoldEntry {
    /// `hold_` and a number.
    pub id: String,
    /// Whose record is held; `[erased]` once it was released and the entity was erased.
    pub entity_id: String,
    /// What the entity is, e.g. `user`.
    pub entity_type: String,
    /// Why.
    pub reason: String,
    /// Who says so.
    pub issued_by: String,
    /// When it was taken, in ISO 8601.
    pub created_at: String,
    /// `active` or `released`.
    pub status: &'static str,
    /// When it was released, in ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub released_at: Option<String>,
}

/// What a hold is to be.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HoldRequest {
    /// Whose record is to be held.
    pub entity_id: String,
    /// What the entity is, e.g. `user`.
    pub entity_type: String,
    /// Why.
    pub reason: String,
    /// Who says so.
    pub issued_by: String,
}

/// A hold that was released.
#[derive(Serialize, ToSchema)]
pub struct Released {
    /// `released`.
    pub status: &'static str,
}

/// Whether an entity is under a hold.
#[derive(Serialize, ToSchema)]
pub struct UnderHold {
    /// Whether it is.
    pub under_hold: bool,
}

/// `POST /api/v1/legal-holds`.
pub async fn create(call: Call) -> Answer {
    let arrival = call.office.privacy.arrival();
    let HoldRequest { entity_id, entity_type, reason, issued_by } = call.json()?;
    call.ensure_recordable()?;
    let entity_id = entity_id.trim().to_owned();
    let told = NewHold { entity_id, entity_type, reason, issued_by };
    let office = call.office.clone();
    let made = tokio::task::spawn_blocking(move || office.privacy.hold(told, arrival)).await;
    let made = made.map_err(|_| call.office.panicked())?;
    if let Err(HoldError::Erased) = &made {
        let mut event =
            call.event("hold_refused", "a legal hold came while its entity was erased".to_owned());
        event.action = "block".to_owned();
        call.office.record(event).await;
    }
    let hold = made?;
    let mut event = call.event("hold_created", format!("legal hold {} was taken", hold.id));
    event.entity = Some(hold.told.entity_id.clone());
    call.office.record(event).await;
    with_status(http::StatusCode::CREATED, &entry(hold))
}

/// `GET /api/v1/legal-holds`.
pub async fn list(call: Call) -> Answer {
    let office = call.office.clone();
    let holds = tokio::task::spawn_blocking(move || office.privacy.holds()).await;
    let holds = holds.map_err(|_| call.office.panicked())??;
    ok(&holds.into_iter().map(entry).collect::<Vec<_>>())
}

/// `GET /api/v1/legal-holds/{id}`.
pub async fn read(call: Call) -> Answer {
    let id = id(&call)?;
    let office = call.office.clone();
    let hold = tokio::task::spawn_blocking(move || office.privacy.hold_of(id)).await;
    let hold = hold.map_err(|_| call.office.panicked())??;
    hold.map_or_else(|| Err(unknown(&call)), |hold| ok(&entry(hold)))
}

/// `DELETE /api/v1/legal-holds/{id}`.
pub async fn release(call: Call) -> Answer {
    let id = id(&call)?;
    call.ensure_recordable()?;
    let (office, actor) = (call.office.clone(), call.actor());
    let released = tokio::task::spawn_blocking(move || office.privacy.release(id, actor)).await;
    let released = released.map_err(|_| call.office.panicked())??;
    let (hold, is_to_record) = released.ok_or_else(|| unknown(&call))?;
    if is_to_record {
        let AuditEvent { event_type, message, entity, .. } = hold.released();
        call.office.record(AuditEvent { entity, ..call.event(&event_type, message) }).await;
    }
    ok(&Released { status: "released" })
}

/// `GET /api/v1/legal-holds/check/{entityID}`. A name that nobody can have is under no hold.
pub async fn check(call: Call) -> Answer {
    let (office, entity) = (call.office.clone(), call.parameter("entityID").trim().to_owned());
    let under_hold = tokio::task::spawn_blocking(move || office.privacy.is_held(&entity)).await;
    ok(&UnderHold { under_hold: under_hold.map_err(|_| call.office.panicked())? })
}

fn id(call: &Call) -> Result<HoldId, ApiError> {
    call.parameter("id").parse().map_err(|_| unknown(call))
}

fn unknown(call: &Call) -> ApiError {
    ApiError::NotFound(format!("there is no legal hold {}", call.parameter("id")))
}

fn entry(hold: Hold) -> HoldEntry {
    let NewHold { entity_id, entity_type, reason, issued_by } = hold.told;
    HoldEntry {
        id: hold.id.to_string(),
        entity_id,
        entity_type,
        reason,
        issued_by,
        created_at: rfc3339(hold.created_at),
        status: if hold.released_at.is_some() { "released" } else { "active" },
        released_at: hold.released_at.map(rfc3339),
    }
}

impl From<FieldFault> for ApiError {
    fn from(fault: FieldFault) -> Self {
        Self::Invalid(fault.to_string())
    }
}

impl From<HoldError> for ApiError {
    fn from(error: HoldError) -> Self {
        match error {
            HoldError::Field(_) => Self::Invalid(error.to_string()),
            HoldError::Erased | HoldError::TooMany => Self::Conflict(error.to_string()),
            HoldError::Privacy(error) => error.into(),
        }
    }
}

impl From<PrivacyError> for ApiError {
    fn from(error: PrivacyError) -> Self {
        match error {
            PrivacyError::Provider(ProviderError::Refused(reason)) => Self::Conflict(reason),
            PrivacyError::Full => Self::Conflict(error.to_string()),
            PrivacyError::Store(_) | PrivacyError::Keys(_) | PrivacyError::Provider(_) => Self::Unavailable,
        }
    }
}
