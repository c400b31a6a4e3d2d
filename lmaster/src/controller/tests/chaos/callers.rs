//! Connections that are dead, and their signs of life; and a user who takes as many connections as the master allows.

use std::sync::LazyLock;
use std::time::Duration;

use limo_proto::{Alive, Beat};
use tokio::time::Instant;

use super::*;
use crate::listen::{Admission, ConnectionLimits, Place};
use crate::signs;

/// Time between two heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Most connections of one user. The user with submissions has two.
const MOST: usize = 4;

const LIMITS: ConnectionLimits =
    ConnectionLimits { per_user: MOST, ungreeted_per_user: MOST, users: 100, greeting_time: HEARTBEAT };

/// User who takes connections.
const GREEDY: u32 = 9;

static ALIVE: LazyLock<(Alive, Instant)> = LazyLock::new(|| (Alive::new(HEARTBEAT), Instant::now()));

/// The connections of a greedy user.
#[derive(Debug)]
pub struct Callers {
    admission: Admission,
    open: Vec<(PeerId, Place)>,
}

impl Default for Callers {
    fn default() -> Self {
        Self { admission: Admission::new(LIMITS), open: Vec::new() }
    }
}

impl World {
    fn instant(&self) -> Instant {
        ALIVE.1 + limo_node::duration(self.bench.now - Time::from_unix_ms(START))
    }

    /// Notes that a connection is dead, which the master may notice late.
    pub fn dies(&mut self, peer: PeerId) {
        self.dead.push((peer, ALIVE.0.listener(self.instant())));
    }

    /// Lets the master notice a dead connection, perhaps after its node has reconnected.
    pub fn notice(&mut self) {
        if !self.dead.is_empty() {
            let (peer, _) = self.dead.remove(0);
            self.seen.saw("noticed late");
            self.bench.input(Input::Gone(peer));
        }
    }

    /// Lets the master notice dead connections by their silence.
    pub fn miss_signs_of_life(&mut self) {
        let now = self.instant();
        let is_dead = |(_, beats): &mut (PeerId, Heartbeat)| signs::beat(beats, now) == Beat::Dead;
        for (peer, _) in self.dead.extract_if(.., is_dead).collect::<Vec<_>>() {
            self.seen.saw("silence that is noticed");
            self.bench.input(Input::Gone(peer));
        }
    }

    /// Opens or closes a connection of the greedy user.
    pub fn crowd(&mut self) {
        let count = self.callers.open.len();
        if count > 0 && self.dice.roll(4) == 0 {
            let (peer, _) = self.callers.open.remove(self.dice.roll(count));
            return self.bench.input(Input::Gone(peer));
        }
        match self.callers.admission.take(GREEDY, false) {
            Ok(place) => {
                let peer = self.bench.client(GREEDY);
                self.callers.open.push((peer, place));
            }
            Err(_) => {
                self.seen.saw("a caller that is rejected");
                assert_eq!(count, MOST, "a connection is refused that is allowed");
            }
        }
        let count = self.callers.open.len();
        assert!(count <= MOST, "{count} connections of one user: {MOST} are allowed");
        assert!(self.callers.admission.take(7, false).is_ok(), "another user finds no place");
    }

    pub fn callers_leave(&mut self) {
        for (peer, _) in std::mem::take(&mut self.callers.open) {
            self.bench.input(Input::Gone(peer));
        }
    }

    /// Takes a machine away for ever. The master finds out by its silence.
    pub fn vanish(&mut self, node: usize) {
        self.seen.saw("a machine that vanishes");
        self.rebooted = true;
        let host = &mut self.hosts[node];
        self.failed.extend(host.leases.keys().map(|(job, _)| *job));
        host.processes.clear();
        host.shepherds.clear();
        if let Some(peer) = self.hang_up(node) {
            self.dies(peer);
        }
        self.vanished = Some(node);
    }
}
