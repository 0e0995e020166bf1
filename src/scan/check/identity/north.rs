//! Identifiers of the Nordic and Baltic countries.

use super::checksum::luhn_sum;
use super::digits;
use super::is_date;
use super::is_short_date;
use super::number;
use super::values;
use super::varied;
use super::weigh;

/// Check symbols of a Finnish personal identity code, by the remainder mod 31.
const FINNISH: &[u8; 31] = b"0123456789ABCDEFHJKLMNPRSTUVWXY";

/// Tells whether `value` is a Finnish personal identity code: birth date, century sign, mod 31.
pub fn fi_hetu(value: &[u8]) -> bool {
    let Some((front, rest)) = value.split_at_checked(6) else { return false };
    let Some((&sign, rest)) = rest.split_first() else { return false };
    let Some((&check, serial)) = rest.split_last() else { return false };
    let (Some(birth), Some(serial)) = (values::<6>(front), values::<3>(serial)) else { return false };
    let century = match sign.to_ascii_uppercase() {
        b'+' => 1800,
        b'-' | b'Y' | b'X' | b'W' | b'V' | b'U' => 1900,
        b'A'..=b'F' => 2000,
        _ => return false,
    };
    let rest = (number(&birth) * 1000 + number(&serial)) % 31;
    is_date(century + number(&birth[4..]), number(&birth[2..4]), number(&birth[..2]))
        && number(&serial) >= 2
        && FINNISH.get(rest as usize) == Some(&check.to_ascii_uppercase())
}

/// Tells whether `value` is a Swedish personal number of 10 or 12 digits: birth date and Luhn.
///
/// A `+` between date and serial, for people over a hundred, is taken as a hyphen.
pub fn se_personnummer(value: &[u8]) -> bool {
    let plain: Vec<u8> = value.iter().map(|&byte| if byte == b'+' { b'-' } else { byte }).collect();
    let (long, short) = (digits::<12>(&plain), digits::<10>(&plain));
    let Some(short) = short.or_else(|| long.and_then(|long| long.last_chunk().copied())) else {
        return false;
    };
    let (month, day) = (number(&short[2..4]), number(&short[4..6]));
    // Coordination numbers have 60 added to the day.
    let day = if day > 60 { day - 60 } else { day };
    let dated = match long {
        Some(long) => matches!(number(&long[..2]), 18..=20) && is_date(number(&long[..4]), month, day),
        None => is_short_date(number(&short[..2]), month, day),
    };
    dated && luhn_sum(&short).is_multiple_of(10)
}

/// Tells whether `value` is a Swedish organisation number: third digit from 2 and Luhn.
pub fn se_orgnr(value: &[u8]) -> bool {
    digits::<10>(value).is_some_and(|orgnr| {
        matches!(orgnr[0], 1..=3 | 5..=9)
            && orgnr[2] >= 2
            && varied(&orgnr)
            && luhn_sum(&orgnr).is_multiple_of(10)
    })
}

/// Tells whether `value` is a Norwegian birth or D number: birth date and two mod 11 digits.
pub fn no_fnr(value: &[u8]) -> bool {
    digits::<11>(value).is_some_and(|fnr| {
        // D numbers have 40 added to the day, H numbers 40 to the month.
        let (day, month) = (number(&fnr[..2]) % 40, number(&fnr[2..4]) % 40);
        // The three digits behind the date tell its century; some pairs of them were never given out.
        let (year, serial) = (number(&fnr[4..6]), number(&fnr[6..9]));
        let given = match serial {
            500..=749 => !(40..54).contains(&year),
            750..=899 => year < 40,
            _ => true,
        };
        fnr[0] < 8
            && given
            && is_short_date(year, month, day)
            && weigh(&fnr[..10], &[3, 7, 6, 1, 8, 9, 4, 5, 2, 1]).is_multiple_of(11)
            && weigh(&fnr, &[5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1]).is_multiple_of(11)
    })
}

/// Tells whether `value` has the structure of a Danish CPR number with a real birth date.
///
/// Its old mod 11 digit is not judged: numbers issued since 2007 need not satisfy it.
pub fn dk_cpr(value: &[u8]) -> bool {
    digits::<10>(value).is_some_and(|cpr| {
        // Replacement numbers have 60 added to the day.
        let day = number(&cpr[..2]);
        let day = if day > 60 { day - 60 } else { day };
        is_short_date(number(&cpr[4..6]), number(&cpr[2..4]), day) && number(&cpr[6..]) > 0
    })
}

/// Tells whether `value` is an Icelandic kennitala: birth date, mod 11 and century digit.
pub fn is_kennitala(value: &[u8]) -> bool {
    digits::<10>(value).is_some_and(|kennitala| {
        // Organisations have 40 added to the day.
        let day = number(&kennitala[..2]) % 40;
        kennitala[0] < 8
            && matches!(kennitala[9], 0 | 8 | 9)
            && is_short_date(number(&kennitala[4..6]), number(&kennitala[2..4]), day)
            && weigh(&kennitala[..9], &[3, 2, 7, 6, 5, 4, 3, 2, 1]).is_multiple_of(11)
    })
}

/// Tells whether `value` is an Estonian or Lithuanian personal code: birth date, two-stage mod 11.
pub fn baltic_code(value: &[u8]) -> bool {
    digits::<11>(value).is_some_and(|code| {
        let century = match code[0] {
            1 | 2 => 1800,
            3 | 4 => 1900,
            5 | 6 => 2000,
            7 | 8 => 2100,
            _ => return false,
        };
        let first = weigh(&code[..10], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 1]) % 11;
        let second = weigh(&code[..10], &[3, 4, 5, 6, 7, 8, 9, 1, 2, 3]) % 11;
        let check = if first < 10 { first } else { second % 10 };
        check == u32::from(code[10])
            && is_date(century + number(&code[1..3]), number(&code[3..5]), number(&code[5..7]))
    })
}
