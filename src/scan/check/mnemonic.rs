//! Phrases that hold the key of a wallet: words of one of the ten lists of BIP-39, the last of which holds a checksum.
//!
//! In: a text, or single words of it. Out: where a word stands in the lists, and whether words are a phrase. Words are known
//! with their accents composed or apart, in either case; what parts them is anything but letters.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::hash::Hasher;
use std::ops::BitAnd;
use std::ops::Range;
use std::sync::LazyLock;

use bip39::Language;
use bip39::Mnemonic;
use sha2::Digest;
use sha2::Sha256;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// The fewest and the most words of a phrase; between them it has a multiple of three.
pub const WORDS_MIN: usize = 12;
const WORDS_MAX: usize = 24;

/// How many bits a word of a phrase stands for, and how many bytes of entropy three words do.
const WORD_BITS: u32 = 11;
const THREE_WORDS_BYTES: usize = 4;

/// No list has a word of so many bytes, however its accents are written.
pub const WORD_BYTES_MAX: usize = 40;

/// By word, decomposed: where it stands in the lists.
static WORDS: LazyLock<HashMap<&str, Word, BuildHasherDefault<Mixed>>> = LazyLock::new(|| {
    let mut words: HashMap<&str, Word, _> = HashMap::default();
    for language in Language::ALL {
        for (word, place) in language.word_list().iter().zip(0..) {
            let known = words.entry(*word).or_default();
            let free = known.0.iter_mut().find(|list| list.is_none());
            *free.expect("no word is in three lists, and a test says so") = Some((*language, place));
        }
    }
    words
});

/// The logarithm of how many bits [`SIEVE`] has.
const SIEVE_BITS: u32 = 18;

/// By hash, whether a word of the lists in ASCII has it: most words of a text are in none, and [`WORDS`] lies in more memory than a
/// core has near.
static SIEVE: LazyLock<Vec<u64>> = LazyLock::new(|| {
    let mut sieve = vec![0; 1 << (SIEVE_BITS - u64::BITS.ilog2())];
    for word in WORDS.keys().filter(|word| word.is_ascii()) {
        let (index, bit) = place_in_sieve(word.as_bytes());
        sieve[index] |= bit;
    }
    sieve
});

/// A hash of the words of the lists: they are known, so that nobody can make them collide.
#[derive(Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| mixed(hash, *byte));
    }

    fn finish(&self) -> u64 {
        spread(self.0)
    }
}

/// Where a word stands in the lists: English shares some with French, and Chinese letters may be simplified and not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Word([Option<(Language, u16)>; 2]);

/// The languages of some lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Languages(u16);

/// Returns where a word stands in the lists, unless none has it.
pub fn word(text: &str) -> Option<Word> {
    let mut small = [0; WORD_BYTES_MAX];
    let small = small.get_mut(..text.len()).filter(|_| text.len() < WORD_BYTES_MAX)?;
    if !text.is_ascii() {
        let plain: String = text.nfkd().flat_map(char::to_lowercase).collect();
        return WORDS.get(plain.as_str()).copied();
    }
    small.copy_from_slice(text.as_bytes());
    small.make_ascii_lowercase();
    let (index, bit) = place_in_sieve(small);
    if SIEVE.get(index).is_none_or(|bits| bits & bit == 0) {
        return None;
    }
    WORDS.get(std::str::from_utf8(small).ok()?).copied()
}

/// Returns the index and the bit of a word in [`SIEVE`].
fn place_in_sieve(word: &[u8]) -> (usize, u64) {
    let hash = word.iter().fold(0, |hash, byte| mixed(hash, *byte));
    let place = spread(hash) >> (u64::BITS - SIEVE_BITS);
    ((place / u64::from(u64::BITS)) as usize, 1 << (place % u64::from(u64::BITS)))
}

/// Mixes a byte into a hash, as FNV-1a does.
fn mixed(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
}

/// Spreads what FNV-1a mixed upwards over all bits.
fn spread(hash: u64) -> u64 {
    let high = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    high ^ high >> 32
}

/// Tells whether words are 12, 15, 18, 21 or 24 of one list with the right checksum.
pub fn is_phrase(words: &[Word]) -> bool {
    let lists = words.first().into_iter().flat_map(|word| word.0.iter().flatten());
    lists.map(|(language, _)| *language).any(|language| {
        let places: Option<Vec<u16>> = words.iter().map(|word| word.place(language)).collect();
        places.is_some_and(|places| is_checked(language, &places))
    })
}

/// Tells whether words are repeated, or follow each other as they do in a list: nobody draws such a phrase.
pub fn is_shown(words: &[Word]) -> bool {
    let again = words.iter().enumerate().filter(|(at, word)| words.iter().take(*at).any(|it| it == *word));
    let first = |word: &Word| word.0.first().copied().flatten().map(|(_, place)| place);
    let is_listed = || words.windows(2).all(|pair| pair.first().map(first) < pair.last().map(first));
    again.count() * 4 > words.len() || is_listed()
}

/// Tells whether `value` is 12, 15, 18, 21 or 24 words of one list of BIP-39 with the right checksum.
pub fn bip39(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else { return false };
    let known: Option<Vec<Word>> = words(text).take(WORDS_MAX + 1).map(word).collect();
    known.is_some_and(|known| is_phrase(&known))
}

/// Returns an English phrase of as many words as `value` has, with the right checksum.
pub fn repair_bip39(value: &[u8]) -> Option<Vec<u8>> {
    let count = words(&String::from_utf8_lossy(value)).count().clamp(WORDS_MIN, WORDS_MAX);
    let drawn = Sha256::digest(value);
    let entropy = drawn.get(..count / 3 * THREE_WORDS_BYTES)?;
    let phrase = Mnemonic::from_entropy_in(Language::English, entropy).ok()?;
    Some(phrase.words().collect::<Vec<_>>().join(" ").into_bytes())
}

/// Returns the word that a letter or a mark at a place belongs to. Of what is too long for any list it may be a part, which
/// is too long as well.
pub fn around(text: &str, at: usize) -> Option<Range<usize>> {
    let far = text.ceil_char_boundary(at.saturating_sub(WORD_BYTES_MAX));
    let near = text.ceil_char_boundary(at + WORD_BYTES_MAX);
    if let Some(word) = ascii_around(text.as_bytes(), at, far..near) {
        return Some(word);
    }
    let (before, behind) = (text.get(far..at)?, text.get(at..near)?);
    let end = at + behind.find(|sign| !is_of_word(sign)).unwrap_or(behind.len());
    let start = far + before.trim_end_matches(is_of_word).len();
    let word = text.get(start..end)?.trim_start_matches(|sign: char| !sign.is_alphabetic());
    (!word.is_empty()).then_some(end - word.len()..end)
}

/// Returns the word that a letter at a place belongs to, within bounds, if it is of ASCII and so is what stands beside it.
fn ascii_around(text: &[u8], at: usize, bounds: Range<usize>) -> Option<Range<usize>> {
    let (before, behind) = (text.get(bounds.start..at)?, text.get(at..bounds.end)?);
    let is_other = |byte: &u8| !byte.is_ascii_alphabetic();
    let first = before.iter().rposition(is_other);
    let last = behind.iter().position(is_other);
    let ends = [first.and_then(|at| before.get(at)), last.and_then(|at| behind.get(at))];
    let is_plain = last != Some(0) && !behind.is_empty() && ends.into_iter().flatten().all(u8::is_ascii);
    let start = bounds.start + first.map_or(0, |first| first + 1);
    is_plain.then_some(start..at + last.unwrap_or(behind.len()))
}

/// Tells whether a character belongs to a word: a letter, or what is written over one.
pub fn is_of_word(sign: char) -> bool {
    sign.is_alphabetic() || !sign.is_ascii() && is_combining_mark(sign)
}

/// Returns the words of a text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(|sign| !is_of_word(sign));
    parts.map(|part| part.trim_start_matches(is_combining_mark)).filter(|word| !word.is_empty())
}

/// Tells whether the last of the words at these places of a list holds the checksum of all.
fn is_checked(language: Language, places: &[u16]) -> bool {
    if !(WORDS_MIN..=WORDS_MAX).contains(&places.len()) || !places.len().is_multiple_of(3) {
        return false;
    }
    let (mut entropy, mut held, mut bits) = (Vec::new(), 0_u32, 0);
    for place in places {
        held = held << WORD_BITS | u32::from(*place);
        bits += WORD_BITS;
        while let Some(left) = bits.checked_sub(u8::BITS) {
            entropy.push((held >> left) as u8);
            bits = left;
        }
    }
    entropy.truncate(places.len() / 3 * THREE_WORDS_BYTES);
    let phrase = Mnemonic::from_entropy_in(language, &entropy);
    phrase.is_ok_and(|phrase| phrase.word_indices().last() == places.last().map(|last| usize::from(*last)))
}

impl Word {
    /// Returns the languages whose lists have the word.
    pub fn languages(self) -> Languages {
        let bits = self.0.iter().flatten().map(|(language, _)| 1_u16 << (*language as u16));
        Languages(bits.fold(0, |all, bit| all | bit))
    }

    /// Returns where the word stands in the list of a language.
    fn place(self, of: Language) -> Option<u16> {
        self.0.iter().flatten().find(|(language, _)| *language == of).map(|(_, place)| *place)
    }
}

impl Languages {
    /// Tells whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitAnd for Languages {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the words of no entropy but zeros are in each list: its first one eleven times, and its fourth.
    fn phrases_of_zeros() -> impl Iterator<Item = String> {
        Language::ALL.iter().map(|language| {
            let [first, .., last] = &language.word_list()[..4] else { unreachable!() };
            format!("{}{last}", format!("{first} ").repeat(11))
        })
    }

    #[test]
    fn the_test_vectors_of_the_standard_are_phrases() {
        for phrase in [
            "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about",
            "legal winner thank year wave sausage worth useful legal winner thank yellow",
            "gravity machine north sort system female filter attitude volume fold club stay feature office ecology \
             stable narrow fog",
            "hamster diagram private dutch cause delay private meat slide toddler razor book happy fancy gospel tennis \
             maple dilemma loan word shrug inflict delay length",
            "あいこくしん　あいこくしん　あいこくしん　あいこくしん　あいこくしん　あいこくしん　あいこくしん　\
             あいこくしん　あいこくしん　あいこくしん　あいこくしん　あおぞら",
        ] {
            assert!(bip39(phrase.as_bytes()), "{phrase}");
        }
    }

    #[test]
    fn a_phrase_of_any_list_is_one_however_it_is_written() {
        for phrase in phrases_of_zeros() {
            let composed: String = phrase.nfc().collect();
            let numbered = phrase.split(' ').zip(1..).map(|(word, at)| format!("{at}. {word}\n"));
            for written in [
                phrase.clone(),
                composed.clone(),
                composed.to_uppercase(),
                composed.replace(' ', "\u{3000}"),
                composed.replace(' ', "\", \""),
                numbered.collect(),
            ] {
                assert!(bip39(written.as_bytes()), "{written}");
            }
        }
    }

    #[test]
    fn what_is_no_phrase_of_one_list_is_none() {
        for words in [
            "",
            "abandon",
            &"abandon ".repeat(12),
            // The zeros of eleven words, thirteen, and of twelve in two lists.
            &format!("{}about", "abandon ".repeat(10)),
            &format!("{}about about", "abandon ".repeat(11)),
            &format!("{}abeille", "abandon ".repeat(11)),
            &format!("{}xabout", "abandon ".repeat(11)),
            // Letters of Chinese that nothing parts.
            "的的的的的的的的的的的在",
        ] {
            assert!(!bip39(words.as_bytes()), "{words}");
        }
        assert!(!bip39(b"\xff abandon"));
    }

    #[test]
    fn every_word_is_in_a_list_or_two_and_shorter_than_any_may_be() {
        for language in Language::ALL {
            for text in language.word_list() {
                let known = word(text).unwrap_or_else(|| panic!("{text}"));
                assert!(known.place(*language).is_some(), "{text}");
                assert_eq!(around(text, 0), Some(0..text.len()));
                assert!(text.len() < WORD_BYTES_MAX - 'あ'.len_utf8(), "{text}");
            }
        }
    }

    #[test]
    fn words_that_are_repeated_or_in_their_order_are_shown() {
        let all = |text: &str| words(text).map(|it| word(it).unwrap()).collect::<Vec<_>>();
        for (text, expected) in [
            ("test test test test test test test test test test test junk", true),
            ("aerobic affair afford afraid again age agent agree ahead aim air airport", true),
            ("rail fever air pear quality bar baby must mandate message express camera", false),
            ("legal winner thank year wave sausage worth useful legal winner thank yellow", false),
        ] {
            assert_eq!(is_shown(&all(text)), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_repaired_value_passes(value in "(?:[a-z]{3,8} ){0,30}", noise in any::<Vec<u8>>()) {
            prop_assert!(bip39(&repair_bip39(value.as_bytes()).unwrap()));
            prop_assert!(bip39(&repair_bip39(&noise).unwrap()));
        }

        #[test]
        fn a_word_is_found_from_each_of_its_letters(before in "[ 1.a\u{301}]{0,4}", behind in "[ 1.]{0,3}", mark in 0_usize..2) {
            let word = ["hélice", "he\u{301}lice"][mark];
            let text = format!("{before} {word}{behind}");
            let start = before.len() + 1;
            for at in (start..start + word.len()).filter(|at| text.is_char_boundary(*at)) {
                prop_assert_eq!(around(&text, at), Some(start..start + word.len()));
            }
        }
    }
}
