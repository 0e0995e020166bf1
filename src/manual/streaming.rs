//! How a stream is judged while it flows.
//!
//! A provider's answer arrives as events (SSE, NDJSON, elements of a JSON array), cut by the network anywhere. The text
//! in them belongs to *lanes*: one for each choice, content block, tool call's arguments, reasoning.
//!
//! ```text
//! bytes ─▶ events ─▶ strings ─▶ lane of each ─▶ settled? ─▶ scanned ─▶ event rewritten where needed ─▶ caller
//!          (exact      (all of     (text joined      │
//!           bytes)      them)       over events)     └─ not yet: this event, and those after it, wait
//! ```
//!
//! # How long text waits
//! [`scan::hold`](crate::scan::hold) runs an automaton of all enforced patterns over the text. It accepts more than
//! the patterns do, so it knows a byte from which on a match *may* still be under way; all before is settled. What is
//! settled is scanned by the same scanner as a whole body. Two things follow:
//!
//! - **No byte of a match leaves before the match is found**, because it would have to be settled while a match that
//!   holds it was still possible.
//! - **What leaves does not depend on how the stream was cut**: settling and scanning see the text of the lane, and
//!   nothing of its pieces. The tests cut at every place; the fuzzers compare cuttings with the whole.
//!
//! Patterns that begin with a literal hold back nothing in prose. Patterns that may begin with any word, such as
//! e-mail addresses, hold back the word under way. No timer ever releases anything.
//!
//! # Limits
//! A lane may hold back [`STREAM_HOLD_BYTES_MAX`](crate::scan::lane::STREAM_HOLD_BYTES_MAX); an event may be
//! `limits.stream_event_bytes_max` long. What exceeds a limit, or cannot be cut into events, or is no JSON where JSON
//! is due, meets the policy's fail mode. Closed: the stream ends as if it were blocked. Open: it passes unread from there
//! on, and is counted.
//!
//! # How a stream ends
//! | cause | the caller sees |
//! |---|---|
//! | the provider finished | what is left of the lanes, judged, then the end |
//! | a finding that blocks, `stream_block = "error"` | text before the match, then the provider's error event |
//! | the same, `stream_block = "graceful"` | text before the match, then a content filter's end |
//! | the provider broke off | what was settled, then an error event |
//! | the caller left | nothing; the provider's connection is cut |
//!
//! # What is not promised
//! An event held by a word under way leaves with the next text of its lane, or with the lane's end: a provider that
//! pauses in the middle of a word makes that word pause. Events keep their order, so one lane's wait is every lane's.
