//! The layers of the gateway, and the proof that the code keeps to them.
//!
//! What is forbidden here is forbidden for a reason that stands beside it. A fault names the file and what to
//! do; a new row in a table is a decision, to be made in review.

use std::fs;
use std::path::Path;

/// Each module, and the modules it may know. Anything absent is forbidden.
const MAY_KNOW: &[(&str, &[&str])] = &[
    // The ground: they know nothing.
    ("attachment", &[]),
    ("clock", &[]),
    ("document", &[]),
    ("error", &[]),
    ("id", &[]),
    // Pure: text in, facts out. `sample` plays a provider, and knows the gateway as little as one.
    ("llm", &["error", "id"]),
    ("sample", &[]),
    ("scan", &["error", "id"]),
    ("redact", &["error", "id", "llm", "scan"]),
    // What outlives the process, and what is seen of it from outside.
    ("telemetry", &["clock", "error", "id", "scan"]),
    ("tls", &["clock", "error", "telemetry"]),
    ("otlp", &["document", "telemetry", "tls"]),
    ("store", &["clock", "document", "error", "id", "tls"]),
    // What is decided, who calls, what is written down: three that do not know each other, but for one arrow.
    ("policy", &["attachment", "clock", "document", "error", "id", "llm", "redact", "scan", "store"]),
    ("access", &["clock", "document", "error", "id", "store", "telemetry", "tls"]),
    ("cluster", &["access", "clock", "document", "id", "store", "telemetry", "tls"]),
    (
        "govern",
        &["access", "clock", "document", "error", "id", "policy", "scan", "store", "telemetry", "tls"],
    ),
    // The two planes.
    (
        "admin",
        &[
            "access",
            "clock",
            "cluster",
            "document",
            "error",
            "govern",
            "id",
            "llm",
            "policy",
            "redact",
            "scan",
            "store",
            "telemetry",
            "tls",
        ],
    ),
    (
        "proxy",
        &[
            "access",
            "admin",
            "attachment",
            "clock",
            "error",
            "govern",
            "id",
            "llm",
            "otlp",
            "policy",
            "redact",
            "scan",
            "telemetry",
            "tls",
        ],
    ),
    // The edges: every module's configuration; the command line; and the root, which wires everything.
    (
        "config",
        &[
            "access",
            "admin",
            "cluster",
            "document",
            "error",
            "govern",
            "otlp",
            "policy",
            "proxy",
            "scan",
            "store",
            "telemetry",
            "tls",
        ],
    ),
    (
        "cli",
        &[
            "access",
            "app",
            "attachment",
            "clock",
            "config",
            "document",
            "govern",
            "id",
            "llm",
            "policy",
            "redact",
            "scan",
            "store",
            "telemetry",
            "tls",
        ],
    ),
    (
        "app",
        &[
            "access",
            "admin",
            "clock",
            "cluster",
            "config",
            "document",
            "error",
            "govern",
            "id",
            "llm",
            "otlp",
            "policy",
            "proxy",
            "redact",
            "sample",
            "scan",
            "store",
            "telemetry",
            "tls",
        ],
    ),
];

/// Names that may be written only in the listed places (files, or folders that end in `/`), and why.
const ONLY_IN: &[(&str, &[&str], &str)] = &[
    (
        "hyperscan",
        &["scan/engine.rs", "scan/engine/cache.rs"],
        "its scratch and its streams need taming, once",
    ),
    (
        "sled::",
        &["store/mod.rs", "store/sled.rs", "store/sled/"],
        "its flush does not reach the disk: only its home knows",
    ),
    (
        "pingora",
        &["admin/adapter.rs", "app/", "proxy/", "tls/"],
        "the edge of the process; what is decided must not depend on it",
    ),
    ("axum", &["admin/", "app/", "proxy/local.rs", "sample/"], "HTTP belongs to the planes"),
    ("tokio_postgres", &["store/postgres/"], "SQL has one home"),
    ("cel::", &["scan/rule/condition.rs"], "conditions are ours: what they may say is checked in one place"),
    (
        "tract_onnx",
        &["scan/classifier/onnx/graph.rs"],
        "it panics at files that it does not expect: one file runs graphs, behind a guard",
    ),
    (
        "tokenizers::",
        &["scan/classifier/onnx/tokens.rs"],
        "tokenizers of others have one home, behind a guard",
    ),
    ("prometheus", &["telemetry/metrics.rs", "telemetry/metrics/"], "every metric and label in one file"),
    (
        "aes::",
        &["attachment/pdf/crypt.rs"],
        "what opens a PDF is no protection of anything, and is used for nothing else",
    ),
    ("use md5::", &["attachment/pdf/crypt.rs"], "the same"),
    ("saphyr_parser", &["document/yaml.rs"], "what of YAML is read is said in one place"),
    ("notify::", &["policy/watch.rs"], "files are watched in one place"),
    (
        "rustls",
        &["config/provision.rs", "govern/siem/http.rs", "tls/", "proxy/upstream.rs"],
        "one provider of cryptography, chosen once",
    ),
    (
        "jsonwebtoken",
        &["access/jose.rs", "access/jose/"],
        "one way to sign and to verify, with no algorithm to choose",
    ),
    (
        "use ring::",
        &[
            "access/jose.rs",
            "access/secret.rs",
            "access/sso/saml/key.rs",
            "access/keyring/cipher.rs",
            "policy/memo.rs",
        ],
        "the cryptography of tokens and of sealing has one home, that of erasure another, and keyed hashes a third",
    ),
    ("getrandom", &["access/", "id.rs"], "randomness is for names and secrets"),
    ("SystemTime::now", &["clock.rs"], "time is an argument, or tests cannot move it"),
    (
        "Instant::now",
        &["clock.rs", "admin/resource/audit_stream.rs"],
        "time is an argument, or tests cannot move it",
    ),
    ("Timestamp::now", &["clock.rs"], "time is an argument, or tests cannot move it"),
    ("env::var", &["config/env.rs"], "the environment is read once, as a layer of the configuration"),
    (
        "tokio::spawn",
        &["admin/adapter.rs"],
        "background work is a service that `app` supervises; a call is carried to its end though its client left",
    ),
    ("thread::spawn", &[], "background work is a service that `app` supervises"),
    ("std::sync::Mutex", &[], "parking_lot does not poison"),
    ("std::sync::RwLock", &[], "parking_lot does not poison"),
    ("allow(unsafe_code)", &["main.rs"], "one call to the allocator; all else is safe"),
    ("Cleared::release", &["policy/"], "only a decision lets bytes go"),
];

/// Modules that are functions of their arguments, and what they therefore never say.
const PURE: &[&str] =
    &["attachment/", "clock.rs", "document/", "error.rs", "llm/", "policy/decision.rs", "redact/", "scan/"];
const IMPURE: &[&str] = &[
    "async fn",
    ".await",
    "tokio",
    "std::fs",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "crate::clock",
    "crate::store",
];
/// A pack is a folder of files: its loader reads them, and is kept off the request threads.
const PURE_BUT: &[(&str, &str)] = &[("scan/pack/folder.rs", "std::fs")];

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
/// Files that may be longer, and why.
const LONG_FILES: &[(&str, &str)] =
    &[("scan/check/mod.rs", "the closed set of checks, a flat table: as long as its rows")];
/// Functions that may be longer, and why.
const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[];

/// One file below `src`.
struct Source {
    /// Its path from `src`.
    path: String,
    /// The whole text.
    text: String,
    /// Without comments and without what only tests compile.
    code: String,
}

impl Source {
    fn module(&self) -> &str {
        self.path.split(['/', '.']).next().unwrap_or_default()
    }

    fn is_in(&self, places: &[&str]) -> bool {
        places.iter().any(|place| match place.ends_with('/') {
            true => self.path.starts_with(place),
            false => self.path == *place,
        })
    }
}

#[test]
fn modules_know_only_what_they_may() {
    check(|source, faults| {
        let module = source.module();
        if ["lib", "main", "manual"].contains(&module) {
            return;
        }
        let Some((_, allowed)) = MAY_KNOW.iter().find(|(name, _)| *name == module) else {
            return faults.push(format!("{}: `{module}` has no row in MAY_KNOW", source.path));
        };
        for (line, known) in named(&source.code, "crate::") {
            let is_module = MAY_KNOW.iter().any(|(name, _)| *name == known);
            if is_module && known != module && !allowed.contains(&known) {
                faults.push(format!("{}: `{module}` may not know `{known}` ({})", source.path, line.trim()));
            }
        }
    });
}

#[test]
fn arrows_go_down_only() {
    let mut faults = Vec::new();
    for (at, (module, known)) in MAY_KNOW.iter().enumerate() {
        for name in *known {
            match MAY_KNOW.iter().position(|(other, _)| other == name) {
                None => faults.push(format!("`{module}` knows `{name}`, which is no module")),
                // `cli` stands beside `app`, which it starts.
                Some(other) if other >= at && *module != "cli" => {
                    faults.push(format!("`{module}` stands above `{name}`"));
                }
                Some(_) => {}
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn foreign_names_stay_where_they_belong() {
    check(|source, faults| {
        for (name, homes, why) in ONLY_IN {
            if begins_a_word(&source.code, name) && !source.is_in(homes) {
                faults.push(format!("{}: `{name}` belongs in {homes:?}: {why}", source.path));
            }
        }
    });
}

#[test]
fn pure_modules_neither_wait_nor_touch_the_world() {
    check(|source, faults| {
        if !source.is_in(PURE) || source.path == "clock.rs" {
            return;
        }
        for name in IMPURE {
            let excused = PURE_BUT.contains(&(source.path.as_str(), name));
            if source.code.contains(name) && !excused {
                faults.push(format!("{}: `{name}` in a module that is pure", source.path));
            }
        }
    });
}

#[test]
fn nothing_outside_tests_unwraps() {
    check(|source, faults| {
        for line in source.code.lines().filter(|line| line.contains(".unwrap()")) {
            faults.push(format!("{}: {}", source.path, line.trim()));
        }
    });
}

#[test]
fn every_file_says_what_it_is() {
    check(|source, faults| {
        if !is_test(&source.path) && !source.text.starts_with("//! ") {
            faults.push(format!("{}: the first line is no `//!` sentence", source.path));
        }
    });
}

#[test]
fn one_use_is_one_path() {
    check(|source, faults| {
        for line in source.text.lines().map(str::trim_start) {
            if line.starts_with("use ") && line.contains('{') {
                faults.push(format!("{}: `{line}` names several paths", source.path));
            }
        }
    });
}

#[test]
fn files_and_functions_stay_short() {
    check(|source, faults| {
        let lines = source.text.lines().count();
        let excused = LONG_FILES.iter().any(|(path, _)| *path == source.path);
        if lines > FILE_LINES_MAX && !excused {
            faults.push(format!("{}: {lines} lines; {FILE_LINES_MAX} are the most", source.path));
        }
        for (name, lines) in functions(&source.code).filter(|(_, lines)| *lines > FUNCTION_LINES_MAX) {
            if LONG_FUNCTIONS.iter().any(|(path, long, _)| *path == source.path && *long == name) {
                continue;
            }
            faults.push(format!(
                "{}: `{name}` has {lines} lines, {FUNCTION_LINES_MAX} are the most",
                source.path
            ));
        }
    });
}

#[test]
fn the_tables_name_what_exists() {
    let sources = sources(Path::new("src"));
    let exists = |place: &str| sources.iter().any(|source| source.is_in(&[place]));
    let homes = ONLY_IN.iter().flat_map(|(_, homes, _)| homes.iter());
    let files = LONG_FILES.iter().chain(PURE_BUT).map(|(path, _)| path);
    let files = files.chain(LONG_FUNCTIONS.iter().map(|(path, _, _)| path));
    let missing: Vec<&&str> = homes.chain(PURE).chain(files).filter(|place| !exists(place)).collect();
    assert!(missing.is_empty(), "gone from src, but still in a table: {missing:?}");
    let modules: Vec<&str> = sources.iter().map(Source::module).collect();
    for (module, _) in MAY_KNOW {
        assert!(modules.contains(module), "`{module}` has a row, and is no module");
    }
}

fn check(look: impl Fn(&Source, &mut Vec<String>)) {
    let sources = sources(Path::new("src"));
    assert!(sources.len() > 100, "only {} files were found", sources.len());
    let mut faults = Vec::new();
    sources.iter().for_each(|source| look(source, &mut faults));
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// Every source file below `root`.
fn sources(root: &Path) -> Vec<Source> {
    let mut found = Vec::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).expect("src is readable") {
            let path = entry.expect("an entry is readable").path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("sources are UTF-8");
                let path = path.strip_prefix(root).expect("it is below the root").display().to_string();
                let code = if is_test(&path) { String::new() } else { shipped(&text) };
                found.push(Source { path, text, code });
            }
        }
    }
    found.sort_by(|left, right| left.path.cmp(&right.path));
    found
}

/// Tells whether only tests compile a file.
fn is_test(path: &str) -> bool {
    const NAMES: [&str; 4] = ["tests.rs", "/fixture.rs", "audit/sample.rs", "store/conformance.rs"];
    NAMES.iter().any(|name| path.ends_with(name))
}

/// Returns the text without comments and without items under `#[cfg(test)]`.
fn shipped(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            skip_item(&mut lines);
        } else if !line.trim_start().starts_with("//") {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

/// Passes over the item under an attribute: to its `;`, or to the brace that closes it.
fn skip_item<'a>(lines: &mut impl Iterator<Item = &'a str>) {
    let mut indent = None;
    for line in lines {
        let indent = *indent.get_or_insert(line.len() - line.trim_start().len());
        let own = line.len() - line.trim_start().len() == indent;
        if own && (line.ends_with(';') || line.trim() == "}" || line.ends_with("{}")) {
            return;
        }
    }
}

/// Returns the name after each `prefix`, with the line it stands in.
fn named<'a>(code: &'a str, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    code.lines().flat_map(move |line| {
        line.split(prefix).skip(1).map(move |rest| {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            (line, &rest[..end])
        })
    })
}

fn begins_a_word(code: &str, name: &str) -> bool {
    code.match_indices(name)
        .any(|(at, _)| !code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_'))
}

/// Returns every function's name and its length in lines, by the indent of its first and last line.
fn functions(code: &str) -> impl Iterator<Item = (&str, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    let starts = (0..lines.len()).filter_map({
        let lines = lines.clone();
        move |at| {
            let line = lines[at].trim_start();
            let (before, after) = line.split_once("fn ")?;
            let qualifies =
                |word: &str| word.starts_with("pub") || ["async", "const", "super)"].contains(&word);
            let is_item = before.split_whitespace().all(qualifies);
            let name = after.split(['(', '<']).next()?;
            is_item.then_some((at, lines[at].len() - line.len(), name))
        }
    });
    starts.map(move |(at, indent, name)| {
        let closes = |line: &str| line.trim_end() == format!("{:indent$}}}", "");
        let length = lines[at..].iter().position(|line| closes(line)).map_or(1, |last| last + 1);
        (name, if lines[at].ends_with('}') { 1 } else { length })
    })
}

#[test]
fn the_reader_of_sources_sees_what_is_there() {
    let text = "//! doc\nfn long() {\n    a();\n}\n#[cfg(test)]\nmod tests {\n    fn x() {}\n}\npub(super) async fn y() {}\n";
    assert_eq!(shipped(text), "fn long() {\n    a();\n}\npub(super) async fn y() {}\n");
    assert_eq!(functions(&shipped(text)).collect::<Vec<_>>(), [("long", 3), ("y", 1)]);
    assert!(begins_a_word("use sled::Db;", "sled::") && !begins_a_word("crate::bobsled::x", "sled::"));
    assert_eq!(
        named("use crate::scan::x;", "crate::").collect::<Vec<_>>(),
        [("use crate::scan::x;", "scan")]
    );
}
