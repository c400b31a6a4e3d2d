//! Signs of life on the connections of the master: answers pings for the main loop, and notices a node that gives none.
//!
//! Pings of nodes are answered at certain times only, on all connections together. Nodes that were answered together ask
//! together the next time, so the master wakes for many of them at a time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use limo_proto::{Alive, Beat, ConnectionError, Frame, Heartbeat, Reader, Received, Sign, SignWriter};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, MissedTickBehavior};

use crate::room::Room;

/// Most signs that wait to be sent: a peer that asks more often than it reads gets fewer answers.
const SIGNS: usize = 4;

/// Number of times in a heartbeat at which pings are answered, and silent nodes looked at.
const SWEEPS: u32 = 25;

/// Gives the signs of life of all connections, and awaits those of nodes.
#[derive(Debug, Clone)]
pub struct Signs {
    pub alive: Alive,
    /// The connections on which a ping waits for its answer.
    asked: Arc<Mutex<Vec<Arc<Overseen>>>>,
    watched: Arc<Mutex<Watched>>,
}

/// The connections on which signs of life are awaited, by when to look at them.
#[derive(Debug, Default)]
struct Watched {
    lines: BTreeMap<(Instant, u64), Weak<Overseen>>,
    next: u64,
}

impl Watched {
    fn add(&mut self, due: Instant, line: Weak<Overseen>) {
        self.lines.insert((due, self.next), line);
        self.next += 1;
    }
}

/// A connection, as the task that sweeps sees it.
#[derive(Debug)]
struct Overseen {
    /// Of a peer that must give signs of life.
    beats: Option<Mutex<Heartbeat>>,
    /// To be looked at: nothing was heard for long.
    silent: Notify,
    /// The last ping.
    number: AtomicU64,
    waits: AtomicBool,
    at_once: SignWriter,
    /// To the writer, where it writes.
    sign: Sender<Sign>,
}

impl Overseen {
    fn say(&self, sign: Sign) {
        if !self.at_once.write(sign) {
            let _ = self.sign.try_send(sign);
        }
    }

    fn with_beats<T>(&self, of: impl FnOnce(&mut Heartbeat) -> T) -> Option<T> {
        self.beats.as_ref().map(|beats| of(&mut beats.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Signs {
    pub fn new(alive: Alive) -> Self {
        Self { alive, asked: Arc::default(), watched: Arc::default() }
    }

    /// Answers pings, and looks after silent nodes, for as long as the master runs.
    pub async fn sweep(self) {
        let mut sweeps = tokio::time::interval(self.alive.every / SWEEPS);
        sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            sweeps.tick().await;
            self.answer();
            self.look_after_silent(Instant::now());
        }
    }

    fn answer(&self) {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner));
        // Nothing is said for a loop that is stuck.
        let is_stuck = self.alive.pulse.is_stuck(Instant::now());
        for line in asked {
            line.waits.store(false, Ordering::Relaxed);
            if !is_stuck {
                line.say(Sign::Pong(line.number.load(Ordering::Relaxed)));
            }
        }
    }

    /// Most lines were heard of since it was said when to look at them, and cost no more than this look.
    fn look_after_silent(&self, now: Instant) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(first) = watched.lines.first_entry().filter(|first| first.key().0 <= now) {
            let line = first.remove();
            let Some(due) = line.upgrade().and_then(|line| {
                let due = line.with_beats(|beats| beats.due())?;
                if due <= now {
                    line.silent.notify_one();
                }
                Some(due)
            }) else {
                continue;
            };
            // Its own task says what is due now.
            watched.add(due.max(now + self.alive.every / SWEEPS), line);
        }
    }
}

/// The signs of life of one connection.
pub struct SignsOfLife {
    signs: Signs,
    line: Arc<Overseen>,
}

impl SignsOfLife {
    /// With what its writer has to send. A peer that is `watched` must give signs of life itself.
    pub fn new(signs: Signs, at_once: SignWriter, watched: bool) -> (Self, Receiver<Sign>) {
        let (sign, to_send) = channel(SIGNS);
        let beats = watched.then(|| signs.alive.listener(Instant::now()));
        let due = beats.as_ref().map(Heartbeat::due);
        let (number, waits) = (AtomicU64::new(0), AtomicBool::new(false));
        let (beats, silent) = (beats.map(Mutex::new), Notify::new());
        let line = Arc::new(Overseen { beats, silent, number, waits, at_once, sign });
        if let Some(due) = due {
            signs.watched.lock().unwrap_or_else(PoisonError::into_inner).add(due, Arc::downgrade(&line));
        }
        (Self { signs, line }, to_send)
    }

    /// The next frame; where the peer is dead, that is an error. Safe to cancel.
    pub async fn receive<In: DeserializeOwned>(
        &mut self,
        (reader, room): (&mut Reader<In>, &mut Room),
    ) -> Result<Option<Frame<In>>, ConnectionError> {
        loop {
            // What arrived is looked at before the peer is called dead: this process may have been stopped.
            tokio::select! {
                biased;
                received = room.receive(reader) => {
                    self.line.with_beats(|beats| beats.heard(Instant::now()));
                    match received? {
                        Some(Received::Frame(frame)) => return Ok(Some(frame)),
                        Some(Received::Sign(Sign::Ping(number))) => self.asked(number),
                        Some(Received::Sign(Sign::Pong(_))) => {}
                        None => return Ok(None),
                    }
                }
                () = self.line.silent.notified() => match self.line.with_beats(|beats| beats.beat(Instant::now())) {
                    Some(Beat::Dead) => return Err(ConnectionError::Dead),
                    Some(Beat::Ping(number)) => self.ask(number),
                    Some(Beat::Nothing) | None => {}
                },
            }
        }
    }

    /// A peer that asks again before it is answered gets one answer.
    fn asked(&self, number: u64) {
        self.line.number.store(number, Ordering::Relaxed);
        if !self.line.waits.swap(true, Ordering::Relaxed) {
            self.signs.asked.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&self.line));
        }
    }

    fn ask(&self, number: u64) {
        if !self.signs.alive.pulse.is_stuck(Instant::now()) {
            self.line.say(Sign::Ping(number));
        }
    }
}
