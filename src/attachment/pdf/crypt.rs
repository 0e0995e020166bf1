//! Encryption of a PDF that opens without a password, as most do that only forbid printing.

use std::borrow::Cow;

use aes::Aes128;
use aes::Aes256;
use aes::cipher::BlockCipherDecrypt;
use aes::cipher::BlockCipherEncrypt;
use aes::cipher::KeyInit;
use md5::Digest;
use md5::Md5;
use sha2::Sha256;
use sha2::Sha384;
use sha2::Sha512;

use super::object::Dict;
use super::object::Object;

/// What stands for the rest of a password.
const PADDING: [u8; 32] = *b"\x28\xbf\x4e\x5e\x4e\x75\x8a\x41\x64\x00\x4e\x56\xff\xfa\x01\x08\x2e\x2e\x00\xb6\xd0\x68\x3e\x80\x2f\x0c\xa9\xfe\x64\x53\x69\x7a";
const BLOCK_BYTES: usize = 16;
/// How deep values are looked into.
const DEPTH_MAX: usize = 64;
/// The most rounds of the hash of the last revision: it ends by chance, soon.
const ROUNDS_MAX: usize = 2048;

/// What undoes the encryption of a file.
pub(super) struct Cipher {
    key: Vec<u8>,
    strings: Method,
    streams: Method,
    leaves_metadata: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    Plain,
    Rc4,
    Aes128,
    Aes256,
}

impl Cipher {
    /// Returns the cipher of a file by what it says of its encryption, and its first id; none if a password is needed,
    /// or the encryption is another one.
    pub(super) fn open(encrypt: &Dict, id: &[u8]) -> Option<Self> {
        let number = |name: &str| encrypt.get(name).and_then(Object::number);
        let (version, revision) = (number("V")? as i64, number("R")? as i64);
        if !encrypt.is("Filter", "Standard") {
            return None;
        }
        let leaves_metadata = encrypt.get("EncryptMetadata") == Some(&Object::Bool(false));
        let (strings, streams) = match version {
            1 | 2 => (Method::Rc4, Method::Rc4),
            4 | 5 => (method(encrypt, "StrF")?, method(encrypt, "StmF")?),
            _ => return None,
        };
        let key = match revision {
            2..=4 => {
                let bytes = match version {
                    1 => 5,
                    4 => 16,
                    _ => (number("Length").unwrap_or(40.0) as usize / 8).clamp(5, 16),
                };
                legacy_key(encrypt, id, (revision, bytes, leaves_metadata))?
            }
            5 | 6 => modern_key(encrypt, revision)?,
            _ => return None,
        };
        Some(Self { key, strings, streams, leaves_metadata })
    }

    /// Decrypts the strings within an object.
    pub(super) fn strings(&self, object: &mut Object, of: (u32, u16)) {
        self.strings_in(object, of, DEPTH_MAX);
    }

    fn strings_in(&self, object: &mut Object, of: (u32, u16), depth: usize) {
        let Some(depth) = depth.checked_sub(1) else { return };
        match object {
            Object::Text(text) => *text = self.plain(text, self.strings, of).into_owned(),
            Object::Array(items) => items.iter_mut().for_each(|item| self.strings_in(item, of, depth)),
            Object::Dict(dict) => dict.0.iter_mut().for_each(|(_, value)| self.strings_in(value, of, depth)),
            Object::Null
            | Object::Bool(_)
            | Object::Number(_)
            | Object::Name(_)
            | Object::Ref(_)
            | Object::Word(_) => {}
        }
    }

    /// Decrypts the bytes of a stream.
    pub(super) fn stream<'b>(&self, bytes: &'b [u8], dict: &Dict, of: (u32, u16)) -> Cow<'b, [u8]> {
        let is_left = self.leaves_metadata && dict.is("Type", "Metadata") || dict.is("Filter", "Crypt");
        if is_left { Cow::Borrowed(bytes) } else { self.plain(bytes, self.streams, of) }
    }

    fn plain<'b>(&self, bytes: &'b [u8], method: Method, (number, generation): (u32, u16)) -> Cow<'b, [u8]> {
        let salt: &[u8] = if method == Method::Aes128 { b"sAlT" } else { b"" };
        let own = || {
            let number = number.to_le_bytes();
            let of = [&self.key[..], number.get(..3).unwrap_or_default(), &generation.to_le_bytes(), salt]
                .concat();
            let mut key = Md5::digest(of).to_vec();
            key.truncate((self.key.len() + 5).min(BLOCK_BYTES));
            key
        };
        match method {
            Method::Plain => Cow::Borrowed(bytes),
            Method::Rc4 => Cow::Owned(rc4(&own(), bytes)),
            Method::Aes128 => Cow::Owned(aes_with_vector(&own(), bytes)),
            Method::Aes256 => Cow::Owned(aes_with_vector(&self.key, bytes)),
        }
    }
}

/// Returns the method of a filter.
fn method(encrypt: &Dict, which: &str) -> Option<Method> {
    let Some(Object::Name(name)) = encrypt.get(which) else { return Some(Method::Plain) };
    let name = std::str::from_utf8(name).ok()?;
    let Some(Object::Dict(filters)) = encrypt.get("CF") else { return Some(Method::Plain) };
    let Some(Object::Dict(filter)) = filters.get(name) else { return Some(Method::Plain) };
    let methods =
        [("None", Method::Plain), ("V2", Method::Rc4), ("AESV2", Method::Aes128), ("AESV3", Method::Aes256)];
    methods.into_iter().find(|(name, _)| filter.is("CFM", name)).map(|(_, method)| method)
}

fn text<'d>(dict: &'d Dict, name: &str) -> Option<&'d [u8]> {
    match dict.get(name)? {
        Object::Text(text) => Some(text),
        _ => None,
    }
}

/// Returns the key of the empty password, if that opens the file (revisions 2 to 4).
fn legacy_key(
    encrypt: &Dict,
    id: &[u8],
    (revision, bytes, leaves_metadata): (i64, usize, bool),
) -> Option<Vec<u8>> {
    let permissions = encrypt.get("P").and_then(Object::number)? as i64 as u32;
    let owner = text(encrypt, "O")?;
    let tail: &[u8] = if revision >= 4 && leaves_metadata { &[0xff; 4] } else { &[] };
    let told = [&PADDING, owner.get(..32)?, &permissions.to_le_bytes(), id, tail].concat();
    let mut key = Md5::digest(told).to_vec();
    key.truncate(bytes);
    if revision >= 3 {
        for _ in 0..50 {
            key = Md5::digest(&key).to_vec();
            key.truncate(bytes);
        }
    }
    let proof = match revision {
        2 => rc4(&key, &PADDING),
        _ => (0..20_u8).fold(Md5::digest([&PADDING[..], id].concat()).to_vec(), |proof, round| {
            rc4(&key.iter().map(|byte| byte ^ round).collect::<Vec<u8>>(), &proof)
        }),
    };
    text(encrypt, "U")?.starts_with(&proof).then_some(key)
}

/// Returns the key of the empty password, if that opens the file (revisions 5 and 6).
fn modern_key(encrypt: &Dict, revision: i64) -> Option<Vec<u8>> {
    let (user, sealed) = (text(encrypt, "U")?, text(encrypt, "UE")?);
    let hash = |salt: &[u8]| match revision {
        5 => Sha256::digest(salt).to_vec(),
        _ => hardened(salt),
    };
    if hash(user.get(32..40)?) != user.get(..32)? {
        return None;
    }
    Some(aes(&hash(user.get(40..48)?), &[0; BLOCK_BYTES], sealed.get(..32)?))
}

/// Returns the hash of the empty password with a salt (ISO 32000-2, algorithm 2.B).
fn hardened(salt: &[u8]) -> Vec<u8> {
    let mut hash = Sha256::digest(salt).to_vec();
    for round in 0..ROUNDS_MAX {
        let told = hash.repeat(64);
        let (key, vector) = (hash.get(..16).unwrap_or_default(), hash.get(16..32).unwrap_or_default());
        let sealed = sealed(key, vector, &told);
        let rest = sealed.iter().take(16).map(|byte| u32::from(*byte)).sum::<u32>() % 3;
        hash = match rest {
            0 => Sha256::digest(&sealed).to_vec(),
            1 => Sha384::digest(&sealed).to_vec(),
            _ => Sha512::digest(&sealed).to_vec(),
        };
        let last = usize::from(sealed.last().copied().unwrap_or(0));
        if round >= 63 && last + 32 <= round {
            break;
        }
    }
    hash.truncate(32);
    hash
}

/// Encrypts whole blocks in a chain, by AES with a key of 128 bits.
fn sealed(key: &[u8], vector: &[u8], bytes: &[u8]) -> Vec<u8> {
    let Ok(cipher) = Aes128::new_from_slice(key) else { return Vec::new() };
    let mut held = Vec::with_capacity(bytes.len());
    let mut last = vector.to_vec();
    for block in bytes.chunks_exact(BLOCK_BYTES) {
        let mixed: Vec<u8> = block.iter().zip(&last).map(|(one, two)| one ^ two).collect();
        let Ok(mut block) = aes::Block::try_from(mixed.as_slice()) else { break };
        cipher.encrypt_block(&mut block);
        last = block.to_vec();
        held.extend_from_slice(&block);
    }
    held
}

/// Decrypts bytes whose first block is the vector of their chain, and takes the padding off.
fn aes_with_vector(key: &[u8], bytes: &[u8]) -> Vec<u8> {
    let Some((vector, rest)) = bytes.split_at_checked(BLOCK_BYTES) else { return Vec::new() };
    let mut held = aes(key, vector, rest);
    let padding = usize::from(held.last().copied().unwrap_or(0));
    if (1..=BLOCK_BYTES).contains(&padding) {
        held.truncate(held.len() - padding.min(held.len()));
    }
    held
}

/// Decrypts whole blocks in a chain.
fn aes(key: &[u8], vector: &[u8], bytes: &[u8]) -> Vec<u8> {
    let short = Aes128::new_from_slice(key).ok();
    let long = Aes256::new_from_slice(key).ok();
    let mut held = Vec::with_capacity(bytes.len());
    let mut last = vector;
    for block in bytes.chunks_exact(BLOCK_BYTES) {
        let Ok(mut plain) = aes::Block::try_from(block) else { break };
        short.iter().for_each(|cipher| cipher.decrypt_block(&mut plain));
        long.iter().for_each(|cipher| cipher.decrypt_block(&mut plain));
        held.extend(plain.iter().zip(last).map(|(one, two)| one ^ two));
        last = block;
    }
    held
}

fn rc4(key: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut state: Vec<u8> = (0..=255).collect();
    let mut mixed = 0_u8;
    for (at, key) in (0..256).zip(key.iter().cycle()) {
        mixed = mixed.wrapping_add(state[at]).wrapping_add(*key);
        state.swap(at, usize::from(mixed));
    }
    let (mut at, mut other) = (0_u8, 0_u8);
    let next = bytes.iter().map(|byte| {
        at = at.wrapping_add(1);
        other = other.wrapping_add(state[usize::from(at)]);
        state.swap(usize::from(at), usize::from(other));
        byte ^ state[usize::from(state[usize::from(at)].wrapping_add(state[usize::from(other)]))]
    });
    next.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rc4_is_rc4() {
        assert_eq!(rc4(b"Key", b"Plaintext"), b"\xbb\xf3\x16\xe8\xd9\x40\xaf\x0a\xd3");
    }
}
