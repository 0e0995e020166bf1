//! What each layer adds to those below it.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::json;

use crate::injection::set_of;
use crate::layers::Outcome;
use crate::layers::STACKS;
use crate::measure::Share;
use crate::report::Report;
use crate::rows::Text;

/// What is counted of one set by the layers up to one.
#[derive(Default)]
struct Counts {
    blocked: Share,
    told: Share,
    /// Texts that the layers below do not block.
    added: usize,
}

/// Counts what patterns block and report, what they do with the rules, and what all three layers do.
pub fn measure(rows: &[Text], outcomes: &[Outcome], report: &mut Report) {
    let mut counts: BTreeMap<(&str, usize), Counts> = BTreeMap::new();
    for (row, outcome) in rows.iter().zip(outcomes) {
        let Some(set) = set_of(row) else { continue };
        let is_off_task = row.source.starts_with("BIPIA");
        let without = (set == "attack" && !is_off_task).then_some("attack, without BIPIA");
        let stacks = outcome.stacks();
        for set in [Some(set), without].into_iter().flatten() {
            for (at, stack) in stacks.iter().enumerate() {
                let count = counts.entry((set, at)).or_default();
                count.blocked.note(stack.blocked);
                count.told.note(stack.told);
                let was_blocked = stacks[..at].iter().any(|below| below.blocked);
                count.added += usize::from(stack.blocked && !was_blocked);
            }
        }
    }
    let line = |((set, at), count): (&(&str, usize), &Counts)| {
        let n = count.blocked.all.to_string();
        [*set, STACKS[*at], &n, &count.blocked.cell(), &count.told.cell(), &count.added.to_string()]
            .map(str::to_owned)
            .to_vec()
    };
    let lines: Vec<Vec<String>> = counts.iter().map(line).collect();
    let value = |((set, at), count): (&(&str, usize), &Counts)| {
        json!({ "set": set, "layers": STACKS[*at], "blocked": count.blocked.value(),
            "reported": count.told.value(), "added": count.added })
    };
    let values: Vec<Value> = counts.iter().map(value).collect();
    report.table(
        "Layers left out",
        "Injection under the default policy, percent of the texts with 95 % intervals: by patterns alone, with the rules over what \
         they find, and with the model, whose findings the rules read as well. The last column counts texts that are blocked and \
         were not by fewer layers. Secrets and personal data with a form are found by patterns alone; what the tagger adds stands \
         in the tables of personal data.",
        &["set", "layers", "n", "blocked", "reported", "added"],
        &lines,
        json!(values),
    );
}
