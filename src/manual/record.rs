//! The record: what is written down, for how long, how a copy is verified, and how somebody is forgotten.
//!
//! # What is written down
//! Every exchange with a provider, every call that changed something, every call that was turned away, every reload, hold,
//! export and erasure is one entry of the audit log ([`crate::govern::audit`]). Entries form a chain of hashes in a journal
//! that is only ever appended to. They hold no content: findings are masked. Calls are recorded by the path of their row
//! (`/api/v1/legal-holds/check/{entityID}`), because what stands in its braces may name people. A text that is only sent to
//! be looked at (`/v1/scan`, `/api/v1/screen`) leaves an entry where something is found in it: it goes nowhere.
//!
//! `category` and `severity` of an entry are those of its gravest finding, whatever was done about it. `?category=` finds an
//! entry by the category of any of its findings, as a SIEM sink's `categories` do, so that totals of several categories may
//! count it more than once; `?severity=` goes by the gravest one. `?detector=` finds any finding, those that
//! `exchange_begun` lists too; that has no category, because its findings are told again at its end.
//!
//! # Who stands in it
//! Actor and entity are not written down as they are: each name has a random key of its own, in `state/subjects.keys`, and
//! entries hold the name sealed under it ([`crate::access::keyring`]). So do legal holds, with their reasons; API keys and
//! users, whose names are sealed under the key of their id as well; sessions of those for whom an identity provider vouches;
//! and agents, with what was attested of them. Erasing
//! somebody (`POST /api/v1/dsar/erase`) overwrites the key where it lies and waits for the disk. After that
//!
//! - the chain verifies as before, for it is a chain of what was sealed;
//! - queries and exports show `[erased]`, and the name finds nothing;
//! - the name and its key are in no file of the state directory.
//!
//! What that does *not* reach:
//!
//! - ids of API keys and users, which the gateway makes up, and request ids, which callers choose: put no names into these;
//! - entries that version 1 of the log has written, until retention drops them, and old pages of the store from before it
//!   sealed names: records are sealed at the first start that can, but its files keep what was there for a while;
//! - copies that have left the gateway: exports, backups, what a SIEM was sent;
//! - disks and file systems that write changed blocks elsewhere (flash, btrfs, snapshots). There the state directory
//!   belongs on an encrypted volume. Keep backups of `subjects.keys` apart from those of the journal, and shorter.
//!
//! Names have so many places and no more, in shares that do not take from each other:
//!
//! | `standing` | who | places |
//! |---|---|---|
//! | `known` | keys, users, agents, whoever signed in from elsewhere, and whoever a legal hold names | 1,048,576 |
//! | `recorded` | what stands in the log alone, and is made up by the gateway: sessions, tokens, A/B tests | 524,288 |
//! | `caller` | callers of `transparent` routes whose credential a provider took: it answered with success | 524,288 |
//! | `stranger` | all other callers: anybody can make up credentials | 262,144 |
//!
//! Of the callers and the strangers that are new on one day no more than an eighth of what is left of their share gets a
//! place, so that a flood leaves some for whoever comes later. Whoever gets none is recorded as `[unlisted]`, today; the log
//! says so once, and `portcullis_names_unlisted_total` counts it. Whoever is not `known`, and no entry of the log names any
//! more, nor any figure of the analytics, loses its name a week later: its key is destroyed as if it were erased, and its
//! place is free (`portcullis_names_aged_out_total`). A provider that takes any credential, as one on this machine may,
//! makes callers of all strangers: let such routes take our keys (`auth = "gateway_key"`). Names that an earlier release
//! sealed count as known. Where all places of the known are taken, API keys and users of new names are refused.
//! `portcullis_names` tells how many there are.
//!
//! The tools that a caller uses are [pinned](crate::policy::pin) by hashes under a key of that caller's own, which goes with
//! its name. What an earlier release pinned is read once more, and goes with the first erasure or after 30 days.
//!
//! Without `subjects.keys` a gateway that has a journal does not start: what it forgot then, no backup of the file would
//! bring back. An empty file in its place says that the keys are gone for good; API keys still count after that, but are shown as `[erased]`, and users cannot log in. Back it up with the rest ([`operations`](super::operations)).
//!
//! # Legal holds
//! A hold forbids the erasure of its entity (409), in whatever case and with whichever form of an accent it is spelt, and keeps its entries past their retention: segments are dropped from the
//! oldest one on, and dropping stops at the first that tells of somebody who is held. Holds are never deleted. Of a hold and
//! an erasure that run at the same time exactly one wins, and the other one's answer says so.
//! A hold on an API key, by its id, holds whoever is called as the key is: it keeps that name, and those the key gets, also
//! when the key is revoked or renamed. Another key of that name is another entity.
//! Who issued a hold is not erased (409) as long as it is in force: without its issuer nobody could tell on whose authority
//! a record was kept, and erasure gives way to that (GDPR, Art. 17(3)(e)). Once it is released, the issuer is as anybody.
//! An erasure that the end of the process cut short is finished at the next start, and recorded then. A release whose
//! answer was 503 is recorded (`hold_released`) once it is known to be safe: when it is asked for again, or within a minute.
//!
//! An entity is found by its name as it is written, upper and lower case apart, and in both forms that Unicode has for an
//! accent; a local user in every spelling of its name. Names with control characters, or such as cannot be seen, are
//! refused (400): whoever copied one along means another entity. So is the erasure of `portcullis`, `unknown`, `[erased]` and
//! `[unlisted]`: under these names stands what the gateway itself does, and what nobody is named for.
//!
//! `POST /api/v1/dsar/export` and `…/erase` answer by provider: `rbac` (keys, users), `sessions`, `tools` (pinned), `analytics`,
//! `audit`, `ioc`, `trust`, `legal_holds` (about somebody, or issued), `revisions` (of the rules, brought by somebody). The
//! counts of `audit`, `ioc`, `legal_holds` and `revisions` are of records that stay, and name nobody any more.
//!
//! # Retention
//! `audit.retention_days` and `audit.retention_bytes`; whole segments are dropped, oldest first. What is left verifies: its
//! first segment names the hash it follows.
//!
//! What is dropped for its age goes by a clock of its own: by the least that the machine's clock said in the last 25 hours in
//! which the gateway ran. So one that jumps ahead (a WARN, and a warning of `/health`) is believed once it has kept to that for a
//! day, and one that is set back at once. Time in which the gateway did not run, or its machine was paused, counts a day of
//! running later; time in which a machine slept, and tells of it, counts at once. The same clock rules how long usage, revoked
//! tokens, ended sessions, used SAML assertions, pins of tools, marks of erasures and old signing keys are kept.
//!
//! # Verifying a copy
//! ```text
//! curl -H "x-api-key: $KEY" localhost:9090/api/v1/audit/export > audit.jsonl
//! curl localhost:9090/.well-known/jwks.json > jwks.json
//! portcullis audit verify audit.jsonl --keys jwks.json
//! ```
//! The chain shows entries that were edited, taken out, put in or moved. That the *end* was cut off, or all of it written
//! anew, only a checkpoint shows: a signed statement of the newest entry and its hash. The gateway keeps one every ten
//! minutes beside the journal, seals every export with one, and signs one whenever it is asked
//! (`GET /api/v1/audit/checkpoint`). Keep some on another machine, and give them to `--checkpoint`.
//!
//! | exit code of `audit verify` | |
//! |---|---|
//! | 0 | sound |
//! | 1 | it cannot be read, or is neither an export nor a journal, or no node has shipped anything |
//! | 4 | it is not what was written |
//!
//! The names beside a record of an export (`actor`, `entity`) are the gateway's reading of it: the signature covers them, the
//! chain does not. CSV is for spreadsheets; it cannot be verified.
