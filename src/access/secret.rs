//! The node's secret, and the keyed hashes made with it: without it a stored hash tells nothing.

use std::fmt;
use std::fs::File;
use std::io;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use hmac::Hmac;
use hmac::KeyInit;
use hmac::Mac;
use sha2::Sha256;

const SECRET_FILE: &str = "node.secret";
const SECRET_BYTES: usize = 32;

/// The secret of this node; never shown.
#[derive(Clone)]
pub struct NodeSecret([u8; SECRET_BYTES]);

/// Stands for a caller whose credential is not ours: equal for equal credentials, useless elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallerHash(String);

/// Why the node's secret could not be read or made.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The disk failed.
    #[error("the node's secret could not be read or written")]
    Disk(#[from] io::Error),
    /// The file is not a secret: restore it, or remove it and make all keys anew.
    #[error("the node's secret is damaged")]
    Damaged,
}

impl NodeSecret {
    /// Returns the secret kept in a directory, which gets a new one when it has none.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn open(directory: &Path) -> Result<Self, SecretError> {
        match std::fs::read(directory.join(SECRET_FILE)) {
            Ok(bytes) => Ok(Self(bytes.try_into().map_err(|_| SecretError::Damaged)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let secret = Self::random();
                write_private(directory, SECRET_FILE, &secret.0)?;
                Ok(secret)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns a secret that nobody else has.
    pub fn random() -> Self {
        Self(random())
    }

    /// Returns the identity of a caller that shows a credential which is not ours.
    pub fn caller(&self, credential: &[u8]) -> CallerHash {
        let hash = self.keyed_hash(b"caller", credential);
        let digits: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        CallerHash(format!("caller_{digits}"))
    }

    /// Returns HMAC-SHA-256 over `text`, for one purpose only.
    pub(super) fn keyed_hash(&self, purpose: &[u8], text: &[u8]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(purpose);
        mac.update(&[0]);
        mac.update(text);
        mac.finalize().into_bytes().into()
    }
}

impl fmt::Debug for NodeSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl CallerHash {
    /// Returns the hash as text, fit for logs and audit entries.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns random bytes of the operating system.
pub(super) fn random() -> [u8; 32] {
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

/// Writes a file that only its owner may read; it is there whole or not at all, also after a power cut.
pub(super) fn write_private(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let unfinished = directory.join(format!("{name}.new"));
    // One that was left behind may have other rights.
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&unfinished, directory.join(name))?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_secret_stays_and_stays_private() {
        let folder = tempfile::tempdir().unwrap();
        let first = NodeSecret::open(folder.path()).unwrap();
        let second = NodeSecret::open(folder.path()).unwrap();
        assert_eq!(first.caller(b"x"), second.caller(b"x"));
        assert_ne!(first.caller(b"x"), first.caller(b"y"));
        assert_ne!(first.caller(b"x"), NodeSecret::random().caller(b"x"));
        let path = folder.path().join(SECRET_FILE);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(format!("{first:?}"), "***");
        std::fs::write(path, b"short").unwrap();
        assert!(matches!(NodeSecret::open(folder.path()), Err(SecretError::Damaged)));
    }
}
