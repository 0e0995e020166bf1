//! The words that a field or a parameter may hold, where they are a closed set: one row each.

use serde_json::Value;
use utoipa::openapi::RefOr;
use utoipa::openapi::Schema;
use utoipa::openapi::schema::Object;
use utoipa::openapi::schema::SchemaType;
use utoipa::openapi::schema::Type;

use crate::access::role::Role;
use crate::access::tier::Tier;
use crate::scan::threat::Category;
use crate::scan::threat::Severity;

/// A wire type, one of its fields, and what that may be.
type Row = (&'static str, &'static str, Words);

/// A closed set of words.
#[derive(Clone, Copy)]
enum Words {
    These(&'static [&'static str]),
    Categories,
    Severities,
    Roles,
    Tiers,
}

use Words::Categories;
use Words::Roles;
use Words::Severities;
use Words::These;
use Words::Tiers;

const HEALTH: Words = These(&["healthy", "degraded"]);
const MODES: Words = These(&["off", "monitor", "redact", "block"]);
const FAIL_MODES: Words = These(&["closed", "open"]);
const THRESHOLDS: Words = These(&["low", "medium", "high"]);
const STANDINGS: Words = These(&["pass", "partial", "fail", "not_assessed"]);
const REVOKED: Words = These(&["revoked"]);

/// The fields of wire types.
const FIELDS: &[Row] = &[
    ("AgentEntry", "tier", Tiers),
    ("AgentSessionEntry", "verdict", These(&["TRUSTED", "SUSPICIOUS", "BLOCKED"])),
    ("AnomalyData", "baseline", These(&["same_hour", "all_hours"])),
    ("AnomalyData", "metric", These(&["requests", "tokens", "cost", "error_rate", "latency_ms"])),
    ("AnomalyData", "subject", These(&["everything", "user", "model"])),
    ("AnomalyEntry", "severity", Severities),
    (
        "AnomalyEntry",
        "type",
        These(&[
            "request_spike",
            "request_drop",
            "token_spike",
            "cost_spike",
            "error_spike",
            "latency_spike",
        ]),
    ),
    ("Applied", "status", These(&["applied"])),
    ("AuditEntry", "category", Categories),
    ("AuditEntry", "severity", Severities),
    ("AuditedFinding", "category", Categories),
    ("AuditedFinding", "severity", Severities),
    ("Blocked", "blocked_by", These(&["legal_hold"])),
    ("CategoryEntry", "mode", MODES),
    ("CategoryEntry", "request", MODES),
    ("CategoryEntry", "response", MODES),
    ("CategoryEntry", "threshold", THRESHOLDS),
    ("Certificate", "name", These(&["proxy", "admin"])),
    ("Certificate", "status", These(&["valid", "expiring", "expired", "not_yet_valid"])),
    ("ClusterHealth", "mode", These(&["single", "cluster"])),
    ("ClusterHealth", "status", HEALTH),
    ("ClusterNode", "status", These(&["healthy", "degraded", "behind", "missing"])),
    ("ComplianceReport", "status", STANDINGS),
    ("ControlEntry", "status", STANDINGS),
    ("CreatedTest", "status", These(&["created"])),
    ("DeletedUser", "status", These(&["deleted"])),
    ("DetectorEntry", "category", Categories),
    ("DetectorEntry", "layer", These(&["l1_regex", "l2_rules", "l3_ml"])),
    ("DetectorEntry", "severity", Severities),
    ("EndedSession", "status", REVOKED),
    ("EvidenceEntry", "result", These(&["met", "partial", "unmet", "unknown"])),
    ("FindingFigures", "category", Categories),
    ("HealthReport", "status", HEALTH),
    ("HoldEntry", "status", These(&["active", "released"])),
    ("Identity", "credential", These(&["api_key", "session", "local", "oidc", "saml"])),
    ("Identity", "role", Roles),
    ("Identity", "tier", Tiers),
    ("KeyEntry", "role", Roles),
    ("KeyEntry", "tier", Tiers),
    ("KeyPatch", "role", Roles),
    ("KeyPatch", "tier", Tiers),
    ("KeyRequest", "role", Roles),
    ("KeyRequest", "tier", Tiers),
    ("LicenseStatus", "tier", Tiers),
    ("Moved", "status", These(&["started", "stopped", "archived", "deleted"])),
    ("NodeStatus", "status", HEALTH),
    ("NodeStatus", "tier", Tiers),
    ("PolicyEntry", "fail_mode", FAIL_MODES),
    ("PolicyEntry", "mode", MODES),
    ("Readiness", "status", These(&["ready", "not_ready"])),
    ("Recorded", "status", These(&["recorded"])),
    ("Released", "status", These(&["released"])),
    ("Removed", "status", These(&["removed"])),
    ("RevisionEntry", "source", These(&["start", "file", "api", "profile", "rollback"])),
    ("Revoked", "status", REVOKED),
    ("RevokedToken", "status", REVOKED),
    ("Rotated", "status", These(&["rotated", "withdrawn"])),
    ("ScoreEntry", "scope", These(&["lifetime", "session"])),
    ("ScoreEntry", "verdict", These(&["TRUSTED", "SUSPICIOUS", "BLOCKED"])),
    ("ScreenResult", "action", These(&["allow", "monitor", "redact", "block"])),
    ("SessionEntry", "method", These(&["api_key", "password", "sso"])),
    ("SessionEntry", "role", Roles),
    ("SiemPlatform", "platform", These(&["splunk_hec", "elastic", "syslog", "webhook", "ocsf_file", "nats"])),
    ("SiemPlatform", "status", These(&["idle", "connected", "retrying", "failed"])),
    ("SigningKeyEntry", "status", These(&["active", "retired"])),
    ("SlaReport", "tier", Tiers),
    ("Standing", "status", STANDINGS),
    ("TestEntry", "status", These(&["created", "started", "stopped"])),
    ("Threat", "category", Categories),
    ("Threat", "severity", Severities),
    ("TierReport", "tier", Tiers),
    ("TokenGrant", "role", Roles),
    ("TokenGrant", "token_type", These(&["Bearer"])),
    ("TrustGate", "mode", These(&["observe", "enforce"])),
    ("TrustHealth", "status", These(&["healthy"])),
    ("Unlimited", "status", These(&["unlimited"])),
    ("UserEntry", "role", Roles),
    ("UserEntry", "tier", Tiers),
    ("UserPatch", "role", Roles),
    ("UserPatch", "tier", Tiers),
    ("UserRequest", "role", Roles),
    ("UserRequest", "tier", Tiers),
];

/// The parameters of queries, by the path they are asked at.
const PARAMETERS: &[Row] = &[
    ("/api/v1/audit", "category", Categories),
    ("/api/v1/audit", "severity", Severities),
    ("/api/v1/audit/export", "category", Categories),
    ("/api/v1/audit/export", "format", These(&["jsonl", "csv"])),
    ("/api/v1/audit/export", "severity", Severities),
    ("/api/v1/audit/stream", "category", Categories),
    ("/api/v1/audit/stream", "severity", Severities),
    ("/api/v1/compliance", "format", These(&["json", "html", "oscal"])),
];

impl Words {
    fn all(self) -> Vec<&'static str> {
        match self {
            These(words) => words.to_vec(),
            Categories => Category::ALL.map(Category::as_str).to_vec(),
            Severities => Severity::ALL.map(Severity::as_str).to_vec(),
            Roles => Role::ALL.map(Role::as_str).to_vec(),
            Tiers => Tier::ALL.map(Tier::as_str).to_vec(),
        }
    }
}

/// Returns what a parameter of a path's query may be; `None`: it is no closed set.
pub(super) fn of_parameter(path: &str, name: &str) -> Option<Vec<&'static str>> {
    let row = PARAMETERS.iter().find(|(of, known, _)| *of == path && *known == name);
    row.map(|(_, _, words)| words.all())
}

/// Says in a wire type's schema what its fields may be.
pub(super) fn tell(name: &str, schema: &mut RefOr<Schema>) {
    for (_, field, words) in FIELDS.iter().filter(|(of, ..)| *of == name) {
        for_each_object(schema, &mut |object| {
            if let Some(RefOr::T(Schema::Object(told))) = object.properties.get_mut(*field) {
                let words = words.all().into_iter().map(Value::from);
                told.enum_values = Some(words.chain(null_of(&told.schema_type)).collect());
            }
        });
    }
}

/// Returns null where a type takes it: it has to be among what is listed, then.
fn null_of(wanted: &SchemaType) -> Option<Value> {
    let takes_null = match wanted {
        SchemaType::Array(all) => all.contains(&Type::Null),
        SchemaType::Type(_) | SchemaType::AnyValue => false,
    };
    takes_null.then_some(Value::Null)
}

/// Shows the object that a schema is, or those that it is made of.
fn for_each_object(schema: &mut RefOr<Schema>, visit: &mut impl FnMut(&mut Object)) {
    match schema {
        RefOr::T(Schema::Object(object)) => visit(object),
        RefOr::T(Schema::AllOf(all)) => all.items.iter_mut().for_each(|part| for_each_object(part, visit)),
        RefOr::T(_) | RefOr::Ref(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::openapi::document;
    use crate::admin::routes::routes;

    #[test]
    fn every_row_is_about_something() {
        let document = serde_json::to_value(document("0")).unwrap();
        for (name, field, words) in FIELDS {
            let schema = &document["components"]["schemas"][*name];
            let parts = schema["allOf"].as_array().into_iter().flatten().chain([schema]);
            let told = parts.map(|part| &part["properties"][*field]["enum"]).find(|told| told.is_array());
            let told = told.unwrap_or_else(|| panic!("{name} has no {field} of its own"));
            assert!(
                words.all().iter().all(|word| told.as_array().unwrap().contains(&(*word).into())),
                "{name}"
            );
        }
        for (path, name, _) in PARAMETERS {
            assert!(
                routes().iter().any(|route| route.path == *path && route.query.contains(name)),
                "{path} {name}"
            );
        }
    }
}
