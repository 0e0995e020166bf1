//! `/api/v1/keys`: who may call, without ever showing a key twice.
//!
//! Whoever may only read keys sees those of roles below operator.

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;
use utoipa::ToSchema;

use super::budgets;
use super::budgets::BudgetLimits;
use crate::access::budget::Budget;
use crate::access::key::KeyError;
use crate::access::key::KeyRecord;
use crate::access::key::NewKey;
use crate::access::role::Role;
use crate::access::tier::Tier;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::admin::call::with_status;
use crate::admin::error::ApiError;

/// What is known of a key; never the key.
#[derive(Serialize, ToSchema)]
pub struct KeyEntry {
    /// The key's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: &'static str,
    /// How much it is entitled to.
    pub tier: &'static str,
    /// When it was made.
    pub created_at: String,
    /// When it stops counting.
    pub expires_at: Option<String>,
    /// The provider routes it may use; empty: all.
    pub routes: Vec<String>,
    /// How much it may use; `null`: unlimited.
    pub budget: Option<BudgetLimits>,
    /// When it was last used since the process began.
    pub last_used_at: Option<String>,
}

/// The keys the caller may see, oldest first.
#[derive(Serialize, ToSchema)]
pub struct KeyList {
    /// The keys.
    pub keys: Vec<KeyEntry>,
    /// How many.
    pub total: usize,
}

/// What a new key is to be.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyRequest {
    /// A name for people.
    pub name: String,
    /// `admin`, `operator`, `auditor`, `analyst`, `service` or `agent`.
    pub role: String,
    /// A tier, the deployment's or below; the deployment's where it is absent.
    pub tier: Option<String>,
    /// When it stops counting, in ISO 8601.
    pub expires_at: Option<String>,
    /// The provider routes it may use; absent or empty: all.
    #[serde(default)]
    pub routes: Vec<String>,
    /// How much it may use in a day and in a month; absent: unlimited.
    pub budget: Option<BudgetLimits>,
}

/// A key that was made.
#[derive(Serialize, ToSchema)]
pub struct CreatedKey {
    /// What is known of it from now on.
    #[serde(flatten)]
    pub entry: KeyEntry,
    /// The key itself; it can never be shown again.
    pub key: String,
}

/// A key that was revoked.
#[derive(Serialize, ToSchema)]
pub struct Revoked {
    /// `revoked`.
    pub status: &'static str,
    /// The key's id.
    pub id: String,
}

/// `GET /api/v1/keys`.
pub async fn list(call: Call) -> Answer {
    let visible = call.office.keys.list().into_iter().filter(|record| sees(&call, record));
    let keys: Vec<KeyEntry> = visible.map(|record| entry(&call, record)).collect();
    ok(&KeyList { total: keys.len(), keys })
}

/// `GET /api/v1/keys/{id}`.
pub async fn read(call: Call) -> Answer {
    let id = call.parameter("id");
    let found = call.office.keys.list().into_iter().find(|record| record.id == id && sees(&call, record));
    found.map_or_else(|| Err(unknown()), |record| ok(&entry(&call, record)))
}

/// `POST /api/v1/keys`.
pub async fn create(call: Call) -> Answer {
    let wanted = call.json::<KeyRequest>()?;
    let budget = wanted.budget.map(BudgetLimits::read).transpose()?.filter(Budget::is_limited);
    let new = wanted.read(call.office.tier())?;
    call.ensure_recordable()?;
    let (id, now) = (call.office.new_id(), call.office.clock.now());
    let office = call.office.clone();
    let made = tokio::task::spawn_blocking(move || office.keys.create(id, new, now)).await;
    let (record, key) = made.map_err(|_| call.office.panicked())??;
    // Nobody knows the key before it has its budget.
    if let Some(budget) = budget {
        budgets::set(&call, &record.id, budget).await?;
    }
    let message = format!("a key of role {} was created", record.role.as_str());
    let mut event = call.event("key_created", message);
    event.entity = Some(record.id.clone());
    call.office.record(event).await;
    with_status(http::StatusCode::CREATED, &CreatedKey { entry: entry(&call, record), key })
}

/// `DELETE /api/v1/keys/{id}`.
pub async fn revoke(call: Call) -> Answer {
    call.ensure_recordable()?;
    let id = call.parameter("id").to_owned();
    let (office, wanted) = (call.office.clone(), id.clone());
    let gone = tokio::task::spawn_blocking(move || {
        let was_there = office.keys.revoke(&wanted)?;
        // One that stays behind is nobody's.
        if let Err(error) = office.budgets.remove(&wanted) {
            tracing::warn!(%error, "the budget of a revoked key could not be removed");
        }
        Ok::<bool, KeyError>(was_there)
    });
    let gone = gone.await;
    if !gone.map_err(|_| call.office.panicked())?? {
        return Err(unknown());
    }
    let mut event = call.event("key_revoked", "a key was revoked".to_owned());
    event.entity = Some(id.clone());
    call.office.record(event).await;
    ok(&Revoked { status: "revoked", id })
}

impl KeyRequest {
    fn read(self, deployment: Tier) -> Result<NewKey, ApiError> {
        let role = self.role.parse().map_err(|error| ApiError::Invalid(format!("role: {error}")))?;
        let tier = match self.tier.as_deref() {
            None => deployment,
            Some(name) => name.parse().map_err(|error| ApiError::Invalid(format!("tier: {error}")))?,
        };
        if tier > deployment {
            let limit = deployment.as_str();
            return Err(ApiError::Invalid(format!(
                "tier: no key has more than the deployment's tier, {limit}"
            )));
        }
        let moment = |text: String| {
            text.parse::<Timestamp>()
                .map_err(|_| ApiError::Invalid("expires_at: expected an ISO 8601 time".to_owned()))
        };
        let expires_at = self.expires_at.map(moment).transpose()?;
        Ok(NewKey { name: self.name, role, tier, expires_at, routes: self.routes })
    }
}

pub(super) fn sees(call: &Call, record: &KeyRecord) -> bool {
    let is_admin = call.principal.as_ref().is_some_and(|principal| principal.role == Role::Admin);
    is_admin || !matches!(record.role, Role::Admin | Role::Operator)
}

fn entry(call: &Call, record: KeyRecord) -> KeyEntry {
    KeyEntry {
        budget: call.office.budgets.of(&record.id, call.office.clock.now()).map(|(budget, _)| budget.into()),
        last_used_at: call.office.keys.last_used(&record.id).map(|at| at.to_string()),
        id: record.id,
        name: record.name,
        role: record.role.as_str(),
        tier: record.tier.as_str(),
        routes: record.routes,
        created_at: record.created_at.to_string(),
        expires_at: record.expires_at.map(|at| at.to_string()),
    }
}

pub(super) fn unknown() -> ApiError {
    ApiError::NotFound("there is no such key".to_owned())
}

impl From<KeyError> for ApiError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Name | KeyError::Routes | KeyError::Expired => Self::Invalid(error.to_string()),
            KeyError::TooMany | KeyError::LastAdmin => Self::Conflict(error.to_string()),
            KeyError::Store(_) | KeyError::File(_) => Self::Unavailable,
        }
    }
}
