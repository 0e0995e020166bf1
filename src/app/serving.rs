//! Both planes as services of the server, from their sockets to their end.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pingora::apps::ServerApp;
use pingora::protocols::ALPN;
use pingora::proxy::http_proxy;
use pingora::server::RunArgs;
use pingora::server::Server;
use pingora::services::listening::Service;
use tokio::sync::watch;

use super::Served;
use super::StartError;
use super::Wanted;
use super::address::Listeners;
use super::beside;
use super::ending::EndLimits;
use super::ending::Ending;
use super::ending::Next;
use super::inherit::Inherited;
use super::inherit::Predecessor;
use super::listening::admin_guard_config;
use super::listening::guard_config;
use super::listening::h2_options;
use super::listening::listen;
use super::listening::server_options;
use super::manager::Manager;
use super::plane::Plane;
use super::plane::Pulse;
use super::ready::Announcer;
use super::standing_by::Alone;
use super::successor::Handed;
use super::task::task;
use crate::admin::adapter::AdapterLimits;
use crate::admin::adapter::AdminApp;
use crate::config::Config;
use crate::proxy::Gateway;
use crate::proxy::bare::BareAnswers;
use crate::proxy::guard::Guard;
use crate::telemetry::Telemetry;
use crate::tls::CertificateStore;
use crate::tls::peer::Authorities;

/// What the planes are made of.
pub(super) struct Planes<'a> {
    pub(super) config: &'a Config,
    pub(super) proxy: &'a Listeners,
    pub(super) admin: &'a Listeners,
    pub(super) certificates: &'a Served,
    pub(super) authorities: &'a Arc<Authorities>,
    pub(super) telemetry: &'a Arc<Telemetry>,
    pub(super) limits: &'a AdapterLimits,
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
        let [of_proxy, of_admin] = [&gateway; 2].map(bare_answers);
        let proxy = self.proxy_plane(server, gateway, of_proxy)?;
        let admin = self.admin_plane(router, of_admin)?;
        let pulses = [proxy.pulse(), admin.pulse()];
        server.add_service(proxy);
        server.add_service(admin);
        Ok(pulses)
    }

    fn proxy_plane(
        &self,
        server: &Server,
        gateway: Gateway,
        answers: BareAnswers,
    ) -> Result<Plane<Guard<impl ServerApp + Send + Sync + 'static>>, StartError> {
        let (config, lifecycle) = (self.config, &self.telemetry.lifecycle);
        let mut proxy = http_proxy(&server.configuration, gateway);
        proxy.server_options = Some(server_options(config));
        proxy.h2_options = Some(h2_options(config));
        let offered = if config.proxy.h2 { ALPN::H2H1 } else { ALPN::H1 };
        let certificate = self.certificate("proxy");
        let tls = certificate.map(|certificate| certificate.listener_for_agents(offered, self.authorities));
        let guard = Guard::new(proxy, guard_config(config), tls, Arc::clone(lifecycle), answers);
        let mut plane = Service::new("proxy".to_owned(), guard);
        listen(&mut plane, self.proxy);
        plane.threads = config.proxy.threads;
        Ok(Plane::new(plane, self.proxy.to_serve().map_err(StartError::Sockets)?, lifecycle))
    }

    fn admin_plane(
        &self,
        router: axum::Router,
        answers: BareAnswers,
    ) -> Result<Plane<Guard<AdminApp>>, StartError> {
        let (config, lifecycle) = (self.config, &self.telemetry.lifecycle);
        let app = AdminApp::new(router, self.limits.clone());
        let tls = self.certificate("admin").map(|certificate| certificate.listener(ALPN::H2H1));
        let guard = Guard::new(app, admin_guard_config(config), tls, Arc::clone(lifecycle), answers);
        let mut plane = Service::new("admin".to_owned(), guard);
        listen(&mut plane, self.admin);
        plane.threads = Some(1);
        Ok(Plane::new(plane, self.admin.to_serve().map_err(StartError::Sockets)?, lifecycle))
    }

    fn certificate(&self, plane: &str) -> Option<&Arc<CertificateStore>> {
        self.certificates.iter().find(|(name, _)| *name == plane).map(|(_, store)| store)
    }
}

/// Returns how a plane answers whom it turns away before anything is known of them.
fn bare_answers(gateway: &Gateway) -> BareAnswers {
    let Gateway { buckets, licensing, clock, .. } = gateway;
    BareAnswers::new(Arc::clone(buckets), Arc::clone(licensing), Arc::clone(clock))
}

/// The sockets of both planes, and where they are from.
pub(super) struct Sockets {
    pub(super) proxy: Listeners,
    pub(super) admin: Listeners,
    predecessor: Option<Predecessor>,
    unused: Vec<String>,
}

/// Runs what was built, until the process is asked to end and has; returns what is left where another takes over.
pub(super) fn serve(
    mut server: Server,
    wanted: Wanted,
    config: &Config,
    taken: Sockets,
    pulses: [Pulse; 2],
    manager: Arc<Manager>,
    telemetry: &Arc<Telemetry>,
) -> Option<Handed> {
    let Sockets { proxy, admin, predecessor, unused } = taken;
    let bound = (proxy.bound().to_vec(), admin.bound().to_vec());
    let sockets = proxy.into_sockets().into_iter().chain(admin.into_sockets()).collect();
    let sockets = Arc::new(Mutex::new(sockets));
    let (hears, heard) = watch::channel(false);
    let ready = Announcer {
        pulses,
        proxy: bound.0,
        admin: bound.1,
        file: wanted.ready_file,
        manager: Arc::clone(&manager),
        sockets: Arc::clone(&sockets),
        predecessor,
        unused,
        hears: heard,
    };
    server.add_service(task("ready", telemetry, None, |shutdown| ready.run(shutdown)));
    let next = Next::default();
    let ending = Ending {
        lifecycle: Arc::clone(&telemetry.lifecycle),
        limits: EndLimits {
            notice: Duration::from_millis(config.proxy.shutdown_notice_ms),
            grace: Duration::from_millis(config.proxy.shutdown_grace_ms),
        },
        manager,
        sockets: Arc::clone(&sockets),
        invocation: wanted.invocation.clone(),
        next: Arc::clone(&next),
        hears,
    };
    server.run(RunArgs { shutdown_signal: Box::new(ending) });
    let (successor, invocation) = next.lock().take().zip(wanted.invocation)?;
    Some(Handed { successor, sockets: std::mem::take(&mut sockets.lock()), invocation })
}

/// Returns the sockets of both planes, and makes sure that the state is ours to open.
pub(super) fn sockets(wanted: &Wanted, config: &Config, alone: Option<Alone>) -> Result<Sockets, StartError> {
    let (predecessor, mut inherited) = match (alone, wanted.take_over) {
        (Some(Alone { sockets, why }), _) => {
            tracing::error!(error = %why, "nobody has taken over, this process goes on");
            (None, sockets)
        }
        (None, true) => {
            let (it, sockets) = Predecessor::at_stdin().map_err(StartError::TakeOver)?;
            (Some(it), sockets)
        }
        (None, false) => (None, Inherited::of_environment()),
    };
    let proxy = Listeners::open("proxy", &config.proxy.listen, &mut inherited)?;
    let admin = Listeners::open("admin", &config.admin.listen, &mut inherited)?;
    let mut taken = Sockets { proxy, admin, predecessor, unused: inherited.into_names() };
    if let Some(predecessor) = &mut taken.predecessor {
        beside::look(config)?;
        tracing::info!("takes over as soon as the other process has let go of the state");
        predecessor.wait_for_state().map_err(StartError::TakeOver)?;
    }
    Ok(taken)
}
