//! Escapes inside escapes: JSON in a string of JSON in a string of JSON, and what is escaped for a page twice.
//!
//! In: a whole text. Out: what is found in it once its escapes are undone twice or more; once is a reading of every text,
//! see [`view`]. Each turn reads only what is near what the turn before changed, so that a text without such escapes costs
//! one look.

use std::borrow::Cow;
use std::ops::Range;

use smallvec::smallvec;

use super::excerpt::Excerpt;
use crate::scan::scanner::ScanFault;
use crate::scan::scanner::Scanner;
use crate::scan::threat::Decoded;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Encoding;
use crate::scan::threat::Finding;
use crate::scan::unwrapped::Unwrapped;
use crate::scan::view;
use crate::scan::view::View;

/// How many times over the escapes of a text are undone: a string of JSON, four levels deep.
pub(super) const TIMES_MAX: usize = 4;

/// How much of a text around a change is read with it, in bytes: a private key has fewer.
const AROUND_BYTES: usize = 4096;

impl Scanner {
    /// Adds what the `wanted` detectors see in a text whose escapes are undone twice, and more often; `once` is its view
    /// with them undone once.
    pub(super) fn scan_unescaped(
        &self,
        once: &View,
        wanted: &DetectorSet,
        found: &mut Vec<Finding>,
    ) -> Result<(), ScanFault> {
        let mut views: Vec<Cow<'_, View>> = vec![Cow::Borrowed(once)];
        while let Some(view) = views.last().filter(|_| views.len() < TIMES_MAX) {
            let Some(next) = view::canonical(view.bytes()) else { return Ok(()) };
            if let Some(near) = near_changes(view.bytes(), &next) {
                let inner = self.scan_beyond(&Unwrapped::of(near.bytes()), wanted, Vec::new())?;
                found.extend(inner.into_iter().map(|finding| outer(finding, &near, &views)));
            }
            views.push(Cow::Owned(next));
        }
        Ok(())
    }
}

/// Returns what is near the places at which a view of a text differs from it.
fn near_changes(text: &[u8], view: &View) -> Option<View> {
    let mut excerpt = Excerpt::of(text, AROUND_BYTES);
    let (first, last) = (0..0, view.bytes().len()..view.bytes().len());
    for change in view.changes().into_iter().filter(|change| *change != first && *change != last) {
        // What vanished stood between two bytes.
        excerpt.keep(view.source_range(change.start.saturating_sub(1)..change.end.max(change.start + 1)));
    }
    excerpt.read()
}

/// Returns a finding of an excerpt of the last of some views, each of the one before it, as one of the text that the first
/// is of.
fn outer(finding: Finding, excerpt: &View, views: &[Cow<'_, View>]) -> Finding {
    let views_back = || std::iter::once(excerpt).chain(views.iter().rev().map(AsRef::as_ref));
    let place = |range: Range<usize>| views_back().fold(range, |range, view| view.source_range(range));
    let mut decoded_from = Decoded(smallvec![Encoding::Canonical; views.len()]);
    decoded_from.0.extend(finding.decoded_from.0);
    Finding { span: place(finding.span), value: place(finding.value), decoded_from, ..finding }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::pack;

    /// Writes a text as strings of JSON are that stand in others, every sign of it as an escape.
    fn written(text: &str, times: usize) -> String {
        let signs: String = text.bytes().map(|byte| format!("\\u{byte:04x}")).collect();
        (1..times).fold(signs, |inner, _| inner.replace('\\', "\\\\"))
    }

    #[test]
    fn a_key_is_found_as_deep_as_strings_are_read_and_where_it_stands() {
        let scanner = Scanner::compile(pack::builtin().expect("the packs")).expect("a scanner");
        let wanted = scanner.all();
        let key = format!("AKIA{}", "Z7RQ3N5WLM2JX4KD");
        for times in 1..=TIMES_MAX {
            let escaped = written(&key, times);
            // Far more around it than is read with it.
            let around = "Nobody expected more before the summer. ".repeat(500);
            let text = format!(r#"{{"k":"{around}{{\"z\":\"use {escaped} now\"}}{around}"}}"#);
            let found = scanner.scan_spelt(text.as_bytes(), &wanted).expect("a readable text").findings;
            let at = text.find(&escaped).expect("the key");
            let covers = |it: &Finding| it.value == (at..at + escaped.len());
            assert!(found.iter().any(covers), "{times} times: {found:?}");
        }
        let deeper = written(&key, TIMES_MAX + 1);
        assert!(scanner.scan_spelt(deeper.as_bytes(), &wanted).expect("a readable text").findings.is_empty());
    }
}
