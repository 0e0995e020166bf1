//! `/api/v1/users`: people who log in with a name and a password; for admins.
//!
//! Every change ends the tokens that the user holds.

use serde::Deserialize;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::role::Role;
use crate::access::tier::Tier;
use crate::access::user::NewUser;
use crate::access::user::UserChange;
use crate::access::user::UserError;
use crate::access::user::UserRecord;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::admin::call::with_status;
use crate::admin::error::ApiError;
use crate::admin::resource::dsar;
use crate::admin::resource::wire::given;
use crate::clock::rfc3339;
use crate::govern::privacy::own_name;

/// What is known of a user; never the password.
#[derive(Serialize, ToSchema)]
pub struct UserEntry {
    /// The user's id.
    pub id: String,
    /// The name it logs in with.
    pub name: String,
    /// What it may do.
    pub role: &'static str,
    /// How much it is entitled to; null: as much as the deployment.
    pub tier: Option<&'static str>,
    /// Whether it may not log in.
    pub disabled: bool,
    /// When it was made.
    pub created_at: String,
    /// When it was last changed.
    pub updated_at: String,
    /// When it last logged in.
    pub last_login_at: Option<String>,
}

/// Every user, oldest first.
#[derive(Serialize, ToSchema)]
pub struct UserList {
    /// The users.
    pub users: Vec<UserEntry>,
    /// How many.
    pub total: usize,
}

/// What a new user is to be.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserRequest {
    /// The name: letters and digits of one script, and `. - _ @ +`; kept in lower case.
    pub name: String,
    /// The password: at least 12 characters.
    pub password: String,
    /// `admin`, `operator`, `auditor`, `analyst`, `service` or `agent`.
    pub role: String,
    /// A tier, the deployment's or below; absent: as much as the deployment.
    pub tier: Option<String>,
}

/// What is to be different; what is absent stays.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserPatch {
    /// Another password.
    pub password: Option<String>,
    /// Another role.
    pub role: Option<String>,
    /// Another tier; null: as much as the deployment.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    pub tier: Option<Option<String>>,
    /// Whether it may not log in.
    pub disabled: Option<bool>,
}

/// A user that is gone.
#[derive(Serialize, ToSchema)]
pub struct DeletedUser {
    /// `deleted`.
    pub status: &'static str,
    /// The user's id.
    pub id: String,
}

/// `GET /api/v1/users`.
pub async fn list(call: Call) -> Answer {
    let users: Vec<UserEntry> = call.office.authenticator.users.list().into_iter().map(entry).collect();
    ok(&UserList { total: users.len(), users })
}

/// `GET /api/v1/users/{id}`.
pub async fn read(call: Call) -> Answer {
    let found = call.office.authenticator.users.get(call.parameter("id"));
    found.map_or_else(|| Err(UserError::Unknown.into()), |user| ok(&entry(user)))
}

/// `POST /api/v1/users`.
pub async fn create(call: Call) -> Answer {
    let UserRequest { name, password, role, tier } = call.json()?;
    let (role, tier) = (read_role(&role)?, tier.as_deref().map(|name| read_tier(&call, name)).transpose()?);
    if let Some(own) = own_name(name.trim()) {
        return Err(ApiError::Invalid(format!("name: {own} is a name of the gateway's own")));
    }
    call.ensure_recordable()?;
    let (id, now) = (call.office.new_id(), call.office.clock.now());
    let new = NewUser { name, password, role, tier };
    let user = call.office.authenticator.users.create(id, new, now).await?;
    record(&call, "user_created", &user.id, format!("a user of role {} was created", role.as_str())).await;
    with_status(http::StatusCode::CREATED, &entry(user))
}

/// `PATCH /api/v1/users/{id}`.
pub async fn change(call: Call) -> Answer {
    let UserPatch { password, role, tier, disabled } = call.json()?;
    let role = role.as_deref().map(read_role).transpose()?;
    let tier = match tier {
        None => None,
        Some(None) => Some(None),
        Some(Some(name)) => Some(Some(read_tier(&call, &name)?)),
    };
    let told = [
        ("password", password.is_some()),
        ("role", role.is_some()),
        ("tier", tier.is_some()),
        ("disabled", disabled.is_some()),
    ];
    let told: Vec<&str> = told.into_iter().filter(|(_, is_told)| *is_told).map(|(name, _)| name).collect();
    if told.is_empty() {
        return Err(ApiError::Invalid(
            "the body changes nothing: give password, role, tier or disabled".to_owned(),
        ));
    }
    call.ensure_recordable()?;
    let (id, now) = (call.parameter("id").to_owned(), call.office.clock.now());
    let change = UserChange { password, role, tier, disabled };
    let user = call.office.authenticator.users.change(&id, change, now).await?;
    record(&call, "user_changed", &id, format!("a user was changed: {}", told.join(", "))).await;
    ok(&entry(user))
}

/// `DELETE /api/v1/users/{id}`. A legal hold keeps the record; the user can be disabled all the same.
pub async fn delete(call: Call) -> Answer {
    call.ensure_recordable()?;
    let id = call.parameter("id").to_owned();
    let (office, wanted) = (call.office.clone(), id.clone());
    let gone = tokio::task::spawn_blocking(move || {
        office.privacy.unless_held(&wanted, || office.authenticator.users.delete(&wanted))
    });
    let gone = gone.await.map_err(|_| call.office.panicked())?.map_err(|_| ApiError::Unavailable)?;
    let Some(gone) = gone else { return dsar::blocked(&call, id, dsar::HELD).await };
    if !gone? {
        return Err(UserError::Unknown.into());
    }
    record(&call, "user_deleted", &id, "a user was deleted".to_owned()).await;
    ok(&DeletedUser { status: "deleted", id })
}

async fn record(call: &Call, event_type: &str, id: &str, message: String) {
    let mut event = call.event(event_type, message);
    event.entity = Some(id.to_owned());
    call.office.record(event).await;
}

fn read_role(name: &str) -> Result<Role, ApiError> {
    name.parse().map_err(|error| ApiError::Invalid(format!("role: {error}")))
}

fn read_tier(call: &Call, name: &str) -> Result<Tier, ApiError> {
    let tier: Tier = name.parse().map_err(|error| ApiError::Invalid(format!("tier: {error}")))?;
    let limit = call.office.tier();
    if tier <= limit {
        return Ok(tier);
    }
    Err(ApiError::Invalid(format!("tier: nobody has more than the deployment's tier, {}", limit.as_str())))
}

fn entry(user: UserRecord) -> UserEntry {
    UserEntry {
        id: user.id,
        name: user.name,
        role: user.role.as_str(),
        tier: user.tier.map(Tier::as_str),
        disabled: user.disabled,
        created_at: rfc3339(user.created_at),
        updated_at: rfc3339(user.updated_at),
        last_login_at: user.last_login_at.map(rfc3339),
    }
}

impl From<UserError> for ApiError {
    fn from(error: UserError) -> Self {
        match error {
            UserError::Name(_) | UserError::Password(_) => Self::Invalid(error.to_string()),
            UserError::Taken | UserError::TooMany => Self::Conflict(error.to_string()),
            UserError::Unknown => Self::NotFound(error.to_string()),
            UserError::Busy => Self::Busy,
            UserError::Store(_) => Self::Unavailable,
        }
    }
}
