//! Random faults: the master is killed, commits fail, connections break, nodes reboot and lose records. Whatever happens,
//! no accepted job is lost, none runs twice, and a job is reported lost only where a node was rebooted.

use std::collections::BTreeSet;

use limo_model::Spread;
use limo_proto::{AttemptState, Change, JobState, Parallel};

use super::*;

/// Worlds in which nothing but nodes that reboot may lose a job, and worlds in which nothing may.
const SEEDS: u64 = 400;
const STEPS: usize = 400;
const NODES: usize = 3;

/// xorshift64 (Marsaglia 2003).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % sides
    }
}

/// A node as far as the master can tell: records on its disk, and a connection.
struct SimNode {
    name: String,
    boot: u32,
    records: BTreeMap<(JobId, Attempt), AttemptState>,
    link: Option<PeerId>,
    out: VecDeque<NodeToMaster>,
}

struct World {
    bench: Bench,
    nodes: Vec<SimNode>,
    dice: Dice,
    reboots: bool,
    rebooted: bool,
    client: PeerId,
    next_key: u8,
    /// Handed in and not answered.
    pending: BTreeSet<u8>,
    accepted: BTreeSet<JobId>,
    /// Whether jobs are over several nodes.
    wide: bool,
    /// How often each job was started on each node.
    starts: BTreeMap<JobId, BTreeMap<String, u32>>,
}

fn lost() -> AttemptState {
    let outcome = Outcome::Lost { reason: "reboot".into() };
    AttemptState::Ended { outcome, usage: Usage::default() }
}

impl World {
    fn new(seed: u64, wide: bool) -> Self {
        let mut bench = Bench::new();
        if wide {
            let operator = bench.client(0);
            bench.say(operator, ClientToMaster::ChangeConf(Box::new(Change::Policy(Preset::Easy))));
        }
        (bench.slow_disk, bench.slow_answers) = (true, true);
        let node = |index| SimNode {
            name: format!("n{index}"),
            boot: 0,
            records: BTreeMap::new(),
            link: None,
            out: VecDeque::new(),
        };
        let client = bench.client(7);
        Self {
            bench,
            nodes: (0..NODES).map(node).collect(),
            dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            reboots: seed.is_multiple_of(2),
            rebooted: false,
            client,
            next_key: 1,
            pending: BTreeSet::new(),
            accepted: BTreeSet::new(),
            wide,
            starts: BTreeMap::new(),
        }
    }

    fn step(&mut self) {
        let node = self.dice.roll(NODES);
        match self.dice.roll(100) {
            0..6 => self.submit(),
            6..20 => self.connect(node),
            20..40 => self.deliver(node),
            40..58 => self.hear(node),
            58..66 => self.finish_one(node),
            66..76 => self.bench.answer_one(),
            76..86 => self.commit(),
            86..88 if !self.bench.committing.is_empty() => self.bench.fail(),
            88..90 => self.kill(),
            90..92 => self.cut(node),
            92..93 if self.reboots => self.reboot(node),
            _ => {
                let pause = [10, 300, 2_500][self.dice.roll(3)];
                self.pass(Span::from_ms(pause));
            }
        }
        self.look();
    }

    fn pass(&mut self, span: Span) {
        // Deadlines that wait for a commit do not come: the disk is slow.
        self.bench.now = self.bench.now + span;
        self.bench.input(Input::Timer);
    }

    fn commit(&mut self) {
        if !self.bench.committing.is_empty() {
            self.bench.commit();
        }
    }

    fn submit(&mut self) {
        if self.next_key < 30 {
            self.pending.insert(self.next_key);
            self.hand_in(self.next_key, false);
            self.next_key += 1;
        }
    }

    fn hand_in(&mut self, key: u8, again: bool) {
        // The same each time it is handed in.
        let nodes = NonZeroU32::new(u32::from(key) % 3 + 1).filter(|_| self.wide);
        let submission = exec_with(key, |exec| {
            exec.again = again;
            exec.launch.io = Io::Detached;
            exec.launch.parallel = nodes.map(|_| Parallel::default());
            let cores = Cores::Count(NonZeroU32::MIN);
            exec.request.spread = nodes.map(|nodes| Spread { tasks: nodes, cores, nodes: Some(nodes), per_node: None });
        });
        self.bench.say(self.client, submission);
    }

    /// What the master has told the client, and on whom it hung up.
    fn look(&mut self) {
        for message in self.bench.heard(self.client) {
            match message {
                MasterToClient::Accepted { job } => {
                    self.accepted.insert(job);
                }
                MasterToClient::Refused { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        for (peer, _) in std::mem::take(&mut self.bench.closed) {
            if let Some(node) = self.nodes.iter().position(|node| node.link == Some(peer)) {
                // Something of what was sent may still arrive.
                for _ in 0..self.dice.roll(4) {
                    self.deliver(node);
                }
                self.nodes[node].link = None;
                self.nodes[node].out.clear();
            }
        }
    }

    fn connect(&mut self, node: usize) {
        if self.nodes[node].link.is_some() {
            return;
        }
        let peer = self.bench.peer();
        self.bench.input(Input::NodeConnected(peer));
        let node = &mut self.nodes[node];
        node.link = Some(peer);
        let report = |((job, attempt), state): (&(JobId, Attempt), &AttemptState)| AttemptReport {
            job: *job,
            attempt: *attempt,
            state: state.clone(),
            stdin_offset: 0,
            kept: Default::default(),
        };
        let attempts = node.records.iter().map(report).collect();
        let slave = slave(&node.name, &node.boot.to_string(), attempts);
        node.out = VecDeque::from([NodeToMaster::NewSlave(Box::new(slave))]);
    }

    /// A message from a node reaches the master.
    fn hear(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        if let (Some(peer), Some(message)) = (node.link, node.out.pop_front()) {
            self.bench.report(peer, message);
        }
    }

    /// A message from the master reaches a node.
    fn deliver(&mut self, node: usize) {
        let Some(peer) = self.nodes[node].link else { return };
        let Some(index) = self.bench.to_nodes.iter().position(|(to, _)| *to == peer) else { return };
        let (_, message) = self.bench.to_nodes.remove(index);
        let node = &mut self.nodes[node];
        match message {
            MasterToNode::DoExec(exec) => {
                let key = (exec.job, exec.attempt);
                node.records.insert(key, AttemptState::Held);
                node.out.push_back(NodeToMaster::JobAck { job: exec.job, attempt: exec.attempt });
            }
            MasterToNode::Go { job, attempt } => {
                let state = node.records.get_mut(&(job, attempt));
                if let Some(state) = state.filter(|state| **state == AttemptState::Held) {
                    *state = AttemptState::Running;
                    *self.starts.entry(job).or_default().entry(node.name.clone()).or_default() += 1;
                    node.out.push_back(NodeToMaster::Started { job, attempt });
                }
            }
            MasterToNode::Drop { job, attempt } => {
                node.records.retain(|key, state| *key != (job, attempt) || *state != AttemptState::Held);
            }
            MasterToNode::EndedAck { job, attempt } => {
                node.records.remove(&(job, attempt));
            }
            MasterToNode::Stop { job, attempt, .. } => {
                assert!(self.wide && self.rebooted, "nobody wants attempt {attempt} of job {job} to stop");
                let (outcome, usage) = (Outcome::Signaled(15), Usage::default());
                let state = node.records.get_mut(&(job, attempt));
                if let Some(state) = state.filter(|state| !matches!(state, AttemptState::Ended { .. })) {
                    *state = AttemptState::Ended { outcome: outcome.clone(), usage };
                    node.out.push_back(NodeToMaster::Ended { job, attempt, outcome, usage });
                }
            }
            MasterToNode::Refused { reason } => panic!("{reason}"),
            _ => {}
        }
    }

    fn finish_one(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        let running = node.records.iter_mut().find(|(_, state)| **state == AttemptState::Running);
        if let Some((&(job, attempt), state)) = running {
            let (outcome, usage) = (Outcome::Exited(0), Usage::default());
            *state = AttemptState::Ended { outcome: outcome.clone(), usage };
            node.out.push_back(NodeToMaster::Ended { job, attempt, outcome, usage });
        }
    }

    /// A connection breaks; both sides notice, what was under way is gone.
    fn cut(&mut self, node: usize) {
        if let Some(peer) = self.nodes[node].link.take() {
            self.nodes[node].out.clear();
            self.bench.input(Input::Gone(peer));
        }
    }

    fn reboot(&mut self, node: usize) {
        self.rebooted = true;
        let node_at = &mut self.nodes[node];
        node_at.boot += 1;
        // Nothing was flushed to its disk.
        node_at.records.retain(|_, _| self.dice.roll(2) == 0);
        for state in node_at.records.values_mut().filter(|state| !matches!(state, AttemptState::Ended { .. })) {
            *state = lost();
        }
        if self.dice.roll(2) == 0 {
            self.cut(node);
        } else {
            // The master has not noticed yet.
            node_at.link = None;
            node_at.out.clear();
        }
    }

    /// `kill -9`: a commit under way may have reached the disk. Messages on the wire may still arrive.
    fn kill(&mut self) {
        if self.dice.roll(2) == 0
            && let Some(batch) = self.bench.committing.pop_front()
        {
            self.bench.disk.write(batch);
        }
        for node in 0..NODES {
            for _ in 0..self.dice.roll(4) {
                self.deliver(node);
            }
            self.nodes[node].link = None;
            self.nodes[node].out.clear();
        }
        let (disk, now) = (std::mem::take(&mut self.bench.disk), self.bench.now);
        self.bench = Bench::on(disk, now);
        (self.bench.slow_disk, self.bench.slow_answers) = (true, true);
        self.client = self.bench.client(7);
        for key in self.pending.clone() {
            self.hand_in(key, true);
        }
    }

    /// No more faults: everything that was accepted comes to its end.
    fn heal(&mut self) {
        for _ in 0..2_000 {
            self.commit();
            self.bench.answer_one();
            self.bench.input(Input::Ballast(Ok(())));
            for node in 0..NODES {
                self.connect(node);
                self.hear(node);
                self.deliver(node);
                self.finish_one(node);
            }
            self.pass(Span::from_ms(100));
            self.look();
            let quiet = self.nodes.iter().all(|node| node.records.is_empty());
            if quiet && self.accepted.iter().all(|job| self.bench.disk.finished.contains_key(job)) {
                return;
            }
        }
        let jobs: Vec<_> = self.bench.desk.core.jobs().map(|(id, job)| (id, &job.phase)).collect();
        let records: Vec<_> = self.nodes.iter().map(|node| (&node.name, node.link, &node.records)).collect();
        panic!(
            "it does not come to an end: {jobs:?}\n{records:?}\n{:?} {:?}",
            self.bench.desk.gathered, self.bench.desk.awaited
        );
    }

    fn check(&self) {
        for (job, starts) in &self.starts {
            assert!(starts.values().all(|count| *count == 1), "job {job} was started twice on a node: {starts:?}");
        }
        for job in &self.accepted {
            let JobReport { state, nodes, .. } = &self.bench.disk.finished[job];
            match state {
                JobState::Completed => {
                    let started = self.starts.get(job).into_iter().flat_map(BTreeMap::keys);
                    let placed: BTreeSet<&String> = nodes.iter().collect();
                    assert_eq!(started.collect::<BTreeSet<_>>(), placed, "job {job}");
                }
                JobState::Lost => assert!(self.rebooted, "job {job} was lost without need"),
                other => panic!("job {job} is {other:?}"),
            }
        }
    }
}

/// How many jobs came to their ends.
fn finished(wide: bool) -> usize {
    let mut finished = 0;
    for seed in 1..=SEEDS {
        let world = std::panic::catch_unwind(|| {
            let mut world = World::new(seed, wide);
            for _ in 0..STEPS {
                world.step();
            }
            world.heal();
            world.check();
            world
        });
        finished += world.unwrap_or_else(|_| panic!("seed {seed}")).accepted.len();
    }
    finished
}

#[test]
fn no_job_is_lost_and_none_runs_twice() {
    let finished = finished(false);
    assert!(finished > 2_000, "the worlds are too quiet to mean anything: {finished} jobs");
}

/// All nodes of a job or none of them.
#[test]
fn no_job_over_several_nodes_is_lost_and_none_runs_twice() {
    let finished = finished(true);
    assert!(finished > 1_500, "the worlds are too quiet to mean anything: {finished} jobs");
}
