//! Simulated time as in the published simulator: in floating point, in steps from one end to the next. Each work keeps
//! its remaining fraction, and each timer its remaining time. Ends that differ by less than the precision fall into one
//! step, and exactly equal ones into two. This decides the order of events, and thus the results.
//!
//! Uses subtraction, multiplication and division only, so all machines give the same bits.

/// Remaining fraction below which a work is done.
const FRACTION: f64 = 1e-10;
/// Remaining time, in seconds, below which a timer is due.
const SECONDS: f64 = 1e-5;

/// The clock. `T` identifies a work or timer when it ends.
#[derive(Debug)]
pub struct Clock<T> {
    now: f64,
    created: u64,
    /// Remaining fractions of the works, in the order of `works`. The next field is their progress per second.
    fractions: Vec<f64>,
    rates: Vec<f64>,
    works: Vec<(u64, T)>,
    /// Seconds until the next work is done, unless a timer comes first.
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

    /// Returns the time in ms, rounded.
    pub fn now_ms(&self) -> i64 {
        // The time is in simulated seconds; a year is 3e10 ms.
        (self.now * 1_000.0).round() as i64
    }

    /// Returns true if this time is in the future.
    pub fn is_ahead(&self, ms: i64) -> bool {
        ms as f64 / 1_000.0 > self.now
    }

    /// Reports `what` when work with this rate (fraction per second) is done.
    pub fn work(&mut self, rate: f64, what: T) {
        self.created += 1;
        self.fractions.push(1.0);
        self.rates.push(rate);
        self.next_work = self.next_work.min(1.0 / rate);
        self.works.push((self.created, what));
    }

    /// Reports `what` at a time, or in the next step if that time has passed.
    pub fn timer(&mut self, at_ms: i64, what: T) {
        self.created += 1;
        self.timers.push(((at_ms as f64 / 1_000.0 - self.now).max(0.0), self.created, what));
    }

    /// Advances to the next end. Puts everything that ends there into `told`, in order of creation; leaves `told`
    /// empty if nothing remains.
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

    /// Works for `step` seconds and finds the next end. Returns true if any work is done.
    fn advance_works(&mut self, step: f64) -> bool {
        // This runs at every step over all jobs of the cluster, so it has no branches and does four at a time.
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
    fn simultaneous_ends_are_in_order_of_creation() {
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
