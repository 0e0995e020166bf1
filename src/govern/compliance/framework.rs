//! Frameworks as they are written, and every fault in them.
//!
//! ```toml
//! [framework]
//! id      = "soc2"
//! name    = "SOC 2 Trust Services Criteria"
//! version = "2017, points of focus of 2022"
//! source  = "https://…"            # where the controls come from
//!
//! [[control]]
//! id     = "CC6.1"
//! title  = "Access to systems and data is restricted by logical means"
//! checks = ["gateway_keys_required", "keys_expire"]   # of the closed set; none: cannot be assessed here
//! techniques = ["AML.T0051"]       # that detectors and rules name, and every policy has to look for
//! ```

use std::collections::BTreeMap;

use super::check::Check;
use crate::document::Fault;
use crate::document::Place;
use crate::document::Problem;
use crate::document::fault::nearest;
use crate::document::section;
use crate::document::section::Section;
use crate::document::toml;
use crate::scan::pack::PluginFiles;

const FRAMEWORKS_MAX: usize = 64;
const CONTROLS_MAX: usize = 2_000;
const FILE_BYTES_MAX: usize = 1 << 20;
const TECHNIQUES_MAX: usize = 64;
const TECHNIQUE_CHARACTERS_MAX: usize = 64;

/// A framework of controls.
#[derive(Clone, Debug)]
pub struct Framework {
    /// Its name in queries.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// Which edition.
    pub version: String,
    /// Where its controls come from.
    pub source: String,
    /// Its controls, in its own order.
    pub controls: Vec<Control>,
}

/// One control.
#[derive(Clone, Debug)]
pub struct Control {
    /// Its id in the framework.
    pub id: String,
    /// What it asks for, in a few words.
    pub title: String,
    /// What the gateway can see of it.
    pub checks: Vec<&'static Check>,
    /// Ids of the techniques (MITRE ATLAS, OWASP) that it asks to be looked for.
    pub techniques: Vec<String>,
}

/// Reads files of frameworks, by path; returns them by id.
///
/// # Errors
/// Every fault of every file, with its line.
pub fn read(files: &PluginFiles) -> Result<BTreeMap<String, Framework>, Vec<Fault>> {
    let (mut all, mut faults) = (BTreeMap::new(), Vec::new());
    for (path, text) in files {
        match parse(path, text) {
            Ok(framework) => {
                let (id, name) = (framework.id.clone(), path.as_str());
                if all.insert(id, (name, framework)).is_some() {
                    faults.push(about(path, "another file is about the same framework"));
                }
            }
            Err(found) => faults.extend(found),
        }
    }
    if all.len() > FRAMEWORKS_MAX {
        faults.push(about("frameworks", "there are too many"));
    }
    let all = all.into_iter().map(|(id, (_, framework))| (id, framework)).collect();
    if faults.is_empty() { Ok(all) } else { Err(faults) }
}

fn parse(path: &str, text: &str) -> Result<Framework, Vec<Fault>> {
    if text.len() > FILE_BYTES_MAX {
        return Err(vec![about(path, "is too long")]);
    }
    let document = toml::parse(text, path)?;
    let read = section::read(&document, |root| {
        let mut head = root.section("framework");
        let id = head.text("id").to_owned();
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if id.is_empty() || id.len() > 64 || !id.bytes().all(is_name) {
            head.invalid("id", "expected up to 64 of a-z, 0-9 and _", None);
        }
        let (name, version) = (filled(&mut head, "name"), filled(&mut head, "version"));
        let source = filled(&mut head, "source");
        head.finish();
        let mut controls: Vec<Control> = Vec::new();
        for mut written in root.list("control") {
            let control = control(&mut written);
            if let Some(other) = controls.iter().find(|other| other.id == control.id) {
                written.fault("id", Problem::Taken { other: format!("the control {}", other.id) });
            }
            controls.push(control);
        }
        if controls.is_empty() || controls.len() > CONTROLS_MAX {
            root.invalid("control", format!("expected 1 to {CONTROLS_MAX} controls"), None);
        }
        Framework { id, name, version, source, controls }
    });
    read.map_err(|faults| faults.into_iter().map(|fault| fault.in_file(path)).collect())
}

fn control(section: &mut Section<'_>) -> Control {
    let (id, title) = (filled(section, "id"), filled(section, "title"));
    let mut checks: Vec<&'static Check> = Vec::new();
    for name in section.texts("checks") {
        match Check::named(name) {
            Some(check) if checks.iter().any(|known| known.name == check.name) => {
                section.invalid("checks", "names a check twice", None);
            }
            Some(check) => checks.push(check),
            None => {
                let suggestion = nearest(name, Check::ALL.iter().map(|check| check.name));
                section.fault("checks", Problem::Unknown { what: "check", suggestion });
            }
        }
    }
    let techniques = techniques(section);
    section.finish();
    Control { id, title, checks, techniques }
}

fn techniques(section: &mut Section<'_>) -> Vec<String> {
    let mut techniques: Vec<String> = Vec::new();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b':' | b'_' | b'-');
    for id in section.texts("techniques") {
        if id.is_empty() || id.len() > TECHNIQUE_CHARACTERS_MAX || !id.bytes().all(is_name) {
            section.invalid("techniques", "expected ids such as AML.T0051 or LLM01:2025", None);
        } else if techniques.iter().any(|known| known == id) {
            section.invalid("techniques", "names a technique twice", None);
        } else {
            techniques.push(id.to_owned());
        }
    }
    if techniques.len() > TECHNIQUES_MAX {
        section.invalid("techniques", format!("expected up to {TECHNIQUES_MAX}"), None);
    }
    techniques
}

fn filled(section: &mut Section<'_>, key: &'static str) -> String {
    let text = section.text(key).trim().to_owned();
    if text.is_empty() && section.has(key) {
        section.invalid(key, "expected some text", None);
    }
    text
}

fn about(path: &str, reason: &str) -> Fault {
    let place = Place { source: path.into(), line: None, column: None };
    let problem = Problem::Invalid { reason: reason.to_owned(), suggestion: None };
    Fault { place: Some(place), key: String::new(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn techniques_are_ids_and_named_once() {
        let text = "[framework]\nid = \"own\"\nname = \"x\"\nversion = \"1\"\nsource = \"y\"\n\n[[control]]\n\
                    id = \"A.1\"\ntitle = \"t\"\ntechniques = [\"LLM01:2025\", \"LLM01:2025\", \"two words\"]\n";
        let files = PluginFiles::from([("frameworks/own.toml".to_owned(), text.to_owned().into())]);
        let faults = read(&files).unwrap_err();
        let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 2, "{told:#?}");
        assert!(told[0].contains("names a technique twice"), "{told:#?}");
        assert!(told[1].contains("expected ids such as AML.T0051"), "{told:#?}");
    }

    #[test]
    fn every_fault_is_told_with_its_line() {
        let text = "[framework]\nid = \"My Own\"\nname = \"x\"\nversion = \"1\"\nsource = \"y\"\n\n[[control]]\n\
                    id = \"A.1\"\ntitle = \"t\"\nchecks = [\"polices_fail_closed\"]\n\n[[control]]\nid = \"A.1\"\n\
                    titel = \"t\"\n";
        let files = PluginFiles::from([("frameworks/own.toml".to_owned(), text.to_owned().into())]);
        let faults = read(&files).unwrap_err();
        let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
        let lines: Vec<Option<usize>> = faults.iter().map(Fault::line).collect();
        assert_eq!(lines, [Some(2), Some(10), Some(12), Some(13), Some(14)], "{told:#?}");
        assert!(told[1].contains("did you mean `policies_fail_closed`?"), "{told:#?}");
        assert!(told.iter().all(|told| told.starts_with("frameworks/own.toml:")), "{told:#?}");
    }
}
