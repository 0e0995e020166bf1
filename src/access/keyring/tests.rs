use std::path::PathBuf;

use super::*;

fn at(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("keys")
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

#[test]
fn names_are_read_back_until_their_key_is_destroyed() {
    let folder = tempfile::tempdir().unwrap();
    let keyring = Keyring::open(&at(&folder)).unwrap();
    let (alice, bob) = (keyring.seal("alice"), keyring.seal("bob"));
    assert_eq!((keyring.seal("alice"), keyring.known("alice")), (alice.clone(), Some(alice.clone())));
    let reason = keyring.wrap_text("alice", "what alice did");
    keyring.flush().unwrap();
    // It is all on the disk, and no name is.
    assert!(matches!(Keyring::open(&at(&folder)), Err(KeyringError::InUse)));
    drop(keyring);
    let reopened = Keyring::open(&at(&folder)).unwrap();
    assert_eq!(reopened.known("alice"), Some(alice.clone()));
    assert_eq!(
        (reopened.shown(&alice), reopened.unwrap_text(&reason)),
        ("alice".into(), "what alice did".into())
    );
    let before = std::fs::read(at(&folder)).unwrap();
    assert!(!contains(&before, b"alice"));
    let key = before[2 * 64 - 32..2 * 64].to_vec();
    assert!(key.iter().any(|byte| *byte != 0));

    assert!(reopened.destroy("alice").unwrap() && !reopened.destroy("alice").unwrap());
    assert!(!contains(&std::fs::read(at(&folder)).unwrap(), &key), "the key's bytes are still there");
    assert_eq!((reopened.shown(&alice), reopened.unwrap_text(&reason)), (ERASED.into(), ERASED.into()));
    assert_eq!((reopened.known("alice"), reopened.shown(&bob)), (None, "bob".into()));
    // Who takes the slot does not take the name; who comes back is somebody else.
    let carol = reopened.seal("carol");
    let again = reopened.seal("alice");
    assert!(again != alice && reopened.shown(&alice) == ERASED);
    reopened.flush().unwrap();
    drop(reopened);
    let last = Keyring::open(&at(&folder)).unwrap();
    let shown = [&alice, &again, &bob, &carol].map(|token| last.shown(token));
    assert_eq!(shown, [ERASED, "alice", "bob", "carol"]);
    assert_eq!(last.len(), 3);
}

#[test]
fn texts_that_are_no_tokens_name_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let keyring = Keyring::open(&at(&folder)).unwrap();
    let token = keyring.seal("alice");
    for odd in ["", "a", "alice", "~~", &token[1..], &format!("{token}A"), &"A".repeat(4000)] {
        assert_eq!(keyring.name_of(odd), None, "{odd}");
        assert_eq!(keyring.unwrap_text(odd), ERASED);
    }
    assert_eq!(keyring.shown(UNLISTED_TOKEN), UNLISTED);
    // A sealed name is no sealed text.
    assert_eq!(keyring.unwrap_text(&token), ERASED);
}

#[test]
fn a_file_cut_or_damaged_anywhere_loses_only_what_was_hit() {
    let folder = tempfile::tempdir().unwrap();
    let keyring = Keyring::open(&at(&folder)).unwrap();
    let tokens: Vec<_> = ["a", "b", "c"].map(|name| keyring.seal(name)).to_vec();
    keyring.flush().unwrap();
    let whole = std::fs::read(at(&folder)).unwrap();
    drop(keyring);
    for cut in 64..whole.len() {
        std::fs::write(at(&folder), &whole[..cut]).unwrap();
        let opened = Keyring::open(&at(&folder)).unwrap();
        let readable = tokens.iter().filter(|token| opened.name_of(token).is_some()).count();
        assert_eq!(readable, cut / 64 - 1, "cut at {cut}");
        // It goes on.
        opened.seal("d");
        opened.flush().unwrap();
    }
    for damaged in 64..whole.len() {
        let mut bytes = whole.clone();
        bytes[damaged] ^= 1;
        std::fs::write(at(&folder), &bytes).unwrap();
        let opened = Keyring::open(&at(&folder)).unwrap();
        let readable: Vec<bool> = tokens.iter().map(|token| opened.name_of(token).is_some()).collect();
        let hit = damaged / 64 - 1;
        assert!((0..3).all(|slot| readable[slot] == (slot != hit)), "byte {damaged}: {readable:?}");
        let after = std::fs::read(at(&folder)).unwrap();
        assert!(after[64 * (hit + 1)..64 * (hit + 2)].iter().all(|byte| *byte == 0));
    }
    for damaged in 0..48 {
        let mut bytes = whole.clone();
        bytes[damaged] ^= 1;
        std::fs::write(at(&folder), &bytes).unwrap();
        assert!(matches!(Keyring::open(&at(&folder)), Err(KeyringError::Damaged)), "byte {damaged}");
    }
}

#[test]
fn sealing_and_destroying_at_once_leaves_no_key_behind() {
    let folder = tempfile::tempdir().unwrap();
    let keyring = Keyring::open(&at(&folder)).unwrap();
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let keyring = &keyring;
            scope.spawn(move || {
                for round in 0..50 {
                    let name = format!("name-{}", (worker + round) % 5);
                    keyring.seal(&name);
                    keyring.flush().unwrap();
                    keyring.destroy(&name).unwrap();
                }
            });
        }
    });
    for number in 0..5 {
        keyring.destroy(&format!("name-{number}")).unwrap();
    }
    keyring.flush().unwrap();
    assert!(keyring.is_empty());
    assert!(std::fs::read(at(&folder)).unwrap()[64..].iter().all(|byte| *byte == 0));
}

#[test]
fn whoever_comes_back_from_a_flush_finds_the_key_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let keyring = Keyring::open(&at(&folder)).unwrap();
    for round in 0..5 {
        // So many that one who writes them is still at it when another asks.
        (0..5000).for_each(|number| drop(keyring.seal(&format!("name-{round}-{number}"))));
        let last = format!("last-{round}");
        keyring.seal(&last);
        let start = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    keyring.flush().unwrap();
                    let written = std::fs::read(at(&folder)).unwrap();
                    let index = keyring.index_of(&last);
                    assert!(
                        written.chunks(64).any(|slot| contains(slot, &index)),
                        "{last} is not in the file"
                    );
                });
            }
        });
    }
}

#[test]
fn a_node_that_reads_all_keys_anew_forgets_whose_are_gone() {
    let store = crate::store::Store::in_memory();
    let secret = crate::access::secret::NodeSecret::random();
    let [one, other] = [(); 2].map(|()| Keyring::shared(&store, secret.clone()).unwrap());
    let (alice, bob) = (one.seal("alice"), one.seal("bob"));
    other.follow().unwrap();
    assert_eq!((other.known("alice"), other.known("bob")), (Some(alice.clone()), Some(bob.clone())));
    assert_eq!(other.seal("alice"), alice);
    one.destroy("alice").unwrap();
    // More deletions than a backend remembers, so that the other node is not told of each.
    for number in 0..5000_u64 {
        let mut batch = crate::store::Batch::default();
        batch.put("subject_keys", (1000 + number).to_be_bytes().to_vec(), b"{}".to_vec());
        store.commit(&batch).unwrap();
        let mut batch = crate::store::Batch::default();
        batch.delete("subject_keys", (1000 + number).to_be_bytes().to_vec());
        store.commit(&batch).unwrap();
    }
    other.follow().unwrap();
    assert_eq!((other.known("alice"), other.shown(&alice)), (None, ERASED.into()));
    assert_eq!((other.known("bob"), other.shown(&bob)), (Some(bob.clone()), "bob".into()));
    assert_ne!(other.seal("alice"), alice, "who comes back is somebody else");
}

#[test]
fn many_new_names_get_their_keys_by_one_transaction() {
    let store = crate::store::Store::in_memory();
    let keyring = Keyring::shared(&store, crate::access::secret::NodeSecret::random()).unwrap();
    let version = || store.versions().unwrap().get("subject_keys").copied().unwrap_or_default();
    let names: Vec<String> = (0..500).map(|number| format!("name-{number}")).collect();
    let all = || names.iter().map(|name| (name.as_str(), Standing::Recorded));
    assert!(all().all(|(name, standing)| keyring.at_hand(name, standing).is_none()));
    assert_eq!(version(), 0, "nothing was asked of the store");
    // Whoever is named twice has one key.
    keyring.make_keys(all().chain(all())).unwrap();
    keyring.make_keys(all()).unwrap();
    assert_eq!((version(), keyring.len()), (1, 500));
    for (name, standing) in all() {
        let token = keyring.at_hand(name, standing).expect("it has a key");
        assert_eq!((keyring.shown(&token), token.len()), (name.to_owned(), stand_in(name).len()));
    }
    // There are no more places than one after the other would have got.
    keyring.fill_at(Standing::Stranger, 80);
    let strangers: Vec<String> = (0..1000).map(|number| format!("caller_{number:024x}")).collect();
    keyring.make_keys(strangers.iter().map(|name| (name.as_str(), Standing::Stranger))).unwrap();
    let tokens = strangers.iter().filter_map(|name| keyring.at_hand(name, Standing::Stranger));
    assert_eq!(tokens.filter(|token| token.as_ref() != UNLISTED_TOKEN).count(), 10);
    assert_eq!((version(), keyring.len()), (2, 510));
}
