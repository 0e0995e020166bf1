//! What the deployment vouches for: its signing keys.

use crate::transcript::Transcript;
use crate::transcript::ask;

#[tokio::test]
async fn signing() {
    let mut t = Transcript::begin("signing");
    let told = t.say("the public keys, for everybody", ask("GET", "/.well-known/jwks.json")).await;
    let first = told.body["keys"][0]["kid"].clone();
    t.say("how old they are", ask("GET", "/api/v1/signing/keys").by("operator")).await;
    let rotate = |body: &str| ask("POST", "/api/v1/signing/rotate").by("admin").body(body);
    let told = t.say("a new key", rotate(r#"{"withdraw": false}"#)).await;
    assert_ne!(told.body["kid"], first);
    let told = t.say("both are published", ask("GET", "/.well-known/jwks.json")).await;
    assert_eq!(told.body["keys"][1]["kid"], first);
    t.say("a new key, and the others withdrawn", rotate(r#"{"withdraw": true}"#)).await;
    let told = t.say("one is published", ask("GET", "/.well-known/jwks.json")).await;
    assert_eq!(told.body["keys"].as_array().map(Vec::len), Some(1));
    t.say("neither way", rotate("{}")).await;
    t.end();
}
