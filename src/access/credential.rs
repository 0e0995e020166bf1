//! Which credential a request carries, and whom it stands for.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::HeaderName;
use http::header;
use percent_encoding::percent_decode_str;

use super::key;
use super::key::KeyText;
use super::role::Permission;
use super::role::Role;
use super::scope::Scope;
use super::tier::Tier;
use super::token;
use super::token::Claims;

/// Whom a credential stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The id used in records: a key's, a user's, or the subject of a single sign-on.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// How much it is entitled to.
    pub tier: Tier,
    /// What it may be used for.
    pub scope: Arc<Scope>,
    /// What it showed.
    pub proof: Proof,
}

/// The kind of credential that was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// An API key, in this text.
    Key(KeyText),
    /// A bearer token that says this.
    Token(Claims),
    /// The session of this id, begun with a key or otherwise.
    Session {
        /// The session.
        id: String,
        /// Whether its holder is a key.
        by_key: bool,
    },
}

/// What is wrong with the credentials of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialFault {
    /// Two headers carry different credentials.
    #[error("two different credentials were given: send one")]
    Ambiguous,
    /// A header is not as it should be.
    #[error("the credential is malformed")]
    Malformed,
    /// It is one of ours, where the provider's own is passed on.
    #[error("this is a credential of the gateway, and this route passes on the provider's own")]
    Ours,
    /// It is in the query, which ends in logs.
    #[error("a credential in the query is refused: send it in a header")]
    InQuery,
}

/// Where credentials are looked for.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// The headers that hold one; in `Authorization` it follows `Bearer`.
    pub headers: &'static [&'static str],
    /// Whether one of [`CREDENTIAL_PROTOCOLS`] holds one, too.
    protocols: bool,
    /// Query parameters that hold none, beside [`QUERY_PARAMETERS`]: who writes them takes them for its place.
    parameters: &'static [&'static str],
}

/// Where our clients put a credential.
pub const OWN_PLACES: Places = Places {
    headers: &["x-api-key", "authorization", "x-api-token"],
    protocols: false,
    parameters: &["authorization", "auth", "bearer", "secret"],
};
/// Where our clients and the SDKs of providers put one; a provider may have parameters of any other name.
pub const ALL_PLACES: Places = Places {
    headers: &["authorization", "x-api-key", "x-goog-api-key", "api-key", "x-api-token"],
    protocols: true,
    parameters: &[],
};
/// What begins the names of subprotocols by which OpenAI's WebSockets take a credential, or an account it is used for,
/// of pages that can set no header (their guide to Realtime over WebSocket).
pub const CREDENTIAL_PROTOCOLS: [&str; 3] =
    ["openai-insecure-api-key.", "openai-organization.", "openai-project."];
/// Query parameters in which credentials are sent elsewhere.
const QUERY_PARAMETERS: [&str; 11] = [
    "key",
    "api_key",
    "api-key",
    "apikey",
    "x-api-key",
    "x-api-token",
    "token",
    "access_token",
    // Google's APIs.
    "oauth_token",
    "bearer_token",
    // Azure's API Management.
    "subscription-key",
];
/// Where else providers look for one: Azure's AI services.
const PROVIDERS_PLACE: &str = "ocp-apim-subscription-key";
/// The subprotocol that holds a credential among [`CREDENTIAL_PROTOCOLS`].
const KEY_PROTOCOL: &str = CREDENTIAL_PROTOCOLS[0];
const PROTOCOLS: &str = "sec-websocket-protocol";
/// What begins the schemes of signatures, which are other ones for each request: whose they are says the id of a key.
const SIGNED: &str = "AWS4-";
const SIGNER: &str = "Credential=";
const SIGNER_PARAMETER: &str = "X-Amz-Credential";

/// A credential, and where it was.
#[derive(Clone, PartialEq, Eq)]
pub struct Presented {
    /// The credential.
    pub credential: String,
    /// The header it came in.
    pub place: HeaderName,
}

impl std::fmt::Debug for Presented {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Presented").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Principal {
    /// Returns the name used in records.
    pub fn id(&self) -> String {
        self.id.clone()
    }

    /// Returns the name of the bucket that pays for what it does.
    pub fn payer(&self) -> String {
        match self.proof {
            Proof::Key(_) | Proof::Session { by_key: true, .. } => format!("key:{}", self.id),
            Proof::Token(_) | Proof::Session { by_key: false, .. } => format!("user:{}", self.id),
        }
    }

    /// Tells whether the credential may do something.
    pub fn may(&self, permission: Permission) -> bool {
        self.role.may(permission)
    }
}

/// Returns the credential of a request: looked for in `places`, the same in each where there are several
/// (some SDKs write it twice); an empty one is none, as is `Bearer` with nothing behind it.
///
/// # Errors
/// See [`CredentialFault`].
pub fn presented(
    headers: &HeaderMap,
    query: Option<&str>,
    places: &Places,
) -> Result<Option<Presented>, CredentialFault> {
    if query.is_some_and(|query| names_credential(query, places.parameters) || holds_ours(query)) {
        return Err(CredentialFault::InQuery);
    }
    let mut found: Option<Presented> = None;
    let mut take = |credential: &str, name: &'static str| {
        if credential.is_empty() {
            return Ok(());
        }
        if found.as_ref().is_some_and(|other| other.credential != credential) {
            return Err(CredentialFault::Ambiguous);
        }
        let place = HeaderName::from_static(name);
        found.get_or_insert(Presented { credential: credential.to_owned(), place });
        Ok(())
    };
    for name in places.headers {
        for value in headers.get_all(*name) {
            let text = value.to_str().map_err(|_| CredentialFault::Malformed)?.trim();
            let credential = match *name {
                "authorization" => token_of(text).ok_or(CredentialFault::Malformed)?,
                _ => text,
            };
            take(credential, name)?;
        }
    }
    if places.protocols {
        in_protocols(headers, |key| take(key, PROTOCOLS))?;
    }
    Ok(found)
}

/// Returns the credential that a request carries for its provider, wherever that may look for one: in
/// [`ALL_PLACES`], in the query, where Gemini's has one too, or among the subprotocols of a WebSocket. An empty one is
/// none (SDKs send those), and any scheme of `Authorization` is taken; what follows `Bearer` is the credential however
/// the scheme is written. Of a signature, which no two requests have alike, the id of the key it was made with is taken;
/// of a name and a password, whose name providers do not look at, the password.
///
/// # Errors
/// There are two: which of them counts, only the provider knows, and the caller could be a new one with each request.
/// A bearer token with white space in it, or a byte beyond ASCII, can be read in two ways; a signature that names no key,
/// or two, in none.
pub fn of_provider<'r>(
    headers: &'r HeaderMap,
    query: Option<&'r str>,
) -> Result<Option<Cow<'r, str>>, CredentialFault> {
    let mut found: Option<Cow<'r, str>> = None;
    let mut take = |credential: Cow<'r, str>| match &found {
        _ if credential.is_empty() => Ok(()),
        Some(other) if *other != credential => Err(CredentialFault::Ambiguous),
        _ => {
            found = Some(credential);
            Ok(())
        }
    };
    for name in ALL_PLACES.headers.iter().copied().chain([PROVIDERS_PLACE]) {
        for value in headers.get_all(name) {
            let text = value.to_str().map_err(|_| CredentialFault::Malformed)?.trim();
            if name == "authorization" && is_signature(text) {
                take(Cow::Borrowed(signer(text)?))?;
                continue;
            }
            if name == "authorization"
                && let Some(password) = password(text)
            {
                take(Cow::Owned(password))?;
                continue;
            }
            let token = match name {
                "authorization" => token_of(text),
                _ => None,
            };
            if token.is_some_and(|token| token.contains(char::is_whitespace)) {
                return Err(CredentialFault::Malformed);
            }
            take(Cow::Borrowed(token.unwrap_or(text)))?;
        }
    }
    in_protocols(headers, |key| take(Cow::Borrowed(key)))?;
    for pair in query.unwrap_or_default().split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if names_credential(name, ALL_PLACES.parameters) {
            take(unescaped(value))?;
        } else if unescaped(name) == SIGNER_PARAMETER {
            take(Cow::Owned(key_id(&unescaped(value)).to_owned()))?;
        }
    }
    Ok(found)
}

/// Shows each credential among the subprotocols that a WebSocket is asked for with.
fn in_protocols<'r>(
    headers: &'r HeaderMap,
    mut take: impl FnMut(&'r str) -> Result<(), CredentialFault>,
) -> Result<(), CredentialFault> {
    for value in headers.get_all(PROTOCOLS) {
        let offered = value.to_str().map_err(|_| CredentialFault::Malformed)?.split(',').map(str::trim);
        offered.filter_map(|protocol| protocol.strip_prefix(KEY_PROTOCOL)).try_for_each(&mut take)?;
    }
    Ok(())
}

/// Returns the password of `Basic` credentials (RFC 7617), or the name where there is none.
fn password(text: &str) -> Option<String> {
    let pair = basic(text)?;
    let (name, password) = pair.split_once(':')?;
    Some(if password.is_empty() { name } else { password }.to_owned())
}

/// Returns a name and a password as they were before they were coded.
fn basic(text: &str) -> Option<String> {
    let (_, coded) = text.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("basic"))?;
    String::from_utf8(STANDARD.decode(coded.trim()).ok()?).ok()
}

/// Tells whether `Basic` credentials hold one of ours, as the name or as the password.
pub fn basic_holds_ours(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::AUTHORIZATION).iter().filter_map(|value| value.to_str().ok());
    let pairs = values.filter_map(|text| basic(text.trim()));
    pairs.into_iter().any(|pair| pair.splitn(2, ':').any(is_ours))
}

fn is_signature(text: &str) -> bool {
    text.get(..SIGNED.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(SIGNED))
}

/// Returns the id of the key that a signature was made with.
fn signer(text: &str) -> Result<&str, CredentialFault> {
    let mut named = text.split([' ', ',']).filter_map(|word| word.strip_prefix(SIGNER));
    match (named.next().map(key_id), named.next()) {
        (Some(id), None) if !id.is_empty() => Ok(id),
        _ => Err(CredentialFault::Malformed),
    }
}

/// Returns the id of a key without the day, the place and the service that its signature is for.
fn key_id(credential: &str) -> &str {
    credential.split('/').next().unwrap_or_default()
}

/// Tells whether a text is one of our own credentials, that counts or did: none of these is a provider's business.
pub fn is_ours(text: &str) -> bool {
    key::is_key_text(text) || token::is_token_text(text)
}

/// Returns which of the places where one is looked for hold one of our own.
pub fn places_of_ours(headers: &HeaderMap) -> Vec<&'static str> {
    let holds = |name: &&str| {
        headers.get_all(*name).iter().filter_map(|value| value.to_str().ok()).any(|text| {
            let text = text.trim();
            is_ours(bearer(text).unwrap_or(text))
        })
    };
    ALL_PLACES.headers.iter().copied().filter(holds).collect()
}

/// Tells whether a query holds a credential of ours, however it is escaped: as the value of whatever parameter, or, where
/// it is a key, at any other place.
pub fn holds_ours(query: &str) -> bool {
    query.split('&').any(|pair| {
        let pair = unescaped(pair);
        let value = pair.split_once('=').map_or(&*pair, |(_, value)| value);
        token::is_token_text(value) || key::holds_key_text(&pair)
    })
}

/// Returns the credential of `Authorization`, empty where nothing is said there; `None` for another scheme.
fn token_of(text: &str) -> Option<&str> {
    match text.is_empty() || text.eq_ignore_ascii_case("bearer") {
        true => Some(""),
        false => bearer(text),
    }
}

/// Returns what follows `Bearer` (RFC 6750, section 2.1).
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Tells whether a query has a parameter that elsewhere holds a credential, or one of `more`, however its name is written.
fn names_credential(query: &str, more: &[&str]) -> bool {
    let names = query.split('&').map(|pair| unescaped(pair.split('=').next().unwrap_or_default()));
    let is_known =
        |name: &str| QUERY_PARAMETERS.iter().chain(more).any(|known| name.eq_ignore_ascii_case(known));
    names.into_iter().any(|name| is_known(&name))
}

/// Undoes percent-encoding; what is none stays.
fn unescaped(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}

#[cfg(test)]
mod tests;
