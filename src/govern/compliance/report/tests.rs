use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;

use super::*;
use crate::access::role::Role;
use crate::access::tier::Tier;
use crate::clock::ManualClock;
use crate::govern::audit;
use crate::govern::audit::AuditConfig;
use crate::govern::compliance::check::Check;
use crate::govern::compliance::check::Item;
use crate::govern::compliance::check::TECHNIQUES;
use crate::govern::compliance::check::counted_types;
use crate::govern::compliance::desk::Desk;
use crate::govern::compliance::facts::AgentsFact;
use crate::govern::compliance::facts::AuditFact;
use crate::govern::compliance::facts::CategoryFact;
use crate::govern::compliance::facts::ChainFact;
use crate::govern::compliance::facts::Coverage;
use crate::govern::compliance::facts::KeyFact;
use crate::govern::compliance::facts::ListenerFact;
use crate::govern::compliance::facts::PolicyFact;
use crate::govern::compliance::facts::RouteFact;
use crate::govern::compliance::facts::SignInFact;
use crate::govern::compliance::facts::SinkFact;
use crate::govern::compliance::facts::TechniqueFact;
use crate::govern::compliance::facts::UserFact;
use crate::govern::compliance::framework;
use crate::policy::decision::Action;
use crate::scan::pack;
use crate::scan::pack::PluginFiles;
use crate::scan::threat::Category;
use crate::store::Store;
use crate::telemetry::metrics::Metrics;

/// The techniques that shipped frameworks name; that shipped packs show each is tested where both are read.
const SHOWN: [&str; 18] = [
    "AML.T0051",
    "AML.T0051.001",
    "AML.T0053",
    "AML.T0054",
    "AML.T0055",
    "AML.T0056",
    "AML.T0057",
    "AML.T0068",
    "AML.T0077",
    "AML.T0086",
    "AML.T0098",
    "AML.T0110",
    "LLM01:2025",
    "LLM02:2025",
    "LLM03:2025",
    "LLM05:2025",
    "LLM06:2025",
    "LLM07:2025",
];

/// What is done about so many detectors of a category, both ways.
fn covered(detectors: &[(&str, Action)]) -> CategoryFact {
    let mut coverage = Coverage::default();
    detectors.iter().for_each(|(name, action)| coverage.note(*action, name));
    CategoryFact { request: coverage.clone(), response: coverage.clone(), either: coverage }
}

/// What is done about so many detectors, one of them a rule, that are evidence of a technique.
fn shown_by(detectors: &[(&str, Action)]) -> TechniqueFact {
    TechniqueFact { coverage: covered(detectors).either, rules: vec!["r".to_owned()] }
}

/// A policy that does something about a detector of every category.
fn policy(action: Action) -> PolicyFact {
    let categories = Category::ALL.into_iter().map(|category| (category, covered(&[("d", action)])));
    let is_good = action == Action::Block;
    let (id, categories) = ("p".to_owned(), categories.collect());
    let techniques = SHOWN.into_iter().map(|technique| (technique.to_owned(), shown_by(&[("d", action)])));
    PolicyFact {
        id,
        categories,
        techniques: techniques.collect(),
        fails_closed: is_good,
        pins_tools: is_good,
    }
}

/// A deployment in which everything that can be told is as it should be.
fn good() -> Facts {
    let at: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
    let since: Timestamp = "2026-10-22T12:00:00Z".parse().unwrap();
    let key = |role| KeyFact {
        id: "k".to_owned(),
        role,
        used_at: since,
        text_since: since,
        expires_at: Some(at),
        has_budget: true,
    };
    let chain = ChainFact { at, entries: 9, until: Some(since), fault: None };
    Facts {
        at,
        since,
        node: "n1".to_owned(),
        policies: vec![policy(Action::Block)],
        routes: vec![RouteFact {
            name: "r".to_owned(),
            takes_keys: true,
            passes_upgrades: false,
            is_private: true,
        }],
        listeners: vec![ListenerFact {
            name: "proxy",
            has_tls: true,
            is_local: false,
            certificate_ends: Some("2027-11-21T12:00:00Z".parse().unwrap()),
        }],
        keys: vec![key(Role::Admin), key(Role::Service)],
        audit: AuditFact {
            is_writable: true,
            fails_closed: true,
            retention_days: None,
            retention_bytes: None,
            oldest_days: Some(9),
            entries: 9,
            completeness: Some(1.0),
            chain: Some(chain),
        },
        events: counted_types().map(|name| (name, 1)).collect(),
        findings: Category::ALL.into_iter().map(|category| (category.as_str(), 1)).collect(),
        tier: Tier::Professional,
        license_fault: None,
        is_rate_limited: true,
        availability: Some(1.0),
        is_persistent: true,
        revision: 1,
        proven: BTreeMap::from([("pack@1".to_owned(), 1)]),
        usage: (1, 1),
        sinks: vec![SinkFact {
            name: "soc".to_owned(),
            is_connected: Some(true),
            late: 0,
            dead: 0,
            missed: 0,
        }],
        agents: AgentsFact {
            routes: 1,
            known: Some(1),
            replay_window_s: 60,
            is_replay_shared: true,
            signed_timestamp: true,
            has_revocations: true,
            enforces_trust: true,
        },
        sign_in: SignInFact {
            provider: Some("id.example".to_owned()),
            default_role: None,
            users: Vec::new(),
            idle: Duration::from_secs(15 * 60),
            lifetime: Duration::from_secs(12 * 3600),
        },
    }
}

/// One in which nothing is there to be told.
fn empty() -> Facts {
    Facts {
        policies: Vec::new(),
        routes: Vec::new(),
        listeners: Vec::new(),
        keys: Vec::new(),
        events: BTreeMap::new(),
        findings: BTreeMap::new(),
        availability: None,
        usage: (0, 0),
        sinks: Vec::new(),
        agents: AgentsFact { routes: 0, ..good().agents },
        sign_in: SignInFact { provider: None, ..good().sign_in },
        audit: AuditFact { completeness: None, chain: None, ..good().audit },
        ..good()
    }
}

fn user(used_at: &str) -> UserFact {
    UserFact { id: "u".to_owned(), used_at: used_at.parse().unwrap() }
}

fn verdict(name: &str, facts: &Facts) -> Verdict {
    Check::named(name).unwrap().run(facts).verdict
}

#[test]
fn every_check_can_be_met_and_every_one_can_fail() {
    let mut bad = good();
    bad.policies = vec![policy(Action::Allow)];
    bad.routes[0] =
        RouteFact { name: "r".to_owned(), takes_keys: false, passes_upgrades: true, is_private: false };
    bad.listeners[0].has_tls = false;
    bad.listeners[0].certificate_ends = Some(bad.at);
    for key in &mut bad.keys {
        (key.role, key.expires_at, key.has_budget) = (Role::Admin, None, false);
        key.text_since = "2020-01-01T00:00:00Z".parse().unwrap();
        key.used_at = key.text_since;
    }
    bad.keys.push(KeyFact { role: Role::Service, ..bad.keys[0].clone() });
    bad.keys.extend(vec![bad.keys[0].clone(); 3]);
    bad.audit = AuditFact {
        is_writable: false,
        fails_closed: false,
        retention_days: Some(1),
        retention_bytes: Some(1),
        oldest_days: Some(0),
        entries: 0,
        completeness: Some(0.5),
        chain: Some(ChainFact {
            at: bad.at,
            entries: 1,
            until: None,
            fault: Some("it is broken".to_owned()),
        }),
    };
    bad.license_fault = Some("it is expired".to_owned());
    (bad.is_rate_limited, bad.availability, bad.is_persistent) = (false, Some(0.5), false);
    (bad.revision, bad.proven) = (0, BTreeMap::new());
    let sign_in = &mut bad.sign_in;
    (sign_in.default_role, sign_in.users) = (Some(Role::Auditor), vec![user("2026-11-20T12:00:00Z")]);
    sign_in.idle = Duration::from_secs(61 * 60);
    bad.sinks[0] =
        SinkFact { is_connected: Some(false), late: 1, dead: 1, missed: 1, ..bad.sinks[0].clone() };
    bad.agents = AgentsFact {
        known: None,
        replay_window_s: 0,
        signed_timestamp: false,
        has_revocations: false,
        enforces_trust: false,
        ..bad.agents
    };
    let names: BTreeSet<&str> = Check::ALL.iter().map(|check| check.name).collect();
    assert_eq!(names.len(), Check::ALL.len(), "names are unique");
    // What was not recorded may not have happened: that is never a failure.
    let never = |name: &str| name.ends_with("_recorded") || name == "usage_metered";
    for check in Check::ALL {
        assert_eq!(check.run(&good()).verdict, Verdict::Met, "{}", check.name);
        if check.name == "record_forwarded" {
            assert_eq!(check.run(&empty()).verdict, Verdict::Unmet);
        } else if !never(check.name) {
            assert_eq!(check.run(&bad).verdict, Verdict::Unmet, "{}", check.name);
        }
        let links = check.run(&empty()).links;
        assert!(!links.is_empty() && links.iter().all(|it| it.starts_with("/api/v1/")), "{}", check.name);
    }
}

#[test]
fn what_cannot_be_told_is_not_assessed() {
    for name in ["keys_expire", "certificates_valid", "audit_chain_intact", "audit_complete", "available"] {
        assert_eq!(verdict(name, &empty()), Verdict::Unknown, "{name}");
    }
    let of_parties =
        ["record_delivered", "record_delivered_in_time", "record_delivered_whole", "agents_known"];
    let of_agents = ["agents_not_replayed", "agents_revocable", "agents_trust_enforced"];
    for name in of_parties.into_iter().chain(of_agents).chain(["sign_in_central", "roles_mapped"]) {
        assert_eq!(verdict(name, &empty()), Verdict::Unknown, "{name}");
    }
    let idle = vec![SinkFact { is_connected: None, ..good().sinks[0].clone() }];
    assert_eq!(verdict("record_delivered", &Facts { sinks: idle, ..good() }), Verdict::Unknown);
    assert_eq!(verdict("exchanges_recorded", &empty()), Verdict::Unknown);
    assert_eq!(verdict("secrets_found", &empty()), Verdict::Unmet);
}

#[tokio::test]
async fn facts_are_gathered_once_a_second_however_many_ask() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new("2026-11-21T12:00:00Z".parse().unwrap()));
    let settings = AuditConfig { reserve_bytes: 4096, ..AuditConfig::at(folder.path().to_owned()) };
    let metrics = Arc::new(Metrics::new("0", "0"));
    let opened = audit::open(settings, Store::in_memory(), clock.clone(), metrics).unwrap();
    let desk = Desk::new(BTreeMap::new(), opened.log, clock.clone());
    let gathered = AtomicUsize::new(0);
    let ask = || {
        desk.facts(async {
            gathered.fetch_add(1, Ordering::Relaxed);
            // Long enough for everybody to come.
            tokio::task::yield_now().await;
            Ok::<_, &str>(good())
        })
    };
    for (waited, expected) in
        [(Duration::ZERO, 1), (Duration::from_millis(999), 1), (Duration::from_millis(1), 2)]
    {
        clock.advance(waited);
        let told = join_all((0..100).map(|_| ask())).await;
        assert!(told.iter().all(Result::is_ok));
        assert_eq!(gathered.load(Ordering::Relaxed), expected, "{waited:?} later");
    }
    // What could not be gathered is asked for again at once.
    clock.advance(Duration::from_secs(1));
    assert_eq!(desk.facts(async { Err("away") }).await.err(), Some("away"));
    assert!(ask().await.is_ok());
    assert_eq!(gathered.load(Ordering::Relaxed), 3);
}

#[test]
fn a_score_counts_only_what_was_assessed_and_met() {
    let text = "[framework]\nid = \"f\"\nname = \"n\"\nversion = \"1\"\nsource = \"s\"\n\
        [[control]]\nid = \"1\"\ntitle = \"t\"\nchecks = [\"keys_expire\"]\n\
        [[control]]\nid = \"2\"\ntitle = \"t\"\nchecks = [\"audit_writable\", \"available\"]\n\
        [[control]]\nid = \"3\"\ntitle = \"t\"\n\
        [[control]]\nid = \"4\"\ntitle = \"t\"\nchecks = [\"available\"]\n";
    let files = PluginFiles::from([("frameworks/f.toml".to_owned(), text.into())]);
    let framework = framework::read(&files).unwrap().remove("f").unwrap();
    let report = |facts: &Facts| Report::of(&framework, facts);
    let statuses = |report: &Report| report.controls.iter().map(|it| it.status).collect::<Vec<_>>();
    let whole = report(&good());
    assert_eq!(statuses(&whole), [Status::Pass, Status::Pass, Status::NotAssessed, Status::Pass]);
    assert_eq!((whole.score, whole.coverage, whole.status()), (100.0, 75.0, Status::Pass));
    let mut lax = good();
    lax.keys[0].expires_at = None;
    lax.availability = None;
    let lax = report(&lax);
    assert_eq!(statuses(&lax), [Status::Fail, Status::Partial, Status::NotAssessed, Status::NotAssessed]);
    assert_eq!((lax.score, lax.coverage, lax.status()), (0.0, 50.0, Status::Fail));
    let nothing = report(&Facts { audit: AuditFact { is_writable: true, ..empty().audit }, ..empty() });
    assert_eq!((nothing.score, nothing.status()), (0.0, Status::Partial));
}

/// The check that a control which names techniques is judged by.
fn named_techniques(control: &framework::Control) -> Option<&'static str> {
    (!control.techniques.is_empty()).then_some(TECHNIQUES)
}

#[test]
fn every_shipped_framework_is_sound_and_most_checks_are_used() {
    let frameworks =
        framework::read(&pack::builtin_frameworks()).unwrap_or_else(|faults| panic!("{faults:#?}"));
    let ids: Vec<&str> = frameworks.keys().map(String::as_str).collect();
    let expected =
        ["eu_ai_act", "hipaa", "iso_27001", "mitre_atlas", "nist_ai_rmf", "owasp_llm", "pci_dss", "soc2"];
    assert_eq!(ids, expected);
    let used: BTreeSet<&str> = frameworks
        .values()
        .flat_map(|it| &it.controls)
        .flat_map(|it| it.checks.iter().map(|check| check.name).chain(named_techniques(it)))
        .collect();
    let unused: Vec<&str> =
        Check::ALL.iter().map(|check| check.name).filter(|name| !used.contains(name)).collect();
    assert!(unused.is_empty(), "no framework asks: {unused:?}");
    for framework in frameworks.values() {
        let report = Report::of(framework, &good());
        assert_eq!(report.count(Status::Fail), 0, "{}", framework.id);
        assert!(report.count(Status::Pass) > 5, "{}", framework.id);
    }
}

#[test]
fn a_log_that_is_cut_to_a_size_shows_by_its_oldest_entry_how_long_it_is_kept() {
    let kept = |retention_days, retention_bytes, oldest_days| {
        let audit = AuditFact { retention_days, retention_bytes, oldest_days, ..good().audit };
        verdict("audit_kept_90_days", &Facts { audit, ..good() })
    };
    for (days, bytes, oldest, expected) in [
        (Some(365), None, None, Verdict::Met),
        (Some(365), Some(1 << 30), Some(90), Verdict::Met),
        (Some(365), Some(1 << 30), Some(89), Verdict::Unknown),
        (None, Some(1 << 30), None, Verdict::Unknown),
        (Some(89), Some(1 << 30), Some(400), Verdict::Unmet),
    ] {
        assert_eq!(kept(days, bytes, oldest), expected, "{days:?} {bytes:?} {oldest:?}");
    }
}

#[test]
fn a_category_is_stopped_where_each_of_its_detectors_is() {
    let seen = |name: &str, category, detectors: &[(&str, Action)]| {
        let mut facts = good();
        facts.policies[0].categories.insert(category, covered(detectors));
        Check::named(name).unwrap().run(&facts)
    };
    let (pii, injection) = (Category::Pii, Category::Injection);
    let (iban, email) = (("iban", Action::Redact), ("email", Action::Monitor));
    for (name, category, detectors, expected) in [
        ("pii_stopped", pii, vec![iban, ("card", Action::Block)], Verdict::Met),
        ("pii_stopped", pii, vec![iban, email], Verdict::Partial),
        ("pii_stopped", pii, vec![iban, ("email", Action::Allow)], Verdict::Partial),
        ("pii_stopped", pii, vec![email], Verdict::Unmet),
        ("pii_stopped", pii, vec![], Verdict::Unmet),
        ("pii_stopped_in_answers", pii, vec![iban, email], Verdict::Partial),
        // What is injected is not taken out, but refused.
        ("injection_stopped", injection, vec![("override", Action::Redact)], Verdict::Unmet),
        ("pii_found", pii, vec![iban, email], Verdict::Met),
        ("pii_found", pii, vec![iban, ("email", Action::Allow)], Verdict::Partial),
        ("pii_found", pii, vec![("email", Action::Allow)], Verdict::Unmet),
    ] {
        assert_eq!(seen(name, category, &detectors).verdict, expected, "{name} {detectors:?}");
    }
    let names: Vec<String> = (0..7).map(|number| format!("d{number}")).collect();
    let mut many: Vec<(&str, Action)> = names.iter().map(|name| (name.as_str(), Action::Allow)).collect();
    many.extend([iban, email]);
    let told = seen("pii_stopped", pii, &many);
    let gap = "8 of 9 detectors of pii are not stopped (email, d0, d1, d2, d3, …)";
    assert_eq!(told.seen, format!("0 of 1 policies stop all of pii there; p: {gap}"));
    assert_eq!(told.items, [Item { name: "p".to_owned(), is_good: false, seen: gap.to_owned() }]);
    // One policy that stops nothing is not made good by another.
    let both = Facts { policies: vec![policy(Action::Block), policy(Action::Monitor)], ..good() };
    assert_eq!(verdict("pii_stopped", &both), Verdict::Unmet);
}

#[test]
fn what_is_met_in_part_neither_passes_nor_fails() {
    let text = "[framework]\nid = \"f\"\nname = \"n\"\nversion = \"1\"\nsource = \"s\"\n\
        [[control]]\nid = \"1\"\ntitle = \"t\"\nchecks = [\"pii_stopped\", \"audit_writable\"]\n";
    let files = PluginFiles::from([("frameworks/f.toml".to_owned(), text.into())]);
    let framework = framework::read(&files).unwrap().remove("f").unwrap();
    let mut facts = good();
    let part = covered(&[("iban", Action::Redact), ("email", Action::Monitor)]);
    facts.policies[0].categories.insert(Category::Pii, part);
    let report = Report::of(&framework, &facts);
    assert_eq!((report.status(), report.score, report.coverage), (Status::Partial, 0.0, 100.0));
    facts.audit.is_writable = false;
    assert_eq!(Report::of(&framework, &facts).status(), Status::Fail);
}

#[test]
fn every_type_of_event_counts_and_has_its_query() {
    let events = BTreeMap::from([("key_revoked", 2), ("key_rotated", 1), ("config_rolled_back", 4)]);
    let facts = Facts { events, ..good() };
    let run = |name: &str| Check::named(name).unwrap().run(&facts);
    let period = "from=2026-10-22T12:00:00Z&to=2026-11-21T12:00:00Z";
    let call = |name: &str| format!("/api/v1/audit?event_type={name}&{period}");
    let keys = run("key_changes_recorded");
    assert_eq!((keys.figure, keys.links), (Some(3.0), vec![call("key_rotated"), call("key_revoked")]));
    assert_eq!(run("changes_recorded").figure, Some(4.0));
    let none = run("exchanges_recorded");
    let calls = ["exchange", "a2a_granted", "a2a_denied"].map(call);
    assert_eq!((none.verdict, none.links), (Verdict::Unknown, calls.to_vec()));
}

#[test]
fn the_chain_is_shown_as_it_was_when_it_was_verified() {
    let told = Check::named("audit_chain_intact").unwrap().run(&good());
    let link = "/api/v1/audit?limit=1&node=n1&to=2026-10-22T12:00:00Z";
    assert_eq!((told.figure, told.links), (Some(9.0), vec![link.to_owned()]));
    let mut facts = good();
    facts.audit.chain.as_mut().unwrap().entries = 0;
    assert_eq!(verdict("audit_chain_intact", &facts), Verdict::Unknown, "nothing is no proof");
}

#[test]
fn entries_that_a_platform_missed_were_not_delivered() {
    let missed = vec![SinkFact { missed: 1, ..good().sinks[0].clone() }];
    assert_eq!(verdict("record_delivered_whole", &Facts { sinks: missed, ..good() }), Verdict::Unmet);
}

#[test]
fn access_that_nobody_used_for_long_is_named() {
    let mut facts = good();
    facts.sign_in.users = vec![user("2026-08-23T12:00:00Z")];
    assert_eq!(verdict("access_in_use", &facts), Verdict::Met);
    facts.sign_in.users = vec![user("2026-08-23T11:59:59Z")];
    let told = Check::named("access_in_use").unwrap().run(&facts);
    assert_eq!((told.verdict, told.figure), (Verdict::Unmet, Some(2.0)));
    assert_eq!((told.items[0].name.as_str(), told.items[0].is_good, told.items_total), ("user u", false, 3));
    assert_eq!(told.links, ["/api/v1/compliance/evidence?check=access_in_use"]);
    facts.keys[0].used_at = "2026-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(Check::named("access_in_use").unwrap().run(&facts).figure, Some(1.0));
    let nobody = Facts { keys: Vec::new(), ..good() };
    assert_eq!(verdict("access_in_use", &nobody), Verdict::Unknown);
}

#[test]
fn a_control_stands_on_whatever_shows_the_techniques_it_names() {
    let text = "[framework]\nid = \"f\"\nname = \"n\"\nversion = \"1\"\nsource = \"s\"\n\
        [[control]]\nid = \"1\"\ntitle = \"t\"\ntechniques = [\"AML.T0051\", \"AML.T0110\"]\n";
    let files = PluginFiles::from([("frameworks/f.toml".to_owned(), text.into())]);
    let framework = framework::read(&files).unwrap().remove("f").unwrap();
    let (on, off) = (("found", Action::Monitor), ("missed", Action::Allow));
    let shows_nothing: &[(&str, Action)] = &[];
    for (detectors, expected, told) in [
        (&[on, on][..], Status::Pass, "every policy looks for all 2 detectors and rules; rules: r"),
        (&[on, off], Status::Partial, "p does not look for 1 of 2 (missed); rules: r"),
        (&[off], Status::Fail, "p does not look for 1 of 1 (missed); rules: r"),
        (shows_nothing, Status::Fail, "no detector and no rule is evidence of it"),
    ] {
        // The second policy looks for everything; the first one is what counts.
        let mut facts = good();
        facts.policies.push(PolicyFact { id: "q".to_owned(), ..policy(Action::Block) });
        facts.policies[0].techniques.insert("AML.T0110".to_owned(), shown_by(detectors));
        let control = Report::of(&framework, &facts).controls.remove(0);
        let evidence = &control.evidence[0];
        assert_eq!((control.status, evidence.check), (expected, TECHNIQUES), "{told}");
        let item = evidence.items.iter().find(|item| item.name == "AML.T0110").unwrap();
        assert_eq!(item.seen, told);
        let link = "/api/v1/compliance/evidence?check=techniques_looked_for&techniques=AML.T0051,AML.T0110";
        assert_eq!(evidence.links, [link]);
    }
}
