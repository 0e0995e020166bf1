//! Sentences from templates: `"{drop} {all} {earlier} {orders}"` and the words for each slot.
//!
//! In: a TOML file of families, each with templates, slots and how many texts are wanted. Out: the texts, always
//! the same ones, in the same order. Slots may hold slots; those of `[slots.LANGUAGE]` serve all its families.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde::Deserialize;

use crate::chance::Chance;

/// How deep slots stand within slots at most.
const DEPTH_MAX: usize = 6;
/// How many attempts a text is worth that was not made before.
const ATTEMPTS: usize = 6;

/// What a family is an example of.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Orders to drop, to show, to do something else.
    Override,
    /// A persona without rules.
    Persona,
    /// Text about attacks.
    About,
    /// Anything else.
    Benign,
}

/// Texts of one making.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    /// Its name, unique in its file.
    pub name: String,
    /// What its texts are examples of.
    pub kind: Kind,
    /// Whose slots it uses.
    pub language: String,
    /// How many texts are made of it at most.
    #[serde(default)]
    pub count: usize,
    /// Whether its texts come from tools.
    #[serde(default)]
    pub from_tool: bool,
    /// Texts with `{slots}`, or plain ones.
    pub templates: Vec<String>,
    /// Slots of its own.
    #[serde(default)]
    pub slots: BTreeMap<String, Vec<String>>,
}

/// A file of families.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grammar {
    /// Slots by language.
    #[serde(default)]
    pub slots: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    /// The families.
    #[serde(rename = "family")]
    pub families: Vec<Family>,
}

/// A slot that nothing fills.
#[derive(Debug, thiserror::Error)]
#[error("family `{family}`: nothing fills the slot `{slot}`")]
pub struct EmptySlot {
    family: String,
    slot: String,
}

impl Grammar {
    /// Makes the texts of a family.
    pub fn texts(&self, family: &Family, chance: &mut Chance) -> Result<Vec<String>, EmptySlot> {
        let count = if family.count == 0 { family.templates.len() } else { family.count };
        let mut seen = BTreeSet::new();
        let mut texts = Vec::new();
        for at in 0..count * ATTEMPTS {
            if texts.len() == count {
                break;
            }
            let Some(template) = family.templates.get(at % family.templates.len()) else { break };
            let text = self.fill(family, template, chance, DEPTH_MAX)?;
            let text = tidy(&text);
            if seen.insert(text.clone()) {
                texts.push(text);
            }
        }
        Ok(texts)
    }

    fn fill(
        &self,
        family: &Family,
        template: &str,
        chance: &mut Chance,
        depth: usize,
    ) -> Result<String, EmptySlot> {
        let mut text = String::new();
        let mut rest = template;
        while let Some((before, behind)) = rest.split_once('{') {
            text.push_str(before);
            let Some((slot, after)) = behind.split_once('}') else {
                text.push('{');
                rest = behind;
                continue;
            };
            rest = after;
            let is_name =
                !slot.is_empty() && slot.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            if !is_name {
                text.push_str(&format!("{{{slot}}}"));
                continue;
            }
            let of_language = self.slots.get(&family.language).and_then(|slots| slots.get(slot));
            let shared = self.slots.get("any").and_then(|slots| slots.get(slot));
            let fillers =
                family.slots.get(slot).or(of_language).or(shared).filter(|fillers| !fillers.is_empty());
            let Some(fillers) = fillers.filter(|_| depth > 0) else {
                return Err(EmptySlot { family: family.name.clone(), slot: slot.to_owned() });
            };
            let filler = &fillers[chance.below(fillers.len())];
            text.push_str(&self.fill(family, filler, chance, depth - 1)?);
        }
        text.push_str(rest);
        Ok(text)
    }
}

/// Takes out the spaces that empty slots leave.
fn tidy(text: &str) -> String {
    let mut text = text.to_owned();
    while text.contains("  ") {
        text = text.replace("  ", " ");
    }
    for (from, to) in [(" .", "."), (" ,", ","), (" !", "!"), (" ?", "?"), (" 。", "。")] {
        text = text.replace(from, to);
    }
    text.trim().to_owned()
}
