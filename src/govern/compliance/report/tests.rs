use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::access::role::Role;
use crate::access::tier::Tier;
use crate::govern::compliance::check::Check;
use crate::govern::compliance::facts::AgentsFact;
use crate::govern::compliance::facts::AuditFact;
use crate::govern::compliance::facts::ChainFact;
use crate::govern::compliance::facts::KeyFact;
use crate::govern::compliance::facts::ListenerFact;
use crate::govern::compliance::facts::PolicyFact;
use crate::govern::compliance::facts::RouteFact;
use crate::govern::compliance::facts::SignInFact;
use crate::govern::compliance::facts::SinkFact;
use crate::govern::compliance::framework;
use crate::policy::decision::Mode;
use crate::scan::pack;
use crate::scan::threat::Category;

/// A deployment in which everything that can be told is as it should be.
fn good() -> Facts {
    let at: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
    let since: Timestamp = "2026-10-22T12:00:00Z".parse().unwrap();
    let modes = Category::ALL.into_iter().map(|category| (category, (Mode::Block, Mode::Block))).collect();
    let key = |role| KeyFact { role, text_since: since, expires_at: Some(at), has_budget: true };
    let chain = ChainFact { at, entries: 9, fault: None };
    Facts {
        at,
        since,
        policies: vec![PolicyFact { id: "p".to_owned(), modes, fails_closed: true, pins_tools: true }],
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
        events: ["access_denied", "key_created", "config_changed", "login", "exchange", "entity_erased"]
            .into_iter()
            .chain(["entity_exported", "hold_created"])
            .map(|name| (name, 1))
            .collect(),
        findings: Category::ALL.into_iter().map(|category| (category.as_str(), 1)).collect(),
        tier: Tier::Professional,
        license_fault: None,
        is_rate_limited: true,
        availability: Some(1.0),
        is_persistent: true,
        revision: 1,
        proven: 1,
        usage: (1, 1),
        sinks: vec![SinkFact { name: "soc".to_owned(), is_connected: Some(true), late: 0, dead: 0 }],
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
            local_users: 0,
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

fn verdict(name: &str, facts: &Facts) -> Verdict {
    Check::named(name).unwrap().run(facts).verdict
}

#[test]
fn every_check_can_be_met_and_every_one_can_fail() {
    let mut bad = good();
    let policy = &mut bad.policies[0];
    policy.modes.values_mut().for_each(|modes| *modes = (Mode::Off, Mode::Off));
    (policy.fails_closed, policy.pins_tools) = (false, false);
    bad.routes[0] =
        RouteFact { name: "r".to_owned(), takes_keys: false, passes_upgrades: true, is_private: false };
    bad.listeners[0].has_tls = false;
    bad.listeners[0].certificate_ends = Some(bad.at);
    for key in &mut bad.keys {
        (key.role, key.expires_at, key.has_budget) = (Role::Admin, None, false);
        key.text_since = "2020-01-01T00:00:00Z".parse().unwrap();
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
        chain: Some(ChainFact { at: bad.at, entries: 1, fault: Some("it is broken".to_owned()) }),
    };
    bad.license_fault = Some("it is expired".to_owned());
    (bad.is_rate_limited, bad.availability, bad.is_persistent) = (false, Some(0.5), false);
    (bad.revision, bad.proven) = (0, 0);
    let sign_in = &mut bad.sign_in;
    (sign_in.default_role, sign_in.local_users) = (Some(Role::Auditor), 1);
    sign_in.idle = Duration::from_secs(61 * 60);
    bad.sinks[0] = SinkFact { is_connected: Some(false), late: 1, dead: 1, ..bad.sinks[0].clone() };
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
        assert!(check.run(&empty()).link.starts_with("/api/v1/"), "{}", check.name);
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

#[test]
fn a_score_counts_only_what_was_assessed_and_met() {
    let text = "[framework]\nid = \"f\"\nname = \"n\"\nversion = \"1\"\nsource = \"s\"\n\
        [[control]]\nid = \"1\"\ntitle = \"t\"\nchecks = [\"keys_expire\"]\n\
        [[control]]\nid = \"2\"\ntitle = \"t\"\nchecks = [\"audit_writable\", \"available\"]\n\
        [[control]]\nid = \"3\"\ntitle = \"t\"\n\
        [[control]]\nid = \"4\"\ntitle = \"t\"\nchecks = [\"available\"]\n";
    let files = BTreeMap::from([("frameworks/f.toml".to_owned(), text.to_owned())]);
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
        .flat_map(|it| &it.checks)
        .map(|check| check.name)
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
