//! Addresses of people and machines on networks, and written dates of birth.

use std::net::IpAddr;
use std::net::Ipv6Addr;

use super::is_date;

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
        [one, other] => {
            let real = |day, year| BIRTH_YEARS.contains(&year) && (1..=31).contains(&day);
            real(one, other) || real(other, one)
        }
        _ => false,
    }
}
