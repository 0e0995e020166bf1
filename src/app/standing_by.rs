//! What this program does while another process takes over from it: it has let go of the state, holds the sockets, and
//! shows the service manager that it is there. Once the other one serves it ends; where that does not come to serve, it
//! takes the state up again, and serves on.

use std::io;
use std::os::unix::net::UnixStream as Line;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::runtime::Builder;

use super::Wanted;
use super::ending::Asked;
use super::ending::Signals;
use super::inherit::Inherited;
use super::inherit::SERVING;
use super::manager::Manager;
use super::successor;
use super::successor::Successor;

/// How long the next process may take from there on to serve: to reach its database, to open the state, to compile the
/// rules.
const SERVE_MAX: Duration = Duration::from_secs(180);

/// How the waiting ended.
pub(super) enum Waited {
    /// Another process serves, or this one was asked to end.
    Over,
    /// Nobody serves: this process is to, with what it has kept where it has stood by.
    ToServe(Option<Alone>),
}

/// What this process begins again with.
pub(super) struct Alone {
    pub(super) sockets: Inherited,
    pub(super) why: Unserved,
}

/// Why the other process does not serve.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(super) enum Unserved {
    /// It is gone.
    #[error("the next process ended before it served; its log says why")]
    Ended,
    /// It took too long, and was ended.
    #[error("the next process did not serve in time, and was ended")]
    Late,
}

enum Heard {
    Serving,
    Nothing(Unserved),
    Asked,
}

/// Waits until the process that takes over serves, or does not, if this one stands by.
///
/// # Errors
/// Standard input is not what the process has left for itself, or there are no threads to be had.
pub(super) fn wait(wanted: &Wanted) -> io::Result<Waited> {
    if !wanted.stand_by {
        return Ok(Waited::ToServe(None));
    }
    let (successor, sockets) = Successor::at_stdin()?;
    let manager = Manager::of_environment();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    // A line that cannot be listened to tells as little as one that has closed.
    let heard = runtime.block_on(listen(&successor, &manager)).unwrap_or(Heard::Nothing(Unserved::Ended));
    Ok(match heard {
        Heard::Serving => {
            manager.handed_over(successor.process());
            Waited::Over
        }
        Heard::Asked => {
            successor.ask_to_end();
            Waited::Over
        }
        Heard::Nothing(why) => {
            successor.end();
            successor::take_name(wanted.invocation.as_ref());
            Waited::ToServe(Some(Alone { sockets, why }))
        }
    })
}

async fn listen(successor: &Successor, manager: &Manager) -> io::Result<Heard> {
    let mut signals = Signals::listen()?;
    let line = successor.line()?;
    successor.release()?;
    let mut hearing = Box::pin(hear(line));
    let limit = tokio::time::sleep(SERVE_MAX);
    tokio::pin!(limit);
    let mut beats = tokio::time::interval(manager.beat_every());
    loop {
        tokio::select! {
            heard = &mut hearing => return Ok(match heard {
                Ok(()) => Heard::Serving,
                Err(_) => Heard::Nothing(Unserved::Ended),
            }),
            () = &mut limit => return Ok(Heard::Nothing(Unserved::Late)),
            asked = signals.next() => match asked {
                Asked::ToEnd | Asked::AtOnce => return Ok(Heard::Asked),
                // One is under way.
                Asked::ForAnother => {}
            },
            _ = beats.tick() => manager.beat(),
        }
    }
}

/// Waits for the word; whatever else comes is the line's end.
async fn hear(line: Line) -> io::Result<()> {
    line.set_nonblocking(true)?;
    let mut word = [0; SERVING.len()];
    UnixStream::from_std(line)?.read_exact(&mut word).await?;
    if word == SERVING { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}
