//! Budgets that all nodes decide about together.
//!
//! In: what exchanges want to reserve, and which keys' standing changed here. Out: questions, and what this node knows of
//! a key; whoever shares budgets takes both from here. What is told is how things stand, never what was added: telling it
//! twice counts nothing twice, and whoever forgot it is told all of it again. While nobody can answer, the deployment's
//! configuration says what becomes of questions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::mpsc;
use tokio::sync::oneshot;

use super::Allowance;
use super::Amount;
use super::Budget;
use super::BudgetFault;
use super::account::exhausted;
use super::calendar::Calendar;
use super::reservation::Reservation;
use crate::access::patience::Patience;

/// How many questions wait at the most; more are answered as if nobody could.
pub const QUESTIONS_MAX: usize = 4096;

/// What a node knows of a key's budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What the key may use.
    pub budget: Budget,
    /// Which budget of the key that is; 0: it is not known.
    pub grant: u64,
    /// The day it is here, counted from 1970.
    pub day: i64,
    /// The month it is here: twelve times the year, and the month from 0.
    pub month: i64,
    /// What the store says that all nodes used, in the day and in the month.
    pub stored: [Amount; 2],
    /// What was used here and is not in the store.
    pub fresh: [Amount; 2],
    /// What is reserved here.
    pub reserved: Amount,
}

/// What all nodes say to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// It is reserved.
    Granted,
    /// These limits are used up.
    Exhausted(Vec<Allowance>),
    /// What is left is reserved for exchanges under way.
    Reserved,
    /// Nobody can tell, and the node goes by what it knows itself.
    Unknown,
    /// Nobody can tell, and what cannot be told is refused.
    Refused,
}

/// Asks for one exchange whether it may reserve another amount than it holds.
pub struct Question {
    key: Arc<str>,
    /// What the exchange has; whoever decides first takes it: all nodes, or the exchange itself after it has waited.
    reservation: Arc<Mutex<Option<Reservation>>>,
    held: Amount,
    wanted: Amount,
    now: Timestamp,
    answer: oneshot::Sender<Decided>,
}

/// What an exchange holds then, and why that is not what it wanted.
type Decided = (Reservation, Result<(), BudgetFault>);

/// Asks.
pub(super) struct Asking {
    questions: mpsc::Sender<Question>,
    alone: Told,
    /// How long a request waits, all in all.
    in_all: Duration,
}

/// The keys whose standing changed here since it was last told, and the clock that all nodes go by.
#[derive(Default)]
pub struct Changed {
    is_told: AtomicBool,
    keys: Mutex<BTreeSet<Arc<str>>>,
    word: Notify,
    calendar: Calendar,
}

impl Standing {
    /// Tells whether the others know all of it from the store.
    pub fn is_at_rest(&self) -> bool {
        self.fresh == [Amount::default(); 2] && self.reserved == Amount::default()
    }
}

impl Question {
    /// Returns the id of the key that pays.
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// Returns what the exchange holds until it is answered.
    pub fn held(&self) -> Amount {
        self.held
    }

    /// Tells whether somebody still waits for the answer.
    pub fn is_open(&self) -> bool {
        !self.answer.is_closed() && self.reservation.lock().is_some()
    }

    /// Returns what it wants to hold instead.
    pub fn wanted(&self) -> Amount {
        self.wanted
    }

    /// Returns what is known here of the key's budget; `None`: nobody waits any more.
    pub fn standing(&self, now: Timestamp) -> Option<Standing> {
        self.reservation.lock().as_ref().map(|held| held.standing(now))
    }

    /// Answers it. What was granted to somebody who has gone is given back, and to somebody who has waited for too long
    /// it is as if it had not been.
    pub fn answer(self, told: Told) {
        let Some(held) = self.reservation.lock().take() else { return };
        let _ = self.answer.send(decided(held, (self.wanted, self.now), told));
    }
}

impl Asking {
    /// Returns what asks, and where its questions come out; a request that has waited for so long, all in all,
    /// is answered with `alone`.
    pub(super) fn channel(alone: Told, in_all: Duration) -> (Self, mpsc::Receiver<Question>) {
        let (questions, asked) = mpsc::channel(QUESTIONS_MAX);
        (Self { questions, alone, in_all }, asked)
    }

    /// Asks for one exchange.
    pub(super) async fn ask(
        &self,
        held: Reservation,
        (wanted, now): (Amount, Timestamp),
        patience: &Patience,
    ) -> Decided {
        let (spare, key, amount) = (held.beside(), Arc::clone(held.key()), held.amount());
        let (answer, mut answered) = oneshot::channel();
        let reservation = Arc::new(Mutex::new(Some(held)));
        let own = Arc::clone(&reservation);
        let question = Question { key, reservation, held: amount, wanted, now, answer };
        if self.questions.try_send(question).is_ok()
            && let Some(Ok(decided)) = patience.wait(self.in_all, &mut answered).await
        {
            return decided;
        }
        let alone = |held| decided(held, (wanted, now), self.alone.clone());
        let held = own.lock().take();
        match held {
            Some(held) => alone(held),
            // It was decided at this moment. Whoever did may have ended; what was held until then is given back.
            None => answered.await.unwrap_or_else(|_| alone(spare)),
        }
    }
}

impl Changed {
    /// Lets changes be noted from now on: somebody tells them.
    pub(super) fn begin(&self) {
        self.is_told.store(true, Ordering::Relaxed);
    }

    pub(super) fn note(&self, key: &Arc<str>) {
        if self.is_told.load(Ordering::Relaxed) {
            self.keys.lock().insert(Arc::clone(key));
            self.word.notify_one();
        }
    }

    /// Waits until there is something to tell.
    pub async fn wait(&self) {
        while self.keys.lock().is_empty() {
            self.word.notified().await;
        }
    }

    /// Returns by whose clock days begin.
    pub fn calendar(&self) -> &Calendar {
        &self.calendar
    }

    /// Returns the keys, as told now.
    pub fn take(&self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.keys.lock())
    }
}

fn decided(mut held: Reservation, (wanted, now): (Amount, Timestamp), told: Told) -> Decided {
    let outcome = match told {
        Told::Granted => {
            held.grant(wanted);
            Ok(())
        }
        Told::Exhausted(limits) => Err(exhausted(limits.into_iter(), now).unwrap_or(BudgetFault::Away)),
        Told::Reserved => Err(BudgetFault::Reserved),
        Told::Unknown => held.change(wanted, now),
        // Who wants nothing needs nobody's leave: what is left here was looked at before.
        Told::Refused if wanted == Amount::default() => held.change(wanted, now),
        Told::Refused => Err(BudgetFault::Away),
    };
    (held, outcome)
}
