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
//! 3. All checks must pass: a check digit, a checksum, entropy, a date that exists. A secret must not begin as values do
//!    that are made to be shown (`[[shown]]` in any pack).
//! 4. Context words before it shift the confidence. A policy's thresholds and allow-lists decide what is done.
//!
//! # Proof
//! Before a ruleset is published, every `finds` must be found and every `ignores` must not. An overlay's own detectors
//! are also run as streams, cut at every place of every example; the built-in ones are, when the program is tested.
//! `{valid}` in an example stands for a value that the prover makes from the pattern and the checks, so that no
//! live-looking key has to be written down. Texts are made of every pattern that has an `anchor`, which must occur in them,
//! and of every shape that the first stage looks for: Vectorscan 5.4.9 misses some, by what stands before them. A pack with
//! one fault changes nothing: all faults are told, each with file, line and detector, and the rules in force stay.
//!
//! # Rules
//! What is found in a whole body is judged once more, by conditions over the findings ([`scan::rule`](crate::scan::rule),
//! `plugins/rules/*.toml`): whose text it was in, what stood beside it, what came before. Rules are read, overlaid,
//! proven and published as packs are. `portcullis rules list`, `check` and `explain` show all of it.
//!
//! # Models
//! A folder of `plugins/models` is a model with its card ([`scan::classifier`](crate::scan::classifier)): one of ours, or
//! a graph in the form of ONNX with a tokenizer ([`scan::classifier::onnx`](crate::scan::classifier::onnx)), which judges
//! through the same interface, so that policies, experiments (`model_ref`) and the audit log know no difference. The card
//! says as data what the graph reads and what its numbers mean. It is run before it is taken; a faulty one changes
//! nothing. A text that it does not judge in time, or gives no number for, meets the policy's `fail_mode`.
//!
//! # Limits of the dialect
//! Patterns are bytes; every repetition has an upper bound; `\b` is the only look-around; classes and `(?i)` are ASCII,
//! and letters beyond ASCII stand as literals. No back-references: matching is linear. What the first stage looks for has at
//! most [`SHAPE_PLACES_MAX`](crate::scan::shape::SHAPE_PLACES_MAX) places, for a start compiles it, unless it begins with
//! digits, capitals or signs.
