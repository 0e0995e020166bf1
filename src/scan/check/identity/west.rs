//! Identifiers of France, the Low Countries, Great Britain and Ireland.

use super::checksum::luhn_sum;
use super::digits;
use super::is_short_date;
use super::number;
use super::symbols;
use super::values;
use super::varied;
use super::weigh;

/// Tells whether `value` is a French social security number (NIR) with its key.
pub fn fr_nir(value: &[u8]) -> bool {
    let Some(mut nir) = symbols::<15>(value) else { return false };
    // Corsica's departments are counted as 19 and 18.
    match &nir[5..7] {
        b"2A" => nir[5..7].copy_from_slice(b"19"),
        b"2B" => nir[5..7].copy_from_slice(b"18"),
        _ => {}
    }
    values::<15>(&nir).is_some_and(|nir| {
        matches!(nir[0], 1..=4 | 7 | 8)
            && matches!(number(&nir[3..5]), 1..=12 | 20..=42 | 50..=99)
            && number(&nir[5..7]) > 0
            && number(&nir[10..13]) > 0
            && 97 - number(&nir[..13]) % 97 == number(&nir[13..])
    })
}

/// Tells whether `value` is a French establishment number (SIRET): Luhn over 9 and over 14 digits.
pub fn fr_siret(value: &[u8]) -> bool {
    digits::<14>(value).is_some_and(|siret| {
        varied(&siret) && luhn_sum(&siret).is_multiple_of(10) && luhn_sum(&siret[..9]).is_multiple_of(10)
    })
}

/// Tells whether `value` is a Belgian national register number: birth date and mod 97.
pub fn be_nrn(value: &[u8]) -> bool {
    digits::<11>(value).is_some_and(|nrn| {
        let (born, check) = (number(&nrn[..9]), number(&nrn[9..]));
        // Born since 2000: a 2 is put before the number, and nobody is born late in this century yet. Foreigners
        // without a registered sex have 20 or 40 added to the month.
        let is_late = check == 97 - (2_000_000_000 + born) % 97 && number(&nrn[..2]) < 40;
        let keyed = check == 97 - born % 97 || is_late;
        keyed
            && number(&nrn[2..4]) < 60
            && is_short_date(number(&nrn[..2]), number(&nrn[2..4]) % 20, number(&nrn[4..6]))
    })
}

/// Tells whether `value` is a Dutch citizen service number: the eleven test.
pub fn nl_bsn(value: &[u8]) -> bool {
    digits::<9>(value).is_some_and(|bsn| {
        // The last digit weighs -1, which is 10 by 11.
        varied(&bsn) && weigh(&bsn, &[9, 8, 7, 6, 5, 4, 3, 2, 10]).is_multiple_of(11)
    })
}

/// Tells whether `value` is an NHS number: weighted mod 11.
pub fn uk_nhs(value: &[u8]) -> bool {
    digits::<10>(value)
        .is_some_and(|nhs| varied(&nhs) && weigh(&nhs, &[10, 9, 8, 7, 6, 5, 4, 3, 2, 1]).is_multiple_of(11))
}

/// Tells whether `value` is a UK national insurance number with a prefix HMRC uses.
pub fn uk_nino(value: &[u8]) -> bool {
    symbols::<9>(value).is_some_and(|nino| {
        let [first, second, number @ .., suffix] = nino;
        first.is_ascii_uppercase()
            && second.is_ascii_uppercase()
            && !b"DFIQUV".contains(&first)
            && !b"DFIOQUV".contains(&second)
            && ![b"BG", b"GB", b"KN", b"NK", b"NT", b"TN", b"ZZ"].contains(&&[first, second])
            && number.iter().all(u8::is_ascii_digit)
            && matches!(suffix, b'A'..=b'D')
    })
}

/// Tells whether `value` is a UK unique taxpayer reference: the check digit leads.
pub fn uk_utr(value: &[u8]) -> bool {
    const CHECKS: [u8; 11] = [2, 1, 9, 8, 7, 6, 5, 4, 3, 2, 1];
    digits::<10>(value).is_some_and(|utr| {
        let rest = weigh(&utr[1..], &[6, 7, 8, 9, 10, 5, 4, 3, 2]) % 11;
        varied(&utr) && CHECKS.get(rest as usize) == Some(&utr[0])
    })
}

/// Tells whether `value` is an Irish PPS number: seven digits, check letter mod 23, further letter. A, B and H count
/// since 2013; W, T and X, of before, do not.
pub fn ie_ppsn(value: &[u8]) -> bool {
    let padded = match super::count(value) {
        8 => symbols::<8>(value).map(|ppsn| (ppsn, 0)),
        _ => symbols::<9>(value).and_then(|ppsn| {
            let weight = match ppsn[8] {
                letter @ (b'A' | b'B' | b'H') => u32::from(letter - b'@'),
                b'T' | b'W' | b'X' => 0,
                _ => return None,
            };
            Some((*ppsn.first_chunk::<8>()?, weight))
        }),
    };
    let Some((ppsn, further)) = padded else { return false };
    let Some(body) = values::<7>(&ppsn[..7]) else { return false };
    let rest = (weigh(&body, &[8, 7, 6, 5, 4, 3, 2]) + 9 * further) % 23;
    varied(&body) && b"WABCDEFGHIJKLMNOPQRSTUV".get(rest as usize) == Some(&ppsn[7])
}
