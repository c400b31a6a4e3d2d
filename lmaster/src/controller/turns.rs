//! Turns of queries. Expensive queries are served in slices, and users in rotation. A user has a few running queries;
//! some more are queued. Handles only connections and users.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::PeerId;

/// Most running and most waiting queries of one user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Most {
    pub(super) running: usize,
    pub(super) queued: usize,
}

#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Connections whose next slice can be served, each once.
    ready: VecDeque<PeerId>,
    users: BTreeMap<u32, User>,
}

#[derive(Debug, Default)]
struct User {
    running: BTreeSet<PeerId>,
    queued: VecDeque<PeerId>,
}

impl Turns {
    /// Adds a query of a connection. Returns true if its user's limit allows it.
    pub(super) fn enter(&mut self, peer: PeerId, uid: u32, most: Most) -> bool {
        let user = self.users.entry(uid).or_default();
        if user.running.len() >= most.running && user.queued.len() >= most.queued {
            return false;
        }
        self.enter_always(peer, uid, most);
        true
    }

    /// Adds the remaining part of a promised answer, which waits regardless of the limit.
    pub(super) fn enter_always(&mut self, peer: PeerId, uid: u32, most: Most) {
        let user = self.users.entry(uid).or_default();
        if user.running.len() < most.running {
            user.running.insert(peer);
            self.ready(peer);
        } else {
            user.queued.push_back(peer);
        }
    }

    /// Marks the next slice of a connection as ready.
    pub(super) fn ready(&mut self, peer: PeerId) {
        if !self.ready.contains(&peer) {
            self.ready.push_back(peer);
        }
    }

    pub(super) fn next(&mut self) -> Option<PeerId> {
        self.ready.pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// Ends the query of a connection, if it had one. The next query of its user runs.
    pub(super) fn over(&mut self, peer: PeerId, uid: u32, most: Most) {
        let Some(user) = self.users.get_mut(&uid) else { return };
        if !user.running.remove(&peer) {
            return;
        }
        let mut started = Vec::new();
        while user.running.len() < most.running
            && let Some(next) = user.queued.pop_front()
        {
            user.running.insert(next);
            started.push(next);
        }
        if user.running.is_empty() {
            self.users.remove(&uid);
        }
        started.into_iter().for_each(|peer| self.ready(peer));
    }

    /// Removes a closed connection.
    pub(super) fn gone(&mut self, peer: PeerId, uid: u32, most: Most) {
        self.ready.retain(|other| *other != peer);
        if let Some(user) = self.users.get_mut(&uid) {
            user.queued.retain(|other| *other != peer);
        }
        self.over(peer, uid, most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Most = Most { running: 1, queued: 2 };

    #[test]
    fn users_are_served_in_turn_and_each_has_one_query_at_a_time() {
        let mut turns = Turns::default();
        for peer in 1..=3 {
            assert!(turns.enter(PeerId(peer), 7, MOST));
        }
        assert!(!turns.enter(PeerId(4), 7, MOST), "one runs and two wait");
        assert!(turns.enter(PeerId(5), 8, MOST));
        let mut served = Vec::new();
        for _ in 0..4 {
            let peer = turns.next().expect("somebody is ready");
            served.push(peer.0);
            turns.ready(peer);
        }
        assert_eq!(served, [1, 5, 1, 5]);
        turns.gone(PeerId(2), 7, MOST);
        turns.over(PeerId(1), 7, MOST);
        turns.over(PeerId(5), 8, MOST);
        let rest: Vec<u64> = std::iter::from_fn(|| turns.next()).map(|peer| peer.0).collect();
        assert_eq!(rest, [1, 5, 3], "those that were ready, and the next of the user");
        turns.enter_always(PeerId(6), 7, MOST);
        turns.over(PeerId(3), 7, MOST);
        assert_eq!((turns.next(), turns.is_empty()), (Some(PeerId(6)), true));
        turns.over(PeerId(6), 7, MOST);
        assert!(turns.users.is_empty());
    }
}
