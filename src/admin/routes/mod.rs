//! The contract as one table: what is served, to whom, by which handler; the rows of each area in a file.

mod abtest;
mod access;
mod analytics;
mod compliance;
mod configuration;
mod dashboard;
mod observation;
mod people;
mod privacy;
mod record;
mod scanning;
mod sign_in;
mod trust;

use std::future::Future;
use std::pin::Pin;

use http::Method;

use super::call::Answer;
use super::call::Call;
use super::error::ApiError;
use super::openapi::SchemaOf;
use super::openapi::schema;
use super::resource::wire::Failure;
use crate::access::credential::Principal;
use crate::access::role::Permission;

/// The header field that names the state a change is made from.
pub const IF_MATCH: &str = "If-Match";

/// The header field that names the states that the caller has already.
pub const IF_NONE_MATCH: &str = "If-None-Match";

/// The parameter that has a change only tried.
pub const DRY_RUN: &str = "dry_run";

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody.
    Public,
    /// Whoever presents a valid credential.
    Credential,
    /// Credentials with this permission; everybody where `[telemetry] public_metrics` says so.
    Figures(Permission),
    /// Credentials with this permission.
    Permission(Permission),
}

/// Whether a call takes a token from its caller's bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    /// It takes one.
    Counted,
    /// It takes one; and strangers have a finite quota even where the tier has none, for it asks to be let in.
    Knock,
    /// It takes none, and still tells what is left.
    Exempt,
}

/// Whose pages may make a browser send a changing call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origins {
    /// Ours.
    Own,
    /// Anybody's: what is sent proves itself.
    Any,
}

/// What an answer is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// JSON.
    Json,
    /// The text format of Prometheus.
    Metrics,
    /// Server-sent events.
    EventStream,
    /// A page.
    Html,
    /// A file that pages load.
    Asset,
    /// JSON lines, or CSV where that is asked for.
    Lines,
    /// Metadata of SAML.
    SamlMetadata,
}

/// A handler's answer on its way.
pub type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// One row of the contract.
#[derive(Clone)]
pub struct Route {
    /// The method; `GET` rows answer `HEAD` too, streams excepted.
    pub method: Method,
    /// The path, with parameters in braces.
    pub path: &'static str,
    /// Who may call it.
    pub access: Access,
    /// Whether it is counted.
    pub quota: Quota,
    /// Answers it.
    pub handler: fn(Call) -> Answering,
    /// One sentence for the API document.
    pub summary: &'static str,
    /// The status of success.
    pub success: u16,
    /// What the answer is made of.
    pub media: Media,
    /// The body it takes.
    pub request: Option<SchemaOf>,
    /// Whether that body is a form of a page rather than JSON.
    pub takes_form: bool,
    /// The body it answers with.
    pub response: Option<SchemaOf>,
    /// The bodies of refusals that are not those of every error, by status.
    pub refusals: Vec<(u16, SchemaOf)>,
    /// Whether there may be nothing to answer with yet.
    pub may_be_missing: bool,
    /// The query parameters it takes.
    pub query: &'static [&'static str],
    /// The header fields it takes, beside those of every call.
    pub fields: &'static [&'static str],
    /// The media types that it answers with beside its own, where they are asked for.
    pub others: &'static [&'static str],
    /// Whose pages may send a changing call.
    pub origins: Origins,
}

impl Route {
    /// Tells whether the row answers a method.
    pub fn answers(&self, method: &Method) -> bool {
        self.method == *method
            || (self.method == Method::GET && *method == Method::HEAD && self.media != Media::EventStream)
    }

    /// Returns whom the row lets in; a public one cares for no credential, good or bad.
    ///
    /// # Errors
    /// It lets in nobody without a credential, or not this one.
    pub fn admit(
        &self,
        principal: Result<Option<Principal>, ApiError>,
        public_metrics: bool,
    ) -> Result<Option<Principal>, ApiError> {
        let permission = match self.access {
            Access::Public => return Ok(principal.ok().flatten()),
            Access::Figures(_) if public_metrics => return Ok(principal.ok().flatten()),
            Access::Credential => None,
            Access::Figures(permission) | Access::Permission(permission) => Some(permission),
        };
        let principal = principal?.ok_or(ApiError::Unauthenticated)?;
        match permission.filter(|permission| !principal.may(*permission)) {
            Some(missing) => Err(ApiError::Forbidden(missing)),
            None => Ok(Some(principal)),
        }
    }

    /// Tells whether the row refuses all parameters of a query. One that takes some says itself which.
    pub fn takes_no_query(&self) -> bool {
        self.query.is_empty() && matches!(self.access, Access::Credential | Access::Permission(_))
    }

    fn public(mut self) -> Self {
        self.access = Access::Public;
        self
    }

    fn figures(mut self) -> Self {
        if let Access::Permission(permission) = self.access {
            self.access = Access::Figures(permission);
        }
        self
    }

    fn knock(mut self) -> Self {
        self.quota = Quota::Knock;
        self
    }

    fn exempt(mut self) -> Self {
        self.quota = Quota::Exempt;
        self
    }

    fn created(mut self) -> Self {
        self.success = 201;
        self
    }

    /// Its success leads elsewhere.
    fn leads_on(mut self) -> Self {
        self.success = 303;
        self.media(Media::Html)
    }

    /// Other people's pages may send it.
    fn open_to_all_origins(mut self) -> Self {
        self.origins = Origins::Any;
        self
    }

    fn takes(mut self, request: SchemaOf) -> Self {
        self.request = Some(request);
        self
    }

    fn takes_form(mut self, request: SchemaOf) -> Self {
        self.takes_form = true;
        self.takes(request)
    }

    fn gives(mut self, response: SchemaOf) -> Self {
        self.response = Some(response);
        self
    }

    fn refuses(mut self, status: u16, body: SchemaOf) -> Self {
        self.refusals.push((status, body));
        self
    }

    fn maybe(mut self) -> Self {
        self.may_be_missing = true;
        self
    }

    fn media(mut self, media: Media) -> Self {
        self.media = media;
        self
    }

    fn query(mut self, names: &'static [&'static str]) -> Self {
        self.query = names;
        self
    }

    fn fields(mut self, names: &'static [&'static str]) -> Self {
        self.fields = names;
        self
    }

    fn also(mut self, media: &'static [&'static str]) -> Self {
        self.others = media;
        self
    }
}

fn row(
    method: Method,
    path: &'static str,
    permission: &'static str,
    handler: fn(Call) -> Answering,
    summary: &'static str,
) -> Route {
    Route {
        method,
        path,
        access: Access::Permission(Permission(permission)),
        quota: Quota::Counted,
        handler,
        summary,
        success: 200,
        media: Media::Json,
        may_be_missing: false,
        request: None,
        takes_form: false,
        response: None,
        refusals: Vec::new(),
        query: &[],
        fields: &[],
        others: &[],
        origins: Origins::Own,
    }
}

fn get(
    path: &'static str,
    permission: &'static str,
    handler: fn(Call) -> Answering,
    summary: &'static str,
) -> Route {
    row(Method::GET, path, permission, handler, summary)
}

fn post(
    path: &'static str,
    permission: &'static str,
    handler: fn(Call) -> Answering,
    summary: &'static str,
) -> Route {
    row(Method::POST, path, permission, handler, summary)
}

fn put(
    path: &'static str,
    permission: &'static str,
    handler: fn(Call) -> Answering,
    summary: &'static str,
) -> Route {
    row(Method::PUT, path, permission, handler, summary)
}

fn patch(
    path: &'static str,
    permission: &'static str,
    handler: fn(Call) -> Answering,
    summary: &'static str,
) -> Route {
    row(Method::PATCH, path, permission, handler, summary)
}

fn delete(
    path: &'static str,
    permission: &'static str,
    handler: fn(Call) -> Answering,
    summary: &'static str,
) -> Route {
    row(Method::DELETE, path, permission, handler, summary)
}

/// Turns an `async fn(Call) -> Answer` into what a row holds.
macro_rules! by {
    ($handler:path) => {
        |call| Box::pin($handler(call))
    };
}
use by;

/// Returns the whole contract.
pub fn routes() -> Vec<Route> {
    [
        observation::rows(),
        scanning::rows(),
        configuration::rows(),
        access::rows(),
        people::rows(),
        record::rows(),
        analytics::rows(),
        compliance::rows(),
        trust::rows(),
        abtest::rows(),
        privacy::rows(),
        sign_in::rows(),
        dashboard::rows(),
    ]
    .concat()
}

/// Returns the schema of every error.
pub fn failure() -> SchemaOf {
    schema::<Failure>()
}
