//! Everything an exchange is judged by, in one immutable value.
//!
//! In: what an operator wrote ([`RulesFile`]), a scanner and the dialects. Out: a [`Ruleset`] that
//! is pinned by an exchange for its whole life. Building compiles every policy against the
//! scanner's detectors and collects all faults; nothing half-built ever exists.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::document::Fault;
use crate::document::Places;
use crate::document::Problem;
use crate::document::fault::nearest;
use crate::document::section::Section;
use crate::policy::decision::PolicyId;
use crate::policy::file::PolicyFile;
use crate::policy::limits::Limits;
use crate::policy::route::ROUTES_MAX;
use crate::policy::route::Route;

/// The most policies of a configuration.
pub const POLICIES_MAX: usize = 1000;

/// The part of a configuration that changes without a restart, as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct RulesFile {
    /// The routes, the closest first.
    pub routes: Vec<Route>,
    /// The policies by name.
    pub policies: BTreeMap<PolicyId, PolicyFile>,
    /// The limits.
    pub limits: Limits,
    /// Detectors that are off in every policy, by type.
    pub disabled: Vec<String>,
}

/// The top-level keys that change without a restart.
pub const RELOADABLE_KEYS: [&str; 4] = ["routes", "policies", "limits", "detectors"];

impl RulesFile {
    /// Reads the reloadable keys of a document's root.
    pub fn read(root: &mut Section<'_>) -> Self {
        let limits = Limits::read(&mut root.section("limits"));
        let policies = read_policies(root);
        let routes = read_routes(root, &policies);
        let mut detectors = root.section("detectors");
        let disabled = detectors.texts("disabled").into_iter().map(str::to_owned).collect();
        detectors.finish();
        Self { routes, policies, limits, disabled }
    }
}

/// Returns the routes ordered so that the first that fits is the closest.
pub fn order_routes(mut routes: Vec<Route>) -> Vec<Route> {
    routes.sort_by_cached_key(Route::closeness);
    routes
}

/// Returns the closest of ordered routes for a host (lower case, no port) and a normalised path.
pub fn closest_route<'a>(routes: &'a [Route], host: Option<&str>, path: &str) -> Option<&'a Route> {
    routes.iter().find(|route| route.fits(host, path))
}

fn read_policies(root: &mut Section<'_>) -> BTreeMap<PolicyId, PolicyFile> {
    let mut policies = BTreeMap::new();
    let mut shadows = Vec::new();
    let named = root.named("policies");
    if named.len() > POLICIES_MAX {
        root.invalid("policies", format!("expected {POLICIES_MAX} policies at most"), None);
        return policies;
    }
    for (name, mut inner) in named {
        match name.parse::<PolicyId>() {
            Ok(id) => {
                let policy = PolicyFile::read(id.clone(), &mut inner);
                shadows.push((policy.shadow.clone(), inner));
                policies.insert(id, policy);
            }
            Err(error) => inner.invalid("", error.to_string(), None),
        }
    }
    for (shadow, inner) in shadows {
        let unknown = shadow.filter(|shadow| !policies.contains_key(shadow));
        if let Some(shadow) = unknown {
            inner.fault("shadow", unknown_policy(&shadow, &policies));
        }
    }
    policies
}

fn read_routes(root: &mut Section<'_>, policies: &BTreeMap<PolicyId, PolicyFile>) -> Vec<Route> {
    let sections = root.list("routes");
    if sections.len() > ROUTES_MAX {
        root.invalid("routes", format!("expected {ROUTES_MAX} routes at most"), None);
        return Vec::new();
    }
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let mut ways: BTreeMap<(Option<String>, String), String> = BTreeMap::new();
    let mut routes = Vec::new();
    for mut section in sections {
        let route = Route::read(&mut section);
        let path = section.path().to_owned();
        if let Some(other) = names.insert(route.name.clone(), path.clone()).filter(|_| !route.name.is_empty()) {
            section.fault("name", Problem::Taken { other });
        }
        if let Some(other) = ways.insert((route.host.clone(), route.path_prefix.clone()), path) {
            section.fault("path_prefix", Problem::Taken { other });
        }
        if !policies.contains_key(&route.policy) {
            section.fault("policy", unknown_policy(&route.policy, policies));
        }
        routes.push(route);
    }
    order_routes(routes)
}

fn unknown_policy(id: &PolicyId, policies: &BTreeMap<PolicyId, PolicyFile>) -> Problem {
    let suggestion = nearest(id.as_str(), policies.keys().map(PolicyId::as_str));
    Problem::Unknown { what: "policy", suggestion }
}
