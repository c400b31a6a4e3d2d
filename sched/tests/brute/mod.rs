//! EASY backfilling (energy-budget-2017, Algorithm 1) by its definition alone: every job is tried at every instant at
//! which anything changes. Slow, and shares no code with the core. With neighbours only, and with a limit on the draw,
//! which the reservation then holds too.

use std::collections::BTreeSet;

/// Times in seconds, powers in watts. Jobs are numbered from 0 in order of submission.
#[derive(Debug, Clone)]
pub struct Job {
    pub submitted: i64,
    pub nodes: usize,
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
    size: usize,
    rule: Rule,
    /// What is left for jobs.
    limit: i64,
    running: Vec<Run>,
    waiting: Vec<usize>,
    started: Vec<Started>,
}

/// The whole schedule. At equal times submissions come before ends, and the algorithm runs after each of them.
pub fn schedule(jobs: &[Job], size: usize, rule: Rule, limit: i64) -> Vec<Started> {
    let mut brute = Brute { jobs, size, rule, limit, running: Vec::new(), waiting: Vec::new(), started: Vec::new() };
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
    /// Algorithm 1.
    fn run(&mut self, now: i64) {
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
            }
        }
        self.waiting.insert(0, first);
    }

    fn start(&mut self, run: Run) {
        self.started.push(Started { at: run.from, job: run.job, nodes: run.nodes.clone() });
        self.running.push(run);
    }

    /// The nodes that no job has at `at`, as far as is known at `now`: jobs that run now have theirs now.
    fn free(&self, at: i64, now: i64) -> BTreeSet<usize> {
        let holds = |run: &&Run| at == now || run.until > at;
        let taken: BTreeSet<usize> = self.running.iter().filter(holds).flat_map(|run| run.nodes.clone()).collect();
        (0..self.size).filter(|node| !taken.contains(node)).collect()
    }

    fn draw(&self, at: i64, now: i64) -> i64 {
        let holds = |run: &&Run| at == now || run.until > at;
        self.running.iter().filter(holds).map(|run| self.jobs[run.job].power).sum()
    }

    /// The first choice among `free` nodes.
    fn choose(&self, wanted: usize, free: &BTreeSet<usize>) -> Option<BTreeSet<usize>> {
        if self.rule == Rule::Any {
            return (free.len() >= wanted).then(|| free.iter().copied().take(wanted).collect());
        }
        let runs = (0..self.size).map(|first| (first..first + wanted).collect::<BTreeSet<usize>>());
        runs.filter(|run| run.is_subset(free)).find(|run| run.len() == wanted)
    }

    /// The job from now on, where it takes no node and no power that somebody has or that is reserved.
    fn place(&self, job: usize, now: i64, reserved: Option<&Run>) -> Option<Run> {
        let Job { nodes: wanted, walltime, power, .. } = self.jobs[job];
        let until = now + walltime;
        let meets = reserved.filter(|reserved| until > reserved.from);
        let mut free = self.free(now, now);
        if self.rule == Rule::Neighbours
            && let Some(reserved) = meets
        {
            free.retain(|node| !reserved.nodes.contains(node));
        }
        let nodes = self.choose(wanted, &free)?;
        let mut instants: BTreeSet<i64> = self.running.iter().map(|run| run.until).collect();
        instants.extend([now, meets.map_or(now, |reserved| reserved.from)]);
        // Where a job that is expected to end now has not ended, both hold now: it runs, and it will have ended.
        for (at, seen) in instants.range(now..until).flat_map(|at| [(*at, now), (*at, i64::MIN)]) {
            let held = meets.filter(|reserved| seen != now && (reserved.from..reserved.until).contains(&at));
            let taken = held.map_or(0, |held| self.jobs[held.job].nodes);
            let drawn = held.map_or(0, |held| self.jobs[held.job].power);
            if self.free(at, seen).len() < taken + wanted || self.draw(at, seen) + drawn + power > self.limit {
                return None;
            }
        }
        Some(Run { job, from: now, until, nodes })
    }

    /// The first time at which enough jobs are expected to have ended. All that are expected to end then count.
    fn reserve(&self, job: usize, now: i64) -> Run {
        let instants: BTreeSet<i64> = self.running.iter().map(|run| run.until).filter(|at| *at >= now).collect();
        let Job { nodes: wanted, walltime, power, .. } = self.jobs[job];
        let chosen = instants.iter().filter(|at| self.draw(**at, i64::MIN) + power <= self.limit);
        let mut found = chosen.filter_map(|at| Some((*at, self.choose(wanted, &self.free(*at, i64::MIN))?)));
        let (from, nodes) = found.next().expect("when all has ended there is room for any job");
        Run { job, from, until: from + walltime, nodes }
    }
}
