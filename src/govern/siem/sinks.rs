//! All sinks of a deployment, as the configuration names them at each moment.
//!
//! A change ends the sinks that it changes or leaves out, and begins those that it brings at the places they had when
//! they ran last; the others do not notice. Places outlive a sink that is left out, under its name.
//!
//! A sink that cannot be opened then, or breaks down, says that it [failed](super::SinkState::Failed), and is begun again
//! after a pause that grows from one failure to the next. At the start of the process one that cannot be opened is a
//! fault of the configuration: there is no start.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::RwLock;
use tokio::sync::oneshot;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::backoff::Backoff;
use super::config::SiemConfig;
use super::config::SinkConfig;
use super::forwarder::Forwarder;
use super::forwarder::SinkError;
use super::forwarder::Surroundings;
use super::status::SinkStatus;
use crate::govern::audit::AuditLog;
use crate::id::Ulid;

/// How often it is measured how much is still to be handed over.
const MEASURED_EVERY: Duration = Duration::from_secs(1);
const BROKE_DOWN: &str = "it broke down; the log of the gateway says where";

/// The figures of the sinks there are, in the order of the configuration.
#[derive(Clone, Default)]
pub struct Standings(Arc<RwLock<Vec<Arc<SinkStatus>>>>);

/// All sinks; must be run.
pub struct Sinks {
    opened: Vec<(Place, Forwarder)>,
    wanted: watch::Receiver<SiemConfig>,
    crew: Crew,
}

/// What begins sinks and ends them.
struct Crew {
    around: Surroundings,
    standings: Standings,
    places: Vec<Place>,
    /// The work of those that run; each tells its number once it has ended.
    work: JoinSet<u64>,
    /// How often work was begun.
    begun: u64,
    /// The names of sinks that failed, each once it is to be begun again.
    pauses: JoinSet<String>,
}

/// A sink that is wanted.
struct Place {
    config: SinkConfig,
    status: Arc<SinkStatus>,
    /// `None`: it failed, and is to be begun again.
    running: Option<Running>,
    backoff: Backoff,
    /// How many entries the platform had taken when it failed last.
    forwarded: u64,
}

/// Work under way.
struct Running {
    number: u64,
    stop: oneshot::Sender<()>,
}

impl Standings {
    /// Returns the figures of every sink.
    pub fn all(&self) -> Vec<Arc<SinkStatus>> {
        self.0.read().clone()
    }

    fn show(&self, places: &[Place]) {
        *self.0.write() = places.iter().map(|place| Arc::clone(&place.status)).collect();
    }
}

impl Place {
    fn new(config: SinkConfig, around: &Surroundings) -> Self {
        let status = Arc::new(SinkStatus::new(&config, Arc::clone(&around.metrics)));
        let (min, max) = (config.backoff_min_ms, config.backoff_max_ms);
        let backoff = Backoff::new(Duration::from_millis(min), Duration::from_millis(max));
        Self { config, status, running: None, backoff, forwarded: 0 }
    }

    /// Blocks.
    fn open(&self, around: Surroundings) -> Result<Forwarder, SinkError> {
        Forwarder::open(self.config.clone(), around, Arc::clone(&self.status))
    }

    /// Returns how long to wait before it is begun again; as long as at first where it got on since it failed last.
    fn pause(&mut self) -> Duration {
        let forwarded = self.status.told().forwarded;
        if forwarded > self.forwarded {
            self.backoff.reset();
        }
        self.forwarded = forwarded;
        self.backoff.next(None)
    }
}

impl Sinks {
    /// Opens the sinks that are wanted now, and will follow what is wanted later.
    ///
    /// # Errors
    /// See [`SinkError`].
    pub fn open(mut wanted: watch::Receiver<SiemConfig>, around: Surroundings) -> Result<Self, SinkError> {
        let sinks = wanted.borrow_and_update().sinks.clone();
        let open = |sink: SinkConfig| {
            let place = Place::new(sink, &around);
            place.open(around.clone()).map(|forwarder| (place, forwarder))
        };
        let opened = sinks.into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let standings = Standings::default();
        *standings.0.write() = opened.iter().map(|(place, _)| Arc::clone(&place.status)).collect();
        let told = standings.clone();
        around.log.on_drop(move |entry| told.0.read().iter().for_each(|sink| sink.dropped(entry)));
        let (places, work, pauses) = (Vec::new(), JoinSet::new(), JoinSet::new());
        let crew = Crew { around, standings, places, work, begun: 0, pauses };
        Ok(Self { opened, wanted, crew })
    }

    /// Returns the figures of the sinks, which follow them.
    pub fn standings(&self) -> Standings {
        self.crew.standings.clone()
    }

    /// Forwards to all sinks until `shutdown` resolves.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        tokio::pin!(shutdown);
        let Self { opened, mut wanted, mut crew } = self;
        for (mut place, forwarder) in opened {
            crew.begin(&mut place, forwarder);
            crew.places.push(place);
        }
        let (mut may_change, mut measuring) = (true, tokio::time::interval(MEASURED_EVERY));
        measuring.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                changed = wanted.changed(), if may_change => match changed {
                    Ok(()) => {
                        let sinks = wanted.borrow_and_update().sinks.clone();
                        crew.follow(sinks).await;
                    }
                    Err(_) => may_change = false,
                },
                Some(Ok(number)) = crew.work.join_next() => crew.broke_down(number),
                Some(Ok(name)) = crew.pauses.join_next() => crew.begin_again(&name).await,
                _ = measuring.tick() => crew.measure().await,
            }
        }
        let all = std::mem::take(&mut crew.places);
        crew.end(all).await;
    }
}

impl Crew {
    /// Measures how much of the log all sinks have still to hand over; what cannot be read is measured the next time.
    async fn measure(&self) {
        let places = self.places.iter().filter_map(|place| place.status.told().cursor?.parse::<Ulid>().ok());
        let (places, log): (Vec<Ulid>, AuditLog) = (places.collect(), self.around.log.clone());
        let weigh = move || places.into_iter().map(|place| log.bytes_after(place)).sum::<Result<u64, _>>();
        if let Ok(Ok(bytes)) = tokio::task::spawn_blocking(weigh).await {
            self.around.metrics.siem_spool(bytes);
        }
    }

    /// Ends what is not wanted, and begins what is and was not there.
    async fn follow(&mut self, wanted: Vec<SinkConfig>) {
        let places = std::mem::take(&mut self.places);
        let (mut kept, ended): (Vec<_>, Vec<_>) =
            places.into_iter().partition(|place| wanted.contains(&place.config));
        // Before others begin at their places.
        let broken = self.end(ended).await;
        let mut places = Vec::with_capacity(wanted.len());
        for config in wanted {
            let place = match kept.iter().position(|place| place.config == config) {
                Some(at) => kept.swap_remove(at),
                None => {
                    let mut place = Place::new(config, &self.around);
                    self.try_to_begin(&mut place).await;
                    place
                }
            };
            places.push(place);
        }
        self.places = places;
        self.standings.show(&self.places);
        broken.into_iter().for_each(|number| self.broke_down(number));
    }

    /// Begins a sink that failed, if it is still wanted and nothing began it meanwhile.
    async fn begin_again(&mut self, name: &str) {
        let mut places = std::mem::take(&mut self.places);
        let failed = places.iter_mut().find(|place| place.config.name == name && place.running.is_none());
        if let Some(place) = failed {
            self.try_to_begin(place).await;
        }
        self.places = places;
    }

    /// Opens a sink and lets it begin; one that cannot be opened is tried again later.
    async fn try_to_begin(&mut self, place: &mut Place) {
        let name = &place.config.name;
        let (config, around, status) = (place.config.clone(), self.around.clone(), Arc::clone(&place.status));
        let opened = tokio::task::spawn_blocking(move || Forwarder::open(config, around, status)).await;
        match opened {
            Ok(Ok(forwarder)) => return self.begin(place, forwarder),
            Ok(Err(error)) => {
                tracing::error!(
                    sink = name,
                    %error,
                    "a sink cannot be opened: nothing is forwarded to it until it can"
                );
            }
            Err(_) => {
                self.around.metrics.panicked();
                place.status.failed(BROKE_DOWN.to_owned());
            }
        }
        self.pause(place);
    }

    fn begin(&mut self, place: &mut Place, forwarder: Forwarder) {
        let (stop, stopped) = oneshot::channel::<()>();
        self.begun += 1;
        let (number, name) = (self.begun, place.config.name.clone());
        let metrics = Arc::clone(&self.around.metrics);
        let work = forwarder.run(async move {
            // Whoever drops it wants it to end as well.
            let _ = stopped.await;
        });
        self.work.spawn(async move {
            if AssertUnwindSafe(work).catch_unwind().await.is_err() {
                metrics.panicked();
                tracing::error!(
                    sink = name,
                    "a sink broke down: nothing is forwarded to it until it is begun again"
                );
            }
            number
        });
        place.running = Some(Running { number, stop });
    }

    /// Notes that a sink ended unasked.
    fn broke_down(&mut self, number: u64) {
        let mut places = std::mem::take(&mut self.places);
        let is_it = |place: &&mut Place| place.running.as_ref().is_some_and(|it| it.number == number);
        if let Some(place) = places.iter_mut().find(is_it) {
            place.running = None;
            place.status.failed(BROKE_DOWN.to_owned());
            self.pause(place);
        }
        self.places = places;
    }

    fn pause(&mut self, place: &mut Place) {
        let (wait, name) = (place.pause(), place.config.name.clone());
        self.pauses.spawn(async move {
            tokio::time::sleep(wait).await;
            name
        });
    }

    /// Comes back once nothing of some sinks is under way; returns the numbers of others that ended meanwhile.
    async fn end(&mut self, places: Vec<Place>) -> Vec<u64> {
        let (mut open, mut others) = (Vec::new(), Vec::new());
        for Running { number, stop } in places.into_iter().filter_map(|place| place.running) {
            // One that has ended by itself does not hear it.
            let _ = stop.send(());
            open.push(number);
        }
        while !open.is_empty() {
            match self.work.join_next().await {
                Some(Ok(number)) if open.contains(&number) => open.retain(|other| *other != number),
                Some(Ok(number)) => others.push(number),
                Some(Err(_)) => {}
                None => break,
            }
        }
        others
    }
}

#[cfg(test)]
mod tests;
