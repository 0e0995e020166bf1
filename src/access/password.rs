//! Passwords: what they must be, and what is kept of them.
//!
//! Kept is Argon2id over the password and a secret of the node (a pepper), with the parameters it was
//! made with, so that they can be raised later: a password is hashed anew at the next login. Hashing
//! takes tens of milliseconds and megabytes on purpose; callers keep it off the workers and count it.

use std::fmt;

use argon2::Algorithm;
use argon2::Argon2;
use argon2::Params;
use argon2::Version;
use serde::Deserialize;
use serde::Serialize;
use subtle::ConstantTimeEq;
use unicode_normalization::UnicodeNormalization;

use super::secret::NodeSecret;

/// The fewest characters of a password.
pub const PASSWORD_CHARS_MIN: usize = 12;
/// The longest password, in bytes as it is sent.
pub const PASSWORD_BYTES_MAX: usize = 1024;

const DIFFERENT_MIN: usize = 5;
const SALT_BYTES: usize = 16;
const HASH_BYTES: usize = 32;
const PURPOSE: &str = "password";

/// What one hash takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cost {
    /// Memory, in KiB.
    pub memory_kib: u32,
    /// Passes over it.
    pub passes: u32,
}

impl Cost {
    /// What OWASP's Password Storage Cheat Sheet asks of Argon2id: 19 MiB, two passes, one lane.
    pub const OWASP: Self = Self { memory_kib: 19 * 1024, passes: 2 };
}

/// A password as it was typed, in NFKC; nothing shows it.
#[derive(Clone)]
pub struct Password(String);

/// What is kept of a password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasswordHash {
    cost: Cost,
    salt: [u8; SALT_BYTES],
    hash: [u8; HASH_BYTES],
}

/// Why a password is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordFault {
    /// It is too short or too long.
    #[error("a password has at least {PASSWORD_CHARS_MIN} characters and at most {PASSWORD_BYTES_MAX} bytes")]
    Length,
    /// It repeats a few characters.
    #[error("a password has at least {DIFFERENT_MIN} different characters")]
    Monotonous,
    /// It holds the name of its user.
    #[error("a password does not hold the user's name")]
    Name,
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(***)")
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(***)")
    }
}

impl Password {
    /// Reads a password that somebody logs in with: any, within the length.
    ///
    /// # Errors
    /// It is too long.
    pub fn typed(text: &str) -> Result<Self, PasswordFault> {
        let is_short = text.len() <= PASSWORD_BYTES_MAX;
        if is_short { Ok(Self(text.nfkc().collect())) } else { Err(PasswordFault::Length) }
    }

    /// Reads a password that a user of that name is to have.
    ///
    /// # Errors
    /// See [`PasswordFault`].
    pub fn chosen(text: &str, user: &str) -> Result<Self, PasswordFault> {
        let password = Self::typed(text)?;
        if password.0.chars().count() < PASSWORD_CHARS_MIN {
            return Err(PasswordFault::Length);
        }
        let mut different: Vec<char> = password.0.chars().collect();
        different.sort_unstable();
        different.dedup();
        if different.len() < DIFFERENT_MIN {
            return Err(PasswordFault::Monotonous);
        }
        // A name of two letters is in many a good password.
        let names = user.chars().count() > 3 && password.0.to_lowercase().contains(user);
        if names { Err(PasswordFault::Name) } else { Ok(password) }
    }
}

impl PasswordHash {
    /// Hashes a password with a new salt.
    pub fn new(password: &Password, cost: Cost, secret: &NodeSecret) -> Self {
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt).expect("the operating system gives random bytes");
        Self { cost, salt, hash: hash(password, cost, &salt, secret) }
    }

    /// Returns a hash that no password has, for users who do not exist: it costs the same to try.
    pub fn of_nobody(cost: Cost, secret: &NodeSecret) -> Self {
        let (salt, hash) = (secret.hash("nobody", b"salt"), secret.hash("nobody", b"hash"));
        let mut short = [0; SALT_BYTES];
        short.copy_from_slice(&salt[..SALT_BYTES]);
        Self { cost, salt: short, hash }
    }

    /// Tells whether a password is the one, in a time that does not tell how nearly.
    pub fn is_of(&self, password: &Password, secret: &NodeSecret) -> bool {
        hash(password, self.cost, &self.salt, secret).ct_eq(&self.hash).into()
    }

    /// Returns what it took.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// Tells whether it was made with another cost than is asked for now.
    pub fn is_outdated(&self, cost: Cost) -> bool {
        self.cost != cost
    }
}

fn hash(password: &Password, cost: Cost, salt: &[u8], secret: &NodeSecret) -> [u8; HASH_BYTES] {
    let pepper = secret.hash(PURPOSE, &[]);
    let mut out = [0; HASH_BYTES];
    let params = Params::new(cost.memory_kib.max(8), cost.passes.max(1), 1, Some(HASH_BYTES))
        .expect("costs are within what Argon2 can");
    Argon2::new_with_secret(&pepper, Algorithm::Argon2id, Version::V0x13, params)
        .and_then(|argon2| argon2.hash_password_into(password.0.as_bytes(), salt, &mut out))
        .expect("salts and passwords have lengths that Argon2 takes");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHEAP: Cost = Cost { memory_kib: 8, passes: 1 };

    #[test]
    fn only_the_password_fits_its_hash() {
        let (secret, other) = (NodeSecret::random(), NodeSecret::random());
        let password = Password::chosen("corr\u{e9}ct horse battery", "ada").unwrap();
        let kept = PasswordHash::new(&password, CHEAP, &secret);
        let typed = |text: &str| Password::typed(text).unwrap();
        // The same letters, as another keyboard writes them.
        assert!(kept.is_of(&typed("corre\u{301}ct horse battery"), &secret));
        assert!(!kept.is_of(&typed("corr\u{e9}ct horse batterz"), &secret));
        assert!(!kept.is_of(&password, &other), "a copy of the store alone cannot be tried on");
        assert_ne!(PasswordHash::new(&password, CHEAP, &secret), kept, "every hash has its salt");
        assert!(!PasswordHash::of_nobody(CHEAP, &secret).is_of(&password, &secret));
        assert!(kept.is_outdated(Cost::OWASP) && !kept.is_outdated(CHEAP));
        let written = serde_json::to_string(&kept).unwrap();
        assert_eq!(serde_json::from_str::<PasswordHash>(&written).unwrap(), kept);
        assert_eq!(format!("{password:?} {kept:?}"), "Password(***) PasswordHash(***)");
    }

    #[test]
    fn weak_passwords_are_refused_with_a_reason() {
        let long = "ab cd ef gh ".repeat(100);
        for (text, user, fault) in [
            ("short pw 1", "ada", PasswordFault::Length),
            (long.as_str(), "ada", PasswordFault::Length),
            ("abababababababab", "ada", PasswordFault::Monotonous),
            ("I am Lovelace 1", "lovelace", PasswordFault::Name),
        ] {
            assert_eq!(Password::chosen(text, user).err(), Some(fault), "{text}");
        }
        assert!(Password::chosen("a good bobbin thread", "bob").is_ok());
    }
}
