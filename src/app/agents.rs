//! The files that say who agents are and what they may do, read at the start and whenever they change.
//!
//! Neither a broken map nor a broken authority stops anything else: what was in force stays, the faults are
//! logged with their lines, and the dependency `a2a` is down until they are mended. So it is while a list of revoked
//! certificates is out of date, by which agents are refused. A configuration that names another authority or another
//! list is refused as long as these cannot be used.

use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

use parking_lot::Mutex;
use pingora::server::Server;

use super::limits::quotas;
use super::state::secret_at;
use super::task::task;
use crate::access::a2a::Guardrails;
use crate::access::a2a::directory::Agents;
use crate::access::a2a::directory::ReadSecret;
use crate::access::a2a::replay::Replays;
use crate::access::limit::Buckets;
use crate::access::limit::Kind;
use crate::access::secret::NodeSecret;
use crate::access::tier::Quota;
use crate::access::tier::Tier;
use crate::clock::Clock;
use crate::clock::sure::SureClock;
use crate::config::Config;
use crate::config::ConfigFault;
use crate::config::file;
use crate::config::provision::of_file;
use crate::document::Fault;
use crate::document::Place;
use crate::document::Problem;
use crate::govern::audit::AuditEvent;
use crate::govern::audit::Recorder;
use crate::policy::a2a::A2aSettings;
use crate::policy::handle::RulesetHandle;
use crate::policy::reload::Announcement;
use crate::policy::reload::Reloader;
use crate::policy::reload::SYSTEM_AUTHOR;
use crate::policy::revision::RevisionSource;
use crate::policy::route::Route;
use crate::store::Store;
use crate::telemetry::Telemetry;
use crate::telemetry::health::Dependency;
use crate::tls::CertificateFault;
use crate::tls::peer::Authorities;

/// How often it is written down at the most how late agents have signed.
const NOTED_EVERY: Duration = Duration::from_secs(1);

/// How often it is looked whether lists of revoked certificates are in date.
const LISTS_LOOKED_AT_EVERY: Duration = Duration::from_secs(1);

/// What keeps the guardrails as the files say.
pub struct AgentFiles {
    rules: RulesetHandle,
    pub(super) guardrails: Arc<Guardrails>,
    pub(super) authorities: Arc<Authorities>,
    telemetry: Arc<Telemetry>,
    clock: Arc<dyn Clock>,
    troubles: Mutex<Troubles>,
    /// Where changes of the capability map are recorded; what a start reads is none.
    recorder: OnceLock<Recorder>,
}

/// What keeps agents from being judged by what the files say.
#[derive(Default)]
struct Troubles {
    /// What was wrong with the files when they were read last.
    fault: Option<String>,
    /// What was wrong with the capability map when it was read last.
    of_map: Vec<Fault>,
    /// Which lists of revoked certificates are out of date.
    outdated: Option<String>,
}

impl AgentFiles {
    /// Returns the guardrails as the files say now, with what the process before has left of agents' quotas and knew
    /// of their signatures.
    pub fn open(
        rules: RulesetHandle,
        secret: NodeSecret,
        store: &Store,
        (clock, sure): (&Arc<dyn Clock>, &Arc<SureClock>),
        telemetry: Arc<Telemetry>,
    ) -> Arc<Self> {
        let now = clock.now();
        let quotas = agent_quotas(&rules.load().a2a);
        let buckets = Buckets::open(Kind::Agents, quotas, secret, store, now);
        let replays = Replays::open(store, now).aged_by(sure.clone());
        let guardrails = Guardrails::new(Arc::new(buckets), replays, Box::new(secret_at));
        let (guardrails, authorities) = (Arc::new(guardrails), Arc::new(Authorities::default()));
        let (clock, troubles) = (Arc::clone(clock), Mutex::default());
        let recorder = OnceLock::new();
        let files = Arc::new(Self { rules, guardrails, authorities, telemetry, clock, troubles, recorder });
        files.refresh();
        files
    }

    /// Records from now on what a changed capability map brings.
    pub fn record_changes(&self, recorder: Recorder) {
        // There is one log; a second one would be told nothing.
        let _ = self.recorder.set(recorder);
    }

    /// Reads everything anew.
    pub fn refresh(&self) {
        let rules = self.rules.load();
        self.guardrails.buckets.set_quotas(agent_quotas(&rules.a2a));
        let mut faults = self.trust(&rules.a2a);
        faults.extend(self.know_anew(&rules.a2a));
        for fault in &faults {
            tracing::error!(%fault, "the agents' files are faulty, what was in force stays");
        }
        self.guardrails.vouching.note(self.authorities.is_set(), self.authorities.has_lists());
        self.troubles.lock().fault = faults.first().map(Fault::to_string);
        self.look();
    }

    /// Looks whether the lists of revoked certificates are in date, and tells what keeps agents out.
    fn look(&self) {
        let rules = self.rules.load();
        let outdated = self.outdated(&rules.a2a);
        let mut troubles = self.troubles.lock();
        if troubles.outdated != outdated {
            match &outdated {
                Some(reason) => tracing::error!(%reason, "agents are refused"),
                None => tracing::info!("the lists of revoked certificates are in date again"),
            }
            troubles.outdated = outdated;
        }
        let is_needed = rules.routes.iter().any(Route::is_for_agents);
        match troubles.fault.as_ref().or(troubles.outdated.as_ref()).filter(|_| is_needed) {
            Some(reason) => self.telemetry.health.down(Dependency::A2a, reason.as_str()),
            None => self.telemetry.health.up(Dependency::A2a),
        }
    }

    fn outdated(&self, settings: &A2aSettings) -> Option<String> {
        let until = self.authorities.lists_until().filter(|until| *until <= self.clock.now())?;
        let path = settings.client_crl.as_deref()?.display();
        Some(format!("a list of revoked certificates in {path} is out of date since {until}"))
    }

    /// Returns the files that are read.
    pub fn paths(&self) -> Vec<PathBuf> {
        let rules = self.rules.load();
        let a2a = &rules.a2a;
        let named = [&a2a.client_ca, &a2a.client_crl, &a2a.capabilities].into_iter().flatten().cloned();
        named.chain(self.guardrails.directory.files()).collect()
    }

    fn trust(&self, settings: &A2aSettings) -> Vec<Fault> {
        let Some(path) = &settings.client_ca else {
            self.authorities.clear();
            return Vec::new();
        };
        let loaded = self.authorities.load(path, settings.client_crl.as_deref());
        loaded.err().map(|error| untrusted(settings, &error)).into_iter().collect()
    }

    /// Reads the capability map anew, and records whether that changed anything, or was refused otherwise than before.
    fn know_anew(&self, settings: &A2aSettings) -> Vec<Fault> {
        let mut troubles = self.troubles.lock();
        let before = self.guardrails.directory.load();
        let faults = self.know(settings);
        let after = self.guardrails.directory.load();
        let event = match faults.len() {
            0 => (before != after).then(|| changed(after.as_deref())),
            count => (faults != troubles.of_map).then(|| refused(count)),
        };
        troubles.of_map.clone_from(&faults);
        if let (Some(recorder), Some(event)) = (self.recorder.get(), event)
            && let Err(error) = recorder.record_soon(event)
        {
            tracing::error!(%error, "a change of the capability map could not be recorded in the audit log");
        }
        faults
    }

    fn know(&self, settings: &A2aSettings) -> Vec<Fault> {
        let directory = &self.guardrails.directory;
        let Some(path) = &settings.capabilities else {
            directory.clear();
            return Vec::new();
        };
        let replaced =
            file::read(path).and_then(|text| directory.replace(&text, &path.display().to_string()));
        replaced.err().unwrap_or_default()
    }
}

/// Returns what is recorded of a map that is in force now, or of there being none any more.
fn changed(agents: Option<&Agents>) -> AuditEvent {
    let message = match agents.map(|agents| &agents.map) {
        Some(map) => {
            format!(
                "the capability map knows {} agents and {} capabilities",
                map.agents.len(),
                map.capabilities.len()
            )
        }
        None => "there is no capability map any more".to_owned(),
    };
    AuditEvent {
        event_type: "capabilities_changed".to_owned(),
        action: "allow".to_owned(),
        actor: Some(SYSTEM_AUTHOR.to_owned()),
        message,
        ..AuditEvent::default()
    }
}

/// Returns what is recorded of a map that does not count.
fn refused(faults: usize) -> AuditEvent {
    AuditEvent {
        event_type: "capabilities_refused".to_owned(),
        action: "block".to_owned(),
        message: format!("a changed capability map has {faults} faults; nothing changed"),
        ..AuditEvent::default()
    }
}

/// Lets it be written down how late agents have signed, and what when the process ends; and follows whether lists of
/// revoked certificates are in date.
pub(super) fn add_tasks(
    server: &mut Server,
    telemetry: &Arc<Telemetry>,
    agents: &Arc<AgentFiles>,
    (store, clock): (&Store, &Arc<dyn Clock>),
) {
    add_look(server, telemetry, agents);
    let (guardrails, store, clock) = (Arc::clone(&agents.guardrails), store.clone(), Arc::clone(clock));
    server.add_service(task("agent-signatures", telemetry, None, move |shutdown| async move {
        note(&guardrails, &store, shutdown).await;
        let save = move || guardrails.replays.save(&store, clock.now());
        if !matches!(tokio::task::spawn_blocking(save).await, Ok(Ok(()))) {
            tracing::warn!("what agents signed could not be written down: older requests will be refused");
        }
    }));
}

/// Writes down how late agents have signed, whenever that changes, until `shutdown` resolves.
async fn note(guardrails: &Arc<Guardrails>, store: &Store, shutdown: impl Future<Output = ()>) {
    let mut shutdown = pin!(shutdown);
    let mut tick = tokio::time::interval(NOTED_EVERY);
    loop {
        let newer = async {
            guardrails.replays.is_newer().await;
            tick.tick().await;
        };
        tokio::select! {
            biased;
            () = &mut shutdown => return,
            () = newer => {}
        }
        let (noting, store) = (Arc::clone(guardrails), store.clone());
        if !matches!(tokio::task::spawn_blocking(move || noting.replays.note(&store)).await, Ok(Ok(()))) {
            tracing::warn!("how late agents signed could not be written down: after a crash it is not known");
        }
    }
}

fn add_look(server: &mut Server, telemetry: &Arc<Telemetry>, agents: &Arc<AgentFiles>) {
    let agents = Arc::clone(agents);
    server.add_service(task("agent-lists", telemetry, None, move |shutdown| async move {
        let mut shutdown = pin!(shutdown);
        let mut tick = tokio::time::interval(LISTS_LOOKED_AT_EVERY);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                _ = tick.tick() => agents.look(),
            }
        }
    }));
}

/// The files by which certificates of agents are judged, as the configuration that was taken last names them.
pub(super) struct NamedFiles(Mutex<[Option<PathBuf>; 2]>);

impl NamedFiles {
    /// Returns the files that a configuration names at the start, usable or not: nobody is let in until they are.
    pub(super) fn of(config: &Config) -> Self {
        Self(Mutex::new(named(&config.rules.a2a)))
    }

    /// Returns what is wrong with files that a configuration names instead. Of those that it named before, the last good
    /// ones stay in force, whatever becomes of them.
    pub(super) fn faults(&self, config: &Config) -> Vec<ConfigFault> {
        if *self.0.lock() == named(&config.rules.a2a) {
            return Vec::new();
        }
        untrusted_files(config).into_iter().collect()
    }

    /// Follows which configuration is taken: one that is refused, for whatever reason, names nothing.
    pub(super) fn follow(self: Arc<Self>, reloader: &Reloader) {
        let rules = reloader.handle();
        reloader.subscribe(move |announcement| {
            if matches!(announcement, Announcement::Published(change) if change.source == RevisionSource::File) {
                *self.0.lock() = named(&rules.load().a2a);
            }
        });
    }
}

fn named(settings: &A2aSettings) -> [Option<PathBuf>; 2] {
    [settings.client_ca.clone(), settings.client_crl.clone()]
}

/// Returns what is wrong with the agents' files of a configuration.
pub fn faults(config: &Config) -> Vec<ConfigFault> {
    let settings = &config.rules.a2a;
    let read: ReadSecret = Box::new(secret_at);
    let mut faults: Vec<ConfigFault> = untrusted_files(config).into_iter().collect();
    if let Some(path) = &settings.capabilities {
        let source = path.display().to_string();
        let agents = file::read(path).and_then(|text| Agents::read(&text, &source, &read));
        faults.extend(of_file(config, "a2a.capabilities", agents.err().unwrap_or_default()));
    }
    faults
}

/// Returns what is wrong with the files by which certificates of agents are judged.
fn untrusted_files(config: &Config) -> Option<ConfigFault> {
    let settings = &config.rules.a2a;
    let path = settings.client_ca.as_deref()?;
    let error = Authorities::check(path, settings.client_crl.as_deref()).err()?;
    let fault = untrusted(settings, &error);
    Some(Fault { place: config.document.places().of(&fault.key).cloned(), ..fault })
}

/// Returns the fault of the file that cannot be used: the authorities' or that of what they have revoked.
fn untrusted(settings: &A2aSettings, error: &CertificateFault) -> Fault {
    let is_list = settings.client_crl.as_deref() == Some(error.path());
    unusable(if is_list { "a2a.client_crl" } else { "a2a.client_ca" }, error.to_string())
}

/// Returns the quota of one agent of each tier.
fn agent_quotas(settings: &A2aSettings) -> [Option<Quota>; 4] {
    quotas(&settings.tiers, Tier::agent_quota)
}

fn unusable(key: &str, reason: String) -> Fault {
    let place = None::<Place>;
    Fault { place, key: key.to_owned(), problem: Problem::Invalid { reason, suggestion: None } }
}
