//! Keeps a defect of one exchange from ending others: a panic becomes an answer, or, behind the answer, a line of the log.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

use super::Stop;
use super::reject::Rejection;
use crate::telemetry::metrics::Metrics;

/// Runs an exchange; a panic in it is counted and becomes a refusal like any other.
pub(super) async fn contained(
    exchange: impl Future<Output = Result<(), Stop>>,
    metrics: &Metrics,
) -> Result<(), Stop> {
    counted(exchange, metrics).await.unwrap_or_else(|| Err(Rejection::Internal.into()))
}

/// Runs what is done about an exchange; `None` where a panic ended it, which is counted.
pub(super) async fn counted<T>(work: impl Future<Output = T>, metrics: &Metrics) -> Option<T> {
    AssertUnwindSafe(work).catch_unwind().await.inspect_err(|_| metrics.panicked()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Telemetry;

    #[tokio::test]
    async fn a_panic_is_counted_and_refused_like_anything_else() {
        let telemetry = Telemetry::new("0", "0");
        let broken = async { panic!("a defect") };
        let stop = contained(broken, &telemetry.metrics).await.err().unwrap();
        let Stop::Reject(rejection) = stop else { panic!("{stop:?}") };
        assert_eq!((rejection.answer().status.as_u16(), rejection.answer().code), (500, "internal_error"));
        assert!(telemetry.metrics.render().contains("portcullis_panics_total 1"));
        assert!(matches!(contained(async { Ok(()) }, &telemetry.metrics).await, Ok(())));
        let broken = async { panic!("a defect behind the answer") };
        assert_eq!(counted::<()>(broken, &telemetry.metrics).await, None);
        assert!(telemetry.metrics.render().contains("portcullis_panics_total 2"));
        assert_eq!(counted(async { 7 }, &telemetry.metrics).await, Some(7));
    }
}
