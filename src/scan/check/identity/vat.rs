//! Value added tax numbers of the European Union and its neighbours.
//!
//! Each takes the number with or without the letters of its country. Sources: the notes of the European Commission
//! on the structure of VAT identification numbers, and those of the national tax offices.

use super::checksum::luhn_sum;
use super::checksum::mod_11_10;
use super::digits;
use super::east::cz_rc;
use super::number;
use super::symbols;
use super::varied;
use super::weigh;

/// Returns what follows the letters of a country, if they are there.
fn after<'v>(value: &'v [u8], country: &str) -> &'v [u8] {
    match value.split_at_checked(country.len()) {
        Some((head, rest)) if head.eq_ignore_ascii_case(country.as_bytes()) => rest,
        _ => value,
    }
}

/// Tells whether the digits of `value` satisfy a weighted sum that is a multiple of `modulus`.
fn weighted<const N: usize>(value: &[u8], country: &str, weights: &[u32; N], modulus: u32) -> bool {
    digits::<N>(after(value, country))
        .is_some_and(|number| varied(&number) && weigh(&number, weights).is_multiple_of(modulus))
}

/// Tells whether `value` is an Austrian UID: U, seven digits, and what their Luhn sum and 4 lack of a ten.
pub fn at_uid(value: &[u8]) -> bool {
    let number = after(after(value, "AT"), "U");
    digits::<8>(number)
        .is_some_and(|uid| varied(&uid) && (luhn_sum(&uid[..7]) + u32::from(uid[7]) + 4).is_multiple_of(10))
}

/// Tells whether `value` is a Belgian enterprise number: eight digits and the last two add up to a multiple of 97.
pub fn be_vat(value: &[u8]) -> bool {
    digits::<10>(after(value, "BE")).is_some_and(|vat| {
        vat[0] <= 1
            && varied(&vat)
            && (number(&vat[..8]) + number(&vat[8..])).is_multiple_of(97)
            && number(&vat[1..8]) > 0
    })
}

/// Tells whether `value` is a Bulgarian number of an organisation: nine digits, two-stage mod 11.
pub fn bg_eik(value: &[u8]) -> bool {
    digits::<9>(after(value, "BG")).is_some_and(|eik| {
        let first = weigh(&eik[..8], &[1, 2, 3, 4, 5, 6, 7, 8]) % 11;
        let check = if first == 10 { weigh(&eik[..8], &[3, 4, 5, 6, 7, 8, 9, 10]) % 11 % 10 } else { first };
        varied(&eik) && check == u32::from(eik[8])
    })
}

/// Tells whether `value` is a Cypriot number: eight digits and a letter mod 26.
pub fn cy_vat(value: &[u8]) -> bool {
    const ODD: [u32; 10] = [1, 0, 5, 7, 9, 13, 15, 17, 19, 21];
    let Some(symbols) = symbols::<9>(after(value, "CY")) else { return false };
    let Some(vat) = super::values::<8>(&symbols[..8]) else { return false };
    let odd: u32 = vat.iter().step_by(2).map(|digit| ODD[usize::from(*digit)]).sum();
    let even: u32 = vat.iter().skip(1).step_by(2).map(|digit| u32::from(*digit)).sum();
    !vat.starts_with(&[1, 2]) && varied(&vat) && u32::from(symbols[8]) == u32::from(b'A') + (odd + even) % 26
}

/// Tells whether `value` is a Czech number of an organisation: eight digits, weights 8 to 2, mod 11.
pub fn cz_dic(value: &[u8]) -> bool {
    digits::<8>(after(value, "CZ")).is_some_and(|dic| {
        let check = (11 - weigh(&dic[..7], &[8, 7, 6, 5, 4, 3, 2]) % 11) % 11;
        let check = if check == 0 { 1 } else { check % 10 };
        dic[0] < 9 && varied(&dic) && check == u32::from(dic[7])
    })
}

/// Tells whether `value` is a German USt-IdNr: nine digits, MOD 11,10.
pub fn de_vat(value: &[u8]) -> bool {
    digits::<9>(after(value, "DE")).is_some_and(|vat| vat[0] > 0 && varied(&vat) && mod_11_10(&vat))
}

/// Tells whether `value` is a Danish CVR number: eight digits, mod 11.
pub fn dk_cvr(value: &[u8]) -> bool {
    let leads = digits::<8>(after(value, "DK")).is_some_and(|cvr| cvr[0] > 0);
    leads && weighted(value, "DK", &[2, 7, 6, 5, 4, 3, 2, 1], 11)
}

/// Tells whether `value` is an Estonian KMKR number: nine digits, weights 3-7-1.
pub fn ee_kmkr(value: &[u8]) -> bool {
    weighted(value, "EE", &[3, 7, 1, 3, 7, 1, 3, 7, 1], 10)
}

/// Tells whether `value` is a Spanish CIF: a letter for the kind, seven digits, a digit or letter by Luhn.
pub fn es_cif(value: &[u8]) -> bool {
    let Some(cif) = symbols::<9>(after(value, "ES")) else { return false };
    let Some(body) = super::values::<7>(&cif[1..8]) else { return false };
    let check = (10 - luhn_sum(&[&body[..], &[0]].concat()) % 10) % 10;
    b"ABCDEFGHJNPQRSUVW".contains(&cif[0])
        && varied(&body)
        && (u32::from(cif[8]) == u32::from(b'0') + check
            || b"JABCDEFGHI".get(check as usize).is_some_and(|letter| *letter == cif[8]))
}

/// Tells whether `value` is a Finnish business id: eight digits, mod 11.
pub fn fi_ytunnus(value: &[u8]) -> bool {
    weighted(value, "FI", &[7, 9, 10, 5, 8, 4, 2, 1], 11)
}

/// Tells whether `value` is a French SIREN: nine digits, Luhn.
pub fn fr_siren(value: &[u8]) -> bool {
    digits::<9>(value).is_some_and(|siren| varied(&siren) && luhn_sum(&siren).is_multiple_of(10))
}

/// Tells whether `value` is a French TVA number: two key digits mod 97 and a SIREN, or 000 and a number of Monaco.
pub fn fr_tva(value: &[u8]) -> bool {
    digits::<11>(after(value, "FR")).is_some_and(|tva| {
        let siren = number(&tva[2..]);
        varied(&tva[2..])
            && (tva[2..5] == [0, 0, 0] || luhn_sum(&tva[2..]).is_multiple_of(10))
            && (siren * 100 + 12) % 97 == number(&tva[..2])
    })
}

/// Tells whether `value` is a UK VAT number of nine digits: mod 97, or 42 and 55 off it since 2010.
pub fn gb_vat(value: &[u8]) -> bool {
    digits::<9>(after(value, "GB")).is_some_and(|vat| {
        let rest = weigh(&vat, &[8, 7, 6, 5, 4, 3, 2, 10, 1]) % 97;
        let sound = if number(&vat[..3]) >= 100 { matches!(rest, 0 | 42 | 55) } else { rest == 0 };
        sound && varied(&vat)
    })
}

/// Tells whether `value` is a Hungarian ANUM: eight digits, weights 9-7-3-1.
pub fn hu_anum(value: &[u8]) -> bool {
    weighted(value, "HU", &[9, 7, 3, 1, 9, 7, 3, 1], 10)
}

/// Tells whether `value` is a Lithuanian PVM code of nine digits: a 1 in the eighth place, two-stage mod 11.
pub fn lt_pvm(value: &[u8]) -> bool {
    digits::<9>(after(value, "LT")).is_some_and(|pvm| {
        let first = weigh(&pvm[..8], &[1, 2, 3, 4, 5, 6, 7, 8]) % 11;
        let second = weigh(&pvm[..8], &[3, 4, 5, 6, 7, 8, 9, 1]) % 11;
        let check = if first == 10 { second % 10 } else { first };
        pvm[7] == 1 && varied(&pvm) && check == u32::from(pvm[8])
    })
}

/// Tells whether `value` is a Luxembourg TVA number: six digits and their rest by 89.
pub fn lu_tva(value: &[u8]) -> bool {
    digits::<8>(after(value, "LU"))
        .is_some_and(|tva| varied(&tva) && number(&tva[..6]) % 89 == number(&tva[6..]))
}

/// Tells whether `value` is a Latvian PVN number of an organisation: eleven digits, mod 11 is 3.
pub fn lv_pvn(value: &[u8]) -> bool {
    digits::<11>(after(value, "LV")).is_some_and(|pvn| {
        pvn[0] > 3 && varied(&pvn) && weigh(&pvn, &[9, 1, 4, 8, 3, 10, 2, 5, 7, 6, 1]) % 11 == 3
    })
}

/// Tells whether `value` is a Maltese number: eight digits, mod 37.
pub fn mt_vat(value: &[u8]) -> bool {
    let leads = digits::<8>(after(value, "MT")).is_some_and(|vat| vat[0] > 0);
    leads && weighted(value, "MT", &[3, 4, 6, 7, 8, 9, 10, 1], 37)
}

/// Tells whether `value` is a Dutch btw number: nine digits, B, two digits; the eleven test or MOD 97-10.
pub fn nl_btw(value: &[u8]) -> bool {
    let Some(btw) = symbols::<12>(after(value, "NL")) else { return false };
    let (Some(head), Some(tail)) = (super::values::<9>(&btw[..9]), super::values::<2>(&btw[10..])) else {
        return false;
    };
    let named = [b"NL", &btw[..]].concat();
    btw[9] == b'B'
        && number(&head) > 0
        && number(&tail) > 0
        && (super::west::nl_bsn(&btw[..9]) || super::checksum::mod_97(named.into_iter()) == 1)
}

/// Tells whether `value` is a Polish REGON of 9 or 14 digits: weighted mod 11.
pub fn pl_regon(value: &[u8]) -> bool {
    let short = |regon: &[u8]| weigh(&regon[..8], &[8, 9, 2, 3, 4, 5, 6, 7]) % 11 % 10 == u32::from(regon[8]);
    let long = |regon: [u8; 14]| {
        let check = weigh(&regon[..13], &[2, 4, 8, 5, 0, 9, 7, 3, 6, 1, 2, 4, 8]) % 11 % 10;
        varied(&regon) && short(&regon[..9]) && check == u32::from(regon[13])
    };
    digits::<9>(value).is_some_and(|regon| varied(&regon) && short(&regon))
        || digits::<14>(value).is_some_and(long)
}

/// Tells whether `value` is a Romanian CUI of six to ten digits: weights 7-5-3-2-1, times ten, mod 11.
pub fn ro_cui(value: &[u8]) -> bool {
    let number = after(value, "RO");
    let length = number.len();
    if !(6..=10).contains(&length) || number.first() == Some(&b'0') {
        return false;
    }
    let padded = [&b"0000"[..10 - length], number].concat();
    super::values::<10>(&padded).is_some_and(|cui| {
        let check = weigh(&cui[..9], &[7, 5, 3, 2, 1, 7, 5, 3, 2]) * 10 % 11 % 10;
        varied(&cui) && check == u32::from(cui[9])
    })
}

/// Tells whether `value` is a Slovenian DDV number: eight digits, weights 8 to 2, mod 11.
pub fn si_ddv(value: &[u8]) -> bool {
    digits::<8>(after(value, "SI")).is_some_and(|ddv| {
        let check = 11 - weigh(&ddv[..7], &[8, 7, 6, 5, 4, 3, 2]) % 11;
        ddv[0] > 0 && varied(&ddv) && check != 11 && check % 10 == u32::from(ddv[7])
    })
}

/// Tells whether `value` is a Slovak DPH number: ten digits, a multiple of 11, or a person's birth number.
pub fn sk_dph(value: &[u8]) -> bool {
    let value = after(value, "SK");
    cz_rc(value)
        || digits::<10>(value).is_some_and(|dph| {
            dph[0] > 0
                && matches!(dph[2], 2 | 3 | 4 | 7 | 8 | 9)
                && varied(&dph)
                && number(&dph).is_multiple_of(11)
        })
}
