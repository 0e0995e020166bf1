//! Tries what a configuration names in the file system, without starting anything.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::CertifiedKey;

use crate::access::secret::SHARED_CHARS_MIN;
use crate::access::sso::ClientSecretPlace;
use crate::access::sso::OidcConfig;
use jiff::Timestamp;

use crate::access::sso::SsoConfig;
use crate::access::sso::saml::SamlConfig;
use crate::access::sso::saml::client::check_metadata;
use crate::access::sso::saml::client::own_key;
use crate::cluster::RedisUrl;
use crate::config::Config;
use crate::config::ConfigFault;
use crate::config::env::named;
use crate::config::siem;
use crate::document::Problem;
use crate::document::secret::SecretPlace;
use crate::govern::analytics::price;
use crate::govern::siem::config::SinkConfig;
use crate::policy::route::Route;
use crate::proxy::provider_key::header_value;
use crate::proxy::sigv4::Signer;
use crate::tls::TlsFiles;

/// Returns what is wrong with the certificates and keys that a configuration names.
pub fn faults(config: &Config) -> Vec<ConfigFault> {
    let mut faults = Vec::new();
    let listeners = [("proxy.tls", &config.proxy.tls), ("admin.tls", &config.admin.tls)];
    for (key, files) in listeners {
        let problem = files.as_ref().and_then(|files| listener_problem(files).err());
        faults.extend(problem.map(|(part, reason)| fault(config, format!("{key}.{part}"), reason)));
    }
    for (at, name) in route_names(config).iter().enumerate() {
        let route = config.rules.routes.iter().find(|route| &route.name == name);
        let file = route.and_then(|route| route.upstream_ca_file.as_deref());
        let problem = file.and_then(|file| certificates(file).err());
        faults.extend(problem.map(|reason| fault(config, format!("routes[{at}].upstream_ca_file"), reason)));
    }
    faults.extend(provider_key_faults(config));
    faults.extend(sink_secret_faults(config));
    faults.extend(sso_faults(config));
    faults.extend(store_faults(config));
    faults.extend(price::load(config.analytics.prices.as_deref()).err().into_iter().flatten());
    faults
}

/// Returns what is wrong with the place of the database's URL, and with the certificates it is trusted by.
fn store_faults(config: &Config) -> Vec<ConfigFault> {
    let mut faults: Vec<ConfigFault> = redis_faults(config).into_iter().collect();
    let Some(postgres) = &config.store.postgres else { return faults };
    let key = |key: &str| format!("store.postgres.{key}");
    for (place, keys, what) in [
        (&postgres.url, ["url_file", "url_env"], "cannot be read, or holds no URL"),
        (&postgres.secret, ["secret_file", "secret_env"], "cannot be read, or holds less than 32 characters"),
    ] {
        let (at, text) = match place {
            SecretPlace::File(file) => (keys[0], fs::read_to_string(file).ok()),
            SecretPlace::Environment(name) => (keys[1], named(name)),
        };
        let least = if keys[0] == "secret_file" { SHARED_CHARS_MIN } else { 1 };
        if text.is_none_or(|text| text.trim().len() < least) {
            faults.push(fault(config, key(at), what));
        }
    }
    let ca = postgres.ca_file.as_deref().and_then(|file| certificates(file).err());
    faults.extend(ca.map(|reason| fault(config, key("ca_file"), reason)));
    faults
}

fn redis_faults(config: &Config) -> Option<ConfigFault> {
    let redis = config.shared_limits.as_ref()?;
    let (key, text) = match &redis.url {
        SecretPlace::File(file) => ("url_file", fs::read_to_string(file).ok()),
        SecretPlace::Environment(name) => ("url_env", named(name)),
    };
    let is_url = text.is_some_and(|text| text.parse::<RedisUrl>().is_ok());
    let reason = "cannot be read, or holds no URL: redis://:PASSWORD@HOST:PORT, or rediss:// with TLS";
    (!is_url).then(|| fault(config, format!("cluster.redis.{key}"), reason))
}

/// Returns what is wrong with the providers' keys that the routes name.
pub fn provider_key_faults(config: &Config) -> Vec<ConfigFault> {
    let mut faults = Vec::new();
    for (at, name) in route_names(config).iter().enumerate() {
        let route = config.rules.routes.iter().find(|route| &route.name == name);
        let Some(route) = route else { continue };
        let Some(place) = route.auth.provider_key() else { continue };
        let (key, problem) = match place {
            SecretPlace::File(file) if !holds_key(route, fs::read_to_string(file).ok()) => (
                "provider_key_file",
                "cannot be read, or holds no key on one line (with aws_region, ACCESS_KEY_ID:SECRET)",
            ),
            SecretPlace::Environment(name) if !holds_key(route, named(name)) => (
                "provider_key_env",
                "is not set, or holds no key on one line (with aws_region, ACCESS_KEY_ID:SECRET)",
            ),
            SecretPlace::File(_) | SecretPlace::Environment(_) => continue,
        };
        faults.push(fault(config, format!("routes[{at}].{key}"), problem));
    }
    faults
}

/// Returns what is wrong with the secrets of the sinks that the audit log is forwarded to.
pub fn sink_secret_faults(config: &Config) -> Vec<ConfigFault> {
    // What is wrong with a sink beside its secret was told when the configuration was read.
    let sinks = siem::of(&config.document).unwrap_or_default().sinks;
    let problem = |(at, sink): (usize, &SinkConfig)| {
        let (key, text, reason) = match sink.target.secret()? {
            SecretPlace::File(file) => {
                ("secret_file", fs::read_to_string(file).ok(), "cannot be read, or holds no secret")
            }
            SecretPlace::Environment(name) => ("secret_env", named(name), "is not set, or holds no secret"),
        };
        let is_there = text.is_some_and(|text| !text.trim().is_empty());
        (!is_there).then(|| fault(config, format!("siem.sinks[{at}].{key}"), reason))
    };
    sinks.iter().enumerate().filter_map(problem).collect()
}

/// Returns what is wrong with the files and variables that the identity provider's section names.
fn sso_faults(config: &Config) -> Vec<ConfigFault> {
    match &config.sso {
        None => Vec::new(),
        Some(SsoConfig::Oidc(oidc)) => oidc_faults(config, oidc),
        Some(SsoConfig::Saml(saml)) => saml_faults(config, saml),
    }
}

fn saml_faults(config: &Config, saml: &SamlConfig) -> Vec<ConfigFault> {
    let metadata = check_metadata(&saml.metadata_file).err();
    let mut faults: Vec<ConfigFault> = metadata
        .map(|reason| fault(config, "sso.saml.metadata_file".to_owned(), &reason.to_string()))
        .into_iter()
        .collect();
    let unusable = saml.signing.as_ref().filter(|files| own_key(&files.key, &files.certificate).is_none());
    let reason = "cannot be read, is neither RSA nor ECDSA on P-256, or does not belong to the certificate";
    faults.extend(unusable.map(|_| fault(config, "sso.saml.key_file".to_owned(), reason)));
    faults
}

fn oidc_faults(config: &Config, oidc: &OidcConfig) -> Vec<ConfigFault> {
    let mut faults = Vec::new();
    let problem = oidc.ca_file.as_deref().and_then(|file| certificates(file).err());
    faults.extend(problem.map(|reason| fault(config, "sso.oidc.ca_file".to_owned(), reason)));
    let secret = match &oidc.client_secret {
        Some(ClientSecretPlace::File(file)) if !holds_line(fs::read_to_string(file).ok()) => {
            Some(("client_secret_file", "cannot be read, or holds no secret on one line"))
        }
        Some(ClientSecretPlace::Environment(name)) if !holds_line(named(name)) => {
            Some(("client_secret_env", "is not set, or holds no secret on one line"))
        }
        _ => None,
    };
    faults.extend(secret.map(|(key, reason)| fault(config, format!("sso.oidc.{key}"), reason)));
    faults
}

fn holds_key(route: &Route, secret: Option<String>) -> bool {
    let key = secret.as_deref().and_then(header_value);
    key.is_some_and(|key| match &route.aws {
        Some(scope) => Signer::read(&key, scope, Timestamp::UNIX_EPOCH).is_some(),
        None => true,
    })
}

fn holds_line(secret: Option<String>) -> bool {
    secret.is_some_and(|secret| header_value(&secret).is_some())
}

/// Returns the names of the routes in the order they were written.
fn route_names(config: &Config) -> Vec<String> {
    let routes = config.document.root().get("routes").and_then(|routes| routes.as_array());
    let name = |route: &serde_json::Value| Some(route.get("name")?.as_str()?.to_owned());
    routes.into_iter().flatten().map(|route| name(route).unwrap_or_default()).collect()
}

fn listener_problem(files: &TlsFiles) -> Result<(), (&'static str, &'static str)> {
    let chain = certificates(&files.cert).map_err(|reason| ("cert", reason))?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|_| ("key", "holds no private key in PEM"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let pair = CertifiedKey::from_der(chain, key, &provider);
    pair.map(|_| ()).map_err(|_| ("key", "does not belong to the certificate, or is of an unknown kind"))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    let found = CertificateDer::pem_file_iter(file).map_err(|_| "cannot be read")?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(|_| "holds a damaged PEM block")?;
    if found.is_empty() { Err("holds no certificate in PEM") } else { Ok(found) }
}

fn fault(config: &Config, key: String, reason: &str) -> ConfigFault {
    let place = config.document.places().of(&key).cloned();
    ConfigFault { place, key, problem: Problem::Invalid { reason: reason.to_owned(), suggestion: None } }
}
