//! JSON merge patches (RFC 7396), which is also how one configuration layer lies over another.

use serde_json::Map;
use serde_json::Value;

/// Applies a merge patch to a table: `null` takes a key away, tables merge, all else replaces.
pub fn merge(target: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (key, change) in patch {
        match change {
            Value::Null => {
                target.remove(&key);
            }
            Value::Object(inner) => {
                let slot = target.entry(key).or_insert(Value::Null);
                merge(table_of(slot), inner);
            }
            other => {
                target.insert(key, other);
            }
        }
    }
}

/// Applies a merge patch to any value, as RFC 7396 defines it.
pub fn apply(target: Value, patch: Value) -> Value {
    let Value::Object(patch) = patch else { return patch };
    let mut target = target;
    merge(table_of(&mut target), patch);
    target
}

/// Lays a table under another: what only it has is added, and all else stays. A list is one value.
pub(crate) fn underlay(target: &mut Map<String, Value>, under: &Map<String, Value>) {
    for (key, value) in under {
        match (target.get_mut(key), value) {
            (None, _) => drop(target.insert(key.clone(), value.clone())),
            (Some(Value::Object(inner)), Value::Object(value)) => underlay(inner, value),
            (Some(_), _) => {}
        }
    }
}

/// Returns the paths of all that a patch replaces or takes away.
pub(crate) fn replaced_paths(patch: &Map<String, Value>) -> Vec<String> {
    let mut paths = Vec::new();
    collect_replaced(patch, "", &mut paths);
    paths
}

/// Returns the top-level keys in which two documents differ.
pub fn changed_keys(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<String> {
    let mut changed: Vec<String> =
        before.keys().filter(|key| before.get(*key) != after.get(*key)).cloned().collect();
    changed.extend(after.keys().filter(|key| !before.contains_key(*key)).cloned());
    changed.sort();
    changed
}

/// Returns the paths in which two tables differ, as deep as either has tables.
pub fn changed_paths(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<String> {
    let mut paths = Vec::new();
    collect_changed(before, after, "", &mut paths);
    paths
}

/// Returns the path of a key inside the table at `parent`.
pub(crate) fn child(parent: &str, key: &str) -> String {
    if parent.is_empty() { key.to_owned() } else { format!("{parent}.{key}") }
}

fn collect_replaced(patch: &Map<String, Value>, parent: &str, paths: &mut Vec<String>) {
    for (key, change) in patch {
        let path = child(parent, key);
        match change {
            Value::Object(inner) => collect_replaced(inner, &path, paths),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                paths.push(path);
            }
        }
    }
}

fn collect_changed(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    parent: &str,
    paths: &mut Vec<String>,
) {
    for key in changed_keys(before, after) {
        let path = child(parent, &key);
        match (before.get(&key), after.get(&key)) {
            (Some(Value::Object(before)), Some(Value::Object(after))) => {
                collect_changed(before, after, &path, paths);
            }
            (Some(Value::Object(alone)), None) | (None, Some(Value::Object(alone))) if !alone.is_empty() => {
                collect_changed(alone, &Map::new(), &path, paths);
            }
            _ => paths.push(path),
        }
    }
}

/// Makes a value a table, if it is not one, and returns it.
fn table_of(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("made a table above")
}
