//! One request on one connection, and what a provider that did not answer it says of that.

use bytes::Bytes;
use pingora::ErrorType;
use pingora::RetryType;
use pingora::http::RequestHeader;
use pingora::protocols::http::client::HttpSession;

use crate::proxy::gate::Reserved;

/// Interim answers (1xx) that are passed over before the real one.
pub(super) const INTERIM_MAX: usize = 8;

/// Sends a request, gives up the room of its body once that has left, and reads the head of the response.
pub(super) async fn ask(
    session: &mut HttpSession,
    head: Box<RequestHeader>,
    body: Bytes,
    reserved: Option<Reserved>,
) -> pingora::Result<()> {
    session.write_request_header(head).await?;
    let written = write_body(session, body).await;
    drop(reserved);
    match written {
        Ok(()) => read_final_head(session).await,
        // A provider may answer and close before it has read everything (RFC 9112 §9.5).
        Err(error) => {
            let answered = read_final_head(session).await;
            answered.map_err(|told| if is_unread(&told) { told } else { error })
        }
    }
}

/// Tells whether a provider says that it did not read the request, and may be asked again in the same way.
pub(super) fn is_unread(error: &pingora::Error) -> bool {
    let is_other_protocol = matches!(error.etype(), ErrorType::H2Downgrade | ErrorType::InvalidH2);
    matches!(error.retry, RetryType::Decided(true)) && !is_other_protocol
}

async fn write_body(session: &mut HttpSession, body: Bytes) -> pingora::Result<()> {
    if !body.is_empty() {
        session.write_request_body(body, true).await?;
    }
    session.finish_request_body().await
}

async fn read_final_head(session: &mut HttpSession) -> pingora::Result<()> {
    for _ in 0..INTERIM_MAX {
        session.read_response_header().await?;
        let status = session.response_header().map(|head| head.status);
        if !status.is_some_and(|status| status.is_informational()) {
            return Ok(());
        }
    }
    pingora::Error::e_explain(ErrorType::InvalidHTTPHeader, "too many interim responses")
}
