//! Reads one file of detectors and gathers what is wrong with it.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;
use toml::de::DeTable;
use toml::de::DeValue;
use toml::de::ValueDeserializer;

use crate::scan::check::Check;
use crate::scan::detector::Detector;
use crate::scan::detector::MaskKind;
use crate::scan::detector::Pattern;
use crate::scan::detector::PatternFault;
use crate::scan::detector::Shown;
use crate::scan::shape;

use super::EXAMPLE_BYTES_MAX;
use super::EXAMPLES_MAX;
use super::NAME_BYTES_MAX;
use super::PACK_BYTES_MAX;
use super::PackFault;
use super::PackProblem;
use super::context::ContextFile;
use super::heads;
use super::parts::Parts;
use super::shown::ShownFile;

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
pub(super) struct DetectorFile {
    r#type: Spanned<String>,
    category: Spanned<String>,
    severity: Spanned<String>,
    confidence: Spanned<String>,
    pattern: Spanned<String>,
    anchor: Option<Spanned<String>>,
    #[serde(default)]
    heads: Vec<Spanned<String>>,
    pub(super) not_before: Option<Spanned<String>>,
    pub(super) behind: Option<Spanned<String>>,
    pub(super) not_after: Option<Spanned<String>>,
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

/// Reads one file and gathers its faults.
pub(super) struct Reader<'a> {
    file: &'a str,
    /// Where its lines end.
    lines: Vec<usize>,
    parts: Parts,
    /// The patterns of all files so far, by what is written: anchors and edges are often the same.
    known: &'a mut HashMap<String, Pattern>,
    shown: &'a mut Vec<Shown>,
    faults: &'a mut Vec<PackFault>,
}

impl<'a> Reader<'a> {
    /// Begins with a file; its patterns are added to the `known` ones, what it says is made to be shown to `shown`, and all that
    /// is wrong to `faults`.
    pub(super) fn new(
        file: &'a str,
        known: &'a mut HashMap<String, Pattern>,
        shown: &'a mut Vec<Shown>,
        faults: &'a mut Vec<PackFault>,
    ) -> Self {
        Self { file, lines: Vec::new(), parts: Parts::default(), known, shown, faults }
    }

    /// Reads the text of the file and adds its detectors.
    pub(super) fn read(&mut self, text: &str, detectors: &mut Vec<Detector>) {
        if text.len() > PACK_BYTES_MAX {
            return self.fault(None, None, PackProblem::TooLong(PACK_BYTES_MAX));
        }
        self.lines = text.match_indices('\n').map(|(at, _)| at).collect();
        let table = match DeTable::parse(text) {
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
            self.fault(Some(0..0), None, PackProblem::Malformed { reason });
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
        let (field, sought) = match &written.anchor {
            Some(anchor) => ("anchor", anchor.span()),
            None => ("pattern", written.pattern.span()),
        };
        if self.faults.len() > before {
            return None;
        }
        let detector = Detector {
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
        };
        let Some(places) = shape::places_beyond(&detector) else { return Some(detector) };
        self.fault(Some(sought), Some(detector.name), PackProblem::ShapePlaces { field, places });
        None
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
        T: FromStr<Err: fmt::Display>,
    {
        let read = PackProblem::member(field, written.get_ref());
        read.map_err(|problem| self.fault(Some(written.span()), Some(name.to_owned()), problem)).ok()
    }

    pub(super) fn pattern(
        &mut self,
        name: &str,
        written: &Spanned<String>,
        problem: fn(PatternFault) -> PackProblem,
    ) -> Option<Pattern> {
        let filled = self.parts.fill(written.get_ref());
        let parsed = filled.and_then(|filled| self.parsed(&filled).map_err(problem));
        parsed.map_err(|problem| self.fault(Some(written.span()), Some(name.to_owned()), problem)).ok()
    }

    /// Reads a pattern, unless it is known.
    pub(super) fn parsed(&mut self, source: &str) -> Result<Pattern, PatternFault> {
        if let Some(known) = self.known.get(source) {
            return Ok(known.clone());
        }
        let pattern = Pattern::parse(source)?;
        self.known.insert(source.to_owned(), pattern.clone());
        Ok(pattern)
    }

    fn malformed(&mut self, around: Option<Range<usize>>, detector: Option<String>, fault: &toml::de::Error) {
        let reason = fault.message().to_owned();
        self.fault(fault.span().or(around), detector, PackProblem::Malformed { reason });
    }

    pub(super) fn fault(
        &mut self,
        span: Option<Range<usize>>,
        detector: Option<String>,
        problem: PackProblem,
    ) {
        let line = span.map(|span| self.line_of(span.start));
        self.faults.push(PackFault { file: self.file.to_owned(), line, detector, problem });
    }

    fn line_of(&self, offset: usize) -> usize {
        self.lines.partition_point(|end| *end < offset) + 1
    }
}
