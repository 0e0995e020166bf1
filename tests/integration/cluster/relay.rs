//! A socket between a gateway and a server that can be cut: nothing passes then, and nobody is told.

use std::io::Read;
use std::io::Write;
use std::net::Shutdown;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Passes bytes on to a port of this machine.
pub struct Relay {
    /// Where it listens.
    pub port: u16,
    is_cut: Arc<AtomicBool>,
    connections: Arc<AtomicUsize>,
}

impl Relay {
    /// Starts a relay to a port.
    pub fn to(port: u16) -> Self {
        Self::to_one_without(port, &[])
    }

    /// Starts a relay to a server that does not know some words: their first letters reach it as others.
    pub fn to_one_without(port: u16, words: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let own = listener.local_addr().expect("a bound socket").port();
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&is_cut);
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let cut = Arc::clone(&cut);
                count.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || {
                    wait_while_cut(&cut);
                    let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { return };
                    let (Ok(from), Ok(to)) = (client.try_clone(), server.try_clone()) else { return };
                    let back = Arc::clone(&cut);
                    thread::spawn(move || pass(server, client, &back, &[]));
                    pass(from, to, &cut, words);
                });
            }
        });
        Self { port: own, is_cut, connections }
    }

    /// Returns how many connections were opened so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Lets nothing pass any more, in either direction, and closes nothing.
    pub fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
    }

    /// Lets everything pass again, what waited first.
    pub fn mend(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, cut: &AtomicBool, without: &[&str]) {
    let mut buffer = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        wait_while_cut(cut);
        for word in without {
            let places = buffer[..count].windows(word.len()).enumerate();
            let found: Vec<usize> =
                places.filter(|(_, bytes)| *bytes == word.as_bytes()).map(|(at, _)| at).collect();
            found.into_iter().for_each(|at| buffer[at] = b'_');
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

fn wait_while_cut(cut: &AtomicBool) {
    while cut.load(Ordering::SeqCst) {
        thread::sleep(LOOK_EVERY);
    }
}
