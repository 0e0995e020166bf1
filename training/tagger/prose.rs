//! Texts of others, of which only a part is known: what stands in lower case is no name, and what looks like one may be.
//!
//! In: the shared rows without attacks, but for the sources that false positives are counted in. Out: samples in which a
//! token that may be a name is left open, and words that stand in lower case often enough to count as themselves. A given name
//! with a family name behind it is taken for a person, and another name is put in its place.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

use portcullis::scan::tagger::Words;
use portcullis::scan::tagger::chain::STATES;
use portcullis::scan::tagger::chain::State;
use portcullis::scan::tagger::chain::Tag;
use portcullis::scan::tagger::feature::Look;
use portcullis::scan::tagger::feature::Vocabulary;
use portcullis::scan::tagger::feature::list;
use portcullis::scan::tagger::token::Gap;
use portcullis::scan::tagger::token::Matter;
use portcullis::scan::tagger::token::Token;
use serde::Deserialize;

use crate::chance::Chance;
use crate::lists::tokens;
use crate::make::Maker;
use crate::sample::ANY;
use crate::sample::OUTSIDE;
use crate::sample::Sample;

/// Sources that nothing is learnt from: false positives are counted in them.
const HELD_OUT: [&str; 8] = [
    "long/chat-concat",
    "long/owasp",
    "long/vercel-ai-docs",
    "long/mini-redis",
    "long/openllmetry",
    "self-instruct",
    "OWASP/CheatSheetSeries",
    "trigger/vercel-ai-docs",
];
/// A part of a text, in bytes.
const PART_BYTES: usize = 600;
/// How many parts of one source are read at most.
const PARTS_MAX: usize = 2500;
/// How many words count as themselves at most.
const KNOWN_MAX: usize = 14_000;
/// How often a word stands in lower case before it counts as itself, and one that is a name, too.
const TIMES_MIN: usize = 10;
const NAME_TIMES_MIN: usize = 400;

#[derive(Deserialize)]
struct Row {
    text: String,
    #[serde(default)]
    label: Option<u8>,
    source: String,
}

/// A part of a text.
pub struct Part {
    text: String,
    /// Whether people write it for people, with names in it.
    is_prose: bool,
}

/// Reads parts of the rows.
pub fn read(shared: &Path) -> Result<Vec<Part>, Box<dyn Error>> {
    let mut parts: BTreeMap<String, Vec<Part>> = BTreeMap::new();
    for name in ["benign_long.jsonl", "injection.jsonl"] {
        for line in fs::read_to_string(shared.join(name))?.lines() {
            let row: Row = serde_json::from_str(line)?;
            let is_harmless = row.label == Some(0) || name.starts_with("benign");
            if !is_harmless || HELD_OUT.contains(&row.source.as_str()) {
                continue;
            }
            let is_prose = row.source.starts_with("self-instruct") || row.source.starts_with("BIPIA");
            let known = parts.entry(row.source).or_default();
            known.extend(cut(&row.text).map(|text| Part { text: text.to_owned(), is_prose }));
        }
    }
    for (source, parts) in &mut parts {
        Chance::of(source).shuffle(parts);
        parts.truncate(PARTS_MAX);
    }
    Ok(parts.into_values().flatten().collect())
}

/// Cuts a text at ends of lines or sentences.
fn cut(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.trim().is_empty() {
            return None;
        }
        let least = (PART_BYTES.min(rest.len())..=rest.len()).find(|at| rest.is_char_boundary(*at))?;
        let behind = rest.get(least..)?;
        let end = behind.find(['\n', '。']).or_else(|| behind.find(' ')).map_or(rest.len(), |at| least + at);
        let (part, after) = rest.split_at(end);
        rest = after;
        Some(part)
    })
}

/// Returns the hashes of words that stand in lower case, the most frequent.
pub fn known(parts: &[Part], names: &Words) -> Vec<u32> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for part in parts {
        for token in tokens(&part.text).iter().filter(|token| is_low(token)) {
            *counts.entry(Look::of(token, names).hash()).or_default() += 1;
        }
    }
    let least = |hash: &u32| {
        let is_name = names.lists(*hash) & (list::GIVEN | list::FAMILY | list::TOWN | list::LAND) != 0;
        if is_name { NAME_TIMES_MIN } else { TIMES_MIN }
    };
    let mut frequent: Vec<(usize, u32)> = counts
        .into_iter()
        .filter(|(hash, count)| *count >= least(hash))
        .map(|(hash, count)| (count, hash))
        .collect();
    frequent.sort_unstable_by(|one, other| other.cmp(one));
    frequent.truncate(KNOWN_MAX);
    frequent.into_iter().map(|(_, hash)| hash).collect()
}

/// Makes samples of parts.
pub fn samples(parts: &[Part], words: &Words, maker: &Maker<'_>) -> Vec<Sample> {
    parts.iter().map(|part| sample(part, words, maker)).collect()
}

fn sample(part: &Part, words: &Words, maker: &Maker<'_>) -> Sample {
    let mut chance = Chance::of(&part.text);
    let text = if part.is_prose {
        renamed(&part.text, words, maker, &mut chance)
    } else {
        (part.text.clone(), Vec::new())
    };
    let (text, people) = text;
    let cut = tokens(&text);
    let lists = |at: usize| cut.get(at).map_or(0, |token| words.lists(Look::of(token, words).hash()));
    let is_open = |at: usize| {
        let Some(token) = cut.get(at) else { return false };
        let names = list::GIVEN | list::FAMILY | list::TOWN | list::LAND;
        let begins = begins_sentence(&cut, at);
        let is_word_of_prose = begins && lists(at) & list::KNOWN != 0 && lists(at) & names == 0;
        is_high(token) && (part.is_prose && !is_word_of_prose || lists(at) & names != 0)
    };
    let state = |at: usize, token: &Token| {
        let place = token.range.clone();
        if let Some(person) =
            people.iter().find(|person| person.start < place.end && place.start < person.end)
        {
            let first = if place.start == person.start {
                State::first(Tag::Person)
            } else {
                State::further(Tag::Person)
            };
            return 1 << first.index();
        }
        let is_beside = at.checked_sub(1).is_some_and(is_open) || is_open(at + 1);
        let is_number = token.bytes.first().is_some_and(u8::is_ascii_digit);
        if part.is_prose
            && is_open(at)
            && lists(at) & list::LAND != 0
            && lists(at) & list::KNOWN == 0
            && !is_beside
        {
            return 1 << State::first(Tag::Location).index();
        }
        let is_between = token.matter == Matter::Mark || is_number || token.bytes.len() <= 3;
        if is_open(at) || part.is_prose && is_beside && is_between { ANY } else { OUTSIDE }
    };
    let mut allowed: Vec<u16> = cut.iter().enumerate().map(|(at, token)| state(at, token)).collect();
    connect(&mut allowed);
    Sample { text, allowed }
}

/// Puts other names in the place of given names with a family name behind them; returns where they stand.
fn renamed(
    text: &str,
    words: &Words,
    maker: &Maker<'_>,
    chance: &mut Chance,
) -> (String, Vec<std::ops::Range<usize>>) {
    let cut = tokens(text);
    let lists = |token: &Token| words.lists(Look::of(token, words).hash());
    let (mut changed, mut people, mut from) = (String::new(), Vec::new(), 0);
    for pair in cut.windows(2) {
        let [first, second] = pair else { continue };
        let is_given =
            lists(first) & list::GIVEN != 0 && lists(first) & (list::KNOWN | list::TOWN | list::LAND) == 0;
        let is_family = lists(second) & (list::KNOWN | list::TOWN | list::LAND | list::FIRM) == 0;
        let is_pair =
            is_high(first) && is_high(second) && second.gap == Gap::Space && first.range.start >= from;
        if is_given && is_family && is_pair {
            changed.push_str(text.get(from..first.range.start).unwrap_or_default());
            let start = changed.len();
            changed.push_str(&maker.guest(chance));
            people.push(start..changed.len());
            from = second.range.end;
        }
    }
    changed.push_str(text.get(from..).unwrap_or_default());
    (changed, people)
}

/// Takes back states that no neighbour allows.
fn connect(allowed: &mut [u16]) {
    for at in 0..allowed.len() {
        let before = if at == 0 { OUTSIDE } else { allowed[at - 1] };
        let can = |state: &usize| {
            (0..STATES).any(|other| {
                before >> other & 1 == 1 && portcullis::scan::tagger::chain::may_follow(other, *state)
            })
        };
        let mask = (0..STATES).filter(can).fold(0u16, |mask, state| mask | 1 << state);
        allowed[at] &= mask;
        if allowed[at] == 0 {
            allowed[at] = OUTSIDE;
        }
    }
}

fn begins_sentence(cut: &[Token], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).and_then(|before| cut.get(before)) else { return true };
    cut[at].gap >= Gap::Line
        || matches!(&before.bytes[..], b"." | b"!" | b"?" | b":" | b"\"" | b"-" | b"*" | b"#")
}

fn letters(token: &Token) -> &str {
    std::str::from_utf8(&token.bytes).unwrap_or_default()
}

fn is_low(token: &Token) -> bool {
    token.matter == Matter::Word
        && letters(token).chars().all(|letter| letter.is_alphabetic() && !letter.is_uppercase())
}

fn is_high(token: &Token) -> bool {
    token.matter == Matter::Word && letters(token).chars().next().is_some_and(char::is_uppercase)
}
