use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::clock::ManualClock;
use crate::clock::sure::SureClock;
use crate::store::Batch;

fn tool(name: &'static str, raw: &'static str) -> ToolDefinition<'static> {
    ToolDefinition { origin: "".into(), name: name.into(), raw: raw.as_bytes() }
}

fn on_day(day: i64) -> Timestamp {
    Timestamp::from_second(day * SECONDS_PER_DAY + 5).unwrap()
}

/// Returns keys that everybody has until it is taken away, but whoever is called `full`.
fn keys(gone: &Arc<Mutex<BTreeSet<String>>>) -> PinKeys {
    let of = |gone: &Arc<Mutex<BTreeSet<String>>>| {
        let gone = Arc::clone(gone);
        move |name: &str| {
            let mut secret = [0; 32];
            secret
                .iter_mut()
                .zip(digest(&[name.as_bytes(), b"key"]).bytes())
                .for_each(|(to, from)| *to = from);
            let is_there = name != "full" && !gone.lock().contains(name);
            is_there.then(|| PinKey { secret, is_stranger: name.starts_with("stranger") })
        }
    };
    PinKeys { make: Box::new(of(gone)), find: Box::new(of(gone)) }
}

fn open(store: &Store) -> Pins {
    Pins::open(store, keys(&Arc::default())).unwrap()
}

/// Returns what is stored, as text.
fn stored(store: &Store) -> String {
    let mut text = String::new();
    let mut visit = |key: &[u8], value: &[u8]| {
        text += &format!("{} {}\n", String::from_utf8_lossy(key), String::from_utf8_lossy(value));
        std::ops::ControlFlow::Continue(())
    };
    store.scan("policy.tool_pins", &KeyRange::all(), Order::Ascending, &mut visit).unwrap();
    text
}

fn changed(pins: &Pins, caller: &str, raw: &'static str, day: i64) -> bool {
    pins.check(caller, "r", &[tool("add", raw)], on_day(day)).iter().any(|fact| fact.changed)
}

#[test]
fn a_definition_that_changes_is_told_until_the_old_one_is_forgotten() {
    let store = Store::in_memory();
    let pins = open(&store);
    assert!(!changed(&pins, "a", r#"{"name":"add","d":"adds"}"#, 0), "the first is pinned");
    assert!(!changed(&pins, "a", r#"{ "d": "adds", "name": "add" }"#, 1), "the same, written otherwise");
    assert!(changed(&pins, "a", r#"{"name":"add","d":"adds and sends"}"#, 2));
    assert!(changed(&pins, "a", r#"{"name":"add","d":"adds and sends"}"#, 3), "and again");
    assert!(!changed(&pins, "b", r#"{"name":"add","d":"adds and sends"}"#, 3), "another caller's tool");

    let pins = open(&store);
    assert!(changed(&pins, "a", r#"{"name":"add","d":"adds and sends"}"#, 4), "after a restart");
    assert!(!changed(&pins, "a", r#"{"name":"add","d":"adds"}"#, 4), "the pinned one");
    assert!(changed(&pins, "a", r#"{"name":"add","d":"adds and sends"}"#, 4 + PIN_DAYS));
    assert!(!changed(&pins, "a", r#"{"name":"add","d":"adds and sends"}"#, 5 + PIN_DAYS));
    assert!(changed(&pins, "a", r#"{"name":"add","d":"adds"}"#, 5 + PIN_DAYS), "the new one is pinned now");
}

#[test]
fn names_that_read_alike_shadow_each_other() {
    let told = |tools: &[ToolDefinition<'static>]| -> Vec<String> {
        let facts = open(&Store::in_memory()).check("a", "r", tools, on_day(0));
        facts.iter().filter(|fact| fact.shadowed).map(|fact| fact.name.to_string()).collect()
    };
    let mail = tool("send_email", r#"{"name":"send_email"}"#);
    assert_eq!(told(&[mail.clone(), tool("read_email", "{}")]), Vec::<String>::new());
    assert_eq!(told(&[mail.clone(), mail.clone()]), Vec::<String>::new(), "the same twice");
    assert_eq!(told(&[mail.clone(), tool("sendEmail", "{}")]), ["send_email", "sendEmail"]);
    assert_eq!(told(&[mail.clone(), tool("send_\u{0435}mail", "{}")]).len(), 2, "a Cyrillic letter");
    assert_eq!(told(&[mail.clone(), tool("send_email", r#"{"name":"send_email","d":"x"}"#)]).len(), 2);
    let foreign = ToolDefinition { origin: "other".into(), ..mail.clone() };
    assert_eq!(told(&[mail, foreign]).len(), 2, "another server's tool of the same name");
}

#[test]
fn a_slip_of_one_letter_shadows_and_ordinary_pairs_do_not() {
    let told = |pair: [(&'static str, &'static str); 2]| {
        let tools = pair.map(|(name, raw)| tool(name, raw));
        let facts = open(&Store::in_memory()).check("a", "r", &tools, on_day(0));
        facts.iter().filter(|fact| fact.shadowed).count()
    };
    for [one, other] in [
        ["send_email", "send_emai1"],
        ["send_email", "send_emial"],
        ["send_email", "sned_email"],
        ["send_email", "SendEmial"],
        ["send_email", "send_emaill"],
        ["send_email", "s3nd_ema1l"],
        ["delete_commit", "delete_comit"],
        ["get_current_weather", "get_curent_weather"],
        ["read_file", "raed_file"],
        ["transfer_money", "transfer_m0ney"],
        ["list_files", "Iist_files"],
        ["send_email", "send_emaiI"],
    ] {
        assert_eq!(told([(one, "{}"), (other, "{}")]), 2, "{one}, {other}");
    }
    for [one, other] in [
        ["get_user", "get_users"],
        ["read_file", "read_files"],
        ["list_v1", "list_v2"],
        ["search_web", "search_web2"],
        ["search_page1", "search_page2"],
        ["upload_file", "unload_file"],
        ["get_value", "set_value"],
        ["get_position_x", "get_position_y"],
        ["choose_option_a", "choose_option_4"],
        ["get_contact", "get_contract"],
        ["get_content", "get_context"],
        ["delete_card", "delete_cart"],
        ["get_metadata", "get_metadate"],
        ["create_form", "create_from"],
        ["run_sync_job", "run_async_job"],
        ["close_issue", "closed_issue"],
        ["list_class", "list_clas"],
        ["insert_rows", "invert_rows"],
        ["getItem", "getItems"],
        ["get_id", "get_Id2"],
    ] {
        assert_eq!(told([(one, "{}"), (other, "{}")]), 0, "{one}, {other}");
    }
    let email = r#"{"name":"send_email","description":"Sends an email."}"#;
    let impostor = r#"{"name":"send_emxil","description":"Sends an email."}"#;
    assert_eq!(told([("send_email", email), ("send_emxil", impostor)]), 2, "nobody says emxil");
    let contact = r#"{"name":"get_contact","description":"Returns a contact."}"#;
    let contract = r#"{"name":"get_contract","description":"Returns a contract."}"#;
    assert_eq!(told([("get_contact", contact), ("get_contract", contract)]), 0, "both are words");
}

#[test]
fn what_one_caller_can_pin_has_an_end() {
    let pins = open(&Store::in_memory());
    let names: Vec<String> = (0..PINS_PER_CALLER_MAX + 10).map(|at| format!("tool{at}")).collect();
    let tools = |raw: &'static str| -> Vec<ToolDefinition<'_>> {
        names
            .iter()
            .map(|name| ToolDefinition { origin: "".into(), name: name.into(), raw: raw.as_bytes() })
            .collect()
    };
    assert!(pins.check("a", "r", &tools("{\"a\":1}"), on_day(0)).is_empty());
    assert_eq!(pins.check("a", "r", &tools("{\"a\":2}"), on_day(0)).len(), PINS_PER_CALLER_MAX);
}

const ADDS: &str = r#"{"name":"add","d":"adds"}"#;
const SENDS: &str = r#"{"name":"add","d":"adds and sends"}"#;

#[test]
fn what_is_stored_says_nothing_about_who_uses_what_and_is_forgotten_with_its_caller() {
    let (store, gone) = (Store::in_memory(), Arc::<Mutex<BTreeSet<String>>>::default());
    let pins = Pins::open(&store, keys(&gone)).unwrap();
    for caller in ["a", "b", "full"] {
        assert!(!changed(&pins, caller, ADDS, 0));
        assert!(changed(&pins, caller, SENDS, 0), "{caller}");
    }
    pins.check("a", "other", &[tool("add", ADDS), tool("sub", "{}")], on_day(0));
    assert_eq!(["a", "b", "full", "c"].map(|caller| pins.count(caller)), [3, 1, 0, 0]);
    // Neither a name nor a definition can be guessed from what is stored, nor that two callers have the same tool.
    let (text, raw) =
        (stored(&store), ToolDefinition { origin: "".into(), name: "add".into(), raw: ADDS.as_bytes() });
    for known in [digest(&[b"a", b"r"]), digest(&[b"", b"add"]), definition(&raw)] {
        assert!(!text.contains(&known), "{known} {text}");
    }
    let words: Vec<&str> =
        text.split(|it: char| !it.is_ascii_hexdigit()).filter(|it| it.len() > 30).collect();
    let distinct: BTreeSet<&&str> = words.iter().collect();
    assert_eq!(words.len(), distinct.len() + 3, "what one has on both its routes, and nothing else: {text}");

    assert_eq!((pins.forget("a").unwrap(), pins.forget("a").unwrap(), pins.forget("c").unwrap()), (3, 0, 0));
    assert_eq!(stored(&store).lines().count(), 1);
    // At another node its key is gone, and so is what its row said.
    gone.lock().insert("b".to_owned());
    assert_eq!(pins.count("b"), 0);
    let reopened = Pins::open(&store, keys(&gone)).unwrap();
    assert!(!changed(&reopened, "b", SENDS, 1), "nothing is known of it");
    assert!(!changed(&reopened, "a", SENDS, 40));
    assert_eq!(stored(&store).lines().count(), 1, "what nobody can read goes once it is old");
}

#[test]
fn what_version_1_has_pinned_counts_until_it_is_old_or_somebody_is_erased() {
    let (store, mut batch) = (Store::in_memory(), Batch::default());
    let name = digest(&[b"", b"add"]);
    for caller in ["a", "b", "c"] {
        let raw = ToolDefinition { origin: "".into(), name: "add".into(), raw: ADDS.as_bytes() };
        let pinned = definition(&raw);
        let old = format!(r#"{{"v":1,"record":{{"seen_day":3,"pins":{{"{name}":["{pinned}",3]}}}}}}"#);
        let row = digest(&[caller.as_bytes(), b"r"]);
        batch.put("policy.tool_pins", row.into_bytes(), old.into_bytes());
    }
    store.commit(&batch).unwrap();
    let pins = open(&store);
    assert!(changed(&pins, "a", SENDS, 4), "the pin holds");
    assert!(!stored(&store).contains(&digest(&[b"a", b"r"])));
    assert!(changed(&open(&store), "a", SENDS, 5), "and goes on to");
    let erased = open(&store);
    assert_eq!(erased.forget("nobody").unwrap(), 0);
    assert_eq!(stored(&store).lines().count(), 1, "nothing tells whose the others were");
    assert!(!stored(&store).contains(&name));
    assert!(changed(&pins, "b", SENDS, 4));
    let late = open(&store);
    assert!(!changed(&late, "b", SENDS, 4 + 2 * PIN_DAYS));
    assert_eq!(stored(&store).lines().count(), 1);
}

#[test]
fn strangers_make_nobody_forget_the_pins_of_others() {
    let store = Store::in_memory();
    let pins = open(&store);
    assert!(!changed(&pins, "known", ADDS, 0));
    let names: Vec<String> = (0..PINS_PER_CALLER_MAX).map(|at| format!("tool{at}")).collect();
    let tools: Vec<_> = names
        .iter()
        .map(|name| ToolDefinition { origin: "".into(), name: name.into(), raw: b"{}" })
        .collect();
    for stranger in 0..PINS_MAX / PINS_PER_CALLER_MAX + 5 {
        pins.check(&format!("stranger{stranger}"), "r", &tools, on_day(1));
    }
    assert!(pins.known.lock().callers.values().map(|caller| caller.pins.len()).sum::<usize>() <= PINS_MAX);
    assert!(changed(&pins, "known", SENDS, 1));
    // Who is a stranger is known after a restart, too.
    let again = open(&store);
    let tools = |pins: &Pins| pins.known.lock().callers.values().filter(|it| it.is_stranger).count();
    assert_eq!(tools(&again), tools(&pins));
}

#[test]
fn a_clock_that_jumped_lets_no_definition_take_the_place_of_another() {
    let store = Store::in_memory();
    let clock = Arc::new(ManualClock::new(on_day(1000)));
    let pins = open(&store).aged_by(Arc::new(SureClock::since(clock.clone(), None)));
    let (old, new) = (r#"{"name":"add","d":"adds"}"#, r#"{"name":"add","d":"adds and sends"}"#);
    assert!(!changed(&pins, "a", old, 1000));
    clock.set(on_day(2000));
    assert!(!changed(&pins, "b", old, 2000));
    assert!(changed(&pins, "a", new, 2000), "the pin was not forgotten with others");
    clock.set(on_day(1000));
    assert!(changed(&pins, "a", new, 1000) && !changed(&pins, "a", old, 1000));
}
