//! What a person quotes, and what an operator says: who asks about an attack shows it, and who defends against one names it.
//!
//! The patterns of the first layer see an order and not who is meant; the model knows quotations by itself. Both treat
//! them alike: a short one in what a person wrote is told, and not stopped. A long one is a document, which may speak to
//! the model whoever put it there. The operator's own instructions are told and not stopped at all: they forbid attacks in
//! the words of these, and an application whose every request is refused is of no use.

use crate::policy::ruleset::Ruleset;
use crate::scan::classifier::Origin;
use crate::scan::classifier::citation;
use crate::scan::classifier::linear::told_only;
use crate::scan::threat::Category;
use crate::scan::threat::Confidence;
use crate::scan::threat::Encoding;
use crate::scan::threat::Finding;
use crate::scan::threat::Layer;

/// A quotation of more bytes, marks included, is a document.
pub const PHRASE_BYTES_MAX: usize = 240;

/// Lowers sure findings of injections by patterns that stand within short quotations of what a person wrote, or in the
/// operator's instructions.
///
/// What is encoded there is nobody's example and stays as it is.
pub(super) fn lower(ruleset: &Ruleset, text: &[u8], origin: Option<Origin>, findings: &mut [Finding]) {
    let is_legible = |it: &Finding| it.decoded_from.0.iter().all(|encoding| *encoding == Encoding::Canonical);
    let is_injection =
        |it: &Finding| ruleset.kind(it.detector).is_some_and(|kind| kind.category == Category::Injection);
    let is_sure = |it: &Finding| it.layer == Layer::L1Regex && it.confidence >= Confidence::HIGH;
    let mut sure =
        findings.iter_mut().filter(|it| is_sure(it) && is_legible(it) && is_injection(it)).peekable();
    if sure.peek().is_none() {
        return;
    }
    match origin {
        Some(Origin::System) => return sure.for_each(|it| it.confidence = told_only(it.confidence)),
        Some(Origin::User) => {}
        Some(Origin::Assistant | Origin::Tool | Origin::Definition) | None => return,
    }
    let mut phrases = citation::quotations(text);
    phrases.retain(|it| it.len() <= PHRASE_BYTES_MAX);
    for finding in sure {
        if phrases.iter().any(|it| it.start <= finding.span.start && finding.span.end <= it.end) {
            finding.confidence = told_only(finding.confidence);
        }
    }
}
