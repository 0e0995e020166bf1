//! A state directory in one file, taken from a gateway under traffic, and put back.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;

use jiff::Timestamp;
use jiff::ToSpan;
use portcullis::access::a2a::replay::Replays;
use portcullis::store::backup::STORE_FOLDER;
use portcullis::store::open_sled;
use serde_json::Value;

use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::gateway::program;
use crate::upstream::Upstream;
use crate::wire::exchange;
use crate::wire::post;

const BODY: &str = "{\"input\":\"hello\"}";
const EXCHANGES: u64 = 20;

fn run(directory: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = program().args(arguments).current_dir(directory).output().expect("the program was built");
    let told = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(told).expect("it writes text"))
}

fn ask(gateway: &Gateway, key: &str, path: &str) -> Value {
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\nconnection: close\r\n\r\n");
    exchange(gateway.admin, request.as_bytes()).json()
}

#[test]
fn a_backup_under_traffic_is_whole_and_comes_back() {
    let upstream = Upstream::answering("application/json", "{}");
    let config = format!(
        "[[routes]]\nname = \"all\"\npath_prefix = \"/\"\nupstream = \"http://{}\"\n{UNLIMITED}",
        upstream.address
    );
    let gateway = Gateway::start(&config);
    let (key, directory) = (gateway.admin_key(), gateway.directory());
    for _ in 0..EXCHANGES {
        assert_eq!(exchange(gateway.proxy, &post("/v1/embeddings", "", BODY)).status, 200);
    }
    // What the restored one must know: a key that was made here.
    let made = "{\"name\":\"ci\",\"role\":\"service\"}";
    let made = format!(
        "POST /api/v1/keys HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{made}",
        made.len()
    );
    let made = exchange(gateway.admin, made.as_bytes());
    assert_eq!(made.status, 201, "{}", made.text());

    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(exchange(gateway.proxy, &post("/v1/embeddings", "", BODY)).status, 200);
            }
        });
        let (code, told) = run(directory, &["backup", "-c", "gateway.toml", "one.backup"]);
        stop.store(true, Ordering::Relaxed);
        assert_eq!(code, Some(0), "{told}");
        assert!(told.starts_with("one.backup: sound, "), "{told}");
    });
    nothing_of_others_is_written_to(directory);
    let backup = directory.join("one.backup");
    assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(
        run(directory, &["backup", "-c", "gateway.toml", "one.backup"]).0,
        Some(1),
        "nothing is overwritten"
    );
    assert_eq!(run(directory, &["restore", "one.backup", "--into", "state"]).0, Some(1), "nor here");

    let other = tempfile::tempdir().unwrap();
    let into = other.path().join("state").display().to_string();
    // What an attempt that was cut off has left must not become part of this one.
    let left = other.path().join("state.partial");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("admin.key"), "theirs").unwrap();
    let (code, told) = run(directory, &["restore", "one.backup", "--into", &into]);
    assert!(code == Some(1) && told.contains("state.partial is not empty"), "{told}");
    fs::remove_dir_all(&left).unwrap();
    let (code, told) = run(directory, &["restore", "one.backup", "--into", &into]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("the audit log is sound: "), "{told}");
    fs::write(other.path().join("gateway.toml"), &config).unwrap();
    let file = other.path().join("gateway.toml").display().to_string();
    let mut restored = Gateway::launched(other, vec!["--config".to_owned(), file]);
    let names = ask(&restored, &key, "/api/v1/keys").to_string();
    assert!(names.contains("\"ci\""), "{names}");
    let audit = ask(&restored, &key, "/api/v1/audit?event_type=exchange");
    assert!(audit["total"].as_u64() >= Some(EXCHANGES), "{}", audit["total"]);

    // The same of a gateway that is stopped.
    restored.signal("INT");
    assert_eq!(restored.wait_for_end(), Some(0));
    let (code, told) = run(restored.directory(), &["backup", "-c", "gateway.toml", "two.backup"]);
    assert_eq!(code, Some(0), "{told}");
    it_is_restored_wherever_there_is_room(restored.directory());
    what_was_signed_since_is_not_known(restored.directory());
    damaged_backups_are_refused(directory, &fs::read(&backup).unwrap());
}

/// A directory may be named with a slash at its end, be there and empty, be the working directory, or a volume.
fn it_is_restored_wherever_there_is_room(directory: &Path) {
    let (slash, empty, here) = (directory.join("slash"), directory.join("empty"), directory.join("here"));
    fs::create_dir(&empty).expect("the disk serves");
    // What a file system has at its top.
    fs::create_dir(empty.join("lost+found")).expect("the disk serves");
    fs::create_dir(&here).expect("the disk serves");
    for (from, arguments, into) in [
        (directory, ["two.backup", "slash/"], &slash),
        (directory, ["two.backup", "empty"], &empty),
        (here.as_path(), ["../two.backup", "."], &here),
    ] {
        let inode = fs::metadata(into).ok().map(|facts| facts.ino());
        let [file, named] = arguments;
        let (code, told) = run(from, &["restore", file, "--into", named]);
        assert_eq!(code, Some(0), "{named}: {told}");
        assert!(into.join("node.secret").is_file() && into.join(STORE_FOLDER).is_dir(), "{named}: {told}");
        let facts = fs::metadata(into).expect("the disk serves");
        assert_eq!(facts.permissions().mode() & 0o777, 0o700, "{named}");
        // What is mounted there would be hidden, or in the way, were it another directory.
        assert_eq!(inode.unwrap_or(facts.ino()), facts.ino(), "{named}");
    }
    let left = fs::read_dir(directory)
        .expect("the disk serves")
        .chain(fs::read_dir(&empty).expect("the disk serves"));
    let names: Vec<String> =
        left.map(|entry| entry.expect("the disk serves").file_name().into_string().expect("text")).collect();
    assert!(!names.iter().any(|name| name.ends_with(".partial")), "{names:?}");
    let (code, told) = run(directory, &["restore", "two.backup", "--into", "empty"]);
    assert!(code == Some(1) && told.contains("empty is not empty"), "{told}");
}

/// The gateway that a backup was made of went on: a restored one must not take again what agents signed then.
fn what_was_signed_since_is_not_known(directory: &Path) {
    let (code, told) = run(directory, &["restore", "two.backup", "--into", "again"]);
    assert_eq!(code, Some(0), "{told}");
    let (signed, now) = (Timestamp::now() + 60.seconds(), Timestamp::now() + 1.hours());
    let is_known = |folder: &str| {
        let store = open_sled(&directory.join(folder).join(STORE_FOLDER)).expect("a store");
        Replays::open(&store, now).is_known("planner", signed.as_second())
    };
    assert!(is_known("state"), "its process ended well");
    assert!(!is_known("again"));
}

/// Backups hold secrets: none goes through a link, nor into a file of somebody else's, wherever it lies.
fn nothing_of_others_is_written_to(directory: &Path) {
    for (number, name) in
        ["state/.backup", "linked-0.backup.partial", "linked-1.backup.partial"].iter().enumerate()
    {
        let theirs = directory.join(format!("theirs-{number}"));
        fs::write(&theirs, "theirs").expect("the directory is writable");
        fs::set_permissions(&theirs, fs::Permissions::from_mode(0o644)).expect("it is ours");
        match number {
            // Of another name, of the same file.
            2 => fs::hard_link(&theirs, directory.join(name)).expect("a link"),
            _ => symlink(&theirs, directory.join(name)).expect("a link"),
        }
        let backup = format!("linked-{}.backup", number.saturating_sub(1));
        let (code, told) = run(directory, &["backup", "-c", "gateway.toml", &backup]);
        assert_eq!(code, Some(0), "{name}: {told}");
        assert_eq!(fs::read_to_string(&theirs).expect("it is there"), "theirs", "{name}");
        let mode = fs::metadata(directory.join(&backup)).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
        fs::remove_file(directory.join(&backup)).expect("it is ours");
    }
}

#[test]
fn a_state_that_is_not_there_has_no_backup() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("gateway.toml"), "[store]\npath = \"nowhere\"\n").expect("it is writable");
    let (code, told) = run(folder.path(), &["backup", "-c", "gateway.toml", "none.backup"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("nowhere") && !folder.path().join("none.backup").exists(), "{told}");
    assert!(!folder.path().join("nowhere").exists(), "and none is made");
}

fn damaged_backups_are_refused(directory: &Path, whole: &[u8]) {
    let middle = whole.len() / 2;
    let mut changed = whole.to_vec();
    changed[middle] = if changed[middle] == b'A' { b'B' } else { b'A' };
    let longer = [whole, b"\n"].concat();
    for (name, bytes) in [("changed", changed.as_slice()), ("cut", &whole[..middle]), ("longer", &longer)] {
        fs::write(directory.join(name), bytes).expect("the directory is writable");
        let (code, told) = run(directory, &["restore", name, "--into", "nowhere"]);
        assert_eq!(code, Some(4), "{name}: {told}");
        assert!(!directory.join("nowhere").exists(), "{name}");
    }
}
