//! What rows are found by since there are facets, and how rows come to it that older releases have written.
//!
//! Nodes of two releases may write to the same table: what the older one writes has no facets, whenever it does, and is
//! found by all else meanwhile. A row gets them once, from what it holds.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;

use super::archive::Archive;
use super::archive::Fault;
use super::archive::number;
use super::broken;
use super::pool::Pool;
use super::session::Arguments;
use super::statements;
use super::tables::lock_of;
use crate::store::StoreError;
use crate::store::archive::ArchiveFacets;
use crate::store::archive::ArchiveFound;
use crate::store::archive::ArchiveUnsorted;

/// How long the indices of a large table may take to be made.
const INDICES_MAX: Duration = Duration::from_secs(4 * 3600);
/// How long a piece of work on rows may take.
const WORK_MAX: Duration = Duration::from_secs(10);
/// What stands between the names of detectors.
const BETWEEN: &str = "\n";
/// The column of facets in a whole row.
const FIRST_COLUMN: usize = 9;

/// What is known of the indices of facets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Indices {
    #[default]
    Unknown,
    InMaking,
    Made,
}

/// The facets of rows, column by column.
#[derive(Default)]
pub(super) struct FacetColumns<'a> {
    pub(super) actions: Vec<Option<&'a str>>,
    pub(super) routes: Vec<Option<&'a str>>,
    pub(super) policies: Vec<Option<&'a str>>,
    /// Put together: an array of arrays would have to be of one length.
    pub(super) detectors: Vec<Option<String>>,
}

impl<'a> FacetColumns<'a> {
    pub(super) fn of(rows: &[Option<&'a ArchiveFacets>]) -> Self {
        let mut columns = Self::default();
        for row in rows {
            columns.actions.push(row.map(|facets| facets.action.as_str()));
            columns.routes.push(row.and_then(|facets| facets.route.as_deref()));
            columns.policies.push(row.and_then(|facets| facets.policy.as_deref()));
            columns.detectors.push(row.map(|facets| facets.detectors.join(BETWEEN)));
        }
        columns
    }
}

/// Returns the facets of a whole row.
pub(super) fn facets_of(row: &Row) -> Result<Option<ArchiveFacets>, Fault> {
    let Some(action) = row.try_get::<_, Option<String>>(FIRST_COLUMN)? else { return Ok(None) };
    Ok(Some(ArchiveFacets {
        action,
        route: row.try_get(FIRST_COLUMN + 1)?,
        policy: row.try_get(FIRST_COLUMN + 2)?,
        detectors: row.try_get::<_, Option<Vec<String>>>(FIRST_COLUMN + 3)?.unwrap_or_default(),
    }))
}

impl Archive {
    /// Tells whether there are indices of facets; where that is not known, they are made, behind the back of who asks. That
    /// may take long, and rows cannot be added meanwhile.
    pub fn has_facet_indices(&self) -> bool {
        let mut indices = self.indices.lock();
        match &*indices {
            Indices::Made => return true,
            Indices::InMaking => return false,
            Indices::Unknown => *indices = Indices::InMaking,
        }
        drop(indices);
        let (pool, indices) = (Arc::clone(&self.link.pool), Arc::clone(&self.indices));
        let Some(runtime) = &self.link.runtime else { return false };
        runtime.spawn(async move {
            let made = make_indices(&pool).await;
            if let Err(error) = &made {
                tracing::warn!(%error, "the audit log of all nodes could not be indexed: it is tried again");
            }
            *indices.lock() = if made.is_ok() { Indices::Made } else { Indices::Unknown };
        });
        false
    }

    /// Returns rows that are not found by their facets yet, the newest ones first.
    ///
    /// # Errors
    /// The database failed.
    pub fn unsorted(&self, limit: usize) -> Result<Vec<ArchiveUnsorted>, StoreError> {
        let (pool, limit) = (Arc::clone(&self.link.pool), number(limit as u64));
        self.link.wait_long(WORK_MAX, async move {
            let mut session = pool.session().await?;
            let rows = session.begin()?.rows(statements::UNSORTED, &[&limit]).await.map_err(broken)?;
            session.ended_well();
            rows.iter().map(|row| unsorted_of(row).map_err(broken)).collect()
        })
    }

    /// Lets rows be found by their facets from now on.
    ///
    /// # Errors
    /// The database failed.
    pub fn sort_in(&self, rows: Vec<(ArchiveUnsorted, ArchiveFacets)>) -> Result<(), StoreError> {
        let pool = Arc::clone(&self.link.pool);
        self.link.wait_long(WORK_MAX, async move {
            let mut session = pool.session().await?;
            let nodes: Vec<&str> = rows.iter().map(|(row, _)| row.found.node.as_str()).collect();
            let sequences: Vec<i64> = rows.iter().map(|(row, _)| number(row.found.sequence)).collect();
            let days: Vec<i64> = rows.iter().map(|(row, _)| row.day).collect();
            let facets: Vec<_> = rows.iter().map(|(_, facets)| Some(facets)).collect();
            let FacetColumns { actions, routes, policies, detectors } = FacetColumns::of(&facets);
            let arguments: Arguments<'_> =
                &[&nodes, &sequences, &days, &actions, &routes, &policies, &detectors];
            session.begin()?.rows(statements::SORT_IN, arguments).await.map_err(broken)?;
            session.ended_well();
            Ok(())
        })
    }
}

async fn make_indices(pool: &Arc<Pool>) -> Result<(), StoreError> {
    let mut session = pool.session().await?;
    let client = &session.begin()?.client;
    let lock = lock_of(client).await.map_err(broken)?;
    for index in statements::MAKE_FACET_INDICES {
        let time = statements::TAKE_TIME.replace("$MS", &INDICES_MAX.as_millis().to_string());
        let making = format!("BEGIN; {time}; {lock}; {index}; COMMIT");
        client.batch_execute(&making).await.map_err(broken)?;
    }
    session.ended_well();
    Ok(())
}

fn unsorted_of(row: &Row) -> Result<ArchiveUnsorted, Fault> {
    let sequence: i64 = row.try_get(1)?;
    let found =
        ArchiveFound { node: row.try_get(0)?, sequence: sequence.max(0) as u64, payload: row.try_get(2)? };
    Ok(ArchiveUnsorted { found, day: row.try_get(3)? })
}
