//! State in a PostgreSQL database that several nodes share: the only place that knows one.
//!
//! The seam is synchronous, the driver is not: a small runtime of this backend's own does the talking, and a
//! call waits for it on the thread it was made on, as it would for a disk. A call takes at most the configured
//! time, however the network fails, and only so many may wait: past either it is answered with
//! [`StoreError::Away`]. From a call that found no database until one that looks for it once a second has found
//! it, calls fail at once, so that nothing piles up.
//!
//! A batch is one transaction. It takes the locks of its tables' rows in the order of their names, each table's
//! next version, and compares versions that are [expected](super::Batch::expect). Versions of a table are taken one
//! after the other until the end of their transactions, so whoever has read a version has read all before it.
//!
//! What it does not promise: a call that ends with an error may have been written all the same, where the
//! connection broke between the commit and the answer to it.

mod archive;
mod conditions;
mod facets;
mod facts;
mod listen;
mod look;
mod pool;
mod session;
mod statements;
mod tables;
mod tls;

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio_postgres::error::SqlState;

pub use self::archive::Archive;
pub use self::archive::Counted;
pub use self::facts::PostgresFacts;
pub use self::facts::ask_postgres;
use self::pool::Pool;
use self::session::Since;
use super::Backend;
use super::Batch;
use super::Changes;
use super::KeyRange;
use super::Mark;
use super::Order;
use super::Store;
use super::StoreError;
use super::Visit;
use super::config::PostgresConfig;
use crate::document::secret::SecretPlace;
use crate::tls::CertificateFault;

const NAME: &str = "postgresql";
const THREADS: usize = 2;
/// How many entries a scan asks for at a time.
const PAGE: usize = 256;
/// How much longer a call is waited for than it may take: the runtime's own delay.
const MARGIN: Duration = Duration::from_millis(250);

/// Why a database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PostgresFault {
    /// The URL cannot be read; it is not shown, because it holds a password.
    #[error(
        "the URL of the database is none: expected postgres://USER:PASSWORD@HOST/DATABASE, certificates are set by \
         store.postgres.ca_file"
    )]
    Url,
    /// The URL asks for TLS (`sslmode`), and the configuration turns it off.
    #[error("the URL of the database asks for TLS, which store.postgres.tls turns off")]
    TlsOff,
    /// There is nothing where the URL should lie. A relative path of a file is one from the working directory.
    #[error("the URL of the database cannot be read from {0}")]
    NoUrl(SecretPlace),
    /// The file of certificates cannot be used.
    #[error(transparent)]
    Certificates(#[from] CertificateFault),
    /// There are no threads to be had.
    #[error("the threads of the store cannot be started")]
    Threads(#[source] io::Error),
    /// The database cannot be reached, refuses the credentials, or its tables cannot be made.
    #[error("the database cannot be used: {0}")]
    Refused(#[source] io::Error),
}

struct Postgres {
    link: Arc<Link>,
    told: watch::Receiver<u64>,
}

/// The way to the database: the runtime that talks, and the connections.
struct Link {
    runtime: Option<Runtime>,
    pool: Arc<Pool>,
    timeout: Duration,
}

/// Opens the state in a database, and makes its tables where they are missing. Blocks.
///
/// # Errors
/// See [`PostgresFault`].
pub fn open_postgres(url: &str, config: &PostgresConfig) -> Result<Store, PostgresFault> {
    let mut threads = Builder::new_multi_thread();
    threads.worker_threads(THREADS).thread_name("store-postgres").enable_all();
    let runtime = threads.build().map_err(PostgresFault::Threads)?;
    let pool = Arc::new(Pool::new(url, config, runtime.handle().clone())?);
    let (tell, told) = watch::channel(0);
    let link = Arc::new(Link { runtime: Some(runtime), pool: Arc::clone(&pool), timeout: config.timeout });
    let making = Arc::clone(&pool);
    let made = link.wait_long(tables::MAKE_MAX, async move { Ok(making.make_tables().await) });
    made.map_err(|error| PostgresFault::Refused(io::Error::other(error)))?.map_err(PostgresFault::Refused)?;
    if let Some(runtime) = &link.runtime {
        runtime.spawn(listen::listen(pool, tell));
    }
    Ok(Store::new(Postgres { link, told }))
}

impl Postgres {
    /// Does work on the runtime and waits for it on this thread.
    fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.link.wait(work)
    }

    fn pool(&self) -> Arc<Pool> {
        Arc::clone(&self.link.pool)
    }
}

impl Link {
    /// Does work on the runtime and waits for it on this thread.
    fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        const AWAY: StoreError = StoreError::Away { backend: NAME };
        let (tell, told) = mpsc::sync_channel(1);
        let timeout = self.timeout;
        let Some(runtime) = &self.runtime else { return Err(AWAY) };
        let pool = Arc::clone(&self.pool);
        runtime.spawn(async move {
            let done = tokio::time::timeout(timeout, work).await.unwrap_or_else(|_| {
                pool.away("a call took too long");
                Err(AWAY)
            });
            // Who asked may have given up.
            let _ = tell.send(done);
        });
        told.recv_timeout(timeout + MARGIN).unwrap_or(Err(AWAY))
    }

    /// Does work that may take its time: that it does not end says nothing about the database.
    fn wait_long<T: Send + 'static>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        const AWAY: StoreError = StoreError::Away { backend: NAME };
        let (tell, told) = mpsc::sync_channel(1);
        let Some(runtime) = &self.runtime else { return Err(AWAY) };
        runtime.spawn(async move {
            let done = tokio::time::timeout(limit, work).await.unwrap_or(Err(AWAY));
            // Who asked may have given up.
            let _ = tell.send(done);
        });
        told.recv_timeout(limit + MARGIN).unwrap_or(Err(AWAY))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Not by itself: that would wait, and must not on a thread of another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Backend for Postgres {
    fn name(&self) -> &'static str {
        NAME
    }

    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let (pool, table, key) = (self.pool(), table.to_owned(), key.to_vec());
        self.wait(async move {
            let mut session = pool.session().await?;
            session.get(&table, &key).await
        })
    }

    fn apply(&self, batch: &Batch) -> Result<(), StoreError> {
        if batch.is_empty() && batch.expected().is_empty() {
            return Ok(());
        }
        let (pool, batch) = (self.pool(), batch.clone());
        self.wait(async move {
            let mut session = pool.session().await?;
            session.apply(&batch).await?;
            if !batch.is_quiet() {
                pool.tell_others(session);
            }
            Ok(())
        })
    }

    fn scan(
        &self,
        table: &str,
        range: &KeyRange,
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        let mut rest = range.clone();
        while !rest.is_empty() {
            let (pool, table, asked) = (self.pool(), table.to_owned(), rest.clone());
            let page = self.wait(async move {
                let mut session = pool.session().await?;
                session.page(&table, &asked, order, PAGE).await
            })?;
            for (key, value) in &page {
                if visit(key, value) == ControlFlow::Break(()) {
                    return Ok(());
                }
            }
            let Some((last, _)) = page.into_iter().nth(PAGE - 1) else { return Ok(()) };
            match order {
                Order::Ascending => rest.start = [last.as_slice(), &[0]].concat(),
                Order::Descending => rest.end = Some(last),
            }
        }
        Ok(())
    }

    /// Every commit is on the disk of the database when it is answered.
    fn durable(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn size_bytes(&self) -> Result<u64, StoreError> {
        let pool = self.pool();
        self.wait(async move {
            let mut session = pool.session().await?;
            session.size_bytes().await
        })
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn versions(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        Ok(self.marks()?.into_iter().map(|(table, mark)| (table, mark.version)).collect())
    }

    fn marks(&self) -> Result<BTreeMap<String, Mark>, StoreError> {
        let pool = self.pool();
        self.wait(async move {
            let mut session = pool.session().await?;
            session.marks().await
        })
    }

    fn changes(&self, table: &str, after: u64) -> Result<Changes, StoreError> {
        let (pool, name) = (self.pool(), table.to_owned());
        let since = self.wait(async move {
            let mut session = pool.session().await?;
            session.changes(&name, after).await
        })?;
        if let Since::Known(changes) = since {
            return Ok(changes);
        }
        // A table may be large: page by page, from a version that is older than all that is read.
        let Mark { version, stamp } = self.marks()?.get(table).copied().unwrap_or_default();
        let mut changes = Changes { version, stamp, is_whole: true, ..Changes::default() };
        self.scan(table, &KeyRange::all(), Order::Ascending, &mut |key, value| {
            changes.entries.push((key.to_vec(), Some(value.to_vec())));
            ControlFlow::Continue(())
        })?;
        Ok(changes)
    }

    fn told(&self) -> Option<watch::Receiver<u64>> {
        Some(self.told.clone())
    }

    fn archive(&self) -> Option<Archive> {
        Some(Archive::new(Arc::clone(&self.link)))
    }

    fn forget_deletions(&self) -> Result<(), StoreError> {
        let pool = self.pool();
        self.wait(async move {
            let mut session = pool.session().await?;
            session.forget_deletions().await
        })
    }
}

fn broken(error: tokio_postgres::Error) -> StoreError {
    StoreError::Backend { backend: NAME, source: plain(error) }
}

/// Tells whether a refusal is one that waiting does not change: of the credentials (class 28), or of the database's name.
fn is_for_good(code: &SqlState) -> bool {
    code.code().starts_with("28") || *code == SqlState::INVALID_CATALOG_NAME
}

/// Returns what the database said, without what it said it about; or why it said nothing, which an error of the driver does
/// not tell by itself.
fn plain(error: tokio_postgres::Error) -> io::Error {
    match (error.as_db_error(), error.source()) {
        (Some(said), _) => {
            let for_good = is_for_good(said.code());
            let kind = if for_good { io::ErrorKind::PermissionDenied } else { io::ErrorKind::Other };
            io::Error::new(kind, format!("{} ({})", said.message(), said.code().code()))
        }
        (None, Some(cause)) => {
            let kind = cause.downcast_ref().map_or(io::ErrorKind::Other, io::Error::kind);
            io::Error::new(kind, format!("{error}: {cause}"))
        }
        (None, None) => io::Error::other(error),
    }
}
