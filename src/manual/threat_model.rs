//! Whom the gateway stops, whom it does not, and how others failed at it.
//!
//! # Who is who
//! *Callers* are applications with a provider's credential of their own; they may be mistaken, or speak for somebody
//! hostile whose text they carry. *Providers* are trusted to receive what was cleared, not to answer harmlessly.
//! *Operators* write configuration and packs; both are read with care, because a typing error is a hole too. Whoever
//! reads the state directory is inside: it holds the node's secret.
//!
//! # What is promised
//! 1. No byte of a body leaves but as [`Cleared`](crate::policy::decision::Cleared), in both directions.
//! 2. Every string of a JSON body is scanned, keys and unknown fields too; knowing a provider's schema only adds
//!    roles, lanes and the shape of a refusal.
//! 3. A body that two decoders could read differently is not guessed at: it meets the policy's fail mode, which is
//!    closed by default.
//! 4. Bytes nobody changed leave as they came.
//! 5. One exchange is decided by one ruleset, whose policy and revision its answer and its record name.
//! 6. Work is bounded by limits that have names and keys: see `[limits]` and `[proxy]` of `conf/gateway.toml`.
//!
//! # How others failed, and what prevents it here
//! | failure seen elsewhere | here |
//! |---|---|
//! | a crafted `Host` (`localhost:4000/#@x`) bypassed a gateway's admin authentication (CVE-2026-49468) | [`proxy::head`](crate::proxy::head) refuses a Host that is not `host[:port]`; the management API never decides by Host, and answers only to names it knows |
//! | SQL injection in the check of API keys (CVE-2026-42208) | keys are looked up by a hash in a key-value table; there is no query language ([`access::key`](crate::access::key)) |
//! | a package of a gateway was replaced by malware | releases build from `Cargo.lock`; `.deny.toml` names the licences and the sources that may be used |
//! | an admin interface without protection from forged and excessive requests | the management plane has its own listener and thread, a credential on every call, limits of its own |
//! | one default in code failed open, another failed closed | [`FailMode`](crate::policy::decision::FailMode) has one default, [`FAIL_MODE_DEFAULT`](crate::policy::FAIL_MODE_DEFAULT) |
//! | an overlap window of 256 bytes between chunks was taken to be enough | the hold-back is derived from the patterns ([`scan::hold`](crate::scan::hold)); see [`streaming`](super::streaming) |
//! | 40 KB of brackets overflowed a JSON parser's stack and ended the process | [`llm::json::walk`](crate::llm::json) is iterative and counts its depth |
//! | duplicate keys, lone surrogates, BOMs: one decoder reads what was judged, another what was meant | the JSON gate accepts what all decoders read alike |
//! | bodies were rebuilt from parsed values: numbers and signatures broke | [`redact::splice`](mod@crate::redact::splice) edits bytes in place |
//! | two lengths, a list of codings, bare line feeds: request smuggling | [`proxy::head`](crate::proxy::head) refuses; nothing is repaired |
//! | 93 bytes of brotli unfolded to 100 MiB | [`proxy::coding`](crate::proxy::coding) limits size and ratio while unfolding |
//! | a percent-encoded path reached another route than the one that was checked | routes are chosen, and requests forwarded, on one spelling ([`proxy::path`](crate::proxy::path)) |
//! | a stream that merely stops looks like success to every SDK | a block ends it with the provider's error event ([`llm::refusal`](crate::llm::refusal)) |
//! | an audit sink that hung stopped all traffic, or was dropped in silence | a bounded queue and a time limit; what cannot be recorded is refused or alarmed about, as configured |
//!
//! # What is not promised
//! - Text in images, audio and other binary parts is not read. They pass only where their declared
//!   type says so; other bytes that are not UTF-8 meet the fail mode.
//! - Headers, paths and query strings are checked for form, not for content.
//! - A value that is spread over several strings of a body (a letter in each message) is not put together again;
//!   neither is one that the caller enciphers, or encodes otherwise than the views know: percent, HTML entities,
//!   JSON escapes, base64, hexadecimal, look-alikes and invisible characters, three layers deep.
//! - Patterns know forms. An injection in words of its own, or a secret without a form, is not found by this layer.
//! - WebSocket connections are refused, unless a route allows them: then nothing in them is inspected.
//! - Several gateways share no limits and no state.
//!
//! # Known exceptions
//! - What is no HTTP, and `CONNECT`, is answered by Pingora before any code of ours: an empty 400 or 405, without the
//!   headers that all other answers carry.
