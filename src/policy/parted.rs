//! Files that come part by part, each in a request of its own: how the parts of each begin and end.
//!
//! A provider may put parts together in another order than they came in, so each part is told all others of its file.
//! Kept in memory, by each node for itself, and for so long as parts follow one another within [`AGE_MAX`]: what a node
//! has forgotten, or another one has seen, is read for itself.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::policy::inspect::border::Ends;

/// The most parts of one file; of more, the latest.
pub const PARTS_MAX: usize = 512;
/// How many bytes of all files are kept; past it those are forgotten whose last part is the oldest.
pub const BYTES_MAX: usize = 64 << 20;
/// How long the parts of a file are known after the last one came.
pub const AGE_MAX: Duration = Duration::from_secs(3600);

/// What a part takes beside its ends, in bytes.
const PART_BYTES: usize = 128;

/// The files under way.
#[derive(Default)]
pub struct PartedFiles {
    known: Mutex<Known>,
    hasher: RandomState,
}

#[derive(Default)]
struct Known {
    files: HashMap<u64, File>,
    bytes: usize,
}

struct File {
    parts: VecDeque<Arc<Ends>>,
    bytes: usize,
    touched_at: Duration,
}

impl PartedFiles {
    /// Adds the next part of a file, by the file's name, at a moment of the monotonic clock; returns the parts that were
    /// known before.
    pub fn add(&self, name: &str, part: Ends, now: Duration) -> Vec<Arc<Ends>> {
        let name = self.hasher.hash_one(name);
        let mut known = self.known.lock();
        known.forget(|file| file.touched_at + AGE_MAX < now);
        let new = || File { parts: VecDeque::new(), bytes: 0, touched_at: now };
        let file = known.files.entry(name).or_insert_with(new);
        file.touched_at = now;
        let before: Vec<Arc<Ends>> = file.parts.iter().cloned().collect();
        // It is sent again where its answer was lost.
        if before.iter().any(|known| **known == part) {
            return before;
        }
        let had = file.bytes;
        if file.parts.len() == PARTS_MAX
            && let Some(oldest) = file.parts.pop_front()
        {
            file.bytes -= oldest.bytes() + PART_BYTES;
        }
        file.bytes += part.bytes() + PART_BYTES;
        file.parts.push_back(Arc::new(part));
        let has = file.bytes;
        known.bytes = known.bytes + has - had;
        while known.bytes > BYTES_MAX
            && let Some(oldest) = known.files.values().map(|file| file.touched_at).min()
        {
            known.forget(|file| file.touched_at == oldest);
        }
        before
    }
}

impl PartedFiles {
    /// Takes back a part that was added last and did not leave.
    pub fn take_back(&self, name: &str, part: &Ends) {
        let name = self.hasher.hash_one(name);
        let known = &mut *self.known.lock();
        let Some(file) = known.files.get_mut(&name) else { return };
        if let Some(at) = file.parts.iter().rposition(|it| **it == *part) {
            file.parts.remove(at);
            file.bytes -= part.bytes() + PART_BYTES;
            known.bytes -= part.bytes() + PART_BYTES;
        }
    }
}

impl Known {
    fn forget(&mut self, is_over: impl Fn(&File) -> bool) {
        let bytes = &mut self.bytes;
        self.files.retain(|_, file| {
            let is_over = is_over(file);
            *bytes -= if is_over { file.bytes } else { 0 };
            !is_over
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::media::Media;

    fn part(text: &str) -> Ends {
        Ends::of(text.as_bytes(), &Media::File, 1).remove(0)
    }

    #[test]
    fn parts_are_told_those_of_their_own_file_for_a_while() {
        let files = PartedFiles::default();
        let at = Duration::from_secs;
        assert!(files.add("a", part("one"), at(1)).is_empty());
        assert!(files.add("b", part("two"), at(2)).is_empty());
        assert_eq!(files.add("a", part("three"), at(3)), [Arc::new(part("one"))]);
        assert_eq!(files.add("a", part("three"), at(4)).len(), 2);
        assert_eq!(files.add("a", part("four"), at(4) + AGE_MAX).len(), 2);
        assert!(files.add("b", part("four"), at(4) + AGE_MAX).is_empty());
        assert!(files.add("a", part("five"), at(5) + 2 * AGE_MAX).is_empty());
        files.take_back("a", &part("five"));
        files.take_back("c", &part("five"));
        assert!(files.add("a", part("six"), at(5) + 2 * AGE_MAX).is_empty());
    }

    #[test]
    fn what_is_kept_has_its_bounds() {
        let files = PartedFiles::default();
        let long = "x".repeat(20_000);
        for n in 0..=PARTS_MAX {
            files.add("a", part(&format!("{n} {long} {n}")), Duration::ZERO);
        }
        assert_eq!(files.add("a", part("last"), Duration::ZERO).len(), PARTS_MAX);
        for n in 0..20 * PARTS_MAX {
            files.add(&n.to_string(), part(&long), Duration::from_secs(n as u64 / 100));
        }
        let known = files.known.lock();
        let bytes: usize = known.files.values().map(|file| file.bytes).sum();
        assert_eq!(known.bytes, bytes);
        assert!(bytes <= BYTES_MAX && known.files.len() > PARTS_MAX, "{bytes}");
    }
}
