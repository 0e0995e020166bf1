//! Reload, restart, crash, full disk, durability.
//!
//! # What changes while it runs
//! `[routes]`, `[policies]`, `[limits]`, `[detectors]`, `[a2a]` and `[siem]`, the files of the folder `policies` beside the configuration,
//! packs and dialects below `plugins.path`, and TLS certificates. They are read again when a file changes (by the
//! operating system's word, else every five seconds), at SIGHUP, and by the management API. Files that change without
//! rest are read after three quarters of a second all the same.
//!
//! A reload builds, proves and publishes a whole ruleset beside the running one. Exchanges under way end with the rules
//! they began with; each answer names them in `X-Portcullis-Policy: policy@revision`. A faulty file changes nothing:
//! every fault is logged with file and line, and `portcullis_config_last_reload_successful` is 0 until the files are good
//! again, which is logged, too. What the management API refuses does not touch it. Of the folder `policies`, files whose
//! names begin with a full stop are left alone.
//! Packs that did not change are not compiled again.
//!
//! A sink of `[siem]` that is changed or comes back goes on at the place it had in the log, by its name; the others do not
//! notice. By the API sinks may be left out, and which entries they get and how may change, by an administrator; where
//! entries go is said in files alone. Syslog acknowledges nothing: a connection is ended so that the daemon can read what
//! is on its way, and where it does not end its own side within two seconds, what was sent in the last half minute before
//! it fell silent is sent again by whoever takes the place over; so it is after a kill. Over UDP all that can be known is
//! that a host refuses a datagram, because nobody listens at its port: then the batch is sent again, with what was sent in
//! the second before, and the sink is `retrying`. What is lost on the way, or comes to a host that is switched off, counts as
//! forwarded. What the log's retention drops
//! before a sink could send it is counted
//! (`events_missed` in `/api/v1/siem/status`, `portcullis_siem_events_total{result="missed"}`) and logged as an error.
//! An entry that a receiver refuses for what it is (400, 413, 422) becomes a dead letter, if the receiver takes others
//! of the same batch, or took the one before. A receiver that takes none is set up for something else: `last_error` says
//! so, everything waits, and goes once that is mended.
//! A sink that cannot be opened after a change, or breaks down, stands as `failed` there and in `portcullis_siem_sinks`,
//! and is begun again after a pause that grows from failure to failure (`backoff_min_ms` to `backoff_max_ms`). Health
//! does not depend on sinks: traffic is served whoever takes the log.
//!
//! A sink of `nats` publishes OCSF events under its `subject`, and counts one as taken when the stream that takes the subject
//! has acknowledged it; without one they wait (`no stream takes the sink's subject`). Make the stream before, and name it
//! in `stream`, so that no other takes them. Each message has an id, `ENTRY@SUBJECT`: what is sent again within the stream's
//! `duplicate_window` (two minutes, as shipped) is not stored twice, and what comes later has the same id. A message that is
//! larger than the stream or the server takes is a dead letter. A sink speaks to the server of its `url` alone: others
//! that this one names are not followed, since nobody has judged their addresses; a name may have several addresses, which are
//! tried in turn. Access is by token, or by user and password; TLS begins after the server's first line, as NATS does unless
//! `handshake_first` is `true`. There is no sink for Kafka: a client connects to whichever brokers the first one names.
//! What speaks NATS here is part of the gateway: [`crate::govern::siem`] says what the sinks promise, and the source of the
//! sink why no client library fits.
//!
//! # Where files are looked for
//! Every path in the configuration (`…_file`, `cert`, `key`, `path`, …) that is relative begins at the working directory of
//! the process, not at the configuration file: where `portcullis` was started, under systemd its `WorkingDirectory`
//! (`/var/lib/portcullis` as packaged; the packaged configuration names it as `store.path`, too, so that `backup` and
//! `doctor` find the state from anywhere). So it is for `portcullis check`, `doctor` and `audit verify --shipped`: start them in
//! the same directory, or write whole paths. The folder `policies` alone lies beside the configuration file.
//!
//! `check`, `doctor`, the start and a reload refuse a configuration whose secrets are not there: providers' keys, the secrets of
//! sinks, the URL of the database. A sink's `url` with an address of a private network or of this machine needs
//! `allow_private = true`, or is refused as well; a name that leads there is found out when it is looked up, and
//! `last_error` says so.
//!
//! # What needs a restart
//! `[proxy]`, `[admin]`, `[auth]`, `[session]`, `[sso]`, `[store]`, `[plugins]` (the path, not what is in it), `[audit]`,
//! `[analytics]`, `[license]`, `[signing]`, `[trust]`, `[telemetry]` and `[otlp]`. A reload
//! logs the keys that differ, each difference once, and leaves them as they are.
//!
//! After changes by the API, a restart keeps the newest revision, unless the files changed meanwhile: then the files win.
//! What counts is what the files and the `PORTCULLIS__…` variables say themselves of the rules: a release with other
//! defaults changes no file. A revision is kept through upgrades and can be rolled back to: limits and settings that it does not
//! name are younger than it, and have the default of the release that runs; policies and routes are those it names. As long as
//! nothing is in force but what the files say, each release brings its own defaults (nodes that share a database take them
//! with the next change of the rules in their files). A state that an earlier release left does not tell what its files said: rules
//! made by the API are kept then, the log says so, and a file that did change meanwhile counts with its next change.
//! The log says which.
//!
//! # Fail modes
//! | what fails | what happens |
//! |---|---|
//! | a body is too long, or its coding cannot be undone | refused, whatever the fail mode: 413 or 400 for a request, 502 for an answer that is read whole |
//! | a body cannot be read, or takes longer than `limits.scan_ms` | the policy's `fail_mode`: `closed` (the default) refuses in the caller's shape, `open` lets it pass and counts it; `/v1/scan`, where no policy decides, answers 503 |
//! | a document in a body (PDF, office file, archive) cannot be read, or not all of it | the policy's `documents`: `inspect` (the default) judges what was read, lets the document pass and counts why in `portcullis_documents_total{outcome}`, `require` refuses the body |
//! | no connection can be made to an upstream | the next upstream or address of the route is tried; where none is left, 502, or 504 if connecting took too long |
//! | a provider says of a stream of HTTP/2 that it did not read it (refused, or the connection ends before it) | the request is sent once more, to the next upstream, if its body has 1 MiB at most. Nothing else is sent twice: 502, and 504 where the answer takes too long |
//! | memory for bodies (`limits.buffered_bytes_total`) is used up, or one caller's part of it (`limits.buffered_bytes_per_caller`) | 503; a stream or a socket that holds back more than 64 KiB and needs more ends with `overloaded` (a socket is closed with 1013), whatever the fail mode |
//! | the audit log cannot be written | `audit.on_failure`: `refuse` (the default) answers 503, `allow_and_alarm` goes on; health is `degraded` in both cases. With `audit.durability = "buffer"` the exchanges under way when it fails are answered, and those that are lost to the log are counted (`portcullis_audit_refused_total`) and logged one by one |
//! | a part of the gateway panics | that exchange gets a 500, or, where its answer has left, is recorded all the same; `portcullis_panics_total` counts it, the process lives |
//! | a background task ends | what it served is `down`, health is `degraded` |
//!
//! `/health` is for people and alerts: 503 as soon as anything is `degraded`. `/ready` is for balancers: 503 while traffic that
//! comes would be refused. The node starts or ends; the listener, the scanner or what keeps the state has ended; the audit
//! log takes nothing, and `audit.on_failure` is `refuse`.
//!
//! # The start
//! Compiling all packs takes a second or two of CPU. What comes of it is kept in `plugins.compiled_path` (else `compiled`
//! in the state directory), so that the starts that follow read it; the same patterns are compiled anew for another
//! processor or another Hyperscan. The folder may be deleted at any time and is in no backup. The patterns of own packs
//! are in it. What somebody else owns or may write to is not read: the log says so, and the start takes longer. `portcullis
//! check` reads the same folder, `portcullis scan` the one of `--compiled`.
//!
//! # Durability
//! `audit.durability` says when an exchange counts as recorded:
//!
//! - `buffer` (the default): once its event stands in the writer's queue. A crash may lose what the queue held; the
//!   queue is bounded by `audit.queue`, and when it is full that is a failure as above, never a silent loss.
//! - `wait`: once its event is on the disk (written, and `fdatasync` done; events that wait together share one). An
//!   answer that is sent as a whole leaves only then. Of a stream, and of a body that is not read (images, audio), an
//!   entry `exchange_begun` is on the disk before the first byte leaves, and the event of the exchange before the
//!   last: a caller never has a complete answer without its record. What cannot be recorded in time is refused with
//!   503, or ends in an error, unless `audit.on_failure` says otherwise. Upgraded connections are recorded at their end.
//!   What is found counts once: `exchange_begun` lists what was found in the request, and has no category and no severity;
//!   those are in the entry at the end. Only where the process dies in between is `exchange_begun` all there is. An entry
//!   that the log has taken and did not confirm in time may still be written: the refusal that follows is recorded as
//!   `exchange_unconfirmed`, without the findings.
//!
//! # After a crash
//! The journal repairs a torn end by itself and logs what it cut off; an entry is either whole or gone, and the chain of
//! hashes verifies. The index is caught up from the journal.
//!
//! Damage elsewhere is no crash's work. On a segment whose header is damaged the gateway does not start: it names the file.
//! Damaged entries, with whole ones behind them, are passed over up to the next whole one, in the newest segment as in a
//! closed one, and nothing is cut off. The newest segment is read before the start, and all older ones after it, 2 MiB a
//! second, so that damage of which no answer has anything comes to light, too: the log names the place once, health is
//! `degraded` while traffic goes on, `portcullis_audit_damaged_bytes` is not 0, pages that may miss something say
//! `complete: false`, exports across it break off, and `portcullis audit verify` names the damage. Retention drops the
//! segment in its time, unless somebody is under a legal hold: what cannot be read may be about them. Where the segment
//! is restored from a backup, the next start finds its entries again.
//!
//! The store is held against its mark at each start: a small file `store.mark` in the state directory says how far it had
//! come. Where changes are missing that were safe on the disk (a byte that flipped takes all behind it with it), or the
//! directory `store` is gone while a mark or a journal is there, the start is refused, and `portcullis doctor` tells what it
//! found. Restore a backup (`portcullis restore`) into an empty directory; or make an empty file `store.accept-loss` in the
//! state directory: the next start goes on with what is left, removes that file, logs what it costs, makes an admin key where
//! none is left, and numbers revisions above all that may have been. Legal holds, and what ended of keys and sessions, may be
//! among what is lost. Damage in the midst of what was written since the last start, past its first 512 KiB, may go
//! unnoticed; damage in what is older fails whoever reads it. To accept the loss of a store that cannot be read, move it
//! away first.
//!
//! Two processes cannot share a state directory: the second one says so and ends with status 1.
//!
//! # A full disk
//! The log keeps `audit.reserve_bytes` aside. Below `audit.low_water_bytes` of free space health becomes `degraded` while
//! entries are still written. When the disk is full the reserve is given up for the last ones; then `audit.on_failure`
//! rules. Once there is room again the writer notices within a second or so, without traffic and without a restart, and
//! makes its reserve anew.
//!
//! The store, where keys, holds and figures lie, keeps some 6 MiB behind the end of its log: a change for which there is no
//! room is refused (503) before it is begun, what is there is read, and `/health` is `degraded` and says why in `reasons`
//! until there is room. On file systems that cannot keep room (`fallocate`), and where a disk breaks, writing fails halfway:
//! then the store is opened anew once 4 MiB are free, with all that was taken before.
//!
//! On a full disk (less than 4 MiB free, and twice what the store's newest `snap.…` has) the store is not opened: the start
//! is refused, says how much is missing, and leaves everything as it is. The file `audit/reserve` may be removed for it.
//!
//! Queries and live streams of the audit log go on meanwhile with what was taken in before; a page that may miss the newest
//! entries says `complete: false`. An export of a data subject is itself recorded, and answers 503 as long as it cannot be.
//!
//! # Checking a webhook
//! `X-Portcullis-Signature: t=SECONDS,v1=HEX`: HEX is the HMAC-SHA256, under the text of the sink's secret without the white
//! space around it, of SECONDS, a full stop, and the body as it was before compression: unpack a body of
//! `Content-Encoding: gzip` first. SECONDS are Unix time, when it was sent: refuse what is older than some minutes, for
//! who repeats a request cannot change them. `X-Portcullis-Delivery` is the id of the last entry; a batch that is sent again
//! has the same one.
//! ```text
//! def is_ours(secret: bytes, header: str, body: bytes) -> bool:
//!     sent, mac = header.removeprefix("t=").split(",v1=")
//!     wanted = hmac.new(secret, sent.encode() + b"." + body, hashlib.sha256).hexdigest()
//!     return abs(time.time() - int(sent)) < 300 and hmac.compare_digest(wanted, mac)
//! ```
//!
//! # A clock that jumps
//! Entries are ordered by ids that never go back. Where the clock jumped ahead and was set right, the entries that follow
//! have the right time and ids above those of the far one; `from` and `to` choose by when they were recorded, also among what
//! was shipped to a database, where a release that knows this has shipped it. The log warns of a jump of more
//! than five minutes, and `/health` lists it in `warnings`, as long as it lasts, without being `degraded`.
//!
//! # How it ends
//! | signal | what happens |
//! |---|---|
//! | SIGTERM, SIGQUIT | `/ready` answers 503 for `proxy.shutdown_notice_ms`, while connections are still taken and each answer asks to close its own; then no new ones are taken; exchanges under way, streams too, have `proxy.shutdown_grace_ms`; idle connections are closed after a second of silence; HTTP/2 callers get GOAWAY |
//! | SIGINT | the same with no time for either |
//! | SIGHUP | everything that can change is read again |
//! | SIGUSR2 | another process takes over, see below |
//!
//! A process that begins, or waits to take over, does nothing about SIGHUP, SIGUSR1 and SIGUSR2: it reads the newest files
//! anyway. SIGTERM and SIGINT end it.
//!
//! While a process hands over, another SIGUSR2 changes nothing, and SIGTERM or SIGINT ends the next process, and then this one
//! as it would have alone.
//!
//! The process ends as soon as the last exchange has. A stream whose time is up is cut, never ended in order, so that no
//! caller takes it for a whole answer; it is recorded. Background work ends last: the log is written out before the
//! process goes. A second signal ends the waiting.
//!
//! # Upgrade and restart without loss
//! *A new binary:* put it where the old one was and send SIGUSR2. The running process starts it with its own arguments and
//! hands over its listening sockets. The new one reads the configuration and builds the rules first, and looks at what it
//! can without the state: its directory, its secret, the beginnings of its files, whether the database is there and takes
//! writes. Where it cannot use one of them, it says why and the old one goes on. Then the old one takes no more connections,
//! finishes what is under way, lets go of the state, which has one owner, and waits; the new one opens it, and serves, and the
//! old one ends. Where the new one ends instead, or does not serve within three minutes, it is ended, and the old program takes
//! the state up again and serves on, with the files as they are then. An earlier release cannot be given the place so: it does
//! not tell when it serves, and is refused; restart into it. Callers that connect meanwhile wait in the sockets' queues:
//! for as long as the longest stream, `shutdown_grace_ms` at most, and the rules take to compile. `/ready` says nothing
//! of it. A process that is the first of a container cannot do this: its end is the container's; there, roll over nodes.
//!
//! *Under systemd:* `conf/deploy/portcullis.service` (`Type=notify`, with a watchdog that asks the workers of both planes).
//! The process that hands over is the service, and shows the watchdog that it is there, until the next one serves. What cannot
//! start is tried again each second, however often.
//! The sockets are left with systemd, so `systemctl restart portcullis` loses no connection either: they wait. With
//! `portcullis.socket`, systemd binds the addresses. `systemctl reload` is SIGHUP; `systemctl kill -s USR2` upgrades as
//! above. Credentials come with `LoadCredential=NAME:FILE`, and are read from
//! `/run/credentials/portcullis.service/NAME` by any `…_file` key.
//!
//! # Looking into it
//! `portcullis doctor -c FILE` looks at configuration, certificates, licence, state, clock, limits and providers, and asks the
//! database, Redis, the collector and the sinks (but those of `nats`, UDP and files), beside a running gateway or before the
//! first start (`--json`, `--offline`; 0 well, 1 not, 78 a faulty configuration). SIGUSR1 switches the log to
//! `portcullis=debug` and back. That nobody reads the log any more ends nothing. `conf/deploy/grafana/portcullis.json` is a dashboard,
//! `conf/deploy/prometheus/` has alert rules with their tests, and a configuration that scrapes with an API key.
//! `portcullis completions SHELL` and `portcullis man` print what shells and `man` read.
//!
//! `/metrics` is Prometheus' text format; to a scraper that asks for it (`Accept: application/openmetrics-text`, as
//! Prometheus does of itself) it is OpenMetrics 1.0, with the same samples, and with exemplars: each bucket of the latencies
//! of requests, of providers and of first bytes names the trace of the last exchange in it whose spans are sent (`[otlp]`,
//! sampled). Prometheus keeps them with `--enable-feature=exemplar-storage`, and Grafana leads from a bucket to its trace.
//! From a refused exchange to its trace leads the request id: it is in the audit entry, the log line and the span.
//!
//! # Backup
//! `portcullis backup -c FILE OUT` writes the state directory to one file: from a running gateway by way of `control.sock` in
//! that directory (mode 0600: who reads the state may back it up), else from the directory. Records are those of one
//! moment; the audit log goes on a little further, and its keys come last. The file is read once more before it gets its
//! name. `portcullis restore OUT` verifies it, and `--into DIRECTORY` restores it: its digest first, then the chain of the
//! audit log; a directory that is not empty is left alone, one that is there and empty (a volume) is filled. Records keep
//! the version they were written in, and a later release reads them. An earlier one does not: names of keys, users, sessions
//! and the authors of revisions are sealed since version 2, and the first release does not begin on such a state. Make a
//! backup before an upgrade; the way back is to restore it. A `.partial` that an earlier attempt left, beside the directory or
//! in it, is to be removed first. The file holds secrets, and what was erased after it was made: keep it shorter than the log.
//!
//! With PostgreSQL it holds what is this node's own; the database is backed up by its own tools. It holds the node's name,
//! too: what is restored is that node, and does not start while the node runs, for two of one name would go on behind each
//! other's audit entries. A further node begins with an empty `[store] path`. Where two come to run all the same (one was out
//! of reach when the other started), both say so in `/health`, are `degraded`, and ship no audit entries until there is one;
//! what was passed over by then is logged, and counted in `portcullis_audit_shipped_total{result="passed_over"}`.
//!
//! # Exit codes
//! 0: asked to end. 1: the state, an address or a certificate cannot be used. 78: the configuration has faults, all of
//! which were told.
//! A start whose database cannot be reached, or is a standby, waits for it up to a minute before it ends.
//!
//! # People, keys and quotas
//! `POST /api/v1/users` makes a user, `POST /api/v1/auth/token` gives it a bearer token for `auth.token_ttl_s`. Any change of
//! a user ends its tokens; `POST /api/v1/auth/revoke` ends one. Tokens are signed with the ring of `[signing]`: withdrawing
//! its keys ends all of them.
//!
//! A licence whose file is only half there, as while it is copied, counts on as it was for ten seconds; then, as one that has
//! expired or that no trusted key has signed, it counts for nothing: the tier is community, and `/health` says why.
//!
//! A key or a user that is given no tier is entitled to as much as the deployment, also once that has another licence;
//! one that is given a tier has that, and never more than the deployment. Answers tell of a key what comes of it now;
//! `PATCH … {"tier": null}` takes its own away.
//!
//! A key is replaced without an outage by `POST /api/v1/keys/{id}/rotate {"overlap_s": 86400}`: give the new text to its
//! users; the old one ends by itself. One that has expired is not replaced (409): give it another end first, by
//! `PATCH /api/v1/keys/{id} {"expires_at": …}`. Where no admin key counts any more, the next start writes a new `state/admin.key`.
//!
//! Quotas are per credential, or per address where there is none. What callers have used is written down when the process
//! is asked to end and read at the next start; a process that is killed forgets it. Buckets are forgotten only when they
//! are full. Requests that are refused for too many at once cost nothing.
//!
//! # Scale plan
//! Figures marked *m* were measured, those marked *e* follow from them. The measurements of a request are those of the
//! README (commit `2d97590`, two shared cores of an Intel Xeon; the bare proxy's share follows from the ratio), with a
//! quarter more for the detectors that were added since, as was measured for 2 KB and is less for longer bodies; those of
//! shipping are of `benches/compare/shipping.py` (two shared cores of an AMD EPYC, busy with other work; gateway and
//! PostgreSQL on the same two cores; one disk). Measure your own traffic: a prompt of 128 KB costs ten times one of 2 KB.
//!
//! | | one node, one core | 100,000 requests a second |
//! |---|---|---|
//! | CPU of a 2 KB chat: the bare proxy's 31 µs (*e*) and 190 µs more (*m*), and a quarter | 3,600 a second (*e*) | 28 cores (*e*), 46 at 60 % load |
//! | CPU of a 16 KB chat: the bare proxy's 46 µs (*e*) and 466 µs more (*m*), and a quarter | 1,560 a second (*e*) | 64 cores (*e*), 107 at 60 % load |
//! | nodes of 16 cores, two more than needed | | 5 for 2 KB, 9 for 16 KB (*e*) |
//! | audit entries: one a request; some 650 bytes in the journal (*e*) | 2.3 MB/s | 65 MB/s, 5.6 TB a day |
//! | the same as rows with their eight indexes, about three times that (*e*) | 7 MB/s | 195 MB/s, 17 TB a day |
//! | an entry of a plain exchange, with no finding: 286 bytes in the journal, 632 as a row with its indexes (*m*) | | |
//! | shipping by one node that catches up, 90,000 to 115,000 entries into a table that was empty: 9,300, 17,200 and 19,600 a second in three runs (*m*) | | |
//!
//! *What breaks first* is none of the gateway's parts: it is the one database that takes every audit entry, in batches
//! of 500, one at a time from each node. `portcullis_audit_ship_waiting_seconds` says when it is too slow; nothing else
//! waits for it. In this order:
//!
//! 1. *Up to some thousand entries a second (*e*):* the table as the gateway makes it. Put the database's log on its own disk.
//! 2. *Partition by day.* [`PARTITIONED`](crate::store::archive::PARTITIONED), run before the first start, makes the same
//!    table in partitions; statements stay as they are, `day` being part of the key. Make each day's partition ahead of
//!    time (pg_partman does), and let old ones be dropped by the gateway's retention, or detach them for an archive.
//!    Where there is no partition for a day, entries wait in the journals, and that is told. CockroachDB splits its
//!    tables by itself, and knows no `PARTITION OF`.
//! 3. *Read replicas* for people and reports: point `[store.postgres]` of a node that gets no traffic at the primary, and
//!    ask others by SQL on the replica; payloads hold sealed names, which the gateway alone opens.
//! 4. *Past that* shard by node: Citus distributes `portcullis_audit` by `node`, which every statement that writes names; or
//!    keep days in PostgreSQL and forward everything by `[siem]` to a columnar store (`ocsf_file` or a webhook into
//!    ClickHouse), with `audit.retention_days` short. At 100,000 requests a second do this from the start, with an own
//!    database for each few nodes: deployments are independent, and their exports verify by themselves.
//! 5. *The hour's usage record*, which all nodes add to by compare-and-swap, is next (see [`crate::manual::cluster`]): fine
//!    for dozens of nodes, not for hundreds. *Names* are next: at most 1,048,576 have keys, and each new one is a
//!    transaction that all nodes take part in: some hundreds a second.
//! 6. *Redis:* each node tells at most 1,000 callers in each round of 5 ms; one Redis counts 100,000 and more scripts a
//!    second (*e*, by its own documentation). A cluster of them counts no more: one node of it has all the keys.
//!
//! # What a build needs
//! Hyperscan (Vectorscan) is C++ and linked dynamically, as Debian ships it: packages and the tarball need
//! `libvectorscan5` and the C++ runtime beside it. A static binary on musl would take Vectorscan, its Boost headers and a C++
//! runtime built for musl, which neither Debian nor rustup has.
//! Everything else is in the binary.
//!
//! # Known tensions
//! - The store is locked by one process: between two binaries there is a time in which callers wait. None is refused.
//!   With the state in a database ([`crate::manual::cluster`]) that is so for the journal alone.
//! - sled gives no disk space back after deletes. The audit journal is not in it; its segments are files, dropped whole.
//!
//! # WebSockets
//! On a route with `websocket = true` frames (RFC 6455) are read in both directions, in fragments or not. No extension
//! is offered to the provider, so that nothing is compressed, whatever the caller would like. Messages that are not
//! masked keep their frames; one that is becomes a single frame. Pings and pongs overtake messages that wait for a word
//! under way; all that waits on a socket is at most `limits.stream_hold_bytes_max`, and is of the room that
//! `limits.buffered_bytes_total` gives to all: where that is used up, a socket that needs more than 64 KiB of it is told
//! `overloaded` and closed with 1013. A block is told in the provider's
//! error event (Realtime's `error`), then the caller's side is closed with 1008, the provider's with 1001; what the
//! provider fails at closes with 1011. Who does not read is not waited for: each side has a second for its farewell.
//!
//! Any JSON or text is read, whoever speaks it, in text frames and in binary ones. Where the API is known, as Realtime
//! is, events are known by their names: texts, transcripts and arguments in pieces are one text each. Where it is not,
//! nothing tells that a text is over, and each message is judged by itself. Binary messages, and what pings carry, pass
//! and are counted where they are no text, whatever byte they begin with.
//! Placeholders (`mask = "token"`) that stand for the caller's own values are turned back in what the provider says,
//! from the next text on; those that stand for the provider's are not, whoever says them. What messages of the caller
//! tell the model as its operator is guarded like a request's system prompt, the last eight of them each by itself, and
//! the tools of a session or of a response are pinned like a request's.
//!
//! A socket is opened with the first of the route's upstreams and addresses that can be connected, beginning with another
//! upstream each time; once one has heard the handshake, no other is asked.
//!
//! A socket on which neither side says anything for the route's `upstream_idle_ms` is closed on both sides with 1001,
//! and so are all when the process ends: clients connect anew. On a route with `websocket_uninspected = true` they are
//! cut, for nobody knows where a frame ends. Each answer that ends and tells what it used (`response.done`) is counted as
//! a request of its own, beside the socket itself, and settled with the key's budget. As much is reserved as for any
//! answer once one is asked for (`asks` of the dialect, or what may be answered), anew where a message says how long one
//! may be, and nothing while none is awaited; what does not fit closes the socket with `budget_reserved`. Once the budget
//! is used up, the socket is closed behind the answer that did so. Keys with a budget, and those limited to models or
//! tools, open none where answers cannot be told apart (an API that is not known, `websocket_uninspected`). A limited key
//! has to name its model in the address, and every message is held against its lists. Where one of their sockets brings
//! something that cannot be read, and the policy fails open, it passes and the socket is closed: what would follow could
//! not be known. A socket that ends while an answer is under way, or one that was asked for has said nothing, pays what was
//! reserved for it.
//!
//! # Bedrock
//! A stream in Amazon's frames ends in an exception frame (`validationException` for a block), graceful or not: how the
//! model in an envelope would end is its own affair. Whole refusals of Bedrock name the exception in `__type`
//! (`AccessDeniedException` for a block), and our own code in `reason`.
//!
//! # Signatures of AWS
//! The caller's own signature passes as it is, with every header and byte that it covers; it names the host that the
//! caller addressed, so it holds only where that is the provider's name. A body that would have to change is refused
//! (403 `signed_content`), never sent with a signature that does not fit. On a route with `auth = "gateway_key"` and
//! `aws_region`, the caller presents a key of ours (in `X-API-Token`, or as what AWS calls a Bedrock API key, which its
//! SDKs take from the environment) and signs nothing; the gateway signs what leaves, after every change.
