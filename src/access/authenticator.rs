//! Whom a credential stands for: the one place that both planes ask, whatever the kind of credential.

use std::sync::Arc;

use jiff::Timestamp;

use super::credential::Principal;
use super::credential::Proof;
use super::key::KeyStore;
use super::session::SessionStore;
use super::tier::Tier;
use super::token::Claims;
use super::token::Tokens;
use super::token::Via;
use super::user::Users;

/// Everything that can say yes to a credential.
#[derive(Clone)]
pub struct Authenticator {
    /// API keys.
    pub keys: Arc<KeyStore>,
    /// Bearer tokens.
    pub tokens: Arc<Tokens>,
    /// The local users that tokens were issued to.
    pub users: Arc<Users>,
    /// The sessions of those who signed in with a browser.
    pub sessions: Arc<SessionStore>,
}

impl Authenticator {
    /// Returns whom a credential stands for; `None` for what is none, is unknown, has ended or was revoked.
    pub fn authenticate(&self, credential: &str, now: Timestamp) -> Option<Principal> {
        match credential.contains('.') {
            true => self.admit(self.tokens.verify(credential, now).ok()?),
            false => self.keys.authenticate(credential, now),
        }
    }

    /// Tells whether a credential that was good is still good, and for no less than then.
    pub fn still_counts(&self, principal: &Principal, now: Timestamp) -> bool {
        match &principal.proof {
            Proof::Key => self.key_counts(principal, now),
            Proof::Session { id, by_key } => {
                self.sessions.counts(id, now) && (!by_key || self.key_counts(principal, now))
            }
            Proof::Token(claims) => {
                self.tokens.still_counts(claims, now) && self.admit(claims.clone()).is_some()
            }
        }
    }

    fn key_counts(&self, principal: &Principal, now: Timestamp) -> bool {
        self.keys.get(&principal.id).is_some_and(|key| key.role == principal.role && key.counts(now))
    }

    /// Returns whom verified claims stand for now.
    fn admit(&self, claims: Claims) -> Option<Principal> {
        let (id, name) = (claims.subject.clone(), claims.name.clone());
        let (role, tier) = match claims.via {
            Via::Local => {
                let user = self.users.in_generation(&claims.subject, claims.generation)?;
                (user.role, user.tier)
            }
            Via::Oidc | Via::Saml => (claims.role, claims.tier),
        };
        let tier = tier.unwrap_or(Tier::Enterprise);
        Some(Principal { id, name, role, tier, scope: Arc::default(), proof: Proof::Token(claims) })
    }
}
