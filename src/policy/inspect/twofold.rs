//! Texts that their readers take in two ways: fields of forms, and the heads of their parts. Both are scanned.

use std::collections::HashSet;
use std::ops::Range;

use super::Unreadable;
use super::text::Sheet;
use super::text::Written;
use crate::llm::dialect::Channel;
use crate::llm::multipart;
use crate::scan::classifier::Spellings;
use crate::scan::threat::Finding;

impl Sheet<'_, '_> {
    /// Scans a form: as it stands, and with the spaces that each `+` is to most of its readers.
    pub fn form_text(
        &mut self,
        text: &[u8],
        mut raw: impl FnMut(Range<usize>) -> Range<usize>,
    ) -> Result<(), Unreadable> {
        if (self.inspector.expired)() {
            return Err(Unreadable::Late);
        }
        let mut findings = self.scan(text)?;
        if text.contains(&b'+') {
            let spaced: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
            add_new(&mut findings, self.scan(&spaced)?);
        }
        self.report(text, (Channel::User, Spellings::All), Written::Plain, findings, &mut raw)
    }

    /// Scans the head of a part of a form: as it stands, and with each quoted pair as the sign that it is to readers of
    /// RFC 2183.
    pub fn head_text(
        &mut self,
        head: &[u8],
        mut raw: impl FnMut(Range<usize>) -> Range<usize>,
    ) -> Result<(), Unreadable> {
        if (self.inspector.expired)() {
            return Err(Unreadable::Late);
        }
        let mut findings = self.scan(head)?;
        if let Some(unpaired) = multipart::unpaired(head) {
            let in_head = |range: Range<usize>| unpaired.source(range);
            let found = self.scan(&unpaired.bytes)?.into_iter();
            let found = found.map(|it| Finding { span: in_head(it.span), value: in_head(it.value), ..it });
            add_new(&mut findings, found);
        }
        self.report(head, (Channel::Metadata, Spellings::All), Written::Plain, findings, &mut raw)
    }
}

/// Adds what another reading shows, unless it is known already.
fn add_new(findings: &mut Vec<Finding>, others: impl IntoIterator<Item = Finding>) {
    let known: HashSet<_> = findings.iter().map(|found| (found.detector, found.span.start)).collect();
    findings.extend(others.into_iter().filter(|it| !known.contains(&(it.detector, it.span.start))));
}
