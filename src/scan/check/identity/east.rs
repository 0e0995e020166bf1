//! Identifiers of central and eastern Europe and of Russia.

use super::checksum::mod_11_10;
use super::count;
use super::digits;
use super::is_date;
use super::is_short_date;
use super::number;
use super::varied;
use super::weigh;

/// Tells whether `value` is a Polish PESEL: birth date with the century in its month, mod 10.
pub fn pl_pesel(value: &[u8]) -> bool {
    digits::<11>(value).is_some_and(|pesel| {
        let month = number(&pesel[2..4]);
        let century = match month / 20 {
            0 => 1900,
            1 => 2000,
            2 => 2100,
            3 => 2200,
            _ => 1800,
        };
        is_date(century + number(&pesel[..2]), month % 20, number(&pesel[4..6]))
            && weigh(&pesel, &[1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1]).is_multiple_of(10)
    })
}

/// Tells whether `value` is a Polish tax number (NIP): weighted mod 11.
pub fn pl_nip(value: &[u8]) -> bool {
    digits::<10>(value).is_some_and(|nip| {
        varied(&nip) && weigh(&nip[..9], &[6, 5, 7, 2, 3, 4, 5, 6, 7]) % 11 == u32::from(nip[9])
    })
}

/// Tells whether `value` is a Czech or Slovak birth number of ten digits: birth date and mod 11.
pub fn cz_rc(value: &[u8]) -> bool {
    digits::<10>(value).is_some_and(|rc| {
        // Women have 50 added to the month; 20 more when the serials of a day run out.
        let month = number(&rc[2..4]) % 50 % 20;
        let rest = number(&rc[..9]) % 11 % 10;
        // Ten digits are given since 1954.
        let century = if number(&rc[..2]) < 54 { 2000 } else { 1900 };
        is_date(century + number(&rc[..2]), month, number(&rc[4..6])) && rest == u64::from(rc[9])
    })
}

/// Tells whether `value` is a Romanian personal code: birth date, county, weighted mod 11.
pub fn ro_cnp(value: &[u8]) -> bool {
    digits::<13>(value).is_some_and(|cnp| {
        let (year, month, day) = (number(&cnp[1..3]), number(&cnp[3..5]), number(&cnp[5..7]));
        let dated = match cnp[0] {
            1 | 2 => is_date(1900 + year, month, day),
            3 | 4 => is_date(1800 + year, month, day),
            5 | 6 => is_date(2000 + year, month, day),
            7..=9 => is_short_date(year, month, day),
            _ => false,
        };
        let check = weigh(&cnp[..12], &[2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9]) % 11;
        dated
            && matches!(number(&cnp[7..9]), 1..=48 | 51 | 52 | 70 | 80..=83)
            && (if check == 10 { 1 } else { check }) == u32::from(cnp[12])
    })
}

/// Tells whether `value` is a Bulgarian EGN: birth date with the century in its month, mod 11.
pub fn bg_egn(value: &[u8]) -> bool {
    digits::<10>(value).is_some_and(|egn| {
        let (year, day) = (number(&egn[..2]), number(&egn[4..6]));
        let dated = match number(&egn[2..4]) {
            month @ 1..=12 => is_date(1900 + year, month, day),
            month @ 21..=32 => is_date(1800 + year, month - 20, day),
            month @ 41..=52 => is_date(2000 + year, month - 40, day),
            _ => false,
        };
        dated && weigh(&egn[..9], &[2, 4, 8, 5, 10, 9, 7, 3, 6]) % 11 % 10 == u32::from(egn[9])
    })
}

/// Tells whether `value` is a Croatian OIB: MOD 11,10.
pub fn hr_oib(value: &[u8]) -> bool {
    digits::<11>(value).is_some_and(|oib| varied(&oib) && mod_11_10(&oib))
}

/// Tells whether `value` is a Yugoslav-style EMŠO or JMBG: birth date and weighted mod 11.
pub fn si_emso(value: &[u8]) -> bool {
    digits::<13>(value).is_some_and(|emso| {
        let year = number(&emso[4..7]);
        let year = if year < 800 { 2000 + year } else { 1000 + year };
        // Ten and eleven are both written as 0.
        let check = (11 - weigh(&emso[..12], &[7, 6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2]) % 11) % 11 % 10;
        is_date(year, number(&emso[2..4]), number(&emso[..2])) && check == u32::from(emso[12])
    })
}

/// Tells whether `value` is a Russian INN of a person (12 digits) or an organisation (10 digits).
pub fn ru_inn(value: &[u8]) -> bool {
    const WEIGHTS: [u32; 11] = [3, 7, 2, 4, 10, 3, 5, 9, 4, 6, 8];
    let check = |body: &[u8], weights: &[u32]| weigh(body, weights) % 11 % 10;
    match count(value) {
        10 => digits::<10>(value)
            .is_some_and(|inn| varied(&inn) && check(&inn[..9], &WEIGHTS[2..]) == u32::from(inn[9])),
        _ => digits::<12>(value).is_some_and(|inn| {
            varied(&inn)
                && check(&inn[..10], &WEIGHTS[1..]) == u32::from(inn[10])
                && check(&inn[..11], &WEIGHTS) == u32::from(inn[11])
        }),
    }
}

/// Tells whether `value` is a Russian SNILS: weights 9 to 1, mod 101.
pub fn ru_snils(value: &[u8]) -> bool {
    digits::<11>(value).is_some_and(|snils| {
        let sum = weigh(&snils[..9], &[9, 8, 7, 6, 5, 4, 3, 2, 1]);
        // Numbers up to 001-001-998 were given out without a check.
        number(&snils[..9]) > 1_001_998 && varied(&snils) && u64::from(sum % 101 % 100) == number(&snils[9..])
    })
}

/// Tells whether `value` is a Ukrainian RNOKPP: days since 1900 as birth date, weighted mod 11.
pub fn ua_rnokpp(value: &[u8]) -> bool {
    digits::<10>(value).is_some_and(|code| {
        // Weights -1, 5, 7, 9, 4, 6, 10, 5, 7 with -1 written as 10; days from 1900 to 2030.
        let check = weigh(&code[..9], &[10, 5, 7, 9, 4, 6, 10, 5, 7]) % 11 % 10;
        (1..=47_500).contains(&number(&code[..5])) && varied(&code) && check == u32::from(code[9])
    })
}
