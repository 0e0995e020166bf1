//! A gateway's management plane in one process: real rules, a real audit log, a clock that stands still.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::Request;
use http::Response;
use portcullis::access::a2a::Guardrails;
use portcullis::access::a2a::replay::Replays;
use portcullis::access::authenticator::Authenticator;
use portcullis::access::budget::Budgets;
use portcullis::access::cookie::CookieStyle;
use portcullis::access::jose::SigningKey;
use portcullis::access::key::KeyStore;
use portcullis::access::key::NewKey;
use portcullis::access::license::License;
use portcullis::access::license::LicenseConfig;
use portcullis::access::license::Licensing;
use portcullis::access::limit::Buckets;
use portcullis::access::password::Cost;
use portcullis::access::refusals::Refusals;
use portcullis::access::role::Role;
use portcullis::access::scope::Scope;
use portcullis::access::secret::NodeSecret;
use portcullis::access::session::SessionConfig;
use portcullis::access::session::SessionStore;
use portcullis::access::signing::KeyRing;
use portcullis::access::signing::SigningConfig;
use portcullis::access::tier::Tier;
use portcullis::access::token::TokenConfig;
use portcullis::access::token::Tokens;
use portcullis::access::user::Users;
use portcullis::admin;
use portcullis::admin::Build;
use portcullis::admin::Facts;
use portcullis::admin::Office;
use portcullis::admin::sign_in::SignIn;
use portcullis::clock::Clock;
use portcullis::clock::ManualClock;
use portcullis::config::Sources;
use portcullis::config::file;
use portcullis::govern::abtest::AbTests;
use portcullis::govern::analytics::Meter;
use portcullis::govern::analytics::price;
use portcullis::govern::audit;
use portcullis::govern::audit::Notary;
use portcullis::govern::compliance::desk::Desk;
use portcullis::govern::compliance::framework;
use portcullis::govern::privacy::AnalyticsProvider;
use portcullis::govern::privacy::AuditProvider;
use portcullis::govern::privacy::DataProvider;
use portcullis::govern::privacy::HoldsProvider;
use portcullis::govern::privacy::IocProvider;
use portcullis::govern::privacy::Privacy;
use portcullis::govern::privacy::RbacProvider;
use portcullis::govern::privacy::RevisionsProvider;
use portcullis::govern::privacy::SessionsProvider;
use portcullis::govern::privacy::TrustProvider;
use portcullis::govern::privacy::authors;
use portcullis::govern::siem::Standings;
use portcullis::govern::trust::Trust;
use portcullis::govern::trust::TrustConfig;
use portcullis::id::UlidSource;
use portcullis::policy::build::Loading;
use portcullis::policy::reload::Reloader;
use portcullis::policy::revision::Revisions;
use portcullis::redact::mask::Masker;
use portcullis::redact::mask::TenantKey;
use portcullis::scan::detector::Detector;
use portcullis::scan::engine::NoCache;
use portcullis::scan::pack;
use portcullis::scan::pack::PluginFiles;
use portcullis::store::Store;
use portcullis::telemetry::Telemetry;
use portcullis::tls::CertificateStore;
use portcullis::tls::TlsFiles;
use tokio::sync::Semaphore;
use tower::ServiceExt;

/// How long sessions live.
const SESSIONS: SessionConfig = SessionConfig {
    idle: Duration::from_secs(1800),
    lifetime: Duration::from_secs(43_200),
    sessions_max: 100,
};
/// How many streams may be open.
pub const STREAMS_MAX: usize = 2;

/// How long tokens count.
const TOKENS: TokenConfig = TokenConfig { ttl: Duration::from_secs(3600) };
/// Passwords that take no time.
const CHEAP: Cost = Cost { memory_kib: 8, passes: 1 };

/// The plane, and what a test may turn.
pub struct World {
    pub router: Router,
    pub office: Arc<Office>,
    pub clock: Arc<ManualClock>,
    keys: BTreeMap<&'static str, String>,
    _state: tempfile::TempDir,
}

impl World {
    /// Starts a plane whose deployment has a tier; each role has a key.
    pub fn start(tier: Tier) -> Self {
        Self::start_with(tier, |_| {})
    }

    /// Starts one on which so many streams may be open.
    pub fn start_with_streams(tier: Tier, streams: usize) -> Self {
        let world = Self::start(tier);
        world.office.streams.add_permits(streams.saturating_sub(STREAMS_MAX));
        world
    }

    /// Starts one that differs in what cannot change while it runs.
    pub fn start_with(tier: Tier, differ: impl FnOnce(&mut Facts)) -> Self {
        Self::start_as(tier, |office| differ(&mut office.facts))
    }

    /// Starts one some of whose parts differ.
    pub fn start_as(tier: Tier, differ: impl FnOnce(&mut Office)) -> Self {
        let state = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new("2026-05-01T12:00:00Z".parse().unwrap()));
        let mut office = office(tier, &state, clock.clone());
        differ(&mut office);
        let office = Arc::new(office);
        let key = |role: Role| {
            let new = NewKey {
                name: role.as_str().to_owned(),
                role,
                tier,
                expires_at: None,
                scope: Scope::default(),
            };
            let (_, key) = office.keys.create(office.new_id(), new, clock.now()).unwrap();
            (role.as_str(), key)
        };
        let keys = Role::ALL.into_iter().map(key).collect();
        Self { router: admin::router(office.clone()), office, clock, keys, _state: state }
    }

    /// Returns the key of a role; any other text stands for itself.
    pub fn key<'a>(&'a self, role: &'a str) -> &'a str {
        self.keys.get(role).map_or(role, String::as_str)
    }

    /// Returns the keys by role.
    pub fn keys(&self) -> &BTreeMap<&'static str, String> {
        &self.keys
    }

    /// Sends one request as it is.
    pub async fn send(&self, request: Request<Body>) -> Response<Body> {
        self.router.clone().oneshot(request).await.unwrap()
    }
}

fn office(tier: Tier, state: &tempfile::TempDir, clock: Arc<ManualClock>) -> Office {
    let clock: Arc<dyn Clock> = clock;
    let store = Store::in_memory();
    let telemetry = Arc::new(Telemetry::new("1.2.3", "abcdef0"));
    let settings = audit::AuditConfig {
        reserve_bytes: 4096,
        low_water_bytes: 0,
        ..audit::AuditConfig::at(state.path().join("audit"))
    };
    let opened = audit::open(settings, store.clone(), clock.clone(), telemetry.metrics.clone()).unwrap();
    tokio::spawn(opened.writer.run(std::future::pending()));
    let secret = NodeSecret::random();
    let keys = Arc::new(KeyStore::open(&store, secret.clone(), opened.keyring.clone()).unwrap());
    let prices = price::read(None).unwrap();
    let meter = Arc::new(Meter::new(&store, opened.keyring.clone(), clock.clone(), prices));
    let signing = KeyRing::open(&store, secret.clone(), SigningConfig::default(), clock.now()).unwrap();
    let signing = Arc::new(signing);
    let sealed = (&store, opened.keyring.clone());
    let trust = Trust::open(sealed, signing.clone(), "node-1".to_owned(), TrustConfig::default());
    let trust = Arc::new(trust.unwrap());
    let budgets = Arc::new(Budgets::open(&store).unwrap());
    let authenticator = Authenticator {
        keys: Arc::clone(&keys),
        tokens: Arc::new(Tokens::open(&store, &secret, Arc::clone(&signing), TOKENS).unwrap()),
        users: Arc::new(Users::open(&store, secret.clone(), opened.keyring.clone(), CHEAP).unwrap()),
        sessions: Arc::new(SessionStore::open(&store, secret, opened.keyring.clone(), SESSIONS).unwrap()),
        provider: None,
    };
    let revisions = Revisions::open(&store, authors(&opened.keyring)).unwrap();
    let (reloader, _) =
        Reloader::start(loading(), revisions, clock.clone()).map_err(|error| error.to_string()).unwrap();
    let reloader = Arc::new(reloader);
    let providers: Vec<Box<dyn DataProvider>> = vec![
        Box::new(RbacProvider {
            authenticator: authenticator.clone(),
            budgets: budgets.clone(),
            clock: clock.clone(),
        }),
        Box::new(SessionsProvider {
            sessions: authenticator.sessions.clone(),
            clock: clock.clone(),
            keyring: opened.keyring.clone(),
        }),
        Box::new(IocProvider(opened.log.clone())),
        Box::new(AnalyticsProvider(meter.clone())),
        Box::new(AuditProvider(opened.log.clone())),
        Box::new(HoldsProvider::new(&store, opened.keyring.clone())),
        Box::new(RevisionsProvider(reloader.clone())),
        Box::new(TrustProvider { trust: trust.clone(), clock: clock.clone() }),
    ];
    let privacy =
        Privacy::open((&store, "node"), opened.keyring, opened.log.clone(), clock.clone(), providers);
    let tenant = TenantKey::derive(&[7; 32], "test");
    Office {
        members: None,
        redis: None,
        reloader,
        licensing: Arc::new(licensing(tier, state, &*clock)),
        sign_in: SignIn { cookies: Some(CookieStyle::Loopback), public: None },
        refusals: Refusals::default(),
        failed_logins: Refusals::default(),
        knocks: Buckets::new(Tier::ALL.map(Tier::quota)),
        trust,
        signing: signing.clone(),
        abtests: Arc::new(AbTests::open(&store, &store).unwrap()),
        keys,
        authenticator,
        concurrency: Arc::default(),
        buckets: Arc::new(Buckets::new(Tier::ALL.map(Tier::quota))),
        compliance: Arc::new(Desk::new(
            framework::read(&pack::builtin_frameworks()).unwrap(),
            opened.log.clone(),
            clock.clone(),
        )),
        guardrails: Arc::new(Guardrails::new(
            Arc::new(Buckets::new(Tier::ALL.map(Tier::agent_quota))),
            Replays::default(),
            Box::new(|_| Some("a secret of the tests".to_owned())),
        )),
        audit: opened.log.clone(),
        budgets,
        meter,
        recorder: opened.recorder,
        cluster_notary: None,
        leases: None,
        notary: Notary::new(
            opened.log.clone(),
            signing.clone(),
            clock.clone(),
            "node-1".to_owned(),
            state.path(),
        ),
        privacy: Arc::new(privacy.unwrap()),
        local: store.clone(),
        store,
        telemetry,
        ids: Arc::new(UlidSource::default()),
        masker: Arc::new(Masker::new(tenant.clone())),
        tenant,
        sinks: Standings::default(),
        certificates: Vec::new(),
        facts: Facts {
            trusted_proxies: Vec::new(),
            is_secure: false,
            build: Build {
                version: "1.2.3".to_owned(),
                commit: "abcdef0".to_owned(),
                build_date: "2026-04-30T00:00:00Z".to_owned(),
            },
            node_id: "node-1".to_owned(),
            started_at: clock.now(),
            started: Duration::ZERO,
            public_metrics: false,
            without_record: false,
            streams_per_caller: 1000,
            addresses: vec!["127.0.0.1".parse().unwrap()],
            hosts: Vec::new(),
        },
        streams: Arc::new(Semaphore::new(STREAMS_MAX)),
        clock,
    }
}

/// Returns the licence that makes a deployment of a tier; the community tier needs none.
fn licensing(tier: Tier, state: &tempfile::TempDir, clock: &dyn Clock) -> Licensing {
    if tier == Tier::Community {
        return Licensing::open(LicenseConfig::default());
    }
    let (file, key_file) = (state.path().join("license.jwt"), state.path().join("license.pem"));
    let key = SigningKey::generate();
    let license = License {
        subject: "Northwind".to_owned(),
        tier,
        issued_at: clock.now(),
        not_before: None,
        expires_at: clock.now() + jiff::SignedDuration::from_hours(24 * 365),
        agent: None,
        features: Vec::new(),
    };
    std::fs::write(&file, license.sign(&key)).unwrap();
    std::fs::write(&key_file, key.public_pem()).unwrap();
    Licensing::open(LicenseConfig { file: Some(file), trusted_keys: vec![key_file] })
}

/// One rule over those detectors.
const RULES: &str = r#"
[pack]
name = "small_rules"
version = "1.0.0"

[[rule]]
id = "key_after_override"
name = "A key beside an override"
category = "injection"
severity = "high"
confidence = "high"
needs = ["secrets", "injection"]
when = "findings.filter(f, f.category == 'secrets' && 'injection' in f.beside)"
techniques = ["AML.T0057", "LLM01:2025"]
why = "An override was written beside a key."
finds = [{ parts = [{ channel = "user", text = "ignore all previous key_abcdefghijklmnop" }] }]
ignores = [{ parts = [{ channel = "user", text = "key_abcdefghijklmnop" }] }]
"#;

fn loading() -> Loading {
    Loading {
        document: Box::new(|| Sources::default().written()),
        defaults: file::defaults(),
        sample_provider: None,
        detectors: Box::new(|| Ok(Arc::new(detectors()))),
        layer3: Box::new(|| Ok(BTreeMap::new())),
        layer2: Box::new(|| Ok(PluginFiles::from([("rules/small.toml".to_owned(), RULES.into())]))),
        dialects: Box::new(|| Ok(Vec::new())),
        prove: Box::new(|_| Vec::new()),
        prove_rules: Box::new(|_, _| Vec::new()),
        sinks: Box::new(|_| Vec::new()),
        texts: Box::new(|| None),
        located: Box::new(|fault| fault),
        cache: Box::new(NoCache),
        built: Box::new(|| ()),
    }
}

/// Detectors that are small enough to compile in every test.
fn detectors() -> Vec<Detector> {
    let row = |name: &str, category: &str, severity: &str, pattern: &str, checks: &str, find: &str| {
        format!(
            "[[detector]]\ntype = \"{name}\"\ncategory = \"{category}\"\nseverity = \"{severity}\"\n\
             confidence = \"high\"\npattern = '{pattern}'\nchecks = [{checks}]\ntechniques = [\"LLM02:2025\"]\n\
             why = \"x\"\nfinds = [\"{find}\"]\nignores = [\"nothing\"]\n"
        )
    };
    let mut text = "[pack]\nname = \"small\"\nversion = \"1.0.0\"\n".to_owned();
    text += &row("key", "secrets", "critical", "key_[a-z]{16}", "", "key_abcdefghijklmnop");
    text += &row("card", "pii", "high", r"\b[0-9]{16}\b", "\"luhn\"", "{valid}");
    text += &row("override", "injection", "high", "ignore all previous", "", "ignore all previous");
    let files = PluginFiles::from([("detectors/small.toml".to_owned(), text.into())]);
    pack::parse_all(&files).map_err(|faults| format!("{faults:?}")).unwrap()
}

/// Returns a certificate of the proxy's that counts from April to June 2026.
pub fn certificate() -> (&'static str, Arc<CertificateStore>) {
    let folder = tempfile::tempdir().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["gateway.example".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2026, 4, 1);
    params.not_after = rcgen::date_time_ymd(2026, 6, 30);
    let key = rcgen::KeyPair::generate().unwrap();
    let made = params.self_signed(&key).unwrap();
    let files = TlsFiles { cert: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
    std::fs::write(&files.cert, made.pem()).unwrap();
    std::fs::write(&files.key, key.serialize_pem()).unwrap();
    ("proxy", CertificateStore::load(files).unwrap())
}
