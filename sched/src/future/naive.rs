//! Compares the ledger with the simplest implementation of its rules: each balance and limit is checked in every
//! millisecond.

use limo_model::{Power, Span, Time};
use proptest::prelude::*;

use super::{Ceiling, Ledger};

/// End of the test; nothing changes after it.
const END: i64 = 120;

#[derive(Debug, Clone)]
struct Period {
    from: i64,
    until: i64,
    available: i64,
    release: Vec<(i64, i64)>,
}

#[derive(Debug, Clone)]
struct JobDraw {
    extra: i64,
    from: i64,
    to: Option<i64>,
}

#[derive(Debug, Clone)]
struct World {
    now: i64,
    draw: i64,
    falls: Vec<(i64, i64)>,
    endless: bool,
    /// True to ignore debts after the end of the tested load.
    short: bool,
    periods: Vec<Period>,
    limit: Option<(Vec<(i64, i64)>, i64)>,
    loads: Vec<JobDraw>,
}

fn level(steps: &[(i64, i64)], at: i64) -> Option<i64> {
    steps.iter().rev().find(|(start, _)| *start <= at).map(|(_, level)| *level)
}

impl World {
    fn draw_at(&self, at: i64) -> i64 {
        let falls = self.falls.iter().filter(|(end, _)| (*end).max(self.now + 1) <= at).map(|(_, fall)| fall);
        let runs = |load: &&JobDraw| {
            let from = load.from.max(self.now);
            from <= at && load.to.is_none_or(|to| at < to.max(from + 1))
        };
        self.draw - falls.sum::<i64>() + self.loads.iter().filter(runs).map(|load| load.extra).sum::<i64>()
    }

    /// End of the last load.
    fn horizon(&self) -> i64 {
        let falls = self.falls.iter().map(|(end, _)| (*end).max(self.now + 1));
        let ends = self.loads.iter().map(|load| load.to.map_or(END, |to| to.max(load.from.max(self.now) + 1)));
        let endless = self.endless.then_some(END);
        falls.chain(ends).chain(endless).max().unwrap_or(self.now)
    }

    /// Returns true if a load may run in `[start, to)`, asked at `start`.
    fn admits(&self, extra: i64, start: i64, to: i64) -> bool {
        if extra <= 0 {
            return true;
        }
        let above = |at: i64| {
            let (steps, _) = self.limit.as_ref().filter(|(_, until)| at < *until)?;
            Some(self.draw_at(at) + extra > level(steps, at)?)
        };
        if (start..to.min(END)).any(|at| above(at) == Some(true)) {
            return false;
        }
        self.periods.iter().all(|period| {
            let from = period.from.max(self.now);
            if period.until <= start || to <= from.max(start) {
                return true;
            }
            let mut balance = period.available;
            // Debts before the start are not caused by the load. Debts after its end count only while other loads
            // run.
            let asked = start..=if self.short { to } else { to.max(self.horizon()) };
            (from..=period.until).all(|at| {
                let solvent = balance >= 0 || !asked.contains(&at);
                balance += level(&period.release, at).unwrap_or(0) - self.draw_at(at);
                balance -= if start <= at && at < to { extra } else { 0 };
                solvent
            })
        })
    }

    fn earliest(&self, extra: i64, span: Option<i64>, not_before: i64) -> i64 {
        let mut start = not_before.max(self.now);
        while !self.admits(extra, start, span.map_or(END, |span| start + span)) {
            start += 1;
        }
        start
    }

    fn ledger(&self) -> Ledger {
        let steps = |steps: &[(i64, i64)]| steps.iter().map(|(ms, mw)| (time(*ms), power(*mw))).collect::<Vec<_>>();
        let limit = self.limit.iter().map(|(limit, until)| Ceiling { steps: steps(limit), until: time(*until) });
        let limits: Vec<_> = limit.collect();
        let mut ledger = Ledger::new(time(self.now), power(self.draw), steps(&self.falls).into_iter(), &limits);
        if self.endless {
            ledger.endless();
        }
        if self.short {
            ledger.short();
        }
        for period in &self.periods {
            let times = (time(period.from), time(period.until));
            ledger.budget(times, i128::from(period.available), steps(&period.release));
        }
        ledger
    }
}

fn time(ms: i64) -> Time {
    Time::from_unix_ms(ms)
}

fn power(mw: i64) -> Power {
    Power::from_mw(mw)
}

fn steps(count: usize, most: i64) -> impl Strategy<Value = Vec<(i64, i64)>> {
    let steps = proptest::collection::btree_map(0..100_i64, 0..most, 0..count);
    steps.prop_map(|steps| steps.into_iter().collect())
}

fn periods() -> impl Strategy<Value = Vec<Period>> {
    let cuts = proptest::collection::btree_set(0..110_i64, 0..5);
    let funds = proptest::collection::vec(proptest::option::weighted(0.8, (-20..200_i64, steps(5, 24))), 4);
    (cuts, funds).prop_map(|(cuts, funds)| {
        let cuts: Vec<_> = cuts.into_iter().collect();
        let pairs = cuts.windows(2).zip(funds);
        pairs
            .filter_map(|(pair, fund)| fund.map(|fund| (pair, fund)))
            .map(|(pair, (available, mut release))| {
                // Half of the periods have a release from their beginning.
                release.extend((available % 2 == 0).then_some((pair[0], available.rem_euclid(20))));
                release.sort_unstable();
                release.dedup_by_key(|step| step.0);
                Period { from: pair[0], until: pair[1], available, release }
            })
            .collect()
    })
}

fn load() -> impl Strategy<Value = JobDraw> {
    (-3..12_i64, 0..90_i64, proptest::option::weighted(0.8, 0..100_i64)).prop_map(|(extra, from, to)| JobDraw {
        extra,
        from,
        to,
    })
}

fn world() -> impl Strategy<Value = World> {
    let falls = proptest::collection::vec((0..100_i64, 0..5_i64), 0..6);
    let limit = proptest::option::weighted(0.5, (steps(4, 40), 1..110_i64));
    let endless = proptest::bool::weighted(0.2);
    let flags = (endless, proptest::bool::weighted(0.2));
    let world = (0..40_i64, 5..22_i64, falls, flags, periods(), limit);
    world.prop_map(|(now, draw, falls, (endless, short), periods, limit)| World {
        now,
        draw,
        falls,
        endless,
        short,
        periods,
        limit,
        loads: Vec::new(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    /// Tests and commitments in any order have the results of the millisecond check.
    #[test]
    fn the_ledger_decides_as_a_walk_does(
        mut world in world(),
        asks in proptest::collection::vec((load(), any::<bool>()), 1..8),
    ) {
        let mut ledger = world.ledger();
        for (ask, commit) in asks {
            let to = ask.to.map(|to| to.max(world.now + 1));
            let admitted = ledger.admits(power(ask.extra), ask.to.map(time)).is_ok();
            prop_assert_eq!(admitted, world.admits(ask.extra, world.now, to.unwrap_or(END)), "admits {:?}", &ask);
            let span = ask.to.map(|span| span.max(1));
            let earliest = ledger.earliest(power(ask.extra), ask.to.map(Span::from_ms), time(ask.from));
            let walked = world.earliest(ask.extra, span, ask.from);
            prop_assert_eq!(earliest, Some(time(walked)), "earliest {:?}", &ask);
            if commit {
                ledger.commit(power(ask.extra), time(ask.from), ask.to.map(time));
                world.loads.push(ask);
            }
        }
    }
}
