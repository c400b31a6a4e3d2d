//! The schedule of jobs with the least sum of weighted waits: stage 1 of DEC, power-capping-2018, section 4.3, equations
//! 1 and 2. Resources are pooled over the nodes; the draw is one of them.
//!
//! Idea: a list of jobs becomes a schedule by placing one after another at its earliest time. Up to [`EXACT`] jobs, the
//! best list is found by branch and bound: an earliest schedule of some list is optimal, since a wait never ends sooner
//! by starting later. For more jobs, the best of a few rules is improved by annealing, which moves and swaps jobs in
//! the list. Equal inputs give equal schedules on every machine. Cost: one schedule for each evaluation.
//!
//! A problem may begin with resources that are taken for some time ([`Supply`]), and a search may be spread over many
//! calls ([`Annealing`]): the order `program` uses both.

mod anneal;
mod exact;
mod profile;
#[cfg(test)]
mod tests;

pub(crate) use anneal::Annealing;
pub(crate) use profile::{Amounts, Supply};

use limo_model::Span;
use thiserror::Error;

use profile::Profile;

/// Most jobs for which the optimum is found.
pub const EXACT: usize = 10;
/// Most resources.
pub const RESOURCES: usize = 8;
/// Largest weight, in thousandths.
pub const WEIGHT: u32 = 1_000_000_000;
/// Longest job, and most jobs: no sum of weighted waits overflows.
pub const LONGEST: Span = Span::from_ms(1 << 40);
pub const JOBS: usize = 1 << 20;

/// A job to schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanJob {
    /// Weight of its wait, in thousandths.
    pub weight: u32,
    /// Duration, not negative.
    pub span: Span,
    /// Its need of each resource.
    pub needs: Vec<i64>,
}

/// Jobs that all wait at time 0, and the resources that they share.
#[derive(Debug, Clone)]
pub struct PlanProblem {
    /// Most that is ever free of each resource.
    capacity: Amounts,
    /// What is free before any job is placed.
    free: Supply,
    jobs: Vec<Entry>,
}

/// A job as the search needs it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub weight: i128,
    pub ms: i64,
    pub needs: Amounts,
    /// True if it starts at the next end of a job at the earliest.
    pub is_held: bool,
}

/// A rule by which a list is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListRule {
    /// The order in which the jobs are given.
    Given,
    /// Duration times largest share of a resource for each unit of weight.
    Work,
    /// Duration for each unit of weight.
    Duration,
    /// The largest weight, then the least duration times largest share: power-capping-2018, section 4.2.
    Weight,
}

impl ListRule {
    pub const ALL: [Self; 4] = [Self::Given, Self::Work, Self::Duration, Self::Weight];
}

/// The bounds of a search.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Number of schedules that are tried.
    pub evaluations: u32,
    /// Seed of the random moves.
    pub seed: u64,
}

/// A schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Sum of the weighted waits, in ms times thousandths.
    pub cost: i128,
    /// The start of each job, from time 0.
    pub starts: Vec<Span>,
}

/// Error of [`PlanProblem::new`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum PlanError {
    #[error("there are {0} resources: at most {RESOURCES}")]
    Resources(usize),
    #[error("there are {0} jobs: at most {JOBS}")]
    Jobs(usize),
    #[error("job {job} names {found} resources: there are {known}")]
    Needs { job: usize, found: usize, known: usize },
    #[error("job {job} needs {need} of resource {resource}: it has {capacity}")]
    TooMuch { job: usize, resource: usize, need: i64, capacity: i64 },
    #[error("job {job} has the weight {weight}/1000: at most {WEIGHT}/1000")]
    Weight { job: usize, weight: u32 },
    #[error("job {job} lasts {} ms: from 0 to {} ms are possible", span.ms(), LONGEST.ms())]
    Span { job: usize, span: Span },
}

impl PlanProblem {
    /// Makes a problem. `capacity` has the amount of each resource.
    ///
    /// # Errors
    /// If there are too many resources or jobs, or a job is out of range or needs more than there is.
    pub fn new(capacity: &[i64], jobs: &[PlanJob]) -> Result<Self, PlanError> {
        if capacity.len() > RESOURCES {
            return Err(PlanError::Resources(capacity.len()));
        }
        if jobs.len() > JOBS {
            return Err(PlanError::Jobs(jobs.len()));
        }
        let entry = |(job, wanted): (usize, &PlanJob)| {
            let PlanJob { weight, span, ref needs } = *wanted;
            if needs.len() != capacity.len() {
                return Err(PlanError::Needs { job, found: needs.len(), known: capacity.len() });
            }
            if weight > WEIGHT {
                return Err(PlanError::Weight { job, weight });
            }
            if span < Span::ZERO || span > LONGEST {
                return Err(PlanError::Span { job, span });
            }
            for (resource, (need, capacity)) in needs.iter().zip(capacity).enumerate() {
                if need > capacity || *need < 0 {
                    return Err(PlanError::TooMuch { job, resource, need: *need, capacity: *capacity });
                }
            }
            Ok(Entry { weight: weight.into(), ms: span.ms(), needs: amounts(needs), is_held: false })
        };
        let jobs = jobs.iter().enumerate().map(entry).collect::<Result<_, _>>()?;
        Ok(Self::beside(Supply::all(amounts(capacity)), jobs))
    }

    /// Makes a problem whose resources are partly taken at first. They suffice for each of the jobs alone.
    pub(crate) fn beside(free: Supply, jobs: Vec<Entry>) -> Self {
        Self { capacity: free.most(), free, jobs }
    }

    /// Returns true if these resources are free for a job at time 0.
    pub(crate) fn is_free_now(&self, job: u32, resources: &std::ops::Range<usize>) -> bool {
        let needs = self.jobs[job as usize].needs;
        resources.clone().all(|at| needs[at] <= self.free.now()[at])
    }

    /// Lets a job start at the next end of a job at the earliest.
    pub(crate) fn hold(&mut self, job: u32) {
        if let Some(entry) = self.jobs.get_mut(job as usize) {
            entry.is_held = true;
        }
    }

    /// Lets a job take nothing from the others.
    pub(crate) fn leave_out(&mut self, job: u32) {
        if let Some(entry) = self.jobs.get_mut(job as usize) {
            entry.needs = Amounts::default();
        }
    }

    /// Finds a schedule: the best one for up to [`EXACT`] jobs, else the best one within the effort. It is never worse
    /// than that of a rule.
    pub fn solve(&self, effort: Effort) -> Schedule {
        let order = self.best_rule();
        if self.jobs.len() <= EXACT {
            return self.schedule(&self.best_of_few(order));
        }
        let cost = self.schedule(&order).cost;
        let mut annealing = Annealing::of(order);
        annealing.spend(&mut Decoder::new(self), cost, effort);
        self.schedule(&annealing.best)
    }

    /// Returns the best list of few jobs; `order` is a good one.
    pub(crate) fn best_of_few(&self, order: Vec<u32>) -> Vec<u32> {
        exact::best(self, order)
    }

    /// Returns the best schedule by a rule, without a search.
    pub fn by_rule(&self) -> Schedule {
        self.schedule(&self.best_rule())
    }

    /// Returns the list with the best schedule of those that the rules make.
    fn best_rule(&self) -> Vec<u32> {
        let mut decoder = Decoder::new(self);
        let all = ListRule::ALL.into_iter().map(|rule| self.listed(rule));
        let best = all.min_by_key(|order| decoder.cost(order, i128::MAX).unwrap_or(i128::MAX));
        best.unwrap_or_default()
    }

    /// Returns the list that a rule makes.
    pub(crate) fn listed(&self, rule: ListRule) -> Vec<u32> {
        let work = |job: &Entry| job.ms as f64 * self.largest_share(job);
        let weight = |job: &Entry| job.weight.max(1) as f64;
        let key = |job: &Entry| match rule {
            ListRule::Given => [0.0; 2],
            ListRule::Work => [work(job) / weight(job), 0.0],
            ListRule::Duration => [job.ms as f64 / weight(job), 0.0],
            ListRule::Weight => [-weight(job), work(job)],
        };
        let mut keys: Vec<(u32, [f64; 2])> = (0u32..).zip(self.jobs.iter().map(key)).collect();
        keys.sort_by(|(_, a), (_, b)| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])));
        keys.into_iter().map(|(job, _)| job).collect()
    }

    /// Returns the share of the scarcest resource, from 0 to 1.
    fn largest_share(&self, job: &Entry) -> f64 {
        let shares = job.needs.iter().zip(&self.capacity).map(|(need, all)| *need as f64 / (*all).max(1) as f64);
        shares.fold(0.0, f64::max)
    }

    /// Returns the least that any job needs of each resource.
    fn least_needs(&self) -> Amounts {
        let all = self.jobs.iter().map(|job| job.needs);
        all.reduce(|least, needs| std::array::from_fn(|at| least[at].min(needs[at]))).unwrap_or_default()
    }

    /// Returns the jobs that the schedule of a list starts at time 0, in the order of the list.
    pub(crate) fn first_starts(&self, order: &[u32]) -> Vec<u32> {
        let resources = 0..RESOURCES;
        let Some(last) = order.iter().rposition(|job| self.is_free_now(*job, &resources)) else { return Vec::new() };
        let first = &order[..=last];
        let mut decoder = Decoder::new(self);
        decoder.cost(first, i128::MAX);
        first.iter().copied().filter(|job| decoder.starts[*job as usize] == 0).collect()
    }

    /// Returns the schedule of a list.
    pub(crate) fn schedule(&self, order: &[u32]) -> Schedule {
        let mut decoder = Decoder::new(self);
        let cost = decoder.cost(order, i128::MAX).unwrap_or_default();
        let starts = decoder.starts.iter().map(|ms| Span::from_ms(*ms)).collect();
        Schedule { cost, starts }
    }
}

fn amounts(values: &[i64]) -> Amounts {
    std::array::from_fn(|at| values.get(at).copied().unwrap_or(0))
}

/// Makes schedules of lists.
pub(crate) struct Decoder<'a> {
    problem: &'a PlanProblem,
    least: Amounts,
    profile: Profile,
    /// Start of each job in the last schedule, in ms.
    starts: Vec<i64>,
}

impl<'a> Decoder<'a> {
    pub fn new(problem: &'a PlanProblem) -> Self {
        let starts = vec![0; problem.jobs.len()];
        Self { problem, least: problem.least_needs(), profile: Profile::default(), starts }
    }

    /// Returns the cost of the schedule of a list; `None` if it is above `bound`.
    pub fn cost(&mut self, order: &[u32], bound: i128) -> Option<i128> {
        self.profile.begin(&self.problem.free);
        let mut cost = 0;
        for job in order {
            let entry = &self.problem.jobs[*job as usize];
            let start = self.profile.book(entry);
            self.profile.skip_full(&self.least);
            self.starts[*job as usize] = start;
            cost += entry.weight * i128::from(start);
            if cost > bound {
                return None;
            }
        }
        Some(cost)
    }
}
