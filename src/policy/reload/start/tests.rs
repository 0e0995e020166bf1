//! Releases follow each other, and several run at once: what somebody made over the network stays.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use serde_json::Value;
use serde_json::json;

use super::*;
use crate::policy::reload::Run;
use crate::policy::reload::tests::World;
use crate::policy::reload::tests::by;
use crate::policy::reload::tests::set_secrets;
use crate::store::Batch;
use crate::store::Store;
use crate::store::open_sled;

const TABLE: &str = "policy.revisions";
/// Other defaults than those that are shipped, of settings and of a policy.
const OTHER_DEFAULTS: &str = "[limits]\nscan_ms = 3000\n[policies.strict]\nfail_mode = \"open\"\n";

fn mine() -> Value {
    json!({ "policies": { "mine": { "categories": { "secrets": { "mode": "block" } } } } })
}

fn has_mine(reloader: &Reloader) -> bool {
    reloader.handle().load().policy("mine").is_some()
}

fn scan_ms(reloader: &Reloader) -> u64 {
    reloader.handle().load().limits.scan_ms
}

fn number(reloader: &Reloader) -> u64 {
    reloader.current().revision.number
}

/// Returns a world whose revisions are those of one gateway alone, and the folder they lie in.
fn alone() -> (World, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = open_sled(folder.path()).unwrap();
    (World { store: Some(store), ..World::default() }, folder)
}

/// Makes the kept revisions those of a release that knew fewer limits, other defaults, and did not note what files said.
fn age(world: &World) {
    let store = world.store.clone().unwrap();
    for key in (1..=9u64).map(u64::to_be_bytes) {
        let Some(stored) = store.get(TABLE, &key).unwrap() else { continue };
        let mut stored: Value = serde_json::from_slice(&stored).unwrap();
        let record = stored["record"].as_object_mut().unwrap();
        assert!(record.remove("own_etag").is_some());
        let limits = record["rules"]["limits"].as_object_mut().unwrap();
        let younger: BTreeSet<String> =
            limits.keys().filter(|key| key.starts_with("document_")).cloned().collect();
        assert_eq!(younger.len(), 5);
        limits.retain(|key, _| !younger.contains(key));
        record["rules"].as_object_mut().unwrap().remove("a2a");
        let mut files = record["rules"].clone();
        files["policies"].as_object_mut().unwrap().remove("mine");
        record["file_etag"] = Document::from_json(files, None).unwrap().etag().into();
        let mut batch = Batch::default();
        batch.put(TABLE, key.to_vec(), serde_json::to_vec(&stored).unwrap());
        store.commit(&batch).unwrap();
    }
}

#[test]
fn what_was_made_over_the_network_outlives_an_upgrade_of_an_earlier_release() {
    let folder = tempfile::tempdir().unwrap();
    for store in [Store::in_memory(), open_sled(folder.path()).unwrap()] {
        let mut world = World { store: Some(store), ..World::default() };
        let (reloader, _) = world.start();
        reloader.patch(mine(), &by("ann"), None, Run::Real).unwrap();
        drop(reloader);
        age(&world);
        let (reloader, origin) = world.start();
        assert!(matches!(origin, Origin::StoredRevisionUnsure), "{origin:?}");
        assert_eq!((has_mine(&reloader), number(&reloader)), (true, 2));
        assert_eq!(reloader.handle().load().limits.documents.entries_max, 2000);
        assert!(reloader.reload_file().unwrap().is_none(), "the files are as they were");
        reloader.rollback(1, &by("ann"), None, Run::Real).unwrap();
        assert!(!has_mine(&reloader));
        reloader.rollback(2, &by("ann"), None, Run::Real).unwrap();
        assert!(has_mine(&reloader));
    }
}

#[test]
fn a_file_that_changes_after_an_upgrade_counts() {
    let (mut world, _folder) = alone();
    let (reloader, _) = world.start();
    reloader.patch(mine(), &by("ann"), None, Run::Real).unwrap();
    drop(reloader);
    age(&world);
    drop(world.start());
    let (reloader, origin) = world.start();
    assert!(matches!(origin, Origin::StoredRevision), "it was noted: {origin:?}");
    assert_eq!((has_mine(&reloader), number(&reloader)), (true, 2));
    drop(reloader);
    world.write("[limits]\nscan_ms = 7\n");
    let (reloader, origin) = world.start();
    assert!(matches!(origin, Origin::FilesChanged), "{origin:?}");
    assert_eq!((has_mine(&reloader), scan_ms(&reloader), number(&reloader)), (false, 7, 3));
}

#[test]
fn who_changed_nothing_over_the_network_gets_the_defaults_of_each_release() {
    let (mut world, _folder) = alone();
    drop(world.start());
    age(&world);
    let (reloader, origin) = world.start();
    assert!(matches!(origin, Origin::DefaultsChanged), "{origin:?}");
    assert_eq!(number(&reloader), 2);
    drop(reloader);
    world.release = Arc::new(Mutex::new(OTHER_DEFAULTS.to_owned()));
    let (reloader, origin) = world.start();
    assert!(matches!(origin, Origin::DefaultsChanged), "{origin:?}");
    assert_eq!((number(&reloader), scan_ms(&reloader)), (3, 3000));
    drop(reloader);
    let (reloader, origin) = world.start();
    assert!(matches!(origin, Origin::StoredRevision), "{origin:?}");
    assert_eq!(number(&reloader), 3);
}

#[test]
fn other_defaults_are_no_change_of_files() {
    let (mut world, _folder) = alone();
    let (reloader, _) = world.start();
    reloader.patch(mine(), &by("ann"), None, Run::Real).unwrap();
    // What the revision came by does not tell whose its rules are.
    world.packs.lock().push("extra");
    assert_eq!(reloader.reload_file().unwrap().unwrap().revision, 3);
    drop(reloader);
    world.release = Arc::new(Mutex::new(OTHER_DEFAULTS.to_owned()));
    let (reloader, origin) = world.start();
    assert!(matches!(origin, Origin::StoredRevision), "{origin:?}");
    assert_eq!((has_mine(&reloader), number(&reloader), scan_ms(&reloader)), (true, 3, 2000));
    assert!(reloader.reload_file().unwrap().is_none());
    // What somebody took away does not come back.
    reloader.patch(json!({ "policies": { "strict": null } }), &by("ann"), None, Run::Real).unwrap();
    drop(reloader);
    assert!(world.start().0.handle().load().policy("strict").is_none());
}

#[test]
fn nodes_of_two_releases_do_not_undo_each_others_rules() {
    let mut old = World::default();
    let (first, _) = old.start();
    let mut new = World { release: Arc::new(Mutex::new(OTHER_DEFAULTS.to_owned())), ..old.clone() };
    new.packs = Arc::new(Mutex::new(vec!["extra"]));
    let (second, origin) = new.start();
    assert!(matches!(origin, Origin::StoredRevision), "{origin:?}");
    first.patch(mine(), &by("ann"), None, Run::Real).unwrap();
    second.follow().unwrap();
    for mut world in [old.clone(), new.clone(), old.clone()] {
        let (reloader, origin) = world.start();
        assert!(matches!(origin, Origin::StoredRevision), "{origin:?}");
        assert_eq!((has_mine(&reloader), number(&reloader)), (true, 2));
    }
    // What the newer one alone can build is no reason for the other to put back what it has.
    let newer = json!({ "detectors": { "disabled": ["extra"] } });
    second.patch(newer, &by("bob"), None, Run::Real).unwrap();
    assert!(first.follow().is_err());
    drop(first);
    let (first, origin) = old.start();
    assert!(matches!(&origin, Origin::EarlierRevision(faults) if faults.len() == 1), "{origin:?}");
    assert_eq!((has_mine(&first), number(&first)), (true, 2));
    first.follow().unwrap();
    let overtaken = first.patch(set_secrets("off"), &by("ann"), None, Run::Real);
    assert!(matches!(overtaken, Err(ChangeError::Overtaken)), "{overtaken:?}");
    second.follow().unwrap();
    assert_eq!((has_mine(&second), number(&second)), (true, 3));
    second.patch(json!({ "detectors": { "disabled": [] } }), &by("bob"), None, Run::Real).unwrap();
    first.follow().unwrap();
    assert_eq!((has_mine(&first), number(&first)), (true, 4));
}

#[test]
fn the_sample_provider_is_no_part_of_the_rules() {
    let (mut world, _folder) = alone();
    let upstreams = |reloader: &Reloader| -> BTreeSet<String> {
        let rules = reloader.handle().load();
        rules.routes.iter().flat_map(|route| &route.upstreams).map(ToString::to_string).collect()
    };
    for (port, round) in [(7771, 1), (7772, 2), (7773, 3)] {
        *world.sample_provider.lock() = Some(([127, 0, 0, 1], port).into());
        let (reloader, _) = world.start();
        assert_eq!(upstreams(&reloader), BTreeSet::from([format!("http://127.0.0.1:{port}")]));
        assert_eq!(number(&reloader), round, "the start made a revision");
        reloader.patch(json!({ "limits": { "scan_ms": round } }), &by("ann"), None, Run::Real).unwrap();
        let kept = reloader.revisions().newest(1).unwrap().remove(0);
        assert!(!Value::Object(kept.rules).to_string().contains(":777"));
        assert!(!reloader.current().document.to_json().to_string().contains(":777"));
    }
    *world.sample_provider.lock() = None;
    let (reloader, _) = world.start();
    assert_eq!((number(&reloader), scan_ms(&reloader)), (4, 3));
    assert!(upstreams(&reloader).iter().any(|upstream| upstream.starts_with("https://api.openai.com")));
}
