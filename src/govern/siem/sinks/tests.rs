//! Sinks that break down, that cannot be opened, and whose receivers are away for long.

use std::future::pending;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncBufReadExt;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::io::BufReader;
use tokio::net::TcpListener;
use tokio::net::TcpSocket;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::*;
use crate::clock::Clock;
use crate::clock::ManualClock;
use crate::document::secret::SecretPlace;
use crate::govern::audit;
use crate::govern::audit::AuditEvent;
use crate::govern::audit::Opened;
use crate::govern::audit::Recorder;
use crate::govern::siem::SinkState;
use crate::govern::siem::Told;
use crate::govern::siem::config::Filter;
use crate::govern::siem::config::HttpTarget;
use crate::govern::siem::config::Peer;
use crate::govern::siem::config::SyslogPayload;
use crate::govern::siem::config::SyslogTarget;
use crate::govern::siem::config::SyslogTransport;
use crate::govern::siem::config::Target;
use crate::govern::siem::sink::ReadSecret;
use crate::store::Store;
use crate::telemetry::metrics::Metrics;

/// How long a test waits for what must come, and how long between two looks.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);

/// An audit log, and what its sinks need.
struct World {
    around: Surroundings,
    recorder: Recorder,
    clock: Arc<ManualClock>,
    wanted: watch::Sender<SiemConfig>,
    _folder: TempDir,
}

impl World {
    fn new(read_secret: ReadSecret) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new("2026-05-01T00:00:00Z".parse().unwrap()));
        let metrics = Arc::new(Metrics::new("0", "0"));
        let settings = audit::AuditConfig {
            reserve_bytes: 4096,
            low_water_bytes: 0,
            segment_age_max: 10 * MINUTE,
            ..audit::AuditConfig::at(folder.path().join("audit"))
        };
        let (store, time) = (Store::in_memory(), Arc::clone(&clock) as Arc<dyn Clock>);
        let opened = audit::open(settings, store.clone(), Arc::clone(&time), Arc::clone(&metrics)).unwrap();
        let Opened { recorder, writer, log, .. } = opened;
        tokio::spawn(writer.run(pending()));
        tokio::spawn(log.clone().run(pending()));
        let around = Surroundings {
            log,
            store,
            folder: folder.path().join("siem"),
            read_secret,
            clock: time,
            metrics,
            version: "0".to_owned(),
            node: "node-1".to_owned(),
        };
        Self { around, recorder, clock, wanted: watch::Sender::default(), _folder: folder }
    }

    /// Opens the sinks that are wanted and lets them run.
    fn run(&self) -> (Standings, JoinHandle<()>) {
        let sinks = Sinks::open(self.wanted.subscribe(), self.around.clone()).unwrap();
        (sinks.standings(), tokio::spawn(sinks.run(pending())))
    }

    fn want(&self, sinks: Vec<SinkConfig>) {
        self.wanted.send_replace(SiemConfig { sinks });
    }

    async fn record(&self) -> String {
        let event = AuditEvent { event_type: "exchange".to_owned(), ..AuditEvent::default() };
        self.recorder.record_safely(event).await.unwrap().to_string()
    }

    /// Returns how many webhooks stand so, as metrics have it.
    fn counted(&self, state: SinkState) -> i64 {
        let name = format!("portcullis_siem_sinks{{platform=\"webhook\",status=\"{}\"}} ", state.as_str());
        let text = self.around.metrics.render();
        text.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap_or(0)
    }
}

fn webhook(port: u16, ca: Option<&Path>) -> SinkConfig {
    let host = "127.0.0.1".to_owned();
    let peer = Peer { host, port, tls: ca.is_some(), ca: ca.map(Path::to_owned), allow_private: true };
    let secret = Some(SecretPlace::Environment("SECRET".to_owned()));
    SinkConfig {
        name: "soc".to_owned(),
        target: Target::Webhook(HttpTarget { peer, path: "/".to_owned(), secret, gzip: false }),
        filter: Filter::default(),
        batch_entries_max: 7,
        timeout_ms: 5000,
        backoff_min_ms: 1,
        backoff_max_ms: 4,
    }
}

fn told(standings: &Standings) -> Option<Told> {
    standings.all().first().map(|sink| sink.told())
}

/// Waits until the only sink stands as it should.
async fn until(standings: &Standings, is_so: impl Fn(Option<&Told>) -> bool) {
    let looked = tokio::time::timeout(PATIENCE, async {
        while !is_so(told(standings).as_ref()) {
            tokio::time::sleep(POLL).await;
        }
    });
    assert!(looked.await.is_ok(), "it stands otherwise: {:?}", told(standings));
}

/// Waits until the only sink is in a state.
async fn until_it_is(standings: &Standings, state: SinkState) {
    until(standings, |told| told.is_some_and(|told| told.state == state)).await;
}

/// Takes everything that comes to a listener, and tells the ids of the entries.
fn serve(listener: TcpListener) -> mpsc::UnboundedReceiver<String> {
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(answer(BufReader::new(stream), tell.clone()));
        }
    });
    told
}

async fn answer(mut stream: BufReader<TcpStream>, tell: mpsc::UnboundedSender<String>) {
    let mut length = 0;
    let mut line = String::new();
    while stream.read_line(&mut line).await.unwrap_or(0) > 0 {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await.unwrap();
            let body: Value = serde_json::from_slice(&body).unwrap();
            for entry in body["entries"].as_array().unwrap() {
                let _ = tell.send(entry["id"].as_str().unwrap().to_owned());
            }
            stream.write_all(b"HTTP/1.1 204 X\r\n\r\n").await.unwrap();
        }
        line.clear();
    }
}

async fn next(told: &mut mpsc::UnboundedReceiver<String>) -> String {
    tokio::time::timeout(PATIENCE, told.recv()).await.expect("it is forwarded").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_that_breaks_down_says_so_and_is_begun_again() {
    let is_broken = Arc::new(AtomicBool::new(true));
    let breaks = Arc::clone(&is_broken);
    let world = World::new(Arc::new(move |_| {
        assert!(!breaks.load(Ordering::Relaxed), "the panic of this test");
        Some("s3cret".to_owned())
    }));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    world.want(vec![webhook(listener.local_addr().unwrap().port(), None)]);
    let mut taken = serve(listener);
    let (standings, _running) = world.run();
    until(&standings, |told| told.is_some_and(|told| told.cursor.is_some())).await;
    assert_eq!((world.counted(SinkState::Idle), world.counted(SinkState::Failed)), (1, 0));
    let first = world.record().await;
    until_it_is(&standings, SinkState::Failed).await;
    assert_eq!(told(&standings).unwrap().trouble.as_deref(), Some(BROKE_DOWN));
    assert!(world.around.metrics.render().contains("portcullis_panics_total "));
    is_broken.store(false, Ordering::Relaxed);
    assert_eq!(next(&mut taken).await, first, "nothing was lost with it");
    until_it_is(&standings, SinkState::Connected).await;
    let second = world.record().await;
    assert_eq!(next(&mut taken).await, second);
    assert_eq!((world.counted(SinkState::Connected), world.counted(SinkState::Failed)), (1, 0));
    let told = told(&standings).unwrap();
    assert_eq!((told.trouble, told.missed), (None, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_that_cannot_be_opened_says_so_until_it_can() {
    let world = World::new(Arc::new(|_| None));
    let ca = world.around.folder.with_extension("pem");
    let (standings, _running) = world.run();
    for _ in 0..2 {
        world.want(vec![webhook(1, Some(&ca))]);
        until_it_is(&standings, SinkState::Failed).await;
        assert!(told(&standings).unwrap().trouble.is_some());
        assert_eq!(world.counted(SinkState::Failed), 1);
        world.want(Vec::new());
        until(&standings, |told| told.is_none()).await;
        assert_eq!(world.counted(SinkState::Failed), 0, "what is not wanted has not failed");
    }
    world.want(vec![webhook(1, Some(&ca))]);
    until_it_is(&standings, SinkState::Failed).await;
    let authority = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(&ca, authority.cert.pem()).unwrap();
    until_it_is(&standings, SinkState::Idle).await;
    assert_eq!((world.counted(SinkState::Idle), world.counted(SinkState::Failed)), (1, 0));
}

/// Its certificates are read from a pipe: opening it goes on for as long as the test looks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_that_failed_has_failed_until_it_is_open() {
    let world = World::new(Arc::new(|_| None));
    let ca = world.around.folder.with_extension("pem");
    let (standings, _running) = world.run();
    world.want(vec![webhook(1, Some(&ca))]);
    until_it_is(&standings, SinkState::Failed).await;
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR);
    rustix::fs::mknodat(rustix::fs::CWD, &ca, kind, mode, 0).unwrap();
    // Whoever writes to a pipe waits for whoever reads it.
    let mut pipe = tokio::fs::OpenOptions::new().write(true).open(&ca).await.unwrap();
    assert_eq!(told(&standings).unwrap().state, SinkState::Failed);
    assert_eq!((world.counted(SinkState::Idle), world.counted(SinkState::Failed)), (0, 1));
    let authority = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    pipe.write_all(authority.cert.pem().as_bytes()).await.unwrap();
    pipe.flush().await.unwrap();
    drop(pipe);
    until_it_is(&standings, SinkState::Idle).await;
}

/// By the clock of the log; attempts are quicker than an operator would want them. The process ends in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_is_down_for_an_hour_gets_everything_in_order() {
    let world = World::new(Arc::new(|_| Some("s3cret".to_owned())));
    // Whoever has a port and does not listen refuses connections.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    world.want(vec![webhook(socket.local_addr().unwrap().port(), None)]);
    let (mut standings, mut running) = world.run();
    until(&standings, |told| told.is_some_and(|told| told.cursor.is_some())).await;
    let mut recorded = Vec::new();
    for minute in 0..60 {
        for _ in 0..5 {
            recorded.push(world.record().await);
        }
        world.clock.advance(MINUTE);
        if minute == 30 {
            until_it_is(&standings, SinkState::Retrying).await;
            running.abort();
            assert!(running.await.is_err());
            (standings, running) = world.run();
        }
    }
    until(&standings, |told| told.is_some_and(|told| told.errors > 10)).await;
    assert_eq!(told(&standings).unwrap().forwarded, 0);
    let mut taken = serve(socket.listen(16).unwrap());
    for id in &recorded {
        assert_eq!(&next(&mut taken).await, id);
    }
    until(&standings, |told| told.is_some_and(|told| told.cursor.as_ref() == recorded.last())).await;
    let told = told(&standings).unwrap();
    assert_eq!((told.state, told.forwarded, told.missed, told.dead), (SinkState::Connected, 300, 0, 0));
    running.abort();
}

/// Reads so many lines of a connection, which ends with what is returned.
async fn lines(listener: &TcpListener, count: usize) -> (Vec<String>, BufReader<TcpStream>) {
    let (stream, _) = listener.accept().await.unwrap();
    let (mut stream, mut heard) = (BufReader::new(stream), Vec::new());
    while heard.len() < count {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        heard.push(line);
    }
    (heard, stream)
}

/// What a connection has taken with it that acknowledges nothing is sent again, and is no more events for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_is_sent_twice_counts_once() {
    let world = World::new(Arc::new(|_| None));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let peer = Peer { host: "127.0.0.1".to_owned(), port, tls: false, ca: None, allow_private: true };
    let target = Target::Syslog(SyslogTarget {
        peer,
        transport: SyslogTransport::Lines,
        payload: SyslogPayload::Json,
        message_bytes_max: 1 << 20,
    });
    world.want(vec![SinkConfig { target, ..webhook(port, None) }]);
    let (standings, running) = world.run();
    until(&standings, |told| told.is_some_and(|told| told.cursor.is_some())).await;
    for _ in 0..3 {
        world.record().await;
    }
    let (_, connection) = lines(&listener, 3).await;
    until(&standings, |told| told.is_some_and(|told| told.forwarded == 3)).await;
    drop(connection);
    let last = world.record().await;
    let (heard, _connection) = lines(&listener, 4).await;
    assert!(heard.last().unwrap().contains(&last), "the three before it came once more: {heard:?}");
    until(&standings, |told| told.is_some_and(|told| told.cursor.as_ref() == Some(&last))).await;
    assert_eq!(told(&standings).unwrap().forwarded, 4);
    let counted = "portcullis_siem_events_total{platform=\"syslog\",result=\"forwarded\"} 4";
    let metrics = world.around.metrics.render();
    assert!(metrics.contains(counted), "{metrics}");
    // Nor for a process that begins where it may be unread.
    running.abort();
    assert!(running.await.is_err());
    let (standings, _running) = world.run();
    let _again = lines(&listener, 4).await;
    until(&standings, |told| told.is_some_and(|told| told.cursor.as_ref() == Some(&last))).await;
    assert_eq!(told(&standings).unwrap().forwarded, 4);
}

/// The log itself is what waits: how much of it is measured, and nothing waits any more once the platform has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_sink_has_still_to_hand_over_is_measured() {
    let world = World::new(Arc::new(|_| Some("s3cret".to_owned())));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    world.want(vec![webhook(address.port(), None)]);
    let (standings, _running) = world.run();
    until(&standings, |told| told.is_some_and(|told| told.cursor.is_some())).await;
    let until_waiting = async |is_so: fn(u64) -> bool| {
        let waiting = || {
            let text = world.around.metrics.render();
            text.lines().find_map(|line| line.strip_prefix("portcullis_siem_spool_bytes ")?.parse().ok())
        };
        let measured = async {
            while !waiting().is_some_and(is_so) {
                tokio::time::sleep(POLL).await;
            }
        };
        assert!(tokio::time::timeout(PATIENCE, measured).await.is_ok(), "{:?} bytes wait", waiting());
    };
    until_waiting(|bytes| bytes == 0).await;
    let entry = world.record().await;
    until_it_is(&standings, SinkState::Retrying).await;
    until_waiting(|bytes| bytes > 0).await;
    let mut taken = serve(TcpListener::bind(address).await.unwrap());
    assert_eq!(next(&mut taken).await, entry);
    until_waiting(|bytes| bytes == 0).await;
}
