//! Two processes of one name, on copies of one journal.

use std::sync::atomic::AtomicBool;

use super::*;

fn copied(from: &Path, into: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::copy(&path, into.join(path.file_name().unwrap())).unwrap();
        }
    }
}

fn passed_over(node: &Node) -> String {
    let metrics = node.shipping().metrics.render();
    let told = |line: &&str| line.starts_with("portcullis_audit_shipped") && line.contains("\"passed_over\"");
    let line = metrics.lines().find(told).unwrap_or("0");
    line.rsplit(' ').next().unwrap().to_owned()
}

#[test]
fn while_two_have_one_name_entries_wait_and_what_was_passed_over_is_counted() {
    let (server, folders, clock) = (Postgres::start(), folders(), clock());
    let mut one = Node::open(&server, "one", config(&folders[0]), &clock);
    one.write(0..5);
    one.shipping().ship_all().unwrap();
    drop(one);
    copied(folders[0].path(), folders[1].path());
    let is_known = Arc::new(AtomicBool::new(false));
    let [mut one, mut copy] = [0, 1].map(|at| {
        let mut node = Node::open(&server, "one", config(&folders[at]), &clock);
        let (metrics, is_known) = (Arc::new(Metrics::new("0", "0")), Arc::clone(&is_known));
        let has_twin = Box::new(move || is_known.load(Ordering::Relaxed));
        node.opened.log = node.opened.log.shared("one".to_owned(), &node.store, metrics, has_twin);
        node
    });
    for node in [&one, &copy] {
        node.shipping().ship_all().unwrap();
    }
    // Before they know of each other the copy is faster.
    one.write(5..8);
    copy.write(8..9);
    copy.shipping().ship_all().unwrap();
    is_known.store(true, Ordering::Relaxed);
    for node in [&one, &copy] {
        assert!(matches!(node.shipping().ship_all(), Err(QueryError::Held)));
    }
    one.write(9..14);
    copy.write(14..15);
    drop(copy);
    is_known.store(false, Ordering::Relaxed);
    assert!(one.shipping().ship_all().is_err(), "the rows have grown since");
    one.shipping().ship_all().unwrap();
    assert_eq!(passed_over(&one), "3", "those that were written before what the copy was faster with");
    assert_eq!(one.total(Query::default()), 5 + 1 + 5);
    assert!(
        matches!(one.verified()["one"], Err(Fault::Shipped { .. } | Fault::Chain(_))),
        "{:?}",
        one.verified()
    );
}
