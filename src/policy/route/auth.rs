//! Who may use a route, and where the provider's own key lies.

use std::path::PathBuf;

use crate::document::fault::nearest;
use crate::document::section::Section;

const NAMES: [&str; 2] = ["transparent", "gateway_key"];

/// Who may use a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteAuth {
    /// Whoever the provider lets in: the caller's credential goes through untouched.
    Transparent,
    /// Whoever presents one of our keys in the place of the provider's. The provider gets its own key
    /// from this place instead; without one, no credential at all.
    GatewayKey(Option<SecretPlace>),
}

/// Where a secret lies that no configuration holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretPlace {
    /// The one line of a file.
    File(PathBuf),
    /// A variable of the process's environment.
    Environment(String),
}

impl RouteAuth {
    /// Returns where the provider's key lies, if the route has one.
    pub fn provider_key(&self) -> Option<&SecretPlace> {
        match self {
            Self::Transparent => None,
            Self::GatewayKey(place) => place.as_ref(),
        }
    }

    /// Reads `auth`, `provider_key_file` and `provider_key_env` of a route.
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let named = section.text_maybe("auth").unwrap_or(NAMES[0]);
        let place = read_place(section);
        match named {
            "transparent" => {
                if place.is_some() {
                    let reason = "a provider key belongs to `auth = \"gateway_key\"`: a transparent route sends the caller's";
                    section.invalid("auth", reason, None);
                }
                Self::Transparent
            }
            "gateway_key" => Self::GatewayKey(place),
            "a2a" => {
                let reason = "`a2a` is not part of this version yet; use `transparent` or `gateway_key`";
                section.invalid("auth", reason, None);
                Self::Transparent
            }
            other => {
                section.invalid("auth", "expected `transparent` or `gateway_key`", nearest(other, NAMES));
                Self::Transparent
            }
        }
    }
}

fn read_place(section: &mut Section<'_>) -> Option<SecretPlace> {
    let file = section.path_maybe("provider_key_file");
    let variable = section.text_maybe("provider_key_env").filter(|name| !name.is_empty());
    match (file, variable) {
        (Some(_), Some(_)) => {
            section.invalid(
                "provider_key_env",
                "expected one of provider_key_file and provider_key_env",
                None,
            );
            None
        }
        (Some(file), None) => Some(SecretPlace::File(file)),
        (None, Some(name)) => Some(SecretPlace::Environment(name.to_owned())),
        (None, None) => None,
    }
}
