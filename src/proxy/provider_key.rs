//! The providers' own keys of routes that take ours, and the exchange of one for the other.
//!
//! A key is looked for where the provider's SDK puts it, and the provider's goes out where that provider looks for it:
//! in its own place, whichever the caller chose, and otherwise in the same one, so that every SDK works unchanged. Keys are
//! held in memory only, are read again at every reload, and are never shown: not in configurations, logs, errors or records.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::HeaderName;
use http::HeaderValue;
use http::header;
use pingora::http::RequestHeader;

use crate::access::credential::ALL_PLACES;
use crate::access::credential::CREDENTIAL_PROTOCOLS;
use crate::access::credential::Presented;
use crate::access::secret_file::SECRET_FILE_BYTES_MAX;
use crate::llm::dialect::Wire;
use crate::policy::route::Route;
use crate::policy::route::SecretPlace;

/// The longest key of a provider, in bytes.
const PROVIDER_KEY_BYTES_MAX: usize = SECRET_FILE_BYTES_MAX;

/// Headers that hold a credential too, or name the account that a credential is used for: with the provider's key that is
/// the route's, not the caller's.
const BESIDE: [&str; 5] = [
    // Azure's API Management.
    "ocp-apim-subscription-key",
    "x-amz-security-token",
    "openai-organization",
    "openai-project",
    "x-goog-user-project",
];

/// What begins keys that providers take as `Bearer` alone, also those that have a place of their own: tokens of OAuth
/// (Anthropic's, Google's), Bedrock's keys, and JWTs.
const BEARER_ONLY: [&str; 5] = ["sk-ant-oat", "ya29.", "ABSK", "bedrock-api-key-", "eyJ"];
/// Requests to Anthropic have it, at whatever path.
const ANTHROPIC_VERSION: &str = "anthropic-version";

/// Reads a secret from its place; `None` where there is none.
pub type ReadSecret = Box<dyn Fn(&SecretPlace) -> Option<String> + Send + Sync>;

/// The providers' keys by their places.
pub struct ProviderKeys {
    read: ReadSecret,
    held: ArcSwap<BTreeMap<SecretPlace, HeaderValue>>,
}

impl ProviderKeys {
    /// Returns keys that are read with `read`; none is known before [`ProviderKeys::refresh`].
    pub fn new(read: ReadSecret) -> Self {
        Self { read, held: ArcSwap::default() }
    }

    /// Reads the keys of these routes anew; logs the routes whose key cannot be had. A key that was had before
    /// stays: a file that is being replaced takes no route out of service.
    pub fn refresh(&self, routes: &[Route]) {
        let before = self.held.load();
        let mut held = BTreeMap::new();
        for route in routes {
            let Some(place) = route.auth.provider_key() else { continue };
            let read = (self.read)(place).as_deref().and_then(header_value);
            if read.is_none() {
                tracing::error!(route = route.name, "the route's provider key cannot be read");
            }
            if let Some(key) = read.or_else(|| before.get(place).cloned()) {
                held.insert(place.clone(), key);
            }
        }
        self.held.store(Arc::new(held));
    }

    /// Reads the keys of these routes that are not held yet, before exchanges can take the routes.
    pub fn prepare(&self, routes: &[Route]) {
        let mut held = BTreeMap::clone(&self.held.load());
        for place in routes.iter().filter_map(|route| route.auth.provider_key()) {
            if !held.contains_key(place)
                && let Some(key) = (self.read)(place).as_deref().and_then(header_value)
            {
                held.insert(place.clone(), key);
            }
        }
        self.held.store(Arc::new(held));
    }

    /// Returns the key that lies at a place, where it is held.
    pub fn held(&self, place: &SecretPlace) -> Option<HeaderValue> {
        self.held.load().get(place).cloned()
    }

    /// Puts the provider's key where providers of that kind look for it, or else where the caller put ours, and takes every
    /// other credential away, with what says whose account it is used for. `false` where the key cannot be had.
    pub fn exchange(
        &self,
        head: &mut RequestHeader,
        presented: &Presented,
        wire: Wire,
        place: Option<&SecretPlace>,
    ) -> bool {
        let own_place = own_place(head, wire);
        for name in ALL_PLACES.headers.iter().chain(&BESIDE) {
            head.remove_header(*name);
        }
        drop_protocols(head);
        let Some(place) = place else { return true };
        let held = self.held.load();
        let Some(key) = held.get(place) else { return false };
        let is_bearer_only = BEARER_ONLY.iter().any(|begin| key.as_bytes().starts_with(begin.as_bytes()));
        let goes_to = match (own_place, presented.place.as_str()) {
            (Some(_), _) if is_bearer_only => header::AUTHORIZATION,
            (Some(own), _) => HeaderName::from_static(own),
            (None, "x-api-token" | "sec-websocket-protocol") => header::AUTHORIZATION,
            (None, _) => presented.place.clone(),
        };
        let value = match goes_to == header::AUTHORIZATION {
            true => HeaderValue::from_bytes(&[b"Bearer ", key.as_bytes()].concat()),
            false => Ok(key.clone()),
        };
        let Ok(mut value) = value else { return false };
        value.set_sensitive(true);
        head.insert_header(goes_to, value).is_ok()
    }
}

/// Returns the header in which the provider of a request looks for its key, where that is not `Authorization`; `None`
/// also where nobody can tell who that is.
fn own_place(head: &RequestHeader, wire: Wire) -> Option<&'static str> {
    let has = |name: &str| head.headers.contains_key(name);
    match wire {
        Wire::Anthropic => Some("x-api-key"),
        Wire::Gemini => Some("x-goog-api-key"),
        // Lists of models, files: their paths tell nothing.
        Wire::Generic if has(ANTHROPIC_VERSION) => Some("x-api-key"),
        Wire::Generic if has("x-goog-api-key") => Some("x-goog-api-key"),
        Wire::OpenAiChat
        | Wire::OpenAiCompletions
        | Wire::OpenAiResponses
        | Wire::Cohere
        | Wire::Bedrock
        | Wire::OllamaChat
        | Wire::OllamaGenerate
        | Wire::JsonRpc
        | Wire::Generic => None,
    }
}

/// Takes credentials out of the subprotocols that a WebSocket is asked for with.
fn drop_protocols(head: &mut RequestHeader) {
    let name = header::SEC_WEBSOCKET_PROTOCOL;
    let offered: Vec<String> = head
        .headers
        .get_all(&name)
        .iter()
        .flat_map(|value| {
            String::from_utf8_lossy(value.as_bytes())
                .split(',')
                .map(|it| it.trim().to_owned())
                .collect::<Vec<_>>()
        })
        .collect();
    let is_credential = |protocol: &String| {
        let protocol = protocol.to_ascii_lowercase();
        CREDENTIAL_PROTOCOLS.iter().any(|begin| protocol.starts_with(begin))
    };
    if !offered.iter().any(is_credential) {
        return;
    }
    head.remove_header(&name);
    let kept: Vec<String> = offered.into_iter().filter(|it| !is_credential(it)).collect();
    // They were read from headers, so that they can be written to one.
    if !kept.is_empty() && head.insert_header(name, kept.join(", ")).is_err() {
        tracing::debug!("subprotocols that no header can hold are not passed on");
    }
}

/// Returns a provider's key as a header, where it is a line of visible characters.
pub fn header_value(text: &str) -> Option<HeaderValue> {
    let key = text.trim();
    let is_sane =
        (1..=PROVIDER_KEY_BYTES_MAX).contains(&key.len()) && key.bytes().all(|it| it.is_ascii_graphic());
    let mut value = is_sane.then(|| HeaderValue::from_str(key).ok()).flatten()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provider_gets_its_key_and_nothing_of_ours() {
        let place = SecretPlace::Environment("A".to_owned());
        let keys = ProviderKeys::new(Box::new(|_| Some(" secret\n".to_owned())));
        let head = || {
            let mut head = RequestHeader::build("POST", b"/", None).unwrap();
            head.insert_header("x-api-key", "pk_a").unwrap();
            head.insert_header("authorization", "Bearer pk_a").unwrap();
            for name in ["OpenAI-Organization", "OpenAI-Project", "Ocp-Apim-Subscription-Key"] {
                head.insert_header(name, "theirs").unwrap();
            }
            head
        };
        let given = Presented { credential: "pk_a".to_owned(), place: header::AUTHORIZATION };
        let mut unknown = head();
        assert!(!keys.exchange(&mut unknown, &given, Wire::OpenAiChat, Some(&place)), "not read yet");
        keys.held.store(Arc::new(BTreeMap::from([(place.clone(), header_value(" secret\n").unwrap())])));
        let mut sent = head();
        assert!(keys.exchange(&mut sent, &given, Wire::OpenAiChat, Some(&place)));
        assert_eq!(sent.headers.get("authorization").unwrap(), "Bearer secret");
        assert_eq!(sent.headers.len(), 1, "neither ours, nor another, nor whose account is to pay: {sent:?}");
        let mut bare = head();
        assert!(keys.exchange(&mut bare, &given, Wire::OpenAiChat, None));
        assert!(bare.headers.is_empty(), "{bare:?}");
        let ours = HeaderName::from_static("x-api-token");
        for (wire, name, value) in [
            (Wire::OpenAiChat, "authorization", "Bearer secret"),
            (Wire::Anthropic, "x-api-key", "secret"),
            (Wire::Gemini, "x-goog-api-key", "secret"),
        ] {
            let given = Presented { credential: "pk_a".to_owned(), place: ours.clone() };
            let mut sent = RequestHeader::build("POST", b"/", None).unwrap();
            sent.insert_header("x-api-token", "pk_a").unwrap();
            assert!(keys.exchange(&mut sent, &given, wire, Some(&place)));
            assert_eq!(sent.headers.get(name).unwrap(), value);
            assert!(!sent.headers.contains_key("x-api-token"));
        }
        let protocol = header::SEC_WEBSOCKET_PROTOCOL;
        let of_a_page = Presented { credential: "pk_a".to_owned(), place: protocol.clone() };
        let mut sent = head();
        sent.insert_header(&protocol, "realtime, openai-insecure-api-key.pk_a").unwrap();
        assert!(keys.exchange(&mut sent, &of_a_page, Wire::OpenAiResponses, Some(&place)));
        assert_eq!(sent.headers.get("authorization").unwrap(), "Bearer secret");
        assert_eq!(sent.headers.get(&protocol).unwrap(), "realtime");
        for (offered, kept) in [
            (
                "realtime, openai-insecure-api-key.sk-1, openai-beta.realtime-v1",
                Some("realtime, openai-beta.realtime-v1"),
            ),
            ("OpenAI-Project.proj_1", None),
            ("mqtt,wamp", Some("mqtt,wamp")),
        ] {
            let mut sent = head();
            sent.insert_header(&protocol, offered).unwrap();
            assert!(keys.exchange(&mut sent, &given, Wire::OpenAiChat, Some(&place)));
            assert_eq!(sent.headers.get(&protocol).map(|it| it.to_str().unwrap()), kept, "{offered}");
        }
    }

    #[test]
    fn the_key_goes_where_its_provider_looks_for_it_wherever_ours_came() {
        let place = SecretPlace::Environment("A".to_owned());
        let (bearer, anthropic, google) = ("authorization", "x-api-key", "x-goog-api-key");
        for (wire, key, came_in, more, goes_to) in [
            (Wire::Anthropic, "sk-ant-api03-x", &[bearer][..], "", anthropic),
            (Wire::Anthropic, "sk-ant-api03-x", &[bearer, anthropic], "", anthropic),
            (Wire::Anthropic, "sk-ant-oat01-x", &[anthropic], "", bearer),
            (Wire::Anthropic, "ya29.x", &[bearer], "", bearer),
            (Wire::Generic, "sk-ant-api03-x", &[bearer], ANTHROPIC_VERSION, anthropic),
            (Wire::Generic, "sk-1", &[bearer], "", bearer),
            (Wire::Gemini, "AIza-x", &[bearer], "", google),
            (Wire::Gemini, "AIza-x", &[bearer, google], "", google),
            (Wire::Gemini, "ya29.x", &[bearer, google], "", bearer),
            (Wire::Generic, "AIza-x", &[bearer, google], "", google),
            (Wire::OpenAiChat, "sk-1", &[bearer, anthropic], "", bearer),
            (Wire::OpenAiChat, "0123456789abcdef", &["api-key"], "", "api-key"),
        ] {
            let keys = ProviderKeys::new(Box::new(|_| None));
            keys.held.store(Arc::new(BTreeMap::from([(place.clone(), header_value(key).unwrap())])));
            let mut sent = RequestHeader::build("POST", b"/", None).unwrap();
            for name in came_in {
                let value = if *name == bearer { "Bearer pk_a" } else { "pk_a" };
                sent.insert_header(*name, value).unwrap();
            }
            if !more.is_empty() {
                sent.insert_header(more, "2023-06-01").unwrap();
            }
            let first = HeaderName::from_static(came_in[0]);
            let given = Presented { credential: "pk_a".to_owned(), place: first };
            assert!(keys.exchange(&mut sent, &given, wire, Some(&place)));
            let value = if goes_to == bearer { format!("Bearer {key}") } else { key.to_owned() };
            assert_eq!(sent.headers.get(goes_to).unwrap(), value.as_str(), "{wire:?} {came_in:?}");
            let others = [bearer, anthropic, google, "api-key"].into_iter().filter(|name| *name != goes_to);
            assert!(others.into_iter().all(|name| !sent.headers.contains_key(name)), "{sent:?}");
        }
    }

    #[test]
    fn a_providers_key_is_one_line_that_can_be_seen() {
        for wrong in ["", "two lines\nx", "a b", "caf\u{e9}"] {
            assert!(header_value(wrong).is_none(), "{wrong:?}");
        }
    }
}
