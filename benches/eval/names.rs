//! The tagger: names, addresses, places and organisations in texts it has not learnt from, and in harmless ones.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

use portcullis::scan::classifier::Origin;
use portcullis::scan::classifier::Spellings;
use portcullis::scan::tagger::chain::Tag;
use portcullis::scan::tagger::reading::Span;
use serde_json::Value;
use serde_json::json;

use crate::layers::Layers;
use crate::measure::quantile;
use crate::personal::bytes;
use crate::personal::is_labelled_whole;
use crate::report::Report;
use crate::rows::Personal;
use crate::rows::Text;
use crate::spans::Counts;
use crate::spans::overlaps;

/// Sources that nothing is learnt from, of prose, documentation and code.
const HELD_OUT: [&str; 5] =
    ["long/chat-concat", "long/owasp", "long/vercel-ai-docs", "long/mini-redis", "long/openllmetry"];
/// How long a text is that is timed, in bytes, and how often.
const TIMED_BYTES: usize = 4 << 10;
const ROUNDS: usize = 400;

/// Returns the tag that a label of the rows stands for.
fn tag_of(label: &str) -> Option<Tag> {
    match label {
        "PERSON" => Some(Tag::Person),
        "ADDRESS" => Some(Tag::Address),
        "LOCATION" => Some(Tag::Location),
        "ORGANIZATION" => Some(Tag::Organization),
        _ => None,
    }
}

/// Returns the label of the rows that a tag stands for.
pub fn label_of(tag: Tag) -> &'static [&'static str] {
    match tag {
        Tag::Person => &["PERSON"],
        Tag::Address => &["ADDRESS"],
        Tag::Location => &["LOCATION"],
        Tag::Organization => &["ORGANIZATION"],
    }
}

/// Measures all of it.
pub fn measure(layers: &Layers, rows: &[Personal], long: &[Text], report: &mut Report) {
    by_source(layers, rows, report);
    per_bytes(layers, long, report);
    speed(layers, long, report);
}

/// Counts what is found of each type in the sources that label all of them.
fn by_source(layers: &Layers, rows: &[Personal], report: &mut Report) {
    let mut counts: BTreeMap<(&str, &str), Counts> = BTreeMap::new();
    for row in rows.iter().filter(|row| is_labelled_whole(row)) {
        let found = layers.names(&row.text);
        let there: Vec<(Range<usize>, Option<Tag>)> =
            row.spans.iter().map(|span| (bytes(row, span), tag_of(&span.r#type))).collect();
        for (place, tag) in there.iter().filter_map(|(place, tag)| Some((place, (*tag)?))) {
            let meets = |span: &&Span| overlaps(&span.range, place);
            let hit = found.iter().any(|span| meets(&span) && span.tag == tag);
            counts.entry((&row.source, tag.as_str())).or_default().recall.note(hit);
            counts
                .entry((&row.source, "any, whatever its type"))
                .or_default()
                .recall
                .note(found.iter().any(|span| meets(&span)));
        }
        for span in &found {
            let meets = |(place, _): &&(Range<usize>, Option<Tag>)| overlaps(&span.range, place);
            let hit = there.iter().any(|it| meets(&it) && it.1 == Some(span.tag));
            counts.entry((&row.source, span.tag.as_str())).or_default().precision.note(hit);
            counts
                .entry((&row.source, "any, whatever its type"))
                .or_default()
                .precision
                .note(there.iter().any(|it| meets(&it)));
        }
    }
    let line = |((source, tag), count): (&(&str, &str), &Counts)| {
        let f = count.f_cell(2.0);
        let n = count.recall.all.to_string();
        vec![(*source).to_owned(), (*tag).to_owned(), n, count.recall.cell(), count.precision.cell(), f]
    };
    let lines: Vec<Vec<String>> = counts.iter().filter(|(_, count)| count.recall.all > 0).map(line).collect();
    let values: BTreeMap<String, Value> =
        counts.iter().map(|((source, tag), count)| (format!("{source} {tag}"), count.value())).collect();
    report.table(
        "Names, addresses and places",
        "The tagger alone, on sources it has not learnt from; the names in `synthetic/faker_multilingual` are from the \
         package that also made its lists. Spans that overlap by half.",
        &["source", "type", "n", "recall", "precision", "F2"],
        &lines,
        json!(values),
    );
}

/// Counts what is found in harmless texts; some of it is right, for people and places are named there.
fn per_bytes(layers: &Layers, long: &[Text], report: &mut Report) {
    let (mut lines, mut values) = (Vec::new(), Vec::new());
    for source in HELD_OUT {
        let (mut length, mut counts) = (0, [0usize; Tag::ALL.len()]);
        for row in long.iter().filter(|row| row.source == source) {
            length += row.text.len();
            layers.names(&row.text).iter().for_each(|span| counts[span.tag.index()] += 1);
        }
        let rate = |tag: Tag| counts[tag.index()] as f64 * 1e4 / length.max(1) as f64;
        let cells = Tag::ALL.map(|tag| format!("{:.2}", rate(tag)));
        lines.push([vec![source.to_owned(), (length >> 10).to_string()], cells.to_vec()].concat());
        values.push(json!({ "source": source, "bytes": length, "found": counts }));
    }
    report.table(
        "Names per 10 kB of harmless text",
        "Sources that nothing was learnt from. Not all are false: people, towns and firms are named in them.",
        &["source", "KiB", "person", "address", "location", "organization"],
        &lines,
        json!(values),
    );
}

/// Measures what the tagger takes beside the other layers, in pairs.
fn speed(layers: &Layers, long: &[Text], report: &mut Report) {
    let mut lines = Vec::new();
    let mut values = Vec::new();
    for source in ["long/chat-concat", "long/openllmetry"] {
        let all: String =
            long.iter().filter(|row| row.source == source).map(|row| row.text.as_str()).collect();
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let from = round * 1009 % all.len().saturating_sub(2 * TIMED_BYTES).max(1);
            let Some(start) = (from..all.len()).find(|at| all.is_char_boundary(*at)) else { continue };
            let Some(end) = (start + TIMED_BYTES..all.len()).find(|at| all.is_char_boundary(*at)) else {
                continue;
            };
            let text = &all[start..end];
            let began = Instant::now();
            let patterns = layers.patterns(text);
            black_box(layers.learned(text, Origin::User, &patterns, Spellings::All));
            let between = Instant::now();
            black_box(layers.names(text));
            without.push((between - began).as_secs_f64() * 1e6);
            with.push(between.elapsed().as_secs_f64() * 1e6);
        }
        let [usual, own] =
            [&mut without, &mut with].map(|taken| [0.5, 0.99].map(|share| quantile(taken, share)));
        lines.push(vec![
            source.to_owned(),
            with.len().to_string(),
            format!("{:.1}", own[0]),
            format!("{:.1}", own[1]),
            format!("{:.1}", usual[0]),
        ]);
        values.push(json!({ "source": source, "n": with.len(), "p50_us": own[0], "p99_us": own[1], "others_p50_us": usual[0] }));
    }
    report.table(
        "Microseconds of the tagger",
        "For 4 KiB, one thread, warm, beside layers 1 and 3 on the same text. Where no policy names what it finds, it does not run.",
        &["source", "n", "p50", "p99", "other layers, p50"],
        &lines,
        json!(values),
    );
}
