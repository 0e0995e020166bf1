//! The capability map in force, with the agents' secrets, read anew when the files change.
//!
//! A map counts whole or not at all: one fault, or one secret that cannot be read, and the one before stays
//! in force. Secrets are held in memory only, and never shown.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwapOption;

use super::map::CapabilityMap;
use crate::document::Fault;
use crate::document::Problem;
use crate::document::secret::SecretPlace;

/// The shortest secret that signs: half of what HMAC-SHA256 could use.
pub const SECRET_BYTES_MIN: usize = 16;
/// The longest.
pub const SECRET_BYTES_MAX: usize = 1024;

/// Reads a secret from its place; `None` where there is none.
pub type ReadSecret = Box<dyn Fn(&SecretPlace) -> Option<String> + Send + Sync>;

/// The map in force.
pub struct Directory {
    read: ReadSecret,
    current: ArcSwapOption<Agents>,
}

/// A map with the secrets it names.
#[derive(Debug, PartialEq, Eq)]
pub struct Agents {
    /// The map.
    pub map: CapabilityMap,
    secrets: BTreeMap<String, Vec<SharedSecret>>,
}

/// What an agent signs with.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedSecret(Vec<u8>);

impl Directory {
    /// Returns a directory without a map.
    pub fn new(read: ReadSecret) -> Self {
        Self { read, current: ArcSwapOption::empty() }
    }

    /// Returns the map in force.
    pub fn load(&self) -> Option<Arc<Agents>> {
        self.current.load_full()
    }

    /// Puts a map in force; `source` is the name that faults give the file.
    ///
    /// # Errors
    /// All faults; the map before stays.
    pub fn replace(&self, text: &str, source: &str) -> Result<(), Vec<Fault>> {
        let agents = Agents::read(text, source, &self.read)?;
        self.current.store(Some(Arc::new(agents)));
        Ok(())
    }

    /// Takes the map out of force.
    pub fn clear(&self) {
        self.current.store(None);
    }

    /// Returns the files in which secrets lie.
    pub fn files(&self) -> Vec<PathBuf> {
        let agents = self.load();
        let places = agents.iter().flat_map(|agents| agents.map.agents.values().flat_map(|it| &it.secrets));
        let file = |place: &SecretPlace| match place {
            SecretPlace::File(path) => Some(path.clone()),
            SecretPlace::Environment(_) => None,
        };
        places.filter_map(file).collect()
    }
}

impl Agents {
    /// Reads a map and the secrets it names.
    ///
    /// # Errors
    /// All faults of the map; or the agents whose secrets cannot be read.
    pub fn read(text: &str, source: &str, read: &ReadSecret) -> Result<Self, Vec<Fault>> {
        let map = CapabilityMap::parse(text, source)?;
        let (mut secrets, mut faults) = (BTreeMap::new(), Vec::new());
        for (id, agent) in &map.agents {
            let had: Vec<SharedSecret> =
                agent.secrets.iter().filter_map(|place| SharedSecret::of(&read(place)?)).collect();
            if had.len() < agent.secrets.len() {
                faults.push(unreadable(source, id));
            }
            secrets.insert(id.clone(), had);
        }
        if faults.is_empty() { Ok(Self { map, secrets }) } else { Err(faults) }
    }

    /// Returns what an agent signs with.
    pub fn secrets(&self, agent: &str) -> &[SharedSecret] {
        self.secrets.get(agent).map_or(&[], Vec::as_slice)
    }
}

impl SharedSecret {
    /// Returns a secret from what lies in its place: one line, without its end.
    pub fn of(text: &str) -> Option<Self> {
        let line = text.trim_end_matches(['\r', '\n']);
        let is_sane = (SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&line.len()) && !line.contains('\n');
        is_sane.then(|| Self(line.as_bytes().to_vec()))
    }

    /// Returns the bytes, to compute with.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedSecret(***)")
    }
}

fn unreadable(source: &str, agent: &str) -> Fault {
    let place = crate::document::Place { source: source.into(), line: None, column: None };
    let reason =
        format!("a secret cannot be read, or is no line of {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes");
    let problem = Problem::Invalid { reason, suggestion: None };
    Fault { place: Some(place), key: format!("agents.{agent}.secrets"), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "capabilities: {ask: }\nagents:\n  a: {capabilities: [ask], secrets: [{env: A}]}\n";

    fn directory(secret: Option<&'static str>) -> Directory {
        Directory::new(Box::new(move |_| secret.map(str::to_owned)))
    }

    #[test]
    fn a_broken_map_keeps_the_old_one() {
        let directory = directory(Some("sesame-sesame-sesame\n"));
        assert!(directory.load().is_none());
        directory.replace(MAP, "m").unwrap();
        assert!(directory.replace("agents: [", "m").is_err());
        let agents = directory.load().unwrap();
        assert_eq!(agents.secrets("a")[0].expose(), b"sesame-sesame-sesame");
        assert!(agents.secrets("b").is_empty());
        assert!(!format!("{agents:?}").contains("sesame"));
    }

    #[test]
    fn an_agent_without_its_secret_is_a_fault() {
        for secret in [None, Some(""), Some("short"), Some("two lines of\nsixteen bytes")] {
            let faults = directory(secret).replace(MAP, "m").unwrap_err();
            assert_eq!(faults[0].key, "agents.a.secrets", "{secret:?}");
        }
    }
}
