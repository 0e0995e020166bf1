//! The connections of this process.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_postgres::AsyncMessage;
use tokio_postgres::Client;
use tokio_postgres::Connection;
use tokio_postgres::NoTls;
use tokio_postgres::config::Host;
use tokio_postgres::config::SslMode;

use super::NAME;
use super::PostgresFault;
use super::plain;
use super::session::Prepared;
use super::session::Session;
use super::statements;
use super::tls::Tls;
use crate::store::StoreError;
use crate::store::config::PostgresConfig;
use crate::tls::client::TlsClient;

/// How long a server may be silent before it is asked whether it is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVE_RETRIES: u32 = 3;
const APPLICATION: &str = "portcullis";

/// Connections that wait for work, and the right to have more.
pub(super) struct Pool {
    database: tokio_postgres::Config,
    tls: Option<Tls>,
    handle: Handle,
    timeout: Duration,
    idle: Mutex<Vec<Prepared>>,
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
    waiting_max: usize,
    is_away: AtomicBool,
    is_telling: AtomicBool,
    /// Whether the database knows no words.
    is_mute: AtomicBool,
}

/// A call that waits for a connection.
struct Waiting<'a>(&'a AtomicUsize);

/// Reads where the database is. Modes of TLS that name what is checked are those of libpq; with TLS all of it is
/// checked here.
fn read(url: &str) -> Result<tokio_postgres::Config, PostgresFault> {
    let plain = ["sslmode=verify-full", "sslmode=verify-ca"]
        .iter()
        .fold(url.trim().to_owned(), |url, mode| url.replace(mode, "sslmode=require"));
    let database: tokio_postgres::Config = plain.parse().map_err(|_| PostgresFault::Url)?;
    if database.get_hosts().is_empty() { Err(PostgresFault::Url) } else { Ok(database) }
}

impl Pool {
    pub(super) fn new(url: &str, config: &PostgresConfig, handle: Handle) -> Result<Self, PostgresFault> {
        let mut database = read(url)?;
        let over_tcp = database.get_hosts().iter().any(|host| matches!(host, Host::Tcp(_)));
        if over_tcp && !config.tls && database.get_ssl_mode() == SslMode::Require {
            return Err(PostgresFault::TlsOff);
        }
        let tls = (config.tls && over_tcp).then(|| TlsClient::new(config.ca_file.as_deref()));
        let tls = tls.transpose()?.map(Tls);
        database
            .ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable })
            .application_name(APPLICATION)
            .connect_timeout(config.timeout)
            .tcp_user_timeout(config.timeout)
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            .keepalives_retries(KEEPALIVE_RETRIES);
        Ok(Self {
            database,
            tls,
            handle,
            timeout: config.timeout,
            idle: Mutex::default(),
            places: Arc::new(Semaphore::new(config.connections)),
            waiting: AtomicUsize::new(0),
            waiting_max: config.waiting_max,
            is_away: AtomicBool::new(false),
            is_telling: AtomicBool::new(false),
            is_mute: AtomicBool::new(false),
        })
    }

    /// Returns a connection for one call; it comes back by itself unless the call ended badly.
    pub(super) async fn session(self: &Arc<Self>) -> Result<Session, StoreError> {
        const AWAY: StoreError = StoreError::Away { backend: NAME };
        if self.is_away.load(Ordering::Acquire) {
            return Err(AWAY);
        }
        let _waiting = Waiting::begin(&self.waiting, self.waiting_max).ok_or(AWAY)?;
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| AWAY)?;
        let idle = {
            let mut idle = self.idle.lock();
            idle.retain(|prepared| !prepared.client.is_closed());
            idle.pop()
        };
        if let Some(prepared) = idle {
            return Ok(Session::new(prepared, Arc::clone(self), place));
        }
        match self.open(|| {}).await {
            Ok(client) => Ok(Session::new(Prepared::new(client), Arc::clone(self), place)),
            Err(error) => {
                self.away(&error.to_string());
                Err(AWAY)
            }
        }
    }

    /// Lets calls fail at once from now on, until [`Pool::back`].
    pub(super) fn away(&self, reason: &str) {
        if !self.is_away.swap(true, Ordering::AcqRel) {
            tracing::error!(reason, "the database is away");
            self.idle.lock().clear();
        }
    }

    /// Lets calls try again: the database has answered.
    pub(super) fn back(&self) {
        if self.is_away.swap(false, Ordering::AcqRel) {
            tracing::info!("the database is back");
        }
    }

    /// Takes back a connection whose call ended well.
    pub(super) fn give_back(&self, prepared: Prepared) {
        self.idle.lock().push(prepared);
    }

    /// Tells the other nodes, behind the back of who waits for the call; at most one such word is under way,
    /// and the next one says the same.
    pub(super) fn tell_others(self: &Arc<Self>, session: Session) {
        if self.is_mute.load(Ordering::Acquire) || self.is_telling.swap(true, Ordering::AcqRel) {
            return;
        }
        let pool = Arc::clone(self);
        self.handle.spawn(async move {
            let mut session = session;
            // From here on a write needs a word of its own.
            pool.is_telling.store(false, Ordering::Release);
            // A database that cannot tell is looked at by the others from time to time.
            if !session.tell().await {
                pool.is_mute.store(true, Ordering::Release);
            }
        });
    }

    /// Opens a connection; `notified` is called at each word from others.
    pub(super) async fn open(&self, notified: impl Fn() + Send + 'static) -> io::Result<Client> {
        let client = match &self.tls {
            Some(tls) => {
                let (client, connection) = self.database.connect(tls.clone()).await.map_err(plain)?;
                self.handle.spawn(drive(connection, notified));
                client
            }
            None => {
                let (client, connection) = self.database.connect(NoTls).await.map_err(plain)?;
                self.handle.spawn(drive(connection, notified));
                client
            }
        };
        let begin = statements::BEGIN_SESSION.replace("$MS", &self.timeout.as_millis().to_string());
        client.batch_execute(&begin).await.map_err(plain)?;
        Ok(client)
    }
}

impl<'a> Waiting<'a> {
    fn begin(count: &'a AtomicUsize, max: usize) -> Option<Self> {
        let begun = Self(count);
        (count.fetch_add(1, Ordering::AcqRel) < max).then_some(begun)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Moves a connection's bytes until it ends.
async fn drive<S, T>(mut connection: Connection<S, T>, notified: impl Fn())
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    // Whoever waits for an answer is told of an error there.
    while let Some(Ok(message)) = std::future::poll_fn(|ctx| connection.poll_message(ctx)).await {
        if matches!(message, AsyncMessage::Notification(_)) {
            notified();
        }
    }
}
