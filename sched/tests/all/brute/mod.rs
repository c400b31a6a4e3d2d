//! EASY backfilling (energy-budget-2017, Algorithm 1) by its definition alone: every job is tried at every instant at
//! which anything changes. Slow, and shares no code with the core. With neighbours only, and with a limit on the draw,
//! which the reservation then holds too.

use std::collections::BTreeSet;

/// Times in seconds, powers in watts. Jobs are numbered from 0 in order of submission.
#[derive(Debug, Clone)]
pub struct Job {
    pub submitted: i64,
    pub nodes: usize,
    /// On each of them.
    pub cores: u32,
    pub walltime: i64,
    /// At most the walltime: a job is ended at it.
    pub takes: i64,
    /// On all of its nodes.
    pub power: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    Any,
    Neighbours,
}

/// A job that runs or that is planned.
#[derive(Debug, Clone)]
struct Run {
    job: usize,
    from: i64,
    /// From its walltime.
    until: i64,
    nodes: BTreeSet<usize>,
}

/// A job that was started: when, which, where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    pub at: i64,
    pub job: usize,
    pub nodes: BTreeSet<usize>,
}

pub struct Brute<'a> {
    jobs: &'a [Job],
    /// How many nodes, and cores of each.
    size: usize,
    cores: u32,
    rule: Rule,
    /// What is left for jobs.
    limit: i64,
    running: Vec<Run>,
    waiting: Vec<usize>,
    started: Vec<Started>,
}

/// The whole schedule. At equal times submissions come before ends, and the algorithm runs after each of them.
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
    /// Algorithm 1. Where nodes are shared it begins anew after each start: a job whose first choice was in the way of the
    /// reservation may have another one when a later job has taken that.
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

    /// Cores that no job has at `at`, by node, as far as is known at `now`: jobs that run now have theirs now.
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

    /// The first choice where so many cores are free: nodes with the least room, or the first row.
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

    /// The job from now on, where it takes nothing that somebody has or that is reserved.
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
        // Where a job that is expected to end now has not ended, both hold now: it runs, and it will have ended.
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

    /// The first time at which enough jobs are expected to have ended. All that are expected to end then count.
    fn reserve(&self, number: usize, now: i64) -> Run {
        let job = &self.jobs[number];
        let instants: BTreeSet<i64> = self.running.iter().map(|run| run.until).filter(|at| *at >= now).collect();
        let chosen = instants.iter().filter(|at| self.draw(**at, i64::MIN) + job.power <= self.limit);
        let mut found = chosen.filter_map(|at| Some((*at, self.choose(job, &self.free(*at, i64::MIN))?)));
        let (from, nodes) = found.next().expect("when all has ended there is room for any job");
        Run { job: number, from, until: from + job.walltime, nodes }
    }
}
