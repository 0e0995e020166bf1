//! All sinks of a deployment, as the configuration names them at each moment.
//!
//! A change ends the sinks that it changes or leaves out, and begins those that it brings at the places they had when
//! they ran last; the others do not notice. Places outlive a sink that is left out, under its name.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use parking_lot::RwLock;
use tokio::sync::oneshot;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::config::SiemConfig;
use super::config::SinkConfig;
use super::forwarder::Forwarder;
use super::forwarder::SinkError;
use super::forwarder::Surroundings;
use super::status::SinkStatus;

/// The figures of the sinks there are, in the order of the configuration.
#[derive(Clone, Debug, Default)]
pub struct Standings(Arc<RwLock<Vec<Arc<SinkStatus>>>>);

/// All sinks; must be run.
pub struct Sinks {
    opened: Vec<Forwarder>,
    wanted: watch::Receiver<SiemConfig>,
    crew: Crew,
}

/// What begins sinks and ends them.
struct Crew {
    around: Surroundings,
    standings: Standings,
    running: Vec<Running>,
    /// The work of those that run; each tells its sink's name once it has ended.
    work: JoinSet<String>,
}

/// A sink at work.
struct Running {
    config: SinkConfig,
    status: Arc<SinkStatus>,
    stop: oneshot::Sender<()>,
}

impl Standings {
    /// Returns the figures of every sink.
    pub fn all(&self) -> Vec<Arc<SinkStatus>> {
        self.0.read().clone()
    }
}

impl Sinks {
    /// Opens the sinks that are wanted now, and will follow what is wanted later.
    ///
    /// # Errors
    /// See [`SinkError`].
    pub fn open(mut wanted: watch::Receiver<SiemConfig>, around: Surroundings) -> Result<Self, SinkError> {
        let sinks = wanted.borrow_and_update().sinks.clone();
        let open = |sink: SinkConfig| Forwarder::open(sink, around.clone());
        let opened = sinks.into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let standings = Standings::default();
        *standings.0.write() = opened.iter().map(Forwarder::status).collect();
        let told = standings.clone();
        around.log.on_drop(move |entry| told.0.read().iter().for_each(|sink| sink.dropped(entry)));
        let crew = Crew { around, standings, running: Vec::new(), work: JoinSet::new() };
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
        opened.into_iter().for_each(|sink| crew.begin(sink));
        let mut may_change = true;
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
                // Who ends unasked has told why.
                Some(_) = crew.work.join_next(), if !crew.work.is_empty() => {}
            }
        }
        let all = std::mem::take(&mut crew.running);
        crew.end(all).await;
    }
}

impl Crew {
    /// Ends what is not wanted, and begins what is and was not there.
    async fn follow(&mut self, wanted: Vec<SinkConfig>) {
        let running = std::mem::take(&mut self.running);
        let (mut kept, ended): (Vec<_>, Vec<_>) =
            running.into_iter().partition(|sink| wanted.contains(&sink.config));
        // Before others begin at their places.
        self.end(ended).await;
        for config in wanted {
            match kept.iter().position(|sink| sink.config == config) {
                Some(at) => self.running.push(kept.swap_remove(at)),
                None => {
                    let opened = self.opened(config).await;
                    opened.into_iter().for_each(|sink| self.begin(sink));
                }
            }
        }
        *self.standings.0.write() = self.running.iter().map(|sink| Arc::clone(&sink.status)).collect();
    }

    async fn opened(&self, config: SinkConfig) -> Option<Forwarder> {
        let (around, name) = (self.around.clone(), config.name.clone());
        match tokio::task::spawn_blocking(move || Forwarder::open(config, around)).await {
            Ok(Ok(forwarder)) => Some(forwarder),
            Ok(Err(error)) => {
                tracing::error!(sink = name, %error, "a sink cannot be opened: nothing is forwarded to it");
                None
            }
            Err(_) => None,
        }
    }

    fn begin(&mut self, forwarder: Forwarder) {
        let (stop, stopped) = oneshot::channel::<()>();
        let (config, status) = (forwarder.config().clone(), forwarder.status());
        let (metrics, name) = (Arc::clone(&self.around.metrics), config.name.clone());
        let work = forwarder.run(async move {
            // Whoever drops it wants it to end as well.
            let _ = stopped.await;
        });
        self.work.spawn(async move {
            if AssertUnwindSafe(work).catch_unwind().await.is_err() {
                metrics.panicked();
                tracing::error!(sink = name, "a sink ended before the process");
            }
            name
        });
        self.running.push(Running { config, status, stop });
    }

    /// Comes back once nothing of some sinks is under way.
    async fn end(&mut self, sinks: Vec<Running>) {
        let mut open: Vec<String> = Vec::new();
        for Running { config, stop, .. } in sinks {
            // One that has ended by itself does not hear it.
            if stop.send(()).is_ok() {
                open.push(config.name);
            }
        }
        while !open.is_empty() {
            match self.work.join_next().await {
                Some(Ok(name)) => open.retain(|other| *other != name),
                Some(Err(_)) => {}
                None => return,
            }
        }
    }
}
