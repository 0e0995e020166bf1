//! The settings of Pingora's parts, from ours.

use std::time::Duration;

use pingora::apps::HttpServerOptions;
use pingora::protocols::http::v2::server::H2Options;
use pingora::protocols::http::v2::server::default_h2_options;
use pingora::server::configuration::ServerConf;

use crate::admin::adapter::AdapterLimits;
use crate::config::Config;
use crate::proxy::guard::GuardConfig;

/// How long the runtimes may take to stop once every exchange had its time.
const RUNTIME_STOP_S: u64 = 2;

pub(super) fn adapter_limits(config: &Config) -> AdapterLimits {
    let body_deadline = Duration::from_millis(config.proxy.timeouts.body_ms);
    AdapterLimits { body_bytes_max: config.admin.max_body_bytes, body_deadline }
}

pub(super) fn guard_config(config: &Config) -> GuardConfig {
    GuardConfig {
        connections_max: config.proxy.max_connections,
        connections_per_address_max: config.proxy.max_connections_per_address,
        head_deadline: Duration::from_millis(config.proxy.timeouts.header_ms),
    }
}

pub(super) fn admin_guard_config(config: &Config) -> GuardConfig {
    GuardConfig {
        connections_max: config.admin.max_connections,
        connections_per_address_max: config.admin.max_connections_per_address,
        ..guard_config(config)
    }
}

pub(super) fn server_options(config: &Config) -> HttpServerOptions {
    let mut options = HttpServerOptions::default();
    options.h2c = config.proxy.h2;
    // Pingora counts how often a connection is used again, not how often it is used.
    options.keepalive_request_limit = Some(config.proxy.max_requests_per_connection.saturating_sub(1));
    options.h2_idle_timeout = Some(Duration::from_millis(config.proxy.timeouts.keepalive_ms));
    options
}

pub(super) fn h2_options(config: &Config) -> H2Options {
    let mut options = default_h2_options();
    options.max_concurrent_streams(config.proxy.h2_streams_max);
    options.max_header_list_size(u32::try_from(config.proxy.max_header_bytes).unwrap_or(u32::MAX));
    options
}

pub(super) fn server_conf(config: &Config) -> ServerConf {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    ServerConf {
        threads: config.proxy.threads.unwrap_or(cores),
        grace_period_seconds: Some(config.proxy.shutdown_grace_ms.div_ceil(1000)),
        graceful_shutdown_timeout_seconds: Some(RUNTIME_STOP_S),
        upstream_keepalive_pool_size: config.proxy.upstream_idle_connections,
        ..ServerConf::default()
    }
}
