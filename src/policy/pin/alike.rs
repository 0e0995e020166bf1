//! Names of tools that read alike: a model, or who lets it call them, may take the one for the other.
//!
//! Names that are the same but for case, separators, look-alike letters (a capital `I` for an `l`, too), or digits in the
//! place of letters always are. A slip of one letter is less: the names of ordinary tools often differ by one, in words that both exist (`get_contact`
//! and `get_contract`), in a plural or a number. It counts where it makes no word of the other: two neighbours change
//! places, a letter is doubled or is not; else only where the word is said in no definition, and the other's in its own: who
//! imitates a tool describes what that does.

use std::cell::LazyCell;
use std::collections::HashMap;
use std::collections::HashSet;
use std::ops::Deref;

use crate::llm::tools::ToolDefinition;
use crate::scan::view;

/// The shortest name in which a slip of one letter is one, in letters.
const NAME_LETTERS_MIN: usize = 8;
/// The longest name that is compared with others for a slip, in bytes: no provider takes a longer one.
const NAME_BYTES_MAX: usize = 64;
/// The shortest word in which digits stand for letters, or two letters change places.
const SWAPPED_BYTES_MIN: usize = 4;
/// The shortest word in which any other slip is one: shorter ones make each other.
const SLIPPED_BYTES_MIN: usize = 5;

/// Words that become each other where two letters change places.
const TURNED: [[&[u8]; 2]; 10] = [
    [b"form", b"from"],
    [b"forms", b"froms"],
    [b"trail", b"trial"],
    [b"trails", b"trials"],
    [b"casual", b"causal"],
    [b"angel", b"angle"],
    [b"quiet", b"quite"],
    [b"dairy", b"diary"],
    [b"united", b"untied"],
    [b"sacred", b"scared"],
];

/// Words in small letters.
type Words = HashSet<Vec<u8>>;

/// A tool's name in small letters.
struct Name {
    words: Vec<Vec<u8>>,
    /// The same without what parts the words.
    look: Vec<u8>,
    /// The same with an `l` for each capital `I`.
    face: Vec<u8>,
}

/// Tells of each tool whether another one goes by its name, or by one that reads like it.
pub(super) fn shadowed(tools: &[ToolDefinition<'_>]) -> Vec<bool> {
    let names: Vec<Name> = tools.iter().map(|tool| Name::of(&tool.name)).collect();
    let mut shadowed = vec![false; tools.len()];
    for alike in grouped(&names, |name| vec![name.look.clone()]) {
        let first = alike.first().and_then(|first| tools.get(*first));
        if alike.iter().any(|at| tools.get(*at) != first) {
            mark(&mut shadowed, &alike);
        }
    }
    let said = LazyCell::new(|| -> Vec<Words> {
        tools.iter().zip(&names).map(|(tool, name)| said(tool, name)).collect()
    });
    let spelt = grouped(&names, |name| vec![name.spelt()]);
    let faced = grouped(&names, |name| vec![name.face.clone()]);
    let near = grouped(&names, Name::rests);
    for group in spelt.chain(faced).chain(near) {
        for (nth, one) in group.iter().enumerate() {
            for other in group.iter().skip(nth + 1) {
                if is_mistaken(&names, [*one, *other], &said) {
                    mark(&mut shadowed, &[*one, *other]);
                }
            }
        }
    }
    shadowed
}

/// Tells whether one of two tools may be taken for the other.
fn is_mistaken(names: &[Name], [one, other]: [usize; 2], said: &impl Deref<Target = Vec<Words>>) -> bool {
    let (Some(left), Some(right)) = (names.get(one), names.get(other)) else { return false };
    // Told apart by a word that only the name of one of them has, which describes the other.
    let is_odd = |at: usize, own: &[u8], right: &[u8]| {
        said.get(at).is_some_and(|said| said.contains(right)) && !said.iter().any(|said| said.contains(own))
    };
    match left.likeness(right) {
        Likeness::None => false,
        Likeness::Certain => true,
        Likeness::Doubtful(word, others) => is_odd(one, word, others) || is_odd(other, others, word),
    }
}

fn mark(shadowed: &mut [bool], alike: &[usize]) {
    for at in alike {
        if let Some(is_shadowed) = shadowed.get_mut(*at) {
            *is_shadowed = true;
        }
    }
}

/// Returns the places of names that have one of their keys in common.
fn grouped(names: &[Name], keys: impl Fn(&Name) -> Vec<Vec<u8>>) -> impl Iterator<Item = Vec<usize>> {
    let mut groups: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
    for (at, name) in names.iter().enumerate() {
        let own: HashSet<Vec<u8>> = keys(name).into_iter().collect();
        own.into_iter().for_each(|key| groups.entry(key).or_default().push(at));
    }
    groups.into_values().filter(|alike| alike.len() > 1)
}

/// Returns the words that a definition says beside its tool's name.
fn said(tool: &ToolDefinition<'_>, name: &Name) -> Words {
    let mut counts: HashMap<Vec<u8>, usize> = HashMap::new();
    for word in words(tool.raw) {
        *counts.entry(word).or_default() += 1;
    }
    for word in &name.words {
        if let Some(count) = counts.get_mut(word) {
            *count = count.saturating_sub(1);
        }
    }
    counts.into_iter().filter(|(_, count)| *count > 0).map(|(word, _)| word).collect()
}

/// How far two names read alike.
enum Likeness<'n> {
    /// Not at all, or they are one.
    None,
    /// One is the other, misspelt.
    Certain,
    /// By a letter of these words, both of which may be words.
    Doubtful(&'n [u8], &'n [u8]),
}

impl Name {
    fn of(name: &str) -> Self {
        let seen = view::canonical(name.as_bytes());
        let bytes = seen.as_ref().map_or(name.as_bytes(), |view| view.bytes());
        let letters = || bytes.iter().filter(|byte| !matches!(byte, b'_' | b'-' | b'.' | b' '));
        let face = letters().map(|byte| if *byte == b'I' { b'l' } else { byte.to_ascii_lowercase() });
        let look = letters().map(u8::to_ascii_lowercase);
        Self { words: words(bytes), look: look.collect(), face: face.collect() }
    }

    /// Returns it with letters for the digits that look like them, and one letter for those that one digit looks like.
    fn spelt(&self) -> Vec<u8> {
        self.words
            .iter()
            .flat_map(|word| word.iter().map(|byte| if is_spelt(word) { letter(*byte) } else { *byte }))
            .collect()
    }

    /// Returns it without each of its letters in turn, and whole: what is one slip away has one of these in common.
    fn rests(&self) -> Vec<Vec<u8>> {
        let look = &self.look;
        if !(NAME_LETTERS_MIN..=NAME_BYTES_MAX).contains(&look.len()) {
            return Vec::new();
        }
        let without = |at: usize| {
            look.iter().enumerate().filter(|(place, _)| *place != at).map(|(_, byte)| *byte).collect()
        };
        (0..look.len()).map(without).chain([look.clone()]).collect()
    }

    /// Tells how far another name reads like it and is another.
    fn likeness<'n>(&'n self, other: &'n Self) -> Likeness<'n> {
        if self.look == other.look {
            return Likeness::None;
        }
        if self.face == other.face {
            return Likeness::Certain;
        }
        if self.spelt() == other.spelt() {
            let is_of_digits = self.differs_in_digits(other);
            return if is_of_digits { Likeness::Certain } else { Likeness::None };
        }
        if self.look.len().min(other.look.len()) < NAME_LETTERS_MIN {
            return Likeness::None;
        }
        let Some((one, other)) = self.differing(other) else { return Likeness::None };
        let is_of_letters = |word: &[u8]| word.iter().all(u8::is_ascii_alphabetic);
        let shortest = one.len().min(other.len());
        match () {
            () if !is_of_letters(one) || !is_of_letters(other) => Likeness::None,
            () if shortest >= SWAPPED_BYTES_MIN && is_turned(one, other) => Likeness::Certain,
            () if shortest >= SLIPPED_BYTES_MIN && is_doubled(one, other) => Likeness::Certain,
            () if shortest >= SLIPPED_BYTES_MIN && is_slip_within(one, other) => {
                Likeness::Doubtful(one, other)
            }
            () => Likeness::None,
        }
    }

    /// Tells whether a digit stands wherever two names that are spelt alike differ.
    fn differs_in_digits(&self, other: &Self) -> bool {
        let mut pairs = self.look.iter().zip(&other.look).filter(|(one, other)| one != other);
        pairs.all(|(one, other)| one.is_ascii_digit() != other.is_ascii_digit())
    }

    /// Returns the one word in which two names differ, or all of both where they are parted otherwise.
    fn differing<'n>(&'n self, other: &'n Self) -> Option<(&'n [u8], &'n [u8])> {
        if self.words.len() != other.words.len() {
            return Some((&self.look, &other.look));
        }
        let mut pairs = self.words.iter().zip(&other.words).filter(|(one, other)| one != other);
        let (one, other) = pairs.next()?;
        pairs.next().is_none().then_some((one.as_slice(), other.as_slice()))
    }
}

/// Returns the words of a text in small letters, parted by signs, white space and humps; digits belong to the letters
/// before them.
fn words(text: &[u8]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut word: Vec<u8> = Vec::new();
    let mut before = b' ';
    for byte in text {
        let is_hump = byte.is_ascii_uppercase() && !before.is_ascii_uppercase();
        let is_sign = byte.is_ascii() && !byte.is_ascii_alphanumeric();
        if (is_hump || is_sign) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if !is_sign {
            word.push(byte.to_ascii_lowercase());
        }
        before = *byte;
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Tells whether digits in a word may stand for letters: in a short one, and at its begin, they count something.
fn is_spelt(word: &[u8]) -> bool {
    word.len() >= SWAPPED_BYTES_MIN && word.first().is_some_and(u8::is_ascii_alphabetic)
}

/// Returns the letter that a digit looks like, and the one that stands for all that one digit looks like.
fn letter(byte: u8) -> u8 {
    match byte {
        b'0' => b'o',
        b'1' | b'i' => b'l',
        b'3' => b'e',
        b'4' => b'a',
        b'5' => b's',
        b'7' => b't',
        b'8' => b'b',
        other => other,
    }
}

/// Tells whether two words are the same but for two neighbours that changed places.
fn is_turned(one: &[u8], other: &[u8]) -> bool {
    let mut turned = one.to_vec();
    let first = one.iter().zip(other).position(|(one, other)| one != other);
    let Some(first) = first.filter(|first| one.len() == other.len() && first + 1 < one.len()) else {
        return false;
    };
    turned.swap(first, first + 1);
    turned == other && !TURNED.iter().any(|words| words.contains(&one) && words.contains(&other))
}

/// Tells whether two words are the same but for a letter that one of them doubles; at the end a second `s` is a plural.
fn is_doubled(one: &[u8], other: &[u8]) -> bool {
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    let Some(at) = inserted(short, long) else { return false };
    let is_again = at.checked_sub(1).and_then(|before| short.get(before)) == long.get(at);
    is_again && !(at + 1 == long.len() && long.ends_with(b"s"))
}

/// Tells whether two words are the same but for one letter that is neither the first nor the last.
fn is_slip_within(one: &[u8], other: &[u8]) -> bool {
    if one.len() == other.len() {
        let mut places = (0..one.len()).filter(|at| one.get(*at) != other.get(*at));
        let first = places.next();
        return places.next().is_none() && first.is_some_and(|at| at > 0 && at + 1 < one.len());
    }
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    inserted(short, long).is_some_and(|at| at > 0 && at + 1 < long.len())
}

/// Returns where a word has one letter more than another, and is the same besides: the last place of several.
fn inserted(short: &[u8], long: &[u8]) -> Option<usize> {
    if short.len() + 1 != long.len() {
        return None;
    }
    let at = short.iter().zip(long).position(|(one, other)| one != other).unwrap_or(short.len());
    (short.get(at..) == long.get(at + 1..)).then_some(at)
}
