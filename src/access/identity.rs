//! Who sends a request to a provider: the keyed hash of the credential it carries, never the credential.

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

    /// Returns the id of whoever has a credential: `caller_` and 24 hexadecimal digits.
    pub fn of(&self, credential: &str) -> String {
        let hash = self.secret.hash(PURPOSE, credential.as_bytes());
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut id = String::with_capacity(PREFIX.len() + 2 * ID_BYTES);
        id.push_str(PREFIX);
        for byte in hash.iter().take(ID_BYTES) {
            id.push(char::from(DIGITS[usize::from(byte >> 4)]));
            id.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        id
    }
}

/// Tells whether a name is one that [`CallerHash`] makes.
pub fn is_caller_id(name: &str) -> bool {
    let digits = name.strip_prefix(PREFIX).filter(|digits| digits.len() == 2 * ID_BYTES);
    digits.is_some_and(|digits| digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_credential_is_the_same_caller_and_is_not_shown() {
        let callers = CallerHash::new(NodeSecret::random());
        let id = callers.of("sesame");
        assert_eq!(callers.of("sesame"), id);
        assert_ne!(callers.of("other"), id);
        assert!(!id.contains("sesame"));
        assert!(is_caller_id(&id));
        for other in ["caller_", "caller_1", "ada", &id[1..], &format!("{id}0"), &id.to_uppercase()] {
            assert!(!is_caller_id(other), "{other}");
        }
    }
}
