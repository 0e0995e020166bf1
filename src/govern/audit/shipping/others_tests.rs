use super::*;
use crate::govern::audit::Entry;
use crate::govern::audit::Following;
use crate::govern::audit::Seen;

/// An entry as a reader knows it: its node, and its id.
type Known = (String, crate::id::Ulid);

fn known(node: &str, entry: &Entry) -> Known {
    (entry.node.as_deref().unwrap_or(node).to_owned(), entry.id)
}

/// Reads until `count` entries have come; returns them, each with what one comes back with behind it.
async fn read(following: &mut Following, node: &str, count: usize) -> Vec<(Known, String)> {
    let mut got = Vec::new();
    while got.len() < count {
        let batch = tokio::time::timeout(Duration::from_secs(20), following.next_batch()).await;
        for entry in batch.unwrap_or_else(|_| panic!("{} of {count} came", got.len())).unwrap() {
            following.pass(&entry);
            got.push((known(node, &entry), following.place(&entry)));
        }
    }
    got
}

fn sorted(got: &[(Known, String)]) -> Vec<Known> {
    let mut all: Vec<Known> = got.iter().map(|(known, _)| known.clone()).collect();
    all.sort();
    all
}

/// Returns all that nodes have, by asking one of them.
fn all_of(node: &Node) -> Vec<Known> {
    let page = node.query(Query { limit: 1000, ..Query::default() });
    let mut all: Vec<Known> = page.entries.iter().map(|entry| known("", entry)).collect();
    all.sort();
    all
}

/// Lets a node look at the others as long as a test runs.
fn looking(node: &Node) -> tokio::task::JoinHandle<()> {
    tokio::spawn(Arc::clone(node.shipping()).look_at_others(std::future::pending()))
}

/// Calls blocking work from a test's own thread.
fn ship(node: &Node) {
    tokio::task::block_in_place(|| node.shipping().ship_all()).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_of_any_node_is_given_the_entries_of_all_once_however_they_are_shipped() {
    let (server, folders, clock) = (Postgres::start(), folders(), clock());
    let mut nodes = [0, 1].map(|at| Node::open(&server, ["one", "two"][at], config(&folders[at]), &clock));
    let looks = nodes.each_ref().map(looking);
    for node in &mut nodes {
        node.write(0..3);
        ship(node);
    }
    let [one, two] = &mut nodes;
    let begun: Vec<Known> = all_of(one);
    let [mut at_one, mut at_two] =
        [one.opened.log.follow(None, None).await.unwrap(), two.opened.log.follow(None, None).await.unwrap()];
    // What one recorded first is shipped last.
    for round in 0..4 {
        one.write(10 * round..10 * round + 7);
        two.write(10 * round..10 * round + 300 * (round % 2) + 5);
        ship(two);
        if round % 2 == 1 {
            ship(one);
        }
    }
    let all: Vec<Known> = all_of(one).into_iter().filter(|known| !begun.contains(known)).collect();
    assert_eq!(all.len(), 4 * 7 + 4 * 5 + 600);
    let (got, other) = (read(&mut at_one, "one", all.len()).await, read(&mut at_two, "two", all.len()).await);
    assert_eq!((sorted(&got), sorted(&other)), (all.clone(), all.clone()));
    for node in ["one", "two"] {
        assert!(got.iter().filter(|((of, _), _)| of == node).map(|((_, id), _)| id).is_sorted());
    }
    // From wherever it was, and to whichever node, a reader comes back to the rest.
    for (at, (_, place)) in got.iter().enumerate().step_by(97) {
        let rest = {
            let mut rest = all.clone();
            rest.retain(|known| !got[..=at].iter().any(|(seen, _)| seen == known));
            rest
        };
        for (node, name) in [(&*one, "one"), (&*two, "two")] {
            let mut again = node.opened.log.follow(Seen::parse(place), None).await.unwrap();
            assert_eq!(sorted(&read(&mut again, name, rest.len()).await), rest, "{place} at {name}");
        }
    }
    // What one node gave, and had not shipped yet, is not given again by another.
    one.write(90..95);
    let fresh = read(&mut at_one, "one", 5).await;
    let mut elsewhere = two.opened.log.follow(Seen::parse(&fresh[1].1), None).await.unwrap();
    ship(one);
    assert_eq!(sorted(&read(&mut elsewhere, "two", 3).await), sorted(&fresh[2..]));
    looks.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_comes_later_is_read_from_its_beginning_and_one_alone_can_be_asked_for() {
    let (server, folders, clock) = (Postgres::start(), folders(), clock());
    let mut one = Node::open(&server, "one", config(&folders[0]), &clock);
    let look = looking(&one);
    one.write(0..2);
    ship(&one);
    let mut following = one.opened.log.follow(None, None).await.unwrap();
    let mut two = Node::open(&server, "two", config(&folders[1]), &clock);
    two.write(0..3);
    ship(&two);
    let got = read(&mut following, "one", 3).await;
    assert!(got.iter().all(|((node, _), _)| node == "two"));
    let last = got.last().map(|(_, place)| place.clone()).unwrap();
    one.write(2..4);
    two.write(3..5);
    ship(&one);
    ship(&two);
    for (wanted, count) in [("one", 2), ("two", 2)] {
        let seen = Seen::parse(&last);
        let mut only = one.opened.log.follow(seen, Some(wanted.to_owned())).await.unwrap();
        let got = read(&mut only, "one", count).await;
        assert!(got.len() == count && got.iter().all(|((node, _), _)| node == wanted), "{wanted}: {got:?}");
    }
    // The id of an entry alone: what was recorded after it, by whichever node.
    let first = all_of(&one).iter().map(|(_, id)| *id).min().unwrap();
    let mut plain = one.opened.log.follow(Seen::parse(&first.to_string()), None).await.unwrap();
    let rest: Vec<Known> = all_of(&one).into_iter().filter(|(_, id)| *id > first).collect();
    assert_eq!(sorted(&read(&mut plain, "one", rest.len()).await), rest);
    look.abort();
}
