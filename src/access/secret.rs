//! The node's own secret: what keys and caller ids are hashed with, made at the first start.

use std::fmt;
use std::fs;
use std::io;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use hmac::Hmac;
use hmac::KeyInit;
use hmac::Mac;
use ring::aead::AES_256_GCM;
use ring::aead::Aad;
use ring::aead::LessSafeKey;
use ring::aead::NONCE_LEN;
use ring::aead::Nonce;
use ring::aead::UnboundKey;
use sha2::Sha256;

const SECRET_BYTES: usize = 32;
const FILE_NAME: &str = "node.secret";

/// 32 random bytes that never leave the state directory.
#[derive(Clone)]
pub struct NodeSecret([u8; SECRET_BYTES]);

impl fmt::Debug for NodeSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeSecret(***)")
    }
}

impl NodeSecret {
    /// Reads the secret of a state directory, or makes it (mode 0600).
    ///
    /// # Errors
    /// The file cannot be read or written, or is not one of ours.
    pub fn open(state: &Path) -> io::Result<Self> {
        let path = state.join(FILE_NAME);
        match fs::read(&path) {
            Ok(bytes) => {
                let bytes =
                    bytes.try_into().map_err(|_| io::Error::other("the node secret has a wrong length"))?;
                Ok(Self(bytes))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let secret = Self::random();
                write_private(&path, &secret.0)?;
                Ok(secret)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns a secret that nothing keeps.
    pub fn random() -> Self {
        let mut bytes = [0; SECRET_BYTES];
        getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
        Self(bytes)
    }

    /// Returns the keyed hash of `parts` for one purpose.
    pub fn hash(&self, purpose: &str, bytes: &[u8]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(purpose.as_bytes());
        mac.update(&[0]);
        mac.update(bytes);
        mac.finalize().into_bytes().into()
    }

    /// Enciphers bytes for one purpose, so that a copy of the store alone tells nothing: a fresh nonce of 12
    /// bytes, then AES-256-GCM under a key of that purpose.
    pub fn seal(&self, purpose: &str, plain: &[u8]) -> Vec<u8> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).expect("the operating system gives random bytes");
        let mut sealed = plain.to_vec();
        self.cipher(purpose)
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut sealed)
            .expect("what is kept of us is shorter than the cipher's limit");
        [&nonce[..], &sealed].concat()
    }

    /// Returns what [`NodeSecret::seal`] was given; `None` where another secret, another purpose or nobody
    /// sealed it.
    pub fn unseal(&self, purpose: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut bytes = sealed.to_vec();
        let plain = self.cipher(purpose).open_in_place(nonce, Aad::empty(), &mut bytes).ok()?;
        Some(plain.to_vec())
    }

    fn cipher(&self, purpose: &str) -> LessSafeKey {
        let key = self.hash("seal", purpose.as_bytes());
        LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key).expect("a key of 32 bytes"))
    }
}

/// Writes a file that only its owner may read, and makes it last.
///
/// # Errors
/// The file exists, or cannot be written.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_for_its_secret_and_purpose_alone() {
        let (secret, other) = (NodeSecret::random(), NodeSecret::random());
        let sealed = secret.seal("a", b"sesame");
        assert_eq!(secret.unseal("a", &sealed).as_deref(), Some(&b"sesame"[..]));
        assert_ne!(secret.seal("a", b"sesame"), sealed, "no nonce is used twice");
        assert!(secret.unseal("b", &sealed).is_none() && other.unseal("a", &sealed).is_none());
        for at in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[at] ^= 1;
            assert!(secret.unseal("a", &damaged).is_none(), "{at}");
            assert!(secret.unseal("a", &sealed[..at]).is_none(), "{at}");
        }
    }
}
