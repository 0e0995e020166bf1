//! A text that is read again and again while it grows: which windows of it, and when.
//!
//! In: pieces of a text, cut anywhere. Out: windows to read, the same for every way to cut the text: one that ends at
//! each multiple of [`STEP_BYTES`], and one at the end of the text, each with what stands before it up to
//! [`CONTEXT_BYTES`]. Every byte is read a fixed number of times at most, whatever the length of the text, and no more
//! than a window is kept.
//!
//! A window is judged by what was seen when it ends. It does not promise that what takes back a text, behind it, is
//! known by then; nor that something longer than [`CONTEXT_BYTES`] is ever seen whole.

use std::ops::Range;

/// How many new bytes there are between two readings.
pub const STEP_BYTES: usize = 512;
/// How many bytes before the new ones are read with them.
pub const CONTEXT_BYTES: usize = 1024;

/// The end of a text that grows.
#[derive(Clone, Debug, Default)]
pub struct Growing {
    kept: Vec<u8>,
    /// Where `kept` begins in the text.
    base: usize,
    /// The multiple up to which windows were read.
    read_to: usize,
}

/// A part of a text, to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window<'t> {
    /// Its bytes.
    pub text: &'t [u8],
    /// Where it begins in the text.
    pub from: usize,
}

impl<'t> Window<'t> {
    /// Returns where it ends in the text.
    pub fn until(&self) -> usize {
        self.from + self.text.len()
    }

    /// Tells whether something stood before it.
    pub fn is_excerpt(&self) -> bool {
        self.from > 0
    }

    /// Returns bytes of the window by their place in the text.
    pub fn value(&self, range: Range<usize>) -> Option<&'t [u8]> {
        self.text.get(range.start.checked_sub(self.from)?..range.end.checked_sub(self.from)?)
    }
}

impl Growing {
    /// Parts a piece of text: what may be pushed before a window is due, and the rest.
    pub fn part<'p>(&self, piece: &'p [u8]) -> (&'p [u8], &'p [u8]) {
        let room = (self.read_to + STEP_BYTES).saturating_sub(self.end());
        if piece.len() < room {
            return (piece, &[]);
        }
        // A window ends where a character does.
        let cut = (0..=room).rev().find(|at| is_boundary(piece, *at)).unwrap_or(room);
        piece.split_at(cut)
    }

    /// Takes what [`Growing::part`] gave first, with what it left behind; returns the window that is due.
    pub fn push(&mut self, piece: &[u8], rest: &[u8]) -> Option<Window<'_>> {
        self.kept.extend_from_slice(piece);
        let due = self.read_to + STEP_BYTES;
        if rest.is_empty() && self.end() < due {
            return None;
        }
        self.read_to = due;
        self.forget_before(due.saturating_sub(STEP_BYTES + CONTEXT_BYTES));
        Some(Window { text: &self.kept, from: self.base })
    }

    /// Returns the last window of the text, unless all of it was read.
    pub fn finish(&mut self) -> Option<Window<'_>> {
        let is_new = self.end() > self.read_to;
        self.forget_before(self.read_to.saturating_sub(CONTEXT_BYTES));
        is_new.then_some(Window { text: &self.kept, from: self.base })
    }

    /// Calls `read` with every window of a whole text, as if it had grown.
    pub fn windows(text: &[u8], mut read: impl FnMut(Window<'_>)) {
        let (mut growing, mut rest) = (Self::default(), text);
        while !rest.is_empty() {
            let (piece, behind) = growing.part(rest);
            if let Some(window) = growing.push(piece, behind) {
                read(window);
            }
            rest = behind;
        }
        if let Some(window) = growing.finish() {
            read(window);
        }
    }

    fn end(&self) -> usize {
        self.base + self.kept.len()
    }

    /// Forgets what stands before an offset, up to the next character.
    fn forget_before(&mut self, offset: usize) {
        let least = offset.saturating_sub(self.base).min(self.kept.len());
        let cut = (least..self.kept.len()).find(|at| is_boundary(&self.kept, *at)).unwrap_or(least);
        self.kept.drain(..cut);
        self.base += cut;
    }
}

/// Tells whether a character begins at an offset, or the text ends there.
fn is_boundary(text: &[u8], at: usize) -> bool {
    text.get(at).is_none_or(|byte| byte & 0xc0 != 0x80)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(pieces: &[&str]) -> Vec<(usize, String)> {
        let (mut growing, mut seen) = (Growing::default(), Vec::new());
        let mut see = |window: Window<'_>| {
            seen.push((window.from, std::str::from_utf8(window.text).unwrap().to_owned()));
        };
        for piece in pieces {
            let mut rest = piece.as_bytes();
            while !rest.is_empty() {
                let (piece, behind) = growing.part(rest);
                growing.push(piece, behind).into_iter().for_each(&mut see);
                rest = behind;
            }
        }
        growing.finish().into_iter().for_each(&mut see);
        seen
    }

    /// Letters of one to four bytes, so that steps end within them.
    fn text(letters: usize) -> String {
        ['a', 'é', ' ', '漢', '😀'].into_iter().cycle().take(letters).collect()
    }

    #[test]
    fn windows_do_not_depend_on_how_a_text_is_cut() {
        for letters in [0, 1, 100, 233, 234, 600, 2000] {
            let text = text(letters);
            let whole = windows(&[&text]);
            for step in [1, 2, 7, 300, 1000] {
                let letters: Vec<char> = text.chars().collect();
                let pieces: Vec<String> = letters.chunks(step).map(String::from_iter).collect();
                let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
                assert_eq!(windows(&pieces), whole, "{} letters by {step}", letters.len());
            }
            let mut alone = Vec::new();
            let own = |window: Window<'_>| (window.from, String::from_utf8(window.text.to_vec()).unwrap());
            Growing::windows(text.as_bytes(), |window| alone.push(own(window)));
            assert_eq!(alone, whole);
        }
    }

    #[test]
    fn windows_cover_a_text_with_what_stands_before_and_nothing_twice_at_the_end() {
        let text = text(2000);
        let seen = windows(&[&text]);
        let mut covered = 0;
        for (from, window) in &seen {
            assert!(*from <= covered, "nothing is left out");
            assert!(window.len() <= STEP_BYTES + CONTEXT_BYTES);
            assert!(covered < from + window.len(), "there is something new");
            covered = from + window.len();
        }
        assert_eq!(covered, text.len());
        assert_eq!(seen.len(), text.len().div_ceil(STEP_BYTES));
        assert_eq!(windows(&[&"a".repeat(STEP_BYTES)]).len(), 1);
    }
}
