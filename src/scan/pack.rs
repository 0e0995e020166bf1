//! Packs: files of detectors, rules and models, built in or laid over by an operator, read with every fault
//! they have.

mod context;
mod edges;
mod fault;
mod folder;
mod heads;
mod parts;
mod shown;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use toml::Spanned;
use toml::de::DeTable;
use toml::de::DeValue;
use toml::de::ValueDeserializer;

use crate::scan::check::Check;
use crate::scan::classifier::format::MODEL_BYTES_MAX;
use crate::scan::classifier::onnx;
use crate::scan::classifier::shelf::ModelFiles;
use crate::scan::detector::Detector;
use crate::scan::detector::MaskKind;
use crate::scan::detector::Pattern;
use crate::scan::detector::PatternFault;
use crate::scan::detector::Shown;
use crate::scan::threat::Category;

use self::context::ContextFile;
pub use self::fault::PackFault;
pub use self::fault::PackProblem;
use self::folder::name_below;
use self::folder::read_bounded;
use self::folder::read_folder;
use self::folder::sorted_entries;
use self::folder::too_long;
use self::folder::unreadable;
use self::parts::Parts;
use self::shown::ShownFile;

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
pub const CONTEXT_WORDS_MAX: usize = 128;
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

/// A pack as it is written, but for its detectors.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PackHead {
    name: String,
    version: String,
}

/// A detector as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DetectorFile {
    r#type: Spanned<String>,
    category: Spanned<String>,
    severity: Spanned<String>,
    confidence: Spanned<String>,
    pattern: Spanned<String>,
    anchor: Option<Spanned<String>>,
    #[serde(default)]
    heads: Vec<Spanned<String>>,
    not_before: Option<Spanned<String>>,
    behind: Option<Spanned<String>>,
    not_after: Option<Spanned<String>>,
    #[serde(default)]
    checks: Vec<Spanned<String>>,
    context: Option<Spanned<ContextFile>>,
    mask: Option<Spanned<String>>,
    #[serde(default)]
    techniques: Vec<String>,
    why: Spanned<String>,
    #[serde(default)]
    references: Vec<String>,
    finds: Spanned<Vec<String>>,
    ignores: Spanned<Vec<String>>,
}

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
    match (parse_all(&files), faults.is_empty()) {
        (parsed, true) => parsed,
        (Ok(_), false) => Err(faults),
        (Err(more), false) => {
            faults.extend(more);
            Err(faults)
        }
    }
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
    let mut faults = Vec::new();
    if files.len() > PACKS_MAX {
        let file = files.keys().nth(PACKS_MAX).cloned().unwrap_or_default();
        return Err(vec![PackFault { file, line: None, detector: None, problem: PackProblem::TooManyPacks }]);
    }
    let (mut detectors, mut shown): (Vec<Detector>, Vec<Shown>) = Default::default();
    for (file, text) in files {
        let parts = Parts::default();
        Reader { file, text, faults: &mut faults, shown: &mut shown, parts }.read(&mut detectors);
    }
    let shown: Arc<[Shown]> = shown.into();
    for secret in detectors.iter_mut().filter(|detector| detector.category == Category::Secrets) {
        secret.shown = Arc::clone(&shown);
    }
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    for (at, detector) in detectors.iter().enumerate() {
        let problem = match names.entry(&detector.name) {
            Entry::Occupied(first) => Some(PackProblem::Duplicate { other: (*first.get()).to_owned() }),
            Entry::Vacant(free) => {
                free.insert(&detector.file);
                (at == DETECTORS_MAX).then_some(PackProblem::TooManyDetectors)
            }
        };
        faults.extend(problem.map(|problem| PackFault::about(detector, problem)));
    }
    detectors.shrink_to_fit();
    if faults.is_empty() { Ok(detectors) } else { Err(faults) }
}

/// Reads one file and gathers its faults.
struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    faults: &'a mut Vec<PackFault>,
    shown: &'a mut Vec<Shown>,
    parts: Parts,
}

impl Reader<'_> {
    fn read(&mut self, detectors: &mut Vec<Detector>) {
        if self.text.len() > PACK_BYTES_MAX {
            return self.fault(None, None, PackProblem::TooLong(PACK_BYTES_MAX));
        }
        let table = match DeTable::parse(self.text) {
            Ok(table) => table.into_inner(),
            Err(fault) => return self.malformed(None, None, &fault),
        };
        let mut head = None;
        let mut found = Vec::new();
        for (key, value) in table {
            let span = value.span();
            match (key.get_ref().as_ref(), value) {
                ("pack", value) => match PackHead::deserialize(ValueDeserializer::from(value)) {
                    Ok(pack) => head = Some(pack),
                    Err(fault) => self.malformed(Some(span), None, &fault),
                },
                ("detector", value) => self.split(value, &mut found),
                ("shown", value) => self.shown(value),
                ("parts", value) => self.parts(value),
                (other, _) => {
                    let reason =
                        format!("unknown table `{other}`, expected `pack`, `parts`, `detector` or `shown`");
                    self.fault(Some(span), None, PackProblem::Malformed { reason });
                }
            }
        }
        let head = head.unwrap_or_else(|| {
            let reason = "the table `pack` with `name` and `version` is missing".to_owned();
            self.fault(None, None, PackProblem::Malformed { reason });
            PackHead { name: String::new(), version: String::new() }
        });
        let read = found.into_iter().filter_map(|(span, written)| self.detector(&head, span, written));
        detectors.extend(read);
    }

    /// Reads what values begin with that are made to be shown.
    fn shown(&mut self, value: Spanned<DeValue<'_>>) {
        let span = value.span();
        match Vec::<Spanned<ShownFile>>::deserialize(ValueDeserializer::from(value)) {
            Ok(list) => {
                for written in list {
                    let span = written.span();
                    match written.into_inner().read(self.shown.len()) {
                        Ok(shown) => self.shown.push(shown),
                        Err(problem) => self.fault(Some(span), None, problem),
                    }
                }
            }
            Err(fault) => self.malformed(Some(span), None, &fault),
        }
    }

    /// Reads the parts of patterns that are named.
    fn parts(&mut self, value: Spanned<DeValue<'_>>) {
        let span = value.span();
        match BTreeMap::deserialize(ValueDeserializer::from(value)) {
            Ok(parts) => {
                self.parts = Parts(parts);
                if let Some(problem) = self.parts.problem() {
                    self.fault(Some(span), None, problem);
                }
            }
            Err(fault) => self.malformed(Some(span), None, &fault),
        }
    }

    /// Takes the list of detectors apart.
    fn split(&mut self, value: Spanned<DeValue<'_>>, found: &mut Vec<(Range<usize>, DetectorFile)>) {
        let span = value.span();
        let DeValue::Array(list) = value.into_inner() else {
            let reason = "`detector` must be a list of tables: [[detector]]".to_owned();
            return self.fault(Some(span), None, PackProblem::Malformed { reason });
        };
        for entry in list {
            let span = entry.span();
            let name =
                entry.get_ref().get("type").and_then(|name| name.get_ref().as_str()).map(str::to_owned);
            match DetectorFile::deserialize(ValueDeserializer::from(entry)) {
                Ok(written) => found.push((span, written)),
                Err(fault) => self.malformed(Some(span), name, &fault),
            }
        }
    }

    /// Turns what is written into a detector, or gathers what is wrong with it.
    fn detector(&mut self, head: &PackHead, span: Range<usize>, written: DetectorFile) -> Option<Detector> {
        let before = self.faults.len();
        let name = written.r#type.get_ref().clone();
        self.limits(&name, &written);
        let category = self.member(&name, "category", &written.category);
        let severity = self.member(&name, "severity", &written.severity);
        let confidence = self.member(&name, "confidence", &written.confidence);
        let mask = match &written.mask {
            Some(mask) => self.member(&name, "mask", mask),
            None => Some(MaskKind::default()),
        };
        let checks: Vec<Option<Check>> =
            written.checks.iter().map(|check| self.member(&name, "checks", check)).collect();
        let pattern = self.pattern(&name, &written.pattern, PackProblem::Pattern);
        let anchor = written.anchor.as_ref().map(|anchor| self.pattern(&name, anchor, PackProblem::Anchor));
        let edges = self.edges(&name, &written, pattern.as_ref());
        if self.faults.len() > before {
            return None;
        }
        Some(Detector {
            name,
            category: category?,
            severity: severity?,
            confidence: confidence?,
            pattern: pattern?,
            anchor: anchor.flatten(),
            heads: written.heads.into_iter().map(Spanned::into_inner).collect(),
            edges,
            checks: checks.into_iter().flatten().collect(),
            context: written.context.map(|context| context.get_ref().words()),
            mask: mask?,
            techniques: written.techniques,
            why: written.why.into_inner(),
            references: written.references,
            finds: written.finds.into_inner(),
            ignores: written.ignores.into_inner(),
            shown: Arc::default(),
            pack: head.name.clone(),
            pack_version: head.version.clone(),
            file: self.file.to_owned(),
            line: self.line_of(span.start),
        })
    }

    /// Gathers what is too much, too long or missing.
    fn limits(&mut self, name: &str, written: &DetectorFile) {
        let snake = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
        if !begins || !name.bytes().all(snake) || name.len() > NAME_BYTES_MAX {
            self.fault(Some(written.r#type.span()), Some(name.to_owned()), PackProblem::Name);
        }
        if written.why.get_ref().trim().is_empty() {
            let problem = PackProblem::Empty { field: "why" };
            self.fault(Some(written.why.span()), Some(name.to_owned()), problem);
        }
        for (field, examples) in [("finds", &written.finds), ("ignores", &written.ignores)] {
            let list = examples.get_ref();
            let problem = if list.is_empty() {
                PackProblem::Empty { field }
            } else if list.len() > EXAMPLES_MAX || list.iter().any(|text| text.len() > EXAMPLE_BYTES_MAX) {
                PackProblem::TooMuch { field }
            } else {
                continue;
            };
            self.fault(Some(examples.span()), Some(name.to_owned()), problem);
        }
        for (head, problem) in heads::problems(&written.heads) {
            self.fault(Some(head.span()), Some(name.to_owned()), problem);
        }
        if let Some(context) = &written.context
            && let Some(problem) = context.get_ref().problem()
        {
            self.fault(Some(context.span()), Some(name.to_owned()), problem);
        }
    }

    /// Reads a member of a closed set.
    fn member<T>(&mut self, name: &str, field: &'static str, written: &Spanned<String>) -> Option<T>
    where
        T: FromStr,
        T::Err: fmt::Display,
    {
        written.get_ref().parse().map_or_else(
            |fault: T::Err| {
                let problem = PackProblem::Unknown { field, reason: fault.to_string() };
                self.fault(Some(written.span()), Some(name.to_owned()), problem);
                None
            },
            Some,
        )
    }

    fn pattern(
        &mut self,
        name: &str,
        written: &Spanned<String>,
        problem: fn(PatternFault) -> PackProblem,
    ) -> Option<Pattern> {
        let filled = self.parts.fill(written.get_ref());
        let parsed = filled.and_then(|filled| Pattern::parse(&filled).map_err(problem));
        parsed.map_err(|problem| self.fault(Some(written.span()), Some(name.to_owned()), problem)).ok()
    }

    fn malformed(&mut self, around: Option<Range<usize>>, detector: Option<String>, fault: &toml::de::Error) {
        let reason = fault.message().to_owned();
        self.fault(fault.span().or(around), detector, PackProblem::Malformed { reason });
    }

    fn fault(&mut self, span: Option<Range<usize>>, detector: Option<String>, problem: PackProblem) {
        let line = span.map(|span| self.line_of(span.start));
        self.faults.push(PackFault { file: self.file.to_owned(), line, detector, problem });
    }

    fn line_of(&self, offset: usize) -> usize {
        self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
    }
}

/// Returns the files of a folder that are compiled in, by path.
fn embedded_files(folder: &str) -> PluginFiles {
    let packs = embedded().iter().filter(|(path, _)| path.starts_with(folder));
    packs.map(|(path, text)| ((*path).to_owned(), Cow::Borrowed(*text))).collect()
}

#[cfg(test)]
mod tests;
