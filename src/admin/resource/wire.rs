//! What several resources write the same way.

use serde::Deserialize;
use serde::Deserializer;
use serde::Serialize;
use utoipa::ToSchema;

use crate::scan::threat::Confidence;

/// The body of every error.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "error": "name: expected 1 to 128 characters" }))]
pub struct Failure {
    /// What is wrong, in a sentence.
    pub error: String,
    /// All that is wrong, where it is more than one thing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults: Option<Vec<String>>,
}

/// Tells a field that is null from one that is absent: `Some(None)` from `None`.
///
/// # Errors
/// It is something else than a text.
pub fn given<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(input).map(Some)
}

/// Returns the name of a threshold.
pub fn threshold(confidence: Confidence) -> &'static str {
    match confidence {
        low if low < Confidence::MEDIUM => "low",
        medium if medium < Confidence::HIGH => "medium",
        _ => "high",
    }
}
