//! Signs of life on the connections of the master: answers pings for the main loop, and notices a node that gives none.
//!
//! Pings of nodes are answered at certain times only, on all connections together. Nodes that were answered together ask
//! together the next time, so the master wakes for many of them at a time.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use limo_proto::{Alive, Beat, ConnectionError, Frame, Heartbeat, Reader, Received, Sign};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, MissedTickBehavior, Sleep};

use crate::room::Room;

/// Most signs that wait to be sent: a peer that asks more often than it reads gets fewer answers.
const SIGNS: usize = 4;

/// Number of times in a heartbeat at which pings are answered.
const SWEEPS: u32 = 50;

/// Gives the signs of life of all connections.
#[derive(Debug, Clone)]
pub struct Signs {
    pub alive: Alive,
    /// The connections on which a ping waits for its answer.
    asked: Arc<Mutex<Vec<Arc<Asked>>>>,
}

/// The last ping on a connection.
#[derive(Debug)]
struct Asked {
    number: AtomicU64,
    waits: AtomicBool,
    sign: Sender<Sign>,
}

impl Signs {
    pub fn new(alive: Alive) -> Self {
        Self { alive, asked: Arc::default() }
    }

    /// Answers pings for as long as the master runs.
    pub async fn answer(self) {
        let mut sweeps = tokio::time::interval(self.alive.every / SWEEPS);
        sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            sweeps.tick().await;
            let asked = std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner));
            // Nothing is said for a loop that is stuck.
            let is_stuck = self.alive.pulse.is_stuck(Instant::now());
            for one in asked {
                one.waits.store(false, Ordering::Relaxed);
                if !is_stuck {
                    let _ = one.sign.try_send(Sign::Pong(one.number.load(Ordering::Relaxed)));
                }
            }
        }
    }
}

/// The signs of life of one connection.
pub struct SignsOfLife {
    signs: Signs,
    /// Of a peer that must give signs of life.
    beats: Option<Heartbeat>,
    asked: Arc<Asked>,
}

impl SignsOfLife {
    /// With what its writer has to send. A peer that is `watched` must give signs of life itself.
    pub fn new(signs: Signs, watched: bool) -> (Self, Receiver<Sign>) {
        let (sign, to_send) = channel(SIGNS);
        let beats = watched.then(|| signs.alive.listener(Instant::now()));
        let asked = Arc::new(Asked { number: AtomicU64::new(0), waits: AtomicBool::new(false), sign });
        (Self { signs, beats, asked }, to_send)
    }

    /// For [`SignsOfLife::receive`].
    pub fn timer(&self) -> Sleep {
        tokio::time::sleep_until(self.beats.as_ref().map_or_else(Instant::now, Heartbeat::due))
    }

    /// The next frame; where the peer is dead, that is an error. Safe to cancel.
    pub async fn receive<In: DeserializeOwned>(
        &mut self,
        (reader, room): (&mut Reader<In>, &mut Room),
        mut timer: Pin<&mut Sleep>,
    ) -> Result<Option<Frame<In>>, ConnectionError> {
        loop {
            // What arrived is looked at before the peer is called dead: this process may have been stopped.
            tokio::select! {
                biased;
                received = room.receive(reader) => {
                    if let Some(beats) = &mut self.beats {
                        beats.heard(Instant::now());
                    }
                    match received? {
                        Some(Received::Frame(frame)) => return Ok(Some(frame)),
                        Some(Received::Sign(Sign::Ping(number))) => self.asked(number),
                        Some(Received::Sign(Sign::Pong(_))) => {}
                        None => return Ok(None),
                    }
                }
                () = &mut timer, if self.beats.is_some() => {
                    let Some(beats) = &mut self.beats else { continue };
                    let beat = beats.beat(Instant::now());
                    timer.as_mut().reset(beats.due());
                    match beat {
                        Beat::Dead => return Err(ConnectionError::Dead),
                        Beat::Ping(number) => self.ask(number),
                        Beat::Nothing => {}
                    }
                }
            }
        }
    }

    /// A peer that asks again before it is answered gets one answer.
    fn asked(&self, number: u64) {
        self.asked.number.store(number, Ordering::Relaxed);
        if !self.asked.waits.swap(true, Ordering::Relaxed) {
            self.signs.asked.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&self.asked));
        }
    }

    fn ask(&self, number: u64) {
        if !self.signs.alive.pulse.is_stuck(Instant::now()) {
            let _ = self.asked.sign.try_send(Sign::Ping(number));
        }
    }
}
