//! Tables, for people and for machines.

use std::error::Error;

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

/// Tables as they gather.
#[derive(Default)]
pub struct Report {
    text: String,
    values: Map<String, Value>,
}

impl Report {
    /// Adds a table: a title, a remark, the names of its columns, and its rows.
    pub fn table(
        &mut self,
        title: &str,
        remark: &str,
        columns: &[&str],
        rows: &[Vec<String>],
        values: Value,
    ) {
        self.text.push_str(&format!("\n## {title}\n\n{remark}\n\n| {} |\n", columns.join(" | ")));
        self.text.push_str(&format!("|{}\n", " --- |".repeat(columns.len())));
        for row in rows {
            self.text.push_str(&format!("| {} |\n", row.join(" | ")));
        }
        self.values.insert(title.to_owned(), values);
    }

    /// Adds what the trainer found about sources it left out.
    pub fn folds(&mut self, told: Option<&str>) -> Result<(), Box<dyn Error>> {
        self.text.push_str("# Evaluation\n");
        let Some(told) = told else {
            self.text.push_str("\nSources left out: run `make train` first.\n");
            return Ok(());
        };
        let folds: Value = serde_json::from_str(told)?;
        self.text.push_str(folds.get("markdown").and_then(Value::as_str).unwrap_or_default());
        self.values.insert("sources left out".to_owned(), folds.get("values").cloned().unwrap_or(json!({})));
        Ok(())
    }

    /// Returns the report as Markdown.
    pub fn markdown(&self) -> String {
        self.text.clone()
    }

    /// Returns the report as JSON.
    pub fn json(&self) -> String {
        Value::Object(self.values.clone()).to_string()
    }
}
