//! `/api/v1/policies`: the detection policies, one by one. Every change is a revision like any other.

mod told;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use utoipa::ToSchema;

use super::config;
use super::config::ConfigTrial;
use super::config::DryRun;
use super::wire::threshold;
use crate::admin::Office;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::admin::call::with_status;
use crate::admin::error::ApiError;
use crate::clock::rfc3339;
use crate::document::Document;
use crate::govern::audit::AuditEvent;
use crate::policy::decision::Mode;
use crate::policy::decision::PolicyId;
use crate::policy::reload::Change;
use crate::policy::reload::ChangeError;
use crate::policy::reload::Run;
use crate::policy::revision::REVISIONS_MAX;
use crate::policy::ruleset::Policy;
use crate::policy::ruleset::Ruleset;
use crate::scan::threat::Category;

/// The policies in force.
#[derive(Serialize, ToSchema)]
pub struct PolicyList {
    /// The policies, by name.
    pub policies: Vec<PolicyEntry>,
    /// How many.
    pub total: usize,
    /// The revision in force.
    pub revision: u64,
}

/// One policy.
#[derive(Serialize, ToSchema)]
pub struct PolicyEntry {
    /// Its name in routes and records.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Whether it looks for anything at all.
    pub enabled: bool,
    /// The strictest mode of its categories.
    pub mode: &'static str,
    /// What happens to what cannot be inspected: `closed` or `open`.
    pub fail_mode: &'static str,
    /// What it does by category.
    pub categories: BTreeMap<&'static str, CategoryEntry>,
    /// The routes it decides on.
    pub routes: Vec<String>,
    /// When it first came into force, as far as revisions are kept.
    pub created_at: Option<String>,
    /// When it last changed, as far as revisions are kept.
    pub updated_at: Option<String>,
    /// The policy as it is written, to be changed and sent back.
    #[schema(value_type = Object)]
    pub definition: Value,
}

/// What a change answers: the policy after it, or what a trial found.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum PolicyChanged {
    /// It was made.
    Made(Box<PolicyEntry>),
    /// It was only tried (`dry_run=true`).
    Tried(ConfigTrial),
}

/// What a policy does about a category.
#[derive(Serialize, ToSchema)]
pub struct CategoryEntry {
    /// Whether it is looked for.
    pub enabled: bool,
    /// The stricter of both directions: `off`, `monitor`, `redact` or `block`.
    pub mode: &'static str,
    /// In requests.
    pub request: &'static str,
    /// In responses.
    pub response: &'static str,
    /// How sure a finding must be for more than recording.
    pub threshold: &'static str,
    /// The part of the category that it is about; the rest is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only: Option<&'static str>,
}

/// A policy to add: its name, and beside it the keys of a policy file, or the members that answers have.
#[derive(ToSchema)]
pub struct NewPolicy {
    /// Its name.
    pub id: String,
    /// `name`, `description`, `fail_mode`, `stream_block`, `documents`, `credentials`, `shadow`, `categories`, `detectors`, `allow`.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub definition: Map<String, Value>,
}

/// A whole policy: the keys of a policy file, as [`NewPolicy`] has them beside its name. Or the policy as it is answered:
/// what differs from that in `name`, `description`, `enabled`, `mode`, `fail_mode`, `categories` and `definition` is
/// changed, what is left out stays, and `id`, `routes` and the times have to be as they are.
#[derive(ToSchema)]
#[schema(value_type = Object)]
pub struct PolicyDefinition(pub Map<String, Value>);

/// A policy that was removed.
#[derive(Serialize, ToSchema)]
pub struct Removed {
    /// `removed`.
    pub status: &'static str,
    /// The policy.
    pub id: String,
    /// The revision that did it.
    pub revision: u64,
}

/// What a removal answers: that it was made, or what a trial found.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum PolicyRemoved {
    /// It was made.
    Made(Removed),
    /// It was only tried (`dry_run=true`).
    Tried(ConfigTrial),
}

/// When a policy came, and when it last changed.
#[derive(Clone, Copy, Default)]
struct Age {
    created_at: Option<Timestamp>,
    updated_at: Option<Timestamp>,
}

/// `GET /api/v1/policies`.
pub async fn list(call: Call) -> Answer {
    let ruleset = call.office.reloader.handle().load();
    let ages = ages(&call).await?;
    let document = call.office.reloader.current().document.masked();
    let policies: Vec<PolicyEntry> =
        ruleset.policies.values().map(|policy| entry(policy, &ruleset, &document, &ages)).collect();
    ok(&PolicyList { total: policies.len(), policies, revision: ruleset.revision })
}

/// `GET /api/v1/policies/{id}`.
pub async fn read(call: Call) -> Answer {
    let id = call.parameter("id").to_owned();
    config::tagged(ok(&shown(&call, &id).await?)?, &call.office.reloader.current().revision.etag)
}

/// `POST /api/v1/policies`.
pub async fn create(call: Call) -> Answer {
    let run = call.query::<DryRun>()?.run();
    let mut definition = call.object()?;
    let Some(Value::String(id)) = definition.remove("id") else {
        return Err(ApiError::Invalid("id: expected the name of the policy".to_owned()));
    };
    let id: PolicyId = id.parse().map_err(|error| ApiError::Invalid(format!("id: {error}")))?;
    let new = id.clone();
    let definition = move |document: &Document| {
        if policy_in(document, new.as_str()).is_some() {
            return Err(ChangeError::PolicyTaken);
        }
        let mut definition = definition.clone();
        if told::is_as_told(&definition) {
            definition =
                told::definition(&new, None, &nothing_told(), definition).map_err(ChangeError::Faulty)?;
        }
        Ok(Value::Object(definition))
    };
    let change = put(&call, id.as_str(), run, definition, "policy_created").await?;
    if run == Run::Dry {
        return tried(&call, &change);
    }
    config::tagged(with_status(http::StatusCode::CREATED, &shown(&call, id.as_str()).await?)?, &change.etag)
}

/// `PUT /api/v1/policies/{id}`.
pub async fn replace(call: Call) -> Answer {
    let run = call.query::<DryRun>()?.run();
    let id = call.parameter("id").to_owned();
    let wanted = call.object()?;
    policy_in(&call.office.reloader.current().document, &id).ok_or_else(unknown)?;
    let changed: PolicyId = id.parse().map_err(|_| unknown())?;
    let told = if told::is_as_told(&wanted) { Some(as_told(&shown(&call, &id).await?)?) } else { None };
    let definition = move |document: &Document| {
        let before = policy_in(document, changed.as_str()).cloned().unwrap_or_default();
        let mut wanted = wanted.clone();
        if let Some(told) = &told {
            let made = told::definition(&changed, Some(&before), told, wanted);
            wanted = made.map_err(ChangeError::Faulty)?;
        }
        Ok(Value::Object(difference(&before, wanted)))
    };
    let change = put(&call, &id, run, definition, "policy_changed").await?;
    if run == Run::Dry {
        return tried(&call, &change);
    }
    config::tagged(ok(&shown(&call, &id).await?)?, &change.etag)
}

/// `DELETE /api/v1/policies/{id}`.
pub async fn remove(call: Call) -> Answer {
    let run = call.query::<DryRun>()?.run();
    let id = call.parameter("id").to_owned();
    let ruleset = call.office.reloader.handle().load();
    ruleset.policy(&id).ok_or_else(unknown)?;
    let users = users(&ruleset, &id);
    if !users.is_empty() {
        return Err(ApiError::Conflict(format!("the policy is in use by {}", users.join(", "))));
    }
    let change = put(&call, &id, run, |_| Ok(Value::Null), "policy_removed").await?;
    if run == Run::Dry {
        return tried(&call, &change);
    }
    config::tagged(ok(&Removed { status: "removed", id, revision: change.revision })?, &change.etag)
}

/// Patches one policy by what `definition` makes of the document in force, and records it.
async fn put(
    call: &Call,
    id: &str,
    run: Run,
    definition: impl Fn(&Document) -> Result<Value, ChangeError> + Send + 'static,
    event_type: &str,
) -> Result<Change, ApiError> {
    let (author, if_match, name) = (call.author(), call.if_match()?, id.to_owned());
    let change = config::changed(call, run, move |reloader| {
        let patch = |document: &Document| Ok(json!({ "policies": { &name: definition(document)? } }));
        reloader.patch_by(patch, &author, if_match.as_deref(), run)
    })
    .await?;
    if let Some(event) = config::event(call, run, event_type, &change) {
        let message = format!("revision {} changed the policy {id}", change.revision);
        call.office.record(AuditEvent { policy: Some(id.to_owned()), message, ..event }).await;
    }
    Ok(change)
}

/// Returns a policy as an answer shows it.
fn as_told(entry: &PolicyEntry) -> Result<Map<String, Value>, ApiError> {
    match serde_json::to_value(entry) {
        Ok(Value::Object(told)) => Ok(told),
        Ok(_) | Err(_) => Err(ApiError::Internal),
    }
}

/// Returns what an answer could show of a policy before there is one.
fn nothing_told() -> Map<String, Value> {
    let none = ["created_at", "updated_at"].map(|key| (key.to_owned(), Value::Null));
    none.into_iter().chain([("routes".to_owned(), json!([]))]).collect()
}

fn tried(call: &Call, change: &Change) -> Answer {
    config::answer(Run::Dry, change, call.office.reloader.current().revision.number)
}

fn policy_in<'d>(document: &'d Document, id: &str) -> Option<&'d Map<String, Value>> {
    document.root().get("policies")?.get(id)?.as_object()
}

/// Returns the merge patch that makes `wanted` of `before`.
fn difference(before: &Map<String, Value>, wanted: Map<String, Value>) -> Map<String, Value> {
    let gone = before.keys().filter(|key| !wanted.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let mut patch: Map<String, Value> = gone.collect();
    for (key, value) in wanted {
        let value = match (before.get(&key), value) {
            (Some(Value::Object(before)), Value::Object(wanted)) => Value::Object(difference(before, wanted)),
            (_, value) => value,
        };
        patch.insert(key, value);
    }
    patch
}

async fn shown(call: &Call, id: &str) -> Result<PolicyEntry, ApiError> {
    let ruleset = call.office.reloader.handle().load();
    let policy = ruleset.policy(id).ok_or_else(unknown)?;
    let ages = ages(call).await?;
    Ok(entry(policy, &ruleset, &call.office.reloader.current().document.masked(), &ages))
}

fn users(ruleset: &Ruleset, id: &str) -> Vec<String> {
    let routes = ruleset.routes.iter().filter(|route| route.policy.as_str() == id);
    let shadowed =
        ruleset.policies.values().filter(|other| other.shadow.as_ref().is_some_and(|it| it.as_str() == id));
    let routes = routes.map(|route| format!("route {}", route.name));
    routes.chain(shadowed.map(|other| format!("policy {}", other.id.as_str()))).collect()
}

fn entry(policy: &Policy, ruleset: &Ruleset, document: &Value, ages: &BTreeMap<String, Age>) -> PolicyEntry {
    let id = policy.id.as_str();
    let categories: BTreeMap<_, _> = Category::ALL
        .into_iter()
        .map(|category| (category.as_str(), category_entry(policy, category)))
        .collect();
    let strictest = Category::ALL.into_iter().map(|category| strictest(policy, category)).max();
    let routes = ruleset.routes.iter().filter(|route| route.policy == policy.id);
    let age = ages.get(id).copied().unwrap_or_default();
    let definition = document.get("policies").and_then(|all| all.get(id)).cloned().unwrap_or_default();
    PolicyEntry {
        id: id.to_owned(),
        name: policy.file.name.clone(),
        description: policy.file.description.clone(),
        enabled: strictest.is_some_and(|mode| mode != Mode::Off),
        mode: strictest.unwrap_or(Mode::Off).as_str(),
        fail_mode: policy.fail_mode.as_str(),
        categories,
        routes: routes.map(|route| route.name.clone()).collect(),
        created_at: age.created_at.map(rfc3339),
        updated_at: age.updated_at.map(rfc3339),
        definition,
    }
}

fn strictest(policy: &Policy, category: Category) -> Mode {
    let rule = policy.file.category(category);
    rule.request.max(rule.response)
}

fn category_entry(policy: &Policy, category: Category) -> CategoryEntry {
    let rule = policy.file.category(category);
    let mode = strictest(policy, category);
    CategoryEntry {
        enabled: mode != Mode::Off,
        mode: mode.as_str(),
        request: rule.request.as_str(),
        response: rule.response.as_str(),
        threshold: threshold(rule.threshold),
        only: rule.only.map(|only| only.as_str()),
    }
}

/// Returns when each policy came and last changed; reads the kept revisions, one at a time.
async fn ages(call: &Call) -> Result<BTreeMap<String, Age>, ApiError> {
    let office = call.office.clone();
    let read = tokio::task::spawn_blocking(move || read_ages(&office)).await;
    read.map_err(|_| call.office.panicked())?
}

fn read_ages(office: &Office) -> Result<BTreeMap<String, Age>, ApiError> {
    let running = &office.reloader.current().revision;
    let policies = |rules: &Map<String, Value>| rules.get("policies").and_then(Value::as_object).cloned();
    let now = policies(&running.rules).unwrap_or_default();
    let mut ages: BTreeMap<String, Age> = now.keys().map(|id| (id.clone(), Age::default())).collect();
    let mut same: Vec<String> = now.keys().cloned().collect();
    let mut there = same.clone();
    let oldest = running.number.saturating_sub(REVISIONS_MAX as u64);
    for number in (oldest + 1..=running.number).rev() {
        let Some(revision) = office.reloader.revisions().get(number).map_err(|_| ApiError::Unavailable)?
        else {
            break;
        };
        let then = policies(&revision.rules).unwrap_or_default();
        there.retain(|id| then.contains_key(id));
        same.retain(|id| then.get(id) == now.get(id) && there.contains(id));
        for id in &there {
            ages.entry(id.clone()).or_default().created_at = Some(revision.created_at);
        }
        for id in &same {
            ages.entry(id.clone()).or_default().updated_at = Some(revision.created_at);
        }
        if there.is_empty() {
            break;
        }
    }
    Ok(ages)
}

fn unknown() -> ApiError {
    ApiError::NotFound("there is no such policy".to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::document::patch;

    fn tables() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0u8..4).prop_map(Value::from)];
        let tree = leaf.prop_recursive(3, 16, 4, |inner| {
            prop::collection::btree_map("[ab]", inner, 0..3)
                .prop_map(|table| Value::Object(table.into_iter().collect()))
        });
        prop::collection::btree_map("[ab]", tree, 0..3)
            .prop_map(|table| Value::Object(table.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn a_difference_makes_one_of_the_other(before in tables(), wanted in tables()) {
            let (Value::Object(old), Value::Object(new)) = (&before, &wanted) else { unreachable!("both are tables") };
            let difference = Value::Object(difference(old, new.clone()));
            prop_assert_eq!(patch::apply(before, difference), wanted);
        }
    }
}
