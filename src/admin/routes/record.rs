//! The audit log.

use super::Media;
use super::Route;
use super::by;
use super::get;
use crate::admin::openapi::schema;
use crate::admin::resource::audit;
use crate::admin::resource::audit_export;
use crate::admin::resource::audit_stream;

pub(super) fn rows() -> Vec<Route> {
    vec![
        get("/api/v1/audit", "audit:read", by!(audit::query), "Finds audit entries, newest first")
            .query(&audit::PARAMETERS)
            .gives(schema::<audit::AuditPage>()),
        get(
            "/api/v1/audit/stream",
            "audit:read",
            by!(audit_stream::stream),
            "Streams audit entries as they are recorded, of all nodes",
        )
        .query(&audit::STREAM_PARAMETERS)
        .fields(&["Last-Event-ID"])
        .media(Media::EventStream),
        get(
            "/api/v1/audit/export",
            "audit:read",
            by!(audit_export::export),
            "Streams audit entries as a file, oldest first: JSON lines that can be verified, or CSV",
        )
        .query(&audit::EXPORT_PARAMETERS)
        .media(Media::Lines)
        .also(&["text/csv"])
        .maybe(),
        get(
            "/api/v1/audit/checkpoint",
            "audit:read",
            by!(audit_export::checkpoint),
            "Signs where the audit log is now",
        )
        .gives(schema::<audit_export::CheckpointEntry>())
        .maybe(),
        get(
            "/api/v1/audit/checkpoint/cluster",
            "audit:read",
            by!(audit_export::cluster_checkpoint),
            "Gives the newest signed word on where the audit logs of all nodes are",
        )
        .gives(schema::<audit_export::ClusterCheckpointEntry>())
        .maybe(),
    ]
}
