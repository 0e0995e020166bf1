//! Asking Redis, one round of questions after the other.
//!
//! One connection, made anew where it has ended. A round takes no longer than the server's time-out, whatever has to come
//! before it: a connection, a password, the script, a node of a cluster that sends us on to another one. A server that is
//! known to be away is asked nothing, by nobody, until whoever noticed it first has [found](Rounds::found) it again; one
//! that turned us away twice in a row is left alone for a while.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::timeout;

use super::limits::RedisServer;
use super::reach::Redirect;
use super::redis::Answer;
use super::redis::Connection;
use super::redis::RedisUrl;

/// The codes of a server that another one at its address may take over from.
const ELSEWHERE: [&str; 4] = ["READONLY", "LOADING", "MASTERDOWN", CLUSTER_DOWN];
/// The code of a node of a cluster that has nobody for our keys, or cannot tell who it is.
const CLUSTER_DOWN: &str = "CLUSTERDOWN";
/// The code of a server that has lost our script.
const NO_SCRIPT: &str = "NOSCRIPT";
/// A key of the slot of a cluster that has everything which is shared, by its hash tag.
const SHARED: &str = "{portcullis}:budgets";
/// How often in a row nodes of a cluster may send us on.
const HOPS_MAX: usize = 5;
/// How much of why it refuses is told, in characters.
const REASON_CHARS_MAX: usize = 200;
/// How long to wait before Redis is tried again.
pub(super) const PAUSE: Duration = Duration::from_millis(500);

/// One thing said to Redis, word by word.
pub(super) type Command = Vec<Vec<u8>>;

/// Asks a server.
pub(super) struct Rounds {
    server: RedisServer,
    /// What is not shared while it is away.
    what: &'static str,
    /// What is to be run there; empty: its own commands do.
    script: &'static str,
    connection: Option<Open>,
    /// Where it leads, or where the last one was to lead.
    place: RedisUrl,
    /// Looks for the server, where it was noticed here that it is away.
    search: Option<Search>,
    /// Since when it is left alone, because it turned us away.
    left_alone: Option<Duration>,
    was_turned_away: bool,
}

/// A connection, where it leads, and what our script is called there.
struct Open {
    connection: Connection,
    place: RedisUrl,
    script: Vec<u8>,
}

type Search = Pin<Box<dyn Future<Output = Open> + Send>>;

impl Rounds {
    /// Returns what asks a server where `script` is to be run, or nothing is; `what` is not shared while it is away.
    pub(super) fn new(server: RedisServer, what: &'static str, script: &'static str) -> Self {
        let (connection, search, left_alone) = (None, None, None);
        let place = server.place();
        Self { server, what, script, connection, place, search, left_alone, was_turned_away: false }
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
        let asked = timeout(self.server.timeout, self.ask_and_follow(&commands)).await;
        match asked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(answers) => {
                let is_sent_on = |answer| Redirect::of(answer, &self.place).is_some();
                let is_turned_away =
                    answers.iter().any(|answer| is_refused(answer, &ELSEWHERE) || is_sent_on(answer));
                if is_turned_away {
                    // The next round asks whoever answers at its address then, or at the other one.
                    self.connection = None;
                    self.server.reach.fails(&self.place);
                }
                // A second time in a row, nobody else does yet.
                self.left_alone = (is_turned_away && self.was_turned_away).then_some(now);
                self.was_turned_away = is_turned_away;
                self.tell_refusal(&answers);
                Some(answers)
            }
            Err(error) => {
                self.lost(&error);
                None
            }
        }
    }

    /// Says once that a server which answers refuses what it is asked, its memory being full or its password another, and
    /// once that it does no more.
    fn tell_refusal(&self, answers: &[Answer]) {
        let reason = answers.iter().find_map(|answer| match answer {
            Answer::Refused(reason) => Some(reason.chars().take(REASON_CHARS_MAX).collect::<String>()),
            Answer::Text(_) | Answer::Number(_) | Answer::Nothing => None,
        });
        match reason {
            Some(reason) if self.server.reach.refuses(self.what, true) => {
                tracing::error!(reason, what = self.what, "Redis answers, and refuses: this is not shared");
            }
            None if !answers.is_empty() && self.server.reach.refuses(self.what, false) => {
                tracing::info!(what = self.what, "Redis takes what it is asked again");
            }
            Some(_) | None => {}
        }
    }

    /// Lets everybody know that the server is away; whoever is first looks for it from now on.
    fn lost(&mut self, error: &io::Error) {
        self.connection = None;
        self.server.metrics.shared_limits("away", 1);
        self.server.reach.fails(&self.place);
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
        self.place.clone_from(&open.place);
        (self.search, self.connection) = (None, Some(open));
        self.server.reach.found();
        tracing::info!(what = self.what, "Redis is back");
    }

    /// Asks; once more whoever the first one sends us on to, with what it did not answer, and so on.
    async fn ask_and_follow(
        &mut self,
        commands: &(impl Fn(&[u8]) -> Vec<Command> + Sync),
    ) -> io::Result<Vec<Answer>> {
        let mut answers = self.ask_at_most_twice(commands).await?;
        let mut from = self.place.clone();
        for _ in 0..HOPS_MAX {
            let Some(redirect) = answers.iter().find_map(|answer| Redirect::of(answer, &from)) else { break };
            let is_sent_on = |answer: &Answer| Redirect::of(answer, &from).as_ref() == Some(&redirect);
            let unanswered: Vec<usize> =
                (0..).zip(&answers).filter(|(_, answer)| is_sent_on(answer)).map(|(at, _)| at).collect();
            let some = |script: &[u8]| {
                let all = commands(script);
                unanswered.iter().filter_map(|at| all.get(*at).cloned()).collect()
            };
            let more = match &redirect {
                Redirect::Moved(to) => {
                    tracing::info!(?to, what = self.what, "a node of the Redis cluster sends us on");
                    self.connection = None;
                    self.server.reach.moved(to);
                    self.ask_once(&some).await?
                }
                Redirect::Ask(to) => ask_by_the_way(&self.server, to, self.script, &some).await?,
            };
            unanswered.into_iter().zip(more).for_each(|(at, answer)| answers[at] = answer);
            let (Redirect::Moved(to) | Redirect::Ask(to)) = redirect;
            from = to;
        }
        Ok(answers)
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
            self.place = self.server.place();
            self.connection = Some(connect(&self.server, &self.place, self.script).await?);
        }
        let Some(open) = &mut self.connection else { return Err(io::ErrorKind::NotConnected.into()) };
        open.connection.ask_all(&commands(&open.script)).await
    }
}

/// Asks whoever is taking keys over, which takes a question only from those who were sent on.
async fn ask_by_the_way(
    server: &RedisServer,
    to: &RedisUrl,
    script: &str,
    commands: &(impl Fn(&[u8]) -> Vec<Command> + Sync),
) -> io::Result<Vec<Answer>> {
    let mut open = connect(server, to, script).await?;
    let asking = || vec![b"ASKING".to_vec()];
    let all: Vec<Command> =
        commands(&open.script).into_iter().flat_map(|command| [asking(), command]).collect();
    let answers = open.connection.ask_all(&all).await?;
    Ok(answers.into_iter().skip(1).step_by(2).collect())
}

/// Tries again and again until a server answers, once at a time.
async fn search(server: RedisServer, script: &'static str) -> Open {
    loop {
        tokio::time::sleep(PAUSE).await;
        let place = server.place();
        if let Ok(Ok(Some(open))) = timeout(server.timeout, look_at(&server, &place, script)).await {
            return open;
        }
        server.reach.fails(&place);
    }
}

/// Returns a connection to who has what is shared, found from a place; `None`: nobody has, for now.
async fn look_at(server: &RedisServer, place: &RedisUrl, script: &str) -> io::Result<Option<Open>> {
    let mut open = connect(server, place, script).await?;
    for _ in 0..HOPS_MAX {
        let answer = open.connection.ask(&[b"EXISTS".to_vec(), SHARED.into()]).await?;
        let Some(Redirect::Moved(to)) = Redirect::of(&answer, &open.place) else {
            return Ok(Some(open).filter(|_| !is_refused(&answer, &[CLUSTER_DOWN])));
        };
        server.reach.moved(&to);
        open = connect(server, &to, script).await?;
    }
    Ok(None)
}

async fn connect(server: &RedisServer, place: &RedisUrl, script: &str) -> io::Result<Open> {
    let mut connection = server.open(place).await?;
    let place = place.clone();
    if script.is_empty() {
        return Ok(Open { connection, place, script: Vec::new() });
    }
    match connection.ask(&[b"SCRIPT".to_vec(), b"LOAD".to_vec(), script.into()]).await? {
        Answer::Text(script) => Ok(Open { connection, place, script }),
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
mod tests;
