//! The patterns of packs: each is parsed once, on all cores.
//!
//! Parsed forms are many small pieces of memory, and go once everything is built from them. Threads of their own parse them,
//! whose allocations the allocator keeps apart: what stays does not lie scattered between what goes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::HashSet;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use serde::Deserialize;

use crate::scan::detector::Parsed;
use crate::scan::detector::Pattern;
use crate::scan::detector::PatternFault;

use super::PACK_BYTES_MAX;
use super::parts::Parts;

/// The fewest patterns that are worth a thread to parse them.
const PATTERNS_PER_THREAD_MIN: usize = 256;

/// Patterns by what is written.
pub(super) struct Patterns(HashMap<Arc<str>, Result<Pattern, PatternFault>>);

/// What a file has of patterns.
#[derive(Deserialize)]
struct PatternsFile {
    #[serde(default)]
    parts: Parts,
    #[serde(default)]
    detector: Vec<PatternFile>,
}

/// What a detector is written with.
#[derive(Deserialize)]
struct PatternFile {
    pattern: Option<String>,
    anchor: Option<String>,
    behind: Option<String>,
    not_before: Option<String>,
    not_after: Option<String>,
}

impl Patterns {
    /// Parses the patterns of some files; those of a file that is no pack are parsed when somebody asks for them.
    pub(super) fn of<T: AsRef<str>>(texts: impl Iterator<Item = T>) -> Self {
        let mut sources = HashSet::new();
        for text in texts.filter(|text| text.as_ref().len() <= PACK_BYTES_MAX) {
            if let Ok(file) = toml::from_str::<PatternsFile>(text.as_ref()) {
                sources.extend(file.sources());
            }
        }
        Self::parse(&sources.into_iter().collect::<Vec<String>>())
    }

    fn parse(sources: &[String]) -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let share = sources.len().div_ceil(cores).max(PATTERNS_PER_THREAD_MIN);
        let parse = |share: &[String]| share.iter().map(|source| Parsed::of(source)).collect::<Vec<_>>();
        let parsed: Vec<Result<Parsed, PatternFault>> = thread::scope(|scope| {
            let threads = sources.chunks(share).map(|share| scope.spawn(move || parse(share)));
            let threads: Vec<_> = threads.collect();
            let joined = threads.into_iter().map(|it| it.join().unwrap_or_else(|panic| resume_unwind(panic)));
            joined.flatten().collect()
        });
        let patterns = sources.iter().zip(parsed).map(|(source, parsed)| {
            let source: Arc<str> = source.as_str().into();
            let pattern = parsed.map(|parsed| Pattern::of(Arc::clone(&source), parsed));
            (source, pattern)
        });
        Self(patterns.collect())
    }

    /// Returns the pattern of a source.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn get(&self, source: &str) -> Result<Pattern, PatternFault> {
        self.0.get(source).cloned().unwrap_or_else(|| Pattern::parse(source))
    }
}

impl PatternsFile {
    /// Returns the sources of all patterns, their parts filled in.
    fn sources(&self) -> impl Iterator<Item = String> {
        self.detector.iter().flat_map(|written| {
            let filled = [&written.pattern, &written.anchor, &written.behind].into_iter().flatten();
            let filled = filled.filter_map(|source| self.parts.fill(source).ok()).map(Cow::into_owned);
            filled.chain([&written.not_before, &written.not_after].into_iter().flatten().cloned())
        })
    }
}
