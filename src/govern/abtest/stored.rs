//! Tests and counts as they lie in the store.

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;

use super::AbTest;
use super::GuardRail;
use super::Status;
use super::Variant;
use super::tally::Tally;
use crate::store::Record;

/// A test as it is stored.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredTest {
    name: String,
    description: String,
    variants: Vec<StoredVariant>,
    block_rate_max: f64,
    requests_min: u64,
    status: StoredStatus,
    archived: bool,
    created_at: Timestamp,
    updated_at: Timestamp,
    started_at: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
struct StoredVariant {
    name: String,
    weight: u32,
    /// The weight as it was written, where that is another number; an earlier release does without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    written_weight: Option<f64>,
    model_ref: String,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StoredStatus {
    Created,
    Started,
    Stopped,
}

impl Record for StoredTest {
    const VERSION: u32 = 1;
}

impl Record for Tally {
    const VERSION: u32 = 1;
}

impl StoredTest {
    pub(super) fn of(test: &AbTest) -> Self {
        let variant = |variant: &Variant| StoredVariant {
            name: variant.name.clone(),
            weight: variant.weight,
            written_weight: Some(variant.written_weight)
                .filter(|written| *written != f64::from(variant.weight)),
            model_ref: variant.model_ref.to_string(),
        };
        Self {
            name: test.name.clone(),
            description: test.description.clone(),
            variants: test.variants.iter().map(variant).collect(),
            block_rate_max: test.guard_rail.block_rate_max,
            requests_min: test.guard_rail.requests_min,
            status: match test.status {
                Status::Created => StoredStatus::Created,
                Status::Started => StoredStatus::Started,
                Status::Stopped => StoredStatus::Stopped,
            },
            archived: test.is_archived,
            created_at: test.created_at,
            updated_at: test.updated_at,
            started_at: test.started_at,
        }
    }

    /// Returns the test; `None` where a model reference is none that this program reads.
    pub(super) fn read(self, id: String) -> Option<AbTest> {
        let variant = |stored: StoredVariant| {
            let model_ref = stored.model_ref.parse().ok()?;
            let written_weight = stored.written_weight.unwrap_or(f64::from(stored.weight));
            Some(Variant { name: stored.name, weight: stored.weight, written_weight, model_ref })
        };
        Some(AbTest {
            id,
            name: self.name,
            description: self.description,
            variants: self.variants.into_iter().map(variant).collect::<Option<_>>()?,
            guard_rail: GuardRail { block_rate_max: self.block_rate_max, requests_min: self.requests_min },
            status: match self.status {
                StoredStatus::Created => Status::Created,
                StoredStatus::Started => Status::Started,
                StoredStatus::Stopped => Status::Stopped,
            },
            is_archived: self.archived,
            created_at: self.created_at,
            updated_at: self.updated_at,
            started_at: self.started_at,
        })
    }
}
