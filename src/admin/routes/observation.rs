//! What the gateway tells of itself: health, figures, metrics, state.

use super::Access;
use super::Media;
use super::Route;
use super::by;
use super::get;
use crate::admin::openapi;
use crate::admin::openapi::schema;
use crate::admin::resource::health;
use crate::admin::resource::infra;
use crate::admin::resource::metrics;
use crate::admin::resource::persistence;
use crate::admin::resource::siem;
use crate::admin::resource::status;

/// What metrics are told in, too, where it is asked for.
const OPENMETRICS: &[&str] = &["application/openmetrics-text"];

pub(super) fn rows() -> Vec<Route> {
    let open = |path, handler, summary| get(path, "", handler, summary).public().exempt();
    vec![
        open("/health", by!(health::brief), "Tells whether the gateway and what it depends on are well")
            .gives(schema::<health::HealthReport>())
            .refuses(503, schema::<health::HealthReport>()),
        open("/api/v1/health", by!(health::full), "Tells the same of scanner and agent guardrails too")
            .gives(schema::<health::HealthReport>())
            .refuses(503, schema::<health::HealthReport>()),
        open("/ready", by!(health::ready), "Tells load balancers whether to send traffic")
            .gives(schema::<health::Readiness>())
            .refuses(503, schema::<health::Readiness>()),
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
        .media(Media::Metrics)
        .also(OPENMETRICS),
        get("/api/v1/metrics", "metrics:read", by!(metrics::metrics), "Gives the same as /metrics")
            .figures()
            .exempt()
            .media(Media::Metrics)
            .also(OPENMETRICS),
        get(
            "/api/v1/persistence",
            "infra:read",
            by!(persistence::persistence),
            "Describes the state on disk",
        )
        .gives(schema::<persistence::Persistence>()),
        get("/api/v1/certs", "infra:read", by!(infra::certs), "Lists the certificates that are served")
            .gives(schema::<infra::Certificates>()),
        get("/api/v1/cluster/health", "infra:read", by!(infra::cluster), "Lists the nodes and how they are")
            .gives(schema::<infra::ClusterHealth>()),
        get(
            "/api/v1/siem/status",
            "siem:read",
            by!(siem::status),
            "Tells how forwarding of the audit log stands",
        )
        .gives(schema::<siem::SiemStatus>()),
        Route {
            access: Access::Credential,
            ..get("/openapi.json", "", by!(openapi::serve), "Gives this document")
                .gives(schema::<openapi::ApiDocument>())
        },
    ]
}
