//! `[session]` and `[sso]` into the configuration of those who sign people in.

use std::time::Duration;

use crate::access::role::Role;
use crate::access::session::SESSIONS_MAX;
use crate::access::session::SessionConfig;
use crate::access::sso::ClientSecretPlace;
use crate::access::sso::OidcConfig;
use crate::access::url::Endpoint;
use crate::access::url::Origin;
use crate::document::Problem;
use crate::document::section::Section;

const CALLBACK: &str = "/auth/callback";
const LOGIN: &str = "/login";
/// Without it a provider speaks OAuth, and vouches for nobody.
const OPENID: &str = "openid";

pub(super) fn session(section: &mut Section<'_>) -> SessionConfig {
    let minutes = section.number("idle_minutes", 1..=7 * 24 * 60);
    let hours = section.number("lifetime_hours", 1..=30 * 24);
    let config = SessionConfig {
        idle: Duration::from_secs(60 * minutes),
        lifetime: Duration::from_secs(3600 * hours),
        sessions_max: section.count("max", 1..=SESSIONS_MAX as u64),
    };
    section.finish();
    config
}

/// Reads the identity provider; there is one where an issuer is named.
pub(super) fn sso(section: &mut Section<'_>, public: Option<&Origin>) -> Option<OidcConfig> {
    let mut oidc = section.section("oidc");
    let config = oidc_config(&mut oidc, public);
    oidc.finish();
    section.finish();
    config
}

fn oidc_config(section: &mut Section<'_>, public: Option<&Origin>) -> Option<OidcConfig> {
    let is_named = section.has("issuer");
    let issuer = section.text_maybe("issuer").filter(|text| !text.is_empty());
    let issuer = issuer.and_then(|text| endpoint(section, "issuer", text));
    let client_id = section.text_maybe("client_id").unwrap_or_default().to_owned();
    let secret = secret(section);
    let scopes: Vec<String> = section.texts("scopes").into_iter().map(str::to_owned).collect();
    let redirect = section.text_maybe("redirect_url").filter(|text| !text.is_empty());
    let redirect = match (redirect, public) {
        (Some(text), _) => endpoint(section, "redirect_url", text),
        (None, Some(origin)) => Endpoint::parse(&format!("{origin}{CALLBACK}")).ok(),
        (None, None) => None,
    };
    let name_claim = section.text("name_claim").to_owned();
    let role_claim = section.text("role_claim").to_owned();
    let role_map = role_map(section);
    let default_role = section.choice_maybe("default_role");
    let ca_file = section.path_maybe("ca_file");
    if !is_named {
        return None;
    }
    if client_id.is_empty() {
        section.fault("client_id", Problem::Missing);
    }
    if !scopes.iter().any(|scope| scope == OPENID) {
        section.invalid("scopes", format!("expected `{OPENID}` among them"), None);
    }
    if redirect.is_none() {
        let reason = "expected this key, or `public_url` in [admin], which it follows from";
        section.invalid("redirect_url", reason, None);
    }
    if role_map.is_empty() && default_role.is_none() {
        section.invalid("role_map", "without it, and without a `default_role`, nobody could sign in", None);
    }
    Some(OidcConfig {
        issuer: issuer?,
        client_id,
        client_secret: secret,
        scopes,
        redirect_url: redirect?,
        signed_out_url: public.map(|origin| format!("{origin}{LOGIN}")),
        name_claim,
        role_claim,
        role_map,
        default_role,
        ca_file,
    })
}

fn endpoint(section: &Section<'_>, key: &'static str, text: &str) -> Option<Endpoint> {
    let read = Endpoint::parse(text);
    if let Err(fault) = &read {
        section.invalid(key, fault.to_string(), None);
    }
    read.ok()
}

fn secret(section: &mut Section<'_>) -> Option<ClientSecretPlace> {
    let file = section.path_maybe("client_secret_file");
    let variable = section.text_maybe("client_secret_env").filter(|name| !name.is_empty());
    match (file, variable) {
        (Some(_), Some(_)) => {
            section.invalid("client_secret_env", "expected this or `client_secret_file`, not both", None);
            None
        }
        (Some(file), None) => Some(ClientSecretPlace::File(file)),
        (None, Some(name)) => Some(ClientSecretPlace::Environment(name.to_owned())),
        (None, None) => None,
    }
}

fn role_map(section: &mut Section<'_>) -> Vec<(String, Role)> {
    let mut rows = Vec::new();
    for (group, name) in section.pairs("role_map") {
        match name.parse() {
            Ok(role) => rows.push((group.to_owned(), role)),
            Err(error) => section.invalid(&format!("role_map.{group}"), format!("{error}"), None),
        }
    }
    rows
}

/// Reads how browsers call the management plane.
pub(super) fn public_url(section: &mut Section<'_>) -> Option<Origin> {
    let text = section.text_maybe("public_url").filter(|text| !text.is_empty())?;
    let read = Origin::parse(text);
    if let Err(fault) = &read {
        section.invalid("public_url", fault.to_string(), None);
    }
    read.ok()
}
