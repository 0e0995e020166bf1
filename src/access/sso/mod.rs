//! Signing in with an identity provider: OpenID Connect 1.0, authorization code with PKCE.
//!
//! [`attempt`] is one sign-in under way: what ties the browser that comes back to the one that left.
//! [`oidc`] knows the provider: where its endpoints are, which keys it signs with, and how a code becomes an
//! [`Identity`](super::session::Identity). [`claims`] judges an ID token and finds the role in it. [`fetch`]
//! asks the provider, bounded in time and size, following no redirect.
//!
//! Nothing that a provider tells is stored but in the session it begins.

pub mod attempt;
pub mod claims;
pub mod fetch;
pub mod oidc;
mod provider;

use std::fmt;
use std::path::PathBuf;

use super::role::Role;
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
    /// The claim that is shown as the user's name.
    pub name_claim: String,
    /// The claim that holds the user's groups, or roles: a text or a list; a path with dots leads into objects.
    pub role_claim: String,
    /// Which of its values is which role.
    pub role_map: Vec<(String, Role)>,
    /// The role of users without any of them; `None`: they are turned away.
    pub default_role: Option<Role>,
    /// Certificates to trust beside the system's.
    pub ca_file: Option<PathBuf>,
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
