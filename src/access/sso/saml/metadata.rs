//! Metadata: what the provider's say, and what ours tell it.
//!
//! The provider's are a file that the operator chose. `validUntil` in it and the dates of its certificates are not
//! looked at: what is in the file is trusted, until it is replaced.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use roxmltree::Node;

use super::ASSERTION;
use super::DSIG;
use super::LogoutPlaces;
use super::METADATA_NS;
use super::POST;
use super::PROTOCOL;
use super::REDIRECT;
use super::SamlConfig;
use super::Trusted;
use super::document::DocumentFault;
use super::document::is;
use super::document::one;
use super::document::parse_file;
use super::document::text;
use super::key::OwnKey;
use super::key::TrustedKey;
use super::message::escaped;
use crate::access::url::Endpoint;

/// The most keys of a provider.
pub const KEYS_MAX: usize = 8;

/// Why a provider's metadata cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataFault {
    /// The file cannot be read.
    #[error("the identity provider's metadata cannot be read")]
    Unreadable,
    /// They are not those of one identity provider.
    #[error("expected the metadata of one identity provider: an EntityDescriptor with an IDPSSODescriptor")]
    Form,
    /// They offer no place to sign in that we can use.
    #[error("the metadata name no place to sign in by the HTTP-Redirect binding, over https")]
    SignOn,
    /// They name no key that we can use.
    #[error("the metadata name no signing key that is taken: RSA, or ECDSA on P-256 or P-384")]
    Keys,
}

impl From<DocumentFault> for MetadataFault {
    fn from(_: DocumentFault) -> Self {
        Self::Form
    }
}

/// Reads a provider's metadata.
///
/// # Errors
/// See [`MetadataFault`].
pub fn read(text: &str) -> Result<Trusted, MetadataFault> {
    let document = parse_file(text.trim_start_matches('\u{feff}'))?;
    let root = document.root_element();
    if !is(root, METADATA_NS, "EntityDescriptor") {
        return Err(MetadataFault::Form);
    }
    let entity_id = root.attribute("entityID").filter(|id| !id.is_empty()).ok_or(MetadataFault::Form)?;
    let provider = one(root, METADATA_NS, "IDPSSODescriptor")?;
    let sign_on = place(provider, "SingleSignOnService").and_then(|node| endpoint(node, "Location"));
    let keys: Vec<TrustedKey> =
        certificates(provider)?.iter().filter_map(|der| TrustedKey::of_certificate(der)).collect();
    if keys.is_empty() || keys.len() > KEYS_MAX {
        return Err(MetadataFault::Keys);
    }
    let logout = place(provider, "SingleLogoutService").and_then(|node| {
        let request = endpoint(node, "Location")?;
        let response = endpoint(node, "ResponseLocation").unwrap_or_else(|| request.clone());
        Some(LogoutPlaces { request, response })
    });
    Ok(Trusted {
        entity_id: entity_id.to_owned(),
        sign_on: sign_on.ok_or(MetadataFault::SignOn)?,
        logout,
        keys,
    })
}

/// Returns the service of a name that takes the redirect binding.
fn place<'a, 'i>(provider: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    let mut services = provider.children().filter(|node| is(*node, METADATA_NS, name));
    services.find(|node| node.attribute("Binding") == Some(REDIRECT))
}

fn endpoint(node: Node<'_, '_>, name: &str) -> Option<Endpoint> {
    Endpoint::parse(node.attribute(name)?).ok()
}

/// Returns the certificates (DER) of the keys that sign.
fn certificates(provider: Node<'_, '_>) -> Result<Vec<Vec<u8>>, MetadataFault> {
    let signs = |node: &Node<'_, '_>| {
        is(*node, METADATA_NS, "KeyDescriptor") && node.attribute("use").is_none_or(|used| used == "signing")
    };
    let descriptors = provider.children().filter(signs);
    let nodes = descriptors.flat_map(|node| node.descendants());
    let certificates = nodes.filter(|node| is(*node, DSIG, "X509Certificate"));
    let read = |node| {
        let text: String = text(node)?.split_ascii_whitespace().collect();
        STANDARD.decode(text).map_err(|_| MetadataFault::Form)
    };
    certificates.map(read).collect()
}

/// Writes ours.
pub fn write(config: &SamlConfig, own: Option<&OwnKey>) -> String {
    let (entity, callback) = (escaped(&config.entity_id), escaped(&config.callback()));
    let signs = own.is_some();
    let (key, logout) = match own {
        None => (String::new(), String::new()),
        Some(own) => {
            let certificate = STANDARD.encode(own.certificate());
            let place = escaped(&config.logout());
            (
                format!(
                    "<md:KeyDescriptor use=\"signing\"><ds:KeyInfo xmlns:ds=\"{DSIG}\"><ds:X509Data>\
                     <ds:X509Certificate>{certificate}</ds:X509Certificate></ds:X509Data></ds:KeyInfo>\
                     </md:KeyDescriptor>"
                ),
                format!("<md:SingleLogoutService Binding=\"{REDIRECT}\" Location=\"{place}\"/>"),
            )
        }
    };
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<md:EntityDescriptor xmlns:md=\"{METADATA_NS}\" \
         entityID=\"{entity}\"><md:SPSSODescriptor AuthnRequestsSigned=\"{signs}\" WantAssertionsSigned=\"true\" \
         protocolSupportEnumeration=\"{PROTOCOL}\">{key}{logout}<md:AssertionConsumerService Binding=\"{POST}\" \
         Location=\"{callback}\" index=\"0\" isDefault=\"true\"/></md:SPSSODescriptor></md:EntityDescriptor>\n"
    )
}

/// Returns the element that names who sends a message, as we write it.
pub(super) fn issuer(entity_id: &str) -> String {
    format!("<saml:Issuer xmlns:saml=\"{ASSERTION}\">{}</saml:Issuer>", escaped(entity_id))
}
