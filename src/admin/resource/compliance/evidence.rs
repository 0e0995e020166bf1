//! `/api/v1/compliance/evidence`: what one check goes by, thing by thing.
//!
//! Auditors judge by policies, keys, users and the configuration, and may read none of these. Here they see of them what
//! a check looks at: an id, and what was found of it.

use serde::Deserialize;
use serde::Serialize;
use utoipa::ToSchema;

use super::EvidenceEntry;
use super::facts;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::admin::error::ApiError;
use crate::clock::rfc3339;
use crate::govern::compliance::check::Check;
use crate::govern::compliance::check::Item;
use crate::govern::compliance::check::TECHNIQUES;

/// What it is asked by.
pub const PARAMETERS: [&str; 2] = ["check", "techniques"];
/// The most techniques that are asked for at once.
const TECHNIQUES_MAX: usize = 64;

/// What one check saw, and of what.
#[derive(Serialize, ToSchema)]
pub struct CheckEvidence {
    /// What it saw.
    #[serde(flatten)]
    pub seen: EvidenceEntry,
    /// What it goes by, where that is shown here: at most 1000, what is not as it should be first.
    pub items: Vec<EvidenceItem>,
    /// How many there are.
    pub items_total: usize,
    /// When it was seen: at most a second ago.
    pub generated_at: String,
}

/// One of the things that a check goes by.
#[derive(Serialize, ToSchema)]
pub struct EvidenceItem {
    /// The id of a policy, a key or a user, the name of a route, a listener or a setting.
    pub name: String,
    /// Whether it is as it should be.
    pub good: bool,
    /// What was seen of it.
    pub observed: String,
}

/// The query as it was written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    check: Option<String>,
    techniques: Option<String>,
}

/// `GET /api/v1/compliance/evidence`.
pub async fn show(call: Call) -> Answer {
    let Asked { check, techniques } = call.query()?;
    let Some(check) = check.as_deref().and_then(Check::named) else {
        let known = Check::ALL.iter().map(|check| check.name.to_owned()).collect();
        let message = "check: expected the name of a check".to_owned();
        return Err(ApiError::UnknownName { message, key: "valid_checks", known });
    };
    let techniques = techniques.map(|written| ids(check, &written)).transpose()?;
    let facts = facts(&call).await?;
    let narrowed = techniques.map(|ids| Check::techniques(&facts, &ids));
    let evidence = narrowed.unwrap_or_else(|| check.run(&facts));
    let item = |Item { name, is_good, seen }: Item| EvidenceItem { name, good: is_good, observed: seen };
    ok(&CheckEvidence {
        seen: super::evidence(&evidence),
        items: evidence.items.into_iter().map(item).collect(),
        items_total: evidence.items_total,
        generated_at: rfc3339(facts.at),
    })
}

/// Reads the ids that a check is narrowed to.
fn ids(check: &Check, written: &str) -> Result<Vec<String>, ApiError> {
    if check.name != TECHNIQUES {
        return Err(ApiError::Invalid(format!("techniques: only {TECHNIQUES} is about techniques")));
    }
    let ids: Vec<String> = written.split(',').map(str::to_owned).collect();
    match ids.len() <= TECHNIQUES_MAX && ids.iter().all(|id| !id.is_empty()) {
        true => Ok(ids),
        false => {
            Err(ApiError::Invalid(format!("techniques: expected up to {TECHNIQUES_MAX} ids, with commas")))
        }
    }
}
