//! What is said when somebody leaves (SAML 2.0 Profiles, section 4.4): requests either way, and their answers.
//!
//! Whoever reads here has verified the signature of the address that the message came in.

use jiff::Timestamp;
use roxmltree::Node;

use super::ASSERTION;
use super::PROTOCOL;
use super::SamlFault;
use super::document::DocumentFault;
use super::document::attribute;
use super::document::is;
use super::document::moment;
use super::document::one;
use super::document::parse;
use super::document::text;
use super::message::escaped;
use super::metadata::issuer;
use super::response::NameId;
use super::response::ResponseFault;
use super::response::is_ahead;
use super::response::is_past;

/// How old a request may be, in seconds.
pub const REQUEST_AGE_MAX_S: i64 = 300;
/// The most sessions that one request names.
pub const SESSIONS_MAX: usize = 64;
const SUCCESS: &str = "urn:oasis:names:tc:SAML:2.0:status:Success";

/// Somebody whom the provider signs out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogoutRequest {
    /// The request's id.
    pub id: String,
    /// Whom.
    pub subject: String,
    /// Which of their sessions; none named: all.
    pub sessions: Vec<String>,
}

/// Reads a provider's request, meant for a place of ours.
///
/// # Errors
/// It is not one, is another's, or is too old.
pub fn read_request(
    xml: &str,
    provider: &str,
    place: &str,
    now: Timestamp,
) -> Result<LogoutRequest, SamlFault> {
    let document = parse(xml)?;
    let root = document.root_element();
    ensure(root, "LogoutRequest", provider, place)?;
    let issued = moment(root, "IssueInstant")?.ok_or(DocumentFault::Shape)?;
    if is_ahead(issued, now) {
        return Err(ResponseFault::Early.into());
    }
    let is_old = now.as_second() - issued.as_second() > REQUEST_AGE_MAX_S;
    if is_old || moment(root, "NotOnOrAfter")?.is_some_and(|end| is_past(end, now)) {
        return Err(ResponseFault::Expired.into());
    }
    let subject = text(one(root, ASSERTION, "NameID")?)?;
    let indexes = root.children().filter(|node| is(*node, PROTOCOL, "SessionIndex"));
    let sessions: Vec<String> = indexes.map(text).collect::<Result<_, _>>()?;
    if sessions.len() > SESSIONS_MAX {
        return Err(DocumentFault::TooLarge.into());
    }
    Ok(LogoutRequest { id: attribute(root, "ID")?.to_owned(), subject, sessions })
}

/// Reads a provider's answer; tells whether it ended everything.
///
/// # Errors
/// It is none, or another's.
pub fn read_response(xml: &str, provider: &str, place: &str) -> Result<bool, SamlFault> {
    let document = parse(xml)?;
    let root = document.root_element();
    ensure(root, "LogoutResponse", provider, place)?;
    let status = one(root, PROTOCOL, "Status")?;
    Ok(attribute(one(status, PROTOCOL, "StatusCode")?, "Value")? == SUCCESS)
}

fn ensure(root: Node<'_, '_>, name: &str, provider: &str, place: &str) -> Result<(), SamlFault> {
    if !is(root, PROTOCOL, name) || attribute(root, "Version")? != "2.0" {
        return Err(DocumentFault::Shape.into());
    }
    if text(one(root, ASSERTION, "Issuer")?)? != provider {
        return Err(ResponseFault::Issuer.into());
    }
    if root.attribute("Destination") != Some(place) {
        return Err(ResponseFault::Destination.into());
    }
    Ok(())
}

/// A message of ours: who says it where, when, under which id.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The message's id.
    pub id: &'a str,
    /// Our name.
    pub entity_id: &'a str,
    /// Where it goes.
    pub place: &'a str,
    /// When it is made.
    pub now: Timestamp,
}

impl Head<'_> {
    /// Writes a message of a kind, with attributes and a body of its own.
    pub fn write(&self, name: &str, attributes: &str, body: &str) -> String {
        let now = Timestamp::from_second(self.now.as_second()).unwrap_or(self.now);
        format!(
            "<samlp:{name} xmlns:samlp=\"{PROTOCOL}\" ID=\"{}\" Version=\"2.0\" IssueInstant=\"{now}\" \
             Destination=\"{}\"{attributes}>{}{body}</samlp:{name}>",
            escaped(self.id),
            escaped(self.place),
            issuer(self.entity_id)
        )
    }
}

/// Writes a request to sign somebody out.
pub fn write_request(head: &Head<'_>, name: &NameId, session: Option<&str>) -> String {
    let attribute = |key: &str, value: &Option<String>| match value {
        Some(value) => format!(" {key}=\"{}\"", escaped(value)),
        None => String::new(),
    };
    let named = format!(
        "<saml:NameID xmlns:saml=\"{ASSERTION}\"{}{}{}>{}</saml:NameID>",
        attribute("NameQualifier", &name.qualifier),
        attribute("SPNameQualifier", &name.for_whom),
        attribute("Format", &name.format),
        escaped(&name.value)
    );
    let index = |session| format!("<samlp:SessionIndex>{}</samlp:SessionIndex>", escaped(session));
    head.write("LogoutRequest", "", &format!("{named}{}", session.map(index).unwrap_or_default()))
}

/// Writes the answer to a provider's request: all its sessions here have ended.
pub fn write_response(head: &Head<'_>, question: &str) -> String {
    let status = format!("<samlp:Status><samlp:StatusCode Value=\"{SUCCESS}\"/></samlp:Status>");
    head.write("LogoutResponse", &format!(" InResponseTo=\"{}\"", escaped(question)), &status)
}
