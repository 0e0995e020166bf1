//! Check digits and structure of personal, business and payment identifiers.
//!
//! In comes the value a pattern matched, as ASCII bytes; out goes whether it can be a real one.
//! Blanks, hyphens, dots and slashes between symbols are tolerated, letters count in either case,
//! and a value of the wrong length or with any other byte is never valid. A run of one repeated
//! digit satisfies many checksums and is nobody's number: every checksum refuses it.
//!
//! No check asks a register. A passing value is well formed, not proven to be issued.

mod checksum;

pub mod africa;
pub mod america;
pub mod asia;
pub mod bank;
pub mod company;
pub mod device;
pub mod east;
pub mod german;
pub mod keccak;
pub mod network;
pub mod north;
pub mod oceania;
pub mod phone;
pub mod resident;
pub mod south;
pub mod vat;
pub mod wallet;
pub mod west;

pub use checksum::luhn;

/// Returns exactly `N` digits of `value`, separators dropped.
fn digits<const N: usize>(value: &[u8]) -> Option<[u8; N]> {
    let mut out = [0; N];
    let mut filled = 0;
    for &byte in value {
        match byte {
            b'0'..=b'9' => {
                *out.get_mut(filled)? = byte - b'0';
                filled += 1;
            }
            b' ' | b'-' | b'.' | b'/' => {}
            _ => return None,
        }
    }
    (filled == N).then_some(out)
}

/// Returns exactly `N` letters and digits of `value`, upper-cased, separators dropped.
fn symbols<const N: usize>(value: &[u8]) -> Option<[u8; N]> {
    let mut out = [0; N];
    let mut filled = 0;
    for &byte in value {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                *out.get_mut(filled)? = byte.to_ascii_uppercase();
                filled += 1;
            }
            b' ' | b'-' | b'.' | b'/' => {}
            _ => return None,
        }
    }
    (filled == N).then_some(out)
}

/// Counts the letters and digits of `value`.
fn count(value: &[u8]) -> usize {
    value.iter().filter(|byte| byte.is_ascii_alphanumeric()).count()
}

/// Returns the sum of the products of `digits` and `weights`, pair by pair.
fn weigh(digits: &[u8], weights: &[u32]) -> u32 {
    digits.iter().zip(weights).map(|(&digit, weight)| u32::from(digit) * weight).sum()
}

/// Returns the number that `digits` write in base ten; at most 19 digits fit.
fn number(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |total, &digit| total * 10 + u64::from(digit))
}

/// Tells whether `digits` are more than one digit repeated.
fn varied(digits: &[u8]) -> bool {
    digits.windows(2).any(|pair| pair.first() != pair.last())
}

/// Turns ASCII digits into their values; any other byte gives `None`.
fn values<const N: usize>(ascii: &[u8]) -> Option<[u8; N]> {
    let ascii: &[u8; N] = ascii.try_into().ok()?;
    ascii.iter().all(u8::is_ascii_digit).then(|| ascii.map(|byte| byte - b'0'))
}

/// Tells whether the Gregorian calendar has this day.
fn is_date(year: u64, month: u64, day: u64) -> bool {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// Tells whether a day with a two-digit year exists in 19xx or 20xx.
fn is_short_date(year: u64, month: u64, day: u64) -> bool {
    is_date(1900 + year, month, day) || is_date(2000 + year, month, day)
}

/// Most positions [`repair`] looks at, counted from the end.
const REPAIR_POSITIONS: usize = 34;

/// Returns `value` with one or two symbols replaced so that `passes` holds.
///
/// Digits become digits and letters letters of the same case, so the result still has the shape
/// it came with. Later positions are tried first: that is where check digits mostly are.
pub fn repair(value: &[u8], passes: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
    if passes(value) {
        return Some(value.to_vec());
    }
    let places: Vec<usize> = (0..value.len())
        .rev()
        .filter(|&at| alternatives(value, at).len() > 1)
        .take(REPAIR_POSITIONS)
        .collect();
    let mut trial = value.to_vec();
    for &at in &places {
        if substitute(&mut trial, at, &passes) {
            return Some(trial);
        }
    }
    for (rank, &outer) in places.iter().enumerate() {
        for replacement in alternatives(value, outer) {
            set(&mut trial, outer, replacement);
            for &inner in places.iter().take(rank) {
                if substitute(&mut trial, inner, &passes) {
                    return Some(trial);
                }
            }
        }
        trial = value.to_vec();
    }
    None
}

/// Tries every symbol of the same class at `at`; puts the old one back when none passes.
fn substitute(trial: &mut [u8], at: usize, passes: &impl Fn(&[u8]) -> bool) -> bool {
    let Some(&before) = trial.get(at) else { return false };
    for replacement in alternatives(trial, at) {
        set(trial, at, replacement);
        if passes(trial) {
            return true;
        }
    }
    set(trial, at, before);
    false
}

fn set(trial: &mut [u8], at: usize, byte: u8) {
    if let Some(place) = trial.get_mut(at) {
        *place = byte;
    }
}

/// Returns the bytes that may stand at `at` without a change of shape.
fn alternatives(value: &[u8], at: usize) -> std::ops::RangeInclusive<u8> {
    match value.get(at) {
        Some(b'0'..=b'9') => b'0'..=b'9',
        Some(b'A'..=b'Z') => b'A'..=b'Z',
        Some(b'a'..=b'z') => b'a'..=b'z',
        Some(&other) => other..=other,
        None => std::ops::RangeInclusive::new(1, 0),
    }
}

#[cfg(test)]
mod tests;
