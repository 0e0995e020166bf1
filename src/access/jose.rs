//! Signed tokens: the only home of `jsonwebtoken`, with the cryptography that TLS brings along already.
//!
//! `jsonwebtoken` is told to sign and verify with `ring`, so that no second implementation of RSA or
//! of elliptic curves is in the process. We sign with Ed25519 only (RFC 8037); of others we verify what
//! identity providers use: RSA (PKCS#1 and PSS), P-256, P-384 and Ed25519. Symmetric algorithms and
//! `none` are not to be had: who verifies with a public key cannot be talked into taking it for a secret.

pub mod jwks;

use std::sync::Once;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::Algorithm;
use jsonwebtoken::AlgorithmFamily;
use jsonwebtoken::DecodingKey;
use jsonwebtoken::DecodingKeyKind;
use jsonwebtoken::EncodingKey;
use jsonwebtoken::Header;
use jsonwebtoken::Validation;
use jsonwebtoken::crypto::CryptoProvider;
use jsonwebtoken::crypto::JwtSigner;
use jsonwebtoken::crypto::JwtVerifier;
use jsonwebtoken::crypto::KeyUtils;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::errors::Result as JwtResult;
use ring::signature::ECDSA_P256_SHA256_FIXED;
use ring::signature::ECDSA_P384_SHA384_FIXED;
use ring::signature::ED25519;
use ring::signature::Ed25519KeyPair;
use ring::signature::KeyPair;
use ring::signature::RSA_PKCS1_2048_8192_SHA256;
use ring::signature::RSA_PKCS1_2048_8192_SHA384;
use ring::signature::RSA_PKCS1_2048_8192_SHA512;
use ring::signature::RSA_PSS_2048_8192_SHA256;
use ring::signature::RSA_PSS_2048_8192_SHA384;
use ring::signature::RSA_PSS_2048_8192_SHA512;
use ring::signature::RsaParameters;
use ring::signature::RsaPublicKeyComponents;
use ring::signature::UnparsedPublicKey;
use ring::signature::VerificationAlgorithm;
use serde::Serialize;
use serde::de::DeserializeOwned;
use signature::Signer;
use signature::Verifier;

/// What stands before the 32 bytes of an Ed25519 key in its SubjectPublicKeyInfo (RFC 8410, section 4).
const SPKI_ED25519: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The longest token that is looked at, in bytes.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Why a token is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFault {
    /// It is no compact JWS, or its claims are not what was expected.
    #[error("the token is malformed")]
    Malformed,
    /// None of the trusted keys made it.
    #[error("no trusted key has signed the token")]
    Forged,
}

/// Why a key is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// The text holds no such key in PEM.
    #[error("holds no Ed25519 key in PEM")]
    Form,
}

/// An Ed25519 key that signs.
#[derive(Clone)]
pub struct SigningKey {
    key: EncodingKey,
    public: Vec<u8>,
}

/// A key that verifies; it is the same as another one with its bytes.
#[derive(Clone)]
pub struct VerifyingKey(DecodingKey);

impl SigningKey {
    /// Reads a private key (PKCS#8, in PEM).
    ///
    /// # Errors
    /// The text holds no such key.
    pub fn from_pem(pem: &[u8]) -> Result<Self, KeyFault> {
        let key = EncodingKey::from_ed_pem(pem).map_err(|_| KeyFault::Form)?;
        let public = pair(&key).map_err(|_| KeyFault::Form)?.public_key().as_ref().to_vec();
        Ok(Self { key, public })
    }

    /// Makes a key.
    pub fn generate() -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&ring::rand::SystemRandom::new())
            .expect("the operating system gives random bytes");
        let key = EncodingKey::from_ed_der(document.as_ref());
        let public = pair(&key).expect("a key that was just made").public_key().as_ref().to_vec();
        Self { key, public }
    }

    /// Returns the private key as others read it (PKCS#8, in PEM).
    pub fn to_pem(&self) -> String {
        pem("PRIVATE KEY", self.key.as_bytes())
    }

    /// Returns the public key as others read it (SubjectPublicKeyInfo of RFC 8410, in PEM).
    pub fn public_pem(&self) -> String {
        pem("PUBLIC KEY", &[&SPKI_ED25519[..], &self.public].concat())
    }

    /// Returns the 32 bytes of the public key.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// Returns what verifies this key's signatures.
    pub fn verifying(&self) -> VerifyingKey {
        VerifyingKey(DecodingKey::from_ed_der(&self.public))
    }

    /// Signs bytes as they are (RFC 8032): what is no token, such as an envelope.
    pub fn sign_bytes(&self, message: &[u8]) -> Vec<u8> {
        pair(&self.key).expect("the key was read before").sign(message).as_ref().to_vec()
    }

    /// Signs claims as a compact JWS with `alg: EdDSA`, naming the key where it has a name.
    pub fn sign(&self, claims: &impl Serialize, key_id: Option<&str>) -> String {
        provide();
        let header = Header { kid: key_id.map(str::to_owned), ..Header::new(Algorithm::EdDSA) };
        jsonwebtoken::encode(&header, claims, &self.key).expect("claims of ours are JSON")
    }
}

impl VerifyingKey {
    /// Reads an Ed25519 public key (SubjectPublicKeyInfo, in PEM).
    ///
    /// # Errors
    /// The text holds no such key.
    pub fn from_pem(pem: &[u8]) -> Result<Self, KeyFault> {
        let key = DecodingKey::from_ed_pem(pem).map_err(|_| KeyFault::Form)?;
        Ok(Self(key))
    }

    /// Takes the 32 bytes of an Ed25519 public key; `None`: they are not that many.
    pub fn from_raw(bytes: &[u8]) -> Option<Self> {
        (bytes.len() == 32).then(|| Self(DecodingKey::from_ed_der(bytes)))
    }

    /// Tells whether the key made a signature over bytes as they are.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = match self.0.kind() {
            DecodingKeyKind::SecretOrDer(key) => key,
            DecodingKeyKind::RsaModulusExponent { .. } => return false,
        };
        UnparsedPublicKey::new(&ED25519, key).verify(message, signature).is_ok()
    }
}

impl PartialEq for VerifyingKey {
    fn eq(&self, other: &Self) -> bool {
        match (self.0.kind(), other.0.kind()) {
            (DecodingKeyKind::SecretOrDer(one), DecodingKeyKind::SecretOrDer(other)) => one == other,
            (DecodingKeyKind::RsaModulusExponent { .. }, _)
            | (_, DecodingKeyKind::RsaModulusExponent { .. }) => false,
        }
    }
}

impl Eq for VerifyingKey {}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningKey(***)")
    }
}

impl std::fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("VerifyingKey")
    }
}

/// Returns the claims of a compact JWS that one of `keys` has signed with EdDSA. Times in the claims are
/// not judged here: whoever asks has the clock.
///
/// # Errors
/// See [`TokenFault`].
pub fn verify<'a, T: DeserializeOwned>(
    token: &str,
    keys: impl IntoIterator<Item = &'a VerifyingKey>,
) -> Result<T, TokenFault> {
    provide();
    if token.len() > TOKEN_BYTES_MAX {
        return Err(TokenFault::Malformed);
    }
    let mut validation = Validation::new(Algorithm::EdDSA);
    validation.required_spec_claims.clear();
    (validation.validate_exp, validation.validate_nbf, validation.validate_aud) = (false, false, false);
    for key in keys {
        match jsonwebtoken::decode(token, &key.0, &validation) {
            // What must be understood to take it (RFC 7515, section 4.1.11): nothing of that kind is.
            Ok(found) if found.header.crit.is_some() => return Err(TokenFault::Malformed),
            Ok(found) => return Ok(found.claims),
            Err(error) if matches!(error.kind(), ErrorKind::InvalidSignature) => {}
            Err(error) if matches!(error.kind(), ErrorKind::InvalidAlgorithm) => {
                return Err(TokenFault::Forged);
            }
            Err(_) => return Err(TokenFault::Malformed),
        }
    }
    match jsonwebtoken::decode_header(token) {
        Ok(_) => Err(TokenFault::Forged),
        Err(_) => Err(TokenFault::Malformed),
    }
}

/// Returns the claims of a token whose signature nobody looked at: for showing, never for deciding.
///
/// # Errors
/// The token is malformed.
pub fn unverified<T: DeserializeOwned>(token: &str) -> Result<T, TokenFault> {
    let token = Some(token).filter(|token| token.len() <= TOKEN_BYTES_MAX).ok_or(TokenFault::Malformed)?;
    let found = jsonwebtoken::dangerous::insecure_decode(token).map_err(|_| TokenFault::Malformed)?;
    Ok(found.claims)
}

/// Makes `ring` the cryptography of `jsonwebtoken`, once in a process.
fn provide() {
    static PROVIDER: CryptoProvider = CryptoProvider {
        signer_factory: |algorithm, key| match algorithm {
            Algorithm::EdDSA => Ok(Box::new(EdSigner(pair(key)?))),
            _ => Err(ErrorKind::InvalidAlgorithm.into()),
        },
        verifier_factory: |algorithm, key| {
            let scheme = Scheme::of(*algorithm).ok_or(ErrorKind::InvalidAlgorithm)?;
            match key.family() == scheme.family() {
                true => Ok(Box::new(RingVerifier { algorithm: *algorithm, scheme, key: key.clone() })),
                false => Err(ErrorKind::InvalidAlgorithm.into()),
            }
        },
        key_utils: KeyUtils::new_unimplemented(),
    };
    static ONCE: Once = Once::new();
    // Somebody else in the process may have been first, which the signatures would then tell.
    ONCE.call_once(|| {
        let _ = PROVIDER.install_default();
    });
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines = text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line).into_owned());
    let body: String = lines.map(|line| line + "\n").collect();
    format!("-----BEGIN {label}-----\n{body}-----END {label}-----\n")
}

fn pair(key: &EncodingKey) -> JwtResult<Ed25519KeyPair> {
    // OpenSSL writes keys without their public half.
    Ed25519KeyPair::from_pkcs8_maybe_unchecked(key.as_bytes()).map_err(|_| ErrorKind::InvalidEddsaKey.into())
}

struct EdSigner(Ed25519KeyPair);

impl Signer<Vec<u8>> for EdSigner {
    fn try_sign(&self, message: &[u8]) -> Result<Vec<u8>, signature::Error> {
        Ok(self.0.sign(message).as_ref().to_vec())
    }
}

impl JwtSigner for EdSigner {
    fn algorithm(&self) -> Algorithm {
        Algorithm::EdDSA
    }
}

/// How a signature is verified.
#[derive(Clone, Copy)]
enum Scheme {
    Rsa(&'static RsaParameters),
    Curve(&'static dyn VerificationAlgorithm),
    Edwards,
}

struct RingVerifier {
    algorithm: Algorithm,
    scheme: Scheme,
    key: DecodingKey,
}

impl Scheme {
    fn of(algorithm: Algorithm) -> Option<Self> {
        Some(match algorithm {
            Algorithm::RS256 => Self::Rsa(&RSA_PKCS1_2048_8192_SHA256),
            Algorithm::RS384 => Self::Rsa(&RSA_PKCS1_2048_8192_SHA384),
            Algorithm::RS512 => Self::Rsa(&RSA_PKCS1_2048_8192_SHA512),
            Algorithm::PS256 => Self::Rsa(&RSA_PSS_2048_8192_SHA256),
            Algorithm::PS384 => Self::Rsa(&RSA_PSS_2048_8192_SHA384),
            Algorithm::PS512 => Self::Rsa(&RSA_PSS_2048_8192_SHA512),
            Algorithm::ES256 => Self::Curve(&ECDSA_P256_SHA256_FIXED),
            Algorithm::ES384 => Self::Curve(&ECDSA_P384_SHA384_FIXED),
            Algorithm::EdDSA => Self::Edwards,
            _ => return None,
        })
    }

    fn family(self) -> AlgorithmFamily {
        match self {
            Self::Rsa(_) => AlgorithmFamily::Rsa,
            Self::Curve(_) => AlgorithmFamily::Ec,
            Self::Edwards => AlgorithmFamily::Ed,
        }
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let verified = match (self.scheme, self.key.kind()) {
            (Scheme::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (Scheme::Rsa(parameters), DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(parameters, key).verify(message, signature)
            }
            (Scheme::Curve(curve), DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(curve, key).verify(message, signature)
            }
            (Scheme::Edwards, DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(&ED25519, key).verify(message, signature)
            }
            _ => Err(ring::error::Unspecified),
        };
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_is_taken_from_a_trusted_key_alone() {
        let (key, other) = (SigningKey::generate(), SigningKey::generate());
        let claims = json!({ "sub": "a", "exp": 1 });
        let token = key.sign(&claims, Some("k1"));
        assert_eq!(verify::<Value>(&token, &[other.verifying(), key.verifying()]), Ok(claims.clone()));
        assert_eq!(verify::<Value>(&token, &[other.verifying()]), Err(TokenFault::Forged));
        assert_eq!(verify::<Value>(&token, &[]), Err(TokenFault::Forged));
        assert_eq!(unverified::<Value>(&token), Ok(claims.clone()));
        let read = VerifyingKey::from_pem(key.public_pem().as_bytes()).unwrap();
        let again = SigningKey::from_pem(key.to_pem().as_bytes()).unwrap();
        assert_eq!(verify::<Value>(&again.sign(&claims, None), &[read]), Ok(claims));
        for damaged in ["", "a", "a.b", "a.b.c", &"a".repeat(TOKEN_BYTES_MAX + 1)] {
            assert_eq!(verify::<Value>(damaged, &[key.verifying()]), Err(TokenFault::Malformed), "{damaged}");
        }
    }

    #[test]
    fn what_has_to_be_understood_and_is_not_is_not_taken() {
        provide();
        let key = SigningKey::generate();
        let header = Header { crit: Some(vec!["b64".to_owned()]), ..Header::new(Algorithm::EdDSA) };
        let token = jsonwebtoken::encode(&header, &json!({ "sub": "a" }), &key.key).unwrap();
        assert_eq!(verify::<Value>(&token, &[key.verifying()]).unwrap_err(), TokenFault::Malformed);
    }

    #[test]
    fn no_other_algorithm_is_taken() {
        let key = SigningKey::generate();
        let encode = |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
        for algorithm in ["none", "HS256", "RS256", "ES256"] {
            let head = encode(&json!({ "alg": algorithm, "typ": "JWT" }).to_string());
            for signature in ["", "AAAA"] {
                let token = format!("{head}.{}.{signature}", encode("{}"));
                let fault = verify::<Value>(&token, &[key.verifying()]).unwrap_err();
                assert!(matches!(fault, TokenFault::Forged | TokenFault::Malformed), "{algorithm}");
            }
        }
    }
}
