//! Who may use a route, and where the provider's own key lies.

use crate::document::fault::nearest;
use crate::document::secret::SecretPlace;
use crate::document::section::Section;

/// The service where none is named.
const AWS_SERVICE: &str = "bedrock";
/// The longest name of a region or a service.
const AWS_NAME_BYTES_MAX: usize = 64;
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

/// What requests are signed for, by AWS Signature Version 4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsScope {
    /// The region: `eu-west-1`.
    pub region: String,
    /// The service: `bedrock`.
    pub service: String,
}

impl AwsScope {
    /// Reads `aws_region` and `aws_service` of a route; none where neither is there.
    pub(super) fn read(section: &mut Section<'_>, auth: &RouteAuth) -> Option<Self> {
        let region = section.text_maybe("aws_region").map(str::to_owned);
        let service = section.text_maybe("aws_service").map(str::to_owned);
        for (key, value) in [("aws_region", &region), ("aws_service", &service)] {
            if value.as_deref().is_some_and(|value| !is_name(value)) {
                section.invalid(key, "expected small letters, digits and '-'", None);
            }
        }
        if region.is_none() && service.is_some() {
            section.invalid("aws_service", "needs an aws_region", None);
        }
        let region = region?;
        // Whoever could use such a route without a key of ours would be given the signature of its credentials.
        if auth.provider_key().is_none() {
            let reason = "what is signed with credentials of the route is for `auth = \"gateway_key\"`, whose provider_key_file or provider_key_env holds ACCESS_KEY_ID:SECRET";
            section.invalid("aws_region", reason, None);
        }
        Some(Self { region, service: service.unwrap_or_else(|| AWS_SERVICE.to_owned()) })
    }
}

fn is_name(text: &str) -> bool {
    let sane = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=AWS_NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(sane)
}

fn read_place(section: &mut Section<'_>) -> Option<SecretPlace> {
    SecretPlace::read(section, "provider_key_file", "provider_key_env")
}
