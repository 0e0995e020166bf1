//! Background work as Pingora services, supervised.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;
use parking_lot::Mutex;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use pingora::services::background::GenBackgroundService;
use pingora::services::background::background_service;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;

use crate::policy::watch::FileWatch;
use crate::telemetry::Telemetry;
use crate::telemetry::health::Dependency;
use crate::telemetry::lifecycle::Reached;
use crate::telemetry::lifecycle::Stage;
use crate::telemetry::logging::LogSwitch;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;
type Start = Box<dyn FnOnce(Reached) -> Work + Send>;

/// One piece of background work.
pub struct Task {
    name: &'static str,
    start: Mutex<Option<Start>>,
    telemetry: Arc<Telemetry>,
    needed_by: Option<Dependency>,
}

/// Makes a service of `start`, which gets a future that resolves when the process ends.
///
/// Work that panics or ends early is logged and, where it names a dependency, turns that down.
pub fn task<W: Future<Output = ()> + Send + 'static>(
    name: &'static str,
    telemetry: &Arc<Telemetry>,
    needed_by: Option<Dependency>,
    start: impl FnOnce(Reached) -> W + Send + 'static,
) -> GenBackgroundService<Task> {
    let start: Start = Box::new(move |shutdown| Box::pin(start(shutdown)));
    let task = Task { name, start: Mutex::new(Some(start)), telemetry: Arc::clone(telemetry), needed_by };
    background_service(name, task)
}

#[async_trait]
impl BackgroundService for Task {
    async fn start(&self, _: ShutdownWatch) {
        let Some(start) = self.start.lock().take() else { return };
        let lifecycle = &self.telemetry.lifecycle;
        lifecycle.began();
        let ended = AssertUnwindSafe(start(lifecycle.reached(Stage::Stopping))).catch_unwind().await;
        lifecycle.ended();
        if ended.is_ok() && lifecycle.stage() == Stage::Stopping {
            return;
        }
        if ended.is_err() {
            self.telemetry.metrics.panicked();
        }
        tracing::error!(task = self.name, "background work ended before the process");
        if let Some(dependency) = self.needed_by {
            self.telemetry.health.down(dependency, format!("{} ended", self.name));
        }
    }
}

/// Watches files until `shutdown` resolves.
pub async fn watch(watch: FileWatch, shutdown: Reached) {
    let (tell, told) = tokio::sync::watch::channel(false);
    let stop = async move {
        shutdown.await;
        // The watch may have ended before us.
        let _ = tell.send(true);
    };
    tokio::join!(watch.run(told), stop);
}

/// Calls `reload` off the workers at every SIGHUP until `shutdown` resolves.
pub async fn on_hangup(shutdown: Reached, reload: impl Fn() + Send + Sync + 'static) {
    let reload = Arc::new(reload);
    let mut hangups = match signal(SignalKind::hangup()) {
        Ok(hangups) => hangups,
        Err(error) => {
            tracing::error!(%error, "SIGHUP cannot be listened for");
            return shutdown.await;
        }
    };
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => return,
            _ = hangups.recv() => {
                let reload = Arc::clone(&reload);
                if tokio::task::spawn_blocking(move || reload()).await.is_err() {
                    tracing::error!("the reload panicked, the running configuration stays");
                }
            }
        }
    }
}

/// Switches the level of the log at every SIGUSR1 until `shutdown` resolves.
pub async fn on_log_switch(shutdown: Reached, mut log: LogSwitch) {
    let mut asked = match signal(SignalKind::user_defined1()) {
        Ok(asked) => asked,
        Err(error) => {
            tracing::error!(%error, "SIGUSR1 cannot be listened for");
            return shutdown.await;
        }
    };
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => return,
            _ = asked.recv() => match log.toggle() {
                Some(filter) => tracing::warn!(filter, "the level of the log was switched"),
                None => tracing::error!("the level of the log cannot be switched"),
            },
        }
    }
}
