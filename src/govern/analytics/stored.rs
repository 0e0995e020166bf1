//! Hours and days as they lie in the store: callers by their tokens, so that whoever is forgotten is forgotten here, too.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::Serialize;

use super::figures::Figures;
use super::figures::Ranked;
use super::figures::Roll;
use super::figures::UNKNOWN;
use crate::access::keyring::Keyring;
use crate::access::keyring::Standing;
use crate::store::Record;

/// The figures of an hour or of a day; lists are in the order of [`super::figures::Count`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RollRecord {
    total: Vec<u64>,
    callers: RankedRecord,
    models: RankedRecord,
    routes: RankedRecord,
    #[serde(default, skip_serializing_if = "RankedRecord::is_empty")]
    findings: RankedRecord,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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

impl RollRecord {
    /// Returns the stored form; the keys of its tokens have to be on the disk before it.
    pub(super) fn of(roll: &Roll, keyring: &Keyring) -> Self {
        let (mut named, mut unlisted) = (BTreeMap::new(), Vec::new());
        let names = roll.callers.named.keys().filter(|name| *name != UNKNOWN);
        // All of them together: one after the other would take a transaction each. What fails is told there.
        let _ = keyring.make_keys(names.map(|name| (name.as_str(), Standing::of(name))));
        for (name, figures) in &roll.callers.named {
            let token = match name.as_str() {
                UNKNOWN => Some(name.clone()),
                _ => keyring.listed_at_hand(name, Standing::of(name)),
            };
            match token {
                Some(token) => drop(named.insert(token, figures.to_list())),
                // Who has none belongs to the others.
                None => unlisted.push(figures),
            }
        }
        let mut others = Ranked { named: BTreeMap::new(), ..roll.callers.clone() };
        unlisted.into_iter().for_each(|figures| others.fold(figures));
        let callers = RankedRecord { named, ..RankedRecord::from(&others) };
        Self {
            total: roll.total.to_list(),
            callers,
            models: RankedRecord::from(&roll.models),
            routes: RankedRecord::from(&roll.routes),
            findings: RankedRecord::from(&roll.findings),
        }
    }
}

impl RollRecord {
    /// Returns the figures; those of callers who were forgotten belong to the others.
    pub(super) fn opened(self, keyring: &Keyring) -> Roll {
        let sealed: Ranked = self.callers.into();
        let mut callers = Ranked { named: BTreeMap::new(), ..sealed };
        for (token, figures) in sealed.named {
            let name = if token == UNKNOWN { Some(token) } else { keyring.name_of(&token) };
            match name {
                Some(name) => callers.add(&name, &figures),
                None => callers.fold(&figures),
            }
        }
        Roll {
            total: Figures::of_list(&self.total),
            callers,
            models: self.models.into(),
            routes: self.routes.into(),
            findings: self.findings.into(),
        }
    }
}

impl RankedRecord {
    fn is_empty(&self) -> bool {
        *self == Self::default()
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

    /// As the first version wrote it, for ever readable; its caller has no key any more.
    const FIRST: &str = r#"{"total":[2,1,0,10,5,15],"callers":{"named":{"AAAAAGdvbmU":[2,1,0,10,5,15],"unknown":[1]}},
        "models":{"named":{"m":[1]},"other":[1,1],"folded":1},"routes":{"named":{"openai":[2]}}}"#;

    /// As it is written since what was found is counted, too.
    const WITH_FINDINGS: &str = r#"{"total":[2],"callers":{"named":{}},"models":{"named":{}},"routes":{"named":{}},
        "findings":{"named":{"pii/iban":[2,0,1]}}}"#;

    #[test]
    fn callers_without_a_token_are_among_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let keyring = Keyring::open(&folder.path().join("keys")).unwrap();
        keyring.fill_at(Standing::Stranger, 0);
        let mut roll = Roll::default();
        let names = [1, 2].map(|digit| format!("caller_{digit:024}"));
        for name in names.iter().map(String::as_str).chain(["key_1"]) {
            roll.callers.add(name, &Figures::of_list(&[1]));
        }
        let opened = RollRecord::of(&roll, &keyring).opened(&keyring);
        assert_eq!(opened.callers.named.keys().collect::<Vec<_>>(), ["key_1"]);
        assert_eq!((opened.callers.other[Count::Requests], opened.callers.folded), (2, 2));
    }

    #[test]
    fn what_was_found_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let keyring = Keyring::open(&folder.path().join("keys")).unwrap();
        let roll = serde_json::from_str::<RollRecord>(WITH_FINDINGS).unwrap().opened(&keyring);
        assert_eq!(roll.findings.named["pii/iban"][Count::Blocked], 1);
        let again = serde_json::to_string(&RollRecord::of(&roll, &keyring)).unwrap();
        assert_eq!(serde_json::from_str::<RollRecord>(&again).unwrap().opened(&keyring), roll);
    }

    #[test]
    fn what_was_stored_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let keyring = Keyring::open(&folder.path().join("keys")).unwrap();
        let roll = serde_json::from_str::<RollRecord>(FIRST).unwrap().opened(&keyring);
        assert_eq!((roll.total[Count::Requests], roll.total[Count::Total]), (2, 15));
        assert_eq!((roll.models.other[Count::Errors], roll.models.folded), (1, 1));
        assert_eq!((roll.callers.other[Count::Total], roll.callers.folded), (15, 1));
        assert_eq!(roll.callers.named.keys().collect::<Vec<_>>(), [UNKNOWN]);
        let again = serde_json::to_string(&RollRecord::of(&roll, &keyring)).unwrap();
        assert_eq!(serde_json::from_str::<RollRecord>(&again).unwrap().opened(&keyring), roll);
    }
}
