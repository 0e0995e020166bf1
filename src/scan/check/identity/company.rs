//! Tax and company numbers outside the European Union.
//!
//! Sole traders carry them too, so that they often are numbers of persons.

use super::checksum::luhn_sum;
use super::checksum::mod_11_10;
use super::digits;
use super::number;
use super::symbols;
use super::values;
use super::varied;
use super::weigh;

/// Tells whether `value` is a Belarusian UNP of nine digits: weights 29 to 3, mod 11.
pub fn by_unp(value: &[u8]) -> bool {
    digits::<9>(value).is_some_and(|unp| {
        let check = weigh(&unp[..8], &[29, 23, 19, 17, 13, 7, 5, 3]) % 11;
        (1..=7).contains(&unp[0]) && varied(&unp) && check == u32::from(unp[8])
    })
}

/// Tells whether `value` is a Swiss UID: CHE, nine digits, mod 11.
pub fn ch_uid(value: &[u8]) -> bool {
    let Some(uid) = symbols::<12>(value) else { return false };
    let Some(digits) = values::<9>(&uid[3..]) else { return false };
    let check = (11 - weigh(&digits[..8], &[5, 4, 3, 2, 7, 6, 5, 4]) % 11) % 11;
    uid.starts_with(b"CHE") && varied(&digits) && check == u32::from(digits[8])
}

/// Tells whether `value` is a Chinese unified social credit identifier: 18 symbols mod 31.
pub fn cn_uscc(value: &[u8]) -> bool {
    const SYMBOLS: &[u8] = b"0123456789ABCDEFGHJKLMNPQRTUWXY";
    let Some(uscc) = symbols::<18>(value) else { return false };
    let mut places = [0_u8; 18];
    for (place, symbol) in places.iter_mut().zip(uscc) {
        let Some(known) = SYMBOLS.iter().position(|known| *known == symbol) else { return false };
        *place = known as u8;
    }
    let sum = weigh(&places[..17], &[1, 3, 9, 27, 19, 26, 16, 17, 20, 29, 25, 13, 8, 24, 10, 30, 28]);
    uscc[..8].iter().skip(2).all(u8::is_ascii_digit)
        && varied(&uscc)
        && (31 - sum % 31) % 31 == u32::from(places[17])
}

/// Tells whether `value` is a Dominican RNC: nine digits, weights 7-9-8-6-5-4-3-2, mod 11.
pub fn do_rnc(value: &[u8]) -> bool {
    digits::<9>(value).is_some_and(|rnc| {
        let sum = weigh(&rnc[..8], &[7, 9, 8, 6, 5, 4, 3, 2]) % 11;
        varied(&rnc) && (10 + 9 - sum) % 9 + 1 == u32::from(rnc[8])
    })
}

/// Tells whether `value` is a Guatemalan NIT: 2 to 12 symbols, weights from the right, mod 11, K for ten.
pub fn gt_nit(value: &[u8]) -> bool {
    let compact: Vec<u8> = value.iter().filter(|byte| **byte != b'-').map(u8::to_ascii_uppercase).collect();
    let Some((check, body)) = compact.split_last() else { return false };
    if !(6..=11).contains(&body.len()) || !body.iter().all(u8::is_ascii_digit) || !varied(body) {
        return false;
    }
    let sum: u32 = body.iter().rev().zip(2..).map(|(digit, weight)| u32::from(digit - b'0') * weight).sum();
    let wanted = (11 - sum % 11) % 11;
    *check == if wanted == 10 { b'K' } else { b'0' + wanted as u8 }
}

/// Tells whether `value` is an Indonesian NPWP of 15 digits: Luhn over nine.
pub fn id_npwp(value: &[u8]) -> bool {
    digits::<15>(value).is_some_and(|npwp| varied(&npwp[..9]) && luhn_sum(&npwp[..9]).is_multiple_of(10))
}

/// Tells whether `value` is a Japanese corporate number: 13 digits, the first checks, mod 9.
pub fn jp_corporate(value: &[u8]) -> bool {
    digits::<13>(value).is_some_and(|number| {
        let sum = weigh(&number[1..], &[2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1]);
        varied(&number) && 9 - sum % 9 == u32::from(number[0])
    })
}

/// Tells whether `value` is a South Korean business number: ten digits, mod 10.
pub fn kr_brn(value: &[u8]) -> bool {
    digits::<10>(value).is_some_and(|brn| {
        let sum = weigh(&brn[..9], &[1, 3, 7, 1, 3, 7, 1, 3, 5]) + u32::from(brn[8]) * 5 / 10;
        let check = (10 - sum % 10) % 10;
        number(&brn[..3]) >= 101
            && number(&brn[3..5]) > 0
            && number(&brn[5..9]) > 0
            && varied(&brn)
            && check == u32::from(brn[9])
    })
}

/// Tells whether `value` is a North Macedonian EDB: 13 digits, weights 7 to 2, mod 11.
pub fn mk_edb(value: &[u8]) -> bool {
    digits::<13>(value).is_some_and(|edb| {
        let sum = weigh(&edb[..12], &[7, 6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2]);
        varied(&edb) && (11 - sum % 11) % 11 % 10 == u32::from(edb[12])
    })
}

/// Tells whether `value` is a Norwegian organisation number: nine digits, mod 11.
pub fn no_orgnr(value: &[u8]) -> bool {
    digits::<9>(value)
        .is_some_and(|orgnr| varied(&orgnr) && weigh(&orgnr, &[3, 2, 7, 6, 5, 4, 3, 2, 1]).is_multiple_of(11))
}

/// Tells whether `value` is a Paraguayan RUC of six to nine digits: weights from the right, mod 11.
pub fn py_ruc(value: &[u8]) -> bool {
    let compact: Vec<u8> = value.iter().copied().filter(|byte| *byte != b'-').collect();
    let Some((check, body)) = compact.split_last() else { return false };
    if !(5..=8).contains(&body.len()) || !compact.iter().all(u8::is_ascii_digit) || !varied(body) {
        return false;
    }
    let sum: u32 = body.iter().rev().zip(2..).map(|(digit, weight)| u32::from(digit - b'0') * weight).sum();
    (11 - sum % 11) % 11 % 10 == u32::from(check - b'0')
}

/// Tells whether `value` is a Serbian PIB: nine digits, MOD 11,10.
pub fn rs_pib(value: &[u8]) -> bool {
    digits::<9>(value).is_some_and(|pib| varied(&pib) && mod_11_10(&pib))
}

/// Tells whether `value` is a Russian OGRN of 13 or 15 digits: the rest by 11 or 13.
pub fn ru_ogrn(value: &[u8]) -> bool {
    digits::<13>(value).is_some_and(|ogrn| {
        ogrn[0] > 0 && varied(&ogrn) && number(&ogrn[..12]) % 11 % 10 == u64::from(ogrn[12])
    }) || digits::<15>(value).is_some_and(|ogrn| {
        matches!(ogrn[0], 3 | 4) && varied(&ogrn) && number(&ogrn[..14]) % 13 % 10 == u64::from(ogrn[14])
    })
}

/// Tells whether `value` is a Turkish tax number (VKN): ten digits, powers of two mod 9.
pub fn tr_vkn(value: &[u8]) -> bool {
    digits::<10>(value).is_some_and(|vkn| {
        let sum: u32 = vkn[..9]
            .iter()
            .rev()
            .zip(1..)
            .map(|(digit, place)| match (u32::from(*digit) + place) % 10 {
                0 => 0,
                shifted => match (shifted << place) % 9 {
                    0 => 9,
                    rest => rest,
                },
            })
            .sum();
        varied(&vkn) && (10 - sum % 10) % 10 == u32::from(vkn[9])
    })
}

/// Tells whether `value` is a Taiwanese business number: eight digits, digit sums mod 5.
pub fn tw_ubn(value: &[u8]) -> bool {
    digits::<8>(value).is_some_and(|ubn| {
        let fold = |product: u32| product / 10 + product % 10;
        let sum: u32 = ubn
            .iter()
            .zip([1, 2, 1, 2, 1, 2, 4, 1])
            .map(|(digit, weight)| fold(u32::from(*digit) * weight))
            .sum();
        varied(&ubn) && (sum.is_multiple_of(5) || (ubn[6] == 7 && (sum + 1).is_multiple_of(5)))
    })
}

/// Tells whether `value` is a Uruguayan RUT: twelve digits with 001 before the check digit, mod 11.
pub fn uy_rut(value: &[u8]) -> bool {
    digits::<12>(value).is_some_and(|rut| {
        let sum = weigh(&rut[..11], &[4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2]);
        (1..=22).contains(&number(&rut[..2]))
            && number(&rut[2..8]) > 0
            && rut[8..11] == [0, 0, 1]
            && (11 - sum % 11) % 11 == u32::from(rut[11])
    })
}

/// Tells whether `value` is a Venezuelan RIF: V, E, J, P or G, nine digits, mod 11.
pub fn ve_rif(value: &[u8]) -> bool {
    let Some(rif) = symbols::<10>(value) else { return false };
    let kind = match rif[0] {
        b'V' => 4,
        b'E' => 8,
        b'J' => 12,
        b'P' => 16,
        b'G' => 20,
        _ => return false,
    };
    values::<9>(&rif[1..]).is_some_and(|digits| {
        let sum = kind + weigh(&digits[..8], &[3, 2, 7, 6, 5, 4, 3, 2]);
        varied(&digits) && b"00987654321".get((sum % 11) as usize).is_some_and(|check| *check == rif[9])
    })
}

/// Tells whether `value` is a Vietnamese tax number of ten digits: weights 31 to 3, mod 11.
pub fn vn_mst(value: &[u8]) -> bool {
    digits::<10>(value).is_some_and(|mst| {
        let sum = weigh(&mst[..9], &[31, 29, 23, 19, 17, 13, 7, 5, 3]);
        varied(&mst) && number(&mst[2..9]) > 0 && 10 - sum % 11 == u32::from(mst[9])
    })
}

/// Tells whether `value` is an Argentine bank account (CBU): 22 digits in two blocks, weights 3-1-7-9.
pub fn ar_cbu(value: &[u8]) -> bool {
    let sound = |block: &[u8]| {
        let Some((check, body)) = block.split_last() else { return false };
        let sum: u32 = body
            .iter()
            .rev()
            .zip([3, 1, 7, 9].iter().cycle())
            .map(|(digit, weight)| u32::from(*digit) * weight)
            .sum();
        (10 - sum % 10) % 10 == u32::from(*check)
    };
    digits::<22>(value).is_some_and(|cbu| varied(&cbu) && sound(&cbu[..8]) && sound(&cbu[8..]))
}
