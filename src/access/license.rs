//! Licences: compact JWS that name a tier, verified offline against trusted keys.
//!
//! Without a licence a deployment is of the community tier, and validly so. A licence that is expired,
//! forged or not yet valid is not valid, and the tier falls back to community. Whether it is expired is
//! asked of the clock each time, so a licence ends while the process runs; files are read again when
//! they change, so keys rotate and licences are renewed without a restart. A file that is only half there, as one is
//! while it is being copied, changes nothing for [`TORN_FOR`]: what it said before counts on, to its own end, and the
//! fault is told; so does a licence whose key's file is half there, as long as no key proves another. Then it counts as
//! what it is. Each file counts for itself: one that says something else, or is gone, counts as what it is at once.
//!
//! Clocks differ: a licence may have been issued, or begin, up to [`ISSUED_AHEAD_MAX`] in our future. Its end is
//! exact.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;

use super::jose;
use super::jose::SigningKey;
use super::jose::TokenFault;
use super::jose::VerifyingKey;
use super::tier::Tier;

/// How far ahead of our clock a licence may have been issued, or begin.
pub const ISSUED_AHEAD_MAX: Duration = Duration::from_secs(300);
/// How long a file that is only half there takes nothing away from what counted before.
pub const TORN_FOR: Duration = Duration::from_secs(10);
/// The characters of an Ed25519 signature in base 64, as a token ends in them.
const SIGNATURE_CHARS: usize = 86;
/// The most keys that are trusted.
pub const TRUSTED_KEYS_MAX: usize = 16;

/// Where the licence and the keys lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LicenseConfig {
    /// The file that holds the licence; none: the community tier.
    pub file: Option<PathBuf>,
    /// The files of Ed25519 public keys, in PEM, that may sign licences.
    pub trusted_keys: Vec<PathBuf>,
}

/// What a licence says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct License {
    /// Whose licence it is.
    #[serde(rename = "sub")]
    pub subject: String,
    /// What it entitles to.
    pub tier: Tier,
    /// When it was issued.
    #[serde(rename = "iat", with = "seconds")]
    pub issued_at: Timestamp,
    /// When it begins; none: when it is issued.
    #[serde(rename = "nbf", with = "seconds::optional", skip_serializing_if = "Option::is_none", default)]
    pub not_before: Option<Timestamp>,
    /// When it ends.
    #[serde(rename = "exp", with = "seconds")]
    pub expires_at: Timestamp,
    /// The one agent it is for; none: the deployment.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: Option<String>,
    /// What it entitles to beside its tier.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub features: Vec<String>,
}

/// Why a licence does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LicenseFault {
    /// It is no licence.
    #[error("the licence is malformed")]
    Malformed,
    /// No trusted key has signed it.
    #[error("no trusted key has signed the licence")]
    Forged,
    /// It has ended.
    #[error("the licence has expired")]
    Expired,
    /// It was issued, or begins, in the future.
    #[error("the licence is not valid yet; is the clock right?")]
    NotYet,
    /// It is for one agent, not for a deployment.
    #[error("the licence is for an agent, not for a deployment")]
    ForAgent,
    /// The licence or a key cannot be read.
    #[error("the licence or a trusted key cannot be read")]
    Unreadable,
}

/// How a deployment stands at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What it is entitled to.
    pub tier: Tier,
    /// Whose licence it is, if there is one.
    pub subject: Option<String>,
    /// When that ends, as far as it can be read, whoever signed it; `None` where there is none, for the community tier
    /// never ends.
    pub expires_at: Option<Timestamp>,
    /// What it is entitled to beside its tier.
    pub features: Vec<String>,
    /// Why the licence does not count.
    pub fault: Option<LicenseFault>,
    /// Why the files as they lie there now were not taken; what counted before counts on.
    pub unread: Option<LicenseFault>,
}

/// The licence of a deployment, and the keys that may sign licences.
pub struct Licensing {
    config: LicenseConfig,
    held: ArcSwap<Held>,
}

/// What was read from the files, as they are, and as they count while one of them is not whole.
#[derive(Default)]
struct Held {
    plain: Read,
    torn: Option<Torn>,
}

/// What counts while a file is not whole.
struct Torn {
    kept: Read,
    fault: LicenseFault,
    since: Timestamp,
}

/// What files say.
#[derive(Clone, Default)]
struct Read {
    /// What each key's file says, by its place in the configuration.
    keys: Vec<Trusted>,
    license: Option<Result<Proven, LicenseFault>>,
    /// When the licence says that it ends, whoever signed it.
    ends_at: Option<Timestamp>,
    /// That a file is not whole, and why.
    torn: Option<LicenseFault>,
}

/// What a key's file says; where it is not whole, what it said before.
#[derive(Clone, Default)]
struct Trusted {
    key: Option<VerifyingKey>,
    is_torn: bool,
}

/// The one claim that is shown of a licence whoever signed it.
#[derive(Deserialize)]
struct End {
    #[serde(rename = "exp", with = "seconds")]
    at: Timestamp,
}

/// A licence that a key has proven.
#[derive(Clone)]
struct Proven {
    license: License,
    token: String,
    /// The key's place.
    by: usize,
}

impl License {
    /// Signs the licence.
    pub fn sign(&self, key: &SigningKey) -> String {
        jose::SigningKey::sign(key, self, None)
    }

    /// Returns what a token says, whoever signed it: for showing, never for deciding.
    ///
    /// # Errors
    /// It is no licence.
    pub fn unverified(token: &str) -> Result<Self, LicenseFault> {
        jose::unverified(token.trim()).map_err(LicenseFault::from)
    }

    /// Tells whether the licence counts at a moment.
    ///
    /// # Errors
    /// It does not, and why.
    pub fn check(&self, now: Timestamp) -> Result<(), LicenseFault> {
        // Nobody has an empty name: it would be for no agent, and for no deployment either.
        if self.agent.as_deref().is_some_and(str::is_empty) {
            return Err(LicenseFault::Malformed);
        }
        let latest = now.as_second().saturating_add(ISSUED_AHEAD_MAX.as_secs() as i64);
        let begins_at = self.not_before.map_or(self.issued_at, |begin| begin.max(self.issued_at));
        if begins_at.as_second() > latest {
            return Err(LicenseFault::NotYet);
        }
        if self.expires_at <= now { Err(LicenseFault::Expired) } else { Ok(()) }
    }
}

impl Licensing {
    /// Reads the files. A file that cannot be read makes the licence invalid, and is no reason not to start.
    pub fn open(config: LicenseConfig) -> Self {
        let plain = read(&config, &Read::default());
        Self { config, held: ArcSwap::from_pointee(Held { plain, torn: None }) }
    }

    /// Reads the files again; one that is not whole takes nothing away from what counted before, for a while.
    pub fn reload(&self, now: Timestamp) {
        let before = self.held.load();
        let kept = read(&self.config, before.at(now).0);
        let torn = kept.torn.map(|fault| {
            let since = before.torn.as_ref().map_or(now, |torn| torn.since);
            Torn { kept, fault, since }
        });
        let plain = read(&self.config, &Read::default());
        self.held.store(std::sync::Arc::new(Held { plain, torn }));
    }

    /// Returns the files that are read.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.config.file.iter().chain(&self.config.trusted_keys)
    }

    /// Returns how the deployment stands.
    pub fn standing(&self, now: Timestamp) -> Standing {
        let held = self.held.load();
        let (read, unread) = held.at(now);
        let community = |fault| Standing {
            tier: Tier::Community,
            subject: None,
            expires_at: read.ends_at,
            features: Vec::new(),
            fault,
            unread,
        };
        match &read.license {
            None => community(None),
            Some(Err(fault)) => community(Some(*fault)),
            Some(Ok(Proven { license, .. })) => {
                let License { subject, expires_at, .. } = license.clone();
                let fault = license.check(now).err();
                let counts = fault.is_none();
                Standing {
                    tier: if counts { license.tier } else { Tier::Community },
                    subject: Some(subject),
                    expires_at: Some(expires_at),
                    features: if counts { license.features.clone() } else { Vec::new() },
                    fault,
                    unread,
                }
            }
        }
    }

    /// Returns what the deployment is entitled to.
    pub fn tier(&self, now: Timestamp) -> Tier {
        match &self.held.load().at(now).0.license {
            Some(Ok(Proven { license, .. })) if license.check(now).is_ok() => license.tier,
            _ => Tier::Community,
        }
    }

    /// Verifies a licence that somebody presents.
    ///
    /// # Errors
    /// It does not count, and why.
    pub fn verify(&self, token: &str, now: Timestamp) -> Result<License, LicenseFault> {
        self.prove(token, now).map(|(license, _)| license)
    }

    /// Verifies a licence that somebody presents; returns the key that has signed it, too.
    ///
    /// # Errors
    /// It does not count, and why.
    pub fn prove(&self, token: &str, now: Timestamp) -> Result<(License, VerifyingKey), LicenseFault> {
        let (token, held) = (token.trim(), self.held.load());
        // Without any key, it is told whether it would be a licence at all.
        let mut fault =
            jose::verify::<License>(token, []).map_or_else(LicenseFault::from, |_| LicenseFault::Forged);
        for key in keys(&held.at(now).0.keys) {
            match jose::verify::<License>(token, [key]) {
                Ok(license) => return license.check(now).map(|()| (license, key.clone())),
                Err(other) => fault = other.into(),
            }
        }
        Err(fault)
    }

    /// Tells whether a key may sign licences now.
    pub fn trusts(&self, key: &VerifyingKey, now: Timestamp) -> bool {
        keys(&self.held.load().at(now).0.keys).any(|trusted| trusted == key)
    }
}

impl Held {
    /// Returns what counts at a moment, and why the files as they are do not yet.
    fn at(&self, now: Timestamp) -> (&Read, Option<LicenseFault>) {
        match &self.torn {
            Some(Torn { kept, fault, since })
                if *since <= now && now.duration_since(*since).unsigned_abs() < TORN_FOR =>
            {
                (kept, Some(*fault))
            }
            Some(_) | None => (&self.plain, None),
        }
    }
}

impl std::fmt::Debug for Licensing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Licensing").field("config", &self.config).finish_non_exhaustive()
    }
}

impl From<TokenFault> for LicenseFault {
    fn from(fault: TokenFault) -> Self {
        match fault {
            TokenFault::Malformed => Self::Malformed,
            TokenFault::Forged => Self::Forged,
        }
    }
}

/// Reads the files, of which any that is not whole says what it said before.
fn read(config: &LicenseConfig, before: &Read) -> Read {
    let files = config.trusted_keys.iter().take(TRUSTED_KEYS_MAX).enumerate();
    let keys: Vec<Trusted> = files.map(|(at, file)| read_key(file, before.keys.get(at))).collect();
    let is_any_torn = keys.iter().any(|trusted| trusted.is_torn);
    let torn = is_any_torn.then_some(LicenseFault::Unreadable);
    let mut held = Read { keys, torn, ..Read::default() };
    let is_any_missing = held.keys.iter().any(|trusted| trusted.key.is_none());
    let Some(file) = &config.file else {
        return Read { license: is_any_missing.then_some(Err(LicenseFault::Unreadable)), ..held };
    };
    let token = fs::read_to_string(file).map_err(|_| LicenseFault::Unreadable);
    let end = token.as_ref().ok().and_then(|token| jose::unverified::<End>(token.trim()).ok());
    held.ends_at = end.map(|end| end.at);
    if token.as_ref().is_ok_and(|token| !is_whole(token.trim())) {
        held.torn = Some(LicenseFault::Malformed);
    }
    let license = token.and_then(|token| {
        prove(token.trim(), &held.keys).or_else(|fault| {
            let before = before.license.as_ref().and_then(|before| before.as_ref().ok());
            let kept = before.filter(|before| {
                // A key that is on its way may be what proves this one.
                let may_be_proven = fault == LicenseFault::Forged && held.keys[before.by].is_torn;
                may_be_proven || !is_whole(token.trim())
            });
            // What it rests on may be gone.
            kept.and_then(|before| prove(&before.token, &held.keys).ok()).ok_or(fault)
        })
    });
    // What the other keys prove counts; what they do not, the missing one may have proven.
    let is_any_unread = is_any_torn || is_any_missing;
    held.license =
        Some(license.map_err(|fault| if is_any_unread { LicenseFault::Unreadable } else { fault }));
    held
}

/// Returns what a licence for a deployment says, where one of the keys has signed it.
fn prove(token: &str, trusted: &[Trusted]) -> Result<Proven, LicenseFault> {
    let license: License = jose::verify(token, keys(trusted))?;
    let signed = |trusted: &Trusted| jose::verify::<License>(token, &trusted.key).is_ok();
    let by = trusted.iter().position(signed).ok_or(LicenseFault::Forged)?;
    if license.agent.is_some() {
        return Err(LicenseFault::ForAgent);
    }
    Ok(Proven { license, token: token.to_owned(), by })
}

fn keys(trusted: &[Trusted]) -> impl Iterator<Item = &VerifyingKey> {
    trusted.iter().filter_map(|trusted| trusted.key.as_ref())
}

/// Reads a key; one whose file is not whole is what it was before. A file that is gone is gone on purpose.
fn read_key(file: &Path, before: Option<&Trusted>) -> Trusted {
    match fs::read(file).map(|pem| VerifyingKey::from_pem(&pem)) {
        Ok(Ok(key)) => Trusted { key: Some(key), is_torn: false },
        Ok(Err(_)) => Trusted { key: before.and_then(|before| before.key.clone()), is_torn: true },
        Err(_) => Trusted::default(),
    }
}

/// Tells whether a text has the three parts of a token, the last of them as long as a signature is. No text that was
/// cut short has.
fn is_whole(token: &str) -> bool {
    let mut parts = token.split('.');
    let (head, claims, signature) = (parts.next(), parts.next(), parts.next());
    let is_there = |part: Option<&str>| part.is_some_and(|part| !part.is_empty());
    is_there(head)
        && is_there(claims)
        && signature.is_some_and(|signature| signature.len() == SIGNATURE_CHARS)
        && parts.next().is_none()
}

/// Times as JWT has them: seconds since the epoch, which may have fractions (RFC 7519 §2). Ours have none.
mod seconds {
    use jiff::Timestamp;
    use serde::Deserialize;
    use serde::Deserializer;
    use serde::Serializer;
    use serde::de::Error;

    pub(super) fn serialize<S: Serializer>(moment: &Timestamp, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_i64(moment.as_second())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Timestamp, D::Error> {
        let seconds = serde_json::Number::deserialize(input)?;
        let read = match (seconds.as_i64(), seconds.as_f64()) {
            (Some(whole), _) => Timestamp::from_second(whole).ok(),
            // What does not fit is no time either way.
            (None, Some(parts)) => Timestamp::from_millisecond((parts * 1000.0).round() as i64).ok(),
            (None, None) => None,
        };
        read.ok_or_else(|| D::Error::custom("not a time"))
    }

    /// The same, of a moment that may be left out.
    pub(super) mod optional {
        use jiff::Timestamp;
        use serde::Deserializer;
        use serde::Serializer;

        pub(in super::super) fn serialize<S: Serializer>(
            moment: &Option<Timestamp>,
            out: S,
        ) -> Result<S::Ok, S::Error> {
            match moment {
                Some(moment) => super::serialize(moment, out),
                None => out.serialize_none(),
            }
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            input: D,
        ) -> Result<Option<Timestamp>, D::Error> {
            super::deserialize(input).map(Some)
        }
    }
}

#[cfg(test)]
mod tests;
