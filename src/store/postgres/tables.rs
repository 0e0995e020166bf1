//! How the tables are made, by one process at a time where the database has a lock for that.

use std::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::archive::Fault;
use super::pool::Pool;
use super::session::is_worth_another_try;
use super::statements;

/// How long it may take in all, and any statement of it.
pub(super) const MAKE_MAX: Duration = Duration::from_secs(60);
/// How often it is tried where others make the tables as well.
const TRIES_MAX: usize = 20;
const PAUSE: Duration = Duration::from_millis(100);

impl Pool {
    /// Makes the tables; does nothing where the steps were all made.
    pub(super) async fn make_tables(&self) -> std::io::Result<()> {
        let client = self.open(|| {}).await?;
        make_tables(&client).await.map_err(super::plain)
    }
}

async fn make_tables(client: &Client) -> Result<(), Fault> {
    // There may be no table of steps yet.
    if last_step(client).await.is_ok_and(|last| last >= statements::STEPS.len() as i64) {
        return Ok(());
    }
    let lock = lock_of(client).await?;
    let mut tries = 0;
    while let Err(error) = make_steps(client, lock).await {
        tries += 1;
        if tries >= TRIES_MAX || !is_of_another(&error) {
            return Err(error);
        }
        client.batch_execute("ROLLBACK").await?;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

async fn make_steps(client: &Client, lock: &str) -> Result<(), Fault> {
    let time = statements::TAKE_TIME.replace("$MS", &MAKE_MAX.as_millis().to_string());
    client.batch_execute("BEGIN").await?;
    client.batch_execute(&time).await?;
    client.batch_execute(lock).await?;
    client.batch_execute(statements::MAKE_STEPS_TABLE).await?;
    let last = last_step(client).await?;
    for (number, step) in (1i64..).zip(statements::STEPS).filter(|(number, _)| *number > last) {
        client.batch_execute(step).await?;
        client.execute(statements::NOTE_STEP, &[&number]).await?;
    }
    client.batch_execute("COMMIT").await
}

async fn last_step(client: &Client) -> Result<i64, Fault> {
    client.query_one(statements::LAST_STEP, &[]).await?.try_get(0)
}

/// Returns the statement that lets one process make tables until its transaction ends, or one that does nothing where the
/// database has none. Steps may be made by several then, and those that lose try again. To be asked outside of a
/// transaction, which would not outlive the answer.
pub(super) async fn lock_of(client: &Client) -> Result<&'static str, Fault> {
    match client.batch_execute(statements::TRY_LOCK).await {
        Ok(()) => Ok(statements::LOCK_STEPS),
        Err(error) if is_unknown(&error) => Ok(statements::NO_LOCK),
        Err(error) => Err(error),
    }
}

/// Tells whether a database does not know what it was asked to do.
pub(super) fn is_unknown(error: &Fault) -> bool {
    is_any(error, &[SqlState::UNDEFINED_FUNCTION, SqlState::FEATURE_NOT_SUPPORTED, SqlState::SYNTAX_ERROR])
}

/// Tells whether tables could not be made because another process made them at that moment.
fn is_of_another(error: &Fault) -> bool {
    let made = [
        SqlState::DUPLICATE_TABLE,
        SqlState::DUPLICATE_OBJECT,
        SqlState::DUPLICATE_COLUMN,
        SqlState::UNIQUE_VIOLATION,
    ];
    is_worth_another_try(error) || is_any(error, &made)
}

fn is_any(error: &Fault, codes: &[SqlState]) -> bool {
    error.code().is_some_and(|code| codes.contains(code))
}
