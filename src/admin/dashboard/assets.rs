//! What pages load beside themselves: one stylesheet, one picture, and scripts that are plain ES modules.
//!
//! All of it is in the program, and nothing is built: what is in `assets/` is what browsers get. Addresses carry a
//! digest of everything, so that browsers may keep what they have for ever and never mix two releases. There is no
//! chart library among them: the figures are few, and drawing them as SVG in a few lines ([`chart.js`](./assets)) keeps
//! other people's code out of the tree and out of the page that holds the session.

use std::sync::OnceLock;

use axum::body::Body;
use http::HeaderValue;
use http::Response;
use http::header;
use sha2::Digest;
use sha2::Sha256;

use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::error::ApiError;

/// Where assets are: the digest, and the file's name.
pub const PATH: &str = "/assets/{version}/{name}";

/// How many bytes of the digest stand in addresses.
const VERSION_BYTES: usize = 8;
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// What another release asks for is not kept: the page it belongs to goes away with it.
const NOT_AT_ALL: HeaderValue = HeaderValue::from_static("no-store");

/// The media types there are, by the end of a name.
pub const MEDIA: [(&str, &str); 3] =
    [("css", "text/css; charset=utf-8"), ("js", "text/javascript; charset=utf-8"), ("svg", "image/svg+xml")];

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("assets/", $name)))),*]
    };
}

/// Every file, by its name.
const FILES: &[(&str, &str)] = files![
    "abtests.js",
    "api.js",
    "app.js",
    "audit.js",
    "chart.js",
    "compliance.js",
    "detectors.js",
    "dialog.js",
    "difference.js",
    "docs.js",
    "dom.js",
    "entry.js",
    "format.js",
    "icon.svg",
    "keys.js",
    "license.js",
    "live.js",
    "overview.js",
    "people.js",
    "policies.js",
    "portcullis.css",
    "privacy.js",
    "routes.js",
    "screen.js",
    "siem.js",
    "stream.js",
    "system.js",
    "trust.js",
    "ui.js",
    "usage.js",
];

/// Returns the address of a file.
pub fn address(name: &str) -> String {
    format!("/assets/{}/{name}", version())
}

/// `GET /assets/{version}/{name}`.
pub async fn serve(call: Call) -> Answer {
    let name = call.parameter("name");
    let unknown = || ApiError::NotFound("there is no such file".to_owned());
    let (_, text) = FILES.iter().find(|(known, _)| *known == name).ok_or_else(unknown)?;
    let end = name.rsplit_once('.').map_or("", |(_, end)| end);
    let (_, media) = MEDIA.iter().find(|(known, _)| *known == end).ok_or_else(unknown)?;
    let mut response = Response::new(Body::from(*text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    let kept = if call.parameter("version") == version() { FOR_EVER } else { NOT_AT_ALL };
    headers.insert(header::CACHE_CONTROL, kept);
    Ok(response)
}

fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let mut digest = Sha256::new();
        for (name, text) in FILES {
            digest.update(name.as_bytes());
            digest.update([0]);
            digest.update(text.as_bytes());
            digest.update([0]);
        }
        digest.finalize().iter().take(VERSION_BYTES).map(|byte| format!("{byte:02x}")).collect()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_file_is_listed_and_has_a_media_type() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/admin/dashboard/assets");
        let there: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        let listed: BTreeSet<String> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(there, listed);
        for name in listed {
            assert!(MEDIA.iter().any(|(end, _)| name.ends_with(&format!(".{end}"))), "{name}");
        }
    }

    /// What a script imports is there, and nothing in it makes markup of text, or asks another host.
    #[test]
    fn scripts_load_what_is_there_and_write_text_only() {
        const NEVER: [&str; 9] = [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "setAttribute('style'",
            "srcdoc",
            "createContextualFragment",
        ];
        for (name, text) in FILES.iter().filter(|(name, _)| name.ends_with(".js")) {
            for never in NEVER {
                assert!(!text.contains(never), "{name}: {never}");
            }
            for line in text.lines().filter(|line| line.starts_with("import ")) {
                let from = line.split('\'').nth(1).unwrap_or_default();
                let file = from.strip_prefix("./").unwrap_or_default();
                assert!(FILES.iter().any(|(known, _)| *known == file), "{name}: {line}");
            }
        }
    }
}
