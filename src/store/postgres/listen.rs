//! Hears what other nodes tell, and whether the database is there.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::pool::Pool;
use super::statements;

/// How long to wait before the next try, and how often it is seen whether the connection still stands.
const PAUSE: Duration = Duration::from_secs(1);
/// How long that may take.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Counts in `told` each word from other nodes, until nobody listens to it. Whoever does should look by itself from
/// time to time: words are lost while the connection is, and some databases know none.
pub(super) async fn listen(pool: Arc<Pool>, told: watch::Sender<u64>) {
    let told = Arc::new(told);
    while !told.is_closed() {
        let hears = Arc::clone(&told);
        let opened = pool.open(move || hears.send_modify(|count| *count += 1));
        if let Ok(Ok(client)) = tokio::time::timeout(ANSWER_MAX, opened).await {
            pool.back();
            if client.batch_execute(statements::LISTEN).await.is_err() {
                tracing::info!("the database does not tell of changes: it is looked at from time to time");
            }
            // What came while nobody listened.
            told.send_modify(|count| *count += 1);
            while !told.is_closed() {
                tokio::time::sleep(PAUSE).await;
                let answer = tokio::time::timeout(ANSWER_MAX, client.batch_execute("SELECT 1")).await;
                if !matches!(answer, Ok(Ok(()))) {
                    break;
                }
                pool.back();
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}
