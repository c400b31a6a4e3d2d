//! The nodes of a world: what they do with what they are told, which of it they never hear, and what they say twice, late or
//! without reason.

use limo_model::JobEnd;
use limo_proto::AttemptState;

use super::*;

/// A node as far as the master can tell: records on its disk, and a connection.
pub struct SimNode {
    pub name: String,
    boot: u32,
    pub records: BTreeMap<(JobId, Attempt), AttemptState>,
    pub link: Option<PeerId>,
    /// Since when the master does not answer it.
    silent_since: Option<Time>,
    /// The leases of attempts that have one.
    leases: BTreeMap<(JobId, Attempt), Span>,
    /// The newest attempt of each job that it has had and forgotten, until it is rebooted.
    gone: BTreeMap<JobId, Attempt>,
    out: VecDeque<NodeToMaster>,
    /// What of it has reached the master.
    said: Vec<NodeToMaster>,
}

/// Which attempt of which job a message is about.
fn about(message: &NodeToMaster) -> Option<(JobId, Attempt)> {
    match message {
        NodeToMaster::JobAck { job, attempt }
        | NodeToMaster::JobRefused { job, attempt, .. }
        | NodeToMaster::Started { job, attempt }
        | NodeToMaster::Ended { job, attempt, .. }
        | NodeToMaster::Paused { job, attempt, .. } => Some((*job, *attempt)),
        _ => None,
    }
}

impl SimNode {
    pub fn new(index: usize) -> Self {
        let (records, gone, out) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
        let (silent_since, leases) = (None, BTreeMap::new());
        let name = format!("n{index}");
        Self { name, boot: 0, records, link: None, silent_since, leases, gone, out, said: Vec::new() }
    }

    /// Its connection is no more, and what was under way on it is gone.
    pub fn hang_up(&mut self, now: Time) -> Option<PeerId> {
        self.silent_since.get_or_insert(now);
        self.out.clear();
        self.link.take()
    }

    fn forget(&mut self, (job, attempt): (JobId, Attempt)) -> Option<AttemptState> {
        let record = self.records.remove(&(job, attempt))?;
        self.leases.remove(&(job, attempt));
        let gone = self.gone.entry(job).or_insert(attempt);
        *gone = attempt.max(*gone);
        Some(record)
    }

    fn drop_held(&mut self, key: (JobId, Attempt)) {
        if self.records.get(&key) == Some(&AttemptState::Held) {
            self.forget(key);
        }
    }

    fn end(&mut self, (job, attempt): (JobId, Attempt), outcome: Outcome) {
        let usage = Usage::default();
        let state = AttemptState::Ended { outcome: outcome.clone(), usage };
        self.records.insert((job, attempt), state);
        self.out.push_back(NodeToMaster::Ended { job, attempt, outcome, usage });
    }
}

impl World {
    pub fn connect(&mut self, node: usize) {
        if self.nodes[node].link.is_some() {
            return;
        }
        let peer = self.bench.peer();
        self.bench.input(Input::NodeConnected(peer));
        let node = &mut self.nodes[node];
        node.link = Some(peer);
        let report = |((job, attempt), state): (&(JobId, Attempt), &AttemptState)| AttemptReport {
            journal: Default::default(),
            job: *job,
            attempt: *attempt,
            state: state.clone(),
            stdin_offset: 0,
            kept: Default::default(),
        };
        let attempts = node.records.iter().map(report).collect();
        let slave = slave(&node.name, &node.boot.to_string(), attempts);
        node.out = slave.into_messages().into();
    }

    /// A message from a node reaches the master.
    pub fn hear(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        let Some(peer) = node.link else { return };
        let Some(message) = node.out.pop_front() else { return };
        if about(&message).is_some() {
            node.said.push(message.clone());
        }
        // A registration arrives whole, so that the worlds are about what follows it.
        let registers = matches!(message, NodeToMaster::NewSlave(_));
        let rest = if registers { std::mem::take(&mut node.out) } else { VecDeque::new() };
        if let NodeToMaster::JobAck { job, attempt } = message {
            self.acknowledges(peer, (job, attempt));
        }
        self.bench.report(peer, message);
        for message in rest {
            self.bench.report(peer, message);
        }
    }

    fn acknowledges(&mut self, peer: PeerId, (job, attempt): (JobId, Attempt)) {
        let desk = &self.bench.desk;
        let asked = desk.awaited.get(&job).filter(|asked| asked.attempt == attempt);
        if !asked.is_some_and(|asked| asked.peers.values().any(|asked| *asked == peer)) {
            return self.seen.saw("acknowledged, and nobody waits for it");
        }
        if desk.assignment(job, attempt).is_some_and(|assignment| assignment.stop.is_some()) {
            let is_task = desk.core.array_of(job).is_some();
            self.seen.saw("acknowledged, and shall not run any more");
            if is_task {
                self.seen.saw("a task acknowledged, and shall not run any more");
            }
        }
    }

    /// A message from the master reaches a node.
    pub fn deliver(&mut self, node: usize) {
        let Some(peer) = self.nodes[node].link else { return };
        let Some(index) = self.bench.to_nodes.iter().position(|(to, _)| *to == peer) else { return };
        let (_, message) = self.bench.to_nodes.remove(index);
        match message {
            MasterToNode::Registered => self.nodes[node].silent_since = None,
            MasterToNode::DoExec(exec) => {
                let key = (exec.job, exec.attempt);
                self.nodes[node].leases.extend(exec.lease.map(|lease| (key, lease.span)));
                self.assigned(node, key);
            }
            MasterToNode::Go { job, attempt, .. } => self.go(node, (job, attempt)),
            MasterToNode::Drop { job, attempt } => self.nodes[node].drop_held((job, attempt)),
            MasterToNode::EndedAck { job, attempt } => {
                let record = self.nodes[node].forget((job, attempt));
                let is_over = record.as_ref().is_none_or(|state| matches!(state, AttemptState::Ended { .. }));
                assert!(is_over, "the end of attempt {attempt} of job {job} is acknowledged: {record:?}");
            }
            MasterToNode::Stop { job, attempt, .. } => self.stop(node, (job, attempt)),
            MasterToNode::Suspend { job, attempt } => self.pause(node, (job, attempt), true),
            MasterToNode::Resume { job, attempt } => self.pause(node, (job, attempt), false),
            MasterToNode::Caps { generation, .. } => {
                let failed = if self.rarely(4) { vec![(0, "no such file".into())] } else { Vec::new() };
                let failed = limo_proto::List::clipped(failed);
                self.seen.saw("capped");
                self.nodes[node].out.push_back(NodeToMaster::Capped { generation, failed });
            }
            MasterToNode::Refused { reason } => panic!("{reason}"),
            _ => {}
        }
    }

    fn assigned(&mut self, node: usize, (job, attempt): (JobId, Attempt)) {
        self.at_a_time(job);
        if self.rarely(16) {
            self.seen.saw("refused by a node");
            let reason = "no room".into();
            self.nodes[node].out.push_back(NodeToMaster::JobRefused { job, attempt, reason });
        } else if self.rarely(16) {
            self.seen.saw("never acknowledged");
        } else {
            self.nodes[node].records.insert((job, attempt), AttemptState::Held);
            self.nodes[node].out.push_back(NodeToMaster::JobAck { job, attempt });
        }
    }

    /// No more tasks of an array are on their way or run than its user wants at a time.
    fn at_a_time(&self, job: JobId) {
        let core = &self.bench.desk.core;
        let Some((own, array)) = core.array_of(job) else { return };
        let Some(limit) = array.tasks.limit() else { return };
        let tasks = (own.0 + 1..=own.0 + u64::from(array.tasks.count())).filter_map(|task| core.job(JobId(task)));
        let active = tasks.filter(|task| task.assignment().is_some()).count();
        assert!(active <= limit.get() as usize, "{active} tasks of array {own} at a time, {limit} are allowed");
    }

    fn go(&mut self, node: usize, (job, attempt): (JobId, Attempt)) {
        if self.nodes[node].records.get(&(job, attempt)) != Some(&AttemptState::Held) {
            return;
        }
        let other = |((other, number), state): (&(JobId, Attempt), &AttemptState)| {
            *other == job && *number != attempt && *state == AttemptState::Running
        };
        let runs = self.nodes.iter().find(|node| node.records.iter().any(other));
        assert!(runs.is_none(), "attempt {attempt} of job {job} is let go while another one runs");
        if self.rarely(24) {
            self.seen.saw("not started");
            let outcome = Outcome::NotStarted { code: 127, reason: "not found".into() };
            return self.ends(node, (job, attempt), outcome);
        }
        let node = &mut self.nodes[node];
        node.records.insert((job, attempt), AttemptState::Running);
        *self.starts.entry(job).or_default().entry((attempt, node.name.clone())).or_default() += 1;
        node.out.push_back(NodeToMaster::Started { job, attempt });
    }

    fn stop(&mut self, node: usize, (job, attempt): (JobId, Attempt)) {
        let held = match self.nodes[node].records.get(&(job, attempt)) {
            None => return self.not_here(node, (job, attempt)),
            Some(AttemptState::Ended { .. }) => return,
            Some(state) => *state == AttemptState::Held,
        };
        assert!(self.may_be_stopped(job), "nobody wants attempt {attempt} of job {job} to stop");
        // One that runs may take its time.
        if held || self.dice.roll(2) == 0 {
            self.ends(node, (job, attempt), Outcome::Signaled(15));
        }
    }

    /// The master believes in an attempt that a node never had: as far as the node knows it may have run.
    fn not_here(&mut self, node: usize, (job, attempt): (JobId, Attempt)) {
        let node = &mut self.nodes[node];
        let is_known = node.records.keys().any(|(known, _)| *known == job);
        if !is_known && node.gone.get(&job).is_none_or(|gone| attempt > *gone) {
            let (outcome, usage) = (Outcome::Lost { reason: "not known here".into() }, Usage::default());
            node.out.push_back(NodeToMaster::Ended { job, attempt, outcome, usage });
        }
    }

    fn pause(&mut self, node: usize, (job, attempt): (JobId, Attempt), paused: bool) {
        self.seen.saw(if paused { "suspended" } else { "resumed" });
        let node = &mut self.nodes[node];
        if node.records.get(&(job, attempt)) == Some(&AttemptState::Running) {
            node.out.push_back(NodeToMaster::Paused { job, attempt, paused });
        }
    }

    fn ends(&mut self, node: usize, (job, attempt): (JobId, Attempt), outcome: Outcome) {
        if outcome != Outcome::Exited(0) {
            self.spoiled.insert(job);
        }
        self.told.entry((job, attempt)).or_default().push(outcome.clone());
        self.nodes[node].end((job, attempt), outcome);
    }

    pub fn finish_one(&mut self, node: usize) {
        let records = &self.nodes[node].records;
        let running = records.iter().find(|(_, state)| **state == AttemptState::Running).map(|(key, _)| *key);
        if let Some(key) = running {
            let code = if self.rarely(4) { 3 } else { 0 };
            self.ends(node, key, Outcome::Exited(code));
        }
    }

    /// A node says again what it said once, or what another one said, or something of a job that never was.
    pub fn babble(&mut self, node: usize) {
        let whose = if self.wide { node } else { self.dice.roll(NODES) };
        let message = match (self.nodes[whose].said.len(), self.dice.roll(8)) {
            (_, 0 | 2) | (0, _) => {
                // Of an attempt that never was, of a job that never was or of any other.
                let job = if self.dice.roll(2) == 0 { JobId(5_000) } else { self.some_job() };
                let attempt = Attempt(77);
                match self.dice.roll(4) {
                    0 => NodeToMaster::JobAck { job, attempt },
                    1 => NodeToMaster::Started { job, attempt },
                    2 => ended(job, attempt, 0),
                    _ => NodeToMaster::Paused { job, attempt, paused: true },
                }
            }
            (_, 1) => {
                NodeToMaster::Capped { generation: self.dice.roll(5) as u64, failed: limo_proto::List::default() }
            }
            (len, _) => self.nodes[whose].said[self.dice.roll(len)].clone(),
        };
        let node = &mut self.nodes[node];
        if node.link.is_some() && !node.out.iter().any(|own| matches!(own, NodeToMaster::RegisterEnd { .. })) {
            self.seen.saw("said without reason");
            node.out.push_back(message);
        }
    }

    /// A connection breaks; both sides notice, what was under way is gone.
    pub fn cut(&mut self, node: usize) {
        if let Some(peer) = self.nodes[node].hang_up(self.bench.now) {
            self.bench.input(Input::Gone(peer));
        }
    }

    /// The master notices that a connection is dead, after its node may have connected again.
    pub fn notice(&mut self) {
        if !self.dead.is_empty() {
            let peer = self.dead.remove(0);
            self.seen.saw("noticed late");
            self.bench.input(Input::Gone(peer));
        }
    }

    pub fn reboot(&mut self, node: usize) {
        self.rebooted = true;
        // What of it the node never reports may run elsewhere when its lease is over.
        self.failed.extend(self.nodes[node].leases.keys().map(|(job, _)| *job));
        let node_at = &mut self.nodes[node];
        node_at.boot += 1;
        node_at.gone.clear();
        // Nothing was flushed to its disk.
        node_at.records.retain(|_, _| self.dice.roll(2) == 0);
        let lost =
            || AttemptState::Ended { outcome: Outcome::Lost { reason: "reboot".into() }, usage: Usage::default() };
        for state in node_at.records.values_mut().filter(|state| !matches!(state, AttemptState::Ended { .. })) {
            *state = lost();
        }
        if self.dice.roll(2) == 0 {
            self.cut(node);
            if self.dice.roll(2) == 0 {
                self.declared_dead(node);
            }
        } else {
            // The master has not noticed yet.
            self.dead.extend(self.nodes[node].hang_up(self.bench.now));
        }
    }

    /// An operator has seen that a node was restarted.
    fn declared_dead(&mut self, node: usize) {
        let name = self.nodes[node].name.clone();
        let core = &self.bench.desk.core;
        let jobs = core.node_named(&name).map(|node| core.jobs_on(node.id())).unwrap_or_default();
        self.failed.extend(jobs);
        self.operator(Change::NodesLost(vec![name]));
    }

    /// Nodes that the master has not answered for so long end what may run elsewhere from then on.
    pub fn leases_end(&mut self) {
        for node in 0..NODES {
            let Some(since) = self.nodes[node].silent_since else { continue };
            let silent = self.bench.now - since;
            self.lost |= silent >= LEASE;
            let SimNode { records, leases, .. } = &self.nodes[node];
            let is_over = |key: &(JobId, Attempt)| leases.get(key).is_some_and(|lease| silent >= *lease);
            // Also one that is over: its end may be heard too late.
            self.failed.extend(leases.iter().filter(|(_, lease)| silent >= **lease).map(|((job, _), _)| *job));
            let running = records.iter().filter(|(_, state)| **state == AttemptState::Running).map(|(key, _)| *key);
            for key in running.filter(is_over).collect::<Vec<_>>() {
                self.seen.saw("a lease ended");
                self.ends(node, key, Outcome::NodeFailed { reason: "no answer".into() });
            }
        }
    }

    /// Whether an attempt of the job ended because its node was out of reach.
    pub fn has_failed(&self, job: JobId) -> bool {
        let is_failed = |outcome: &Outcome| matches!(outcome, Outcome::NodeFailed { .. });
        let end = self.bench.disk.finished.get(&job).and_then(|report| report.end.as_ref());
        let over = matches!(end, Some(JobEnd::Ran { outcome, .. }) if is_failed(outcome));
        let assignment = self.bench.desk.core.job(job).and_then(|job| job.assignment());
        let parts = assignment.map(|assignment| assignment.ended.as_slice()).unwrap_or_default();
        self.failed.contains(&job) || over || parts.iter().any(|part| is_failed(&part.outcome))
    }
}
