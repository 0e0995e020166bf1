//! Hours and days as they lie in the store.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::Serialize;

use super::figures::Figures;
use super::figures::Ranked;
use super::figures::Roll;
use crate::store::Record;

/// The figures of an hour or of a day; lists are in the order of [`super::figures::Count`].
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RollRecord {
    total: Vec<u64>,
    callers: RankedRecord,
    models: RankedRecord,
    routes: RankedRecord,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct RankedRecord {
    named: BTreeMap<String, Vec<u64>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    other: Vec<u64>,
    #[serde(default, skip_serializing_if = "is_zero")]
    folded: u64,
}

impl Record for RollRecord {
    const VERSION: u32 = 1;
}

impl From<&Roll> for RollRecord {
    fn from(roll: &Roll) -> Self {
        Self {
            total: roll.total.to_list(),
            callers: RankedRecord::from(&roll.callers),
            models: RankedRecord::from(&roll.models),
            routes: RankedRecord::from(&roll.routes),
        }
    }
}

impl From<RollRecord> for Roll {
    fn from(record: RollRecord) -> Self {
        Self {
            total: Figures::of_list(&record.total),
            callers: record.callers.into(),
            models: record.models.into(),
            routes: record.routes.into(),
        }
    }
}

impl From<&Ranked> for RankedRecord {
    fn from(ranked: &Ranked) -> Self {
        let named = ranked.named.iter().map(|(name, figures)| (name.clone(), figures.to_list()));
        Self { named: named.collect(), other: ranked.other.to_list(), folded: ranked.folded }
    }
}

impl From<RankedRecord> for Ranked {
    fn from(record: RankedRecord) -> Self {
        let named = record.named.into_iter().map(|(name, list)| (name, Figures::of_list(&list)));
        Self { named: named.collect(), other: Figures::of_list(&record.other), folded: record.folded }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::govern::analytics::figures::Count;

    /// As the first version wrote it, for ever readable.
    const FIRST: &str = r#"{"total":[2,1,0,10,5,15],"callers":{"named":{"caller_1":[2,1,0,10,5,15]}},
        "models":{"named":{"m":[1]},"other":[1,1],"folded":1},"routes":{"named":{"openai":[2]}}}"#;

    #[test]
    fn what_was_stored_is_read() {
        let roll: Roll = serde_json::from_str::<RollRecord>(FIRST).unwrap().into();
        assert_eq!((roll.total[Count::Requests], roll.total[Count::Total]), (2, 15));
        assert_eq!((roll.models.other[Count::Errors], roll.models.folded), (1, 1));
        let again = serde_json::to_string(&RollRecord::from(&roll)).unwrap();
        assert_eq!(Roll::from(serde_json::from_str::<RollRecord>(&again).unwrap()), roll);
    }
}
