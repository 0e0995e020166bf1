//! Tools pinned by their definitions: what a caller saw under a name first is what it has to be.
//!
//! In: the tools of a body, who sent it, on which route, and when. Out: those whose definition is another than the
//! one pinned, and those that share a name, or seem to. Kept in the store, so that a restart forgets nothing.
//!
//! A pin is never moved by the definition that contradicts it: until someone allows the new one (an allow-list entry
//! with its hash), or the old one was not seen for [`PIN_DAYS`] days, every body that has it is reported.
//!
//! Who uses which tool is nobody's business: what is stored are hashes under a key of the caller's own ([`PinKeys`]),
//! which say nothing once that key is destroyed. Whoever gets no key is known until the process ends. The hash that is
//! told, and by which a definition is allowed, is of the definition alone, and is not stored.

mod alike;

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::hash::RandomState;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::Serialize;
use sha2::Digest;
use sha2::Sha256;

use crate::clock::Clock;
use crate::llm::tools::ToolDefinition;
use crate::scan::rule::fact::ToolFact;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Table;

/// The most pins of all callers; past it strangers are forgotten, and then the callers that were away longest.
pub const PINS_MAX: usize = 100_000;
/// How many are left where there were more: so they are not sorted anew for each that comes.
const PINS_KEPT: usize = PINS_MAX - PINS_MAX / 20;

/// The most pins of one caller on one route; what comes after them is not pinned.
pub const PINS_PER_CALLER_MAX: usize = 1024;

/// After how many days without the pinned definition another one takes its place.
pub const PIN_DAYS: i64 = 30;

const SECONDS_PER_DAY: i64 = 86_400;
/// How many bytes of a hash a row is found by.
const ROW_BYTES: usize = 16;
/// What stands between the hash of a caller and that of its route in what a row is found by.
const BETWEEN: char = '.';

/// The pins of all callers.
pub struct Pins {
    table: Table<String, CallerRecord>,
    keys: PinKeys,
    known: Mutex<Known>,
    /// Also makes the keys of those who have none of their own.
    seed: RandomState,
    /// Says how long ago a definition was seen; without it whoever asks does.
    sure: Option<Arc<dyn Clock>>,
}

/// Returns the key of a caller by its name.
pub type KeyOf = Box<dyn Fn(&str) -> Option<PinKey> + Send + Sync>;

/// Where the keys of callers come from, under which their pins are hashed.
pub struct PinKeys {
    /// Returns the key of a caller, a new one if need be; `None`: there is no place for it.
    pub make: KeyOf,
    /// Returns the key of a caller that has one.
    pub find: KeyOf,
}

/// What pins are hashed under.
pub type Secret = [u8; 32];

/// A key of a caller's own.
pub struct PinKey {
    /// The key; it is gone with the caller.
    pub secret: Secret,
    /// Whether no provider has taken the caller's credential yet.
    pub is_stranger: bool,
}

#[derive(Default)]
struct Known {
    /// By caller and route.
    callers: HashMap<String, Caller>,
    /// What version 1 has written and nobody has asked for yet: nothing tells whose it is.
    plain: HashMap<String, CallerRecord>,
    /// The day on which those were last forgotten that were away too long.
    swept_day: i64,
    /// No fewer than there are pins: those that went since they were counted are still among them.
    pins: usize,
}

/// The pins of one caller on one route.
#[derive(Debug, Default)]
struct Caller {
    pins: BTreeMap<String, Pin>,
    seen_day: i64,
    is_stranger: bool,
    /// A quick hash of the tools that were last found to be as they should be.
    quiet: u64,
}

#[derive(Debug)]
struct Pin {
    /// The hash of its hash.
    definition: String,
    seen_day: i64,
    /// A quick hash of the bytes that last proved to be that definition.
    memo: u64,
}

/// The pins of a caller, as they are stored.
#[derive(Serialize, Deserialize)]
struct CallerRecord {
    seen_day: i64,
    /// Whether the caller showed nothing that tells who it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_stranger: bool,
    /// By the hash of origin and name: the hash of the definition, and the day it was last seen. Both are hashed again
    /// under the caller's key, but in version 1.
    pins: BTreeMap<String, (String, i64)>,
}

impl Record for CallerRecord {
    const VERSION: u32 = 2;

    fn upgrade(version: u32, old: serde_json::Value) -> Option<Self> {
        (version == 1).then(|| serde_json::from_value(old).ok()).flatten()
    }
}

impl Pins {
    /// Reads the pins of a store.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn open(store: &Store, keys: PinKeys) -> Result<Self, StoreError> {
        let table: Table<String, CallerRecord> = store.table("policy.tool_pins");
        let mut known = Known::default();
        for (row, record) in table.list(&KeyRange::all(), Order::Ascending, PINS_MAX)? {
            known.pins += record.pins.len();
            match row.contains(BETWEEN) {
                true => drop(known.callers.insert(row, Caller::from(record))),
                false => drop(known.plain.insert(row, record)),
            }
        }
        Ok(Self { table, keys, known: Mutex::new(known), seed: RandomState::new(), sure: None })
    }

    /// Returns the same pins, which give way by a clock that surely does not run ahead: one that jumped would let any
    /// definition take the place of any.
    pub fn aged_by(self, sure: Arc<dyn Clock>) -> Self {
        Self { sure: Some(sure), ..self }
    }

    /// Compares tools with what is pinned, pins those that are new, and returns what is worth a look.
    pub fn check(
        &self,
        caller: &str,
        route: &str,
        tools: &[ToolDefinition<'_>],
        now: Timestamp,
    ) -> Vec<ToolFact> {
        let now = self.sure.as_ref().map_or(now, |sure| sure.now().min(now));
        let today = now.as_second() / SECONDS_PER_DAY;
        let own = (self.keys.make)(caller);
        let (is_kept, is_stranger) = (own.is_some(), own.as_ref().is_none_or(|own| own.is_stranger));
        let key = self.key(caller, own);
        let row = row(&key, caller, route);
        let memos: Vec<u64> = tools.iter().map(|tool| self.seed.hash_one(tool.raw)).collect();
        let names = tools.iter().map(|tool| (&tool.origin, &tool.name));
        let all = self.seed.hash_one((&memos, names.collect::<Vec<_>>()));
        let same = |caller: &Caller| caller.quiet == all && caller.seen_day == today;
        if self.known.lock().callers.get(&row).is_some_and(same) {
            return Vec::new();
        }
        let shadowed = alike::shadowed(tools);
        let mut facts = Vec::new();
        let mut known = self.known.lock();
        let mut gone = known.sweep(today);
        gone.extend(known.take_plain((caller, route), &row, &key));
        let mut is_dirty = !gone.is_empty();
        let Known { callers, pins, .. } = &mut *known;
        let entry = callers.entry(row.clone()).or_default();
        let pinned = entry.pins.len();
        entry.is_stranger = is_stranger;
        is_dirty |= std::mem::replace(&mut entry.seen_day, today) != today;
        for ((tool, memo), shadowed) in tools.iter().zip(memos).zip(shadowed) {
            let change = entry.check(tool, &key, memo, today);
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
        *pins += entry.pins.len() - pinned;
        if is_dirty {
            let record = is_kept.then(|| CallerRecord::from(&*entry));
            gone.extend(known.forget(&row));
            // Whoever was away too long may be the one who is back.
            gone.retain(|gone| *gone != row);
            drop(known);
            self.keep(&row, record.as_ref(), &gone);
        }
        facts
    }

    /// Returns how many tools are pinned of a caller, on all routes.
    pub fn count(&self, caller: &str) -> u64 {
        let Some(rows) = self.rows_of(caller) else { return 0 };
        let known = self.known.lock();
        known
            .callers
            .iter()
            .filter(|(row, _)| row.starts_with(&rows))
            .map(|(_, it)| it.pins.len() as u64)
            .sum()
    }

    /// Forgets the pins of a caller on all routes, and comes back once the disk has, too; returns how many there were.
    /// Of those that version 1 has written nothing tells whose they are: all of them go.
    ///
    /// # Errors
    /// The store failed, and they may be there after a restart.
    pub fn forget(&self, caller: &str) -> Result<u64, StoreError> {
        let rows = self.rows_of(caller);
        let is_its = |row: &String| rows.as_ref().is_some_and(|rows| row.starts_with(rows));
        let mut known = self.known.lock();
        let plain = known.plain.drain().map(|(row, _)| (row, 0)).collect::<Vec<_>>();
        let own = known.callers.extract_if(|row, _| is_its(row)).map(|(row, it)| (row, it.pins.len() as u64));
        let gone: Vec<_> = own.chain(plain).collect();
        drop(known);
        gone.iter().try_for_each(|(row, _)| self.table.delete(row))?;
        if !gone.is_empty() {
            self.table.store().durable()?;
        }
        Ok(gone.iter().map(|(_, pins)| pins).sum())
    }

    /// Returns what the rows of a caller begin with; `None`: it has no key, and no rows.
    fn rows_of(&self, caller: &str) -> Option<String> {
        let own = (self.keys.find)(caller)?;
        Some(of_caller(&self.key(caller, Some(own)), caller))
    }

    fn key(&self, caller: &str, own: Option<PinKey>) -> Secret {
        own.map_or_else(
            || {
                let mut secret = Secret::default();
                for (at, part) in secret.chunks_exact_mut(8).enumerate() {
                    part.copy_from_slice(&self.seed.hash_one((at, caller)).to_le_bytes());
                }
                secret
            },
            |own| own.secret,
        )
    }

    /// Writes a caller's pins; what cannot be written is known until the next start.
    fn keep(&self, row: &String, record: Option<&CallerRecord>, gone: &[String]) {
        let written = record.map_or(Ok(()), |record| self.table.put(row, record));
        let removed = gone.iter().try_for_each(|gone| self.table.delete(gone));
        if let Err(error) = written.and(removed) {
            tracing::warn!(%error, "the pins of a caller's tools could not be kept");
        }
    }
}

impl Known {
    /// Takes over what version 1 wrote of a caller and a route; returns where it lay.
    fn take_plain(&mut self, (caller, route): (&str, &str), row: &str, key: &Secret) -> Option<String> {
        if self.plain.is_empty() || self.callers.contains_key(row) {
            return None;
        }
        let plain = digest(&[caller.as_bytes(), route.as_bytes()]);
        let CallerRecord { seen_day, is_stranger, pins } = self.plain.remove(&plain)?;
        let keyed = |(name, (definition, day)): (String, (String, i64))| {
            (hashed(key, Part::Tool, &name), (hashed(key, Part::Definition, &definition), day))
        };
        let record = CallerRecord { seen_day, is_stranger, pins: pins.into_iter().map(keyed).collect() };
        self.callers.insert(row.to_owned(), Caller::from(record));
        Some(plain)
    }

    /// Lets those go, once a day, whose pins could all be replaced by now; returns where they lay.
    fn sweep(&mut self, today: i64) -> Vec<String> {
        if std::mem::replace(&mut self.swept_day, today) == today {
            return Vec::new();
        }
        let is_old = |seen_day: i64| today - seen_day > PIN_DAYS;
        let plain = self.plain.extract_if(|_, record| is_old(record.seen_day)).map(|(row, _)| row);
        let callers = self.callers.extract_if(|_, caller| is_old(caller.seen_day)).map(|(row, _)| row);
        plain.chain(callers).collect()
    }

    /// Lets others go until there are few enough pins, strangers first, and then those that were away longest; returns
    /// where they lay.
    fn forget(&mut self, kept: &str) -> Vec<String> {
        if self.pins <= PINS_MAX {
            return Vec::new();
        }
        self.pins = self.callers.values().map(|caller| caller.pins.len()).sum();
        if self.pins <= PINS_MAX {
            return Vec::new();
        }
        let others = self.callers.iter().filter(|(row, _)| *row != kept);
        let mut oldest: Vec<_> =
            others.map(|(row, caller)| (!caller.is_stranger, caller.seen_day, row.clone())).collect();
        oldest.sort_unstable();
        let mut gone = Vec::new();
        for (_, _, row) in oldest {
            if self.pins <= PINS_KEPT {
                break;
            }
            self.pins -= self.callers.remove(&row).map_or(0, |caller| caller.pins.len());
            gone.push(row);
        }
        gone
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
    fn check(&mut self, tool: &ToolDefinition<'_>, key: &Secret, memo: u64, today: i64) -> Change {
        let name = digest(&[tool.origin.as_bytes(), tool.name.as_bytes()]);
        let name = hashed(key, Part::Tool, &name);
        let is_full = self.pins.len() >= PINS_PER_CALLER_MAX;
        match self.pins.get_mut(&name) {
            Some(pin) if pin.memo == memo => pin.seen(today),
            Some(pin) => {
                let told = definition(tool);
                let definition = hashed(key, Part::Definition, &told);
                if pin.definition == definition {
                    pin.memo = memo;
                    return pin.seen(today);
                }
                if today - pin.seen_day > PIN_DAYS {
                    *pin = Pin { definition, seen_day: today, memo };
                    return Change { differs: None, is_dirty: true };
                }
                Change { differs: Some(told), is_dirty: false }
            }
            None if is_full => Change::default(),
            None => {
                let definition = hashed(key, Part::Definition, &definition(tool));
                self.pins.insert(name, Pin { definition, seen_day: today, memo });
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
        let pins = record.pins.into_iter().map(pin).collect();
        Self { pins, seen_day: record.seen_day, is_stranger: record.is_stranger, quiet: 0 }
    }
}

impl From<&Caller> for CallerRecord {
    fn from(caller: &Caller) -> Self {
        let pin = |(name, pin): (&String, &Pin)| (name.clone(), (pin.definition.clone(), pin.seen_day));
        let pins = caller.pins.iter().map(pin).collect();
        Self { seen_day: caller.seen_day, is_stranger: caller.is_stranger, pins }
    }
}

/// Returns the hash by which a definition is pinned, and may be allowed.
fn definition(tool: &ToolDefinition<'_>) -> String {
    digest(&[&tool.canonical().unwrap_or_else(|| tool.raw.to_vec())])
}

/// What a hash is of.
#[derive(Clone, Copy)]
enum Part {
    Caller,
    Route,
    Tool,
    Definition,
}

/// Returns what the row of a route is found by.
fn row(key: &Secret, caller: &str, route: &str) -> String {
    let mut row = of_caller(key, caller);
    row.push_str(hashed(key, Part::Route, route).get(..2 * ROW_BYTES).unwrap_or_default());
    row
}

/// Returns what the rows of whom a key is of begin with.
fn of_caller(key: &Secret, caller: &str) -> String {
    let mut row = hashed(key, Part::Caller, caller);
    row.truncate(2 * ROW_BYTES);
    row.push(BETWEEN);
    row
}

/// Returns the hash of a text under a caller's key, in hexadecimal.
fn hashed(key: &Secret, part: Part, text: &str) -> String {
    let part = match part {
        Part::Caller => 0,
        Part::Route => 1,
        Part::Tool => 2,
        Part::Definition => 3,
    };
    digest(&[key, &[part], text.as_bytes()])
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
mod tests;
