//! The marks by which other spellings are told: words of orders, and the beginnings of values that detectors name.
//!
//! In: a text. Out: what it may be spelt in, and where. The marks of a scanner are made of its detectors when they are first
//! asked.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::ops::Range;
use std::sync::LazyLock;

use super::OVERLAP_BYTES;
use super::Origin;
use super::Spelt;
use super::apart;
use super::excerpt;
use super::letters;
use super::letters::Cipher;
use super::same;
use super::viewed;
use crate::scan::engine::Engine;
use crate::scan::engine::Run;
use crate::scan::pack::HEAD_BYTES_MIN;
use crate::scan::scanner::ScanFault;
use crate::scan::shape::Shape;
use crate::scan::shape::Start;
use crate::scan::threat::Spelling;
use crate::scan::view::View;

/// The words by which an order is known that is turned round, or in the cipher of everyday.
const WORDS: [&str; 16] = [
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
    "token",
    "api_key",
    "credential",
];

/// The same in other languages.
const WORDS_OF_OTHERS: &str = "ignora instrucciones anteriores olvida sistema senha instrucoes istruzioni precedenti dimentica \
    oublie ignoriere anweisungen vorherigen vergiss passwort instructies negeer wachtwoord zignoruj instrukcje abaikan \
    instruksi talimat yoksay ignorera maagizo";
/// And beyond ASCII, without first letters beyond it that may be capitals: these are known where they are turned round.
const WORDS_BEYOND_ASCII: &str = "ontraseña nstruções nstrucțiuni quên hướng khẩu гнорируй нструкци ароль истем абудь гноруй \
    нструкці γνόησε δηγίες ωδικό تجاهل تعليمات كلمة نظام התעלם הוראות अनदेखा निर्देश पासवर्ड 忽略 密码 密碼 パスワード \
    ください 비밀번호 시스템";

/// Words of nearly every longer text in some languages, of which few are words when they are turned round.
const COMMON_WORDS: &str = "the you your this that und nicht ist ich que para che vous pour niet yang untuk";

/// What stands behind a space in hardly any text but one that is turned round: vowel signs of Devanagari and Bengali,
/// letters that end a word in Hebrew and Arabic, and how sentences end in Korean.
const TURNED_SIGNS: [&str; 4] = [
    r"\x20\xe0(?:\xa4[\xbe\xbf]|\xa5[\x80-\x8d]|\xa6[\xbe\xbf]|\xa7[\x80-\x8d])",
    r"\x20\xd7[\x9a\x9d\x9f\xa3\xa5]",
    r"\x20\xd8\xa9",
    r"\x20[.?](?:\xeb\x8b\xa4|\xec\x9a\x94|\xea\xb9\x8c)",
];
/// How many bytes the shortest of them has.
const TURNED_SIGN_BYTES_MIN: usize = 3;

/// How far that cipher moves letters.
const ROT13: u8 = 13;

/// How much of the text around what is in cipher is read with it, in bytes.
const CIPHER_AROUND_BYTES: usize = 64;

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Marked {
    pub(super) mark: Mark,
    /// Whether nothing but the beginning of a key tells it.
    pub(super) is_of_key: bool,
    /// Where it stands, in any order.
    pub(super) places: Vec<Range<usize>>,
}

/// What is looked for to tell other spellings, and what each says.
pub(in crate::scan) struct Marks {
    engine: Engine,
    /// What each shape says, and whether it is the beginning of a key.
    marks: Vec<(Mark, bool)>,
    /// How keys begin.
    heads: BTreeSet<Box<[u8]>>,
}

impl Marks {
    /// Makes the marks of orders, and of values that begin so; nothing, where the engine refuses them.
    pub(in crate::scan) fn compile<'h>(heads: impl Iterator<Item = &'h str>) -> Option<Self> {
        let heads: BTreeSet<Box<[u8]>> = heads.map(|head| head.as_bytes().into()).collect();
        let (mut shapes, mut marks) = (Vec::new(), Vec::new());
        for word in WORDS.into_iter().chain(WORDS_OF_OTHERS.split_ascii_whitespace()) {
            shapes.push(Shape::caseless(&letters::moved(word.as_bytes(), ROT13)));
            marks.push((Mark::Cipher(Cipher::Moved(ROT13)), false));
            shapes.push(Shape::caseless(&letters::reversed(word.as_bytes())));
            marks.push((Mark::Reversed, false));
        }
        for word in COMMON_WORDS.split_ascii_whitespace() {
            let turned = letters::reversed(word.as_bytes());
            shapes.push(Shape::caseless(&[b" ", &*turned, b" "].concat()));
            marks.push((Mark::Reversed, false));
        }
        for word in WORDS_BEYOND_ASCII.split_ascii_whitespace() {
            shapes.push(Shape::caseless(&letters::reversed(word.as_bytes())));
            marks.push((Mark::Reversed, false));
        }
        for expression in TURNED_SIGNS {
            let start = Start::Known { back: TURNED_SIGN_BYTES_MIN };
            shapes.push(Shape { expression: expression.to_owned(), start, lead: None });
            marks.push((Mark::Reversed, false));
        }
        for head in &heads {
            shapes.push(Shape::literal(&letters::moved(head, ROT13)));
            marks.push((Mark::Cipher(Cipher::Moved(ROT13)), true));
            shapes.push(Shape::literal(&head.iter().rev().copied().collect::<Vec<u8>>()));
            marks.push((Mark::Reversed, true));
        }
        for written in LEET_WORDS {
            let expression = format!("(?i:{written})");
            shapes.push(Shape { expression, start: Start::Known { back: 1 }, lead: None });
            marks.push((Mark::Leet, false));
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
        let Some(least) = value.get(..HEAD_BYTES_MIN) else { return false };
        let near = self.heads.range::<[u8], _>((Bound::Included(least), Bound::Included(value)));
        near.into_iter().any(|head| value.starts_with(head))
    }

    /// Returns the different marks of a text.
    ///
    /// # Errors
    /// The text could not be searched.
    pub(super) fn of(&self, text: &[u8]) -> Result<Vec<Marked>, ScanFault> {
        let mut marks = self.find(text)?;
        for (cipher, part) in letters::ciphers(text) {
            note((Mark::Cipher(cipher), false), part, &mut marks);
        }
        if apart::stand_apart(text) {
            note((Mark::Spaced, false), 0..text.len(), &mut marks);
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
                for Run { group, first, last } in runs {
                    for shape in self.engine.shapes(*group) {
                        let Some((mark, is_of_key)) = self.marks.get(*shape as usize) else { continue };
                        if *mark != Mark::Leet || letters::has_leet(text, *last) {
                            note((*mark, *is_of_key), first.saturating_sub(1)..*last, &mut found);
                        }
                    }
                }
                found
            },
        );
        Ok(scanned?)
    }
}

impl Marked {
    /// Returns the readings of the text that it tells: of what is near its places, and of letters that stand one by one.
    pub(super) fn readings(&self, text: &[u8]) -> Vec<Spelt> {
        let mut readings = match self.mark {
            Mark::Spaced => spaced(text),
            Mark::Cipher(_) | Mark::Reversed | Mark::Leet => self.readings_near(text),
        };
        readings.iter_mut().for_each(|spelt| spelt.is_of_key |= self.is_of_key);
        readings
    }

    /// Returns what is near the places of the mark with its letters as they are meant.
    fn readings_near(&self, text: &[u8]) -> Vec<Spelt> {
        // Letters moved or turned may be those of a key, which is longer than an order is.
        let near = match self.mark {
            Mark::Cipher(_) => {
                let places = letters::in_cipher(text, &self.places, OVERLAP_BYTES);
                excerpt::around(text, &places, CIPHER_AROUND_BYTES)
            }
            Mark::Reversed => excerpt::around(text, &self.places, OVERLAP_BYTES),
            Mark::Leet | Mark::Spaced => excerpt::around(text, &self.places, excerpt::AROUND_BYTES),
        };
        let Some(near) = near else { return Vec::new() };
        match self.mark {
            Mark::Cipher(Cipher::Moved(places)) => {
                vec![rewritten(Spelling::Caesar, &near, |text| letters::moved(text, places))]
            }
            Mark::Cipher(Cipher::Mirrored) => vec![rewritten(Spelling::Caesar, &near, letters::mirrored)],
            Mark::Reversed => {
                let words = rewritten(Spelling::Reversed, &near, letters::words_reversed);
                vec![turned(near), words]
            }
            Mark::Leet => [b'i', b'l']
                .map(|one| rewritten(Spelling::Leet, &near, |text| letters::unleeted(text, one)))
                .into(),
            Mark::Spaced => Vec::new(),
        }
    }
}

/// Returns what is near a mark with each byte of it written as another one.
fn rewritten(spelling: Spelling, near: &View, way: impl FnOnce(&[u8]) -> Vec<u8>) -> Spelt {
    Spelt { origin: Origin::Near, ..viewed(spelling, near.rewritten(way)) }
}

/// Returns what is near a mark from its other end.
pub(super) fn turned(near: View) -> Spelt {
    let whole = same(Spelling::Reversed, letters::reversed(near.bytes()));
    Spelt { origin: Origin::Reversed(near), ..whole }
}

/// Returns a text with its letters together that stand one by one, and once more with the signs that do, which keys have.
fn spaced(text: &[u8]) -> Vec<Spelt> {
    let together = apart::spaced(text).map(|view| viewed(Spelling::Spaced, view));
    let with_signs = apart::spaced_with_signs(text).map(|view| viewed(Spelling::Spaced, view));
    let of_keys = with_signs.map(|spelt| Spelt { is_of_key: true, ..spelt });
    together.into_iter().chain(of_keys).collect()
}

/// Notes where a mark stands among those of a text.
fn note((mark, is_of_key): (Mark, bool), place: Range<usize>, marks: &mut Vec<Marked>) {
    match marks.iter_mut().find(|known| known.mark == mark) {
        Some(known) => {
            known.is_of_key &= is_of_key;
            known.places.push(place);
        }
        None => marks.push(Marked { mark, is_of_key, places: vec![place] }),
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
            marks: vec![(Mark::Reversed, true); 4],
            heads: BTreeSet::new(),
        };
        let places = vec![1..2; 4];
        assert_eq!(marks.find(b"ab").unwrap(), [Marked { mark: Mark::Reversed, is_of_key: true, places }]);
        assert!(matches!(marks.find("ab".repeat(1 << 18).as_bytes()), Err(ScanFault::Engine(_))));
    }
}
