use super::*;

/// Restores a backup that holds these lines behind its head, and whose end tells of so many records and files; tells
/// whether anything is there then.
fn restored_as(lines: &[Line], (records, files): (u64, u64)) -> (Result<bool, BackupError>, bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.backup");
    let mut out = Hashed { out: Vec::new(), digest: Sha256::new() };
    let (version, made_at) = ("0.1.0".to_owned(), "2026-01-01T00:00:00Z".to_owned());
    out.line(&Line::PortcullisBackup { format: FORMAT, version, made_at }).unwrap();
    lines.iter().for_each(|line| out.line(line).unwrap());
    let sha256 = hex(out.digest.clone());
    out.line(&Line::End { records, files, sha256 }).unwrap();
    std::fs::write(&path, out.out).unwrap();
    let told = restore(&path, &folder.path().join("state"), |_| Ok(true));
    (told, folder.path().read_dir().unwrap().count() > 1)
}

/// The same, where the end tells of what there is.
fn restored(lines: &[Line]) -> Result<bool, BackupError> {
    let records = lines.iter().filter(|line| matches!(line, Line::Record { .. })).count();
    let files = lines.iter().filter(|line| matches!(line, Line::File { offset: 0, .. })).count();
    restored_as(lines, (records as u64, files as u64)).0
}

#[test]
fn a_backup_without_some_of_its_records_or_files_restores_nothing() {
    let lines = || {
        let file = |name: &str, offset: u64, text: &str| {
            let (path, data) = (format!("audit/{name}.segment"), BASE64.encode(text));
            Line::File { path, mode: 0o600, offset, data }
        };
        let (table, key) = ("keys".to_owned(), "YQ==".to_owned());
        let record = Line::Record { table, key, value: String::new() };
        vec![record, file("one", 0, "abc"), file("one", 3, "def"), file("two", 0, ""), file("three", 0, "g")]
    };
    let (told, is_there) = restored_as(&lines(), (1, 3));
    assert!(told.unwrap() && is_there);
    for lost in [0, 1, 3, 4] {
        let mut left = lines();
        left.remove(lost);
        let (told, is_there) = restored_as(&left, (1, 3));
        let told = told.unwrap_err();
        assert!(matches!(told, BackupError::Damaged { line: 6, .. }), "{told}");
        assert!(told.to_string().contains(if lost == 0 { "records" } else { "files" }), "{told}");
        assert!(!is_there, "without line {lost}");
    }
    for told in [(0, 3), (2, 3), (1, 2), (1, 4)] {
        assert!(!restored_as(&lines(), told).1, "{told:?}");
    }
}

#[test]
fn a_backup_that_was_cut_anywhere_restores_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    std::fs::create_dir_all(state.join("audit")).unwrap();
    std::fs::write(state.join("audit/one.segment"), "abc").unwrap();
    std::fs::write(state.join("node.secret"), "").unwrap();
    let mut whole = Vec::new();
    write(&Store::in_memory(), &state, "0.1.0", "2026-01-01T00:00:00Z", &mut whole).unwrap();
    let (path, target) = (folder.path().join("one.backup"), folder.path().join("restored"));
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    let cut = (0..lines.len()).map(|lost| {
        let left = lines.iter().enumerate().filter(|(number, _)| *number != lost);
        left.flat_map(|(_, line)| line.iter().copied()).collect::<Vec<u8>>()
    });
    for broken in cut.chain((0..whole.len() - 1).map(|bytes| whole[..bytes].to_vec())) {
        std::fs::write(&path, &broken).unwrap();
        let told = restore(&path, &target, |_| Ok(true));
        assert!(matches!(told, Err(BackupError::Damaged { .. })), "{} bytes", broken.len());
        assert_eq!(folder.path().read_dir().unwrap().count(), 2, "nothing but the state and the backup");
    }
    std::fs::write(&path, &whole).unwrap();
    assert!(restore(&path, &target, |_| Ok(true)).unwrap());
    assert_eq!(std::fs::read(target.join("audit/one.segment")).unwrap(), b"abc");
    assert_eq!(verify(&path).unwrap().files, 2);
}

#[test]
fn what_no_program_writes_is_refused_and_named_by_its_line() {
    let piece = |offset: u64| {
        let (path, data) = ("audit/one.segment".to_owned(), BASE64.encode("abc"));
        Line::File { path, mode: 0o600, offset, data }
    };
    let record = |table: &str, key: &str| {
        let (table, key) = (table.to_owned(), key.to_owned());
        Line::Record { table, key, value: String::new() }
    };
    assert!(restored(&[piece(0), record("keys", "YQ=="), piece(3)]).unwrap());
    for lines in [
        [piece(0), piece(1 << 40)],
        [piece(0), piece(0)],
        [record("keys", "YQ=="), record("", "YQ==")],
        [record("keys", "YQ=="), record("keys\0", "YQ==")],
        [record("keys", "YQ=="), record("keys", "no base64")],
    ] {
        let told = restored(&lines).unwrap_err();
        assert!(matches!(told, BackupError::Damaged { line: 3, .. }), "{told}");
    }
}
