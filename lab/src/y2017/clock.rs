//! Simulated time as the published simulator stepped through it: in floating point, from one end to the next, where
//! every work keeps the fraction that remains and every timer the time that remains. Ends that differ by less than its
//! precision fall into one step, equal ones into two; which of both decides the order of events, and so results.
//!
//! Uses subtraction, multiplication and division only: the same bits on every machine.

/// A work with less than this fraction left is done.
const FRACTION: f64 = 1e-10;
/// A timer with less than this left, in seconds, is due.
const SECONDS: f64 = 1e-5;

/// See the module. `T` is what is told when it is over.
#[derive(Debug)]
pub struct Clock<T> {
    now: f64,
    created: u64,
    /// Fractions that remain, and how much of the whole is done in a second; in step with `works`.
    fractions: Vec<f64>,
    rates: Vec<f64>,
    works: Vec<(u64, T)>,
    /// Seconds until the next work is done, if no timer comes before.
    next_work: f64,
    timers: Vec<(f64, u64, T)>,
    over: Vec<(u64, T)>,
}

impl<T: Copy> Clock<T> {
    pub fn new() -> Self {
        Self {
            now: 0.0,
            created: 0,
            fractions: Vec::new(),
            rates: Vec::new(),
            works: Vec::new(),
            next_work: f64::INFINITY,
            timers: Vec::new(),
            over: Vec::new(),
        }
    }

    /// In ms, rounded.
    pub fn now_ms(&self) -> i64 {
        // Simulated seconds; a year is 3e10 ms.
        (self.now * 1_000.0).round() as i64
    }

    /// Has this time not come yet?
    pub fn is_ahead(&self, ms: i64) -> bool {
        ms as f64 / 1_000.0 > self.now
    }

    /// Tells `what` when work of this rate (of the whole, in a second) is done.
    pub fn work(&mut self, rate: f64, what: T) {
        self.created += 1;
        self.fractions.push(1.0);
        self.rates.push(rate);
        self.next_work = self.next_work.min(1.0 / rate);
        self.works.push((self.created, what));
    }

    /// Tells `what` at a time, or in the next step where that has passed.
    pub fn timer(&mut self, at_ms: i64, what: T) {
        self.created += 1;
        self.timers.push(((at_ms as f64 / 1_000.0 - self.now).max(0.0), self.created, what));
    }

    /// Goes on to whatever ends next. What is over then, in order of its creation; empty when nothing is left.
    pub fn step(&mut self, told: &mut Vec<T>) {
        let step = self.timers.iter().map(|timer| timer.0).fold(self.next_work, f64::min);
        if step == f64::INFINITY {
            return;
        }
        self.now += step;
        let over = &mut self.over;
        self.timers.retain_mut(|(left, created, what)| {
            *left -= step;
            let due = *left < SECONDS;
            if due {
                over.push((*created, *what));
            }
            !due
        });
        if self.advance_works(step) {
            self.take_done();
        }
        self.over.sort_unstable_by_key(|(created, _)| *created);
        told.extend(self.over.drain(..).map(|(_, what)| what));
    }

    /// Works for `step` seconds and finds the next end; whether any work is done.
    fn advance_works(&mut self, step: f64) -> bool {
        // Without branches and four at a time: as long as the cluster has jobs, and run at every step.
        let (mut next, mut least) = ([f64::INFINITY; 4], [f64::INFINITY; 4]);
        let mut advance = |lane: usize, fraction: &mut f64, rate: f64| {
            let left = *fraction - rate * step;
            *fraction = left;
            let seconds = if left < FRACTION { f64::INFINITY } else { left / rate };
            next[lane] = if seconds < next[lane] { seconds } else { next[lane] };
            least[lane] = if left < least[lane] { left } else { least[lane] };
        };
        let mut fractions = self.fractions.chunks_exact_mut(4);
        let rates = self.rates.chunks_exact(4);
        let rest = rates.remainder();
        for (fractions, rates) in (&mut fractions).zip(rates) {
            for lane in 0..4 {
                advance(lane, &mut fractions[lane], rates[lane]);
            }
        }
        for (fraction, rate) in fractions.into_remainder().iter_mut().zip(rest) {
            advance(0, fraction, *rate);
        }
        self.next_work = next.into_iter().fold(f64::INFINITY, f64::min);
        least.into_iter().any(|left| left < FRACTION)
    }

    fn take_done(&mut self) {
        let mut index = 0;
        while index < self.fractions.len() {
            if self.fractions[index] < FRACTION {
                self.fractions.swap_remove(index);
                self.rates.swap_remove(index);
                self.over.push(self.works.swap_remove(index));
            } else {
                index += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_together_is_told_in_order_of_creation() {
        let mut clock = Clock::new();
        let step = |clock: &mut Clock<&'static str>| {
            let mut told = Vec::new();
            clock.step(&mut told);
            (clock.now_ms(), told)
        };
        clock.timer(10_000, "timer");
        for (seconds, what) in [(10.0, "ten"), (4.0, "four"), (30.0, "thirty"), (7.0, "seven"), (8.0, "eight")] {
            clock.work(1.0 / seconds, what);
        }
        assert_eq!(step(&mut clock), (4_000, vec!["four"]));
        clock.work(1.0 / 6.0, "six more");
        clock.timer(10_000, "late timer");
        clock.timer(1_000, "too late");
        assert!(clock.is_ahead(4_001) && !clock.is_ahead(4_000));
        assert_eq!(step(&mut clock), (4_000, vec!["too late"]));
        assert_eq!(step(&mut clock), (7_000, vec!["seven"]));
        assert_eq!(step(&mut clock), (8_000, vec!["eight"]));
        assert_eq!(step(&mut clock), (10_000, vec!["timer", "ten", "six more", "late timer"]));
        assert_eq!(step(&mut clock), (30_000, vec!["thirty"]));
        assert_eq!(step(&mut clock), (30_000, vec![]));
    }
}
