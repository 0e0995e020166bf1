//! The document's examples: what the tests asked of a gateway, and what it answered.
//!
//! A file belongs to each conversation of `tests/api/transcripts.rs`, which writes it and notices when it differs. Keys,
//! tokens, ids and hashes are exchanged for others of their form, and lists are cut short. `elsewhere.json` alone is written
//! by hand: of operations that no conversation shows, because they give the document itself or need a second party.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

const FILES: [&str; 20] = [
    include_str!("examples/abtest.json"),
    include_str!("examples/analytics.json"),
    include_str!("examples/anomalies.json"),
    include_str!("examples/audit.json"),
    include_str!("examples/budgets.json"),
    include_str!("examples/compliance.json"),
    include_str!("examples/config.json"),
    include_str!("examples/dsar.json"),
    include_str!("examples/elsewhere.json"),
    include_str!("examples/keys.json"),
    include_str!("examples/legal_holds.json"),
    include_str!("examples/license.json"),
    include_str!("examples/observation.json"),
    include_str!("examples/policies.json"),
    include_str!("examples/profiles.json"),
    include_str!("examples/scan.json"),
    include_str!("examples/screen.json"),
    include_str!("examples/signing.json"),
    include_str!("examples/trust.json"),
    include_str!("examples/users.json"),
];

/// One exchange with an operation.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Example {
    /// The body that was sent.
    pub request: Option<Value>,
    /// The body of the answer, which was a success.
    pub response: Option<Value>,
}

/// Returns an example of each operation, by method and path: `POST /api/v1/keys`.
pub fn examples() -> BTreeMap<String, Example> {
    let read = |file: &&str| serde_json::from_str::<BTreeMap<String, Example>>(file).unwrap_or_default();
    FILES.iter().flat_map(read).collect()
}
