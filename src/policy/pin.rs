//! Tools pinned by their definitions: what a caller saw under a name first is what it has to be.
//!
//! In: the tools of a body, who sent it, on which route, and when. Out: those whose definition is another than the
//! one pinned, and those that share a name, or seem to. Kept in the store, so that a restart forgets nothing.
//!
//! A pin is never moved by the definition that contradicts it: until someone allows the new one (an allow-list entry
//! with its hash), or the old one was not seen for [`PIN_DAYS`] days, every body that has it is reported.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::hash::RandomState;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::Serialize;
use sha2::Digest;
use sha2::Sha256;

use crate::llm::tools::ToolDefinition;
use crate::scan::rule::fact::ToolFact;
use crate::scan::view;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Table;

/// The most pins of all callers; past it, the callers that were away longest are forgotten.
pub const PINS_MAX: usize = 100_000;

/// The most pins of one caller on one route; what comes after them is not pinned.
pub const PINS_PER_CALLER_MAX: usize = 1024;

/// After how many days without the pinned definition another one takes its place.
pub const PIN_DAYS: i64 = 30;

const SECONDS_PER_DAY: i64 = 86_400;

/// The pins of all callers.
pub struct Pins {
    table: Table<String, CallerRecord>,
    known: Mutex<HashMap<String, Caller>>,
    seed: RandomState,
}

/// The pins of one caller on one route.
#[derive(Debug, Default)]
struct Caller {
    pins: BTreeMap<String, Pin>,
    seen_day: i64,
    /// A quick hash of the tools that were last found to be as they should be.
    quiet: u64,
}

#[derive(Debug)]
struct Pin {
    definition: String,
    seen_day: i64,
    /// A quick hash of the bytes that last proved to be that definition.
    memo: u64,
}

/// The pins of a caller, as they are stored.
#[derive(Serialize, Deserialize)]
struct CallerRecord {
    seen_day: i64,
    /// By the hash of origin and name: the hash of the definition, and the day it was last seen.
    pins: BTreeMap<String, (String, i64)>,
}

impl Record for CallerRecord {
    const VERSION: u32 = 1;
}

impl Pins {
    /// Reads the pins of a store.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn open(store: &Store) -> Result<Self, StoreError> {
        let table: Table<String, CallerRecord> = store.table("policy.tool_pins");
        let records = table.list(&KeyRange::all(), Order::Ascending, PINS_MAX)?;
        let known = records.into_iter().map(|(key, record)| (key, Caller::from(record))).collect();
        Ok(Self { table, known: Mutex::new(known), seed: RandomState::new() })
    }

    /// Compares tools with what is pinned, pins those that are new, and returns what is worth a look.
    pub fn check(
        &self,
        caller: &str,
        route: &str,
        tools: &[ToolDefinition<'_>],
        now: Timestamp,
    ) -> Vec<ToolFact> {
        let today = now.as_second() / SECONDS_PER_DAY;
        let key = digest(&[caller.as_bytes(), route.as_bytes()]);
        let memos: Vec<u64> = tools.iter().map(|tool| self.seed.hash_one(tool.raw)).collect();
        let names = tools.iter().map(|tool| (&tool.origin, &tool.name));
        let all = self.seed.hash_one((&memos, names.collect::<Vec<_>>()));
        let same = |caller: &Caller| caller.quiet == all && caller.seen_day == today;
        if self.known.lock().get(&key).is_some_and(same) {
            return Vec::new();
        }
        let shadowed = shadowed(tools);
        let mut facts = Vec::new();
        let (mut known, mut is_dirty) = (self.known.lock(), false);
        let entry = known.entry(key.clone()).or_default();
        is_dirty |= std::mem::replace(&mut entry.seen_day, today) != today;
        for ((tool, memo), shadowed) in tools.iter().zip(memos).zip(shadowed) {
            let change = entry.check(tool, memo, today);
            is_dirty |= change.is_dirty;
            if shadowed || change.differs.is_some() {
                let definition = change.differs.clone().unwrap_or_else(|| definition(tool));
                let changed = change.differs.is_some();
                facts.push(ToolFact {
                    name: tool.name.as_ref().into(),
                    definition: definition.into(),
                    changed,
                    shadowed,
                });
            }
        }
        if facts.is_empty() {
            entry.quiet = all;
        }
        if is_dirty {
            let record = CallerRecord::from(&*entry);
            let gone = forget(&mut known, &key);
            drop(known);
            self.keep(&key, &record, &gone);
        }
        facts
    }

    /// Writes a caller's pins; what cannot be written is known until the next start.
    fn keep(&self, key: &String, record: &CallerRecord, gone: &[String]) {
        let written = self.table.put(key, record);
        let removed = gone.iter().try_for_each(|gone| self.table.delete(gone));
        if let Err(error) = written.and(removed) {
            tracing::warn!(%error, "the pins of a caller's tools could not be kept");
        }
    }
}

/// What became of one tool.
#[derive(Default)]
struct Change {
    /// The hash of a definition that is not the pinned one.
    differs: Option<String>,
    is_dirty: bool,
}

impl Caller {
    fn check(&mut self, tool: &ToolDefinition<'_>, memo: u64, today: i64) -> Change {
        let name = digest(&[tool.origin.as_bytes(), tool.name.as_bytes()]);
        let is_full = self.pins.len() >= PINS_PER_CALLER_MAX;
        match self.pins.get_mut(&name) {
            Some(pin) if pin.memo == memo => pin.seen(today),
            Some(pin) => {
                let definition = definition(tool);
                if pin.definition == definition {
                    pin.memo = memo;
                    return pin.seen(today);
                }
                if today - pin.seen_day > PIN_DAYS {
                    *pin = Pin { definition, seen_day: today, memo };
                    return Change { differs: None, is_dirty: true };
                }
                Change { differs: Some(definition), is_dirty: false }
            }
            None if is_full => Change::default(),
            None => {
                self.pins.insert(name, Pin { definition: definition(tool), seen_day: today, memo });
                Change { differs: None, is_dirty: true }
            }
        }
    }
}

impl Pin {
    /// Notes that the definition was seen; a day is noted once.
    fn seen(&mut self, today: i64) -> Change {
        let is_dirty = std::mem::replace(&mut self.seen_day, today) != today;
        Change { differs: None, is_dirty }
    }
}

impl From<CallerRecord> for Caller {
    fn from(record: CallerRecord) -> Self {
        let pin = |(name, (definition, seen_day))| (name, Pin { definition, seen_day, memo: 0 });
        Self { pins: record.pins.into_iter().map(pin).collect(), seen_day: record.seen_day, quiet: 0 }
    }
}

impl From<&Caller> for CallerRecord {
    fn from(caller: &Caller) -> Self {
        let pin = |(name, pin): (&String, &Pin)| (name.clone(), (pin.definition.clone(), pin.seen_day));
        Self { seen_day: caller.seen_day, pins: caller.pins.iter().map(pin).collect() }
    }
}

/// Lets the callers go that were away longest, until there are few enough pins; returns their keys.
fn forget(known: &mut HashMap<String, Caller>, kept: &str) -> Vec<String> {
    let mut gone = Vec::new();
    let mut count: usize = known.values().map(|caller| caller.pins.len()).sum();
    while count > PINS_MAX {
        let others = known.iter().filter(|(key, _)| *key != kept);
        let Some(oldest) = others.min_by_key(|(_, caller)| caller.seen_day).map(|(key, _)| key.clone())
        else {
            break;
        };
        count -= known.remove(&oldest).map_or(0, |caller| caller.pins.len());
        gone.push(oldest);
    }
    gone
}

/// Tells of each tool whether another one goes by its name, or by one that reads like it.
fn shadowed(tools: &[ToolDefinition<'_>]) -> Vec<bool> {
    let mut by_look: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
    for (at, tool) in tools.iter().enumerate() {
        by_look.entry(look(&tool.name)).or_default().push(at);
    }
    let mut shadowed = vec![false; tools.len()];
    for alike in by_look.values().filter(|alike| alike.len() > 1) {
        let first = alike.first().and_then(|first| tools.get(*first));
        let differs = |at: &&usize| tools.get(**at) != first;
        if alike.iter().any(|at| differs(&at)) {
            alike.iter().for_each(|at| shadowed[*at] = true);
        }
    }
    shadowed
}

/// Returns a name as a hasty reader sees it: no case, no separators, no look-alike letters.
fn look(name: &str) -> Vec<u8> {
    let seen = view::canonical(name.as_bytes());
    let bytes = seen.as_ref().map_or(name.as_bytes(), |view| view.bytes());
    let letters = bytes.iter().filter(|byte| !matches!(byte, b'_' | b'-' | b'.' | b' '));
    letters.map(u8::to_ascii_lowercase).collect()
}

/// Returns the hash by which a definition is pinned, and may be allowed.
fn definition(tool: &ToolDefinition<'_>) -> String {
    digest(&[&tool.canonical().unwrap_or_else(|| tool.raw.to_vec())])
}

/// Returns the SHA-256 of parts, each with its length, in hexadecimal.
fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    if let [only] = parts {
        hash.update(only);
    } else {
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &'static str, raw: &'static str) -> ToolDefinition<'static> {
        ToolDefinition { origin: "".into(), name: name.into(), raw: raw.as_bytes() }
    }

    fn on_day(day: i64) -> Timestamp {
        Timestamp::from_second(day * SECONDS_PER_DAY + 5).unwrap()
    }

    fn changed(pins: &Pins, caller: &str, raw: &'static str, day: i64) -> bool {
        pins.check(caller, "r", &[tool("add", raw)], on_day(day)).iter().any(|fact| fact.changed)
    }

    #[test]
    fn a_definition_that_changes_is_told_until_the_old_one_is_forgotten() {
        let store = Store::in_memory();
        let pins = Pins::open(&store).unwrap();
        assert!(!changed(&pins, "a", r#"{"name":"add","d":"adds"}"#, 0), "the first is pinned");
        assert!(!changed(&pins, "a", r#"{ "d": "adds", "name": "add" }"#, 1), "the same, written otherwise");
        assert!(changed(&pins, "a", r#"{"name":"add","d":"adds and sends"}"#, 2));
        assert!(changed(&pins, "a", r#"{"name":"add","d":"adds and sends"}"#, 3), "and again");
        assert!(!changed(&pins, "b", r#"{"name":"add","d":"adds and sends"}"#, 3), "another caller's tool");

        let pins = Pins::open(&store).unwrap();
        assert!(changed(&pins, "a", r#"{"name":"add","d":"adds and sends"}"#, 4), "after a restart");
        assert!(!changed(&pins, "a", r#"{"name":"add","d":"adds"}"#, 4), "the pinned one");
        assert!(changed(&pins, "a", r#"{"name":"add","d":"adds and sends"}"#, 4 + PIN_DAYS));
        assert!(!changed(&pins, "a", r#"{"name":"add","d":"adds and sends"}"#, 5 + PIN_DAYS));
        assert!(
            changed(&pins, "a", r#"{"name":"add","d":"adds"}"#, 5 + PIN_DAYS),
            "the new one is pinned now"
        );
    }

    #[test]
    fn names_that_read_alike_shadow_each_other() {
        let told = |tools: &[ToolDefinition<'static>]| -> Vec<String> {
            let facts = Pins::open(&Store::in_memory()).unwrap().check("a", "r", tools, on_day(0));
            facts.iter().filter(|fact| fact.shadowed).map(|fact| fact.name.to_string()).collect()
        };
        let mail = tool("send_email", r#"{"name":"send_email"}"#);
        assert_eq!(told(&[mail.clone(), tool("read_email", "{}")]), Vec::<String>::new());
        assert_eq!(told(&[mail.clone(), mail.clone()]), Vec::<String>::new(), "the same twice");
        assert_eq!(told(&[mail.clone(), tool("sendEmail", "{}")]), ["send_email", "sendEmail"]);
        assert_eq!(told(&[mail.clone(), tool("send_\u{0435}mail", "{}")]).len(), 2, "a Cyrillic letter");
        assert_eq!(told(&[mail.clone(), tool("send_email", r#"{"name":"send_email","d":"x"}"#)]).len(), 2);
        let foreign = ToolDefinition { origin: "other".into(), ..mail.clone() };
        assert_eq!(told(&[mail, foreign]).len(), 2, "another server's tool of the same name");
    }

    #[test]
    fn what_one_caller_can_pin_has_an_end() {
        let pins = Pins::open(&Store::in_memory()).unwrap();
        let names: Vec<String> = (0..PINS_PER_CALLER_MAX + 10).map(|at| format!("tool{at}")).collect();
        let tools = |raw: &'static str| -> Vec<ToolDefinition<'_>> {
            names
                .iter()
                .map(|name| ToolDefinition { origin: "".into(), name: name.into(), raw: raw.as_bytes() })
                .collect()
        };
        assert!(pins.check("a", "r", &tools("{\"a\":1}"), on_day(0)).is_empty());
        assert_eq!(pins.check("a", "r", &tools("{\"a\":2}"), on_day(0)).len(), PINS_PER_CALLER_MAX);
    }
}
