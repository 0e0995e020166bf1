//! The pages that people see: made on the server, complete without a script.
//!
//! [`page`] is what all of them share, security headers included; [`sign_in`] are the pages around signing in.
//! Values are escaped where they are put into a page; nothing is ever put there as markup.

pub mod page;
pub mod sign_in;

use http::StatusCode;
use maud::html;

use self::page::Page;
use self::page::redirect;
use crate::access::session::Holder;
use crate::admin::call::Answer;
use crate::admin::call::Call;

/// `GET /`: who is signed in; whoever is not is sent to sign in.
pub async fn home(call: Call) -> Answer {
    let Some(principal) = &call.principal else { return redirect("/login") };
    let session = call.session.as_ref().map(|own| &own.record);
    let way = session.map_or("an API key", |record| match &record.holder {
        Holder::Key { .. } => "an API key",
        Holder::Sso(_) => "single sign-on",
    });
    let body = html! {
        h1 { "Portcullis" }
        dl {
            dt { "Signed in as" } dd id="who" { (principal.name) }
            dt { "With" } dd { (way) }
            dt { "Role" } dd id="role" { (principal.role.as_str()) }
            dt { "Tier" } dd { (principal.tier.min(call.office.tier()).as_str()) }
            @if let Some(record) = session {
                dt { "Until" } dd { time datetime=(record.expires_at) { (record.expires_at) } }
            }
        }
    };
    Page::new("Overview", StatusCode::OK, body).of(principal).answer()
}
