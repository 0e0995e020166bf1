//! Profiles: named sets of changes for kinds of deployments, kept as data in `conf/profiles`.

use serde_json::Map;
use serde_json::Value;

use crate::document::toml;

/// One profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The name it is applied by.
    pub id: &'static str,
    /// Its name for people.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The tier it is meant for.
    pub tier: String,
    /// What it changes: a merge patch of the reloadable part.
    pub patch: Map<String, Value>,
}

const EMBEDDED: [(&str, &str); 9] = [
    ("quickstart", include_str!("../../conf/profiles/quickstart.toml")),
    ("small-team", include_str!("../../conf/profiles/small-team.toml")),
    ("production", include_str!("../../conf/profiles/production.toml")),
    ("high-security", include_str!("../../conf/profiles/high-security.toml")),
    ("air-gapped", include_str!("../../conf/profiles/air-gapped.toml")),
    ("community", include_str!("../../conf/profiles/community.toml")),
    ("developer", include_str!("../../conf/profiles/developer.toml")),
    ("professional", include_str!("../../conf/profiles/professional.toml")),
    ("enterprise", include_str!("../../conf/profiles/enterprise.toml")),
];

/// Returns the names that profiles are applied by, in the order they are listed.
pub fn valid_names() -> Vec<&'static str> {
    EMBEDDED.iter().map(|(id, _)| *id).collect()
}

/// Returns every profile, in the order of [`valid_names`].
pub fn all() -> Vec<Profile> {
    EMBEDDED.iter().map(|(id, text)| parse(id, text)).collect()
}

/// Returns a profile by its name.
pub fn find(id: &str) -> Option<Profile> {
    EMBEDDED.iter().find(|(known, _)| *known == id).map(|(id, text)| parse(id, text))
}

fn parse(id: &'static str, text: &str) -> Profile {
    let document = toml::parse(text, id).expect("embedded profiles are TOML, as a test proves");
    let text = |key: &str| document.root().get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let patch = document.root().get("patch").and_then(Value::as_object).cloned().unwrap_or_default();
    Profile { id, name: text("name"), description: text("description"), tier: text("tier"), patch }
}
