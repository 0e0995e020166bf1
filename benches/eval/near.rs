//! Prompts written for this project that come near an attack, and attacks beside them, in two sets by language.
//!
//! In: `near_attacks.toml`, from a writer who had not seen what the model learns from. The first set was looked at while
//! the model's texts were written; the second was only counted, but its counts were known when the shares of those
//! texts were chosen, so that they are a little too good.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use portcullis::scan::classifier::Origin;
use serde::Deserialize;
use serde_json::Value;
use serde_json::json;

use crate::layers::Layers;
use crate::measure::Share;
use crate::report::Report;

const FILE: &str = "benches/eval/near_attacks.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sets {
    looked_at: Vec<Prompt>,
    held_out: Vec<Prompt>,
}

/// One prompt.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prompt {
    language: String,
    /// Whether it is an attack.
    pub attack: bool,
    /// What it says.
    pub text: String,
}

#[derive(Default)]
struct Counts {
    blocked: Share,
    told: Share,
}

fn read() -> Result<Sets, Box<dyn Error>> {
    let text = fs::read_to_string(Path::new(FILE)).map_err(|error| format!("{FILE}: {error}"))?;
    Ok(toml::from_str(&text)?)
}

/// Returns the prompts that were only counted.
pub fn held_out() -> Result<Vec<Prompt>, Box<dyn Error>> {
    Ok(read()?.held_out)
}

/// Counts what of each set the default policy blocks and what is reported at all.
pub fn measure(layers: &Layers, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let sets = read()?;
    let mut counts: BTreeMap<(&str, bool, &str), Counts> = BTreeMap::new();
    for (set, prompts) in [("looked at", &sets.looked_at), ("held out", &sets.held_out)] {
        for prompt in prompts {
            let outcome = layers.outcome(&prompt.text, Origin::User);
            let of_english = if prompt.language == "en" { "English" } else { "other languages" };
            for language in [of_english, "all"] {
                let count = counts.entry((set, prompt.attack, language)).or_default();
                count.blocked.note(outcome.blocked());
                count.told.note(outcome.told());
            }
        }
    }
    let kind = |attack: bool| if attack { "attack" } else { "harmless" };
    let line = |((set, attack, language), count): (&(&str, bool, &str), &Counts)| {
        let n = count.blocked.all.to_string();
        [*set, kind(*attack), *language, &n, &count.blocked.cell(), &count.told.cell()]
            .map(str::to_owned)
            .to_vec()
    };
    let lines: Vec<Vec<String>> = counts.iter().map(line).collect();
    let value = |((set, attack, language), count): (&(&str, bool, &str), &Counts)| {
        json!({ "set": set, "kind": kind(*attack), "language": language,
            "blocked": count.blocked.value(), "reported": count.told.value() })
    };
    let values: Vec<Value> = counts.iter().map(value).collect();
    report.table(
        "Prompts that come near an attack",
        "Written for this project by others than the texts that the model learns from. The first set was looked at; the second was only counted.",
        &["set", "prompts", "language", "n", "blocked", "reported"],
        &lines,
        json!(values),
    );
    Ok(())
}

/// Writes which prompts of the first set are judged wrongly, and by which layers.
pub fn faults(layers: &Layers) -> Result<(), Box<dyn Error>> {
    let sets = read()?;
    let mut out = std::io::stdout();
    for prompt in &sets.looked_at {
        let outcome = layers.outcome(&prompt.text, Origin::User);
        if outcome.blocked() != prompt.attack {
            let kind = if prompt.attack { "missed" } else { "blocked" };
            writeln!(out, "{kind} {} {outcome:?} {:?}", prompt.language, prompt.text)?;
        }
    }
    Ok(())
}
