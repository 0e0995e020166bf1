//! The configuration, its revisions, profiles, policies and guardrails.

use super::DRY_RUN;
use super::IF_MATCH;
use super::IF_NONE_MATCH;
use super::Route;
use super::by;
use super::delete;
use super::get;
use super::post;
use super::put;
use crate::admin::openapi::schema;
use crate::admin::resource::config;
use crate::admin::resource::detectors;
use crate::admin::resource::guardrails;
use crate::admin::resource::policies;
use crate::admin::resource::profiles;
use crate::admin::resource::revisions;

pub(super) fn rows() -> Vec<Route> {
    vec![
        get("/api/v1/config", "config:read", by!(config::read), "Gives the effective configuration")
            .fields(&[IF_NONE_MATCH])
            .gives(schema::<config::EffectiveConfig>()),
        put(
            "/api/v1/config",
            "config:write",
            by!(config::change),
            "Changes the reloadable part by a JSON merge patch",
        )
        .takes(schema::<config::ConfigPatch>())
        .gives(schema::<config::ConfigChanged>())
        .fields(&[IF_MATCH])
        .query(&[DRY_RUN]),
        get(
            "/api/v1/config/revisions",
            "config:read",
            by!(revisions::list),
            "Lists accepted changes, newest first",
        )
        .query(&["limit"])
        .gives(schema::<revisions::RevisionList>()),
        post(
            "/api/v1/config/rollback",
            "config:write",
            by!(revisions::rollback),
            "Puts an earlier revision in force again",
        )
        .fields(&[IF_MATCH])
        .query(&[DRY_RUN])
        .takes(schema::<revisions::Rollback>())
        .gives(schema::<config::ConfigChanged>()),
        get("/api/v1/profiles", "config:read", by!(profiles::list), "Lists the deployment profiles")
            .gives(schema::<profiles::ProfileList>()),
        post("/api/v1/profiles/apply", "config:write", by!(profiles::apply), "Puts a profile in force")
            .fields(&[IF_MATCH])
            .query(&[DRY_RUN])
            .takes(schema::<profiles::Application>())
            .gives(schema::<profiles::ProfileApplied>()),
    ]
    .into_iter()
    .chain(of_policies())
    .collect()
}

fn of_policies() -> Vec<Route> {
    vec![
        get("/api/v1/policies", "policies:read", by!(policies::list), "Lists the detection policies")
            .gives(schema::<policies::PolicyList>()),
        post("/api/v1/policies", "config:write", by!(policies::create), "Adds a policy")
            .created()
            .fields(&[IF_MATCH])
            .query(&[DRY_RUN])
            .takes(schema::<policies::NewPolicy>())
            .gives(schema::<policies::PolicyEntry>()),
        get("/api/v1/detectors", "policies:read", by!(detectors::list), "Lists everything that can be found")
            .gives(schema::<detectors::DetectorList>()),
        get(
            "/api/v1/guardrails",
            "guardrails:read",
            by!(guardrails::read),
            "Gives the guardrails between agents and what they did",
        )
        .gives(schema::<guardrails::GuardrailReport>()),
        get("/api/v1/policies/{id}", "policies:read", by!(policies::read), "Gives one policy")
            .gives(schema::<policies::PolicyEntry>()),
        put("/api/v1/policies/{id}", "config:write", by!(policies::replace), "Replaces one policy")
            .fields(&[IF_MATCH])
            .query(&[DRY_RUN])
            .takes(schema::<policies::PolicyDefinition>())
            .gives(schema::<policies::PolicyChanged>()),
        delete(
            "/api/v1/policies/{id}",
            "config:write",
            by!(policies::remove),
            "Removes a policy that nothing uses",
        )
        .fields(&[IF_MATCH])
        .query(&[DRY_RUN])
        .gives(schema::<policies::PolicyRemoved>()),
    ]
}
