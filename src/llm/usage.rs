//! Tokens and model, as the provider tells them: in a body, or over the events of a stream.
//!
//! Every count that is part of another (cached tokens of those read, thinking of those written) is kept beside
//! it, never added to it. Where nothing is told, [`estimate`] says how many tokens a text is likely to be.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::llm::dialect::Dialect;
use crate::llm::json::Document;
use crate::llm::json::JsonLimits;
use crate::llm::json::NodeId;
use crate::llm::json::StepView;
use crate::llm::json::walk;

/// Longer model names are cut: none is.
const MODEL_BYTES_MAX: usize = 256;

/// The most of anything that one body or event is believed to tell: no model reads or writes so many tokens, and a sum of
/// a year of such counts still is a signed number of 64 bits.
const COUNT_MAX: u64 = 1_000_000_000;

/// How many bytes of text one token is taken for: four characters of English, and a little more than one of
/// Chinese, are what the tokenizers in use make a token of.
const BYTES_PER_TOKEN: u64 = 4;

/// Returns how many tokens a text of so many bytes is likely to be.
pub fn estimate(text_bytes: u64) -> u64 {
    text_bytes.div_ceil(BYTES_PER_TOKEN)
}

/// What an exchange used, as far as it was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens the model read, cached ones included.
    pub prompt_tokens: Option<u64>,
    /// Tokens the model wrote, thinking included.
    pub completion_tokens: Option<u64>,
    /// All tokens, where the provider tells them.
    pub total_tokens: Option<u64>,
    /// Of the tokens read, those that came from the provider's cache.
    pub cached_tokens: Option<u64>,
    /// Of the tokens read, those that were put into the cache.
    pub cache_write_tokens: Option<u64>,
    /// Of the tokens put into the cache, those that stay there for long (an hour, at Anthropic's).
    pub cache_write_long_tokens: Option<u64>,
    /// Of the tokens written, those that were thinking.
    pub reasoning_tokens: Option<u64>,
    /// Of the tokens read, those that were sound.
    pub audio_prompt_tokens: Option<u64>,
    /// Of the tokens written, those that were sound.
    pub audio_completion_tokens: Option<u64>,
    /// The most tokens that a request lets the model write, for each answer.
    pub completion_tokens_max: Option<u64>,
    /// How many answers a request asks for.
    pub answers: Option<u64>,
    /// The model that answered, or that was asked for.
    pub model: Option<String>,
    /// The bytes of text meant for, or written by, the model, as far as they were seen.
    pub text_bytes: u64,
}

impl Usage {
    /// Returns what one body or event tells.
    pub fn read(dialect: &Dialect, body: &[u8], doc: &Document) -> Self {
        let (paths, told) = (&dialect.usage, Told::of(body, doc));
        let sum = |sums: &[Vec<Vec<String>>]| told.first_sum(sums);
        Self {
            prompt_tokens: sum(&paths.prompt),
            completion_tokens: sum(&paths.completion),
            total_tokens: sum(&paths.total),
            cached_tokens: sum(&paths.cached),
            cache_write_tokens: sum(&paths.cache_write),
            cache_write_long_tokens: sum(&paths.cache_write_long),
            reasoning_tokens: sum(&paths.reasoning),
            audio_prompt_tokens: sum(&paths.audio_prompt),
            audio_completion_tokens: sum(&paths.audio_completion),
            completion_tokens_max: sum(&paths.completion_max),
            answers: sum(&paths.answers),
            text_bytes: 0,
            model: paths.model.iter().find_map(|path| Some(model_name(doc.str_of(body, told.find(path)?)?))),
        }
    }

    /// Takes over what a later body or event tells: counts in a stream are running totals.
    pub fn merge(&mut self, later: Self) {
        let counts = [
            (&mut self.prompt_tokens, later.prompt_tokens),
            (&mut self.completion_tokens, later.completion_tokens),
            (&mut self.total_tokens, later.total_tokens),
            (&mut self.cached_tokens, later.cached_tokens),
            (&mut self.cache_write_tokens, later.cache_write_tokens),
            (&mut self.cache_write_long_tokens, later.cache_write_long_tokens),
            (&mut self.reasoning_tokens, later.reasoning_tokens),
            (&mut self.audio_prompt_tokens, later.audio_prompt_tokens),
            (&mut self.audio_completion_tokens, later.audio_completion_tokens),
            (&mut self.completion_tokens_max, later.completion_tokens_max),
            (&mut self.answers, later.answers),
        ];
        for (count, later) in counts {
            *count = later.or(*count);
        }
        self.model = later.model.or(self.model.take());
        self.text_bytes = self.text_bytes.saturating_add(later.text_bytes);
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

/// A body, with the names of its outermost members read once: the paths begin there, and most end there.
struct Told<'b> {
    body: &'b [u8],
    doc: &'b Document,
    members: SmallVec<[(Cow<'b, [u8]>, NodeId); 8]>,
}

impl<'b> Told<'b> {
    fn of(body: &'b [u8], doc: &'b Document) -> Self {
        let member = |node| match doc.step(body, node) {
            StepView::Key(name) => Some((name, node)),
            StepView::Root | StepView::Index(_) => None,
        };
        Self { body, doc, members: doc.children(NodeId::ROOT).filter_map(member).collect() }
    }

    /// Returns the first sum whose first count is there, [`COUNT_MAX`] at most.
    fn first_sum(&self, sums: &[Vec<Vec<String>>]) -> Option<u64> {
        let count = |path: &Vec<String>| whole_number(self.doc.number_text(self.body, self.find(path)?)?);
        sums.iter().find_map(|sum| {
            let (first, rest) = sum.split_first()?;
            let sum = rest.iter().filter_map(count).fold(count(first)?, u64::saturating_add);
            Some(sum.min(COUNT_MAX))
        })
    }

    /// Follows a path of keys; `[name=text]` leads to the element whose member `name` is `text`.
    fn find(&self, path: &[String]) -> Option<NodeId> {
        let Some((first, rest)) = path.split_first() else { return Some(NodeId::ROOT) };
        let named = || self.members.iter().find(|(name, _)| **name == *first.as_bytes());
        let begin = match self.doc.is_object(NodeId::ROOT) && condition(first).is_none() {
            true => named().map(|(_, node)| *node),
            false => self.step(NodeId::ROOT, first),
        };
        rest.iter().try_fold(begin?, |node, key| self.step(node, key))
    }

    fn step(&self, node: NodeId, key: &str) -> Option<NodeId> {
        let Self { body, doc, .. } = self;
        match condition(key) {
            None => doc.child(body, node, key),
            Some((name, text)) => doc.children(node).find(|element| {
                let told = doc.child(body, *element, name).and_then(|member| doc.str_of(body, member));
                told.is_some_and(|told| told == text)
            }),
        }
    }
}

/// Reads a count, which some servers write as `12.0`; one of more digits than a number has room for is [`COUNT_MAX`].
fn whole_number(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return (!text.is_empty()).then(|| text.parse().map_or(COUNT_MAX, |count: u64| count.min(COUNT_MAX)));
    }
    let count: f64 = text.parse().ok()?;
    (count >= 0.0 && count.fract() == 0.0).then(|| count.min(COUNT_MAX as f64) as u64)
}

fn condition(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix('[')?.strip_suffix(']')?.split_once('=')
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
                "openai",
                &[
                    r#"{"model":"m","usage":{"prompt_tokens":3.0,"completion_tokens":4e0,"total_tokens":7.00}}"#,
                ],
                3,
                4,
                7,
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
    fn parts_are_told_beside_what_they_are_part_of() {
        // (dialect, events, [prompt, completion, cached, cache write, reasoning, audio in, audio out])
        type Case<'a> = (&'a str, &'a [&'a str], [u64; 7]);
        let cases: &[Case] = &[
            (
                "openai",
                &[
                    r#"{"choices":[{"delta":{"content":"x"}}],"usage":null}"#,
                    r#"{"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":40,"prompt_tokens_details":{"cached_tokens":10,"audio_tokens":4},"completion_tokens_details":{"reasoning_tokens":20,"audio_tokens":5}}}"#,
                ],
                [30, 40, 10, 0, 20, 4, 5],
            ),
            (
                "openai",
                &[
                    r#"{"object":"response","usage":{"input_tokens":30,"output_tokens":40,"input_tokens_details":{"cached_tokens":10},"output_tokens_details":{"reasoning_tokens":20}}}"#,
                ],
                [30, 40, 10, 0, 20, 0, 0],
            ),
            (
                "openai",
                &[
                    r#"{"type":"response.completed","response":{"usage":{"input_tokens":3,"output_tokens":4,"input_tokens_details":{"cached_tokens":1},"output_tokens_details":{"reasoning_tokens":2}}}}"#,
                ],
                [3, 4, 1, 0, 2, 0, 0],
            ),
            (
                "anthropic",
                &[
                    r#"{"type":"message_start","message":{"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":7,"output_tokens":1}}}"#,
                    r#"{"type":"message_delta","usage":{"output_tokens":40}}"#,
                ],
                [22, 40, 7, 5, 0, 0, 0],
            ),
            (
                "gemini",
                &[
                    r#"{"usageMetadata":{"promptTokenCount":20,"cachedContentTokenCount":6,"candidatesTokenCount":3,"thoughtsTokenCount":4,"promptTokensDetails":[{"modality":"TEXT","tokenCount":12},{"modality":"AUDIO","tokenCount":8}],"candidatesTokensDetails":[{"modality":"AUDIO","tokenCount":2}]}}"#,
                ],
                [20, 7, 6, 0, 4, 8, 2],
            ),
        ];
        let dialects = Dialects::embedded().unwrap();
        for (dialect, events, expected) in cases {
            let mut told = Usage::default();
            for event in *events {
                told.merge_body(dialects.get(dialect).unwrap(), event.as_bytes(), &JsonLimits::STRICT);
            }
            let parts = [
                told.prompt_tokens,
                told.completion_tokens,
                told.cached_tokens,
                told.cache_write_tokens,
                told.reasoning_tokens,
                told.audio_prompt_tokens,
                told.audio_completion_tokens,
            ];
            assert_eq!(parts.map(Option::unwrap_or_default), *expected, "{events:?}");
        }
    }

    #[test]
    fn requests_tell_how_much_may_be_written() {
        let cases = [
            ("openai", r#"{"messages":[],"max_tokens":5,"n":2}"#, (Some(5), Some(2))),
            ("openai", r#"{"messages":[],"max_completion_tokens":6,"max_tokens":5}"#, (Some(6), None)),
            ("openai", r#"{"input":"x","max_output_tokens":7}"#, (Some(7), None)),
            ("anthropic", r#"{"messages":[],"max_tokens":8}"#, (Some(8), None)),
            (
                "gemini",
                r#"{"generationConfig":{"maxOutputTokens":9,"candidateCount":3}}"#,
                (Some(9), Some(3)),
            ),
            ("ollama", r#"{"options":{"num_predict":10}}"#, (Some(10), None)),
            ("generic", r#"{"max_tokens":11}"#, (Some(11), None)),
        ];
        let dialects = Dialects::embedded().unwrap();
        for (dialect, body, expected) in cases {
            let mut told = Usage::default();
            told.merge_body(dialects.get(dialect).unwrap(), body.as_bytes(), &JsonLimits::STRICT);
            assert_eq!((told.completion_tokens_max, told.answers), expected, "{body}");
        }
    }

    #[test]
    fn counting_tokens_uses_none() {
        assert_eq!(usage("anthropic", &[r#"{"input_tokens":14}"#]), (None, None, None, None));
        assert_eq!(usage("gemini", &[r#"{"totalTokens":31}"#]), (None, None, None, None));
    }

    #[test]
    fn what_nobody_can_have_used_is_the_most_that_is_believed() {
        for told in ["18446744073709551615", "99999999999999999999999999", "1000000001"] {
            let body = format!(
                r#"{{"usage":{{"prompt_tokens":{told},"completion_tokens":2,"total_tokens":{told}}}}}"#
            );
            let most = Some(COUNT_MAX);
            assert_eq!(usage("openai", &[&body]), (most, Some(2), most, None), "{told}");
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
