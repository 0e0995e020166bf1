//! The signature that stands in an element (XML Signature, enveloped), verified in the one shape that is taken.
//!
//! What comes out of [`verify`] is nothing but "yes": the caller goes on with the very node it gave in, and nothing
//! here follows a reference to anywhere else.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use roxmltree::Node;
use sha2::Digest;
use sha2::Sha256;
use sha2::Sha384;
use sha2::Sha512;

use super::DSIG;
use super::canonical::Choice;
use super::canonical::canonical;
use super::document::DocumentFault;
use super::document::attribute;
use super::document::elements;
use super::document::is;
use super::document::text;
use super::key::Algorithm;
use super::key::TrustedKey;

const EXCLUSIVE: &str = "http://www.w3.org/2001/10/xml-exc-c14n#";
const ENVELOPED: &str = "http://www.w3.org/2000/09/xmldsig#enveloped-signature";
const SHA256: &str = "http://www.w3.org/2001/04/xmlenc#sha256";
const SHA384: &str = "http://www.w3.org/2001/04/xmldsig-more#sha384";
const SHA512: &str = "http://www.w3.org/2001/04/xmlenc#sha512";

/// The most prefixes a signature may list: each is looked up at every element, those of what the key signs before
/// that is known to be the provider's.
const PREFIXES_MAX: usize = 32;

/// Why a signature does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureFault {
    /// Nothing vouches for the assertion.
    #[error("the assertion is not signed")]
    Missing,
    /// The signature has not the one shape that is taken.
    #[error("the signature has not the one shape that is taken")]
    Shape,
    /// It is made by an algorithm that is not taken.
    #[error("the signature is made in a way that is not taken")]
    Algorithm,
    /// It is about another element than the one it stands in.
    #[error("the signature is about another element")]
    Reference,
    /// What is signed was changed.
    #[error("what is signed was changed")]
    Digest,
    /// None of the provider's keys made it.
    #[error("none of the provider's keys has made the signature")]
    Key,
}

impl From<DocumentFault> for SignatureFault {
    fn from(_: DocumentFault) -> Self {
        Self::Shape
    }
}

/// The one reference of a signature.
struct Reference<'a> {
    id: &'a str,
    inclusive: &'a str,
    digest_method: &'a str,
    digest: Vec<u8>,
}

/// Verifies that one of some keys has signed an element, by a signature that is its child.
///
/// # Errors
/// See [`SignatureFault`].
pub fn verify(
    element: Node<'_, '_>,
    signature: Node<'_, '_>,
    keys: &[TrustedKey],
) -> Result<(), SignatureFault> {
    let parts = elements(signature)?;
    let (info, value) = match parts.as_slice() {
        [info, value] => (info, value),
        [info, value, more] if is(*more, DSIG, "KeyInfo") => (info, value),
        _ => return Err(SignatureFault::Shape),
    };
    if !is(*info, DSIG, "SignedInfo") || !is(*value, DSIG, "SignatureValue") {
        return Err(SignatureFault::Shape);
    }
    let info_parts = elements(*info)?;
    let [method, way, reference] = info_parts.as_slice() else { return Err(SignatureFault::Shape) };
    let info_inclusive = exclusive(*method, "CanonicalizationMethod")?;
    if !is(*way, DSIG, "SignatureMethod") || !elements(*way)?.is_empty() {
        return Err(SignatureFault::Shape);
    }
    let algorithm = Algorithm::of_name(attribute(*way, "Algorithm")?).ok_or(SignatureFault::Algorithm)?;
    let reference = read_reference(*reference)?;
    if element.attribute("ID").is_none_or(|id| id.is_empty() || id != reference.id) {
        return Err(SignatureFault::Reference);
    }
    // The key first: what nobody vouches for is not worth the work of writing the whole element out.
    let signed = canonical(*info, Choice { without: None, inclusive: info_inclusive });
    let value = decoded(*value)?;
    if !keys.iter().any(|key| key.verifies(algorithm, &signed, &value)) {
        return Err(SignatureFault::Key);
    }
    let choice = Choice { without: Some(signature.id()), inclusive: reference.inclusive };
    let found = digest(reference.digest_method, &canonical(element, choice))?;
    if found == reference.digest { Ok(()) } else { Err(SignatureFault::Digest) }
}

fn read_reference<'a>(reference: Node<'a, '_>) -> Result<Reference<'a>, SignatureFault> {
    let parts = elements(reference)?;
    let [transforms, method, value] = parts.as_slice() else { return Err(SignatureFault::Shape) };
    let named = [(reference, "Reference"), (*transforms, "Transforms"), (*method, "DigestMethod")];
    if !named.iter().all(|(node, name)| is(*node, DSIG, name)) || !is(*value, DSIG, "DigestValue") {
        return Err(SignatureFault::Shape);
    }
    let steps = elements(*transforms)?;
    let [enveloped, exclusive_step] = steps.as_slice() else { return Err(SignatureFault::Shape) };
    let is_enveloped = is(*enveloped, DSIG, "Transform") && elements(*enveloped)?.is_empty();
    if !is_enveloped || attribute(*enveloped, "Algorithm")? != ENVELOPED {
        return Err(SignatureFault::Shape);
    }
    let id = attribute(reference, "URI")?.strip_prefix('#').ok_or(SignatureFault::Reference)?;
    Ok(Reference {
        id,
        inclusive: exclusive(*exclusive_step, "Transform")?,
        digest_method: attribute(*method, "Algorithm")?,
        digest: decoded(*value)?,
    })
}

/// Returns the prefixes of an element that asks for exclusive canonicalization.
fn exclusive<'a>(node: Node<'a, '_>, name: &str) -> Result<&'a str, SignatureFault> {
    if !is(node, DSIG, name) {
        return Err(SignatureFault::Shape);
    }
    if attribute(node, "Algorithm")? != EXCLUSIVE {
        return Err(SignatureFault::Algorithm);
    }
    match elements(node)?.as_slice() {
        [] => Ok(""),
        [list] if is(*list, EXCLUSIVE, "InclusiveNamespaces") => {
            let prefixes = attribute(*list, "PrefixList")?;
            let is_short = prefixes.split_ascii_whitespace().nth(PREFIXES_MAX).is_none();
            is_short.then_some(prefixes).ok_or(SignatureFault::Shape)
        }
        _ => Err(SignatureFault::Shape),
    }
}

fn digest(method: &str, bytes: &[u8]) -> Result<Vec<u8>, SignatureFault> {
    match method {
        SHA256 => Ok(Sha256::digest(bytes).to_vec()),
        SHA384 => Ok(Sha384::digest(bytes).to_vec()),
        SHA512 => Ok(Sha512::digest(bytes).to_vec()),
        _ => Err(SignatureFault::Algorithm),
    }
}

fn decoded(node: Node<'_, '_>) -> Result<Vec<u8>, SignatureFault> {
    let text: String = text(node)?.split_ascii_whitespace().collect();
    STANDARD.decode(text).map_err(|_| SignatureFault::Shape)
}
