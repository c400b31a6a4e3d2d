//! Cost of the solvers: `cargo bench -p limo-sched --bench solve`. Prints processor times with their aims, the best of
//! three runs. Not a test: it never fails on a slow machine.
//!
//! The references are scipy's `linear_sum_assignment` and a list decoder (15 to 35, 100 and 700 to 1,000 us). scipy took
//! 536, 62 and 37 ms for the first three independent assignments, and 5.4, 5.9 and 6.4 s for the three that are alike,
//! on loaded machines of two cores.

#![expect(clippy::disallowed_macros, reason = "a program that prints its figures")]

use std::time::Duration;

use limo_model::{Energy, Span};
use limo_sched::solve::assignment::{JobRow, Weights};
use limo_sched::solve::plan::{Effort, PlanJob, PlanProblem};
use nix::time::{ClockId, clock_gettime};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Random numbers that are equal on every machine.
struct Dice(SplitMix64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    /// Returns a number from `least` to `most`.
    fn between(&mut self, least: i64, most: i64) -> i64 {
        least + (self.0.next_u64() % (most - least + 1).unsigned_abs()) as i64
    }
}

fn main() {
    for (jobs, nodes, different, aim) in
        [(1_000, 10_000, 20, 10), (1_000, 10_000, 256, 40), (1_000, 10_000, 1_000, 60), (100, 10_000, 100, 2)]
    {
        assignment((jobs, nodes, different), true, Some(Duration::from_millis(aim)));
    }
    for different in [20, 256, 1_000] {
        assignment((1_000, 10_000, different), false, None);
    }
    for (jobs, aim) in [(50, 20), (200, 100), (1_000, 1_000)] {
        decode(jobs, Duration::from_micros(aim));
    }
    for (jobs, aim) in [(50, -14.0), (100, -12.0), (200, -11.0), (500, -6.0), (1_000, -3.0)] {
        search(jobs, aim);
    }
}

/// Jobs whose energies are independent of each other, or depend alike on the processor and the memory of a node: 107 to
/// 124 W and 30 to 76 W, as in the heterogeneity paper. Then all jobs want the same nodes.
fn assignment((jobs, nodes, different): (usize, usize, usize), independent: bool, aim: Option<Duration>) {
    let mut dice = Dice::new(1);
    let draws: Vec<(i64, i64)> =
        (0..nodes).map(|_| (dice.between(107_000, 124_000), dice.between(30_000, 76_000))).collect();
    let row = |_| {
        let (seconds, processor, memory) = (dice.between(30, 300), dice.between(50, 100), dice.between(10, 100));
        let mut energy = |(pkg, dram): &(i64, i64)| {
            let draw =
                if independent { dice.between(137_000, 200_000) } else { (pkg * processor + dram * memory) / 100 };
            Some(Energy::from_mj(draw * seconds))
        };
        draws.iter().map(&mut energy).collect()
    };
    let rows: Vec<Vec<Option<Energy>>> = (0..different).map(row).collect();
    let weights = Weights::new(vec![1; nodes], &rows).expect("in range");
    let jobs: Vec<JobRow> = (0..jobs).map(|job| JobRow { row: job % different, nodes: 1 }).collect();
    let took = best(|| weights.assign(&jobs).len());
    let kind = if independent { "independent" } else { "alike" };
    let label = format!("assignment, {kind}: {} jobs, {nodes} nodes, {different} different jobs", jobs.len());
    let aim = aim.map(|aim| format!("   aim: at most {:.0} ms", millis(aim))).unwrap_or_default();
    println!("{label:<70}{:>9.1} ms{aim}", millis(took));
}

fn decode(jobs: usize, aim: Duration) {
    let problem = problem(jobs, 1);
    // `by_rule` makes five schedules, that of the best rule again at the end, and sorts three lists.
    let took = best(|| problem.by_rule().starts.len()) / 5;
    let label = format!("list decode: {jobs} jobs");
    println!("{label:<70}{:>9.0} us   aim: at most {:.0} us", millis(took) * 1e3, millis(aim) * 1e3);
}

/// Searches for 10 s of processor time, by the cost of a schedule.
fn search(jobs: usize, aim: f64) {
    const BUDGET: Duration = Duration::from_secs(10);
    let (mut changes, instances) = (Vec::new(), 3);
    for seed in 0..instances {
        let problem = problem(jobs, seed + 1);
        let rule = problem.by_rule().cost;
        let mut effort = Effort { evaluations: 2_000, seed: 1 };
        let begin = now();
        problem.solve(effort);
        let each = (now() - begin).as_secs_f64() / f64::from(effort.evaluations);
        effort.evaluations = (BUDGET.as_secs_f64() / each) as u32;
        let found = problem.solve(effort).cost;
        changes.push((found as f64 / rule as f64 - 1.0) * 100.0);
    }
    let mean = changes.iter().sum::<f64>() / changes.len() as f64;
    let label = format!("plan: {jobs} jobs, 10 s, against the best rule, mean of {instances}");
    println!("{label:<70}{mean:>9.1} %    aim: at most {aim} %");
}

/// Jobs of the size of those of Eurora on 64 nodes with 16 cores, and 32 accelerators of each kind, at half of the draw
/// of all.
fn problem(jobs: usize, seed: u64) -> PlanProblem {
    let mut dice = Dice::new(seed);
    let jobs: Vec<PlanJob> = (0..jobs)
        .map(|_| {
            let nodes = if dice.between(0, 3) == 0 { dice.between(2, 16) } else { 1 };
            let (cores, memory) = (dice.between(1, 16) * nodes, dice.between(1, 32_000) * nodes);
            let accelerators = |wants: bool| if wants { nodes * 2 } else { 0 };
            let kind = dice.between(0, 9);
            let needs = vec![
                cores,
                accelerators(kind == 0).min(64),
                accelerators(kind == 1).min(64),
                memory,
                nodes * dice.between(20, 140),
            ];
            let minutes = if dice.between(0, 2) == 0 { dice.between(60, 1_440) } else { dice.between(1, 60) };
            let weight = [1_000, 4_000, 24_000][dice.between(0, 2) as usize];
            PlanJob { weight, span: Span::from_ms(minutes * 60_000), needs }
        })
        .collect();
    PlanProblem::new(&[1_024, 64, 64, 64 * 32_768, 4_000], &jobs).expect("in range")
}

/// Returns the shortest processor time of three runs.
fn best(run: impl Fn() -> usize) -> Duration {
    let runs = (0..3).map(|_| {
        let begin = now();
        std::hint::black_box(run());
        now() - begin
    });
    runs.min().unwrap_or_default()
}

fn now() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("the kernel has this clock");
    Duration::from(time)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
