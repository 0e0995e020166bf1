//! Checksums and structure of credentials.
//!
//! In: a value that has the shape of a credential. Out: whether its own checksum or its decoded structure agrees.
//! Nothing is asked of a network. Each `repair_…` turns a random value of the right shape into a valid one, so
//! that packs are proven without a live-looking key standing anywhere.
//!
//! Sources: GitHub, "Behind GitHub's new authentication token formats" (2021); npm, "New access token format";
//! GitLab `lib/authn/token_field/generator/routable_token.rb`; RFC 7515, 7468, 7617; BIP-173, BIP-350; NATS nkeys.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::alphabet::URL_SAFE;
use base64::engine::DecodePaddingMode;
use base64::engine::GeneralPurpose;
use base64::engine::GeneralPurposeConfig;
use sha2::Digest;
use sha2::Sha256;

use crate::scan::check::encoding::BASE32;
use crate::scan::check::encoding::BASE36;
use crate::scan::check::encoding::BASE62;
use crate::scan::check::encoding::BECH32;
use crate::scan::check::encoding::base32_decode;
use crate::scan::check::encoding::base32_encode;
use crate::scan::check::encoding::base58_decode;
use crate::scan::check::encoding::base58_encode;
use crate::scan::check::encoding::bech32_groups;
use crate::scan::check::encoding::bech32_polymod;
use crate::scan::check::encoding::crc16;
use crate::scan::check::encoding::digits;
use crate::scan::check::encoding::hex;
use crate::scan::check::password::strong_or_rare;
use crate::scan::check::shape;

/// Decoded bytes of a JSON structure that are looked at.
const JSON_BYTES_MAX: usize = 64 * 1024;
/// Bytes that an ASN.1 length may disagree with the decoded body: padding of old writers.
const ASN1_SLACK: usize = 16;
/// What may stand around a line of a PEM body: quotes, comments, the code that holds it.
const PEM_AROUND: &str = " \t\r>#*\"',\\";
/// The same where lines are added to one another.
const PEM_AROUND_AND_PLUS: &str = " \t\r>#*\"'+,\\";

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const LENIENT_STANDARD: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);
const LENIENT_URL: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT);

/// Tells whether the last six characters are the base62 CRC-32 of what stands between them and the first `_`.
pub fn crc32_base62(value: &[u8]) -> bool {
    repair_crc32_base62(value).is_some_and(|right| right == value)
}

/// Returns `value` with its last six characters made right.
pub fn repair_crc32_base62(value: &[u8]) -> Option<Vec<u8>> {
    let body_start = value.iter().position(|byte| *byte == b'_')? + 1;
    let (head, _) = value.split_at_checked(value.len().checked_sub(6)?)?;
    let sum = crc32fast::hash(head.get(body_start..)?);
    Some([head, &digits(sum, BASE62, 6)].concat())
}

/// Tells whether the last seven characters are the base36 CRC-32 of all before.
pub fn crc32_base36(value: &[u8]) -> bool {
    repair_crc32_base36(value).is_some_and(|right| right == value)
}

/// Returns `value` with its last seven characters made right.
pub fn repair_crc32_base36(value: &[u8]) -> Option<Vec<u8>> {
    let (head, _) = value.split_at_checked(value.len().checked_sub(7)?)?;
    Some([head, &digits(crc32fast::hash(head), BASE36, 7)].concat())
}

/// Tells whether the last eight characters are the hexadecimal CRC-32 of all before, either case.
pub fn crc32_hex(value: &[u8]) -> bool {
    repair_crc32_hex(value).is_some_and(|right| right.eq_ignore_ascii_case(value))
}

/// Returns `value` with its last eight characters made right, upper case.
pub fn repair_crc32_hex(value: &[u8]) -> Option<Vec<u8>> {
    let (head, _) = value.split_at_checked(value.len().checked_sub(8)?)?;
    Some([head, format!("{:08X}", crc32fast::hash(head)).as_bytes()].concat())
}

/// Tells whether what follows the last `_` is the CRC-32 of all before it, little-endian hexadecimal.
pub fn crc32_hex_le(value: &[u8]) -> bool {
    repair_crc32_hex_le(value).is_some_and(|right| right.eq_ignore_ascii_case(value))
}

/// Returns `value` with the checksum after its last `_` made right.
pub fn repair_crc32_hex_le(value: &[u8]) -> Option<Vec<u8>> {
    let at = value.iter().rposition(|byte| *byte == b'_')?;
    let (head, _) = value.split_at_checked(at)?;
    let sum = crc32fast::hash(head).swap_bytes();
    Some([head, format!("_{sum:08x}").as_bytes()].concat())
}

/// Tells whether `value` is a JSON web token that is meant to be secret: a header with `alg` and a payload, both JSON
/// objects, and no `anon` key of Supabase, which its users put into web pages
/// (<https://supabase.com/docs/guides/api/api-keys>).
pub fn jwt(value: &[u8]) -> bool {
    let mut parts = value.split(|byte| *byte == b'.');
    let header = parts.next().and_then(json_object);
    let payload = parts.next().and_then(json_object);
    let is_public = |object: &serde_json::Map<_, serde_json::Value>| {
        object.get("iss").is_some_and(|issuer| issuer == "supabase")
            && object.get("role").is_some_and(|role| role == "anon")
    };
    header.is_some_and(|object| object.get("alg").is_some_and(serde_json::Value::is_string))
        && payload.is_some_and(|object| !is_public(&object))
}

/// Returns a token with a fixed header, a payload made of the value's own bytes, and its signature.
pub fn repair_jwt(value: &[u8]) -> Option<Vec<u8>> {
    let signature = value.rsplit(|byte| *byte == b'.').next()?;
    let header = LENIENT_URL.encode(r#"{"alg":"HS256","typ":"JWT"}"#);
    let subject = format!(r#"{{"sub":"{}","iat":1700000000}}"#, hex(&Sha256::digest(value)));
    let payload = LENIENT_URL.encode(subject);
    let trimmed = [header.trim_end_matches('='), payload.trim_end_matches('=')].join(".");
    Some([trimmed.as_bytes(), b".", signature].concat())
}

/// Tells whether `value` is base64 (either alphabet) of a JSON object, after a prefix that ends in `_`, if any.
pub fn base64_json(value: &[u8]) -> bool {
    json_object(value).is_some() || after_prefix(value).and_then(json_object).is_some()
}

/// Returns the value's prefix with a JSON object of about the same length behind it.
pub fn repair_base64_json(value: &[u8]) -> Option<Vec<u8>> {
    let body = after_prefix(value).unwrap_or(value);
    let (prefix, _) = value.split_at_checked(value.len() - body.len())?;
    let key = hex(&Sha256::digest(value)).repeat(8);
    let room = (body.len() / 4 * 3).checked_sub(18)?.min(key.len());
    let object = format!(r#"{{"k":"{}","n":"key"}}"#, key.get(..room)?);
    Some([prefix, LENIENT_STANDARD.encode(object).trim_end_matches('=').as_bytes()].concat())
}

/// Tells whether `value` is a PEM block with agreeing labels around the encoding of a key.
pub fn pem(value: &[u8]) -> bool {
    let Some(block) = pem_parts(value) else { return false };
    // A plus at a line's end is base64, or the patch or concatenation around it.
    let mut readings = [PEM_AROUND, PEM_AROUND_AND_PLUS].into_iter();
    let is_key = |around| pem_body(block.body, around).is_some_and(|der| is_key_encoding(&der));
    block.begin == block.end && readings.any(is_key)
}

/// Tells whether `value` is no sound PEM block and yet holds a body that may have been one.
pub fn pem_fails(value: &[u8]) -> bool {
    let body = value.split(|byte| *byte == b'-').find(|part| part.len() >= 40).unwrap_or_default();
    !pem(value) && shape::entropy(body) >= 3.5 && shape::not_placeholder(body.get(..200).unwrap_or(body))
}

/// Returns a block with the value's first label around a small valid encoding.
pub fn repair_pem(value: &[u8]) -> Option<Vec<u8>> {
    let marker = memchr::memmem::find(value, b"BEGIN ")? + 6;
    let rest = value.get(marker..)?;
    let label = rest.get(..memchr::memmem::find(rest, b"-----")?)?;
    let seed: Vec<u8> = (0_u8..8).flat_map(|round| Sha256::digest([value, &[round]].concat())).collect();
    let der = [&[0x30, 0x82, 0x01, 0x00], seed.as_slice()].concat();
    let encoded = LENIENT_STANDARD.encode(der);
    let lines: Vec<&[u8]> = encoded.as_bytes().chunks(64).collect();
    Some([b"-----BEGIN ", label, b"-----\n", &lines.join(&b'\n'), b"\n-----END ", label, b"-----"].concat())
}

/// How many digits between letters make a password of a word that says so.
const DISGUISED_MIN: usize = 2;

/// Tells whether `value` is base64 of `user:password` in printable text, the password no placeholder.
pub fn basic_auth(value: &[u8]) -> bool {
    let Ok(decoded) = LENIENT_STANDARD.decode(value) else { return false };
    let Some(colon) = decoded.iter().position(|byte| *byte == b':') else { return false };
    let printable = std::str::from_utf8(&decoded).is_ok_and(|text| !text.chars().any(char::is_control));
    printable && decoded.get(colon + 1..).is_some_and(is_kept_password)
}

/// Returns the base64 of a user and a password made from the value.
pub fn repair_basic_auth(value: &[u8]) -> Option<Vec<u8>> {
    let password = LENIENT_URL.encode(Sha256::digest(value));
    Some(LENIENT_STANDARD.encode(format!("svc:{}", password.get(..20)?)).into_bytes())
}

/// Tells whether `value`, `user:password@host`, holds a password someone would want to keep.
pub fn url_credentials(value: &[u8]) -> bool {
    let Some(at) = value.iter().rposition(|byte| *byte == b'@') else { return false };
    let (login, host) = value.split_at(at);
    let Some(colon) = login.iter().position(|byte| *byte == b':') else { return false };
    let (user, password) = login.split_at(colon);
    let password = password.get(1..).unwrap_or_default();
    let name = host_name(host.get(1..).unwrap_or_default());
    user != password
        && is_kept_password(password)
        && (!is_documentation_host(&name) && !is_this_host(&name) || strong_or_rare(password))
}

/// Returns the value's host behind a user and a password made from it.
pub fn repair_url_credentials(value: &[u8]) -> Option<Vec<u8>> {
    let at = value.iter().rposition(|byte| *byte == b'@')?;
    let password = LENIENT_URL.encode(Sha256::digest(value)).replace(['-', '_'], "k");
    Some([b"svc:", password.get(..20)?.as_bytes(), value.get(at..)?].concat())
}

/// Tells whether the part before the first dot is a Discord snowflake (17 to 20 digits) in base64.
pub fn discord_bot(value: &[u8]) -> bool {
    let first = value.split(|byte| *byte == b'.').next().unwrap_or_default();
    let snowflake = LENIENT_URL.decode(first).unwrap_or_default();
    (17..=20).contains(&snowflake.len()) && snowflake.iter().all(u8::is_ascii_digit)
}

/// Returns `value` with a snowflake of the right length in front.
pub fn repair_discord_bot(value: &[u8]) -> Option<Vec<u8>> {
    let dot = value.iter().position(|byte| *byte == b'.')?;
    let length = (dot * 3 / 4).checked_sub(1)?;
    let number = value.iter().map(|byte| char::from(b'0' + byte % 10)).take(length);
    let snowflake: String = std::iter::once('1').chain(number).collect();
    let encoded = LENIENT_URL.encode(snowflake);
    Some([encoded.trim_end_matches('=').as_bytes(), value.get(dot..)?].concat())
}

/// Tells whether `value` is bech32 or bech32m, one case throughout, with the right checksum (BIP-173, BIP-350).
pub fn bech32(value: &[u8]) -> bool {
    let lower = value.to_ascii_lowercase();
    let one_case = value == lower || value == value.to_ascii_uppercase();
    let sum = bech32_groups(&lower).map(|(_, groups)| bech32_polymod(&groups));
    one_case && matches!(sum, Some(1 | 0x2bc8_30a3))
}

/// Returns `value` with its last six characters made right for bech32.
pub fn repair_bech32(value: &[u8]) -> Option<Vec<u8>> {
    let upper = value.iter().any(u8::is_ascii_uppercase);
    let mut text = value.to_ascii_lowercase();
    let body = text.len().checked_sub(6)?;
    text.get_mut(body..)?.fill(b'q');
    let (_, groups) = bech32_groups(&text)?;
    let sum = bech32_polymod(&groups) ^ 1;
    for (at, byte) in text.get_mut(body..)?.iter_mut().enumerate() {
        *byte = BECH32[(sum >> (5 * (5 - at)) & 31) as usize];
    }
    Some(if upper { text.to_ascii_uppercase() } else { text })
}

/// Tells whether `value` is Base58 whose last four bytes are the double SHA-256 of the rest.
pub fn base58check(value: &[u8]) -> bool {
    let Some(bytes) = base58_decode(value) else { return false };
    let Some((body, sum)) = bytes.len().checked_sub(4).and_then(|at| bytes.split_at_checked(at)) else {
        return false;
    };
    !body.is_empty() && Sha256::digest(Sha256::digest(body)).starts_with(sum)
}

/// Returns a value of the same version and length with the right checksum: an extended key (111 characters) or
/// a Bitcoin private key in import format (51 or 52).
pub fn repair_base58check(value: &[u8]) -> Option<Vec<u8>> {
    let key = Sha256::digest(value);
    let body = match value.len() {
        111 => [&[0x04, 0x88, 0xAD, 0xE4, 0, 0, 0, 0, 0, 0, 0, 0, 0], key.as_slice(), &[0], key.as_slice()]
            .concat(),
        52 => [&[0x80], key.as_slice(), &[1]].concat(),
        51 => [&[0x80], key.as_slice()].concat(),
        _ => return None,
    };
    let sum = Sha256::digest(Sha256::digest(&body));
    Some(base58_encode(&[body.as_slice(), sum.get(..4)?].concat()))
}

/// Tells whether `value` is a NATS key: base32 whose last two bytes are the CRC-16/XMODEM of the rest.
pub fn nkey(value: &[u8]) -> bool {
    let Some(bytes) = base32_decode(value) else { return false };
    let Some((body, sum)) = bytes.len().checked_sub(2).and_then(|at| bytes.split_at_checked(at)) else {
        return false;
    };
    !body.is_empty() && sum == crc16(body).to_le_bytes()
}

/// Returns `value` with its checksum made right.
pub fn repair_nkey(value: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = base32_decode(value)?;
    let body = bytes.len().checked_sub(2)?;
    bytes.truncate(body);
    let sum = crc16(&bytes).to_le_bytes();
    bytes.extend(sum);
    Some(base32_encode(&bytes))
}

/// Tells whether `value` is an AWS access key id: base32 behind the four letters, not the one of the manuals.
pub fn aws_access_key(value: &[u8]) -> bool {
    let body = value.get(4..).unwrap_or_default();
    body.len() == 16
        && body.iter().all(|byte| BASE32.contains(byte))
        && !value.ends_with(b"EXAMPLE")
        && shape::entropy(body) >= 2.5
        && shape::not_placeholder(body)
}

struct PemBlock<'a> {
    begin: &'a [u8],
    end: &'a [u8],
    body: &'a [u8],
}

fn pem_parts(value: &[u8]) -> Option<PemBlock<'_>> {
    let (begin, rest) = between(value, b"-----BEGIN ", b"-----")?;
    let end_at = memchr::memmem::find(rest, b"-----END ")?;
    let (body, tail) = rest.split_at_checked(end_at)?;
    let (end, _) = between(tail, b"-----END ", b"-----")?;
    Some(PemBlock { begin, end, body })
}

/// Returns what stands between two marks, and what follows the second.
fn between<'a>(text: &'a [u8], open: &[u8], close: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let rest = text.get(memchr::memmem::find(text, open)? + open.len()..)?;
    let at = memchr::memmem::find(rest, close)?;
    Some((rest.get(..at)?, rest.get(at + close.len()..)?))
}

/// Decodes the base64 lines of a PEM body without what stands `around` them: header lines (with a colon), OpenPGP checksums and escaped line
/// ends (`\n` as two characters) are left out.
fn pem_body(body: &[u8], around: &str) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(body).replace("\\r", "").replace("\\n", "\n");
    let lines = text.lines().map(|line| line.trim_matches(|c: char| around.contains(c)));
    let encoded: String = lines.filter(|line| !line.contains(':') && !line.starts_with('=')).collect();
    LENIENT_STANDARD.decode(encoded.replace(' ', "")).ok().filter(|der| der.len() >= 32)
}

/// Tells whether bytes begin as a key does: an ASN.1 sequence of the right length, OpenSSH, or an OpenPGP packet.
fn is_key_encoding(der: &[u8]) -> bool {
    let asn1 = match der {
        [0x30, length @ 0..=0x7f, ..] => Some(2 + usize::from(*length)),
        [0x30, 0x81, length, ..] => Some(3 + usize::from(*length)),
        [0x30, 0x82, high, low, ..] => Some(4 + usize::from(u16::from_be_bytes([*high, *low]))),
        [0x30, 0x83, a, b, c, ..] => {
            Some(5 + (usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c)))
        }
        _ => None,
    };
    let right_length = asn1.is_some_and(|length| length.abs_diff(der.len()) <= ASN1_SLACK);
    // OpenPGP: secret key packets, old format tag 5 (0x94 to 0x97) and new format (0xC5).
    right_length || der.starts_with(b"openssh-key-v1\0") || matches!(der.first(), Some(0x94..=0x97 | 0xC5))
}

fn json_object(encoded: &[u8]) -> Option<serde_json::Map<String, serde_json::Value>> {
    let encoded = encoded.get(..encoded.len().min(JSON_BYTES_MAX))?;
    let bytes = LENIENT_URL.decode(encoded).or_else(|_| LENIENT_STANDARD.decode(encoded)).ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn after_prefix(value: &[u8]) -> Option<&[u8]> {
    value.get(value.iter().position(|byte| *byte == b'_')? + 1..)
}

fn is_kept_password(password: &[u8]) -> bool {
    password.len() >= 6
        && !shape::is_common_password(password)
        && (!shape::says_password(password) || is_disguised(password) || shape::is_embellished(password))
        && shape::not_placeholder(password)
        && !matches!(password.first(), Some(b'$' | b'%' | b'{' | b'[' | b'<'))
}

/// Tells whether digits stand for letters in a value: no field or function is named so.
fn is_disguised(value: &[u8]) -> bool {
    let is_letter = |at: Option<usize>| at.and_then(|at| value.get(at)).is_some_and(u8::is_ascii_alphabetic);
    let within = |at: &usize| is_letter(at.checked_sub(1)) && is_letter(Some(at + 1));
    let digits = value.iter().enumerate().filter(|(_, byte)| byte.is_ascii_digit()).map(|(at, _)| at);
    digits.filter(within).count() >= DISGUISED_MIN
}

/// Returns the name of a host, in lower case, without its port and what follows.
fn host_name(host: &[u8]) -> Vec<u8> {
    let end = if host.first() == Some(&b'[') {
        host.iter().position(|byte| *byte == b']').map(|at| at + 1)
    } else {
        host.iter().position(|byte| b":/?#".contains(byte))
    };
    host.get(..end.unwrap_or(host.len())).unwrap_or_default().to_ascii_lowercase()
}

fn is_documentation_host(name: &[u8]) -> bool {
    let domains: [&[u8]; 6] =
        [b"example.com", b"example.org", b"example.net", b".example", b".test", b".invalid"];
    name == b"host" || domains.iter().any(|domain| name.ends_with(domain))
}

/// Tells whether a name is this machine's: manuals write it as often as developers do.
fn is_this_host(name: &[u8]) -> bool {
    let names: [&[u8]; 4] = [b"localhost", b"127.0.0.1", b"0.0.0.0", b"[::1]"];
    names.contains(&name)
}

#[cfg(test)]
mod tests;
