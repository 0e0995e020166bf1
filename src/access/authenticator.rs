//! Whom a credential stands for: the one place that both planes ask, whatever the kind of credential.

use std::sync::Arc;

use jiff::Timestamp;

use super::credential::Principal;
use super::credential::Proof;
use super::key::KeyStore;
use super::patience::Patience;
use super::session::Holder;
use super::session::SessionRecord;
use super::session::SessionStore;
use super::session::shared::Untold;
use super::sso::IdentityProvider;
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
    /// The sessions of those who signed in with a browser, which their tokens end with.
    pub sessions: Arc<SessionStore>,
    /// Who vouches for people from elsewhere, where somebody does. What another one vouched for counts no more, nor
    /// what would mean something else by today's configuration: such people sign in again.
    pub provider: Option<IdentityProvider>,
}

impl Authenticator {
    /// Returns whom a credential stands for; `None` for what is none, is unknown, has ended or was revoked. Whether the
    /// session that a token ends with has ended is asked of all nodes, where they share that.
    ///
    /// # Errors
    /// Nobody can tell whether that session has ended.
    pub async fn authenticate(
        &self,
        credential: &str,
        now: Timestamp,
        patience: &Patience,
    ) -> Result<Option<Principal>, Untold> {
        if !credential.contains('.') {
            return Ok(self.keys.authenticate(credential, now));
        }
        let Ok(claims) = self.tokens.verify(credential, now) else { return Ok(None) };
        if let Some(session) = &claims.session
            && !self.sessions.goes_on(session, patience).await?
        {
            return Ok(None);
        }
        Ok(self.admit(claims, now))
    }

    /// Tells whether a credential that was good is still good, and for no less than then.
    pub fn still_counts(&self, principal: &Principal, now: Timestamp) -> bool {
        match &principal.proof {
            Proof::Key(text) => {
                self.keys.principal(&principal.id, *text, now).is_some_and(|key| key.role == principal.role)
            }
            Proof::Token(claims) => {
                self.tokens.still_counts(claims, now) && self.admit(claims.clone(), now).is_some()
            }
            Proof::Session { id, .. } => {
                let holder = self.sessions.of_id(id, now).and_then(|session| self.holder(&session, now));
                holder.is_some_and(|holder| holder.role == principal.role)
            }
        }
    }

    /// Returns whom a session stands for now; `None` when its holder is no more, or has changed since.
    pub fn holder(&self, session: &SessionRecord, now: Timestamp) -> Option<Principal> {
        let of_session = |by_key| Proof::Session { id: session.id.clone(), by_key };
        let (id, scope, proof) = (session.holder.id(), Arc::default(), of_session(false));
        match &session.holder {
            Holder::Key { id, text } => {
                let key = self.keys.principal(id, *text, now)?;
                Some(Principal { proof: of_session(true), ..key })
            }
            Holder::User { id: user, generation } => {
                let user = self.users.in_generation(user, *generation)?;
                let tier = user.tier.unwrap_or(Tier::OF_THE_DEPLOYMENT);
                Some(Principal { id, name: user.name, role: user.role, tier, scope, proof })
            }
            Holder::Sso(identity) => {
                self.provider.as_ref().filter(|provider| provider.stands_by(identity))?;
                let (name, role) = (identity.name.clone(), identity.role);
                Some(Principal { id, name, role, tier: Tier::OF_THE_DEPLOYMENT, scope, proof })
            }
        }
    }

    /// Returns whom verified claims stand for now.
    fn admit(&self, claims: Claims, now: Timestamp) -> Option<Principal> {
        let session = match &claims.session {
            Some(session) => Some(self.sessions.of_id(session, now)?),
            None => None,
        };
        let (id, name) = (claims.subject.clone(), claims.name.clone());
        let (role, tier) = match claims.via {
            Via::Local => {
                let user = self.users.in_generation(&claims.subject, claims.generation)?;
                (user.role, user.tier)
            }
            Via::Oidc | Via::Saml => (self.holder(session.as_ref()?, now)?.role, claims.tier),
        };
        let tier = tier.unwrap_or(Tier::OF_THE_DEPLOYMENT);
        Some(Principal { id, name, role, tier, scope: Arc::default(), proof: Proof::Token(claims) })
    }
}
