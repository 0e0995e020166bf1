//! The shared rows, as far as the evaluation reads them.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A text that is an attack or not.
#[derive(Deserialize)]
pub struct Text {
    /// The text.
    pub text: String,
    /// 1 for an attack, 0 for none; nothing where it does not count.
    #[serde(default)]
    pub label: Option<u8>,
    /// What it is.
    #[serde(default)]
    pub kind: String,
    /// Where it is from.
    pub source: String,
}

/// A text with a secret, or without.
#[derive(Deserialize)]
pub struct Secret {
    /// The text.
    pub text: String,
    /// The secret in it.
    #[serde(default)]
    pub secret: Option<String>,
    /// What the secret is.
    #[serde(default)]
    pub rule: Option<String>,
    /// 1 where there is a secret, 0 where there is none; nothing where nobody knows.
    #[serde(default)]
    pub label: Option<u8>,
    /// Where it is from.
    pub source: String,
}

/// A text with personal data.
#[derive(Deserialize)]
pub struct Personal {
    /// The text.
    pub text: String,
    /// What is in it.
    pub spans: Vec<Span>,
    /// What it shows none of, where its source says so.
    #[serde(default)]
    pub neg_for: Option<String>,
    /// Where it is from.
    pub source: String,
}

/// One piece of personal data; offsets count characters.
#[derive(Deserialize)]
pub struct Span {
    /// The first character.
    pub start: usize,
    /// The first character behind it.
    pub end: usize,
    /// What it is.
    pub r#type: String,
}

/// A body that a provider was sent or answered, as it was recorded.
#[derive(Deserialize)]
pub struct Recorded {
    /// Whose traffic it is.
    pub provider: String,
    /// The provider's dialect, a dash, and the API.
    pub dialect: String,
    /// Which way it went.
    pub direction: String,
    /// Its `Content-Type`.
    pub content_type: String,
    /// Whether the answer is a stream; said of the request for it, too.
    pub stream: bool,
    /// What it is.
    pub body: String,
    /// How `body` is written: `utf-8` or `base64`.
    pub body_encoding: String,
}

impl Recorded {
    /// Tells whether it went to the provider.
    pub fn is_request(&self) -> bool {
        self.direction == "request"
    }

    /// Returns the bytes that went over the wire, if they can be told.
    pub fn bytes(&self) -> Option<Bytes> {
        match self.body_encoding.as_str() {
            "base64" => STANDARD.decode(&self.body).ok().map(Bytes::from),
            _ => Some(Bytes::copy_from_slice(self.body.as_bytes())),
        }
    }
}

/// Returns the folder of the shared rows.
pub fn shared() -> PathBuf {
    std::env::var_os("PORTCULLIS_SHARED").map_or_else(|| PathBuf::from("../shared/data/train"), PathBuf::from)
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, Box<dyn Error>> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// Reads the texts that are attacks or not.
pub fn injection(shared: &Path) -> Result<Vec<Text>, Box<dyn Error>> {
    read(&shared.join("injection.jsonl"))
}

/// Reads long harmless texts.
pub fn long(shared: &Path) -> Result<Vec<Text>, Box<dyn Error>> {
    read(&shared.join("benign_long.jsonl"))
}

/// Reads secrets.
pub fn secrets(shared: &Path) -> Result<Vec<Secret>, Box<dyn Error>> {
    read(&shared.join("secrets.jsonl"))
}

/// Reads personal data.
pub fn personal(shared: &Path) -> Result<Vec<Personal>, Box<dyn Error>> {
    read(&shared.join("pii.jsonl"))
}

/// Reads recorded traffic, provider by provider.
pub fn traffic(shared: &Path) -> Result<Vec<Recorded>, Box<dyn Error>> {
    let folder = shared.join("traffic");
    let files = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths = files.map(|file| Ok(file?.path())).collect::<std::io::Result<Vec<PathBuf>>>()?;
    paths.sort();
    let mut recorded = Vec::new();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|it| it == "jsonl")) {
        recorded.extend(read::<Recorded>(path)?);
    }
    Ok(recorded)
}
