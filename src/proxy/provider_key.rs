//! The providers' own keys of routes that take ours, and the exchange of one for the other.
//!
//! A key is looked for where the provider's SDK puts it, and the provider's goes out in the same place,
//! so that every SDK works unchanged. Keys are held in memory only, are read again at every reload, and
//! are never shown: not in configurations, logs, errors or records.

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

    /// Puts the provider's key where the caller put ours, or where providers of that kind look for it when the
    /// caller used a place of our own, and takes every other credential away, with what says whose account it is used
    /// for. `false` where the key cannot be had.
    pub fn exchange(
        &self,
        head: &mut RequestHeader,
        presented: &Presented,
        wire: Wire,
        place: Option<&SecretPlace>,
    ) -> bool {
        for name in ALL_PLACES.headers.iter().chain(&BESIDE) {
            head.remove_header(*name);
        }
        drop_protocols(head);
        let Some(place) = place else { return true };
        let held = self.held.load();
        let Some(key) = held.get(place) else { return false };
        let goes_to = match (presented.place.as_str(), wire) {
            ("x-api-token", Wire::Anthropic) => HeaderName::from_static("x-api-key"),
            ("x-api-token", Wire::Gemini) => HeaderName::from_static("x-goog-api-key"),
            ("x-api-token", _) => header::AUTHORIZATION,
            _ => presented.place.clone(),
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
        for wrong in ["", "two lines\nx", "a b", "caf\u{e9}"] {
            assert!(header_value(wrong).is_none(), "{wrong:?}");
        }
    }
}
