//! A configuration document: a tree of values that remembers where each was written.
//!
//! In: TOML or YAML text, JSON, environment overrides, laid over each other as JSON merge patches
//! ([`patch`]). Out: a tree that is read key by key ([`section`]), gathering *all* faults with
//! file, line and key instead of stopping at the first. It knows nothing of what the keys mean,
//! and no fault ever repeats a value.

pub mod fault;
pub mod patch;
pub mod secret;
pub mod section;
pub mod toml;
pub mod yaml;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Map;
use serde_json::Value;
use sha2::Digest;
use sha2::Sha256;

pub use crate::document::fault::Fault;
pub use crate::document::fault::Problem;

/// A tree of values whose root is a table.
#[derive(Clone, Debug, Default)]
pub struct Document {
    root: Map<String, Value>,
    places: Places,
}

/// Where something was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, or what stands for it: an environment variable, an API call.
    pub source: Arc<str>,
    /// The line, from 1, where there is one.
    pub line: Option<usize>,
    /// The column in characters, from 1, where there is one.
    pub column: Option<usize>,
}

/// Where each key of a document was written, by its path (`routes[0].name`).
#[derive(Clone, Debug, Default)]
pub struct Places(BTreeMap<String, Place>);

impl Document {
    /// Returns the document of a JSON object, all of it written at `place`; `None` for any other
    /// JSON value.
    pub fn from_json(value: Value, place: Option<Place>) -> Option<Self> {
        let Value::Object(root) = value else { return None };
        let paths = patch::replaced_paths(&root).into_iter().chain([String::new()]);
        let places = place.map(|place| paths.map(|path| (path, place.clone())).collect());
        Some(Self { root, places: Places(places.unwrap_or_default()) })
    }

    /// Returns the root table.
    pub fn root(&self) -> &Map<String, Value> {
        &self.root
    }

    /// Returns a copy as a JSON value.
    pub fn to_json(&self) -> Value {
        Value::Object(self.root.clone())
    }

    /// Returns where each key was written.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Lays `over` over this document: a JSON merge patch that takes its places along.
    pub fn overlay(&mut self, over: Document) {
        for path in patch::replaced_paths(&over.root) {
            self.places.forget(&path);
        }
        self.places.0.extend(over.places.0.into_iter().filter(|(path, _)| !path.is_empty()));
        patch::merge(&mut self.root, over.root);
    }

    /// Returns this document as the table under some keys of a larger one.
    pub fn nested(self, keys: &[&str]) -> Document {
        let prefix = keys.join(".");
        let moved = self.places.0.into_iter().map(|(path, place)| (patch::child(&prefix, &path), place));
        let places = Places(moved.collect());
        let root = keys
            .iter()
            .rev()
            .fold(self.root, |inner, key| Map::from_iter([((*key).to_owned(), Value::Object(inner))]));
        Document { root, places }
    }

    /// Returns this document with the places of another that has the same keys.
    pub fn placed_like(mut self, other: &Document) -> Document {
        self.places = other.places.clone();
        self
    }

    /// Returns a digest of the values, in quotes, fit for an `ETag` header.
    ///
    /// Equal documents have equal digests, however they were written.
    pub fn etag(&self) -> String {
        let text = serde_json::to_vec(&self.root).expect("a tree of JSON values can be written");
        let digest = Sha256::digest(&text);
        let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        format!("\"{hex}\"")
    }

    /// Returns a copy for the eyes of others: whatever a key calls a secret reads `"***"`.
    pub fn masked(&self) -> Value {
        Value::Object(mask_table(&self.root))
    }

    pub(crate) fn root_mut(&mut self) -> &mut Map<String, Value> {
        &mut self.root
    }

    pub(crate) fn places_mut(&mut self) -> &mut Places {
        &mut self.places
    }
}

impl Places {
    /// Returns where a key was written, or else the nearest table around it.
    pub fn of(&self, path: &str) -> Option<&Place> {
        let mut path = path;
        loop {
            if let Some(place) = self.0.get(path) {
                return Some(place);
            }
            if path.is_empty() {
                return None;
            }
            let cut = path.rfind(['.', '[']).unwrap_or(0);
            path = path.get(..cut).unwrap_or_default();
        }
    }

    pub(crate) fn put(&mut self, path: String, place: Place) {
        self.0.insert(path, place);
    }

    fn forget(&mut self, path: &str) {
        let inside = |known: &str| {
            known.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.0.retain(|known, _| !inside(known));
    }
}

/// Tells whether a key by its name holds a secret itself, not the place of one.
pub fn names_secret(key: &str) -> bool {
    const SECRET_WORDS: [&str; 5] = ["secret", "password", "token", "api_key", "private_key"];
    SECRET_WORDS.iter().any(|word| key == *word || key.strip_suffix(word).is_some_and(|x| x.ends_with('_')))
}

fn mask_table(table: &Map<String, Value>) -> Map<String, Value> {
    table.iter().map(|(key, value)| (key.clone(), mask_value(key, value))).collect()
}

fn mask_value(key: &str, value: &Value) -> Value {
    match value {
        Value::Object(table) => Value::Object(mask_table(table)),
        Value::Array(items) => Value::Array(items.iter().map(|item| mask_value(key, item)).collect()),
        Value::String(_) | Value::Number(_) if names_secret(key) => Value::String("***".to_owned()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests;
