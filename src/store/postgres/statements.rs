//! What is said to the database, and the tables it has.
//!
//! Types and statements are those that CockroachDB and YugabyteDB take, too: text, bytea, bigint, timestamptz,
//! row locks, `ON CONFLICT`. What they lack (`LISTEN`, advisory locks that lock) nothing here relies on: nodes
//! look for changes by themselves, and every table is guarded by the lock of its row.
//!
//! The tables only ever get more, never other, columns: a program of the version before goes on working beside
//! one that has made a step. [`STEPS`] is therefore added to, and never changed.

/// Steps that make the tables, in order. Each may be run again.
pub(super) const STEPS: [&str; 1] = ["
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
"];

/// Where it is written which steps were made.
pub(super) const MAKE_STEPS_TABLE: &str = "
    CREATE TABLE IF NOT EXISTS portcullis_steps (
        step bigint PRIMARY KEY,
        made_at timestamptz NOT NULL DEFAULT now()
    )";
/// Lets one process make steps at a time, until its transaction ends.
pub(super) const LOCK_STEPS: &str = "SELECT pg_advisory_xact_lock(8020171141225)";
pub(super) const LAST_STEP: &str = "SELECT coalesce(max(step), 0) FROM portcullis_steps";
pub(super) const NOTE_STEP: &str = "INSERT INTO portcullis_steps (step) VALUES ($1) ON CONFLICT DO NOTHING";

/// What every connection begins with; `$MS` is the time a statement may take.
pub(super) const BEGIN_SESSION: &str = "
    SET synchronous_commit = on;
    SET statement_timeout = $MS;
    SET idle_in_transaction_session_timeout = $MS";

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
    INSERT INTO portcullis_tables (name, version, floor) VALUES ($1, 1, 0)
    ON CONFLICT (name) DO UPDATE SET version = portcullis_tables.version + 1
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

pub(super) const VERSIONS: &str = "SELECT name, version FROM portcullis_tables";
/// A table's version, how far back its deletions are known, and what was changed since a version.
pub(super) const CHANGES: &str = "
    SELECT t.version, t.floor, e.key, e.value
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

/// The channel on which writers tell the others.
pub(super) const LISTEN: &str = "LISTEN portcullis";
pub(super) const NOTIFY: &str = "NOTIFY portcullis";
