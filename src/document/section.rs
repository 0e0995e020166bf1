//! Reads a table key by key, gathering every fault.
//!
//! A faulty key yields a stand-in of its type, so that reading goes on and finds the next fault;
//! whoever began with [`read`] never sees a stand-in, because any fault makes the whole an error.

use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use serde_json::Map;
use serde_json::Value;

use crate::document::Document;
use crate::document::Fault;
use crate::document::Place;
use crate::document::Places;
use crate::document::Problem;
use crate::document::fault::nearest;
use crate::document::names_secret;
use crate::document::patch::child;

/// A table under reading; [`Section::finish`] reports the keys nobody asked for.
#[derive(Debug)]
pub struct Section<'a> {
    path: String,
    table: Option<&'a Map<String, Value>>,
    asked: Vec<&'static str>,
    places: &'a Places,
    faults: &'a RefCell<Vec<Fault>>,
}

/// Reads a whole document with `build`, keys that nobody asked for included.
///
/// # Errors
///
/// All faults, in the order of their places.
pub fn read<T>(document: &Document, build: impl FnOnce(&mut Section<'_>) -> T) -> Result<T, Vec<Fault>> {
    let (built, faults) = tried(document, build);
    if faults.is_empty() { Ok(built) } else { Err(faults) }
}

/// Reads a whole document as [`read`] does and returns, beside all faults, what is built, with stand-ins where there are
/// any: who goes on looking for faults needs it, and nobody else.
pub fn tried<T>(document: &Document, build: impl FnOnce(&mut Section<'_>) -> T) -> (T, Vec<Fault>) {
    let faults = RefCell::new(Vec::new());
    let mut root = Section {
        path: String::new(),
        table: Some(document.root()),
        asked: Vec::new(),
        places: document.places(),
        faults: &faults,
    };
    let built = build(&mut root);
    root.finish();
    let mut faults = faults.into_inner();
    Fault::sort(&mut faults);
    (built, faults)
}

impl<'a> Section<'a> {
    /// Returns the path of this table.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Tells whether a key is there.
    pub fn has(&self, key: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(key))
    }

    /// Returns a text that must be there.
    pub fn text(&mut self, key: &'static str) -> &'a str {
        self.needed(key).unwrap_or_default()
    }

    /// Returns a text that may be missing.
    pub fn text_maybe(&mut self, key: &'static str) -> Option<&'a str> {
        let value = self.ask(key)?;
        let text = value.as_str();
        if text.is_none() {
            self.fault(key, Problem::WrongType { expected: "a text" });
        }
        text
    }

    /// Returns a path that may be missing; empty counts as missing.
    pub fn path_maybe(&mut self, key: &'static str) -> Option<PathBuf> {
        self.text_maybe(key).filter(|text| !text.is_empty()).map(PathBuf::from)
    }

    /// Returns a flag that must be there.
    pub fn flag(&mut self, key: &'static str) -> bool {
        self.missing_unless(key);
        self.flag_or(key, false)
    }

    /// Returns a flag, or `default` where it is missing.
    pub fn flag_or(&mut self, key: &'static str, default: bool) -> bool {
        match self.ask(key) {
            None => default,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => {
                self.fault(key, Problem::WrongType { expected: "true or false" });
                default
            }
        }
    }

    /// Returns a whole number that must be there and lie in `range`.
    pub fn number(&mut self, key: &'static str, range: RangeInclusive<u64>) -> u64 {
        self.missing_unless(key);
        self.number_maybe(key, range.clone()).unwrap_or(*range.start())
    }

    /// Returns a whole number that may be missing, and must lie in `range` otherwise.
    pub fn number_maybe(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.ask(key)?;
        if !value.is_number() {
            self.fault(key, Problem::WrongType { expected: "a whole number" });
            return None;
        }
        let number = value.as_u64().filter(|number| range.contains(number));
        if number.is_none() {
            self.fault(key, Problem::OutOfRange { min: *range.start(), max: *range.end() });
        }
        number
    }

    /// Returns a number that may have decimals, may be missing, and must lie between 0 and `max` otherwise.
    pub fn decimal_maybe(&mut self, key: &'static str, max: f64) -> Option<f64> {
        let value = self.ask(key)?;
        let number = value.as_f64().filter(|number| (0.0..=max).contains(number));
        if number.is_none() {
            self.invalid(key, format!("expected a number from 0 to {max}"), None);
        }
        number
    }

    /// Returns a number of things in memory that must be there and lie in `range`.
    pub fn count(&mut self, key: &'static str, range: RangeInclusive<u64>) -> usize {
        usize::try_from(self.number(key, range)).unwrap_or(usize::MAX)
    }

    /// Returns one of a closed set that must be there; `stand_in` is never seen outside.
    pub fn choice<T: FromStr>(&mut self, key: &'static str, stand_in: T) -> T
    where
        T::Err: std::error::Error,
    {
        self.missing_unless(key);
        self.choice_maybe(key).unwrap_or(stand_in)
    }

    /// Returns one of a closed set that may be missing.
    pub fn choice_maybe<T: FromStr>(&mut self, key: &'static str) -> Option<T>
    where
        T::Err: std::error::Error,
    {
        let text = self.text_maybe(key)?;
        let parsed: Result<T, T::Err> = text.parse();
        if let Err(error) = &parsed {
            self.invalid(key, error.to_string(), None);
        }
        parsed.ok()
    }

    /// Returns a list of texts; a single text is a list of one, and nothing an empty list.
    pub fn texts(&mut self, key: &'static str) -> Vec<&'a str> {
        let expected = Problem::WrongType { expected: "a text or a list of texts" };
        match self.ask(key) {
            None => Vec::new(),
            Some(Value::String(text)) => vec![text],
            Some(Value::Array(items)) => {
                let texts: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                if texts.len() != items.len() {
                    self.fault(key, expected);
                }
                texts
            }
            Some(_) => {
                self.fault(key, expected);
                Vec::new()
            }
        }
    }

    /// Returns the table behind a key; an empty one where it is missing.
    pub fn section(&mut self, key: &'static str) -> Section<'a> {
        let value = self.ask(key);
        self.inner(child(&self.path, key), value)
    }

    /// Returns the tables of a list.
    pub fn list(&mut self, key: &'static str) -> Vec<Section<'a>> {
        match self.ask(key) {
            None => Vec::new(),
            Some(Value::Array(items)) => {
                let path = child(&self.path, key);
                let tables = items.iter().enumerate();
                tables.map(|(at, item)| self.inner(format!("{path}[{at}]"), Some(item))).collect()
            }
            Some(_) => {
                self.fault(key, Problem::WrongType { expected: "a list of tables" });
                Vec::new()
            }
        }
    }

    /// Returns the tables of a table, by name.
    pub fn named(&mut self, key: &'static str) -> Vec<(&'a str, Section<'a>)> {
        let outer = self.section(key);
        let inner = |(name, value): (&'a String, &'a Value)| {
            (name.as_str(), outer.inner(child(&outer.path, name), Some(value)))
        };
        outer.table.into_iter().flatten().map(inner).collect()
    }

    /// Returns the texts of a table, by name.
    pub fn pairs(&mut self, key: &'static str) -> Vec<(&'a str, &'a str)> {
        let outer = self.section(key);
        let mut found = Vec::new();
        for (name, value) in outer.table.into_iter().flatten() {
            match value.as_str() {
                Some(text) => found.push((name.as_str(), text)),
                None => outer.fault(name, Problem::WrongType { expected: "a text" }),
            }
        }
        found
    }

    /// Reports that a value does not fit.
    pub fn invalid(&self, key: &str, reason: impl Into<String>, suggestion: Option<String>) {
        self.fault(key, Problem::Invalid { reason: reason.into(), suggestion });
    }

    /// Reports a fault of a key, or of the table itself for an empty key. Of what is missing or of another type nothing more
    /// is told: it has a stand-in.
    pub fn fault(&self, key: &str, problem: Problem) {
        let path = if key.is_empty() { self.path.clone() } else { child(&self.path, key) };
        let has_stand_in =
            |problem: &Problem| matches!(problem, Problem::Missing | Problem::WrongType { .. });
        let is_told = |told: &Fault| {
            told.key == path && (has_stand_in(&told.problem) || matches!(problem, Problem::Missing))
        };
        if self.faults.borrow().iter().any(is_told) {
            return;
        }
        let place = self.places.of(&path).cloned();
        self.faults.borrow_mut().push(Fault { place, key: path, problem });
    }

    /// Reports that a key is missing which another one asks for, given by its path. Where nobody wrote this table beside
    /// that key, its place is told: whoever reads of it wrote that.
    pub fn missing_for(&self, key: &str, path: &str) {
        let key = child(&self.path, key);
        let [own, asking] = [self.places.of(&key), self.places.of(path)];
        let is_beside = |own: &&Place| asking.is_none_or(|asking| own.source == asking.source);
        let place = own.filter(is_beside).or(asking).cloned();
        self.faults.borrow_mut().push(Fault { place, key, problem: Problem::Missing });
    }

    /// Reports every key that nobody asked for.
    pub fn finish(&self) {
        let unknown =
            self.table.into_iter().flat_map(Map::keys).filter(|key| !self.asked.contains(&key.as_str()));
        for key in unknown {
            self.fault(key, self.unknown(key));
        }
    }

    fn unknown(&self, key: &str) -> Problem {
        let located = |suffix: &str| self.asked.iter().any(|known| *known == format!("{key}{suffix}"));
        if names_secret(key) || located("_file") || located("_env") {
            return Problem::InlineSecret { key: key.to_owned() };
        }
        Problem::UnknownKey { suggestion: nearest(key, self.asked.iter().copied()) }
    }

    fn needed(&mut self, key: &'static str) -> Option<&'a str> {
        self.missing_unless(key);
        self.text_maybe(key)
    }

    fn missing_unless(&mut self, key: &'static str) {
        if !self.has(key) {
            self.fault(key, Problem::Missing);
        }
    }

    fn ask(&mut self, key: &'static str) -> Option<&'a Value> {
        self.asked.push(key);
        self.table?.get(key)
    }

    fn inner(&self, path: String, value: Option<&'a Value>) -> Section<'a> {
        let table = match value {
            None => None,
            Some(Value::Object(table)) => Some(table),
            Some(_) => {
                let place = self.places.of(&path).cloned();
                let problem = Problem::WrongType { expected: "a table" };
                self.faults.borrow_mut().push(Fault { place, key: path.clone(), problem });
                None
            }
        };
        Section { path, table, asked: Vec::new(), places: self.places, faults: self.faults }
    }
}
