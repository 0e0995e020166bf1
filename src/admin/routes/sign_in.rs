//! Signing in and out, what is seen then, and the sessions that come of it.

use super::Media;
use super::Route;
use super::by;
use super::delete;
use super::get;
use super::post;
use crate::admin::openapi::schema;
use crate::admin::resource::backchannel;
use crate::admin::resource::saml;
use crate::admin::resource::sessions;
use crate::admin::resource::sign_in;

/// Permissions that nobody but an administrator has.
const READ: &str = "sessions:read";
const WRITE: &str = "sessions:write";

pub(super) fn rows() -> Vec<Route> {
    [pages(), providers(), held()].concat()
}

/// What people see and send.
fn pages() -> Vec<Route> {
    vec![
        get("/login", READ, by!(sign_in::page), "Shows the page to sign in")
            .public()
            .knock()
            .media(Media::Html)
            .query(&["next"]),
        post(
            "/login",
            WRITE,
            by!(sign_in::login),
            "Signs in with a key or a password, from the page to sign in",
        )
        .takes_form(schema::<sign_in::LoginForm>())
        .public()
        .knock()
        .leads_on(),
        get(
            "/auth/logout",
            READ,
            by!(sign_in::logout),
            "Ends the session, and leads to where that ends at the provider",
        )
        .public()
        .knock()
        .leads_on(),
        post(
            "/auth/logout",
            WRITE,
            by!(sign_in::logout_confirmed),
            "Ends the session, from the page that asks first",
        )
        .takes_form(schema::<sign_in::LogoutForm>())
        .public()
        .knock()
        .leads_on(),
    ]
}

/// What identity providers send browsers with, and where browsers leave for them.
fn providers() -> Vec<Route> {
    vec![
        get("/auth/login", READ, by!(sign_in::sso), "Leads to the identity provider, to sign in")
            .public()
            .knock()
            .leads_on()
            .query(&["next"]),
        get(
            "/auth/callback",
            READ,
            by!(sign_in::callback),
            "Takes the identity provider's answer, and leads on",
        )
        .public()
        .knock()
        .leads_on()
        .query(&["code", "state", "iss", "error"]),
        post("/auth/callback", WRITE, by!(saml::callback), "Takes a SAML provider's answer, and leads on")
            .takes_form(schema::<saml::Brought>())
            .public()
            .knock()
            .open_to_all_origins()
            .leads_on(),
        post(
            "/auth/backchannel-logout",
            WRITE,
            by!(backchannel::logout),
            "Takes an OpenID provider's logout token, and ends the sessions that it names",
        )
        .takes_form(schema::<backchannel::LogoutNotice>())
        .public()
        .knock(),
        get(
            "/auth/saml/metadata",
            READ,
            by!(saml::metadata),
            "Tells a SAML provider who this gateway is, and where",
        )
        .public()
        .knock()
        .media(Media::SamlMetadata)
        .maybe(),
        get(
            "/auth/saml/logout",
            READ,
            by!(saml::logout),
            "Takes a SAML provider's logout message, and leads on",
        )
        .public()
        .knock()
        .leads_on()
        .query(&["SAMLRequest", "SAMLResponse", "RelayState", "SigAlg", "Signature"]),
    ]
}

/// Who is signed in.
fn held() -> Vec<Route> {
    vec![
        get("/api/v1/sessions", READ, by!(sessions::list), "Lists who is signed in")
            .gives(schema::<sessions::SessionList>()),
        delete("/api/v1/sessions/{id}", WRITE, by!(sessions::revoke), "Ends a session")
            .gives(schema::<sessions::EndedSession>()),
    ]
}
