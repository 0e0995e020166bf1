//! A PostgreSQL server of a test's own: in a directory that goes with it, on a socket in that directory.
//!
//! Where the test runs as root the server does not: it refuses to.
#![allow(dead_code, reason = "unit and integration tests use different parts")]

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;

/// The programs' folder on Debian, by version, newest last.
const PROGRAMS: &str = "/usr/lib/postgresql";
/// Whom the server runs as where the test is root; the package makes that user.
const USER: &str = "postgres";
const PASSWORD: &str = "for-tests-only";

/// A running server; it ends with this.
pub struct Postgres {
    server: Child,
    folder: tempfile::TempDir,
    /// The port it listens on at 127.0.0.1, with a password; 0: only on its socket.
    pub port: u16,
}

impl Postgres {
    /// Starts a server that listens on its socket only.
    pub fn start() -> Self {
        Self::start_on(0)
    }

    /// Starts a server that listens on a port of 127.0.0.1, too.
    pub fn start_on(port: u16) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        std::fs::write(folder.path().join("password"), PASSWORD).expect("a file");
        if is_root() {
            let owned = Command::new("chown").args(["-R", USER]).arg(folder.path()).status();
            assert!(owned.expect("chown runs").success(), "is Debian's package postgresql installed?");
        }
        let made = as_user("initdb")
            .args(["--no-sync", "--no-locale", "-E", "UTF8", "-U", "portcullis"])
            .args(["--auth-local=trust", "--auth-host=scram-sha-256", "--pwfile"])
            .arg(folder.path().join("password"))
            .arg("-D")
            .arg(&data)
            .stdout(Stdio::null())
            .status();
        assert!(made.expect("initdb runs").success(), "initdb");
        let server = run(folder.path(), &data, port);
        Self { server, folder, port }
    }

    /// Returns the URL of its database over the socket.
    pub fn url(&self) -> String {
        let folder = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgres://portcullis@{folder}/postgres")
    }

    /// Returns the URL of its database at a port of 127.0.0.1: its own, or that of a relay.
    pub fn url_at(port: u16) -> String {
        format!("postgres://portcullis:{PASSWORD}@127.0.0.1:{port}/postgres")
    }

    /// Runs SQL and returns what comes of it, as text, one row a line.
    pub fn sql(&self, text: &str) -> String {
        self.tries(text).unwrap_or_else(|said| panic!("{said}"))
    }

    /// Runs SQL that may fail, and returns what comes of it, or what is said of that.
    pub fn tries(&self, text: &str) -> Result<String, String> {
        let output = as_user("psql")
            .args(["-X", "-A", "-t", "-U", "portcullis", "-d", "postgres", "-c", text])
            .args(["-p", &effective(self.port).to_string(), "-h"])
            .arg(self.folder.path())
            .output()
            .expect("psql runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// Returns its tables and what is in them, as SQL.
    pub fn dump(&self) -> String {
        let output = as_user("pg_dump")
            .args(["--no-owner", "-U", "portcullis", "-d", "postgres"])
            .args(["-p", &effective(self.port).to_string(), "-h"])
            .arg(self.folder.path())
            .output()
            .expect("pg_dump runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("SQL");
        // What earlier servers, and their programs, do not know.
        let is_new = |line: &&str| {
            ["\\restrict", "\\unrestrict", "SET transaction_timeout"].iter().any(|it| line.starts_with(it))
        };
        text.lines().filter(|line| !is_new(line)).map(|line| format!("{line}\n")).collect()
    }

    /// Makes tables, and what is in them, as they were dumped.
    pub fn load(&self, dump: &str) {
        let mut child = as_user("psql")
            .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-U", "portcullis", "-d", "postgres"])
            .args(["-p", &effective(self.port).to_string(), "-h"])
            .arg(self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("psql runs");
        let mut said = child.stdin.take().expect("it is piped");
        said.write_all(dump.as_bytes()).expect("psql reads");
        drop(said);
        assert!(child.wait().expect("psql ends").success(), "the dump cannot be loaded");
    }

    /// Lets the server die as it stands.
    pub fn kill(&mut self) {
        let id = self.server.id().to_string();
        // The children follow the one that started them.
        Command::new("kill").args(["-QUIT", &id]).status().expect("kill runs");
        self.server.wait().expect("the server ends");
    }

    /// Keeps the data as they are at this moment; the server stands still meanwhile.
    pub fn keep_data(&mut self) {
        self.kill();
        copy(&self.folder.path().join("data"), &self.folder.path().join("kept"));
        self.restart();
    }

    /// Goes back to the data that were kept: what was written since then is lost.
    pub fn bring_back_data(&mut self) {
        self.kill();
        let data = self.folder.path().join("data");
        std::fs::remove_dir_all(&data).expect("the data are there");
        copy(&self.folder.path().join("kept"), &data);
        self.restart();
    }

    /// Starts the server again on the same data.
    pub fn restart(&mut self) {
        self.server = run(self.folder.path(), &self.folder.path().join("data"), self.port);
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let id = self.server.id().to_string();
        let _ = Command::new("kill").args(["-QUIT", &id]).status();
        let _ = self.server.wait();
    }
}

fn run(folder: &Path, data: &Path, port: u16) -> Child {
    let listen = if port == 0 { "listen_addresses=" } else { "listen_addresses=127.0.0.1" };
    let port = format!("port={}", effective(port));
    let mut server = as_user("postgres");
    server.arg("-D").arg(data).args([
        "-c",
        listen,
        "-c",
        &port,
        "-c",
        "fsync=off",
        "-c",
        "shared_buffers=16MB",
    ]);
    server.args(["-c", "max_connections=60", "-c", "unix_socket_permissions=0777", "-k"]).arg(folder);
    let log = std::fs::File::create(folder.join("log")).expect("a file");
    let mut child = server.stdout(Stdio::null()).stderr(log).process_group(0).spawn().expect("postgres runs");
    for _ in 0..600 {
        let ready = as_user("pg_isready").arg("-q").arg("-h").arg(folder).args(port_of(&port)).status();
        if ready.is_ok_and(|status| status.success()) {
            return child;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    // Not left behind.
    let _ = child.kill();
    let _ = child.wait();
    panic!("{}", std::fs::read_to_string(folder.join("log")).unwrap_or_default());
}

/// Copies a folder, whose files keep their owner.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.expect("cp runs").success(), "cp");
}

/// Returns the port that names the socket, too.
fn effective(port: u16) -> u16 {
    if port == 0 { 5432 } else { port }
}

fn port_of(setting: &str) -> [String; 2] {
    ["-p".to_owned(), setting.trim_start_matches("port=").to_owned()]
}

fn as_user(program: &str) -> Command {
    let program = programs().join(program);
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups", "--pdeathsig", "QUIT"]).arg(program);
    command.current_dir("/");
    command
}

fn programs() -> PathBuf {
    let versions = std::fs::read_dir(PROGRAMS).map(|found| found.flatten().map(|entry| entry.path()));
    let newest = versions.ok().and_then(|found| found.max());
    newest.expect("Debian's package postgresql is installed: tests/setup/system.sh does it").join("bin")
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
