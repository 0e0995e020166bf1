//! A policy as answers show it, taken back as a change.
//!
//! In: a body that has members which only answers have (`enabled`, the `mode` of the whole, `routes`, …), and the policy as
//! it is. Out: the keys of a policy file. What differs from what is shown is changed; what is as it was, or left out,
//! stays. What only tells of something else is never passed over: it has to be as it is.

use std::collections::BTreeSet;

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use super::super::wire::threshold;
use crate::document::Document;
use crate::document::Fault;
use crate::document::Problem;
use crate::document::section;
use crate::policy::decision::Mode;
use crate::policy::decision::PolicyId;
use crate::policy::file::CategoryRule;
use crate::policy::file::DetectorOverride;
use crate::policy::file::PolicyFile;
use crate::scan::threat::Category;

/// The members that only answers have.
const TOLD: [&str; 7] = ["id", "enabled", "mode", "routes", "created_at", "updated_at", DEFINITION];
/// What cannot be set, and what to do.
const FIXED: [(&str, &str); 4] = [
    ("id", "does not change: add a policy of the other name"),
    ("routes", "cannot be set here: each route names its policy, in `routes` of /api/v1/config"),
    ("created_at", "is told by the gateway: leave it out, or as it is"),
    ("updated_at", "is told by the gateway: leave it out, or as it is"),
];
const DEFINITION: &str = "definition";
const CATEGORIES: &str = "categories";
const DIRECTIONS: [&str; 2] = ["request", "response"];

/// Tells whether a body is a policy as answers show it, and not the keys of a policy file.
pub fn is_as_told(body: &Map<String, Value>) -> bool {
    let categories = body.get(CATEGORIES).and_then(Value::as_object).into_iter().flatten();
    let mut categories = categories.filter_map(|(_, category)| category.get("enabled"));
    TOLD.iter().any(|key| body.contains_key(*key)) || categories.next().is_some()
}

/// Returns the keys of a policy file that a body stands for. `before` are those in force, where there are any, and `told`
/// is what answers show of them. What does not read at all is left to whoever reads policy files.
///
/// # Errors
/// Every member that cannot be set so, with what to do instead.
pub fn definition(
    id: &PolicyId,
    before: Option<&Map<String, Value>>,
    told: &Map<String, Value>,
    mut body: Map<String, Value>,
) -> Result<Map<String, Value>, Vec<Fault>> {
    let mut faults = Vec::new();
    for (key, reason) in FIXED {
        let sent = body.remove(key);
        if sent.is_some_and(|sent| told.get(key) != Some(&sent)) {
            faults.push(fault(id, key, reason));
        }
    }
    let base = match body.remove(DEFINITION) {
        None => before.cloned().unwrap_or_default(),
        Some(sent) if told.get(DEFINITION) == Some(&sent) => before.cloned().unwrap_or_default(),
        Some(Value::Object(definition)) => definition,
        Some(_) => {
            faults.push(fault(id, DEFINITION, "expected an object"));
            Map::new()
        }
    };
    let Some(shown) = read(id, before.unwrap_or(&base)) else { return Ok(base) };
    let mut change = Change { id, shown, made: base, settled: BTreeSet::new(), faults };
    change.apply(body, before.is_none());
    if change.faults.is_empty() { Ok(change.made) } else { Err(change.faults) }
}

/// A policy on its way from what is shown to what is wanted.
struct Change<'a> {
    id: &'a PolicyId,
    /// What is shown now, which tells what of a body is new.
    shown: PolicyFile,
    made: Map<String, Value>,
    /// The categories whose mode the body itself says.
    settled: BTreeSet<Category>,
    faults: Vec<Fault>,
}

impl Change<'_> {
    /// Takes over all that a body says. Of a new policy all of it counts, of another what differs from what is shown.
    fn apply(&mut self, mut body: Map<String, Value>, is_new: bool) {
        let (strictest, mut names_categories) = (strictest(&self.shown), false);
        let is_on = strictest != Mode::Off;
        let enabled = self.flag("enabled", body.remove("enabled"));
        let mode = self.mode(body.remove("mode")).filter(|mode| is_new || *mode != strictest);
        if (enabled, mode) == (Some(true), Some(Mode::Off)) {
            self.faults.push(fault(self.id, "enabled", "is true, and yet the mode is off: send false"));
        }
        let enabled = enabled.filter(|enabled| is_new || *enabled != is_on);
        match body.remove(CATEGORIES) {
            Some(Value::Object(categories)) => {
                names_categories = !categories.is_empty();
                categories.into_iter().for_each(|(name, wanted)| self.category(&name, wanted, mode));
            }
            Some(odd) => drop(self.made.insert(CATEGORIES.to_owned(), odd)),
            None => {}
        }
        for (key, value) in body {
            if self.shown_of(&key).as_ref() != Some(&value) {
                put(&mut self.made, key, value);
            }
        }
        match (enabled, mode) {
            (Some(false), _) => self.limit(Mode::Off, Mode::min),
            (_, Some(mode)) if names_categories || mode <= strictest => self.limit(mode, Mode::min),
            (_, Some(mode)) => self.limit(mode, |_, mode| mode),
            (_, None) => {}
        }
        self.ensure(enabled, mode);
    }

    /// Takes over what is wanted of one category; one that is named without a mode gets that of the whole, where there is
    /// a new one.
    fn category(&mut self, name: &str, wanted: Value, whole: Option<Mode>) {
        let (Ok(category), Value::Object(mut wanted)) = (name.parse::<Category>(), wanted.clone()) else {
            // Whoever reads policy files says what is wrong with it.
            self.inner(CATEGORIES).insert(name.to_owned(), wanted);
            return;
        };
        let rule = self.shown.category(category);
        let key = format!("{CATEGORIES}.{name}");
        let enabled = self.flag(&format!("{key}.enabled"), wanted.remove("enabled"));
        let is_said = ["mode", "request", "response"].iter().any(|key| wanted.contains_key(*key));
        let says_off = wanted.get("mode").is_some_and(|mode| mode == Mode::Off.as_str());
        let is_off = strictest_of(rule) == Mode::Off;
        wanted.retain(|key, value| shown_rule(rule, key).as_ref() != Some(&*value));
        let is_new = ["mode", "request", "response"].iter().any(|key| wanted.contains_key(*key));
        match enabled {
            Some(true) if says_off || (is_off && !is_new && whole.is_none_or(|mode| mode == Mode::Off)) => {
                let reason = "is true without a mode: say monitor, redact or block in `mode`";
                self.faults.push(fault(self.id, &format!("{key}.enabled"), reason));
            }
            Some(false) if is_off && is_new => {
                let reason = "is false, and yet there is a new mode: send true";
                self.faults.push(fault(self.id, &format!("{key}.enabled"), reason));
            }
            Some(false) if is_off => {}
            Some(false) => {
                wanted.retain(|key, _| !DIRECTIONS.contains(&key.as_str()));
                wanted.insert("mode".to_owned(), json!(Mode::Off.as_str()));
            }
            Some(true) | None => {
                if let Some(mode) = whole.filter(|_| !is_said) {
                    wanted.insert("mode".to_owned(), json!(mode.as_str()));
                }
            }
        }
        if ["mode", "request", "response"].iter().any(|key| wanted.contains_key(*key)) {
            self.settled.insert(category);
        }
        if !wanted.is_empty() {
            self.write(category, wanted);
        }
    }

    /// Writes keys of a category; a mode begins afresh, whatever the directions had.
    fn write(&mut self, category: Category, keys: Map<String, Value>) {
        let slot = self.inner(CATEGORIES).entry(category.as_str()).or_insert_with(|| json!({}));
        let Some(table) = slot.as_object_mut() else { return };
        if keys.contains_key("mode") {
            table.retain(|key, _| !DIRECTIONS.contains(&key.as_str()));
        }
        keys.into_iter().for_each(|(key, value)| put(table, key, value));
    }

    /// Changes the modes of all categories that are on, and of which the body says none itself.
    fn limit(&mut self, mode: Mode, of: fn(Mode, Mode) -> Mode) {
        let Some(now) = read(self.id, &self.made) else { return };
        for category in Category::ALL {
            let CategoryRule { request, response, .. } = now.category(category);
            let wanted = [of(request, mode), of(response, mode)];
            let is_as_wanted = request.max(response) == Mode::Off || wanted == [request, response];
            if is_as_wanted || self.settled.contains(&category) {
                continue;
            }
            let [request, response] = wanted.map(Mode::as_str);
            let keys = if request == response {
                json!({ "mode": request })
            } else {
                json!({ "request": request, "response": response })
            };
            self.write(category, keys.as_object().cloned().unwrap_or_default());
        }
    }

    /// Refuses what the whole is said to be, and is not by what its parts are.
    fn ensure(&mut self, enabled: Option<bool>, mode: Option<Mode>) {
        let Some(made) = read(self.id, &self.made) else { return };
        let now = strictest(&made);
        let most = if enabled == Some(false) { Some(Mode::Off) } else { mode };
        let most = most.filter(|most| *most != strictest(&self.shown));
        match (enabled, now) {
            (Some(true), Mode::Off) => {
                let reason = "no category has a mode other than off: say one in `categories`";
                self.faults.push(fault(self.id, "enabled", reason));
            }
            (Some(false), Mode::Monitor | Mode::Redact | Mode::Block) => {
                let reason = "a policy is off when all of its categories are: send `enabled` false in each";
                self.faults.push(fault(self.id, "enabled", reason));
            }
            _ if enabled != Some(false) && mode.is_some_and(|mode| mode != now) => {
                let reason = "is the strictest mode of the categories: change theirs";
                self.faults.push(fault(self.id, "mode", reason));
            }
            _ => {}
        }
        let is_stricter = |own: &DetectorOverride| {
            most.is_some_and(|most| own.request.max(own.response).is_some_and(|own| own > most))
        };
        for (name, _) in made.detectors.iter().filter(|(_, own)| is_stricter(own)) {
            let reason = "has a stricter mode of its own than the whole is to have: change it, too";
            self.faults.push(fault(self.id, &format!("detectors.{name}"), reason));
        }
    }

    fn inner(&mut self, key: &str) -> &mut Map<String, Value> {
        let slot = self.made.entry(key).or_insert(Value::Null);
        if !slot.is_object() {
            *slot = json!({});
        }
        slot.as_object_mut().expect("made a table above")
    }

    fn shown_of(&self, key: &str) -> Option<Value> {
        match key {
            "name" => Some(json!(self.shown.name)),
            "description" => Some(json!(self.shown.description)),
            "fail_mode" => Some(json!(self.shown.fail_mode.as_str())),
            _ => None,
        }
    }

    fn flag(&mut self, key: &str, value: Option<Value>) -> Option<bool> {
        let value = value?;
        if !value.is_boolean() {
            self.faults.push(fault(self.id, key, "expected true or false"));
        }
        value.as_bool()
    }

    fn mode(&mut self, value: Option<Value>) -> Option<Mode> {
        let value = value?;
        let mode = value.as_str().and_then(|text| text.parse().ok());
        if mode.is_none() {
            self.faults.push(fault(self.id, "mode", "expected off, monitor, redact or block"));
        }
        mode
    }
}

/// Puts a value under a key; null takes the key away.
fn put(table: &mut Map<String, Value>, key: String, value: Value) {
    if value.is_null() {
        table.remove(&key);
    } else {
        table.insert(key, value);
    }
}

/// Returns what answers show under a key of a category.
fn shown_rule(rule: CategoryRule, key: &str) -> Option<Value> {
    match key {
        "mode" => Some(json!(strictest_of(rule).as_str())),
        "request" => Some(json!(rule.request.as_str())),
        "response" => Some(json!(rule.response.as_str())),
        "threshold" => Some(json!(threshold(rule.threshold))),
        "only" => Some(json!(rule.only.map(|only| only.as_str()))),
        _ => None,
    }
}

fn strictest(policy: &PolicyFile) -> Mode {
    let modes = Category::ALL.into_iter().map(|category| strictest_of(policy.category(category)));
    modes.max().unwrap_or(Mode::Off)
}

fn strictest_of(rule: CategoryRule) -> Mode {
    rule.request.max(rule.response)
}

/// Reads the keys of a policy file; `None` where they are faulty.
fn read(id: &PolicyId, keys: &Map<String, Value>) -> Option<PolicyFile> {
    let document = Document::from_json(Value::Object(keys.clone()), None)?;
    section::read(&document, |root| PolicyFile::read(id.clone(), root)).ok()
}

fn fault(id: &PolicyId, key: &str, reason: &str) -> Fault {
    let problem = Problem::Invalid { reason: reason.to_owned(), suggestion: None };
    Fault { place: None, key: format!("policies.{id}.{key}"), problem }
}
