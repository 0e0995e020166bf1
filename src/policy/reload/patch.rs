//! What a patch may say, beyond what a document may.

use serde_json::Map;
use serde_json::Value;

use super::FIXED_KEYS;
use crate::document::Document;
use crate::document::Fault;
use crate::document::Place;
use crate::document::Problem;
use crate::document::fault::nearest;
use crate::document::patch::changed_paths;
use crate::document::patch::merge;
use crate::document::patch::underlay;
use crate::policy::build::rules_of;
use crate::policy::file::expand_modes;
use crate::policy::revision::RevisionSource;
use crate::policy::route::Upstream;
use crate::policy::ruleset::RELOADABLE_KEYS;
use crate::policy::ruleset::SINKS_KEY;

/// The section whose members stay away once they are removed, built in or not.
const POLICIES_KEY: &str = "policies";

/// The keys of a route that say where a secret lies.
const SECRET_PLACES: [&str; 2] = ["provider_key_file", "provider_key_env"];

/// The key of a route that says whose certificates its upstream may show.
const CA_FILE: &str = "upstream_ca_file";

/// What a route asks of who calls where it asks for nothing.
const NO_PROOF: usize = 0;

/// A host and a port.
type Server = (String, u16);

/// The keys of `[a2a]` that say who agents are and what they may do.
const AGENT_FILES: [&str; 3] = ["client_ca", "client_crl", "capabilities"];

/// The keys of a sink that say which entries it gets, and how: not where they go.
const SINK_MANNERS: [&str; 7] = [
    "min_severity",
    "categories",
    "event_types",
    "batch_entries",
    "timeout_ms",
    "backoff_min_ms",
    "backoff_max_ms",
];

/// A change comes over the network: with it, whoever may change routes could send any file of this machine
/// to an address of their own, or make itself an agent. Where secrets lie, and who the agents are, is
/// therefore said in files alone, and so is where the audit log goes.
pub(super) fn refuse_new_secrets(current: &Document, wanted: &Document) -> Result<(), Vec<Fault>> {
    if let Some(key) = changed_agent_file(current, wanted) {
        let reason = "can be changed only in the configuration file".to_owned();
        let problem = Problem::Invalid { reason, suggestion: None };
        return Err(vec![Fault { place: None, key: format!("a2a.{key}"), problem }]);
    }
    let known = targets(current);
    if targets(wanted).iter().any(|target| !known.contains(target)) {
        let reason = "where the audit log goes can be changed only in the configuration file".to_owned();
        let problem = Problem::Invalid { reason, suggestion: None };
        return Err(vec![Fault { place: None, key: SINKS_KEY.to_owned(), problem }]);
    }
    let places = |document: &Document| {
        let routes = key_routes(document).into_iter();
        routes
            .flat_map(|route| SECRET_PLACES.map(|key| route.get(key).cloned()))
            .flatten()
            .collect::<Vec<_>>()
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

/// Tells whether a change would lead a provider's key to where it does not go now (an address, or whoever a
/// certificate file vouches for), or bring back other agents, or ask less of who calls an upstream than every route to it
/// does now, or take away the last route to one that asks for anything, or let sinks see something else of what is
/// recorded: whoever may change rules alone may not.
pub(super) fn moves_secrets(current: &Document, wanted: &Document) -> bool {
    let ways = |document: &Document| key_routes(document).iter().flat_map(ways_of).collect::<Vec<_>>();
    let known = ways(current);
    let sinks = |document: &Document| document.root().get(SINKS_KEY).cloned();
    changed_agent_file(current, wanted).is_some()
        || sinks(current) != sinks(wanted)
        || opens_upstream(current, wanted)
        || ways(wanted).iter().any(|way| !known.contains(way))
}

fn changed_agent_file(current: &Document, wanted: &Document) -> Option<&'static str> {
    let agents =
        |document: &Document, key: &str| document.root().get("a2a").and_then(|it| it.get(key)).cloned();
    AGENT_FILES.into_iter().find(|key| agents(current, key) != agents(wanted, key))
}

/// Returns where each sink sends, under which name.
fn targets(document: &Document) -> Vec<Value> {
    let sinks = document.root().get(SINKS_KEY).and_then(|siem| siem.get("sinks")).and_then(Value::as_array);
    let mut targets = sinks.cloned().unwrap_or_default();
    for sink in targets.iter_mut().filter_map(Value::as_object_mut) {
        SINK_MANNERS.iter().for_each(|key| drop(sink.remove(*key)));
    }
    targets
}

fn routes(document: &Document) -> Vec<Value> {
    document.root().get("routes").and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Tells whether a server would be reached with less proof of who calls than by any route now, whatever is written around
/// its name and its port. One that has several names is several. One that no route would lead to any more, where now each
/// asks for proof, would be forgotten: the next change could open it, and the one after bring its guarded routes back.
fn opens_upstream(current: &Document, wanted: &Document) -> bool {
    let asked = |document: &Document| {
        let of_route = |route: Value| {
            let proof = proof_of(&route);
            servers_of(&route).into_iter().map(move |server| (server, proof))
        };
        routes(document).into_iter().flat_map(of_route).collect::<Vec<_>>()
    };
    let least = |ways: &[(Server, usize)], server: &Server| {
        ways.iter().filter(|(other, _)| other == server).map(|(_, proof)| *proof).min()
    };
    let (known, asked) = (asked(current), asked(wanted));
    known.iter().any(|(server, _)| {
        least(&asked, server).unwrap_or(NO_PROOF) < least(&known, server).unwrap_or(NO_PROOF)
    })
}

/// Returns how much proof of who calls a route asks for: none, a key, or an agent's certificate and signature.
fn proof_of(route: &Value) -> usize {
    let auth = route.get("auth").and_then(Value::as_str);
    ["gateway_key", "a2a"].iter().position(|known| auth == Some(*known)).map_or(NO_PROOF, |at| at + 1)
}

/// Returns the routes that hold a provider's key.
fn key_routes(document: &Document) -> Vec<Value> {
    let holds_key = |route: &Value| SECRET_PLACES.iter().any(|key| route.get(key).is_some());
    routes(document).into_iter().filter(holds_key).collect()
}

fn upstreams_of(route: &Value) -> Vec<Value> {
    match route.get("upstream") {
        Some(Value::Array(several)) => several.clone(),
        one => one.cloned().into_iter().collect(),
    }
}

/// Returns the hosts and ports of a route's upstreams.
fn servers_of(route: &Value) -> Vec<Server> {
    let upstreams = upstreams_of(route);
    let read = upstreams.iter().filter_map(|upstream| upstream.as_str()?.parse::<Upstream>().ok());
    read.map(|upstream| (upstream.host.trim_end_matches('.').to_owned(), upstream.port)).collect()
}

/// Returns each way that a route's key can take: the key's places, one upstream, and who vouches for it.
fn ways_of(route: &Value) -> Vec<Vec<Option<Value>>> {
    let fixed = SECRET_PLACES.into_iter().chain([CA_FILE]).map(|key| route.get(key).cloned());
    let fixed: Vec<_> = fixed.collect();
    upstreams_of(route).into_iter().map(|upstream| [fixed.clone(), vec![Some(upstream)]].concat()).collect()
}

/// Returns a document as a patch leaves it. A key that it takes away has what is built in, as one that a file does not
/// name: but for policies, which are removed by it, and for what is in lists.
pub(super) fn patched(
    current: &Document,
    layer: Document,
    defaults: &Document,
    source: RevisionSource,
) -> Document {
    let mut document = current.clone();
    if source == RevisionSource::Profile {
        bring_policies(&mut document, &layer, defaults);
    }
    document.overlay(layer);
    let mut under = rules_of(defaults);
    under.remove(POLICIES_KEY);
    underlay(document.root_mut(), &under);
    document
}

/// Adds the built-in policies that a profile changes, or names as shadows, where there are none of their names.
fn bring_policies(document: &mut Document, profile: &Document, defaults: &Document) {
    let (Some(changed), Some(built_in)) = (policies(profile), policies(defaults)) else { return };
    let shadows = changed.values().filter_map(|policy| policy.get("shadow")?.as_str());
    let named = changed.keys().map(String::as_str).chain(shadows);
    let there = document.root_mut().entry(POLICIES_KEY).or_insert_with(|| Value::Object(Map::new()));
    let Some(there) = there.as_object_mut() else { return };
    for (name, policy) in named.filter_map(|name| built_in.get_key_value(name)) {
        there.entry(name.as_str()).or_insert_with(|| policy.clone());
    }
}

fn policies(document: &Document) -> Option<&Map<String, Value>> {
    document.root().get(POLICIES_KEY)?.as_object()
}

/// Reads what a patch says of keys that may change, and returns it with the faults of all its other keys: what follows
/// is to tell what else is wrong with it. What it says of a key that needs a restart is no fault where that is what is
/// shown of it now.
///
/// # Errors
///
/// It is no table.
pub(super) fn read_patch(
    current: &Document,
    patch: Value,
    place: Place,
) -> Result<(Document, Vec<Fault>), Vec<Fault>> {
    let whole = |problem| vec![Fault { place: Some(place.clone()), key: String::new(), problem }];
    let mut layer = Document::from_json(patch, Some(place.clone()))
        .ok_or_else(|| whole(Problem::WrongType { expected: "a table" }))?;
    let is_reloadable = |key: &str| RELOADABLE_KEYS.contains(&key);
    let is_fixed = |key: &str| FIXED_KEYS.contains(&key);
    let fault = |key: String, problem| Fault { place: Some(place.clone()), key, problem };
    let unknown = layer.root().keys().filter(|key| !is_reloadable(key) && !is_fixed(key));
    let unknown = unknown
        .map(|key| fault(key.clone(), Problem::UnknownKey { suggestion: nearest(key, RELOADABLE_KEYS) }));
    let fixed = layer.root().clone().into_iter().filter(|(key, _)| is_fixed(key)).collect();
    let fixed = changed_fixed(current, fixed).into_iter().map(|path| fault(path, Problem::NeedsRestart));
    let faults = unknown.chain(fixed).collect();
    layer.root_mut().retain(|key, _| is_reloadable(key));
    expand_modes(layer.root_mut());
    Ok((layer, faults))
}

/// Returns the paths of all that a patch of keys that need a restart would change of what is shown of them.
fn changed_fixed(current: &Document, patch: Map<String, Value>) -> Vec<String> {
    let Value::Object(shown) = current.masked() else { return Vec::new() };
    let mut wanted = shown.clone();
    merge(&mut wanted, patch);
    changed_paths(&shown, &wanted)
}

#[cfg(test)]
mod tests;
