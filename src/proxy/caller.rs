//! What a caller's connection tells while its exchange runs.

use pingora::proxy::Session;

/// Returns once the caller has left, with what Pingora says about it; otherwise never.
///
/// A caller that writes more than its request (a pipelined one) has not left: its answer is still
/// wanted. What it wrote is not read: the connection is closed after the answer, which tells it to
/// send again (RFC 9112 §9.3.2).
pub(super) async fn caller_left(session: &mut Session) -> Box<pingora::Error> {
    match session.as_downstream_mut().read_body_or_idle(true).await {
        Err(error) if *error.etype() == pingora::ErrorType::ConnectError => session.set_keepalive(None),
        Err(error) => return error.into_down(),
        Ok(_) => {}
    }
    std::future::pending().await
}
