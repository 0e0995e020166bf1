//! An upgrade that does not go as it should: somebody serves all the same, and nothing is cut that need not be.

use std::fs;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Lines;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::ChildStdout;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use crate::gateway::Gateway;
use crate::restart::BODY;
use crate::restart::PATIENCE;
use crate::restart::answer;
use crate::restart::config;
use crate::restart::kill;
use crate::restart::open_stream;
use crate::restart::rest_of;
use crate::restart::start_under;
use crate::restart::stream;
use crate::upstream::Step;
use crate::upstream::Upstream;
use crate::wire::Client;
use crate::wire::exchange;
use crate::wire::post;

const REFUSED: &str = "the next process cannot take over, this one goes on";
const DONE: &str = "data: [DONE]\n\n";

/// A state or a database that the next process could not use is found out before the one that serves lets go.
#[test]
fn what_a_successor_could_not_open_is_found_out_before_the_state_is_let_go() {
    let answers = Upstream::start(vec![Step::Send(answer())]);
    let good = config(&answers, &answers, 0, 10_000);
    let gateway = Gateway::start(&good);
    let serving = gateway.pid();
    let state = gateway.directory().join("state");
    let mut times = 0;
    let mut is_refused = |told: &str| {
        gateway.signal("USR2");
        times += 1;
        gateway.wait_for_log(REFUSED, times);
        assert!(gateway.log().contains(told), "{told}: {}", gateway.log());
        assert_eq!(exchange(gateway.proxy, &post("/v1/chat/completions", "", BODY)).status, 200, "{told}");
        assert_eq!(gateway.pid(), serving, "{told}");
    };
    with_damage(&state.join("node.secret"), || is_refused("the node secret has a wrong length"));
    with_damage(&state.join("subjects.keys"), || is_refused("the file of subject keys is damaged"));
    with_damage(&first_segment(&state.join("audit")), || is_refused(".segment is damaged"));

    fs::write(gateway.directory().join("postgres.url"), "postgres://a:hidden@127.0.0.1:1/d").unwrap();
    gateway.rewrite(&format!("{good}{}", database(2_000)));
    is_refused("the database cannot be used: ");
    assert!(!gateway.log().contains("hidden"));

    gateway.rewrite(&good);
    gateway.signal("USR2");
    wait_for_another(&gateway, serving);
}

/// Damages a file for as long as something is tried: its first bytes are others.
fn with_damage(file: &Path, tried: impl FnOnce()) {
    let whole = fs::read(file).expect("the disk serves");
    let handle = fs::File::options().write(true).open(file).expect("the disk serves");
    handle.write_all_at(b"XXXX", 0).expect("the disk serves");
    if whole.len() < 64 {
        handle.set_len(4).expect("the disk serves");
    }
    tried();
    handle
        .write_all_at(whole.get(..whole.len().min(64)).expect("the disk serves"), 0)
        .expect("the disk serves");
}

fn first_segment(audit: &Path) -> PathBuf {
    let names =
        fs::read_dir(audit).expect("the disk serves").map(|entry| entry.expect("the disk serves").path());
    names.filter(|path| path.extension().is_some_and(|it| it == "segment")).min().expect("there is one")
}

fn database(timeout_ms: u64) -> String {
    format!(
        "[store]\nbackend = \"postgres\"\n[store.postgres]\nurl_file = \"postgres.url\"\n\
         secret_file = \"postgres.url\"\ntls = false\ntimeout_ms = {timeout_ms}\n"
    )
}

#[test]
fn where_the_successor_does_not_come_to_serve_the_state_is_taken_up_again() {
    let events = Upstream::start(stream());
    let gateway = Gateway::start(&config(&events, &events, 0, 60_000));
    let key = gateway.admin_key();
    let (serving, mut streaming) = (gateway.pid(), open_stream(gateway.proxy));
    gateway.signal("USR2");
    gateway.wait_for_log("hands over", 1);
    let successor = successor_of(&gateway);
    assert!(signal("KILL", successor));
    // Nobody listens meanwhile: it waits in the socket's queue.
    let mut waiting = Client::connect(gateway.admin);
    waiting.patience(PATIENCE);
    let asked = format!(
        "GET /api/v1/keys HTTP/1.1\r\nhost: {}\r\nx-api-key: {key}\r\nconnection: close\r\n\r\n",
        gateway.admin
    );
    waiting.send(asked.as_bytes());
    events.proceed();
    assert_eq!(rest_of(&mut streaming), Ok(DONE.to_owned()));
    assert_eq!(waiting.response().expect("an answer").status, 200);
    gateway.wait_for_log("nobody has taken over, this process goes on", 1);
    assert_eq!(gateway.pid(), serving, "it is the same process");

    // And it can still be upgraded.
    gateway.wait_for_log("ready proxy=", 2);
    gateway.signal("USR2");
    wait_for_another(&gateway, serving);
}

#[test]
fn another_request_to_hand_over_cuts_nothing() {
    let events = Upstream::start(stream());
    let mut gateway = Gateway::start(&config(&events, &events, 0, 60_000));
    let (serving, mut streaming) = (gateway.pid(), open_stream(gateway.proxy));
    gateway.signal("USR2");
    gateway.wait_for_log("hands over", 1);
    gateway.signal("USR2");
    gateway.wait_for_log("asked to hand over while the process ends", 1);
    events.proceed();
    assert_eq!(rest_of(&mut streaming), Ok(DONE.to_owned()));
    assert_eq!(gateway.wait_for_end(), Some(0));
    wait_for_another(&gateway, serving);
}

#[test]
fn asked_to_end_while_it_hands_over_it_ends_in_order_and_so_does_the_successor() {
    let events = Upstream::start(stream());
    let mut gateway = Gateway::start(&config(&events, &events, 0, 60_000));
    let mut streaming = open_stream(gateway.proxy);
    gateway.signal("USR2");
    gateway.wait_for_log("hands over", 1);
    let successor = successor_of(&gateway);
    gateway.signal("TERM");
    gateway.wait_for_log("asked to end", 1);
    assert!(!signal("0", successor), "nobody is left to take over");
    gateway.wait_for_log("drains", 2);
    assert!(Client::try_connect(gateway.proxy).is_none(), "nobody listens");
    events.proceed();
    assert_eq!(rest_of(&mut streaming), Ok(DONE.to_owned()));
    assert_eq!(gateway.wait_for_end(), Some(0));
}

#[test]
fn asked_to_end_while_the_successor_prepares_it_ends_at_once() {
    let answers = Upstream::start(vec![Step::Send(answer())]);
    let good = config(&answers, &answers, 0, 10_000);
    let mut gateway = Gateway::start(&good);
    // A database that takes connections, and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://a:b@{}/a-secret-of-thirty-two-characters", silent.local_addr().unwrap());
    fs::write(gateway.directory().join("postgres.url"), url).unwrap();
    gateway.rewrite(&format!("{good}{}", database(60_000)));
    gateway.signal("USR2");
    let (mut asked, _) = silent.accept().unwrap();
    gateway.signal("TERM");
    assert_eq!(gateway.wait_for_end(), Some(0));
    let log = gateway.log();
    assert!(log.contains("asked to end") && !log.contains("cannot take over"), "{log}");
    asked.set_read_timeout(Some(PATIENCE)).unwrap();
    asked.read_to_end(&mut Vec::new()).expect("the successor is gone");
}

#[test]
fn the_watchdog_is_shown_by_whoever_is_the_service_all_through_an_upgrade() {
    let directory = tempfile::tempdir().unwrap();
    let events = Upstream::start(stream());
    fs::write(directory.path().join("gateway.toml"), config(&events, &events, 0, 60_000)).unwrap();
    let mut manager = Manager::start(directory.path());
    let mut service = start_under(directory.path(), &[]);
    let first = service.id();
    let kept = manager.hear_from(first, "FDSTORE=1 FDNAME=kept-proxy-");
    let proxy = kept.split(' ').next_back().and_then(|address| address.parse().ok()).expect("an address");
    manager.hear_from(first, "READY=1");
    let mut streaming = open_stream(proxy);
    kill("USR2", &service);
    manager.hear_from(first, "STATUS=handing over");
    for _ in 0..3 {
        manager.hear_from(first, "WATCHDOG=1");
    }
    events.proceed();
    assert_eq!(rest_of(&mut streaming), Ok(DONE.to_owned()));
    let told = manager.hear_from(first, "MAINPID=");
    let second: u32 = told.trim_start_matches("MAINPID=").parse().expect("a number");
    assert!(service.wait().unwrap().success());
    manager.hear_from(second, "READY=1");
    manager.hear_from(second, "WATCHDOG=1");
    let asked = b"GET /version HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert_eq!(exchange(proxy, asked).status, 200);
    assert!(signal("TERM", second));
    manager.hear_from(second, "STOPPING=1");
    let gone = Instant::now() + PATIENCE;
    while signal("0", second) {
        assert!(Instant::now() < gone, "it does not end");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Plays systemd, which hears one process of the service alone (`NotifyAccess=main`), and ends all where that is silent: it
/// prints who says what, a word on each line, with the addresses of sockets that come with it.
const MANAGER: &str = r#"
import array, socket, struct, sys
heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
heard.bind(sys.argv[1])
heard.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
print("listens", flush=True)
while True:
    words, beside, _, _ = heard.recvmsg(4096, 256)
    sender, said = 0, words.decode().split("\n")
    for _, kind, value in beside:
        if kind == socket.SCM_RIGHTS:
            for descriptor in array.array("i", value):
                said.append("%s:%d" % socket.socket(fileno=descriptor).getsockname())
        else:
            sender = struct.unpack("iii", value)[0]
    print(sender, *said, flush=True)
"#;

struct Manager {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Manager {
    fn start(directory: &Path) -> Self {
        let mut process = Command::new("python3")
            .args(["-c", MANAGER])
            .arg(directory.join("notify"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 runs");
        let mut lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        assert_eq!(lines.next().expect("a line").expect("text"), "listens");
        Self { process, lines }
    }

    /// Waits for words of a process; those of others are not heard.
    fn hear_from(&mut self, process: u32, beginning: &str) -> String {
        let sender = format!("{process} ");
        let heard = self.lines.by_ref().map(|line| line.expect("text")).find_map(|line| {
            line.strip_prefix(&sender).filter(|words| words.starts_with(beginning)).map(str::to_owned)
        });
        heard.expect("it listens until it is ended")
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn wait_for_another(gateway: &Gateway, serving: u32) {
    let deadline = Instant::now() + PATIENCE;
    while gateway.pid() == serving {
        assert!(Instant::now() < deadline, "nobody took over");
        thread::sleep(Duration::from_millis(5));
    }
    let asked = b"GET /version HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert_eq!(exchange(gateway.proxy, asked).status, 200);
}

/// Returns the number of the process that takes over, as the log tells it.
fn successor_of(gateway: &Gateway) -> u32 {
    let log = gateway.log();
    let told = log.split_once("hands over process=").map_or("", |(_, told)| told);
    let number: String = told.chars().take_while(char::is_ascii_digit).collect();
    number.parse().expect("a number")
}

fn signal(name: &str, process: u32) -> bool {
    let sent = Command::new("kill").args(["-s", name, &process.to_string()]).stderr(Stdio::null()).status();
    sent.expect("kill runs").success()
}
