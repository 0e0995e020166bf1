//! Identifiers of the Americas.

use super::checksum::luhn_sum;
use super::digits;
use super::is_date;
use super::is_short_date;
use super::number;
use super::symbols;
use super::values;
use super::varied;
use super::weigh;

/// US social security numbers printed in advertisements and manuals: nobody's.
const SSN_SPECIMENS: [u64; 3] = [78_051_120, 219_099_999, 123_456_789];

/// Tells whether `value` is a US social security number the SSA may have issued.
pub fn us_ssn(value: &[u8]) -> bool {
    digits::<9>(value).is_some_and(|ssn| {
        let (area, group, serial) = (number(&ssn[..3]), number(&ssn[3..5]), number(&ssn[5..]));
        varied(&ssn)
            && !matches!(area, 0 | 666 | 900..)
            && group > 0
            && serial > 0
            && !SSN_SPECIMENS.contains(&number(&ssn))
    })
}

/// Tells whether `value` is a US individual taxpayer number: 9xx and a group the IRS uses.
pub fn us_itin(value: &[u8]) -> bool {
    digits::<9>(value).is_some_and(|itin| {
        itin[0] == 9 && matches!(number(&itin[3..5]), 50..=65 | 70..=88 | 90..=92 | 94..=99) && varied(&itin)
    })
}

/// Tells whether `value` is a US national provider identifier: Luhn after the prefix 80840.
pub fn us_npi(value: &[u8]) -> bool {
    digits::<10>(value).is_some_and(|npi| {
        // The prefix adds 24 to the sum.
        matches!(npi[0], 1 | 2) && varied(&npi) && (luhn_sum(&npi) + 24).is_multiple_of(10)
    })
}

/// Tells whether `value` is a US drug enforcement registration: two letters, six digits, check.
pub fn us_dea(value: &[u8]) -> bool {
    let Some(dea) = symbols::<9>(value) else { return false };
    let Some(number) = values::<7>(&dea[2..]) else { return false };
    b"ABCDEFGHJKLMPRSTUX".contains(&dea[0])
        && (dea[1].is_ascii_uppercase() || dea[1] == b'9')
        && varied(&number)
        && weigh(&number[..6], &[1, 2, 1, 2, 1, 2]) % 10 == u32::from(number[6])
}

/// Tells whether `value` has the structure of a US Medicare beneficiary identifier.
pub fn us_mbi(value: &[u8]) -> bool {
    symbols::<11>(value).is_some_and(|mbi| {
        mbi[0] != b'0'
            && mbi.iter().zip(b"NAXNAXNAANN").all(|(byte, kind)| match kind {
                b'N' => byte.is_ascii_digit(),
                b'A' => byte.is_ascii_uppercase() && !b"SLOIBZ".contains(byte),
                _ => !b"SLOIBZ".contains(byte),
            })
    })
}

/// Tells whether `value` is a Canadian social insurance number: Luhn, first digit not 0 or 8.
pub fn ca_sin(value: &[u8]) -> bool {
    digits::<9>(value)
        .is_some_and(|sin| !matches!(sin[0], 0 | 8) && varied(&sin) && luhn_sum(&sin).is_multiple_of(10))
}

/// Returns the Brazilian check digit of a weighted sum.
fn brazilian(sum: u32) -> u32 {
    match sum % 11 {
        0 | 1 => 0,
        rest => 11 - rest,
    }
}

/// Tells whether `value` is a Brazilian CPF: two check digits, weighted mod 11.
pub fn br_cpf(value: &[u8]) -> bool {
    digits::<11>(value).is_some_and(|cpf| {
        varied(&cpf)
            && brazilian(weigh(&cpf[..9], &[10, 9, 8, 7, 6, 5, 4, 3, 2])) == u32::from(cpf[9])
            && brazilian(weigh(&cpf[..10], &[11, 10, 9, 8, 7, 6, 5, 4, 3, 2])) == u32::from(cpf[10])
    })
}

/// Tells whether `value` is a Brazilian CNPJ: two check digits, weighted mod 11. Since July 2026 the twelve symbols
/// before them may be letters, which count for what their code is above that of `0`.
pub fn br_cnpj(value: &[u8]) -> bool {
    const WEIGHTS: [u32; 13] = [6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2];
    symbols::<14>(value).map(|cnpj| cnpj.map(|symbol| symbol - b'0')).is_some_and(|cnpj| {
        varied(&cnpj)
            && brazilian(weigh(&cnpj[..12], &WEIGHTS[1..])) == u32::from(cnpj[12])
            && brazilian(weigh(&cnpj[..13], &WEIGHTS)) == u32::from(cnpj[13])
    })
}

/// Tells whether `value` is a Chilean RUT of eight or nine symbols: weights 2 to 7 from the right.
pub fn cl_rut(value: &[u8]) -> bool {
    let padded = match super::count(value) {
        8 => symbols::<8>(value).map(|rut| [&b"0"[..], &rut].concat()),
        _ => symbols::<9>(value).map(Vec::from),
    };
    let Some(rut) = padded else { return false };
    let Some((&check, body)) = rut.split_last() else { return false };
    let Some(body) = values::<8>(body) else { return false };
    let expected = match 11 - weigh(&body, &[3, 2, 7, 6, 5, 4, 3, 2]) % 11 {
        10 => b'K',
        11 => b'0',
        digit => b'0' + digit as u8,
    };
    varied(&body) && check == expected
}

/// Tells whether `value` is an Argentine CUIT or CUIL: a known kind and mod 11, where 9 stands for 10.
pub fn ar_cuit(value: &[u8]) -> bool {
    digits::<11>(value).is_some_and(|cuit| {
        let check = match 11 - weigh(&cuit[..10], &[5, 4, 3, 2, 7, 6, 5, 4, 3, 2]) % 11 {
            11 => 0,
            10 => 9,
            digit => digit,
        };
        matches!(number(&cuit[..2]), 20 | 23 | 24 | 27 | 30 | 33 | 34 | 50 | 51 | 55)
            && check == u32::from(cuit[10])
            && number(&cuit[2..10]) > 0
    })
}

/// Tells whether `value` is a Colombian NIT of ten digits: primes as weights, mod 11.
pub fn co_nit(value: &[u8]) -> bool {
    digits::<10>(value).is_some_and(|nit| {
        let rest = weigh(&nit[..9], &[41, 37, 29, 23, 19, 17, 13, 7, 3]) % 11;
        varied(&nit) && u32::from(nit[9]) == if rest > 1 { 11 - rest } else { rest }
    })
}

/// Tells whether `value` is a Peruvian RUC: a known kind and mod 11.
pub fn pe_ruc(value: &[u8]) -> bool {
    digits::<11>(value).is_some_and(|ruc| {
        let check = (11 - weigh(&ruc[..10], &[5, 4, 3, 2, 7, 6, 5, 4, 3, 2]) % 11) % 10;
        matches!(number(&ruc[..2]), 10 | 15 | 16 | 17 | 20) && check == u32::from(ruc[10])
    })
}

/// States of Mexico as a CURP writes them, and NE for people born abroad.
const CURP_STATES: &[u8] = b"ASBCBSCCCHCLCMCSDFDGGRGTHGJCMCMNMSNENLNTOCPLQRQTSLSPSRTCTLTSVZYNZS";

/// Tells whether `value` is a Mexican CURP: birth date, sex, state and check digit.
pub fn mx_curp(value: &[u8]) -> bool {
    let Some(curp) = symbols::<18>(value) else { return false };
    let Some(birth) = values::<6>(&curp[4..10]) else { return false };
    let century = if curp[16].is_ascii_digit() { 1900 } else { 2000 };
    let sum: u32 =
        curp[..17].iter().zip((2..=18).rev()).map(|(&byte, weight)| curp_value(byte) * weight).sum();
    curp[..4].iter().chain(&curp[13..16]).all(u8::is_ascii_uppercase)
        && is_date(century + number(&birth[..2]), number(&birth[2..4]), number(&birth[4..]))
        && matches!(curp[10], b'H' | b'M' | b'X')
        && CURP_STATES.chunks(2).any(|state| state == &curp[11..13])
        && u32::from(curp[17]) == u32::from(b'0') + (10 - sum % 10) % 10
}

/// Returns the value of a symbol in the CURP alphabet, where Ñ stands between N and O.
fn curp_value(byte: u8) -> u32 {
    match byte {
        b'0'..=b'9' => u32::from(byte - b'0'),
        b'A'..=b'N' => u32::from(byte - b'A') + 10,
        _ => u32::from(byte.saturating_sub(b'A')) + 11,
    }
}

/// Tells whether `value` is a Mexican RFC of a person with a real birth date.
///
/// The check symbol is not judged: the authority itself issued many that do not satisfy it.
pub fn mx_rfc(value: &[u8]) -> bool {
    let Some(rfc) = symbols::<13>(value) else { return false };
    let Some(birth) = values::<6>(&rfc[4..10]) else { return false };
    rfc[..4].iter().all(u8::is_ascii_uppercase)
        && is_short_date(number(&birth[..2]), number(&birth[2..4]), number(&birth[4..]))
}
