//! Names in the traffic of a gateway: left alone until a policy names them, and redacted from that moment on.

use serde_json::json;

use crate::framing::POLICY;
use crate::gateway::Gateway;
use crate::upstream::Upstream;
use crate::usage::admin;
use crate::wire::exchange;
use crate::wire::post;

#[test]
fn names_are_redacted_from_the_moment_a_policy_names_them() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = Gateway::in_front_of(upstream.address, POLICY);
    let body = r#"{"model":"m","messages":[{"role":"user","content":"My name is Maria Lopez."}]}"#;
    let sent = || {
        assert_eq!(exchange(gateway.proxy, &post("/v1/chat/completions", "", body)).status, 200);
        let last = upstream.take().pop().expect("the upstream was asked");
        let text = String::from_utf8(last.bytes).expect("UTF-8");
        text.split_once("\r\n\r\n").expect("a head").1.to_owned()
    };
    assert_eq!(sent(), body);
    let redact =
        json!({ "policies": { "default": { "detectors": { "person_name": { "mode": "redact" } } } } });
    let (status, told) = admin(&gateway, "PUT", "/api/v1/config", &redact);
    assert_eq!(status, 200, "{told}");
    assert_eq!(sent(), body.replace("Maria Lopez", "[REDACTED:person_name]"));
    let (status, told) =
        admin(&gateway, "POST", "/api/v1/screen", &json!({ "prompt": "My name is Maria Lopez." }));
    assert!(
        status == 200 && told["action"] == "redact",
        "a text that is screened is judged like one that is sent: {told}"
    );
    let wrong = json!({ "policies": { "default": { "detectors": { "persn_name": { "mode": "redact" } } } } });
    let (status, told) = admin(&gateway, "PUT", "/api/v1/config", &wrong);
    assert!(status == 400 && told.to_string().contains("person_name"), "{status} {told}");
}
