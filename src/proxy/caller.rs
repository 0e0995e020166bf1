//! What a caller's connection tells while its exchange runs.

use pingora::proxy::Session;

/// How much a caller may write behind its request, within one wait, and still be waiting for its answer.
const UNASKED_BYTES_MAX: usize = 64 << 10;
/// After so many of those bytes the worker turns to others.
const UNASKED_BYTES_AT_ONCE: usize = 512;

/// Returns once the caller has left, with what Pingora says about it; otherwise never.
///
/// A caller that writes more than its request (a pipelined one) has not left: its answer is still
/// wanted. What it wrote is thrown away, because its leaving shows only behind it, and the connection
/// is closed after the answer, which tells it to send again (RFC 9112 §9.3.2). Past
/// [`UNASKED_BYTES_MAX`] it counts as gone: whoever writes that much does not read.
pub(super) async fn caller_left(session: &mut Session) -> Box<pingora::Error> {
    for count in 1.. {
        match session.as_downstream_mut().read_body_or_idle(true).await {
            Err(error) if *error.etype() == pingora::ErrorType::ConnectError && count < UNASKED_BYTES_MAX => {
                session.set_keepalive(None);
            }
            Err(error) => return error.into_down(),
            Ok(_) => break,
        }
        if count.is_multiple_of(UNASKED_BYTES_AT_ONCE) {
            tokio::task::yield_now().await;
        }
    }
    std::future::pending().await
}
