//! The gateway as a process of its own, on ports of its own, with a directory of its own.

use std::fs;
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;

use crate::wire::PATIENCE;
use crate::wire::exchange;

/// How long the gateway may take to be ready; patterns are compiled and proven in that time.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Where what one test or its gateway compiled is kept: the others read it.
pub const COMPILED: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/compiled");
const POLL: Duration = Duration::from_millis(5);

/// Lifts the limit on requests a minute, which tests would meet and which is tested on its own.
pub const UNLIMITED: &str = "[limits.tiers.community]\nrequests_per_minute = 0\nburst = 0\n";

/// A running gateway; it is killed when it is dropped.
pub struct Gateway {
    /// Where providers' requests go.
    pub proxy: SocketAddr,
    /// Where the management API is.
    pub admin: SocketAddr,
    process: Child,
    directory: TempDir,
    arguments: Vec<String>,
}

impl Gateway {
    /// Starts a gateway on a configuration, in which `listen` and `store.path` may be left out:
    /// ports are free ones and the state is in a directory that goes with the gateway.
    pub fn start(config: &str) -> Self {
        Self::start_beside(config, &[])
    }

    /// Starts a gateway in a directory that has files already, by their names and what is in them.
    pub fn start_beside(config: &str, files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        for (name, text) in files {
            fs::write(directory.path().join(name), text).expect("the directory is writable");
        }
        fs::write(config_path(&directory), config).expect("the directory is writable");
        let file = config_path(&directory).display().to_string();
        Self::launched(directory, vec!["--config".to_owned(), file])
    }

    /// Starts `portcullis run` with arguments of the test's own, in a directory that may hold files.
    pub fn launched(directory: TempDir, arguments: Vec<String>) -> Self {
        let (process, proxy, admin) = launch(&directory, &arguments);
        Self { proxy, admin, process, directory, arguments }
    }

    /// Ends the gateway and starts another in the same directory, with other arguments.
    pub fn restart_with(&mut self, arguments: Vec<String>) {
        self.arguments = arguments;
        self.crash_and_restart();
    }

    /// Starts a gateway with one route for every path, to one upstream, under a policy whose
    /// `[policies.default]` table is given in full.
    pub fn in_front_of(upstream: SocketAddr, policy: &str) -> Self {
        Self::start(&format!(
            "[[routes]]\nname = \"all\"\npath_prefix = \"/\"\nupstream = \"http://{upstream}\"\ndialect = \"auto\"\n\
             policy = \"default\"\n\n{UNLIMITED}\n{policy}"
        ))
    }

    /// Replaces the configuration file, in one step, as an editor would.
    pub fn rewrite(&self, config: &str) {
        let fresh = self.directory.path().join("gateway.toml.new");
        fs::write(&fresh, config).expect("the directory is writable");
        fs::rename(fresh, config_path(&self.directory)).expect("the file can be replaced");
    }

    /// Sends a signal, by its name without `SIG`.
    pub fn signal(&self, name: &str) {
        assert!(send_signal(name, self.pid()), "the gateway is gone");
    }

    /// Returns the process that serves: another one after each upgrade.
    pub fn pid(&self) -> u32 {
        let written = fs::read(self.directory.path().join("ready.json")).unwrap_or_default();
        let written: Value = serde_json::from_slice(&written).unwrap_or_default();
        written["pid"].as_u64().and_then(|pid| pid.try_into().ok()).unwrap_or(self.process.id())
    }

    /// Waits until the process that the test started has ended; returns its exit code.
    pub fn wait_for_end(&mut self) -> Option<i32> {
        self.process.wait().expect("a child can be waited for").code()
    }

    /// Waits until the log says something so many times.
    pub fn wait_for_log(&self, what: &str, times: usize) {
        let deadline = Instant::now() + START_LIMIT;
        while self.log().matches(what).count() < times {
            assert!(Instant::now() < deadline, "never logged {times} times: {what}\n{}", self.log());
            thread::sleep(POLL);
        }
    }

    /// Kills the gateway at once and starts it again on the same directory; ports may change.
    pub fn crash_and_restart(&mut self) {
        self.process.kill().expect("the gateway runs");
        self.process.wait().expect("a child can be waited for");
        (self.process, self.proxy, self.admin) = launch(&self.directory, &self.arguments);
    }

    /// Asks the gateway to end, waits until it has, and starts it again on the same directory.
    pub fn end_and_restart(&mut self) {
        self.signal("TERM");
        self.process.wait().expect("a child can be waited for");
        (self.process, self.proxy, self.admin) = launch(&self.directory, &self.arguments);
    }

    /// Returns the one-time administrator's key of the first start.
    pub fn admin_key(&self) -> String {
        let key = fs::read_to_string(self.directory.path().join("state/admin.key"));
        key.expect("the first start writes the key").trim().to_owned()
    }

    /// Returns what the audit log has of so many exchanges, once it has them.
    pub fn recorded(&self, count: usize) -> String {
        let deadline = Instant::now() + PATIENCE;
        let request = format!(
            "GET /api/v1/audit?event_type=exchange HTTP/1.1\r\nhost: localhost\r\nx-api-key: {}\r\n\r\n",
            self.admin_key()
        );
        loop {
            let audit: Value = exchange(self.admin, request.as_bytes()).json();
            if audit["total"] == count {
                return audit.to_string();
            }
            assert!(Instant::now() < deadline, "{audit}");
        }
    }

    /// Returns the metric of a name, labels and all, as `/metrics` has it.
    pub fn metric(&self, name: &str) -> String {
        let key = self.admin_key();
        let ask = format!("GET /metrics HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\n\r\n");
        let page = exchange(self.admin, ask.as_bytes()).text();
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.expect("the metric is there").to_owned()
    }

    /// Returns how many bytes the gateway says that it holds.
    pub fn buffered_bytes(&self) -> usize {
        self.metric("portcullis_buffered_body_bytes").parse().expect("a number of bytes")
    }

    /// Returns how many bytes of the process are in memory.
    pub fn resident_bytes(&self) -> usize {
        let told = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("its memory");
        let kib = told.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
        kib.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
    }

    /// Returns the directory with `gateway.toml`, `state/` and `plugins/`.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the file of the gateway's log.
    pub fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// Returns what the gateway has logged so far.
    pub fn log(&self) -> String {
        log_of(&self.directory)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let serving = self.pid();
        if serving != self.process.id() {
            send_signal("KILL", serving);
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        if thread::panicking() {
            // Tests capture their own output: this shows only beside a failure.
            #[allow(clippy::print_stderr)]
            {
                eprintln!("--- the gateway's log ---\n{}", self.log());
            }
        }
    }
}

fn send_signal(name: &str, process: u32) -> bool {
    let sent = Command::new("kill").args(["-s", name, &process.to_string()]).stderr(Stdio::null()).status();
    sent.expect("kill runs").success()
}

fn config_path(directory: &TempDir) -> PathBuf {
    directory.path().join("gateway.toml")
}

fn log_of(directory: &TempDir) -> String {
    fs::read_to_string(directory.path().join("log")).unwrap_or_default()
}

/// Returns the program, which reads what earlier ones compiled.
pub fn program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    program.env("PORTCULLIS__PLUGINS__COMPILED_PATH", COMPILED);
    program
}

fn launch(directory: &TempDir, arguments: &[String]) -> (Child, SocketAddr, SocketAddr) {
    let ready = directory.path().join("ready.json");
    let _ = fs::remove_file(&ready);
    let log =
        File::options().create(true).append(true).open(directory.path().join("log")).expect("a log file");
    let mut process = program()
        .arg("run")
        .args(arguments)
        .arg("--ready-file")
        .arg(&ready)
        .current_dir(directory.path())
        .env("PORTCULLIS__PROXY__LISTEN", "127.0.0.1:0")
        .env("PORTCULLIS__ADMIN__LISTEN", "127.0.0.1:0")
        .env("PORTCULLIS__STORE__PATH", directory.path().join("state"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a file can be shared"))
        .stderr(log)
        .spawn()
        .expect("the program was built");
    let deadline = Instant::now() + START_LIMIT;
    loop {
        if let Some((proxy, admin)) = addresses(&ready) {
            return (process, proxy, admin);
        }
        let ended = process.try_wait().expect("a child can be asked");
        let late = Instant::now() > deadline;
        if ended.is_some() || late {
            let _ = process.kill();
            panic!("the gateway did not start ({ended:?}):\n{}", log_of(directory));
        }
        thread::sleep(POLL);
    }
}

/// Reads `{"proxy": "ADDRESS", "admin": "ADDRESS"}`; `None` while it is not whole.
fn addresses(ready: &Path) -> Option<(SocketAddr, SocketAddr)> {
    let written: Value = serde_json::from_slice(&fs::read(ready).ok()?).ok()?;
    let address = |name: &str| written.get(name)?.as_str()?.parse().ok();
    Some((address("proxy")?, address("admin")?))
}
