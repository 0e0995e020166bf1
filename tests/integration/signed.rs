//! Bodies that their caller has signed by AWS Signature Version 4.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::framing::secret;
use crate::gateway::Gateway;
use crate::upstream::Upstream;
use crate::wire::exchange;
use crate::wire::post;

const REDACTING: &str = "[limits]\nscan_ms = 60000\n[policies.default]\nfail_mode = \"closed\"\n\
                         [policies.default.categories.secrets]\nmode = \"redact\"\n";
const PATH: &str = "/model/anthropic.claude/invoke";

const SIGNED: &str = "authorization: AWS4-HMAC-SHA256 Credential=x/20261121/us-east-1/bedrock/aws4_request, \
                      SignedHeaders=host, Signature=0\r\n";

#[test]
fn a_signed_body_with_a_coding_is_refused_for_it_and_blocks_nothing() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = Gateway::in_front_of(upstream.address, REDACTING);
    let body = r#"{"messages":[{"role":"user","content":"hello"}]}"#;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(body.as_bytes()).expect("it is written");
    let encoded = encoder.finish().expect("it ends");
    let send = |signature: &str| {
        let head = format!(
            "POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n\
             {signature}content-length: {}\r\n\r\n",
            encoded.len()
        );
        exchange(gateway.proxy, &[head.as_bytes(), &encoded].concat())
    };
    assert_eq!(send("").status, 200);
    let refused = send(SIGNED);
    assert_eq!((refused.status, upstream.received().len()), (415, 1), "{}", refused.text());
    assert!(
        refused.text().contains("unsupported_coding") && refused.text().contains("decoded"),
        "{}",
        refused.text()
    );
    assert_eq!(refused.header("x-portcullis-action"), Some("block"));
}

#[test]
fn a_signed_body_leaves_as_it_came_or_not_at_all() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = Gateway::in_front_of(upstream.address, REDACTING);
    let clean = r#"{"messages":[{"role":"user","content":"hello"}],"max_tokens":5}"#.to_owned();
    let leaking = clean.replace("hello", &format!("my key is {}", secret()));
    let header = SIGNED;
    let unsigned = format!("{header}x-amz-content-sha256: UNSIGNED-PAYLOAD\r\n");
    let presigned = format!("{PATH}?X-Amz-Signature=0");
    let send = |path: &str, headers: &str, body: &str| {
        let answer = exchange(gateway.proxy, &post(path, headers, body));
        let body_of = |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).expect("text");
            text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).expect("a whole head")
        };
        (answer.status, upstream.take().pop().map(|asked| body_of(asked.bytes)))
    };
    for (path, headers) in [(PATH, header), (presigned.as_str(), "")] {
        assert_eq!(send(path, headers, &clean), (200, Some(clean.clone())), "{path}");
        assert_eq!(send(path, headers, &leaking), (403, None), "{path}");
    }
    let told = exchange(gateway.proxy, &post(PATH, header, &leaking));
    let told: Value = serde_json::from_slice(&told.body).expect("JSON");
    assert!(told.to_string().contains("signature covers the body"), "{told}");
    // A signature that leaves the body out, and covers its length or a digest of it, would be as broken.
    for told in ["content-length", "content-md5"] {
        let telling = unsigned.replace("SignedHeaders=host", &format!("SignedHeaders={told};host"));
        let telling = format!("{telling}content-md5: x\r\n");
        assert_eq!(send(PATH, &telling, &clean), (200, Some(clean.clone())), "{told}");
        assert_eq!(send(PATH, &telling, &leaking), (403, None), "{told}");
    }
    // Where the body is not signed, or nothing is, it is redacted as always.
    for headers in [unsigned.as_str(), "authorization: Bearer x\r\n"] {
        let (status, body) = send(PATH, headers, &leaking);
        let body = body.expect("a request");
        assert!(status == 200 && body.contains("my key is") && !body.contains(&secret()), "{body}");
    }
}

/// A provider that checks a digest would refuse what was redacted, and nobody would see why.
#[test]
fn digests_of_a_body_leave_with_the_body_they_are_of() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = Gateway::in_front_of(upstream.address, REDACTING);
    let clean = r#"{"messages":[{"role":"user","content":"hello"}],"max_tokens":5}"#.to_owned();
    let leaking = clean.replace("hello", &format!("my key is {}", secret()));
    let digests =
        "content-md5: a\r\ndigest: SHA-256=a\r\ncontent-digest: sha-256=:a:\r\nrepr-digest: sha-256=:a:\r\n";
    for (body, left) in [(&clean, 4), (&leaking, 0)] {
        assert_eq!(exchange(gateway.proxy, &post("/v1/chat/completions", digests, body)).status, 200);
        let asked = upstream.take().pop().expect("a request");
        let head = String::from_utf8_lossy(&asked.bytes).to_lowercase();
        let head = head.split("\r\n\r\n").next().unwrap_or_default().to_owned();
        let told = head.lines().filter(|line| line.contains("digest:") || line.starts_with("content-md5:"));
        assert_eq!(told.count(), left, "{head}");
    }
}
