//! Transcripts: what was asked and answered, with what differs from run to run under a name.
//!
//! `UPDATE_TRANSCRIPTS=1` writes them anew, and from them the examples of the API document; a second time, the document
//! with these. A change of the contract then shows as a difference of text.

use std::collections::BTreeMap;
use std::path::Path;

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use portcullis::access::tier::Tier;
use portcullis::admin::routes::routes;
use regex::Regex;
use serde_json::Value;
use serde_json::json;

use crate::world::World;

/// The longest body that is shown whole, in lines.
const LINES_MAX: usize = 70;
const SHOWN_HEADERS: [&str; 9] = [
    "content-type",
    "content-disposition",
    "etag",
    "allow",
    "www-authenticate",
    "retry-after",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
];

/// What stands in examples for what differs from run to run.
const SAMPLES: [(&str, &str); 13] = [
    ("{key}", "pk_(49 letters and digits)"),
    ("{token}", "eyJ(a token)"),
    ("{ulid}", "01JT5R8Q2M3N4P5Q6R7S8T9V0W"),
    ("{key of 32 bytes}", "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"),
    ("{signature}", "(64 bytes in base64url)"),
    ("{base64}", "eyJhIjoxfQ=="),
    ("{hash}", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    ("{digest}", "d41d8cd98f00b204e9800998ecf8427e"),
    ("{bytes}", "65536"),
    ("{admin}", "pk_(that of the administrator)"),
    ("{operator}", "pk_(that of an operator)"),
    ("{auditor}", "pk_(that of an auditor)"),
    ("{analyst}", "pk_(that of an analyst)"),
];

/// A conversation under way.
pub struct Transcript {
    pub world: World,
    name: &'static str,
    text: String,
    examples: BTreeMap<String, Value>,
}

/// One request to be sent.
pub struct Ask<'a> {
    method: &'a str,
    path: &'a str,
    role: Option<&'a str>,
    fields: Vec<(&'a str, String)>,
    body: String,
}

/// An answer, for what follows from it.
pub struct Told {
    pub status: u16,
    pub body: Value,
    pub etag: String,
}

/// Begins a request.
pub fn ask<'a>(method: &'a str, path: &'a str) -> Ask<'a> {
    Ask { method, path, role: None, fields: Vec::new(), body: String::new() }
}

impl<'a> Ask<'a> {
    /// Presents the key of a role, or a text in its place.
    pub fn by(mut self, role: &'a str) -> Self {
        self.role = Some(role);
        self
    }

    /// Adds a header field.
    pub fn with(mut self, name: &'a str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// Adds a body.
    pub fn body(mut self, body: impl Into<String>) -> Self {
        self.body = body.into();
        self
    }
}

impl Transcript {
    /// Begins a conversation with a plane of its own.
    pub fn begin(name: &'static str) -> Self {
        Self::begin_in(name, World::start(Tier::Professional))
    }

    /// Begins a conversation with a plane that differs.
    pub fn begin_in(name: &'static str, world: World) -> Self {
        Self { world, name, text: String::new(), examples: BTreeMap::new() }
    }

    /// Asks, notes the answer under a title, and returns it.
    pub async fn say(&mut self, title: &str, asked: Ask<'_>) -> Told {
        let mut request = Request::builder().method(asked.method).uri(asked.path);
        self.text += &format!("# {title}\n> {} {}\n", asked.method, asked.path);
        if !asked.fields.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", "localhost:9090");
        }
        if let Some(role) = asked.role {
            request = request.header("x-api-key", self.world.key(role));
            self.text += &format!("> x-api-key: {{{role}}}\n");
        }
        for (name, value) in &asked.fields {
            request = request.header(*name, value);
            self.text += &format!("> {name}: {value}\n");
        }
        if (1..2000).contains(&asked.body.len()) {
            self.text += &format!("> {}\n", asked.body);
        }
        let sent: Value = serde_json::from_str(&asked.body).unwrap_or(Value::Null);
        let response = self.world.send(request.body(Body::from(asked.body)).unwrap()).await;
        let (head, body) = response.into_parts();
        self.text += &format!("< {}\n", head.status);
        for name in SHOWN_HEADERS {
            let values = head.headers.get_all(name).iter();
            values.for_each(|value| self.text += &format!("< {name}: {}\n", value.to_str().unwrap()));
        }
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let json: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        let shown = if json.is_null() { text } else { serde_json::to_string_pretty(&json).unwrap() };
        self.text += &format!("{}\n\n", shortened(&shown));
        if let Some(operation) = operation(asked.method, asked.path).filter(|_| head.status.is_success()) {
            let mut answer = json.clone();
            cut(&mut answer);
            let known = self.examples.entry(operation).or_insert(Value::Null);
            if known["request"].is_null() && (known.is_null() || !sent.is_null()) {
                *known = json!({ "request": sent, "response": answer });
            }
        }
        let etag = head.headers.get("etag").map_or(String::new(), |etag| etag.to_str().unwrap().to_owned());
        Told { status: head.status.as_u16(), body: json, etag }
    }

    /// Compares the conversation with the one that is kept.
    pub fn end(self) {
        is_as_kept(&self.normalised(&self.text), &format!("tests/api/transcripts/{}.txt", self.name));
        if self.examples.is_empty() {
            return;
        }
        let examples = self.normalised(&serde_json::to_string_pretty(&self.examples).unwrap());
        let examples = SAMPLES.iter().fold(examples, |text, (name, sample)| text.replace(name, sample));
        is_as_kept(&format!("{examples}\n"), &format!("src/admin/openapi/examples/{}.json", self.name));
    }

    fn normalised(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (role, key) in self.world.keys() {
            text = text.replace(key.as_str(), &format!("{{{role}}}"));
        }
        let names = [
            (r"pk_[0-9A-Za-z]{49}", "{key}"),
            (r"eyJ[0-9A-Za-z_-]+\.[0-9A-Za-z_-]+\.[0-9A-Za-z_-]+", "{token}"),
            (r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b", "{ulid}"),
            (r#""(kid|x)": "[A-Za-z0-9_-]{43}""#, r#""$1": "{key of 32 bytes}""#),
            (r#""(payload|sig)": "[A-Za-z0-9+/=]+""#, r#""$1": "{base64}""#),
            (r#""(keyid|key_id|public_key)": "[A-Za-z0-9_-]{43}""#, r#""$1": "{key of 32 bytes}""#),
            (r#""signature": "[A-Za-z0-9_-]{86}""#, r#""signature": "{signature}""#),
            (r"\b[0-9a-f]{64}\b", "{hash}"),
            (r"\b[0-9a-f]{32}\b", "{digest}"),
            (r#""size_bytes": [0-9]+"#, r#""size_bytes": {bytes}"#),
        ];
        for (pattern, name) in names {
            text = Regex::new(pattern).unwrap().replace_all(&text, name).into_owned();
        }
        text
    }
}

/// Compares what was found with a file, or writes it.
pub fn is_as_kept(found: &str, path: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE_TRANSCRIPTS").is_some() {
        std::fs::write(&path, found).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = found.lines().zip(kept.lines()).position(|(found, kept)| found != kept);
    let at = differs.unwrap_or_else(|| found.lines().count().min(kept.lines().count()));
    let line = |text: &str| text.lines().nth(at).unwrap_or("(ends)").to_owned();
    let place = format!("{}:{}", path.display(), at + 1);
    assert!(found == kept, "{place}\n kept: {}\nfound: {}\n\n{found}", line(&kept), line(found));
}

/// Returns the operation that answers a path, as the API document names it.
fn operation(method: &str, path: &str) -> Option<String> {
    let asked: Vec<&str> = path.split('?').next()?.split('/').collect();
    let fits = |written: &str| {
        let written: Vec<&str> = written.split('/').collect();
        let is_same = |(written, asked): (&&str, &&str)| written.starts_with('{') || written == asked;
        written.len() == asked.len() && written.iter().zip(&asked).all(is_same)
    };
    let fitting = routes().into_iter().filter(|route| route.method == *method && fits(route.path));
    // The document is no example of itself.
    let fitting = fitting.filter(|route| route.path != "/openapi.json");
    let closest = fitting.min_by_key(|route| route.path.matches('{').count())?;
    Some(format!("{method} {}", closest.path))
}

/// Leaves two items of each list: an example shows what they are, not all of them.
fn cut(value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.truncate(2);
            items.iter_mut().for_each(cut);
        }
        Value::Object(members) => members.values_mut().for_each(cut),
        _ => {}
    }
}

fn shortened(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    match lines.get(..LINES_MAX) {
        Some(shown) if lines.len() > LINES_MAX => format!("{}\n(and so on)", shown.join("\n")),
        _ => lines.join("\n"),
    }
}

impl Transcript {
    /// Returns the configuration as a client reads it, without noting it.
    pub async fn world_config(&self) -> String {
        let request = Request::get("/api/v1/config").header("host", "localhost:9090");
        let request = request.header("x-api-key", self.world.key("operator"));
        let response = self.world.send(request.body(Body::empty()).unwrap()).await;
        String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }
}
