//! Compares `Levels` with a list of (free cores, usable).

use std::ops::Range;

use proptest::prelude::*;

use crate::structure::{Bits, Levels};

const CORES: u32 = 6;

#[derive(Debug, Clone)]
enum LevelsStep {
    Push(u32, bool),
    Usable(u32, bool),
    /// Takes this many cores, limited to the cores that all positions of the run have.
    Take(Range<u32>, u32),
    Give(Range<u32>, u32),
}

/// Returns a random step. Positions are taken modulo their number.
fn step() -> impl Strategy<Value = LevelsStep> {
    let run = || (0u32..150, 0u32..150).prop_map(|(a, b)| a.min(b)..a.max(b));
    prop_oneof![
        1 => (0..=CORES, any::<bool>()).prop_map(|(level, usable)| LevelsStep::Push(level, usable)),
        1 => (0u32..150, any::<bool>()).prop_map(|(at, usable)| LevelsStep::Usable(at, usable)),
        3 => (run(), 0..=CORES).prop_map(|(run, cores)| LevelsStep::Take(run, cores)),
        3 => (run(), 0..=CORES).prop_map(|(run, cores)| LevelsStep::Give(run, cores)),
    ]
}

type Naive = Vec<(u32, bool)>;

fn cut(run: Range<u32>, naive: &Naive) -> Range<u32> {
    let len = naive.len() as u32;
    run.start.min(len)..run.end.min(len)
}

fn apply(step: LevelsStep, levels: &mut Levels, naive: &mut Naive) {
    match step {
        LevelsStep::Push(level, usable) => {
            levels.push(level, usable);
            naive.push((level, usable));
        }
        LevelsStep::Usable(at, usable) => {
            let at = at % naive.len() as u32;
            let known = &mut naive[at as usize].1;
            assert_eq!(levels.set_usable(at, usable), *known != usable);
            *known = usable;
        }
        LevelsStep::Take(run, cores) => {
            let run = cut(run, naive);
            let nodes = &mut naive[run.start as usize..run.end as usize];
            let cores = nodes.iter().map(|node| node.0).fold(cores, u32::min);
            nodes.iter_mut().for_each(|node| node.0 -= cores);
            levels.take(run, cores);
        }
        LevelsStep::Give(run, cores) => {
            let run = cut(run, naive);
            let nodes = &mut naive[run.start as usize..run.end as usize];
            let cores = nodes.iter().map(|node| CORES - node.0).fold(cores, u32::min);
            nodes.iter_mut().for_each(|node| node.0 += cores);
            levels.give(run, cores);
        }
    }
}

proptest! {
    #[test]
    fn they_are_the_nodes_that_they_stand_for(
        first in prop::collection::vec((0..=CORES, prop::bool::weighted(0.9), 1usize..90), 1..5),
        steps in prop::collection::vec(step(), 1..60),
        cores in 0..=CORES + 1,
        n in 0u32..150,
    ) {
        let (mut levels, mut naive) = (Levels::new(CORES), Naive::new());
        for (level, usable, times) in first {
            (0..times).for_each(|_| apply(LevelsStep::Push(level, usable), &mut levels, &mut naive));
        }
        let mut scratch = Bits::new(0);
        for step in steps {
            apply(step, &mut levels, &mut naive);
            let free = (0..levels.len()).map(|at| (levels.free(at), levels.usable().contains(at)));
            prop_assert!(free.eq(naive.iter().copied()));
            let fits = |at: &u32| naive[*at as usize].1 && naive[*at as usize].0 >= cores;
            let mut fitting: Vec<u32> = (0..naive.len() as u32).filter(fits).collect();
            prop_assert_eq!(levels.count_at_least(cores) as usize, fitting.len());
            prop_assert!(levels.members(cores, &mut scratch).iter().eq(fitting.iter().copied()));
            fitting.sort_by_key(|at| (naive[*at as usize].0, *at));
            fitting.truncate(n as usize);
            let mut handed = Vec::new();
            let found = levels.lowest_fit(cores, n, |run| handed.extend(run));
            prop_assert_eq!(found as usize, handed.len());
            prop_assert_eq!(handed, fitting);
        }
    }
}
