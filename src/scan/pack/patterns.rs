//! The patterns of packs: each is parsed once, on all cores.
//!
//! Parsed forms are many small pieces of memory, and go once everything is built from them. Threads of their own parse them,
//! whose allocations the allocator keeps apart: what stays does not lie scattered between what goes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::HashSet;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread;

use crate::scan::detector::Parsed;
use crate::scan::detector::Pattern;
use crate::scan::detector::PatternFault;

/// The fewest patterns that are worth a thread to parse them.
const PATTERNS_PER_THREAD_MIN: usize = 256;

/// Patterns by what is written.
pub(super) struct Patterns(HashMap<String, Result<Pattern, PatternFault>>);

impl Patterns {
    /// Parses patterns.
    pub(super) fn parse(sources: &HashSet<Cow<'_, str>>) -> Self {
        let sources: Vec<&str> = sources.iter().map(Cow::as_ref).collect();
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let share = sources.len().div_ceil(cores).max(PATTERNS_PER_THREAD_MIN);
        let parse = |share: &[&str]| share.iter().map(|source| Parsed::of(source)).collect::<Vec<_>>();
        let parsed: Vec<Result<Parsed, PatternFault>> = thread::scope(|scope| {
            let threads = sources.chunks(share).map(|share| scope.spawn(move || parse(share)));
            let threads: Vec<_> = threads.collect();
            let joined = threads.into_iter().map(|it| it.join().unwrap_or_else(|panic| resume_unwind(panic)));
            joined.flatten().collect()
        });
        let patterns = sources
            .iter()
            .zip(parsed)
            .map(|(source, parsed)| ((*source).to_owned(), parsed.map(|parsed| Pattern::of(source, parsed))));
        Self(patterns.collect())
    }

    /// Returns a pattern that was parsed.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn get(&self, source: &str) -> Result<Pattern, PatternFault> {
        self.0.get(source).cloned().unwrap_or_else(|| Pattern::parse(source))
    }
}
