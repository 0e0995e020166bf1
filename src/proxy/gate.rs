//! The whole request body, before anything is connected.
//!
//! Known length, chunked, HTTP/2 without a length, `Expect: 100-continue`: all end here as one
//! [`Bytes`], read under one total deadline (Pingora's own is per read, which a drip passes), a size
//! limit and a budget of buffered bytes shared by all exchanges. Room is taken as bytes come: a length that
//! is only announced keeps nobody out, and a body that comes and finds no room left is refused, and gives back
//! what it had. Since the gateway itself talks to the upstream afterwards (see [`super::upstream`]), nothing
//! of Pingora's retry buffer is leant on.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use bytes::BytesMut;
use http::header;
use pingora::prelude::timeout;
use pingora::proxy::Session;

/// What a stream may hold though all is used up: what waits for the end of a word or a number.
const SPARE_BYTES: usize = 64 << 10;
/// The largest place that is made for a body before it comes. A larger one doubles as it fills: what was not written to yet
/// takes no memory, and twice there is a body only while a worker moves it.
const PLACE_BYTES: usize = 1 << 20;

/// The bytes all exchanges together may hold in memory.
#[derive(Debug)]
pub struct ByteBudget {
    used: AtomicUsize,
    bytes_max: AtomicUsize,
}

/// A share of the budget, given back when dropped.
#[derive(Debug)]
pub struct Reserved {
    budget: Arc<ByteBudget>,
    bytes: usize,
}

/// A body and its share of the budget.
#[derive(Debug)]
pub struct HeldBody {
    /// The bytes as they came, without their transfer coding.
    pub bytes: Bytes,
    /// Kept as long as the bytes are.
    pub reserved: Reserved,
}

/// Why a body was not taken.
#[derive(Debug, thiserror::Error)]
pub enum GateFault {
    /// More bytes than the limit.
    #[error("the request body is larger than {bytes_max} bytes")]
    TooLarge {
        /// The limit in force.
        bytes_max: usize,
    },
    /// The gateway holds as much as it may.
    #[error("the gateway holds too many request bytes at the moment, try again")]
    Overloaded,
    /// The body did not end in time.
    #[error("the request body took longer than {} ms", .deadline.as_millis())]
    Slow {
        /// The deadline in force.
        deadline: Duration,
    },
    /// The body ended early or its framing is broken.
    #[error("the request body is broken or ended early")]
    Broken(#[source] Box<pingora::Error>),
}

impl ByteBudget {
    /// Returns a budget of `bytes_max`.
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), bytes_max: AtomicUsize::new(bytes_max) })
    }

    /// Changes the budget; what is held stays held.
    pub fn resize(&self, bytes_max: usize) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// Returns the bytes in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl Reserved {
    /// Returns an empty share of `budget`.
    pub fn none(budget: &Arc<ByteBudget>) -> Self {
        Self { budget: Arc::clone(budget), bytes: 0 }
    }

    /// Returns an empty share of the same budget.
    pub fn beside(&self) -> Self {
        Self::none(&self.budget)
    }

    /// Tells whether as many bytes could be had, if nobody else held any.
    fn could_hold(&self, bytes: usize) -> bool {
        bytes <= self.budget.bytes_max.load(Ordering::Relaxed)
    }

    /// Takes `bytes` more; where there are not as many, none of them.
    pub fn grow(&mut self, bytes: usize) -> Result<(), GateFault> {
        let bytes_max = self.budget.bytes_max.load(Ordering::Relaxed);
        let more = |used: usize| used.checked_add(bytes).filter(|used| *used <= bytes_max);
        let taken = self.budget.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.map_err(|_| GateFault::Overloaded)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Takes over what another share of the same budget holds.
    pub fn join(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Takes `bytes` in all from now on, more or fewer than before. A few may be had always, so that no stream ends
    /// because others hold much.
    pub fn hold(&mut self, bytes: usize) -> Result<(), GateFault> {
        let Some(more) = bytes.checked_sub(self.bytes) else {
            self.budget.used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
            self.bytes = bytes;
            return Ok(());
        };
        match self.grow(more) {
            Err(_) if bytes <= SPARE_BYTES => {
                self.budget.used.fetch_add(more, Ordering::Relaxed);
                self.bytes = bytes;
                Ok(())
            }
            grown => grown,
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Takes the whole request body, whose room is `reserved` as it comes; `watch` sees each piece.
pub async fn take_body(
    session: &mut Session,
    mut reserved: Reserved,
    bytes_max: usize,
    deadline: Duration,
    watch: impl FnMut(&[u8]),
) -> Result<HeldBody, GateFault> {
    let declared = declared_length(session);
    if declared.is_some_and(|length| length > bytes_max) {
        return Err(GateFault::TooLarge { bytes_max });
    }
    if declared.is_some_and(|length| !reserved.could_hold(length)) {
        return Err(GateFault::Overloaded);
    }
    if session.get_header(header::EXPECT).is_some() {
        session.write_continue_response().await.map_err(GateFault::Broken)?;
    }
    let read = read_all(session, &mut reserved, declared, bytes_max, watch);
    let bytes = timeout(deadline, read).await.map_err(|_| GateFault::Slow { deadline })??;
    Ok(HeldBody { bytes, reserved })
}

fn declared_length(session: &Session) -> Option<usize> {
    session.get_header(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn read_all(
    session: &mut Session,
    reserved: &mut Reserved,
    declared: Option<usize>,
    bytes_max: usize,
    mut watch: impl FnMut(&[u8]),
) -> Result<Bytes, GateFault> {
    let Some(first) = next(session).await? else { return Ok(Bytes::new()) };
    if declared == Some(first.len()) {
        reserved.grow(first.len())?;
        watch(&first);
        return Ok(first);
    }
    let mut body = BytesMut::with_capacity(declared.unwrap_or(first.len()).min(PLACE_BYTES));
    let mut piece = Some(first);
    while let Some(bytes) = piece {
        if body.len() + bytes.len() > bytes_max {
            return Err(GateFault::TooLarge { bytes_max });
        }
        reserved.grow(bytes.len())?;
        watch(&bytes);
        body.extend_from_slice(&bytes);
        piece = next(session).await?;
    }
    Ok(body.freeze())
}

async fn next(session: &mut Session) -> Result<Option<Bytes>, GateFault> {
    session
        .as_downstream_mut()
        .read_request_body()
        .await
        .map_err(|error| GateFault::Broken(error.into_down()))
}
