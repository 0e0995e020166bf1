//! The composition root: builds every part, wires them, and runs them as Pingora services.
//!
//! Nothing here decides anything; what happens to an exchange is in [`crate::proxy`], to a call in
//! [`crate::admin`]. Background work exposes `run(shutdown)` and becomes a service here, so that
//! nothing runs that nobody supervises: work that ends before the process does is a dependency down.

mod address;
mod agents;
mod beside;
mod certificates;
mod checking;
pub mod compiled;
pub mod control;
mod ending;
mod error;
mod files;
mod forwarding;
mod frameworks;
mod inherit;
mod jobs;
mod keeping;
mod licensed;
mod limits;
mod listening;
mod loading;
mod manager;
mod memory;
mod plane;
mod privacy;
mod ready;
mod serving;
mod sign_in;
mod standing_by;
mod state;
mod stores;
pub mod streamed;
mod successor;
mod sure;
mod task;
mod traces;
mod usage;
mod verifying;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use pingora::server::Server;
use tokio::sync::Semaphore;

use self::address::Listeners;
use self::certificates::reload_certificates;
use self::certificates::tell_expiry;
pub use self::checking::check;
use self::checking::checked;
use self::checking::told_whole;
use self::control::Control;
use self::keeping::Clocks;
use self::keeping::Kept;
use self::listening::adapter_limits;
use self::listening::certificates;
use self::listening::server_conf;
use self::manager::Manager;
use self::serving::Planes;
use self::serving::serve;
use self::serving::sockets;
use self::standing_by::Alone;
use self::standing_by::Waited;
use self::state::State;
pub use self::stores::ask_database;
pub use self::stores::ask_shared_memory;
pub use self::stores::shipped;
use self::successor::Handed;
use self::task::task;
use crate::access::identity::CallerHash;
use crate::access::license::Licensing;
use crate::access::limit::Buckets;
use crate::access::refusals::Refusals;
use crate::access::tier::Tier;
use crate::admin;
use crate::admin::Build;
use crate::admin::Facts;
use crate::admin::Office;
use crate::admin::adapter::AdapterLimits;
use crate::admin::sign_in::SignIn;
use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::cluster::Reach;
use crate::config::Config;
use crate::config::Sources;
use crate::govern::audit::config::AuditFailure;
use crate::govern::privacy::Keeper;
use crate::govern::siem::Standings;
use crate::id::UlidSource;
use crate::policy::parted::PartedFiles;
use crate::policy::reload::Reloader;
use crate::policy::watch::FileWatch;
use crate::policy::watch::reload;
use crate::proxy::Gateway;
use crate::proxy::gate::ByteBudget;
use crate::proxy::local::OwnPaths;
use crate::proxy::read_back::ReadBack;
use crate::proxy::upstream::Upstreams;
use crate::redact::mask::Masker;
use crate::redact::mask::TenantKey;
use crate::sample;
use crate::telemetry::Telemetry;
use crate::telemetry::logging;
use crate::tls::CertificateStore;

pub use self::error::StartError;
pub use self::files::files_allowed;
pub use self::files::files_wanted;
pub use self::memory::gives_memory_back;
pub use self::state::StateError;
pub use self::successor::Invocation;

/// The release.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit it was built from.
pub const COMMIT: &str = env!("PORTCULLIS_COMMIT");
/// When that commit was made, in ISO 8601.
pub const BUILD_DATE: &str = env!("PORTCULLIS_BUILD_DATE");

/// The tenant whose values are masked; there is one for each deployment.
const TENANT: &str = "default";
const MASKS: &str = "masks";

/// The certificates that are served, by the name of their listener.
type Served = Vec<(&'static str, Arc<CertificateStore>)>;

/// What the process is asked to run.
#[derive(Debug, Default)]
pub struct Wanted {
    /// Where the configuration comes from.
    pub sources: Sources,
    /// Whether the built-in sample provider answers all routes.
    pub with_sample_provider: bool,
    /// Where to write the bound addresses, as JSON, once both planes answer.
    pub ready_file: Option<PathBuf>,
    /// Whether the process at the other end of standard input hands its place over.
    pub take_over: bool,
    /// Whether this process has handed its place over, and left what it needs for itself at standard input.
    pub stand_by: bool,
    /// How this process was started, so that it can hand its place over; `None` where it never does.
    pub invocation: Option<Invocation>,
}

/// Runs the gateway until the process is asked to end.
///
/// # Errors
/// It could not be started; see [`StartError`].
pub fn run(wanted: Wanted) -> Result<(), StartError> {
    run_by(wanted, Arc::new(SystemClock))
}

/// Does the same by another clock.
///
/// # Errors
/// As [`run`].
pub fn run_by(wanted: Wanted, clock: Arc<dyn Clock>) -> Result<(), StartError> {
    ending::outlive_requests().map_err(StartError::Signals)?;
    let waited = standing_by::wait(&wanted).map_err(StartError::TakeOver)?;
    let Waited::ToServe(alone) = waited else { return Ok(()) };
    // All that was opened is let go of before another process is told.
    if let Some(handed) = serve_until_over(wanted, alone, clock)? {
        handed.stand_by();
    }
    Ok(())
}

fn serve_until_over(
    mut wanted: Wanted,
    alone: Option<Alone>,
    clock: Arc<dyn Clock>,
) -> Result<Option<Handed>, StartError> {
    let sample =
        wanted.with_sample_provider.then(|| address::listen(([127, 0, 0, 1], 0).into())).transpose()?;
    wanted.sources.sample_provider = sample.as_ref().and_then(|listener| listener.local_addr().ok());
    let config = checked(&wanted).map_err(StartError::Config)?;
    let log = logging::start(config.telemetry.log_format, config.telemetry.log_level.as_str());
    files::allow_files(&config)?;
    let manager = Arc::new(Manager::of_environment());
    let taken = sockets(&wanted, &config, alone)?;
    let telemetry = Arc::new(Telemetry::new(VERSION, COMMIT));
    let state = State::open(&config, &wanted.sources, Arc::clone(&clock), Arc::clone(&telemetry))
        .map_err(|error| told_whole(error, &wanted.sources))?;

    let buckets = limits::buckets(&state, &*clock);
    let upstreams = Arc::new(Upstreams::new(Arc::clone(&clock), config.proxy.upstream_idle_connections));
    follow_reloads(&state.reloader, &telemetry, &clock);
    follow_routes(&state, &upstreams);
    let certificates = certificates(&config)?;
    tell_expiry(&certificates, &telemetry);
    let sign_in = sign_in::sign_in(&config);
    let shared = stores::shared_memory(&config, &state, &buckets, &telemetry)?;
    let sinks = forwarding::open(&config, &state, &telemetry).map_err(StateError::from)?;
    let office = office(
        &config,
        &state,
        &buckets,
        &telemetry,
        &clock,
        &taken.admin,
        (sign_in, sinks.standings(), certificates.clone(), shared.as_ref().map(|it| Arc::clone(&it.reach))),
    );
    let router = admin::router(Arc::clone(&office));
    let room = limits::room(&state.reloader, &telemetry.metrics);
    let limits = adapter_limits(&config, state.reloader.handle(), &room);
    let own = own_paths(&config, admin::router_on_proxy(office), limits.clone());
    let (otlp, exporting) = traces::open(&config, &state, &telemetry).map_err(StateError::from)?.unzip();
    let gateway =
        Gateway { otlp, ..gateway(&config, &state, upstreams, &buckets, &telemetry, &clock, (own, room)) };

    let mut server = Server::new_with_opt_and_conf(None, server_conf(&config));
    server.bootstrap();
    let planes = Planes {
        config: &config,
        proxy: &taken.proxy,
        admin: &taken.admin,
        certificates: &certificates,
        authorities: &state.agents.authorities,
        telemetry: &telemetry,
        limits: &limits,
    };
    let pulses = planes.add(&mut server, gateway, router)?;

    forwarding::add(&mut server, sinks, &telemetry);
    traces::add(&mut server, exporting, &telemetry);
    let control = Control { folder: config.store.path.clone(), store: stores::kept(&config, &state), clock };
    server.add_service(task("control", &telemetry, None, |shutdown| control.run(shutdown)));
    stores::add_tasks(&mut server, &telemetry, &state, &taken.admin, shared);
    add_tasks(&mut server, state, &buckets, &wanted, &config, (certificates, &manager), &telemetry);
    server.add_service(task("log-switch", &telemetry, None, |shutdown| task::on_log_switch(shutdown, log)));
    if let Some(listener) = sample {
        let serve = move |shutdown| sample::serve_std(listener, shutdown);
        server.add_service(task("sample", &telemetry, None, serve));
    }
    tracing::info!(version = VERSION, proxy = %taken.proxy, admin = %taken.admin, "portcullis starts");
    Ok(serve(server, wanted, &config, taken, pulses, manager, &telemetry))
}

/// Lets what depends on the routes follow them.
fn follow_routes(state: &State, upstreams: &Arc<Upstreams>) {
    let followed = Arc::clone(upstreams);
    state.reloader.subscribe(move |_| followed.forget());
    let (provider_keys, rules) = (Arc::clone(&state.provider_keys), state.reloader.handle());
    provider_keys.refresh(&rules.load().routes);
    let prepared = Arc::clone(&provider_keys);
    state.reloader.prepare(move |rules| prepared.prepare(&rules.routes));
    state.reloader.subscribe(move |_| provider_keys.refresh(&rules.load().routes));
    state.agents.record_changes(state.recorder.clone());
    let agent_files = Arc::clone(&state.agents);
    state.reloader.subscribe(move |_| agent_files.refresh());
    admin::journal::record_file_changes(&state.reloader, state.recorder.clone());
}

/// Runs only the sample provider, until the process is interrupted; `listening` is told where.
///
/// # Errors
/// The address is taken, or there is no runtime to be had.
pub fn demo(address: SocketAddr, listening: impl FnOnce(SocketAddr)) -> std::io::Result<()> {
    let listener = std::net::TcpListener::bind(address)?;
    listening(listener.local_addr()?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let interrupted = async {
        // Where signals cannot be heard, the process ends by being killed.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    runtime.block_on(sample::serve_std(listener, interrupted));
    Ok(())
}

fn add_tasks(
    server: &mut Server,
    state: State,
    buckets: &Arc<Buckets>,
    wanted: &Wanted,
    config: &Config,
    (certificates, manager): (Served, &Arc<Manager>),
    telemetry: &Arc<Telemetry>,
) {
    let State {
        local,
        reloader,
        writer,
        log,
        notary,
        recorder,
        privacy,
        licensing,
        provider_keys,
        agents,
        signing,
        abtests,
        trust,
        authenticator,
        meter,
        budgets,
        compliance,
        clock,
        sure,
        ..
    } = state;
    licensed::add_task(server, telemetry, &licensing, (&recorder, &clock));
    let erasures = Keeper { privacy, recorder };
    sure::add_task(server, telemetry, &local, &sure);
    let sure: Arc<dyn Clock> = sure;
    let clocks = Clocks { clock: Arc::clone(&clock), sure: Arc::clone(&sure) };
    let kept = Kept { store: local.clone(), signing, abtests, trust, erasures };
    keeping::add_tasks(server, telemetry, kept, clocks);
    keeping::add_journal(server, telemetry, writer, (log, notary));
    keeping::add_credentials(server, telemetry, authenticator, &sure);
    limits::add_tasks(server, telemetry, [buckets, &agents.guardrails.buckets], &local, &clock);
    agents::add_tasks(server, telemetry, &agents, (&local, &clock));
    usage::add_tasks(server, telemetry, (&meter, sure), budgets);
    frameworks::add_tasks(server, telemetry, &compliance);
    certificates::add_task(server, telemetry, &certificates, &clock);
    let (prices, plugins) = (config.analytics.prices.clone(), config.plugins.path.clone());
    let paths = watched_files(&wanted.sources, config, &licensing);
    let agent_files = Arc::clone(&agents);
    let (telemetry_of_reloads, manager) = (Arc::clone(telemetry), Arc::clone(manager));
    let clock_of_reloads = Arc::clone(&clock);
    let refresh = Arc::new(move || {
        manager.reloading();
        reload_certificates(&certificates, &telemetry_of_reloads);
        licensing.reload(clock_of_reloads.now());
        usage::reload_prices(&meter, prices.as_deref());
        frameworks::reload(&compliance, &plugins);
        reload(&reloader);
        provider_keys.refresh(&reloader.handle().load().routes);
        agents.refresh();
        manager.reloaded();
    });
    let changed = Arc::clone(&refresh);
    let watch = FileWatch::new(paths, move || changed()).following(move || agent_files.paths());
    server.add_service(task("file-watch", telemetry, None, move |shutdown| task::watch(watch, shutdown)));
    server.add_service(task("hangup", telemetry, None, move |shutdown| {
        task::on_hangup(shutdown, move || refresh())
    }));
}

/// Returns the files and folders whose changes are followed.
fn watched_files(sources: &Sources, config: &Config, licensing: &Licensing) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = sources.file.iter().cloned().collect();
    paths.extend(sources.policies_folder());
    paths.push(config.plugins.path.clone());
    paths.extend(licensing.files().cloned());
    paths.extend(config.analytics.prices.clone());
    let tls = config.proxy.tls.iter().chain(&config.admin.tls);
    paths.extend(tls.flat_map(|files| [files.cert.clone(), files.key.clone()]));
    paths
}

fn follow_reloads(reloader: &Reloader, telemetry: &Arc<Telemetry>, clock: &Arc<dyn Clock>) {
    let (telemetry, clock) = (Arc::clone(telemetry), Arc::clone(clock));
    let note = move |accepted| telemetry.metrics.reloaded(accepted, clock.now().as_second() as f64);
    note(Some(reloader.handle().load().revision));
    reloader.follow_files(note);
}

fn office(
    config: &Config,
    state: &State,
    buckets: &Arc<Buckets>,
    telemetry: &Arc<Telemetry>,
    clock: &Arc<dyn Clock>,
    addresses: &Listeners,
    (sign_in, sinks, certificates, redis): (SignIn, Standings, Served, Option<Arc<Reach>>),
) -> Arc<Office> {
    Arc::new(Office {
        redis,
        sign_in,
        reloader: Arc::clone(&state.reloader),
        licensing: Arc::clone(&state.licensing),
        keys: Arc::clone(&state.keys),
        authenticator: state.authenticator.clone(),
        signing: Arc::clone(&state.signing),
        abtests: Arc::clone(&state.abtests),
        trust: Arc::clone(&state.trust),
        buckets: Arc::clone(buckets),
        guardrails: Arc::clone(&state.agents.guardrails),
        concurrency: Arc::clone(&state.concurrency),
        audit: state.log.clone(),
        meter: Arc::clone(&state.meter),
        budgets: Arc::clone(&state.budgets),
        compliance: Arc::clone(&state.compliance),
        recorder: state.recorder.clone(),
        refusals: Refusals::default(),
        failed_logins: Refusals::default(),
        knocks: Buckets::new(Tier::ALL.map(Tier::quota)),
        notary: state.notary.clone(),
        cluster_notary: state.common.as_ref().map(|common| Arc::clone(&common.notary)),
        leases: state.common.as_ref().map(|common| Arc::clone(&common.leases)),
        privacy: Arc::clone(&state.privacy),
        store: state.store.clone(),
        local: state.local.clone(),
        members: state.members.clone(),
        telemetry: Arc::clone(telemetry),
        clock: Arc::clone(clock),
        ids: Arc::clone(&state.ids),
        masker: Arc::new(masker(state)),
        tenant: tenant(state),
        sinks,
        certificates,
        streams: Arc::new(Semaphore::new(config.admin.max_streams)),
        facts: facts(config, state, &**clock, addresses),
    })
}

fn facts(config: &Config, state: &State, clock: &dyn Clock, addresses: &Listeners) -> Facts {
    let public = config.admin.public_url.as_ref().map(|public| public.host().to_owned());
    Facts {
        build: Build {
            version: VERSION.to_owned(),
            commit: COMMIT.to_owned(),
            build_date: BUILD_DATE.to_owned(),
        },
        node_id: state.node_id.clone(),
        started_at: clock.now(),
        started: clock.monotonic(),
        public_metrics: config.telemetry.public_metrics,
        without_record: config.audit.on_failure == AuditFailure::AllowAndAlarm,
        streams_per_caller: config.admin.max_streams_per_caller,
        addresses: addresses.bound().iter().map(SocketAddr::ip).collect(),
        trusted_proxies: config.admin.trusted_proxies.clone(),
        is_secure: config.admin.tls.is_some(),
        hosts: config.admin.hosts.iter().chain(public.as_ref()).cloned().collect(),
    }
}

fn own_paths(config: &Config, router: axum::Router, limits: AdapterLimits) -> OwnPaths {
    OwnPaths { router, limits, with_management: config.admin.also_on_proxy }
}

fn gateway(
    config: &Config,
    state: &State,
    upstreams: Arc<Upstreams>,
    buckets: &Arc<Buckets>,
    telemetry: &Arc<Telemetry>,
    clock: &Arc<dyn Clock>,
    (own, budget): (OwnPaths, Arc<ByteBudget>),
) -> Gateway {
    Gateway {
        config: config.proxy.clone(),
        rules: state.reloader.handle(),
        upstreams,
        budget,
        own,
        buckets: Arc::clone(buckets),
        guardrails: Arc::clone(&state.agents.guardrails),
        concurrency: Arc::clone(&state.concurrency),
        callers: Arc::new(CallerHash::new(state.secret.clone())),
        tenant: tenant(state),
        abtests: Arc::clone(&state.abtests),
        trust: Arc::clone(&state.trust),
        pins: Arc::clone(&state.pins),
        masker: Arc::new(masker(state)),
        authenticator: state.authenticator.clone(),
        refusals: Refusals::default(),
        provider_keys: Arc::clone(&state.provider_keys),
        licensing: Arc::clone(&state.licensing),
        recorder: state.recorder.clone(),
        meter: Arc::clone(&state.meter),
        read_back: ReadBack::default(),
        parted_files: PartedFiles::default(),
        budgets: Arc::clone(&state.budgets),
        without_record: config.audit.on_failure == AuditFailure::AllowAndAlarm,
        otlp: None,
        telemetry: Arc::clone(telemetry),
        clock: Arc::clone(clock),
        ids: UlidSource::default(),
    }
}

fn tenant(state: &State) -> TenantKey {
    TenantKey::derive(&state.secret.hash(MASKS, &[]), TENANT)
}

fn masker(state: &State) -> Masker {
    Masker::new(tenant(state))
}
