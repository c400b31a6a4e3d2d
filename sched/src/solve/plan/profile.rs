//! What is free of each resource over time.

use std::collections::BTreeMap;

use super::{Entry, RESOURCES};

/// An amount of each resource; 0 of those that are not used.
pub(crate) type Amounts = [i64; RESOURCES];

/// What is free of each resource from each time on, before jobs are placed. Times are in ms from now; the first is 0.
#[derive(Debug, Clone)]
pub(crate) struct Supply(Vec<(i64, Amounts)>);

impl Supply {
    /// Everything is free.
    pub fn all(capacity: Amounts) -> Self {
        Self(vec![(0, capacity)])
    }

    /// The amounts that are free now, and the changes at later times, in ms from now. A change in the past counts from 1 ms
    /// on.
    pub fn with_changes(now: Amounts, changes: impl IntoIterator<Item = (i64, Amounts)>) -> Self {
        let mut by_time: BTreeMap<i64, Amounts> = BTreeMap::new();
        for (at, change) in changes {
            add(by_time.entry(at.max(1)).or_default(), &change);
        }
        let mut free = now;
        let mut steps = vec![(0, now)];
        steps.extend(by_time.into_iter().map(|(at, change)| {
            add(&mut free, &change);
            (at, free)
        }));
        Self(steps)
    }

    /// Returns true if a job fits at some time without any other.
    pub fn suffices(&self, job: &Entry) -> bool {
        let fits_from = |from: usize| {
            let end = self.0[from].0.saturating_add(job.ms.max(1));
            self.0[from..].iter().take_while(|(at, _)| *at < end).all(|(_, free)| fits(free, &job.needs))
        };
        (0..self.0.len()).any(fits_from)
    }

    /// Returns what is free now.
    pub fn now(&self) -> Amounts {
        self.0.first().map_or_else(Amounts::default, |(_, free)| *free)
    }

    /// Returns the most that is ever free of each resource.
    pub fn most(&self) -> Amounts {
        let all = self.0.iter().map(|(_, free)| *free);
        all.reduce(|most, free| std::array::from_fn(|at| most[at].max(free[at]))).unwrap_or_default()
    }
}

fn add(sum: &mut Amounts, change: &Amounts) {
    sum.iter_mut().zip(change).for_each(|(sum, change)| *sum = sum.saturating_add(*change));
}

/// Free amounts from each time to the next one; the last ones hold for ever. A job that does not even fit there is placed
/// there.
#[derive(Debug, Clone, Default)]
pub(super) struct Profile {
    times: Vec<i64>,
    free: Vec<Amounts>,
    /// No job fits before this one.
    first: usize,
}

impl Profile {
    /// Removes all jobs.
    pub fn begin(&mut self, free: &Supply) {
        self.times.clear();
        self.free.clear();
        self.times.extend(free.0.iter().map(|(at, _)| *at));
        self.free.extend(free.0.iter().map(|(_, free)| *free));
        self.first = 0;
    }

    /// Passes over the times at which not even `least` is free.
    pub fn skip_full(&mut self, least: &Amounts) {
        while self.first + 1 < self.free.len() && !fits(&self.free[self.first], least) {
            self.first += 1;
        }
    }

    /// Returns the earliest start of a job, and the places of its beginning and of its end.
    pub fn earliest(&self, job: &Entry) -> (i64, usize, usize) {
        let (needs, ms) = (&job.needs, job.ms);
        let last = self.free.len() - 1;
        let mut from = self.first.max(usize::from(job.is_held)).min(last);
        loop {
            while from < last && !fits(&self.free[from], needs) {
                from += 1;
            }
            let start = self.times[from];
            let mut until = from + 1;
            loop {
                if until > last || self.times[until] >= start + ms {
                    return (start, from, until);
                }
                if !fits(&self.free[until], needs) {
                    break;
                }
                until += 1;
            }
            from = (until + 1).min(last);
        }
    }

    /// Takes the needs of a job at its earliest start, and returns the start.
    pub fn book(&mut self, job: &Entry) -> i64 {
        let (start, from, until) = self.earliest(job);
        let (needs, ms) = (&job.needs, job.ms);
        if ms == 0 {
            return start;
        }
        if self.times.get(until) != Some(&(start + ms)) {
            self.times.insert(until, start + ms);
            self.free.insert(until, self.free[until - 1]);
        }
        for free in &mut self.free[from..until] {
            free.iter_mut().zip(needs).for_each(|(free, need)| *free -= need);
        }
        start
    }
}

/// Returns true if everything is free. Without branches, so that it becomes vector instructions.
fn fits(free: &Amounts, needs: &Amounts) -> bool {
    free.iter().zip(needs).fold(true, |fits, (free, need)| fits & (free >= need))
}
