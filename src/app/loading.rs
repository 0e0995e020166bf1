//! Where the parts of a ruleset come from, and how packs are proven before they count.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use super::agents;
use super::agents::NamedFiles;
use super::compiled::CompiledFolder;
use super::forwarding;
use super::frameworks;
use super::memory;
use super::streamed::Streamed;
use crate::config::Config;
use crate::config::ConfigFault;
use crate::config::PluginsConfig;
use crate::config::Sources;
use crate::config::file;
use crate::config::provision::provider_key_faults;
use crate::config::provision::sink_secret_faults;
use crate::document::Fault;
use crate::document::Place;
use crate::policy::build::DIALECTS_FOLDER;
use crate::policy::build::DialectFiles;
use crate::policy::build::Loading;
use crate::policy::build::try_build;
use crate::scan::detector::Detector;
use crate::scan::pack;
use crate::scan::pack::PackFault;
use crate::scan::pack::PluginFiles;
use crate::scan::proof;
use crate::scan::proof::ProofFault;
use crate::scan::proof::ProofProblem;
use crate::scan::rule;
use crate::scan::rule::Rules;
use crate::scan::scanner::Scanner;
use crate::scan::threat::DetectorId;

/// The most dialect files of an overlay.
const DIALECT_FILES_MAX: usize = 256;

/// Returns the loaders of a configuration: its document, its packs, its dialects. Files of agents that are named
/// otherwise than `agents` knows are judged, too.
pub(super) fn loading(config: &Config, sources: &Sources, agents: Arc<NamedFiles>) -> Loading {
    let (sources, plugins, sample_provider) =
        (sources.clone(), config.plugins.path.clone(), sources.sample_provider);
    let (overlay, rules, models) = (plugins.clone(), plugins.clone(), plugins.clone());
    let (of_texts, root) = (plugins.clone(), plugins.clone());
    let running = PluginsConfig { path: plugins.clone(), compiled_path: Some(config.compiled_path()) };
    let packs = Arc::new(Packs { plugins, last: Mutex::default() });
    let (of_detectors, of_rules) = (Arc::clone(&packs), Arc::clone(&packs));
    Loading {
        document: Box::new(move || {
            // What is refused is told whole: what building it would find does not wait for the rest to be mended.
            let whole = |found| checked(&running, &sources).err().unwrap_or(found);
            let written = sources.written().map_err(whole)?;
            // The whole file is read, so that a fault in what needs a restart is told now, not then.
            let read = Config::read_and_try(written.document.clone(), |config| {
                let mut faults = provider_key_faults(config);
                faults.extend(sink_secret_faults(config));
                faults.extend(agents.faults(config));
                faults
            });
            read.map_err(whole)?;
            Ok(written)
        }),
        defaults: file::defaults(),
        sample_provider,
        cache: Box::new(CompiledFolder::new(config.compiled_path())),
        detectors: Box::new(move || packs.load()),
        layer2: Box::new(move || {
            let (files, faults) = pack::read_rules(&rules);
            if faults.is_empty() { Ok(files) } else { Err(faults.into_iter().map(Fault::from).collect()) }
        }),
        layer3: Box::new(move || {
            let (files, faults) = pack::read_models(&models);
            if faults.is_empty() { Ok(files) } else { Err(faults.into_iter().map(Fault::from).collect()) }
        }),
        dialects: Box::new(move || dialect_files(&overlay)),
        prove: Box::new(move |scanner| {
            // What is made next and stays would lie scattered between what goes.
            memory::give_back();
            if of_detectors.are_builtin(scanner) { Vec::new() } else { prove(scanner) }
        }),
        prove_rules: Box::new(move |rules, scanner| {
            let builtin = of_rules.are_builtin(scanner) && *rules.files() == pack::builtin_rules();
            if builtin { Vec::new() } else { prove_rules(rules, scanner) }
        }),
        sinks: Box::new(forwarding::faults),
        texts: Box::new(move || texts(&of_texts)),
        located: Box::new(move |fault| located(fault, &root)),
        built: Box::new(memory::give_back),
    }
}

/// The files of packs, and what they say.
type Parsed = (PluginFiles, Arc<Vec<Detector>>);

/// The packs as they were read last: a reload of policies alone parses none of them again.
struct Packs {
    plugins: PathBuf,
    last: Mutex<Option<Parsed>>,
}

impl Packs {
    fn load(&self) -> Result<Arc<Vec<Detector>>, Vec<Fault>> {
        let (files, mut faults) = pack::read_dir(&self.plugins);
        let mut last = self.last.lock();
        if let Some((_, detectors)) = last.as_ref().filter(|(known, _)| faults.is_empty() && *known == files)
        {
            return Ok(Arc::clone(detectors));
        }
        let (detectors, found) = pack::tried(&files);
        faults.extend(found);
        if !faults.is_empty() {
            return Err(told_with_proofs(faults, &detectors));
        }
        let detectors = Arc::new(detectors);
        *last = Some((files, Arc::clone(&detectors)));
        Ok(detectors)
    }

    /// Tells whether a scanner was compiled from the packs as they were read last, and these are the built-in ones.
    fn are_builtin(&self, scanner: &Scanner) -> bool {
        let last = self.last.lock();
        last.as_ref().is_some_and(|(files, detectors)| {
            std::ptr::eq(detectors.as_slice(), scanner.detectors()) && *files == pack::builtin_files()
        })
    }
}

/// Reads sources as a check of them does, with the packs of the running process: others need a restart.
fn checked(plugins: &PluginsConfig, sources: &Sources) -> Result<Config, Vec<Fault>> {
    sources.check(|config| faults(&Config { plugins: plugins.clone(), ..config.clone() }, sources))
}

/// Returns everything that is wrong with the rules of a configuration.
pub fn faults(config: &Config, sources: &Sources) -> Vec<ConfigFault> {
    let loading = loading(config, sources, Arc::new(NamedFiles::of(config)));
    let mut faults = try_build(&loading, &config.document).err().unwrap_or_default();
    faults.extend(agents::faults(config));
    faults.extend(frameworks::load(&config.plugins.path).err().into_iter().flatten());
    faults
}

/// Proves every detector that is not built in, in one piece and in a stream cut at every place.
/// The built-in ones are proven when the binary is tested; what they find does not depend on others.
fn prove(scanner: &Scanner) -> Vec<Fault> {
    match proofs(scanner.detectors()) {
        Ok(found) => found.into_iter().map(Fault::from).collect(),
        Err(found) => found.into_iter().map(Fault::from).collect(),
    }
}

/// Proves what of some detectors is not built in.
///
/// # Errors
/// What keeps them from being compiled.
fn proofs(detectors: &[Detector]) -> Result<Vec<ProofFault>, Vec<PackFault>> {
    let own = own_detectors(detectors);
    if own.is_empty() {
        return Ok(Vec::new());
    }
    let scanner = Scanner::compile(own)?;
    let streamed = Streamed::default();
    let replay = |scanner: &Scanner, id: DetectorId, text: &[u8], cut: usize| {
        streamed.findings(scanner, id, text, cut)
    };
    Ok(proof::prove(&scanner, Some(&replay)).err().unwrap_or_default())
}

/// Tells what is wrong with packs, and with the examples of those detectors that can be read all the same.
fn told_with_proofs(faults: Vec<PackFault>, sound: &[Detector]) -> Vec<Fault> {
    // A file may have said of a value that it is made to be shown, and is ignored for that.
    let is_sure = faults.iter().all(|fault| fault.detector.is_some());
    let mut told: Vec<Fault> = faults.into_iter().map(Fault::from).collect();
    match proofs(sound) {
        Ok(mut found) => {
            found.retain(|fault| is_sure || !matches!(fault.problem, ProofProblem::Found { .. }));
            told.extend(found.into_iter().map(Fault::from));
        }
        Err(found) => told.extend(found.into_iter().map(Fault::from)),
    }
    told
}

/// Returns those of some detectors that are not built in.
fn own_detectors(detectors: &[Detector]) -> Vec<Detector> {
    let builtin = pack::builtin().unwrap_or_default();
    let builtin: HashMap<&str, &Detector> = builtin.iter().map(|it| (it.name.as_str(), it)).collect();
    let is_own = |detector: &&Detector| builtin.get(detector.name.as_str()) != Some(detector);
    detectors.iter().filter(is_own).cloned().collect()
}

/// Returns the texts of packs, of rules and of the cards of models; `None` where one cannot be read.
fn texts(plugins: &Path) -> Option<Vec<String>> {
    let (packs, rules, models) =
        (pack::read_dir(plugins), pack::read_rules(plugins), pack::read_models(plugins));
    if !(packs.1.is_empty() && rules.1.is_empty() && models.1.is_empty()) {
        return None;
    }
    let cards = models.0.into_iter().filter(|(path, _)| path.ends_with(".toml"));
    let cards = cards.map(|(_, card)| String::from_utf8_lossy(&card).into_owned());
    let written = packs.0.into_values().chain(rules.0.into_values()).map(Cow::into_owned);
    Some(written.chain(cards).collect())
}

/// Returns a fault of a file below the folder of plugins with the path by which that can be opened.
pub(super) fn located(fault: Fault, plugins: &Path) -> Fault {
    let lies_there = |place: Place| {
        let path = plugins.join(&*place.source);
        let source =
            if path.is_symlink() || path.exists() { path.display().to_string().into() } else { place.source };
        Place { source, ..place }
    };
    Fault { place: fault.place.map(lies_there), ..fault }
}

/// Proves rules; the built-in ones over the built-in packs are proven when the binary is tested.
fn prove_rules(rules: &Rules, scanner: &Scanner) -> Vec<Fault> {
    rule::proof::prove(rules, scanner, None).err().into_iter().flatten().map(Fault::from).collect()
}

fn dialect_files(plugins: &Path) -> Result<DialectFiles, Vec<Fault>> {
    let folder = plugins.join(DIALECTS_FOLDER);
    let Ok(entries) = std::fs::read_dir(&folder) else { return Ok(Vec::new()) };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let (mut files, mut faults) = (Vec::new(), Vec::new());
    for path in paths.into_iter().take(DIALECT_FILES_MAX) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match file::read_regular(&path) {
            Ok(text) => files.push((name, text)),
            Err(found) => faults.extend(found),
        }
    }
    if faults.is_empty() { Ok(files) } else { Err(faults) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// What is told of files that a reload refuses, and of the same by a check, both sorted.
    fn told(text: &str, pack: Option<&str>) -> [Vec<String>; 2] {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let plugins = format!(
            "[plugins]\npath = \"{}\"\ncompiled_path = \"{}\"\n",
            at("plugins").display(),
            at("compiled").display()
        );
        fs::create_dir_all(at("plugins/detectors")).unwrap();
        fs::write(at("gateway.toml"), &plugins).unwrap();
        let sources = Sources { file: Some(at("gateway.toml")), ..Sources::default() };
        let config = sources.load().unwrap();
        let loading = loading(&config, &sources, Arc::new(NamedFiles::of(&config)));
        fs::write(at("gateway.toml"), format!("{plugins}{text}")).unwrap();
        if let Some(pack) = pack {
            fs::write(at("plugins/detectors/own.toml"), pack).unwrap();
        }
        let reloaded = (loading.document)().unwrap_err();
        let checked = sources.check(|config| faults(config, &sources)).unwrap_err();
        [reloaded, checked].map(|faults| {
            let mut lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
            lines.sort();
            lines
        })
    }

    #[test]
    fn a_reload_tells_what_a_check_tells() {
        let structural = "[limits]\nscan_ms = 0\n";
        let unknown = format!("{structural}[policies.default.detectors.kee]\nmode = \"off\"\n");
        for (text, pack, found) in [
            (unknown.as_str(), None, "policies.default.detectors.kee: there is no such detector"),
            (structural, Some("[pack]\nname = 3\n"), "plugins/detectors/own.toml:2"),
            (&unknown, Some("[pack\n"), "policies.default.detectors.kee: there is no such detector"),
            ("[proxy\n", Some("[pack\n"), "gateway.toml:"),
        ] {
            let [reloaded, checked] = told(text, pack);
            assert_eq!(reloaded, checked);
            let is_read = text.starts_with(structural);
            for wanted in [found].into_iter().chain(is_read.then_some("limits.scan_ms")) {
                assert!(reloaded.iter().any(|line| line.contains(wanted)), "{wanted} in {reloaded:?}");
            }
        }
    }

    /// A pipe would keep whoever reads it waiting for good.
    #[test]
    fn what_is_no_file_is_no_dialect() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("dialects/own.toml")).unwrap();
        let faults = dialect_files(folder.path()).unwrap_err();
        assert!(faults[0].to_string().ends_with("own.toml: is no regular file"), "{faults:?}");
    }
}
