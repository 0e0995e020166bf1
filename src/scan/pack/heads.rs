//! The beginnings of values as a pack writes them.

use toml::Spanned;

use super::HEAD_BYTES_MIN;
use super::PackProblem;

/// The most beginnings a detector may name.
const HEADS_MAX: usize = 16;
/// How long one may be, in bytes: a shorter one stands in many words that are turned round.
const HEAD_BYTES: std::ops::RangeInclusive<usize> = HEAD_BYTES_MIN..=32;

/// Returns what is wrong with beginnings, each with the one that it is about.
pub(super) fn problems(heads: &[Spanned<String>]) -> impl Iterator<Item = (&Spanned<String>, PackProblem)> {
    let is_writable = |head: &str| head.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    heads.iter().enumerate().filter_map(move |(at, head)| match head.get_ref() {
        _ if at >= HEADS_MAX => Some((head, PackProblem::TooMuch { field: "heads" })),
        text if !HEAD_BYTES.contains(&text.len()) || !is_writable(text) => Some((head, PackProblem::Head)),
        _ => None,
    })
}
