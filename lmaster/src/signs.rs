//! Signs of life on a connection of the master: answers pings for the main loop, and notices a node that gives none.

use std::pin::Pin;
use std::time::Duration;

use limo_proto::{Beat, ConnectionError, Frame, Heartbeat, Pulse, Reader, Received, Sign};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, Sleep};

use crate::room::Room;

/// Most signs that wait to be sent: a peer that asks more often than it reads gets fewer answers.
const SIGNS: usize = 4;

/// What the signs of life of all connections have in common.
#[derive(Debug, Clone)]
pub struct Alive {
    /// The main loop's.
    pub pulse: Pulse,
    /// Time between two heartbeats.
    pub every: Duration,
}

/// The signs of life of one connection.
pub struct SignsOfLife {
    pulse: Pulse,
    /// Of a peer that must give signs of life.
    beats: Option<Heartbeat>,
    sign: Sender<Sign>,
}

impl SignsOfLife {
    /// With what its writer has to send. A peer that is `watched` must give signs of life itself.
    pub fn new(alive: Alive, watched: bool) -> (Self, Receiver<Sign>) {
        let (sign, signs) = channel(SIGNS);
        let beats = watched.then(|| Heartbeat::listener(Instant::now(), alive.every));
        (Self { pulse: alive.pulse, beats, sign }, signs)
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
                        Some(Received::Sign(Sign::Ping(number))) => self.say(Sign::Pong(number)),
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
                        Beat::Ping(number) => self.say(Sign::Ping(number)),
                        Beat::Nothing => {}
                    }
                }
            }
        }
    }

    /// Nothing is said for a loop that is stuck.
    fn say(&self, sign: Sign) {
        if !self.pulse.is_stuck(Instant::now()) {
            let _ = self.sign.try_send(sign);
        }
    }
}
