//! Identifiers of Asia.

use super::checksum::luhn_sum;
use super::checksum::verhoeff;
use super::digits;
use super::is_date;
use super::is_short_date;
use super::number;
use super::symbols;
use super::values;
use super::varied;
use super::weigh;

/// Tells whether `value` is an Indian Aadhaar number: no leading 0 or 1, no palindrome, Verhoeff.
pub fn in_aadhaar(value: &[u8]) -> bool {
    digits::<12>(value).is_some_and(|aadhaar| {
        aadhaar[0] > 1 && !aadhaar.iter().eq(aadhaar.iter().rev()) && verhoeff(&aadhaar)
    })
}

/// Tells whether `value` has the structure of an Indian PAN: the fourth letter names the holder's kind.
pub fn in_pan(value: &[u8]) -> bool {
    symbols::<10>(value).is_some_and(|pan| {
        pan[..5].iter().all(u8::is_ascii_uppercase)
            && b"ABCFGHJLPTK".contains(&pan[3])
            && values::<4>(&pan[5..9]).is_some_and(|serial| number(&serial) > 0)
            && pan[9].is_ascii_uppercase()
    })
}

/// Tells whether `value` is an Indian GSTIN: state, PAN and check symbol mod 36.
pub fn in_gstin(value: &[u8]) -> bool {
    let Some(gstin) = symbols::<15>(value) else { return false };
    let worth =
        |byte: u8| if byte.is_ascii_digit() { u32::from(byte - b'0') } else { u32::from(byte - b'A') + 10 };
    let sum: u32 = gstin[..14]
        .iter()
        .enumerate()
        .map(|(place, &byte)| worth(byte) * (1 + place as u32 % 2))
        .map(|product| product / 36 + product % 36)
        .sum();
    values::<2>(&gstin[..2]).is_some_and(|state| matches!(number(&state), 1..=38 | 97 | 99))
        && in_pan(&gstin[2..12])
        && gstin[12] != b'0'
        && gstin[13] == b'Z'
        && worth(gstin[14]) == (36 - sum % 36) % 36
}

/// Tells whether `value` is a Chinese resident identity number: birth date and MOD 11-2.
pub fn cn_resident_id(value: &[u8]) -> bool {
    let Some(id) = symbols::<18>(value) else { return false };
    let Some(body) = values::<17>(&id[..17]) else { return false };
    let sum = weigh(&body, &[7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2]);
    let year = number(&body[6..10]);
    matches!(number(&body[..2]), 11..=15 | 21..=23 | 31..=37 | 41..=46 | 50..=54 | 61..=65 | 71 | 81..=83 | 91)
        && (1880..2100).contains(&year)
        && is_date(year, number(&body[10..12]), number(&body[12..14]))
        && b"10X98765432".get((sum % 11) as usize) == Some(&id[17])
}

/// Tells whether `value` is a Hong Kong identity card number: one or two letters, mod 11.
pub fn hk_id(value: &[u8]) -> bool {
    let plain: Vec<u8> = value.iter().copied().filter(|byte| !matches!(byte, b'(' | b')')).collect();
    let padded = match super::count(&plain) {
        8 => symbols::<8>(&plain).map(|id| (36, id)),
        _ => symbols::<9>(&plain).and_then(|id| {
            let lead = id[0].checked_sub(b'A')?;
            Some((u32::from(lead) + 10, *id.last_chunk::<8>()?))
        }),
    };
    let Some((lead, id)) = padded else { return false };
    let Some(body) = values::<6>(&id[1..7]) else { return false };
    let check = match id[7] {
        b'A' => 10,
        digit @ b'0'..=b'9' => u32::from(digit - b'0'),
        _ => return false,
    };
    let sum =
        lead * 9 + (u32::from(id[0]).saturating_sub(55)) * 8 + weigh(&body, &[7, 6, 5, 4, 3, 2]) + check;
    id[0].is_ascii_uppercase() && varied(&body) && sum.is_multiple_of(11)
}

/// Tells whether `value` is a Taiwanese identity number: a county letter, sex, mod 10.
pub fn tw_id(value: &[u8]) -> bool {
    let Some(id) = symbols::<10>(value) else { return false };
    let Some(body) = values::<9>(&id[1..]) else { return false };
    // Letters in the order of their county numbers, which begin at 10.
    let Some(place) = b"ABCDEFGHJKLMNPQRSTUVXYWZIO".iter().position(|&letter| letter == id[0]) else {
        return false;
    };
    let county = place as u32 + 10;
    matches!(body[0], 1 | 2 | 8 | 9)
        && varied(&body[1..])
        && (county / 10 + county % 10 * 9 + weigh(&body, &[8, 7, 6, 5, 4, 3, 2, 1, 1])).is_multiple_of(10)
}

/// Tells whether `value` is a Japanese individual number: weighted mod 11.
pub fn jp_my_number(value: &[u8]) -> bool {
    digits::<12>(value).is_some_and(|my| {
        let check = match weigh(&my[..11], &[6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2]) % 11 {
            0 | 1 => 0,
            rest => 11 - rest,
        };
        varied(&my) && check == u32::from(my[11])
    })
}

/// Tells whether `value` is a South Korean resident number with a real birth date.
///
/// The check digit is void for numbers given out since October 2020, so those whose holder was
/// born later pass on their date alone; earlier ones must satisfy it.
pub fn kr_rrn(value: &[u8]) -> bool {
    digits::<13>(value).is_some_and(|rrn| {
        let century = match rrn[6] {
            1 | 2 | 5 | 6 => 1900,
            3 | 4 | 7 | 8 => 2000,
            _ => 1800,
        };
        let (year, month, day) = (century + number(&rrn[..2]), number(&rrn[2..4]), number(&rrn[4..6]));
        let check = (11 - weigh(&rrn[..12], &[2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5]) % 11) % 10;
        let foreign = (13 - weigh(&rrn[..12], &[2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5]) % 11) % 10;
        let checked = match rrn[6] {
            5..=8 => foreign == u32::from(rrn[12]) || check == u32::from(rrn[12]),
            _ => check == u32::from(rrn[12]),
        };
        // The places of birth have the codes up to 96.
        let placed = checked && number(&rrn[7..9]) <= 96;
        is_date(year, month, day) && (placed || ((2020, 10)..(2040, 1)).contains(&(year, month)))
    })
}

/// Tells whether `value` has the structure of a South Korean resident number: birth date and sex.
///
/// For text that says what it is: the check digit is void for numbers given out since October 2020.
pub fn kr_rrn_dated(value: &[u8]) -> bool {
    digits::<13>(value).is_some_and(|rrn| {
        is_short_date(number(&rrn[..2]), number(&rrn[2..4]), number(&rrn[4..6])) && (1..=8).contains(&rrn[6])
    })
}

/// Tells whether `value` is a Singaporean NRIC or FIN: series letter and mod 11.
pub fn sg_nric(value: &[u8]) -> bool {
    let Some(nric) = symbols::<9>(value) else { return false };
    let Some(body) = values::<7>(&nric[1..8]) else { return false };
    let (offset, letters) = match nric[0] {
        b'S' => (0, b"JZIHGFEDCBA"),
        b'T' => (4, b"JZIHGFEDCBA"),
        b'F' => (0, b"XWUTRQPNMLK"),
        b'G' => (4, b"XWUTRQPNMLK"),
        b'M' => (3, b"XWUTRQPNJLK"),
        _ => return false,
    };
    let rest = (offset + weigh(&body, &[2, 7, 6, 5, 4, 3, 2])) % 11;
    varied(&body) && letters.get(rest as usize) == Some(&nric[8])
}

/// Tells whether `value` is a Thai identity number: weights 13 to 2, mod 11.
pub fn th_tnin(value: &[u8]) -> bool {
    digits::<13>(value).is_some_and(|tnin| {
        let check = (11 - weigh(&tnin[..12], &[13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2]) % 11) % 10;
        !matches!(tnin[0], 0 | 9) && varied(&tnin) && check == u32::from(tnin[12])
    })
}

/// Tells whether `value` has the structure of a Malaysian MyKad: birth date and birth place in use.
pub fn my_nric(value: &[u8]) -> bool {
    digits::<12>(value).is_some_and(|nric| {
        is_short_date(number(&nric[..2]), number(&nric[2..4]), number(&nric[4..6]))
            && matches!(number(&nric[6..8]), 1..=16 | 21..=68 | 71..=72 | 74..=79 | 82..=93 | 98..=99)
    })
}

/// Tells whether `value` is an Israeli identity number of nine digits: Luhn.
pub fn il_id(value: &[u8]) -> bool {
    digits::<9>(value).is_some_and(|id| varied(&id) && luhn_sum(&id).is_multiple_of(10))
}

/// Tells whether `value` is an Emirates ID: country code 784, birth year and Luhn.
pub fn ae_emirates_id(value: &[u8]) -> bool {
    digits::<15>(value).is_some_and(|id| {
        id.starts_with(&[7, 8, 4])
            && (1900..2100).contains(&number(&id[3..7]))
            && luhn_sum(&id).is_multiple_of(10)
    })
}
