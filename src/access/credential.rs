//! Which credential a management call carries, and whom it stands for.

use http::HeaderMap;

use super::role::Permission;
use super::role::Role;
use super::tier::Tier;

/// Whom a credential stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The key's id.
    pub key_id: String,
    /// The key's name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// How much it is entitled to.
    pub tier: Tier,
    /// The routes it may use; empty: all.
    pub routes: Vec<String>,
}

/// What is wrong with the credentials of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialFault {
    /// Two headers carry different credentials.
    #[error("two different credentials were given")]
    Ambiguous,
    /// A header is not as the contract has it.
    #[error("the credential is malformed")]
    Malformed,
}

impl Principal {
    /// Returns the name used in records.
    pub fn id(&self) -> String {
        self.key_id.clone()
    }

    /// Tells whether the credential may use a route.
    pub fn may_use(&self, route: &str) -> bool {
        self.routes.is_empty() || self.routes.iter().any(|allowed| allowed == route)
    }

    /// Tells whether the credential may do something.
    pub fn may(&self, permission: Permission) -> bool {
        self.role.may(permission)
    }
}

/// Returns the credential of a call: `X-API-Key`, `Authorization: Bearer`, or the alias `X-API-Token`.
///
/// # Errors
/// See [`CredentialFault`].
pub fn of_headers(headers: &HeaderMap) -> Result<Option<String>, CredentialFault> {
    let mut given: Option<String> = None;
    for name in ["x-api-key", "authorization", "x-api-token"] {
        for value in headers.get_all(name) {
            let text = value.to_str().map_err(|_| CredentialFault::Malformed)?;
            let credential = match name {
                "authorization" => bearer(text).ok_or(CredentialFault::Malformed)?,
                _ => text.trim(),
            };
            match &given {
                Some(other) if other != credential => return Err(CredentialFault::Ambiguous),
                _ => given = Some(credential.to_owned()),
            }
        }
    }
    Ok(given)
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    #[test]
    fn one_credential_from_three_headers() {
        type Case<'a> = (&'a [(&'a str, &'a str)], Result<Option<&'a str>, CredentialFault>);
        let cases: &[Case<'_>] = &[
            (&[], Ok(None)),
            (&[("x-api-key", "k")], Ok(Some("k"))),
            (&[("x-api-token", "k")], Ok(Some("k"))),
            (&[("authorization", "bearer k")], Ok(Some("k"))),
            (&[("authorization", "Bearer k"), ("x-api-key", "k")], Ok(Some("k"))),
            (&[("authorization", "Bearer k"), ("x-api-key", "l")], Err(CredentialFault::Ambiguous)),
            (&[("authorization", "Basic k")], Err(CredentialFault::Malformed)),
        ];
        for (fields, expected) in cases {
            let mut headers = HeaderMap::new();
            for (name, value) in *fields {
                headers.append(HeaderName::from_static(name), value.parse().unwrap());
            }
            assert_eq!(of_headers(&headers), expected.map(|found| found.map(str::to_owned)), "{fields:?}");
        }
    }
}
