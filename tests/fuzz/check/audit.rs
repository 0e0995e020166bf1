//! A segment of the audit log, as a crash or a hand may have left it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use portcullis::clock::SystemClock;
use portcullis::govern::audit;
use portcullis::govern::audit::AuditConfig;
use portcullis::govern::audit::Opened;
use portcullis::store::Store;
use portcullis::telemetry::metrics::Metrics;

/// Opens a log whose only segment holds these bytes; what is mended once is sound the second time.
pub fn segment(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(format!("audit-{:016x}.segment", 1));
    fs::write(path, bytes).expect("the folder is writable");
    let Some(first) = opened(folder.path()) else { return };
    let checked = first.log.verify().map(|check| (check.entries(), check.last_hash()));
    drop(first);
    let again = opened(folder.path()).expect("what was opened once can be opened again");
    assert_eq!(again.repair, None, "one repair is enough");
    match (checked, again.log.verify()) {
        (Ok(before), Ok(after)) => assert_eq!(before, (after.entries(), after.last_hash())),
        (Err(_), Err(_)) => {}
        (before, after) => {
            panic!("the verdict changed: {before:?}, {:?}", after.map(|check| check.entries()))
        }
    }
}

fn opened(folder: &Path) -> Option<Opened> {
    let config = AuditConfig { reserve_bytes: 0, low_water_bytes: 0, ..AuditConfig::at(folder.to_owned()) };
    let metrics = Arc::new(Metrics::new("0", "0"));
    audit::open(config, Store::in_memory(), Arc::new(SystemClock), metrics).ok()
}
