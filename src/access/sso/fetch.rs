//! Asking an identity provider: one request a connection, bounded in time and size, following no redirect.
//!
//! Where to ask comes from the operator's configuration and from what the provider publishes about itself;
//! nothing that a browser sends has a part in it.

use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http::Method;
use http::Request;
use http::StatusCode;
use http::header;
use http_body_util::BodyExt;
use http_body_util::Full;
use http_body_util::Limited;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;

use crate::access::url::Endpoint;
use crate::tls::CertificateFault;
use crate::tls::client::TlsClient;

/// The longest answer that is read, in bytes.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// For a whole exchange, the name's address and the connection included.
pub const DEADLINE: Duration = Duration::from_secs(10);
const HEAD_BYTES_MAX: usize = 32 * 1024;

/// Why a provider gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum FetchFault {
    /// No connection could be made.
    #[error("the identity provider cannot be reached")]
    Unreachable(#[source] io::Error),
    /// No answer in time.
    #[error("the identity provider took too long")]
    Slow,
    /// It spoke no HTTP, or broke off.
    #[error("the identity provider broke off")]
    Broken(#[source] hyper::Error),
    /// The answer is longer than what is read.
    #[error("the identity provider's answer is too long, or broke off")]
    TooLong,
    /// The request cannot be written as HTTP.
    #[error("the request to the identity provider cannot be written")]
    Request(#[source] http::Error),
}

/// What goes with a request.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// A form to post; `None`: the request is a GET.
    pub form: Option<String>,
    /// The `Authorization` header.
    pub authorization: Option<HeaderValue>,
}

/// An answer, whatever its status.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status; a redirect is an answer like any other.
    pub status: StatusCode,
    /// The body.
    pub body: Bytes,
}

/// Asks.
#[derive(Clone, Debug)]
pub struct Fetcher {
    tls: TlsClient,
    deadline: Duration,
}

impl Fetcher {
    /// Trusts the system's certificates, and those of a file beside them.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn new(ca_file: Option<&Path>) -> Result<Self, CertificateFault> {
        Ok(Self { tls: TlsClient::new(ca_file)?, deadline: DEADLINE })
    }

    /// Returns the same with less patience.
    #[cfg(test)]
    pub fn within(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Sends one request and reads its answer.
    ///
    /// # Errors
    /// See [`FetchFault`].
    pub async fn ask(&self, endpoint: &Endpoint, question: Question) -> Result<Answer, FetchFault> {
        let asked = tokio::time::timeout(self.deadline, self.ask_without_limit(endpoint, question));
        asked.await.unwrap_or(Err(FetchFault::Slow))
    }

    async fn ask_without_limit(&self, endpoint: &Endpoint, question: Question) -> Result<Answer, FetchFault> {
        let request = request(endpoint, question)?;
        let bare = endpoint.host().trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((bare, endpoint.port())).await.map_err(FetchFault::Unreachable)?;
        if !endpoint.is_secure() {
            return exchange(stream, request).await;
        }
        let stream = self.tls.connect(endpoint.host(), stream).await.map_err(FetchFault::Unreachable)?;
        exchange(stream, request).await
    }
}

fn request(endpoint: &Endpoint, question: Question) -> Result<Request<Full<Bytes>>, FetchFault> {
    let mut request = Request::builder()
        .uri(endpoint.path())
        .header(header::HOST, endpoint.authority())
        .header(header::ACCEPT, "application/json")
        .header(header::CONNECTION, "close");
    if let Some(authorization) = question.authorization {
        request = request.header(header::AUTHORIZATION, authorization);
    }
    let body = match question.form {
        None => Bytes::new(),
        Some(form) => {
            request = request
                .method(Method::POST)
                .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
            Bytes::from(form)
        }
    };
    request.body(Full::new(body)).map_err(FetchFault::Request)
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Answer, FetchFault> {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX);
    let (mut sender, connection) =
        builder.handshake(TokioIo::new(stream)).await.map_err(FetchFault::Broken)?;
    let answer = async move {
        let response = sender.send_request(request).await.map_err(FetchFault::Broken)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|_| FetchFault::TooLong)?.to_bytes();
        Ok(Answer { status, body })
    };
    // The connection has to be driven for the answer to come; what was read before it ended still arrives.
    let driven = async {
        drop(connection.await);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        answer = answer => answer,
        () = driven => Err(FetchFault::Slow),
    }
}
