//! Tables, for people and for machines.

use serde_json::Map;
use serde_json::Value;

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

    /// Adds what somebody else wrote: tables with their titles, and their values.
    pub fn told(&mut self, title: &str, markdown: &str, values: Value) {
        self.text.push_str(markdown);
        self.values.insert(title.to_owned(), values);
    }

    /// Adds a title and why there is no table.
    pub fn remark(&mut self, title: &str, remark: &str) {
        self.text.push_str(&format!("\n## {title}\n\n{remark}\n"));
    }

    /// Returns the report as Markdown.
    pub fn markdown(&self) -> String {
        format!("# Evaluation\n{}", self.text)
    }

    /// Returns the report as JSON.
    pub fn json(&self) -> String {
        Value::Object(self.values.clone()).to_string()
    }
}
