//! Sockets that another process opened for this one: systemd (`LISTEN_FDS`), or the process that is replaced.
//!
//! The process that is replaced stands at the other end of standard input, a Unix socket. It sends its listening
//! sockets with their names; it is told when this process has checked everything that can be checked beside it, and
//! then ends its exchanges and itself. Its end closes the socket: only then is the state opened, which has one owner.

use std::io;
use std::io::IoSlice;
use std::io::IoSliceMut;
use std::io::Read;
use std::io::Write;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

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

/// The most sockets that are handed on; there is one for each address.
const SOCKETS_MAX: usize = 64;
/// The most bytes of their names.
const NAMES_BYTES_MAX: usize = 16 << 10;
const PREPARED: &[u8] = b"prepared";

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
        let sockets = receive(&line)?;
        Ok((Self { line }, Inherited { sockets }))
    }

    /// Says that this process is ready to take over, and waits until the other one is gone.
    ///
    /// # Errors
    /// It went before it was told.
    pub(super) fn wait_for_its_end(mut self) -> io::Result<()> {
        self.line.write_all(PREPARED)?;
        // Nothing is sent any more: it closes when the process ends, however it does.
        let _ = io::copy(&mut self.line, &mut io::sink());
        Ok(())
    }
}

/// Sends sockets to the process that takes over.
pub(super) fn send(line: &UnixStream, sockets: &[Named]) -> io::Result<()> {
    let names: Vec<&str> = sockets.iter().map(|named| named.name.as_str()).collect();
    let names = names.join("\n");
    if sockets.len() > SOCKETS_MAX || names.len() > NAMES_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many sockets"));
    }
    let descriptors: Vec<_> = sockets.iter().map(|named| named.socket.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    rights.push(SendAncillaryMessage::ScmRights(&descriptors));
    rustix::net::sendmsg(line, &[IoSlice::new(names.as_bytes())], &mut rights, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits until the process that takes over says that it is ready to.
///
/// # Errors
/// It ended, or time is up.
pub(super) fn wait_until_prepared(mut line: &UnixStream) -> io::Result<()> {
    let mut word = [0; PREPARED.len()];
    line.read_exact(&mut word)?;
    if word == PREPARED { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

fn receive(line: &UnixStream) -> io::Result<Vec<Named>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
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
    let names = names.lines().map(str::to_owned);
    Ok(names.zip(descriptors).map(|(name, fd)| Named { name, socket: TcpListener::from(fd) }).collect())
}
