//! The nodes of a world and their connections: messages to and from nodes, lost messages, and messages without
//! reason. The step of `limo-node` decides for a node; `host` simulates its machine.

use limo_model::{JobEnd, StopReason};
use limo_node::Input as Happened;
use limo_proto::{AttemptState, Identity};
use limo_shepherd::Why;

use super::host::{Host, Key, node_moment};
use super::*;

/// Returns the job and the attempt of a message.
fn about(message: &NodeToMaster) -> Option<Key> {
    match message {
        NodeToMaster::JobAck { job, attempt }
        | NodeToMaster::JobRefused { job, attempt, .. }
        | NodeToMaster::Started { job, attempt }
        | NodeToMaster::Ended { job, attempt, .. }
        | NodeToMaster::Paused { job, attempt, .. } => Some((*job, *attempt)),
        _ => None,
    }
}

/// Returns true if an outcome is that of a process.
fn is_of_process(outcome: &Outcome) -> bool {
    outcome.reason().is_none()
}

impl World {
    pub fn connect(&mut self, node: usize) {
        let is_off = self.hosts[node].slumber == Slumber::Asleep || self.vanished == Some(node);
        if self.hosts[node].link.is_some() || is_off {
            return;
        }
        let peer = self.bench.peer();
        self.bench.input(Input::NodeConnected(peer));
        let host = &mut self.hosts[node];
        (host.link, host.is_told_caps, host.has_lied) = (Some(peer), false, false);
        host.shown.connected(host.draw_of_jobs());
        let (journal, epoch) = (self.bench.disk.journal, limo_model::Epoch(self.bench.disk.generation));
        self.happens(node, Happened::Connected(Identity { journal, epoch, ..Identity::default() }));
    }

    /// Breaks the connection of a node; messages on it are lost.
    pub fn hang_up(&mut self, node: usize) -> Option<PeerId> {
        let host = &mut self.hosts[node];
        let peer = host.link.take()?;
        host.silent_since.get_or_insert(self.bench.now);
        host.out.clear();
        (host.introduced, host.is_stuck) = (false, false);
        host.shown.disconnected();
        self.happens(node, Happened::Disconnected);
        self.falls_asleep(node);
        Some(peer)
    }

    /// Sends a message of a node, which must be on its disk.
    pub fn says(&mut self, node: usize, message: NodeToMaster) {
        let Host { name, records, capped, .. } = &self.hosts[node];
        match &message {
            NodeToMaster::JobAck { job, attempt } => {
                let is_kept = records.get(&(*job, *attempt)).is_some_and(|found| found.intent.is_some());
                assert!(is_kept, "{name} acknowledges attempt {attempt} of job {job} before it is recorded");
            }
            NodeToMaster::Capped { generation, .. } => {
                assert_eq!(*capped, Some(*generation), "{name} confirms caps that are not set");
            }
            NodeToMaster::Evicted { .. } => self.seen.saw("an eviction by the node"),
            NodeToMaster::Ended { job, attempt, outcome, .. } => self.tells(node, (*job, *attempt), outcome),
            NodeToMaster::Attempts(reports) => {
                let journal = self.bench.disk.journal;
                for report in reports.iter().filter(|report| journal.owns(report.journal)) {
                    if let AttemptState::Ended { outcome, .. } = &report.state {
                        self.tells(node, (report.job, report.attempt), outcome);
                    }
                }
            }
            _ => {}
        }
        let message = self.across(message);
        let host = &mut self.hosts[node];
        if let (NodeToMaster::Reading(_), Some(_)) = (&message, host.link) {
            host.shown.sent(host.draw_of_jobs());
        }
        if host.link.is_some() {
            host.out.push_back(Frame::Message(message));
        }
    }

    /// Reports the end of an attempt, as its process ended and its records have it.
    fn tells(&mut self, node: usize, key: Key, outcome: &Outcome) {
        let (job, attempt) = key;
        let Host { name, records, concluded, .. } = &self.hosts[node];
        if matches!(outcome, Outcome::Lost { reason } if reason == "the node does not know the job") {
            return;
        }
        let recorded = records.get(&key).and_then(|found| found.end.as_ref()).map(|end| &end.outcome);
        assert!(recorded == Some(outcome), "{name} tells {outcome:?} of job {job}, recorded: {recorded:?}");
        let exit = self.exits.get(&(job, attempt, name.clone())).filter(|_| is_of_process(outcome));
        assert!(exit.is_none_or(|exit| exit == outcome), "{name} tells {outcome:?} of job {job}, which ended {exit:?}");
        assert!(exit.is_none() || concluded.contains(&key), "{name} tells the end of job {job} before its epilog");
        // A part that was not prepared fails a job whose other parts have run.
        self.lost |= matches!(outcome, Outcome::NodeFailed { .. } | Outcome::NotPrepared { .. });
        if matches!(outcome, Outcome::NodeFailed { .. } | Outcome::Lost { .. } | Outcome::NotPrepared { .. }) {
            self.failed.insert(job);
        }
        if *outcome != Outcome::Exited(0) {
            self.spoiled.insert(job);
        }
        self.told.entry(key).or_default().push(outcome.clone().split_limit().0);
    }

    /// Delivers a message from a node to the master.
    pub fn hear(&mut self, node: usize) {
        self.settle(node);
        let host = &mut self.hosts[node];
        let Some(peer) = host.link else { return };
        let message = match host.out.pop_front() {
            Some(Frame::Message(message)) => message,
            Some(data) => return self.bench.input(Input::Node(peer, data)),
            None => return,
        };
        if about(&message).is_some() {
            host.said.push(message.clone());
        }
        // A registration arrives completely, so that the worlds test the events after it.
        let registers = matches!(message, NodeToMaster::NewSlave(_));
        host.introduced |= registers;
        if let NodeToMaster::Reading(_) = message {
            host.shown.heard();
        }
        let rest = if registers { std::mem::take(&mut host.out) } else { VecDeque::new() };
        if let NodeToMaster::JobAck { job, attempt } = message {
            self.acknowledges(peer, (job, attempt));
        }
        self.bench.report(peer, message);
        for frame in rest {
            self.bench.input(Input::Node(peer, frame));
        }
    }

    fn acknowledges(&mut self, peer: PeerId, (job, attempt): Key) {
        let controller = &self.bench.controller;
        let asked = controller.assignments.awaited().get(&job).filter(|asked| asked.attempt == attempt);
        if !asked.is_some_and(|asked| asked.peers.values().any(|asked| *asked == peer)) {
            return self.seen.saw("acknowledged, and nobody waits for it");
        }
        if controller.assignment(job, attempt).is_some_and(|assignment| assignment.stop.is_some()) {
            let is_task = controller.tx.core.array_of(job).is_some();
            self.seen.saw("acknowledged, and shall not run any more");
            if is_task {
                self.seen.saw("a task acknowledged, and shall not run any more");
            }
        }
    }

    /// Delivers a message from the master to a node.
    pub fn deliver(&mut self, node: usize) {
        let Some(peer) = self.hosts[node].link else { return };
        let Some(index) = self.bench.to_nodes.iter().position(|(to, _)| *to == peer) else { return };
        let frame = match self.bench.to_nodes.remove(index).1 {
            Frame::Message(message) => {
                let message = self.across(message);
                self.ordered_by_master(node, &message);
                Frame::Message(message)
            }
            Frame::Data(data) => Frame::Data(self.data_across(data)),
        };
        self.happens(node, Happened::FromMaster(frame));
    }

    /// Checks an order of the master, and updates the world's record.
    fn ordered_by_master(&mut self, node: usize, message: &MasterToNode) {
        match message {
            MasterToNode::Registered => {
                let host = &mut self.hosts[node];
                (host.silent_since, host.unreached) = (None, Span::ZERO);
            }
            MasterToNode::DoExec(exec) => {
                self.at_a_time(exec.job);
                let key = (exec.job, exec.attempt);
                let host = &mut self.hosts[node];
                let names = exec.share.as_ref().map_or_else(|| vec![host.name.clone()], |share| share.nodes.clone());
                self.homes.insert(exec.job, names);
                host.leases.extend(exec.lease.map(|lease| (key, lease.span)));
                host.limits.extend(exec.time_limit.map(|limit| (key, limit)));
            }
            MasterToNode::Extend { job, attempt, limit } => {
                let known = self.hosts[node].limits.get_mut(&(*job, *attempt));
                known.into_iter().for_each(|known| *known = *limit);
            }
            MasterToNode::TimeLimit { job, attempt, limit } => {
                let limits = &mut self.hosts[node].limits;
                match limit {
                    Some(limit) => drop(limits.insert((*job, *attempt), *limit)),
                    None => drop(limits.remove(&(*job, *attempt))),
                }
            }
            MasterToNode::EndedAck { job, attempt } => {
                let record = self.hosts[node].records.get(&(*job, *attempt));
                let is_over = record.is_none_or(|found| found.end.is_some());
                assert!(is_over, "the end of attempt {attempt} of job {job} is acknowledged: {record:?}");
            }
            MasterToNode::Stop { job, attempt, .. } | MasterToNode::Evict { job, attempt, .. } => {
                let record = self.hosts[node].records.get(&(*job, *attempt));
                let is_open = record.is_some_and(|found| found.end.is_none());
                // The epilog of an attempt that was taken back may still run.
                let is_dropped = self.dropped.contains(&(node, *job, *attempt));
                let may_stop = is_dropped || self.may_be_stopped(*job) || self.is_given_up((*job, *attempt));
                assert!(!is_open || may_stop, "nobody wants attempt {attempt} of job {job} to stop");
            }
            MasterToNode::Drop { job, attempt } => drop(self.dropped.insert((node, *job, *attempt))),
            MasterToNode::Suspend { .. } => self.seen.saw("suspended"),
            MasterToNode::Resume { .. } => self.seen.saw("resumed"),
            MasterToNode::Caps { .. } => self.seen.saw("capped"),
            MasterToNode::Refused { reason } => panic!("{reason}"),
            _ => {}
        }
    }

    /// Returns true if an attempt has never begun, and its confirmations did not come in time.
    fn is_given_up(&self, (job, attempt): Key) -> bool {
        let assignment = self.bench.controller.assignment(job, attempt);
        let why = assignment.and_then(|assignment| assignment.stop.as_ref());
        let begun = self.starts.get(&job).is_some_and(|starts| starts.keys().any(|(of, _)| *of == attempt));
        matches!(why, Some((StopReason::Unconfirmed { .. }, _))) && !begun
    }

    /// Checks that at most the wanted number of tasks of an array start or run.
    fn at_a_time(&self, job: JobId) {
        let core = &self.bench.controller.tx.core;
        let Some((own, array)) = core.array_of(job) else { return };
        let Some(limit) = array.tasks.limit() else { return };
        let tasks = (own.0 + 1..=own.0 + u64::from(array.tasks.count())).filter_map(|task| core.job(JobId(task)));
        let active = tasks.filter(|task| task.assignment().is_some()).count();
        assert!(active <= limit.get() as usize, "{active} tasks of array {own} at a time, {limit} are allowed");
    }

    /// Ends a command by itself. At the end of a world, this excludes commands that the master wants to stop before
    /// it has sent the order.
    pub fn finish_one(&mut self, node: usize) {
        self.settle(node);
        let core = &self.bench.controller.tx.core;
        let is_unwanted = |job: JobId| {
            let stop = core.job(job).and_then(|job| job.assignment()?.stop.as_ref());
            stop.is_some_and(|(_, told)| *told)
        };
        // Most commands with streams go on for a while.
        let goes_on = self.attached && !self.healed && self.dice.roll(4) > 0;
        let with_streams: BTreeSet<Key> = self.hosts[node].keys_with_streams().filter(|_| goes_on).collect();
        let talks = |key: Key| with_streams.contains(&key);
        let mut running = self.hosts[node].processes.iter();
        let found = running.find(|(_, process)| {
            let waits = self.healed && !process.is_told_to_stop && is_unwanted(process.key.0);
            !process.is_frozen && !waits && !talks(process.key)
        });
        if let Some(handle) = found.map(|(handle, _)| *handle) {
            let code = if self.rarely(4) { 3 } else { 0 };
            self.ends(node, handle, code << 8, Why::OfItself);
        }
    }

    /// Repeats an earlier message of a node, sends one of another node, or one about a job that never existed.
    pub fn babble(&mut self, node: usize) {
        let whose = if self.wide { node } else { self.dice.roll(NODES) };
        let message = match (self.hosts[whose].said.len(), self.dice.roll(8)) {
            (_, 0 | 2) | (0, _) => {
                // The attempt never existed; its job may exist.
                let job = if self.dice.roll(2) == 0 { JobId(5_000) } else { self.some_job() };
                let attempt = Attempt(77);
                match self.dice.roll(4) {
                    0 => NodeToMaster::JobAck { job, attempt },
                    1 => NodeToMaster::Started { job, attempt },
                    2 => ended(job, attempt, 0),
                    _ => NodeToMaster::Paused { job, attempt, paused: true },
                }
            }
            (_, 1) if !self.capped => {
                self.hosts[node].has_lied = true;
                self.caps_are_unknown = true;
                NodeToMaster::Capped { generation: self.dice.roll(5) as u64, failed: limo_proto::List::default() }
            }
            (len, _) => self.hosts[whose].said[self.dice.roll(len)].clone(),
        };
        let host = &mut self.hosts[node];
        if host.introduced {
            self.seen.saw("said without reason");
            host.out.push_back(Frame::Message(message));
        }
    }

    /// Breaks a connection; both sides notice, and messages on it are lost.
    pub fn cut(&mut self, node: usize) {
        if matches!(self.hosts[node].slumber, Slumber::Told(_)) {
            self.seen.saw("a node that is told to sleep and cut off");
        }
        if let Some(peer) = self.hang_up(node) {
            self.bench.input(Input::Gone(peer));
        }
    }

    /// Ends a node's connection together with its daemon; the master may notice this late. Sent messages may arrive.
    pub fn part(&mut self, node: usize) {
        for _ in 0..self.dice.roll(4) {
            let host = &mut self.hosts[node];
            let Some((peer, frame)) = host.link.zip(host.out.pop_front()) else { break };
            self.bench.input(Input::Node(peer, frame));
        }
        let host = &mut self.hosts[node];
        host.silent_since.get_or_insert(self.bench.now);
        host.slumber = Slumber::Awake;
        host.out.clear();
        host.introduced = false;
        let Some(peer) = host.link.take() else { return };
        if self.dice.roll(2) == 0 { self.bench.input(Input::Gone(peer)) } else { self.dies(peer) }
    }

    pub fn reboot(&mut self, node: usize) {
        self.rebooted = true;
        // If the node never reports an attempt, the attempt may run elsewhere after its lease.
        self.failed.extend(self.hosts[node].leases.keys().map(|(job, _)| *job));
        self.lose_power(node);
        if self.dice.roll(4) == 0 {
            self.declared_dead(node);
        }
    }

    /// Declares a node dead, as an operator who has seen its end.
    pub fn declared_dead(&mut self, node: usize) {
        self.hosts[node].is_declared_dead = true;
        let name = self.hosts[node].name.clone();
        let core = &self.bench.controller.tx.core;
        let jobs = core.node_named(&name).map(|node| core.jobs_on(node.id())).unwrap_or_default();
        self.failed.extend(jobs);
        self.operator(Change::NodesLost(vec![name]));
    }

    /// Lets time pass on a node: its master answers if it runs and the node is connected, and due events happen.
    pub fn time_passes(&mut self, node: usize, span: Span, master_runs: bool) {
        if self.sleeps_on(node) {
            return;
        }
        let now = self.bench.now;
        let host = &mut self.hosts[node];
        let silent = host.silent_since.map(|since| now - since);
        if silent.is_some() && master_runs {
            host.unreached = host.unreached + span;
        }
        if host.link.is_some() && silent.is_none() && master_runs {
            self.happens(node, Happened::Answered { sent: node_moment(now).since });
        }
        // If the node never receives a stop, the attempt may run elsewhere after its lease. This also holds for a
        // finished one, whose end may arrive too late.
        if let Some(silent) = silent {
            self.lost |= self.hosts[node].unreached >= LEASE;
            let leases = self.hosts[node].leases.iter();
            self.failed.extend(leases.filter(|(_, lease)| silent >= **lease).map(|((job, _), _)| *job));
        }
        if self.vanished == Some(node) {
            return;
        }
        self.timers(node, span);
        if self.hosts[node].due().is_some_and(|due| due <= node_moment(now).since) {
            self.happens(node, Happened::Deadline);
        }
        self.nothing_outlives(node, silent);
    }

    /// Returns true if an attempt of the job ended because its node was unreachable.
    pub fn has_failed(&self, job: JobId) -> bool {
        let is_failed = |outcome: &Outcome| matches!(outcome, Outcome::NodeFailed { .. });
        let end = self.bench.disk.finished.get(&job).and_then(|report| report.end.as_ref());
        let over = matches!(end, Some(JobEnd::Ran { outcome, .. }) if is_failed(outcome));
        let assignment = self.bench.controller.tx.core.job(job).and_then(|job| job.assignment());
        let parts = assignment.map(|assignment| assignment.ended.as_slice()).unwrap_or_default();
        self.failed.contains(&job) || over || parts.iter().any(|part| is_failed(&part.outcome))
    }
}
