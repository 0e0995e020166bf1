//! The gateway's own paths on the proxy port: answered by the management API's router.

use axum::Router;
use http::Uri;
use pingora::proxy::Session;

use super::Gateway;
use super::Stop;
use super::context::Exchange;
use crate::admin::adapter;
use crate::admin::adapter::AdapterLimits;

/// The paths that every proxy port answers itself; they win over routes.
const OWN: [&str; 6] = ["/v1/scan", "/health", "/ready", "/version", "/stats", "/metrics"];
/// What the single-server deployment answers here too.
const MANAGEMENT: &str = "/api/v1/";

/// The gateway's own paths and who answers them.
pub struct OwnPaths {
    /// The management API.
    pub router: Router,
    /// How much of a request is read.
    pub limits: AdapterLimits,
    /// Whether `/api/v1/*` is served here too.
    pub with_management: bool,
}

impl OwnPaths {
    /// Tells whether a normalised path is the gateway's own.
    pub fn contains(&self, path: &str) -> bool {
        OWN.contains(&path) || (self.with_management && path.starts_with(MANAGEMENT))
    }
}

impl Gateway {
    pub(super) async fn serve_own(&self, session: &mut Session, exchange: &mut Exchange) -> Result<(), Stop> {
        exchange.outcome.is_local = true;
        respell(session, &exchange.path);
        let OwnPaths { router, limits, .. } = &self.own;
        let lifecycle = &self.telemetry.lifecycle;
        if lifecycle.is_ending() {
            session.set_keepalive(None);
        }
        let draining = Some(lifecycle.draining());
        let status = adapter::serve(session.as_downstream_mut(), router.clone(), limits, draining).await?;
        exchange.outcome.status = Some(status);
        Ok(())
    }
}

/// Gives a request the spelling of its path by which it was found to be ours: the router knows no other.
fn respell(session: &mut Session, path: &str) {
    let uri = &session.req_header().uri;
    if uri.path() == path {
        return;
    }
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = format!("{path}{query}").parse().ok();
    if let Ok(uri) = Uri::from_parts(parts) {
        session.req_header_mut().set_uri(uri);
    }
}
