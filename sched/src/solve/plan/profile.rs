//! What is free of each resource over time.

use super::RESOURCES;

/// An amount of each resource; 0 of those that are not used.
pub(super) type Amounts = [i64; RESOURCES];

/// Free amounts from each time to the next one; the last ones hold for ever, and all is free then.
#[derive(Debug, Clone, Default)]
pub(super) struct Profile {
    times: Vec<i64>,
    free: Vec<Amounts>,
    /// No job fits before this one.
    first: usize,
}

impl Profile {
    /// Frees everything.
    pub fn clear(&mut self, capacity: Amounts) {
        self.times.clear();
        self.free.clear();
        self.times.push(0);
        self.free.push(capacity);
        self.first = 0;
    }

    /// Passes over the times at which not even `least` is free.
    pub fn skip_full(&mut self, least: &Amounts) {
        while self.first + 1 < self.free.len() && !fits(&self.free[self.first], least) {
            self.first += 1;
        }
    }

    /// Returns the earliest start of a job of `ms`, and the places of its beginning and of its end.
    pub fn earliest(&self, needs: &Amounts, ms: i64) -> (i64, usize, usize) {
        let (mut from, last) = (self.first, self.free.len() - 1);
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
            from = until + 1;
        }
    }

    /// Takes the needs of a job of `ms` at its earliest start, and returns the start.
    pub fn book(&mut self, needs: &Amounts, ms: i64) -> i64 {
        let (start, from, until) = self.earliest(needs, ms);
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
