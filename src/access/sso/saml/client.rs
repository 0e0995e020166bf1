//! The flow: leaving for the provider, coming back with its response, and signing out on either side.
//!
//! Everything here is synchronous, and reads the provider's metadata file anew: handlers call it off the threads that
//! serve.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;

use super::POST;
use super::SamlConfig;
use super::SamlFault;
use super::Trusted;
use super::document::DOCUMENT_BYTES_MAX;
use super::document::DocumentFault;
use super::key::OwnKey;
use super::logout;
use super::logout::Head;
use super::message;
use super::message::Kind;
use super::message::escaped;
use super::metadata;
use super::metadata::MetadataFault;
use super::response;
use super::response::Expected;
use super::response::NameId;
use crate::access::secret::NodeSecret;
use crate::access::session::Identity;
use crate::access::spent::Spent;
use crate::access::sso::Hidden;
use crate::access::sso::Mapping;
use crate::access::sso::SignedIn;
use crate::access::sso::attempt::ATTEMPT_LIFETIME;
use crate::access::sso::attempt::Attempt;
use crate::access::sso::attempt::Attempts;
use crate::access::sso::claims;
use crate::access::url::Origin;
use crate::clock::Clock;
use crate::store::Store;

/// What is used once: assertions, and the attempts they answer.
const ASSERTION_USED: &str = "saml-assertion-used";
const ATTEMPT_USED: &str = "saml-attempt-used";
/// How long that is remembered: longer than either would be taken.
const USED_KEPT_FOR: Duration = Duration::from_secs(2 * ATTEMPT_LIFETIME.as_secs());
/// Where it is remembered.
const USED_TABLE: &str = "saml_used";
const ID_BYTES: usize = 20;
const KEY_BYTES_MAX: usize = 64 * 1024;

/// One identity provider, and our part of the protocol.
pub struct SamlClient {
    config: SamlConfig,
    own: Option<OwnKey>,
    issuer: Mutex<String>,
    attempts: Attempts,
    /// What was used at whichever node, in this process or one before.
    used: Spent,
    clock: Arc<dyn Clock>,
}

/// What a browser brings back from the provider.
#[derive(Clone, Debug, Default)]
pub struct Posted<'a> {
    /// The cookie of the attempt.
    pub cookie: Option<&'a str>,
    /// What we gave along.
    pub relay: Option<&'a str>,
    /// The response, in base 64.
    pub response: &'a str,
}

/// What a logout message of the provider's comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// The provider signs somebody out: their sessions are to be ended, then the browser goes on.
    Asked {
        /// The provider.
        issuer: String,
        /// Whom.
        subject: String,
        /// Which of their sessions there; none named: all.
        sessions: Vec<String>,
        /// Where the browser goes on, with our answer.
        answer: String,
    },
    /// The provider has signed somebody out whom we had sent there; entirely, or not.
    Done {
        /// Whether everybody else agreed.
        entirely: bool,
    },
}

impl SamlClient {
    /// Reads the provider's metadata and our key once, to see that they can be used. In: the time as well, and the moment
    /// that has surely come, by which it is forgotten what was used.
    ///
    /// # Errors
    /// They cannot.
    pub fn new(
        config: SamlConfig,
        node: NodeSecret,
        store: &Store,
        (clock, sure): (Arc<dyn Clock>, Arc<dyn Clock>),
    ) -> Result<Self, SamlFault> {
        let own = match &config.signing {
            None => None,
            Some(files) => Some(own_key(&files.key, &files.certificate).ok_or(SamlFault::OwnKey)?),
        };
        let (attempts, used) =
            (Attempts::new(node.clone()), Spent::new(store, USED_TABLE, node).aged_by(sure));
        let client = Self { config, own, issuer: Mutex::default(), attempts, used, clock };
        client.trusted()?;
        Ok(client)
    }

    /// Returns the provider's name, as its metadata gave it when they were read last.
    pub fn issuer(&self) -> String {
        self.issuer.lock().clone()
    }

    /// Returns which of its attributes is what.
    pub fn mapping(&self) -> &Mapping {
        &self.config.mapping
    }

    /// Returns the provider's host, which people know it by; empty where its metadata cannot be read now.
    pub fn host(&self) -> String {
        self.trusted().map(|trusted| trusted.sign_on.host().to_owned()).unwrap_or_default()
    }

    /// Returns the origin a browser is sent to for signing out there.
    pub fn logout_origin(&self) -> Option<Origin> {
        self.own.as_ref()?;
        Some(self.trusted().ok()?.logout?.request.origin())
    }

    /// Returns our metadata.
    pub fn metadata(&self) -> String {
        metadata::write(&self.config, self.own.as_ref())
    }

    /// Begins a sign-in that leads to `next` in the end; returns where to send the browser, and what it keeps.
    ///
    /// # Errors
    /// The provider's metadata cannot be read.
    pub fn begin(&self, next: &str) -> Result<(String, Attempt), SamlFault> {
        let trusted = self.trusted()?;
        let now = self.clock.now();
        let attempt = self.attempts.begin(next, now);
        let id = question(&attempt);
        let place = trusted.sign_on.as_str();
        let head = Head { id: &id, entity_id: &self.config.entity_id, place, now };
        let attributes = format!(
            " ProtocolBinding=\"{POST}\" AssertionConsumerServiceURL=\"{}\"",
            escaped(&self.config.callback())
        );
        let xml = head.write("AuthnRequest", &attributes, "<samlp:NameIDPolicy AllowCreate=\"true\"/>");
        let own = self.own.as_ref();
        let address = message::address(&trusted.sign_on, Kind::Request, &xml, Some(&attempt.state), own);
        Ok((address.ok_or(SamlFault::OwnKey)?, attempt))
    }

    /// Completes a sign-in with what the browser brought back.
    ///
    /// # Errors
    /// See [`SamlFault`]; the attempt is used up only where it lets somebody in. Blocks for a disk sync.
    pub fn complete(&self, posted: &Posted<'_>) -> Result<SignedIn, SamlFault> {
        let now = self.clock.now();
        let attempt = self.attempts.take_back(posted.cookie, posted.relay, now)?;
        let trusted = self.trusted()?;
        let xml = decoded(posted.response)?;
        let (place, question) = (self.config.callback(), question(&attempt));
        let expected = Expected {
            issuer: &trusted.entity_id,
            keys: &trusted.keys,
            audience: &self.config.entity_id,
            place: &place,
            question: &question,
            now,
        };
        let vouched = response::judge(&xml, &expected)?;
        self.used.spend(ASSERTION_USED, &vouched.id, now, USED_KEPT_FOR)?;
        let identity = claims::identity(&vouched.claims, &trusted.entity_id, &self.config.mapping);
        let mut identity = identity.ok_or_else(|| SamlFault::NoRole(Hidden(vouched.name.value.clone())))?;
        (identity.session, identity.until) = (vouched.session, vouched.until);
        let hint = serde_json::to_string(&vouched.name).unwrap_or_default();
        // Elsewhere, or before a restart, it may have let somebody in with another assertion.
        self.used.spend(ATTEMPT_USED, &attempt.state, now, USED_KEPT_FOR)?;
        Ok(SignedIn { identity, next: attempt.lead_in(), logout_hint: Hidden(hint) })
    }

    /// Returns where to send a browser to sign somebody out at the provider; `None` where it offers no such place, or
    /// we have nothing to sign with. `hint` is what the sign-in gave.
    pub fn logout_address(&self, identity: &Identity, hint: Option<&str>) -> Option<String> {
        let own = self.own.as_ref()?;
        let place = self.trusted().ok()?.logout?.request;
        let bare =
            || NameId { value: identity.subject.clone(), format: None, qualifier: None, for_whom: None };
        let name = hint.and_then(|hint| serde_json::from_str(hint).ok()).unwrap_or_else(bare);
        let id = fresh_id();
        let head =
            Head { id: &id, entity_id: &self.config.entity_id, place: place.as_str(), now: self.clock.now() };
        let xml = logout::write_request(&head, &name, identity.session.as_deref());
        message::address(&place, Kind::Request, &xml, None, Some(own))
    }

    /// Takes a logout message that a browser brings in the query of its address.
    ///
    /// # Errors
    /// It is not the provider's, or cannot be answered.
    pub fn take_logout(&self, query: &str) -> Result<Leaving, SamlFault> {
        let own = self.own.as_ref().ok_or(SamlFault::NoKey)?;
        let trusted = self.trusted()?;
        let signed = message::read(query, &trusted.keys)?;
        let (place, now) = (self.config.logout(), self.clock.now());
        if signed.kind == Kind::Response {
            let entirely = logout::read_response(&signed.xml, &trusted.entity_id, &place)?;
            return Ok(Leaving::Done { entirely });
        }
        let asked = logout::read_request(&signed.xml, &trusted.entity_id, &place, now)?;
        let back = trusted.logout.ok_or(SamlFault::NoKey)?.response;
        let id = fresh_id();
        let head = Head { id: &id, entity_id: &self.config.entity_id, place: back.as_str(), now };
        let xml = logout::write_response(&head, &asked.id);
        let answer = message::address(&back, Kind::Response, &xml, signed.relay.as_deref(), Some(own));
        Ok(Leaving::Asked {
            issuer: trusted.entity_id,
            subject: asked.subject,
            sessions: asked.sessions,
            answer: answer.ok_or(SamlFault::OwnKey)?,
        })
    }

    fn trusted(&self) -> Result<Trusted, MetadataFault> {
        let bytes = bounded(&self.config.metadata_file, DOCUMENT_BYTES_MAX);
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or(MetadataFault::Unreadable)?;
        let trusted = metadata::read(&text)?;
        self.issuer.lock().clone_from(&trusted.entity_id);
        Ok(trusted)
    }
}

/// Reads our key; `None` where it cannot be used, or does not belong to the certificate.
pub fn own_key(key: &Path, certificate: &Path) -> Option<OwnKey> {
    OwnKey::of_pem(&bounded(key, KEY_BYTES_MAX)?, &bounded(certificate, KEY_BYTES_MAX)?)
}

/// Reads a provider's metadata, to see whether they can be used.
///
/// # Errors
/// They cannot.
pub fn check_metadata(file: &Path) -> Result<(), MetadataFault> {
    let text = bounded(file, DOCUMENT_BYTES_MAX).and_then(|bytes| String::from_utf8(bytes).ok());
    metadata::read(&text.ok_or(MetadataFault::Unreadable)?).map(|_| ())
}

/// Returns the id of the request that an attempt sends.
fn question(attempt: &Attempt) -> String {
    format!("_{}", attempt.nonce)
}

fn decoded(response: &str) -> Result<String, DocumentFault> {
    let text: String = response.split_ascii_whitespace().collect();
    if text.len() > DOCUMENT_BYTES_MAX.div_ceil(3) * 4 {
        return Err(DocumentFault::TooLarge);
    }
    let bytes = STANDARD.decode(text).map_err(|_| DocumentFault::Form)?;
    String::from_utf8(bytes).map_err(|_| DocumentFault::Form)
}

fn fresh_id() -> String {
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    let mut id = String::from("_");
    for byte in bytes {
        id.push_str(&format!("{byte:02x}"));
    }
    id
}

fn bounded(file: &Path, bytes_max: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file).ok()?.take(bytes_max as u64 + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() <= bytes_max).then_some(bytes)
}
