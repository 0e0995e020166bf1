//! The pages around signing in and out. What they do is in [`sign_in`](crate::admin::resource::sign_in).

use http::StatusCode;
use maud::Markup;
use maud::html;

use super::page::Page;
use crate::access::url::Origin;
use crate::admin::call::Answer;

/// What the page to sign in offers.
pub struct LoginPage<'a> {
    /// The status of the answer.
    pub status: StatusCode,
    /// What went wrong before.
    pub fault: Option<&'a str>,
    /// The identity provider's host, where there is one.
    pub provider: Option<&'a str>,
    /// Where to go in the end.
    pub next: &'a str,
}

/// Returns the page to sign in.
///
/// # Errors
/// Never; it is an answer like any other.
pub fn login(page: &LoginPage<'_>) -> Answer {
    let body = html! {
        h1 { "Sign in" }
        (alert(page.fault))
        @if let Some(provider) = page.provider {
            p { a id="sso" class="button" href=(sso_link(page.next)) { "Sign in with " (provider) } }
        }
        form method="post" action="/login" {
            label { "API key" input name="key" type="password" autocomplete="off" required autofocus; }
            input type="hidden" name="next" value=(page.next);
            button { "Sign in" }
        }
    };
    Page::new("Sign in", page.status, body).answer()
}

/// Returns the page that says why a sign-in failed.
///
/// # Errors
/// Never; it is an answer like any other.
pub fn failed(status: StatusCode, fault: &str) -> Answer {
    let body = html! {
        h1 { "Not signed in" }
        (alert(Some(fault)))
        p { a href="/login" { "Try again" } }
    };
    Page::new("Not signed in", status, body).answer()
}

/// Returns the page that asks whether to sign out.
///
/// # Errors
/// Never; it is an answer like any other.
pub fn confirm_logout(form_token: &str, provider: Option<Origin>) -> Answer {
    let body = html! {
        h1 { "Sign out?" }
        p { "Another page, or a link from outside, asked to end your session." }
        form method="post" action="/auth/logout" {
            input type="hidden" name="token" value=(form_token);
            button id="confirm" { "Sign out" }
        }
        p { a href="/" { "Stay signed in" } }
    };
    Page::new("Sign out", StatusCode::OK, body).with_form_target(provider).answer()
}

fn alert(fault: Option<&str>) -> Markup {
    html! {
        @if let Some(fault) = fault { p role="alert" { (fault) } }
    }
}

fn sso_link(next: &str) -> String {
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("next", next).finish();
    format!("/auth/login?{query}")
}
