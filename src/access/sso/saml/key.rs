//! The keys of SAML: what a provider's metadata say it signs with, and our own; with the cryptography of TLS.
//!
//! A key fits one family of algorithms and no other, and no algorithm takes a key for a shared secret: who knows a
//! public key can sign nothing with it.

use ring::rand::SystemRandom;
use ring::signature::ECDSA_P256_SHA256_FIXED;
use ring::signature::ECDSA_P256_SHA256_FIXED_SIGNING;
use ring::signature::ECDSA_P384_SHA384_FIXED;
use ring::signature::EcdsaKeyPair;
use ring::signature::RSA_PKCS1_2048_8192_SHA256;
use ring::signature::RSA_PKCS1_2048_8192_SHA384;
use ring::signature::RSA_PKCS1_2048_8192_SHA512;
use ring::signature::RSA_PKCS1_SHA256;
use ring::signature::RsaKeyPair;
use ring::signature::UnparsedPublicKey;
use ring::signature::VerificationAlgorithm;
use x509_parser::prelude::FromDer;
use x509_parser::prelude::X509Certificate;
use x509_parser::public_key::PublicKey;

/// How something is signed. What is not among these is not taken, SHA-1 and HMAC least of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RSA (PKCS#1 1.5) with SHA-256.
    RsaSha256,
    /// RSA (PKCS#1 1.5) with SHA-384.
    RsaSha384,
    /// RSA (PKCS#1 1.5) with SHA-512.
    RsaSha512,
    /// ECDSA on P-256 with SHA-256.
    EcdsaSha256,
    /// ECDSA on P-384 with SHA-384.
    EcdsaSha384,
}

/// A public key of the provider's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustedKey {
    /// RSA: the modulus and the exponent, as PKCS#1 has them.
    Rsa(Vec<u8>),
    /// A point on P-256.
    P256(Vec<u8>),
    /// A point on P-384.
    P384(Vec<u8>),
}

/// Our private key, with its certificate.
pub struct OwnKey {
    pair: Pair,
    certificate: Vec<u8>,
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    P256(Box<EcdsaKeyPair>),
}

impl Algorithm {
    const ALL: [(Self, &'static str); 5] = [
        (Self::RsaSha256, "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"),
        (Self::RsaSha384, "http://www.w3.org/2001/04/xmldsig-more#rsa-sha384"),
        (Self::RsaSha512, "http://www.w3.org/2001/04/xmldsig-more#rsa-sha512"),
        (Self::EcdsaSha256, "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha256"),
        (Self::EcdsaSha384, "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha384"),
    ];

    /// Returns the algorithm of a name; `None` for one that is not taken.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(algorithm, _)| *algorithm)
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(known, _)| *known == self).map_or("", |(_, name)| name)
    }
}

impl TrustedKey {
    /// Reads the key of a certificate (DER); `None` for a certificate that cannot be read, or a key of another kind.
    pub fn of_certificate(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let info = certificate.public_key();
        let bytes = info.subject_public_key.data.to_vec();
        match (info.parsed().ok()?, bytes.len()) {
            (PublicKey::RSA(_), _) => Some(Self::Rsa(bytes)),
            (PublicKey::EC(_), 65) => Some(Self::P256(bytes)),
            (PublicKey::EC(_), 97) => Some(Self::P384(bytes)),
            _ => None,
        }
    }

    /// Tells whether the key has made a signature, by an algorithm of its kind.
    pub fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let (way, bytes): (&'static dyn VerificationAlgorithm, &[u8]) = match (self, algorithm) {
            (Self::Rsa(bytes), Algorithm::RsaSha256) => (&RSA_PKCS1_2048_8192_SHA256, bytes),
            (Self::Rsa(bytes), Algorithm::RsaSha384) => (&RSA_PKCS1_2048_8192_SHA384, bytes),
            (Self::Rsa(bytes), Algorithm::RsaSha512) => (&RSA_PKCS1_2048_8192_SHA512, bytes),
            (Self::P256(bytes), Algorithm::EcdsaSha256) => (&ECDSA_P256_SHA256_FIXED, bytes),
            (Self::P384(bytes), Algorithm::EcdsaSha384) => (&ECDSA_P384_SHA384_FIXED, bytes),
            (Self::Rsa(_) | Self::P256(_) | Self::P384(_), _) => return false,
        };
        UnparsedPublicKey::new(way, bytes).verify(message, signature).is_ok()
    }
}

impl OwnKey {
    /// Reads a private key and its certificate, both in PEM; `None` where they cannot be used, or not together.
    pub fn of_pem(key: &[u8], certificate: &[u8]) -> Option<Self> {
        let (label, key) = block(key)?;
        let (_, certificate) = block(certificate).filter(|(label, _)| label == "CERTIFICATE")?;
        let rsa = match label.as_str() {
            "RSA PRIVATE KEY" => RsaKeyPair::from_der(&key).ok(),
            _ => RsaKeyPair::from_pkcs8(&key).ok(),
        };
        let elliptic =
            || EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &key, &SystemRandom::new()).ok();
        let pair = rsa
            .map(|pair| Pair::Rsa(Box::new(pair)))
            .or_else(|| elliptic().map(|pair| Pair::P256(Box::new(pair))))?;
        let own = Self { pair, certificate };
        let proof = own.sign(b"proof")?;
        let fits = TrustedKey::of_certificate(&own.certificate)?.verifies(own.algorithm(), b"proof", &proof);
        fits.then_some(own)
    }

    /// Returns how it signs.
    pub fn algorithm(&self) -> Algorithm {
        match self.pair {
            Pair::Rsa(_) => Algorithm::RsaSha256,
            Pair::P256(_) => Algorithm::EcdsaSha256,
        }
    }

    /// Returns the certificate (DER).
    pub fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    /// Signs; `None` where the operating system gives no random bytes.
    pub fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).ok()?;
                Some(signature)
            }
            Pair::P256(pair) => Some(pair.sign(&random, message).ok()?.as_ref().to_vec()),
        }
    }
}

impl std::fmt::Debug for OwnKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OwnKey(***)")
    }
}

/// Returns the first block of a PEM file: its label and its bytes.
fn block(pem: &[u8]) -> Option<(String, Vec<u8>)> {
    let block = x509_parser::pem::Pem::iter_from_buffer(pem).next()?.ok()?;
    Some((block.label, block.contents))
}
