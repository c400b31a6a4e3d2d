//! Run that was capped or suspended: its remaining work, its draw, and its energy. Other runs end on time, so they
//! need no such state.

use limo_model::{Energy, Pace, Power, Slowdown, Span, Time, Work, pace};

/// A changed run. Draws are above idle, of the whole run.
#[derive(Debug, Clone)]
pub struct Task {
    units: Vec<OfUnit>,
    /// Running time without a cap: that of its slowest unit.
    run: Span,
    law: Slowdown,
    paused: bool,
    left: Work,
    /// Energy in µJ (mW x ms).
    used: i128,
    /// Time up to which `left` and `used` are counted. From then on the run draws `draw` and works at `pace`.
    counted: Time,
    draw: Power,
    pace: Pace,
}

/// A run on one of its units.
#[derive(Debug, Clone, Copy)]
struct OfUnit {
    /// Draw without a cap.
    full: Power,
    /// Running time without a cap.
    run: Span,
    /// Its share of the unit's cap.
    share: Option<Power>,
}

/// Divides a draw evenly among units on which a run takes equally long.
pub fn evenly(full: Power, units: usize, run: Span) -> Vec<(Power, Span)> {
    let count = i64::try_from(units.max(1)).unwrap_or(i64::MAX);
    let of_unit = full.scaled(1, count);
    let mut units = vec![(of_unit, run); units.max(1)];
    units[0].0 += full - of_unit.scaled(count, 1);
    units
}

impl Task {
    /// Makes a run without changes between `started` and `now`, from its draw and its running time on each of its units.
    /// Without further changes it takes the longest of these.
    pub fn new(units: Vec<(Power, Span)>, law: Slowdown, (started, now): (Time, Time)) -> Self {
        let full = units.iter().map(|(full, _)| *full).sum();
        let run = units.iter().map(|(_, run)| *run).max().unwrap_or(Span::ZERO);
        let mut task = Self {
            units: units.into_iter().map(|(full, run)| OfUnit { full, run, share: None }).collect(),
            run,
            law,
            paused: false,
            left: Work::lasting(run),
            used: 0,
            counted: started,
            draw: full,
            pace: Pace::FULL,
        };
        task.count(now);
        task
    }

    fn count(&mut self, now: Time) {
        let span = now - self.counted;
        if span <= Span::ZERO {
            return;
        }
        self.counted = now;
        self.used = self.used.saturating_add(i128::from(self.draw.mw()) * i128::from(span.ms()));
        self.left = self.left.less(self.pace.over(span));
    }

    /// Changes the run's shares of the caps of some units, by index, at `now`. Returns the change of its draw.
    pub fn hold(&mut self, now: Time, shares: impl IntoIterator<Item = (usize, Option<Power>)>) -> Power {
        for (unit, share) in shares {
            if let Some(of) = self.units.get_mut(unit) {
                of.share = share;
            }
        }
        self.settle(now)
    }

    /// Suspends or resumes the run at `now`. Returns the change of its draw.
    pub fn pause(&mut self, now: Time, paused: bool) -> Power {
        self.paused = paused;
        self.settle(now)
    }

    /// Continues the run on other units at `now`, given as for [`Task::new`]. Returns the change of its draw.
    pub fn resize(&mut self, now: Time, units: Vec<(Power, Span)>) -> Power {
        self.count(now);
        let run = units.iter().map(|(_, run)| *run).max().unwrap_or(Span::ZERO);
        self.left = self.left.taking(run, self.run);
        self.run = run;
        self.units = units.into_iter().map(|(full, run)| OfUnit { full, run, share: None }).collect();
        self.settle(now)
    }

    fn settle(&mut self, now: Time) -> Power {
        self.count(now);
        let before = self.draw;
        (self.draw, self.pace) = match self.paused {
            true => (Power::ZERO, Pace::STOPPED),
            // The slowest unit sets the pace; the others keep drawing power while they wait for it.
            false => self.units.iter().fold((Power::ZERO, Pace::FULL), |(draw, slowest), of| {
                let (of_unit, its_pace) = pace(of.full, of.share, self.law);
                (draw + of_unit, slowest.min(its_pace.of_longest(of.run, self.run)))
            }),
        };
        self.draw - before
    }

    /// Returns when the work will be done; `None` while suspended.
    pub fn done_at(&self) -> Option<Time> {
        let takes = if self.paused { None } else { self.left.takes(self.pace) };
        takes.map(|takes| self.counted + takes)
    }

    /// Returns the work done until `now`, as the running time that it takes without a cap.
    pub fn worked(&self, now: Time) -> Span {
        let left = self.left.less(self.pace.over((now - self.counted).max(Span::ZERO)));
        self.run - left.takes(Pace::FULL).unwrap_or(self.run)
    }

    pub fn draw(&self) -> Power {
        self.draw
    }

    /// Returns the energy above idle until `now`, rounded down.
    pub fn used(&self, now: Time) -> Energy {
        let since = i128::from(self.draw.mw()) * i128::from((now - self.counted).ms().max(0));
        let used = self.used.saturating_add(since);
        Energy::from_mj(i64::try_from(used.div_euclid(1_000)).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Time {
        Time::from_unix_ms(secs * 1_000)
    }

    fn watts(watts: i64) -> Power {
        Power::from_watts(watts)
    }

    /// Makes a task with 100 s of work at 40 W, F = 0.75; not changed for the first 20 s.
    fn task() -> Task {
        Task::new(evenly(watts(40), 1, Span::from_secs(100)), Slowdown::Factor(750), (at(0), at(20)))
    }

    /// Lets a cap slow a run down, which moves its end. At 15 W the pace is (15/40) / 0.75 = 1/2.
    #[test]
    fn a_cap_slows_it_down_and_its_end_moves() {
        let mut task = task();
        assert_eq!(task.done_at(), Some(at(100)));
        assert_eq!(task.hold(at(20), [(0, Some(watts(15)))]), watts(-25));
        assert_eq!((task.done_at(), task.draw()), (Some(at(20 + 160)), watts(15)));
        // 80 s later half of the remaining work is done, and 40 s of work are left. 30 W are above F of 40 W, so no
        // time is lost.
        assert_eq!(task.hold(at(100), [(0, Some(watts(30)))]), watts(15));
        assert_eq!(task.done_at(), Some(at(140)));
        // The run has had 20 s at 40 W, 80 s at 15 W and 40 s at 30 W.
        assert_eq!(task.used(at(140)), Energy::from_joules(800 + 1_200 + 1_200));
        assert_eq!(task.hold(at(110), [(0, None)]), watts(10));
    }

    /// Checks 20 W on each of two units. At 15 W one draws 5 W less and, with F = 0.75, still works at full pace. At
    /// 10 W the other slows both down to (10/20) / 0.75 = 2/3.
    #[test]
    fn the_slowest_unit_sets_the_pace_and_the_others_draw_on() {
        let mut task = Task::new(evenly(watts(40), 2, Span::from_secs(100)), Slowdown::Factor(750), (at(0), at(20)));
        assert_eq!((task.hold(at(20), [(0, Some(watts(15)))]), task.done_at()), (watts(-5), Some(at(100))));
        assert_eq!((task.hold(at(20), [(1, Some(watts(10)))]), task.done_at()), (watts(-10), Some(at(20 + 120))));
        assert_eq!((task.hold(at(80), [(0, None), (1, None)]), task.done_at()), (watts(15), Some(at(120))));
    }

    /// Uses two units with F = 1, one that draws 40 W for 100 s and one that draws 20 W for 50 s. At a cap of 10 W the
    /// second one takes as long as the first one without a cap; at 5 W it takes 200 s.
    #[test]
    fn a_fast_unit_has_time_until_it_is_the_slowest() {
        let units = vec![(watts(40), Span::from_secs(100)), (watts(20), Span::from_secs(50))];
        let mut task = Task::new(units, Slowdown::Factor(1_000), (at(0), at(0)));
        assert_eq!((task.hold(at(0), [(1, Some(watts(10)))]), task.done_at()), (watts(-10), Some(at(100))));
        assert_eq!((task.hold(at(0), [(1, Some(watts(5)))]), task.done_at()), (watts(-5), Some(at(200))));
    }

    #[test]
    fn a_pause_stops_work_and_draw_under_any_cap() {
        let mut task = task();
        assert_eq!(task.pause(at(20), true), watts(-40));
        assert_eq!(task.done_at(), None);
        assert_eq!(task.hold(at(30), [(0, Some(watts(15)))]), Power::ZERO);
        assert_eq!(task.pause(at(50), false), watts(15));
        assert_eq!((task.done_at(), task.used(at(60))), (Some(at(50 + 160)), Energy::from_joules(950)));
    }

    /// After 20 of 100 s on one unit, 80 s of work are left there: 40 s on two, and after 10 of these 60 s on one again.
    #[test]
    fn other_units_change_the_rest_and_the_draw() {
        let on = |units: usize| evenly(watts(40 * units as i64), units, Span::from_secs(100 / units as i64));
        let mut task = Task::new(on(1), Slowdown::Factor(750), (at(0), at(20)));
        assert_eq!((task.resize(at(20), on(2)), task.done_at()), (watts(40), Some(at(60))));
        assert_eq!((task.resize(at(30), on(1)), task.done_at()), (watts(-40), Some(at(90))));
        assert_eq!(task.used(at(90)), Energy::from_joules(800 + 800 + 2_400));
    }

    /// Suspends a run in the instant in which its work is done: it ends when it resumes.
    #[test]
    fn nothing_left() {
        let mut task = Task::new(evenly(watts(40), 1, Span::from_secs(20)), Slowdown::Factor(750), (at(0), at(20)));
        task.pause(at(20), true);
        assert_eq!(task.done_at(), None);
        task.pause(at(70), false);
        assert_eq!(task.done_at(), Some(at(70)));
    }
}
