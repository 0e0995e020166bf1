//! Each table of the file into the configuration of its module.

use std::net::Ipv6Addr;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::access::config::AuthConfig;
use crate::access::license::LicenseConfig;
use crate::access::license::TRUSTED_KEYS_MAX;
use crate::access::password::Cost;
use crate::access::place::InvalidNetwork;
use crate::access::place::Network;
use crate::access::signing::SigningConfig;
use crate::access::token::TTL_MAX;
use crate::access::token::TokenConfig;
use crate::admin::config::AdminConfig;
use crate::cluster::WhenAway;
use crate::cluster::config::RedisConfig;
use crate::config::PluginsConfig;
use crate::config::sign_in;
use crate::document::Problem;
use crate::document::secret::SecretPlace;
use crate::document::section::Section;
use crate::govern::analytics::config::AnalyticsConfig;
use crate::govern::audit::config::AuditConfig;
use crate::govern::audit::config::AuditDurability;
use crate::govern::audit::config::AuditFailure;
use crate::govern::trust::TrustConfig;
use crate::proxy::config::ProxyConfig;
use crate::proxy::config::Timeouts;
use crate::store::config::PostgresConfig;
use crate::store::config::StoreConfig;
use crate::telemetry::config::LogFormat;
use crate::telemetry::config::LogLevel;
use crate::telemetry::config::TelemetryConfig;
use crate::tls::TlsFiles;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const HOUR_MS: u64 = 3_600_000;
const DAY: Duration = Duration::from_secs(86_400);

pub(super) fn proxy(section: &mut Section<'_>) -> ProxyConfig {
    let config = ProxyConfig {
        listen: listen(section),
        tls: tls(&mut section.section("tls")),
        h2: section.flag("h2"),
        max_connections: section.count("max_connections", 1..=1_000_000),
        max_connections_per_address: section.count("max_connections_per_address", 1..=1_000_000),
        max_requests_per_connection: small(section, "max_requests_per_connection", 1_000_000_000),
        h2_streams_max: small(section, "h2_streams_max", 10_000),
        max_header_bytes: section.count("max_header_bytes", 1024..=MIB),
        max_headers: section.count("max_headers", 8..=256),
        trust_request_id: section.flag("trust_request_id"),
        upstream_idle_connections: section.count("upstream_idle_connections", 0..=100_000),
        threads: section.number_maybe("threads", 1..=1024).and_then(|threads| threads.try_into().ok()),
        shutdown_notice_ms: section.number("shutdown_notice_ms", 0..=HOUR_MS),
        shutdown_grace_ms: section.number("shutdown_grace_ms", 0..=HOUR_MS),
        timeouts: timeouts(&mut section.section("timeouts")),
    };
    section.finish();
    config
}

fn timeouts(section: &mut Section<'_>) -> Timeouts {
    let mut timeout = |key| section.number(key, 1..=HOUR_MS);
    let timeouts = Timeouts {
        header_ms: timeout("header_ms"),
        body_ms: timeout("body_ms"),
        write_ms: timeout("write_ms"),
        upstream_connect_ms: timeout("upstream_connect_ms"),
        upstream_first_byte_ms: timeout("upstream_first_byte_ms"),
        upstream_idle_ms: timeout("upstream_idle_ms"),
        keepalive_ms: timeout("keepalive_ms"),
    };
    section.finish();
    timeouts
}

pub(super) fn admin(section: &mut Section<'_>) -> AdminConfig {
    let config = AdminConfig {
        listen: listen(section),
        tls: tls(&mut section.section("tls")),
        also_on_proxy: section.flag("also_on_proxy"),
        hosts: hosts(section),
        trusted_proxies: trusted_proxies(section),
        public_url: sign_in::public_url(section),
        max_connections: section.count("max_connections", 1..=1_000_000),
        max_connections_per_address: section.count("max_connections_per_address", 1..=1_000_000),
        max_body_bytes: section.count("max_body_bytes", 1024..=GIB),
        max_streams: section.count("max_streams", 0..=100_000),
        max_streams_per_caller: small(section, "max_streams_per_caller", 100_000),
    };
    section.finish();
    config
}

fn hosts(section: &mut Section<'_>) -> Vec<String> {
    let named = section.texts("hosts").into_iter().filter(|host| !host.is_empty());
    let hosts: Vec<String> = named.map(|host| host.trim_end_matches('.').to_ascii_lowercase()).collect();
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_name = |host: &str| {
        host.len() <= 253 && host.split('.').all(|part| !part.is_empty() && part.bytes().all(is_part))
    };
    let is_address = |host: &str| {
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        bare.is_some_and(|bare| bare.parse::<Ipv6Addr>().is_ok())
    };
    if hosts.iter().any(|host| !is_name(host) && !is_address(host)) {
        section.invalid("hosts", "expected names of hosts, as gate.example.com, without a port", None);
    }
    hosts
}

/// Reports an address of the management plane at which the data plane listens, too. Port 0 is another one each time.
pub(super) fn check_listeners(root: &Section<'_>, proxy: &ProxyConfig, admin: &AdminConfig) {
    let meets = |one: &SocketAddr, other: &SocketAddr| {
        let is_any = one.ip().is_unspecified() || other.ip().is_unspecified();
        let is_of_kind = one.is_ipv4() == other.is_ipv4();
        one.port() != 0 && one.port() == other.port() && is_of_kind && (is_any || one.ip() == other.ip())
    };
    if let Some(taken) = admin.listen.iter().find(|own| proxy.listen.iter().any(|other| meets(own, other))) {
        root.invalid("admin.listen", format!("{taken} is taken by [proxy] listen"), None);
    }
}

fn trusted_proxies(section: &mut Section<'_>) -> Vec<Network> {
    let read: Result<Vec<Network>, InvalidNetwork> =
        section.texts("trusted_proxies").into_iter().map(str::parse).collect();
    read.unwrap_or_else(|fault| {
        section.invalid("trusted_proxies", fault.to_string(), None);
        Vec::new()
    })
}

/// Tells whether several nodes share a database, and how they share quotas.
pub(super) fn cluster(section: &mut Section<'_>) -> (bool, Option<RedisConfig>) {
    let (enabled, limits) = (section.flag("enabled"), section.text("limits"));
    if !["local", "redis"].contains(&limits) {
        section.invalid("limits", "expected local or redis", None);
    }
    let redis = redis(&mut section.section("redis"));
    if limits == "redis" && (redis.is_none() || !enabled) {
        let reason = "redis needs enabled = true, and url_file or url_env in [cluster.redis]";
        section.invalid("limits", reason, None);
    }
    section.finish();
    (enabled, redis.filter(|_| limits == "redis"))
}

/// `None` where it is not said where the URL lies.
fn redis(section: &mut Section<'_>) -> Option<RedisConfig> {
    let url = SecretPlace::read(section, "url_file", "url_env");
    let ca_file = section.path_maybe("ca_file");
    let timeout = Duration::from_millis(section.number("timeout_ms", 10..=10_000));
    let when_away = match section.text("when_away") {
        "local" => WhenAway::Local,
        "refuse" => WhenAway::Refuse,
        _ => {
            section.invalid("when_away", "expected local or refuse", None);
            WhenAway::Refuse
        }
    };
    section.finish();
    Some(RedisConfig { url: url?, ca_file, timeout, when_away })
}

pub(super) fn store(section: &mut Section<'_>, together: bool) -> StoreConfig {
    let shared = section.text("backend");
    if !["sled", "postgres"].contains(&shared) {
        section.invalid("backend", "expected sled or postgres", None);
    }
    let postgres = postgres(&mut section.section("postgres"), together);
    let config = StoreConfig {
        path: path(section, "path"),
        in_memory: section.flag("in_memory"),
        cache_bytes: section.number("cache_bytes", MIB..=64 * GIB),
        postgres: postgres.clone().filter(|_| shared == "postgres"),
    };
    if shared == "postgres" && postgres.is_none() {
        let reason = "postgres needs url_file or url_env, and secret_file or secret_env, in [store.postgres]";
        section.invalid("backend", reason, None);
    }
    if together && shared != "postgres" {
        section.invalid("backend", "[cluster] needs a database that nodes share: postgres", None);
    }
    if shared == "postgres" && config.in_memory {
        section.invalid("in_memory", "what lies in a database outlives the process", None);
    }
    section.finish();
    config
}

/// `None` where it is not said where the URL and the secret lie.
fn postgres(section: &mut Section<'_>, together: bool) -> Option<PostgresConfig> {
    let url = SecretPlace::read(section, "url_file", "url_env");
    let secret = SecretPlace::read(section, "secret_file", "secret_env");
    let (tls, ca_file) = (section.flag("tls"), section.path_maybe("ca_file"));
    let connections = section.count("connections", 1..=1000);
    let waiting_max = section.count("waiting", 1..=100_000);
    let timeout = Duration::from_millis(section.number("timeout_ms", 100..=60_000));
    section.finish();
    Some(PostgresConfig {
        url: url?,
        secret: secret?,
        together,
        tls,
        ca_file,
        connections,
        waiting_max,
        timeout,
    })
}

pub(super) fn plugins(section: &mut Section<'_>) -> PluginsConfig {
    let config =
        PluginsConfig { path: path(section, "path"), compiled_path: section.path_maybe("compiled_path") };
    section.finish();
    config
}

pub(super) fn audit(section: &mut Section<'_>) -> AuditConfig {
    let config = AuditConfig {
        durability: section.choice("durability", AuditDurability::Wait),
        on_failure: section.choice("on_failure", AuditFailure::Refuse),
        segment_bytes: section.number("segment_bytes", 64 * 1024..=4 * GIB),
        queue: section.count("queue", 1..=1_000_000),
        retention_days: small(section, "retention_days", 36_500),
        retention_bytes: section.number("retention_bytes", MIB..=1024 * 1024 * GIB),
        reserve_bytes: section.number("reserve_bytes", 0..=64 * GIB),
        low_water_bytes: section.number("low_water_bytes", 0..=1024 * GIB),
    };
    section.finish();
    config
}

pub(super) fn analytics(section: &mut Section<'_>) -> AnalyticsConfig {
    let config = AnalyticsConfig { prices: section.path_maybe("prices") };
    section.finish();
    config
}

pub(super) fn license(section: &mut Section<'_>) -> LicenseConfig {
    let trusted = section.texts("trusted_keys").into_iter().map(PathBuf::from).collect::<Vec<_>>();
    if trusted.len() > TRUSTED_KEYS_MAX {
        section.invalid("trusted_keys", format!("expected {TRUSTED_KEYS_MAX} keys at most"), None);
    }
    let config = LicenseConfig { file: section.path_maybe("file"), trusted_keys: trusted };
    if config.file.is_some() && config.trusted_keys.is_empty() {
        section.invalid("trusted_keys", "a licence counts only with the key that verifies it", None);
    }
    section.finish();
    config
}

pub(super) fn trust(section: &mut Section<'_>) -> TrustConfig {
    let mut seconds = |key, least| Duration::from_secs(section.number(key, least..=366 * 86_400));
    let config = TrustConfig {
        session_idle: seconds("session_idle_s", 1),
        attest_every: seconds("attest_every_s", 1),
        attestation_life: seconds("attestation_life_s", 60),
    };
    section.finish();
    config
}

pub(super) fn auth(section: &mut Section<'_>) -> AuthConfig {
    let config = AuthConfig {
        tokens: TokenConfig {
            ttl: Duration::from_secs(section.number("token_ttl_s", 60..=TTL_MAX.as_secs())),
        },
        password_cost: Cost {
            memory_kib: section.number("password_memory_kib", u64::from(Cost::OWASP.memory_kib)..=MIB) as u32,
            passes: section.number("password_passes", u64::from(Cost::OWASP.passes)..=100) as u32,
        },
    };
    section.finish();
    config
}

pub(super) fn signing(section: &mut Section<'_>) -> SigningConfig {
    let mut days = |key| DAY * small(section, key, 3650);
    let config = SigningConfig { rotate_after: days("rotate_days"), overlap: days("overlap_days") };
    section.finish();
    config
}

pub(super) fn telemetry(section: &mut Section<'_>) -> TelemetryConfig {
    let config = TelemetryConfig {
        log_format: section.choice("log_format", LogFormat::Text),
        log_level: section.choice("log_level", LogLevel::Info),
        public_metrics: section.flag("public_metrics"),
        models: section.texts("models").into_iter().map(str::to_owned).collect(),
    };
    section.finish();
    config
}

fn listen(section: &mut Section<'_>) -> Vec<SocketAddr> {
    let texts = section.texts("listen");
    if texts.is_empty() {
        section.fault("listen", Problem::Missing);
    }
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for text in texts {
        match text.parse() {
            Ok(address) if addresses.contains(&address) => {
                section.invalid("listen", "names an address twice", None);
            }
            Ok(address) => addresses.push(address),
            Err(_) => section.invalid("listen", "expected addresses like 127.0.0.1:8080 or [::]:8080", None),
        }
    }
    addresses
}

fn tls(section: &mut Section<'_>) -> Option<TlsFiles> {
    let (cert, key) = (section.path_maybe("cert"), section.path_maybe("key"));
    section.finish();
    match (cert, key) {
        (Some(cert), Some(key)) => Some(TlsFiles { cert, key }),
        (None, None) => None,
        (Some(_), None) => {
            section.fault("key", Problem::Missing);
            None
        }
        (None, Some(_)) => {
            section.fault("cert", Problem::Missing);
            None
        }
    }
}

fn path(section: &mut Section<'_>, key: &'static str) -> PathBuf {
    let path = section.path_maybe(key);
    if path.is_none() {
        section.fault(key, Problem::Missing);
    }
    path.unwrap_or_default()
}

fn small(section: &mut Section<'_>, key: &'static str, max: u32) -> u32 {
    u32::try_from(section.number(key, 1..=u64::from(max))).unwrap_or(max)
}
