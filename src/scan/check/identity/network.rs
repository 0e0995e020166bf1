//! Addresses of people and machines on networks, and written dates of birth.

use std::net::IpAddr;
use std::net::Ipv6Addr;

use super::is_date;

/// Fewest and most digits of an international telephone number (ITU-T E.164).
const E164_DIGITS: std::ops::RangeInclusive<usize> = 8..=15;

/// Endings that make an `@` part of a file name and not of an address.
const FILE_ENDINGS: [&[u8]; 10] =
    [b"png", b"jpg", b"jpeg", b"gif", b"svg", b"webp", b"js", b"css", b"json", b"html"];

/// Local parts that name a service's account, not a person: clone URLs and samples of them.
const SERVICE_ACCOUNTS: [&[u8]; 2] = [b"git", b"hg"];

/// Tells whether `value` is an e-mail address someone may read.
pub fn email(value: &[u8]) -> bool {
    let Some((local, top)) = mailbox(value) else { return false };
    top.iter().all(u8::is_ascii_alphabetic)
        && !FILE_ENDINGS.contains(&top.to_ascii_lowercase().as_slice())
        && !SERVICE_ACCOUNTS.contains(&local)
}

/// Tells whether `value` is an e-mail address beyond ASCII (RFC 6531), or one whose host ends in the ASCII form of a
/// name beyond it (RFC 5890).
pub fn email_international(value: &[u8]) -> bool {
    let Some((_, top)) = mailbox(value) else { return false };
    let Ok(text) = std::str::from_utf8(value) else { return false };
    let is_letter = |letter: char| letter.is_alphanumeric() || letter.is_ascii() || is_mark(letter);
    text.chars().all(is_letter) && (!text.is_ascii() || top.starts_with(b"xn--"))
}

/// Tells whether a character is a vowel sign or the like, which words of many scripts are written with.
fn is_mark(character: char) -> bool {
    unicode_normalization::char::is_combining_mark(character)
}

/// Returns the local part of an address, and the last label of its host.
fn mailbox(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = value.splitn(2, |&byte| byte == b'@');
    let (local, host) = (parts.next()?, parts.next()?);
    let labels: Vec<&[u8]> = host.split(|&byte| byte == b'.').collect();
    let top = labels.last()?;
    let dotted =
        |part: &[u8]| part.starts_with(b".") || part.ends_with(b".") || part.windows(2).any(|w| w == b"..");
    let is_sound = (1..=64).contains(&local.len())
        && host.len() <= 253
        && !dotted(local)
        && labels.len() >= 2
        && labels.iter().all(|label| !label.is_empty() && !label.starts_with(b"-") && !label.ends_with(b"-"))
        && top.len() >= 2;
    is_sound.then_some((local, top))
}

/// Tells whether `value` is an IP address of one host: not loopback, unspecified, broadcast or multicast.
pub fn ip_address(value: &[u8]) -> bool {
    let Some(address) = std::str::from_utf8(value).ok().and_then(|text| text.parse::<IpAddr>().ok()) else {
        return false;
    };
    let single = match address {
        // `120.0.0.0` is a network or a browser's version, no host.
        IpAddr::V4(four) => {
            !four.is_broadcast() && four.octets()[0] != 0 && four.octets()[0] < 240 && four.octets()[3] != 0
        }
        // The whole of `a::` or `::1` is more often code or prose than a host.
        IpAddr::V6(six) => {
            six.segments().iter().filter(|&&group| group != 0).count() >= 3
                && (is_given_out(six) || is_long(value, six))
        }
    };
    single && !address.is_loopback() && !address.is_unspecified() && !address.is_multicast()
}

/// Tells whether an address is of a range that hosts have theirs from: global, unique local or of one link (RFC 4291).
fn is_given_out(address: Ipv6Addr) -> bool {
    let first = address.segments()[0];
    matches!(first >> 12, 2 | 3) || matches!(first >> 8, 0xfc..=0xfe)
}

/// Tells whether an address is written at such length, with letters, that it can hardly be anything else.
fn is_long(value: &[u8], address: Ipv6Addr) -> bool {
    const LONG_GROUPS_MIN: usize = 4;
    let long = address.segments().iter().filter(|&&group| group > 0xff).count();
    long >= LONG_GROUPS_MIN && value.iter().any(u8::is_ascii_alphabetic)
}

/// Tells whether `value` is a hardware address of one device: neither all alike nor multicast.
pub fn mac_address(value: &[u8]) -> bool {
    let nibbles: Vec<u8> =
        value.iter().filter(|byte| byte.is_ascii_hexdigit()).map(u8::to_ascii_lowercase).collect();
    let odd = matches!(nibbles.get(1), Some(b'1' | b'3' | b'5' | b'7' | b'9' | b'b' | b'd' | b'f'));
    nibbles.len() == 12 && !odd && super::varied(&nibbles)
}

/// Country calling codes of ITU-T E.164 (list of 2016): one, two and three digits.
const CALLING_ONE: &[u32] = &[1, 7];
#[rustfmt::skip]
const CALLING_TWO: &[u32] = &[
    20, 27, 30, 31, 32, 33, 34, 36, 39, 40, 41, 43, 44, 45, 46, 47, 48, 49, 51, 52, 53, 54, 55, 56, 57, 58, 60, 61,
    62, 63, 64, 65, 66, 81, 82, 84, 86, 90, 91, 92, 93, 94, 95, 98,
];

/// Tells whether `value` is an international telephone number: `+`, a calling code, 8 to 15 digits.
pub fn e164(value: &[u8]) -> bool {
    let Some(rest) = value.strip_prefix(b"+") else { return false };
    let digits: Vec<u8> = rest.iter().filter(|byte| byte.is_ascii_digit()).map(|byte| byte - b'0').collect();
    let head = |length: usize| super::number(digits.get(..length).unwrap_or_default()) as u32;
    let assigned = CALLING_ONE.contains(&head(1))
        || CALLING_TWO.contains(&head(2))
        || matches!(head(3), 211..=213 | 216 | 218 | 220..=269 | 290..=299 | 350..=359 | 370..=389)
        || matches!(head(3), 420..=423 | 500..=509 | 590..=599 | 670..=692 | 800 | 808 | 850..=886 | 960..=998);
    let north_american =
        head(1) != 1 || (digits.len() == 11 && digits.get(1).is_some_and(|&digit| digit > 1));
    E164_DIGITS.contains(&digits.len())
        && assigned
        && north_american
        && super::varied(digits.get(2..).unwrap_or_default())
}

/// Tells whether `value` is a telephone number of the North American plan: ten digits, perhaps with 1 or 001 before and
/// an extension behind.
pub fn nanp(value: &[u8]) -> bool {
    let number = value.split(u8::is_ascii_alphabetic).next().unwrap_or_default();
    let digits: Vec<u8> =
        number.iter().filter(|byte| byte.is_ascii_digit()).map(|byte| byte - b'0').collect();
    let national = match digits.as_slice() {
        [0, 0, 1, national @ ..] | [1, national @ ..] if national.len() == 10 => Some(national),
        national => Some(national).filter(|national| national.len() == 10),
    };
    national
        .is_some_and(|n| n[0] > 1 && n[3] > 1 && n[1..3] != [1, 1] && n[4..6] != [1, 1] && super::varied(n))
}

/// Tells whether `value` may be a national telephone number: 7 to 15 digits that are no date.
///
/// Nothing more is common to national plans, so this only makes sense where the text says so.
pub fn national_phone(value: &[u8]) -> bool {
    let digits: Vec<u8> = value.iter().filter(|byte| byte.is_ascii_digit()).copied().collect();
    (7..=15).contains(&digits.len()) && super::varied(&digits) && !birth_date(value)
}

/// Earliest and latest year of birth a living person can have.
const BIRTH_YEARS: std::ops::RangeInclusive<u64> = 1900..=2030;

/// Tells whether `value` is a written date of birth: day, month and year in any common order.
pub fn birth_date(value: &[u8]) -> bool {
    let fields: Vec<u64> = value
        .split(|byte| !byte.is_ascii_digit())
        .filter(|field| !field.is_empty() && field.len() <= 4)
        .map(|field| field.iter().fold(0, |total, byte| total * 10 + u64::from(byte - b'0')))
        .collect();
    let real = |year, month, day| BIRTH_YEARS.contains(&year) && is_date(year, month, day);
    match *fields.as_slice() {
        [first, second, third] if first > 31 => real(first, second, third),
        [first, second, third] => real(third, second, first) || real(third, first, second),
        // The month is written as a word.
        [day, year] => BIRTH_YEARS.contains(&year) && (1..=31).contains(&day),
        _ => false,
    }
}
