//! How a stream is judged while it flows.
//!
//! A provider's answer arrives as events (SSE, NDJSON, lines behind signs of their types, elements of a JSON array,
//! Amazon's frames), cut by the network anywhere. The text in them belongs to *lanes*: one for each choice, content
//! block, tool call's arguments, reasoning.
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
//! - **No byte of a value leaves before its match is found.** Only values, a pattern's first group, are ever masked: a
//!   byte waits from the first place on at which a value may have begun that could still be found.
//! - **What leaves does not depend on how the stream was cut**: settling and scanning see the text of the lane, and
//!   nothing of its pieces. The tests cut at every place; the fuzzers compare cuttings with the whole.
//!
//! What patterns have in common at their beginning is followed once. Patterns that are only reported are not followed:
//! nothing waits for them, and settled text is looked through for them a kilobyte at a time.
//!
//! What a byte makes of what is under way is found out of the automaton once and remembered, by each thread that reads a
//! stream: in some megabytes that fill as texts differ, and are emptied when they are full.
//!
//! Patterns whose group begins with a literal hold back nothing in prose but a word that begins alike. Patterns whose
//! group may begin with any word, such as e-mail addresses, hold back the word under way. Any word may also be the begin
//! of base64, so the first [`RUN_HEAD_BYTES`](crate::scan::decode::RUN_HEAD_BYTES) characters of an encoded run belong
//! to no value and wait for nothing. Base64 wrapped into lines is read line by line: a value that lies over the end of a
//! line shows in whole bodies only. No timer ever releases anything.
//!
//! An event that says several texts at once, as the last one of an answer does, is read over their borders like a body.
//! Comments, and fields that no client knows, wait for nothing: they are read together with those before them, and of a
//! value that is parted over several the rest is taken out.
//!
//! A member of events that no dialect names is read in each event alone, and put together over events by its path where it
//! may come in pieces: from the first words on, or where it ends in eight bytes of what is no word. That waits until an
//! event goes on without it. States, names and counters hold nothing back, but for pieces that were not said before and
//! make no word together; where less than that of a value has left, the rest of it is taken out.
//!
//! A text that begins as JSON does (a bracket with a quote behind it; where JSON is due, a bracket) stays JSON: a number
//! becomes a string, and what is put back is escaped.
//!
//! Blocks of one answer that follow one another are one text, as clients show them: a block that is over lets all of it go,
//! but for what is likely to be the begin of a value, eight bytes of it or more. That waits for the next block, for the
//! answer's end, or until 64 KiB wait behind it. Events that repeat such a block whole lose their part of a value that is
//! found over two. A character whose surrogate pair is parted over two events waits for its second half.
//!
//! What repeats a text in other forms (`logprobs`: the tokens as strings and as numbers) is emptied in every event, and
//! in every whole answer, in which something was masked.
//!
//! # Limits
//! What is not declared to be a stream, and begins as events with JSON in them do, or as JSON objects one a line, coded
//! or not, is read as one: clients read it so, whatever it is called. What is declared to be events, and begins as JSON
//! does, is read as an array or as lines. An answer whose content coding breaks off is a provider's that did.
//!
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
//! Either end is framed as the stream is: an event among events, a line among lines, the last element of an array.
//!
//! A response of OpenAI's that ends gracefully ends what is under way first: texts, parts and items
//! (`response.output_text.done`, `response.content_part.done`, `response.output_item.done`). `response.incomplete` tells
//! them again in its `output`, if all items are no more than 256 KiB; else it is empty, and nothing is ended before.
//! Calls of tools that did not come whole are not among them, so that nobody runs half of one. The SDK's own helper knows
//! no response but a completed one: behind `responses.stream()` the events come as they are, and `get_final_response()`
//! raises (`RuntimeError` in Python), as it does for every response that is incomplete.
//!
//! # What is not promised
//! An event held by a word under way leaves with the next text of its lane, or with the lane's end: a provider that
//! pauses in the middle of a word makes that word pause. Events keep their order, so one lane's wait is every lane's; but
//! thoughts are over when the answer goes on, and an answer when it calls a tool, unless they end in eight bytes or more of
//! what is likely to be a value, counted over all interruptions.
