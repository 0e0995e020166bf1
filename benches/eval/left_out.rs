//! How the model does on sources it has not learnt from: as the last `make train` told, or as its card does.
//!
//! The card gives percentages; their intervals are of the counts that come nearest to them.

use std::error::Error;

use serde_json::Value;
use serde_json::json;

use crate::measure::Share;
use crate::report::Report;

/// The card of the model that ships.
pub const CARD: &str = "plugins/models/gatehouse/card.md";
/// The column of a source's name has the name of the set; these are the next.
const COLUMNS: [&str; 3] = ["n", "at 1 %", "at 0.1 %"];

/// One source of the card.
struct Row {
    set: String,
    source: String,
    n: Option<usize>,
    percent: [f64; 2],
}

/// Adds the table: what the trainer wrote, where it did, else what the card says.
pub fn tables(told: Option<&str>, card: &str, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let Some(told) = told else { return of_card(card, report) };
    let folds: Value = serde_json::from_str(told)?;
    let markdown = folds.get("markdown").and_then(Value::as_str).unwrap_or_default();
    report.told("sources left out", markdown, folds.get("values").cloned().unwrap_or(json!({})));
    Ok(())
}

fn of_card(card: &str, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let rows = rows(card);
    if rows.is_empty() {
        return Err(format!("{CARD}: no table tells of `{}` and `{}`", COLUMNS[1], COLUMNS[2]).into());
    }
    let shares = |row: &Row| {
        let counted = |percent: f64| {
            row.n.map(|all| Share { hits: (percent * all as f64 / 100.0).round() as usize, all })
        };
        row.percent.map(counted)
    };
    let line = |row: &Row| {
        let n = row.n.map_or_else(String::new, |n| n.to_string());
        let mut line = vec![row.set.clone(), row.source.clone(), n];
        let cells = shares(row).into_iter().zip(row.percent);
        line.extend(cells.map(|(share, percent)| share.map_or_else(|| format!("{percent}"), Share::cell)));
        line
    };
    let value = |row: &Row| {
        let [one, tenth] = shares(row).map(|share| share.map(Share::value));
        json!({ "set": row.set, "source": row.source, "n": row.n, "percent_1": row.percent[0],
            "percent_01": row.percent[1], "over_1": one, "over_01": tenth })
    };
    let lines: Vec<Vec<String>> = rows.iter().map(line).collect();
    let values: Vec<Value> = rows.iter().map(value).collect();
    report.table(
        "Sources left out",
        &format!(
            "From `{CARD}`; `make train` measures it anew. Each source is judged by a model that learnt from the others, at \
             thresholds that 1 % and 0.1 % of harmless texts of left-out sources exceed. Percent, with 95 % intervals."
        ),
        &["set", "source", "n", "over the 1 % threshold", "over the 0.1 % threshold"],
        &lines,
        json!({ "from": CARD, "sources": values }),
    );
    Ok(())
}

/// Reads the rows of all tables of a card that tell of the two thresholds.
fn rows(card: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut set = None;
    for line in card.lines() {
        let cells: Vec<&str> = match line.strip_prefix('|').and_then(|rest| rest.trim_end().strip_suffix('|'))
        {
            Some(cells) => cells.split('|').map(str::trim).collect(),
            None => {
                set = None;
                continue;
            }
        };
        match (set, cells.as_slice()) {
            (_, [name, rest @ ..]) if rest.starts_with(&COLUMNS) => set = Some(*name),
            (Some(set), [source, n, one, tenth, ..]) => {
                let percent = |cell: &str| cell.parse::<f64>().ok();
                if let (Some(one), Some(tenth)) = (percent(one), percent(tenth)) {
                    let n = n.replace(',', "").parse().ok();
                    let (set, source) = (set.to_owned(), (*source).to_owned());
                    rows.push(Row { set, source, n, percent: [one, tenth] });
                }
            }
            _ => {}
        }
    }
    rows
}
