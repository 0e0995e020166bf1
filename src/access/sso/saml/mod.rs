//! Signing in by SAML 2.0, as a service provider: web browser SSO and single logout.
//!
//! Out go requests by the redirect binding; answers come in by the POST binding, logout messages by the redirect
//! binding. [`document`] reads XML that others wrote, [`canonical`] and [`signature`] verify it with a [`key`] of
//! the provider's metadata, [`response`] judges what is said, [`message`] writes and reads messages in addresses,
//! [`logout`] is their content when somebody leaves, and [`client`] is the flow.
//!
//! # Why a verifier of our own
//! The libraries that verify XML signatures in Rust wrap C (`samael`: libxml2, xmlsec and OpenSSL, a second
//! cryptography in the process), call themselves unfit for production (`xml-sec`), or bring a second implementation
//! of RSA and of elliptic curves with dozens of crates (`bergshamra` and what builds on it). Their generality is also
//! what signature wrapping lives on: transforms, references and ids that a verifier follows to one place and its
//! caller to another. What identity providers send has one shape, and only that is taken here:
//!
//! - a `Response` with at most one `Assertion`, each element where the schema has it, once, and nothing beside it;
//! - an enveloped signature, the first thing after the issuer, whose one reference names the element it stands in:
//!   what was verified and what is read are the same node;
//! - exclusive canonicalization, SHA-2, RSA of 2048 bits and more or ECDSA, with a key of the metadata file; a key that
//!   comes along in the message is not even read;
//! - no document type, no entity, no processing instruction, no comment, no id twice.
//!
//! Encrypted assertions are refused, and told so: they travel inside TLS, and what would decrypt them (RSA key
//! transport) has a history of its own.

pub mod canonical;
pub mod client;
pub mod document;
pub mod key;
pub mod logout;
pub mod message;
pub mod metadata;
pub mod response;
pub mod signature;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use super::Hidden;
use super::Mapping;
use crate::access::spent::SpentFault;
use crate::access::sso::attempt::AttemptFault;
use crate::access::sso::saml::document::DocumentFault;
use crate::access::sso::saml::message::MessageFault;
use crate::access::sso::saml::metadata::MetadataFault;
use crate::access::sso::saml::response::ResponseFault;
use crate::access::sso::saml::signature::SignatureFault;
use crate::access::url::Endpoint;
use crate::access::url::Origin;
use crate::store::StoreError;

/// How far the provider's clock and ours may differ, in seconds.
pub const SKEW_S: i64 = 60;
/// Where we are told who somebody is, below the public address.
pub const CALLBACK: &str = "/auth/callback";
/// Where we are told that somebody leaves, below the public address.
pub const LOGOUT: &str = "/auth/saml/logout";
/// Where our metadata are, below the public address; the name that we have unless another is given.
pub const METADATA: &str = "/auth/saml/metadata";

/// The namespace of protocol messages.
pub(super) const PROTOCOL: &str = "urn:oasis:names:tc:SAML:2.0:protocol";
/// The namespace of assertions.
pub(super) const ASSERTION: &str = "urn:oasis:names:tc:SAML:2.0:assertion";
/// The namespace of metadata.
pub(super) const METADATA_NS: &str = "urn:oasis:names:tc:SAML:2.0:metadata";
/// The namespace of signatures.
pub(super) const DSIG: &str = "http://www.w3.org/2000/09/xmldsig#";
/// The binding of messages in addresses.
pub(super) const REDIRECT: &str = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect";
/// The binding of messages in forms.
pub(super) const POST: &str = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST";

impl From<SpentFault> for SamlFault {
    fn from(fault: SpentFault) -> Self {
        match fault {
            SpentFault::Used => Self::Replayed,
            SpentFault::TooMany => Self::TooMany,
            SpentFault::Store(error) => Self::Forgetful(error),
        }
    }
}

/// The identity provider, and who we are to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamlConfig {
    /// The provider's metadata, read again whenever they are needed: keys change there.
    pub metadata_file: PathBuf,
    /// Our name there.
    pub entity_id: String,
    /// How browsers call us.
    pub public: Origin,
    /// The key we sign with and its certificate, both in PEM; `None`: we sign nothing, and cannot sign out there.
    pub signing: Option<SigningFiles>,
    /// Which attribute is what; a user's groups become a role.
    pub mapping: Mapping,
}

/// Where the key lies that we sign with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningFiles {
    /// The private key: RSA, or ECDSA on P-256.
    pub key: PathBuf,
    /// Its certificate, which the provider knows us by.
    pub certificate: PathBuf,
}

/// Why somebody was not signed in, or out.
#[derive(Debug, thiserror::Error)]
pub enum SamlFault {
    /// The browser that came back is not the one that left.
    #[error(transparent)]
    Attempt(#[from] AttemptFault),
    /// What came is no message that is looked at.
    #[error(transparent)]
    Document(#[from] DocumentFault),
    /// A message in an address cannot be read, or is not the provider's.
    #[error(transparent)]
    Message(#[from] MessageFault),
    /// It is not signed as it has to be.
    #[error(transparent)]
    Signature(#[from] SignatureFault),
    /// It says the wrong things.
    #[error(transparent)]
    Response(#[from] ResponseFault),
    /// The provider's metadata cannot be used.
    #[error(transparent)]
    Metadata(#[from] MetadataFault),
    /// The assertion was brought before, or the sign-in completed.
    #[error("the assertion was used already")]
    Replayed,
    /// As many assertions are remembered as may be.
    #[error("too many sign-ins are under way")]
    TooMany,
    /// Whether the assertion was brought before, cannot be told.
    #[error("the sign-ins that were completed cannot be asked for at the moment")]
    Forgetful(#[source] StoreError),
    /// The user of this name at the provider has no role here.
    #[error("none of the user's groups has a role here")]
    NoRole(Hidden),
    /// Nothing is signed here, so nobody is signed out there.
    #[error("this gateway has no key to sign with, and takes no logout messages")]
    NoKey,
    /// The key or its certificate cannot be used.
    #[error("the key or the certificate of [sso.saml] cannot be read")]
    OwnKey,
}

impl SamlConfig {
    /// Returns where the provider sends browsers back to.
    pub fn callback(&self) -> String {
        format!("{}{CALLBACK}", self.public)
    }

    /// Returns where the provider says that somebody leaves.
    pub fn logout(&self) -> String {
        format!("{}{LOGOUT}", self.public)
    }
}

/// What is known of the provider from its metadata.
#[derive(Clone, Debug)]
pub struct Trusted {
    /// Its name.
    pub entity_id: String,
    /// Where browsers are sent to sign in.
    pub sign_on: Endpoint,
    /// Where they are sent to sign out, and with what answers; `None`: nowhere.
    pub logout: Option<LogoutPlaces>,
    /// What it signs with.
    pub keys: Vec<key::TrustedKey>,
}

/// Where logout messages go.
#[derive(Clone, Debug)]
pub struct LogoutPlaces {
    /// Requests.
    pub request: Endpoint,
    /// Answers.
    pub response: Endpoint,
}
