//! What stands in the place of a value that must not leave.

pub use crate::scan::detector::MaskKind;
use std::fmt;

use hmac::Hmac;
use hmac::KeyInit;
use hmac::Mac;
use sha2::Sha256;

use crate::redact::token::Vault;

/// How many characters of a value stay readable at its end.
const KEPT_CHARACTERS: usize = 4;
/// A value shorter than this would be told by its last characters.
const KEPT_CHARACTERS_OF: usize = 9;
const HASH_BYTES: usize = 8;

/// A tenant's secret key: masks of one tenant tell another nothing.
#[derive(Clone)]
pub struct TenantKey([u8; 32]);

impl TenantKey {
    /// Returns the key of a tenant, derived from the deployment's.
    pub fn derive(deployment: &[u8; 32], tenant: &str) -> Self {
        Self(keyed_digest(deployment, &[b"tenant", tenant.as_bytes()]))
    }

    /// Returns the digest of `parts`; where one ends and the next begins counts.
    pub(crate) fn digest(&self, parts: &[&[u8]]) -> [u8; 32] {
        keyed_digest(&self.0, parts)
    }
}

impl fmt::Debug for TenantKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TenantKey(***)")
    }
}

impl Drop for TenantKey {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

/// Overwrites bytes that were secret, in a way that is not optimised out.
pub(crate) fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    std::hint::black_box(bytes);
}

fn keyed_digest(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length is a key");
    for part in parts {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// The most stars that stand for the middle of a value: a long one's length is nobody's business.
const SAMPLE_STARS_MAX: usize = 8;

/// Shows the ends of a value and masks its middle; a short value is masked whole.
///
/// The result tells people which value was meant and gives nobody the value: at most four bytes of the
/// begin and two of the end of sixteen or more.
pub fn sample(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    let count = text.chars().count();
    let (head, tail) = match count {
        0..=7 => (0, 0),
        8..=15 => (2, 0),
        _ => (4, 2),
    };
    let visible = |c: char| if c.is_control() { '*' } else { c };
    let hidden = (count - head - tail).min(SAMPLE_STARS_MAX);
    let begin = text.chars().take(head).map(visible);
    let end = text.chars().skip(count - tail).map(visible);
    begin.chain(std::iter::repeat_n('*', hidden)).chain(end).collect()
}

/// Masks the values of one tenant.
#[derive(Clone, Debug)]
pub struct Masker {
    key: TenantKey,
}

impl Masker {
    /// Returns the masker of the tenant that the key belongs to.
    pub fn new(key: TenantKey) -> Self {
        Self { key }
    }

    /// Returns what stands in the place of a value, as text that is not escaped yet.
    ///
    /// A token is issued by the exchange's vault, so that it can be put back; without one, or once that is full,
    /// the label stands for it.
    pub fn mask(&self, kind: MaskKind, detector: &str, value: &[u8], vault: Option<&mut Vault>) -> String {
        let label = || format!("[REDACTED:{detector}]");
        match kind {
            MaskKind::Label => label(),
            MaskKind::KeepLast4 => keep_last_4(value).unwrap_or_else(label),
            MaskKind::Hash => format!("[HASH:{detector}:{}]", self.hash(detector, value)),
            MaskKind::Token => {
                let text = std::str::from_utf8(value).ok();
                vault.zip(text).and_then(|(vault, text)| vault.issue(detector, text)).unwrap_or_else(label)
            }
        }
    }

    fn hash(&self, detector: &str, value: &[u8]) -> String {
        let digest = self.key.digest(&[b"hash", detector.as_bytes(), value]);
        hex(digest.get(..HASH_BYTES).unwrap_or_default())
    }
}

/// Writes bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Stars all letters and digits but the last four; all of them in a short value. A value that is mostly signs, as one in
/// Morse is, would stay legible.
fn keep_last_4(value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(value).ok()?;
    let total = text.chars().filter(|character| character.is_alphanumeric()).count();
    let written = text.chars().filter(|character| !character.is_whitespace()).count();
    if total * 2 < written {
        return None;
    }
    let kept = if total < KEPT_CHARACTERS_OF { 0 } else { KEPT_CHARACTERS };
    let mut seen = 0;
    let star = |character: char| {
        let separator = matches!(character, ' ' | '-' | '.' | '/' | '_' | ':' | '(' | ')' | '+' | '@');
        seen += usize::from(character.is_alphanumeric());
        match character.is_alphanumeric() {
            true if seen > total - kept => character,
            false if separator => character,
            true | false => '*',
        }
    };
    Some(text.chars().map(star).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masker(tenant: &str) -> Masker {
        Masker::new(TenantKey::derive(&[7; 32], tenant))
    }

    #[test]
    fn the_last_four_stay_and_short_values_go() {
        let cases = [
            ("4111 1111 1111 1234", "**** **** **** 1234"),
            ("123-45-6789", "***-**-6789"),
            ("12345678", "********"),
            ("a@b.co", "*@*.**"),
            ("12-34", "**-**"),
            ("", ""),
            ("äöüäöüäöü", "*****üäöü"),
            ("....- .---- .----", "[REDACTED:x]"),
            ("....- 1 .---- 1", "[REDACTED:x]"),
        ];
        for (value, expected) in &cases {
            let masked = masker("t").mask(MaskKind::KeepLast4, "x", value.as_bytes(), None);
            assert_eq!(masked, *expected, "{value}");
        }
        assert_eq!(masker("t").mask(MaskKind::KeepLast4, "x", b"\xff\xff", None), "[REDACTED:x]");
    }

    #[test]
    fn a_hash_depends_on_value_type_and_tenant() {
        let hash =
            |tenant, kind, value: &str| masker(tenant).mask(MaskKind::Hash, kind, value.as_bytes(), None);
        assert_eq!(hash("t", "email", "a"), hash("t", "email", "a"));
        let all = [
            hash("t", "email", "a"),
            hash("t", "email", "b"),
            hash("t", "phone", "a"),
            hash("u", "email", "a"),
        ];
        let distinct: std::collections::BTreeSet<&String> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        let digits = all[0].strip_prefix("[HASH:email:").and_then(|rest| rest.strip_suffix(']')).unwrap();
        assert!(digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }

    #[test]
    fn keys_are_not_shown_and_labels_name_the_type() {
        assert_eq!(format!("{:?}", masker("t")), "Masker { key: TenantKey(***) }");
        assert_eq!(masker("t").mask(MaskKind::Label, "email", b"x", None), "[REDACTED:email]");
        assert_eq!(masker("t").mask(MaskKind::Token, "email", b"x", None), "[REDACTED:email]");
        assert_eq!("hash".parse(), Ok(MaskKind::Hash));
        assert!("sha".parse::<MaskKind>().is_err());
    }
}
