//! Defaults, layers, the environment, and every class of fault with its line.

use std::fs;
use std::path::PathBuf;

use super::file::POLICIES;
use super::*;
use crate::policy::decision::Mode;
use crate::scan::threat::Category;
use crate::scan::threat::Confidence;

fn of_file(text: &str) -> (tempfile::TempDir, Sources) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.toml");
    fs::write(&file, text).unwrap();
    (folder, Sources { file: Some(file), ..Sources::default() })
}

fn environment(pairs: &[(&str, &str)]) -> Environment {
    Environment::of(pairs.iter().map(|(name, value)| (format!("PORTCULLIS__{name}"), (*value).to_owned())))
}

/// Returns `line key: problem` of each fault, the line empty where it is not in the operator's file.
fn complaints(text: &str) -> Vec<String> {
    let (_folder, sources) = of_file(text);
    let file = sources.file.clone().unwrap().display().to_string();
    let faults = sources.load().expect_err("the file is faulty");
    let complaint = |fault: &ConfigFault| {
        let here = fault.place.as_ref().filter(|place| *place.source == *file);
        let line = here.and_then(|place| place.line).map(|line| line.to_string());
        format!("{} {}: {}", line.unwrap_or_default(), fault.key, fault.problem)
    };
    faults.iter().map(complaint).collect()
}

#[test]
fn no_file_is_a_working_gateway() {
    let config = Sources::default().load().unwrap();
    assert_eq!(config.proxy.listen, ["127.0.0.1:8080".parse().unwrap()]);
    assert_eq!(config.admin.listen, ["127.0.0.1:9090".parse().unwrap()]);
    assert_eq!(config.rules.limits.max_inspect_bytes, 10 << 20);
    let policies: Vec<&str> = config.rules.policies.keys().map(|id| id.as_str()).collect();
    assert_eq!(policies, ["default", "monitor", "strict"]);
    let routed = |path| crate::policy::ruleset::closest_route(&config.rules.routes, None, path);
    let cases = [
        ("/v1/chat/completions", "openai"),
        ("/v1/messages", "anthropic"),
        ("/v1beta/models/x:generateContent", "gemini"),
        ("/api/chat", "ollama"),
        ("/openai/v1/models", "openai-prefixed"),
    ];
    for (path, name) in cases {
        assert_eq!(routed(path).map(|route| route.name.as_str()), Some(name), "{path}");
    }
    assert!(routed("/").is_none());
}

#[test]
fn both_planes_listen_apart() {
    let taken = |proxy: &str, admin: &str| {
        let text = format!("[proxy]\nlisten = \"{proxy}\"\n[admin]\nlisten = \"{admin}\"\n");
        let (_folder, sources) = of_file(&text);
        sources.load().err().map(|faults| faults.iter().map(|fault| fault.key.clone()).collect::<Vec<_>>())
    };
    for (proxy, admin) in [
        ("127.0.0.1:9090", "127.0.0.1:9090"),
        ("0.0.0.0:9090", "127.0.0.1:9090"),
        ("[::1]:9090", "[::]:9090"),
    ] {
        assert_eq!(taken(proxy, admin), Some(vec!["admin.listen".to_owned()]), "{proxy} {admin}");
    }
    for (proxy, admin) in [
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("127.0.0.1:9090", "127.0.0.2:9090"),
        ("127.0.0.1:9090", "[::1]:9090"),
    ] {
        assert_eq!(taken(proxy, admin), None, "{proxy} {admin}");
    }
}

#[test]
fn a_file_lies_over_the_defaults_and_mode_begins_afresh() {
    let text = "[policies.default.categories.secrets]\nmode = \"monitor\"\n\
                [policies.default.categories.pii]\nmode = \"block\"\n[limits]\nscan_ms = 7\n";
    let (folder, sources) = of_file(text);
    fs::create_dir(folder.path().join("policies")).unwrap();
    fs::write(folder.path().join("policies/own.toml"), "fail_mode = \"open\"\n").unwrap();
    fs::write(folder.path().join("policies/notes.txt"), "not a policy").unwrap();
    let config = sources.load().unwrap();
    assert_eq!((config.rules.limits.scan_ms, config.rules.limits.json_depth_max), (7, 64));
    let policy = &config.rules.policies["default"];
    let secrets = policy.category(Category::Secrets);
    assert_eq!((secrets.request, secrets.response), (Mode::Monitor, Mode::Monitor));
    assert_eq!(secrets.threshold, Confidence::MEDIUM);
    assert_eq!(policy.category(Category::Pii).only, None, "a category written anew covers all of it");
    assert_eq!(policy.category(Category::Injection).request, Mode::Block);
    assert!(config.rules.policies.contains_key("own"));
}

#[test]
fn what_lies_in_the_folder_of_policies_and_is_none_is_left_alone_or_told() {
    let (folder, sources) = of_file("");
    let policies = folder.path().join("policies");
    fs::create_dir(&policies).unwrap();
    fs::write(policies.join(".own.toml"), "no = policy").unwrap();
    std::os::unix::fs::symlink("somebody@somewhere.1", policies.join(".#default.toml")).unwrap();
    assert_eq!(sources.load().unwrap().rules.policies.len(), POLICIES.len());
    // Whoever opened it would wait for good.
    let (pipe, owner) = (policies.join("pipe.toml"), rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, owner, 0).unwrap();
    let faults = sources.load().unwrap_err();
    let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(told, [format!("{}: is no regular file", pipe.display())]);
}

#[test]
fn of_what_is_no_table_nothing_is_missing() {
    let document = file::defaults();
    let tables = document.root().iter().filter(|(key, value)| value.is_object() && *key != "policies");
    for (key, _) in tables {
        assert_eq!(complaints(&format!("{key} = \"x\"\n")), [format!("1 {key}: expected a table")]);
    }
    let nested = "[proxy]\ntimeouts = 3\n[limits]\ntiers = 3\n";
    let expected = ["2 proxy.timeouts: expected a table", "4 limits.tiers: expected a table"];
    assert_eq!(complaints(nested), expected);
    let (_folder, sources) = of_file("limits = 3\n");
    let missing = ConfigFault { place: None, key: "limits.scan_ms".to_owned(), problem: Problem::Missing };
    assert_eq!(sources.check(|_| vec![missing]).unwrap_err().len(), 1, "nor does building miss anything");
}

#[test]
fn every_fault_class_has_its_line() {
    let text = r#"prox = 1
[proxy]
listen = ["127.0.0.1:99999", "127.0.0.1:1"]
max_conections = 1
max_headers = 0
[proxy.tls]
cert = "a.pem"
[admin]
also_on_proxy = "yes"
token = "x"
[audit]
durability = "sometimes"
[[routes]]
name = "a"
upstream = "https://u:p@example.com"
policy = "defualt"
[[routes]]
name = "a"
path_prefix = "/"
upstream = []
auth = "a2b"
dialect = "openia"
[[routes]]
path_prefix = "/../x"
upstream = "http://h"
timeouts = { upstream_idle_ms = 0 }
[policies.default]
fail_mode = "ajar"
shadow = "nobody"
[policies.default.categories.secret]
mode = "block"
[policies.default.categories.pii]
mode = 3
[[policies.default.allow]]
value = "x"
regex = "y"
[[policies.default.allow]]
regex = "("
expires = "soon"
[limits.tiers.gold]
requests_per_minute = 1
burst = 1
"#;
    let expected = [
        "1 prox: unknown key; did you mean `proxy`?",
        "3 proxy.listen: expected addresses like 127.0.0.1:8080 or [::]:8080",
        "4 proxy.max_conections: unknown key; did you mean `max_connections`?",
        "5 proxy.max_headers: expected a number from 8 to 256",
        "6 proxy.tls.key: missing",
        "9 admin.also_on_proxy: expected true or false",
        "10 admin.token: a secret does not belong here; name where it lies with `token_file` or `token_env`",
        "12 audit.durability: expected one of wait, buffer",
        "15 routes[0].upstream: a URL must not carry credentials",
        "16 routes[0].policy: there is no such policy; did you mean `default`?",
        "18 routes[1].name: already taken by routes[0]",
        "19 routes[1].path_prefix: already taken by routes[0]",
        "20 routes[1].upstream: expected 1 to 64 URLs",
        "21 routes[1].auth: expected `transparent`, `gateway_key` or `a2a`; did you mean `a2a`?",
        "22 routes[1].dialect: expected one of auto, openai, anthropic, gemini, bedrock, cohere, ollama, a2a, mcp, generic",
        "23 routes[2].name: missing",
        "24 routes[2].path_prefix: expected a path like /v1, without escapes, '.' and '..'",
        "26 routes[2].timeouts.upstream_idle_ms: expected a number from 1 to 3600000",
        "28 policies.default.fail_mode: expected one of closed, open",
        "29 policies.default.shadow: there is no such policy",
        "30 policies.default.categories.secret: there is no such category; did you mean `secrets`?",
        "33 policies.default.categories.pii.mode: expected a text",
        "34 policies.default.allow[0]: expected exactly one of value, sha256, regex and caller",
        "38 policies.default.allow[1].regex: not a regular expression, or too large a one",
        "39 policies.default.allow[1].expires: expected a date (2027-01-31) or a moment (2027-01-31T12:00:00Z)",
        "40 limits.tiers.gold: there is no such tier",
    ];
    assert_eq!(complaints(text), expected);
}

#[test]
fn syntax_errors_and_unreadable_files_are_faults_with_a_place() {
    let found = complaints("[proxy]\nlisten = = 1\n");
    assert!(found[0].starts_with("2 : "), "{found:?}");
    let found = complaints("a = 1\na = 2\n");
    assert!(found[0].starts_with("2 : ") && found[0].contains("duplicate"), "{found:?}");
    let sources = Sources { file: Some(PathBuf::from("no/such/file.toml")), ..Sources::default() };
    let faults = sources.load().unwrap_err();
    assert_eq!(faults[0].to_string(), "no/such/file.toml: cannot be read: there is no such file");
}

#[test]
fn faults_of_files_come_together() {
    let (folder, sources) = of_file("[proxy]\nlisten = = 1\n");
    fs::create_dir(folder.path().join("policies")).unwrap();
    fs::write(folder.path().join("policies/own.toml"), "fail_mode\n").unwrap();
    let sources = Sources { environment: environment(&[("__X", "1")]), ..sources };
    let faults = sources.load().unwrap_err();
    let named: std::collections::BTreeSet<&str> =
        faults.iter().filter_map(|fault| fault.place.as_ref()).map(|place| &*place.source).collect();
    assert_eq!(named.len(), 3, "{faults:?}");
}

#[test]
fn the_environment_is_over_every_file() {
    let (_folder, sources) = of_file("[proxy]\nlisten = \"127.0.0.1:1\"\n[audit]\nqueue = 5\n");
    let pairs = [
        ("PROXY__LISTEN", "127.0.0.1:2"),
        ("AUDIT__QUEUE", "17"),
        ("ADMIN__ALSO_ON_PROXY", "true"),
        ("ADMIN__LISTEN", "[\"127.0.0.1:3\", \"[::1]:3\"]"),
        ("ROUTES__OPENAI__UPSTREAM", "http://127.0.0.1:4"),
        ("ROUTES__OPENAI_PREFIXED__UPSTREAM", "http://127.0.0.1:5"),
        ("ROUTES__1__WEBSOCKET", "true"),
        ("POLICIES__DEFAULT__CATEGORIES__SECRETS__REQUEST", "monitor"),
        ("LIMITS__TIERS__COMMUNITY__BURST", "3"),
        ("PROXY__THREADS", "2"),
    ];
    let config = Sources { environment: environment(&pairs), ..sources }.load().unwrap();
    assert_eq!(config.proxy.listen, ["127.0.0.1:2".parse().unwrap()]);
    assert_eq!((config.audit.queue, config.admin.also_on_proxy), (17, true));
    assert_eq!((config.admin.listen.len(), config.proxy.threads), (2, Some(2)));
    let route = |name: &str| config.rules.routes.iter().find(|route| route.name == name).unwrap();
    assert_eq!(route("openai").upstreams[0].port, 4);
    assert_eq!(route("openai-prefixed").upstreams[0].port, 5);
    assert!(route("anthropic").websocket && !route("gemini").websocket);
    let secrets = config.rules.policies["default"].category(Category::Secrets);
    assert_eq!((secrets.request, secrets.response), (Mode::Monitor, Mode::Redact));
    let community = config.rules.limits.tiers.iter().find(|tier| tier.tier == "community").unwrap();
    assert_eq!((community.requests_per_minute, community.burst), (Some(60), Some(3)));
}

#[test]
fn what_routes_sign_needs_credentials_and_callers_who_are_known() {
    let route = "[[routes]]\nname = \"a\"\npath_prefix = \"/a\"\nupstream = \"http://127.0.0.1:1\"\n";
    let cases = [
        ("aws_region = \"eu-west-1\"\n", "aws_region: what is signed"),
        ("auth = \"gateway_key\"\naws_region = \"eu-west-1\"\n", "aws_region: what is signed"),
        ("aws_service = \"bedrock\"\n", "aws_service: needs an aws_region"),
        (
            "auth = \"gateway_key\"\nprovider_key_env = \"A\"\naws_region = \"EU\"\n",
            "aws_region: expected small letters",
        ),
        (
            "auth = \"gateway_key\"\nprovider_key_env = \"A\"\naws_region = \"r\"\nwebsocket = true\n",
            "websocket: requests are signed one by one",
        ),
    ];
    for (more, expected) in cases {
        let found = complaints(&format!("{route}{more}"));
        assert!(found.iter().any(|fault| fault.contains(expected)), "{more}: {found:?}");
    }
}

#[test]
fn variables_that_fit_nothing_are_faults() {
    let cases = [
        (
            "PROXY__LISTN",
            "127.0.0.1:2",
            "PORTCULLIS__PROXY__LISTN: proxy.listn: unknown key; did you mean `listen`?",
        ),
        ("ROUTES__NOBODY__NAME", "x", "PORTCULLIS__ROUTES__NOBODY__NAME: there is no such member"),
        ("STORE__PATH__X", "x", "PORTCULLIS__STORE__PATH__X: expected the name of a key inside a table"),
        ("AUDIT__QUEUE", "many", "PORTCULLIS__AUDIT__QUEUE: audit.queue: expected a whole number"),
    ];
    for (name, value, expected) in cases {
        let sources = Sources { environment: environment(&[(name, value)]), ..Sources::default() };
        let faults = sources.load().unwrap_err();
        assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    }
    assert!(!format!("{:?}", environment(&[("A__B", "secret-value")])).contains("secret-value"));
}

#[test]
fn certificates_are_tried_before_they_are_needed() {
    let (folder, sources) = of_file("");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let cert = write("cert.pem", made.cert.pem());
    let key = write("key.pem", made.signing_key.serialize_pem());
    let wrong = write("wrong.pem", other.signing_key.serialize_pem());
    let text = |cert: &str, key: &str| format!("[proxy.tls]\ncert = \"{cert}\"\nkey = \"{key}\"\n");
    let check = |text: String| {
        fs::write(sources.file.as_ref().unwrap(), text).unwrap();
        let checked = sources.check(|_| Vec::new());
        checked
            .map(|_| ())
            .map_err(|faults| faults.iter().map(|f| (f.line(), f.key.clone())).collect::<Vec<_>>())
    };
    assert_eq!(check(text(&cert, &key)), Ok(()));
    assert_eq!(check(text(&cert, &wrong)), Err(vec![(Some(3), "proxy.tls.key".to_owned())]));
    assert_eq!(check(text("none.pem", &key)), Err(vec![(Some(2), "proxy.tls.cert".to_owned())]));
    let both = ["cert", "key"].map(|part| format!("proxy.tls.{part}"));
    assert_eq!(check(text("none.pem", "none.pem")), Err([2, 3].map(Some).into_iter().zip(both).collect()));
    assert_eq!(check(text(&key, &key)), Err(vec![(Some(2), "proxy.tls.cert".to_owned())]));
    let route = format!("[[routes]]\nname = \"a\"\nupstream = \"https://h\"\nupstream_ca_file = \"{key}\"\n");
    assert_eq!(check(route), Err(vec![(Some(4), "routes[0].upstream_ca_file".to_owned())]));
}

#[test]
fn what_the_caller_builds_is_part_of_the_check() {
    let fault = ConfigFault { place: None, key: "plugins".to_owned(), problem: Problem::Missing };
    let checked = Sources::default().check(|_| vec![fault.clone()]);
    assert_eq!(checked.unwrap_err(), [fault]);
}

#[test]
fn who_may_sign_in_is_read_or_every_fault_told() {
    let text = r#"
[admin]
public_url = "https://gate.example/"
[sso.oidc]
issuer = "https://id.example"
client_id = "gate"
client_secret_file = "secret"
role_map = { "the admins" = "admin", staff = "analyst" }
"#;
    let (_folder, sources) = of_file(text);
    let Some(SsoConfig::Oidc(oidc)) = sources.load().unwrap().sso else { panic!("no provider") };
    assert_eq!(oidc.redirect_url.as_str(), "https://gate.example/auth/callback");
    assert_eq!(oidc.signed_out_url.as_deref(), Some("https://gate.example/login"));
    assert_eq!(oidc.mapping.role_map.len(), 2);
    assert!(Sources::default().load().unwrap().sso.is_none());

    let faulty = r#"
[admin]
public_url = "http://gate.example"
[session]
idle_minutes = 0
[sso.oidc]
issuer = "http://id.example"
client_secret = "x"
client_secret_file = "a"
client_secret_env = "B"
redirect_url = "https://gate.example/#x"
default_role = "root"
scopes = ["email"]
[sso.oidc.role_map]
staff = "boss"
crowd = 7
[sso.saml]
metadata_file = "idp.xml"
key_file = "key.pem"
name_attribute = 7
"#;
    let expected = [
        "3 admin.public_url: expected https; http is taken for this machine alone",
        "5 session.idle_minutes: expected a number from 1 to 10080",
        "7 sso.oidc.issuer: expected https; http is taken for this machine alone",
        "8 sso.oidc.client_secret: a secret does not belong here; name where it lies with `client_secret_file` or `client_secret_env`",
        "10 sso.oidc.client_secret_env: expected this or `client_secret_file`, not both",
        "11 sso.oidc.redirect_url: expected an address like https://host.example",
        "12 sso.oidc.default_role: expected one of admin, operator, auditor, analyst, service, agent",
        "13 sso.oidc.scopes: expected `openid` among them",
        "15 sso.oidc.role_map.staff: expected one of admin, operator, auditor, analyst, service, agent",
        "16 sso.oidc.role_map.crowd: expected a text",
        "18 sso.saml.metadata_file: expected `public_url` in [admin] with it: where browsers are sent back to follows from that",
        "18 sso.saml.metadata_file: expected this, or an issuer in [sso.oidc], not both",
        "20 sso.saml.name_attribute: expected a text",
    ];
    let found = complaints(faulty);
    let rest: Vec<&String> = found.iter().filter(|fault| !expected.contains(&fault.as_str())).collect();
    // What is missing has no line.
    assert!(
        rest.iter().all(|fault| fault.contains("client_id")
            || fault.contains("redirect_url")
            || fault.contains("certificate_file: missing")
            || fault.contains("role_map:")),
        "{rest:?}"
    );
    assert!(expected.iter().all(|wanted| found.iter().any(|fault| fault == wanted)), "{found:#?}");
}

/// Returns the lines and keys of what is wrong when a configuration is tried.
fn tried(text: &str) -> Vec<(Option<usize>, String)> {
    let (_folder, sources) = of_file(text);
    let faults = sources.check(|_| Vec::new()).err().unwrap_or_default();
    faults.iter().map(|fault| (fault.line(), fault.key.clone())).collect()
}

#[test]
fn secrets_of_sinks_are_looked_for_before_they_are_needed() {
    let (folder, _) = of_file("");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (good, blank) = (write("good.token", "abc-123\n"), write("blank.token", " \n"));
    let sink = |place: &str| {
        format!(
            "[[siem.sinks]]\nname = \"soc\"\nplatform = \"splunk_hec\"\nurl = \"https://soc.example\"\n{place}\n"
        )
    };
    let missing = |key: &str| vec![(Some(5), format!("siem.sinks[0].{key}"))];
    assert_eq!(tried(&sink("")), []);
    assert_eq!(tried(&sink(&format!("secret_file = \"{good}\""))), []);
    assert_eq!(tried(&sink(&format!("secret_file = \"{blank}\""))), missing("secret_file"));
    assert_eq!(tried(&sink("secret_file = \"missing.token\"")), missing("secret_file"));
    assert_eq!(tried(&sink("secret_env = \"PORTCULLIS_TEST_NOBODY_SETS_THIS\"")), missing("secret_env"));
    assert_eq!(tried(&sink("secret_env = \"PATH\"")), []);
    let nats = "[[siem.sinks]]\nname = \"n\"\nplatform = \"nats\"\nurl = \"tls://n.example\"\n";
    assert_eq!(tried(&format!("{nats}secret_file = \"missing.token\"")), missing("secret_file"));
}

#[test]
fn of_a_sink_of_no_known_platform_nothing_else_is_told() {
    let sink = |platform: &str, keys: &str| {
        format!("[[siem.sinks]]\nname = \"soc\"\nplatform = \"{platform}\"\n{keys}\n")
    };
    let expected =
        "3 siem.sinks[0].platform: expected one of splunk_hec, elastic, syslog, webhook, ocsf_file, nats";
    for (platform, keys) in [
        ("splunk", "url = \"https://soc.example\"\nindex = \"a\"\ngzip = false"),
        ("ocsf_fil", "path = \"a.log\"\nfile_bytes = 4096\nfiles_kept = 2"),
        ("syslg", "url = \"udp://soc.example\"\nframing = \"lines\"\npayload = \"cef\"\nmessage_bytes = 480"),
        ("nat", "url = \"nats://n.example\"\nsubject = \"s\"\nstream = \"t\"\nuser = \"u\""),
    ] {
        let found = complaints(&sink(platform, keys));
        assert!(matches!(found.as_slice(), [only] if only.starts_with(expected)), "{platform}: {found:?}");
    }
}

#[test]
fn a_sink_at_a_private_address_needs_a_word_of_the_operator() {
    let sink = |url: &str, more: &str| {
        format!("[[siem.sinks]]\nname = \"soc\"\nplatform = \"syslog\"\nurl = \"{url}\"\n{more}\n")
    };
    let refused = "4 siem.sinks[0].url: an address of a private network or of this machine, which needs \
                   `allow_private = true`";
    for host in ["127.0.0.1", "169.254.169.254", "[::ffff:127.0.0.1]", "0.0.0.0", "10.1.2.3", "[::1]"] {
        let url = format!("tcp://{host}:601");
        assert_eq!(complaints(&sink(&url, "")), [refused], "{host}");
        assert_eq!(complaints(&sink(&url, "allow_private = false")), [refused], "{host}");
        assert_eq!(tried(&sink(&url, "allow_private = true")), [], "{host}");
    }
    // Where a name leads is seen when it is looked up.
    for host in ["localhost", "soc.example", "93.184.216.34", "[2606:4700:4700::1111]"] {
        assert_eq!(tried(&sink(&format!("udp://{host}:514"), "")), [], "{host}");
    }
}

#[test]
fn what_is_a_deployments_own_is_told_apart_from_what_is_built_in() {
    let own = |text: &str, pairs: &[(&str, &str)], policy: &str| {
        let (folder, mut sources) = of_file(text);
        sources.environment = environment(pairs);
        fs::create_dir(folder.path().join("policies")).unwrap();
        fs::write(folder.path().join("policies/own.toml"), policy).unwrap();
        sources.written().unwrap().own_etag
    };
    let nothing = Sources::default().written().unwrap().own_etag;
    assert_eq!(own("", &[], ""), own("# nothing\n[proxy]\nh2 = false\n", &[("PROXY__H2", "true")], ""));
    let all = [
        nothing,
        own("", &[], ""),
        own("", &[], "fail_mode = \"open\""),
        own("", &[("LIMITS__SCAN_MS", "7")], ""),
        own("", &[("LIMITS__SCAN_MS", "8")], ""),
        own("[limits]\nscan_ms = 7\n", &[], ""),
        own("[limits]\nscan_ms = 2000\n", &[], ""),
    ];
    let different: std::collections::BTreeSet<&String> = all.iter().collect();
    assert_eq!(different.len(), all.len(), "{all:?}");
}
