//! Tries what a configuration names in the file system, without starting anything.

use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::Access;
use rustix::fs::access;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::CertifiedKey;

use crate::access::jose::VerifyingKey;
use crate::access::secret::SHARED_CHARS_MIN;
use crate::access::secret_file;
use crate::access::secret_file::SecretFileFault;
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
use crate::tls::client::TlsClient;
use crate::tls::facts::is_of_version_1;

const VERSION_1: &str = "is an X.509 certificate of version 1, which TLS does not take any more: have one of version 3 \
                         made, as authorities and `openssl req -x509` do; `openssl x509 -req` does with -extfile";

/// Returns what is wrong with the certificates and keys that a configuration names.
pub fn faults(config: &Config) -> Vec<ConfigFault> {
    let mut faults = Vec::new();
    let listeners = [("proxy.tls", &config.proxy.tls), ("admin.tls", &config.admin.tls)];
    for (key, files) in listeners {
        let problems = files.iter().flat_map(listener_problems);
        faults.extend(problems.map(|(part, reason)| fault(config, format!("{key}.{part}"), reason)));
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
    faults.extend(otlp_faults(config));
    let prices = price::load(config.analytics.prices.as_deref()).err().unwrap_or_default();
    faults.extend(of_file(config, "analytics.prices", prices));
    faults
}

/// Returns what a start passes over, and whoever wrote the configuration did not mean: a licence and its keys that are not
/// there, and a folder for compiled patterns that cannot be made.
pub fn passed_over(config: &Config) -> Vec<ConfigFault> {
    let mut faults = Vec::new();
    if config.license.file.as_deref().is_some_and(|file| std::fs::read_to_string(file).is_err()) {
        faults.push(fault(config, "license.file".to_owned(), "cannot be read"));
    }
    let holds_key =
        |file: &PathBuf| std::fs::read(file).is_ok_and(|pem| VerifyingKey::from_pem(&pem).is_ok());
    for file in config.license.trusted_keys.iter().filter(|file| !holds_key(file)) {
        let reason = format!("{} cannot be read, or holds no Ed25519 public key in PEM", file.display());
        faults.push(fault(config, "license.trusted_keys".to_owned(), &reason));
    }
    let compiled = config.plugins.compiled_path.as_deref().filter(|folder| !can_be_made(folder));
    let reason = "is no folder, and cannot be made: only the last part of its path is, where we may write";
    faults.extend(compiled.map(|_| fault(config, "plugins.compiled_path".to_owned(), reason)));
    faults
}

/// Returns the faults of a file that a key names: where there is no reading it, they are the key's.
pub fn of_file(config: &Config, key: &str, faults: Vec<ConfigFault>) -> Vec<ConfigFault> {
    let placed = |found: ConfigFault| match found.problem {
        Problem::Unreadable { .. } => fault(config, key.to_owned(), &found.to_string()),
        _ => found,
    };
    faults.into_iter().map(placed).collect()
}

fn can_be_made(folder: &Path) -> bool {
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    folder.is_dir()
        || !folder.exists() && above.is_dir() && access(above, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// Returns what is wrong with the collector's certificates and its secret.
fn otlp_faults(config: &Config) -> Vec<ConfigFault> {
    let Some(otlp) = &config.otlp else { return Vec::new() };
    let ca = TlsClient::new(otlp.ca_file.as_deref()).err();
    let mut faults: Vec<ConfigFault> =
        ca.map(|reason| fault(config, "otlp.ca_file".to_owned(), &reason.to_string())).into_iter().collect();
    let is_good = |text: &str| !text.trim().is_empty() && header_value(text).is_some();
    let problem = otlp.secret.as_ref().and_then(|(_, place)| {
        unusable(place, ["secret_file", "secret_env"], is_good, "no secret on one line")
    });
    faults.extend(problem.map(|(key, reason)| fault(config, format!("otlp.{key}"), &reason)));
    faults
}

/// Returns what is wrong with the place of the database's URL, and with the certificates it is trusted by.
fn store_faults(config: &Config) -> Vec<ConfigFault> {
    let mut faults = redis_faults(config);
    let Some(postgres) = &config.store.postgres else { return faults };
    let key = |key: &str| format!("store.postgres.{key}");
    for (place, keys, least, holds) in [
        (&postgres.url, ["url_file", "url_env"], 1, "no URL"),
        (&postgres.secret, ["secret_file", "secret_env"], SHARED_CHARS_MIN, "less than 32 characters"),
    ] {
        let problem = unusable(place, keys, |text| text.trim().len() >= least, holds);
        faults.extend(problem.map(|(at, reason)| fault(config, key(at), &reason)));
    }
    let ca = postgres.ca_file.as_deref().and_then(|file| certificates(file).err());
    faults.extend(ca.map(|reason| fault(config, key("ca_file"), reason)));
    faults
}

fn redis_faults(config: &Config) -> Vec<ConfigFault> {
    let Some(redis) = &config.shared_limits else { return Vec::new() };
    let holds = "no URL: redis://:PASSWORD@HOST:PORT, or rediss:// with TLS";
    let is_url = |text: &str| text.parse::<RedisUrl>().is_ok();
    let url = unusable(&redis.url, ["url_file", "url_env"], is_url, holds);
    let ca = redis.ca_file.as_deref().and_then(|file| certificates(file).err());
    let ca = ca.map(|reason| ("ca_file", reason.to_owned()));
    let faults = url.into_iter().chain(ca);
    faults.map(|(key, reason)| fault(config, format!("cluster.redis.{key}"), &reason)).collect()
}

/// Returns what is wrong with the providers' keys that the routes name.
pub fn provider_key_faults(config: &Config) -> Vec<ConfigFault> {
    let mut faults = Vec::new();
    for (at, name) in route_names(config).iter().enumerate() {
        let route = config.rules.routes.iter().find(|route| &route.name == name);
        let Some(route) = route else { continue };
        let Some(place) = route.auth.provider_key() else { continue };
        let holds = "no key on one line (with aws_region, ACCESS_KEY_ID:SECRET)";
        let keys = ["provider_key_file", "provider_key_env"];
        let problem = unusable(place, keys, |text| holds_key(route, text), holds);
        faults.extend(problem.map(|(key, reason)| fault(config, format!("routes[{at}].{key}"), &reason)));
    }
    faults
}

/// Returns what is wrong with the secrets of the sinks that the audit log is forwarded to.
pub fn sink_secret_faults(config: &Config) -> Vec<ConfigFault> {
    // What is wrong with a sink beside its secret was told when the configuration was read.
    let sinks = siem::of(&config.document).unwrap_or_default().sinks;
    let problem = |(at, sink): (usize, &SinkConfig)| {
        let is_there = |text: &str| !text.trim().is_empty();
        let place = sink.target.secret()?;
        let (key, reason) = unusable(place, ["secret_file", "secret_env"], is_there, "no secret")?;
        Some(fault(config, format!("siem.sinks[{at}].{key}"), &reason))
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
    let place = oidc.client_secret.as_ref().map(|place| match place {
        ClientSecretPlace::File(path) => SecretPlace::File(path.clone()),
        ClientSecretPlace::Environment(name) => SecretPlace::Environment(name.clone()),
    });
    let keys = ["client_secret_file", "client_secret_env"];
    let holds_line = |text: &str| header_value(text).is_some();
    let problem = place.and_then(|place| unusable(&place, keys, holds_line, "no secret on one line"));
    faults.extend(problem.map(|(key, reason)| fault(config, format!("sso.oidc.{key}"), &reason)));
    faults
}

fn holds_key(route: &Route, text: &str) -> bool {
    header_value(text).is_some_and(|key| match &route.aws {
        Some(scope) => Signer::read(&key, scope, Timestamp::UNIX_EPOCH).is_some(),
        None => true,
    })
}

/// Returns which of the two keys names a secret's place, a file or a variable, and why it cannot be used; none where it
/// can.
fn unusable(
    place: &SecretPlace,
    [file, variable]: [&'static str; 2],
    is_good: impl FnOnce(&str) -> bool,
    holds: &str,
) -> Option<(&'static str, String)> {
    let (key, text, missing) = match place {
        SecretPlace::File(path) => (file, secret_file::read(path), "cannot be read"),
        SecretPlace::Environment(name) => {
            (variable, named(name).ok_or(SecretFileFault::Unreadable), "is not set")
        }
    };
    match text {
        Ok(text) if is_good(&text) => None,
        Err(fault @ SecretFileFault::TooLong) => Some((key, fault.to_string())),
        Ok(_) | Err(SecretFileFault::Unreadable) => Some((key, format!("{missing}, or holds {holds}"))),
    }
}

/// Returns the names of the routes in the order they were written.
fn route_names(config: &Config) -> Vec<String> {
    let routes = config.document.root().get("routes").and_then(|routes| routes.as_array());
    let name = |route: &serde_json::Value| Some(route.get("name")?.as_str()?.to_owned());
    routes.into_iter().flatten().map(|route| name(route).unwrap_or_default()).collect()
}

fn listener_problems(files: &TlsFiles) -> Vec<(&'static str, &'static str)> {
    let chain = certificates(&files.cert).map_err(|reason| ("cert", reason));
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|_| ("key", "holds no private key in PEM"));
    let (chain, key) = match (chain, key) {
        (Ok(chain), Ok(key)) => (chain, key),
        (chain, key) => return chain.err().into_iter().chain(key.err()).collect(),
    };
    if chain.first().is_some_and(|leaf| is_of_version_1(leaf)) {
        return vec![("cert", VERSION_1)];
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let pair = CertifiedKey::from_der(chain, key, &provider);
    let reason = "does not belong to the certificate, or is of an unknown kind";
    pair.err().map(|_| ("key", reason)).into_iter().collect()
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::access::secret_file::SECRET_FILE_BYTES_MAX;
    use crate::config::Sources;

    #[test]
    fn what_is_too_long_for_a_secret_is_told_so() {
        let folder = tempfile::tempdir().unwrap();
        let (file, long) = (folder.path().join("gateway.toml"), folder.path().join("long"));
        let secret = long.display();
        let text = format!(
            "[[routes]]\nname = \"a\"\nupstream = \"https://a.example\"\ndialect = \"openai\"\npolicy = \"default\"\n\
             auth = \"gateway_key\"\nprovider_key_file = \"{secret}\"\n[[siem.sinks]]\nname = \"soc\"\n\
             platform = \"webhook\"\nurl = \"https://soc.example\"\nsecret_file = \"{secret}\"\n"
        );
        fs::write(&file, text).unwrap();
        let complaints = |length: usize| {
            fs::write(&long, "a".repeat(length)).unwrap();
            let config = Sources { file: Some(file.clone()), ..Sources::default() }.load().unwrap();
            let faults = [provider_key_faults(&config), sink_secret_faults(&config)].concat();
            faults.iter().map(|fault| format!("{}: {}", fault.key, fault.problem)).collect::<Vec<_>>()
        };
        assert_eq!(complaints(SECRET_FILE_BYTES_MAX), Vec::<String>::new());
        let reason = "is longer than 8192 bytes";
        let expected = [
            format!("routes[0].provider_key_file: {reason}"),
            format!("siem.sinks[0].secret_file: {reason}"),
        ];
        assert_eq!(complaints(SECRET_FILE_BYTES_MAX + 1), expected);
    }

    /// As `openssl x509 -req` makes them.
    const OF_VERSION_1: &str = concat!(
        "-----BEGIN CERTIFICATE-----\n",
        "MIIBKTCB0QIUeZvSu+IBa/a4TEHXT/qJVYdvYDQwCgYIKoZIzj0EAwIwFzEVMBMG\n",
        "A1UEAwwMZ2F0ZS5leGFtcGxlMCAXDTI2MTEyNzIyMDUyMloYDzIxMjYxMTAzMjIw\n",
        "NTIyWjAXMRUwEwYDVQQDDAxnYXRlLmV4YW1wbGUwWTATBgcqhkjOPQIBBggqhkjO\n",
        "PQMBBwNCAATSsa5BWvXcq8M+QyMSTK6jdg+bv8whVE6purPDQj5wsz2pOZ/gGSwt\n",
        "aGJwYuC95wh+FpXmKO1OPaNnV6lzFigCMAoGCCqGSM49BAMCA0cAMEQCIDTQvJfH\n",
        "5xV5S3CBKubmT8NHfmmHLnRBv64SEuSCRYqcAiArRxLy0yTYAd6k3MtsS9YacBsh\n",
        "+cK/XL+BsY+sCUywaA==\n",
        "-----END CERTIFICATE-----\n",
    );

    #[test]
    fn a_certificate_of_the_first_version_is_told_so() {
        let folder = tempfile::tempdir().unwrap();
        let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        fs::write(&cert, OF_VERSION_1).unwrap();
        fs::write(&key, rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap();
        assert_eq!(listener_problems(&TlsFiles { cert, key }), [("cert", VERSION_1)]);
    }
}
