//! The process that takes over from this one, from its start until it serves.
//!
//! ```text
//! this one                                        the next one
//! starts it, sends its sockets ─────────────────▶ checks all it can
//!                              ◀── "prepared …" ─
//! ends its exchanges, lets go of the state
//! becomes one that stands by   ─── "released" ──▶ opens the state
//!                              ◀──── "serving" ──
//! ends
//! ```
//!
//! To let go of the state for certain, this process puts its own program in its place, with the sockets and the line to
//! the next one at standard input, and nothing else open ([`super::standing_by`]). Where the next one does not come to
//! serve, that program takes the state up again.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::io::Read;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Pid;
use rustix::process::Signal;
use rustix::process::WaitOptions;
use rustix::process::kill_process;
use rustix::process::waitpid;

use super::address::Named;
use super::inherit;
use super::inherit::Inherited;
use super::inherit::PREPARED;
use super::inherit::RELEASED;

/// How long the next process may take to check what it can.
const PREPARE_MAX: Duration = Duration::from_secs(120);
/// The argument that tells the next process where its sockets are.
const TAKE_OVER: &str = "--take-over";
/// The argument that tells this program that it stands by.
const STAND_BY: &str = "--stand-by";
/// How the name of the line to the next process begins; its number follows.
const SUCCESSOR: &str = "successor-";
/// The program of this process, whatever lies in its place by now.
const OWN_PROGRAM: &str = "/proc/self/exe";
/// What the system calls this process.
const OWN_NAME: &str = "/proc/self/comm";

/// How this process was started, so that another can be.
#[derive(Clone, Debug)]
pub struct Invocation {
    program: PathBuf,
    arguments: Vec<OsString>,
}

/// The process that takes over.
pub(super) struct Successor {
    line: UnixStream,
    process: Pid,
}

/// What is left of a process that has ended its exchanges and lets another take over.
pub(super) struct Handed {
    pub(super) successor: Successor,
    pub(super) sockets: Vec<Named>,
    pub(super) invocation: Invocation,
}

impl Invocation {
    /// Returns how this process was started. Called before the program's file is replaced.
    pub fn of_process() -> Option<Self> {
        let mut all = std::env::args_os();
        let named = all.next();
        let mut arguments: Vec<OsString> = all.collect();
        // Its file may have been replaced since: it was told its name.
        let program = match arguments.iter().any(|argument| argument == STAND_BY) {
            true => PathBuf::from(named?),
            false => std::env::current_exe().ok()?,
        };
        arguments.retain(|argument| argument != TAKE_OVER && argument != STAND_BY);
        Some(Self { program, arguments })
    }

    /// Returns the program's file.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }
}

impl Successor {
    /// Starts the next process, and sends it the sockets.
    ///
    /// # Errors
    /// There is no such program, or no room for it.
    pub(super) fn start(invocation: &Invocation, sockets: &[Named]) -> io::Result<Self> {
        let (line, theirs) = UnixStream::pair()?;
        line.set_read_timeout(Some(PREPARE_MAX))?;
        let process = Command::new(&invocation.program)
            .args(&invocation.arguments)
            .arg(TAKE_OVER)
            .env_remove("WATCHDOG_PID")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()?;
        let successor = Self { line, process: pid_of(process.id())? };
        let named: Vec<_> = sockets.iter().map(|it| (it.name.as_str(), it.socket.as_fd())).collect();
        match inherit::send(&successor.line, &named) {
            Ok(()) => Ok(successor),
            Err(error) => {
                successor.end();
                Err(error)
            }
        }
    }

    /// Returns its number.
    pub(super) fn process(&self) -> u32 {
        self.process.as_raw_nonzero().get().unsigned_abs()
    }

    /// Returns another end of the line to it.
    ///
    /// # Errors
    /// Too many files are open.
    pub(super) fn line(&self) -> io::Result<UnixStream> {
        self.line.try_clone()
    }

    /// Ends it at once: one that hangs must not take over later.
    pub(super) fn end(self) {
        // It is our child, and nobody else has waited for it: its number is no other's.
        let _ = kill_process(self.process, Signal::KILL);
        let _ = waitpid(Some(self.process), WaitOptions::empty());
    }

    /// Asks it to end, and waits until it has.
    pub(super) fn ask_to_end(self) {
        let _ = kill_process(self.process, Signal::TERM);
        let _ = waitpid(Some(self.process), WaitOptions::empty());
    }

    /// Says that the state is nobody's.
    ///
    /// # Errors
    /// It is gone.
    pub(super) fn release(&self) -> io::Result<()> {
        (&self.line).write_all(RELEASED)
    }

    /// Takes what the process has sent to itself before it became this one.
    ///
    /// # Errors
    /// Standard input is no such socket.
    pub(super) fn at_stdin() -> io::Result<(Self, Inherited)> {
        let line = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let mut sent = inherit::receive(&line)?;
        let is_line = |(name, _): &(String, OwnedFd)| name.starts_with(SUCCESSOR);
        let at = sent.iter().position(is_line).ok_or(io::ErrorKind::InvalidData)?;
        let (name, line) = sent.remove(at);
        let number = name.strip_prefix(SUCCESSOR).and_then(|number| number.parse().ok());
        let process = pid_of(number.ok_or(io::ErrorKind::InvalidData)?)?;
        Ok((Self { line: UnixStream::from(line), process }, Inherited::of_descriptors(sent)))
    }
}

/// Waits until the process at the other end of a line says that it is ready to take over. Blocks.
///
/// # Errors
/// It ended, or time is up, or it is of an earlier release, which does not say when it serves.
pub(super) fn wait_until_prepared(mut line: &UnixStream) -> io::Result<()> {
    let mut word = [0; PREPARED.len()];
    let bytes = match line.read(&mut word) {
        // It has not even read what it was sent.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
        read => read?,
    };
    match word.get(..bytes) {
        Some(PREPARED) => Ok(()),
        Some([]) => Err(io::Error::other("it ended before it was ready; its log says why")),
        _ => Err(io::Error::other("it is of a release that does not tell when it serves: restart instead")),
    }
}

impl Handed {
    /// Becomes the process that stands by; comes back only where that cannot be.
    pub(super) fn stand_by(self) {
        let Err(error) = self.become_stand_by();
        // The next process goes on as soon as this one is gone.
        tracing::error!(%error, "nobody stands by the process that takes over");
    }

    fn become_stand_by(self) -> io::Result<Infallible> {
        let (ours, theirs) = UnixStream::pair()?;
        let line = format!("{SUCCESSOR}{}", self.successor.process());
        let sockets = self.sockets.iter().map(|it| (it.name.as_str(), it.socket.as_fd()));
        let named: Vec<_> = sockets.chain([(line.as_str(), self.successor.line.as_fd())]).collect();
        inherit::send(&ours, &named)?;
        let mut command = Command::new(OWN_PROGRAM);
        command.arg0(&self.invocation.program).args(&self.invocation.arguments).arg(STAND_BY);
        Err(command.stdin(Stdio::from(OwnedFd::from(theirs))).exec())
    }
}

/// Gives this process its program's name again: the system named it after the link that it was started by.
pub(super) fn take_name(invocation: Option<&Invocation>) {
    let Some(name) = invocation.and_then(|it| it.program.file_name()) else { return };
    // It is only what others see.
    let _ = std::fs::write(OWN_NAME, name.as_encoded_bytes());
}

fn pid_of(number: u32) -> io::Result<Pid> {
    let number = i32::try_from(number).ok().and_then(Pid::from_raw);
    number.ok_or_else(|| io::ErrorKind::InvalidData.into())
}
