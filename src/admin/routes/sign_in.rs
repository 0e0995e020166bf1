//! Signing in and out, what is seen then, and the sessions that come of it.

use super::Media;
use super::Route;
use super::by;
use super::delete;
use super::get;
use super::post;
use crate::admin::openapi::schema;
use crate::admin::resource::sessions;
use crate::admin::resource::sign_in;

/// Permissions that nobody but an administrator has.
const READ: &str = "sessions:read";
const WRITE: &str = "sessions:write";

pub(super) fn rows() -> Vec<Route> {
    vec![
        get("/login", READ, by!(sign_in::page), "Shows the page to sign in")
            .public()
            .media(Media::Html)
            .query(&["next"]),
        post(
            "/login",
            WRITE,
            by!(sign_in::login),
            "Signs in with a key or a password, from the page to sign in",
        )
        .public()
        .leads_on(),
        get("/auth/login", READ, by!(sign_in::sso), "Leads to the identity provider, to sign in")
            .public()
            .leads_on()
            .query(&["next"]),
        get(
            "/auth/callback",
            READ,
            by!(sign_in::callback),
            "Takes the identity provider's answer, and leads on",
        )
        .public()
        .leads_on()
        .query(&["code", "state", "iss", "error"]),
        get(
            "/auth/logout",
            READ,
            by!(sign_in::logout),
            "Ends the session, and leads to where that ends at the provider",
        )
        .public()
        .leads_on(),
        post(
            "/auth/logout",
            WRITE,
            by!(sign_in::logout_confirmed),
            "Ends the session, from the page that asks first",
        )
        .public()
        .leads_on(),
        get("/api/v1/sessions", READ, by!(sessions::list), "Lists who is signed in")
            .gives(schema::<sessions::SessionList>()),
        delete("/api/v1/sessions/{id}", WRITE, by!(sessions::revoke), "Ends a session")
            .gives(schema::<sessions::EndedSession>()),
    ]
}
