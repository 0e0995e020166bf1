//! Of a long text, what is near the places where another spelling of it reads otherwise.
//!
//! In: the stretches that read otherwise, in their order, and what they say. Out: a view of them and of what is around
//! each. What is farther from all of them reads as it stands, and is not read once more.

use std::ops::Range;

use crate::scan::view::View;

/// How much of the text around a stretch is read with it where orders are looked for, in bytes: more than any window that is
/// judged together.
pub(super) const AROUND_BYTES: usize = 1024;

/// An excerpt of a text as it is made.
pub(super) struct Excerpt<'t> {
    text: &'t [u8],
    /// How much of the text around a stretch is read with it, in bytes.
    around: usize,
    view: View,
    /// Where the last stretch ends.
    end: usize,
}

/// Returns some stretches of a text as they stand, with so many bytes around each; nothing if there are none.
pub(super) fn around(text: &[u8], stretches: &[Range<usize>], around: usize) -> Option<View> {
    let mut stretches = stretches.to_vec();
    stretches.sort_unstable_by_key(|stretch| (stretch.start, stretch.end));
    let mut excerpt = Excerpt::of(text, around);
    stretches.into_iter().for_each(|stretch| excerpt.keep(stretch));
    excerpt.read()
}

impl<'t> Excerpt<'t> {
    /// Begins an excerpt of a text, with so many bytes around each stretch.
    pub(super) fn of(text: &'t [u8], around: usize) -> Self {
        Self { text, around, view: View::default(), end: 0 }
    }

    /// Copies what is around, up to a stretch that is not empty and whose reading is written next.
    pub(super) fn begin(&mut self, stretch: Range<usize>) {
        let behind = if self.end > 0 { self.around } else { 0 };
        if stretch.start.saturating_sub(self.end) > behind + self.around {
            self.copy(self.end..boundary(self.text, self.end + behind));
            self.end = boundary(self.text, stretch.start - self.around);
            self.view.append(b"\n", self.end, 1, 1);
        }
        self.copy(self.end..stretch.start);
        self.end = stretch.end;
    }

    /// Writes bytes of which each stands for so many of the text, from a place on.
    pub(super) fn write(&mut self, bytes: &[u8], source: usize, taken: u8) {
        self.view.append(bytes, source, taken, 1);
    }

    /// Takes a stretch as it stands, or what is behind the last one of it.
    pub(super) fn keep(&mut self, stretch: Range<usize>) {
        let stretch = stretch.start.max(self.end)..stretch.end;
        if !stretch.is_empty() {
            self.begin(stretch.clone());
            self.copy(stretch);
        }
    }

    /// Returns the excerpt; nothing if no stretch reads otherwise.
    pub(super) fn read(mut self) -> Option<View> {
        let end = self.text.len().min(self.end + self.around);
        self.copy(self.end..boundary(self.text, end));
        (self.end > 0).then_some(self.view)
    }

    fn copy(&mut self, range: Range<usize>) {
        self.view.append(self.text.get(range.clone()).unwrap_or_default(), range.start, 1, 1);
    }
}

/// Returns the last place up to one at which a character begins, or the text ends; the place itself in what is no text.
fn boundary(text: &[u8], at: usize) -> usize {
    let is_inside = |at: &usize| text.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    (at.saturating_sub(3)..=at).rev().find(|at| !is_inside(at)).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use crate::scan::spelling::apart::spaced;
    use crate::scan::spelling::code::quoted_printable;

    use super::*;

    type Read = fn(&[u8]) -> Option<View>;

    #[test]
    fn what_is_far_from_all_that_reads_otherwise_is_left_out() {
        let prose = "Nobody expected äöü before the summer. ".repeat(400);
        let letters = [("i g n o r e a l l", "ignoreall"), ("r u l e s", "rules")];
        let quoted = [("=69=67nor=65 a=\r\nll", "ignore all"), ("=72ul=65s", "rules")];
        let reads: [(Read, _); 2] = [(spaced, letters), (quoted_printable, quoted)];
        for (read, [first, second]) in reads {
            let text = format!("{prose}{} {prose}{} {prose}", first.0, second.0);
            let view = read(text.as_bytes()).unwrap();
            let said = std::str::from_utf8(view.bytes()).unwrap();
            assert!(said.len() <= 4 * AROUND_BYTES + 16, "{}", said.len());
            for (spelt, meant) in [first, second] {
                let at = said.find(meant).unwrap_or_else(|| panic!("{said}"));
                let from = text.find(spelt).unwrap();
                assert_eq!(view.source_range(at..at + meant.len()), from..from + spelt.len());
            }
        }
    }
}
