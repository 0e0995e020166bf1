//! Erasures of those who hold keys: what goes with a key, and what is refused before anything is changed.

use std::time::Duration;

use portcullis::access::budget::Budget;
use portcullis::access::budget::Spent;
use portcullis::access::key::NewKey;
use portcullis::access::role::Role;
use portcullis::access::scope::Scope;
use portcullis::access::tier::Tier;
use portcullis::clock::Clock;
use serde_json::Value;
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

impl<'a> Browser<'a> {
    fn of_admin(world: &'a World) -> Self {
        let mut owner = Self::open(world);
        owner.fields = vec![("x-api-key", world.key("admin").to_owned())];
        owner
    }

    /// Calls with JSON; returns the status and what was answered.
    async fn json(&mut self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let shown = self.call(method, path, &body).await;
        (shown.status, serde_json::from_str(&shown.text).unwrap())
    }

    async fn user(&mut self, name: &str, role: &str) -> String {
        let new = json!({ "name": name, "password": "correct horse battery", "role": role });
        let (status, told) = self.json("POST", "/api/v1/users", new).await;
        assert_eq!(status, 201, "{told}");
        told["id"].as_str().unwrap().to_owned()
    }

    async fn hold(&mut self, entity: &str, issuer: &str) -> String {
        let hold =
            json!({ "entity_id": entity, "entity_type": "key", "reason": "case", "issued_by": issuer });
        let (status, told) = self.json("POST", "/api/v1/legal-holds", hold).await;
        assert_eq!(status, 201, "{told}");
        format!("/api/v1/legal-holds/{}", told["id"].as_str().unwrap())
    }

    async fn is_held(&mut self, entity: &str) -> bool {
        let (_, told) = self.json("GET", &format!("/api/v1/legal-holds/check/{entity}"), Value::Null).await;
        told["under_hold"].as_bool().unwrap()
    }

    async fn dsar(&mut self, what: &str, entity: &str) -> (u16, Value) {
        self.json("POST", &format!("/api/v1/dsar/{what}"), json!({ "entity_id": entity })).await
    }
}

/// A key that is revoked or renamed told of the person no more, and the hold on it held nobody who could be erased.
#[tokio::test]
async fn a_hold_on_a_key_outlives_the_key_and_its_name() {
    for change in ["revoke", "rename", "rename and revoke"] {
        let world = World::start(Tier::Enterprise);
        let mut owner = Browser::of_admin(&world);
        let carl = owner.user("carl", "analyst").await;
        let (held, other) = (key(&world, "carl", Role::Service), key(&world, "carl", Role::Service));
        let hold = owner.hold(&held, "counsel").await;
        let path = format!("/api/v1/keys/{held}");
        if change != "revoke" {
            let (status, told) = owner.json("PATCH", &path, json!({ "name": "dora" })).await;
            assert_eq!(status, 200, "{told}");
        }
        if change != "rename" {
            assert_eq!(owner.json("DELETE", &path, Value::Null).await.0, 200, "{change}");
        }
        let called = if change == "revoke" { vec!["carl"] } else { vec!["carl", "dora"] };
        for name in called.into_iter().chain([carl.as_str(), held.as_str()]) {
            assert!(owner.is_held(name).await, "{change}: {name}");
            let (status, told) = owner.dsar("erase", name).await;
            assert_eq!((status, &told["blocked_by"]), (409, &json!("legal_hold")), "{change}: {name}");
        }
        // Another key of that name is another entity.
        assert!(!owner.is_held(&other).await && erase(&world, &other).await == 200, "{change}");
        assert_eq!(owner.json("DELETE", &hold, Value::Null).await.0, 200);
        assert!(!owner.is_held("carl").await && erase(&world, "carl").await == 200, "{change}");
    }
}

#[tokio::test]
async fn who_stands_in_holds_and_revisions_is_told_of_and_counted() {
    let world = World::start(Tier::Enterprise);
    let mut owner = Browser::of_admin(&world);
    let hold = owner.hold("mallory", "legal@x").await;
    let (_, told) = owner.dsar("export", "legal@x").await;
    assert_eq!(told["providers"], json!({ "legal_holds": { "about": 0, "issued": 1 } }));
    let (_, told) = owner.dsar("export", "mallory").await;
    assert_eq!(told["providers"]["legal_holds"], json!({ "about": 1, "issued": 0 }));
    // As long as it is in force it has to be known who wanted it.
    let (status, told) = owner.dsar("erase", "Legal@x").await;
    assert_eq!((status, told), (409, json!({ "entity_id": "Legal@x", "blocked_by": "legal_hold" })));
    assert!(!owner.is_held("legal@x").await);
    assert_eq!(owner.json("GET", &hold, Value::Null).await.1["issued_by"], "legal@x");
    owner.json("DELETE", &hold, Value::Null).await;
    let (status, told) = owner.dsar("erase", "legal@x").await;
    // The export before was recorded.
    assert_eq!((status, &told["providers"]), (200, &json!({ "audit": 1, "legal_holds": 1 })), "{told}");
    assert_eq!(owner.json("GET", &hold, Value::Null).await.1["issued_by"], "[erased]");
    assert_eq!(owner.dsar("export", "legal@x").await.1["providers"], json!({}));

    let author = {
        let limits = json!({ "limits": { "concurrent_requests_per_caller": 77 } });
        let (status, told) = owner.json("PUT", "/api/v1/config", limits).await;
        assert_eq!(status, 200, "{told}");
        let (_, told) = owner.json("GET", "/api/v1/config/revisions", Value::Null).await;
        told["revisions"][0]["author"].as_str().unwrap().to_owned()
    };
    let (_, told) = owner.dsar("export", &author).await;
    assert_eq!(told["providers"]["revisions"], json!({ "authored": 1 }), "{told}");
}

#[tokio::test]
async fn names_of_the_gateways_own_are_nobody_who_could_be_erased() {
    let world = World::start(Tier::Enterprise);
    let mut owner = Browser::of_admin(&world);
    for name in ["portcullis", "unknown", "[erased]", "[unlisted]", "Portcullis"] {
        let (status, told) = owner.dsar("erase", name).await;
        assert_eq!(status, 400, "{name}: {told}");
        assert!(told["error"].as_str().unwrap().contains("the gateway's own"), "{name}: {told}");
    }
    let (_, told) = owner.json("GET", "/api/v1/config/revisions", Value::Null).await;
    assert_eq!(told["revisions"][0]["author"], "portcullis", "{told}");
    let new = json!({ "name": "Portcullis", "password": "correct horse battery", "role": "analyst" });
    let (status, told) = owner.json("POST", "/api/v1/users", new).await;
    assert_eq!(status, 400, "whoever is called so could never be erased: {told}");
}

#[tokio::test]
async fn whoever_erases_himself_is_not_named_by_the_record_of_it() {
    let world = World::start(Tier::Enterprise);
    let mut owner = Browser::of_admin(&world);
    let dora = owner.user("dora", "admin").await;
    let login = json!({ "username": "dora", "password": "correct horse battery" });
    let (status, told) = owner.json("POST", "/api/v1/auth/token", login).await;
    assert_eq!(status, 200, "{told}");
    let mut own = Browser::open(&world);
    own.fields = vec![("authorization", format!("Bearer {}", told["access_token"].as_str().unwrap()))];
    let (status, told) = own.dsar("erase", "dora").await;
    assert_eq!(status, 200, "{told}");
    let (_, told) = owner.json("GET", "/api/v1/audit?event_type=entity_erased", Value::Null).await;
    assert_eq!((&told["total"], &told["entries"][0]["actor"]), (&json!(1), &json!("[erased]")), "{told}");
    let all = owner.call("GET", "/api/v1/audit?limit=1000", "").await.text;
    assert!(!all.contains(&dora) && !all.contains("dora"), "{all}");
}
