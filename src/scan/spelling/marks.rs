//! The marks by which other spellings are told: words of orders, and the beginnings of values that detectors name.
//!
//! In: a text. Out: what it may be spelt in. The marks of a scanner are made of its detectors when they are first asked.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::apart;
use super::letters;
use super::letters::Cipher;
use crate::scan::engine::Engine;
use crate::scan::engine::Run;
use crate::scan::scanner::ScanFault;
use crate::scan::shape::Shape;
use crate::scan::shape::Start;

/// The words by which an order is known that is turned round, or in the cipher of everyday.
const WORDS: [&str; 13] = [
    "ignore",
    "previous",
    "instructions",
    "disregard",
    "password",
    "prompt",
    "unrestricted",
    "forget",
    "reveal",
    "system",
    "pretend",
    "override",
    "secret",
];

/// Words of nearly every longer text in some languages, of which few are words when they are turned round.
const COMMON_WORDS: [&str; 9] = ["the", "you", "your", "this", "that", "und", "nicht", "que", "che"];

/// How far that cipher moves letters.
const ROT13: u8 = 13;

/// The same words with what stands for their letters.
const LEET_WORDS: [&str; 7] = [
    "[i1!|][g69]n[o0]r[e3]",
    "pr[e3]v[i1!][o0]u[s5$]",
    "[i1!]n[s5$][t7+]ruc[t7+][i1!][o0]n",
    "d[i1!][s5$]r[e3][g69][a4@]rd",
    "p[a4@][s5$][s5$]w[o0]rd",
    "pr[o0]mp[t7+]",
    "j[a4@][i1!]lbr[e3][a4@]k",
];

/// What a mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Letters written as others, and what undoes it.
    Cipher(Cipher),
    Reversed,
    Leet,
    Spaced,
}

/// A mark of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marked {
    pub(super) mark: Mark,
    /// Whether nothing but the beginning of a key tells it.
    pub(super) is_of_key: bool,
}

/// What is looked for to tell other spellings, and what each says.
pub(in crate::scan) struct Marks {
    engine: Engine,
    /// What each shape says.
    marks: Vec<Marked>,
    /// How keys begin.
    heads: BTreeSet<Box<[u8]>>,
}

impl Marks {
    /// Makes the marks of orders, and of values that begin so; nothing, where the engine refuses them.
    pub(in crate::scan) fn compile<'h>(heads: impl Iterator<Item = &'h str>) -> Option<Self> {
        let heads: BTreeSet<Box<[u8]>> = heads.map(|head| head.as_bytes().into()).collect();
        let (mut shapes, mut marks) = (Vec::new(), Vec::new());
        let of_order = |mark: Mark| Marked { mark, is_of_key: false };
        let of_key = |mark: Mark| Marked { mark, is_of_key: true };
        for word in WORDS {
            shapes.push(Shape::caseless(&letters::moved(word.as_bytes(), ROT13)));
            marks.push(of_order(Mark::Cipher(Cipher::Moved(ROT13))));
            shapes.push(Shape::caseless(&word.bytes().rev().collect::<Vec<u8>>()));
            marks.push(of_order(Mark::Reversed));
        }
        for word in COMMON_WORDS {
            let turned: Vec<u8> = word.bytes().rev().collect();
            shapes.push(Shape::caseless(&[b" ", &*turned, b" "].concat()));
            marks.push(of_order(Mark::Reversed));
        }
        for head in &heads {
            shapes.push(Shape::literal(&letters::moved(head, ROT13)));
            marks.push(of_key(Mark::Cipher(Cipher::Moved(ROT13))));
            shapes.push(Shape::literal(&head.iter().rev().copied().collect::<Vec<u8>>()));
            marks.push(of_key(Mark::Reversed));
        }
        for written in LEET_WORDS {
            let expression = format!("(?i:{written})");
            shapes.push(Shape { expression, start: Start::Known { back: 1 }, lead: None });
            marks.push(of_order(Mark::Leet));
        }
        let engine = Engine::compile(&shapes).ok()?;
        Some(Self { engine, marks, heads })
    }

    /// Returns the marks of orders alone.
    ///
    /// # Errors
    /// They do not compile.
    pub(in crate::scan) fn of_orders() -> Result<&'static Self, ScanFault> {
        static OF_ORDERS: LazyLock<Option<Marks>> = LazyLock::new(|| Marks::compile(std::iter::empty()));
        OF_ORDERS.as_ref().ok_or(ScanFault::Spellings)
    }

    /// Tells whether a value begins as keys do: turned letters look like drawn ones.
    pub(super) fn begin_key(&self, value: &[u8]) -> bool {
        self.heads.iter().any(|head| value.starts_with(head))
    }

    /// Returns the different marks of a text.
    ///
    /// # Errors
    /// The text could not be searched.
    pub(super) fn of(&self, text: &[u8]) -> Result<Vec<Marked>, ScanFault> {
        let mut marks = self.find(text)?;
        for mark in letters::ciphers(text).into_iter().map(Mark::Cipher) {
            note(Marked { mark, is_of_key: false }, &mut marks);
        }
        if apart::stand_apart(text) {
            note(Marked { mark: Mark::Spaced, is_of_key: false }, &mut marks);
        }
        Ok(marks)
    }

    fn find(&self, text: &[u8]) -> Result<Vec<Marked>, ScanFault> {
        let scanned = self.engine.scan(
            text,
            0..text.len(),
            |_| true,
            |runs| {
                let mut found: Vec<Marked> = Vec::new();
                for Run { group, last, .. } in runs {
                    for shape in self.engine.shapes(*group) {
                        let Some(marked) = self.marks.get(*shape as usize) else { continue };
                        if marked.mark != Mark::Leet || letters::has_leet(text, *last) {
                            note(*marked, &mut found);
                        }
                    }
                }
                found
            },
        );
        Ok(scanned?)
    }
}

/// Notes a mark among those of a text.
fn note(marked: Marked, marks: &mut Vec<Marked>) {
    match marks.iter_mut().find(|known| known.mark == marked.mark) {
        Some(known) => known.is_of_key &= marked.is_of_key,
        None => marks.push(marked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_cannot_be_searched_is_a_fault() {
        let shape = |expression: &str| {
            let expression = expression.to_owned();
            Shape { expression, start: Start::Known { back: 2 }, lead: None }
        };
        let shapes = ["ab", "[a]b", "a[b]", "(?:ab)"].map(shape);
        let marks = Marks {
            engine: Engine::compile(&shapes).unwrap(),
            marks: vec![Marked { mark: Mark::Reversed, is_of_key: true }; 4],
            heads: BTreeSet::new(),
        };
        assert_eq!(marks.find(b"ab").unwrap(), [Marked { mark: Mark::Reversed, is_of_key: true }]);
        assert!(matches!(marks.find("ab".repeat(1 << 18).as_bytes()), Err(ScanFault::Engine(_))));
    }
}
