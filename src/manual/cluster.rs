//! Several gateways on one database.
//!
//! # How to run one
//! One PostgreSQL database (15 or newer), and for every node the same configuration:
//!
//! ```toml
//! [cluster]
//! enabled = true
//! [store]
//! backend = "postgres"
//! [store.postgres]
//! url_file    = "postgres.url"       # postgres://portcullis:…@db.internal:5432/portcullis
//! secret_file = "deployment.secret"  # openssl rand -hex 32; the same file on every node
//! ca_file     = "database-ca.pem"
//! ```
//!
//! The gateway makes its tables by itself. Several nodes may start on an empty database at once; the first admin key is
//! written by the one that was first, to its `state/admin.key`. Put the nodes behind any load balancer that asks
//! `/ready`; no session needs to stay at one node. `[cluster] enabled = false` with a database is one gateway whose state
//! lies there: a second one is not let in while the first is heard.
//!
//! # What is shared, and what is not
//! | shared by all nodes, at once or within a second | each node's own |
//! |---|---|
//! | API keys, users, sessions, revoked tokens, signing keys | its audit journal and its own checkpoints, and the places of its SIEM sinks |
//! | revisions of the rules (routes, policies, limits) | unless `cluster.limits = "redis"`: quotas, also of agents, and the replay windows of `a2a` |
//! | the entries of all audit journals, as they were shipped; the live stream `/api/v1/audit/stream`, on whichever node, is of all of them | |
//! | with `cluster.limits = "redis"`: ends and last uses of sessions, with the next request | |
//! | legal holds, erasures, the keys that names are sealed under, SAML assertions that were used | trust in agents, pins of tools |
//! | usage, cost; what was used of budgets, with `cluster.limits = "redis"` before the next exchange passes | counts of A/B tests (the tests themselves are shared) |
//!
//! # The audit log of all nodes
//! Each node writes its own journal, with its own chain of hashes, as a single gateway does; an answer waits for that disk
//! alone. What is in the journal is shipped to the database a moment later (some 50 ms), the same bytes in the same
//! order: names stay sealed, and whoever is erased is gone from there as well. `GET /api/v1/audit` and its exports, on
//! whichever node, are of all nodes: what was shipped, and what the asked node has still to ship. Each entry names its
//! `node`, and `?node=` asks for one. Entries are ordered by id, newest first, which is the moment of recording by the clock
//! of the node that recorded it; a cursor stays where it is, whatever is recorded meanwhile. Without the database a node
//! answers from its own journal, and says `"complete": false`; an export is refused then, unless it is of the asked node.
//!
//! *The live stream* of a node has its own entries as they are recorded, and those of the others as they are shipped,
//! each node's in their order and all of them once. The id of an event tells how far the client has heard each node: with
//! it as `Last-Event-ID` it goes on at any of them, without a gap. Without the database a node goes on with its own
//! entries; those of the others follow once it is back.
//!
//! *Of an older release.* What nodes have shipped that know no filter by action, detector, route or policy, or still ship
//! while two releases run, is given what these find it by afterwards, by one node, the newest entries first; until it is
//! done, a query that uses one of them says `"complete": false`. The indices are made once, at the first start of a newer
//! node: as long as that takes on a large table, nothing is shipped, and entries wait in the journals.
//!
//! *What is not shipped yet* `/api/v1/cluster/health` names for each node (`audit.shipped`, `audit.waiting`,
//! `audit.waiting_seconds`; of a node that is missing: as it was heard last), and each node's
//! `portcullis_audit_ship_waiting_entries` and `…_seconds`. It waits in the node's journal, which may grow to twice
//! `audit.retention_bytes` for it; past that the oldest entries are dropped, told as an error and counted
//! (`portcullis_audit_shipped_total{result="lost"}`). Entries of the first release, whose names were not sealed, are not
//! shipped: they are in the answers of their own node alone, and those of the others say `"complete": false` for times
//! in which there may be any.
//!
//! *Verification.* `portcullis audit verify --shipped --config FILE` goes through all nodes' chains in the database: an
//! entry that was changed, taken out, put in, or is found by something else than it says, is named with its node. An
//! export of all nodes is verified chain by chain. One node signs where all chains are
//! (`/api/v1/audit/checkpoint/cluster`, every ten minutes with new entries, and at once when the job has moved, or a node has
//! shipped its first ones): kept elsewhere, `--checkpoint FILE` holds a later export or the database to it. A node that a
//! checkpoint names has to be there, and its chain to reach as far. The exit code is that of the worst chain, and 1 where there is none. One node verifies all of it
//! every quarter of an hour (`portcullis_audit_shipped_chain_faults`). A journal that was restored from a backup does not
//! go on where it had been shipped up to: the verification says so.
//!
//! *Retention.* What was shipped is dropped after `audit.retention_days`, in each chain up to the first entry about or by
//! somebody under a legal hold, by one transaction that fails if a hold was taken meanwhile. A node's journal drops what
//! is past its limits once it was shipped.
//!
//! *SIEM.* Each node forwards its own journal, from its own place: nothing is forwarded by two, no node waits for
//! another, and a sink is never further behind than the node is. What a node that died for good had recorded but not
//! forwarded is in the database as far as it was shipped; fetch it by `/api/v1/audit/export?node=…&from=…`.
//!
//! # What only one node does
//! Retention of what was shipped, the checkpoint of all chains, their verification, and the erasures that a node began
//! which is gone belong to one node each
//! (`jobs` in `/api/v1/cluster/health`). A row says which; another node takes it by compare-and-swap once that one was not
//! heard for 5 seconds, and what a job changes it changes only while the row is as it was. Reports of compliance are
//! made when they are asked for, of all nodes' entries; nothing is rolled up ahead.
//!
//! # Quotas
//! With `cluster.limits = "local"` a quota of 60 a minute is up to 60 a minute at each node. With `"redis"` the nodes tell
//! each other what callers took: a node decides by what it knows, without asking anybody, and a script in Redis adds up
//! what all let through, every 5 ms and by Redis' own clock. So a caller can take more than its quota only by what
//! arrives at the other nodes within one such round, at most one burst at each; what was too much is missing
//! afterwards (up to a second burst), so that the rate holds. No request waits for Redis but a signed call of an agent
//! where there is a replay window: whether its signature came to any node before is asked there, once it is new to the
//! node itself. `when_away` says what holds while Redis is away; `portcullis_shared_limits_total{result="away"}` counts
//! the rounds.
//!
//! # Budgets
//! With `cluster.limits = "local"` each node keeps to a key's budget by what it knows: what it used itself, and what the
//! others had written, up to a second or two ago. With `"redis"` all nodes decide together, before an exchange of a key
//! with a budget passes: one script adds up what the database had, what each node used since, and what is reserved for the
//! exchanges under way at each, and grants the reservation or does not. So a key uses beyond its budget no more at all nodes
//! together than it could at one. That is one round trip for each such exchange (and each request on a socket); keys
//! without a budget ask nothing, and the database keeps the lasting record as before. In Redis a budget goes by a keyed
//! hash of its key's id.
//!
//! Days and months begin by Redis' clock, of which nodes hear with every answer: one whose own clock is ahead takes nobody
//! along, and a Redis whose clock was set back neither refuses anything nor gives anything back. A budget that is taken away
//! and given again is another one: it begins with what the usage figures say its key used.
//!
//! Nothing in Redis has to last. Each node says every second again what it has under way and has not written; one that
//! began anew knows all of it within that second. With `when_away = "refuse"` it is not believed for its first 2 seconds,
//! and what it is asked is answered as if it were away. What a node that died had reserved lapses after 5 seconds; so does,
//! for the others, what a node has under way that cannot reach Redis for that long. While Redis is away `"local"` lets
//! each node decide by what it knows, and `"refuse"` answers keys with a budget as a quota does (429, `rate_limited`, come
//! back in a second); what is under way goes on and is counted. Use `maxmemory-policy noeviction`.
//!
//! # How long a request waits
//! `cluster.redis.timeout_ms` (500) for whatever it asks, the wait for its turn included, and for all that it asks
//! together: a request whose session was slow to be answered for waits that much less for its budget, and goes by
//! `when_away` after that. On a socket each message of the caller counts as a request. Once an answer has not come in that
//! time Redis counts as away at this node: nobody asks it any more, quotas included, until one connection at a time,
//! twice a second, has found that it answers. After a failover whoever answers at the address is asked: a server that
//! says `READONLY`, `LOADING` or `MASTERDOWN` loses its connections.
//!
//! *Redis Cluster.* All keys have one hash tag, so that one node of a cluster has everything that is shared: more nodes share
//! no load, but one takes over where another fails. The URL may name any node, best a name that leads to all of them. Whoever
//! has the keys is learnt from `MOVED` and asked from then on; while a slot moves, `ASK` is followed for the one question, and
//! a budget, which takes two keys, counts as away as long as only one of them has come over.
//! Within one wait five such steps are gone, no more. Where the node that was learnt fails or says `CLUSTERDOWN`, the URL is
//! asked again, and the other way about. The nodes' own addresses have to be reachable, take the URL's user and password and,
//! with `rediss`, have certificates for what the cluster calls them (`cluster-announce-ip`, or `cluster-announce-hostname`
//! with `cluster-preferred-endpoint-type hostname`).
//!
//! # Sessions
//! That a session began, and that it ended, travels as other changes do ([below](#how-changes-travel)); last uses are written
//! every minute. With `cluster.limits = "redis"` each request with a session, or with a token that ends with one, asks
//! Redis whether it has ended and when it was last used at any node, and notes its own use, in one round trip. So who
//! signs out, or is signed out, is so at all nodes with the next request, also at one that is cut off from the database;
//! and idle is who was so at all of them. What is under way (a stream, a socket) ends when its node hears of it from the
//! database. An end that could not be told is told as soon as Redis is back. A session that is idle at one node is taken out
//! of the database only if all nodes say so. In Redis a session goes by a keyed hash of its id, with a moment or the word `ended`; nothing there opens one.
//! While Redis is away `"local"` lets each node go by what it heard from the database, and with `"refuse"` calls with a
//! session are answered 503 (come back in a second), at nobody's cost: whether it has ended nobody can tell, and nobody is
//! sent to sign in again. API keys count all the same.
//!
//! # How changes travel
//!
//! What one node writes the others hear by `NOTIFY`, and find by looking twice a second where that was lost or the
//! database knows no such word. Whatever is decided by what is stored (the last admin key, a hold against
//! an erasure, the number of a revision) is decided by compare-and-swap on the versions of tables: two nodes cannot both
//! win. Each version has a stamp of its own, so that one that a database came to anew after it had lost the one before is no
//! other's. Without Redis a budget can be exceeded by what other nodes used since a second ago.
//!
//! # CockroachDB and YugabyteDB
//! Both speak PostgreSQL's protocol, and the statements are kept to what both take. No server of either was run: what
//! stands here was read, or tried with PostgreSQL in their place.
//!
//! *Syntax.* Every statement that is sent (72, those that are put together with all their conditions; a column that came
//! later is added in a form that is among them) was held against the grammar of CockroachDB's own parser, of June 2025,
//! taken alone; what it always calls unimplemented counted as refused. It refuses two, `LISTEN` and `NOTIFY`. YugabyteDB from 2025.1 on is built from PostgreSQL 15, with which the
//! tests run them; earlier ones are of PostgreSQL 11, and were not looked at. Whether types, functions and plans agree a
//! grammar does not tell: that there are `unnest` of several arrays, `string_to_array`, `gin` indices on arrays and
//! `SET LOCAL` was read in CockroachDB's documents and source.
//!
//! *What is refused there, and what happens then:*
//!
//! | word | where it is not | then |
//! |---|---|---|
//! | `LISTEN`, `NOTIFY` | CockroachDB; YugabyteDB before 2025.2.3, and where it is not switched on | nodes look twice a second, and do not say the word again; no connection is lost for it |
//! | `pg_advisory_xact_lock` | CockroachDB before transaction locks came in 2026; YugabyteDB before 2025.1 | tables are made without it: nodes that start at once try again until one has made them |
//! | error 40001, which both give more often than PostgreSQL | | a transaction is tried five times, of the state as of the audit log, after pauses of up to 10, 20, 40 and 80 ms |
//! | `PARTITION OF` | CockroachDB | nothing uses it by itself; see [`operations`](crate::manual::operations) |
//!
//! These were tried: with functions that answer in PostgreSQL's place as those databases do, with a relay that
//! makes the two words unknown, and with triggers that end transactions by 40001. No `SKIP LOCKED`, no `DO`, no stored
//! procedure, no sequence and no number of a transaction is used.
//!
//! *Speed.* YugabyteDB spreads a key by the hash of its first column: the audit log, which is asked for by ranges of ids,
//! wants `yb_use_hash_splitting_by_default = off` for the user of the gateway when the tables are made.
//!
//! # What each failure does
//! | what fails | what happens |
//! |---|---|
//! | a node dies | the others go on, `/api/v1/cluster/health` shows it `missing` after 5 s, and `degraded` in all; its jobs move to another node; what it recorded is in the database but for what its last beat says was waiting, and on its disk |
//! | the database is away | audit entries wait in each journal; traffic goes on with the keys, users and rules that each node knows; whatever has to be written is refused with 503; a name that was never seen is recorded as `[unlisted]`; figures wait in memory; health is `degraded` after 5 s |
//! | the database is slow, or takes no writes | whoever is known is answered as ever; a caller whom nobody knew waits up to half a second with `audit.durability = "wait"`, and not at all otherwise; who has no key within a quarter of a second is recorded as `[unlisted]` |
//! | the database loses what it had confirmed (a failover to a standby that lagged behind, a restored backup) | every node notices it by tables that went back, says so as an error, and reads all that it keeps in memory anew, mostly within a second: keys, users, holds and rules are those that the database has. Whatever was lost has to be done again |
//! | Redis answers, and refuses (its memory is full, it is a replica, its password is another) | as if it were away, and told once as an error |
//! | Redis is away | `cluster.redis.when_away`: `local`, each node counts for itself and tells what was taken afterwards; `refuse`, 429 for what has a quota or a budget, and for calls of agents within a replay window; 503 for sessions |
//! | a node is cut off from the database | the same for that node alone; it serves the rules it has, and catches up when it is back |
//! | a hold or an erasure at a node that is cut off | refused: neither is taken without the database |
//! | two releases run at once | the tables only ever get more, so both work; roll the nodes one by one. One that cannot read newer records yet (names of keys, users, sessions and the authors of revisions are sealed since version 2) goes on with those it knows, and cannot change them: it keeps the rules it has, and does not begin again; the way back to it is the backup that was made before. Rules made at one release are in force at the other, with its own defaults for what they do not name; no node puts the defaults of its release over rules that another has published |
//! | the nodes' files differ | the rules are those of the newest revision; a node where they do not build keeps what it had and is shown as `behind`; one that begins then begins with the latest revision that builds there, and publishes nothing |
//!
//! `/ready` stays 200 while the database is away, or else a balancer would take out all nodes at once for what none of
//! them needs to answer. A node that was cut off does not know of keys that were revoked meanwhile: where that matters, let
//! the load balancer ask `/health`, which is `degraded` (503) then. One that reaches the database, and cannot follow what others
//! wrote there, is not ready after 5 s.
//!
//! # Scale
//! A request asks nothing of the database: keys, sessions and rules are in memory, and the names of new callers get their
//! keys behind its back, all that wait by one transaction. What a node writes each second is one
//! row that says it is there, one batch of usage and one of budgets, so some 3 transactions a second and node; PostgreSQL
//! on a small machine commits thousands. What breaks first with many nodes is the hour's usage record, which all
//! nodes add to: with N nodes each try loses against up to N - 1 others, which is fine for dozens and not for hundreds.
//! Nodes scale by requests as single gateways do: measure one with `make bench`, divide.
