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
//! | API keys, users, sessions, revoked tokens, signing keys | its audit journal, chain and checkpoints, and the places of its SIEM sinks |
//! | revisions of the rules (routes, policies, limits) | quotas, unless `cluster.limits = "redis"`; those of agents on `a2a` routes always |
//! | legal holds, erasures, the keys that names are sealed under | trust in agents, pins of tools, replay windows of `a2a` |
//! | usage, cost, budgets | counts of A/B tests (the tests themselves are shared) |
//!
//! So the audit log, `/api/v1/audit` and its exports answer for the node that is asked: collect the nodes' logs with
//! `[siem]`, or ask each node.
//!
//! # Quotas
//! With `cluster.limits = "local"` a quota of 60 a minute is up to 60 a minute at each node. With `"redis"` the nodes tell
//! each other what callers took: a node decides by what it knows, without asking anybody, and a script in Redis adds up
//! what all let through, every 5 ms and by Redis' own clock. So a caller can take more than its quota only by what
//! arrives at the other nodes within one such round, at most one burst at each; what was too much is missing
//! afterwards (up to a second burst), so that the rate holds. No request waits for Redis. `when_away` says what holds
//! while it is away; `portcullis_shared_limits_total{result="away"}` counts the rounds.
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
//! | a node dies | the others go on, `/api/v1/cluster/health` shows it `missing` after 5 s, and `degraded` in all; what was in its journal is on its disk, and in the SIEM as far as it was forwarded |
//! | the database is away | traffic goes on with the keys, users and rules that each node knows; whatever has to be written is refused with 503; a name that was never seen is recorded as `[unlisted]`; figures wait in memory; health is `degraded` after 5 s |
//! | Redis is away | `cluster.redis.when_away`: `local`, each node counts for itself and tells what was taken afterwards; `refuse`, 429 for what has a quota |
//! | a node is cut off from the database | the same for that node alone; it serves the rules it has, and catches up when it is back |
//! | a hold or an erasure at a node that is cut off | refused: neither is taken without the database |
//! | two releases run at once | the tables only ever get more, so both work; roll the nodes one by one |
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
