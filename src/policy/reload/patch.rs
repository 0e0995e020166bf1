//! What a patch may say, beyond what a document may.

use serde_json::Value;

use super::FIXED_KEYS;
use crate::document::Document;
use crate::document::Fault;
use crate::document::Place;
use crate::document::Problem;
use crate::document::fault::nearest;
use crate::policy::file::expand_modes;
use crate::policy::ruleset::RELOADABLE_KEYS;

/// The keys of a route that say where a secret lies.
const SECRET_PLACES: [&str; 2] = ["provider_key_file", "provider_key_env"];

/// The keys of `[a2a]` that say who agents are and what they may do.
const AGENT_FILES: [&str; 3] = ["client_ca", "client_crl", "capabilities"];

/// A patch comes over the network: with it, whoever may change routes could send any file of this machine
/// to an address of their own, or make itself an agent. Where secrets lie, and who the agents are, is
/// therefore said in files alone.
pub(super) fn refuse_new_secrets(current: &Document, wanted: &Document) -> Result<(), Vec<Fault>> {
    let agents =
        |document: &Document, key: &str| document.root().get("a2a").and_then(|it| it.get(key)).cloned();
    if let Some(key) = AGENT_FILES.iter().find(|key| agents(current, key) != agents(wanted, key)) {
        let reason = "can be changed only in the configuration file".to_owned();
        let problem = Problem::Invalid { reason, suggestion: None };
        return Err(vec![Fault { place: None, key: format!("a2a.{key}"), problem }]);
    }
    let places = |document: &Document| {
        let routes = document.root().get("routes").and_then(Value::as_array).cloned().unwrap_or_default();
        let of_route = |route: Value| SECRET_PLACES.map(|key| route.get(key).cloned());
        routes.into_iter().flat_map(of_route).flatten().collect::<Vec<_>>()
    };
    let known = places(current);
    if places(wanted).iter().all(|place| known.contains(place)) {
        return Ok(());
    }
    let reason = "where a provider's key lies can be changed only in the configuration file".to_owned();
    Err(vec![Fault {
        place: None,
        key: "routes".to_owned(),
        problem: Problem::Invalid { reason, suggestion: None },
    }])
}

pub(super) fn read_patch(patch: Value, place: Place) -> Result<Document, Vec<Fault>> {
    let whole = |problem| vec![Fault { place: Some(place.clone()), key: String::new(), problem }];
    let mut layer = Document::from_json(patch, Some(place.clone()))
        .ok_or_else(|| whole(Problem::WrongType { expected: "a table" }))?;
    let fixed = layer.root().keys().filter(|key| !RELOADABLE_KEYS.contains(&key.as_str()));
    let fault = |key: &String| {
        let known = FIXED_KEYS.contains(&key.as_str());
        let suggestion = nearest(key, RELOADABLE_KEYS);
        let problem = if known { Problem::NeedsRestart } else { Problem::UnknownKey { suggestion } };
        Fault { place: Some(place.clone()), key: key.clone(), problem }
    };
    let faults: Vec<Fault> = fixed.map(fault).collect();
    if !faults.is_empty() {
        return Err(faults);
    }
    expand_modes(layer.root_mut());
    Ok(layer)
}
