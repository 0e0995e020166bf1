//! The metrics of the conventions for generative AI: how long models take, and how many tokens they use.

use opentelemetry::KeyValue;
use opentelemetry::metrics::Histogram;
use opentelemetry::metrics::Meter;

use super::facts::Facts;

/// The boundaries that the conventions ask for, in seconds.
const SECONDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/// And in tokens.
const TOKENS: [f64; 14] = [
    1.,
    4.,
    16.,
    64.,
    256.,
    1_024.,
    4_096.,
    16_384.,
    65_536.,
    262_144.,
    1_048_576.,
    4_194_304.,
    16_777_216.,
    67_108_864.,
];
/// What models are called that the configuration does not list: a caller cannot make series.
const OTHER: &str = "other";

/// Counts what models are asked.
#[derive(Debug)]
pub(super) struct GenAi {
    duration: Histogram<f64>,
    tokens: Histogram<u64>,
    models: Vec<String>,
}

impl GenAi {
    /// Names its instruments; `models` are told by their names, the others as one.
    pub(super) fn new(meter: &Meter, models: Vec<String>) -> Self {
        let duration = meter.f64_histogram("gen_ai.client.operation.duration").with_unit("s");
        let tokens = meter.u64_histogram("gen_ai.client.token.usage").with_unit("{token}");
        Self {
            duration: duration.with_boundaries(SECONDS.to_vec()).build(),
            tokens: tokens.with_boundaries(TOKENS.to_vec()).build(),
            models,
        }
    }

    /// Counts an exchange that a provider was asked for.
    pub(super) fn count(&self, facts: &Facts<'_>) {
        let Some(after) = facts.asked_after else { return };
        let Some(operation) = facts.operation else { return };
        let mut about = vec![
            KeyValue::new("gen_ai.provider.name", facts.provider.to_owned()),
            KeyValue::new("gen_ai.operation.name", operation.to_owned()),
        ];
        let model = facts.request_model.map(|model| match self.models.iter().any(|known| known == model) {
            true => model.to_owned(),
            false => OTHER.to_owned(),
        });
        about.extend(model.map(|model| KeyValue::new("gen_ai.request.model", model)));
        for (kind, count) in [("input", facts.input_tokens), ("output", facts.output_tokens)] {
            let Some(count) = count else { continue };
            let mut about = about.clone();
            about.push(KeyValue::new("gen_ai.token.type", kind));
            self.tokens.record(count, &about);
        }
        about.extend(facts.error().map(|error| KeyValue::new("error.type", error)));
        self.duration.record(facts.took.saturating_sub(after).as_secs_f64(), &about);
    }
}
