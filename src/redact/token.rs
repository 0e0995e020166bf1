//! Placeholders that can be put back: the model sees `PII_EMAIL_…`, the person sees the address again.
//!
//! A placeholder is keyed: it depends on the tenant, the type and the value, so that a conversation reads the same in
//! every turn (and prompt caches hold), yet nobody without the key can make one or tell a value from it. Only those
//! that an exchange itself issued are ever put back in its answer.

use std::collections::BTreeMap;
use std::collections::HashSet;
use std::fmt;

use crate::redact::mask::TenantKey;
use crate::redact::mask::hex;
use crate::redact::mask::wipe;

/// What every placeholder begins with.
pub const PLACEHOLDER_PREFIX: &str = "PII_";
/// How many values one exchange may hide.
pub const VAULT_ENTRIES_MAX: usize = 10_000;
/// How many bytes the hidden values of one exchange may have.
pub const VAULT_BYTES_MAX: usize = 4 << 20;
/// The longest placeholder: prefix, type, and a tag that had to be widened.
pub const PLACEHOLDER_BYTES_MAX: usize = PLACEHOLDER_PREFIX.len() + TYPE_BYTES_MAX + 1 + TAG_DIGITS;

const TYPE_BYTES_MAX: usize = 40;
/// 96 bits: no two values of a tenant meet, and nobody guesses one.
const TAG_DIGITS: usize = 24;
/// How often a placeholder that the text already has is made anew.
const ATTEMPTS_MAX: u8 = 8;

/// The values that one exchange hid, by placeholder. Forgotten, and overwritten, when the exchange ends.
pub struct Vault {
    key: TenantKey,
    hidden: BTreeMap<String, Hidden>,
    /// The placeholder of each digest that was hidden.
    issued: BTreeMap<[u8; 32], String>,
    hidden_bytes: usize,
    /// The tags of what looks like placeholders and was there before: never issued.
    taken: HashSet<Box<str>>,
    /// Whether what is hidden now is never put back.
    is_sealed: bool,
}

/// A value that is overwritten when it is dropped.
pub(super) struct Hidden(Vec<u8>);

impl Hidden {
    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").field("entries", &self.hidden.len()).finish_non_exhaustive()
    }
}

impl Vault {
    /// Returns the empty vault of one exchange of a tenant.
    pub fn new(key: TenantKey) -> Self {
        let (hidden, issued) = (BTreeMap::new(), BTreeMap::new());
        Self { key, hidden, issued, hidden_bytes: 0, taken: HashSet::new(), is_sealed: false }
    }

    /// Lets what is hidden from here on never be put back: whoever it is hidden from may write its placeholder into what
    /// comes next.
    pub fn seal(&mut self) {
        self.is_sealed = true;
    }

    /// Lets what is hidden from here on be put back again.
    pub fn unseal(&mut self) {
        self.is_sealed = false;
    }

    /// Notes what in the caller's own text looks like a placeholder, so that none of it is ever issued: what a person
    /// typed must not turn into somebody's data. Call it for every text before the first value is hidden.
    pub fn reserve(&mut self, text: &[u8]) {
        for at in memchr::memmem::find_iter(text, PLACEHOLDER_PREFIX.as_bytes()) {
            let rest = text.get(at..).unwrap_or_default();
            let length = rest
                .iter()
                .take(PLACEHOLDER_BYTES_MAX)
                .take_while(|byte| is_placeholder_byte(**byte))
                .count();
            let found =
                rest.get(..length).and_then(|found| std::str::from_utf8(found).ok()).unwrap_or_default();
            let tags = found.match_indices('_').filter_map(|(at, sign)| {
                let tag = found.get(at + sign.len()..at + sign.len() + TAG_DIGITS)?;
                tag.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| tag.into())
            });
            let room = VAULT_ENTRIES_MAX.saturating_sub(self.taken.len());
            self.taken.extend(tags.take(room));
        }
    }

    /// Returns the placeholder of a value, the same each time; none when the vault is full.
    pub fn issue(&mut self, detector: &str, value: &str) -> Option<String> {
        let digest = self.key.digest(&[b"token", detector.as_bytes(), value.as_bytes()]);
        if let Some(known) = self.issued.get(&digest) {
            return Some(known.clone());
        }
        if self.is_sealed {
            return self.free_placeholder(detector, value);
        }
        let full =
            self.hidden.len() >= VAULT_ENTRIES_MAX || self.hidden_bytes + value.len() > VAULT_BYTES_MAX;
        let placeholder = (!full).then(|| self.free_placeholder(detector, value)).flatten()?;
        self.hidden_bytes += value.len();
        self.hidden.insert(placeholder.clone(), Hidden(value.as_bytes().to_vec()));
        self.issued.insert(digest, placeholder.clone());
        Some(placeholder)
    }

    /// Tells whether nothing was hidden, so that nothing has to be put back.
    pub fn is_empty(&self) -> bool {
        self.hidden.is_empty()
    }

    /// Returns the value behind a placeholder of this exchange.
    pub fn reveal(&self, placeholder: &str) -> Option<&str> {
        self.hidden.get(placeholder).map(Hidden::as_str)
    }

    /// Returns the longest run of `text` from its begin that is a placeholder of this exchange, and its value.
    pub(super) fn match_at(&self, text: &[u8]) -> Option<(usize, &str)> {
        let length =
            text.iter().take(PLACEHOLDER_BYTES_MAX).take_while(|byte| is_placeholder_byte(**byte)).count();
        let run = std::str::from_utf8(text.get(..length)?).ok()?;
        // A model may glue letters to a placeholder; the tag has a fixed length, so that its end is known.
        (PLACEHOLDER_PREFIX.len() + TAG_DIGITS..=run.len())
            .rev()
            .find_map(|length| Some((length, self.reveal(run.get(..length)?)?)))
    }

    /// Tells whether more text could make a placeholder of this exchange out of what `text` is.
    pub(super) fn may_become(&self, text: &[u8]) -> bool {
        let Ok(text) = std::str::from_utf8(text) else { return false };
        let next =
            self.hidden.range::<str, _>((std::ops::Bound::Included(text), std::ops::Bound::Unbounded)).next();
        next.is_some_and(|(placeholder, _)| placeholder.len() > text.len() && placeholder.starts_with(text))
    }

    fn free_placeholder(&self, detector: &str, value: &str) -> Option<String> {
        (0..ATTEMPTS_MAX).map(|attempt| self.placeholder(detector, value, attempt)).find(|candidate| {
            let tag = candidate.rsplit('_').next().unwrap_or_default();
            !self.taken.contains(tag) && !self.hidden.contains_key(candidate)
        })
    }

    fn placeholder(&self, detector: &str, value: &str, attempt: u8) -> String {
        let digest = self.key.digest(&[b"token", detector.as_bytes(), value.as_bytes(), &[attempt]]);
        let kind: String = detector
            .chars()
            .filter(|character| character.is_ascii_alphanumeric() || *character == '_')
            .take(TYPE_BYTES_MAX)
            .map(|character| character.to_ascii_uppercase())
            .collect();
        format!("{PLACEHOLDER_PREFIX}{kind}_{}", hex(digest.get(..TAG_DIGITS / 2).unwrap_or_default()))
    }
}

pub(super) fn is_placeholder_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_while_it_is_sealed_never_comes_back() {
        let mut vault = Vault::new(TenantKey::derive(&[5; 32], "t"));
        let (ada, grace) = ("ada@example.org", "grace@example.org");
        let own = vault.issue("email_address", ada).unwrap();
        vault.seal();
        let other = vault.issue("email_address", grace).unwrap();
        assert_eq!(vault.issue("email_address", grace), Some(other.clone()), "the same each time");
        assert_eq!(vault.issue("email_address", ada), Some(own.clone()));
        vault.unseal();
        assert_eq!((vault.reveal(&own), vault.reveal(&other)), (Some(ada), None));
        // Whoever says it themselves may have it back.
        assert_eq!(vault.issue("email_address", grace), Some(other.clone()));
        assert_eq!(vault.reveal(&other), Some(grace));
    }
}
