//! The signature of an agent's body, computed while the body comes.
//!
//! What is left to do at the body's end is to compare. Every secret that counts is computed with, in each form that is
//! taken, and all of them are compared, so that the time tells neither which secret it was nor how nearly.

use hmac::Hmac;
use hmac::KeyInit;
use hmac::Mac;
use sha2::Sha256;
use subtle::Choice;
use subtle::ConstantTimeEq;

use super::directory::SharedSecret;
use super::replay::MAC_BYTES;

/// A signature that is being checked.
pub struct Verification {
    given: [u8; MAC_BYTES],
    expected: Vec<Hmac<Sha256>>,
}

impl Verification {
    /// Begins to check a signature that one of `secrets` may have made: over a time, a full stop and the body, and
    /// where `is_time_covered` does not ask for that, over the body alone.
    pub fn begin(
        given: [u8; MAC_BYTES],
        secrets: &[SharedSecret],
        time: Option<&str>,
        is_time_covered: bool,
    ) -> Self {
        let mut expected = Vec::new();
        for secret in secrets {
            let mac = Hmac::<Sha256>::new_from_slice(secret.expose()).expect("HMAC takes keys of any length");
            expected.extend(time.map(|time| mac.clone().chain_update(time).chain_update(b".")));
            expected.extend((!is_time_covered).then_some(mac));
        }
        Self { given, expected }
    }

    /// Takes the next bytes of the body.
    pub fn update(&mut self, bytes: &[u8]) {
        self.expected.iter_mut().for_each(|mac| mac.update(bytes));
    }

    /// Tells whether the signature is of the body that was taken.
    pub fn holds(&self) -> bool {
        let compare = |mac: &Hmac<Sha256>| mac.clone().finalize().into_bytes().as_slice().ct_eq(&self.given);
        self.expected.iter().map(compare).fold(Choice::from(0), |any, one| any | one).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = b"{\"jsonrpc\":\"2.0\"}";

    fn secret(text: &str) -> SharedSecret {
        SharedSecret::of(text).expect("a secret")
    }

    fn signed(secret: &SharedSecret, parts: &[&[u8]]) -> [u8; MAC_BYTES] {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose()).unwrap();
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().into()
    }

    #[test]
    fn a_body_has_one_signature_however_it_is_cut() {
        let secrets = [secret("sesame-sesame-old"), secret("sesame-sesame-new")];
        let given = signed(&secrets[1], &[BODY]);
        for size in 1..=BODY.len() {
            let mut right = Verification::begin(given, &secrets, None, false);
            BODY.chunks(size).for_each(|piece| right.update(piece));
            assert!(right.holds(), "{size}");
            let mut short = Verification::begin(given, &secrets, None, false);
            BODY[1..].chunks(size).for_each(|piece| short.update(piece));
            assert!(!short.holds(), "{size}");
        }
    }

    #[test]
    fn a_time_is_part_of_what_is_signed_where_it_has_to_be() {
        let secrets = [secret("sesame-sesame-new")];
        let (plain, timed) = (signed(&secrets[0], &[BODY]), signed(&secrets[0], &[b"1700000000.", BODY]));
        let holds = |given, time, is_time_covered| {
            let mut verification = Verification::begin(given, &secrets, time, is_time_covered);
            verification.update(BODY);
            verification.holds()
        };
        let time = Some("1700000000");
        assert!(holds(timed, time, true) && holds(timed, time, false) && holds(plain, time, false));
        assert!(!holds(plain, time, true) && !holds(plain, None, true));
        assert!(!holds(timed, Some("1700000001"), true) && !holds(timed, None, false));
    }

    #[test]
    fn nobody_signs_without_a_secret() {
        assert!(!Verification::begin([0; MAC_BYTES], &[], Some("1"), false).holds());
    }
}
