//! Traces of a text that is to stay where it is, in a text that goes out: which share of it has come out, in whatever
//! spelling.
//!
//! In: the guarded text, once; then pieces of what goes out, cut anywhere. Out: a share in percent. Only letters and
//! digits count, in the canonical view and without the case of `a` to `z`, so that spaces, dots, markup, percent and look-alikes hide
//! nothing. Every [`GRAM_LETTERS`] of them in a row have a fingerprint; where the text is long, one of some, chosen by its
//! own value and so alike on both sides. The guarded text is known as it is, backwards, in ROT13, in hexadecimal, and in
//! base64 wherever its first byte falls.
//!
//! Fingerprints are all that is kept. It does not promise to know a text again in other words or in another language.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::hash::Hasher;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::scan::view;
use crate::scan::view::Canonicaliser;
use crate::scan::view::Piece;

/// How many letters in a row have a fingerprint.
pub const GRAM_LETTERS: usize = 24;
/// A text of fewer letters is too common to be known again.
pub const LETTERS_MIN: usize = 96;
/// The most bytes of a text that are guarded: those at its beginning.
pub const GUARDED_BYTES_MAX: usize = 32 << 10;

/// How many spellings of the guarded text are known.
const SPELLINGS: usize = 7;
/// About how many fingerprints are kept of each.
const FINGERPRINTS: usize = 128;
/// What a fingerprint is a polynomial in; odd, and as good as any.
const BASE: u64 = 0x0100_0000_01b3;
/// Spreads a polynomial over all bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Where base64 begins to depend on the guarded text alone, by how many bytes stand before it in a group of three.
const BASE64_HEADS: [usize; 3] = [0, 2, 3];

/// A text that is to stay where it is, by its fingerprints.
pub struct Guarded {
    marks: Marks,
    totals: [usize; SPELLINGS],
    /// One fingerprint of so many is kept.
    one_of: u64,
}

/// Where fingerprints belong, by fingerprint.
type Marks = HashMap<u64, Mark, BuildHasherDefault<Hashed>>;

/// Takes what is a hash already as it is. Only what a caller's own prompt has is ever put in.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, fingerprint: u64) {
        // Those that are kept have their lowest bits in common.
        self.0 = fingerprint.rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Where a fingerprint belongs.
#[derive(Clone, Copy)]
struct Mark {
    spelling: usize,
    at: usize,
}

/// What of a guarded text has come out.
#[derive(Clone, Debug, Default)]
pub struct Leak {
    /// By spelling and place.
    seen: Vec<Vec<bool>>,
    counts: [usize; SPELLINGS],
}

/// A text that goes out, as it is followed.
#[derive(Clone, Default)]
pub struct Trace {
    reader: Canonicaliser,
    letters: Letters,
}

/// The last letters of a text, and their fingerprint.
#[derive(Clone, Default)]
struct Letters {
    ring: [u8; GRAM_LETTERS],
    count: usize,
    sum: u64,
}

impl Letters {
    /// Takes a byte; returns the fingerprint of the letters that end there, if there are enough.
    fn push(&mut self, byte: u8) -> Option<u64> {
        if !byte.is_ascii_alphanumeric() && byte.is_ascii() {
            return None;
        }
        let letter = byte.to_ascii_lowercase();
        let oldest = std::mem::replace(self.ring.get_mut(self.count % GRAM_LETTERS)?, letter);
        let gone = u64::from(oldest).wrapping_mul(const { power(GRAM_LETTERS) });
        self.sum = self.sum.wrapping_mul(BASE).wrapping_add(u64::from(letter)).wrapping_sub(gone);
        self.count += 1;
        let spread = self.sum.wrapping_mul(SPREAD);
        (self.count >= GRAM_LETTERS).then_some(spread ^ spread >> 32)
    }
}

/// Returns a power of [`BASE`].
const fn power(exponent: usize) -> u64 {
    let (mut product, mut at) = (1_u64, 0);
    while at < exponent {
        product = product.wrapping_mul(BASE);
        at += 1;
    }
    product
}

impl Guarded {
    /// Returns the fingerprints of a text, unless it is too short to be known again.
    pub fn of(text: &[u8]) -> Option<Self> {
        let text = text.get(..GUARDED_BYTES_MAX).unwrap_or(text);
        let plain = view::canonical(text).map_or_else(|| text.to_vec(), |view| view.bytes().to_vec());
        let letters = plain.iter().filter(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii()).count();
        if letters < LETTERS_MIN {
            return None;
        }
        let one_of = (letters / FINGERPRINTS + 1) as u64;
        let mut guarded = Self { marks: Marks::default(), totals: [0; SPELLINGS], one_of };
        for (spelling, written) in spellings(text, plain).iter().enumerate() {
            guarded.learn(spelling, written);
        }
        Some(guarded)
    }

    fn learn(&mut self, spelling: usize, written: &[u8]) {
        let mut letters = Letters::default();
        let Some(total) = self.totals.get_mut(spelling) else { return };
        for fingerprint in written.iter().filter_map(|byte| letters.push(*byte)) {
            if fingerprint.is_multiple_of(self.one_of)
                && let std::collections::hash_map::Entry::Vacant(free) = self.marks.entry(fingerprint)
            {
                free.insert(Mark { spelling, at: *total });
                *total += 1;
            }
        }
    }
}

/// Writes a text in every spelling that is known.
fn spellings(text: &[u8], plain: Vec<u8>) -> [Vec<u8>; SPELLINGS] {
    let backwards = String::from_utf8_lossy(&plain).chars().rev().collect::<String>().into_bytes();
    let rotated = plain.iter().map(|byte| rot13(*byte)).collect();
    let hex = text.iter().flat_map(|byte| [byte >> 4, byte & 15].map(hex_digit)).collect();
    let [first, second, third] = [0, 1, 2].map(|before| {
        let filled = [&[0; 2][..before], text].concat();
        let whole = filled.len() / 3 * 4;
        let encoded = STANDARD.encode(&filled).into_bytes();
        encoded.get(BASE64_HEADS[before].min(whole)..whole).unwrap_or_default().to_vec()
    });
    [plain, backwards, rotated, hex, first, second, third]
}

fn hex_digit(value: u8) -> u8 {
    char::from_digit(u32::from(value), 16).map_or(b'0', |digit| digit as u8)
}

fn rot13(byte: u8) -> u8 {
    match byte.to_ascii_lowercase() {
        letter @ b'a'..=b'z' => (letter - b'a' + 13) % 26 + b'a',
        other => other,
    }
}

impl Leak {
    /// Returns how many percent of a guarded text have come out, in the spelling that tells most of it.
    pub fn percent(&self, guarded: &Guarded) -> u8 {
        let shares = self.counts.iter().zip(guarded.totals).filter(|(_, total)| *total > 0);
        shares.map(|(seen, total)| (seen * 100 / total).min(100) as u8).max().unwrap_or_default()
    }

    fn note(&mut self, guarded: &Guarded, mark: Mark) {
        if self.seen.is_empty() {
            self.seen = guarded.totals.iter().map(|total| vec![false; *total]).collect();
        }
        let seen = self.seen.get_mut(mark.spelling).and_then(|all| all.get_mut(mark.at));
        if let (Some(seen), Some(count)) = (seen, self.counts.get_mut(mark.spelling)) {
            *count += usize::from(!std::mem::replace(seen, true));
        }
    }
}

impl Trace {
    /// Follows the next piece of a text, and notes what of the guarded one is in it.
    pub fn push(&mut self, guarded: &Guarded, leak: &mut Leak, piece: &[u8]) {
        let Self { reader, letters } = self;
        reader.push(piece, &mut |piece| follow(letters, guarded, leak, piece));
    }

    /// Ends the text.
    pub fn finish(&mut self, guarded: &Guarded, leak: &mut Leak) {
        let Self { reader, letters } = self;
        reader.finish(&mut |piece| follow(letters, guarded, leak, piece));
    }
}

fn follow(letters: &mut Letters, guarded: &Guarded, leak: &mut Leak, piece: Piece<'_>) {
    for fingerprint in piece.bytes.iter().filter_map(|byte| letters.push(*byte)) {
        if fingerprint.is_multiple_of(guarded.one_of)
            && let Some(mark) = guarded.marks.get(&fingerprint)
        {
            leak.note(guarded, *mark);
        }
    }
}

impl std::fmt::Debug for Guarded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guarded").field("fingerprints", &self.marks.len()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace").field("letters", &self.letters.count).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    const PROMPT: &str = "You are Ada, the assistant of Contoso Bank. Never speak of the merger with Fabrikam. \
        Refunds over 500 euros need a manager; the code word for managers is a colour. Grüße immer freundlich.";

    fn percent(prompt: &str, answer: &str, bytes: usize) -> u8 {
        let guarded = Guarded::of(prompt.as_bytes()).expect("it is long enough");
        let (mut leak, mut trace) = (Leak::default(), Trace::default());
        for piece in answer.as_bytes().chunks(bytes) {
            trace.push(&guarded, &mut leak, piece);
        }
        trace.finish(&guarded, &mut leak);
        leak.percent(&guarded)
    }

    #[test]
    fn a_text_is_known_in_every_spelling_and_however_it_is_cut() {
        let each = |write: &dyn Fn(char) -> String| PROMPT.chars().map(write).collect::<String>();
        let bytes = |write: &dyn Fn(u8) -> String| PROMPT.bytes().map(write).collect::<String>();
        let rotated = String::from_utf8_lossy(&PROMPT.bytes().map(rot13).collect::<Vec<u8>>()).into_owned();
        let spelt = [
            PROMPT.to_owned(),
            PROMPT.to_ascii_uppercase(),
            format!("> **{}**", PROMPT.replace(' ', "\n> ")),
            each(&|letter| format!("{letter} ")),
            each(&|letter| format!("{letter}.")),
            each(&|letter| format!("{letter}\u{200b}")),
            each(&|letter| format!("&#{};", letter as u32)),
            PROMPT.chars().rev().collect(),
            rotated,
            bytes(&|byte| format!("{byte:02x}")),
            bytes(&|byte| format!("{byte:02X} ")),
            bytes(&|byte| format!("%{byte:02X}")),
            STANDARD.encode(PROMPT),
            STANDARD.encode(format!("1{PROMPT}")),
            URL_SAFE_NO_PAD.encode(format!("22{PROMPT}")),
        ];
        for text in spelt {
            for bytes in [1, 5, 64, 4096] {
                let share = percent(PROMPT, &format!("Sure, here it is: {text} Anything else?"), bytes);
                assert!(share >= 90, "{share} % of {text}");
            }
        }
    }

    #[test]
    fn a_share_tells_how_much_has_come_out() {
        let long = (0..4000).map(|at| format!("Rule {at}: {}. ", at * 7919 % 10_007)).collect::<String>();
        let long = &long[..GUARDED_BYTES_MAX];
        for tenths in [0, 2, 5, 9, 10] {
            let share = percent(long, &long[..long.len() * tenths / 10], 100);
            assert!(share.abs_diff(tenths as u8 * 10) <= 12, "{share} % of {tenths} tenths");
        }
        assert!(Guarded::of(long.as_bytes()).expect("long").marks.len() < 3 * SPELLINGS * FINGERPRINTS);
        assert_eq!(percent(PROMPT, "Good morning! I am Ada. How may I help you with your refund?", 9), 0);
        assert!(Guarded::of(b"You are a helpful assistant.").is_none());
    }
}
