//! A naive simulator of a pool, in steps of a second, by the rules of docs/pools.md and docs/policies.md. It looks at each
//! computer and each job in every second, and knows nothing of the engine.
//!
//! At equal times owners leave, then come; then reboots begin, and jobs are submitted. Then computers are awake, asleep and
//! restarted, jobs begin, and jobs end, one by one; jobs that wait start after each of these. Evictions come last.

use std::collections::BTreeMap;

use lsim::engine::NodeActivity;

use super::cases::{CaseJob, CaseOwners, DAY, PoolCase, SWITCH};

/// Duration of a reboot.
const REBOOT: i64 = 300;

/// Power state of a computer. `order` is the number of the order that it follows; computers may share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NaivePower {
    Awake,
    Down { until: i64, order: u64 },
    Asleep,
    Up { until: i64, order: u64 },
}

#[derive(Debug, Clone)]
pub struct NaiveNode {
    pub group: usize,
    pub power: NaivePower,
    pub owners: u32,
    pub job: Option<usize>,
    pub idle_since: i64,
    /// Time from which jobs start after a visit.
    pub closed_until: i64,
    /// End of the window of a reboot that waits.
    reboot_waits: Option<i64>,
    pub reboots_until: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NaivePhase {
    NotYet,
    Waiting,
    /// Its computer wakes.
    Assigned,
    Running,
    Suspended {
        evict_at: i64,
    },
    Over,
}

#[derive(Debug, Clone)]
pub struct NaiveJob {
    pub phase: NaivePhase,
    pub node: usize,
    /// Seconds of the attempt that are left: of input, work and output.
    pub input: i64,
    pub left: i64,
    pub output: i64,
    /// Seconds of the attempt with transfers, and with work.
    pub moved: i64,
    pub worked: i64,
    pub started: i64,
    /// Number of its begin among those of all jobs.
    pub begun: u64,
    /// True if it is to be evicted, or removed.
    pub is_evicted: bool,
    pub is_removed: bool,
}

/// Figures of a simulation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolOutcome {
    /// By job: its end, if it has run.
    pub ends: Vec<Option<i64>>,
    /// By job: the computers of its attempts.
    pub attempts: Vec<Vec<u32>>,
    /// By group and state: seconds and millijoules.
    pub spent: Vec<[(i64, i64); 9]>,
    /// By cause: number, and seconds of work.
    pub wasted: [(u64, i64); 2],
    /// The same of completed jobs.
    pub good: i64,
    /// Attempts with transfers, and seconds of them.
    pub transfers: (u64, i64),
    /// Seconds of attempts that were removed.
    pub removed: i64,
    /// Sum over the completed jobs of the time that they spent beyond their running time.
    pub overhead: i64,
    pub visits: u64,
    pub reboots: u64,
    pub left_out: u64,
    pub end: i64,
}

pub struct NaivePool<'a> {
    pub case: &'a PoolCase,
    pub nodes: Vec<NaiveNode>,
    pub jobs: Vec<NaiveJob>,
    orders: u64,
    begun: u64,
    /// Time after which no reboot begins: the last logout or submission.
    last: i64,
    /// By group and hour of the week: the value of the rank `learned`, in milliseconds.
    pub learned: BTreeMap<(usize, i64), i64>,
    pub outcome: PoolOutcome,
}

impl<'a> NaivePool<'a> {
    /// Simulates a pool to its end.
    pub fn outcome(case: &'a PoolCase) -> PoolOutcome {
        let node = |group| NaiveNode {
            group,
            power: NaivePower::Awake,
            owners: 0,
            job: None,
            idle_since: case.start,
            closed_until: 0,
            reboot_waits: None,
            reboots_until: None,
        };
        let job = |of: &CaseJob| NaiveJob {
            phase: NaivePhase::NotYet,
            node: 0,
            input: of.input,
            left: of.run,
            output: of.output,
            moved: 0,
            worked: 0,
            started: 0,
            begun: 0,
            is_evicted: false,
            is_removed: false,
        };
        let submits = case.jobs.iter().map(|job| job.submit);
        let last = case.sessions.iter().map(|session| session.logout).chain(submits).max().unwrap_or(case.start);
        let outcome = PoolOutcome {
            ends: vec![None; case.jobs.len()],
            attempts: vec![Vec::new(); case.jobs.len()],
            spent: vec![[(0, 0); 9]; case.groups.len()],
            ..PoolOutcome::default()
        };
        let nodes = case.group_of_nodes().into_iter().map(node).collect();
        let jobs = case.jobs.iter().map(job).collect();
        let mut pool = Self { case, nodes, jobs, orders: 0, begun: 0, last, learned: BTreeMap::new(), outcome };
        let mut now = case.start;
        pool.plan(now);
        loop {
            pool.second(now);
            if now >= case.until && pool.is_over() {
                break;
            }
            pool.count();
            now += 1;
        }
        let late = pool.nodes.iter().filter(|node| node.reboot_waits.is_some_and(|until| until < now));
        pool.outcome.left_out += late.count() as u64;
        pool.outcome.end = now;
        pool.outcome
    }

    /// Returns true if no job is left, and no computer falls asleep or wakes.
    fn is_over(&self) -> bool {
        let is_steady = |node: &NaiveNode| matches!(node.power, NaivePower::Awake | NaivePower::Asleep);
        self.jobs.iter().all(|job| job.phase == NaivePhase::Over) && self.nodes.iter().all(is_steady)
    }

    fn second(&mut self, now: i64) {
        let mut due = self.due(now);
        if self.come_and_go(now) {
            self.plan(now);
        }
        loop {
            for event in due {
                self.happen(event, now);
                self.plan(now);
            }
            self.plan(now);
            due = self.due(now);
            if due.is_empty() {
                return;
            }
        }
    }

    /// Adds the time and the energy of this second, and the work of the running jobs.
    fn count(&mut self) {
        for node in &self.nodes {
            let group = &self.case.groups[node.group];
            let phase = node.job.map(|job| self.jobs[job].phase);
            let state = match node.power {
                _ if node.reboots_until.is_some() => NodeActivity::Reboot,
                NaivePower::Asleep => NodeActivity::Sleep,
                NaivePower::Down { .. } => NodeActivity::Down,
                NaivePower::Up { .. } => NodeActivity::Up,
                NaivePower::Awake => match (phase, node.owners > 0) {
                    (Some(NaivePhase::Running), true) => NodeActivity::Both,
                    (Some(NaivePhase::Running), false) => NodeActivity::Job,
                    (Some(NaivePhase::Suspended { .. }), _) => NodeActivity::Suspended,
                    (_, true) => NodeActivity::User,
                    (_, false) => NodeActivity::Idle,
                },
            };
            let watts = match state {
                NodeActivity::Sleep => group.sleep_w.expect("it sleeps"),
                NodeActivity::Idle | NodeActivity::Down | NodeActivity::Up => group.idle_w,
                // A user counts as full load, also beside a suspended job, and a reboot does.
                _ => group.active_w,
            };
            let spent = &mut self.outcome.spent[node.group][state as usize];
            *spent = (spent.0 + 1, spent.1 + watts * 1_000);
        }
        for job in self.jobs.iter_mut().filter(|job| job.phase == NaivePhase::Running) {
            let (part, seconds) = match job {
                NaiveJob { input: 1.., .. } => (&mut job.input, &mut job.moved),
                NaiveJob { left: 1.., .. } => (&mut job.left, &mut job.worked),
                _ => (&mut job.output, &mut job.moved),
            };
            *part -= 1;
            *seconds += 1;
        }
    }

    pub fn owners_of(&self, node: usize) -> Option<CaseOwners> {
        self.case.groups[self.nodes[node].group].owners.filter(|owners| owners.suspends)
    }

    pub fn wake(&mut self, node: usize, now: i64) {
        self.orders += 1;
        self.nodes[node].power = NaivePower::Up { until: now + SWITCH, order: self.orders };
    }

    /// Lets owners leave and come, begins reboots, and submits jobs. Returns true if there were any.
    fn come_and_go(&mut self, now: i64) -> bool {
        let mut any = false;
        for session in self.case.sessions.iter().filter(|session| session.logout == now) {
            any = true;
            let node = session.node;
            self.nodes[node].owners -= 1;
            if self.nodes[node].owners == 0 {
                self.nodes[node].idle_since = now;
                if let Some(owners) = self.owners_of(node) {
                    self.nodes[node].closed_until = now + owners.start_after;
                    let job = self.nodes[node].job.map(|job| &mut self.jobs[job]);
                    if let Some(job) = job.filter(|job| matches!(job.phase, NaivePhase::Suspended { .. })) {
                        job.phase = NaivePhase::Running;
                    }
                }
                self.try_reboot(node, now);
            }
        }
        for session in self.case.sessions.iter().filter(|session| session.login == now) {
            any = true;
            let node = session.node;
            self.nodes[node].owners += 1;
            if self.nodes[node].owners == 1 {
                self.outcome.visits += 1;
                if self.nodes[node].power == NaivePower::Asleep {
                    self.wake(node, now);
                }
                self.suspend(node, now);
            }
        }
        let is_over = now > self.last;
        for reboot in self.case.reboots.iter().filter(|reboot| now % DAY == reboot.at && !is_over) {
            any = true;
            self.outcome.left_out += u64::from(self.nodes[reboot.node].reboot_waits.is_some());
            self.nodes[reboot.node].reboot_waits = Some(now - reboot.at + reboot.until);
            self.try_reboot(reboot.node, now);
        }
        for (index, _) in self.case.jobs.iter().enumerate().filter(|(_, job)| job.submit == now) {
            any = true;
            self.jobs[index].phase = NaivePhase::Waiting;
        }
        any
    }

    /// Suspends the job of a computer whose owner is there.
    fn suspend(&mut self, node: usize, now: i64) {
        let Some(owners) = self.owners_of(node) else { return };
        let job = self.nodes[node].job.map(|job| &mut self.jobs[job]);
        if let Some(job) = job.filter(|job| job.phase == NaivePhase::Running) {
            job.phase = NaivePhase::Suspended { evict_at: now + owners.evict_after };
        }
    }

    /// Begins a reboot that waits, if it can begin.
    pub fn try_reboot(&mut self, node: usize, now: i64) {
        let of = &self.nodes[node];
        let Some(until) = of.reboot_waits else { return };
        if now > until {
            self.nodes[node].reboot_waits = None;
            self.outcome.left_out += 1;
            return;
        }
        if of.owners > 0 || of.reboots_until.is_some() || (self.case.defers && of.job.is_some()) {
            return;
        }
        match of.power {
            NaivePower::Down { .. } | NaivePower::Up { .. } => {}
            NaivePower::Asleep => self.wake(node, now),
            NaivePower::Awake => {
                self.nodes[node].reboot_waits = None;
                self.nodes[node].reboots_until = Some(now + REBOOT);
                self.outcome.reboots += 1;
                if let Some(job) = self.nodes[node].job {
                    self.evict(job, 1, now);
                }
            }
        }
    }

    /// Takes a job from its computer.
    fn leave(&mut self, job: usize, now: i64) {
        let node = self.jobs[job].node;
        self.nodes[node].job = None;
        self.nodes[node].idle_since = now;
    }

    pub fn evict(&mut self, job: usize, cause: usize, now: i64) {
        self.learn(job, true);
        self.count_transfers(job);
        let (of, case) = (&mut self.jobs[job], &self.case.jobs[job]);
        let wasted = &mut self.outcome.wasted[cause];
        *wasted = (wasted.0 + 1, wasted.1 + of.worked);
        (of.input, of.left, of.output, of.moved, of.worked) = (case.input, case.run, case.output, 0, 0);
        of.phase = NaivePhase::Waiting;
        of.is_evicted = false;
        self.leave(job, now);
    }

    pub fn count_transfers(&mut self, job: usize) {
        let (of, case) = (&self.jobs[job], &self.case.jobs[job]);
        let sum = &mut self.outcome.transfers;
        *sum = (sum.0 + u64::from(case.input + case.output > 0), sum.1 + of.moved);
    }

    pub fn begin(&mut self, job: usize, now: i64) {
        self.begun += 1;
        self.jobs[job].begun = self.begun;
        self.jobs[job].started = now;
        self.jobs[job].phase = NaivePhase::Running;
        let node = self.jobs[job].node;
        if self.nodes[node].owners > 0 {
            self.suspend(node, now);
        }
    }

    pub fn end(&mut self, job: usize, now: i64) {
        self.learn(job, false);
        self.jobs[job].phase = NaivePhase::Over;
        self.outcome.ends[job] = Some(now);
        self.leave(job, now);
        self.try_reboot(self.jobs[job].node, now);
    }

    /// Orders evictions that are due, starts jobs in the order of their submission, and puts computers to sleep.
    fn plan(&mut self, now: i64) {
        for job in &mut self.jobs {
            if let NaivePhase::Suspended { evict_at } = job.phase {
                job.is_evicted |= evict_at <= now;
            }
        }
        for job in 0..self.jobs.len() {
            if self.jobs[job].phase != NaivePhase::Waiting {
                continue;
            }
            let Some(node) = self.best(now) else { break };
            self.outcome.attempts[job].push(node as u32);
            self.nodes[node].job = Some(job);
            self.jobs[job].node = node;
            if self.nodes[node].power == NaivePower::Asleep {
                self.jobs[job].phase = NaivePhase::Assigned;
                self.wake(node, now);
            } else {
                self.begin(job, now);
            }
        }
        let Some(rest) = self.case.rest else { return };
        self.orders += 1;
        for node in &mut self.nodes {
            let is_idle = node.job.is_none() && node.owners == 0 && node.reboots_until.is_none();
            let can_sleep = self.case.groups[node.group].sleep_w.is_some() && node.power == NaivePower::Awake;
            if is_idle && can_sleep && node.idle_since + rest <= now {
                node.power = NaivePower::Down { until: now + SWITCH, order: self.orders };
            }
        }
    }
}
