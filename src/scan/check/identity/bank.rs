//! Payment cards, accounts, banks, securities and legal entities.

use super::checksum::luhn_sum;
use super::checksum::mod_97;
use super::count;
use super::digits;
use super::number;
use super::symbols;
use super::varied;
use super::weigh;

/// Lengths of an IBAN by country, from the SWIFT IBAN registry (release 99).
#[rustfmt::skip]
const IBAN_LENGTHS: &[(&[u8; 2], usize)] = &[
    (b"AD", 24), (b"AE", 23), (b"AL", 28), (b"AT", 20), (b"AZ", 28), (b"BA", 20), (b"BE", 16), (b"BG", 22),
    (b"BH", 22), (b"BI", 27), (b"BR", 29), (b"BY", 28), (b"CH", 21), (b"CR", 22), (b"CY", 28), (b"CZ", 24),
    (b"DE", 22), (b"DJ", 27), (b"DK", 18), (b"DO", 28), (b"EE", 20), (b"EG", 29), (b"ES", 24), (b"FI", 18),
    (b"FK", 18), (b"FO", 18), (b"FR", 27), (b"GB", 22), (b"GE", 22), (b"GI", 23), (b"GL", 18), (b"GR", 27),
    (b"GT", 28), (b"HN", 28), (b"HR", 21), (b"HU", 28), (b"IE", 22), (b"IL", 23), (b"IQ", 23), (b"IS", 26),
    (b"IT", 27), (b"JO", 30), (b"KW", 30), (b"KZ", 20), (b"LB", 28), (b"LC", 32), (b"LI", 21), (b"LT", 20),
    (b"LU", 20), (b"LV", 21), (b"LY", 25), (b"MC", 27), (b"MD", 24), (b"ME", 22), (b"MK", 19), (b"MN", 20),
    (b"MR", 27), (b"MT", 31), (b"MU", 30), (b"NI", 28), (b"NL", 18), (b"NO", 15), (b"OM", 23), (b"PK", 24),
    (b"PL", 28), (b"PS", 29), (b"PT", 25), (b"QA", 29), (b"RO", 24), (b"RS", 22), (b"RU", 33), (b"SA", 24),
    (b"SC", 31), (b"SD", 18), (b"SE", 24), (b"SI", 19), (b"SK", 24), (b"SM", 27), (b"SO", 23), (b"ST", 25),
    (b"SV", 28), (b"TL", 23), (b"TN", 24), (b"TR", 26), (b"UA", 29), (b"VA", 22), (b"VG", 24), (b"XK", 20),
    (b"YE", 30),
];

/// Tells whether `value` is a card number: issuer range, its length, Luhn.
///
/// Numbers that card schemes publish for tests pass: nothing tells them from a customer's.
pub fn card(value: &[u8]) -> bool {
    match count(value) {
        12 => digits::<12>(value).is_some_and(|card| is_card(&card)),
        13 => digits::<13>(value).is_some_and(|card| is_card(&card)),
        14 => digits::<14>(value).is_some_and(|card| is_card(&card)),
        15 => digits::<15>(value).is_some_and(|card| is_card(&card)),
        16 => digits::<16>(value).is_some_and(|card| is_card(&card)),
        17 => digits::<17>(value).is_some_and(|card| is_card(&card)),
        18 => digits::<18>(value).is_some_and(|card| is_card(&card)),
        19 => digits::<19>(value).is_some_and(|card| is_card(&card)),
        _ => false,
    }
}

fn is_card(card: &[u8]) -> bool {
    let issuer = number(card.get(..4).unwrap_or_default());
    is_issued(issuer, card.len()) && varied(card) && luhn_sum(card).is_multiple_of(10)
}

/// Tells whether a scheme issues cards of `length` digits that begin with `issuer` (four digits).
fn is_issued(issuer: u64, length: usize) -> bool {
    match issuer {
        4000..=4999 => matches!(length, 13 | 16 | 19),
        2221..=2720 | 5100..=5599 | 9792 => length == 16,
        3400..=3499 | 3700..=3799 | 1800 | 2131 => length == 15,
        3000..=3059 | 3095 | 3800..=3999 => matches!(length, 14 | 16),
        3600..=3699 => (14..=19).contains(&length),
        3500..=3599 | 2200..=2204 | 6200..=6299 | 8100..=8299 => (16..=19).contains(&length),
        6304 | 6759 | 6761..=6763 | 5018 | 5020 | 5038 | 5893 => (12..=19).contains(&length),
        6000..=6099 | 6440..=6599 => matches!(length, 16 | 19),
        _ => false,
    }
}

/// Tells whether `value` is an IBAN: the country's length and ISO/IEC 7064 MOD 97-10.
pub fn iban(value: &[u8]) -> bool {
    let compact = compact(value);
    let Some((head, account)) = compact.split_at_checked(4) else { return false };
    let Some((country, check)) = head.split_at_checked(2) else { return false };
    iban_length(country) == Some(compact.len())
        && compact.iter().all(u8::is_ascii_alphanumeric)
        && check.iter().all(u8::is_ascii_digit)
        && account.iter().any(|&byte| byte != b'0')
        && mod_97(account.iter().chain(head).copied()) == 1
}

fn iban_length(country: &[u8]) -> Option<usize> {
    IBAN_LENGTHS.iter().find(|(code, _)| code.as_slice() == country).map(|&(_, length)| length)
}

/// Returns `value` in upper case without blanks and hyphens.
fn compact(value: &[u8]) -> Vec<u8> {
    value.iter().filter(|byte| !matches!(byte, b' ' | b'-')).map(u8::to_ascii_uppercase).collect()
}

/// Returns `value` cut or filled with zeros to its country's length, with the check digits it needs.
pub fn repair_iban(value: &[u8]) -> Option<Vec<u8>> {
    let mut fixed = compact(value);
    let length = iban_length(fixed.get(..2)?)?;
    fixed.resize(length, b'0');
    fixed.get_mut(2..4)?.copy_from_slice(b"00");
    let (head, account) = fixed.split_at_checked(4)?;
    let check = 98 - mod_97(account.iter().chain(head).copied());
    fixed.get_mut(2..4)?.copy_from_slice(format!("{check:02}").as_bytes());
    iban(&fixed).then_some(fixed)
}

/// Tells whether `value` is a legal entity identifier (ISO 17442): MOD 97-10.
pub fn lei(value: &[u8]) -> bool {
    symbols::<20>(value).is_some_and(|lei| varied(&lei) && mod_97(lei.into_iter()) == 1)
}

/// Tells whether `value` is an international securities number (ISO 6166): Luhn over its digits.
pub fn isin(value: &[u8]) -> bool {
    let Some(isin) = symbols::<12>(value) else { return false };
    let mut spelled = Vec::with_capacity(2 * isin.len());
    for byte in isin {
        match byte {
            b'0'..=b'9' => spelled.push(byte - b'0'),
            _ => spelled.extend([(byte - b'A' + 10) / 10, (byte - b'A' + 10) % 10]),
        }
    }
    isin.iter().take(2).all(u8::is_ascii_uppercase)
        && isin.last().is_some_and(u8::is_ascii_digit)
        && isin.iter().skip(2).any(|&byte| byte != b'0')
        && luhn_sum(&spelled).is_multiple_of(10)
}

/// Country codes of ISO 3166-1, and XK, that a BIC may bear.
const COUNTRIES: &[u8] = b"ADAEAFAGAIALAMAOAQARASATAUAWAXAZBABBBDBEBFBGBHBIBJBLBMBNBOBQBRBSBTBVBWBYBZCACCCDCFCGCHCICKCLCMCNCOCRCUCVCWCXCYCZDEDJDKDMDODZECEEEGEHERESETFIFJFKFMFOFRGAGBGDGEGFGGGHGIGLGMGNGPGQGRGSGTGUGWGYHKHMHNHRHTHUIDIEILIMINIOIQIRISITJEJMJOJPKEKGKHKIKMKNKPKRKWKYKZLALBLCLILKLRLSLTLULVLYMAMCMDMEMFMGMHMKMLMMMNMOMPMQMRMSMTMUMVMWMXMYMZNANCNENFNGNINLNONPNRNUNZOMPAPEPFPGPHPKPLPMPNPRPSPTPWPYQARERORSRURWSASBSCSDSESGSHSISJSKSLSMSNSOSRSSSTSVSXSYSZTCTDTFTGTHTJTKTLTMTNTOTRTTTVTWTZUAUGUMUSUYUZVAVCVEVGVIVNVUWFWSXKYEYTZAZMZW";

/// Tells whether `value` has the structure of a bank identifier code (ISO 9362) with a real country.
pub fn bic(value: &[u8]) -> bool {
    let country = value.get(4..6).map(<[u8]>::to_ascii_uppercase).unwrap_or_default();
    matches!(value.len(), 8 | 11)
        && value.iter().all(u8::is_ascii_alphanumeric)
        && value.iter().take(6).all(u8::is_ascii_alphabetic)
        && COUNTRIES.chunks(2).any(|code| code == country)
}

/// Tells whether `value` is a US bank routing number: a Federal Reserve prefix and weights 3-7-1.
pub fn us_aba(value: &[u8]) -> bool {
    digits::<9>(value).is_some_and(|aba| {
        let district = number(&[aba[0], aba[1]]);
        matches!(district, 1..=12 | 21..=32 | 61..=72 | 80)
            && weigh(&aba, &[3, 7, 1, 3, 7, 1, 3, 7, 1]).is_multiple_of(10)
    })
}

/// Tells whether `value` is a Mexican bank account number (CLABE): weights 3-7-1.
pub fn mx_clabe(value: &[u8]) -> bool {
    digits::<18>(value).is_some_and(|clabe| {
        let sum: u32 =
            clabe[..17].iter().zip([3, 7, 1].iter().cycle()).map(|(d, w)| u32::from(*d) * w % 10).sum();
        varied(&clabe) && number(&clabe[..3]) > 0 && (10 - sum % 10) % 10 == u32::from(clabe[17])
    })
}
