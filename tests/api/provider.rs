//! An identity provider that says what a test wants it to say, over real sockets.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use portcullis::access::jose::SigningKey;
use serde_json::Value;
use serde_json::json;
use tokio::io::AsyncBufReadExt;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::io::BufReader;
use tokio::net::TcpListener;
use tokio::net::TcpStream;

/// What is said at a path.
#[derive(Clone)]
pub struct Reply {
    pub status: u16,
    pub fields: String,
    pub body: String,
}

/// A question that was asked.
#[derive(Clone, Debug)]
pub struct Asked {
    pub path: String,
    pub head: String,
    pub body: String,
}

type Replies = Arc<Mutex<BTreeMap<String, Reply>>>;

/// A running provider; it goes with the test's runtime.
pub struct Provider {
    pub issuer: String,
    pub key: SigningKey,
    replies: Replies,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Provider {
    /// Starts one that says all the right things but for tokens, which [`Provider::gives`].
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        let (replies, asked): (Replies, Arc<Mutex<Vec<Asked>>>) = Default::default();
        let (said, heard) = (Arc::clone(&replies), Arc::clone(&asked));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&said), Arc::clone(&heard)));
            }
        });
        let provider =
            Self { issuer: format!("http://{address}"), key: SigningKey::generate(), replies, asked };
        provider.publishes(json!({}));
        provider.has_keys(&[("k1", &provider.key)]);
        provider
    }

    /// Says something at a path from now on.
    pub fn says(&self, path: &str, status: u16, body: impl Into<String>) {
        self.replies
            .lock()
            .insert(path.to_owned(), Reply { status, fields: String::new(), body: body.into() });
    }

    /// Leads elsewhere from a path.
    pub fn leads(&self, path: &str, status: u16, place: &str) {
        let fields = format!("location: {place}\r\n");
        self.replies.lock().insert(path.to_owned(), Reply { status, fields, body: String::new() });
    }

    /// Publishes its metadata, with a change.
    pub fn publishes(&self, change: Value) {
        let issuer = &self.issuer;
        let mut metadata = json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/authorize?tenant=1"),
            "token_endpoint": format!("{issuer}/token"),
            "userinfo_endpoint": format!("{issuer}/userinfo"),
            "end_session_endpoint": format!("{issuer}/end"),
            "jwks_uri": format!("{issuer}/keys"),
        });
        merge(&mut metadata, change);
        self.says("/.well-known/openid-configuration", 200, metadata.to_string());
    }

    /// Publishes these keys, beside an RSA key that signs nothing.
    pub fn has_keys(&self, keys: &[(&str, &SigningKey)]) {
        let public = |(id, key): &(&str, &SigningKey)| json!({ "kty": "OKP", "crv": "Ed25519", "kid": id, "use": "sig", "x": URL_SAFE_NO_PAD.encode(key.public()) });
        let mut all: Vec<Value> = keys.iter().map(public).collect();
        all.push(json!({ "kty": "RSA", "kid": "rsa", "use": "sig", "n": modulus(), "e": "AQAB" }));
        self.says("/keys", 200, json!({ "keys": all }).to_string());
    }

    /// Gives this token for whatever code.
    pub fn gives(&self, id_token: &str) {
        let tokens = json!({ "access_token": "access", "token_type": "Bearer", "id_token": id_token });
        self.says("/token", 200, tokens.to_string());
    }

    /// Returns what was asked since the last time.
    pub fn take(&self) -> Vec<Asked> {
        std::mem::take(&mut self.asked.lock())
    }
}

/// Returns the modulus of an RSA key whose primes nobody knows, ours included.
pub fn modulus() -> String {
    URL_SAFE_NO_PAD.encode([0xc5; 256])
}

/// Puts a change over an object; null takes a member away.
pub fn merge(value: &mut Value, change: Value) {
    let (Value::Object(target), Value::Object(change)) = (value, change) else { panic!("expected objects") };
    for (name, new) in change {
        match new {
            Value::Null => drop(target.remove(&name)),
            new => drop(target.insert(name, new)),
        }
    }
}

async fn serve(stream: TcpStream, replies: Replies, asked: Arc<Mutex<Vec<Asked>>>) {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let length = head.to_ascii_lowercase().lines().find_map(|line| {
        line.strip_prefix("content-length: ").and_then(|length| length.parse::<usize>().ok())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await.unwrap();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let body = String::from_utf8(body).unwrap();
    asked.lock().push(Asked { path: path.clone(), head, body });
    let reply = replies.lock().get(&path).cloned();
    let Reply { status, fields, body } =
        reply.unwrap_or(Reply { status: 404, fields: String::new(), body: String::new() });
    let answer = format!(
        "HTTP/1.1 {status} x\r\n{fields}content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    // Whoever asked may have left before an answer that is too long ended.
    let _ = stream.get_mut().write_all(answer.as_bytes()).await;
    let _ = stream.get_mut().shutdown().await;
}
