//! Files of rules, read with every fault they have.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::Deserialize;
use toml::Spanned;
use toml::de::DeTable;
use toml::de::DeValue;
use toml::de::ValueDeserializer;

use super::Rule;
use super::condition::Condition;
use super::needs::Needs;
use super::scenario::Scenario;
use crate::scan::pack::NAME_BYTES_MAX;
use crate::scan::pack::PACK_BYTES_MAX;
use crate::scan::pack::PACKS_MAX;
use crate::scan::pack::PackFault;
use crate::scan::pack::PackProblem;
use crate::scan::pack::PluginFiles;

/// The most scenarios of one kind a rule may have.
pub const SCENARIOS_MAX: usize = 32;

/// A pack of rules as it is written, but for its rules.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PackHead {
    name: String,
    version: String,
}

/// A rule as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    id: Spanned<String>,
    name: String,
    category: Spanned<String>,
    severity: Spanned<String>,
    confidence: Spanned<String>,
    #[serde(default)]
    needs: Vec<Spanned<String>>,
    when: Spanned<String>,
    #[serde(default)]
    techniques: Vec<String>,
    why: Spanned<String>,
    #[serde(default)]
    references: Vec<String>,
    finds: Spanned<Vec<Scenario>>,
    ignores: Spanned<Vec<Scenario>>,
}

/// Reads rules from texts by their paths.
///
/// # Errors
/// Every fault of every file.
pub(super) fn parse_all(files: &PluginFiles) -> Result<Vec<Rule>, Vec<PackFault>> {
    if let Some(file) = files.keys().nth(PACKS_MAX) {
        let problem = PackProblem::TooManyPacks;
        return Err(vec![PackFault { file: file.clone(), line: None, detector: None, problem }]);
    }
    let (mut rules, mut faults) = (Vec::new(), Vec::new());
    for (file, text) in files {
        Reader { file, text, faults: &mut faults }.read(&mut rules);
    }
    if faults.is_empty() { Ok(rules) } else { Err(faults) }
}

/// Reads one file and gathers its faults.
struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    faults: &'a mut Vec<PackFault>,
}

impl Reader<'_> {
    fn read(&mut self, rules: &mut Vec<Rule>) {
        if self.text.len() > PACK_BYTES_MAX {
            return self.fault(None, None, PackProblem::TooLong(PACK_BYTES_MAX));
        }
        let table = match DeTable::parse(self.text) {
            Ok(table) => table.into_inner(),
            Err(fault) => return self.malformed(None, None, &fault),
        };
        let (mut head, mut found) = (None, Vec::new());
        for (key, value) in table {
            let span = value.span();
            match (key.get_ref().as_ref(), value) {
                ("pack", value) => match PackHead::deserialize(ValueDeserializer::from(value)) {
                    Ok(pack) => head = Some(pack),
                    Err(fault) => self.malformed(Some(span), None, &fault),
                },
                ("rule", value) => self.split(value, &mut found),
                (other, _) => {
                    let reason = format!("unknown table `{other}`, expected `pack` or `rule`");
                    self.fault(Some(span), None, PackProblem::Malformed { reason });
                }
            }
        }
        if head.is_none() {
            let reason = "the table `pack` with `name` and `version` is missing".to_owned();
            self.fault(Some(0..0), None, PackProblem::Malformed { reason });
        }
        let head = head.unwrap_or_default();
        rules.extend(found.into_iter().filter_map(|(span, written)| self.rule(&head, span, written)));
    }

    /// Takes the list of rules apart.
    fn split(&mut self, value: Spanned<DeValue<'_>>, found: &mut Vec<(Range<usize>, RuleFile)>) {
        let span = value.span();
        let DeValue::Array(list) = value.into_inner() else {
            let reason = "`rule` must be a list of tables: [[rule]]".to_owned();
            return self.fault(Some(span), None, PackProblem::Malformed { reason });
        };
        for entry in list {
            let span = entry.span();
            let name = entry.get_ref().get("id").and_then(|name| name.get_ref().as_str()).map(str::to_owned);
            match RuleFile::deserialize(ValueDeserializer::from(entry)) {
                Ok(written) => found.push((span, written)),
                Err(fault) => self.malformed(Some(span), name, &fault),
            }
        }
    }

    /// Turns what is written into a rule, or gathers what is wrong with it.
    fn rule(&mut self, head: &PackHead, span: Range<usize>, written: RuleFile) -> Option<Rule> {
        let before = self.faults.len();
        let id = written.id.get_ref().clone();
        self.limits(&id, &written);
        let category = self.member(&id, "category", &written.category);
        let severity = self.member(&id, "severity", &written.severity);
        let confidence = self.member(&id, "confidence", &written.confidence);
        let needs: Vec<Option<Needs>> =
            written.needs.iter().map(|word| self.member(&id, "needs", word)).collect();
        let when = match Condition::compile(written.when.get_ref()) {
            Ok(when) => Some(when),
            Err(fault) => {
                self.fault(Some(written.when.span()), Some(id.clone()), PackProblem::Condition(fault));
                None
            }
        };
        if self.faults.len() > before {
            return None;
        }
        Some(Rule {
            id,
            name: written.name,
            category: category?,
            severity: severity?,
            confidence: confidence?,
            needs: needs.into_iter().flatten().fold(Needs::default(), Needs::and),
            when: when?,
            techniques: written.techniques,
            why: written.why.into_inner(),
            references: written.references,
            finds: written.finds.into_inner(),
            ignores: written.ignores.into_inner(),
            pack: head.name.clone(),
            pack_version: head.version.clone(),
            file: self.file.to_owned(),
            line: self.line_of(span.start),
        })
    }

    /// Gathers what is too much, too long or missing.
    fn limits(&mut self, id: &str, written: &RuleFile) {
        let snake = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let begins = id.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
        if !begins || !id.bytes().all(snake) || id.len() > NAME_BYTES_MAX {
            self.fault(Some(written.id.span()), Some(id.to_owned()), PackProblem::Id);
        }
        if written.why.get_ref().trim().is_empty() {
            let problem = PackProblem::Empty { field: "why" };
            self.fault(Some(written.why.span()), Some(id.to_owned()), problem);
        }
        for (field, scenarios) in [("finds", &written.finds), ("ignores", &written.ignores)] {
            let problem = match scenarios.get_ref().len() {
                0 => PackProblem::Empty { field },
                1..=SCENARIOS_MAX => continue,
                _ => PackProblem::TooMuch { field },
            };
            self.fault(Some(scenarios.span()), Some(id.to_owned()), problem);
        }
    }

    /// Reads a member of a closed set.
    fn member<T>(&mut self, id: &str, field: &'static str, written: &Spanned<String>) -> Option<T>
    where
        T: FromStr<Err: fmt::Display>,
    {
        let read = PackProblem::member(field, written.get_ref());
        read.map_err(|problem| self.fault(Some(written.span()), Some(id.to_owned()), problem)).ok()
    }

    fn malformed(&mut self, around: Option<Range<usize>>, rule: Option<String>, fault: &toml::de::Error) {
        let reason = fault.message().to_owned();
        self.fault(fault.span().or(around), rule, PackProblem::Malformed { reason });
    }

    fn fault(&mut self, span: Option<Range<usize>>, rule: Option<String>, problem: PackProblem) {
        let line = span.map(|span| self.line_of(span.start));
        self.faults.push(PackFault { file: self.file.to_owned(), line, detector: rule, problem });
    }

    fn line_of(&self, offset: usize) -> usize {
        self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
    }
}
