//! Messages in addresses (the redirect binding): deflated, encoded, and signed over the address as it is written.

use std::io::Read;
use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

use super::key::Algorithm;
use super::key::OwnKey;
use super::key::TrustedKey;
use crate::access::url::Endpoint;

/// The longest message in an address, in bytes, once it is inflated.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// The longest text that is given back as it came, in bytes.
pub const RELAY_BYTES_MAX: usize = 512;
const ENCODING: &str = "urn:oasis:names:tc:SAML:2.0:bindings:URL-Encoding:DEFLATE";

/// Why a message in an address is not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageFault {
    /// The address carries no message, two, or one that cannot be read.
    #[error("the address carries no message that can be read")]
    Form,
    /// It is not signed, or by an algorithm that is not taken.
    #[error("the message is not signed, or in a way that is not taken")]
    Unsigned,
    /// None of the provider's keys made the signature.
    #[error("none of the provider's keys has signed the message")]
    Key,
}

/// Whether a message asks or answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It asks.
    Request,
    /// It answers.
    Response,
}

/// A message that one of the provider's keys has signed.
#[derive(Clone, Debug)]
pub struct Signed {
    /// Whether it asks or answers.
    pub kind: Kind,
    /// The message.
    pub xml: String,
    /// What is to be given back with the answer.
    pub relay: Option<String>,
}

impl Kind {
    fn parameter(self) -> &'static str {
        match self {
            Self::Request => "SAMLRequest",
            Self::Response => "SAMLResponse",
        }
    }
}

/// Returns the address that carries a message to a place, signed where there is a key; `None` where it cannot be.
pub fn address(
    place: &Endpoint,
    kind: Kind,
    xml: &str,
    relay: Option<&str>,
    key: Option<&OwnKey>,
) -> Option<String> {
    let mut deflated = DeflateEncoder::new(Vec::new(), Compression::default());
    deflated.write_all(xml.as_bytes()).ok()?;
    let message = STANDARD.encode(deflated.finish().ok()?);
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair(kind.parameter(), &message);
    if let Some(relay) = relay {
        query.append_pair("RelayState", relay);
    }
    if let Some(key) = key {
        query.append_pair("SigAlg", key.algorithm().name());
    }
    let mut query = query.finish();
    if let Some(key) = key {
        let signature = STANDARD.encode(key.sign(query.as_bytes())?);
        let encoded: String = form_urlencoded::byte_serialize(signature.as_bytes()).collect();
        query.push_str("&Signature=");
        query.push_str(&encoded);
    }
    let joint = if place.as_str().contains('?') { '&' } else { '?' };
    Some(format!("{}{joint}{query}", place.as_str()))
}

/// Reads the message that a query carries, and verifies its signature.
///
/// # Errors
/// See [`MessageFault`].
pub fn read(query: &str, keys: &[TrustedKey]) -> Result<Signed, MessageFault> {
    let (request, response) = (raw(query, "SAMLRequest")?, raw(query, "SAMLResponse")?);
    let (kind, message) = match (request, response) {
        (Some(message), None) => (Kind::Request, message),
        (None, Some(message)) => (Kind::Response, message),
        _ => return Err(MessageFault::Form),
    };
    if raw(query, "SAMLEncoding")?.is_some_and(|encoding| unescaped(encoding) != ENCODING) {
        return Err(MessageFault::Form);
    }
    let relay = raw(query, "RelayState")?;
    let (way, signature) = (raw(query, "SigAlg")?, raw(query, "Signature")?);
    let (Some(way), Some(signature)) = (way, signature) else { return Err(MessageFault::Unsigned) };
    let algorithm = Algorithm::of_name(&unescaped(way)).ok_or(MessageFault::Unsigned)?;
    let signature = STANDARD.decode(unescaped(signature)).map_err(|_| MessageFault::Form)?;
    // What is signed is the address as it was written, in this order.
    let relayed = relay.map(|relay| format!("&RelayState={relay}")).unwrap_or_default();
    let signed = format!("{}={message}{relayed}&SigAlg={way}", kind.parameter());
    if !keys.iter().any(|key| key.verifies(algorithm, signed.as_bytes(), &signature)) {
        return Err(MessageFault::Key);
    }
    let relay = relay.map(unescaped);
    if relay.as_ref().is_some_and(|relay| relay.len() > RELAY_BYTES_MAX) {
        return Err(MessageFault::Form);
    }
    Ok(Signed { kind, xml: inflated(&unescaped(message))?, relay })
}

/// Returns a parameter as it is written.
fn raw<'a>(query: &'a str, name: &str) -> Result<Option<&'a str>, MessageFault> {
    let mut found = query.split('&').filter_map(|pair| pair.split_once('=')).filter(|(key, _)| *key == name);
    let first = found.next().map(|(_, value)| value);
    if found.next().is_some() { Err(MessageFault::Form) } else { Ok(first) }
}

fn unescaped(value: &str) -> String {
    form_urlencoded::parse(format!("v={value}").as_bytes())
        .next()
        .map(|(_, value)| value.into_owned())
        .unwrap_or_default()
}

fn inflated(message: &str) -> Result<String, MessageFault> {
    let bytes = STANDARD.decode(message).map_err(|_| MessageFault::Form)?;
    let mut text = String::new();
    let mut bounded = DeflateDecoder::new(bytes.as_slice()).take(MESSAGE_BYTES_MAX as u64 + 1);
    bounded.read_to_string(&mut text).map_err(|_| MessageFault::Form)?;
    if text.len() > MESSAGE_BYTES_MAX { Err(MessageFault::Form) } else { Ok(text) }
}

/// Returns a text as it is written in XML, between tags or in an attribute.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push_str(&format!("&#{};", u32::from(c))),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}
