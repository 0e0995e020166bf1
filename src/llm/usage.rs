//! Tokens and model, as the provider tells them: in a body, or over the events of a stream.

use std::borrow::Cow;

use crate::llm::dialect::Dialect;
use crate::llm::json::Document;
use crate::llm::json::JsonLimits;
use crate::llm::json::NodeId;
use crate::llm::json::walk;

/// Longer model names are cut: none is.
const MODEL_BYTES_MAX: usize = 256;

/// What an exchange used, as far as it was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens the model read, cached ones included.
    pub prompt_tokens: Option<u64>,
    /// Tokens the model wrote, thinking included.
    pub completion_tokens: Option<u64>,
    /// All tokens, where the provider tells them.
    pub total_tokens: Option<u64>,
    /// The model that answered.
    pub model: Option<String>,
}

impl Usage {
    /// Returns what one body or event tells.
    pub fn read(dialect: &Dialect, body: &[u8], doc: &Document) -> Self {
        let paths = &dialect.usage;
        Self {
            prompt_tokens: first_sum(&paths.prompt, body, doc),
            completion_tokens: first_sum(&paths.completion, body, doc),
            total_tokens: first_sum(&paths.total, body, doc),
            model: paths
                .model
                .iter()
                .find_map(|path| Some(model_name(doc.str_of(body, find(path, body, doc)?)?))),
        }
    }

    /// Takes over what a later body or event tells: counts in a stream are running totals.
    pub fn merge(&mut self, later: Self) {
        self.prompt_tokens = later.prompt_tokens.or(self.prompt_tokens);
        self.completion_tokens = later.completion_tokens.or(self.completion_tokens);
        self.total_tokens = later.total_tokens.or(self.total_tokens);
        self.model = later.model.or(self.model.take());
    }

    /// Takes over what a whole body tells: nothing, when it is no JSON that can be read.
    pub fn merge_body(&mut self, dialect: &Dialect, body: &[u8], limits: &JsonLimits) {
        if let Ok(doc) = walk(body, limits) {
            self.merge(Self::read(dialect, body, &doc));
        }
    }

    /// Returns all tokens: the provider's own sum, or the one of what it told.
    pub fn total(&self) -> Option<u64> {
        let parts = [self.prompt_tokens, self.completion_tokens];
        let sum = || parts.iter().flatten().copied().reduce(u64::saturating_add);
        self.total_tokens.or_else(sum)
    }
}

/// Returns the first sum whose first count is there.
fn first_sum(sums: &[Vec<Vec<String>>], body: &[u8], doc: &Document) -> Option<u64> {
    let count = |path: &Vec<String>| doc.number_text(body, find(path, body, doc)?)?.parse::<u64>().ok();
    sums.iter().find_map(|sum| {
        let (first, rest) = sum.split_first()?;
        Some(rest.iter().filter_map(count).fold(count(first)?, u64::saturating_add))
    })
}

fn find(path: &[String], body: &[u8], doc: &Document) -> Option<NodeId> {
    path.iter().try_fold(NodeId::ROOT, |node, key| doc.child(body, node, key))
}

fn model_name(name: Cow<'_, str>) -> String {
    name.chars()
        .scan(0, |bytes, character| {
            *bytes += character.len_utf8();
            (*bytes <= MODEL_BYTES_MAX).then_some(character)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::dialect::Dialects;

    fn usage(dialect: &str, events: &[&str]) -> (Option<u64>, Option<u64>, Option<u64>, Option<String>) {
        let dialects = Dialects::embedded().unwrap();
        let mut usage = Usage::default();
        for event in events {
            usage.merge_body(dialects.get(dialect).unwrap(), event.as_bytes(), &JsonLimits::STRICT);
        }
        (usage.prompt_tokens, usage.completion_tokens, usage.total(), usage.model)
    }

    #[test]
    fn tokens_are_where_each_provider_puts_them() {
        // (dialect, events, prompt, completion, total)
        type Case<'a> = (&'a str, &'a [&'a str], u64, u64, u64);
        let cases: &[Case] = &[
            (
                "openai",
                &[r#"{"model":"m","usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}"#],
                3,
                4,
                7,
            ),
            (
                "openai",
                &[
                    r#"{"model":"m","choices":[{"delta":{}}],"usage":null}"#,
                    r#"{"model":"m","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}"#,
                ],
                3,
                4,
                7,
            ),
            (
                "openai",
                &[
                    r#"{"type":"response.completed","response":{"model":"m","usage":{"input_tokens":5,"output_tokens":6,"total_tokens":11}}}"#,
                ],
                5,
                6,
                11,
            ),
            (
                "anthropic",
                &[
                    r#"{"type":"message_start","message":{"model":"m","usage":{"input_tokens":10,"cache_creation_input_tokens":1,"cache_read_input_tokens":2,"output_tokens":1}}}"#,
                    r#"{"type":"message_delta","delta":{},"usage":{"output_tokens":40}}"#,
                ],
                13,
                40,
                53,
            ),
            ("anthropic", &[r#"{"model":"m","usage":{"input_tokens":3,"output_tokens":4}}"#], 3, 4, 7),
            (
                "gemini",
                &[
                    r#"{"modelVersion":"m","usageMetadata":{"promptTokenCount":2,"totalTokenCount":2}}"#,
                    r#"{"modelVersion":"m","usageMetadata":{"promptTokenCount":2,"candidatesTokenCount":3,"thoughtsTokenCount":4,"totalTokenCount":9}}"#,
                ],
                2,
                7,
                9,
            ),
            (
                "ollama",
                &[
                    r#"{"model":"m","done":false}"#,
                    r#"{"model":"m","done":true,"prompt_eval_count":8,"eval_count":9}"#,
                ],
                8,
                9,
                17,
            ),
        ];
        for (dialect, events, prompt, completion, total) in cases {
            let expected = (Some(*prompt), Some(*completion), Some(*total), Some("m".to_string()));
            assert_eq!(usage(dialect, events), expected, "{events:?}");
        }
    }

    #[test]
    fn what_was_not_told_is_not_made_up() {
        assert_eq!(usage("openai", &[r#"{"usage":{"prompt_tokens":"3"}}"#]), (None, None, None, None));
        assert_eq!(usage("openai", &["not JSON"]), (None, None, None, None));
        let (_, _, _, model) = usage("openai", &[&format!(r#"{{"model":"{}"}}"#, "é".repeat(200))]);
        assert_eq!(model.unwrap().len(), 256);
    }
}
