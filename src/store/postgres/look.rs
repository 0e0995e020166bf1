//! How rows of all nodes are found and counted.
//!
//! A time is asked for by ids, which are the moments of recording. Where some node's clock was ever set back, rows whose ids
//! tell another moment are asked for beside them, by their own.
//!
//! A category is asked for in two parts: of the gravest finding, and of others. Each is in the order of an index, which both
//! at once would not be; what holds to both parts there is none of.

use tokio_postgres::Row;

use super::archive::Counted;
use super::archive::Fault;
use super::archive::take_time;
use super::conditions::Conditions;
use super::conditions::Rows;
use super::session::Prepared;
use super::statements;
use crate::id::Ulid;
use crate::store::Order;
use crate::store::archive::ArchiveFilter;
use crate::store::archive::ArchiveFound;
use crate::store::archive::ArchivePage;
use crate::store::archive::hour_start;

/// Returns a page, and how many rows there are in all where that is counted, both of one moment.
pub(super) async fn look(
    prepared: &mut Prepared,
    filter: &ArchiveFilter,
    wanted: &ArchivePage,
    counted: Counted,
) -> Result<(Vec<ArchiveFound>, u64), Fault> {
    prepared.client.batch_execute(statements::BEGIN_SEARCH).await?;
    take_time(prepared).await?;
    let recorded = match filter.recorded_ms {
        Some(moments) if is_any_set_back(prepared).await? => Some(moments),
        Some(_) | None => None,
    };
    let found = match recorded {
        Some((from_ms, to_ms)) => {
            let mut found = page(prepared, filter, wanted, Rows::ByIds).await?;
            found.extend(page(prepared, filter, wanted, Rows::Recorded(from_ms, to_ms)).await?);
            in_order(found, wanted)
        }
        None => page(prepared, filter, wanted, Rows::All).await?,
    };
    let total = match counted {
        Counted::All => count(prepared, filter, recorded).await?,
        Counted::No => 0,
    };
    prepared.client.batch_execute("COMMIT").await?;
    Ok((found.into_iter().map(|(_, found)| found).collect(), total))
}

/// Tells whether any row of any node may have an id that does not tell when it was recorded.
async fn is_any_set_back(prepared: &mut Prepared) -> Result<bool, Fault> {
    let rows = prepared.rows(statements::IS_ANY_SET_BACK, &[]).await?;
    rows.first().map_or(Ok(false), |row| row.try_get(0))
}

/// A row that was found, with the bytes of its id.
type Found = (Vec<u8>, ArchiveFound);

/// Returns what is wanted of rows that were found in several ways.
fn in_order(mut found: Vec<Found>, wanted: &ArchivePage) -> Vec<Found> {
    found.sort_by(|(one_id, one), (other_id, other)| (one_id, &one.node).cmp(&(other_id, &other.node)));
    if wanted.order == Order::Descending {
        found.reverse();
    }
    found.truncate(wanted.limit);
    found
}

async fn page(
    prepared: &mut Prepared,
    filter: &ArchiveFilter,
    wanted: &ArchivePage,
    rows: Rows,
) -> Result<Vec<Found>, Fault> {
    let mut conditions = Conditions::of(filter, rows);
    conditions.beyond(wanted);
    let direction = if wanted.order == Order::Ascending { "ASC" } else { "DESC" };
    let order = format!("ORDER BY id {direction}, node {direction} LIMIT {}", wanted.limit);
    let page = |conditions: &str| {
        format!("SELECT node, seq, payload, id FROM portcullis_audit WHERE {conditions} {order}")
    };
    let sql = match conditions.of_others() {
        // Each part is in the order of an index; both at once are not.
        Some(others) => format!("({}) UNION ALL ({}) {order}", page(&conditions.sql), page(&others)),
        None => page(&conditions.sql),
    };
    let rows = prepared.client.query(&sql, &conditions.borrowed()).await?;
    let found = |row: &Row| {
        let sequence: i64 = row.try_get(1)?;
        let (node, payload, sequence) = (row.try_get(0)?, row.try_get(2)?, sequence.max(0) as u64);
        Ok((row.try_get(3)?, ArchiveFound { node, sequence, payload }))
    };
    rows.iter().map(found).collect()
}

/// Counts rows, where some were recorded at moments that their ids do not tell by their own.
async fn count(
    prepared: &mut Prepared,
    filter: &ArchiveFilter,
    recorded: Option<(i64, i64)>,
) -> Result<u64, Fault> {
    let by_ids = count_by_ids(prepared, filter).await?;
    let Some((from_ms, to_ms)) = recorded else { return Ok(by_ids) };
    let set_back = count_rows(prepared, filter, Rows::SetBack).await?;
    let recorded = count_rows(prepared, filter, Rows::Recorded(from_ms, to_ms)).await?;
    Ok(by_ids.saturating_sub(set_back) + recorded)
}

/// Counts rows by their ids: whole hours by their tallies, the rest, and whatever is asked for by name, one by one.
async fn count_by_ids(prepared: &mut Prepared, filter: &ArchiveFilter) -> Result<u64, Fault> {
    let whole = filter.whole_hours();
    if filter.is_named() || whole.is_empty() {
        return count_rows(prepared, filter, Rows::All).await;
    }
    let tallied = Conditions::of_tallies(filter);
    let sum = |table: &str| {
        let sql = &tallied.sql;
        format!("(SELECT coalesce(sum(count), 0)::bigint FROM {table} WHERE {sql})")
    };
    let sql = match filter.category.is_some() {
        true => format!("SELECT {} + {}", sum("portcullis_audit_tallies"), sum("portcullis_audit_others")),
        false => format!("SELECT {}", sum("portcullis_audit_tallies")),
    };
    let row = prepared.client.query_one(&sql, &tallied.borrowed()).await?;
    let mut total = row.try_get::<_, i64>(0)?.max(0) as u64;
    let first = hour_start(whole.start);
    if filter.ids.start < first {
        let before = ArchiveFilter { ids: filter.ids.start..first, but: None, ..filter.clone() };
        total += count_rows(prepared, &before, Rows::All).await?;
    }
    if whole.end != i64::MAX {
        let after = ArchiveFilter { ids: hour_start(whole.end)..filter.ids.end, but: None, ..filter.clone() };
        total += count_rows(prepared, &after, Rows::All).await?;
    }
    let Some((node, newest)) = &filter.but else { return Ok(total) };
    let start = filter.ids.start.max(Ulid(newest.0.saturating_add(1)));
    let but = ArchiveFilter { ids: start..filter.ids.end, but: None, ..filter.clone() };
    match filter.node.as_ref().is_none_or(|wanted| wanted == node) && !but.ids.is_empty() {
        true => {
            let but = ArchiveFilter { node: Some(node.clone()), ..but };
            Ok(total.saturating_sub(count_rows(prepared, &but, Rows::All).await?))
        }
        false => Ok(total),
    }
}

async fn count_rows(prepared: &mut Prepared, filter: &ArchiveFilter, rows: Rows) -> Result<u64, Fault> {
    let conditions = Conditions::of(filter, rows);
    let count = |conditions: &str| format!("(SELECT count(*) FROM portcullis_audit WHERE {conditions})");
    let sql = match conditions.of_others() {
        Some(others) => format!("SELECT {} + {}", count(&conditions.sql), count(&others)),
        None => format!("SELECT {}", count(&conditions.sql)),
    };
    let row = prepared.client.query_one(&sql, &conditions.borrowed()).await?;
    Ok(row.try_get::<_, i64>(0)?.max(0) as u64)
}
