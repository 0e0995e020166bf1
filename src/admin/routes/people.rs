//! Who logs in: local users, and the bearer tokens they get.

use super::Access;
use super::Route;
use super::by;
use super::delete;
use super::get;
use super::patch;
use super::post;
use crate::admin::openapi::schema;
use crate::admin::resource::auth;
use crate::admin::resource::dsar;
use crate::admin::resource::users;

pub(super) fn rows() -> Vec<Route> {
    vec![
        post("/api/v1/auth/token", "", by!(auth::token), "Gives a bearer token for a name and a password")
            .public()
            .knock()
            .takes(schema::<auth::TokenRequest>())
            .gives(schema::<auth::TokenGrant>()),
        Route {
            access: Access::Credential,
            ..post(
                "/api/v1/auth/revoke",
                "",
                by!(auth::revoke),
                "Ends a bearer token, the caller's own unless one is named",
            )
            .takes(schema::<auth::Revocation>())
            .gives(schema::<auth::RevokedToken>())
        },
        Route {
            access: Access::Credential,
            ..get(
                "/api/v1/auth/whoami",
                "",
                by!(auth::whoami),
                "Tells whom the caller's credential stands for",
            )
            .gives(schema::<auth::Identity>())
        },
        get("/api/v1/users", "users:read", by!(users::list), "Lists the local users")
            .gives(schema::<users::UserList>()),
        post("/api/v1/users", "users:write", by!(users::create), "Makes a local user")
            .created()
            .takes(schema::<users::UserRequest>())
            .gives(schema::<users::UserEntry>()),
        get("/api/v1/users/{id}", "users:read", by!(users::read), "Describes one local user")
            .gives(schema::<users::UserEntry>()),
        patch(
            "/api/v1/users/{id}",
            "users:write",
            by!(users::change),
            "Changes a local user, and ends its tokens",
        )
        .takes(schema::<users::UserPatch>())
        .gives(schema::<users::UserEntry>()),
        delete("/api/v1/users/{id}", "users:write", by!(users::delete), "Deletes a local user")
            .gives(schema::<users::DeletedUser>())
            .refuses(409, schema::<dsar::Blocked>()),
    ]
}
