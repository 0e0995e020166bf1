//! Bearer tokens: short-lived JWT that the deployment signs (EdDSA), for people and for single sign-on.
//!
//! A token is verified without the store: signature, issuer, audience and times. It stops counting
//! before its end when it is revoked, or when
//! [`Authenticator`](super::authenticator::Authenticator) finds that whom it names has changed since. What was revoked is remembered for as long as the token
//! could have lived, across restarts.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::RwLock;
use serde::Deserialize;
use serde::Serialize;

use super::jose;
use super::jose::TokenFault;
use super::limit::Buckets;
use super::role::Role;
use super::secret::NodeSecret;
use super::signing::KeyRing;
use super::tier::Quota;
use super::tier::Tier;
use crate::clock::Clock;
use crate::store::Followed;
use crate::store::Fresh;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;

/// The longest a token may count.
pub const TTL_MAX: Duration = Duration::from_secs(86_400);
/// How far ahead of our clock a token may have been issued: other nodes have clocks of their own.
pub const ISSUED_AHEAD_MAX: Duration = Duration::from_secs(60);
/// The most tokens that are remembered as revoked at once.
pub const REVOKED_MAX: usize = 1_000_000;
/// How many of their own tokens one subject revokes: so many at once, and another each minute. What is remembered is
/// bounded, and nobody alone fills it.
pub const OWN_REVOCATIONS: Quota = Quota { requests_per_minute: 1, burst: 1000 };
/// The longest id of a token, in bytes.
pub const ID_BYTES_MAX: usize = 64;

/// How often revocations are looked at.
const MAINTENANCE: Duration = Duration::from_secs(60);
const AUDIENCE: &str = "portcullis";
const REVOKED_TABLE: &str = "revoked_tokens";

/// How tokens are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenConfig {
    /// How long a token counts; at most [`TTL_MAX`].
    pub ttl: Duration,
}

/// How somebody proved who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// With the password of a local user.
    Local,
    /// At an OpenID provider.
    Oidc,
    /// At a SAML identity provider.
    Saml,
}

/// Tells whether a text is written as our tokens are, and for us; not whether it counts.
pub fn is_token_text(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Named {
        #[serde(rename = "aud")]
        audience: String,
    }
    let is_jwt = text.starts_with("eyJ");
    is_jwt && jose::unverified::<Named>(text).is_ok_and(|named| named.audience == AUDIENCE)
}

/// Whom a new token is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// The token's id; unique.
    pub id: String,
    /// Whom it stands for: a user's id, or what the identity provider calls them.
    pub subject: String,
    /// The name for people.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// How much it is entitled to; none: as much as the deployment.
    pub tier: Option<Tier>,
    /// How its subject logged in.
    pub via: Via,
    /// The session it belongs to, which ends it with itself; none: it stands alone.
    pub session: Option<String>,
    /// The state of a local user that it was issued in; 0 for others.
    pub generation: u64,
    /// How long it counts; none: as configured.
    pub ttl: Option<Duration>,
}

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// The token's id.
    #[serde(rename = "jti")]
    pub id: String,
    /// Which deployment issued it.
    #[serde(rename = "iss")]
    pub issuer: String,
    /// Whom it is for: us.
    #[serde(rename = "aud")]
    pub audience: String,
    /// Whom it stands for.
    #[serde(rename = "sub")]
    pub subject: String,
    /// The name for people.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// How much it is entitled to; none: as much as the deployment.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tier: Option<Tier>,
    /// How its subject logged in.
    pub via: Via,
    /// The session it belongs to.
    #[serde(rename = "sid", skip_serializing_if = "Option::is_none", default)]
    pub session: Option<String>,
    /// The state of a local user that it was issued in.
    #[serde(rename = "gen")]
    pub generation: u64,
    /// When it was issued, in Unix seconds.
    #[serde(rename = "iat")]
    pub issued_at: i64,
    /// When it ends, in Unix seconds; from then on it does not count.
    #[serde(rename = "exp")]
    pub expires_at: i64,
}

/// A token that was made.
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    /// The token itself.
    pub token: String,
    /// What it says.
    pub claims: Claims,
}

/// Why a token does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefusal {
    /// It is none of ours, or nobody's.
    #[error(transparent)]
    Token(#[from] TokenFault),
    /// Another deployment issued it, or for somebody else.
    #[error("the token is for another deployment")]
    Foreign,
    /// It has ended.
    #[error("the token has expired")]
    Expired,
    /// It was issued in the future.
    #[error("the token is not valid yet; is the clock right?")]
    NotYet,
    /// It was revoked.
    #[error("the token was revoked")]
    Revoked,
}

/// Why a token was not revoked.
#[derive(Debug, thiserror::Error)]
pub enum RevokeError {
    /// The id cannot be one.
    #[error("a token's id has 1 to {ID_BYTES_MAX} letters, digits, - and _")]
    Id,
    /// The subject revoked too many of its own lately.
    #[error("too many of your tokens were revoked lately, try again in {retry_after_s} s")]
    TooOften {
        /// When to come back, in seconds.
        retry_after_s: u64,
    },
    /// More are revoked than are remembered.
    #[error("{REVOKED_MAX} tokens are revoked already; rotate the signing key instead")]
    TooMany,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What is kept of a revoked token.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct RevokedRecord {
    /// When it would have ended, in Unix seconds.
    expires_at: i64,
}

impl Record for RevokedRecord {
    const VERSION: u32 = 1;
}

/// Issues and verifies the deployment's tokens.
pub struct Tokens {
    config: TokenConfig,
    issuer: String,
    ring: Arc<KeyRing>,
    table: Followed<String, RevokedRecord>,
    revoked: RwLock<HashMap<String, i64>>,
    /// How many of its own each subject may still revoke.
    own: Buckets,
}

impl Via {
    /// Returns the name used in tokens and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Oidc => "oidc",
            Self::Saml => "saml",
        }
    }
}

impl Claims {
    /// Returns when the token ends.
    pub fn ends(&self) -> Timestamp {
        Timestamp::from_second(self.expires_at).unwrap_or(Timestamp::MAX)
    }
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issued").field("claims", &self.claims).finish_non_exhaustive()
    }
}

impl Tokens {
    /// Reads the revocations of a store; tokens are signed with the keys of `ring`.
    ///
    /// # Errors
    /// The store failed.
    pub fn open(
        store: &Store,
        secret: &NodeSecret,
        ring: Arc<KeyRing>,
        config: TokenConfig,
    ) -> Result<Self, StoreError> {
        let name: String =
            secret.hash("issuer", &[]).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let issuer = format!("portcullis:{name}");
        let table = Followed::new(store.table(REVOKED_TABLE));
        let own = Buckets::new([Some(OWN_REVOCATIONS); 4]);
        let tokens = Self { config, issuer, ring, table, revoked: RwLock::default(), own };
        tokens.follow()?;
        Ok(tokens)
    }

    /// Takes over what other nodes revoked. Blocks.
    ///
    /// # Errors
    /// The store failed.
    pub fn follow(&self) -> Result<(), StoreError> {
        self.table.catch_up(|fresh| self.take_over(fresh))
    }

    fn take_over(&self, fresh: Vec<Fresh<String, RevokedRecord>>) {
        let mut revoked = self.revoked.write();
        for one in fresh {
            match one {
                Fresh::Anew => revoked.clear(),
                Fresh::Put { key, record, .. } => {
                    revoked.insert(key, record.expires_at);
                }
                Fresh::Gone { key } => {
                    revoked.remove(&key);
                }
            }
        }
    }

    /// Issues a token.
    pub fn issue(&self, new: NewToken, now: Timestamp) -> Issued {
        let NewToken { id, subject, name, role, tier, via, session, generation, ttl } = new;
        let ttl = ttl.unwrap_or(self.config.ttl).min(TTL_MAX);
        let issued_at = now.as_second();
        let claims = Claims {
            id,
            issuer: self.issuer.clone(),
            audience: AUDIENCE.to_owned(),
            subject,
            name,
            role,
            tier,
            via,
            session,
            generation,
            issued_at,
            expires_at: issued_at.saturating_add_unsigned(ttl.as_secs()),
        };
        Issued { token: self.ring.sign(&claims), claims }
    }

    /// Returns what a token says, where it counts. Whether its subject is still who they were, the caller
    /// has to ask.
    ///
    /// # Errors
    /// See [`TokenRefusal`].
    pub fn verify(&self, token: &str, now: Timestamp) -> Result<Claims, TokenRefusal> {
        let claims: Claims = self.ring.verify(token, now)?;
        if claims.issuer != self.issuer || claims.audience != AUDIENCE {
            return Err(TokenRefusal::Foreign);
        }
        self.check(&claims, now).map(|()| claims)
    }

    /// Tells whether claims that were verified once still count.
    pub fn still_counts(&self, claims: &Claims, now: Timestamp) -> bool {
        self.check(claims, now).is_ok()
    }

    fn check(&self, claims: &Claims, now: Timestamp) -> Result<(), TokenRefusal> {
        let second = now.as_second();
        if claims.issued_at > second.saturating_add_unsigned(ISSUED_AHEAD_MAX.as_secs()) {
            return Err(TokenRefusal::NotYet);
        }
        if claims.expires_at <= second {
            return Err(TokenRefusal::Expired);
        }
        let is_revoked = self.revoked.read().contains_key(&claims.id);
        if is_revoked { Err(TokenRefusal::Revoked) } else { Ok(()) }
    }

    /// Makes a token of a subject's own count no more, as [`Tokens::revoke`] does; not too many of them.
    ///
    /// # Errors
    /// See [`RevokeError`].
    pub fn revoke_own(&self, id: &str, subject: &str, now: Timestamp) -> Result<(), RevokeError> {
        let left = self.own.take(subject, Tier::Community, now);
        match left.allowed {
            true => self.revoke(id, now),
            false => Err(RevokeError::TooOften { retry_after_s: left.retry_after_s }),
        }
    }

    /// Makes a token count no more, whether or not there is one of that id. Blocks for a disk sync.
    ///
    /// # Errors
    /// See [`RevokeError`].
    pub fn revoke(&self, id: &str, now: Timestamp) -> Result<(), RevokeError> {
        let is_sane = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if !(1..=ID_BYTES_MAX).contains(&id.len()) || !id.bytes().all(is_sane) {
            return Err(RevokeError::Id);
        }
        let expires_at = now.as_second().saturating_add_unsigned((TTL_MAX + ISSUED_AHEAD_MAX).as_secs());
        self.table.change(
            |fresh| self.take_over(fresh),
            |batch| {
                let revoked = self.revoked.read();
                if revoked.len() >= REVOKED_MAX && !revoked.contains_key(id) {
                    return Err(RevokeError::TooMany);
                }
                Ok(self.table.table().put_in(batch, &id.to_owned(), &RevokedRecord { expires_at })?)
            },
        )
    }

    /// Forgets revocations that need not be remembered.
    ///
    /// # Errors
    /// The store failed; nothing was forgotten.
    pub fn maintain(&self, now: Timestamp) -> Result<(), StoreError> {
        self.table.note(
            |fresh| self.take_over(fresh),
            |batch| {
                let revoked = self.revoked.read();
                let ended = revoked.iter().filter(|(_, expires_at)| **expires_at <= now.as_second());
                ended.for_each(|(id, _)| self.table.table().delete_in(batch, id));
                Ok(())
            },
        )
    }

    /// Does [`Tokens::maintain`] from time to time until `shutdown` resolves.
    pub async fn run(self: Arc<Self>, clock: Arc<dyn Clock>, shutdown: impl Future<Output = ()>) {
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => return,
                () = tokio::time::sleep(MAINTENANCE) => {}
            }
            let (tokens, now) = (Arc::clone(&self), clock.now());
            match tokio::task::spawn_blocking(move || tokens.maintain(now)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(%error, "revoked tokens could not be forgotten"),
                Err(_) => tracing::error!("the maintenance of tokens panicked"),
            }
        }
    }

    /// Returns how long a token counts.
    pub fn ttl(&self) -> Duration {
        self.config.ttl.min(TTL_MAX)
    }
}

#[cfg(test)]
mod tests;
