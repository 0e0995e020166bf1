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
//! | the entries of all audit journals, as they were shipped | the live stream `/api/v1/audit/stream`: entries of the node that is asked |
//! | legal holds, erasures, the keys that names are sealed under | trust in agents, pins of tools, SAML assertions that were used |
//! | usage, cost, budgets | counts of A/B tests (the tests themselves are shared) |
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
//! *What is not shipped yet* `/api/v1/cluster/health` names for each node (`audit.shipped`, `audit.waiting`,
//! `audit.waiting_seconds`; of a node that is missing: as it was heard last), and each node's
//! `portcullis_audit_ship_waiting_entries` and `…_seconds`. It waits in the node's journal, which may grow to twice
//! `audit.retention_bytes` for it; past that the oldest entries are dropped, told as an error and counted
//! (`portcullis_audit_shipped_total{result="lost"}`). Entries of the first release, whose names were not sealed, are not
//! shipped: they are in the answers of their own node alone.
//!
//! *Verification.* `portcullis audit verify --shipped --config FILE` goes through all nodes' chains in the database: an
//! entry that was changed, taken out, put in, or is found by something else than it says, is named with its node. An
//! export of all nodes is verified chain by chain. One node signs where all chains are
//! (`/api/v1/audit/checkpoint/cluster`, every ten minutes with new entries, and when the job has moved): kept elsewhere,
//! `--checkpoint FILE` holds a later export or the database to it. A node that a checkpoint names has to be there, and its
//! chain to reach as far. The exit code is that of the worst chain, and 1 where there is none. One node verifies all of it
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
//! # How changes travel
//!
//! What one node writes the others hear by `NOTIFY`, and find by looking twice a second where that was lost or the
//! database knows no such word (CockroachDB). Whatever is decided by what is stored (the last admin key, a hold against
//! an erasure, the number of a revision) is decided by compare-and-swap on the versions of tables: two nodes cannot both
//! win. A budget can be exceeded by what other nodes used since a second ago.
//!
//! # What each failure does
//! | what fails | what happens |
//! |---|---|
//! | a node dies | the others go on, `/api/v1/cluster/health` shows it `missing` after 5 s, and `degraded` in all; its jobs move to another node; what it recorded is in the database but for what its last beat says was waiting, and on its disk |
//! | the database is away | audit entries wait in each journal; traffic goes on with the keys, users and rules that each node knows; whatever has to be written is refused with 503; a name that was never seen is recorded as `[unlisted]`; figures wait in memory; health is `degraded` after 5 s |
//! | Redis is away | `cluster.redis.when_away`: `local`, each node counts for itself and tells what was taken afterwards; `refuse`, 429 for what has a quota, and for calls of agents within a replay window |
//! | a node is cut off from the database | the same for that node alone; it serves the rules it has, and catches up when it is back |
//! | a hold or an erasure at a node that is cut off | refused: neither is taken without the database |
//! | two releases run at once | the tables only ever get more, so both work; roll the nodes one by one. One that cannot read newer records yet (names of keys, users and sessions are sealed since version 2) goes on with those it knows, and cannot change them |
//! | the nodes' files differ | the rules are those of the newest revision; a node where they do not build keeps what it had and is shown as `behind` |
//!
//! A node that was cut off does not know of keys that were revoked meanwhile: where that matters, let the load balancer
//! ask `/health`, which is `degraded` then.
//!
//! # Scale
//! A request asks nothing of the database: keys, sessions and rules are in memory. What a node writes each second is one
//! row that says it is there, one batch of usage and one of budgets, so some 3 transactions a second and node; PostgreSQL
//! on a small machine commits thousands. What breaks first with many nodes is the hour's usage record, which all
//! nodes add to: with N nodes each try loses against up to N - 1 others, which is fine for dozens and not for hundreds.
//! Nodes scale by requests as single gateways do: measure one with `make bench`, divide.
