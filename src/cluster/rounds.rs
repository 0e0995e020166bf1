//! Asking Redis, one round of questions after the other.
//!
//! One connection, made anew where it has ended. A round takes no longer than the server's time-out, whatever has to come
//! before it: a connection, a password, the script. A server that is known to be away is asked nothing, by nobody, until
//! whoever noticed it first has [found](Rounds::found) it again; one that turned us away twice in a row is left alone for
//! a while.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::timeout;

use super::limits::RedisServer;
use super::redis::Answer;
use super::redis::Connection;

/// The codes of a server that another one at its address may take over from.
const ELSEWHERE: [&str; 3] = ["READONLY", "LOADING", "MASTERDOWN"];
/// The code of a server that has lost our script.
const NO_SCRIPT: &str = "NOSCRIPT";
/// How long to wait before Redis is tried again.
pub(super) const PAUSE: Duration = Duration::from_millis(500);

/// One thing said to Redis, word by word.
pub(super) type Command = Vec<Vec<u8>>;

/// Whether a server is known to be away, to all who ask it.
#[derive(Debug, Default)]
pub struct Reach {
    is_away: AtomicBool,
}

/// Asks a server.
pub(super) struct Rounds {
    server: RedisServer,
    /// What is not shared while it is away.
    what: &'static str,
    /// What is to be run there; empty: its own commands do.
    script: &'static str,
    connection: Option<Open>,
    /// Looks for the server, where it was noticed here that it is away.
    search: Option<Search>,
    /// Since when it is left alone, because it turned us away.
    left_alone: Option<Duration>,
    was_turned_away: bool,
}

/// A connection, and what our script is called there.
struct Open {
    connection: Connection,
    script: Vec<u8>,
}

type Search = Pin<Box<dyn Future<Output = Open> + Send>>;

impl Reach {
    /// Tells whether nobody needs to ask.
    pub(super) fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Relaxed)
    }

    /// Notes that it is away; tells whether that is news.
    pub(super) fn lost(&self) -> bool {
        !self.is_away.swap(true, Ordering::Relaxed)
    }

    fn found(&self) {
        self.is_away.store(false, Ordering::Relaxed);
    }
}

impl Rounds {
    /// Returns what asks a server where `script` is to be run, or nothing is; `what` is not shared while it is away.
    pub(super) fn new(server: RedisServer, what: &'static str, script: &'static str) -> Self {
        let (connection, search, left_alone) = (None, None, None);
        Self { server, what, script, connection, search, left_alone, was_turned_away: false }
    }

    /// Asks in one breath; `commands` are made with the name of the script. `None`: nobody can tell.
    pub(super) async fn ask(
        &mut self,
        commands: impl Fn(&[u8]) -> Vec<Command> + Sync,
    ) -> Option<Vec<Answer>> {
        let now = self.server.clock.monotonic();
        let is_left_alone = self.left_alone.is_some_and(|since| now.saturating_sub(since) < PAUSE);
        if self.server.reach.is_away() {
            // What it was may have ended in the meantime.
            self.connection = None;
            return None;
        }
        if is_left_alone {
            return None;
        }
        let asked = timeout(self.server.timeout, self.ask_at_most_twice(&commands)).await;
        match asked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(answers) => {
                let is_turned_away = answers.iter().any(|answer| is_refused(answer, &ELSEWHERE));
                if is_turned_away {
                    // The next round asks whoever answers at its address then.
                    self.connection = None;
                }
                // A second time in a row, nobody else does yet.
                self.left_alone = (is_turned_away && self.was_turned_away).then_some(now);
                self.was_turned_away = is_turned_away;
                Some(answers)
            }
            Err(error) => {
                self.lost(&error);
                None
            }
        }
    }

    /// Lets everybody know that the server is away; whoever is first looks for it from now on.
    fn lost(&mut self, error: &io::Error) {
        self.connection = None;
        self.server.metrics.shared_limits("away", 1);
        if self.server.reach.lost() {
            tracing::error!(%error, what = self.what, "Redis is away: this is not shared, nor anything else");
            self.search = Some(Box::pin(search(self.server.clone(), self.script)));
        }
    }

    /// Comes back when the server was found that was missed here, and never where none was. Who stops waiting goes on
    /// with the same search the next time.
    pub(super) async fn found(&mut self) {
        let Some(search) = &mut self.search else { return std::future::pending().await };
        let open = search.as_mut().await;
        (self.search, self.connection) = (None, Some(open));
        self.server.reach.found();
        tracing::info!(what = self.what, "Redis is back");
    }

    /// Asks; once more over a new connection where the one that was kept has ended meanwhile, or does not know the script
    /// any more. Whatever is asked here may be asked twice.
    async fn ask_at_most_twice(
        &mut self,
        commands: &(impl Fn(&[u8]) -> Vec<Command> + Sync),
    ) -> io::Result<Vec<Answer>> {
        let was_open = self.connection.is_some();
        let asked = self.ask_once(commands).await;
        let is_worth_another = match &asked {
            Ok(answers) => answers.iter().any(|answer| is_refused(answer, &[NO_SCRIPT])),
            Err(error) => error.kind() != io::ErrorKind::TimedOut,
        };
        if was_open && is_worth_another {
            self.connection = None;
            return self.ask_once(commands).await;
        }
        asked
    }

    async fn ask_once(
        &mut self,
        commands: &(impl Fn(&[u8]) -> Vec<Command> + Sync),
    ) -> io::Result<Vec<Answer>> {
        if self.connection.is_none() {
            self.connection = Some(connect(&self.server, self.script).await?);
        }
        let Some(open) = &mut self.connection else { return Err(io::ErrorKind::NotConnected.into()) };
        open.connection.ask_all(&commands(&open.script)).await
    }
}

/// Tries again and again until a server answers, once at a time.
async fn search(server: RedisServer, script: &'static str) -> Open {
    loop {
        tokio::time::sleep(PAUSE).await;
        let trying = async {
            let mut open = connect(&server, script).await?;
            open.connection.ask(&[b"PING".to_vec()]).await?;
            Ok::<_, io::Error>(open)
        };
        if let Ok(Ok(open)) = timeout(server.timeout, trying).await {
            return open;
        }
    }
}

async fn connect(server: &RedisServer, script: &str) -> io::Result<Open> {
    let mut connection = server.open().await?;
    if script.is_empty() {
        return Ok(Open { connection, script: Vec::new() });
    }
    match connection.ask(&[b"SCRIPT".to_vec(), b"LOAD".to_vec(), script.into()]).await? {
        Answer::Text(script) => Ok(Open { connection, script }),
        Answer::Refused(reason) => Err(io::Error::other(reason)),
        Answer::Number(_) | Answer::Nothing => Err(io::Error::other("this is not Redis")),
    }
}

/// Tells whether an answer refuses for one of these reasons. Before Redis 7 one that ended a script stands within the
/// answer, as `ERR Error running script (call to f_…): @user_script:9: -READONLY You can't …`.
fn is_refused(answer: &Answer, codes: &[&str]) -> bool {
    let Answer::Refused(reason) = answer else { return false };
    let (code, rest) = reason.split_once(' ').unwrap_or((reason, ""));
    codes.contains(&code)
        || (code == "ERR"
            && rest.split(' ').any(|word| word.strip_prefix('-').is_some_and(|it| codes.contains(&it))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_known_within_a_script_too() {
        let old = "ERR Error running script (call to f_9c): @user_script:9: @user_script: 9: \
                   -READONLY You can't write against a read only replica.";
        let new = "READONLY You can't write against a read only replica. script: 9c, on @user_script:9.";
        for (reason, expected) in
            [(old, true), (new, true), ("ERR -NOTREADONLY", false), ("ERR READONLY", false)]
        {
            assert_eq!(is_refused(&Answer::Refused(reason.to_owned()), &ELSEWHERE), expected, "{reason}");
        }
    }
}
