//! `[session]` and `[sso]` into the configuration of those who sign people in.

use std::time::Duration;

use crate::access::role::Role;
use crate::access::session::SESSIONS_MAX;
use crate::access::session::SessionConfig;
use crate::access::sso::ClientSecretPlace;
use crate::access::sso::Mapping;
use crate::access::sso::OidcConfig;
use crate::access::sso::SsoConfig;
use crate::access::sso::saml;
use crate::access::sso::saml::SamlConfig;
use crate::access::sso::saml::SigningFiles;
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

/// Reads the identity provider; there is one where an issuer, or a file of metadata, is named.
pub(super) fn sso(section: &mut Section<'_>, public: Option<&Origin>) -> Option<SsoConfig> {
    let mut oidc_section = section.section("oidc");
    let oidc = oidc_config(&mut oidc_section, public);
    oidc_section.finish();
    let mut saml_section = section.section("saml");
    let saml = saml_config(&mut saml_section, public);
    if oidc_section.has("issuer") && saml_section.has("metadata_file") {
        saml_section.invalid("metadata_file", "expected this, or an issuer in [sso.oidc], not both", None);
    }
    saml_section.finish();
    section.finish();
    oidc.map(SsoConfig::Oidc).or(saml.map(SsoConfig::Saml))
}

fn saml_config(section: &mut Section<'_>, public: Option<&Origin>) -> Option<SamlConfig> {
    let metadata_file = section.path_maybe("metadata_file");
    let entity_id = section.text_maybe("entity_id").filter(|text| !text.is_empty());
    let key = section.path_maybe("key_file");
    let certificate = section.path_maybe("certificate_file");
    let mapping = mapping(section, "name_attribute", "role_attribute");
    let metadata_file = metadata_file?;
    if key.is_some() != certificate.is_some() {
        let missing = if key.is_none() { "key_file" } else { "certificate_file" };
        section.fault(missing, Problem::Missing);
    }
    if public.is_none() {
        let reason =
            "expected `public_url` in [admin] with it: where browsers are sent back to follows from that";
        section.invalid("metadata_file", reason, None);
    }
    ensure_somebody(section, &mapping);
    let public = public?.clone();
    let entity_id = entity_id.map_or_else(|| format!("{public}{}", saml::METADATA), str::to_owned);
    let signing = key.zip(certificate).map(|(key, certificate)| SigningFiles { key, certificate });
    Some(SamlConfig { metadata_file, entity_id, public, signing, mapping })
}

/// Reads which claims, or attributes, become a name and a role.
fn mapping(section: &mut Section<'_>, name: &'static str, role: &'static str) -> Mapping {
    Mapping {
        name: section.text(name).to_owned(),
        role: section.text(role).to_owned(),
        role_map: role_map(section),
        default_role: section.choice_maybe("default_role"),
    }
}

fn ensure_somebody(section: &Section<'_>, mapping: &Mapping) {
    if mapping.role_map.is_empty() && mapping.default_role.is_none() {
        section.invalid("role_map", "without it, and without a `default_role`, nobody could sign in", None);
    }
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
    let mapping = mapping(section, "name_claim", "role_claim");
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
    ensure_somebody(section, &mapping);
    Some(OidcConfig {
        issuer: issuer?,
        client_id,
        client_secret: secret,
        scopes,
        redirect_url: redirect?,
        signed_out_url: public.map(|origin| format!("{origin}{LOGIN}")),
        mapping,
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
