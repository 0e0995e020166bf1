//! What a key may use is kept to, whatever becomes of its exchanges.

use std::thread;
use std::time::Instant;

use serde_json::Value;
use serde_json::json;

use crate::framing::POLICY;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::upstream::Step;
use crate::upstream::Upstream;
use crate::upstream::chunk;
use crate::upstream::chunked_head;
use crate::usage::ANSWER;
use crate::usage::ASK;
use crate::usage::CHAT;
use crate::usage::admin;
use crate::usage::counted;
use crate::wire::Client;
use crate::wire::PATIENCE;
use crate::wire::Response;
use crate::wire::exchange;
use crate::wire::post;

struct Shop {
    upstream: Upstream,
    gateway: Gateway,
}

impl Shop {
    fn open(upstream: Upstream) -> Self {
        Self::configured(upstream, "")
    }

    /// Opens with more tables of configuration.
    fn configured(upstream: Upstream, tables: &str) -> Self {
        let gateway = Gateway::start(&format!(
            "[[routes]]\nname = \"all\"\npath_prefix = \"/\"\nupstream = \"http://{}\"\nauth = \"gateway_key\"\n\
             {UNLIMITED}{POLICY}{tables}",
            upstream.address
        ));
        Self { upstream, gateway }
    }

    /// Makes a key with a budget; returns the key and its id.
    fn key(&self, budget: &Value) -> (String, String) {
        let wanted = json!({ "name": "app", "role": "service", "budget": budget });
        let (status, made) = admin(&self.gateway, "POST", "/api/v1/keys", &wanted);
        assert_eq!(status, 201, "{made}");
        let text = |name: &str| made[name].as_str().expect("a text").to_owned();
        (text("key"), text("id"))
    }

    fn ask(&self, path: &str, key: &str, body: &str) -> Response {
        let fields = match path {
            "/v1/messages" => format!("x-api-key: {key}\r\n"),
            _ => format!("authorization: Bearer {key}\r\n"),
        };
        exchange(self.gateway.proxy, &post(path, &fields, body))
    }

    /// Waits until so many tokens are settled.
    fn settled(&self, id: &str, tokens: u64) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (_, report) = admin(&self.gateway, "GET", &format!("/api/v1/keys/{id}/budget"), &json!({}));
            if report["today"]["tokens"].as_u64() >= Some(tokens) {
                return report;
            }
            assert!(Instant::now() < deadline, "{report}");
        }
    }
}

#[test]
fn a_key_whose_budget_is_used_up_is_refused_in_its_sdks_words() {
    let mut shop = Shop::open(Upstream::answering("application/json", ANSWER));
    let (key, id) = shop.key(&json!({ "tokens_per_day": 250 }));
    for round in 1..=3 {
        assert_eq!(shop.ask(CHAT, &key, ASK).status, 200, "{round}");
        shop.settled(&id, round * 100);
    }
    // The third was alone, and passed the limit: that is the bound.
    assert_eq!(shop.settled(&id, 300)["today"]["tokens"], 300);
    let refused = shop.ask(CHAT, &key, ASK);
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (429, &json!("budget_exceeded")));
    assert_eq!(refused.header("x-should-retry"), Some("false"));
    let wait: u64 = refused.header("retry-after").expect("when to come back").parse().expect("seconds");
    assert!((1..=86_400).contains(&wait), "{wait}");
    let anthropic = shop.ask("/v1/messages", &key, ASK).json();
    assert_eq!(anthropic["error"]["type"], "rate_limit_error", "{anthropic}");
    assert!(anthropic["error"]["message"].as_str().is_some_and(|it| it.contains("tokens for the day")));
    // Others are not concerned, and a higher limit counts at once.
    let (other, _) = shop.key(&json!({ "tokens_per_month": 1_000_000 }));
    assert_eq!(shop.ask(CHAT, &other, ASK).status, 200);
    let more = json!({ "tokens_per_day": 350 });
    assert_eq!(admin(&shop.gateway, "PUT", &format!("/api/v1/keys/{id}/budget"), &more).0, 200);
    assert_eq!(shop.ask(CHAT, &key, ASK).status, 200);
    shop.settled(&id, 400);
    // What was used outlives the process.
    shop.gateway.end_and_restart();
    assert_eq!(shop.settled(&id, 400)["today"]["tokens"], 400);
    assert_eq!(shop.ask(CHAT, &key, ASK).status, 429);
}

#[test]
fn an_answer_that_waited_for_its_entry_counts_too() {
    let shop = Shop::configured(
        Upstream::answering("application/json", ANSWER),
        "\n[audit]\ndurability = \"wait\"\n",
    );
    let (key, id) = shop.key(&json!({ "tokens_per_day": 100 }));
    assert_eq!(shop.ask(CHAT, &key, ASK).status, 200);
    assert_eq!(shop.settled(&id, 100)["today"]["tokens"], 100);
    assert_eq!(shop.ask(CHAT, &key, ASK).status, 429);
    assert_eq!(counted(&shop.gateway, 1)["total_tokens"], 100);
}

#[test]
fn an_answer_that_is_read_again_is_paid_once() {
    let shop = Shop::open(Upstream::answering("application/json", ANSWER));
    let (key, id) = shop.key(&json!({ "tokens_per_day": 250 }));
    let read = |name: &str| {
        let path = format!("/v1/chat/completions/{name}");
        let head = format!("GET {path} HTTP/1.1\r\nhost: gate\r\nauthorization: Bearer {key}\r\n\r\n");
        exchange(shop.gateway.proxy, head.as_bytes()).status
    };
    for name in ["a", "a", "a", "a", "b"] {
        assert_eq!(read(name), 200, "{name}");
    }
    assert_eq!(shop.settled(&id, 200)["today"]["tokens"], 200);
    assert_eq!(counted(&shop.gateway, 5)["total_tokens"], 200);
}

/// What a header makes another method of may be no reading.
#[test]
fn whoever_overrides_the_method_pays_each_time() {
    let shop = Shop::open(Upstream::answering("application/json", ANSWER));
    let (key, id) = shop.key(&json!({ "tokens_per_day": 100_000 }));
    for _ in 0..3 {
        let head = format!(
            "GET {CHAT} HTTP/1.1\r\nhost: gate\r\nauthorization: Bearer {key}\r\nX-HTTP-Method-Override: POST\r\n\r\n"
        );
        assert_eq!(exchange(shop.gateway.proxy, head.as_bytes()).status, 200);
    }
    assert_eq!(shop.settled(&id, 300)["today"]["tokens"], 300);
}

/// What a batch uses is in no answer to it: a budget would be none.
#[test]
fn work_whose_use_nobody_sees_is_not_for_keys_with_a_budget() {
    let shop = Shop::open(Upstream::answering("application/json", r#"{"id":"x","status":"validating"}"#));
    let (key, id) = shop.key(&json!({ "tokens_per_day": 100_000 }));
    let (free, _) = shop.key(&Value::Null);
    let inline =
        r#"{"requests":[{"custom_id":"1","params":{"model":"gpt-4o-mini","max_tokens":9,"messages":[]}}]}"#;
    for (path, body) in [
        ("/v1/batches", r#"{"input_file_id":"file-1","endpoint":"/v1/chat/completions"}"#),
        ("/v1/messages/batches", inline),
        ("/v1beta/models/gemini-2.0-flash:batchGenerateContent", r#"{"batch":{}}"#),
        ("/v1/fine_tuning/jobs", r#"{"model":"gpt-4o-mini","training_file":"file-1"}"#),
        ("/v1/Fine_Tuning/Jobs/", r#"{"model":"gpt-4o-mini","training_file":"file-1"}"#),
        // What is said with such a secret, or on such a call, goes past the gateway.
        ("/v1/realtime/client_secrets", r#"{"session":{"type":"realtime","model":"gpt-realtime"}}"#),
        ("/v1/realtime/calls", "{}"),
        ("/v1/realtime/calls/call_1/accept", r#"{"type":"realtime","model":"gpt-realtime"}"#),
        ("/v1alpha/auth_tokens", r#"{"uses":1}"#),
    ] {
        let refused = shop.ask(path, &key, body);
        assert_eq!(refused.status, 403, "{path}: {}", refused.text());
        assert!(refused.text().contains("whose use cannot be told"), "{path}: {}", refused.text());
        assert!(shop.upstream.received().is_empty(), "{path}");
        assert_eq!(shop.ask(path, &free, body).status, 200, "{path}");
        shop.upstream.take();
    }
    assert_eq!(shop.ask("/v1/batches/batch_1/cancel", &key, "{}").status, 200);
    assert_eq!(shop.settled(&id, 0)["today"]["tokens"], 0);
}

#[test]
fn money_is_kept_to_and_what_has_no_price_is_not_asked_for() {
    let shop = Shop::open(Upstream::answering("application/json", ANSWER));
    // One answer costs 0.00003225.
    let (key, id) = shop.key(&json!({ "cost_per_month": 0.00005 }));
    let unpriced = ASK.replace("gpt-4o-mini", "nobodys-model");
    let refused = shop.ask(CHAT, &key, &unpriced);
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (403, &json!("model_unpriced")));
    assert!(shop.upstream.received().is_empty());
    for round in 1..=2 {
        assert_eq!(shop.ask(CHAT, &key, ASK).status, 200);
        shop.settled(&id, round * 100);
    }
    let refused = shop.ask(CHAT, &key, ASK);
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (429, &json!("budget_exceeded")));
    assert_eq!(shop.settled(&id, 200)["this_month"]["cost"], json!(0.000_064_5));
}

#[test]
fn exchanges_under_way_hold_what_they_may_use() {
    // The answers come when the test says so.
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{ANSWER}",
        ANSWER.len()
    );
    let shop = Shop::open(Upstream::start(vec![Step::Wait, Step::Send(head.into_bytes())]));
    let (key, id) = shop.key(&json!({ "tokens_per_day": 250 }));
    // Each may write 90 tokens, and its text is five: two fit beside one another, a third does not.
    let ask = ASK.replacen('{', "{\"max_tokens\":90,", 1);
    let (refused, answered) = thread::scope(|scope| {
        let first: Vec<_> = (0..2).map(|_| scope.spawn(|| shop.ask(CHAT, &key, &ask).status)).collect();
        shop.upstream.wait_until(|connections| connections.len() == 2);
        let refused = shop.ask(CHAT, &key, &ask);
        (0..2).for_each(|_| shop.upstream.proceed());
        let answered: Vec<u16> = first.into_iter().map(|it| it.join().expect("it is answered")).collect();
        (refused, answered)
    });
    assert_eq!(answered, [200, 200]);
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (429, &json!("budget_reserved")));
    // It is worth another try, soon.
    assert_eq!((refused.header("retry-after"), refused.header("x-should-retry")), (Some("1"), None));
    shop.settled(&id, 200);
    shop.upstream.proceed();
    assert_eq!(shop.ask(CHAT, &key, &ask).status, 200);
}

/// A prompt without spaces was taken for a file, and nothing was reserved for it.
#[test]
fn prompts_without_spaces_are_held_like_any_text_and_files_are_none() {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{ANSWER}",
        ANSWER.len()
    );
    let signs = "k3Zq9XvB".repeat(5_000);
    let text = json!([{ "role": "user", "content": signs }]);
    let file = json!([{ "role": "user", "content": [{ "type": "file", "file": { "file_data": signs } }] }]);
    let ask = |messages: &Value| json!({ "model": "m", "max_tokens": 90, "messages": messages }).to_string();
    let shop = Shop::open(Upstream::start(vec![Step::Wait, Step::Send(head.into_bytes())]));
    let (key, _) = shop.key(&json!({ "tokens_per_day": 50_000 }));
    let (refused, answered) = thread::scope(|scope| {
        // Each text is some 20,000 tokens: two fit beside one another, and a file beside them.
        let under_way = [&text, &text, &file]
            .into_iter()
            .enumerate()
            .map(|(count, messages)| {
                let asked = scope.spawn(|| shop.ask(CHAT, &key, &ask(messages)).status);
                shop.upstream.wait_until(|connections| connections.len() == count + 1);
                asked
            })
            .collect::<Vec<_>>();
        let refused = shop.ask(CHAT, &key, &ask(&text));
        (0..3).for_each(|_| shop.upstream.proceed());
        (refused.status, under_way.into_iter().map(|it| it.join().expect("answered")).collect::<Vec<u16>>())
    });
    assert_eq!((refused, answered), (429, vec![200, 200, 200]));
}

/// A stream whose second event two readers could read differently.
const UNREAD: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"a\":1,\"a\":2}\n\n";

/// A provider of one kind behind a route of its own, what is asked there, and what the key then pays in tokens.
struct Trouble {
    name: &'static str,
    upstream: Upstream,
    path: &'static str,
    pays: u64,
}

impl Trouble {
    fn new(name: &'static str, upstream: Upstream, path: &'static str, pays: u64) -> Self {
        Self { name, upstream, path, pays }
    }

    fn route(&self) -> String {
        let more = match self.name {
            "slow" => "timeouts = { upstream_first_byte_ms = 300 }\n",
            "generic" => "dialect = \"generic\"\n",
            "unread" => "policy = \"open\"\n",
            _ => "",
        };
        format!(
            "[[routes]]\nname = \"{0}\"\npath_prefix = \"/{0}\"\nstrip_prefix = true\nauth = \"gateway_key\"\n\
             upstream = \"http://{1}\"\n{more}",
            self.name, self.upstream.address
        )
    }
}

/// A caller cannot talk itself out of paying: 18 bytes were asked, which make 5 tokens, and 90 may be written.
#[test]
fn what_a_provider_was_asked_is_paid_though_nobody_read_its_answer() {
    let closing = |head: &str| Upstream::start(vec![Step::Send(head.as_bytes().to_vec()), Step::Close]);
    let role = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n";
    let silent = vec![Step::Send(chunked_head("text/event-stream")), Step::Send(chunk(role)), Step::Wait];
    let begun = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{";
    let failed = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n";
    let json = |body| Upstream::answering("application/json", body);
    let gone = Upstream::start(Vec::new()).address;
    let all = [
        // These cost nothing: nobody was asked, or nobody worked.
        Trouble::new("broken", Upstream::start(vec![Step::Close]), CHAT, 0),
        Trouble::new("failed", closing(failed), CHAT, 0),
        Trouble::new("counting", json(r#"{"input_tokens":5}"#), "/v1/messages/count_tokens", 0),
        Trouble::new("left", Upstream::start(vec![Step::Wait]), CHAT, 95),
        Trouble::new("halfway", Upstream::start(vec![Step::Send(begun.into()), Step::Wait]), CHAT, 95),
        Trouble::new("slow", Upstream::start(vec![Step::Wait]), CHAT, 95),
        Trouble::new("ambiguous", json(r#"{"usage":1,"usage":2}"#), CHAT, 95),
        Trouble::new("sound", Upstream::answering("audio/mpeg", "\u{1}bytes"), "/v1/audio/speech", 95),
        // Its caller leaves while it thinks, as far as anybody knows.
        Trouble::new("wordless", Upstream::start(silent), CHAT, 95),
        // Nobody could read this stream, and it was let through.
        Trouble::new("unread", Upstream::answering("text/event-stream", UNREAD), CHAT, 95),
        // Four bytes of what an API nobody knows calls its text make a token, too.
        Trouble::new("generic", json(r#"{"generated_text":"sixteen letters!"}"#), "/generate", 9),
    ];
    let routes: String = all.iter().map(Trouble::route).collect();
    let unreachable = format!(
        "[[routes]]\nname = \"gone\"\npath_prefix = \"/gone\"\nauth = \"gateway_key\"\nupstream = \"http://{gone}\"\n"
    );
    let open = "[policies.open]\nfail_mode = \"open\"\n";
    let gateway = Gateway::start(&format!("{routes}{unreachable}{UNLIMITED}{POLICY}{open}"));
    let shop = Shop { upstream: Upstream::start(Vec::new()), gateway };
    let (key, id) = shop.key(&json!({ "tokens_per_day": 1_000_000 }));
    let ask = ASK.replacen('{', "{\"max_tokens\":90,", 1);
    let mut paid = 0;
    for (number, Trouble { name, upstream, path, pays }) in (1..).zip(&all) {
        let fields = format!("authorization: Bearer {key}\r\n");
        let mut client = Client::connect(shop.gateway.proxy);
        client.send(&post(&format!("/{name}{path}"), &fields, &ask));
        match *name {
            "left" | "halfway" => {
                upstream.wait_until(|received| received.iter().any(|it| it.bytes.ends_with(b"}]}")));
            }
            "wordless" => assert_eq!(client.head().expect("a head").status, 200),
            _ => drop(client.response().expect("an answer")),
        }
        drop(client);
        counted(&shop.gateway, number);
        paid += pays;
        assert_eq!(shop.settled(&id, paid)["today"]["tokens"], json!(paid), "{name}");
    }
}

#[test]
fn an_answer_under_another_name_costs_what_was_asked_for() {
    let answer = ANSWER.replace("gpt-4o-mini-2024-07-18", "prod-deployment-7");
    let shop = Shop::open(Upstream::answering("application/json", &answer));
    // One answer costs 0.00003225.
    let (key, id) = shop.key(&json!({ "cost_per_month": 0.00005 }));
    for round in 1..=2 {
        assert_eq!(shop.ask(CHAT, &key, ASK).status, 200);
        shop.settled(&id, round * 100);
    }
    assert_eq!(shop.settled(&id, 200)["this_month"]["cost"], json!(0.000_064_5));
    let refused = shop.ask(CHAT, &key, ASK);
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (429, &json!("budget_exceeded")));
    // Reports name what answered, which has no price.
    let (_, cost) = admin(&shop.gateway, "GET", "/api/v1/analytics/cost", &json!({}));
    assert_eq!(cost["by_model"]["prod-deployment-7"]["unpriced_tokens"], 200, "{cost}");
}

#[test]
fn money_is_no_obstacle_where_no_model_works_or_the_model_stands_elsewhere() {
    let shop = Shop::open(Upstream::answering("application/json", r#"{"id":"x","object":"y"}"#));
    let (key, _) = shop.key(&json!({ "cost_per_month": 5 }));
    let form = |name: &str, value: &str| {
        format!(
            "--b\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n--b\r\n\
             content-disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nabc\r\n--b--\r\n"
        )
    };
    let send = |method: &str, path: &str, media: &str, body: &str| {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {key}\r\ncontent-type: {media}\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = exchange(shop.gateway.proxy, request.as_bytes());
        (answer.status, answer.text())
    };
    let (json, parts) = ("application/json", "multipart/form-data; boundary=b");
    let azure = "/openai/deployments/gpt-4o-mini/chat/completions?api-version=1";
    let unnamed = r#"{"messages":[]}"#;
    for (method, path, media, body, status) in [
        ("DELETE", "/v1/responses/resp_1", json, "", 200),
        ("POST", "/v1/files", parts, &*form("purpose", "batch"), 200),
        ("POST", "/v1/audio/transcriptions", parts, &*form("model", "gpt-4o-mini"), 200),
        ("POST", azure, json, unnamed, 200),
        ("POST", "/v1/audio/transcriptions", parts, &*form("model", "nobodys"), 403),
        ("POST", "/v1/audio/transcriptions", parts, &*form("language", "en"), 403),
        ("POST", CHAT, json, unnamed, 403),
    ] {
        let (found, text) = send(method, path, media, body);
        assert_eq!(found, status, "{method} {path} {body}: {text}");
        assert!(status == 200 || text.contains("model_unpriced"), "{text}");
    }
}
