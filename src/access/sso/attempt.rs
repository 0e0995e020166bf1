//! One sign-in under way, between leaving for the identity provider and coming back.
//!
//! All of it follows from a seed of 256 random bits that only the browser keeps, in a cookie that the node's
//! secret has sealed: `state`, `nonce` and the PKCE verifier are keyed hashes of it. Whoever starts sign-ins
//! without end therefore fills no memory here. A seed with which somebody was let in counts no more, which is all
//! that is remembered, for as long as the cookie would be taken; one that led nowhere is forgotten again, so that
//! only the provider's own users can make us remember.

use std::collections::HashMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use parking_lot::Mutex;
use sha2::Digest;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::access::secret::NodeSecret;

/// How long somebody may take to sign in at the provider.
pub const ATTEMPT_LIFETIME: Duration = Duration::from_secs(600);
/// The most attempts that are remembered as used, or are being judged; past it nobody signs in until some are forgotten.
pub const USED_MAX: usize = 100_000;
const SEED_BYTES: usize = 32;
const SEAL_PURPOSE: &str = "sso-attempt";
const USED_PURPOSE: &str = "sso-attempt-used";

/// A sign-in under way.
#[derive(Clone, PartialEq, Eq)]
pub struct Attempt {
    /// What the provider gives back as it is.
    pub state: String,
    /// What the provider puts into its token.
    pub nonce: String,
    /// What only whoever began the sign-in can show with the code (RFC 7636).
    pub verifier: String,
    /// What the browser keeps in its cookie.
    pub sealed: String,
    /// Where to go in the end: a path of ours.
    pub next: String,
    expires_at: Timestamp,
}

/// Why a browser that comes back is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttemptFault {
    /// It carries no attempt of ours, or one that is too old.
    #[error("no sign-in is under way in this browser, or it took too long")]
    None,
    /// The provider's answer belongs to another attempt.
    #[error("the answer belongs to another sign-in")]
    Foreign,
    /// The attempt has come back before.
    #[error("the sign-in was completed already")]
    Used,
    /// Too many have come back lately.
    #[error("too many sign-ins are under way")]
    TooMany,
}

/// An attempt that has come back and is being judged: nobody else has it meanwhile. Unless it
/// [leads in](Judged::lead_in), it is given back when dropped.
#[derive(Debug)]
pub struct Judged<'a> {
    attempts: &'a Attempts,
    attempt: Attempt,
    leads_in: bool,
}

/// Makes attempts, and takes each back once.
pub struct Attempts {
    secret: NodeSecret,
    used: Mutex<HashMap<[u8; 32], Timestamp>>,
}

impl Attempt {
    /// Returns what is shown of the verifier beforehand, by method S256.
    pub fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier.as_bytes()))
    }
}

impl Judged<'_> {
    /// Uses the attempt up; returns where it leads.
    pub fn lead_in(mut self) -> String {
        self.leads_in = true;
        self.attempt.next.clone()
    }
}

impl std::ops::Deref for Judged<'_> {
    type Target = Attempt;

    fn deref(&self) -> &Attempt {
        &self.attempt
    }
}

impl Drop for Judged<'_> {
    fn drop(&mut self) {
        if !self.leads_in {
            self.attempts.used.lock().remove(&self.attempts.used_as(&self.attempt));
        }
    }
}

impl std::fmt::Debug for Attempts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attempts").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Attempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attempt").field("next", &self.next).finish_non_exhaustive()
    }
}

impl Attempts {
    /// Returns attempts that a node's secret seals.
    pub fn new(secret: NodeSecret) -> Self {
        Self { secret, used: Mutex::default() }
    }

    /// Begins one that leads to a path of ours in the end.
    pub fn begin(&self, next: &str, now: Timestamp) -> Attempt {
        let mut seed = [0; SEED_BYTES];
        getrandom::fill(&mut seed).expect("the operating system gives random bytes");
        // Whole seconds, as the cookie has them.
        let expires_at = now.as_second().saturating_add_unsigned(ATTEMPT_LIFETIME.as_secs());
        self.of_seed(seed, next, Timestamp::from_second(expires_at).unwrap_or(Timestamp::MAX))
    }

    /// Takes back the attempt of a cookie, with the state that came with it; each lets in once.
    ///
    /// # Errors
    /// See [`AttemptFault`].
    pub fn take_back(
        &self,
        cookie: Option<&str>,
        state: Option<&str>,
        now: Timestamp,
    ) -> Result<Judged<'_>, AttemptFault> {
        let attempt = cookie.and_then(|cookie| self.unsealed(cookie)).ok_or(AttemptFault::None)?;
        if attempt.expires_at <= now {
            return Err(AttemptFault::None);
        }
        let is_same = state.is_some_and(|state| attempt.state.as_bytes().ct_eq(state.as_bytes()).into());
        if !is_same {
            return Err(AttemptFault::Foreign);
        }
        let mut used = self.used.lock();
        if used.len() >= USED_MAX {
            used.retain(|_, expires_at| *expires_at > now);
        }
        if used.len() >= USED_MAX {
            return Err(AttemptFault::TooMany);
        }
        match used.insert(self.used_as(&attempt), attempt.expires_at) {
            Some(_) => Err(AttemptFault::Used),
            None => Ok(Judged { attempts: self, attempt, leads_in: false }),
        }
    }

    fn used_as(&self, attempt: &Attempt) -> [u8; 32] {
        self.secret.hash(USED_PURPOSE, attempt.state.as_bytes())
    }

    fn unsealed(&self, cookie: &str) -> Option<Attempt> {
        let (body, given) = cookie.rsplit_once('.')?;
        if !bool::from(self.seal(body).as_bytes().ct_eq(given.as_bytes())) {
            return None;
        }
        let mut parts = body.split('.');
        let (seed, expires_at, next) = (parts.next()?, parts.next()?, parts.next()?);
        let seed = URL_SAFE_NO_PAD.decode(seed).ok()?.try_into().ok()?;
        let next = String::from_utf8(URL_SAFE_NO_PAD.decode(next).ok()?).ok()?;
        Some(self.of_seed(seed, &next, Timestamp::from_second(expires_at.parse().ok()?).ok()?))
    }

    fn of_seed(&self, seed: [u8; SEED_BYTES], next: &str, expires_at: Timestamp) -> Attempt {
        let derived = |purpose| URL_SAFE_NO_PAD.encode(self.secret.hash(purpose, &seed));
        let (seed_text, next_text) = (URL_SAFE_NO_PAD.encode(seed), URL_SAFE_NO_PAD.encode(next));
        let body = format!("{seed_text}.{}.{next_text}", expires_at.as_second());
        Attempt {
            state: derived("sso-state"),
            nonce: derived("sso-nonce"),
            verifier: derived("sso-verifier"),
            sealed: format!("{body}.{}", self.seal(&body)),
            next: next.to_owned(),
            expires_at,
        }
    }

    fn seal(&self, body: &str) -> String {
        URL_SAFE_NO_PAD.encode(self.secret.hash(SEAL_PURPOSE, body.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    #[test]
    fn an_attempt_leads_in_once_and_in_time() {
        let attempts = Attempts::new(NodeSecret::random());
        let begun = attempts.begin("/x", at(0));
        let (cookie, state) = (begun.sealed.clone(), begun.state.clone());
        let fault =
            |cookie: Option<&str>, state: Option<&str>, now| attempts.take_back(cookie, state, now).err();
        assert_eq!(fault(None, Some(&state), at(1)), Some(AttemptFault::None));
        assert_eq!(fault(Some(&cookie), None, at(1)), Some(AttemptFault::Foreign));
        let other = attempts.begin("/", at(0)).state;
        assert_eq!(fault(Some(&cookie), Some(&other), at(1)), Some(AttemptFault::Foreign));
        assert_eq!(fault(Some(&cookie), Some(&state), at(600)), Some(AttemptFault::None));
        let judged = attempts.take_back(Some(&cookie), Some(&state), at(598)).unwrap();
        assert_eq!(judged.nonce, begun.nonce);
        assert_eq!(
            fault(Some(&cookie), Some(&state), at(598)),
            Some(AttemptFault::Used),
            "nobody else has it"
        );
        drop(judged);
        let judged = attempts.take_back(Some(&cookie), Some(&state), at(599)).unwrap();
        assert_eq!(judged.lead_in(), "/x");
        assert_eq!(fault(Some(&cookie), Some(&state), at(599)), Some(AttemptFault::Used));
    }

    #[test]
    fn who_is_not_let_in_leaves_nothing_behind() {
        let attempts = Attempts::new(NodeSecret::random());
        for _ in 0..100 {
            let begun = attempts.begin("/", at(0));
            drop(attempts.take_back(Some(&begun.sealed), Some(&begun.state), at(1)).unwrap());
        }
        assert!(attempts.used.lock().is_empty());
    }

    #[test]
    fn nobody_else_can_make_one() {
        let (attempts, others) = (Attempts::new(NodeSecret::random()), Attempts::new(NodeSecret::random()));
        let foreign = others.begin("/", at(0));
        let fault = |cookie: &str| attempts.take_back(Some(cookie), Some(&foreign.state), at(1)).unwrap_err();
        assert_eq!(fault(&foreign.sealed), AttemptFault::None);
        let own = attempts.begin("/", at(0)).sealed;
        let longer = own.replace(&format!(".{}.", 1_000_600), ".9000000000.");
        assert_ne!(own, longer);
        for cookie in ["", ".", "...", "a.b.c.d", &longer, own.rsplit_once('.').unwrap().0] {
            assert_eq!(fault(cookie), AttemptFault::None, "{cookie}");
        }
    }

    #[test]
    fn what_is_derived_differs_and_has_the_length_that_pkce_wants() {
        let begun = Attempts::new(NodeSecret::random()).begin("/", at(0));
        let all = [begun.state.clone(), begun.nonce.clone(), begun.verifier.clone(), begun.challenge()];
        assert!(all.iter().all(|text| text.len() == 43));
        assert!((0..4).all(|a| (0..a).all(|b| all[a] != all[b])));
        assert!(all.iter().all(|text| !begun.sealed.contains(text.as_str())));
    }
}
