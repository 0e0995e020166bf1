//! What people sign in with, made from the configuration.

use std::sync::Arc;

use super::state::StateError;
use crate::access::cookie::CookieStyle;
use crate::access::secret::NodeSecret;
use crate::access::secret_file;
use crate::access::sso::ClientSecretPlace;
use crate::access::sso::Hidden;
use crate::access::sso::IdentityProvider;
use crate::access::sso::OidcConfig;
use crate::access::sso::SsoConfig;
use crate::access::sso::fetch::Fetcher;
use crate::access::sso::oidc::OidcClient;
use crate::access::sso::oidc::ReadClientSecret;
use crate::access::sso::saml::client::SamlClient;
use crate::admin::sign_in::SignIn;
use crate::clock::Clock;
use crate::config::Config;
use crate::config::env::named;
use crate::store::Store;

/// Settles how cookies travel.
pub(super) fn sign_in(config: &Config) -> SignIn {
    let cookies = cookies(config);
    if cookies.is_none() {
        tracing::warn!(
            "nobody can sign in with a browser: neither [admin.tls] nor an HTTPS `public_url` is set"
        );
    }
    SignIn { cookies, public: config.admin.public_url.clone() }
}

/// Tells how cookies travel: over HTTPS, here or at a proxy in front; in the clear on this machine alone.
fn cookies(config: &Config) -> Option<CookieStyle> {
    let admin = &config.admin;
    let is_secure = match &admin.public_url {
        Some(public) => public.is_secure(),
        None => admin.tls.is_some(),
    };
    let stays_here = admin.listen.iter().all(|address| address.ip().is_loopback());
    match (is_secure, stays_here) {
        (true, _) => Some(CookieStyle::Secure),
        (false, true) => Some(CookieStyle::Loopback),
        (false, false) => None,
    }
}

/// Makes the client of the identity provider.
///
/// # Errors
/// What it is to be known by cannot be used.
pub(super) fn provider(
    config: &SsoConfig,
    secret: &NodeSecret,
    store: &Store,
    (clock, sure): (&Arc<dyn Clock>, Arc<dyn Clock>),
) -> Result<IdentityProvider, StateError> {
    match config {
        SsoConfig::Oidc(oidc) => Ok(IdentityProvider::Oidc(Arc::new(client(oidc, secret, clock)?))),
        SsoConfig::Saml(saml) => {
            let clocks = (Arc::clone(clock), sure);
            let client = SamlClient::new(saml.clone(), secret.clone(), store, clocks);
            let client = client.map_err(StateError::Saml)?;
            Ok(IdentityProvider::Saml(Arc::new(client)))
        }
    }
}

fn client(
    config: &OidcConfig,
    secret: &NodeSecret,
    clock: &Arc<dyn Clock>,
) -> Result<OidcClient, StateError> {
    let fetcher = Fetcher::new(config.ca_file.as_deref())?;
    let place = config.client_secret.clone();
    let read: ReadClientSecret = Box::new(move || secret_at(place.as_ref()?).map(Hidden));
    Ok(OidcClient::new(config.clone(), fetcher, read, secret.clone(), Arc::clone(clock)))
}

fn secret_at(place: &ClientSecretPlace) -> Option<String> {
    let text = match place {
        ClientSecretPlace::Environment(name) => named(name)?,
        ClientSecretPlace::File(path) => secret_file::read(path).ok()?,
    };
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
