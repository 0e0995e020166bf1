//! Identifiers of devices, vehicles and machine-readable travel documents.

use super::checksum::luhn_sum;
use super::count;
use super::digits;
use super::is_short_date;
use super::number;
use super::symbols;
use super::values;
use super::varied;

/// Tells whether `value` is a mobile equipment identity of 15 digits: a reporting body and Luhn.
pub fn imei(value: &[u8]) -> bool {
    digits::<15>(value).is_some_and(|imei| {
        matches!(number(&imei[..2]), 1 | 10 | 35 | 44 | 45 | 49..=54 | 86 | 91 | 97..=99)
            && varied(&imei)
            && luhn_sum(&imei).is_multiple_of(10)
    })
}

/// Tells whether `value` is a SIM card number: the telecom prefix 89 and Luhn.
pub fn iccid(value: &[u8]) -> bool {
    let luhn = |digits: &[u8]| digits.starts_with(&[8, 9]) && luhn_sum(digits).is_multiple_of(10);
    match count(value) {
        19 => digits::<19>(value).is_some_and(|iccid| luhn(&iccid)),
        _ => digits::<20>(value).is_some_and(|iccid| luhn(&iccid)),
    }
}

/// Tells whether `value` is a vehicle identification number with the check digit of 49 CFR 565.
pub fn vin(value: &[u8]) -> bool {
    let Some(vin) = symbols::<17>(value) else { return false };
    let weights = [8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2];
    let mut sum = 0;
    for (&byte, weight) in vin.iter().zip(weights) {
        match transliterate(byte) {
            Some(worth) => sum += worth * weight,
            None => return false,
        }
    }
    let expected = match sum % 11 {
        10 => b'X',
        digit => b'0' + digit as u8,
    };
    let letters = vin.iter().filter(|byte| byte.is_ascii_uppercase()).count();
    vin[8] == expected && (1..17).contains(&letters) && vin[13..].iter().all(u8::is_ascii_digit)
}

/// Returns the worth of a symbol in a VIN; I, O and Q have none.
fn transliterate(byte: u8) -> Option<u32> {
    match byte {
        b'0'..=b'9' => Some(u32::from(byte - b'0')),
        b'A'..=b'H' => Some(u32::from(byte - b'A') + 1),
        b'J'..=b'N' => Some(u32::from(byte - b'J') + 1),
        b'P' => Some(7),
        b'R' => Some(9),
        b'S'..=b'Z' => Some(u32::from(byte - b'S') + 2),
        _ => None,
    }
}

/// Returns the ICAO 9303 check digit of `field`, as an ASCII digit: weights 7-3-1, `<` counts nothing.
pub(super) fn mrz_digit(field: &[u8]) -> Option<u8> {
    let mut sum = 0;
    for (&byte, weight) in field.iter().zip([7, 3, 1].iter().cycle()) {
        sum += weight
            * match byte {
                b'0'..=b'9' => u32::from(byte - b'0'),
                b'A'..=b'Z' => u32::from(byte - b'A') + 10,
                b'<' => 0,
                _ => return None,
            };
    }
    Some(b'0' + (sum % 10) as u8)
}

/// Tells whether `value` is the second line of a passport's machine-readable zone (TD3, 44 symbols).
pub fn mrz_passport(value: &[u8]) -> bool {
    value.len() == 44
        && field_holds(value, 0, 9)
        && field_holds(value, 13, 6)
        && field_holds(value, 21, 6)
        && is_birth(value.get(13..19))
        && matches!(value.get(20), Some(b'M' | b'F' | b'X' | b'<'))
        && whole_holds(value, &[0..10, 13..20, 21..43])
}

/// Tells whether `value` is the first two lines of an identity card's zone (TD1, 2 × 30 symbols).
pub fn mrz_id_card(value: &[u8]) -> bool {
    let lines: Vec<&[u8]> =
        value.split(|byte| matches!(byte, b'\n' | b'\r')).filter(|line| !line.is_empty()).collect();
    let &[upper, lower] = lines.as_slice() else { return false };
    upper.len() == 30
        && lower.len() == 30
        && field_holds(upper, 5, 9)
        && field_holds(lower, 0, 6)
        && field_holds(lower, 8, 6)
        && is_birth(lower.get(..6))
        && matches!(lower.get(7), Some(b'M' | b'F' | b'X' | b'<'))
}

/// Tells whether the field of `length` symbols at `start` is followed by its check digit.
fn field_holds(line: &[u8], start: usize, length: usize) -> bool {
    let field = line.get(start..start + length).unwrap_or_default();
    field.iter().any(|&byte| byte != b'<') && mrz_digit(field).as_ref() == line.get(start + length)
}

/// Tells whether the last symbol of `line` checks `fields` taken together.
fn whole_holds(line: &[u8], fields: &[std::ops::Range<usize>]) -> bool {
    let joined: Vec<u8> =
        fields.iter().filter_map(|field| line.get(field.clone())).flatten().copied().collect();
    mrz_digit(&joined).as_ref() == line.last()
}

fn is_birth(field: Option<&[u8]>) -> bool {
    field
        .and_then(values::<6>)
        .is_some_and(|birth| is_short_date(number(&birth[..2]), number(&birth[2..4]), number(&birth[4..])))
}

/// Returns a passport line with its four check digits written anew.
pub fn repair_mrz_passport(value: &[u8]) -> Option<Vec<u8>> {
    let mut line: [u8; 44] = value.try_into().ok()?;
    line[13..19].copy_from_slice(b"740812");
    line[9] = mrz_digit(&line[..9])?;
    line[19] = mrz_digit(&line[13..19])?;
    line[27] = mrz_digit(&line[21..27])?;
    line[43] = mrz_digit(&[&line[..10], &line[13..20], &line[21..43]].concat())?;
    mrz_passport(&line).then(|| line.to_vec())
}
