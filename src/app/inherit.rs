//! Sockets that another process opened for this one: systemd (`LISTEN_FDS`), or the process that is replaced.
//!
//! The process that is replaced stands at the other end of standard input, a Unix socket. It sends its listening
//! sockets with their names; it is told when this process has checked everything that can be checked beside it, and
//! then ends its exchanges and lets go of the state, which has one owner. It says so, or is gone: only then is the state
//! opened here. Once this process serves it says so, and the other one ends; see [`super::successor`].

use std::io;
use std::io::IoSlice;
use std::io::IoSliceMut;
use std::io::Read;
use std::io::Write;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use listenfd::ListenFd;
use rustix::io::FdFlags;
use rustix::net::RecvAncillaryBuffer;
use rustix::net::RecvAncillaryMessage;
use rustix::net::RecvFlags;
use rustix::net::SendAncillaryBuffer;
use rustix::net::SendAncillaryMessage;
use rustix::net::SendFlags;

use super::address::Named;
use crate::config::env::named;

/// The most descriptors that are handed on: one for each address, and one more.
const DESCRIPTORS_MAX: usize = 64;
/// The most bytes of their names.
const NAMES_BYTES_MAX: usize = 16 << 10;
/// How long a process that was told that this one serves may take to end.
const FAREWELL_MAX: Duration = Duration::from_secs(5);

/// What this process says when it is ready to take over. Earlier releases said the first word alone, and nothing later.
pub(super) const PREPARED: &[u8] = b"prepared and will serve";
/// What the other one says when the state is nobody's.
pub(super) const RELEASED: &[u8] = b"released";
/// What this process says once it serves.
pub(super) const SERVING: &[u8] = b"serving";

/// Sockets that were opened for this process, and not yet taken.
#[derive(Default)]
pub(super) struct Inherited {
    sockets: Vec<Named>,
}

/// The process that this one replaces.
pub(super) struct Predecessor {
    line: UnixStream,
}

impl Inherited {
    /// Returns what systemd passes on; nothing where it did not start us.
    pub(super) fn of_environment() -> Self {
        let names = named("LISTEN_FDNAMES").unwrap_or_default();
        let names: Vec<&str> = names.split(':').collect();
        let mut passed = ListenFd::from_env();
        let mut sockets = Vec::new();
        for at in 0..passed.len() {
            let name = names.get(at).copied().unwrap_or_default().to_owned();
            match passed.take_tcp_listener(at) {
                Ok(Some(socket)) => {
                    // Else a process that we start would hold it too.
                    if let Err(error) = rustix::io::fcntl_setfd(&socket, FdFlags::CLOEXEC) {
                        tracing::warn!(name, %error, "a passed socket cannot be kept to this process");
                    }
                    sockets.push(Named { name, socket });
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(name, %error, "a passed descriptor is no listening socket"),
            }
        }
        Self { sockets }
    }

    /// Takes every socket of a name.
    pub(super) fn take_all(&mut self, name: &str) -> Vec<Named> {
        self.sockets.extract_if(.., |named| named.name == name).collect()
    }

    /// Takes the first socket whose name begins with `prefix` and that listens on an address; port 0 is any.
    pub(super) fn take(&mut self, prefix: &str, address: SocketAddr) -> Option<Named> {
        let fits = |socket: &TcpListener| {
            let bound = socket.local_addr().ok();
            bound.is_some_and(|it| it == address || (address.port() == 0 && it.ip() == address.ip()))
        };
        let at = self.sockets.iter().position(|it| it.name.starts_with(prefix) && fits(&it.socket))?;
        Some(self.sockets.remove(at))
    }

    /// Returns sockets that another process has sent.
    pub(super) fn of_descriptors(sent: Vec<(String, OwnedFd)>) -> Self {
        let sockets = sent.into_iter().map(|(name, fd)| Named { name, socket: TcpListener::from(fd) });
        Self { sockets: sockets.collect() }
    }

    /// Returns the names of what nobody took; the sockets are closed.
    pub(super) fn into_names(self) -> Vec<String> {
        self.sockets.into_iter().map(|named| named.name).collect()
    }
}

impl Predecessor {
    /// Takes the sockets of the process at the other end of standard input.
    ///
    /// # Errors
    /// Standard input is no such socket.
    pub(super) fn at_stdin() -> io::Result<(Self, Inherited)> {
        let line = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let sent = receive(&line)?;
        Ok((Self { line }, Inherited::of_descriptors(sent)))
    }

    /// Says that this process is ready to take over, and waits until the state is nobody's.
    ///
    /// # Errors
    /// The other process went before it was told.
    pub(super) fn wait_for_state(&mut self) -> io::Result<()> {
        self.line.write_all(PREPARED)?;
        // A process that ends without a word has let go of everything, too.
        let _ = self.line.read_exact(&mut [0; RELEASED.len()]);
        Ok(())
    }

    /// Says that this process serves, and waits until the other one is gone.
    pub(super) fn say_farewell(mut self) {
        // One of an earlier release is gone by now.
        let told = self.line.set_read_timeout(Some(FAREWELL_MAX)).and_then(|()| self.line.write_all(SERVING));
        if told.is_ok() {
            let _ = io::copy(&mut self.line, &mut io::sink());
        }
    }
}

/// Sends descriptors, with their names, to another process.
pub(super) fn send(line: &UnixStream, named: &[(&str, BorrowedFd<'_>)]) -> io::Result<()> {
    let names: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
    let names = names.join("\n");
    if named.len() > DESCRIPTORS_MAX || names.len() > NAMES_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many sockets"));
    }
    let descriptors: Vec<BorrowedFd<'_>> = named.iter().map(|(_, descriptor)| *descriptor).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    rights.push(SendAncillaryMessage::ScmRights(&descriptors));
    rustix::net::sendmsg(line, &[IoSlice::new(names.as_bytes())], &mut rights, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Takes the descriptors that another process has sent, with their names.
pub(super) fn receive(line: &UnixStream) -> io::Result<Vec<(String, OwnedFd)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let mut names = vec![0; NAMES_BYTES_MAX];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = rustix::net::recvmsg(line, &mut [IoSliceMut::new(&mut names)], &mut rights, flags)?;
    names.truncate(received.bytes);
    let mut descriptors: Vec<OwnedFd> = Vec::new();
    for message in rights.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            descriptors.extend(passed);
        }
    }
    let names = String::from_utf8(names).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(names.lines().map(str::to_owned).zip(descriptors).collect())
}
