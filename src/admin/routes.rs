//! The contract as one table: what is served, to whom, by which handler.

use std::future::Future;
use std::pin::Pin;

use http::Method;

use super::call::Answer;
use super::call::Call;
use super::openapi::SchemaOf;
use super::openapi::schema;
use super::resource::audit;
use super::resource::audit_stream;
use super::resource::config;
use super::resource::health;
use super::resource::keys;
use super::resource::license;
use super::resource::metrics;
use super::resource::persistence;
use super::resource::policies;
use super::resource::profiles;
use super::resource::revisions;
use super::resource::scan;
use super::resource::screen;
use super::resource::status;
use super::resource::wire::Failure;
use crate::access::role::Permission;

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
    /// It takes none, and still tells what is left.
    Exempt,
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
}

/// A handler's answer on its way.
pub type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// One row of the contract.
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
    /// The body it answers with.
    pub response: Option<SchemaOf>,
    /// The query parameters it takes.
    pub query: &'static [&'static str],
}

impl Route {
    /// Tells whether the row answers a method.
    pub fn answers(&self, method: &Method) -> bool {
        self.method == *method
            || (self.method == Method::GET && *method == Method::HEAD && self.media != Media::EventStream)
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

    fn exempt(mut self) -> Self {
        self.quota = Quota::Exempt;
        self
    }

    fn created(mut self) -> Self {
        self.success = 201;
        self
    }

    fn takes(mut self, request: SchemaOf) -> Self {
        self.request = Some(request);
        self
    }

    fn gives(mut self, response: SchemaOf) -> Self {
        self.response = Some(response);
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
        request: None,
        response: None,
        query: &[],
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

/// Returns the whole contract.
pub fn routes() -> Vec<Route> {
    let mut rows = observation();
    rows.extend(scanning());
    rows.extend(configuration());
    rows.extend(records());
    rows
}

/// Returns the schema of every error.
pub fn failure() -> SchemaOf {
    schema::<Failure>()
}

fn observation() -> Vec<Route> {
    let open = |path, handler, summary| get(path, "", handler, summary).public().exempt();
    vec![
        open("/health", by!(health::brief), "Tells whether the gateway and what it depends on are well")
            .gives(schema::<health::HealthReport>()),
        open("/api/v1/health", by!(health::full), "Tells the same of scanner and agent guardrails too")
            .gives(schema::<health::HealthReport>()),
        open("/ready", by!(health::ready), "Tells load balancers whether to send traffic")
            .gives(schema::<health::Readiness>()),
        open("/version", by!(status::version), "Names the running release")
            .gives(schema::<status::VersionRecord>()),
        get("/stats", "stats:read", by!(status::stats), "Gives the figures of the current UTC day")
            .figures()
            .gives(schema::<status::Statistics>()),
        get("/api/v1/status", "status:read", by!(status::status), "Describes the running node")
            .gives(schema::<status::NodeStatus>()),
        get(
            "/metrics",
            "metrics:read",
            by!(metrics::metrics),
            "Gives all metrics in the text format of Prometheus",
        )
        .figures()
        .exempt()
        .media(Media::Metrics),
        get("/api/v1/metrics", "metrics:read", by!(metrics::metrics), "Gives the same as /metrics")
            .figures()
            .exempt()
            .media(Media::Metrics),
        get("/api/v1/license/status", "status:read", by!(license::status), "Tells how the licence stands")
            .gives(schema::<license::LicenseStatus>()),
        get("/api/v1/tier", "status:read", by!(license::tier), "Gives the tier in force and what it enables")
            .gives(schema::<license::TierReport>()),
        get("/api/v1/sla", "status:read", by!(license::sla), "Gives objectives and what was measured")
            .gives(schema::<license::SlaReport>()),
        Route {
            access: Access::Credential,
            ..get("/openapi.json", "", by!(super::openapi::serve), "Gives this document")
        },
    ]
}

fn scanning() -> Vec<Route> {
    let scan = |path, summary| {
        post(path, "scan:run", by!(scan::scan), summary)
            .takes(schema::<scan::ScanRequest>())
            .gives(schema::<scan::ScanResult>())
    };
    let screen = |path, handler, summary| {
        post(path, "scan:run", handler, summary)
            .takes(schema::<screen::ScreenRequest>())
            .gives(schema::<screen::ScreenResult>())
    };
    vec![
        scan("/v1/scan", "Finds the threats in a text"),
        scan("/api/v1/scan", "Gives the same as /v1/scan"),
        screen("/api/v1/screen", by!(screen::prompt), "Tells what a policy does about a prompt"),
        screen("/api/v1/screen/response", by!(screen::response), "Tells what a policy does about an answer"),
    ]
}

fn configuration() -> Vec<Route> {
    vec![
        get("/api/v1/config", "config:read", by!(config::read), "Gives the effective configuration"),
        put(
            "/api/v1/config",
            "config:write",
            by!(config::change),
            "Changes the reloadable part by a JSON merge patch",
        )
        .query(&["dry_run"]),
        get(
            "/api/v1/config/revisions",
            "config:read",
            by!(revisions::list),
            "Lists accepted changes, newest first",
        )
        .query(&["limit"])
        .gives(schema::<revisions::RevisionList>()),
        post(
            "/api/v1/config/rollback",
            "config:write",
            by!(revisions::rollback),
            "Puts an earlier revision in force again",
        )
        .query(&["dry_run"])
        .takes(schema::<revisions::Rollback>()),
        get("/api/v1/profiles", "config:read", by!(profiles::list), "Lists the deployment profiles")
            .gives(schema::<profiles::ProfileList>()),
        post("/api/v1/profiles/apply", "config:write", by!(profiles::apply), "Puts a profile in force")
            .takes(schema::<profiles::Application>())
            .gives(schema::<profiles::Applied>()),
        get("/api/v1/policies", "policies:read", by!(policies::list), "Lists the detection policies")
            .gives(schema::<policies::PolicyList>()),
        post("/api/v1/policies", "config:write", by!(policies::create), "Adds a policy")
            .created()
            .takes(schema::<policies::NewPolicy>())
            .gives(schema::<policies::PolicyEntry>()),
        get("/api/v1/policies/{id}", "policies:read", by!(policies::read), "Gives one policy")
            .gives(schema::<policies::PolicyEntry>()),
        put("/api/v1/policies/{id}", "config:write", by!(policies::replace), "Replaces one policy")
            .gives(schema::<policies::PolicyEntry>()),
        delete(
            "/api/v1/policies/{id}",
            "config:write",
            by!(policies::remove),
            "Removes a policy that nothing uses",
        )
        .gives(schema::<policies::Removed>()),
    ]
}

fn records() -> Vec<Route> {
    vec![
        get("/api/v1/keys", "keys:read", by!(keys::list), "Lists the API keys the caller may see")
            .gives(schema::<keys::KeyList>()),
        post("/api/v1/keys", "keys:write", by!(keys::create), "Makes an API key, and shows it once")
            .created()
            .takes(schema::<keys::KeyRequest>())
            .gives(schema::<keys::CreatedKey>()),
        get("/api/v1/keys/{id}", "keys:read", by!(keys::read), "Describes one API key")
            .gives(schema::<keys::KeyEntry>()),
        delete("/api/v1/keys/{id}", "keys:write", by!(keys::revoke), "Revokes an API key")
            .gives(schema::<keys::Revoked>()),
        get("/api/v1/audit", "audit:read", by!(audit::query), "Finds audit entries, newest first")
            .query(&audit::PARAMETERS)
            .gives(schema::<audit::AuditPage>()),
        get(
            "/api/v1/audit/stream",
            "audit:read",
            by!(audit_stream::stream),
            "Streams audit entries as they are recorded",
        )
        .media(Media::EventStream),
        get(
            "/api/v1/persistence",
            "infra:read",
            by!(persistence::persistence),
            "Describes the state on disk",
        )
        .gives(schema::<persistence::Persistence>()),
    ]
}
