//! Builds a ruleset from a document and what the loaders bring, gathering the faults of all of them.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use crate::document::Document;
use crate::document::Fault;
use crate::document::Place;
use crate::document::Places;
use crate::document::Problem;
use crate::document::patch::merge;
use crate::document::section;
use crate::llm::dialect::DialectFault;
use crate::llm::dialect::Dialects;
use crate::policy::file::DetectorFacts;
use crate::policy::route::Upstream;
use crate::policy::ruleset::Parts;
use crate::policy::ruleset::RELOADABLE_KEYS;
use crate::policy::ruleset::RulesFile;
use crate::policy::ruleset::Ruleset;
use crate::policy::ruleset::SINKS_KEY;
use crate::policy::ruleset::facts_of;
use crate::policy::ruleset::unknown_detectors;
use crate::scan::classifier::shelf::ModelFault;
use crate::scan::classifier::shelf::ModelFiles;
use crate::scan::classifier::shelf::Shelf;
use crate::scan::detector::Detector;
use crate::scan::engine::DatabaseCache;
use crate::scan::pack::PackFault;
use crate::scan::pack::PluginFiles;
use crate::scan::proof::ProofFault;
use crate::scan::rule::Rules;
use crate::scan::rule::proof::RuleFault;
use crate::scan::scanner::Scanner;

/// The largest reloadable part of a document, in bytes of JSON; the store takes no larger records.
pub const RULES_BYTES_MAX: usize = 4 << 20;

/// The sections whose members people make and take away: what a stored revision does not name there is not there.
const MADE_KEYS: [&str; 3] = ["routes", "policies", SINKS_KEY];

/// Where dialects live below the folder of plugins.
pub const DIALECTS_FOLDER: &str = "dialects/";

/// Files of dialects, by name and text, as [`Dialects::overlaid`] takes them.
pub type DialectFiles = Vec<(String, String)>;

/// Loads a part, or says everything that is wrong with it.
pub type Load<T> = Box<dyn Fn() -> Result<T, Vec<Fault>> + Send + Sync>;

/// Proves a scanner by its own examples; no fault: it holds.
pub type Prove = Box<dyn Fn(&Scanner) -> Vec<Fault> + Send + Sync>;

/// Proves rules by their own scenarios, with the scanner they go with; no fault: they hold.
pub type ProveRules = Box<dyn Fn(&Rules, &Scanner) -> Vec<Fault> + Send + Sync>;

/// Judges where a document forwards the audit log to; no fault: it can be.
pub type JudgeSinks = Box<dyn Fn(&Document) -> Vec<Fault> + Send + Sync>;

/// Reads texts, as far as there is reading them all.
pub type Texts = Box<dyn Fn() -> Option<Vec<String>> + Send + Sync>;

/// Gives a fault the path by which its file can be opened.
pub type Locate = Box<dyn Fn(Fault) -> Fault + Send + Sync>;

/// What files and the environment say.
#[derive(Clone, Debug)]
pub struct Written {
    /// All of it, over the defaults of this release.
    pub document: Document,
    /// The digest of what they say of the rules themselves: the same in every release.
    pub own_etag: String,
}

/// Where the parts of a ruleset come from; each is asked anew at every reload.
pub struct Loading {
    /// All that files and the environment say.
    pub document: Load<Written>,
    /// What is built in: what a revision of an earlier release does not know has its value here.
    pub defaults: Document,
    /// Where all routes lead instead of to their upstreams; no document and no revision tells of it.
    pub sample_provider: Option<SocketAddr>,
    /// Keeps what compiling the packs gives.
    pub cache: Box<dyn DatabaseCache + Send>,
    /// The packs.
    pub detectors: Load<Arc<Vec<Detector>>>,
    /// The files of models, by path, as [`Shelf::read`] takes them.
    pub layer3: Load<ModelFiles>,
    /// The files of rules, by path, as [`Rules::compile`] takes them.
    pub layer2: Load<PluginFiles>,
    /// The files that overlay the embedded dialects.
    pub dialects: Load<DialectFiles>,
    /// Proves a freshly compiled scanner by its own examples; empty: it holds.
    pub prove: Prove,
    /// Proves freshly compiled rules by their own scenarios; empty: they hold.
    pub prove_rules: ProveRules,
    /// Judges where the audit log is to be forwarded to; empty: it can be.
    pub sinks: JudgeSinks,
    /// The texts of all files that give names to what can be found; `None`: there are some that cannot be read.
    pub texts: Texts,
    /// Tells of a fault of a plugin file where that file lies.
    pub located: Locate,
    /// Called once a ruleset stands or is refused: what building took is no longer needed.
    pub built: Box<dyn Fn() + Send + Sync>,
}

/// Builds the ruleset of a document and throws it away.
///
/// # Errors
///
/// All faults of the rules, the packs and the dialects.
pub fn try_build(loading: &Loading, document: &Document) -> Result<(), Vec<Fault>> {
    Builder { loading, running: None }.build(document, 0).map(|_| ())
}

/// The three layers, in the order in which they are built.
type Layers = (Arc<Scanner>, Arc<Shelf>, Arc<Rules>);

/// Builds rulesets, with the running scanner where the packs are as they were.
pub(super) struct Builder<'a> {
    pub(super) loading: &'a Loading,
    pub(super) running: Option<&'a Ruleset>,
}

impl Builder<'_> {
    pub(super) fn build(&self, document: &Document, revision: u64) -> Result<Ruleset, Vec<Fault>> {
        let built = self.ruleset(document, revision);
        (self.loading.built)();
        built
    }

    fn ruleset(&self, document: &Document, revision: u64) -> Result<Ruleset, Vec<Fault>> {
        let mut faults = (self.loading.sinks)(document);
        let (rules, found) = tried_rules(document);
        let rules = rules.map(|rules| self.redirected(rules));
        faults.extend(found);
        let mut note = |found: Vec<Fault>| faults.extend(found.into_iter().map(&self.loading.located));
        let scanned = self.scanned().map_err(&mut note).ok();
        let dialects = self.dialects().map_err(&mut note).ok();
        let places = document.places();
        if let (false, Some(rules)) = (faults.is_empty(), &rules) {
            // What else is wrong hides none of the names that lead nowhere.
            faults.extend(match &scanned {
                Some((scanner, layer3, layer2)) => {
                    unknown_detectors(rules, places, &facts_of(scanner, layer3, layer2))
                }
                None => self.unwritten_detectors(rules, places),
            });
        }
        let (true, Some(rules), Some((scanner, layer3, layer2)), Some((dialects, dialect_files))) =
            (faults.is_empty(), rules, scanned, dialects)
        else {
            return Err(faults);
        };
        let parts =
            Parts { revision, rules: &rules, places, scanner, layer3, layer2, dialects, dialect_files };
        Ruleset::build_beside(self.running, parts)
    }

    /// Leads all routes to the sample provider, where there is one.
    fn redirected(&self, mut rules: RulesFile) -> RulesFile {
        if let Some(address) = self.loading.sample_provider {
            let sample = Upstream {
                tls: false,
                host: address.ip().to_string(),
                port: address.port(),
                base_path: String::new(),
            };
            rules.routes.iter_mut().for_each(|route| route.upstreams = vec![sample.clone()]);
        }
        rules
    }

    /// Returns every name of a detector in some rules that stands, as a text of its own, in no file that could give it: of
    /// files with faults nothing else is sure.
    fn unwritten_detectors(&self, rules: &RulesFile, places: &Places) -> Vec<Fault> {
        let Some(texts) = (self.loading.texts)() else { return Vec::new() };
        let stands = |written: String| texts.iter().any(|text| text.contains(&written));
        let is_written = |name: &&str| stands(format!("\"{name}\"")) || stands(format!("'{name}'"));
        let named: BTreeSet<&str> = rules.names_of_detectors().collect();
        let facts: Vec<_> = named.into_iter().filter(is_written).map(DetectorFacts::of_name).collect();
        unknown_detectors(rules, places, &facts)
    }

    /// Builds the three layers, each with what the ones before it know. One that is faulty hides no fault of the others.
    fn scanned(&self) -> Result<Layers, Vec<Fault>> {
        let mut scanner = self.scanner().map_err(|mut faults| {
            faults.extend(self.faults_of_models());
            faults.extend(self.faults_of_rules());
            faults
        })?;
        let layer3 = self.layer3(&scanner).map_err(|mut faults| {
            faults.extend(self.faults_of_rules());
            faults
        })?;
        let layer2 = self.layer2(&scanner, &layer3)?;
        // What proving the rules has built; a scanner that runs already keeps what its texts ask for.
        if let Some(fresh) = Arc::get_mut(&mut scanner) {
            fresh.forget_built();
        }
        Ok((scanner, layer3, layer2))
    }

    /// Returns what is wrong with the models, whatever they go with.
    fn faults_of_models(&self) -> Vec<Fault> {
        let read = (self.loading.layer3)().and_then(|files| Shelf::read(files, &[]).map_err(told));
        read.err().unwrap_or_default()
    }

    /// Returns what is wrong with the rules, whatever they go with.
    fn faults_of_rules(&self) -> Vec<Fault> {
        let read = (self.loading.layer2)().and_then(|files| Rules::compile(files, &[]).map_err(told));
        read.err().unwrap_or_default()
    }

    /// Reads the models, or takes the running ones where nothing changed.
    fn layer3(&self, scanner: &Arc<Scanner>) -> Result<Arc<Shelf>, Vec<Fault>> {
        let files = (self.loading.layer3)()?;
        let same =
            |running: &&Ruleset| Arc::ptr_eq(&running.scanner, scanner) && *running.layer3.files() == files;
        if let Some(running) = self.running.filter(same) {
            return Ok(Arc::clone(&running.layer3));
        }
        let names: Vec<&str> = scanner.detectors().iter().map(|detector| detector.name.as_str()).collect();
        Ok(Arc::new(Shelf::read(files, &names).map_err(told)?))
    }

    /// Reads the dialects, with the running ones where no overlay changed.
    fn dialects(&self) -> Result<(Arc<Dialects>, DialectFiles), Vec<Fault>> {
        let files = (self.loading.dialects)()?;
        if let Some(running) = self.running.filter(|running| running.dialect_files == files) {
            return Ok((running.dialects.clone(), files));
        }
        let dialects = Dialects::overlaid(&files).map_err(told)?;
        Ok((Arc::new(dialects), files))
    }

    /// Compiles and proves the rules, or takes the running ones where nothing changed.
    fn layer2(&self, scanner: &Arc<Scanner>, layer3: &Arc<Shelf>) -> Result<Arc<Rules>, Vec<Fault>> {
        let files = (self.loading.layer2)()?;
        let same = |running: &&Ruleset| {
            let beside = Arc::ptr_eq(&running.scanner, scanner) && Arc::ptr_eq(&running.layer3, layer3);
            beside && *running.layer2.files() == files
        };
        if let Some(running) = self.running.filter(same) {
            return Ok(Arc::clone(&running.layer2));
        }
        let compiled = Rules::compile_beside(files, scanner.detectors(), layer3.kinds());
        let rules = compiled.map_err(told)?;
        let faults = (self.loading.prove_rules)(&rules, scanner);
        if faults.is_empty() { Ok(Arc::new(rules)) } else { Err(faults) }
    }

    fn scanner(&self) -> Result<Arc<Scanner>, Vec<Fault>> {
        let detectors = (self.loading.detectors)()?;
        if let Some(running) =
            self.running.filter(|running| running.scanner.detectors() == detectors.as_slice())
        {
            return Ok(running.scanner.clone());
        }
        let compiled = Scanner::compile_cached(detectors, &*self.loading.cache);
        let scanner = compiled.map_err(told)?;
        let faults = (self.loading.prove)(&scanner);
        if faults.is_empty() { Ok(Arc::new(scanner)) } else { Err(faults) }
    }
}

fn told<F: Into<Fault>>(faults: Vec<F>) -> Vec<Fault> {
    faults.into_iter().map(F::into).collect()
}

impl From<PackFault> for Fault {
    fn from(fault: PackFault) -> Self {
        let place = Place { source: fault.file.into(), line: fault.line, column: None };
        let problem = Problem::Invalid { reason: fault.problem.to_string(), suggestion: None };
        Self { place: Some(place), key: fault.detector.unwrap_or_default(), problem }
    }
}

impl From<ModelFault> for Fault {
    fn from(fault: ModelFault) -> Self {
        let place = Place { source: fault.file.into(), line: None, column: None };
        let problem = Problem::Invalid { reason: fault.problem.to_string(), suggestion: None };
        Self { place: Some(place), key: String::new(), problem }
    }
}

impl From<RuleFault> for Fault {
    fn from(fault: RuleFault) -> Self {
        let place = Place { source: fault.file.into(), line: Some(fault.line), column: None };
        let problem = Problem::Invalid { reason: fault.problem.to_string(), suggestion: None };
        Self { place: Some(place), key: fault.rule, problem }
    }
}

impl From<DialectFault> for Fault {
    fn from(fault: DialectFault) -> Self {
        let source = format!("{DIALECTS_FOLDER}{}", fault.file).into();
        let place = Place { source, line: fault.line, column: None };
        let problem = Problem::Invalid { reason: fault.problem.to_string(), suggestion: None };
        Self { place: Some(place), key: String::new(), problem }
    }
}

impl From<ProofFault> for Fault {
    fn from(fault: ProofFault) -> Self {
        let place = Place { source: fault.file.into(), line: Some(fault.line), column: None };
        let problem = Problem::Invalid { reason: fault.problem.to_string(), suggestion: None };
        Self { place: Some(place), key: fault.detector, problem }
    }
}

/// Reads the reloadable part of a document; what else is in it was read at the start.
pub(crate) fn read_rules(document: &Document) -> Result<RulesFile, Vec<Fault>> {
    let (rules, faults) = tried_rules(document);
    rules.filter(|_| faults.is_empty()).ok_or(faults)
}

/// Reads the reloadable part of a document as far as it goes, with stand-ins for what is faulty; `None`: it is too large.
fn tried_rules(document: &Document) -> (Option<RulesFile>, Vec<Fault>) {
    let mut only_rules = Document::from_json(Value::Object(rules_of(document)), None).unwrap_or_default();
    only_rules = only_rules.placed_like(document);
    let bytes = serde_json::to_vec(only_rules.root()).map_or(usize::MAX, |text| text.len());
    if bytes > RULES_BYTES_MAX {
        let reason = format!("expected {RULES_BYTES_MAX} bytes of JSON at most");
        let problem = Problem::Invalid { reason, suggestion: None };
        return (None, vec![Fault { place: None, key: String::new(), problem }]);
    }
    only_rules.root_mut().remove(SINKS_KEY);
    let (rules, mut faults) = section::tried(&only_rules, RulesFile::read);
    let is_encrypted = document.to_json().pointer("/proxy/tls/cert").is_some();
    if !is_encrypted {
        faults.extend(routes_for_agents(document).map(|key| {
            let reason = "a2a needs [proxy.tls]: agents are known by their certificates".to_owned();
            let problem = Problem::Invalid { reason, suggestion: None };
            Fault { place: document.places().of(&key).cloned(), key, problem }
        }));
    }
    (Some(rules), faults)
}

/// Returns the keys by which routes are for agents alone.
fn routes_for_agents(document: &Document) -> impl Iterator<Item = String> {
    let routes = document.root().get("routes").and_then(Value::as_array).into_iter().flatten();
    let is_for_agents = |route: &Value| route.get("auth").is_some_and(|auth| auth == "a2a");
    routes
        .enumerate()
        .filter(move |(_, route)| is_for_agents(route))
        .map(|(at, _)| format!("routes[{at}].auth"))
}

/// Returns the reloadable part of a document.
pub(crate) fn rules_of(document: &Document) -> Map<String, Value> {
    let reloadable = |key: &str| document.root().get(key).map(|value| (key.to_owned(), value.clone()));
    RELOADABLE_KEYS.into_iter().filter_map(reloadable).collect()
}

/// Returns the same, for a document that means it when it names no sink.
pub(super) fn all_rules_of(document: &Document) -> Map<String, Value> {
    let mut rules = rules_of(document);
    rules.entry(SINKS_KEY).or_insert_with(|| json!({ "sinks": [] }));
    rules
}

/// Returns a document with the rules of a stored revision. Of limits and settings, which all have a value, those that the
/// revision does not name are younger than it, and have their default.
pub(super) fn restored(document: &Document, defaults: &Document, rules: Map<String, Value>) -> Document {
    let mut whole = rules_of(defaults);
    whole.retain(|key, _| !MADE_KEYS.contains(&key.as_str()));
    merge(&mut whole, rules);
    with_rules(document, whole)
}

/// Returns the digest of the reloadable part of a document.
pub(super) fn rules_etag(document: &Document) -> String {
    Document::from_json(Value::Object(rules_of(document)), None).unwrap_or_default().etag()
}

/// Returns a document with its reloadable part replaced. Where the new one says nothing of sinks, they stay: it may be a
/// revision of a release that did not keep them, and none of them falls silent by it.
pub(super) fn with_rules(document: &Document, rules: Map<String, Value>) -> Document {
    let mut changed = document.clone();
    let root = changed.root_mut();
    let stays = |key: &str| key == SINKS_KEY && !rules.contains_key(SINKS_KEY);
    RELOADABLE_KEYS.iter().filter(|key| !stays(key)).for_each(|key| drop(root.remove(*key)));
    root.extend(rules);
    changed
}
