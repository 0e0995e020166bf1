//! Where state lies: all of it in this node's directory, or most of it in a database that nodes share.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pingora::server::Server;

use super::VERSION;
use super::address::Listeners;
use super::jobs::Common;
use super::jobs::Jobs;
use super::state::AUDIT_FOLDER;
use super::state::State;
use super::state::StateError;
use super::state::secret_at;
use super::task::task;
use super::verifying::Verifying;
use crate::access::a2a::shared::Asking;
use crate::access::authenticator::Authenticator;
use crate::access::keyring::Keyring;
use crate::access::limit::Buckets;
use crate::access::secret::NodeSecret;
use crate::admin::resource::infra::facts_of;
use crate::clock::Clock;
use crate::cluster::Follower;
use crate::cluster::Members;
use crate::cluster::NoRedisUrl;
use crate::cluster::NodeFacts;
use crate::cluster::Reach;
use crate::cluster::RedisFacts;
use crate::cluster::RedisServer;
use crate::cluster::RedisUrl;
use crate::cluster::SharedBudgets;
use crate::cluster::SharedLimits;
use crate::cluster::SharedReplays;
use crate::cluster::SharedSessions;
use crate::cluster::Sharing;
use crate::cluster::ask_redis;
use crate::config::Config;
use crate::govern::audit::AuditLog;
use crate::govern::audit::ClusterCheckpoint;
use crate::govern::audit::kept_checkpoints;
use crate::govern::privacy::Keeper;
use crate::store::HighWater;
use crate::store::PostgresFacts;
use crate::store::PostgresFault;
use crate::store::Store;
use crate::store::archive::Archive;
use crate::store::ask_postgres;
use crate::store::config::PostgresConfig;
use crate::store::open_postgres;
use crate::store::open_sled_marked;
use crate::telemetry::Telemetry;
use crate::tls::client::TlsClient;

pub(super) const FOLDER: &str = "store";
/// How long a start waits for a database that cannot be reached, or is a standby: so long a failover may take.
const DATABASE_WAIT: Duration = Duration::from_secs(60);
/// How long it is left alone in between.
const DATABASE_RETRY: Duration = Duration::from_secs(1);
/// What of the disk is kept in memory where all but holds lies there itself.
const LASTING_CACHE_BYTES: u64 = 1 << 20;
/// Beside the journal, not in it: backups of the two live differently long.
pub(super) const KEYS_FILE: &str = "subjects.keys";

/// The two stores, which are one where nothing is shared.
pub(super) struct Stores {
    /// What every node of the deployment has to see.
    pub(super) shared: Store,
    /// What that is sealed with.
    pub(super) secret: NodeSecret,
    /// This node's name.
    pub(super) node_id: String,
    /// What is this node's own: the index of its journal, the places of its forwarders, what its callers have
    /// left of their quotas, what it thinks of agents.
    pub(super) local: Store,
    /// What must outlive the process wherever the audit log does: legal holds, and erasures under way.
    pub(super) held: Store,
    /// Where an operator said that the start goes on with what is left of a store: what was counted up to here may be lost.
    pub(super) lost: Option<u64>,
}

/// What nodes share in Redis.
pub(super) struct SharedMemory {
    /// Whether it can be.
    pub(super) reach: Arc<Reach>,
    limits: SharedLimits,
    replays: SharedReplays,
    budgets: SharedBudgets,
    sessions: SharedSessions,
}

/// Opens both.
///
/// # Errors
/// One of them cannot be used.
pub(super) fn open(config: &Config, clock: &dyn Clock) -> Result<Stores, StateError> {
    let own = NodeSecret::open(&config.store.path).map_err(StateError::Folder)?;
    let node_id = own.hash("node", &[]).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let folder = config.store.path.join(FOLDER);
    let high_water = high_water(config);
    let cache_bytes = if config.store.in_memory { LASTING_CACHE_BYTES } else { config.store.cache_bytes };
    let (kept, lost) = open_sled_marked(&folder, cache_bytes, &high_water)?;
    if lost.is_some() {
        let accepted_by = high_water.acceptance();
        tracing::error!(accepted_by = %accepted_by.display(), "the store goes on with what is left of it");
    }
    if config.store.in_memory {
        let only = Store::in_memory();
        let (shared, local) = (only.clone(), only);
        // What is kept in memory is counted from 1 on with each start.
        return Ok(Stores { shared, secret: own, node_id, local, held: kept, lost: None });
    }
    let local = kept;
    let Some(postgres) = &config.store.postgres else {
        let (shared, held) = (local.clone(), local.clone());
        return Ok(Stores { shared, secret: own, node_id, local, held, lost });
    };
    let url = secret_at(&postgres.url).ok_or_else(|| PostgresFault::NoUrl(postgres.url.clone()))?;
    let secret = NodeSecret::shared(&secret_at(&postgres.secret).unwrap_or_default())?;
    wait_for_database(&url, postgres, clock);
    let shared = open_postgres(&url, postgres)?;
    // What is lost here is not what nodes share.
    Ok(Stores { held: shared.clone(), shared, secret, node_id, local, lost: None })
}

/// Returns what tells of this machine's store whether all of it is there.
fn high_water(config: &Config) -> HighWater {
    let folder = &config.store.path;
    let high_water = HighWater::of(folder);
    // With a store in memory, or of several nodes, the one on disk may have had nothing in it.
    let may_be_bare = config.store.in_memory || config.store.postgres.is_some();
    let is_gone = !folder.join(FOLDER).join("db").exists();
    match has_journal(folder) && (is_gone || !may_be_bare) {
        true => high_water.with_history(),
        false => high_water,
    }
}

/// Lets an operator's word that what is left of a store will do count no more, once the start has made use of it.
///
/// # Errors
/// The file cannot be removed: the next start would go on whatever was lost.
pub(super) fn forget_acceptance(folder: &Path) -> Result<(), StateError> {
    HighWater::of(folder).forget_acceptance().map_err(StateError::Folder)
}

/// Returns the store that outlives the process on this machine: what backups hold.
pub(super) fn kept(config: &Config, state: &State) -> Store {
    if config.store.in_memory { state.privacy.store().clone() } else { state.local.clone() }
}

/// Waits until a database can be written to, or says that it never will, or time is up: whoever opens it then is told why.
fn wait_for_database(url: &str, config: &PostgresConfig, clock: &dyn Clock) {
    let until = clock.monotonic() + DATABASE_WAIT;
    let mut is_told = false;
    loop {
        let why = match ask_postgres(url, config) {
            Ok(facts) if facts.is_writable => return,
            Ok(_) => StateError::ReadOnly,
            Err(fault) if may_pass(&fault) => StateError::Database(fault),
            Err(_) => return,
        };
        if clock.monotonic() >= until {
            return;
        }
        if !is_told {
            tracing::warn!(error = %why, limit_s = DATABASE_WAIT.as_secs(), "waits for the database");
            is_told = true;
        }
        std::thread::sleep(DATABASE_RETRY);
    }
}

/// Tells whether a fault may be over by itself: neither of the configuration, nor of credentials or certificates.
fn may_pass(fault: &PostgresFault) -> bool {
    const FOR_GOOD: [io::ErrorKind; 2] = [io::ErrorKind::PermissionDenied, io::ErrorKind::InvalidData];
    matches!(fault, PostgresFault::Refused(why) if !FOR_GOOD.contains(&why.kind()))
}

/// Opens the keys that names are sealed under: in a file, or beside what they seal.
///
/// # Errors
/// They cannot be read.
pub(super) fn open_keyring(
    config: &Config,
    store: &Store,
    secret: &NodeSecret,
) -> Result<Keyring, StateError> {
    let folder = &config.store.path;
    let keyring = match config.store.postgres {
        Some(_) => Keyring::shared(store, secret.clone()),
        None if are_keys_lost(folder) => return Err(StateError::KeysLost(folder.join(KEYS_FILE))),
        None => Keyring::open(&folder.join(KEYS_FILE)),
    };
    keyring.map_err(|error| StateError::Audit(error.into()))
}

/// Tells whether there is a journal and no file of the keys of its names: whoever went on would forget for good what
/// only those keys open. An empty file is somebody's word that they are gone.
pub(super) fn are_keys_lost(folder: &Path) -> bool {
    has_journal(folder) && !folder.join(KEYS_FILE).exists()
}

fn has_journal(folder: &Path) -> bool {
    std::fs::read_dir(folder.join(AUDIT_FOLDER)).is_ok_and(|mut files| files.next().is_some())
}

/// Opens what all nodes shipped to the database of a configuration, and the checkpoints that are kept of it; `None`:
/// it has none. Blocks.
///
/// # Errors
/// The database cannot be used.
pub fn shipped(config: &Config) -> Result<Option<(Archive, Vec<ClusterCheckpoint>)>, StateError> {
    let Some(postgres) = &config.store.postgres else { return Ok(None) };
    let url = secret_at(&postgres.url).ok_or_else(|| PostgresFault::NoUrl(postgres.url.clone()))?;
    let store = open_postgres(&url, postgres)?;
    let kept = kept_checkpoints(&store)?;
    Ok(store.archive().map(|archive| (archive, kept)))
}

/// Asks the database of a configuration about itself, and changes nothing; `None`: it has none. Blocks.
pub fn ask_database(config: &Config) -> Option<Result<PostgresFacts, PostgresFault>> {
    let postgres = config.store.postgres.as_ref()?;
    let url = secret_at(&postgres.url).ok_or_else(|| PostgresFault::NoUrl(postgres.url.clone()));
    Some(url.and_then(|url| ask_postgres(&url, postgres)))
}

/// Asks the Redis of a configuration about itself, and whether it takes what is written; `None`: it has none.
pub async fn ask_shared_memory(config: &Config) -> Option<io::Result<RedisFacts>> {
    let redis = config.shared_limits.as_ref()?;
    let url = secret_at(&redis.url).unwrap_or_default().parse().map_err(io::Error::other);
    let tls = TlsClient::new(redis.ca_file.as_deref()).map_err(io::Error::other);
    Some(match (url, tls) {
        (Ok(url), Ok(tls)) => ask_redis(&url, &tls, redis.timeout).await,
        (Err(error), _) | (_, Err(error)) => Err(error),
    })
}

/// Takes the place of this node at a database, if there is one. Blocks.
///
/// # Errors
/// Another node has it.
pub(super) fn join(
    config: &Config,
    store: &Store,
    node_id: &str,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Arc<Members>>, StateError> {
    let Some(postgres) = &config.store.postgres else { return Ok(None) };
    let sharing = if postgres.together { Sharing::Together } else { Sharing::Alone };
    let members = Members::new(store, node_id.to_owned(), sharing, Arc::clone(clock));
    members.claim()?;
    Ok(Some(Arc::new(members)))
}

/// Lets a node's audit log be shipped to the database that nodes share, if they do.
pub(super) fn share(
    log: AuditLog,
    store: &Store,
    members: Option<&Arc<Members>>,
    telemetry: &Arc<Telemetry>,
) -> AuditLog {
    let Some(members) = members.cloned() else { return log };
    let (node_id, metrics) = (members.id().to_owned(), Arc::clone(&telemetry.metrics));
    log.shared(node_id, store, metrics, Box::new(move || members.has_twin()))
}

/// Lets the other nodes know of this one as long as it runs.
pub(super) fn add_tasks(
    server: &mut Server,
    telemetry: &Arc<Telemetry>,
    state: &State,
    addresses: &Listeners,
    shared: Option<SharedMemory>,
) {
    let Some(members) = state.members.clone() else { return };
    let address = addresses.bound().first().map(ToString::to_string);
    let shipped = state.log.shipping().cloned();
    if let Some(shipping) = shipped.clone() {
        let others = Arc::clone(&shipping);
        let look = move |shutdown| others.look_at_others(shutdown);
        server.add_service(task("audit-others", telemetry, None, look));
        server.add_service(task("audit-shipping", telemetry, None, move |shutdown| shipping.run(shutdown)));
    }
    if let Some(common) = state.common.clone() {
        let verifying = Verifying {
            leases: Arc::clone(&common.leases),
            store: state.store.clone(),
            clock: Arc::clone(&state.clock),
            metrics: Arc::clone(&telemetry.metrics),
            over_at: Mutex::default(),
        };
        let verify = move |shutdown| verifying.run(shutdown);
        server.add_service(task("audit-verification", telemetry, None, verify));
        let jobs = jobs_of(state, common, &members);
        server.add_service(task("cluster-jobs", telemetry, None, move |shutdown| jobs.run(shutdown)));
    }
    let (rules, health, own) = (state.reloader.handle(), Arc::clone(telemetry), Arc::clone(&members));
    let facts = move || NodeFacts {
        address: address.clone(),
        release: VERSION.to_owned(),
        revision: rules.load().revision,
        audit: shipped.as_ref().map(|shipping| facts_of(&shipping.status())),
        is_healthy: health.health.is_healthy() && own.keeps_up() && !own.has_twin(),
    };
    let follower = Arc::new(follower(state, &members));
    if let Some(SharedMemory { limits, replays, budgets, sessions, .. }) = shared {
        server.add_service(task("shared-limits", telemetry, None, move |shutdown| limits.run(shutdown)));
        server.add_service(task("shared-replays", telemetry, None, move |shutdown| replays.run(shutdown)));
        server.add_service(task("shared-budgets", telemetry, None, move |shutdown| budgets.run(shutdown)));
        server.add_service(task("shared-sessions", telemetry, None, move |shutdown| sessions.run(shutdown)));
    }
    server.add_service(task("cluster", telemetry, None, move |shutdown| members.run(facts, shutdown)));
    server.add_service(task("cluster-follow", telemetry, None, move |shutdown| follower.run(shutdown)));
}

fn jobs_of(state: &State, common: Common, members: &Arc<Members>) -> Jobs {
    Jobs {
        common,
        members: Arc::clone(members),
        log: state.log.clone(),
        keeper: Keeper { privacy: Arc::clone(&state.privacy), recorder: state.recorder.clone() },
        store: state.store.clone(),
        clock: Arc::clone(&state.clock),
        done: Mutex::default(),
    }
}

/// Returns what shares quotas, budgets, ends of sessions, and what agents have signed, with the other nodes, where they do.
///
/// # Errors
/// Redis cannot be asked as it is configured.
pub(super) fn shared_memory(
    config: &Config,
    state: &State,
    buckets: &Arc<Buckets>,
    telemetry: &Arc<Telemetry>,
) -> Result<Option<SharedMemory>, StateError> {
    let Some(redis) = &config.shared_limits else { return Ok(None) };
    let url: Result<RedisUrl, NoRedisUrl> = secret_at(&redis.url).unwrap_or_default().parse();
    let server = RedisServer {
        url: url?,
        tls: TlsClient::new(redis.ca_file.as_deref())?,
        timeout: redis.timeout,
        when_away: redis.when_away,
        clock: Arc::clone(&state.clock),
        metrics: Arc::clone(&telemetry.metrics),
        reach: Arc::default(),
    };
    let guardrails = &state.agents.guardrails;
    let kinds = vec![Arc::clone(buckets), Arc::clone(&guardrails.buckets)];
    let (asking, questions) = Asking::channel(redis.when_away.told(), server.patience());
    guardrails.share(asking);
    let (secret, node) = (state.secret.clone(), state.node_id.clone());
    Ok(Some(SharedMemory {
        reach: Arc::clone(&server.reach),
        limits: SharedLimits { kinds, server: server.clone() },
        replays: SharedReplays { questions, server: server.clone() },
        sessions: SharedSessions::new(&state.authenticator.sessions, server.clone()),
        budgets: SharedBudgets::new(&state.budgets, secret, node, server),
    }))
}

/// Lets everything that is kept in memory follow what other nodes write.
fn follower(state: &State, members: &Arc<Members>) -> Follower {
    let mut follower = Follower::new(state.store.clone(), Arc::clone(members));
    let keyring = Arc::clone(&state.keyring);
    follower.watch("keys of names", &["subject_keys"], move || keyring.follow());
    let reloader = Arc::clone(&state.reloader);
    follower.watch("rules", &["policy.revisions"], move || reloader.follow());
    let keys = Arc::clone(&state.keys);
    follower.watch("API keys", &["keys"], move || keys.follow());
    let Authenticator { tokens, users, sessions, .. } = state.authenticator.clone();
    follower.watch("users", &["users"], move || users.follow());
    follower.watch("sessions", &["sessions"], move || sessions.follow());
    follower.watch("revoked tokens", &["revoked_tokens"], move || tokens.follow());
    let signing = Arc::clone(&state.signing);
    follower.watch("signing keys", &["signing_keys"], move || signing.follow());
    let budgets = Arc::clone(&state.budgets);
    follower.watch("budgets", &["key_budgets", "key_spent"], move || budgets.follow());
    let abtests = Arc::clone(&state.abtests);
    follower.watch("A/B tests", &["abtests"], move || abtests.follow());
    let (privacy, trust) = (Arc::clone(&state.privacy), Arc::clone(&state.trust));
    follower.watch("holds", &["erased_lately", "erasures_under_way", "legal_holds"], move || {
        privacy.follow()?;
        let erased = privacy.erased();
        trust.forget_those(|agent, first_seen| privacy.is_among(&erased, agent, first_seen))
    });
    follower
}
