//! `/api/v1/profiles`: named sets of changes, and putting one in force.

use serde::Deserialize;
use serde::Serialize;
use utoipa::ToSchema;

use super::config;
use super::config::ConfigTrial;
use super::config::DryRun;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::admin::error::ApiError;
use crate::policy::profile;
use crate::policy::reload::Reloader;
use crate::policy::reload::Run;

/// One profile.
#[derive(Serialize, ToSchema)]
pub struct ProfileEntry {
    /// The name it is applied by.
    pub id: &'static str,
    /// Its name for people.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The tier it is meant for.
    pub tier: String,
}

/// The profiles there are.
#[derive(Serialize, ToSchema)]
pub struct ProfileList {
    /// The profiles.
    pub profiles: Vec<ProfileEntry>,
    /// How many.
    pub total: usize,
    /// The names they are applied by.
    pub valid_names: Vec<&'static str>,
}

/// The profile to put in force.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Application {
    /// Its name.
    pub profile: String,
}

/// What an application answers: that it was made, or what a trial found.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum ProfileApplied {
    /// It was made.
    Made(Applied),
    /// It was only tried (`dry_run=true`).
    Tried(ConfigTrial),
}

/// A profile that was put in force.
#[derive(Serialize, ToSchema)]
pub struct Applied {
    /// `applied`.
    pub status: &'static str,
    /// The profile.
    pub profile: String,
    /// The revision that brought it.
    pub revision: u64,
    /// The top-level keys that changed.
    pub changed: Vec<String>,
}

/// `GET /api/v1/profiles`.
pub async fn list(_call: Call) -> Answer {
    let entry = |found: profile::Profile| ProfileEntry {
        id: found.id,
        name: found.name,
        description: found.description,
        tier: found.tier,
    };
    let profiles: Vec<ProfileEntry> = profile::all().into_iter().map(entry).collect();
    ok(&ProfileList { total: profiles.len(), profiles, valid_names: profile::valid_names() })
}

/// `POST /api/v1/profiles/apply`.
pub async fn apply(call: Call) -> Answer {
    let run = call.query::<DryRun>()?.run();
    let wanted = call.json::<Application>()?.profile;
    let Some(found) = profile::find(&wanted) else {
        let known = profile::valid_names().into_iter().map(str::to_owned).collect();
        let message = "there is no such profile".to_owned();
        return Err(ApiError::UnknownName { message, key: "valid_profiles", known });
    };
    let (author, if_match) = (call.author(), call.if_match()?);
    let apply =
        move |reloader: &Reloader| reloader.apply_profile(found.id, &author, if_match.as_deref(), run);
    let change = config::changed(&call, run, apply).await?;
    if run == Run::Dry {
        return config::answer(run, &change, call.office.reloader.current().revision.number);
    }
    config::announce(&call, run, "profile_applied", &change).await;
    let applied =
        Applied { status: "applied", profile: wanted, revision: change.revision, changed: change.changed };
    config::tagged(ok(&applied)?, &change.etag)
}
