//! The node's own secret: what keys and caller ids are hashed with, and what other secrets are sealed with
//! before they are stored; made at the first start.

use std::fmt;
use std::fs;
use std::io;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use hmac::Hmac;
use hmac::KeyInit;
use hmac::Mac;
use ring::aead::Aad;
use ring::aead::CHACHA20_POLY1305;
use ring::aead::LessSafeKey;
use ring::aead::NONCE_LEN;
use ring::aead::Nonce;
use ring::aead::UnboundKey;
use sha2::Sha256;

const SECRET_BYTES: usize = 32;
const FILE_NAME: &str = "node.secret";
/// How the name of the file begins before it is whole; what follows is of one start.
const STAGED_NAME: &str = "node.secret.new";

/// The least length of a text that the nodes of a deployment share, in bytes.
pub const SHARED_CHARS_MIN: usize = 32;

/// The secret that nodes are to share is too short to be one.
#[derive(Debug, thiserror::Error)]
#[error("the deployment's secret needs at least {SHARED_CHARS_MIN} characters: openssl rand -hex 32")]
pub struct TooShort;

/// 32 random bytes that never leave the state directory, or that the nodes of a deployment share.
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
        match Self::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Self::random().publish(state, &path)?;
                // Whichever of two first starts was faster.
                Self::read(&path)
            }
            opened => opened,
        }
    }

    fn read(path: &Path) -> io::Result<Self> {
        let bytes = fs::read(path)?;
        let bytes = bytes.try_into().map_err(|_| io::Error::other("the node secret has a wrong length"))?;
        Ok(Self(bytes))
    }

    /// Writes the secret, whole or not at all, unless there is one by now.
    fn publish(&self, state: &Path, path: &Path) -> io::Result<()> {
        let mut own = [0; 8];
        getrandom::fill(&mut own).expect("the operating system gives random bytes");
        let staged = state.join(format!("{STAGED_NAME}.{:016x}", u64::from_ne_bytes(own)));
        write_private(&staged, &self.0)?;
        match fs::hard_link(&staged, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // Not every file system has links; without, two first starts are not told from one.
            Err(_) => return put_in_place(&staged, path),
            Ok(()) => {}
        }
        fs::remove_file(&staged)?;
        sync_folder_of(path)
    }

    /// Returns the secret that the nodes of a deployment share, made of a text that nobody else knows.
    ///
    /// # Errors
    /// The text is shorter than [`SHARED_CHARS_MIN`].
    pub fn shared(text: &str) -> Result<Self, TooShort> {
        if text.trim().len() < SHARED_CHARS_MIN {
            return Err(TooShort);
        }
        let own = Self([0; SECRET_BYTES]);
        Ok(Self(own.hash("deployment", text.trim().as_bytes())))
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

    /// Returns bytes that only this secret opens again, for the same purpose and name (ChaCha20-Poly1305).
    pub fn seal(&self, purpose: &str, name: &str, plain: &[u8]) -> Vec<u8> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).expect("the operating system gives random bytes");
        let mut sealed = plain.to_vec();
        let key = self.sealing_key(purpose);
        let sealing = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(sealing, Aad::from(name.as_bytes()), &mut sealed)
            .expect("a short secret is within the cipher's limit");
        [&nonce[..], &sealed].concat()
    }

    /// Returns what was sealed, or `None` where it was not sealed by this secret for this purpose and name.
    pub fn unseal(&self, purpose: &str, name: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, rest) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut rest = rest.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let key = self.sealing_key(purpose);
        key.open_in_place(nonce, Aad::from(name.as_bytes()), &mut rest).ok().map(|plain| plain.to_vec())
    }

    fn sealing_key(&self, purpose: &str) -> LessSafeKey {
        let key = UnboundKey::new(&CHACHA20_POLY1305, &self.hash("seal", purpose.as_bytes()));
        LessSafeKey::new(key.expect("a hash has the length of a key"))
    }
}

/// Writes a file that only its owner may read, and makes it last.
///
/// # Errors
/// The file exists, or cannot be written.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    sync_folder_of(path)
}

/// Gives a file that is whole its name, and makes that last.
///
/// # Errors
/// The folder cannot be written.
pub fn put_in_place(staged: &Path, path: &Path) -> io::Result<()> {
    fs::rename(staged, path)?;
    sync_folder_of(path)
}

/// Makes the names in a file's folder last: syncing a file does not.
fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_there_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        // What a start left behind that lost its power.
        fs::write(folder.path().join(STAGED_NAME), b"half").unwrap();
        let made = NodeSecret::open(folder.path()).unwrap();
        assert_eq!(NodeSecret::open(folder.path()).unwrap().0, made.0);
        fs::write(folder.path().join(FILE_NAME), b"half").unwrap();
        assert!(NodeSecret::open(folder.path()).is_err());
    }

    #[test]
    fn first_starts_at_once_have_one_secret() {
        let (folder, starts) = (tempfile::tempdir().unwrap(), 8);
        let begun = std::sync::Barrier::new(starts);
        let secrets: Vec<_> = std::thread::scope(|scope| {
            let start = || {
                begun.wait();
                NodeSecret::open(folder.path()).unwrap().0
            };
            let all: Vec<_> = (0..starts).map(|_| scope.spawn(start)).collect();
            all.into_iter().map(|start| start.join().unwrap()).collect()
        });
        assert!(secrets.iter().all(|secret| *secret == secrets[0]));
        let late = NodeSecret::random();
        late.publish(folder.path(), &folder.path().join(FILE_NAME)).unwrap();
        assert_eq!(
            NodeSecret::open(folder.path()).unwrap().0,
            secrets[0],
            "who comes late takes nothing away"
        );
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), [FILE_NAME], "nothing is left behind");
    }

    #[test]
    fn only_the_same_secret_opens_what_it_sealed() {
        let (secret, other) = (NodeSecret::random(), NodeSecret::random());
        let sealed = secret.seal("test", "one", b"plain");
        assert_eq!(secret.unseal("test", "one", &sealed), Some(b"plain".to_vec()));
        assert_ne!(secret.seal("test", "one", b"plain"), sealed);
        assert_eq!(secret.unseal("test", "two", &sealed), None);
        assert_eq!(secret.unseal("else", "one", &sealed), None);
        assert_eq!(other.unseal("test", "one", &sealed), None);
        for length in 0..sealed.len() {
            assert_eq!(secret.unseal("test", "one", &sealed[..length]), None, "{length}");
        }
    }
}
