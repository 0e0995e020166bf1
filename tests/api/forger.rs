//! A SAML identity provider that signs whatever it is told to, and writes it in canonical form by itself: what the
//! gateway verifies here does not rest on the gateway's own canonicalization.
#![allow(dead_code, reason = "not every test needs all of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use portcullis::access::sso::saml::key::OwnKey;
use rcgen::CertificateParams;
use rcgen::KeyPair;
use sha2::Digest;
use sha2::Sha256;

pub const ENTITY: &str = "https://id.example/idp";
pub const OURS: &str = "https://gate.example/auth/saml/metadata";
pub const CALLBACK: &str = "https://gate.example/auth/callback";
pub const LOGOUT: &str = "https://gate.example/auth/saml/logout";
const DSIG: &str = "http://www.w3.org/2000/09/xmldsig#";

/// The provider.
pub struct Forger {
    pub key: OwnKey,
    pub metadata: String,
}

/// What a response says; every text as it stands in the XML.
#[derive(Clone)]
pub struct Said {
    pub issuer: String,
    pub id: String,
    pub subject: String,
    pub groups: String,
    pub recipient: String,
    pub destination: String,
    pub audience: String,
    pub question: String,
    pub from: String,
    pub until: String,
    pub confirmed_until: String,
    pub session_until: String,
    pub status: String,
    pub conditions: String,
    pub confirmation: String,
}

impl Said {
    /// What an honest provider says at a moment, asked under an id.
    pub fn honestly(question: &str, now: Timestamp) -> Self {
        let at = |seconds: i64| Timestamp::from_second(now.as_second() + seconds).unwrap().to_string();
        Self {
            issuer: ENTITY.to_owned(),
            id: format!("_a{}", &question[..question.len().min(20)]),
            subject: "u1".to_owned(),
            groups: "readers".to_owned(),
            recipient: CALLBACK.to_owned(),
            destination: CALLBACK.to_owned(),
            audience: OURS.to_owned(),
            question: question.to_owned(),
            from: at(-5),
            until: at(300),
            confirmed_until: at(300),
            session_until: at(3600),
            status: "urn:oasis:names:tc:SAML:2.0:status:Success".to_owned(),
            conditions: String::new(),
            confirmation: "urn:oasis:names:tc:SAML:2.0:cm:bearer".to_owned(),
        }
    }

    /// Returns the assertion, in canonical form, without a signature.
    pub fn assertion(&self) -> String {
        let Self { issuer, id, subject, recipient, audience, question, from, until, groups, .. } = self;
        let (confirmed, session, method) = (&self.confirmed_until, &self.session_until, &self.confirmation);
        format!(
            "<saml:Assertion xmlns:saml=\"urn:oasis:names:tc:SAML:2.0:assertion\" ID=\"{id}\" IssueInstant=\"{from}\" \
             Version=\"2.0\"><saml:Issuer>{issuer}</saml:Issuer><saml:Subject><saml:NameID>{subject}</saml:NameID>\
             <saml:SubjectConfirmation Method=\"{method}\"><saml:SubjectConfirmationData InResponseTo=\"{question}\" \
             NotOnOrAfter=\"{confirmed}\" Recipient=\"{recipient}\"></saml:SubjectConfirmationData>\
             </saml:SubjectConfirmation></saml:Subject><saml:Conditions NotBefore=\"{from}\" NotOnOrAfter=\"{until}\">\
             <saml:AudienceRestriction><saml:Audience>{audience}</saml:Audience></saml:AudienceRestriction>{}\
             </saml:Conditions><saml:AuthnStatement AuthnInstant=\"{from}\" SessionIndex=\"s1\" \
             SessionNotOnOrAfter=\"{session}\"><saml:AuthnContext><saml:AuthnContextClassRef>x\
             </saml:AuthnContextClassRef></saml:AuthnContext></saml:AuthnStatement><saml:AttributeStatement>\
             <saml:Attribute Name=\"email\"><saml:AttributeValue>u1@people.example</saml:AttributeValue>\
             </saml:Attribute><saml:Attribute Name=\"groups\"><saml:AttributeValue>{groups}</saml:AttributeValue>\
             <saml:AttributeValue>others</saml:AttributeValue></saml:Attribute></saml:AttributeStatement>\
             </saml:Assertion>",
            self.conditions
        )
    }

    /// Returns the response around some assertions, in canonical form.
    pub fn response(&self, inside: &str) -> String {
        let Self { issuer, destination, question, from, status, .. } = self;
        format!(
            "<samlp:Response xmlns:samlp=\"urn:oasis:names:tc:SAML:2.0:protocol\" Destination=\"{destination}\" \
             ID=\"_r1\" InResponseTo=\"{question}\" IssueInstant=\"{from}\" Version=\"2.0\"><saml:Issuer \
             xmlns:saml=\"urn:oasis:names:tc:SAML:2.0:assertion\">{issuer}</saml:Issuer><samlp:Status>\
             <samlp:StatusCode Value=\"{status}\"></samlp:StatusCode></samlp:Status>{inside}</samlp:Response>"
        )
    }
}

/// How a signature differs from an honest one.
#[derive(Clone)]
pub struct Way {
    pub algorithm: String,
    pub canonicalization: String,
    pub transforms: String,
    pub digest_method: String,
    pub uri: Option<String>,
    /// Stands behind the value of the signature.
    pub more: String,
    /// Stands in the one reference, or beside it.
    pub second_reference: bool,
}

impl Default for Way {
    fn default() -> Self {
        let exclusive = "http://www.w3.org/2001/10/xml-exc-c14n#";
        Self {
            algorithm: "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha256".to_owned(),
            canonicalization: exclusive.to_owned(),
            transforms: format!(
                "<ds:Transform Algorithm=\"{DSIG}enveloped-signature\"></ds:Transform>\
                 <ds:Transform Algorithm=\"{exclusive}\"></ds:Transform>"
            ),
            digest_method: "http://www.w3.org/2001/04/xmlenc#sha256".to_owned(),
            uri: None,
            more: String::new(),
            second_reference: false,
        }
    }
}

impl Forger {
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::default().self_signed(&key).unwrap();
        let key = OwnKey::of_pem(key.serialize_pem().as_bytes(), certificate.pem().as_bytes()).unwrap();
        let redirect = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect";
        let metadata = format!(
            "<EntityDescriptor xmlns=\"urn:oasis:names:tc:SAML:2.0:metadata\" entityID=\"{ENTITY}\">\
             <IDPSSODescriptor><KeyDescriptor use=\"signing\"><KeyInfo xmlns=\"{DSIG}\"><X509Data><X509Certificate>{}\
             </X509Certificate></X509Data></KeyInfo></KeyDescriptor><SingleLogoutService Binding=\"{redirect}\" \
             Location=\"https://id.example/out\"/><SingleSignOnService Binding=\"{redirect}\" \
             Location=\"https://id.example/in?tenant=1\"/></IDPSSODescriptor></EntityDescriptor>",
            STANDARD.encode(certificate.der())
        );
        Self { key, metadata }
    }

    /// Returns the signature over an element in canonical form, by its id.
    pub fn signature(&self, element: &str, way: &Way) -> String {
        let id = element.split(" ID=\"").nth(1).unwrap_or_default().split('"').next().unwrap();
        let uri = way.uri.clone().unwrap_or_else(|| format!("#{id}"));
        let digest = STANDARD.encode(Sha256::digest(element.as_bytes()));
        let reference = format!(
            "<ds:Reference URI=\"{uri}\"><ds:Transforms>{}</ds:Transforms><ds:DigestMethod Algorithm=\"{}\">\
             </ds:DigestMethod><ds:DigestValue>{digest}</ds:DigestValue></ds:Reference>",
            way.transforms, way.digest_method
        );
        let twice = if way.second_reference { reference.as_str() } else { "" };
        let info = format!(
            "<ds:SignedInfo xmlns:ds=\"{DSIG}\"><ds:CanonicalizationMethod Algorithm=\"{}\">\
             </ds:CanonicalizationMethod><ds:SignatureMethod Algorithm=\"{}\"></ds:SignatureMethod>{reference}{twice}\
             </ds:SignedInfo>",
            way.canonicalization, way.algorithm
        );
        let value = STANDARD.encode(self.key.sign(info.as_bytes()).unwrap());
        // Signed on its own it declares the prefix; where it stands that is declared around it.
        let info = info.replacen(&format!(" xmlns:ds=\"{DSIG}\""), "", 1);
        format!(
            "<ds:Signature xmlns:ds=\"{DSIG}\">{info}<ds:SignatureValue>{value}</ds:SignatureValue>{}</ds:Signature>",
            way.more
        )
    }

    /// Returns an element with a signature of its own, behind its issuer.
    pub fn signed_in(&self, element: &str, way: &Way) -> String {
        with_signature(element, &self.signature(element, way))
    }

    pub fn signed(&self, element: &str) -> String {
        self.signed_in(element, &Way::default())
    }

    /// Returns what an honest provider answers.
    pub fn response(&self, said: &Said) -> String {
        said.response(&self.signed(&said.assertion()))
    }
}

/// Puts a signature where it belongs: behind the issuer of the outermost element.
pub fn with_signature(element: &str, signature: &str) -> String {
    element.replacen("</saml:Issuer>", &format!("</saml:Issuer>{signature}"), 1)
}

/// Returns the id of the request in a message.
pub fn question_in(message: &str) -> String {
    inflated(message).split(" ID=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

pub fn inflated(message: &str) -> String {
    let bytes = STANDARD.decode(message).unwrap();
    std::io::read_to_string(flate2::read::DeflateDecoder::new(bytes.as_slice())).unwrap()
}
