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
