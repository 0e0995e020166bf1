//! Numbers of persons in countries that the other modules leave out.

use super::checksum::luhn_sum;
use super::checksum::verhoeff;
use super::digits;
use super::is_date;
use super::is_short_date;
use super::number;
use super::varied;
use super::weigh;

/// Tells whether `value` is a Dominican cédula: eleven digits, Luhn.
pub fn do_cedula(value: &[u8]) -> bool {
    digits::<11>(value).is_some_and(|cedula| varied(&cedula) && luhn_sum(&cedula).is_multiple_of(10))
}

/// Tells whether `value` is an Ecuadorian cédula: a province, a person's third digit, Luhn.
pub fn ec_ci(value: &[u8]) -> bool {
    digits::<10>(value).is_some_and(|ci| {
        matches!(number(&ci[..2]), 1..=24 | 30 | 50)
            && ci[2] <= 6
            && varied(&ci)
            && luhn_sum(&ci).is_multiple_of(10)
    })
}

/// Tells whether `value` is a Latvian personal code of the dated kind: birth date, mod 11.
pub fn lv_pk(value: &[u8]) -> bool {
    digits::<11>(value).is_some_and(|pk| {
        let century = match pk[6] {
            0 => 1800,
            1 => 1900,
            2 => 2000,
            _ => return false,
        };
        let check = (1 + weigh(&pk[..10], &[10, 5, 8, 4, 2, 1, 6, 3, 7, 9])) % 11 % 10;
        is_date(century + number(&pk[4..6]), number(&pk[2..4]), number(&pk[..2]))
            && check == u32::from(pk[10])
    })
}

/// Tells whether `value` is a Moldovan IDNP or IDNO: 13 digits, weights 7-3-1.
pub fn md_idno(value: &[u8]) -> bool {
    digits::<13>(value).is_some_and(|idno| {
        let check = weigh(&idno[..12], &[7, 3, 1, 7, 3, 1, 7, 3, 1, 7, 3, 1]) % 10;
        varied(&idno) && check == u32::from(idno[12])
    })
}

/// Tells whether `value` is a Luxembourg person number: birth date, then a Luhn and a Verhoeff digit.
pub fn lu_person(value: &[u8]) -> bool {
    digits::<13>(value).is_some_and(|person| {
        let luhn = luhn_sum(&person[..12]).is_multiple_of(10);
        let other: Vec<u8> = person[..11].iter().chain(&person[12..]).copied().collect();
        matches!(number(&person[..4]), 1880..=2100)
            && is_date(number(&person[..4]), number(&person[4..6]), number(&person[6..8]))
            && luhn
            && verhoeff(&other)
    })
}

/// Tells whether `value` is a Kazakh IIN: birth date, century and sex, two-stage mod 11.
pub fn kz_iin(value: &[u8]) -> bool {
    digits::<12>(value).is_some_and(|iin| {
        let first = weigh(&iin[..11], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]) % 11;
        let second = weigh(&iin[..11], &[3, 4, 5, 6, 7, 8, 9, 10, 11, 1, 2]) % 11;
        let check = if first == 10 { second } else { first };
        is_short_date(number(&iin[..2]), number(&iin[2..4]), number(&iin[4..6]))
            && (1..=6).contains(&iin[6])
            && check == u32::from(iin[11])
    })
}

/// Tells whether `value` is a Saudi identity or residence number: ten digits, first 1 or 2, Luhn.
pub fn sa_id(value: &[u8]) -> bool {
    digits::<10>(value)
        .is_some_and(|id| matches!(id[0], 1 | 2) && varied(&id) && luhn_sum(&id).is_multiple_of(10))
}

/// Tells whether `value` is a Kuwaiti civil number: century, birth date, weighted mod 11.
pub fn kw_civil(value: &[u8]) -> bool {
    digits::<12>(value).is_some_and(|civil| {
        let century = match civil[0] {
            2 => 1900,
            3 => 2000,
            _ => return false,
        };
        let sum = weigh(&civil[..11], &[2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2]);
        is_date(century + number(&civil[1..3]), number(&civil[3..5]), number(&civil[5..7]))
            && 11 - sum % 11 == u32::from(civil[11])
    })
}

/// Tells whether `value` has the structure of an Egyptian national number: century, birth date, governorate.
pub fn eg_national(value: &[u8]) -> bool {
    digits::<14>(value).is_some_and(|national| {
        let century = match national[0] {
            2 => 1900,
            3 => 2000,
            _ => return false,
        };
        is_date(century + number(&national[1..3]), number(&national[3..5]), number(&national[5..7]))
            && matches!(number(&national[7..9]), 1..=4 | 11..=19 | 21..=29 | 31..=35 | 88)
    })
}

/// Tells whether `value` has the structure of an Indonesian NIK: province, birth date (40 more for women), serial.
pub fn id_nik(value: &[u8]) -> bool {
    digits::<16>(value).is_some_and(|nik| {
        let day = number(&nik[6..8]) % 40;
        (11..=97).contains(&number(&nik[..2]))
            && is_short_date(number(&nik[10..12]), number(&nik[8..10]), day)
            && number(&nik[12..]) > 0
            && number(&nik[6..8]) < 72
    })
}

/// Tells whether `value` has the structure of a Pakistani CNIC: a region, thirteen digits.
pub fn pk_cnic(value: &[u8]) -> bool {
    digits::<13>(value).is_some_and(|cnic| {
        (1..=7).contains(&cnic[0]) && varied(&cnic) && number(&cnic[5..12]) > 0 && cnic[12] > 0
    })
}

/// Tells whether `value` has the structure of a US employer number with a prefix of the IRS.
pub fn us_ein(value: &[u8]) -> bool {
    digits::<9>(value).is_some_and(|ein| {
        let prefix = number(&ein[..2]);
        let unused = matches!(prefix, 0 | 7..=9 | 17..=19 | 28 | 29 | 49 | 69 | 70 | 78 | 79 | 89 | 96 | 97);
        !unused && varied(&ein) && number(&ein[2..]) > 0
    })
}

/// Tells whether `value` has the structure of a South African passport-free refugee or tax number: ten digits, Luhn.
pub fn za_tin(value: &[u8]) -> bool {
    digits::<10>(value)
        .is_some_and(|tin| matches!(tin[0], 0..=3 | 9) && varied(&tin) && luhn_sum(&tin).is_multiple_of(10))
}
