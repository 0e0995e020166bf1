//! How long one request waits, all in all, for what nodes know together.
//!
//! A request may have to ask more than once: whether its session goes on, whether its budget pays for it, whether its
//! signature came to another node. Each answer may be slow without being too slow; together they wait no longer than one of
//! them may alone.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::clock::Clock;
use crate::clock::SystemClock;

/// What one request has waited; clones are of the same request.
#[derive(Clone, Debug, Default)]
pub struct Patience {
    waited_us: Arc<AtomicU64>,
}

impl Patience {
    /// Waits for an answer, as far as the request has not waited for `in_all` yet; `None`: it did not come. An answer that
    /// is there already is taken all the same. What waits is real: the machine's own clock tells how long.
    pub async fn wait<T>(&self, in_all: Duration, answer: impl Future<Output = T>) -> Option<T> {
        let began = SystemClock.monotonic();
        let answered = timeout(in_all.saturating_sub(self.waited()), answer).await.ok();
        let waited = self.waited().saturating_add(SystemClock.monotonic().saturating_sub(began));
        self.waited_us.store(u64::try_from(waited.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        answered
    }

    /// Does the same on a thread that may block; `None` as well where nothing could wake it.
    pub fn block<T>(&self, in_all: Duration, answer: impl Future<Output = T>) -> Option<T> {
        Handle::try_current().ok()?.block_on(self.wait(in_all, answer))
    }

    /// Returns one that has none left.
    #[cfg(test)]
    pub(crate) fn spent() -> Self {
        Self { waited_us: Arc::new(u64::MAX.into()) }
    }

    fn waited(&self) -> Duration {
        Duration::from_micros(self.waited_us.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::future::ready;

    use super::*;

    const ALL: Duration = Duration::from_millis(40);

    #[tokio::test]
    async fn what_was_waited_is_not_waited_again() {
        let patience = Patience::default();
        assert_eq!(patience.wait(ALL, pending::<()>()).await, None);
        assert!(patience.waited() >= ALL);
        let before = patience.waited();
        assert_eq!(patience.clone().wait(ALL, pending::<()>()).await, None);
        assert!(patience.waited() - before < ALL, "{patience:?}");
        assert_eq!(patience.wait(ALL, ready(7)).await, Some(7));
    }

    #[test]
    fn nobody_waits_where_nothing_could_wake_them() {
        assert_eq!(Patience::default().block(ALL, pending::<()>()), None);
    }
}
