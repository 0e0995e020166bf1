//! One spelling for whoever may be called in several.
//!
//! Names that Unicode calls canonically equivalent (`é` as one character, or as a letter and an accent) are one name: it
//! is kept as one character, and found as either. Beyond that a name is its letters, upper and lower case apart, unless it
//! is a local user's ([`UserName`]). A hold alone asks less: it holds whoever is called so in any case, for an erasure
//! cannot be taken back.

use std::collections::BTreeSet;

use unicode_normalization::UnicodeNormalization;

use super::desk::HOLDS_MAX;
use super::desk::Privacy;
use super::hold::HoldId;
use super::hold::HoldRecord;
use crate::access::name::UserName;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::StoreError;

impl Privacy {
    /// Returns an entity's name as it is to stand in records: in its one spelling, where there is one, so that none is left
    /// behind in another when it is erased.
    pub fn spelling(&self, entity: &str) -> String {
        let spelt = self.providers.iter().find_map(|provider| provider.spelling(entity));
        spelt.unwrap_or_else(|| entity.nfc().collect())
    }

    /// Returns the name by which records about an entity are found: as it is asked for where somebody is known so, else in
    /// its one spelling.
    pub fn asked(&self, entity: &str) -> String {
        match self.keyring.known(entity) {
            Some(_) => entity.to_owned(),
            None => self.spelling(entity),
        }
    }

    /// Returns what holds call somebody of these names in other spellings: an earlier release kept them as they were typed.
    pub(super) fn spellings(&self, names: &[String]) -> Result<BTreeSet<String>, StoreError> {
        let mut found = BTreeSet::new();
        let records = self.holds.table().list(&KeyRange::all(), Order::Ascending, HOLDS_MAX)?;
        let named =
            |(number, record): (u64, HoldRecord)| record.open(HoldId(number), &self.keyring).told.entity_id;
        for name in records.into_iter().map(named) {
            let folded = || UserName::parse(&name).is_ok_and(|it| names.iter().any(|own| own == it.as_str()));
            if !names.contains(&name) && folded() && names.contains(&self.spelling(&name)) {
                found.insert(name);
            }
        }
        Ok(found)
    }
}

/// Returns the other forms of a name that mean the same: whole characters, and letters apart from their accents.
pub(super) fn equivalents(name: &str) -> impl Iterator<Item = String> + use<'_> {
    let forms = [name.nfc().collect::<String>(), name.nfd().collect()];
    let is_other = !name.is_ascii();
    forms.into_iter().filter(move |form| is_other && form != name)
}

/// Returns a name without what tells its spellings apart: what a hold holds.
pub(super) fn folded(name: &str) -> String {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    let once: String = name.nfkc().flat_map(char::to_lowercase).collect();
    once.nfkc().flat_map(char::to_lowercase).nfkc().collect()
}

#[cfg(test)]
mod tests {
    use crate::govern::privacy::EraseError;
    use crate::govern::privacy::HoldError;
    use crate::govern::privacy::NewHold;
    use crate::govern::privacy::tests::Slow;
    use crate::govern::privacy::tests::hold_on;
    use crate::govern::privacy::tests::opened;
    use crate::store::Store;

    const WHOLE: &str = "Ren\u{e9}e";
    const APART: &str = "Rene\u{301}e";

    #[test]
    fn a_hold_holds_in_every_spelling() {
        for (held, erased) in
            [(WHOLE, APART), (APART, WHOLE), (WHOLE, "REN\u{c9}E"), ("ADA@x.example", "ada@x.example")]
        {
            let (folder, store) = (tempfile::tempdir().unwrap(), Store::in_memory());
            let (privacy, _) = opened(folder.path(), &store, Box::new(Slow));
            let hold = privacy.hold(hold_on(held), privacy.arrival()).unwrap();
            assert!(privacy.is_held(erased), "{held} {erased}");
            assert!(matches!(privacy.erase(erased), Err(EraseError::Held)), "{held} {erased}");
            privacy.release(hold.id, None).unwrap();
            assert!(!privacy.is_held(erased) && privacy.erase(erased).is_ok(), "{held} {erased}");
        }
    }

    #[test]
    fn an_erasure_reaches_both_forms_of_an_accent() {
        let (folder, store) = (tempfile::tempdir().unwrap(), Store::in_memory());
        let (privacy, keyring) = opened(folder.path(), &store, Box::new(Slow));
        assert_eq!(privacy.spelling(APART), WHOLE);
        let tokens = [WHOLE, APART].map(|name| keyring.seal(name));
        assert_eq!((privacy.asked(APART).as_str(), privacy.asked("e\u{301}").as_str()), (APART, "\u{e9}"));
        privacy.erase(APART).unwrap();
        assert_eq!(tokens.map(|token| keyring.name_of(&token)), [None, None]);
    }

    #[test]
    fn what_cannot_be_seen_is_no_part_of_a_hold() {
        let (folder, store) = (tempfile::tempdir().unwrap(), Store::in_memory());
        let (privacy, _) = opened(folder.path(), &store, Box::new(Slow));
        for odd in ["a\0b", "a\nb", "ada\u{200b}", "\u{202e}ada"] {
            for told in [
                hold_on(odd),
                NewHold { entity_type: odd.to_owned(), ..hold_on("ada") },
                NewHold { issued_by: odd.to_owned(), ..hold_on("ada") },
            ] {
                let refused = privacy.hold(told, privacy.arrival());
                assert!(matches!(refused, Err(HoldError::Field(_))), "{odd:?}");
            }
        }
        let reason = |text: &str| NewHold { reason: text.to_owned(), ..hold_on("ada") };
        assert!(privacy.hold(reason("case 12\n\tof two lines"), privacy.arrival()).is_ok());
        assert!(privacy.hold(reason("\u{1b}[31m"), privacy.arrival()).is_err());
    }
}
