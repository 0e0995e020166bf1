//! Which bytes may not stand right beside a match.
//!
//! A pattern can only say `\b`; that a number is the tail of a longer one (`0.4111…`, `1.2.3.4.5`) shows in the byte
//! beside it. A match beside a forbidden byte is refused like one that fails a check.

use std::ops::Range;

use regex_syntax::hir::Class;
use regex_syntax::hir::HirKind;

use crate::scan::detector::Pattern;

/// The bytes that may not stand right before and right behind a match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    /// What may not stand right before it.
    pub not_before: ByteClass,
    /// What may not stand right behind it.
    pub not_after: ByteClass,
}

/// A set of byte values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteClass([u64; 4]);

impl Edges {
    /// Tells whether a match at `span` may stand where it stands.
    pub fn allow(&self, text: &[u8], span: &Range<usize>) -> bool {
        let before = span.start.checked_sub(1).and_then(|at| text.get(at));
        self.allow_between(before.copied(), text.get(span.end).copied())
    }

    /// Tells whether a match may stand between two bytes; `None` where there is none.
    pub fn allow_between(&self, before: Option<u8>, behind: Option<u8>) -> bool {
        !before.is_some_and(|byte| self.not_before.contains(byte))
            && !behind.is_some_and(|byte| self.not_after.contains(byte))
    }
}

impl ByteClass {
    /// Reads a class such as `[.:]`; `None` if the pattern is anything but one byte.
    pub fn of(pattern: &Pattern) -> Option<Self> {
        let mut class = Self::default();
        match pattern.hir().kind() {
            HirKind::Class(Class::Bytes(bytes)) => {
                bytes.ranges().iter().flat_map(|it| it.start()..=it.end()).for_each(|it| class.insert(it));
            }
            HirKind::Literal(literal) => class.insert(*literal.0.first().filter(|_| literal.0.len() == 1)?),
            _ => return None,
        }
        Some(class)
    }

    /// Tells whether the class has a byte.
    pub fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte / 64)] & (1 << (byte % 64)) != 0
    }

    /// Tells whether the class has no byte at all.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte / 64)] |= 1 << (byte % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(source: &str) -> Option<ByteClass> {
        ByteClass::of(&Pattern::parse(source).unwrap())
    }

    #[test]
    fn a_class_is_one_byte_wide() {
        let dot = class(r"[.\d]").unwrap();
        assert!(dot.contains(b'.') && dot.contains(b'7') && !dot.contains(b':') && !dot.is_empty());
        assert!(class(r"\.").unwrap().contains(b'.'));
        for wider in ["ab", "a{1,2}", "[ab]c", "(?:a|bc)"] {
            assert_eq!(class(wider), None, "{wider}");
        }
    }

    #[test]
    fn the_ends_of_a_text_are_allowed() {
        let edges = Edges { not_before: class("[.]").unwrap(), not_after: class("[:.]").unwrap() };
        for (text, span, allowed) in
            [("12", 0..2, true), (".12", 1..3, false), ("12:", 0..2, false), (":12 ", 1..3, true)]
        {
            assert_eq!(edges.allow(text.as_bytes(), &span), allowed, "{text}");
        }
    }
}
