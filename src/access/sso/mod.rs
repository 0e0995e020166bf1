//! Signing in with an identity provider: OpenID Connect 1.0 (authorization code with PKCE), or SAML 2.0 ([`saml`]).
//!
//! [`attempt`] is one sign-in under way: what ties the browser that comes back to the one that left.
//! [`oidc`] knows the provider: where its endpoints are, which keys it signs with, and how a code becomes an
//! [`Identity`](super::session::Identity). [`claims`] judges an ID token and finds the role in it, [`logout_token`] a token that ends sessions. [`refusal`] tells why a
//! provider signs nobody in. [`fetch`] asks the provider, bounded in time and size, following no redirect.
//!
//! Nothing that a provider tells is stored but in the session it begins.

pub mod attempt;
pub mod claims;
pub mod fetch;
pub mod logout_token;
pub mod oidc;
mod provider;
pub mod refusal;
pub mod saml;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use sha2::Digest;
use sha2::Sha256;

use super::role::Role;
use super::session::Identity;
use super::url::Endpoint;

/// The identity provider, and what its users may do here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcConfig {
    /// The provider's name, as its tokens give it; `/.well-known/openid-configuration` lies below it.
    pub issuer: Endpoint,
    /// Our name there.
    pub client_id: String,
    /// Where the secret lies that goes with it; `None` for a public client, which PKCE alone protects.
    pub client_secret: Option<ClientSecretPlace>,
    /// What is asked for.
    pub scopes: Vec<String>,
    /// Where the provider sends browsers back to.
    pub redirect_url: Endpoint,
    /// Where it sends them after they signed out there; `None`: nowhere.
    pub signed_out_url: Option<String>,
    /// Which claim is what.
    pub mapping: Mapping,
    /// Certificates to trust beside the system's.
    pub ca_file: Option<PathBuf>,
}

/// Which of the things a provider tells of somebody is their name here, and which gives them a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The claim, or attribute, that is shown as the user's name.
    pub name: String,
    /// The one that holds the user's groups, or roles: a text or a list; a path with dots leads into objects.
    pub role: String,
    /// Which of its values is which role.
    pub role_map: Vec<(String, Role)>,
    /// The role of users without any of them; `None`: they are turned away.
    pub default_role: Option<Role>,
}

impl Mapping {
    /// Returns a digest, in hex, of all that a role follows from: which claim, which of its values is which role, and
    /// the role of those without any.
    pub fn digest(&self) -> String {
        let mut rows: Vec<(&str, &str)> =
            self.role_map.iter().map(|(value, role)| (value.as_str(), role.as_str())).collect();
        rows.sort_unstable();
        let default = self.default_role.map(Role::as_str);
        let told = serde_json::json!([self.role, rows, default]).to_string();
        Sha256::digest(told).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The identity provider that is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SsoConfig {
    /// It speaks OpenID Connect.
    Oidc(OidcConfig),
    /// It speaks SAML.
    Saml(saml::SamlConfig),
}

/// The identity provider that people sign in at.
#[derive(Clone)]
pub enum IdentityProvider {
    /// By OpenID Connect.
    Oidc(Arc<oidc::OidcClient>),
    /// By SAML.
    Saml(Arc<saml::client::SamlClient>),
}

impl IdentityProvider {
    /// Tells whether it is this provider that vouched for somebody, and the role that was found then is the one that
    /// would be found by the same words today.
    pub fn stands_by(&self, identity: &Identity) -> bool {
        let issuer = match self {
            Self::Oidc(oidc) => oidc.issuer().to_owned(),
            Self::Saml(saml) => saml.issuer(),
        };
        identity.issuer == issuer && identity.mapped_by == self.mapping().digest()
    }

    /// Returns what of its words is whose role.
    pub fn mapping(&self) -> &Mapping {
        match self {
            Self::Oidc(oidc) => oidc.mapping(),
            Self::Saml(saml) => saml.mapping(),
        }
    }

    /// Returns the provider's host, which people know it by.
    pub fn host(&self) -> String {
        match self {
            Self::Oidc(oidc) => oidc.host().to_owned(),
            Self::Saml(saml) => saml.host(),
        }
    }

    /// Returns the origin a browser is sent to for signing out there, as far as it is known yet.
    pub fn logout_origin(&self) -> Option<super::url::Origin> {
        match self {
            Self::Oidc(oidc) => oidc.end_session_origin(),
            Self::Saml(saml) => saml.logout_origin(),
        }
    }

    /// Returns where to send a browser to sign somebody out at the provider, with what the sign-in left; `None` where
    /// it offers no such place.
    pub async fn logout_address(&self, identity: &Identity, hint: Option<&str>) -> Option<String> {
        match self {
            Self::Oidc(oidc) => oidc.end_session_url(hint).await,
            Self::Saml(saml) => saml.logout_address(identity, hint),
        }
    }
}

/// Somebody who has signed in.
#[derive(Clone, Debug)]
pub struct SignedIn {
    /// Who.
    pub identity: Identity,
    /// Where they were going.
    pub next: String,
    /// What the provider wants to see when they sign out there.
    pub logout_hint: Hidden,
}

/// Where the client's secret lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientSecretPlace {
    /// In a file, read at every use.
    File(PathBuf),
    /// In a variable of the environment.
    Environment(String),
}

/// Something that must not be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(pub String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
