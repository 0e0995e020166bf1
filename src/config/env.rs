//! The only reader of the environment: `PORTCULLIS__SECTION__KEY=value` over every file.
//!
//! A value is read as TOML where it is TOML (`true`, `17`, `["a", "b"]`) and as text otherwise.
//! Members of lists are named by their `name` or their index, tables by their key; letters count
//! without case, and `_` stands for `-` and `.` too.

use serde_json::Map;
use serde_json::Value;

use crate::document::Document;
use crate::document::Fault;
use crate::document::Place;
use crate::document::Problem;
use crate::document::patch::child;
use crate::document::toml::parse_value;

/// What every variable of ours begins with.
pub const PREFIX: &str = "PORTCULLIS__";

/// The longest value that is taken over.
const VALUE_BYTES_MAX: usize = 64 * 1024;

/// Returns a variable of the process: for secrets that a `…_env` key names.
pub fn named(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The variables that override keys, in the order of their names.
#[derive(Clone, Default)]
pub struct Environment {
    variables: Vec<(String, String)>,
}

impl Environment {
    /// Returns what the environment of the process says. A value that is not UTF-8 is taken over
    /// with replacement characters, and so meets the checks of its key.
    pub fn of_process() -> Self {
        let readable = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        });
        Self::of(readable)
    }

    /// Returns those of some variables that override keys.
    pub fn of(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let ours = variables.into_iter().filter(|(name, _)| name.starts_with(PREFIX));
        let mut variables: Vec<(String, String)> = ours.collect();
        variables.sort();
        Self { variables }
    }

    /// Returns the variables that override a key in one of some sections, by name.
    pub fn of_sections(&self, sections: &[&str]) -> Map<String, Value> {
        let is_in = |name: &str| {
            let first = name.get(PREFIX.len()..).unwrap_or_default().split("__").next().unwrap_or_default();
            sections.iter().any(|section| same_name(section, first))
        };
        let named = self.variables.iter().filter(|(name, _)| is_in(name));
        named.map(|(name, value)| (name.clone(), Value::String(value.clone()))).collect()
    }

    /// Lays the variables over a document.
    ///
    /// # Errors
    ///
    /// Every variable that leads nowhere; a key that is merely unknown is put in, so that reading
    /// the document reports it like any other.
    pub fn overlay(&self, document: &mut Document) -> Result<(), Vec<Fault>> {
        let faults = self.variables.iter().filter_map(|(name, value)| {
            let problem = put(document, name, value).err()?;
            let place = Place { source: name.as_str().into(), line: None, column: None };
            Some(Fault { place: Some(place), key: String::new(), problem })
        });
        let faults: Vec<Fault> = faults.collect();
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.variables.iter().map(|(name, _)| name)).finish()
    }
}

fn put(document: &mut Document, name: &str, text: &str) -> Result<(), Problem> {
    let keys: Vec<&str> = name.get(PREFIX.len()..).unwrap_or_default().split("__").collect();
    if keys.iter().any(|key| key.is_empty()) {
        let reason = format!("expected a name like {PREFIX}SECTION__KEY");
        return Err(Problem::Invalid { reason, suggestion: None });
    }
    if text.len() > VALUE_BYTES_MAX {
        let reason = format!("expected {VALUE_BYTES_MAX} bytes at most");
        return Err(Problem::Invalid { reason, suggestion: None });
    }
    let value = parse_value(text).unwrap_or_else(|| Value::String(text.to_owned()));
    let path = put_in_table(document.root_mut(), &keys, String::new(), value)?;
    let place = Place { source: name.into(), line: None, column: None };
    document.places_mut().put(path, place);
    Ok(())
}

fn put_in_table(
    table: &mut Map<String, Value>,
    keys: &[&str],
    path: String,
    value: Value,
) -> Result<String, Problem> {
    let Some((first, rest)) = keys.split_first() else { return Ok(path) };
    let known = table.keys().find(|key| same_name(key, first)).cloned();
    let key = known.unwrap_or_else(|| first.to_ascii_lowercase());
    let path = child(&path, &key);
    if rest.is_empty() {
        table.insert(key, value);
        return Ok(path);
    }
    let slot = table.entry(key).or_insert_with(|| Value::Object(Map::new()));
    put_in_value(slot, rest, path, value)
}

fn put_in_value(slot: &mut Value, keys: &[&str], path: String, value: Value) -> Result<String, Problem> {
    match slot {
        Value::Object(table) => put_in_table(table, keys, path, value),
        Value::Array(items) => {
            let Some((first, rest)) = keys.split_first() else { return Ok(path) };
            let at = member(items, first).ok_or(Problem::Unknown { what: "member", suggestion: None })?;
            let path = format!("{path}[{at}]");
            match items.get_mut(at) {
                Some(item) if rest.is_empty() => {
                    *item = value;
                    Ok(path)
                }
                Some(item) => put_in_value(item, rest, path, value),
                None => Ok(path),
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Err(Problem::WrongType { expected: "the name of a key inside a table" })
        }
    }
}

/// Returns the index of a member that is named by its `name` or by its index.
fn member(items: &[Value], key: &str) -> Option<usize> {
    let name = |item: &Value| item.get("name").and_then(Value::as_str).map(str::to_owned);
    let by_name = items.iter().position(|item| name(item).is_some_and(|name| same_name(&name, key)));
    by_name.or_else(|| key.parse().ok().filter(|at| *at < items.len()))
}

fn same_name(known: &str, asked: &str) -> bool {
    let plain = |byte: u8| match byte {
        b'-' | b'.' => b'_',
        other => other.to_ascii_lowercase(),
    };
    known.bytes().map(plain).eq(asked.bytes().map(plain))
}
