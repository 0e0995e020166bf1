use super::*;

const CHEAP: Cost = Cost { memory_kib: 8, passes: 1 };
const PASSWORD: &str = "correct horse battery";

fn users(store: &Store, secret: &NodeSecret, cost: Cost) -> Arc<Users> {
    Arc::new(
        Users::open(store, secret.clone(), Arc::new(Keyring::shared(store, secret.clone()).unwrap()), cost)
            .unwrap(),
    )
}

fn now() -> Timestamp {
    Timestamp::from_second(1_000).unwrap()
}

fn at(second: u64) -> Moment {
    Moment { wall: now(), monotonic: Duration::from_secs(second) }
}

fn new(name: &str) -> NewUser {
    NewUser { name: name.to_owned(), password: PASSWORD.to_owned(), role: Role::Auditor, tier: None }
}

fn login(name: &str, password: &str) -> Login {
    Login { name: name.to_owned(), password: password.to_owned(), address: Some([10, 0, 0, 1].into()) }
}

#[tokio::test]
async fn a_login_takes_name_and_password() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let users = users(&store, &secret, CHEAP);
    let ada = users.create("u1".into(), new("Ada"), now()).await.unwrap();
    assert_eq!((ada.name.as_str(), ada.generation, ada.last_login_at), ("ada", 1, None));
    let found = users.login(login("\u{ff21}DA", PASSWORD), at(0)).await.unwrap();
    assert_eq!((found.id.as_str(), found.last_login_at), ("u1", Some(now())));
    for (name, password) in [
        ("ada", "correct horse batterz"),
        ("ada", ""),
        ("bob", PASSWORD),
        ("", ""),
        ("\u{202e}ada", PASSWORD),
        ("ada", "x".repeat(2000).as_str()),
    ] {
        let fault = users.login(login(name, password), at(10_000)).await.unwrap_err();
        assert!(matches!(fault, LoginFault::Wrong), "{name} {fault}");
    }
    // Users outlive the process, and a hash of another cost is renewed at the next login.
    let dearer = Cost { memory_kib: 16, passes: 2 };
    let again = super::tests::users(&store, &secret, dearer);
    assert!(again.get("u1").unwrap().password.is_outdated(dearer));
    again.login(login("ada", PASSWORD), at(0)).await.unwrap();
    assert!(!super::tests::users(&store, &secret, dearer).get("u1").unwrap().password.is_outdated(dearer));
}

#[tokio::test]
async fn every_change_begins_a_generation() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let users = users(&store, &secret, CHEAP);
    users.create("u1".into(), new("ada"), now()).await.unwrap();
    let changes = [
        UserChange { role: Some(Role::Analyst), ..UserChange::default() },
        UserChange { tier: Some(Some(Tier::Developer)), ..UserChange::default() },
        UserChange { password: Some("another horse battery".to_owned()), ..UserChange::default() },
        UserChange { disabled: Some(true), ..UserChange::default() },
    ];
    for (count, change) in changes.into_iter().enumerate() {
        let generation = count as u64 + 1;
        assert!(users.in_generation("u1", generation).is_some());
        users.change("u1", change, now()).await.unwrap();
        assert!(users.in_generation("u1", generation).is_none(), "{count}");
    }
    let ada = users.get("u1").unwrap();
    assert_eq!(
        (ada.role, ada.tier, ada.disabled, ada.generation),
        (Role::Analyst, Some(Tier::Developer), true, 5)
    );
    assert!(users.in_generation("u1", 5).is_none(), "a disabled user is in none");
    let right = users.login(login("ada", "another horse battery"), at(0)).await;
    assert!(matches!(right, Err(LoginFault::Wrong)));
    users.change("u1", UserChange { disabled: Some(false), ..UserChange::default() }, now()).await.unwrap();
    assert!(users.login(login("ada", PASSWORD), at(0)).await.is_err());
    assert!(users.login(login("ada", "another horse battery"), at(0)).await.is_ok());
    assert!(users.delete("u1").unwrap() && !users.delete("u1").unwrap());
    assert!(users.in_generation("u1", 6).is_none());
    let gone = users.change("u1", UserChange::default(), now()).await;
    assert!(matches!(gone, Err(UserError::Unknown)));
}

#[tokio::test]
async fn nobody_is_taken_for_somebody_else() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let users = users(&store, &secret, CHEAP);
    users.create("u1".into(), new("app"), now()).await.unwrap();
    for name in ["app", "APP", "\u{ff41}pp", "\u{430}\u{440}\u{440}"] {
        let made = users.create("u2".into(), new(name), now()).await;
        assert!(matches!(made, Err(UserError::Taken)), "{name}");
    }
    let made = users.create("u2".into(), new("\u{430}pp"), now()).await;
    assert!(matches!(made, Err(UserError::Name(NameFault::Scripts))));
    let weak = NewUser { password: "password".to_owned(), ..new("bob") };
    assert!(matches!(users.create("u2".into(), weak, now()).await, Err(UserError::Password(_))));
    assert_eq!(users.list().len(), 1);
}

#[tokio::test]
async fn guessing_waits_for_known_and_unknown_names_alike() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let users = users(&store, &secret, CHEAP);
    users.create("u1".into(), new("ada"), now()).await.unwrap();
    let mut told = Vec::new();
    for name in ["ada", "nobody"] {
        let mut faults = Vec::new();
        for _ in 0..8 {
            faults.push(users.login(login(name, "a wrong password"), at(0)).await.unwrap_err().to_string());
        }
        told.push(faults);
    }
    assert_eq!(told[0], told[1]);
    assert!(told[0][0].contains("is wrong") && told[0][7].contains("try again in 1 s"), "{told:?}");
    // The right password does not help before its time, and does after.
    assert!(matches!(users.login(login("ada", PASSWORD), at(0)).await, Err(LoginFault::LockedOut(_))));
    assert!(users.login(login("ada", PASSWORD), at(1)).await.is_ok());
}

#[tokio::test]
async fn a_flood_of_logins_waits_in_a_bounded_queue() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let users = users(&store, &secret, CHEAP);
    let held = Arc::clone(&users.hashing).acquire_many_owned(HASHES_MAX as u32).await.unwrap();
    let one = |n: u32| {
        let address = Some(std::net::IpAddr::from(n.to_be_bytes()));
        let login = Login { name: format!("user{n}"), password: String::new(), address };
        let users = Arc::clone(&users);
        async move { users.login(login, at(0)).await.unwrap_err() }
    };
    let flood = futures_util::future::join_all((0..200).map(one));
    let free = async {
        // Everybody has come before the first is served.
        tokio::task::yield_now().await;
        drop(held);
    };
    let (faults, ()) = tokio::join!(flood, free);
    let busy = faults.iter().filter(|fault| matches!(fault, LoginFault::Busy)).count();
    assert_eq!(busy, 200 - HASHES_MAX - WAITING_MAX);
}

#[tokio::test]
async fn a_login_takes_the_same_work_whether_there_is_a_user_and_since_when() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    users(&store, &secret, CHEAP).create("u1".into(), new("ada"), now()).await.unwrap();
    let dearer = Cost { memory_kib: 16, passes: 2 };
    let users = users(&store, &secret, dearer);
    users.create("u2".into(), new("bob"), now()).await.unwrap();
    let work = |id: &str| -> Vec<Cost> {
        users.tried(users.get(id).as_ref()).iter().map(PasswordHash::cost).collect()
    };
    assert_eq!((work("u1"), work("u2"), work("nobody")), (vec![CHEAP, dearer], work("u1"), work("u1")));
    users.login(login("ada", PASSWORD), at(0)).await.unwrap();
    // The last hash of the old cost is gone, and so is the work for it.
    assert_eq!((work("u1"), work("nobody")), (vec![dearer], vec![dearer]));
}
