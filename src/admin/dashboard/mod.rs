//! The pages that people see.
//!
//! In: a session. Out: a page made on the server, with the menu of what the role may see, and with what the management API
//! answers it: [`parts`] is the table of which answers each page shows, [`shown`] makes tables and lists of them. The page's
//! script ([`assets`]) puts in their place what can be acted on, from the same API with the same session: what a role may not
//! ask, no page shows. [`page`] is what all pages share, security headers included; [`menu`] is the table of pages;
//! [`sign_in`] are those around signing in, which need no script. Values are escaped where they are put into a page; scripts
//! write text, never markup, and browsers that know Trusted Types hold them to it.

pub mod assets;
pub mod menu;
pub mod page;
pub mod part;
pub mod parts;
pub mod shown;
pub mod sign_in;

use http::HeaderValue;
use http::StatusCode;
use http::header;
use maud::html;

use self::menu::Entry;
use self::page::Page;
use self::page::redirect;
use crate::access::credential::Principal;
use crate::access::session::Holder;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::error::ApiError;

/// `GET /`: the overview; whoever has not signed in is sent to sign in.
pub async fn home(call: Call) -> Answer {
    show(&call, menu::HOME).await
}

/// `GET /docs`: the API reference.
pub async fn docs(call: Call) -> Answer {
    show(&call, menu::DOCS).await
}

/// `GET /ui/{page}`: any other page.
pub async fn other(call: Call) -> Answer {
    match call.parameter("page") {
        menu::HOME | menu::DOCS => Err(unknown()),
        id => show(&call, id).await,
    }
}

async fn show(call: &Call, id: &str) -> Answer {
    let entry = menu::find(id).ok_or_else(unknown)?;
    let Some(principal) = &call.principal else {
        // Whoever may be signed in is not sent to sign in again.
        return if call.is_untold { untold() } else { redirect(&login_before(call, entry)) };
    };
    let page = match entry.is_for(principal) {
        true => Page::new(entry.title, StatusCode::OK, content(call, entry).await).filled_by(entry.id),
        // Whoever comes in by the front door is not turned away there.
        false if entry.id == menu::HOME => Page::new("Signed in", StatusCode::OK, welcome(principal)),
        false => Page::new(entry.title, StatusCode::FORBIDDEN, not_for(principal)),
    };
    page.of(principal, call.office.tier(), way(call)).at(entry).answer()
}

/// Returns where to sign in first, and which page to come back to.
fn login_before(call: &Call, entry: &Entry) -> String {
    let mut place = entry.address();
    if entry.id == menu::HOME && call.query.is_empty() {
        return "/login".to_owned();
    }
    if !call.query.is_empty() {
        place = format!("{place}?{}", call.query);
    }
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("next", &place).finish();
    format!("/login?{query}")
}

/// Returns the page for whom it cannot be told whether they are still signed in.
fn untold() -> Answer {
    let body = html! {
        h1 { "Not at the moment" }
        p role="alert" { "Whether you are still signed in cannot be told at the moment." }
        p { a href="" { "Try again" } }
    };
    let mut answer = Page::new("Not at the moment", StatusCode::SERVICE_UNAVAILABLE, body).answer()?;
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    Ok(answer)
}

async fn content(call: &Call, entry: &Entry) -> maud::Markup {
    html! {
        h1 { (entry.title) }
        p class="lead" { (entry.about) }
        div id="page" {
            noscript { p class="notice" { "What can be changed or asked here needs scripts, which are switched off. The API does the same: see the README." } }
            (shown::parts(call, entry.id).await)
        }
    }
}

fn not_for(principal: &Principal) -> maud::Markup {
    html! {
        h1 { "Not for this role" }
        p class="lead" {
            "Your role, " (principal.role.as_str()) ", does not see this page. Whoever runs the gateway can give you another."
        }
    }
}

fn welcome(principal: &Principal) -> maud::Markup {
    html! {
        h1 { "Signed in" }
        p class="lead" {
            "Your role, " (principal.role.as_str()) ", is one of programs: it sees few pages, and none with figures."
        }
    }
}

/// Returns how somebody signed in, and until when that counts.
fn way(call: &Call) -> page::Way {
    let Some(own) = &call.session else { return page::Way { by: "an API key", until: None } };
    let by = match &own.record.holder {
        Holder::Key { .. } => "an API key",
        Holder::User { .. } => "a password",
        Holder::Sso(_) => "single sign-on",
    };
    page::Way { by, until: Some(own.record.expires_at) }
}

fn unknown() -> ApiError {
    ApiError::NotFound("there is no such page".to_owned())
}
