//! Signing in by OpenID Connect: the authorization code flow with PKCE (RFC 6749, RFC 7636, OpenID Connect Core).
//!
//! In: the wish to sign in, and later the code a browser brings back. Out: where to send the browser, and an
//! [`Identity`](crate::access::session::Identity). The code is exchanged and the claims are fetched over connections of our own; of what passes
//! through the browser, only an [`Attempt`] of ours with its state is believed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use http::StatusCode;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;

use super::Hidden;
use super::Mapping;
use super::OidcConfig;
use super::SignedIn;
use super::attempt::Attempt;
use super::attempt::AttemptFault;
use super::attempt::Attempts;
use super::claims;
use super::claims::ClaimFault;
use super::claims::Claims;
use super::fetch::FetchFault;
use super::fetch::Fetcher;
use super::fetch::Question;
use super::logout_token;
use super::logout_token::Leaving;
use super::provider::Metadata;
use super::provider::Provider;
use super::refusal;
use crate::access::jose::TOKEN_BYTES_MAX;
use crate::access::jose::jwks::JwksFault;
use crate::access::secret::NodeSecret;
use crate::access::url::Origin;
use crate::clock::Clock;

/// The longest code that is passed on, in bytes.
const CODE_BYTES_MAX: usize = 4096;
/// The most logout tokens that are remembered as used; past it none is taken until some are forgotten.
pub const LOGOUTS_MAX: usize = 100_000;
const LOGOUT_PURPOSE: &str = "sso-logout-used";
/// How long a logout token is remembered: as long as one may count, and clocks differ.
const LOGOUT_KEPT: Duration = Duration::from_secs(720);

/// Why somebody was not signed in.
#[derive(Debug, thiserror::Error)]
pub enum SsoFault {
    /// The browser that came back is not the one that left.
    #[error(transparent)]
    Attempt(#[from] AttemptFault),
    /// The provider said no, or its user did.
    #[error("the identity provider refused the sign-in")]
    Refused,
    /// The provider does not take requests as we send them.
    #[error(
        "the identity provider does not take this gateway's requests ({0}): whoever runs it has to look at [sso.oidc]"
    )]
    Settings(&'static str),
    /// The provider cannot sign anybody in.
    #[error("the identity provider cannot sign anybody in at the moment ({0})")]
    Unwell(&'static str),
    /// The answer has no code, and no error either; or one of them twice.
    #[error("the answer of the identity provider cannot be read")]
    Unreadable,
    /// The answer names another provider, or none where one is promised.
    #[error("the answer comes from another identity provider")]
    ForeignAnswer,
    /// The provider could not be asked.
    #[error(transparent)]
    Fetch(#[from] FetchFault),
    /// What the provider publishes cannot be used.
    #[error("the identity provider's metadata or keys cannot be used")]
    Metadata,
    /// What is published is about another provider.
    #[error("the identity provider's metadata name another issuer")]
    ForeignMetadata,
    /// The secret that goes with our name there cannot be read.
    #[error("the client secret cannot be read")]
    Secret,
    /// The code bought no usable token.
    #[error("the identity provider gave no usable token for the code")]
    NoToken,
    /// The token is not the provider's.
    #[error(transparent)]
    Token(#[from] JwksFault),
    /// The token says the wrong things.
    #[error(transparent)]
    Claim(#[from] ClaimFault),
    /// What the provider tells of the user is about somebody else.
    #[error("the identity provider answered about another user")]
    ForeignUser,
    /// The user of this name at the provider has no role here.
    #[error("none of the user's groups has a role here")]
    NoRole(Hidden),
    /// The logout token came before, or too many came lately.
    #[error("the logout token was used already")]
    UsedLogout,
}

/// Reads the client's secret; `None` where it cannot be read.
pub type ReadClientSecret = Box<dyn Fn() -> Option<Hidden> + Send + Sync>;

/// What a browser brings back from the provider.
#[derive(Clone, Debug, Default)]
pub struct Returned<'a> {
    /// The cookie of the attempt.
    pub cookie: Option<&'a str>,
    /// The state.
    pub state: Option<&'a str>,
    /// The code.
    pub code: Option<&'a str>,
    /// The error that the provider names instead.
    pub error: Option<&'a str>,
    /// The provider's name (RFC 9207).
    pub issuer: Option<&'a str>,
}

/// One identity provider, and our part of the protocol.
pub struct OidcClient {
    config: Arc<OidcConfig>,
    fetcher: Fetcher,
    provider: Provider,
    attempts: Attempts,
    node: NodeSecret,
    /// The logout tokens that came, and until when each is remembered.
    logouts: Mutex<HashMap<[u8; 32], Timestamp>>,
    secret: ReadClientSecret,
    clock: Arc<dyn Clock>,
}

/// The answer to a code.
#[derive(Deserialize)]
struct Bought {
    id_token: String,
    access_token: Option<String>,
}

impl OidcClient {
    /// Returns a client that has not asked its provider anything yet.
    pub fn new(
        config: OidcConfig,
        fetcher: Fetcher,
        secret: ReadClientSecret,
        node: NodeSecret,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let config = Arc::new(config);
        let provider = Provider::new(Arc::clone(&config), fetcher.clone(), Arc::clone(&clock));
        let (attempts, logouts) = (Attempts::new(node.clone()), Mutex::default());
        Self { config, fetcher, provider, attempts, node, logouts, secret, clock }
    }

    /// Returns which of its claims is what.
    pub fn mapping(&self) -> &Mapping {
        &self.config.mapping
    }

    /// Returns the provider's host, which people know it by.
    pub fn host(&self) -> &str {
        self.config.issuer.host()
    }

    /// Returns the origin a browser is sent to for signing out there, as far as it is known yet.
    pub fn end_session_origin(&self) -> Option<Origin> {
        Some(self.provider.known_metadata()?.end_session.as_ref()?.origin())
    }

    /// Begins a sign-in that leads to `next` in the end; returns where to send the browser, and what it keeps.
    ///
    /// # Errors
    /// The provider's metadata cannot be had.
    pub async fn begin(&self, next: &str) -> Result<(String, Attempt), SsoFault> {
        let metadata = self.provider.metadata().await?;
        let attempt = self.attempts.begin(next, self.clock.now());
        let scope = self.config.scopes.join(" ");
        let address = metadata.authorization.with_query(&[
            ("response_type", "code"),
            ("client_id", &self.config.client_id),
            ("redirect_uri", self.config.redirect_url.as_str()),
            ("scope", &scope),
            ("state", &attempt.state),
            ("nonce", &attempt.nonce),
            ("code_challenge", &attempt.challenge()),
            ("code_challenge_method", "S256"),
        ]);
        Ok((address, attempt))
    }

    /// Completes a sign-in with what the browser brought back.
    ///
    /// # Errors
    /// See [`SsoFault`]; the attempt is used up only where it lets somebody in.
    pub async fn complete(&self, returned: Returned<'_>) -> Result<SignedIn, SsoFault> {
        let attempt = self.attempts.take_back(returned.cookie, returned.state, self.clock.now())?;
        let metadata = self.provider.metadata().await?;
        match returned.issuer {
            Some(issuer) if issuer != self.config.issuer.as_str() => return Err(SsoFault::ForeignAnswer),
            None if metadata.names_itself => return Err(SsoFault::ForeignAnswer),
            _ => {}
        }
        if let Some(error) = returned.error {
            return Err(refusal::fault_of(error));
        }
        let code = returned.code.filter(|code| (1..=CODE_BYTES_MAX).contains(&code.len()));
        let bought = self.buy(&metadata, code.ok_or(SsoFault::Unreadable)?, &attempt).await?;
        let mut claims = self.verified(&metadata, &bought.id_token).await?;
        claims::judge(&claims, &self.config, &attempt.nonce, self.clock.now())?;
        if !claims::has_roles(&claims, &self.config.mapping) {
            self.ask_about_user(&metadata, &bought, &mut claims).await?;
        }
        let issuer = self.config.issuer.as_str();
        let Some(identity) = claims::identity(&claims, issuer, &self.config.mapping) else {
            return Err(SsoFault::NoRole(Hidden(claims::subject(&claims)?.to_owned())));
        };
        Ok(SignedIn { identity, next: attempt.lead_in(), logout_hint: Hidden(bought.id_token) })
    }

    /// Takes a logout token that the provider sends by itself; each counts once.
    ///
    /// # Errors
    /// It is not the provider's, says the wrong things, or came before.
    pub async fn take_logout(&self, token: &str) -> Result<Leaving, SsoFault> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(SsoFault::NoToken);
        }
        let metadata = self.provider.metadata().await?;
        let claims = self.verified(&metadata, token).await?;
        let now = self.clock.now();
        let leaving = logout_token::judge(&claims, &self.config, now)?;
        let mut logouts = self.logouts.lock();
        if logouts.len() >= LOGOUTS_MAX {
            logouts.retain(|_, until| *until > now);
        }
        let until = now.checked_add(LOGOUT_KEPT).unwrap_or(Timestamp::MAX);
        let id = self.node.hash(LOGOUT_PURPOSE, leaving.token_id.as_bytes());
        if logouts.len() >= LOGOUTS_MAX || logouts.insert(id, until).is_some() {
            return Err(SsoFault::UsedLogout);
        }
        Ok(leaving)
    }

    /// Returns the provider's name.
    pub fn issuer(&self) -> &str {
        self.config.issuer.as_str()
    }

    /// Returns where to send a browser to sign out at the provider; `None` where it offers no such place, or was
    /// not asked yet and cannot be asked now.
    pub async fn end_session_url(&self, hint: Option<&str>) -> Option<String> {
        let metadata = self.provider.metadata().await.ok()?;
        let mut pairs = vec![("client_id", self.config.client_id.as_str())];
        pairs.extend(hint.map(|hint| ("id_token_hint", hint)));
        pairs.extend(self.config.signed_out_url.as_deref().map(|url| ("post_logout_redirect_uri", url)));
        Some(metadata.end_session.as_ref()?.with_query(&pairs))
    }

    /// Exchanges a code for tokens.
    async fn buy(&self, metadata: &Metadata, code: &str, attempt: &Attempt) -> Result<Bought, SsoFault> {
        let question = self.purchase(metadata, code, attempt)?;
        let answer = self.fetcher.ask(&metadata.token, question).await?;
        match answer.status {
            StatusCode::OK => {
                let bought = serde_json::from_slice(&answer.body).map_err(|_| SsoFault::NoToken)?;
                Some(bought)
                    .filter(|it: &Bought| it.id_token.len() <= TOKEN_BYTES_MAX)
                    .ok_or(SsoFault::NoToken)
            }
            status if status.is_client_error() => Err(refusal::fault_in(&answer.body)),
            _ => Err(SsoFault::NoToken),
        }
    }

    /// Returns the request that exchanges a code.
    fn purchase(&self, metadata: &Metadata, code: &str, attempt: &Attempt) -> Result<Question, SsoFault> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", self.config.redirect_url.as_str())
            .append_pair("code_verifier", &attempt.verifier);
        let mut question = Question::default();
        match self.client_secret()? {
            Some(secret) if !metadata.secret_in_form => {
                question.authorization = Some(basic(&self.config.client_id, &secret)?);
            }
            secret => {
                form.append_pair("client_id", &self.config.client_id);
                if let Some(secret) = secret {
                    form.append_pair("client_secret", &secret.0);
                }
            }
        }
        question.form = Some(form.finish());
        Ok(question)
    }

    fn client_secret(&self) -> Result<Option<Hidden>, SsoFault> {
        match self.config.client_secret {
            None => Ok(None),
            Some(_) => (self.secret)().map(Some).ok_or(SsoFault::Secret),
        }
    }

    /// Returns the claims of a token that one of the provider's keys has signed; fetches the keys again where the
    /// token names one that is new.
    async fn verified(&self, metadata: &Metadata, token: &str) -> Result<Claims, SsoFault> {
        match self.provider.keys(metadata).await?.verify(token) {
            Err(JwksFault::UnknownKey) => Ok(self.provider.keys_again(metadata).await?.verify(token)?),
            verified => Ok(verified?),
        }
    }

    /// Adds to the claims what the provider tells of its user only when asked. Claims of the token win.
    async fn ask_about_user(
        &self,
        metadata: &Metadata,
        bought: &Bought,
        claims: &mut Claims,
    ) -> Result<(), SsoFault> {
        let (Some(endpoint), Some(token)) = (&metadata.userinfo, &bought.access_token) else { return Ok(()) };
        let bearer = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| SsoFault::NoToken)?;
        let question = Question { form: None, authorization: Some(bearer) };
        let answer = self.fetcher.ask(endpoint, question).await?;
        if answer.status != StatusCode::OK {
            return Ok(());
        }
        let Ok(Value::Object(told)) = serde_json::from_slice(&answer.body) else { return Ok(()) };
        if claims::subject(&told)? != claims::subject(claims)? {
            return Err(SsoFault::ForeignUser);
        }
        for (name, value) in told {
            claims.entry(name).or_insert(value);
        }
        Ok(())
    }
}

/// Returns the `Authorization` of a client (RFC 6749, section 2.3.1: both parts are encoded as in a form first).
fn basic(client_id: &str, secret: &Hidden) -> Result<HeaderValue, SsoFault> {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = STANDARD.encode(format!("{}:{}", encoded(client_id), encoded(&secret.0)));
    let mut value = HeaderValue::from_str(&format!("Basic {pair}")).map_err(|_| SsoFault::Secret)?;
    value.set_sensitive(true);
    Ok(value)
}
