//! Recall where a fixed share of harmless texts is reported, beside what the default policy does.
//!
//! The thresholds are log odds of the shipped model, patterns' findings added, beyond which 1 % and 0.1 % of harmless texts
//! lie that nothing was learnt from, of what people write and of what tools give back apart. The sets are those it has learnt
//! from, but for the prompts that come near an attack: how a model does that has not seen a source, the table of sources
//! left out says.

use std::collections::BTreeMap;
use std::error::Error;

use portcullis::scan::classifier::Origin;
use serde_json::Value;
use serde_json::json;

use crate::injection::origin;
use crate::injection::set_of;
use crate::layers::Layers;
use crate::layers::Outcome;
use crate::measure::Share;
use crate::near;
use crate::packages;
use crate::report::Report;
use crate::rows::Text;

/// The shares of harmless texts beyond the thresholds.
const SHARES: [f64; 2] = [0.01, 0.001];

/// What is counted of one source.
#[derive(Default)]
struct Counts {
    over: [Share; SHARES.len()],
    blocked: Share,
    told: Share,
}

/// The thresholds for what people write, and for what tools give back.
struct Levels {
    user: [f32; SHARES.len()],
    tool: [f32; SHARES.len()],
}

impl Levels {
    fn of(&self, origin: Origin) -> [f32; SHARES.len()] {
        if origin == Origin::Tool { self.tool } else { self.user }
    }
}

/// Sets the thresholds, and counts what of each set lies beyond them and what the default policy does.
pub fn measure(
    layers: &Layers,
    rows: &[Text],
    outcomes: &[Outcome],
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let held_out = packages::texts()?;
    if held_out.is_empty() {
        report.remark("Recall at fixed false positives", "No source of a package lies on this machine.");
        return Ok(());
    }
    let levels = Levels {
        user: thresholds(layers, &held_out, Origin::User),
        tool: thresholds(layers, &held_out, Origin::Tool),
    };
    let mut counts: BTreeMap<(&str, String), Counts> = BTreeMap::new();
    let mut note = |set: &'static str, source: String, text: &str, origin: Origin, outcome: Outcome| {
        let odds = layers.odds(text, origin);
        let over = levels.of(origin).map(|level| odds > level);
        for source in [source, "all".to_owned()] {
            let count = counts.entry((set, source)).or_default();
            count.over.iter_mut().zip(over).for_each(|(share, over)| share.note(over));
            count.blocked.note(outcome.blocked());
            count.told.note(outcome.told());
        }
    };
    for (row, outcome) in rows.iter().zip(outcomes) {
        if let Some(set) = set_of(row) {
            note(set, row.source.clone(), &row.text, origin(row), *outcome);
        }
    }
    for prompt in near::held_out()? {
        let set = if prompt.attack { "attack, not learnt from" } else { "harmless, not learnt from" };
        let outcome = layers.outcome(&prompt.text, Origin::User);
        note(set, "near an attack, held out".to_owned(), &prompt.text, Origin::User, outcome);
    }
    for text in &held_out {
        let outcome = layers.outcome(&text.text, Origin::User);
        note("harmless, sets the thresholds", text.source.clone(), &text.text, Origin::User, outcome);
    }
    write(&counts, &levels, held_out.len(), report);
    Ok(())
}

/// Returns the log odds that these shares of texts exceed.
fn thresholds(layers: &Layers, texts: &[Text], origin: Origin) -> [f32; SHARES.len()] {
    let mut odds: Vec<f32> = texts.iter().map(|row| layers.odds(&row.text, origin)).collect();
    odds.sort_by(f32::total_cmp);
    SHARES.map(|share| {
        let at = (odds.len() as f64 * (1.0 - share)) as usize;
        odds.get(at).copied().unwrap_or(f32::MAX)
    })
}

fn write(counts: &BTreeMap<(&str, String), Counts>, levels: &Levels, n: usize, report: &mut Report) {
    let line = |((set, source), count): (&(&str, String), &Counts)| {
        let mut line = vec![(*set).to_owned(), source.clone(), count.blocked.all.to_string()];
        line.extend(count.over.map(Share::cell));
        line.extend([count.blocked.cell(), count.told.cell()]);
        line
    };
    let lines: Vec<Vec<String>> = counts.iter().map(line).collect();
    let value = |((set, source), count): (&(&str, String), &Counts)| {
        json!({ "set": set, "source": source, "over_1": count.over[0].value(), "over_01": count.over[1].value(),
            "blocked": count.blocked.value(), "reported": count.told.value() })
    };
    let values: Vec<Value> = counts.iter().map(value).collect();
    let remark = format!(
        "Percent, with 95 % intervals. The thresholds are set on {n} pieces of read-me files, news and code of the packages in \
         `{}`, which nothing was learnt from: 1 % and 0.1 % of these lie beyond log odds of {:.2} and {:.2} (people's texts) and \
         of {:.2} and {:.2} (tools'). All other sets but those called so the model has learnt from.",
        packages::LOCK,
        levels.user[0],
        levels.user[1],
        levels.tool[0],
        levels.tool[1],
    );
    report.table(
        "Recall at fixed false positives",
        &remark,
        &["set", "source", "n", "over 1 %", "over 0.1 %", "default policy: blocked", "reported"],
        &lines,
        json!({ "thresholds": { "n": n, "user": levels.user, "tool": levels.tool }, "sets": values }),
    );
}
