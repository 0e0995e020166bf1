//! Reloads, patches, profiles, rollbacks, restarts: what changes, and that faults change nothing.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use serde_json::json;

use super::*;
use crate::clock::ManualClock;
use crate::document::toml;
use crate::policy::decision::Mode;
use crate::policy::file::expand_modes;
use crate::policy::fixture::authors;
use crate::policy::fixture::detectors;
use crate::policy::fixture::shipped;
use crate::policy::ruleset::SINKS_KEY;
use crate::scan::classifier::shelf::ModelFiles;
use crate::scan::engine::NoCache;
use crate::scan::pack;
use crate::scan::pack::PluginFiles;
use crate::scan::threat::Category;
use crate::store::Store;

/// Files and packs that a test can change.
#[derive(Clone, Default)]
pub(super) struct World {
    pub(super) file: Arc<Mutex<String>>,
    /// What the release has for defaults, where that is not what is shipped.
    pub(super) release: Arc<Mutex<String>>,
    pub(super) sample_provider: Arc<Mutex<Option<SocketAddr>>>,
    pub(super) packs: Arc<Mutex<Vec<&'static str>>>,
    pub(super) rules: Arc<Mutex<PluginFiles>>,
    pub(super) models: Arc<Mutex<ModelFiles>>,
    pub(super) proven: Arc<Mutex<usize>>,
    pub(super) store: Option<Store>,
    pub(super) heard: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn loading(&self) -> Loading {
        let (file, packs, proven) = (self.file.clone(), self.packs.clone(), self.proven.clone());
        let (rules, models) = (self.rules.clone(), self.models.clone());
        let defaults = self.defaults();
        Loading {
            document: Box::new(move || {
                let mut document = defaults.clone();
                let mut layer = toml::parse(&file.lock(), "gateway.toml")?;
                let own_etag = layer.etag();
                expand_modes(layer.root_mut());
                document.overlay(layer);
                Ok(Written { document, own_etag })
            }),
            defaults: self.defaults(),
            sample_provider: *self.sample_provider.lock(),
            detectors: Box::new(move || Ok(Arc::new(detectors(&packs.lock())))),
            layer2: Box::new(move || Ok(rules.lock().clone())),
            layer3: Box::new(move || Ok(models.lock().clone())),
            dialects: Box::new(|| Ok(Vec::new())),
            prove: Box::new(move |_| {
                *proven.lock() += 1;
                Vec::new()
            }),
            prove_rules: Box::new(|_, _| Vec::new()),
            cache: Box::new(NoCache),
            built: Box::new(|| ()),
            sinks: Box::new(|_| Vec::new()),
            texts: Box::new(|| None),
            located: Box::new(|fault| fault),
        }
    }

    /// Returns what is built in: what is shipped, and what the release has otherwise.
    fn defaults(&self) -> Document {
        let mut document = shipped();
        document.overlay(toml::parse(&self.release.lock(), "release.toml").unwrap());
        document
    }

    pub(super) fn start(&mut self) -> (Reloader, Origin) {
        let store = self.store.get_or_insert_with(Store::in_memory).clone();
        let revisions = Revisions::open(&store, authors()).unwrap();
        let clock = Arc::new(ManualClock::new("2026-05-01T00:00:00Z".parse().unwrap()));
        let (reloader, Beginning { origin, .. }) = Reloader::start(self.loading(), revisions, clock).unwrap();
        let heard = self.heard.clone();
        reloader.subscribe(move |announcement| {
            heard.lock().push(match announcement {
                Announcement::Published(change) => format!("{} {}", change.revision, change.source.as_str()),
                Announcement::Refused { source, faults } => format!("{} refused: {faults}", source.as_str()),
            });
        });
        (reloader, origin)
    }

    pub(super) fn write(&self, text: &str) {
        *self.file.lock() = text.to_owned();
    }
}

pub(super) fn secrets(reloader: &Reloader) -> Mode {
    reloader.handle().load().policies["default"].file.category(Category::Secrets).request
}

pub(super) fn by(name: &str) -> Author {
    Author { name: name.to_owned(), reach: Reach::Rules }
}

pub(super) fn set_secrets(mode: &str) -> Value {
    json!({"policies": {"default": {"categories": {"secrets": {"mode": mode}}}}})
}

fn faults(error: ChangeError) -> Vec<String> {
    match error {
        ChangeError::Faulty(faults) => faults.iter().map(ToString::to_string).collect(),
        other => panic!("{other}"),
    }
}

#[test]
fn a_file_is_obeyed_and_a_bad_one_changes_nothing() {
    let mut world = World::default();
    let (reloader, origin) = world.start();
    assert!(matches!(origin, Origin::FirstStart));
    let before = reloader.handle().load();
    assert!(reloader.reload_file().unwrap().is_none(), "nothing changed");
    world.write("[policies.default.categories.secrets]\nmode = \"monitor\"\n[proxy]\nmax_headers = 9\n");
    let change = reloader.reload_file().unwrap().unwrap();
    assert_eq!(
        (change.revision, change.changed.join(","), change.needs_restart.join(",")),
        (2, "policies".into(), "proxy.max_headers".into())
    );
    assert_eq!((secrets(&reloader), before.revision), (Mode::Monitor, 1));
    assert!(Arc::ptr_eq(&before.scanner, &reloader.handle().load().scanner), "packs did not change");
    let etag = reloader.current().revision.etag.clone();
    world.write("[policies.default]\nfail_mode = \"ajar\"\n[policies.default.detectors.kee]\nmode = \"off\"\n[limits]\nscan_ms = 0\n");
    let found = faults(reloader.reload_file().unwrap_err());
    let places: Vec<&str> = found.iter().filter_map(|fault| fault.split(": ").next()).collect();
    assert_eq!(places, ["gateway.toml:2:1", "gateway.toml:3:29", "gateway.toml:6:1"], "{found:?}");
    world.write("[policies.default.detectors.kee]\nmode = \"off\"\n[detectors]\ndisabled = [\"x\"]\n");
    assert_eq!(faults(reloader.reload_file().unwrap_err()).len(), 2);
    assert_eq!((reloader.handle().load().revision, &reloader.current().revision.etag), (2, &etag));
    assert_eq!(*world.heard.lock(), ["2 file", "file refused: 3", "file refused: 2"]);
}

#[test]
fn how_the_files_stand_is_told_of_them_alone() {
    let mut world = World::default();
    let (reloader, _) = world.start();
    let told = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&told);
    reloader.follow_files(move |accepted| noted.lock().push(accepted));
    let taken = || std::mem::take(&mut *told.lock());
    for run in [Run::Dry, Run::Real] {
        reloader.patch(json!({"limits": {"scan_ms": 0}}), &by("ann"), None, run).unwrap_err();
    }
    assert_eq!(taken(), []);
    assert_eq!(*world.heard.lock(), ["api refused: 1"], "a dry run is refused to nobody but its caller");
    world.write("[limits]\nscan_ms = 0\n");
    reloader.reload_file().unwrap_err();
    assert_eq!(taken(), [None]);
    reloader.patch(set_secrets("monitor"), &by("ann"), None, Run::Real).unwrap();
    assert_eq!(taken(), [Some(2), None], "the files are faulty still");
    world.write("");
    assert!(reloader.reload_file().unwrap().is_none());
    assert_eq!(taken(), [Some(2)], "they are good again, and hold nothing new");
    reloader.patch(set_secrets("off"), &by("ann"), None, Run::Real).unwrap();
    assert_eq!(taken(), [Some(3)]);
}

#[test]
fn packs_are_compiled_and_proven_only_when_they_change() {
    let mut world = World::default();
    let (reloader, _) = world.start();
    reloader.patch(set_secrets("off"), &by("ann"), None, Run::Real).unwrap();
    assert_eq!(*world.proven.lock(), 1);
    world.packs.lock().push("extra");
    let change = reloader.reload_file().unwrap().unwrap();
    assert!(change.packs_changed && change.changed.is_empty());
    assert_eq!((*world.proven.lock(), change.revision), (2, 3));
    assert_eq!(secrets(&reloader), Mode::Off, "a change of packs keeps the changes of the API");
    assert!(reloader.handle().load().scanner.find("extra").is_some());
}

#[test]
fn rules_and_models_that_change_alone_are_put_in_force() {
    let mut world = World::default();
    let (reloader, _) = world.start();
    let folder = "models/gatehouse/";
    let shipped = pack::builtin_models().into_iter().filter(|(path, _)| path.starts_with(folder));
    world.models.lock().extend(shipped);
    let change = reloader.reload_file().unwrap().expect("a model is new");
    assert!(change.packs_changed && change.changed.is_empty());
    assert_eq!(reloader.handle().load().layer3.names().count(), 1);
    world.rules.lock().extend(pack::builtin_rules().into_iter().take(1));
    let change = reloader.reload_file().unwrap().expect("rules are new");
    assert!(change.packs_changed && change.revision == 3);
    assert!(!reloader.handle().load().layer2.rules().is_empty());
    assert!(reloader.reload_file().unwrap().is_none(), "nothing is new");
}

#[test]
fn a_patch_that_changes_nothing_is_no_revision() {
    let mut world = World::default();
    let (reloader, _) = world.start();
    reloader.patch(set_secrets("monitor"), &by("ann"), None, Run::Real).unwrap();
    let (etag, heard) = (reloader.current().revision.etag.clone(), world.heard.lock().len());
    for same in [json!({}), set_secrets("monitor")] {
        let made = reloader.patch(same, &by("bob"), Some(&etag), Run::Real).unwrap();
        assert_eq!((made.revision, &made.etag, made.changed.len()), (2, &etag, 0));
    }
    assert_eq!(reloader.current().revision.author, "ann");
    assert_eq!((reloader.revisions().newest(9).unwrap().len(), world.heard.lock().len()), (2, heard));
}

/// Another node is faster while this one builds: what it brought stays, and the change is made behind it.
#[test]
fn a_change_is_made_anew_behind_that_of_a_faster_node() {
    let mut world = World::default();
    let (other, _) = world.start();
    let (faster, times) = (Arc::new(other), Arc::new(AtomicU64::new(0)));
    let mut loading = world.loading();
    let (node, left, depth) = (Arc::clone(&faster), Arc::clone(&times), AtomicU64::new(20));
    loading.built = Box::new(move || {
        let is_due =
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        if is_due {
            let patch = json!({ "limits": { "json_depth_max": depth.fetch_add(1, Ordering::Relaxed) } });
            node.patch(patch, &by("bob"), None, Run::Real).unwrap();
        }
    });
    let revisions = Revisions::open(world.store.as_ref().unwrap(), authors()).unwrap();
    let clock = Arc::new(ManualClock::new("2026-05-01T00:00:00Z".parse().unwrap()));
    let (slower, _) = Reloader::start(loading, revisions, clock).unwrap();
    times.store(2, Ordering::Relaxed);
    let made = slower.patch(set_secrets("monitor"), &by("ann"), None, Run::Real).unwrap();
    assert_eq!((made.revision, made.author.as_str(), secrets(&slower)), (4, "ann", Mode::Monitor));
    faster.follow().unwrap();
    for node in [&slower, &*faster] {
        assert_eq!(node.current().document.root()["limits"]["json_depth_max"], 21);
        assert_eq!((node.current().revision.number, secrets(node)), (4, Mode::Monitor));
    }
    // Whoever says what they believe to be in force hears that it is not.
    let etag = slower.current().revision.etag.clone();
    times.store(1, Ordering::Relaxed);
    let stale = slower.patch(set_secrets("off"), &by("ann"), Some(&etag), Run::Real);
    assert!(matches!(stale, Err(ChangeError::Stale { .. })));
    times.store(u64::MAX, Ordering::Relaxed);
    let overtaken = slower.patch(set_secrets("off"), &by("ann"), None, Run::Real);
    assert!(matches!(overtaken, Err(ChangeError::Overtaken)), "there is an end to it");
}

#[test]
fn patches_are_guarded_tried_and_refused_whole() {
    let mut world = World::default();
    let (reloader, _) = world.start();
    let etag = reloader.current().revision.etag.clone();
    let dry = reloader.patch(set_secrets("monitor"), &by("ann"), Some(&etag), Run::Dry).unwrap();
    assert_eq!((dry.revision, reloader.handle().load().revision), (2, 1));
    assert_eq!(secrets(&reloader), Mode::Block);
    let made = reloader.patch(set_secrets("monitor"), &by("ann"), Some(&etag), Run::Real).unwrap();
    assert_eq!((&made.etag, secrets(&reloader)), (&dry.etag, Mode::Monitor));
    let stale = reloader.patch(set_secrets("off"), &by("bob"), Some(&etag), Run::Real).unwrap_err();
    assert!(matches!(stale, ChangeError::Stale { etag } if etag == made.etag));
    let cases = [
        (
            json!({"proxy": {"h2": 9, "timeouts": {"header_ms": 5}}, "store": null, "rotues": []}),
            vec![
                "api: proxy.h2: changes only with a restart",
                "api: proxy.timeouts.header_ms: changes only with a restart",
                "api: rotues: unknown key; did you mean `routes`?",
                "api: store.path: changes only with a restart",
            ],
        ),
        (json!([1]), vec!["api: expected a table"]),
        (
            json!({"bogus": 1, "store": {"in_memory": 5}, "limits": {"scan_ms": -4}, "detectors": {"disabled": 3}}),
            vec![
                "api: bogus: unknown key",
                "api: store.in_memory: changes only with a restart",
                "api: limits.scan_ms: expected a number from 1 to 600000",
                "api: detectors.disabled: expected a text or a list of texts",
            ],
        ),
        (
            json!({"bogus": 1, "limits": {"scan_ms": -4}, "a2a": {"client_ca": "other.pem"}}),
            vec![
                "api: bogus: unknown key",
                "a2a.client_ca: can be changed only in the configuration file",
                "api: limits.scan_ms: expected a number from 1 to 600000",
            ],
        ),
        (
            json!({"limits": {"scan_ms": 0}, "policies": {"default": null}}),
            vec!["api: limits.scan_ms: expected a number from 1 to 600000"],
        ),
    ];
    for (patch, expected) in cases {
        let found = faults(reloader.patch(patch, &by("ann"), None, Run::Real).unwrap_err());
        expected
            .iter()
            .for_each(|line| assert!(found.iter().any(|fault| fault == line), "{line} in {found:?}"));
    }
    assert_eq!(reloader.handle().load().revision, 2);
    let current = reloader.current();
    assert_eq!((current.revision.author.as_str(), current.revision.source), ("ann", RevisionSource::Api));
}

#[test]
fn a_way_back_is_a_new_revision() {
    let mut world = World::default();
    let (reloader, _) = world.start();
    let first = reloader.current().revision.etag.clone();
    reloader.apply_profile("quickstart", &by("ann"), None, Run::Real).unwrap();
    assert_eq!(secrets(&reloader), Mode::Monitor);
    let back = reloader.rollback(1, &by("bob"), None, Run::Real).unwrap();
    assert_eq!((back.revision, back.etag, secrets(&reloader)), (3, first, Mode::Block));
    assert!(matches!(reloader.rollback(9, &by("bob"), None, Run::Real), Err(ChangeError::UnknownRevision)));
    assert!(matches!(
        reloader.apply_profile("nobody", &by("x"), None, Run::Real),
        Err(ChangeError::UnknownProfile)
    ));
    let kept = reloader.revisions().newest(9).unwrap();
    let story: Vec<&str> = kept.iter().map(|revision| revision.source.as_str()).collect();
    assert_eq!(story, ["rollback", "profile", "start"]);
}

#[test]
fn a_restart_takes_the_newer_of_files_and_revisions() {
    let mut world = World::default();
    let (reloader, _) = world.start();
    reloader.patch(set_secrets("monitor"), &by("ann"), None, Run::Real).unwrap();
    drop(reloader);
    let (reloader, origin) = world.start();
    assert!(matches!(origin, Origin::StoredRevision));
    assert_eq!((secrets(&reloader), reloader.handle().load().revision), (Mode::Monitor, 2));
    drop(reloader);
    world.write("[limits]\nscan_ms = 5\n");
    let (reloader, origin) = world.start();
    assert!(matches!(origin, Origin::FilesChanged));
    assert_eq!((secrets(&reloader), reloader.handle().load().revision), (Mode::Block, 3));
    reloader.patch(json!({"detectors": {"disabled": ["key"]}}), &by("ann"), None, Run::Real).unwrap();
    let mut shrunk = World { packs: Arc::default(), ..world.clone() };
    shrunk.packs.lock().push("other");
    drop(reloader);
    assert!(matches!(shrunk.start().1, Origin::StoredRevision));
}

#[test]
fn what_a_ruleset_needs_is_made_ready_before_it_is_in_force() {
    let mut world = World::default();
    let (reloader, _) = world.start();
    let (handle, seen) = (reloader.handle(), Arc::new(Mutex::new(Vec::new())));
    let noted = Arc::clone(&seen);
    reloader.prepare(move |next| noted.lock().push((handle.load().revision, next.revision)));
    world.write("[policies.default.categories.secrets]\nmode = 'monitor'");
    reloader.reload_file().unwrap();
    assert_eq!(*seen.lock(), [(1, 2)]);
}

#[test]
fn only_some_lead_a_providers_key_elsewhere() {
    const ROUTE: &str =
        "[[routes]]\nname = 'a'\nauth = 'gateway_key'\nprovider_key_env = 'A_KEY'\npolicy = 'default'\n";
    let mut world = World::default();
    world.write(&format!("{ROUTE}upstream = ['https://old.example', 'https://one.example']"));
    let (reloader, _) = world.start();
    world.write(&format!("{ROUTE}upstream = 'https://one.example'"));
    reloader.reload_file().unwrap();
    let route = reloader.current().document.root()["routes"][0].clone();
    let with = |key: &str, value: Value| {
        let mut route = route.clone();
        route[key] = value;
        json!({ "routes": [route] })
    };
    let mut second = route.clone();
    (second["name"], second["path_prefix"]) = (json!("b"), json!("/b"));
    let mut led_away = second.clone();
    led_away["upstream"] = json!("https://evil.example");
    let moves = [
        with("upstream", json!("https://evil.example")),
        with("upstream", json!(["https://one.example", "https://evil.example"])),
        with("upstream", json!("http://one.example")),
        with("upstream_ca_file", json!("evil.pem")),
        json!({ "routes": [route, led_away] }),
    ];
    let out_of_reach = |made: Result<Change, ChangeError>| matches!(made, Err(ChangeError::OutOfReach));
    let moves = moves.into_iter().chain([json!({ "routes": [] })]);
    for patch in moves {
        assert!(out_of_reach(reloader.patch(patch.clone(), &by("ann"), None, Run::Dry)), "{patch}");
    }
    assert!(out_of_reach(reloader.rollback(1, &by("ann"), None, Run::Real)), "the key went elsewhere then");
    for patch in [with("path_prefix", json!("/x")), json!({ "routes": [route, second] })] {
        reloader.patch(patch, &by("ann"), None, Run::Dry).unwrap();
    }
    let root = Author { name: "root".to_owned(), reach: Reach::Secrets };
    let moved =
        reloader.patch(with("upstream", json!("https://two.example")), &root, None, Run::Real).unwrap();
    assert_eq!((moved.revision, moved.changed.join(",")), (3, "routes".to_owned()));
    reloader.rollback(1, &root, None, Run::Real).unwrap();
}

#[test]
fn only_some_ask_less_of_those_who_call_an_upstream() {
    const ROUTE: &str = "[[routes]]\nname = 'a'\npolicy = 'default'\nupstream = 'https://one.example'\n";
    let mut world = World::default();
    world.write(&format!("{ROUTE}auth = 'gateway_key'"));
    let (reloader, _) = world.start();
    let route = reloader.current().document.root()["routes"][0].clone();
    let mut open = route.clone();
    open["auth"] = json!("transparent");
    let mut beside = open.clone();
    (beside["name"], beside["path_prefix"]) = (json!("b"), json!("/b"));
    beside["upstream"] = json!(["https://two.example", "https://one.example"]);
    let mut otherwise = beside.clone();
    otherwise["upstream"] = json!("https://ONE.example.:443/beside");
    for routes in [json!([open]), json!([route, beside]), json!([route, otherwise])] {
        let patch = json!({ "routes": routes });
        let made = reloader.patch(patch.clone(), &by("ann"), None, Run::Dry);
        assert!(matches!(made, Err(ChangeError::OutOfReach)), "{patch}");
    }
    beside["upstream"] = json!("https://two.example");
    reloader.patch(json!({ "routes": [route, beside] }), &by("ann"), None, Run::Dry).unwrap();
    let root = Author { name: "root".to_owned(), reach: Reach::Secrets };
    reloader.patch(json!({ "routes": [open] }), &root, None, Run::Real).unwrap();
    reloader.patch(json!({ "routes": [route] }), &by("ann"), None, Run::Real).unwrap();
}

const SINK: &str = "[[siem.sinks]]\nname = \"soc\"\nplatform = \"webhook\"\nurl = \"https://soc.example\"\n";

fn sinks(reloader: &Reloader) -> Value {
    reloader.current().document.to_json()["siem"]["sinks"].clone()
}

#[test]
fn where_the_log_goes_is_for_files_and_what_of_it_for_administrators() {
    let mut world = World::default();
    world.write(SINK);
    let (reloader, _) = world.start();
    let root = Author { name: "root".to_owned(), reach: Reach::Secrets };
    let with = |key: &str, value: Value| {
        let mut sinks = sinks(&reloader);
        sinks[0][key] = value;
        json!({ "siem": { "sinks": sinks } })
    };
    for (key, value) in [
        ("url", json!("https://evil.example")),
        ("allow_private", json!(true)),
        ("secret_file", json!("admin.key")),
        ("name", json!("other")),
    ] {
        let told = faults(reloader.patch(with(key, value), &root, None, Run::Dry).unwrap_err());
        assert!(told[0].contains("only in the configuration file"), "{key}: {told:?}");
    }
    let quiet = with("min_severity", json!("critical"));
    let out_of_reach = |made: Result<Change, ChangeError>| matches!(made, Err(ChangeError::OutOfReach));
    for patch in [quiet.clone(), json!({"siem": {"sinks": []}})] {
        assert!(out_of_reach(reloader.patch(patch, &by("ann"), None, Run::Dry)), "nobody hides what they do");
    }
    reloader.patch(quiet, &root, None, Run::Real).unwrap();
    assert_eq!(sinks(&reloader)[0]["min_severity"], "critical");
    assert!(out_of_reach(reloader.rollback(1, &by("ann"), None, Run::Real)));
    reloader.rollback(1, &root, None, Run::Real).unwrap();
    assert!(sinks(&reloader)[0].get("min_severity").is_none());
    // A file that names none any more means it.
    world.write("");
    assert_eq!(reloader.reload_file().unwrap().unwrap().changed.join(","), "siem");
    assert!(sinks(&reloader).as_array().is_none_or(Vec::is_empty), "{}", sinks(&reloader));
}

#[test]
fn revisions_of_a_release_that_kept_no_sinks_let_none_fall_silent() {
    let mut world = World::default();
    let (reloader, _) = world.start();
    let mut old = reloader
        .patch(set_secrets("monitor"), &by("ann"), None, Run::Real)
        .map(|_| reloader.current().revision.clone())
        .unwrap();
    // As it lies in the store of that release: its files had a sink, its revisions did not.
    old.rules.remove(SINKS_KEY);
    let mut without = (world.loading().document)().unwrap().document;
    without.root_mut().remove(SINKS_KEY);
    (old.number, old.file_etag, old.own_etag) = (old.number + 1, rules_etag(&without), None);
    reloader.revisions().keep_next(&old).unwrap();
    world.write(SINK);
    let (reloader, origin) = world.start();
    assert!(matches!(origin, Origin::StoredRevisionUnsure), "{origin:?}");
    assert_eq!((secrets(&reloader), sinks(&reloader)[0]["name"].clone()), (Mode::Monitor, json!("soc")));
    reloader.rollback(old.number, &by("ann"), None, Run::Real).unwrap();
    assert_eq!(sinks(&reloader)[0]["name"], "soc");
    world.write(&SINK.replace("soc", "other"));
    reloader.reload_file().unwrap().unwrap();
    assert_eq!(sinks(&reloader)[0]["name"], "other");
}
