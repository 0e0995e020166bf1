//! Addresses to listen on, port 0 included: the port is taken before Pingora binds it, and held.

use std::fmt;
use std::net::SocketAddr;

use tokio::net::TcpSocket;

use super::StartError;

/// The addresses of one plane, with real ports.
pub struct Reserved {
    bound: Vec<SocketAddr>,
    /// Bound and never listening: nobody else gets these ports while Pingora binds them beside us.
    held: Vec<TcpSocket>,
}

impl Reserved {
    /// Finds a free port for every address that asks for any.
    ///
    /// # Errors
    /// No port is free.
    pub fn all(addresses: &[SocketAddr]) -> Result<Self, StartError> {
        let mut reserved = Self { bound: Vec::new(), held: Vec::new() };
        for address in addresses {
            reserved.add(*address).map_err(|source| StartError::Listen { address: *address, source })?;
        }
        Ok(reserved)
    }

    fn add(&mut self, address: SocketAddr) -> std::io::Result<()> {
        if address.port() != 0 {
            // A port that is taken is told now, in words, not by a panic in a worker.
            drop(std::net::TcpListener::bind(address)?);
            self.bound.push(address);
            return Ok(());
        }
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseport(true)?;
        socket.bind(address)?;
        self.bound.push(socket.local_addr()?);
        self.held.push(socket);
        Ok(())
    }

    /// Returns the addresses with their real ports.
    pub fn bound(&self) -> &[SocketAddr] {
        &self.bound
    }

    /// Tells whether a port is held by us, so that it must be shared.
    pub fn holds(&self, address: &SocketAddr) -> bool {
        self.held.iter().any(|socket| socket.local_addr().is_ok_and(|held| held == *address))
    }
}

impl fmt::Display for Reserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.bound.iter().map(ToString::to_string).collect();
        f.write_str(&all.join(", "))
    }
}

/// Listens at once.
///
/// # Errors
/// The address is taken.
pub fn listen(address: SocketAddr) -> Result<std::net::TcpListener, StartError> {
    std::net::TcpListener::bind(address).map_err(|source| StartError::Listen { address, source })
}
