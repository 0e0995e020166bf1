//! What a caller shows: one credential out of its headers. Pure.

use std::fmt;

use subtle::ConstantTimeEq;

/// The longest credential that is looked at, in bytes.
const CREDENTIAL_BYTES_MAX: usize = 8 << 10;

/// A secret a caller showed; never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential(String);

/// Why there is no telling who calls.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CredentialError {
    /// The headers carry different credentials: send one.
    #[error("the request carries two different credentials")]
    Conflicting,
    /// A header is not one of the documented forms.
    #[error("the credential in {0} is malformed")]
    Malformed(&'static str),
}

impl Credential {
    /// Returns a credential found elsewhere than in [`extract`]'s headers.
    pub fn new(secret: String) -> Self {
        Self(secret)
    }

    /// Returns the secret itself, to be verified.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Returns the credential in `X-API-Key`, `X-API-Token` or `Authorization: Bearer`, if there is one. Names are
/// compared without case.
///
/// # Errors
/// When two differ, or one cannot be read.
pub fn extract<'a>(
    headers: impl Iterator<Item = (&'a str, &'a [u8])>,
) -> Result<Option<Credential>, CredentialError> {
    let mut found: Option<&str> = None;
    for (name, value) in headers {
        let shown = match () {
            () if name.eq_ignore_ascii_case("x-api-key") => plain("X-API-Key", value)?,
            () if name.eq_ignore_ascii_case("x-api-token") => plain("X-API-Token", value)?,
            () if name.eq_ignore_ascii_case("authorization") => bearer(value)?,
            () => continue,
        };
        match found {
            Some(known) if !bool::from(known.as_bytes().ct_eq(shown.as_bytes())) => {
                return Err(CredentialError::Conflicting);
            }
            Some(_) | None => found = Some(shown),
        }
    }
    Ok(found.map(|secret| Credential(secret.to_owned())))
}

fn plain<'a>(header: &'static str, value: &'a [u8]) -> Result<&'a str, CredentialError> {
    let text = std::str::from_utf8(value).unwrap_or_default().trim_matches(' ');
    let sound =
        (1..=CREDENTIAL_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    if sound { Ok(text) } else { Err(CredentialError::Malformed(header)) }
}

fn bearer(value: &[u8]) -> Result<&str, CredentialError> {
    let malformed = CredentialError::Malformed("Authorization");
    match value.split_at_checked(7) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case(b"bearer ") => plain("Authorization", rest),
        _ => Err(malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_credential_comes_out_or_none() {
        use CredentialError::Conflicting;
        use CredentialError::Malformed;
        let cases: [(&[(&str, &[u8])], Result<Option<&str>, CredentialError>); 11] = [
            (&[("accept", b"x")], Ok(None)),
            (&[("X-API-Key", b"abc")], Ok(Some("abc"))),
            (&[("x-api-token", b" abc ")], Ok(Some("abc"))),
            (&[("authorization", b"bEARER  abc")], Ok(Some("abc"))),
            (&[("X-API-Key", b"abc"), ("Authorization", b"Bearer abc")], Ok(Some("abc"))),
            (&[("X-API-Key", b"abc"), ("Authorization", b"Bearer abd")], Err(Conflicting)),
            (&[("X-API-Key", b"abc"), ("x-api-key", b"abcd")], Err(Conflicting)),
            (&[("X-API-Key", b"")], Err(Malformed("X-API-Key"))),
            (&[("X-API-Key", b"a b")], Err(Malformed("X-API-Key"))),
            (&[("Authorization", b"Basic abc")], Err(Malformed("Authorization"))),
            (&[("X-API-Token", b"\xff")], Err(Malformed("X-API-Token"))),
        ];
        for (headers, expected) in cases {
            let found = extract(headers.iter().copied());
            let expected = expected.map(|secret| secret.map(|secret| Credential::new(secret.to_owned())));
            assert_eq!(found, expected, "{headers:?}");
        }
        assert_eq!(format!("{:?}", Credential::new("abc".into())), "***");
    }
}
