//! One call on one connection.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio_postgres::Client;
use tokio_postgres::Row;
use tokio_postgres::Statement;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use super::broken;
use super::pool::Pool;
use super::statements;
use super::tables::is_unknown;
use crate::store::Batch;
use crate::store::Changes;
use crate::store::KeyRange;
use crate::store::Mark;
use crate::store::Order;
use crate::store::StoreError;

/// How often a transaction is tried that the database ended because of another one.
const TRIES_MAX: usize = 5;
/// How long it waits at the most before its second try, and at the least half of that; twice as long before each later one.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) type Arguments<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A connection, and the statements that are prepared on it.
pub(super) struct Prepared {
    pub(super) client: Client,
    statements: HashMap<&'static str, Statement>,
}

/// A connection that is in use; it goes back to the pool if all its statements ended well.
pub(super) struct Session {
    prepared: Option<Prepared>,
    pool: Arc<Pool>,
    /// Whether something is under way, or went wrong.
    is_open: bool,
    _place: OwnedSemaphorePermit,
}

/// How often a transaction was tried.
#[derive(Default)]
pub(super) struct Tries(usize);

/// What became of a table since a version.
pub(super) enum Since {
    Known(Changes),
    /// Deletions are not known that far back: the whole table has to be read.
    TooLong,
}

/// How a transaction ended.
enum Ended {
    Committed,
    Conflicted,
}

impl Prepared {
    pub(super) fn new(client: Client) -> Self {
        Self { client, statements: HashMap::new() }
    }

    pub(super) async fn statement(&mut self, sql: &'static str) -> Result<Statement, tokio_postgres::Error> {
        if let Some(known) = self.statements.get(sql) {
            return Ok(known.clone());
        }
        let prepared = self.client.prepare(sql).await?;
        self.statements.insert(sql, prepared.clone());
        Ok(prepared)
    }

    pub(super) async fn rows(
        &mut self,
        sql: &'static str,
        arguments: Arguments<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.statement(sql).await?;
        self.client.query(&statement, arguments).await
    }

    /// Writes a batch in one transaction.
    async fn write(&mut self, batch: &Batch) -> Result<Ended, tokio_postgres::Error> {
        self.client.batch_execute("BEGIN").await?;
        let (changed, expected) = (batch.tables(), batch.expected());
        let mut versions = BTreeMap::new();
        // In the order of their names, whoever asks: so nobody waits for somebody who waits for them.
        let tables: BTreeSet<&str> =
            changed.iter().copied().chain(expected.keys().map(String::as_str)).collect();
        for table in tables {
            let (sql, rises) = match changed.contains(table) {
                true => (statements::NEXT_VERSION, 1),
                false => (statements::SAME_VERSION, 0),
            };
            let rows = match rises {
                0 => self.rows(sql, &[&table]).await?,
                _ => self.rows(sql, &[&table, &batch.stamp()]).await?,
            };
            let version: i64 = rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or_default();
            if expected.get(table).is_some_and(|expected| *expected as i64 != version - rises) {
                self.client.batch_execute("ROLLBACK").await?;
                return Ok(Ended::Conflicted);
            }
            versions.insert(table, version);
        }
        self.write_entries(batch, &versions).await?;
        self.client.batch_execute("COMMIT").await?;
        Ok(Ended::Committed)
    }

    async fn write_entries(
        &mut self,
        batch: &Batch,
        versions: &BTreeMap<&str, i64>,
    ) -> Result<(), tokio_postgres::Error> {
        // The last change of a key counts, and a statement may name a row once.
        let mut last: BTreeMap<(&str, &[u8]), Option<&[u8]>> = BTreeMap::new();
        for change in batch.changes() {
            last.insert((change.table.as_str(), change.key.as_slice()), change.value.as_deref());
        }
        let (mut names, mut keys, mut values, mut at) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut deleted: BTreeMap<&str, Vec<&[u8]>> = BTreeMap::new();
        for ((table, key), value) in last {
            match value {
                Some(value) => {
                    names.push(table);
                    keys.push(key);
                    values.push(value);
                    at.push(versions.get(table).copied().unwrap_or_default());
                }
                None => deleted.entry(table).or_default().push(key),
            }
        }
        if !names.is_empty() {
            let statement = self.statement(statements::PUT).await?;
            self.client.execute(&statement, &[&names, &keys, &values, &at]).await?;
        }
        for (table, keys) in deleted {
            let (statement, version) =
                (self.statement(statements::DELETE).await?, versions.get(table).copied().unwrap_or_default());
            self.client.execute(&statement, &[&table, &keys, &version]).await?;
        }
        Ok(())
    }
}

impl Tries {
    /// Makes ready for another try after one that failed; fails with its error where another one would not help.
    pub(super) async fn again(
        &mut self,
        prepared: &mut Prepared,
        error: tokio_postgres::Error,
    ) -> Result<(), StoreError> {
        self.0 += 1;
        if self.0 >= TRIES_MAX || !is_worth_another_try(&error) {
            return Err(broken(error));
        }
        prepared.client.batch_execute("ROLLBACK").await.map_err(broken)?;
        tokio::time::sleep(pause(self.0)).await;
        Ok(())
    }
}

impl Session {
    pub(super) fn new(prepared: Prepared, pool: Arc<Pool>, place: OwnedSemaphorePermit) -> Self {
        Self { prepared: Some(prepared), pool, is_open: false, _place: place }
    }

    /// Returns the connection for a piece of work; unless it is [said to have ended well](Session::ended_well) the
    /// connection is given up.
    pub(super) fn begin(&mut self) -> Result<&mut Prepared, StoreError> {
        self.is_open = true;
        self.prepared.as_mut().ok_or(StoreError::Away { backend: super::NAME })
    }

    async fn rows(&mut self, sql: &'static str, arguments: Arguments<'_>) -> Result<Vec<Row>, StoreError> {
        let rows = self.begin()?.rows(sql, arguments).await.map_err(broken)?;
        self.is_open = false;
        Ok(rows)
    }

    /// Tells the other nodes that something was written; returns whether the database knows how.
    pub(super) async fn tell(&mut self) -> bool {
        let Ok(prepared) = self.begin() else { return true };
        let told = prepared.client.batch_execute(statements::NOTIFY).await;
        let is_refused = told.as_ref().is_err_and(is_unknown);
        // There is no transaction: a refusal leaves the connection as it was.
        self.is_open = told.is_err() && !is_refused;
        !is_refused
    }

    /// Lets the connection go back to the pool.
    pub(super) fn ended_well(&mut self) {
        self.is_open = false;
    }

    pub(super) async fn get(&mut self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let rows = self.rows(statements::GET, &[&table, &key]).await?;
        rows.first().map(|row| row.try_get(0).map_err(broken)).transpose()
    }

    /// Returns the first entries of a range, in order.
    pub(super) async fn page(
        &mut self,
        table: &str,
        range: &KeyRange,
        order: Order,
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StoreError> {
        let (start, limit) = (&range.start, limit as i64);
        let rows = match (order, &range.end) {
            (Order::Ascending, None) => self.rows(statements::SCAN_UP, &[&table, start, &limit]).await?,
            (Order::Ascending, Some(end)) => {
                self.rows(statements::SCAN_UP_TO, &[&table, start, &limit, end]).await?
            }
            (Order::Descending, None) => self.rows(statements::SCAN_DOWN, &[&table, start, &limit]).await?,
            (Order::Descending, Some(end)) => {
                self.rows(statements::SCAN_DOWN_FROM, &[&table, start, &limit, end]).await?
            }
        };
        let entry = |row: &Row| Ok((row.try_get(0).map_err(broken)?, row.try_get(1).map_err(broken)?));
        rows.iter().map(entry).collect()
    }

    /// Writes a batch, and tries again where the database ended the transaction because of another one.
    pub(super) async fn apply(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let mut tries = Tries::default();
        loop {
            let prepared = self.begin()?;
            match prepared.write(batch).await {
                Ok(ended) => {
                    self.is_open = false;
                    return match ended {
                        Ended::Committed => Ok(()),
                        Ended::Conflicted => Err(StoreError::Conflict),
                    };
                }
                Err(error) => tries.again(prepared, error).await?,
            }
        }
    }

    pub(super) async fn marks(&mut self) -> Result<BTreeMap<String, Mark>, StoreError> {
        let rows = self.rows(statements::TABLE_MARKS, &[]).await?;
        let mark = |row: &Row| {
            let version: i64 = row.try_get(1)?;
            Ok((row.try_get(0)?, Mark { version: version.max(0) as u64, stamp: row.try_get(2)? }))
        };
        rows.iter().map(mark).collect::<Result<_, _>>().map_err(broken)
    }

    /// Returns what became of a table since a version, where that is known.
    pub(super) async fn changes(&mut self, table: &str, after: u64) -> Result<Since, StoreError> {
        let since = i64::try_from(after).unwrap_or(i64::MAX);
        if since == 0 {
            return Ok(Since::TooLong);
        }
        let rows = self.rows(statements::CHANGES, &[&table, &since]).await?;
        let floor = rows.first().map(|row| row.try_get::<_, i64>(1).map_err(broken)).transpose()?;
        match floor.is_some_and(|floor| floor <= since) {
            true => Ok(Since::Known(read_changes(&rows)?)),
            false => Ok(Since::TooLong),
        }
    }

    pub(super) async fn size_bytes(&mut self) -> Result<u64, StoreError> {
        let rows = self.rows(statements::SIZE, &[]).await?;
        let bytes = rows.first().map(|row| row.try_get::<_, i64>(0).map_err(broken)).transpose()?;
        Ok(bytes.unwrap_or_default().max(0) as u64)
    }

    /// Forgets deletions that are older than a day.
    pub(super) async fn forget_deletions(&mut self) -> Result<(), StoreError> {
        let old = self.rows(statements::OLD_DELETIONS, &[]).await?;
        for row in &old {
            let (table, version): (String, i64) =
                (row.try_get(0).map_err(broken)?, row.try_get(1).map_err(broken)?);
            // First the floor: who asks in between asks for all.
            self.rows(statements::RAISE_FLOOR, &[&table, &version]).await?;
            self.rows(statements::FORGET_DELETIONS, &[&table, &version]).await?;
        }
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(prepared) = self.prepared.take().filter(|_| !self.is_open) {
            self.pool.give_back(prepared);
        }
    }
}

fn read_changes(rows: &[Row]) -> Result<Changes, StoreError> {
    let mut changes = Changes::default();
    for row in rows {
        changes.version = row.try_get::<_, i64>(0).map_err(broken)?.max(0) as u64;
        changes.stamp = row.try_get(4).map_err(broken)?;
        // A table without changes is one row without a key.
        if let Some(key) = row.try_get::<_, Option<Vec<u8>>>(2).map_err(broken)? {
            changes.entries.push((key, row.try_get(3).map_err(broken)?));
        }
    }
    Ok(changes)
}

/// Returns how long to wait after so many tries: not as long as others who lost at the same moment.
fn pause(tries: usize) -> Duration {
    // As much of chance as a map's order has: it is no secret.
    let chance = RandomState::new().hash_one(tries) % 256;
    let longest = PAUSE * (1 << tries.saturating_sub(1).min(TRIES_MAX));
    longest.mul_f64(0.5 + chance as f64 / 512.0)
}

/// Tells whether a database ended a transaction because of another one.
pub(super) fn is_worth_another_try(error: &tokio_postgres::Error) -> bool {
    [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED]
        .iter()
        .any(|code| error.code() == Some(code))
}
