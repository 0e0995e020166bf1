//! What is said to the database, and the tables it has.
//!
//! Types and statements are those that CockroachDB and YugabyteDB take, too: text, bytea, bigint, timestamptz,
//! row locks, `ON CONFLICT`. What they may refuse ([`LISTEN`], [`NOTIFY`], [`LOCK_STEPS`]) nothing here relies on: nodes
//! look for changes by themselves, every table is guarded by the lock of its row, and steps that two make at once are
//! tried again. An argument says its type where nothing else does. [`crate::manual::cluster`] says what was checked.
//!
//! The tables only ever get more, never other, columns: a program of the version before goes on working beside
//! one that has made a step. [`STEPS`] is therefore added to, and never changed.
//!
//! What was shipped of audit journals lies in one table. `day` (whole days since 1970) is part of its primary key, so
//! that it can be partitioned by day with the statements as they are; it is not by itself, because CockroachDB takes
//! no `PARTITION OF`. [`crate::manual::operations`] says how to make it so before the first start.

/// Steps that make the tables, in order. Each may be run again.
pub(super) const STEPS: [&str; 6] = [
    "
    CREATE TABLE IF NOT EXISTS portcullis_tables (
        name text PRIMARY KEY,
        version bigint NOT NULL,
        floor bigint NOT NULL
    );
    CREATE TABLE IF NOT EXISTS portcullis_entries (
        name text NOT NULL,
        key bytea NOT NULL,
        value bytea,
        version bigint NOT NULL,
        changed_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (name, key)
    );
    CREATE INDEX IF NOT EXISTS portcullis_entries_by_version ON portcullis_entries (name, version);
",
    "
    CREATE TABLE IF NOT EXISTS portcullis_audit (
        node text NOT NULL,
        seq bigint NOT NULL,
        day bigint NOT NULL,
        id bytea NOT NULL,
        category text,
        severity text,
        event_type text NOT NULL,
        entity text,
        actor text,
        request_id text,
        payload bytea NOT NULL,
        PRIMARY KEY (node, seq, day)
    );
    CREATE INDEX IF NOT EXISTS portcullis_audit_by_id ON portcullis_audit (id, node);
    CREATE INDEX IF NOT EXISTS portcullis_audit_by_entity ON portcullis_audit (entity, id)
        WHERE entity IS NOT NULL;
    CREATE INDEX IF NOT EXISTS portcullis_audit_by_actor ON portcullis_audit (actor, id)
        WHERE actor IS NOT NULL;
    CREATE INDEX IF NOT EXISTS portcullis_audit_by_request ON portcullis_audit (request_id)
        WHERE request_id IS NOT NULL;
    CREATE INDEX IF NOT EXISTS portcullis_audit_by_category ON portcullis_audit (category, id)
        WHERE category IS NOT NULL;
    CREATE INDEX IF NOT EXISTS portcullis_audit_by_severity ON portcullis_audit (severity, id)
        WHERE severity IS NOT NULL;
    CREATE INDEX IF NOT EXISTS portcullis_audit_by_type ON portcullis_audit (event_type, id);
    CREATE TABLE IF NOT EXISTS portcullis_audit_heads (
        node text PRIMARY KEY,
        seq bigint NOT NULL,
        id bytea NOT NULL,
        hash bytea NOT NULL,
        floor bigint NOT NULL,
        floor_hash bytea NOT NULL
    );
    CREATE TABLE IF NOT EXISTS portcullis_audit_tallies (
        hour bigint NOT NULL,
        node text NOT NULL,
        category text NOT NULL,
        severity text NOT NULL,
        event_type text NOT NULL,
        count bigint NOT NULL,
        PRIMARY KEY (hour, node, category, severity, event_type)
    );
",
    // Nodes that know nothing of these columns leave them empty; see MAKE_FACET_INDICES.
    "
    ALTER TABLE portcullis_audit ADD COLUMN IF NOT EXISTS action text;
    ALTER TABLE portcullis_audit ADD COLUMN IF NOT EXISTS route text;
    ALTER TABLE portcullis_audit ADD COLUMN IF NOT EXISTS policy text;
    ALTER TABLE portcullis_audit ADD COLUMN IF NOT EXISTS detectors text[];
",
    // The categories of findings that are not the gravest, with commas; empty where there are none. What nodes leave
    // empty that know nothing of it is sorted in later. Their tallies stand apart, so that each entry is counted once.
    "
    ALTER TABLE portcullis_audit ADD COLUMN IF NOT EXISTS others text;
    CREATE TABLE IF NOT EXISTS portcullis_audit_others (
        hour bigint NOT NULL,
        node text NOT NULL,
        category text NOT NULL,
        severity text NOT NULL,
        event_type text NOT NULL,
        count bigint NOT NULL,
        PRIMARY KEY (hour, node, category, severity, event_type)
    );
",
    // When a row was recorded whose id tells another moment, in Unix milliseconds, and whether a node has any such: none is
    // looked for where it has not.
    "
    ALTER TABLE portcullis_audit ADD COLUMN IF NOT EXISTS recorded bigint;
    ALTER TABLE portcullis_audit_heads ADD COLUMN IF NOT EXISTS set_back boolean NOT NULL DEFAULT false;
",
    // What tells a version from another one of the same number, where the database lost its last commits. Nodes that know
    // nothing of it leave it as it was.
    "
    ALTER TABLE portcullis_tables ADD COLUMN IF NOT EXISTS stamp bigint NOT NULL DEFAULT 0;
",
];

/// Makes the indices of facets, the first of which finds the rows that have none yet. They are no step: they take as long
/// as the table is large, and what is shipped meanwhile waits in the journals.
pub(super) const MAKE_FACET_INDICES: [&str; 7] = [
    "CREATE INDEX IF NOT EXISTS portcullis_audit_to_sort ON portcullis_audit (id)
        WHERE action IS NULL OR (category IS NOT NULL AND others IS NULL)",
    "CREATE INDEX IF NOT EXISTS portcullis_audit_by_others ON portcullis_audit (id) WHERE others <> ''",
    "CREATE INDEX IF NOT EXISTS portcullis_audit_by_action ON portcullis_audit (action, id)
        WHERE action IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS portcullis_audit_by_route ON portcullis_audit (route, id)
        WHERE route IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS portcullis_audit_by_policy ON portcullis_audit (policy, id)
        WHERE policy IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS portcullis_audit_by_detector ON portcullis_audit USING gin (detectors)",
    "CREATE INDEX IF NOT EXISTS portcullis_audit_by_recorded ON portcullis_audit (recorded)
        WHERE recorded IS NOT NULL",
];

/// Where it is written which steps were made.
pub(super) const MAKE_STEPS_TABLE: &str = "
    CREATE TABLE IF NOT EXISTS portcullis_steps (
        step bigint PRIMARY KEY,
        made_at timestamptz NOT NULL DEFAULT now()
    )";
/// Lets one process make steps at a time, until its transaction ends.
pub(super) const LOCK_STEPS: &str = "SELECT pg_advisory_xact_lock(8020171141225)";
/// Asks whether there is such a lock, and leaves it.
pub(super) const TRY_LOCK: &str = "SELECT pg_try_advisory_xact_lock(8020171141225)";
/// What stands in its place where there is none.
pub(super) const NO_LOCK: &str = "SELECT 1";
pub(super) const LAST_STEP: &str = "SELECT coalesce(max(step), 0) FROM portcullis_steps";
pub(super) const NOTE_STEP: &str = "INSERT INTO portcullis_steps (step) VALUES ($1) ON CONFLICT DO NOTHING";

/// What every connection begins with; `$MS` is the time a statement may take.
pub(super) const BEGIN_SESSION: &str = "
    SET synchronous_commit = on;
    SET statement_timeout = $MS;
    SET idle_in_transaction_session_timeout = $MS";

/// What a database is, whether it takes what is written, and the time by its clock, in milliseconds.
pub(super) const ASK: &str = "
    SELECT version(), current_setting('transaction_read_only') = 'off',
        (extract(epoch FROM now()) * 1000)::INT8";

pub(super) const GET: &str =
    "SELECT value FROM portcullis_entries WHERE name = $1 AND key = $2 AND value IS NOT NULL";
pub(super) const SCAN_UP: &str = "
    SELECT key, value FROM portcullis_entries
    WHERE name = $1 AND key >= $2 AND value IS NOT NULL ORDER BY key LIMIT $3";
pub(super) const SCAN_UP_TO: &str = "
    SELECT key, value FROM portcullis_entries
    WHERE name = $1 AND key >= $2 AND key < $4 AND value IS NOT NULL ORDER BY key LIMIT $3";
pub(super) const SCAN_DOWN: &str = "
    SELECT key, value FROM portcullis_entries
    WHERE name = $1 AND key >= $2 AND value IS NOT NULL ORDER BY key DESC LIMIT $3";
pub(super) const SCAN_DOWN_FROM: &str = "
    SELECT key, value FROM portcullis_entries
    WHERE name = $1 AND key >= $2 AND key < $4 AND value IS NOT NULL ORDER BY key DESC LIMIT $3";

/// Takes the next version of a table, and its lock until the transaction ends.
pub(super) const NEXT_VERSION: &str = "
    INSERT INTO portcullis_tables (name, version, floor, stamp) VALUES ($1, 1, 0, $2)
    ON CONFLICT (name) DO UPDATE SET version = portcullis_tables.version + 1, stamp = excluded.stamp
    RETURNING version";
/// Takes the lock of a table that is looked at, not changed.
pub(super) const SAME_VERSION: &str = "
    INSERT INTO portcullis_tables (name, version, floor) VALUES ($1, 0, 0)
    ON CONFLICT (name) DO UPDATE SET version = portcullis_tables.version
    RETURNING version";
pub(super) const PUT: &str = "
    INSERT INTO portcullis_entries (name, key, value, version)
    SELECT * FROM unnest($1::text[], $2::bytea[], $3::bytea[], $4::bigint[])
    ON CONFLICT (name, key)
    DO UPDATE SET value = excluded.value, version = excluded.version, changed_at = now()";
pub(super) const DELETE: &str = "
    UPDATE portcullis_entries SET value = NULL, version = $3, changed_at = now()
    WHERE name = $1 AND key = ANY($2) AND value IS NOT NULL";

pub(super) const TABLE_MARKS: &str = "SELECT name, version, stamp FROM portcullis_tables";
/// A table's version, how far back its deletions are known, what was changed since a version, and the version's stamp.
pub(super) const CHANGES: &str = "
    SELECT t.version, t.floor, e.key, e.value, t.stamp
    FROM portcullis_tables t
    LEFT JOIN portcullis_entries e ON e.name = t.name AND e.version > $2
    WHERE t.name = $1";
pub(super) const SIZE: &str =
    "SELECT coalesce(sum(length(key) + coalesce(length(value), 0)), 0)::bigint FROM portcullis_entries";

/// Forgets which entries were deleted longer than a day ago.
pub(super) const OLD_DELETIONS: &str = "
    SELECT name, max(version) FROM portcullis_entries
    WHERE value IS NULL AND changed_at < now() - interval '1 day' GROUP BY name";
pub(super) const RAISE_FLOOR: &str =
    "UPDATE portcullis_tables SET floor = greatest(floor, $2) WHERE name = $1";
pub(super) const FORGET_DELETIONS: &str =
    "DELETE FROM portcullis_entries WHERE name = $1 AND value IS NULL AND version <= $2";

/// A node's newest row, and what it had of older ones.
pub(super) const MAKE_HEAD: &str = "
    INSERT INTO portcullis_audit_heads (node, seq, id, hash, floor, floor_hash)
    VALUES ($1, 0, $2, $3, 0, $3) ON CONFLICT DO NOTHING";
pub(super) const HEADS: &str =
    "SELECT node, seq, id, hash, floor, floor_hash FROM portcullis_audit_heads ORDER BY node";
pub(super) const HEAD: &str =
    "SELECT node, seq, id, hash, floor, floor_hash FROM portcullis_audit_heads WHERE node = $1";
/// Moves a head on, if it is where it is thought to be. What stands before its first row is said with the first ones;
/// afterwards only what is dropped moves it.
pub(super) const MOVE_HEAD: &str = "
    UPDATE portcullis_audit_heads SET seq = $3, id = $4, hash = $5, set_back = set_back OR $7::boolean,
        floor_hash = CASE WHEN seq = 0 THEN $6::bytea ELSE floor_hash END
    WHERE node = $1 AND seq = $2";
pub(super) const MOVE_FLOOR: &str = "
    UPDATE portcullis_audit_heads SET floor = $3, floor_hash = $4
    WHERE node = $1 AND floor = $2 AND seq >= $3";
pub(super) const ARCHIVE: &str = "
    INSERT INTO portcullis_audit
        (node, seq, day, id, category, severity, event_type, entity, actor, request_id, payload, action, route,
         policy, detectors, others, recorded)
    SELECT $1::text, q, y, i, c, s, t, e, a, r, p, n, o, l, string_to_array(d, chr(10)), h, m FROM unnest(
        $2::bigint[], $3::bigint[], $4::bytea[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
        $10::text[], $11::bytea[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::bigint[])
        AS u (q, y, i, c, s, t, e, a, r, p, n, o, l, d, h, m)
    ON CONFLICT DO NOTHING";
/// The newest rows that are not found by their facets yet.
pub(super) const UNSORTED: &str = "
    SELECT node, seq, payload, day FROM portcullis_audit
    WHERE action IS NULL OR (category IS NOT NULL AND others IS NULL) ORDER BY id DESC LIMIT $1";
/// What holds for rows that are not found by all their facets yet.
pub(super) const IS_UNSORTED: &str = "(action IS NULL OR (category IS NOT NULL AND others IS NULL))";
pub(super) const SORT_IN: &str = "
    UPDATE portcullis_audit
    SET action = n, route = o, policy = l, detectors = string_to_array(d, chr(10)), others = h
    FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
        AS u (k, q, y, n, o, l, d, h)
    WHERE node = k AND seq = q AND day = y AND (action IS NULL OR (category IS NOT NULL AND others IS NULL))
    RETURNING node, seq";
pub(super) const TALLY: &str = "
    INSERT INTO portcullis_audit_tallies (hour, node, category, severity, event_type, count)
    SELECT h, $1::text, c, s, t, n
    FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[]) AS u (h, c, s, t, n)
    ON CONFLICT (hour, node, category, severity, event_type)
    DO UPDATE SET count = portcullis_audit_tallies.count + excluded.count";
/// The same for categories that are not the gravest.
pub(super) const TALLY_OTHERS: &str = "
    INSERT INTO portcullis_audit_others (hour, node, category, severity, event_type, count)
    SELECT h, $1::text, c, s, t, n
    FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[]) AS u (h, c, s, t, n)
    ON CONFLICT (hour, node, category, severity, event_type)
    DO UPDATE SET count = portcullis_audit_others.count + excluded.count";
/// Where the oldest rows of a node went, there is nothing to be counted: whoever dropped them.
pub(super) const FORGET_OTHERS: &str =
    "DELETE FROM portcullis_audit_others WHERE node = $1 AND (count <= 0 OR hour < $2)";
pub(super) const FORGET_TALLIES: &str = "DELETE FROM portcullis_audit_tallies WHERE node = $1 AND count <= 0";
pub(super) const ROWS: &str = "
    SELECT seq, id, category, severity, event_type, entity, actor, request_id, payload, action, route, policy,
        detectors, others, recorded
    FROM portcullis_audit
    WHERE node = $1 AND seq > $2 ORDER BY seq LIMIT $3";
pub(super) const PLACE: &str = "
    SELECT seq FROM portcullis_audit WHERE node = $1 AND id <= $2 ORDER BY id DESC LIMIT 1";
pub(super) const DROP_ROWS: &str = "
    DELETE FROM portcullis_audit WHERE node = $1 AND seq <= $2 RETURNING id, severity, event_type, others";
/// Asks whether there may be rows whose ids do not tell when they were recorded.
pub(super) const IS_ANY_SET_BACK: &str =
    "SELECT EXISTS (SELECT 1 FROM portcullis_audit_heads WHERE set_back)";
/// Asks when the earliest of them was recorded.
pub(super) const EARLIEST_SET_BACK: &str = "
    SELECT min(recorded) FROM portcullis_audit
    WHERE recorded IS NOT NULL AND EXISTS (SELECT 1 FROM portcullis_audit_heads WHERE set_back)";
pub(super) const BEGIN_SEARCH: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
/// Lets the statements of a transaction take their time; `$MS` is how much.
pub(super) const TAKE_TIME: &str = "SET LOCAL statement_timeout = $MS";

/// The channel on which writers tell the others.
pub(super) const LISTEN: &str = "LISTEN portcullis";
pub(super) const NOTIFY: &str = "NOTIFY portcullis";
