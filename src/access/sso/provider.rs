//! What a provider publishes about itself (OpenID Connect Discovery), kept for a while.
//!
//! One asks at a time, so that a provider that comes back is not met by a herd; while it hangs, one in a while waits for
//! it and the others are answered at once. Metadata that cannot be had anew
//! stay what they were; keys do not: a key that the provider no longer publishes stops counting within the hour.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::Semaphore;

use super::OidcConfig;
use super::fetch::FetchFault;
use super::fetch::Fetcher;
use super::fetch::Question;
use super::oidc::SsoFault;
use crate::access::jose::jwks::JwkSet;
use crate::access::url::Endpoint;
use crate::clock::Clock;

const WELL_KNOWN: &str = "/.well-known/openid-configuration";
/// How long metadata and keys are used.
pub const KEPT_FOR: Duration = Duration::from_secs(3600);
/// How soon keys are fetched again because a token names one that is not among them.
pub const KEYS_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// How long a provider that was too slow is not asked again.
pub const SLOW_FOR: Duration = Duration::from_secs(10);

/// Where a provider's endpoints are, and how it wants to be spoken to.
#[derive(Clone, Debug)]
pub(super) struct Metadata {
    pub authorization: Endpoint,
    pub token: Endpoint,
    pub userinfo: Option<Endpoint>,
    pub end_session: Option<Endpoint>,
    /// Whether the client's secret goes into the form, instead of the `Authorization` header.
    pub secret_in_form: bool,
    /// Whether every answer names the provider (RFC 9207).
    pub names_itself: bool,
    keys: Endpoint,
}

/// A provider, asked when it has to be.
pub(super) struct Provider {
    config: Arc<OidcConfig>,
    fetcher: Fetcher,
    clock: Arc<dyn Clock>,
    held: Mutex<Held>,
    asking: Semaphore,
}

#[derive(Default)]
struct Held {
    metadata: Option<(Arc<Metadata>, Duration)>,
    keys: Option<(Arc<JwkSet>, Duration)>,
    slow: Option<Duration>,
}

/// The document, as far as it is read.
#[derive(Deserialize)]
struct Published {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    end_session_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

impl Provider {
    /// Returns a provider of which nothing was asked yet: what it publishes is fetched when it is first needed.
    pub fn new(config: Arc<OidcConfig>, fetcher: Fetcher, clock: Arc<dyn Clock>) -> Self {
        Self { config, fetcher, clock, held: Mutex::default(), asking: Semaphore::new(1) }
    }

    /// Returns the metadata; those that were had before, where the provider cannot be asked now.
    pub async fn metadata(&self) -> Result<Arc<Metadata>, SsoFault> {
        if let Some(fresh) = self.fresh_metadata() {
            return Ok(fresh);
        }
        if let Some(known) = self.known_metadata().filter(|_| self.is_slow()) {
            return Ok(known);
        }
        let _turn = self.asking.acquire().await;
        // Whoever had the turn before may have asked.
        if let Some(fresh) = self.fresh_metadata() {
            return Ok(fresh);
        }
        let asked = self.discover().await;
        let mut held = self.held.lock();
        match (asked, held.metadata.as_ref()) {
            (Ok(found), _) => {
                let found = Arc::new(found);
                held.metadata = Some((Arc::clone(&found), self.clock.monotonic()));
                Ok(found)
            }
            (Err(fault), Some((known, _))) => {
                tracing::warn!(error = %fault, "the identity provider's metadata could not be refreshed");
                Ok(Arc::clone(known))
            }
            (Err(fault), None) => Err(fault),
        }
    }

    /// Returns the metadata if they were had at any time, without asking.
    pub fn known_metadata(&self) -> Option<Arc<Metadata>> {
        self.held.lock().metadata.as_ref().map(|(known, _)| Arc::clone(known))
    }

    /// Returns the keys.
    pub async fn keys(&self, metadata: &Metadata) -> Result<Arc<JwkSet>, SsoFault> {
        self.keys_not_older(metadata, KEPT_FOR).await
    }

    /// Returns the keys after a token named one that is not among them: fetched again, but not too often.
    pub async fn keys_again(&self, metadata: &Metadata) -> Result<Arc<JwkSet>, SsoFault> {
        self.keys_not_older(metadata, KEYS_AGAIN_AFTER).await
    }

    async fn keys_not_older(&self, metadata: &Metadata, age: Duration) -> Result<Arc<JwkSet>, SsoFault> {
        if let Some(fresh) = self.fresh_keys(age) {
            return Ok(fresh);
        }
        let _turn = self.asking.acquire().await;
        if let Some(fresh) = self.fresh_keys(age) {
            return Ok(fresh);
        }
        let bytes = self.fetch(&metadata.keys).await?;
        let keys = Arc::new(JwkSet::parse(&bytes).map_err(|_| SsoFault::Metadata)?);
        self.held.lock().keys = Some((Arc::clone(&keys), self.clock.monotonic()));
        Ok(keys)
    }

    fn fresh_metadata(&self) -> Option<Arc<Metadata>> {
        let held = self.held.lock();
        let (metadata, since) = held.metadata.as_ref()?;
        (self.clock.monotonic().saturating_sub(*since) < KEPT_FOR).then(|| Arc::clone(metadata))
    }

    fn fresh_keys(&self, age: Duration) -> Option<Arc<JwkSet>> {
        let held = self.held.lock();
        let (keys, since) = held.keys.as_ref()?;
        (self.clock.monotonic().saturating_sub(*since) < age).then(|| Arc::clone(keys))
    }

    async fn discover(&self) -> Result<Metadata, SsoFault> {
        let base = self.config.issuer.as_str().trim_end_matches('/');
        let place = Endpoint::parse(&format!("{base}{WELL_KNOWN}")).map_err(|_| SsoFault::Metadata)?;
        let bytes = self.fetch(&place).await?;
        let published: Published = serde_json::from_slice(&bytes).map_err(|_| SsoFault::Metadata)?;
        if published.issuer != self.config.issuer.as_str() {
            return Err(SsoFault::ForeignMetadata);
        }
        self.read(&published).ok_or(SsoFault::Metadata)
    }

    /// Reads the endpoints; a provider on HTTPS must not lead to plain HTTP, not even on this machine.
    fn read(&self, published: &Published) -> Option<Metadata> {
        let endpoint = |text: &str| {
            let found = Endpoint::parse(text).ok()?;
            (found.is_secure() || !self.config.issuer.is_secure()).then_some(found)
        };
        let methods = published.token_endpoint_auth_methods_supported.as_ref();
        let takes = |method: &str| methods.is_some_and(|all| all.iter().any(|known| known == method));
        Some(Metadata {
            authorization: endpoint(&published.authorization_endpoint)?,
            token: endpoint(&published.token_endpoint)?,
            userinfo: published.userinfo_endpoint.as_deref().and_then(endpoint),
            end_session: published.end_session_endpoint.as_deref().and_then(endpoint),
            secret_in_form: takes("client_secret_post") && !takes("client_secret_basic"),
            names_itself: published.authorization_response_iss_parameter_supported,
            keys: endpoint(&published.jwks_uri)?,
        })
    }

    /// Tells whether the provider was too slow a moment ago.
    fn is_slow(&self) -> bool {
        let now = self.clock.monotonic();
        self.held.lock().slow.is_some_and(|since| now.saturating_sub(since) < SLOW_FOR)
    }

    async fn fetch(&self, endpoint: &Endpoint) -> Result<bytes::Bytes, SsoFault> {
        if self.is_slow() {
            return Err(FetchFault::Slow.into());
        }
        let answer = self.fetcher.ask(endpoint, Question::default()).await;
        if matches!(answer, Err(FetchFault::Slow)) {
            self.held.lock().slow = Some(self.clock.monotonic());
        }
        let answer = answer?;
        if answer.status == http::StatusCode::OK { Ok(answer.body) } else { Err(SsoFault::Metadata) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;
    use crate::access::sso::Mapping;
    use crate::clock::ManualClock;

    #[tokio::test]
    async fn a_provider_that_hangs_is_waited_for_once_in_a_while() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let here = format!("http://{}", listener.local_addr().expect("an address"));
        let (heard, questions) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut open = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let _ = stream.read(&mut [0; 1024]);
                open.push(stream);
                let _ = heard.send(());
            }
        });
        let endpoint = |text: &str| Endpoint::parse(text).expect("an address");
        let config = OidcConfig {
            issuer: endpoint(&here),
            client_id: "gate".to_owned(),
            client_secret: None,
            scopes: Vec::new(),
            redirect_url: endpoint(&format!("{here}/back")),
            signed_out_url: None,
            mapping: Mapping {
                name: "name".to_owned(),
                role: "groups".to_owned(),
                role_map: Vec::new(),
                default_role: None,
            },
            ca_file: None,
        };
        let clock = Arc::new(ManualClock::new(jiff::Timestamp::UNIX_EPOCH));
        let fetcher = Fetcher::new(None).expect("a client").within(Duration::from_millis(200));
        let provider = Provider::new(Arc::new(config), fetcher, clock.clone());
        let is_slow = |asked| matches!(asked, Err(SsoFault::Fetch(FetchFault::Slow)));
        let (first, second) = tokio::join!(provider.metadata(), provider.metadata());
        assert!(is_slow(first) && is_slow(second) && is_slow(provider.metadata().await));
        assert_eq!(questions.try_iter().count(), 1, "who comes meanwhile does not wait for it again");
        clock.advance(SLOW_FOR);
        assert!(is_slow(provider.metadata().await));
        assert_eq!(questions.try_iter().count(), 1, "and it is asked again in the end");
    }
}
