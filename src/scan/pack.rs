//! Packs: files of detectors, rules and models, built in or laid over by an operator, read with every fault
//! they have.

mod context;
mod edges;
mod fault;
mod folder;
mod heads;
mod parts;
mod reader;
mod shown;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::scan::classifier::format::MODEL_BYTES_MAX;
use crate::scan::classifier::onnx;
use crate::scan::classifier::shelf::ModelFiles;
use crate::scan::detector::Detector;
use crate::scan::detector::Shown;
use crate::scan::threat::Category;

pub use self::fault::PackFault;
pub use self::fault::PackProblem;
use self::folder::name_below;
use self::folder::read_bounded;
use self::folder::read_folder;
use self::folder::sorted_entries;
use self::folder::too_long;
use self::folder::unreadable;
use self::reader::Reader;

/// The most files a set of packs may have.
pub const PACKS_MAX: usize = 512;
/// The most detectors a scanner may have.
pub const DETECTORS_MAX: usize = 4096;
/// The longest file of a pack, in bytes.
pub const PACK_BYTES_MAX: usize = 1 << 20;
/// The most examples of one kind a detector may have.
pub const EXAMPLES_MAX: usize = 64;
/// The longest example, in bytes.
pub const EXAMPLE_BYTES_MAX: usize = 4096;
/// The most context words a detector may have, for a match and against it.
pub const CONTEXT_WORDS_MAX: usize = 256;
/// The shortest beginning of a value that a detector may name, in bytes.
pub const HEAD_BYTES_MIN: usize = 4;
/// The longest name of a detector, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// The most beginnings of values that are made to be shown.
pub const SHOWN_MAX: usize = 256;
/// How deep the folder of an overlay is followed.
const FOLDER_DEPTH_MAX: usize = 4;
/// Where packs live below the folder of plugins.
const DETECTORS_FOLDER: &str = "detectors/";
/// Where rules live below the folder of plugins.
const RULES_FOLDER: &str = "rules/";

/// Where frameworks live below the folder of plugins.
const FRAMEWORKS_FOLDER: &str = "frameworks/";

/// Where models live below the folder of plugins.
pub const MODELS_FOLDER: &str = "models/";

/// The texts of plugin files, by path below the folder of plugins.
pub type PluginFiles = BTreeMap<String, Cow<'static, str>>;

/// Returns every plugin file that is compiled in, as its path below `plugins/` and its text, sorted by path.
pub fn embedded() -> &'static [(&'static str, &'static str)] {
    include!(concat!(env!("OUT_DIR"), "/plugins.rs"))
}

/// Returns the files of models that are compiled in, by path.
pub fn builtin_models() -> ModelFiles {
    let files: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/models.rs"));
    files.iter().map(|(path, bytes)| ((*path).to_owned(), Bytes::from_static(bytes))).collect()
}

/// Reads the packs that are compiled in.
///
/// # Errors
/// Every fault of every pack.
pub fn builtin() -> Result<Vec<Detector>, Vec<PackFault>> {
    parse_all(&builtin_files())
}

/// Returns the texts of the packs that are compiled in, by path below the folder of plugins.
pub fn builtin_files() -> PluginFiles {
    embedded_files(DETECTORS_FOLDER)
}

/// Reads the packs that are compiled in, with the files below `overlay` laid over them.
///
/// A file replaces the built-in one of the same path below the folder of plugins (`detectors/pii/email.toml`),
/// or adds to them. Reads files; call it off the request threads.
///
/// # Errors
/// Every fault of every pack, and of the folder.
pub fn load_dir(overlay: &Path) -> Result<Vec<Detector>, Vec<PackFault>> {
    let (files, mut faults) = read_dir(overlay);
    let (detectors, found) = tried(&files);
    faults.extend(found);
    if faults.is_empty() { Ok(detectors) } else { Err(faults) }
}

/// Returns the texts of the built-in packs with the packs of a folder laid over them, by path, and what could
/// not be read. Reads files; call it off the request threads.
pub fn read_dir(overlay: &Path) -> (PluginFiles, Vec<PackFault>) {
    read_below(overlay, DETECTORS_FOLDER)
}

/// Does the same for files of rules, as [`Rules::compile`](crate::scan::rule::Rules::compile) takes them.
pub fn read_rules(overlay: &Path) -> (PluginFiles, Vec<PackFault>) {
    read_below(overlay, RULES_FOLDER)
}

/// Returns the files of rules that are compiled in, by path.
pub fn builtin_rules() -> PluginFiles {
    embedded_files(RULES_FOLDER)
}

/// Does the same for files of frameworks of controls.
pub fn read_frameworks(overlay: &Path) -> (PluginFiles, Vec<PackFault>) {
    read_below(overlay, FRAMEWORKS_FOLDER)
}

/// Returns the files of frameworks that are compiled in, by path.
pub fn builtin_frameworks() -> PluginFiles {
    embedded_files(FRAMEWORKS_FOLDER)
}

/// Returns the files of the built-in models with those of a folder laid over them, by path, and what could not
/// be read. Reads files; call it off the request threads.
pub fn read_models(overlay: &Path) -> (ModelFiles, Vec<PackFault>) {
    let (mut files, mut faults) = (builtin_models(), Vec::new());
    let root = overlay.join(MODELS_FOLDER);
    if !root.is_dir() {
        return (files, faults);
    }
    for folder in sorted_entries(overlay, &root, &mut faults).into_iter().filter(|path| path.is_dir()) {
        for path in sorted_entries(overlay, &folder, &mut faults) {
            let is_graph = path.to_str().is_some_and(|path| path.ends_with(onnx::EXTENSION));
            let limit = if is_graph { onnx::GRAPH_BYTES_MAX } else { MODEL_BYTES_MAX };
            match read_bounded(&path, limit) {
                Ok(Some(bytes)) => drop(files.insert(name_below(overlay, &path), bytes.into())),
                Ok(None) => faults.push(too_long(overlay, &path, limit)),
                Err(fault) => faults.push(unreadable(overlay, &path, fault)),
            }
        }
    }
    (files, faults)
}

fn read_below(overlay: &Path, folder: &str) -> (PluginFiles, Vec<PackFault>) {
    let (mut files, mut faults) = (embedded_files(folder), Vec::new());
    let root = overlay.join(folder);
    if root.is_dir() {
        read_folder(overlay, &root, FOLDER_DEPTH_MAX, &mut files, &mut faults);
    }
    (files, faults)
}

/// Reads packs from texts by their paths.
///
/// # Errors
/// Every fault of every pack.
pub fn parse_all(files: &PluginFiles) -> Result<Vec<Detector>, Vec<PackFault>> {
    let (detectors, faults) = tried(files);
    if faults.is_empty() { Ok(detectors) } else { Err(faults) }
}

/// Reads packs as [`parse_all`] does and returns, beside all faults, the detectors of which nothing is wrong: who goes on
/// looking for faults needs them, and nobody else.
pub fn tried(files: &PluginFiles) -> (Vec<Detector>, Vec<PackFault>) {
    let mut faults = Vec::new();
    if let Some(file) = files.keys().nth(PACKS_MAX) {
        let (file, problem) = (file.clone(), PackProblem::TooManyPacks);
        return (Vec::new(), vec![PackFault { file, line: None, detector: None, problem }]);
    }
    let (mut detectors, mut shown): (Vec<Detector>, Vec<Shown>) = Default::default();
    let mut known = HashMap::new();
    for (file, text) in files {
        Reader::new(file, &mut known, &mut shown, &mut faults).read(text, &mut detectors);
    }
    let shown: Arc<[Shown]> = shown.into();
    for secret in detectors.iter_mut().filter(|detector| detector.category == Category::Secrets) {
        secret.shown = Arc::clone(&shown);
    }
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let mut count = 0..;
    detectors.retain(|detector| {
        let is_one_more = count.next() == Some(DETECTORS_MAX);
        let problem = match names.entry(detector.name.clone()) {
            Entry::Occupied(first) => Some(PackProblem::Duplicate { other: first.get().clone() }),
            Entry::Vacant(free) => {
                free.insert(detector.file.clone());
                is_one_more.then_some(PackProblem::TooManyDetectors)
            }
        };
        let is_sound = problem.is_none();
        faults.extend(problem.map(|problem| PackFault::about(detector, problem)));
        is_sound
    });
    detectors.shrink_to_fit();
    (detectors, faults)
}

/// Returns the files of a folder that are compiled in, by path.
fn embedded_files(folder: &str) -> PluginFiles {
    let packs = embedded().iter().filter(|(path, _)| path.starts_with(folder));
    packs.map(|(path, text)| ((*path).to_owned(), Cow::Borrowed(*text))).collect()
}

#[cfg(test)]
mod tests;
