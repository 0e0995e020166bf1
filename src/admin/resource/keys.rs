//! `/api/v1/keys`: who may call, without ever showing a key twice.
//!
//! Whoever may only read keys sees those of roles below operator.

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;
use utoipa::ToSchema;

use super::budgets;
use super::budgets::BudgetLimits;
use super::wire::object_or_null;
use crate::access::budget::Budget;
use crate::access::key::KeyError;
use crate::access::key::KeyRecord;
use crate::access::key::NewKey;
use crate::access::role::Role;
use crate::access::scope::Scope;
use crate::access::tier::Tier;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::admin::call::with_status;
use crate::admin::error::ApiError;
use crate::admin::resource::wire::given;
use crate::clock::rfc3339;

/// What is told of a time that cannot be read.
const NO_MOMENT: &str = "expires_at: expected an RFC 3339 time with its offset, such as 2027-12-31T00:00:00Z, up to \
                         9999-12-30; left out or null, it is never";

/// What is known of a key; never the key.
#[derive(Serialize, ToSchema)]
pub struct KeyEntry {
    /// The key's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: &'static str,
    /// How much it is entitled to now: its own tier, or the deployment's where that is below or it has none.
    pub tier: &'static str,
    /// When it was made.
    pub created_at: String,
    /// When it stops counting.
    pub expires_at: Option<String>,
    /// The provider routes it may use, as globs; empty: all.
    pub routes: Vec<String>,
    /// The models it may ask for, as globs; empty: all.
    pub models: Vec<String>,
    /// The tools it may offer, choose or call, as globs; empty: all.
    pub tools: Vec<String>,
    /// How much it may use; `null`: unlimited.
    pub budget: Option<BudgetLimits>,
    /// When it was last used.
    pub last_used_at: Option<String>,
    /// When its text was last replaced.
    pub rotated_at: Option<String>,
    /// Until when the text before that counts, while it does.
    pub previous_expires_at: Option<String>,
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
    /// A tier, the deployment's or below; absent: as much as the deployment, also when that changes.
    pub tier: Option<String>,
    /// When it stops counting, in RFC 3339 with an offset; absent: never.
    pub expires_at: Option<String>,
    /// The provider routes it may use, by name or glob (`team-*`); absent or empty: all.
    #[serde(default)]
    pub routes: Vec<String>,
    /// The models it may ask for, likewise.
    #[serde(default)]
    pub models: Vec<String>,
    /// The tools it may offer, choose or call, likewise.
    #[serde(default)]
    pub tools: Vec<String>,
    /// How much it may use in a day and in a month; absent: unlimited.
    #[serde(default, deserialize_with = "object_or_null")]
    pub budget: Option<BudgetLimits>,
}

/// What is to be different; what is absent stays.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyPatch {
    /// Another name.
    pub name: Option<String>,
    /// Another role.
    pub role: Option<String>,
    /// Another tier; null: as much as the deployment.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    pub tier: Option<Option<String>>,
    /// Another end, in RFC 3339 with an offset; null: none.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    pub expires_at: Option<Option<String>>,
    /// Other routes; empty: all.
    pub routes: Option<Vec<String>>,
    /// Other models; empty: all.
    pub models: Option<Vec<String>>,
    /// Other tools; empty: all.
    pub tools: Option<Vec<String>>,
}

/// How a key's text is replaced; one that has expired is given another end first (409).
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyRotation {
    /// How long the text before goes on counting, in seconds, at most 30 days; absent: not at all.
    #[serde(default)]
    pub overlap_s: u64,
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
    let found = call.office.keys.get(call.parameter("id")).filter(|record| sees(&call, record));
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

/// `PATCH /api/v1/keys/{id}`.
pub async fn change(call: Call) -> Answer {
    let patch = call.json::<KeyPatch>()?.read(call.office.tier())?;
    call.ensure_recordable()?;
    let (office, id, now) = (call.office.clone(), call.parameter("id").to_owned(), call.office.clock.now());
    let told = patch.told.join(", ");
    let changed = tokio::task::spawn_blocking(move || {
        if patch.name.is_some() {
            office.privacy.keep_names(&id)?;
        }
        Ok::<KeyRecord, ApiError>(office.keys.change(&id, |key| patch.clone().apply(key), now)?)
    });
    let record = changed.await.map_err(|_| call.office.panicked())??;
    let mut event = call.event("key_changed", format!("a key was changed: {told}"));
    event.entity = Some(record.id.clone());
    call.office.record(event).await;
    ok(&entry(&call, record))
}

/// `POST /api/v1/keys/{id}/rotate`.
pub async fn rotate(call: Call) -> Answer {
    let rotation = match call.body.is_empty() {
        true => KeyRotation::default(),
        false => call.json()?,
    };
    call.ensure_recordable()?;
    let (office, id, now) = (call.office.clone(), call.parameter("id").to_owned(), call.office.clock.now());
    let overlap = Duration::from_secs(rotation.overlap_s);
    let rotated = tokio::task::spawn_blocking(move || office.keys.rotate(&id, overlap, now)).await;
    let (record, key) = rotated.map_err(|_| call.office.panicked())??;
    let message = format!("a key was replaced; the one before counts for {} s", rotation.overlap_s);
    let mut event = call.event("key_rotated", message);
    event.entity = Some(record.id.clone());
    call.office.record(event).await;
    ok(&CreatedKey { entry: entry(&call, record), key })
}

/// `DELETE /api/v1/keys/{id}`.
///
/// A legal hold does not keep a key alive: whoever revokes one may do so because it leaked. What it did stays on record,
/// and whoever is called as the key was stays held.
pub async fn revoke(call: Call) -> Answer {
    call.ensure_recordable()?;
    let id = call.parameter("id").to_owned();
    let (office, wanted) = (call.office.clone(), id.clone());
    let now = office.clock.now();
    let gone = tokio::task::spawn_blocking(move || {
        office.privacy.keep_names(&wanted)?;
        let was_there = office.keys.revoke(&wanted, now)?;
        // One that stays behind is nobody's.
        if let Err(error) = office.budgets.remove(&wanted) {
            tracing::warn!(%error, "the budget of a revoked key could not be removed");
        }
        Ok::<bool, ApiError>(was_there)
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

/// A change that was read.
#[derive(Clone, Default)]
struct Patch {
    name: Option<String>,
    role: Option<Role>,
    tier: Option<Tier>,
    expires_at: Option<Option<Timestamp>>,
    routes: Option<Vec<String>>,
    models: Option<Vec<String>>,
    tools: Option<Vec<String>>,
    /// The names of what it changes.
    told: Vec<&'static str>,
}

impl KeyRequest {
    fn read(self, deployment: Tier) -> Result<NewKey, ApiError> {
        let Self { name, role, tier, expires_at, routes, models, tools, budget: _ } = self;
        Ok(NewKey {
            name,
            role: read_role(&role)?,
            tier: read_tier(tier.as_deref(), deployment)?,
            expires_at: expires_at.as_deref().map(read_moment).transpose()?,
            scope: Scope { routes, models, tools },
        })
    }
}

impl KeyPatch {
    fn read(self, deployment: Tier) -> Result<Patch, ApiError> {
        let Self { name, role, tier, expires_at, routes, models, tools } = self;
        let told = [
            ("name", name.is_some()),
            ("role", role.is_some()),
            ("tier", tier.is_some()),
            ("expires_at", expires_at.is_some()),
            ("routes", routes.is_some()),
            ("models", models.is_some()),
            ("tools", tools.is_some()),
        ];
        let told: Vec<_> = told.into_iter().filter(|(_, is_told)| *is_told).map(|(name, _)| name).collect();
        if told.is_empty() {
            return Err(ApiError::Invalid("the body changes nothing".to_owned()));
        }
        Ok(Patch {
            name,
            role: role.as_deref().map(read_role).transpose()?,
            tier: tier.map(|tier| read_tier(tier.as_deref(), deployment)).transpose()?,
            expires_at: match expires_at {
                None => None,
                Some(at) => Some(at.as_deref().map(read_moment).transpose()?),
            },
            routes,
            models,
            tools,
            told,
        })
    }
}

impl Patch {
    fn apply(self, key: &mut NewKey) {
        fn put<T>(place: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *place = value;
            }
        }
        put(&mut key.name, self.name);
        put(&mut key.role, self.role);
        put(&mut key.tier, self.tier);
        put(&mut key.expires_at, self.expires_at);
        put(&mut key.scope.routes, self.routes);
        put(&mut key.scope.models, self.models);
        put(&mut key.scope.tools, self.tools);
    }
}

fn read_role(name: &str) -> Result<Role, ApiError> {
    name.parse().map_err(|error| ApiError::Invalid(format!("role: {error}")))
}

fn read_tier(name: Option<&str>, deployment: Tier) -> Result<Tier, ApiError> {
    let Some(name) = name else { return Ok(Tier::OF_THE_DEPLOYMENT) };
    let tier: Tier = name.parse().map_err(|error| ApiError::Invalid(format!("tier: {error}")))?;
    if tier <= deployment {
        return Ok(tier);
    }
    let limit = deployment.as_str();
    Err(ApiError::Invalid(format!("tier: no key has more than the deployment's tier, {limit}")))
}

fn read_moment(text: &str) -> Result<Timestamp, ApiError> {
    text.parse().map_err(|_| ApiError::Invalid(NO_MOMENT.to_owned()))
}

pub(super) fn sees(call: &Call, record: &KeyRecord) -> bool {
    let is_admin = call.principal.as_ref().is_some_and(|principal| principal.role == Role::Admin);
    is_admin || !matches!(record.role, Role::Admin | Role::Operator)
}

fn entry(call: &Call, record: KeyRecord) -> KeyEntry {
    let shown = rfc3339;
    KeyEntry {
        budget: call.office.budgets.of(&record.id, call.office.clock.now()).map(|(budget, _)| budget.into()),
        last_used_at: call.office.keys.last_used(&record.id).map(shown),
        previous_expires_at: record.previous_until(call.office.clock.now()).map(shown),
        rotated_at: record.rotated_at.map(shown),
        id: record.id,
        name: record.name,
        role: record.role.as_str(),
        tier: record.tier.min(call.office.tier()).as_str(),
        routes: record.scope.routes,
        models: record.scope.models,
        tools: record.scope.tools,
        created_at: shown(record.created_at),
        expires_at: record.expires_at.map(shown),
    }
}

pub(super) fn unknown() -> ApiError {
    ApiError::NotFound("there is no such key".to_owned())
}

impl From<KeyError> for ApiError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Name | KeyError::Scope(_) | KeyError::Expired | KeyError::Overlap => {
                Self::Invalid(error.to_string())
            }
            KeyError::Unknown => Self::NotFound(error.to_string()),
            KeyError::TooMany | KeyError::LastAdmin | KeyError::Ended => Self::Conflict(error.to_string()),
            KeyError::Store(_) | KeyError::File(_) => Self::Unavailable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_key_is_already_is_a_conflict() {
        for error in [KeyError::Ended, KeyError::LastAdmin, KeyError::TooMany] {
            assert_eq!(ApiError::from(error).status(), http::StatusCode::CONFLICT);
        }
        assert_eq!(ApiError::from(KeyError::Expired).status(), http::StatusCode::BAD_REQUEST);
    }
}
