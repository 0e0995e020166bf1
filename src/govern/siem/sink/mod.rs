//! The platforms: each takes a batch of entries, or says why not.

mod elastic;
mod nats;
mod ocsf_file;
mod splunk;
mod syslog;
mod webhook;

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderValue;
use http::StatusCode;

use super::config::HttpTarget;
use super::config::Peer;
use super::config::SinkConfig;
use super::config::Target;
use super::format::Teller;
use super::http::HttpAnswer;
use super::http::HttpClient;
use crate::clock::Clock;
use crate::document::secret::SecretPlace;
use crate::govern::audit::Entry;
use crate::tls::CertificateFault;
use crate::tls::client::TlsClient;

/// Reads a secret from its place; `None` where there is none.
pub type ReadSecret = Arc<dyn Fn(&SecretPlace) -> Option<String> + Send + Sync>;

/// What became of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// The platform has all of it.
    Taken,
    /// The platform has all but these, by their places in the batch.
    Partly {
        /// Refused for what they are: they never will be taken.
        refused: Vec<usize>,
        /// To be sent again.
        again: Vec<usize>,
        /// Why those have to be sent again.
        because: Trouble,
    },
}

/// Why a platform does not have a batch. Nothing of a receiver's own words is in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Trouble {
    /// No connection.
    #[error("the receiver cannot be reached: {0}")]
    Unreachable(io::ErrorKind),
    /// All addresses of the receiver are ones that the operator did not allow.
    #[error(
        "the receiver's address is of a private network or of this machine, which needs `allow_private = true`"
    )]
    Private,
    /// The connection broke, or what came over it makes no sense.
    #[error("the connection to the receiver broke")]
    Broken,
    /// No answer in time.
    #[error("the receiver did not answer in time")]
    Slow,
    /// A status that says to try again.
    #[error("the receiver answered {status}")]
    Status {
        /// The status.
        status: StatusCode,
        /// How long it asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// A status of success with a body that tells otherwise.
    #[error("the receiver's answer makes no sense")]
    Nonsense,
    /// The batch as a whole is refused for what is in it: parts of it may be taken.
    #[error("the receiver refuses the batch with {0}")]
    Batch(StatusCode),
    /// Each entry of a batch is refused for what it is: rather the receiver is not made for them, or not set up.
    #[error("the receiver refuses every entry: it may be set up for something else")]
    All,
    /// The token or the signing secret cannot be read.
    #[error("the sink's secret cannot be read")]
    Secret,
    /// The configuration makes no request.
    #[error("the sink's address makes no request")]
    Unsendable,
    /// A file cannot be written.
    #[error("the file cannot be written: {0}")]
    File(io::ErrorKind),
    /// A token, user or password that does not count, or a user who may not publish.
    #[error("the receiver refuses the sink's credentials, or what they may do")]
    Denied,
    /// Nobody acknowledges what is published.
    #[error("no stream takes the sink's subject")]
    NoStream,
    /// Somebody else does.
    #[error("a stream takes the sink's subject that is not the expected one")]
    OtherStream,
    /// A stream that takes nothing for now, by the number of JetStream's error.
    #[error("the stream takes nothing: JetStream error {0}")]
    Stream(u32),
    /// No secret is sent in the clear to who wants TLS.
    #[error("the receiver wants TLS: begin `url` with tls://")]
    Unsecured,
}

impl Trouble {
    /// Returns that there is no connection, because of an error.
    pub(super) fn unreachable(error: io::Error) -> Self {
        Self::Unreachable(error.kind())
    }
}

/// A platform.
#[async_trait]
pub(super) trait Sink: Send {
    /// Hands entries over. Nothing of them counts as taken when this fails, or is dropped.
    async fn deliver(&mut self, entries: &[&Entry]) -> Result<Delivery, Trouble>;

    /// Returns how many of the entries that were taken last may have been lost since, because the platform
    /// acknowledges nothing and its connection broke. They are sent again.
    fn in_doubt(&mut self) -> usize {
        0
    }

    /// Returns how many of the entries that were taken last would be in doubt if the connection broke now.
    fn unsettled(&self) -> usize {
        0
    }

    /// Looks after the connection while there is nothing to hand over. Dropping the call loses nothing.
    async fn idle(&mut self) -> Infallible {
        pending().await
    }

    /// Ends the connection, in a way that settles as much as can be.
    async fn close(&mut self) {}
}

/// Tells what would keep a sink from being opened, before it is wanted.
///
/// # Errors
/// Its certificates cannot be used.
pub fn check(config: &SinkConfig) -> Result<(), CertificateFault> {
    config.target.peer().map_or(Ok(()), |peer| tls(peer).map(drop))
}

/// Returns the platform that a configuration describes.
///
/// # Errors
/// Its certificates cannot be used.
pub(super) fn open(
    config: &SinkConfig,
    teller: Teller,
    read_secret: &ReadSecret,
    clock: &Arc<dyn Clock>,
) -> Result<Box<dyn Sink>, CertificateFault> {
    let http = |target: &HttpTarget| HttpSide::new(target, config.timeout_ms, read_secret, clock);
    Ok(match &config.target {
        Target::SplunkHec(target, index) => {
            Box::new(splunk::Splunk { side: http(target)?, index: index.clone(), teller })
        }
        Target::Elastic(target, index) => {
            let side = elastic::asking(http(target)?);
            Box::new(elastic::Elastic { side, index: index.clone(), teller })
        }
        Target::Webhook(target) => {
            Box::new(webhook::Webhook { side: http(target)?, clock: Arc::clone(clock) })
        }
        Target::Syslog(target) => {
            let tls = tls(&target.peer)?;
            Box::new(syslog::Syslog::new(target.clone(), tls, config.timeout_ms, teller, Arc::clone(clock)))
        }
        Target::OcsfFile(target) => Box::new(ocsf_file::OcsfFile { target: target.clone(), teller }),
        Target::Nats(target) => {
            let tls = tls(&target.peer)?;
            let access = nats::Access { tls, read_secret: Arc::clone(read_secret), clock: Arc::clone(clock) };
            Box::new(nats::Nats::new(target.clone(), config.timeout_ms, teller, access))
        }
    })
}

fn tls(peer: &Peer) -> Result<Option<TlsClient>, CertificateFault> {
    peer.tls.then(|| TlsClient::new(peer.ca.as_deref())).transpose()
}

/// What all HTTP platforms share.
struct HttpSide {
    client: HttpClient,
    path: String,
    gzip: bool,
    secret: Option<SecretPlace>,
    read_secret: ReadSecret,
}

impl HttpSide {
    fn new(
        target: &HttpTarget,
        timeout_ms: u64,
        read_secret: &ReadSecret,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, CertificateFault> {
        let (peer, tls) = (target.peer.clone(), tls(&target.peer)?);
        Ok(Self {
            client: HttpClient::new(peer, tls, Duration::from_millis(timeout_ms), Arc::clone(clock)),
            path: target.path.clone(),
            gzip: target.gzip,
            secret: target.secret.clone(),
            read_secret: Arc::clone(read_secret),
        })
    }

    fn secret(&self) -> Result<Option<String>, Trouble> {
        secret(self.secret.as_ref(), &self.read_secret)
    }

    /// Posts, and returns the answer whatever its status.
    async fn post(
        &mut self,
        mut headers: Vec<(&'static str, HeaderValue)>,
        body: Vec<u8>,
    ) -> Result<HttpAnswer, Trouble> {
        let body = match self.gzip {
            true => {
                headers.push(("content-encoding", HeaderValue::from_static("gzip")));
                compressed(&body)
            }
            false => body,
        };
        self.client.post(&self.path, &headers, body).await
    }

    /// Posts to a platform whose status says all; returns an answer of success.
    async fn post_whole(
        &mut self,
        headers: Vec<(&'static str, HeaderValue)>,
        body: Vec<u8>,
    ) -> Result<HttpAnswer, Trouble> {
        let answer = self.post(headers, body).await?;
        match answer.status {
            status if status.is_success() => Ok(answer),
            StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY => {
                Err(Trouble::Batch(answer.status))
            }
            status => Err(Trouble::Status { status, retry_after: answer.retry_after }),
        }
    }
}

/// Reads a secret anew, so that a changed file is seen; `None` where the sink has none.
fn secret(place: Option<&SecretPlace>, read_secret: &ReadSecret) -> Result<Option<String>, Trouble> {
    let Some(place) = place else { return Ok(None) };
    let text = read_secret(place).map(|text| text.trim().to_owned());
    text.filter(|text| !text.is_empty()).map(Some).ok_or(Trouble::Secret)
}

/// Returns a header that logs do not show.
fn sensitive(text: String) -> Result<HeaderValue, Trouble> {
    let mut value = HeaderValue::try_from(text).map_err(|_| Trouble::Secret)?;
    value.set_sensitive(true);
    Ok(value)
}

fn compressed(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).and_then(|()| encoder.finish()).expect("a vector takes all bytes")
}
