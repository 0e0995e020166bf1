//! What a response has to be before anybody is let in by it (SAML 2.0 Profiles, section 4.1.4), and what is taken from
//! it: a name, a session there, and attributes.
//!
//! The response is read from its root down, each element where the schema has it and nothing beside it; so there is
//! no second assertion to be found by a search. Pure.

use jiff::Timestamp;
use roxmltree::Node;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;

use super::ASSERTION;
use super::DSIG;
use super::PROTOCOL;
use super::SKEW_S;
use super::SamlFault;
use super::document::DocumentFault;
use super::document::at_most_one;
use super::document::attribute;
use super::document::elements;
use super::document::is;
use super::document::moment;
use super::document::one;
use super::document::parse;
use super::document::text;
use super::key::TrustedKey;
use super::signature::SignatureFault;
use super::signature::verify;
use crate::access::sso::claims::Claims;

const STATUS: &str = "urn:oasis:names:tc:SAML:2.0:status:";
const SUCCESS: &str = "Success";
/// What a provider says below its status where the user could not, or must not, be signed in.
const NOS: [&str; 4] = ["AuthnFailed", "RequestDenied", "NoPassive", "UnknownPrincipal"];
const BEARER: &str = "urn:oasis:names:tc:SAML:2.0:cm:bearer";
/// The most values of one attribute.
const VALUES_MAX: usize = 1000;

/// What is wrong with a response whose signature is right, or that needs none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseFault {
    /// The provider said no, or its user did.
    #[error("the identity provider refused the sign-in")]
    Refused,
    /// The provider does not take requests as we send them.
    #[error(
        "the identity provider does not take this gateway's requests: whoever runs it has to look at [sso.saml]"
    )]
    Settings,
    /// The provider cannot sign anybody in.
    #[error("the identity provider cannot sign anybody in at the moment")]
    Unwell,
    /// Another provider made it.
    #[error("the assertion is another issuer's")]
    Issuer,
    /// It is meant for another place.
    #[error("the response is meant for another place")]
    Destination,
    /// It answers no question of ours, or another.
    #[error("the response answers another sign-in")]
    Question,
    /// It is meant for somebody else.
    #[error("the assertion is meant for another gateway")]
    Audience,
    /// It is not for whoever brings it.
    #[error("the assertion is not confirmed for whoever brings it to this place")]
    Confirmation,
    /// It counts no more, or does not say until when.
    #[error("the assertion has expired")]
    Expired,
    /// It does not count yet.
    #[error("the assertion is not valid yet")]
    Early,
    /// It has a condition that is not known here.
    #[error("the assertion has a condition that is not known")]
    Condition,
    /// It names nobody.
    #[error("the assertion names nobody")]
    Subject,
}

/// What a response has to answer to.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// The provider's name.
    pub issuer: &'a str,
    /// Its keys.
    pub keys: &'a [TrustedKey],
    /// Our name.
    pub audience: &'a str,
    /// Where we are told.
    pub place: &'a str,
    /// The id of our request.
    pub question: &'a str,
    /// The time.
    pub now: Timestamp,
}

/// The name that the provider has for somebody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameId {
    /// The name.
    pub value: String,
    /// Its kind.
    pub format: Option<String>,
    /// Whose name it is.
    pub qualifier: Option<String>,
    /// For whom it is.
    pub for_whom: Option<String>,
}

/// What a provider vouches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vouched {
    /// The assertion's id.
    pub id: String,
    /// Whom it is about.
    pub name: NameId,
    /// The session at the provider.
    pub session: Option<String>,
    /// When it ends there.
    pub until: Option<Timestamp>,
    /// The attributes by name: a text, or a list of them; and the name as `sub`.
    pub claims: Claims,
}

/// Reads a response, and judges it.
///
/// # Errors
/// It is not of the one shape, not signed, or does not answer to what is expected.
pub fn judge(xml: &str, expected: &Expected<'_>) -> Result<Vouched, SamlFault> {
    let document = parse(xml)?;
    let root = document.root_element();
    if !is(root, PROTOCOL, "Response") || attribute(root, "Version")? != "2.0" {
        return Err(DocumentFault::Shape.into());
    }
    let parts = Parts::of(root)?;
    refused(parts.status)?;
    let assertion = parts.assertion.ok_or(DocumentFault::Shape)?;
    let said = Said::of(assertion)?;
    for (element, signature) in [(root, parts.signature), (assertion, said.signature)] {
        if let Some(signature) = signature {
            verify(element, signature, expected.keys)?;
        }
    }
    if parts.signature.is_none() && said.signature.is_none() {
        return Err(SignatureFault::Missing.into());
    }
    // From here on everything is under a signature of the provider's but, where it signs assertions alone, the
    // response's own attributes: these are judged too, and nothing is taken from them.
    answers(root, parts.issuer, expected)?;
    said.vouched(assertion, expected)
}

/// Judges a status (SAML 2.0 Core, section 3.2.2.2): its code says who is to do something, the one in it why.
fn refused(status: Node<'_, '_>) -> Result<(), SamlFault> {
    let code = one(status, PROTOCOL, "StatusCode")?;
    let why = at_most_one(code, PROTOCOL, "StatusCode")?.map(status_name).transpose()?;
    let is_no = why.is_some_and(|why| NOS.contains(&why));
    let fault = match status_name(code)? {
        SUCCESS => return Ok(()),
        "Requester" | "VersionMismatch" if !is_no => ResponseFault::Settings,
        "Responder" if !is_no => ResponseFault::Unwell,
        _ => ResponseFault::Refused,
    };
    Err(fault.into())
}

/// Returns what a status code is called, empty where no standard calls it anything.
fn status_name<'a>(code: Node<'a, '_>) -> Result<&'a str, DocumentFault> {
    Ok(attribute(code, "Value")?.strip_prefix(STATUS).unwrap_or_default())
}

/// The elements of a response.
struct Parts<'a, 'i> {
    issuer: Option<Node<'a, 'i>>,
    signature: Option<Node<'a, 'i>>,
    status: Node<'a, 'i>,
    assertion: Option<Node<'a, 'i>>,
}

impl<'a, 'i> Parts<'a, 'i> {
    fn of(root: Node<'a, 'i>) -> Result<Self, DocumentFault> {
        let mut rest = elements(root)?.into_iter().peekable();
        if rest.clone().any(|node| is(node, ASSERTION, "EncryptedAssertion")) {
            return Err(DocumentFault::Encrypted);
        }
        let issuer = rest.next_if(|node| is(*node, ASSERTION, "Issuer"));
        let signature = rest.next_if(|node| is(*node, DSIG, "Signature"));
        let status = rest.next_if(|node| is(*node, PROTOCOL, "Status")).ok_or(DocumentFault::Shape)?;
        let assertion = rest.next_if(|node| is(*node, ASSERTION, "Assertion"));
        if rest.next().is_some() {
            return Err(DocumentFault::Shape);
        }
        Ok(Self { issuer, signature, status, assertion })
    }
}

/// The elements of an assertion.
struct Said<'a, 'i> {
    issuer: Node<'a, 'i>,
    signature: Option<Node<'a, 'i>>,
    subject: Node<'a, 'i>,
    conditions: Node<'a, 'i>,
    statements: Vec<Node<'a, 'i>>,
}

impl<'a, 'i> Said<'a, 'i> {
    fn of(assertion: Node<'a, 'i>) -> Result<Self, DocumentFault> {
        if attribute(assertion, "Version")? != "2.0" || attribute(assertion, "ID")?.is_empty() {
            return Err(DocumentFault::Shape);
        }
        let mut rest = elements(assertion)?.into_iter().peekable();
        let mut next = |namespace, name| rest.next_if(|node| is(*node, namespace, name));
        let issuer = next(ASSERTION, "Issuer").ok_or(DocumentFault::Shape)?;
        let signature = next(DSIG, "Signature");
        let subject = next(ASSERTION, "Subject").ok_or(DocumentFault::Shape)?;
        let conditions = next(ASSERTION, "Conditions").ok_or(DocumentFault::Shape)?;
        let statements: Vec<_> = rest.collect();
        let is_known = |node: &Node<'_, '_>| {
            is(*node, ASSERTION, "AuthnStatement") || is(*node, ASSERTION, "AttributeStatement")
        };
        if !statements.iter().all(is_known) {
            return Err(DocumentFault::Shape);
        }
        Ok(Self { issuer, signature, subject, conditions, statements })
    }

    fn vouched(&self, assertion: Node<'_, '_>, expected: &Expected<'_>) -> Result<Vouched, SamlFault> {
        if text(self.issuer)? != expected.issuer {
            return Err(ResponseFault::Issuer.into());
        }
        conditions(self.conditions, expected)?;
        let name = subject(self.subject, expected)?;
        let authentications = self.statements.iter().filter(|node| is(**node, ASSERTION, "AuthnStatement"));
        let (mut session, mut until) = (None, None);
        let mut is_authenticated = false;
        for statement in authentications {
            is_authenticated = true;
            let end = moment(*statement, "SessionNotOnOrAfter")?;
            if end.is_some_and(|end| is_past(end, expected.now)) {
                return Err(ResponseFault::Expired.into());
            }
            until = until.into_iter().chain(end).min();
            session = session.or(statement.attribute("SessionIndex").map(str::to_owned));
        }
        if !is_authenticated {
            return Err(ResponseFault::Subject.into());
        }
        let mut claims = Claims::new();
        for statement in self.statements.iter().filter(|node| is(**node, ASSERTION, "AttributeStatement")) {
            attributes(*statement, &mut claims)?;
        }
        claims.insert("sub".to_owned(), Value::String(name.value.clone()));
        Ok(Vouched { id: attribute(assertion, "ID")?.to_owned(), name, session, until, claims })
    }
}

/// Judges what the response says of itself.
fn answers(
    root: Node<'_, '_>,
    issuer: Option<Node<'_, '_>>,
    expected: &Expected<'_>,
) -> Result<(), SamlFault> {
    if issuer.map(text).transpose()?.is_some_and(|issuer| issuer != expected.issuer) {
        return Err(ResponseFault::Issuer.into());
    }
    if root.attribute("Destination") != Some(expected.place) {
        return Err(ResponseFault::Destination.into());
    }
    if root.attribute("InResponseTo") != Some(expected.question) {
        return Err(ResponseFault::Question.into());
    }
    if moment(root, "IssueInstant")?.is_none_or(|issued| is_ahead(issued, expected.now)) {
        return Err(ResponseFault::Early.into());
    }
    Ok(())
}

fn conditions(node: Node<'_, '_>, expected: &Expected<'_>) -> Result<(), SamlFault> {
    in_time(node, expected.now)?;
    let mut is_for_us = false;
    for condition in elements(node)? {
        if is(condition, ASSERTION, "AudienceRestriction") {
            let audiences: Vec<String> =
                elements(condition)?.into_iter().map(text).collect::<Result<_, _>>()?;
            // Each restriction has to be met.
            if !audiences.iter().any(|audience| audience == expected.audience) {
                return Err(ResponseFault::Audience.into());
            }
            is_for_us = true;
        } else if !is(condition, ASSERTION, "OneTimeUse") && !is(condition, ASSERTION, "ProxyRestriction") {
            return Err(ResponseFault::Condition.into());
        }
    }
    if is_for_us { Ok(()) } else { Err(ResponseFault::Audience.into()) }
}

fn subject(node: Node<'_, '_>, expected: &Expected<'_>) -> Result<NameId, SamlFault> {
    let parts = elements(node)?;
    let [name, confirmation] = parts.as_slice() else { return Err(ResponseFault::Subject.into()) };
    if !is(*name, ASSERTION, "NameID") || !is(*confirmation, ASSERTION, "SubjectConfirmation") {
        return Err(ResponseFault::Subject.into());
    }
    if confirmation.attribute("Method") != Some(BEARER) {
        return Err(ResponseFault::Confirmation.into());
    }
    let data = at_most_one(*confirmation, ASSERTION, "SubjectConfirmationData")?;
    let data = data.ok_or(ResponseFault::Confirmation)?;
    if data.attribute("Recipient") != Some(expected.place) {
        return Err(ResponseFault::Confirmation.into());
    }
    if data.attribute("InResponseTo") != Some(expected.question) {
        return Err(ResponseFault::Question.into());
    }
    in_time(data, expected.now)?;
    let of = |attribute: &str| name.attribute(attribute).map(str::to_owned);
    let value = text(*name)?;
    if value.is_empty() {
        return Err(ResponseFault::Subject.into());
    }
    Ok(NameId {
        value,
        format: of("Format"),
        qualifier: of("NameQualifier"),
        for_whom: of("SPNameQualifier"),
    })
}

/// Judges the time for which an element counts; it has to say until when.
fn in_time(node: Node<'_, '_>, now: Timestamp) -> Result<(), SamlFault> {
    if moment(node, "NotOnOrAfter")?.is_none_or(|end| is_past(end, now)) {
        return Err(ResponseFault::Expired.into());
    }
    if moment(node, "NotBefore")?.is_some_and(|start| is_ahead(start, now)) {
        return Err(ResponseFault::Early.into());
    }
    Ok(())
}

pub(super) fn is_past(end: Timestamp, now: Timestamp) -> bool {
    end.as_second().saturating_add(SKEW_S) <= now.as_second()
}

pub(super) fn is_ahead(start: Timestamp, now: Timestamp) -> bool {
    start.as_second().saturating_sub(SKEW_S) > now.as_second()
}

/// Gathers attributes by name; what is no plain text (a name id in a value, say) is passed over.
fn attributes(statement: Node<'_, '_>, claims: &mut Claims) -> Result<(), DocumentFault> {
    for found in elements(statement)? {
        if !is(found, ASSERTION, "Attribute") {
            return Err(DocumentFault::Shape);
        }
        let entry = claims.entry(attribute(found, "Name")?.to_owned());
        let Value::Array(values) = entry.or_insert_with(|| Value::Array(Vec::new())) else { continue };
        let texts = elements(found)?.into_iter().filter(|node| is(*node, ASSERTION, "AttributeValue"));
        values.extend(texts.filter_map(|node| text(node).ok()).map(Value::String));
        if values.len() > VALUES_MAX {
            return Err(DocumentFault::TooLarge);
        }
    }
    Ok(())
}
