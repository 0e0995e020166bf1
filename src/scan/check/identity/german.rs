//! Identifiers of Germany, Austria and Switzerland.

use super::checksum::ean;
use super::checksum::mod_11_10;
use super::digits;
use super::is_short_date;
use super::number;
use super::symbols;
use super::values;
use super::varied;
use super::weigh;

/// Tells whether `value` is a German tax identifier: digit frequencies and MOD 11,10.
pub fn de_steuer_id(value: &[u8]) -> bool {
    digits::<11>(value).is_some_and(|id| {
        let mut seen = [0_u8; 10];
        for &digit in &id[..10] {
            seen[usize::from(digit)] += 1;
        }
        // Exactly one digit comes twice or three times, all others at most once.
        let mut repeated = seen.iter().filter(|&&times| times > 1);
        id[0] != 0 && matches!((repeated.next(), repeated.next()), (Some(2 | 3), None)) && mod_11_10(&id)
    })
}

/// Returns the sum of the decimal digits of each weighted digit.
fn cross_sum(digits: &[u8], weights: &[u32]) -> u32 {
    digits
        .iter()
        .zip(weights)
        .map(|(&digit, weight)| u32::from(digit) * weight)
        .map(|p| p / 10 + p % 10)
        .sum()
}

/// Tells whether `value` is a German pension insurance number: birth date, letter, check digit.
pub fn de_rvnr(value: &[u8]) -> bool {
    let Some(rvnr) = symbols::<12>(value) else { return false };
    let (Some(front), Some(back)) = (values::<8>(&rvnr[..8]), values::<3>(&rvnr[9..])) else { return false };
    let letter = rvnr[8].wrapping_sub(b'A').wrapping_add(1);
    let spelled = [&front[..], &[letter / 10, letter % 10], &back[..2]].concat();
    let day = number(&front[2..4]);
    rvnr[8].is_ascii_uppercase()
        && matches!(number(&front[..2]), 2..=99)
        // When the serials of a day run out, 50 is added to the day.
        && is_short_date(number(&front[6..8]), number(&front[4..6]), if day > 50 { day - 50 } else { day })
        && cross_sum(&spelled, &[2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1]) % 10 == u32::from(back[2])
}

/// Tells whether `value` is a German health insurance number: a letter, eight digits, check digit.
pub fn de_kvnr(value: &[u8]) -> bool {
    let Some(kvnr) = symbols::<10>(value) else { return false };
    let Some(body) = values::<9>(&kvnr[1..]) else { return false };
    let letter = kvnr[0].wrapping_sub(b'A').wrapping_add(1);
    let spelled = [&[letter / 10, letter % 10], &body[..8]].concat();
    kvnr[0].is_ascii_uppercase()
        && varied(&body)
        && cross_sum(&spelled, &[1, 2, 1, 2, 1, 2, 1, 2, 1, 2]) % 10 == u32::from(body[8])
}

/// Tells whether `value` is an ICAO document number of nine symbols and its check digit (7-3-1).
pub fn icao_document(value: &[u8]) -> bool {
    symbols::<10>(value).is_some_and(|document| {
        document.iter().any(u8::is_ascii_digit)
            && varied(&document)
            && super::device::mrz_digit(&document[..9]) == Some(document[9])
    })
}

/// Tells whether `value` is an Austrian social insurance number: the fourth digit checks, mod 11.
pub fn at_svnr(value: &[u8]) -> bool {
    digits::<10>(value).is_some_and(|svnr| {
        let month = number(&svnr[6..8]);
        svnr[0] != 0
            && weigh(&svnr, &[3, 7, 9, 0, 5, 8, 4, 2, 1, 6]) % 11 == u32::from(svnr[3])
            // Months 13 to 15 hold the overflow of days with too many births.
            && ((13..=15).contains(&month) || is_short_date(number(&svnr[8..]), month, number(&svnr[4..6])))
    })
}

/// Tells whether `value` is a Swiss AHV number: country code 756 and EAN-13.
pub fn ch_ahv(value: &[u8]) -> bool {
    digits::<13>(value).is_some_and(|ahv| {
        ahv.starts_with(&[7, 5, 6]) && number(&ahv[3..12]) > 0 && ean(&ahv[..12]) == u32::from(ahv[12])
    })
}
