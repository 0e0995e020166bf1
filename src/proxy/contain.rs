//! Keeps a defect of one exchange from ending others: a panic becomes an answer.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

use super::Next;
use super::Stop;
use super::reject::Rejection;
use crate::telemetry::metrics::Metrics;

/// Runs an exchange; a panic in it is counted and becomes a refusal like any other.
pub(super) async fn contained(
    exchange: impl Future<Output = Result<Next, Stop>>,
    metrics: &Metrics,
) -> Result<Next, Stop> {
    AssertUnwindSafe(exchange).catch_unwind().await.unwrap_or_else(|_| {
        metrics.panicked();
        Err(Rejection::Internal.into())
    })
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
        assert!(matches!(
            contained(async { Ok(Next::Answered) }, &telemetry.metrics).await,
            Ok(Next::Answered)
        ));
    }
}
