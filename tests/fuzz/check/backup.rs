//! The file of a backup, as anybody may have written it.

use std::fs;
use std::path::Path;

use portcullis::store::backup;
use portcullis::store::backup::STORE_FOLDER;
use portcullis::store::open_sled;
use serde_json::Value;
use serde_json::json;
use sha2::Digest;
use sha2::Sha256;

/// What is verified is restored or refused, in its own directory alone; what was restored can be backed up again.
pub fn file(bytes: &[u8]) {
    restored(bytes);
    restored(&sealed(bytes));
}

fn restored(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (path, state) = (folder.path().join("one.backup"), folder.path().join("state"));
    fs::write(&path, bytes).expect("the folder is writable");
    let restored = backup::restore(&path, &state, |_| Ok(true));
    let names = names(folder.path());
    match (backup::verify(&path), restored) {
        (Ok(contents), Ok(true)) => {
            assert_eq!(names, ["one.backup", "state"]);
            if let Some(records) = backed_up(&state, &folder.path().join("again.backup")) {
                assert!(records <= contents.records, "records were made up");
            }
        }
        (Ok(_), Ok(false)) => panic!("refused without a reason"),
        (Err(_), Ok(_)) => panic!("restored, and is no backup"),
        (verified, Err(fault)) => {
            assert!(!fault.to_string().is_empty());
            let left = ["one.backup", "state.partial"];
            assert_eq!(names, left[..1 + usize::from(verified.is_ok())], "{fault}");
        }
    }
}

/// Returns the lines before an end, with the end that belongs to them.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let mut text = lines.take_while(|line| !line.starts_with(b"{\"end\"")).collect::<Vec<_>>().concat();
    if !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    let read = text.split(|byte| *byte == b'\n').map(serde_json::from_slice::<Value>);
    let records = read.filter(|line| line.as_ref().is_ok_and(|line| line.get("record").is_some())).count();
    let sha256: String = Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
    let end = json!({ "end": { "records": records, "files": 0, "sha256": sha256 } });
    text.extend(end.to_string().bytes());
    text
}

/// Backs up what was restored, and returns how many records there are; none, where a file may not be read.
fn backed_up(state: &Path, path: &Path) -> Option<u64> {
    let store = open_sled(&state.join(STORE_FOLDER)).expect("what was restored can be opened");
    let file = fs::File::create(path).expect("the folder is writable");
    backup::write(&store, state, "0", "0", file).ok()?;
    Some(backup::verify(path).expect("what was written is a backup").records)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("it can be listed");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("it can be listed").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
