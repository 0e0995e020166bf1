//! How those who change the rules are named in the history of the rules.
//!
//! What it does not promise: that a store on disk overwrites at once what an earlier release wrote in plain text; it
//! does when it uses the place again.

use std::sync::Arc;

use crate::access::keyring::Keyring;
use crate::access::keyring::sealed::unsealed;
use crate::policy::revision::Authors;

/// Returns authors as they stand in the audit log: by tokens that say nothing once somebody was erased. One for whom
/// there is no key is unlisted in both: rules can be changed all the same. What an earlier release wrote in plain text
/// stays so where there is none.
pub fn authors(keyring: &Arc<Keyring>) -> Authors {
    let (sealing, opening) = (Arc::clone(keyring), Arc::clone(keyring));
    Authors {
        seal: Box::new(move |name| {
            let token = sealing.keep(name);
            sealing.flush().map_err(unsealed)?;
            Ok(token.as_ref().to_owned())
        }),
        open: Box::new(move |token| opening.shown(token)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Map;

    use super::*;
    use crate::access::keyring::ERASED;
    use crate::policy::revision::Revision;
    use crate::policy::revision::RevisionSource;
    use crate::policy::revision::Revisions;
    use crate::store::Batch;
    use crate::store::Store;
    use crate::store::open_sled;

    const SUBJECT: &str = "oidc:alice.lidell@example.org";

    fn revision(number: u64) -> Revision {
        Revision {
            number,
            author: SUBJECT.to_owned(),
            source: RevisionSource::Api,
            created_at: jiff::Timestamp::UNIX_EPOCH,
            etag: String::new(),
            file_etag: String::new(),
            own_etag: None,
            rules: Map::new(),
        }
    }

    fn history(folder: &Path, before: impl FnOnce(&Store)) -> (Arc<Keyring>, Revisions) {
        let store = open_sled(&folder.join("store")).unwrap();
        before(&store);
        let keyring = Arc::new(Keyring::open(&folder.join("keys")).unwrap());
        let revisions = Revisions::open(&store, authors(&keyring)).unwrap();
        (keyring, revisions)
    }

    /// Tells whether any file below a folder holds a text.
    fn holds(folder: &Path, text: &str) -> bool {
        std::fs::read_dir(folder).unwrap().any(|entry| {
            let path = entry.unwrap().path();
            if path.is_dir() {
                return holds(&path, text);
            }
            std::fs::read(path).unwrap().windows(text.len()).any(|window| window == text.as_bytes())
        })
    }

    fn shown(revisions: &Revisions) -> Vec<String> {
        revisions.newest(9).unwrap().into_iter().map(|revision| revision.author).collect()
    }

    #[test]
    fn who_changed_the_rules_is_in_no_file_and_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        {
            let (_, revisions) = history(folder.path(), |_| {});
            revisions.keep(&revision(1)).unwrap();
        }
        assert!(!holds(folder.path(), "alice"));
        {
            let (keyring, revisions) = history(folder.path(), |_| {});
            assert_eq!(shown(&revisions), [SUBJECT]);
            assert!(keyring.destroy(SUBJECT).unwrap());
            assert_eq!(shown(&revisions), [ERASED]);
        }
        assert_eq!(shown(&history(folder.path(), |_| {}).1), [ERASED]);
    }

    #[test]
    fn who_changed_the_rules_in_an_earlier_release_is_sealed_and_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let old = format!(
            r#"{{"v":1,"record":{{"author":"{SUBJECT}","source":"api","created_at":"2026-01-02T03:04:05Z","etag":"","file_etag":"","rules":{{}}}}}}"#
        );
        let mut kept = None;
        let (keyring, revisions) = history(folder.path(), |store| {
            let mut batch = Batch::default();
            batch.put("policy.revisions", 1u64.to_be_bytes().to_vec(), old.into_bytes());
            store.commit(&batch).unwrap();
            kept = Some(store.clone());
        });
        assert_eq!(shown(&revisions), [SUBJECT]);
        let stored = kept.unwrap().get("policy.revisions", &1u64.to_be_bytes()).unwrap().unwrap();
        assert!(!String::from_utf8(stored).unwrap().contains("alice"));
        assert!(keyring.destroy(SUBJECT).unwrap());
        assert_eq!(shown(&revisions), [ERASED]);
    }
}
