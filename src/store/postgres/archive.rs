//! What nodes keep in common, in PostgreSQL.
//!
//! A node's rows and its head are written in one transaction that moves the head on from where it was thought to be:
//! whatever is tried again, and whoever else writes in the node's name, no row is written twice or left out. A transaction
//! that the database ended because of another one is tried again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_postgres::Row;

use super::Link;
use super::broken;
use super::conditions::Conditions;
use super::conditions::Rows;
use super::facets::FacetColumns;
use super::facets::Indices;
use super::facets::facets_of;
use super::facets::others_of;
use super::look::look;
use super::session::Arguments;
use super::session::Prepared;
use super::session::Tries;
use super::statements;
use crate::id::Ulid;
use crate::store::StoreError;
use crate::store::archive::ArchiveFilter;
use crate::store::archive::ArchiveFound;
use crate::store::archive::ArchiveHead;
use crate::store::archive::ArchivePage;
use crate::store::archive::ArchiveRow;
use crate::store::archive::DAY_MS;
use crate::store::archive::Facts;
use crate::store::archive::Others;
use crate::store::archive::RowHash;
use crate::store::archive::hour;
use crate::store::archive::other_tallies;
use crate::store::archive::tallies;
use crate::store::key::Key;

/// How long a search or a piece of work on rows may take.
const WORK_MAX: Duration = Duration::from_secs(10);
/// How many searches of this process run at once: the other connections are for what traffic needs.
const SEARCHES_MAX: usize = 2;

/// The rows of all nodes; cheap to clone. All calls block.
#[derive(Clone)]
pub struct Archive {
    pub(super) link: Arc<Link>,
    searches: Arc<Semaphore>,
    pub(super) indices: Arc<Mutex<Indices>>,
}

/// How a transaction that expects something ended.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Committed,
    Conflicted,
}

/// Whether a search counts what it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// All that hold to the filter, whatever the limit.
    All,
    /// Nothing is counted.
    No,
}

impl Archive {
    pub(super) fn new(link: Arc<Link>) -> Self {
        Self { link, searches: Arc::new(Semaphore::new(SEARCHES_MAX)), indices: Arc::default() }
    }

    /// Returns how far each node's rows are known, by name of the node.
    ///
    /// # Errors
    /// The database failed.
    pub fn heads(&self) -> Result<Vec<ArchiveHead>, StoreError> {
        let pool = Arc::clone(&self.link.pool);
        self.link.wait_long(WORK_MAX, async move {
            let mut session = pool.session().await?;
            let rows = session.begin()?.rows(statements::HEADS, &[]).await.map_err(broken)?;
            session.ended_well();
            rows.iter().map(|row| head_of(row).map_err(broken)).collect()
        })
    }

    /// Returns how far a node's rows are known.
    ///
    /// # Errors
    /// The database failed.
    pub fn head(&self, node: &str) -> Result<ArchiveHead, StoreError> {
        let (pool, node) = (Arc::clone(&self.link.pool), node.to_owned());
        self.link.wait_long(WORK_MAX, async move {
            let mut session = pool.session().await?;
            let (id, hash) = (Ulid(0).to_bytes(), RowHash::default().to_vec());
            let prepared = session.begin()?;
            prepared.rows(statements::MAKE_HEAD, &[&node, &id, &hash]).await.map_err(broken)?;
            let rows = prepared.rows(statements::HEAD, &[&node]).await.map_err(broken)?;
            session.ended_well();
            head_of(rows.first().ok_or(StoreError::Conflict)?).map_err(broken)
        })
    }

    /// Adds rows behind a head; returns the new one.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] where the head is not there any more; when the database failed. Whether the rows were
    /// written then, only the head tells.
    pub fn append(
        &self,
        before: &ArchiveHead,
        rows: Vec<ArchiveRow>,
        hash: RowHash,
    ) -> Result<ArchiveHead, StoreError> {
        let Some(last) = rows.last() else { return Ok(before.clone()) };
        let after = ArchiveHead { sequence: last.sequence, id: last.id, hash, ..before.clone() };
        let (pool, sequence, moved) = (Arc::clone(&self.link.pool), before.sequence, after.clone());
        self.link.wait_long(WORK_MAX, async move {
            let mut session = pool.session().await?;
            let mut tries = Tries::default();
            loop {
                let prepared = session.begin()?;
                match write_rows(prepared, sequence, &moved, &rows).await {
                    Ok(ended) => {
                        session.ended_well();
                        return ended.committed();
                    }
                    Err(error) => tries.again(prepared, error).await?,
                }
            }
        })?;
        Ok(after)
    }

    /// Returns the rows that hold to a filter, as many as asked for, and how many there are in all where that is
    /// counted.
    ///
    /// # Errors
    /// The database failed, or took too long.
    pub fn search(
        &self,
        filter: &ArchiveFilter,
        wanted: &ArchivePage,
        counted: Counted,
    ) -> Result<(Vec<ArchiveFound>, u64), StoreError> {
        let (pool, searches) = (Arc::clone(&self.link.pool), Arc::clone(&self.searches));
        let (filter, wanted) = (filter.clone(), wanted.clone());
        self.link.wait_long(WORK_MAX, async move {
            let _place = searches.acquire_owned().await.map_err(|_| StoreError::Conflict)?;
            let mut session = pool.session().await?;
            let mut tries = Tries::default();
            loop {
                let prepared = session.begin()?;
                match look(prepared, &filter, &wanted, counted).await {
                    Ok(found) => {
                        session.ended_well();
                        return Ok(found);
                    }
                    Err(error) => tries.again(prepared, error).await?,
                }
            }
        })
    }

    /// Returns when the earliest row was recorded of those whose ids tell another moment, in Unix milliseconds; `None`: there
    /// is none.
    ///
    /// # Errors
    /// The database failed, or took too long.
    pub fn earliest_set_back(&self) -> Result<Option<i64>, StoreError> {
        let pool = Arc::clone(&self.link.pool);
        self.link.wait_long(WORK_MAX, async move {
            let mut session = pool.session().await?;
            let rows = session.begin()?.rows(statements::EARLIEST_SET_BACK, &[]).await.map_err(broken)?;
            session.ended_well();
            rows.first().map_or(Ok(None), |row| row.try_get(0).map_err(broken))
        })
    }

    /// Tells whether rows that may hold to a filter are not found by their facets yet.
    ///
    /// # Errors
    /// The database failed, or took too long.
    pub fn is_unsorted(&self, filter: &ArchiveFilter) -> Result<bool, StoreError> {
        let only =
            ArchiveFilter { ids: filter.ids.clone(), node: filter.node.clone(), ..ArchiveFilter::default() };
        let pool = Arc::clone(&self.link.pool);
        self.link.wait_long(WORK_MAX, async move {
            let mut session = pool.session().await?;
            let conditions = Conditions::of(&only, Rows::All);
            let sql = format!(
                "SELECT EXISTS (SELECT 1 FROM portcullis_audit WHERE {} AND {})",
                statements::IS_UNSORTED,
                conditions.sql
            );
            let client = &session.begin()?.client;
            let is_there = client.query_one(&sql, &conditions.borrowed()).await.map_err(broken)?;
            session.ended_well();
            is_there.try_get(0).map_err(broken)
        })
    }

    /// Returns a node's rows behind one of them, in their order.
    ///
    /// # Errors
    /// The database failed.
    pub fn rows(&self, node: &str, after: u64, limit: usize) -> Result<Vec<ArchiveRow>, StoreError> {
        let pool = Arc::clone(&self.link.pool);
        let (node, after, limit) = (node.to_owned(), number(after), number(limit as u64));
        self.link.wait_long(WORK_MAX, async move {
            let mut session = pool.session().await?;
            let rows = session.begin()?.rows(statements::ROWS, &[&node, &after, &limit]).await;
            let rows = rows.map_err(broken)?;
            session.ended_well();
            rows.iter().map(|row| row_of(row).map_err(broken)).collect()
        })
    }

    /// Returns the number of a node's newest row up to an id; `None`: there is none.
    ///
    /// # Errors
    /// The database failed.
    pub fn place_of(&self, node: &str, id: Ulid) -> Result<Option<u64>, StoreError> {
        let (pool, node, id) = (Arc::clone(&self.link.pool), node.to_owned(), id.to_bytes());
        self.link.wait_long(WORK_MAX, async move {
            let mut session = pool.session().await?;
            let rows = session.begin()?.rows(statements::PLACE, &[&node, &id]).await.map_err(broken)?;
            session.ended_well();
            let sequence = rows.first().map(|row| row.try_get::<_, i64>(0)).transpose().map_err(broken)?;
            Ok(sequence.map(|sequence| sequence.max(0) as u64))
        })
    }

    /// Drops the oldest rows of a node, which follow its floor, `hash` being that of the last of them; only while
    /// tables are at the versions they are expected at.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] where they are not, or the floor is another one; when the database failed.
    pub fn drop_first(
        &self,
        head: &ArchiveHead,
        rows: Vec<ArchiveRow>,
        hash: RowHash,
        expected: BTreeMap<String, u64>,
    ) -> Result<(), StoreError> {
        let (pool, head) = (Arc::clone(&self.link.pool), head.clone());
        self.link.wait_long(WORK_MAX, async move {
            let mut session = pool.session().await?;
            let mut tries = Tries::default();
            loop {
                let prepared = session.begin()?;
                match drop_rows(prepared, &head, &rows, hash, &expected).await {
                    Ok(ended) => {
                        session.ended_well();
                        return ended.committed();
                    }
                    Err(error) => tries.again(prepared, error).await?,
                }
            }
        })
    }
}

impl Ended {
    fn committed(self) -> Result<(), StoreError> {
        match self {
            Self::Committed => Ok(()),
            Self::Conflicted => Err(StoreError::Conflict),
        }
    }
}

pub(super) type Fault = tokio_postgres::Error;

pub(super) async fn take_time(prepared: &mut Prepared) -> Result<(), Fault> {
    let time = statements::TAKE_TIME.replace("$MS", &WORK_MAX.as_millis().to_string());
    prepared.client.batch_execute(&time).await
}

async fn write_rows(
    prepared: &mut Prepared,
    sequence: u64,
    head: &ArchiveHead,
    rows: &[ArchiveRow],
) -> Result<Ended, Fault> {
    prepared.client.batch_execute("BEGIN").await?;
    take_time(prepared).await?;
    let (was, now) = (number(sequence), number(head.sequence));
    let (id, hash, floor_hash) = (head.id.to_bytes(), head.hash.to_vec(), head.floor_hash.to_vec());
    let moving = prepared.statement(statements::MOVE_HEAD).await?;
    let set_back = rows.iter().any(|row| row.recorded_ms.is_some());
    let arguments: Arguments<'_> = &[&head.node, &was, &now, &id, &hash, &floor_hash, &set_back];
    let moved = prepared.client.execute(&moving, arguments).await?;
    if moved != 1 {
        prepared.client.batch_execute("ROLLBACK").await?;
        return Ok(Ended::Conflicted);
    }
    fn texts<'a>(
        rows: &'a [ArchiveRow],
        text: impl Fn(&'a ArchiveRow) -> Option<&'a str>,
    ) -> Vec<Option<&'a str>> {
        rows.iter().map(text).collect()
    }
    let sequences: Vec<i64> = rows.iter().map(|row| number(row.sequence)).collect();
    let days: Vec<i64> = rows.iter().map(|row| row.id.unix_ms().div_euclid(DAY_MS)).collect();
    let ids: Vec<Vec<u8>> = rows.iter().map(|row| row.id.to_bytes()).collect();
    let payloads: Vec<&[u8]> = rows.iter().map(|row| row.payload.as_slice()).collect();
    let categories = texts(rows, |row| row.category.as_deref());
    let severities = texts(rows, |row| row.severity.as_deref());
    let types = texts(rows, |row| Some(&row.event_type));
    let (entities, actors) =
        (texts(rows, |row| row.entity.as_deref()), texts(rows, |row| row.actor.as_deref()));
    let requests = texts(rows, |row| row.request_id.as_deref());
    let facets: Vec<_> = rows.iter().map(|row| row.facets.as_ref()).collect();
    let facets = FacetColumns::of(&facets);
    let recorded: Vec<Option<i64>> = rows.iter().map(|row| row.recorded_ms).collect();
    let arguments: Arguments<'_> = &[
        &head.node,
        &sequences,
        &days,
        &ids,
        &categories,
        &severities,
        &types,
        &entities,
        &actors,
        &requests,
        &payloads,
        &facets.actions,
        &facets.routes,
        &facets.policies,
        &facets.detectors,
        &facets.others,
        &recorded,
    ];
    let statement = prepared.statement(statements::ARCHIVE).await?;
    prepared.client.execute(&statement, arguments).await?;
    tally(prepared, statements::TALLY, &head.node, &tallies(rows), 1).await?;
    let others = other_tallies(rows.iter().map(ArchiveRow::others));
    tally(prepared, statements::TALLY_OTHERS, &head.node, &others, 1).await?;
    prepared.client.batch_execute("COMMIT").await?;
    Ok(Ended::Committed)
}

/// Adds counts of rows to the tallies of their hours, `sign` times.
pub(super) async fn tally(
    prepared: &mut Prepared,
    statement: &'static str,
    node: &str,
    counts: &BTreeMap<Facts<'_>, i64>,
    sign: i64,
) -> Result<(), Fault> {
    if counts.is_empty() {
        return Ok(());
    }
    let hours: Vec<i64> = counts.keys().map(|facts| facts.0).collect();
    let categories: Vec<&str> = counts.keys().map(|facts| facts.1).collect();
    let severities: Vec<&str> = counts.keys().map(|facts| facts.2).collect();
    let types: Vec<&str> = counts.keys().map(|facts| facts.3).collect();
    let numbers: Vec<i64> = counts.values().map(|count| count * sign).collect();
    let statement = prepared.statement(statement).await?;
    let arguments: Arguments<'_> = &[&node, &hours, &categories, &severities, &types, &numbers];
    prepared.client.execute(&statement, arguments).await?;
    Ok(())
}

/// What a row told, that was dropped, of its findings but for the gravest one: as it was then, for somebody may have sorted
/// it in since it was read.
struct Dropped {
    id: Ulid,
    others: Vec<String>,
    severity: String,
    event_type: String,
}

impl Dropped {
    fn of(row: &Row) -> Result<Self, Fault> {
        Ok(Self {
            id: id_of(row.try_get(0)?),
            others: row.try_get::<_, Option<&str>>(3)?.map(others_of).unwrap_or_default(),
            severity: row.try_get::<_, Option<String>>(1)?.unwrap_or_default(),
            event_type: row.try_get(2)?,
        })
    }

    fn others(&self) -> Others<'_> {
        (self.id, &self.others, &self.severity, &self.event_type)
    }
}

async fn drop_rows(
    prepared: &mut Prepared,
    head: &ArchiveHead,
    rows: &[ArchiveRow],
    hash: RowHash,
    expected: &BTreeMap<String, u64>,
) -> Result<Ended, Fault> {
    let Some(last) = rows.last().map(|row| number(row.sequence)) else { return Ok(Ended::Committed) };
    prepared.client.batch_execute("BEGIN").await?;
    take_time(prepared).await?;
    for (table, version) in expected {
        let rows = prepared.rows(statements::SAME_VERSION, &[table]).await?;
        let is: i64 = rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or_default();
        if is != number(*version) {
            prepared.client.batch_execute("ROLLBACK").await?;
            return Ok(Ended::Conflicted);
        }
    }
    let (floor, hash) = (number(head.floor), hash.to_vec());
    let moving = prepared.statement(statements::MOVE_FLOOR).await?;
    if prepared.client.execute(&moving, &[&head.node, &floor, &last, &hash]).await? != 1 {
        prepared.client.batch_execute("ROLLBACK").await?;
        return Ok(Ended::Conflicted);
    }
    let dropped = prepared.rows(statements::DROP_ROWS, &[&head.node, &last]).await?;
    let dropped = dropped.iter().map(Dropped::of).collect::<Result<Vec<_>, _>>()?;
    tally(prepared, statements::TALLY, &head.node, &tallies(rows), -1).await?;
    let others = other_tallies(dropped.iter().map(Dropped::others));
    tally(prepared, statements::TALLY_OTHERS, &head.node, &others, -1).await?;
    prepared.rows(statements::FORGET_TALLIES, &[&head.node]).await?;
    let gone_before = rows.last().map_or(0, |row| hour(row.id));
    prepared.rows(statements::FORGET_OTHERS, &[&head.node, &gone_before]).await?;
    prepared.client.batch_execute("COMMIT").await?;
    Ok(Ended::Committed)
}

pub(super) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn id_of(bytes: &[u8]) -> Ulid {
    Ulid::from_bytes(bytes).unwrap_or(Ulid(0))
}

fn hash_of(bytes: &[u8]) -> RowHash {
    bytes.try_into().unwrap_or_default()
}

fn head_of(row: &Row) -> Result<ArchiveHead, Fault> {
    Ok(ArchiveHead {
        node: row.try_get(0)?,
        sequence: row.try_get::<_, i64>(1)?.max(0) as u64,
        id: id_of(row.try_get(2)?),
        hash: hash_of(row.try_get(3)?),
        floor: row.try_get::<_, i64>(4)?.max(0) as u64,
        floor_hash: hash_of(row.try_get(5)?),
    })
}

fn row_of(row: &Row) -> Result<ArchiveRow, Fault> {
    Ok(ArchiveRow {
        sequence: row.try_get::<_, i64>(0)?.max(0) as u64,
        id: id_of(row.try_get(1)?),
        category: row.try_get(2)?,
        severity: row.try_get(3)?,
        event_type: row.try_get(4)?,
        entity: row.try_get(5)?,
        actor: row.try_get(6)?,
        request_id: row.try_get(7)?,
        payload: row.try_get(8)?,
        facets: facets_of(row)?,
        recorded_ms: row.try_get(14)?,
    })
}
