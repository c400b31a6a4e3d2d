//! Signs of life on the connections of the master: answers pings for the main loop, and detects silent nodes.
//!
//! Pings of nodes are answered at fixed times for all connections together. Nodes that are answered together ping
//! together the next time, so one wake-up of the master serves many of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use limo_proto::{Alive, Beat, ConnectionError, Frame, Heartbeat, Reader, Received, Sign, SignWriter};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, MissedTickBehavior};

use crate::controller::faults::{self, Fault};
use crate::room::Room;

/// Most signs in the send queue. A peer that pings faster than it reads gets fewer answers.
const SIGNS: usize = 4;

/// Sweeps per heartbeat; each answers pings and checks silent nodes.
const SWEEPS: u32 = 25;

/// Sends the signs of life of all connections, and monitors those of nodes.
#[derive(Debug, Clone)]
pub struct Signs {
    pub alive: Alive,
    /// Connections with an unanswered ping.
    asked: Arc<Mutex<Vec<Arc<Overseen>>>>,
    watched: Arc<Mutex<Watched>>,
}

/// Connections whose signs of life are monitored, by the time of their next check.
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

/// A connection as the sweeping task sees it.
#[derive(Debug)]
struct Overseen {
    /// Heartbeat of a peer that must give signs of life.
    beats: Option<Mutex<Heartbeat>>,
    /// Notified after a long silence.
    silent: Notify,
    /// Number of the last ping, until it is answered.
    ping: Mutex<Option<u64>>,
    at_once: SignWriter,
    /// Queue of the writer.
    sign: Sender<Sign>,
}

impl Overseen {
    fn say(&self, sign: Sign) {
        if !self.at_once.write(sign) {
            let _ = self.sign.try_send(sign);
        }
    }

    fn with_beats<T>(&self, of: impl FnOnce(&mut Heartbeat) -> T) -> Option<T> {
        self.beats.as_ref().map(|beats| of(&mut lock(beats)))
    }
}

impl Signs {
    pub fn new(alive: Alive) -> Self {
        Self { alive, asked: Arc::default(), watched: Arc::default() }
    }

    /// Answers pings and checks silent nodes until the master ends.
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
        let asked = std::mem::take(&mut *lock(&self.asked));
        // A stuck loop must not look alive.
        let is_stuck = self.alive.pulse.is_stuck(Instant::now());
        for line in asked {
            let ping = lock(&line.ping).take();
            if let Some(number) = ping.filter(|_| !is_stuck) {
                line.say(Sign::Pong(number));
            }
        }
    }

    /// Checks the connections whose time has come. Most have had messages since, and cost no more than this check.
    fn look_after_silent(&self, now: Instant) {
        let mut watched = lock(&self.watched);
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
            // The connection's own task handles the silence.
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
    /// Makes the signs of life of a connection; also returns the queue of its writer. A `watched` peer must give
    /// signs of life itself.
    pub fn new(signs: Signs, at_once: SignWriter, watched: bool) -> (Self, Receiver<Sign>) {
        let (sign, to_send) = channel(SIGNS);
        let beats = watched.then(|| signs.alive.listener(Instant::now()));
        let due = beats.as_ref().map(Heartbeat::due);
        let (beats, silent) = (beats.map(Mutex::new), Notify::new());
        let line = Arc::new(Overseen { beats, silent, ping: Mutex::new(None), at_once, sign });
        if let Some(due) = due {
            lock(&signs.watched).add(due, Arc::downgrade(&line));
        }
        (Self { signs, line }, to_send)
    }

    /// Returns the next frame. A dead peer is an error. Safe to cancel.
    pub async fn receive<In: DeserializeOwned>(
        &mut self,
        (reader, room): (&mut Reader<In>, &mut Room),
    ) -> Result<Option<Frame<In>>, ConnectionError> {
        loop {
            // Received frames are handled before the peer counts as dead, because this process may have been stopped.
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
                () = self.line.silent.notified() => match self.line.with_beats(|beats| beat(beats, Instant::now())) {
                    Some(Beat::Dead) => return Err(ConnectionError::Dead),
                    Some(Beat::Ping(number)) => self.ask(number),
                    Some(Beat::Nothing) | None => {}
                },
            }
        }
    }

    /// Records a ping. A peer that pings again before its answer gets one answer.
    fn asked(&self, number: u64) {
        if lock(&self.line.ping).replace(number).is_none() {
            lock(&self.signs.asked).push(Arc::clone(&self.line));
        }
    }

    fn ask(&self, number: u64) {
        if !self.signs.alive.pulse.is_stuck(Instant::now()) {
            self.line.say(Sign::Ping(number));
        }
    }
}

/// Returns the action of a heartbeat for now.
pub fn beat(beats: &mut Heartbeat, now: Instant) -> Beat {
    if faults::has(Fault::HeartbeatOff) { Beat::Nothing } else { beats.beat(now) }
}

/// Locks what is consistent after each statement, so also after a panic.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
