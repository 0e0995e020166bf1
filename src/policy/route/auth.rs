//! Who may use a route, and where the provider's own key lies.

use crate::document::fault::nearest;
use crate::document::secret::SecretPlace;
use crate::document::section::Section;

const NAMES: [&str; 3] = ["transparent", "gateway_key", "a2a"];

/// Who may use a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteAuth {
    /// Whoever the provider lets in: the caller's credential goes through untouched.
    Transparent,
    /// Whoever presents one of our keys in the place of the provider's. The provider gets its own key
    /// from this place instead; without one, no credential at all.
    GatewayKey(Option<SecretPlace>),
    /// Agents, each known by its client certificate, and only for the capabilities it was granted.
    A2a,
}

impl RouteAuth {
    /// Returns where the provider's key lies, if the route has one.
    pub fn provider_key(&self) -> Option<&SecretPlace> {
        match self {
            Self::Transparent | Self::A2a => None,
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
                if place.is_some() {
                    let reason = "a provider key belongs to `auth = \"gateway_key\"`";
                    section.invalid("auth", reason, None);
                }
                Self::A2a
            }
            other => {
                section.invalid(
                    "auth",
                    "expected `transparent`, `gateway_key` or `a2a`",
                    nearest(other, NAMES),
                );
                Self::Transparent
            }
        }
    }
}

fn read_place(section: &mut Section<'_>) -> Option<SecretPlace> {
    SecretPlace::read(section, "provider_key_file", "provider_key_env")
}
