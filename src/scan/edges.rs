//! Which bytes may not stand right beside a match, and what may stand between them and it.
//!
//! A pattern can only say `\b`; that a number is the tail of a longer one (`0.4111…`, `1.2.3.4.5`) shows in the byte
//! beside it. A match beside a forbidden byte is refused like one that fails a check. An order begins a sentence: what ends
//! the one before may stand between, and is no part of the match, so that this begins with words that few texts have.

use std::ops::Range;
use std::sync::Arc;
use std::sync::OnceLock;

use regex_automata::Input;
use regex_automata::meta;
use regex_syntax::hir::Class;
use regex_syntax::hir::Hir;
use regex_syntax::hir::HirKind;
use regex_syntax::hir::Look;

use crate::scan::confirm;
use crate::scan::detector::CONTEXT_BYTES;
use crate::scan::detector::Pattern;

/// The widest pattern that a match may stand behind, in bytes: what stands before that is seen, too.
pub const BEHIND_BYTES_MAX: usize = CONTEXT_BYTES - 1;

/// The bytes that may not stand right before and right behind a match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    /// What may not stand right before it.
    pub not_before: ByteClass,
    /// What may stand between that and it.
    pub behind: Option<Behind>,
    /// What may not stand right behind it.
    pub not_after: ByteClass,
}

/// What may stand right before a match without being part of it.
#[derive(Clone, Debug)]
pub struct Behind {
    pattern: Pattern,
    /// Built when it is first asked for; of all copies.
    regex: Arc<OnceLock<meta::Regex>>,
}

/// A set of byte values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteClass([u64; 4]);

impl Edges {
    /// Tells whether a match at `span` may stand where it stands, of whose text so much is seen as begins at `from`;
    /// `is_open` tells before which places there is nothing, or nothing that is known.
    pub fn allow(
        &self,
        text: &[u8],
        span: &Range<usize>,
        from: usize,
        is_open: impl Fn(usize) -> bool,
    ) -> bool {
        let is_free = |at: usize| {
            let byte = at.checked_sub(1).and_then(|at| text.get(at));
            is_open(at) || !byte.is_some_and(|byte| self.not_before.contains(*byte))
        };
        let before = text.get(..span.start).unwrap_or_default();
        let stands_behind = |behind: &Behind| behind.starts(before, from).any(is_free);
        !text.get(span.end).is_some_and(|byte| self.not_after.contains(*byte))
            && (is_free(span.start) || self.behind.as_ref().is_some_and(stands_behind))
    }
}

impl Behind {
    /// Takes a pattern; nothing if it has a group, looks at what stands behind it, or matches as much as is seen of the text
    /// before a match.
    pub fn of(pattern: Pattern) -> Option<Self> {
        let is_narrow = pattern.width_max() <= BEHIND_BYTES_MAX;
        let is_plain = !pattern.has_group() && !pattern.looks_behind_itself();
        let is_small = || confirm::is_surely_built(&pattern.hir());
        (is_narrow && is_plain && is_small()).then(|| Self { pattern, regex: Arc::default() })
    }

    /// Returns the pattern as it was written, its parts filled in.
    pub fn source(&self) -> &str {
        self.pattern.source()
    }

    /// Returns where its matches begin, at a place or behind it, that end where a text ends.
    fn starts<'t>(&'t self, text: &'t [u8], from: usize) -> impl Iterator<Item = usize> + 't {
        let regex = self.regex.get_or_init(|| {
            let whole = Hir::concat(vec![self.pattern.hir(), Hir::look(Look::End)]);
            confirm::built(&whole, self.pattern.width_max()).expect("a small automaton is built")
        });
        let mut next = text.len().saturating_sub(self.pattern.width_max()).max(from);
        std::iter::from_fn(move || {
            let start = regex.find(Input::new(text).range(next.min(text.len())..))?.start();
            next = start + 1;
            Some(start)
        })
    }
}

impl PartialEq for Behind {
    fn eq(&self, other: &Self) -> bool {
        self.pattern == other.pattern
    }
}

impl Eq for Behind {}

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
        let edges = Edges {
            not_before: class("[.]").unwrap(),
            not_after: class("[:.]").unwrap(),
            ..Edges::default()
        };
        for (text, span, allowed) in
            [("12", 0..2, true), (".12", 1..3, false), ("12:", 0..2, false), (":12 ", 1..3, true)]
        {
            assert_eq!(edges.allow(text.as_bytes(), &span, 0, |_| false), allowed, "{text}");
        }
    }

    #[test]
    fn what_may_stand_between_is_no_part_of_a_match() {
        let behind = |pattern: &str| Behind::of(Pattern::parse(pattern).unwrap());
        let sentence = behind(r"[.:] {1,2}(?:- )?").unwrap();
        let edges =
            Edges { not_before: class(r#"[ "]"#).unwrap(), behind: Some(sentence), ..Edges::default() };
        for (before, allowed) in [
            ("", true),
            ("\n", true),
            ("to ", false),
            ("x. ", true),
            (". - ", true),
            (".   ", false),
            ("\". ", false),
            ("\".: ", true),
            ("\"", false),
        ] {
            let text = format!("{before}send");
            let is_allowed = |from: usize, open: usize| {
                edges.allow(text.as_bytes(), &(before.len()..text.len()), from, |at| at == open)
            };
            assert_eq!(is_allowed(0, usize::MAX), allowed, "{text}");
            // What is not seen speaks for no match, and what is not known against none.
            assert_eq!(is_allowed(before.len(), usize::MAX), before.is_empty() || before == "\n", "{text}");
            assert!(is_allowed(before.len(), before.len()), "{text}");
        }
        for refused in ["(a)b", "a{96}", r"[.:] \b"] {
            assert!(behind(refused).is_none(), "{refused}");
        }
        assert!(behind("a{95}").is_some() && behind(r"\ba{9}").is_some());
    }
}
