//! A socket between a gateway and a server that can be cut: nothing passes then, and nobody is told.

use std::io::Read;
use std::io::Write;
use std::net::Shutdown;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Passes bytes on to a port of this machine.
pub struct Relay {
    /// Where it listens.
    pub port: u16,
    is_cut: Arc<AtomicBool>,
}

impl Relay {
    /// Starts a relay to a port.
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let own = listener.local_addr().expect("a bound socket").port();
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&is_cut);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let cut = Arc::clone(&cut);
                thread::spawn(move || {
                    wait_while_cut(&cut);
                    let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { return };
                    let (Ok(from), Ok(to)) = (client.try_clone(), server.try_clone()) else { return };
                    let back = Arc::clone(&cut);
                    thread::spawn(move || pass(server, client, &back));
                    pass(from, to, &cut);
                });
            }
        });
        Self { port: own, is_cut }
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

fn pass(mut from: TcpStream, mut to: TcpStream, cut: &AtomicBool) {
    let mut buffer = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        wait_while_cut(cut);
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
