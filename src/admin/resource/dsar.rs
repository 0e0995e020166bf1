//! `/api/v1/dsar`: what a data subject may ask: to see what is kept of it, and to have it erased.

use std::collections::BTreeMap;

use http::HeaderValue;
use http::StatusCode;
use http::header;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::access::keyring::ERASED;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::admin::call::with_status;
use crate::admin::error::ApiError;
use crate::clock::rfc3339;
use crate::govern::audit::AuditEvent;
use crate::govern::privacy::EraseError;
use crate::govern::privacy::Fact;
use crate::govern::privacy::Facts;
use crate::govern::privacy::ProviderError;
use crate::govern::privacy::entity_fits;

/// The longest part of a file's name that stems from an entity, in characters.
const FILE_NAME_CHARS_MAX: usize = 64;
/// What is recorded where an entity is under a hold.
pub(super) const HELD: &str = "a legal hold forbids an erasure";

/// Whom a request is about.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubjectRequest {
    /// The entity: a user, an API key's id, a caller's id.
    pub entity_id: String,
}

/// What is known of an entity.
#[derive(Serialize, ToSchema)]
pub struct Export {
    /// The entity.
    pub entity_id: String,
    /// When it was exported, in ISO 8601.
    pub exported_at: String,
    /// What each provider knows; those that know nothing are left out.
    #[schema(value_type = Object)]
    pub providers: BTreeMap<&'static str, Value>,
}

/// An entity that was erased.
#[derive(Serialize, ToSchema)]
pub struct Erasure {
    /// The entity.
    pub entity_id: String,
    /// When it was erased, in ISO 8601.
    pub erased_at: String,
    /// How many records were affected, over all providers.
    pub records_affected: u64,
    /// How many records of each provider; those that knew nothing are left out.
    pub providers: BTreeMap<&'static str, u64>,
}

/// Why an entity was not erased.
#[derive(Serialize, ToSchema)]
pub struct Blocked {
    /// The entity.
    pub entity_id: String,
    /// `legal_hold`: it is under one, or issued one that is in force.
    pub blocked_by: &'static str,
}

/// `POST /api/v1/dsar/export`.
pub async fn export(call: Call) -> Answer {
    let entity = subject(&call)?;
    call.ensure_recordable()?;
    let (office, wanted) = (call.office.clone(), entity.clone());
    let found = tokio::task::spawn_blocking(move || office.privacy.export(&wanted)).await;
    let found = found.map_err(|_| call.office.panicked())??;
    let mut event = call.event("entity_exported", format!("{} providers told of an entity", found.len()));
    // To ask about somebody unknown does not make them known.
    event.entity = Some(call.office.privacy.spelling(&entity)).filter(|_| !found.is_empty());
    call.office.record(event).await;
    let now = call.office.clock.now();
    let mut answer = ok(&Export {
        exported_at: rfc3339(now),
        providers: found.into_iter().map(|(name, facts)| (name, shown(facts))).collect(),
        entity_id: entity.clone(),
    })?;
    let disposition = disposition(&entity, &now.strftime("%Y-%m-%d").to_string());
    answer.headers_mut().insert(header::CONTENT_DISPOSITION, disposition);
    Ok(answer)
}

/// `POST /api/v1/dsar/erase`. Who issued a legal hold that is in force is not erased either, and the names under which
/// records have what the gateway itself does are nobody's.
pub async fn erase(call: Call) -> Answer {
    let entity = subject(&call)?;
    call.ensure_recordable()?;
    let (office, wanted, actor) = (call.office.clone(), entity.clone(), call.actor());
    let erased = tokio::task::spawn_blocking(move || {
        // Told before: an erased name is nobody's, and in a record it would come back.
        let is_of_caller = actor.as_deref().is_some_and(|actor| office.privacy.are_one(&wanted, actor));
        (actor.map(|name| if is_of_caller { ERASED.to_owned() } else { name }), office.privacy.erase(&wanted))
    });
    let (actor, erased) = erased.await.map_err(|_| call.office.panicked())?;
    let erased = match erased {
        Ok(erased) => erased,
        Err(EraseError::Held) => return blocked(&call, entity, HELD).await,
        Err(EraseError::Issuer) => {
            return blocked(&call, entity, "a legal hold forbids the erasure of who issued it").await;
        }
        Err(
            error @ (EraseError::Provider(ProviderError::Unavailable(_))
            | EraseError::Store(_)
            | EraseError::Key(_)
            | EraseError::NotBegun(_)),
        ) => {
            return broken_off(&call, actor, error).await;
        }
        Err(error) => return Err(error.into()),
    };
    let told = Erasure {
        entity_id: entity,
        erased_at: rfc3339(erased.erased_at),
        records_affected: erased.records_affected(),
        providers: erased.affected.clone().unwrap_or_default(),
    };
    let mut event = call.event("", String::new());
    let recorded = erased.event();
    (event.actor, event.event_type, event.message) = (actor, recorded.event_type, recorded.message);
    call.office.record(event).await;
    let office = call.office.clone();
    let settled = tokio::task::spawn_blocking(move || office.privacy.settle(&erased)).await;
    if let Err(error) = settled.map_err(|_| call.office.panicked())? {
        tracing::warn!(%error, "the note of an erasure stays; it is recorded again soon");
    }
    ok(&told)
}

/// Says, and records by a message, that a legal hold keeps an entity's record from going.
///
/// # Errors
/// None of its own; it is an answer.
pub async fn blocked(call: &Call, entity: String, message: &str) -> Answer {
    let mut event = call.event("erasure_blocked", message.to_owned());
    event.action = "block".to_owned();
    event.entity = Some(call.office.privacy.spelling(&entity));
    call.office.record(event).await;
    with_status(StatusCode::CONFLICT, &Blocked { entity_id: entity, blocked_by: "legal_hold" })
}

/// Records an erasure that broke off: some of what was known may be gone.
async fn broken_off(call: &Call, actor: Option<String>, error: EraseError) -> Answer {
    let recorded = error.event();
    let mut event = AuditEvent { actor, ..call.event("", String::new()) };
    (event.event_type, event.action, event.message) =
        (recorded.event_type, recorded.action, recorded.message);
    call.office.record(event).await;
    Err(error.into())
}

fn subject(call: &Call) -> Result<String, ApiError> {
    let SubjectRequest { entity_id } = call.json()?;
    let entity_id = entity_id.trim().to_owned();
    entity_fits(&entity_id)?;
    Ok(entity_id)
}

fn shown(facts: Facts) -> Value {
    let value = |fact: Fact| match fact {
        Fact::Count(count) => Value::from(count),
        Fact::Text(text) => Value::from(text),
        Fact::List(texts) => Value::from(texts),
    };
    Value::Object(facts.into_iter().map(|(name, fact)| (name.to_owned(), value(fact))).collect())
}

/// Returns the name of the file a browser is to save, with nothing in it that a shell, a header or a file system
/// would read otherwise.
fn disposition(entity: &str, date: &str) -> HeaderValue {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | '@');
    let plain = entity.chars().map(|letter| if is_plain(letter) { letter } else { '_' });
    let plain: String = plain.take(FILE_NAME_CHARS_MAX).collect();
    let name = format!("attachment; filename=\"dsar-{}-{date}.json\"", plain.replace("..", "__"));
    HeaderValue::from_str(&name).expect("letters, digits and a few signs make a header value")
}

impl From<EraseError> for ApiError {
    fn from(error: EraseError) -> Self {
        match error {
            EraseError::Own(_) => Self::Invalid(error.to_string()),
            EraseError::Held | EraseError::Issuer | EraseError::UnderWay => Self::Conflict(error.to_string()),
            EraseError::Provider(ProviderError::Refused(reason)) => Self::Conflict(reason),
            EraseError::Provider(_) | EraseError::Store(_) | EraseError::Key(_) | EraseError::NotBegun(_) => {
                Self::Unavailable
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_says_whom_and_nothing_else() {
        let cases = [
            ("alice@example.com", "dsar-alice@example.com-2026-05-01.json"),
            ("../../etc/passwd", "dsar-__.._etc_passwd-2026-05-01.json"),
            ("a\"; filename=\"x\r\nset-cookie: a", "dsar-a___filename__x__set-cookie__a-2026-05-01.json"),
            ("über", "dsar-_ber-2026-05-01.json"),
        ];
        for (entity, expected) in cases {
            let header = disposition(entity, "2026-05-01");
            let name = header.to_str().unwrap().strip_prefix("attachment; filename=\"").unwrap();
            let name = name.strip_suffix('"').unwrap();
            assert!(!name.contains(['/', '"', '\r']), "{name}");
            assert!(entity.starts_with("..") || name == expected, "{name}");
        }
    }
}
