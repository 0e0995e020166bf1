//! The one cipher: ChaCha20-Poly1305, a key for each name.
//!
//! A key seals one name only, always the same bytes, so that its fixed nonce is never used for two texts; other
//! texts get random nonces. What each ciphertext is for is part of what is authenticated.

use std::fmt;

use ring::aead::Aad;
use ring::aead::CHACHA20_POLY1305;
use ring::aead::LessSafeKey;
use ring::aead::NONCE_LEN;
use ring::aead::Nonce;
use ring::aead::UnboundKey;
use ring::hmac;

/// The length of a key, in bytes.
pub(super) const KEY_BYTES: usize = 32;
/// How much longer what is sealed is than what it was.
pub(super) const TAG_BYTES: usize = 16;

const NAME: &[u8] = b"name";
const TEXT: &[u8] = b"text";

/// A key of one name.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Key(pub(super) [u8; KEY_BYTES]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(***)")
    }
}

impl Key {
    pub(super) fn random() -> Self {
        Self(random())
    }

    fn cipher(&self) -> LessSafeKey {
        let key = UnboundKey::new(&CHACHA20_POLY1305, &self.0).expect("the key has the cipher's length");
        LessSafeKey::new(key)
    }
}

/// Returns random bytes.
pub(super) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

/// Returns the keyed hash of a name.
pub(super) fn hash(secret: &[u8], name: &str) -> [u8; 32] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), name.as_bytes());
    let mut hash = [0; 32];
    hash.copy_from_slice(tag.as_ref());
    hash
}

/// Returns a key for another purpose, which goes with this one.
pub(super) fn derived(key: &Key, purpose: &str) -> [u8; 32] {
    hash(&key.0, purpose)
}

pub(super) fn seal_name(key: &Key, name: &str) -> Vec<u8> {
    seal(key, [0; NONCE_LEN], NAME, name)
}

pub(super) fn open_name(key: &Key, sealed: &[u8]) -> Option<String> {
    open(key, [0; NONCE_LEN], NAME, sealed)
}

pub(super) fn seal_text(key: &Key, text: &str) -> Vec<u8> {
    let nonce = random::<NONCE_LEN>();
    [nonce.to_vec(), seal(key, nonce, TEXT, text)].concat()
}

pub(super) fn open_text(key: &Key, sealed: &[u8]) -> Option<String> {
    let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>()?;
    open(key, *nonce, TEXT, sealed)
}

fn seal(key: &Key, nonce: [u8; NONCE_LEN], purpose: &[u8], text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    let nonce = Nonce::assume_unique_for_key(nonce);
    let sealed = key.cipher().seal_in_place_append_tag(nonce, Aad::from(purpose), &mut bytes);
    sealed.expect("no name is as long as the cipher's limit of 256 GiB");
    bytes
}

fn open(key: &Key, nonce: [u8; NONCE_LEN], purpose: &[u8], sealed: &[u8]) -> Option<String> {
    let mut bytes = sealed.to_vec();
    let nonce = Nonce::assume_unique_for_key(nonce);
    let text = key.cipher().open_in_place(nonce, Aad::from(purpose), &mut bytes).ok()?;
    String::from_utf8(text.to_vec()).ok()
}
