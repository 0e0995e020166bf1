//! The risk of a text: one number for what was found in it.

use crate::scan::threat::Category;
use crate::scan::threat::Confidence;
use crate::scan::threat::Severity;

/// The most a crowd of findings of one category can close of the gap to certainty.
const CROWD: f64 = 0.2;

/// What a score needs to know of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// How bad it is if it is real.
    pub severity: Severity,
    /// How likely it is real.
    pub confidence: Confidence,
    /// What kind of harm it is about.
    pub category: Category,
}

/// Returns the risk of a text from 0 (nothing found) to 100.
///
/// In each category the strongest finding counts, `m = weight(severity) × confidence`; `n` findings close
/// `0.2 × (1 − 1/n)` of what `m` lacks to 1. Categories are independent evidence:
/// `100 × (1 − Π (1 − m))`, rounded. The order of the findings does not matter, and one more never lowers it.
pub fn risk_score(findings: impl IntoIterator<Item = Evidence>) -> u8 {
    let mut strongest = [0.0_f64; Category::ALL.len()];
    let mut counts = [0_u32; Category::ALL.len()];
    for finding in findings {
        let risk = weight(finding.severity) * finding.confidence.as_unit();
        for (at, _) in Category::ALL.iter().enumerate().filter(|(_, category)| **category == finding.category)
        {
            strongest[at] = strongest[at].max(risk);
            counts[at] = counts[at].saturating_add(1);
        }
    }
    let harmless: f64 = strongest
        .iter()
        .zip(counts)
        .map(|(strongest, count)| {
            let crowd = if count > 1 { CROWD * (1.0 - 1.0 / f64::from(count)) } else { 0.0 };
            (1.0 - strongest) * (1.0 - crowd)
        })
        .product();
    (100.0 * (1.0 - harmless)).round().clamp(0.0, 100.0) as u8
}

/// Returns what a certain finding of a severity is worth on its own.
fn weight(severity: Severity) -> f64 {
    match severity {
        Severity::Low => 0.2,
        Severity::Medium => 0.5,
        Severity::High => 0.8,
        Severity::Critical => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn evidence() -> impl Strategy<Value = Evidence> {
        (0usize..4, 0u8..=100, 0usize..5).prop_map(|(severity, percent, category)| Evidence {
            severity: Severity::ALL[severity],
            confidence: Confidence::from_percent(percent),
            category: Category::ALL[category],
        })
    }

    #[test]
    fn single_findings_score_what_they_are_worth() {
        let score = |severity, confidence| {
            risk_score([Evidence { severity, confidence, category: Category::Secrets }])
        };
        assert_eq!(risk_score([]), 0);
        assert_eq!(score(Severity::Critical, Confidence::HIGH), 90);
        assert_eq!(score(Severity::High, Confidence::MEDIUM), 48);
        assert_eq!(score(Severity::Low, Confidence::LOW), 6);
    }

    proptest! {
        #[test]
        fn more_findings_never_lower_the_risk(list in prop::collection::vec(evidence(), 0..8), more in evidence()) {
            let before = risk_score(list.clone());
            let mut longer = list;
            longer.insert(0, more);
            let after = risk_score(longer.clone());
            longer.reverse();
            prop_assert!(before <= after && after <= 100);
            prop_assert_eq!(risk_score(longer), after);
        }
    }
}
