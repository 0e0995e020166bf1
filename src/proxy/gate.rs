//! The whole request body, before anything is connected.
//!
//! Known length, chunked, HTTP/2 without a length, `Expect: 100-continue`: all end here as one
//! [`Bytes`], read under one total deadline (Pingora's own is per read, which a drip passes), a size
//! limit and a budget of buffered bytes shared by all exchanges. Room is taken as bytes come: a length that
//! is only announced keeps nobody out, and a body that comes and finds no room left is refused, and gives back
//! what it had. Since the gateway itself talks to the upstream afterwards (see [`super::upstream`]), nothing
//! of Pingora's retry buffer is leant on.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use bytes::BytesMut;
use http::Version;
use http::header;
use parking_lot::Mutex;
use pingora::prelude::timeout;
use pingora::proxy::Session;

/// What a stream may hold though all is used up: what waits for the end of a word or a number.
const SPARE_BYTES: usize = 64 << 10;
/// The largest place that is made for a body before it comes. A larger one doubles as it fills: what was not written to yet
/// takes no memory, and twice there is a body only while a worker moves it.
const PLACE_BYTES: usize = 1 << 20;

/// The bytes all exchanges together may hold in memory, and those of one caller.
#[derive(Debug)]
pub struct ByteBudget {
    used: AtomicUsize,
    bytes_max: AtomicUsize,
    share_bytes_max: AtomicUsize,
    /// Those of callers who have anything under way.
    shares: Mutex<HashMap<String, Weak<Share>>>,
}

/// What one caller holds of the budget, by whatever it has under way; forgotten with the last of that.
#[derive(Debug)]
pub struct Share {
    budget: Arc<ByteBudget>,
    caller: String,
    used: AtomicUsize,
}

/// A part of the budget, given back when dropped.
#[derive(Debug)]
pub struct Reserved {
    budget: Arc<ByteBudget>,
    share: Option<Arc<Share>>,
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
    /// Returns a budget of `bytes_max`, all of which one caller may hold.
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            used: AtomicUsize::new(0),
            bytes_max: AtomicUsize::new(bytes_max),
            share_bytes_max: AtomicUsize::new(usize::MAX),
            shares: Mutex::default(),
        })
    }

    /// Changes how much of it one caller may hold; what is held stays held.
    pub fn share_out(&self, share_bytes_max: usize) {
        self.share_bytes_max.store(share_bytes_max, Ordering::Relaxed);
    }

    /// Returns the share of a caller: the same for all that it has under way.
    pub fn share_of(self: &Arc<Self>, caller: &str) -> Arc<Share> {
        let mut shares = self.shares.lock();
        if let Some(share) = shares.get(caller).and_then(Weak::upgrade) {
            return share;
        }
        let (budget, used) = (Arc::clone(self), AtomicUsize::new(0));
        let share = Arc::new(Share { budget, caller: caller.to_owned(), used });
        shares.insert(caller.to_owned(), Arc::downgrade(&share));
        share
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

impl Drop for Share {
    fn drop(&mut self) {
        let mut shares = self.budget.shares.lock();
        // The caller may have come back meanwhile.
        if shares.get(&self.caller).is_some_and(|share| share.strong_count() == 0) {
            shares.remove(&self.caller);
        }
    }
}

impl Reserved {
    /// Returns an empty part of `budget`, of no caller.
    pub fn none(budget: &Arc<ByteBudget>) -> Self {
        Self { budget: Arc::clone(budget), share: None, bytes: 0 }
    }

    /// Returns an empty part of the share of a caller.
    pub fn of(share: &Arc<Share>) -> Self {
        Self { budget: Arc::clone(&share.budget), share: Some(Arc::clone(share)), bytes: 0 }
    }

    /// Returns an empty part of the same share, or of the same budget.
    pub fn beside(&self) -> Self {
        Self { budget: Arc::clone(&self.budget), share: self.share.clone(), bytes: 0 }
    }

    /// Tells whether as many bytes could be had, if nothing else held any.
    fn could_hold(&self, bytes: usize) -> bool {
        let of_share = || bytes <= self.budget.share_bytes_max.load(Ordering::Relaxed);
        bytes <= self.budget.bytes_max.load(Ordering::Relaxed) && (self.share.is_none() || of_share())
    }

    /// Takes `bytes` more; where there are not as many, none of them.
    pub fn grow(&mut self, bytes: usize) -> Result<(), GateFault> {
        if let Some(share) = &self.share
            && !take(&share.used, bytes, &self.budget.share_bytes_max)
        {
            return Err(GateFault::Overloaded);
        }
        if !take(&self.budget.used, bytes, &self.budget.bytes_max) {
            if let Some(share) = &self.share {
                share.used.fetch_sub(bytes, Ordering::Relaxed);
            }
            return Err(GateFault::Overloaded);
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Takes over what another part of the same share holds.
    pub fn join(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Takes `bytes` in all from now on, more or fewer than before. A few may be had always, so that no stream ends
    /// because others hold much.
    pub fn hold(&mut self, bytes: usize) -> Result<(), GateFault> {
        let Some(more) = bytes.checked_sub(self.bytes) else {
            self.give_back(self.bytes - bytes);
            return Ok(());
        };
        match self.grow(more) {
            Err(_) if bytes <= SPARE_BYTES => {
                for used in self.counters() {
                    used.fetch_add(more, Ordering::Relaxed);
                }
                self.bytes = bytes;
                Ok(())
            }
            grown => grown,
        }
    }

    fn give_back(&mut self, bytes: usize) {
        for used in self.counters() {
            used.fetch_sub(bytes, Ordering::Relaxed);
        }
        self.bytes -= bytes;
    }

    /// Returns what counts it: its budget, and its share.
    fn counters(&self) -> impl Iterator<Item = &AtomicUsize> {
        std::iter::once(&self.budget.used).chain(self.share.as_ref().map(|share| &share.used))
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

/// Takes bytes, where there are as many.
fn take(used: &AtomicUsize, bytes: usize, bytes_max: &AtomicUsize) -> bool {
    let bytes_max = bytes_max.load(Ordering::Relaxed);
    let more = |used: usize| used.checked_add(bytes).filter(|used| *used <= bytes_max);
    used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
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
    // Callers of HTTP/1.0 know no interim answers (RFC 9110, section 10.1.1).
    if session.get_header(header::EXPECT).is_some() && session.req_header().version > Version::HTTP_10 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_all_that_a_caller_has_under_way() {
        let budget = ByteBudget::new(100);
        budget.share_out(60);
        let part_of = |caller: &str| Reserved::of(&budget.share_of(caller));
        let (mut first, mut second, mut other) = (part_of("a"), part_of("a"), part_of("b"));
        first.grow(50).unwrap();
        assert!(second.grow(11).is_err() && second.beside().grow(11).is_err());
        second.grow(10).unwrap();
        // What does not fit into the whole is not counted in the share either.
        assert!(other.grow(41).is_err());
        other.grow(40).unwrap();
        assert_eq!(budget.used(), 100);
        drop(first);
        other.grow(20).unwrap();
        assert!(other.grow(1).is_err());
        second.join({
            let mut more = second.beside();
            more.grow(30).unwrap();
            more
        });
        second.hold(5).unwrap();
        assert_eq!(budget.used(), 65);
        drop((second, other));
        assert_eq!((budget.used(), budget.shares.lock().len()), (0, 0));
    }

    #[test]
    fn a_few_bytes_may_be_held_always_and_are_counted() {
        let budget = ByteBudget::new(0);
        budget.share_out(0);
        let mut stream = Reserved::of(&budget.share_of("a"));
        stream.hold(SPARE_BYTES).unwrap();
        assert!(stream.hold(SPARE_BYTES + 1).is_err());
        assert_eq!(budget.used(), SPARE_BYTES);
        stream.hold(1).unwrap();
        assert_eq!(budget.used(), 1);
        drop(stream);
        assert_eq!(budget.used(), 0);
    }
}
