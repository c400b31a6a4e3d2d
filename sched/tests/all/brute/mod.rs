//! EASY backfilling (energy-budget-2017, Algorithm 1) by its definition: tries every job at every instant with a
//! change. It is slow, and shares no code with the core. It supports adjacent nodes only, and a limit on the draw,
//! which the reservation also keeps.

use std::collections::BTreeSet;

/// Times in seconds, powers in watts. Jobs are numbered from 0 in order of submission.
#[derive(Debug, Clone)]
pub struct Job {
    pub submitted: i64,
    pub nodes: usize,
    /// Cores on each node.
    pub cores: u32,
    pub walltime: i64,
    /// Duration; at most the walltime, which ends the job.
    pub takes: i64,
    /// Draw on all of its nodes.
    pub power: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    Any,
    Neighbours,
}

/// A running or planned job.
#[derive(Debug, Clone)]
struct Run {
    job: usize,
    from: i64,
    /// Expected end, from the walltime.
    until: i64,
    nodes: BTreeSet<usize>,
}

/// A started job: time, number, placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    pub at: i64,
    pub job: usize,
    pub nodes: BTreeSet<usize>,
}

pub struct Brute<'a> {
    jobs: &'a [Job],
    /// Number of nodes, and cores of each.
    size: usize,
    cores: u32,
    rule: Rule,
    /// Power available for jobs.
    limit: i64,
    running: Vec<Run>,
    waiting: Vec<usize>,
    started: Vec<Started>,
}

/// Computes the whole schedule. At equal times submissions come before ends, and the algorithm runs after each.
pub fn schedule(jobs: &[Job], (size, cores): (usize, u32), rule: Rule, limit: i64) -> Vec<Started> {
    let mut brute =
        Brute { jobs, size, cores, rule, limit, running: Vec::new(), waiting: Vec::new(), started: Vec::new() };
    let mut next = 0;
    loop {
        let end = |run: &Run| (run.from + jobs[run.job].takes, run.job);
        let first = brute.running.iter().map(end).min();
        let submitted = jobs.get(next).map(|job| job.submitted);
        match (submitted, first) {
            (Some(at), end) if end.is_none_or(|(end, _)| at <= end) => {
                brute.waiting.push(next);
                next += 1;
                brute.run(at);
            }
            (_, Some((at, job))) => {
                brute.running.retain(|run| run.job != job);
                brute.run(at);
            }
            _ => return brute.started,
        }
    }
}

impl Brute<'_> {
    /// Runs Algorithm 1. If nodes are shared, it begins again after each start, because a job may have another choice
    /// after a later job has started.
    fn run(&mut self, now: i64) {
        loop {
            let before = self.waiting.len();
            self.run_once(now);
            if self.cores == 1 || self.waiting.len() == before {
                return;
            }
        }
    }

    fn run_once(&mut self, now: i64) {
        while let Some(job) = self.waiting.first().copied() {
            let Some(run) = self.place(job, now, None) else { break };
            self.waiting.remove(0);
            self.start(run);
        }
        if self.waiting.is_empty() {
            return;
        }
        let first = self.waiting.remove(0);
        let reserved = self.reserve(first, now);
        for job in self.waiting.clone() {
            if let Some(run) = self.place(job, now, Some(&reserved)) {
                self.waiting.retain(|waiting| *waiting != job);
                self.start(run);
                if self.cores > 1 {
                    break;
                }
            }
        }
        self.waiting.insert(0, first);
    }

    fn start(&mut self, run: Run) {
        self.started.push(Started { at: run.from, job: run.job, nodes: run.nodes.clone() });
        self.running.push(run);
    }

    /// Returns the free cores at `at`, by node, as expected at `now`. Jobs that run now keep their cores until then.
    fn free(&self, at: i64, now: i64) -> Vec<u32> {
        let mut free = vec![self.cores; self.size];
        for run in self.running.iter().filter(|run| at == now || run.until > at) {
            run.nodes.iter().for_each(|node| free[*node] -= self.jobs[run.job].cores);
        }
        free
    }

    fn draw(&self, at: i64, now: i64) -> i64 {
        let holds = |run: &&Run| at == now || run.until > at;
        self.running.iter().filter(holds).map(|run| self.jobs[run.job].power).sum()
    }

    /// Returns the first choice with enough free cores: the nodes with the fewest free cores, or the first row.
    fn choose(&self, job: &Job, free: &[u32]) -> Option<BTreeSet<usize>> {
        let fits = |node: &usize| free[*node] >= job.cores;
        if self.rule == Rule::Any {
            let mut nodes: Vec<usize> = (0..self.size).filter(fits).collect();
            nodes.sort_by_key(|node| free[*node]);
            return nodes.get(..job.nodes).map(|nodes| nodes.iter().copied().collect());
        }
        let mut rows = (0..=self.size - job.nodes).map(|first| first..first + job.nodes);
        rows.find(|row| row.clone().all(|node| fits(&node))).map(Iterator::collect)
    }

    /// Returns the job started now, if it uses no busy or reserved resources.
    fn place(&self, number: usize, now: i64, reserved: Option<&Run>) -> Option<Run> {
        let job = &self.jobs[number];
        let until = now + job.walltime;
        let meets = reserved.filter(|reserved| until > reserved.from);
        let mut free = self.free(now, now);
        if self.rule == Rule::Neighbours
            && let Some(reserved) = meets
        {
            reserved.nodes.iter().for_each(|node| free[*node] = 0);
        }
        let nodes = self.choose(job, &free)?;
        let mut instants: BTreeSet<i64> = self.running.iter().map(|run| run.until).collect();
        instants.extend([now, meets.map_or(now, |reserved| reserved.from)]);
        // If a job should end now but has not ended, both states count: it still runs, and it has ended.
        for (at, seen) in instants.range(now..until).flat_map(|at| [(*at, now), (*at, i64::MIN)]) {
            let held = meets.filter(|reserved| seen != now && (reserved.from..reserved.until).contains(&at));
            let head = held.map(|held| &self.jobs[held.job]);
            let mut free = self.free(at, seen);
            nodes.iter().for_each(|node| free[*node] = free[*node].saturating_sub(job.cores));
            let room = |head: &Job| free.iter().filter(|free| **free >= head.cores).count() >= head.nodes;
            let drawn = head.map_or(0, |head| head.power);
            if (self.rule == Rule::Any && !head.is_none_or(room))
                || self.draw(at, seen) + drawn + job.power > self.limit
            {
                return None;
            }
        }
        Some(Run { job: number, from: now, until, nodes })
    }

    /// Returns the first time at which enough jobs are expected to have ended, with all ends expected at that time.
    fn reserve(&self, number: usize, now: i64) -> Run {
        let job = &self.jobs[number];
        let instants: BTreeSet<i64> = self.running.iter().map(|run| run.until).filter(|at| *at >= now).collect();
        let chosen = instants.iter().filter(|at| self.draw(**at, i64::MIN) + job.power <= self.limit);
        let mut found = chosen.filter_map(|at| Some((*at, self.choose(job, &self.free(*at, i64::MIN))?)));
        let (from, nodes) = found.next().expect("when all has ended there is room for any job");
        Run { job: number, from, until: from + job.walltime, nodes }
    }
}
