//! `portcullis top`: what a running gateway does, as a screen that is drawn anew.
//!
//! Everything on it comes from `/metrics` of the management plane, read twice: rates are of the time between.

mod figures;
mod screen;

use std::io::IsTerminal;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use http::HeaderValue;
use http::Request;
use http::StatusCode;
use http::Uri;
use http::header;
use http_body_util::BodyExt;
use http_body_util::Empty;
use http_body_util::Limited;
use hyper::body::Bytes;
use hyper_rustls::HttpsConnector;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use self::figures::Figures;
use super::complain;
use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::config::env;
use crate::tls::client::TlsClient;

/// The longest page of metrics that is read, in bytes.
const PAGE_BYTES_MAX: usize = 16 << 20;
/// How long the gateway may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Clears a terminal and goes to its first place (ECMA-48).
const CLEAR: &str = "\x1b[2J\x1b[H";
const PATH: &str = "/metrics";
const KEY: &str = "x-api-key";

/// What to show, of whom.
#[derive(Debug, Args)]
pub(super) struct TopArguments {
    /// Where the management plane is.
    #[arg(long, default_value = "http://127.0.0.1:9090", value_name = "URL")]
    admin: Uri,
    /// The variable of the environment that holds a key which may read metrics.
    #[arg(long, default_value = "PORTCULLIS_KEY", value_name = "NAME")]
    key_env: String,
    /// Certificates that are trusted beside the system's, in PEM.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Seconds between two screens.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: u64,
    /// Show so many screens, and end; the first tells everything since the gateway began.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    screens: Option<u64>,
}

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
enum TopFault {
    #[error("--admin: expected http(s)://HOST:PORT")]
    Address,
    #[error("{0} holds no key that can be sent")]
    Key(String),
    #[error("--ca-file: {0}")]
    Certificates(#[from] crate::tls::CertificateFault),
    #[error("{0} cannot be reached: is the gateway running?")]
    Unreachable(Uri),
    #[error("{0} takes too long to answer")]
    Slow(Uri),
    #[error("{0} answers {1}: a key that may read metrics belongs in {2}")]
    Refused(Uri, StatusCode, String),
    #[error("{0} answers what are no metrics of a gateway")]
    Unreadable(Uri),
    #[error("there is no runtime to be had: {0}")]
    Runtime(#[from] std::io::Error),
}

/// Draws screens until it is interrupted, or has drawn as many as were wanted.
pub(super) fn run(arguments: &TopArguments) -> ExitCode {
    match draw(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            complain(&fault.to_string());
            ExitCode::FAILURE
        }
    }
}

fn draw(arguments: &TopArguments) -> Result<(), TopFault> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let source = Source::of(arguments)?;
    let is_terminal = std::io::stdout().is_terminal();
    let mut before: Option<(Figures, Duration)> = None;
    for drawn in 1.. {
        let now = (runtime.block_on(source.read())?, SystemClock.monotonic());
        let since = before.as_ref().map(|(figures, at)| (figures, now.1.saturating_sub(*at)));
        let text = screen::screen(&now.0, since);
        let mut out = std::io::stdout().lock();
        // Whoever no longer looks has seen enough.
        let clear = if is_terminal { CLEAR } else { "" };
        if write!(out, "{clear}{text}").and_then(|()| out.flush()).is_err()
            || Some(drawn) == arguments.screens
        {
            return Ok(());
        }
        before = Some(now);
        std::thread::sleep(Duration::from_secs(arguments.every));
    }
    Ok(())
}

/// Where metrics are read.
struct Source<'a> {
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    uri: Uri,
    key: Option<HeaderValue>,
    key_env: &'a str,
}

impl<'a> Source<'a> {
    fn of(arguments: &'a TopArguments) -> Result<Self, TopFault> {
        let mut parts = arguments.admin.clone().into_parts();
        parts.path_and_query = Some(PATH.parse().expect("a path"));
        let uri = Uri::from_parts(parts).map_err(|_| TopFault::Address)?;
        let key = match env::named(&arguments.key_env) {
            Some(key) => {
                let mut key = HeaderValue::from_str(key.trim())
                    .map_err(|_| TopFault::Key(arguments.key_env.clone()))?;
                key.set_sensitive(true);
                Some(key)
            }
            None => None,
        };
        let tls = TlsClient::new(arguments.ca_file.as_deref())?.config();
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client, uri, key, key_env: &arguments.key_env })
    }

    async fn read(&self) -> Result<Figures, TopFault> {
        let slow = |_| TopFault::Slow(self.uri.clone());
        let text = tokio::time::timeout(ANSWER_MAX, self.page()).await.map_err(slow)??;
        Figures::read(&text).ok_or_else(|| TopFault::Unreadable(self.uri.clone()))
    }

    async fn page(&self) -> Result<String, TopFault> {
        let mut request = Request::get(&self.uri).header(header::ACCEPT, "text/plain");
        if let Some(key) = &self.key {
            request = request.header(KEY, key);
        }
        let request = request.body(Empty::new()).map_err(|_| TopFault::Address)?;
        let unreachable = |_| TopFault::Unreachable(self.uri.clone());
        let answer = self.client.request(request).await.map_err(unreachable)?;
        if answer.status() != StatusCode::OK {
            return Err(TopFault::Refused(self.uri.clone(), answer.status(), self.key_env.to_owned()));
        }
        let unreadable = || TopFault::Unreadable(self.uri.clone());
        let body =
            Limited::new(answer.into_body(), PAGE_BYTES_MAX).collect().await.map_err(|_| unreadable())?;
        String::from_utf8(body.to_bytes().to_vec()).map_err(|_| unreadable())
    }
}
