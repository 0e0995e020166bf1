//! Everything that outlives the process, opened.

use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::agents::AgentFiles;
use super::agents::NamedFiles;
use super::beside;
use super::frameworks;
use super::jobs::Common;
use super::loading::loading;
use super::privacy;
use super::sign_in;
use super::stores;
use super::stores::KEYS_FILE;
use super::stores::Stores;
use super::sure;
use crate::access::authenticator::Authenticator;
use crate::access::budget::Budgets;
use crate::access::concurrency::Concurrency;
use crate::access::key::KeyError;
use crate::access::key::KeyStore;
use crate::access::keyring::Keyring;
use crate::access::license::Licensing;
use crate::access::secret::NodeSecret;
use crate::access::secret::TooShort;
use crate::access::secret_file;
use crate::access::session::SessionStore;
use crate::access::signing::KeyRing;
use crate::access::signing::RingError;
use crate::access::sso::saml::SamlFault;
use crate::access::token::Tokens;
use crate::access::user::Users;
use crate::admin::journal::changed_sections;
use crate::admin::journal::file_change;
use crate::clock::Clock;
use crate::clock::sure::SureClock;
use crate::cluster::ClaimError;
use crate::cluster::Members;
use crate::cluster::NoRedisUrl;
use crate::config::Config;
use crate::config::ConfigFault;
use crate::config::Sources;
use crate::config::env::named;
use crate::document::secret::SecretPlace;
use crate::govern::abtest::AbTests;
use crate::govern::analytics::Meter;
use crate::govern::analytics::Period;
use crate::govern::analytics::figures::Count;
use crate::govern::analytics::period::Day;
use crate::govern::analytics::period::Hour;
use crate::govern::analytics::price;
use crate::govern::audit;
use crate::govern::audit::AuditEvent;
use crate::govern::audit::AuditLog;
use crate::govern::audit::Durability;
use crate::govern::audit::Notary;
use crate::govern::audit::Opened;
use crate::govern::audit::Recorder;
use crate::govern::audit::Writer;
use crate::govern::audit::config::AuditConfig;
use crate::govern::audit::config::AuditDurability;
use crate::govern::compliance::desk::Desk;
use crate::govern::privacy::Keeper;
use crate::govern::privacy::Privacy;
use crate::govern::privacy::authors;
use crate::govern::privacy::pin_keys;
use crate::govern::siem::SinkError;
use crate::govern::trust::Trust;
use crate::id::UlidSource;
use crate::otlp::OtlpError;
use crate::policy::pin::Pins;
use crate::policy::reload::Beginning;
use crate::policy::reload::ChangeError;
use crate::policy::reload::Origin;
use crate::policy::reload::Reloader;
use crate::policy::reload::SYSTEM_AUTHOR;
use crate::policy::revision::Revisions;
use crate::proxy::provider_key::ProviderKeys;
use crate::store::PostgresFault;
use crate::store::Store;
use crate::store::StoreError;
use crate::telemetry::Telemetry;
use crate::tls::CertificateFault;

pub(super) const AUDIT_FOLDER: &str = "audit";
/// How long an exchange waits for the disk in `wait` before the log counts as failing.
const RECORD_WAIT_MAX: Duration = Duration::from_secs(5);
const SEGMENT_AGE_MAX: Duration = Duration::from_secs(86_400);
const DAY: Duration = Duration::from_secs(86_400);

/// What outlives the process, and what reads and writes it.
pub struct State {
    pub(super) store: Store,
    pub(super) local: Store,
    pub(super) members: Option<Arc<Members>>,
    pub(super) secret: NodeSecret,
    pub(super) licensing: Arc<Licensing>,
    pub(super) provider_keys: Arc<ProviderKeys>,
    pub(super) keys: Arc<KeyStore>,
    pub(super) authenticator: Authenticator,
    pub(super) concurrency: Arc<Concurrency>,
    pub(super) signing: Arc<KeyRing>,
    pub(super) abtests: Arc<AbTests>,
    pub(super) trust: Arc<Trust>,
    pub(super) notary: Notary,
    pub(super) common: Option<Common>,
    pub(super) pins: Arc<Pins>,
    pub(super) keyring: Arc<Keyring>,
    pub(super) recorder: Recorder,
    pub(super) writer: Writer,
    pub(super) log: AuditLog,
    pub(super) privacy: Arc<Privacy>,
    pub(super) meter: Arc<Meter>,
    pub(super) budgets: Arc<Budgets>,
    pub(super) compliance: Arc<Desk>,
    pub(super) reloader: Arc<Reloader>,
    pub(super) agents: Arc<AgentFiles>,
    pub(super) clock: Arc<dyn Clock>,
    /// By it what is old is dropped.
    pub(super) sure: Arc<SureClock>,
    pub(super) ids: Arc<UlidSource>,
    pub(super) node_id: String,
}

/// Why the state cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The directory cannot be made or read.
    #[error("the state directory cannot be used: {0}")]
    Folder(#[source] io::Error),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database cannot be used.
    #[error(transparent)]
    Database(#[from] PostgresFault),
    /// The database is a standby.
    #[error("the database takes nothing that is written: it is a standby")]
    ReadOnly,
    /// Redis cannot be asked.
    #[error(transparent)]
    Redis(#[from] NoRedisUrl),
    /// The secret that nodes share is none.
    #[error(transparent)]
    Secret(#[from] TooShort),
    /// Another node has the database for itself.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// The keys cannot be opened.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// The signing keys cannot be opened.
    #[error(transparent)]
    Signing(#[from] RingError),
    /// The names in the state directory were sealed under keys that are not there.
    #[error(
        "{} is missing, and with it every name in this state directory: restore it from a backup; or make an empty \
         file of that name to go on without, and forget them for good", .0.display()
    )]
    KeysLost(PathBuf),
    /// The audit log cannot be opened.
    #[error(transparent)]
    Audit(#[from] audit::OpenError),
    /// A certificate cannot be served.
    #[error(transparent)]
    Certificate(#[from] CertificateFault),
    /// The SAML provider's metadata, or our key there, cannot be used.
    #[error("[sso.saml] cannot be used: {0}")]
    Saml(#[source] SamlFault),
    /// A sink of the audit log cannot be made.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The collector of traces cannot be used.
    #[error(transparent)]
    Otlp(#[from] OtlpError),
    /// The rules do not build.
    #[error("the rules have {} faults", .0.len())]
    Rules(Vec<ConfigFault>),
    /// The first revision cannot be kept.
    #[error(transparent)]
    Change(ChangeError),
}

impl State {
    /// Opens, and makes at the first start, what is below the state directory.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn open(
        config: &Config,
        sources: &Sources,
        clock: Arc<dyn Clock>,
        telemetry: Arc<Telemetry>,
    ) -> Result<Self, StateError> {
        let folder = &config.store.path;
        beside::make_folder(folder)?;
        let Stores { shared: store, secret, node_id, local, held, lost } = stores::open(config, &*clock)?;
        let members = stores::join(config, &store, &node_id, &clock)?;
        let ids = Arc::new(UlidSource::default());
        let licensing = Arc::new(Licensing::open(config.license.clone()));
        tell_standing(&licensing, &*clock);
        let provider_keys = Arc::new(ProviderKeys::new(Box::new(secret_at)));
        let keyring = Arc::new(stores::open_keyring(config, &store, &secret)?.by(Arc::clone(&clock)));
        let keys = open_keys((&store, &secret, &keyring), folder, &ids, &*clock, lost)?;
        let signing = Arc::new(KeyRing::open(&store, secret.clone(), config.signing, clock.now())?);
        let abtests = Arc::new(AbTests::open(&store, &local)?);
        let own = (&local, Arc::clone(&keyring));
        let trust = Trust::open(own, Arc::clone(&signing), node_id.clone(), config.trust)?;
        let budgets = Arc::new(Budgets::open(&store)?);
        let Opened { recorder, writer, log, .. } =
            open_journal(config, (&keyring, &local), &clock, &telemetry)?;
        let sure = sure::open(&local, &log, &clock)?;
        let trust = Arc::new(trust.aged_by(sure.clone()));
        let pins = Arc::new(Pins::open(&local, pin_keys(&keyring))?.aged_by(sure.clone()));
        let log = stores::share(log.aged_by(sure.clone()), &store, members.as_ref(), &telemetry);
        let clocks = (&clock, &sure);
        let authenticator = open_authenticator(config, (&store, &secret, &keyring), &keys, &signing, clocks)?;
        let meter = open_meter(config, (&store, &keyring), &clock, &telemetry)?;
        let holders = (&authenticator, &budgets);
        let reloader = open_rules(config, sources, (&store, &keyring, lost), &clock, &recorder)?;
        let knowing = (&meter, &trust, &pins);
        let privacy = privacy::open((&held, &node_id), &keyring, &log, holders, knowing, &reloader, &clock)?;
        Keeper { privacy: Arc::clone(&privacy), recorder: recorder.clone() }.look();
        let compliance = open_desk(config, &log, &clock)?;
        let agents = AgentFiles::open(reloader.handle(), secret.clone(), &local, clocks, telemetry);
        let notary = open_notary(&log, &signing, &clock, &node_id, folder);
        Ok(Self {
            common: Common::open(&store, members.as_ref(), &signing, &clock, &node_id),
            store,
            local,
            members,
            secret,
            licensing,
            provider_keys,
            keys,
            notary,
            signing,
            abtests,
            trust,
            authenticator,
            concurrency: Arc::default(),
            pins,
            keyring,
            recorder,
            writer,
            log,
            privacy,
            meter,
            budgets,
            compliance,
            reloader,
            agents,
            clock,
            sure,
            ids,
            node_id,
        })
    }
}

fn open_journal(
    config: &Config,
    (keyring, local): (&Arc<Keyring>, &Store),
    clock: &Arc<dyn Clock>,
    telemetry: &Telemetry,
) -> Result<Opened, StateError> {
    let settings = journal_settings(&config.audit, &config.store.path);
    let (metrics, time) = (Arc::clone(&telemetry.metrics), Arc::clone(clock));
    let opened = audit::open_with(settings, Arc::clone(keyring), local.clone(), time, metrics)?;
    if let Some(repair) = &opened.repair {
        tracing::warn!(?repair, "the audit log had a torn end, which was mended");
    }
    Ok(opened)
}

fn open_desk(config: &Config, log: &AuditLog, clock: &Arc<dyn Clock>) -> Result<Arc<Desk>, StateError> {
    let frameworks = frameworks::load(&config.plugins.path).map_err(StateError::Rules)?;
    Ok(Arc::new(Desk::new(frameworks, log.clone(), Arc::clone(clock))))
}

fn open_notary(
    log: &AuditLog,
    signing: &Arc<KeyRing>,
    clock: &Arc<dyn Clock>,
    node_id: &str,
    folder: &Path,
) -> Notary {
    let (keys, time) = (Arc::clone(signing), Arc::clone(clock));
    Notary::new(log.clone(), keys, time, node_id.to_owned(), &folder.join(AUDIT_FOLDER))
}

fn open_authenticator(
    config: &Config,
    (store, secret, keyring): (&Store, &NodeSecret, &Arc<Keyring>),
    keys: &Arc<KeyStore>,
    signing: &Arc<KeyRing>,
    (clock, sure): (&Arc<dyn Clock>, &Arc<SureClock>),
) -> Result<Authenticator, StateError> {
    let clocks = || (clock, Arc::clone(sure) as Arc<dyn Clock>);
    let provider = config.sso.as_ref().map(|sso| sign_in::provider(sso, secret, store, clocks()));
    let sessions = SessionStore::open(store, secret.clone(), keyring.clone(), config.session)?;
    Ok(Authenticator {
        keys: Arc::clone(keys),
        tokens: Arc::new(Tokens::open(store, secret, Arc::clone(signing), config.auth.tokens)?),
        users: Arc::new(Users::open(store, secret.clone(), keyring.clone(), config.auth.password_cost)?),
        sessions: Arc::new(sessions.aged_by(sure.clone())),
        provider: provider.transpose()?,
    })
}

fn open_rules(
    config: &Config,
    sources: &Sources,
    (store, keyring, lost_up_to): (&Store, &Arc<Keyring>, Option<u64>),
    clock: &Arc<dyn Clock>,
    recorder: &Recorder,
) -> Result<Arc<Reloader>, StateError> {
    let named = Arc::new(NamedFiles::of(config));
    let loading = loading(config, sources, Arc::clone(&named));
    let revisions = Revisions::open(store, authors(keyring))?.behind(lost_up_to)?;
    let (reloader, beginning) =
        Reloader::start(loading, revisions, Arc::clone(clock)).map_err(|error| match error {
            ChangeError::Faulty(faults) => StateError::Rules(faults),
            other => StateError::Change(other),
        })?;
    let revision = reloader.handle().load().revision;
    tell_origin(&beginning.origin, revision);
    if let Some(event) = changed_at_start(&beginning, revision)
        && let Err(error) = recorder.record_soon(event)
    {
        tracing::error!(%error, revision, "a change of files could not be recorded in the audit log");
    }
    named.follow(&reloader);
    stores::forget_acceptance(&config.store.path)?;
    Ok(Arc::new(reloader))
}

/// Returns what is recorded of rules that are others than before the start.
fn changed_at_start(beginning: &Beginning, revision: u64) -> Option<AuditEvent> {
    let changed = changed_sections(&beginning.changed, false);
    let brought_by = match &beginning.origin {
        Origin::FilesChanged | Origin::StoredRevisionFaulty(_) => "came from a file",
        Origin::DefaultsChanged => "came from the files and the defaults of this release",
        Origin::RevisionsLost => "came from the files, since all revisions were lost",
        Origin::FirstStart
        | Origin::StoredRevision
        | Origin::StoredRevisionUnsure
        | Origin::EarlierRevision(_) => return None,
    };
    Some(file_change(SYSTEM_AUTHOR, revision, &format!("{brought_by}{changed}")))
}

/// Returns the secret that lies at a place.
pub(super) fn secret_at(place: &SecretPlace) -> Option<String> {
    match place {
        SecretPlace::Environment(name) => named(name),
        SecretPlace::File(path) => secret_file::read(path).ok(),
    }
}

/// Logs how the deployment stands; a licence that does not count is no reason not to serve.
pub(super) fn tell_standing(licensing: &Licensing, clock: &dyn Clock) {
    let standing = licensing.standing(clock.now());
    if let Some(fault) = standing.unread.filter(|_| standing.fault.is_none()) {
        tracing::error!(%fault, "a file of the licence is not whole: what counted before counts on");
    }
    match (&standing.fault, &standing.subject) {
        (Some(fault), _) => tracing::error!(%fault, "the licence does not count: the tier is community"),
        (None, Some(subject)) => tracing::info!(subject, tier = standing.tier.as_str(), "licensed"),
        (None, None) => {}
    }
}

fn open_keys(
    (store, secret, keyring): (&Store, &NodeSecret, &Arc<Keyring>),
    folder: &Path,
    ids: &UlidSource,
    clock: &dyn Clock,
    lost_up_to: Option<u64>,
) -> Result<Arc<KeyStore>, StateError> {
    let keys = KeyStore::open(store, secret.clone(), Arc::clone(keyring))?;
    let id = ids.next(clock.now().as_millisecond()).to_string();
    match (keys.ensure_admin(folder, id, clock.now())?, lost_up_to) {
        (Some(path), None) => tracing::info!(path = %path.display(), "the first admin key was written"),
        (Some(path), Some(_)) => {
            tracing::error!(path = %path.display(), "the admin keys were lost, and another was written");
        }
        (None, _) => {}
    }
    Ok(Arc::new(keys))
}

/// Opens the meter, and lets the figures of today go on where the process before has left them. Where nodes share a store,
/// what it has is of all of them, and each begins with its own.
fn open_meter(
    config: &Config,
    (store, keyring): (&Store, &Arc<Keyring>),
    clock: &Arc<dyn Clock>,
    telemetry: &Telemetry,
) -> Result<Arc<Meter>, StateError> {
    let prices = price::load(config.analytics.prices.as_deref()).map_err(StateError::Rules)?;
    let meter = Meter::new(store, Arc::clone(keyring), Arc::clone(clock), prices);
    if !store.is_shared() {
        let now = meter.now();
        let today = Hour::of(now).day();
        let period = Period { from: today.first_hour(), to: Day(today.0 + 1).first_hour() };
        let figures = meter.by_day(period)?.remove(&today).unwrap_or_default().total;
        let (requests, blocked) = (figures[Count::Requests], figures[Count::Blocked]);
        telemetry.today.resume(now, requests, blocked, figures[Count::LatencyUs]);
    }
    Ok(Arc::new(meter))
}

fn journal_settings(config: &AuditConfig, folder: &Path) -> audit::AuditConfig {
    audit::AuditConfig {
        directory: folder.join(AUDIT_FOLDER),
        keys: folder.join(KEYS_FILE),
        durability: match config.durability {
            AuditDurability::Wait => Durability::Wait,
            AuditDurability::Buffer => Durability::Buffer,
        },
        queue_events_max: config.queue,
        wait_max: RECORD_WAIT_MAX,
        segment_bytes_max: config.segment_bytes,
        segment_age_max: SEGMENT_AGE_MAX,
        reserve_bytes: config.reserve_bytes,
        low_water_bytes: config.low_water_bytes,
        retention_age: (config.retention_days > 0).then(|| DAY * config.retention_days),
        retention_bytes: Some(config.retention_bytes),
    }
}

fn tell_origin(origin: &Origin, revision: u64) {
    match origin {
        Origin::FirstStart => tracing::info!(revision, "the rules are those of the files: the first start"),
        Origin::RevisionsLost => {
            tracing::error!(revision, "the rules are those of the files: all revisions were lost")
        }
        Origin::FilesChanged => tracing::info!(revision, "the rules are those of the files, which changed"),
        Origin::DefaultsChanged => tracing::info!(
            revision,
            "the rules are those of the files and of this release's defaults, which are others than before"
        ),
        Origin::StoredRevision => {
            tracing::info!(revision, "the rules are those of the newest stored revision")
        }
        Origin::StoredRevisionUnsure => tracing::warn!(
            revision,
            "the rules are those of the newest stored revision: an earlier release kept it, which did not note what the \
             files said; if they changed since, change them once more"
        ),
        Origin::EarlierRevision(faults) => tracing::warn!(
            revision,
            faults = faults.len(),
            "the newest stored revision does not build on this node, which begins with an earlier one"
        ),
        Origin::StoredRevisionFaulty(faults) => tracing::warn!(
            revision,
            faults = faults.len(),
            "the newest stored revision does not build any more, the rules are those of the files"
        ),
    }
}
