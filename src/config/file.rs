//! The layers of a configuration, and how they lie over each other.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::Map;
use serde_json::Value;

use crate::config::ConfigFault;
use crate::config::Sources;
use crate::document::Document;
use crate::document::Place;
use crate::document::Problem;
use crate::document::toml;
use crate::policy::build::Written;
use crate::policy::build::rules_of;
use crate::policy::file::expand_modes;
use crate::policy::ruleset::RELOADABLE_KEYS;

/// The embedded file: every key with its default.
pub const GATEWAY_TOML: &str = include_str!("../../conf/gateway.toml");

/// The embedded policies, by name.
pub const POLICIES: [(&str, &str); 3] = [
    ("default", include_str!("../../conf/policies/default.toml")),
    ("strict", include_str!("../../conf/policies/strict.toml")),
    ("monitor", include_str!("../../conf/policies/monitor.toml")),
];

/// The longest file that is read.
pub const FILE_BYTES_MAX: u64 = 4 << 20;

/// The most files in the folder of policies.
pub const POLICY_FILES_MAX: usize = 1000;

/// Returns what is built in: every key with its default, and the embedded policies.
pub fn defaults() -> Document {
    Stack::of_defaults().document
}

/// What some sources say over the defaults, as far as they can be read.
pub(super) struct Tried {
    /// All of it, but for what is faulty, and the digest of what they say themselves of the rules; `None`: too much of it is
    /// missing for anything to be told of the rest.
    pub(super) written: Option<Written>,
    /// What cannot be read.
    pub(super) faults: Vec<ConfigFault>,
}

/// Reads what some sources say, as far as that goes: more faults may be found in it.
pub(super) fn tried(sources: &Sources) -> Tried {
    let mut stack = Stack::of_defaults();
    if let Some(folder) = sources.policies_folder() {
        stack.lay_policies(&folder);
    }
    if let Some(file) = &sources.file {
        let layer = read(file).and_then(|text| toml::parse(&text, &file.display().to_string()));
        stack.is_partial |= layer.is_err();
        stack.lay_own("file", layer);
    }
    let overridden = sources.environment.overlay(&mut stack.document);
    stack.note_own("environment", sources.environment.of_sections(&RELOADABLE_KEYS));
    let mut faults = overridden.err().unwrap_or_default();
    // The member that a variable names may stand in what cannot be read.
    faults.retain(|fault| !stack.is_partial || !matches!(fault.problem, Problem::Unknown { .. }));
    stack.faults.extend(faults);
    stack.tried()
}

struct Stack {
    document: Document,
    /// What each of the deployment's own layers says of the rules, as it is written.
    own: Map<String, Value>,
    faults: Vec<ConfigFault>,
    /// Whether names are missing that others may lead to.
    is_partial: bool,
}

impl Stack {
    fn of_defaults() -> Self {
        let mut stack =
            Self { document: Document::default(), own: Map::new(), faults: Vec::new(), is_partial: false };
        stack.lay(toml::parse(GATEWAY_TOML, "embedded conf/gateway.toml"));
        for (name, text) in POLICIES {
            let source = format!("embedded conf/policies/{name}.toml");
            stack.lay(toml::parse(text, &source).map(|policy| policy.nested(&["policies", name])));
        }
        stack
    }

    fn tried(self) -> Tried {
        let own = Document::from_json(Value::Object(self.own), None).unwrap_or_default();
        let written = Written { document: self.document, own_etag: own.etag() };
        Tried { written: (!self.is_partial).then_some(written), faults: self.faults }
    }

    /// Lays a layer of the deployment's own. It is noted before it is read any further: how a release reads it must not
    /// make another of it.
    fn lay_own(&mut self, name: &str, layer: Result<Document, Vec<ConfigFault>>) {
        if let Ok(layer) = &layer {
            self.note_own(name, rules_of(layer));
        }
        self.lay(layer);
    }

    fn note_own(&mut self, name: &str, rules: Map<String, Value>) {
        if !rules.is_empty() {
            self.own.insert(name.to_owned(), Value::Object(rules));
        }
    }

    fn lay(&mut self, layer: Result<Document, Vec<ConfigFault>>) {
        match layer {
            Ok(mut layer) => {
                expand_modes(layer.root_mut());
                self.document.overlay(layer);
            }
            Err(faults) => self.faults.extend(faults),
        }
    }

    /// Lays the files of a folder, in the order of their names; it need not exist. Hidden ones are an editor's, or those
    /// of whatever mounted the folder.
    fn lay_policies(&mut self, folder: &Path) {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            Err(error) => {
                self.is_partial = true;
                return self.faults.push(unreadable(folder, &error));
            }
        };
        let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
        let mut paths: Vec<_> = paths.filter(|path| is_policy(path)).collect();
        paths.sort();
        paths.truncate(POLICY_FILES_MAX);
        for path in paths {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let policy = read_regular(&path).and_then(|text| toml::parse(&text, &path.display().to_string()));
            if policy.is_err() {
                // There is a policy of that name all the same, and what leads to it leads somewhere.
                self.lay(Ok(Document::default().nested(&["policies", &name])));
            }
            let policy = policy.map(|policy| policy.nested(&["policies", &name]));
            self.lay_own(&format!("policies/{name}"), policy);
        }
    }
}

fn is_policy(path: &Path) -> bool {
    let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    !is_hidden && path.extension().is_some_and(|extension| extension == "toml")
}

/// Reads a file of text that lies in a folder and that nobody named: a pipe there would keep its reader waiting for good.
///
/// # Errors
///
/// As [`read`], and it is no regular file.
pub fn read_regular(path: &Path) -> Result<String, Vec<ConfigFault>> {
    match std::fs::metadata(path) {
        Ok(facts) if !facts.is_file() => {
            let reason = "is no regular file".to_owned();
            Err(vec![fault_of(path, Problem::Invalid { reason, suggestion: None })])
        }
        Ok(_) | Err(_) => read(path),
    }
}

/// Reads a file of text.
///
/// # Errors
///
/// It cannot be read, is longer than [`FILE_BYTES_MAX`] or not UTF-8.
pub fn read(path: &Path) -> Result<String, Vec<ConfigFault>> {
    let mut text = String::new();
    let opened = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    if let Err(error) = opened {
        return Err(vec![unreadable(path, &error)]);
    }
    if text.len() as u64 > FILE_BYTES_MAX {
        let reason = format!("expected {FILE_BYTES_MAX} bytes at most");
        return Err(vec![fault_of(path, Problem::Invalid { reason, suggestion: None })]);
    }
    Ok(text)
}

fn unreadable(path: &Path, error: &std::io::Error) -> ConfigFault {
    fault_of(path, Problem::Unreadable { kind: error.kind() })
}

fn fault_of(path: &Path, problem: Problem) -> ConfigFault {
    let place = Place { source: path.display().to_string().into(), line: None, column: None };
    ConfigFault { place: Some(place), key: String::new(), problem }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::config::env::Environment;
    use crate::config::env::PREFIX;

    use super::*;

    /// Returns what a check tells of a file, of policies beside it and of variables, each without its folder.
    fn told(file: &str, policies: &[(&str, &str)], variables: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("gateway.toml"), file).unwrap();
        fs::create_dir(folder.path().join("policies")).unwrap();
        for (name, text) in policies {
            fs::write(folder.path().join("policies").join(name), text).unwrap();
        }
        let variables =
            variables.iter().map(|(name, value)| (format!("{PREFIX}{name}"), (*value).to_owned()));
        let environment = Environment::of(variables);
        let sources =
            Sources { file: Some(folder.path().join("gateway.toml")), environment, ..Sources::default() };
        let faults = sources.check(|_| Vec::new()).err().unwrap_or_default();
        let root = format!("{}/", folder.path().display());
        faults.iter().map(|fault| fault.to_string().replace(&root, "")).collect()
    }

    #[track_caller]
    fn check(told: Vec<String>, expected: &[&str]) {
        let is_as_expected = |(told, expected): (&String, &&str)| told.starts_with(expected);
        assert_eq!(told.len(), expected.len(), "{told:?}");
        assert!(told.iter().zip(expected).all(is_as_expected), "{told:?}");
    }

    #[test]
    fn a_variable_that_leads_nowhere_hides_no_fault() {
        let variables = [("ROUTES__NOPE__UPSTREAM", "http://x"), ("PROXY__H2", "maybe")];
        check(
            told("[proxy]\nlisen = \"x\"\n", &[], &variables),
            &[
                "gateway.toml:2:1: proxy.lisen: unknown key",
                "PORTCULLIS__PROXY__H2: proxy.h2: expected true or false",
                "PORTCULLIS__ROUTES__NOPE__UPSTREAM: there is no such member",
            ],
        );
    }

    #[test]
    fn a_policy_that_cannot_be_read_hides_no_fault_and_makes_none() {
        let route = "[[routes]]\nname = \"a\"\nupstream = \"http://127.0.0.1:1\"\npolicy = \"a\"\n";
        let policies = [("a.toml", "[detectors\n"), ("b.toml", "shadow = \"a\"\nfail_mod = 1\n")];
        check(
            told(&format!("{route}[proxy]\nlisen = \"x\"\n"), &policies, &[]),
            &[
                "gateway.toml:6:1: proxy.lisen: unknown key",
                "policies/a.toml:1:",
                "policies/b.toml:2:1: policies.b.fail_mod: unknown key",
            ],
        );
    }

    /// It may have had what others name.
    #[test]
    fn of_what_leads_into_a_file_that_cannot_be_read_nothing_is_told() {
        let variables = [("ROUTES__OWN__UPSTREAM", "http://x"), ("STORE__PATH__X", "x")];
        check(
            told("[proxy\n", &[("b.toml", "shadow = \"own\"\n")], &variables),
            &["gateway.toml:1:", "PORTCULLIS__STORE__PATH__X: expected the name of a key"],
        );
    }

    #[test]
    fn a_shadow_that_leads_back_is_a_fault() {
        let policies = [
            ("a.toml", "shadow = \"b\"\n"),
            ("b.toml", "shadow = \"c\"\n"),
            ("c.toml", "shadow = \"b\"\n"),
            ("d.toml", "shadow = \"d\"\n"),
            ("e.toml", "shadow = \"strict\"\n"),
        ];
        let of =
            |id: &str| format!("policies/{id}.toml:1:1: policies.{id}.shadow: leads back to this policy");
        let expected = ["b", "c", "d"].map(of);
        check(told("", &policies, &[]), &expected.each_ref().map(String::as_str));
    }

    #[test]
    fn what_a_route_for_agents_misses_is_told_where_somebody_wrote_for_it() {
        let route = "[[routes]]\nname = \"a\"\nupstream = \"http://h\"\nauth = \"a2a\"\n";
        let places = |text: &str| -> Vec<String> {
            let missing = told(text, &[], &[]).into_iter().filter(|fault| fault.ends_with(": missing"));
            missing.map(|fault| fault.rsplit_once(": a2a.").unwrap().0.to_owned()).collect()
        };
        assert_eq!(places(route), ["gateway.toml:4:1"; 2]);
        assert_eq!(places(&format!("{route}[a2a]\ntrust = \"observe\"\n")), ["gateway.toml:5:2"; 2]);
    }
}
