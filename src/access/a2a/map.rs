//! The capability map: which capabilities there are, what they cost, and which agent holds which.
//!
//! Written in YAML by whoever runs the deployment (`conf/capabilities.yaml` shows every key). A map is read
//! whole or not at all, and has to have both tables, be they empty; every fault names its line. Secrets are not in it,
//! only where they lie.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::access::tier::Tier;
use crate::document::Document;
use crate::document::Fault;
use crate::document::Problem;
use crate::document::fault::nearest;
use crate::document::secret::SecretPlace;
use crate::document::section;
use crate::document::section::Section;
use crate::document::yaml;

/// The longest id of an agent or name of a capability.
pub const NAME_BYTES_MAX: usize = 128;
/// The most agents of a map.
pub const AGENTS_MAX: usize = 10_000;
/// The most capabilities of a map.
pub const CAPABILITIES_MAX: usize = 10_000;
/// The most secrets of an agent: the one in use, and the one before or after it.
pub const SECRETS_MAX: usize = 2;

/// What agents may ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapabilityMap {
    /// The capabilities by name.
    pub capabilities: BTreeMap<String, Capability>,
    /// The agents by id.
    pub agents: BTreeMap<String, Agent>,
}

/// One capability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// The least tier that includes it; above community, a licence has to be presented.
    pub min_tier: Tier,
}

/// One agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Its tier; none: as much as it is entitled to.
    pub tier: Option<Tier>,
    /// What it may ask for.
    pub capabilities: BTreeSet<String>,
    /// Where the secrets lie with which it signs; one or two.
    pub secrets: Vec<SecretPlace>,
}

impl CapabilityMap {
    /// Reads a map from YAML; `source` is the name that faults give the file.
    ///
    /// # Errors
    /// All faults, with their lines.
    pub fn parse(text: &str, source: &str) -> Result<Self, Vec<Fault>> {
        Self::read(&yaml::parse(text, source)?)
    }

    fn read(document: &Document) -> Result<Self, Vec<Fault>> {
        section::read(document, |root| {
            // A file that is empty, or ends early, is not one that means to know nobody.
            let missing = ["capabilities", "agents"].into_iter().filter(|key| !root.has(key));
            missing.for_each(|key| root.fault(key, Problem::Missing));
            let capabilities: BTreeMap<String, Capability> =
                root.named("capabilities").into_iter().map(Capability::read).collect();
            let known = |(id, section)| Agent::read(id, section, &capabilities);
            let agents: BTreeMap<String, Agent> = root.named("agents").into_iter().map(known).collect();
            if capabilities.len() > CAPABILITIES_MAX || agents.len() > AGENTS_MAX {
                root.invalid(
                    "agents",
                    format!("expected {AGENTS_MAX} agents and capabilities at most"),
                    None,
                );
            }
            Self { capabilities, agents }
        })
    }

    /// Returns the least tier that includes a capability; community for one that does not exist.
    pub fn min_tier(&self, capability: &str) -> Tier {
        self.capabilities.get(capability).map_or(Tier::Community, |known| known.min_tier)
    }
}

impl Capability {
    fn read((name, mut section): (&str, Section<'_>)) -> (String, Self) {
        check_name(name, &section);
        let min_tier = section.choice_maybe("min_tier").unwrap_or_default();
        section.text_maybe("description");
        section.finish();
        (name.to_owned(), Self { min_tier })
    }
}

impl Agent {
    fn read(id: &str, mut section: Section<'_>, known: &BTreeMap<String, Capability>) -> (String, Self) {
        check_name(id, &section);
        let granted = section.texts("capabilities");
        for name in granted.iter().filter(|name| !known.contains_key(**name)) {
            let suggestion = nearest(name, known.keys().map(String::as_str));
            section.fault("capabilities", Problem::Unknown { what: "capability", suggestion });
        }
        let secrets: Vec<SecretPlace> = section.list("secrets").into_iter().filter_map(read_place).collect();
        if !(1..=SECRETS_MAX).contains(&secrets.len()) {
            section.invalid("secrets", "expected one or two places, each a `file` or an `env`", None);
        }
        section.text_maybe("description");
        let agent = Self {
            tier: section.choice_maybe("tier"),
            capabilities: granted.into_iter().map(str::to_owned).collect(),
            secrets,
        };
        section.finish();
        (id.to_owned(), agent)
    }
}

fn read_place(mut section: Section<'_>) -> Option<SecretPlace> {
    let place = SecretPlace::read(&mut section, "file", "env");
    section.finish();
    place
}

/// Ids stand in headers, certificates, records and answers: they mean one thing in all of them.
fn check_name(name: &str, section: &Section<'_>) {
    let is_sane = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_name_byte);
    if !is_sane {
        let reason = format!("expected 1 to {NAME_BYTES_MAX} letters, digits or any of . _ - : / @ +");
        section.invalid("", reason, None);
    }
}

/// Tells whether ids and names may have a byte.
pub fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-:/@+".contains(&byte)
}

#[cfg(test)]
mod tests;
