//! How the process ends, and hands its place to another: what is under way is finished, and nothing fails.

use std::fs;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use rustix::net::RecvAncillaryBuffer;
use rustix::net::RecvAncillaryMessage;
use rustix::net::RecvFlags;
use serde_json::Value;

use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::upstream::Step;
use crate::upstream::Upstream;
use crate::upstream::chunk;
use crate::upstream::chunked_head;
use crate::wire::Client;
use crate::wire::WireFault;
use crate::wire::exchange;
use crate::wire::post;

pub const BODY: &str = r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#;
const STREAM: &str = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}"#;
pub const PATIENCE: Duration = Duration::from_secs(30);
const CLIENTS: usize = 8;

#[test]
fn asked_to_end_it_says_so_first_and_finishes_what_is_under_way() {
    let events = Upstream::start(stream());
    let mut gateway = Gateway::start(&config(&events, &events, 3000, 20_000));
    let mut streaming = open_stream(gateway.proxy);
    let mut idle = Client::connect(gateway.proxy);
    idle.send(b"GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!(idle.response().unwrap().status, 200);
    assert_eq!(ready(gateway.proxy), 200);

    gateway.signal("TERM");
    let deadline = Instant::now() + PATIENCE;
    while ready(gateway.proxy) != 503 {
        assert!(Instant::now() < deadline, "load balancers are not told");
    }
    // It still takes requests while load balancers notice, and asks for each connection to be closed.
    let mut late = Client::connect(gateway.proxy);
    late.send(b"GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let answer = late.response().unwrap();
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    assert!(late.is_closed());
    gateway.wait_for_log("drains", 1);
    assert!(idle.is_closed(), "an idle connection is closed in order");
    assert!(Client::try_connect(gateway.proxy).is_none(), "it takes no new connections");

    events.proceed();
    assert_eq!(rest_of(&mut streaming), Ok("data: [DONE]\n\n".to_owned()), "the stream ends by itself");
    assert_eq!(gateway.wait_for_end(), Some(0));
}

#[test]
fn what_does_not_end_in_time_is_cut_and_recorded() {
    let events = Upstream::start(stream());
    let mut gateway = Gateway::start(&config(&events, &events, 0, 300));
    let mut streaming = open_stream(gateway.proxy);
    gateway.signal("TERM");
    assert_eq!(rest_of(&mut streaming), Err(WireFault::Closed), "never looks like the end of an answer");
    assert_eq!(gateway.wait_for_end(), Some(0));
    gateway.crash_and_restart();
    let audit = audit(&gateway);
    let entries = audit["entries"].as_array().unwrap().iter();
    let told: Vec<&str> =
        entries.filter(|it| it["event_type"] == "exchange").filter_map(|it| it["message"].as_str()).collect();
    assert!(matches!(told.as_slice(), [told] if told.contains("(shutdown)")), "{audit}");
}

#[test]
fn a_second_request_to_end_ends_the_waiting() {
    let events = Upstream::start(stream());
    let mut gateway = Gateway::start(&config(&events, &events, 60_000, 600_000));
    let mut streaming = open_stream(gateway.proxy);
    gateway.signal("TERM");
    gateway.wait_for_log("asked to end", 1);
    gateway.signal("TERM");
    gateway.wait_for_log("drains", 1);
    gateway.signal("TERM");
    assert!(rest_of(&mut streaming).is_err());
    assert_eq!(gateway.wait_for_end(), Some(0));
}

/// 5,000 requests, 3 upgrades and 15 reloads; `PORTCULLIS_RESTART_FULL=1` makes that 100,000, 10 and 50.
#[test]
fn upgrades_and_reloads_under_load_fail_nothing() {
    let full = std::env::var_os("PORTCULLIS_RESTART_FULL").is_some();
    let (requests_min, upgrades) = if full { (100_000, 10) } else { (5_000, 3) };
    let answers = Upstream::start(vec![Step::Send(answer())]);
    let events = Upstream::start(stream());
    let config = config(&answers, &events, 0, 60_000);
    let mut gateway = Gateway::start(&config);
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (address, stop, done) = (gateway.proxy, Arc::clone(&stop), Arc::clone(&done));
            thread::spawn(move || use_gateway(address, &stop, &done))
        })
        .collect();

    for upgrade in 1..=upgrades {
        for _ in 0..5 {
            gateway.signal("HUP");
            wait_for(&done, requests_min / upgrades / 5);
        }
        let (old, mut streaming) = (gateway.pid(), open_stream(gateway.proxy));
        gateway.signal("USR2");
        gateway.wait_for_log("hands over", upgrade);
        // The stream is in the old process, which no longer listens; who comes now waits for the new one.
        events.proceed();
        assert_eq!(rest_of(&mut streaming), Ok("data: [DONE]\n\n".to_owned()), "upgrade {upgrade}");
        let deadline = Instant::now() + PATIENCE;
        while gateway.pid() == old {
            assert!(Instant::now() < deadline, "nobody took over");
            thread::sleep(Duration::from_millis(5));
        }
    }
    wait_for(&done, CLIENTS);
    stop.store(true, Ordering::Relaxed);
    let answered: usize = clients.into_iter().map(|client| client.join().expect("a client")).sum();
    assert!(answered >= requests_min, "{answered} requests");
    assert_eq!(gateway.wait_for_end(), Some(0), "the first process ended well");
    // The last ones may still be on their way to the disk.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let recorded = audit(&gateway)["total"].as_u64().expect("a number");
        if recorded >= answered as u64 {
            break;
        }
        assert!(Instant::now() < deadline, "{recorded} of {answered} exchanges are in one log");
    }
}

/// A reload, a word to the log or another upgrade that comes while a process waits to take over must not end it: nobody
/// else would serve.
#[test]
fn a_successor_outlives_what_it_is_asked_before_it_serves() {
    let events = Upstream::start(stream());
    let mut gateway = Gateway::start(&config(&events, &events, 0, 60_000));
    let (old, mut streaming) = (gateway.pid(), open_stream(gateway.proxy));
    gateway.signal("USR2");
    gateway.wait_for_log("hands over", 1);
    let log = gateway.log();
    let told = log.split_once("hands over process=").map_or("", |(_, told)| told);
    let successor: String = told.chars().take_while(char::is_ascii_digit).collect();
    for signal in ["HUP", "USR1", "USR2"] {
        let sent = Command::new("kill").args(["-s", signal, &successor]).status().expect("kill runs");
        assert!(sent.success(), "{signal} to {successor}: {log}");
    }
    events.proceed();
    assert_eq!(rest_of(&mut streaming), Ok("data: [DONE]\n\n".to_owned()));
    assert_eq!(gateway.wait_for_end(), Some(0));
    let deadline = Instant::now() + PATIENCE;
    while gateway.pid() == old {
        assert!(Instant::now() < deadline, "nobody took over");
        thread::sleep(Duration::from_millis(5));
    }
    let asked = b"GET /version HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert_eq!(exchange(gateway.proxy, asked).status, 200, "the successor serves");
}

#[test]
fn a_successor_that_cannot_start_changes_nothing() {
    let answers = Upstream::start(vec![Step::Send(answer())]);
    let gateway = Gateway::start(&config(&answers, &answers, 0, 10_000));
    let serving = gateway.pid();
    gateway.rewrite("[proxy]\nh2 = \"perhaps\"\n");
    gateway.signal("USR2");
    gateway.wait_for_log("the next process cannot take over, this one goes on", 1);
    assert!(gateway.log().contains("gateway.toml:2:1: proxy.h2: "), "{}", gateway.log());
    assert_eq!(exchange(gateway.proxy, &post("/v1/chat/completions", "", BODY)).status, 200);
    assert_eq!(gateway.pid(), serving);
}

/// Plays systemd: it hears every word, keeps the sockets, and passes them to the next process.
#[test]
fn the_service_manager_is_told_and_keeps_the_sockets() {
    let directory = tempfile::tempdir().unwrap();
    let answers = Upstream::start(vec![Step::Send(answer())]);
    fs::write(directory.path().join("gateway.toml"), config(&answers, &answers, 0, 5_000)).unwrap();
    let manager = UnixDatagram::bind(directory.path().join("notify")).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut service = start_under(directory.path(), &[]);
    let mut kept: Vec<(String, OwnedFd)> = Vec::new();
    loop {
        let (words, descriptor) = hear(&manager);
        match descriptor {
            Some(socket) => {
                let name = words.strip_prefix("FDSTORE=1\nFDNAME=").expect("a name").to_owned();
                kept.push((name, socket));
            }
            None => {
                assert!(words.starts_with("READY=1\nMAINPID="), "{words}");
                break;
            }
        }
    }
    assert_eq!(kept.len(), 2);
    hear_until(&manager, "WATCHDOG=1");
    kill("HUP", &service);
    hear_until(&manager, "RELOADING=1\nMONOTONIC_USEC=");
    hear_until(&manager, "READY=1\nSTATUS=serving");
    kill("TERM", &service);
    hear_until(&manager, "STOPPING=1\nEXTEND_TIMEOUT_USEC=");
    assert!(service.wait().unwrap().success());

    // Between two processes, callers wait: the socket listens, and nobody refuses.
    let listener = kept.iter().find(|(name, _)| name.starts_with("kept-proxy-")).expect("the data plane's");
    let address = TcpListener::from(listener.1.try_clone().unwrap()).local_addr().unwrap();
    let mut waiting = Client::connect(address);
    waiting.send(&post("/v1/chat/completions", "", BODY));
    let mut next = start_under(directory.path(), &kept);
    assert_eq!(waiting.response().unwrap().status, 200);
    kill("TERM", &next);
    assert!(next.wait().unwrap().success());
}

#[test]
fn the_unit_is_hardened() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("conf/deploy/portcullis.service");
    let run = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--threshold=16", "--no-pager"])
        .arg(&unit)
        .output()
        .expect("systemd-analyze, which tests/setup/system.sh installs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
}

/// Starts the gateway as a service manager does, with sockets from descriptor 3 on.
pub fn start_under(directory: &Path, sockets: &[(String, OwnedFd)]) -> Child {
    let names: Vec<&str> = sockets.iter().map(|(name, _)| name.as_str()).collect();
    let mut script = String::new();
    for (at, (_, socket)) in sockets.iter().enumerate() {
        rustix::io::fcntl_setfd(socket, rustix::io::FdFlags::empty()).expect("an open descriptor");
        script.push_str(&format!("exec {}<&{}\n", at + 3, socket.as_raw_fd()));
    }
    if !sockets.is_empty() {
        script.push_str(&format!(
            "export LISTEN_PID=$$ LISTEN_FDS={} LISTEN_FDNAMES={}\n",
            sockets.len(),
            names.join(":")
        ));
    }
    script.push_str("exec \"$0\" run --config gateway.toml");
    let log = fs::File::options().create(true).append(true).open(directory.join("log")).expect("a log file");
    Command::new("bash")
        .args(["-c", &script, env!("CARGO_BIN_EXE_portcullis")])
        .current_dir(directory)
        .env("PORTCULLIS__PROXY__LISTEN", "127.0.0.1:0")
        .env("PORTCULLIS__ADMIN__LISTEN", "127.0.0.1:0")
        .env("NOTIFY_SOCKET", directory.join("notify"))
        .env("WATCHDOG_USEC", "1200000")
        .stdin(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("bash runs")
}

fn hear(manager: &UnixDatagram) -> (String, Option<OwnedFd>) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let mut words = vec![0; 4096];
    let buffers = &mut [IoSliceMut::new(&mut words)];
    let received =
        rustix::net::recvmsg(manager, buffers, &mut rights, RecvFlags::CMSG_CLOEXEC).expect("a word in time");
    words.truncate(received.bytes);
    let descriptor = rights.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut passed) => passed.next(),
        _ => None,
    });
    (String::from_utf8(words).expect("words"), descriptor)
}

fn hear_until(manager: &UnixDatagram, beginning: &str) {
    while !hear(manager).0.starts_with(beginning) {}
}

pub fn kill(signal: &str, process: &Child) {
    let sent =
        Command::new("kill").args(["-s", signal, &process.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
}

/// Calls until it is told to stop, on connections that are kept while the gateway keeps them; returns how often.
pub fn use_gateway(address: SocketAddr, stop: &AtomicBool, done: &AtomicUsize) -> usize {
    let mut answered = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut client = Client::connect(address);
        client.patience(PATIENCE * 2);
        loop {
            client.send(&post("/v1/chat/completions", "", BODY));
            let answer = client.response().expect("a whole answer");
            assert_eq!(answer.status, 200, "{}", answer.text());
            answered += 1;
            done.fetch_add(1, Ordering::Relaxed);
            if answer.header("connection") == Some("close") || stop.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    answered
}

/// Waits until so many more are done.
pub fn wait_for(done: &AtomicUsize, more: usize) {
    let (wanted, deadline) = (done.load(Ordering::Relaxed) + more, Instant::now() + PATIENCE * 10);
    while done.load(Ordering::Relaxed) < wanted {
        assert!(Instant::now() < deadline, "the gateway does not answer");
        thread::sleep(Duration::from_millis(2));
    }
}

pub fn open_stream(address: SocketAddr) -> Client {
    let mut client = Client::connect(address);
    client.send(&post("/stream/v1/chat/completions", "", STREAM));
    assert_eq!(client.head().expect("a head").status, 200);
    let first = client.piece().expect("a piece").expect("a first event");
    assert!(String::from_utf8_lossy(&first).contains("Hel"), "{first:?}");
    client
}

pub fn rest_of(client: &mut Client) -> Result<String, WireFault> {
    let mut rest = Vec::new();
    while let Some(piece) = client.piece()? {
        rest.extend(piece);
    }
    Ok(String::from_utf8_lossy(&rest).into_owned())
}

fn ready(address: SocketAddr) -> u16 {
    exchange(address, b"GET /ready HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").status
}

fn audit(gateway: &Gateway) -> Value {
    let key = gateway.admin_key();
    let request = format!(
        "GET /api/v1/audit?limit=1000 HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\nconnection: close\r\n\r\n"
    );
    exchange(gateway.admin, request.as_bytes()).json()
}

pub fn answer() -> Vec<u8> {
    let body = r#"{"id":"1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}]}"#;
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into()
}

pub fn stream() -> Vec<Step> {
    let first = r#"data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hello. "}}]}"#;
    vec![
        Step::Send(chunked_head("text/event-stream")),
        Step::Send(chunk(format!("{first}\n\n").as_bytes())),
        Step::Wait,
        Step::Send(chunk(b"data: [DONE]\n\n")),
        Step::Send(chunk(b"")),
    ]
}

pub fn config(answers: &Upstream, events: &Upstream, notice_ms: u64, grace_ms: u64) -> String {
    format!(
        "[proxy]\nshutdown_notice_ms = {notice_ms}\nshutdown_grace_ms = {grace_ms}\n{UNLIMITED}\
         [[routes]]\nname = \"stream\"\npath_prefix = \"/stream\"\nupstream = \"http://{}\"\ndialect = \"auto\"\n\
         [[routes]]\nname = \"all\"\npath_prefix = \"/\"\nupstream = \"http://{}\"\ndialect = \"auto\"\n",
        events.address, answers.address
    )
}
