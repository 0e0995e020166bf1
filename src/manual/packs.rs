//! How detectors are written, and how they prove themselves.
//!
//! A pack is a TOML file of detectors, data and no code: a pattern, perhaps a cheaper `anchor`, the names of checks out
//! of a closed set ([`scan::check`](crate::scan::check)), words that make a match likelier, a mask, and examples. The
//! built-in packs are compiled in; a folder named by `plugins.path` overlays them file by file, and is watched.
//! `plugins/README.md` explains every field.
//!
//! # How a match comes about
//! 1. Hyperscan runs the anchors and patterns of all detectors at once over the text, and over its readings: without
//!    invisible characters and look-alikes, with escapes undone, with encoded runs decoded. It says which detector, and
//!    where a match ends.
//! 2. A bounded automaton confirms and places the match; its first group is the value.
//! 3. All checks must pass: a check digit, a checksum, entropy, a date that exists.
//! 4. Context words before it shift the confidence. A policy's thresholds and allow-lists decide what is done.
//!
//! # Proof
//! Before a ruleset is published, every `finds` must be found and every `ignores` must not. An overlay's own detectors
//! are also run as streams, cut at every place of every example; the built-in ones are, when the program is tested.
//! `{valid}` in an example stands for a value that the prover makes from the pattern and the checks, so that no
//! live-looking key has to be written down. A pack with one fault changes nothing: all faults are told, each with
//! file, line and detector, and the rules in force stay.
//!
//! # Rules
//! What is found in a whole body is judged once more, by conditions over the findings ([`scan::rule`](crate::scan::rule),
//! `plugins/rules/*.toml`): whose text it was in, what stood beside it, what came before. Rules are read, overlaid,
//! proven and published as packs are. `portcullis rules list`, `check` and `explain` show all of it.
//!
//! # Limits of the dialect
//! Patterns are bytes; every repetition has an upper bound; `\b` is the only look-around; classes and `(?i)` are ASCII,
//! and letters beyond ASCII stand as literals. No back-references: matching is linear.
