//! Keys that some decoder takes for one and the same.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::JsonProblem;

/// A key of an open object.
#[derive(Clone, Copy)]
pub(super) struct Key {
    /// Of its folded text.
    hash: u64,
    /// Its place among the strings.
    string: u32,
}

impl Key {
    pub(super) fn new(text: &[u8], string: u32) -> Self {
        Self { hash: folded_hash(text), string }
    }
}

/// Returns a key that equals an earlier one of its object, exactly or once both are folded.
///
/// Sorting keeps it cheap for any keys, also for such as were chosen to have one hash.
pub(super) fn clash<'a>(keys: &mut [Key], text: impl Fn(u32) -> Cow<'a, [u8]>) -> Option<(JsonProblem, u32)> {
    keys.sort_unstable_by(|one, other| {
        let by_text = || fold(&text(one.string)).cmp(&fold(&text(other.string)));
        one.hash.cmp(&other.hash).then_with(by_text).then(one.string.cmp(&other.string))
    });
    keys.windows(2).find_map(|pair| match pair {
        [one, other] if one.hash == other.hash => {
            let (one_text, other_text) = (text(one.string), text(other.string));
            let problem = match one_text == other_text {
                true => JsonProblem::DuplicateKey,
                false => JsonProblem::CaseVariantKey,
            };
            (fold(&one_text) == fold(&other_text)).then_some((problem, other.string))
        }
        _ => None,
    })
}

/// A folded key; the usual ones need no allocation.
type Folded = SmallVec<[u8; 32]>;

/// Folds a key as Go's decoder does when it looks for a field: ASCII case, `ſ` as `s` and the Kelvin sign as `k`.
pub(crate) fn fold(key: &[u8]) -> Folded {
    let mut folded = Folded::with_capacity(key.len());
    fold_each(key, |byte| folded.push(byte));
    folded
}

/// Returns a hash of a key's folded text.
pub(crate) fn folded_hash(key: &[u8]) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    // Nearly every key is ASCII, and folds byte by byte.
    if key.is_ascii() {
        return key.iter().fold(hash, |hash, byte| step(hash, byte.to_ascii_lowercase()));
    }
    fold_each(key, |byte| hash = step(hash, byte));
    hash
}

fn fold_each(key: &[u8], mut emit: impl FnMut(u8)) {
    let mut rest = key;
    loop {
        rest = match rest {
            [] => return,
            [0xc5, 0xbf, tail @ ..] => {
                emit(b's');
                tail
            }
            [0xe2, 0x84, 0xaa, tail @ ..] => {
                emit(b'k');
                tail
            }
            [byte, tail @ ..] => {
                emit(byte.to_ascii_lowercase());
                tail
            }
        };
    }
}
