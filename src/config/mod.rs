//! The configuration file and the environment, read into the configuration of every module.
//!
//! In, each over the one before: the embedded `conf/gateway.toml` and `conf/policies`, the folder
//! `policies` beside the operator's file, that file, the environment. Out: a [`Config`] that is
//! valid, or *all* faults with file, line and key. There are no defaults but those in the embedded
//! file. Modules own their configuration's types and never look here.

pub mod env;
pub mod file;
mod otlp;
pub mod provision;
mod read;
pub mod siem;
mod sign_in;

use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;

use crate::access::config::AuthConfig;
use crate::access::license::LicenseConfig;
use crate::access::session::SessionConfig;
use crate::access::signing::SigningConfig;
use crate::access::sso::SsoConfig;
use crate::admin::config::AdminConfig;
use crate::cluster::config::RedisConfig;
use crate::config::env::Environment;
use crate::config::file::Tried;
use crate::document::Document;
use crate::document::Problem;
use crate::document::section;
use crate::govern::analytics::config::AnalyticsConfig;
use crate::govern::audit::config::AuditConfig;
use crate::govern::trust::TrustConfig;
use crate::otlp::config::OtlpConfig;
use crate::policy::build::Written;
use crate::policy::ruleset::RulesFile;
use crate::proxy::config::ProxyConfig;
use crate::store::config::StoreConfig;
use crate::telemetry::config::TelemetryConfig;

/// What is wrong with a configuration, and where.
pub type ConfigFault = crate::document::Fault;

/// Everything the process needs to know, valid by construction.
#[derive(Clone, Debug)]
pub struct Config {
    /// The data plane.
    pub proxy: ProxyConfig,
    /// The management plane.
    pub admin: AdminConfig,
    /// Where state lies.
    pub store: StoreConfig,
    /// Where quotas are shared with other nodes; `None`: each counts for itself.
    pub shared_limits: Option<RedisConfig>,
    /// Where packs lie that overlay the embedded ones.
    pub plugins: PluginsConfig,
    /// The audit log.
    pub audit: AuditConfig,
    /// What use costs.
    pub analytics: AnalyticsConfig,
    /// Where the licence lies, and the keys that may sign it.
    pub license: LicenseConfig,
    /// How trust in agents is kept.
    pub trust: TrustConfig,
    /// How long sessions live.
    pub session: SessionConfig,
    /// The identity provider, where there is one.
    pub sso: Option<SsoConfig>,
    /// How people log in, and what they get.
    pub auth: AuthConfig,
    /// When signing keys change.
    pub signing: SigningConfig,
    /// The collector that gets traces and metrics, where there is one.
    pub otlp: Option<OtlpConfig>,
    /// Logs and metrics.
    pub telemetry: TelemetryConfig,
    /// Routes, policies and limits.
    pub rules: RulesFile,
    /// The effective document all this was read from.
    pub document: Document,
}

/// Where packs lie that overlay the embedded ones; a change needs a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginsConfig {
    /// The folder; it need not exist.
    pub path: PathBuf,
    /// Where their compiled patterns are kept, if not below the state.
    pub compiled_path: Option<PathBuf>,
}

/// Where a configuration comes from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The operator's file; `None` for the embedded defaults.
    pub file: Option<PathBuf>,
    /// Where the sample provider listens, when all routes shall lead to it; it is no part of the document.
    pub sample_provider: Option<SocketAddr>,
    /// What the environment says.
    pub environment: Environment,
}

impl Sources {
    /// Reads and lays over each other all that these sources say, and tells what of the rules is the deployment's own.
    ///
    /// # Errors
    ///
    /// Every file that cannot be read, every syntax error and every variable that fits no key.
    pub fn written(&self) -> Result<Written, Vec<ConfigFault>> {
        let Tried { written, faults } = file::tried(self);
        written.filter(|_| faults.is_empty()).ok_or(faults)
    }

    /// Returns the configuration that these sources describe.
    ///
    /// # Errors
    ///
    /// All faults.
    pub fn load(&self) -> Result<Config, Vec<ConfigFault>> {
        self.read_and_try(|_| Vec::new())
    }

    /// Returns the configuration after trying all it names: certificates are read, and `build`
    /// compiles what only the caller can (packs, policies); nothing is bound or started.
    ///
    /// # Errors
    ///
    /// All faults.
    pub fn check(&self, build: impl FnOnce(&Config) -> Vec<ConfigFault>) -> Result<Config, Vec<ConfigFault>> {
        self.read_and_try(|config| {
            let mut faults = provision::faults(config);
            faults.extend(build(config));
            faults
        })
    }

    /// Reads all that can be read and lets `more` look for further faults: what cannot be read hides none of the rest.
    fn read_and_try(
        &self,
        more: impl FnOnce(&Config) -> Vec<ConfigFault>,
    ) -> Result<Config, Vec<ConfigFault>> {
        let Tried { written, mut faults } = file::tried(self);
        let read = written.map(|written| Config::read_and_try(written.document, more));
        match read {
            Some(read) if faults.is_empty() => read,
            read => {
                faults.extend(read.and_then(Result::err).into_iter().flatten());
                ConfigFault::sort(&mut faults);
                Err(faults)
            }
        }
    }

    /// Returns the folder of policies beside the operator's file.
    pub fn policies_folder(&self) -> Option<PathBuf> {
        let file = self.file.as_deref()?;
        Some(file.parent().unwrap_or(Path::new("")).join("policies"))
    }
}

impl Config {
    /// Reads a document.
    ///
    /// # Errors
    ///
    /// All faults: unknown keys, values that do not fit, names that lead nowhere.
    pub fn read(document: Document) -> Result<Self, Vec<ConfigFault>> {
        let (config, faults) = Self::tried(document);
        if faults.is_empty() { Ok(config) } else { Err(faults) }
    }

    /// Returns the folder of compiled patterns.
    pub fn compiled_path(&self) -> PathBuf {
        self.plugins.compiled_path.clone().unwrap_or_else(|| self.store.path.join("compiled"))
    }

    /// Reads a document and lets `more` look for further faults, whatever is wrong already.
    ///
    /// # Errors
    ///
    /// All faults, in the order of their places.
    pub fn read_and_try(
        document: Document,
        more: impl FnOnce(&Self) -> Vec<ConfigFault>,
    ) -> Result<Self, Vec<ConfigFault>> {
        let (config, mut faults) = Self::tried(document);
        let mut found = more(&config);
        let wrong = wrong_types(&faults);
        found.retain(|fault| !is_told_by(fault, &faults) && !is_below(fault, &wrong));
        faults.extend(found);
        ConfigFault::sort(&mut faults);
        if faults.is_empty() { Ok(config) } else { Err(faults) }
    }

    /// Reads a document as far as it goes, with stand-ins for what is faulty: more faults may be found by it.
    fn tried(document: Document) -> (Self, Vec<ConfigFault>) {
        let (config, mut faults) = section::tried(&document, |root| {
            let admin = read::admin(&mut root.section("admin"));
            let proxy = read::proxy(&mut root.section("proxy"));
            read::check_listeners(root, &proxy, &admin);
            let (together, shared_limits) = read::cluster(&mut root.section("cluster"));
            // The sinks in force are those of the revision: here only what is wrong with the files' is told.
            siem::read(&mut root.section("siem"));
            Self {
                sso: sign_in::sso(&mut root.section("sso"), admin.public_url.as_ref()),
                session: sign_in::session(&mut root.section("session")),
                proxy,
                admin,
                store: read::store(&mut root.section("store"), together),
                shared_limits,
                plugins: read::plugins(&mut root.section("plugins")),
                audit: read::audit(&mut root.section("audit")),
                analytics: read::analytics(&mut root.section("analytics")),
                license: read::license(&mut root.section("license")),
                auth: read::auth(&mut root.section("auth")),
                trust: read::trust(&mut root.section("trust")),
                signing: read::signing(&mut root.section("signing")),
                otlp: otlp::read(&mut root.section("otlp")),
                telemetry: read::telemetry(&mut root.section("telemetry")),
                rules: RulesFile::read(root),
                document: document.clone(),
            }
        });
        let wrong = wrong_types(&faults);
        faults.retain(|fault| !is_below(fault, &wrong));
        (config, faults)
    }
}

/// Tells whether a fault was told before, or lies in a table with one that was: it may be that of a stand-in.
fn is_told_by(fault: &ConfigFault, told: &[ConfigFault]) -> bool {
    let table = |key: &str| key.rsplit_once('.').map(|(table, _)| table.to_owned());
    let own = table(&fault.key);
    told.iter().any(|told| told.key == fault.key || own.is_some() && table(&told.key) == own)
}

/// Returns the keys whose values are of another type.
fn wrong_types(faults: &[ConfigFault]) -> Vec<String> {
    let wrong = faults.iter().filter(|fault| matches!(fault.problem, Problem::WrongType { .. }));
    wrong.map(|fault| fault.key.clone()).collect()
}

/// Tells whether a fault lies below one of some keys: what is no table has no keys, and misses none.
fn is_below(fault: &ConfigFault, keys: &[String]) -> bool {
    let below = |key: &String| fault.key.strip_prefix(key.as_str()).is_some_and(|rest| rest.starts_with('.'));
    keys.iter().any(below)
}

#[cfg(test)]
mod tests;
