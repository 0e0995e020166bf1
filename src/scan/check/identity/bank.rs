//! Payment cards, accounts, banks, securities and legal entities.

use super::checksum::luhn_sum;
use super::checksum::mod_97;
use super::count;
use super::digits;
use super::number;
use super::symbols;
use super::varied;
use super::weigh;

/// What follows the check digits of an IBAN, by country: counts of digits (`n`), letters (`a`) and either (`c`), from the
/// SWIFT IBAN registry (release 101).
#[rustfmt::skip]
const IBANS: &[(&[u8; 2], &str)] = &[
    (b"AD", "8n12c"), (b"AE", "19n"), (b"AL", "8n16c"), (b"AT", "16n"), (b"AZ", "4a20c"), (b"BA", "16n"),
    (b"BE", "12n"), (b"BG", "4a6n8c"), (b"BH", "4a14c"), (b"BI", "23n"), (b"BR", "23n1a1c"),
    (b"BY", "4c4n16c"), (b"CH", "5n12c"), (b"CR", "18n"), (b"CY", "8n16c"), (b"CZ", "20n"), (b"DE", "18n"),
    (b"DJ", "23n"), (b"DK", "14n"), (b"DO", "4c20n"), (b"EE", "16n"), (b"EG", "25n"), (b"ES", "20n"),
    (b"FI", "14n"), (b"FK", "2a12n"), (b"FO", "14n"), (b"FR", "10n11c2n"), (b"GB", "4a14n"), (b"GE", "2a16n"),
    (b"GI", "4a15c"), (b"GL", "14n"), (b"GR", "7n16c"), (b"GT", "24c"), (b"HN", "4a20n"), (b"HR", "17n"),
    (b"HU", "24n"), (b"IE", "4a14n"), (b"IL", "19n"), (b"IQ", "4a15n"), (b"IS", "22n"), (b"IT", "1a10n12c"),
    (b"JO", "4a4n18c"), (b"KW", "4a22c"), (b"KZ", "3n13c"), (b"LB", "4n20c"), (b"LC", "4a24c"),
    (b"LI", "5n12c"), (b"LT", "16n"), (b"LU", "3n13c"), (b"LV", "4a13c"), (b"LY", "21n"), (b"MC", "10n11c2n"),
    (b"MD", "20c"), (b"ME", "18n"), (b"MK", "3n10c2n"), (b"MN", "16n"), (b"MR", "23n"), (b"MT", "4a5n18c"),
    (b"MU", "4a19n3a"), (b"NI", "4a20n"), (b"NL", "4a10n"), (b"NO", "11n"), (b"OM", "3n16c"),
    (b"PK", "4a16c"), (b"PL", "24n"), (b"PS", "4a21c"), (b"PT", "21n"), (b"QA", "4a21c"), (b"RO", "4a16c"),
    (b"RS", "18n"), (b"RU", "14n15c"), (b"SA", "2n18c"), (b"SC", "4a20n3a"), (b"SD", "14n"), (b"SE", "20n"),
    (b"SI", "15n"), (b"SK", "20n"), (b"SM", "1a10n12c"), (b"SO", "19n"), (b"ST", "21n"), (b"SV", "4a20n"),
    (b"TL", "19n"), (b"TN", "20n"), (b"TR", "6n16c"), (b"UA", "6n19c"), (b"VA", "18n"), (b"VG", "4a16n"),
    (b"XK", "16n"), (b"YE", "4a4n18c"),
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

/// Tells whether `value` is an IBAN: the country's structure and ISO/IEC 7064 MOD 97-10.
pub fn iban(value: &[u8]) -> bool {
    let compact = compact(value);
    let Some((head, account)) = compact.split_at_checked(4) else { return false };
    let Some((country, check)) = head.split_at_checked(2) else { return false };
    iban_kinds(country).is_some_and(|kinds| {
        kinds.len() == account.len()
            && kinds.iter().zip(account).all(|(&kind, &byte)| is_of_kind(kind, byte))
            && check.iter().all(u8::is_ascii_digit)
            && account.iter().any(|&byte| byte != b'0')
            && mod_97(account.iter().chain(head).copied()) == 1
    })
}

/// Returns the kind of each symbol behind the check digits of a country's IBAN.
fn iban_kinds(country: &[u8]) -> Option<Vec<u8>> {
    let (_, structure) = IBANS.iter().find(|(code, _)| code.as_slice() == country)?;
    let mut kinds = Vec::new();
    for part in structure.split_inclusive(['n', 'a', 'c']) {
        let (count, kind) = part.split_at(part.len() - 1);
        kinds.resize(kinds.len() + count.parse::<usize>().ok()?, *kind.as_bytes().first()?);
    }
    Some(kinds)
}

fn is_of_kind(kind: u8, byte: u8) -> bool {
    match kind {
        b'n' => byte.is_ascii_digit(),
        b'a' => byte.is_ascii_uppercase(),
        _ => byte.is_ascii_alphanumeric(),
    }
}

/// Returns `value` in upper case without blanks and hyphens.
fn compact(value: &[u8]) -> Vec<u8> {
    value.iter().filter(|byte| !matches!(byte, b' ' | b'-')).map(u8::to_ascii_uppercase).collect()
}

/// Returns `value` cut, filled and changed to its country's structure, with the check digits it needs; in small letters
/// where its country's are small.
pub fn repair_iban(value: &[u8]) -> Option<Vec<u8>> {
    let mut fixed = compact(value);
    let kinds = iban_kinds(fixed.get(..2)?)?;
    fixed.resize(4 + kinds.len(), b'0');
    let (head, account) = fixed.split_at_mut_checked(4)?;
    for (kind, byte) in kinds.into_iter().zip(account.iter_mut()) {
        match kind {
            kind if is_of_kind(kind, *byte) => {}
            b'a' => *byte = b'A' + *byte % 26,
            _ => *byte = b'0' + *byte % 10,
        }
    }
    head.get_mut(2..)?.copy_from_slice(b"00");
    let check = 98 - mod_97(account.iter().chain(head.iter()).copied());
    head.get_mut(2..)?.copy_from_slice(format!("{check:02}").as_bytes());
    if value.first().is_some_and(u8::is_ascii_lowercase) {
        fixed.make_ascii_lowercase();
    }
    iban(&fixed).then_some(fixed)
}

/// Tells whether `value` is a legal entity identifier (ISO 17442): MOD 97-10.
pub fn lei(value: &[u8]) -> bool {
    symbols::<20>(value).is_some_and(|lei| varied(&lei) && mod_97(lei.into_iter()) == 1)
}

/// What else than a country an ISIN may begin with: the European Union, the former Netherlands Antilles, and the prefixes of
/// clearing houses and numbering agencies.
const ISSUERS: &[u8] = b"ANEUQSQTXAXBXCXDXFXS";

/// Tells whether `value` is an international securities number (ISO 6166): a known prefix, and Luhn over its digits.
pub fn isin(value: &[u8]) -> bool {
    let Some(isin) = symbols::<12>(value) else { return false };
    let mut spelled = Vec::with_capacity(2 * isin.len());
    for byte in isin {
        match byte {
            b'0'..=b'9' => spelled.push(byte - b'0'),
            _ => spelled.extend([(byte - b'A' + 10) / 10, (byte - b'A' + 10) % 10]),
        }
    }
    COUNTRIES.chunks(2).chain(ISSUERS.chunks(2)).any(|code| isin.starts_with(code))
        && isin.last().is_some_and(u8::is_ascii_digit)
        && isin.iter().skip(2).any(|&byte| byte != b'0')
        && luhn_sum(&spelled).is_multiple_of(10)
}

/// Country codes of ISO 3166-1, and XK, that a BIC and an ISIN may bear.
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
