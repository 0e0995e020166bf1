//! How the listeners of both planes are set up.

use std::sync::Arc;
use std::time::Duration;

use pingora::apps::HttpServerOptions;
use pingora::listeners::L4BufferSettings;
use pingora::listeners::ListenerConfig;
use pingora::protocols::http::v2::server::H2Options;
use pingora::protocols::http::v2::server::default_h2_options;
use pingora::server::configuration::ServerConf;
use pingora::services::listening::Service;

use super::StartError;
use super::StateError;
use super::address::Listeners;
use crate::admin::adapter::AdapterLimits;
use crate::admin::adapter::Share;
use crate::admin::head::HeadLimits;
use crate::config::Config;
use crate::policy::handle::RulesetHandle;
use crate::proxy::gate::ByteBudget;
use crate::proxy::gate::Reserved;
use crate::proxy::guard::GuardConfig;
use crate::tls::CertificateStore;
use crate::tls::TlsFiles;

/// What is read of a connection at once, where its reader does not ask for more: a request head, a TLS record.
/// A connection has this for as long as it is open.
const READ_BUFFER_BYTES: usize = 16 << 10;

/// Returns the caps and deadlines of the data plane.
pub(super) fn guard_config(config: &Config) -> GuardConfig {
    GuardConfig {
        connections_max: config.proxy.max_connections,
        connections_per_address_max: config.proxy.max_connections_per_address,
        head_deadline: Duration::from_millis(config.proxy.timeouts.header_ms),
    }
}

/// Returns those of the management plane.
pub(super) fn admin_guard_config(config: &Config) -> GuardConfig {
    GuardConfig {
        connections_max: config.admin.max_connections,
        connections_per_address_max: config.admin.max_connections_per_address,
        ..guard_config(config)
    }
}

/// Returns what a request of the management API may weigh, and how long it may take to arrive.
pub(super) fn adapter_limits(config: &Config, rules: RulesetHandle, room: &Arc<ByteBudget>) -> AdapterLimits {
    let body_deadline = Duration::from_millis(config.proxy.timeouts.body_ms);
    let head = HeadLimits { bytes_max: config.proxy.max_header_bytes, fields_max: config.proxy.max_headers };
    let room = Arc::clone(room);
    let reserve = Arc::new(move |bytes: usize| {
        let mut share = Reserved::none(&room);
        share.grow(bytes).ok().map(|()| Box::new(share) as Share)
    });
    AdapterLimits { head, body_bytes_max: config.admin.max_body_bytes, body_deadline, rules, reserve }
}

/// Returns what is asked of HTTP/1 connections.
pub(super) fn server_options(config: &Config) -> HttpServerOptions {
    let mut options = HttpServerOptions::default();
    options.h2c = config.proxy.h2;
    // Pingora counts how often a connection is used again, not how often it is used.
    options.keepalive_request_limit = Some(config.proxy.max_requests_per_connection.saturating_sub(1));
    options.h2_idle_timeout = Some(Duration::from_millis(config.proxy.timeouts.keepalive_ms));
    options
}

/// Returns what is asked of HTTP/2 connections.
pub(super) fn h2_options(config: &Config) -> H2Options {
    let mut options = default_h2_options();
    options.max_concurrent_streams(config.proxy.h2_streams_max);
    options.max_header_list_size(u32::try_from(config.proxy.max_header_bytes).unwrap_or(u32::MAX));
    options
}

/// Returns the configuration of the server as a whole.
pub(super) fn server_conf(config: &Config) -> ServerConf {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    ServerConf {
        threads: config.proxy.threads.unwrap_or(cores),
        upstream_keepalive_pool_size: config.proxy.upstream_idle_connections,
        ..ServerConf::default()
    }
}

/// Loads the certificates of the listeners that have one, by the listener's name.
pub(super) fn certificates(
    config: &Config,
) -> Result<Vec<(&'static str, Arc<CertificateStore>)>, StartError> {
    let named = [("proxy", &config.proxy.tls), ("admin", &config.admin.tls)];
    let files = named.into_iter().filter_map(|(name, files)| Some((name, files.as_ref()?)));
    let load = |(name, files): (&'static str, &TlsFiles)| Ok((name, CertificateStore::load(files.clone())?));
    let loaded = files.map(load).collect::<Result<_, _>>();
    loaded.map_err(|fault| StartError::State(StateError::Certificate(fault)))
}

/// Lets a service listen. Where it speaks TLS, its guard does.
pub(super) fn listen<A>(service: &mut Service<A>, addresses: &Listeners) {
    for address in addresses.bound() {
        let endpoint = ListenerConfig::tcp(address.to_string())
            .l4_buffer(L4BufferSettings::default().read(READ_BUFFER_BYTES));
        service.add_listener(endpoint);
    }
}
