//! Identifiers of Spain, Portugal, Italy, Greece and Turkey.

use super::checksum::luhn_sum;
use super::digits;
use super::is_short_date;
use super::number;
use super::symbols;
use super::values;
use super::varied;
use super::weigh;

/// Check letters of Spanish identity numbers, by the remainder mod 23.
const SPANISH: &[u8; 23] = b"TRWAGMYFPDXBNJZSQVHLCKE";

/// Tells whether `value` is a Spanish DNI or NIF of a citizen: eight digits and a letter mod 23.
pub fn es_nif(value: &[u8]) -> bool {
    let Some(nif) = symbols::<9>(value) else { return false };
    values::<8>(&nif[..8]).is_some_and(|body| varied(&body) && spanish_letter(&body) == Some(nif[8]))
}

/// Tells whether `value` is a Spanish NIE of a foreigner: X, Y or Z, seven digits, letter mod 23.
pub fn es_nie(value: &[u8]) -> bool {
    let Some(mut nie) = symbols::<9>(value) else { return false };
    let Some(lead @ 0..=2) = nie[0].checked_sub(b'X') else { return false };
    nie[0] = b'0' + lead;
    values::<8>(&nie[..8]).is_some_and(|body| varied(&body[1..]) && spanish_letter(&body) == Some(nie[8]))
}

fn spanish_letter(body: &[u8; 8]) -> Option<u8> {
    SPANISH.get((number(body) % 23) as usize).copied()
}

/// Tells whether `value` is a Portuguese NIF: a kind in use and mod 11.
pub fn pt_nif(value: &[u8]) -> bool {
    digits::<9>(value).is_some_and(|nif| {
        let check = (11 - weigh(&nif[..8], &[9, 8, 7, 6, 5, 4, 3, 2]) % 11) % 11 % 10;
        nif[0] > 0 && varied(&nif) && check == u32::from(nif[8])
    })
}

/// Values of 0-9 and A-Z at odd places of an Italian tax code.
#[rustfmt::skip]
const ODD: [u32; 36] = [
    1, 0, 5, 7, 9, 13, 15, 17, 19, 21,
    1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23,
];

/// Letters that stand for digits when two people would share a code (omocodia).
const OMOCODIA: &[u8; 10] = b"LMNPQRSTUV";

/// Tells whether `value` is an Italian tax code of a person: birth date, place and check letter.
pub fn it_cf(value: &[u8]) -> bool {
    let Some(cf) = symbols::<16>(value) else { return false };
    let digit = |place: usize| match cf[place] {
        byte @ b'0'..=b'9' => Some(u64::from(byte - b'0')),
        byte => OMOCODIA.iter().position(|&letter| letter == byte).map(|found| found as u64),
    };
    let (Some(y1), Some(y2), Some(d1), Some(d2)) = (digit(6), digit(7), digit(9), digit(10)) else {
        return false;
    };
    let Some(month) = b"ABCDEHLMPRST".iter().position(|&letter| letter == cf[8]) else { return false };
    // Women have 40 added to the day.
    let (year, day) = (y1 * 10 + y2, (d1 * 10 + d2) % 40);
    cf[..6].iter().all(u8::is_ascii_uppercase)
        && d1 < 8
        && is_short_date(year, month as u64 + 1, day)
        && cf[11].is_ascii_uppercase()
        && (12..15).all(|place| digit(place).is_some())
        && u32::from(cf[15]) == u32::from(b'A') + italian_sum(&cf[..15]) % 26
}

fn italian_sum(body: &[u8]) -> u32 {
    body.iter()
        .enumerate()
        .map(|(place, &byte)| {
            let value = if byte.is_ascii_digit() { byte - b'0' } else { byte.saturating_sub(b'A') };
            match place % 2 {
                0 => ODD
                    .get(usize::from(value) + if byte.is_ascii_digit() { 0 } else { 10 })
                    .copied()
                    .unwrap_or(0),
                _ => u32::from(value),
            }
        })
        .sum()
}

/// Tells whether `value` is an Italian VAT number: an office in use and Luhn.
pub fn it_piva(value: &[u8]) -> bool {
    digits::<11>(value).is_some_and(|piva| {
        number(&piva[..7]) > 0
            && matches!(number(&piva[7..10]), 1..=100 | 120 | 121 | 888 | 999)
            && luhn_sum(&piva).is_multiple_of(10)
    })
}

/// Tells whether `value` is an Italian VAT number, with or without the country's letters before it.
pub fn it_piva_prefixed(value: &[u8]) -> bool {
    it_piva(value.strip_prefix(b"IT").unwrap_or(value))
}

/// Tells whether `value` is a Greek tax number: powers of two as weights, mod 11.
pub fn gr_afm(value: &[u8]) -> bool {
    digits::<9>(value).is_some_and(|afm| {
        varied(&afm) && weigh(&afm[..8], &[256, 128, 64, 32, 16, 8, 4, 2]) % 11 % 10 == u32::from(afm[8])
    })
}

/// Tells whether `value` is a Greek social security number (AMKA): birth date and Luhn.
pub fn gr_amka(value: &[u8]) -> bool {
    digits::<11>(value).is_some_and(|amka| {
        is_short_date(number(&amka[4..6]), number(&amka[2..4]), number(&amka[..2]))
            && luhn_sum(&amka).is_multiple_of(10)
    })
}

/// Tells whether `value` is a Turkish identity number: two check digits mod 10.
pub fn tr_tckn(value: &[u8]) -> bool {
    digits::<11>(value).is_some_and(|tckn| {
        let odd = weigh(&tckn[..9], &[1, 0, 1, 0, 1, 0, 1, 0, 1]);
        let even = weigh(&tckn[..9], &[0, 1, 0, 1, 0, 1, 0, 1, 0]);
        // 9 is -1 by 10.
        let tenth = (odd * 7 + even * 9) % 10;
        tckn[0] != 0
            && varied(&tckn)
            && tenth == u32::from(tckn[9])
            && (odd + even + tenth) % 10 == u32::from(tckn[10])
    })
}
