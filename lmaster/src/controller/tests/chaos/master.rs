//! The master of a world: its settings, commits and clock, its messages to people, and its death.

use super::*;

impl World {
    /// Sets the wall clock of the master, on which no job depends.
    pub fn set_clock(&mut self) {
        self.seen.saw("a clock that is set");
        let by = [-3_600, -10, 10, 3_600][self.dice.roll(4)];
        self.went_back |= by < 0;
        self.bench.ahead = self.bench.ahead + Span::from_secs(by);
        self.bench.input(Input::Timer);
    }

    /// Sets the rules for owners, and short leases in half of the worlds, so that they end while nodes are unreachable.
    pub fn configure(&mut self) {
        let mut settings = self.bench.settings.clone();
        if self.reboots {
            (settings.node_lease, settings.kill_grace) = (LEASE, Span::ZERO);
        }
        if self.owners {
            settings.groups = owners::desk();
        }
        if self.sleepy {
            sleepers::may_sleep(&mut settings);
        }
        if !self.reboots && !self.owners && !self.sleepy {
            return;
        }
        self.bench.settings = settings.clone();
        self.bench.input(Input::Configured(Box::new(settings)));
    }

    /// Stops the master for a while. Nodes may give up their connections to it.
    pub fn stop(&mut self) {
        self.seen.saw("a master that does not run");
        for node in 0..NODES {
            if self.dice.roll(2) == 0
                && let Some(peer) = self.hang_up(node)
            {
                self.dies(peer);
            }
        }
        let spans = [2_500, 2_500, 10_000];
        let span = Span::from_ms(spans[self.dice.roll(spans.len())]);
        self.elapse(span, false);
    }

    pub fn commit(&mut self) {
        if !self.bench.committing.is_empty() {
            self.late_commit();
            self.bench.commit();
        }
    }

    /// Lets a commit of a replaced master arrive. The database refuses it, because its epoch is over.
    fn late_commit(&mut self) {
        let Some(batch) = self.late.take() else { return };
        let generation = self.bench.disk.generation;
        assert!(batch.generation < generation, "the epoch of a master is used again");
        self.seen.saw("a commit of a replaced master");
        if faults::is_epoch_unchecked() {
            self.bench.disk.write(Batch { generation, ..batch });
        }
    }

    /// Checks the messages to users, the closed connections, and the errors of the master.
    pub fn look(&mut self) {
        for message in self.bench.heard(self.client) {
            match self.across(message) {
                MasterToClient::Accepted { job } => drop(self.accepted.insert(job)),
                MasterToClient::Refused { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        let answers: Vec<_> = [self.steering, self.root].into_iter().flat_map(|peer| self.bench.heard(peer)).collect();
        for message in answers {
            match self.across(message) {
                MasterToClient::Answer(_) | MasterToClient::Piece(_) => self.seen.saw("done"),
                MasterToClient::Refused { .. } => self.seen.saw("not done"),
                other => panic!("{other:?}"),
            }
        }
        self.sleepers();
        for (peer, reason) in std::mem::take(&mut self.bench.closed) {
            if reason.contains("was not acknowledged within") {
                self.seen.saw("acknowledgement missed");
            }
            let key = self.talkers.iter().find(|(_, talker)| talker.peer == Some(peer)).map(|(key, _)| *key);
            if let Some(key) = key {
                // A request on its last connection may be handled late.
                let known = ["journal", "was attached to by another connection", "another node has output"];
                assert!(known.iter().any(|known| reason.contains(known)), "{reason}");
                self.hang_up_client(key);
            }
            if let Some(node) = self.hosts.iter().position(|host| host.link == Some(peer)) {
                // Sent messages may still arrive.
                for _ in 0..self.dice.roll(4) {
                    self.deliver(node);
                }
                self.hang_up(node);
            }
        }
        self.each_process_is_counted();
        self.no_node_is_lost_early();
        self.caps_are_not_believed_early();
        self.the_draw_is_covered();
        self.the_limit_is_held();
        let errors = self.errors.take();
        let own = errors.iter().find(|error| !EXPECTED.iter().any(|expected| error.starts_with(expected)));
        assert_eq!(own, None);
    }

    /// Lets the test decide when the surroundings of the master do something.
    pub fn slow_down(&mut self) {
        (self.bench.slow_disk, self.bench.slow_answers, self.bench.slow_clients) = (true, true, self.attached);
    }

    /// Kills the master with `kill -9`: a running commit may have reached the disk, or arrives once another master leads.
    /// Messages on the wire may still arrive.
    pub fn kill(&mut self) {
        self.seen.saw("kill");
        let (is_written, running) = (self.dice.roll(2) == 0, self.bench.committing.pop_front());
        self.late = running.and_then(|batch| {
            if is_written {
                self.bench.disk.write(batch);
                return None;
            }
            Some(batch)
        });
        for node in 0..NODES {
            for _ in 0..self.dice.roll(4) {
                self.deliver(node);
            }
            self.hang_up(node);
        }
        for key in self.talkers.keys().copied().collect::<Vec<_>>() {
            self.hang_up_client(key);
        }
        let (disk, now, ahead) = (std::mem::take(&mut self.bench.disk), self.bench.now, self.bench.ahead);
        self.bench = Bench::started(disk, now, ahead);
        self.configure();
        self.dead.clear();
        self.callers = Callers::default();
        self.slow_down();
        self.arrive();
        for key in self.plans.keys().filter(|key| !self.talkers.contains_key(key)).copied().collect::<Vec<_>>() {
            self.hand_in(key, true);
        }
    }
}
