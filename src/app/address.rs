//! The sockets to listen on: bound here, before anything else is opened, or taken over from whoever had them.
//!
//! A socket that listens already takes connections into its queue, where they wait until the plane is served: so none
//! is refused between the end of one process and the first answer of the next.

use std::fmt;
use std::net::SocketAddr;
use std::net::TcpListener;

use super::StartError;
use super::inherit::Inherited;

/// What the names of sockets begin with that we bound ourselves, and that are kept from one process to the next.
pub(super) const KEPT: &str = "kept-";

/// A listening socket, and the name by which the next process knows it.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) socket: TcpListener,
}

/// The sockets of one plane.
pub(super) struct Listeners {
    bound: Vec<SocketAddr>,
    sockets: Vec<Named>,
}

impl Listeners {
    /// Returns the sockets of a plane: those that a socket unit named after it, else one for each address, taken over
    /// where there is one, and bound where there is none.
    ///
    /// # Errors
    /// An address is taken.
    pub(super) fn open(
        plane: &'static str,
        addresses: &[SocketAddr],
        inherited: &mut Inherited,
    ) -> Result<Self, StartError> {
        let given = inherited.take_all(plane);
        let sockets = match given.is_empty() {
            false => given,
            true => addresses
                .iter()
                .map(|address| {
                    inherited
                        .take(&format!("{KEPT}{plane}-"), *address)
                        .map_or_else(|| bind(plane, *address), Ok)
                })
                .collect::<Result<_, _>>()?,
        };
        let bound = sockets.iter().filter_map(|named| named.socket.local_addr().ok()).collect();
        Ok(Self { bound, sockets })
    }

    /// Returns the addresses, with their real ports.
    pub(super) fn bound(&self) -> &[SocketAddr] {
        &self.bound
    }

    /// Returns a second handle of each socket, with its address, to serve by.
    ///
    /// # Errors
    /// There are too many open files.
    pub(super) fn to_serve(&self) -> std::io::Result<Vec<(SocketAddr, TcpListener)>> {
        let doubled = self.bound.iter().zip(&self.sockets);
        doubled
            .map(|(address, named)| {
                named.socket.set_nonblocking(true)?;
                Ok((*address, named.socket.try_clone()?))
            })
            .collect()
    }

    /// Returns the sockets, to be handed on.
    pub(super) fn into_sockets(self) -> Vec<Named> {
        self.sockets
    }
}

impl fmt::Display for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.bound.iter().map(ToString::to_string).collect();
        f.write_str(&all.join(", "))
    }
}

fn bind(plane: &str, address: SocketAddr) -> Result<Named, StartError> {
    let socket = listen(address)?;
    let at = socket.local_addr().unwrap_or(address);
    // A colon parts names in the list that systemd passes on.
    Ok(Named { name: format!("{KEPT}{plane}-{}", at.to_string().replace(':', "_")), socket })
}

/// Listens at once.
///
/// # Errors
/// The address is taken.
pub fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).map_err(|source| StartError::Listen { address, source })
}
