//! What rows are found by since there are facets, and how rows come to it that older releases have written.
//!
//! Nodes of two releases may write to the same table: what the older one writes has no facets, whenever it does, and is
//! found by all else meanwhile. A row gets them once, from what it holds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;

use super::archive::Archive;
use super::archive::Fault;
use super::archive::number;
use super::archive::take_time;
use super::archive::tally;
use super::broken;
use super::pool::Pool;
use super::session::Arguments;
use super::session::Prepared;
use super::session::Tries;
use super::statements;
use super::tables::lock_of;
use crate::store::StoreError;
use crate::store::archive::ArchiveFacets;
use crate::store::archive::ArchiveFound;
use crate::store::archive::ArchiveRow;
use crate::store::archive::ArchiveUnsorted;
use crate::store::archive::other_tallies;

/// How long the indices of a large table may take to be made.
const INDICES_MAX: Duration = Duration::from_secs(4 * 3600);
/// How long a piece of work on rows may take.
const WORK_MAX: Duration = Duration::from_secs(10);
/// What stands between the names of detectors.
const BETWEEN: &str = "\n";
/// What stands between categories.
const BETWEEN_CATEGORIES: &str = ",";
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
    /// Put together as well.
    pub(super) others: Vec<Option<String>>,
}

impl<'a> FacetColumns<'a> {
    pub(super) fn of(rows: &[Option<&'a ArchiveFacets>]) -> Self {
        let mut columns = Self::default();
        for row in rows {
            columns.actions.push(row.map(|facets| facets.action.as_str()));
            columns.routes.push(row.and_then(|facets| facets.route.as_deref()));
            columns.policies.push(row.and_then(|facets| facets.policy.as_deref()));
            columns.detectors.push(row.map(|facets| facets.detectors.join(BETWEEN)));
            let others = row.and_then(|facets| facets.other_categories.as_ref());
            columns.others.push(others.map(|others| others.join(BETWEEN_CATEGORIES)));
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
        other_categories: row.try_get::<_, Option<&str>>(FIRST_COLUMN + 4)?.map(others_of),
    }))
}

/// Returns the categories that the column of the others tells.
pub(super) fn others_of(text: &str) -> Vec<String> {
    text.split(BETWEEN_CATEGORIES).filter(|name| !name.is_empty()).map(str::to_owned).collect()
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

    /// Lets rows be found by their facets from now on; each comes with what it is found by.
    ///
    /// # Errors
    /// The database failed.
    pub fn sort_in(&self, rows: Vec<(ArchiveUnsorted, ArchiveRow)>) -> Result<(), StoreError> {
        let pool = Arc::clone(&self.link.pool);
        self.link.wait_long(WORK_MAX, async move {
            let mut session = pool.session().await?;
            let mut tries = Tries::default();
            loop {
                let prepared = session.begin()?;
                match write_facets(prepared, &rows).await {
                    Ok(()) => {
                        session.ended_well();
                        return Ok(());
                    }
                    Err(error) => tries.again(prepared, error).await?,
                }
            }
        })
    }
}

async fn write_facets(prepared: &mut Prepared, rows: &[(ArchiveUnsorted, ArchiveRow)]) -> Result<(), Fault> {
    prepared.client.batch_execute("BEGIN").await?;
    take_time(prepared).await?;
    let nodes: Vec<&str> = rows.iter().map(|(row, _)| row.found.node.as_str()).collect();
    let sequences: Vec<i64> = rows.iter().map(|(row, _)| number(row.found.sequence)).collect();
    let days: Vec<i64> = rows.iter().map(|(row, _)| row.day).collect();
    let facets: Vec<_> = rows.iter().map(|(_, says)| says.facets.as_ref()).collect();
    let FacetColumns { actions, routes, policies, detectors, others } = FacetColumns::of(&facets);
    let arguments: Arguments<'_> =
        &[&nodes, &sequences, &days, &actions, &routes, &policies, &detectors, &others];
    let mut sorted: BTreeMap<String, Vec<ArchiveRow>> = BTreeMap::new();
    for row in prepared.rows(statements::SORT_IN, arguments).await? {
        let (node, sequence): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
        let is_it =
            |known: &ArchiveUnsorted| known.found.node == node && number(known.found.sequence) == sequence;
        if let Some((_, says)) = rows.iter().find(|(known, _)| is_it(known)) {
            sorted.entry(node).or_default().push(says.clone());
        }
    }
    // Those alone: another node may have sorted in the others meanwhile.
    for (node, rows) in &sorted {
        tally(
            prepared,
            statements::TALLY_OTHERS,
            node,
            &other_tallies(rows.iter().map(ArchiveRow::others)),
            1,
        )
        .await?;
    }
    prepared.client.batch_execute("COMMIT").await
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
