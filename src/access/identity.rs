//! Who sends a request to a provider: the keyed hash of the credential it carries, never the credential.

use http::HeaderMap;

use super::credential::ALL_PLACES;
use super::secret::NodeSecret;

const PURPOSE: &str = "caller";
const ID_BYTES: usize = 12;
const PREFIX: &str = "caller_";

/// Turns credentials into ids.
#[derive(Clone, Debug)]
pub struct CallerHash {
    secret: NodeSecret,
}

impl CallerHash {
    /// Hashes with the node's secret.
    pub fn new(secret: NodeSecret) -> Self {
        Self { secret }
    }

    /// Returns the caller's id, `caller_` and 24 hexadecimal digits; `None` where no credential is sent.
    pub fn of_headers(&self, headers: &HeaderMap) -> Option<String> {
        let credential = ALL_PLACES.iter().find_map(|name| headers.get(*name))?;
        let hash = self.secret.hash(PURPOSE, credential.as_bytes());
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut id = String::with_capacity(PREFIX.len() + 2 * ID_BYTES);
        id.push_str(PREFIX);
        for byte in hash.iter().take(ID_BYTES) {
            id.push(char::from(DIGITS[usize::from(byte >> 4)]));
            id.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_same_credential_is_the_same_caller_and_is_not_shown() {
        let callers = CallerHash::new(NodeSecret::random());
        let with = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            callers.of_headers(&headers)
        };
        let id = with("authorization", "Bearer sesame").unwrap();
        assert_eq!(with("authorization", "Bearer sesame"), Some(id.clone()));
        assert_ne!(with("x-api-key", "other"), Some(id.clone()));
        assert!(!id.contains("sesame"));
        assert_eq!(callers.of_headers(&HeaderMap::new()), None);
    }
}
