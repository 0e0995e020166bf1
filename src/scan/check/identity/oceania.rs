//! Identifiers of Australia and New Zealand.

use super::digits;
use super::number;
use super::varied;
use super::weigh;

/// Tells whether `value` is an Australian tax file number: weighted mod 11.
pub fn au_tfn(value: &[u8]) -> bool {
    digits::<9>(value)
        .is_some_and(|tfn| varied(&tfn) && weigh(&tfn, &[1, 4, 3, 7, 5, 8, 6, 9, 10]).is_multiple_of(11))
}

/// Tells whether `value` is an Australian business number: one off the first digit, mod 89.
pub fn au_abn(value: &[u8]) -> bool {
    digits::<11>(value).is_some_and(|abn| {
        let sum = weigh(&abn, &[10, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19]);
        number(&abn[..2]) > 10 && varied(&abn) && sum >= 10 && (sum - 10).is_multiple_of(89)
    })
}

/// Tells whether `value` is an Australian company number: weights 8 to 1, mod 10.
pub fn au_acn(value: &[u8]) -> bool {
    digits::<9>(value)
        .is_some_and(|acn| varied(&acn) && weigh(&acn, &[8, 7, 6, 5, 4, 3, 2, 1, 1]).is_multiple_of(10))
}

/// Tells whether `value` is an Australian Medicare number of ten digits: the ninth checks, mod 10.
pub fn au_medicare(value: &[u8]) -> bool {
    digits::<10>(value).is_some_and(|card| {
        matches!(card[0], 2..=6)
            && card[9] > 0
            && weigh(&card[..8], &[1, 3, 7, 9, 1, 3, 7, 9]) % 10 == u32::from(card[8])
            && varied(&card[..9])
    })
}

/// Tells whether `value` is a New Zealand tax number of nine digits, or of eight, which have a zero before them: two-stage
/// mod 11.
pub fn nz_ird(value: &[u8]) -> bool {
    let check = |body: &[u8], weights: &[u32]| match weigh(body, weights) % 11 {
        0 => 0,
        rest => 11 - rest,
    };
    let ird = digits::<9>(value).or_else(|| {
        let mut padded = [0; 9];
        padded[1..].copy_from_slice(&digits::<8>(value)?);
        Some(padded)
    });
    ird.is_some_and(|ird| {
        let first = check(&ird[..8], &[3, 2, 7, 6, 5, 4, 3, 2]);
        let decided = if first < 10 { first } else { check(&ird[..8], &[7, 4, 3, 2, 5, 2, 7, 6]) };
        (10_000_000..=150_000_000).contains(&number(&ird)) && decided == u32::from(ird[8])
    })
}
