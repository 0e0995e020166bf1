//! The providers' own keys of routes that take ours, and the exchange of one for the other.
//!
//! A key is looked for where the provider's SDK puts it, and the provider's goes out in the same place,
//! so that every SDK works unchanged. Keys are held in memory only, are read again at every reload, and
//! are never shown: not in configurations, logs, errors or records.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::HeaderMap;
use http::HeaderName;
use http::HeaderValue;
use http::header;
use pingora::http::RequestHeader;

use crate::policy::route::Route;
use crate::policy::route::SecretPlace;

/// Where provider SDKs put their credential; in `Authorization` it follows `Bearer`.
const PLACES: [&str; 4] = ["authorization", "x-api-key", "x-goog-api-key", "api-key"];
/// Query parameters in which providers take a credential too. Queries end in logs: ours is refused there.
const QUERY_PARAMETERS: [&str; 4] = ["key", "api_key", "api-key", "access_token"];
/// The longest key of a provider, in bytes.
pub const PROVIDER_KEY_BYTES_MAX: usize = 8 * 1024;

/// Reads a secret from its place; `None` where there is none.
pub type ReadSecret = Box<dyn Fn(&SecretPlace) -> Option<String> + Send + Sync>;

/// The providers' keys by their places.
pub struct ProviderKeys {
    read: ReadSecret,
    held: ArcSwap<BTreeMap<SecretPlace, HeaderValue>>,
}

/// One of our keys as a caller presents it.
#[derive(Clone)]
pub struct Presented {
    /// The key.
    pub key: String,
    /// The header it came in.
    place: HeaderName,
}

/// Why a request presents no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PresentedFault {
    /// There is none.
    #[error("no API key was given")]
    Missing,
    /// There are several, or one that is no text.
    #[error("the request gives its API key in more than one way, or malformed")]
    Ambiguous,
    /// It is in the query.
    #[error("an API key in the query is refused: give it in a header")]
    InQuery,
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

    /// Puts the provider's key where the caller put ours, and takes every other credential away. `false`
    /// where the key cannot be had.
    pub fn exchange(
        &self,
        head: &mut RequestHeader,
        presented: &Presented,
        place: Option<&SecretPlace>,
    ) -> bool {
        for name in PLACES {
            head.remove_header(name);
        }
        let Some(place) = place else { return true };
        let held = self.held.load();
        let Some(key) = held.get(place) else { return false };
        let value = match presented.place == header::AUTHORIZATION {
            true => HeaderValue::from_bytes(&[b"Bearer ", key.as_bytes()].concat()),
            false => Ok(key.clone()),
        };
        let Ok(mut value) = value else { return false };
        value.set_sensitive(true);
        head.insert_header(presented.place.clone(), value).is_ok()
    }
}

impl Presented {
    /// Returns the key that a request presents.
    ///
    /// # Errors
    /// See [`PresentedFault`].
    pub fn of_request(headers: &HeaderMap, query: Option<&str>) -> Result<Self, PresentedFault> {
        if query.is_some_and(has_credential) {
            return Err(PresentedFault::InQuery);
        }
        let mut found: Option<Self> = None;
        for name in PLACES {
            for value in headers.get_all(name) {
                let text = value.to_str().map_err(|_| PresentedFault::Ambiguous)?;
                let key = match name {
                    "authorization" => bearer(text).ok_or(PresentedFault::Ambiguous)?,
                    _ => text.trim(),
                };
                // Some SDKs write the same key in two places.
                if found.as_ref().is_some_and(|other| other.key != key) {
                    return Err(PresentedFault::Ambiguous);
                }
                found.get_or_insert(Self { key: key.to_owned(), place: HeaderName::from_static(name) });
            }
        }
        found.filter(|found| !found.key.is_empty()).ok_or(PresentedFault::Missing)
    }
}

impl std::fmt::Debug for Presented {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Presented").field("place", &self.place).finish_non_exhaustive()
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

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Tells whether a parameter is named as credentials are, however its name is encoded.
fn has_credential(query: &str) -> bool {
    let names = query.split(['&', ';']).map(|pair| pair.split('=').next().unwrap_or_default());
    let names = names.map(|name| decoded(name.as_bytes()));
    names
        .into_iter()
        .any(|name| QUERY_PARAMETERS.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes())))
}

/// Returns a name with its percent escapes undone; what is none stays as it is.
fn decoded(name: &[u8]) -> Vec<u8> {
    let digit = |at: usize| char::from(*name.get(at)?).to_digit(16);
    let (mut plain, mut at) = (Vec::with_capacity(name.len()), 0);
    while let Some(byte) = name.get(at) {
        match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                plain.push((high << 4 | low) as u8);
                at += 3;
            }
            _ => {
                plain.push(*byte);
                at += 1;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn presented(fields: &[(&'static str, &str)], query: Option<&str>) -> Result<String, PresentedFault> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        Presented::of_request(&headers, query)
            .map(|presented| format!("{} {}", presented.place, presented.key))
    }

    #[test]
    fn a_key_is_found_where_each_sdk_puts_it() {
        for (name, value) in [
            ("authorization", "Bearer pk_a"),
            ("x-api-key", "pk_a"),
            ("x-goog-api-key", "pk_a"),
            ("api-key", "pk_a"),
        ] {
            assert_eq!(presented(&[(name, value)], Some("alt=sse")), Ok(format!("{name} pk_a")));
        }
        let twice = [("authorization", "Bearer pk_a"), ("x-api-key", "pk_a")];
        assert_eq!(presented(&twice, None), Ok("authorization pk_a".to_owned()));
    }

    #[test]
    fn what_has_two_meanings_is_refused() {
        assert_eq!(presented(&[], None), Err(PresentedFault::Missing));
        assert_eq!(presented(&[("x-api-key", "")], None), Err(PresentedFault::Missing));
        assert_eq!(presented(&[("authorization", "Basic pk_a")], None), Err(PresentedFault::Ambiguous));
        let two = [("x-api-key", "pk_a"), ("api-key", "pk_b")];
        assert_eq!(presented(&two, None), Err(PresentedFault::Ambiguous));
        let encoded = ["%6bey=pk_a", "alt=sse&a%50i%5fkey=x", "a=b;key=x"];
        for query in ["key=pk_a", "alt=sse&API_KEY=pk_a", "access_token=x"].into_iter().chain(encoded) {
            assert_eq!(
                presented(&[("x-api-key", "pk_a")], Some(query)),
                Err(PresentedFault::InQuery),
                "{query}"
            );
        }
    }

    #[test]
    fn the_provider_gets_its_key_and_nothing_of_ours() {
        let place = SecretPlace::Environment("A".to_owned());
        let keys = ProviderKeys::new(Box::new(|_| Some(" secret\n".to_owned())));
        let head = || {
            let mut head = RequestHeader::build("POST", b"/", None).unwrap();
            head.insert_header("x-api-key", "pk_a").unwrap();
            head.insert_header("authorization", "Bearer pk_a").unwrap();
            head
        };
        let given = Presented { key: "pk_a".to_owned(), place: header::AUTHORIZATION };
        let mut unknown = head();
        assert!(!keys.exchange(&mut unknown, &given, Some(&place)), "not read yet");
        keys.held.store(Arc::new(BTreeMap::from([(place.clone(), header_value(" secret\n").unwrap())])));
        let mut sent = head();
        assert!(keys.exchange(&mut sent, &given, Some(&place)));
        assert_eq!(sent.headers.get("authorization").unwrap(), "Bearer secret");
        assert!(!sent.headers.contains_key("x-api-key"));
        let mut bare = head();
        assert!(keys.exchange(&mut bare, &given, None));
        assert!(!bare.headers.contains_key("authorization") && !bare.headers.contains_key("x-api-key"));
        for wrong in ["", "two lines\nx", "a b", "caf\u{e9}"] {
            assert!(header_value(wrong).is_none(), "{wrong:?}");
        }
    }
}
