//! Erasures of those who hold keys: what goes with a key, and what is refused before anything is changed.

use std::time::Duration;

use portcullis::access::budget::Budget;
use portcullis::access::budget::Spent;
use portcullis::access::key::NewKey;
use portcullis::access::role::Role;
use portcullis::access::scope::Scope;
use portcullis::access::tier::Tier;
use portcullis::clock::Clock;
use serde_json::json;

use crate::browser::Browser;
use crate::world::World;

/// Makes a key of a name; returns its id.
fn key(world: &World, name: &str, role: Role) -> String {
    let (tier, scope) = (Tier::Enterprise, Scope::default());
    let new = NewKey { name: name.to_owned(), role, tier, expires_at: None, scope };
    let (record, _) = world.office.keys.create(world.office.new_id(), new, world.clock.now()).unwrap();
    record.id
}

async fn erase(world: &World, entity: &str) -> u16 {
    let mut owner = Browser::open(world);
    owner.fields = vec![("x-api-key", world.key("admin").to_owned())];
    owner.call("POST", "/api/v1/dsar/erase", &json!({ "entity_id": entity }).to_string()).await.status
}

#[tokio::test]
async fn what_a_key_spent_goes_with_it() {
    let world = World::start(Tier::Enterprise);
    let id = key(&world, "ci", Role::Service);
    let budget = Budget { tokens_per_day: Some(100), ..Budget::default() };
    world.office.budgets.set(&id, budget, Spent::default()).unwrap();
    assert_eq!(erase(&world, "ci").await, 200);
    assert!(world.office.keys.get(&id).is_none());
    assert!(world.office.budgets.of(&id, world.clock.now()).is_none());
}

#[tokio::test]
async fn an_erasure_that_is_refused_has_changed_nothing() {
    let world = World::start(Tier::Enterprise);
    world.clock.advance(Duration::from_secs(1));
    // The only other admin key is the one that asks; one name for all leaves none.
    let (service, admin) = (key(&world, "admin", Role::Service), key(&world, "admin", Role::Admin));
    assert_eq!(erase(&world, "admin").await, 409);
    assert!(world.office.keys.get(&service).is_some() && world.office.keys.get(&admin).is_some());
}

#[tokio::test]
async fn a_hold_on_a_key_is_a_hold_on_whoever_it_is_named_after() {
    let world = World::start(Tier::Enterprise);
    let (first, second) = (key(&world, "ci", Role::Service), key(&world, "ci", Role::Service));
    let mut owner = Browser::open(&world);
    owner.fields = vec![("x-api-key", world.key("admin").to_owned())];
    let hold = |entity: &str| {
        json!({ "entity_id": entity, "entity_type": "key", "reason": "case", "issued_by": "counsel" })
            .to_string()
    };
    assert_eq!(owner.call("POST", "/api/v1/legal-holds", &hold(&first)).await.status, 201);
    assert_eq!((erase(&world, &first).await, erase(&world, "ci").await), (409, 409));
    // The other key of that name is another entity.
    assert_eq!(erase(&world, &second).await, 200);
    assert!(world.office.keys.get(&first).is_some());
}
