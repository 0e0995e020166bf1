//! Both planes as services of the server.

use std::sync::Arc;

use pingora::protocols::ALPN;
use pingora::proxy::http_proxy;
use pingora::server::Server;
use pingora::services::listening::Service;

use super::Served;
use super::StartError;
use super::address::Listeners;
use super::listening::adapter_limits;
use super::listening::admin_guard_config;
use super::listening::guard_config;
use super::listening::h2_options;
use super::listening::listen;
use super::listening::server_options;
use super::plane::Plane;
use super::plane::Pulse;
use crate::admin::adapter::AdminApp;
use crate::config::Config;
use crate::proxy::Gateway;
use crate::proxy::guard::Guard;
use crate::telemetry::Telemetry;
use crate::tls::peer::Authorities;

/// What the planes are made of.
pub(super) struct Planes<'a> {
    pub(super) config: &'a Config,
    pub(super) proxy: &'a Listeners,
    pub(super) admin: &'a Listeners,
    pub(super) certificates: &'a Served,
    pub(super) authorities: &'a Arc<Authorities>,
    pub(super) telemetry: &'a Arc<Telemetry>,
}

impl Planes<'_> {
    /// Adds both planes; returns what shows whether they are alive.
    ///
    /// # Errors
    /// There are too many open files.
    pub(super) fn add(
        &self,
        server: &mut Server,
        gateway: Gateway,
        router: axum::Router,
    ) -> Result<[Pulse; 2], StartError> {
        let proxy = self.proxy_plane(server, gateway)?;
        let admin = self.admin_plane(router)?;
        let pulses = [proxy.pulse(), admin.pulse()];
        server.add_service(proxy);
        server.add_service(admin);
        Ok(pulses)
    }

    fn proxy_plane(
        &self,
        server: &Server,
        gateway: Gateway,
    ) -> Result<Plane<Guard<impl pingora::apps::ServerApp + Send + Sync + 'static>>, StartError> {
        let (config, lifecycle) = (self.config, &self.telemetry.lifecycle);
        let mut proxy = http_proxy(&server.configuration, gateway);
        proxy.server_options = Some(server_options(config));
        proxy.h2_options = Some(h2_options(config));
        let guard = Guard::new(proxy, guard_config(config), Arc::clone(lifecycle));
        let mut plane = Service::new("proxy".to_owned(), guard);
        let offered = if config.proxy.h2 { ALPN::H2H1 } else { ALPN::H1 };
        listen(&mut plane, self.proxy, self.certificate("proxy"), offered, Some(self.authorities));
        plane.threads = config.proxy.threads;
        Ok(Plane::new(plane, self.proxy.to_serve().map_err(StartError::Sockets)?, lifecycle))
    }

    fn admin_plane(&self, router: axum::Router) -> Result<Plane<Guard<AdminApp>>, StartError> {
        let (config, lifecycle) = (self.config, &self.telemetry.lifecycle);
        let app = AdminApp::new(router, adapter_limits(config));
        let guard = Guard::new(app, admin_guard_config(config), Arc::clone(lifecycle));
        let mut plane = Service::new("admin".to_owned(), guard);
        listen(&mut plane, self.admin, self.certificate("admin"), ALPN::H2H1, None);
        plane.threads = Some(1);
        Ok(Plane::new(plane, self.admin.to_serve().map_err(StartError::Sockets)?, lifecycle))
    }

    fn certificate(&self, plane: &str) -> Option<&Arc<crate::tls::CertificateStore>> {
        self.certificates.iter().find(|(name, _)| *name == plane).map(|(_, store)| store)
    }
}
