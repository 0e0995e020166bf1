//! The management API of a running gateway, for the commands that are its clients.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use http::HeaderValue;
use http::Method;
use http::Request;
use http::StatusCode;
use http::Uri;
use http::header;
use http_body_util::BodyExt;
use http_body_util::Full;
use http_body_util::Limited;
use hyper::body::Bytes;
use hyper_rustls::HttpsConnector;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::config::env;
use crate::tls::CertificateFault;
use crate::tls::client::TlsClient;

/// The longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// How long the gateway may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// The same where it changes something, which is done whether its answer is heard or not.
const CHANGE_MAX: Duration = Duration::from_secs(60);
const KEY: &str = "x-api-key";

/// Which gateway is asked, and as whom.
#[derive(Debug, Args)]
pub(super) struct ApiArguments {
    /// Where the management plane is.
    #[arg(long, default_value = "http://127.0.0.1:9090", value_name = "URL")]
    admin: Uri,
    /// The variable of the environment that holds a key which may do this.
    #[arg(long, default_value = "PORTCULLIS_KEY", value_name = "NAME")]
    key_env: String,
    /// Certificates that are trusted beside the system's, in PEM.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// Why the gateway did not do as it was asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiFault {
    #[error("--admin: expected http(s)://HOST:PORT")]
    Address,
    #[error("{0} holds no key that can be sent")]
    Key(String),
    #[error("--ca-file: {0}")]
    Certificates(#[from] CertificateFault),
    #[error("{0} cannot be reached: is the gateway running?")]
    Unreachable(Uri),
    #[error("{0} takes too long to answer")]
    Slow(Uri),
    #[error("{0} answers {1}: a key that may do this belongs in {2}")]
    Forbidden(Uri, StatusCode, String),
    #[error("{0} answers {1}: {2}")]
    Refused(Uri, StatusCode, String),
    #[error("{0} answers what no gateway does")]
    Unreadable(Uri),
    #[error("there is no runtime to be had: {0}")]
    Runtime(#[from] std::io::Error),
}

impl ApiFault {
    /// Tells whether it may be over by itself: the gateway ends, or begins.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Slow(_) | Self::Unreadable(_) => true,
            Self::Refused(_, status, _) => status.is_server_error(),
            Self::Address | Self::Key(_) | Self::Certificates(_) | Self::Forbidden(..) | Self::Runtime(_) => {
                false
            }
        }
    }
}

/// A gateway that is asked.
pub(super) struct Api<'a> {
    runtime: Runtime,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    admin: &'a Uri,
    key: Option<HeaderValue>,
    key_env: &'a str,
}

impl<'a> Api<'a> {
    /// Returns the gateway of some arguments; whether it is there shows with the first call.
    pub(super) fn of(arguments: &'a ApiArguments) -> Result<Self, ApiFault> {
        let key = match env::named(&arguments.key_env) {
            Some(key) => {
                let mut key = HeaderValue::from_str(key.trim())
                    .map_err(|_| ApiFault::Key(arguments.key_env.clone()))?;
                key.set_sensitive(true);
                Some(key)
            }
            None => None,
        };
        let tls = TlsClient::new(arguments.ca_file.as_deref())?.config();
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { runtime, client, admin: &arguments.admin, key, key_env: &arguments.key_env })
    }

    /// Returns the fault of an answer that makes no sense.
    pub(super) fn unreadable(&self, path: &str) -> ApiFault {
        self.uri(path).map_or_else(|fault| fault, ApiFault::Unreadable)
    }

    fn uri(&self, path: &str) -> Result<Uri, ApiFault> {
        let mut parts = self.admin.clone().into_parts();
        parts.path_and_query = Some(path.parse().map_err(|_| ApiFault::Address)?);
        Uri::from_parts(parts).map_err(|_| ApiFault::Address)
    }

    /// Makes a call, and returns what a success says.
    pub(super) fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<String, ApiFault> {
        let uri = self.uri(path)?;
        let patience = if method.is_safe() { ANSWER_MAX } else { CHANGE_MAX };
        let text = body.map(Value::to_string).unwrap_or_default();
        let mut request = Request::builder().method(method).uri(&uri);
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(key) = &self.key {
            request = request.header(KEY, key);
        }
        let request = request.body(Full::new(Bytes::from(text))).map_err(|_| ApiFault::Address)?;
        let answer = async { tokio::time::timeout(patience, self.answer(request, &uri)).await };
        self.runtime.block_on(answer).map_err(|_| ApiFault::Slow(uri.clone()))?
    }

    async fn answer(&self, request: Request<Full<Bytes>>, uri: &Uri) -> Result<String, ApiFault> {
        let unreadable = || ApiFault::Unreadable(uri.clone());
        let answer = self.client.request(request).await.map_err(|_| ApiFault::Unreachable(uri.clone()))?;
        let status = answer.status();
        let body =
            Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await.map_err(|_| unreadable())?;
        let text = String::from_utf8(body.to_bytes().to_vec()).map_err(|_| unreadable())?;
        match status {
            status if status.is_success() => Ok(text),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(ApiFault::Forbidden(uri.clone(), status, self.key_env.to_owned()))
            }
            status => Err(ApiFault::Refused(uri.clone(), status, told(&text))),
        }
    }
}

/// Returns why something was refused, as the gateway says it.
fn told(text: &str) -> String {
    let answer: Value = serde_json::from_str(text).unwrap_or_default();
    answer["error"].as_str().unwrap_or("it does not say why").to_owned()
}
