//! What a database says of itself, to whoever looks before a gateway uses it.

use std::io;

use jiff::Timestamp;
use tokio::runtime::Builder;
use tokio_postgres::Row;

use super::PostgresFault;
use super::plain;
use super::pool::Pool;
use super::statements;
use crate::store::config::PostgresConfig;

/// What PostgreSQL, and what is built from it, begins its release with.
const POSTGRES: &str = "PostgreSQL";

/// What a database says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresFacts {
    /// Its name and release, `PostgreSQL 15.4`.
    pub release: String,
    /// The release of PostgreSQL that it is, or is built from; `None`: it is another database.
    pub major: Option<u32>,
    /// Whether it takes what is written: a standby does not.
    pub is_writable: bool,
    /// The time by its clock.
    pub at: Timestamp,
}

/// Asks a database about itself, and changes nothing. Blocks.
///
/// # Errors
/// See [`PostgresFault`].
pub fn ask_postgres(url: &str, config: &PostgresConfig) -> Result<PostgresFacts, PostgresFault> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(PostgresFault::Threads)?;
    let pool = Pool::new(url, config, runtime.handle().clone())?;
    let asking = async {
        let client = pool.open(|| {}).await?;
        facts(&client.query_one(statements::ASK, &[]).await.map_err(plain)?).map_err(plain)
    };
    let limited = async { tokio::time::timeout(config.timeout, asking).await };
    let asked = runtime.block_on(limited).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    asked.map_err(PostgresFault::Refused)
}

fn facts(row: &Row) -> Result<PostgresFacts, tokio_postgres::Error> {
    let (version, at_ms): (String, i64) = (row.try_get(0)?, row.try_get(2)?);
    let mut words = version.split_whitespace();
    let (name, number) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let major = number.split('.').next().and_then(|major| major.parse().ok());
    Ok(PostgresFacts {
        release: format!("{name} {number}"),
        major: major.filter(|_| name == POSTGRES),
        is_writable: row.try_get(1)?,
        at: Timestamp::from_millisecond(at_ms).unwrap_or_default(),
    })
}
