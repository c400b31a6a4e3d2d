//! Compares `Bits` with a `BTreeSet`.

use std::collections::BTreeSet;
use std::ops::Range;

use proptest::prelude::*;

use crate::structure::Bits;

fn lowest(bits: &Bits, n: u32) -> Vec<Range<u32>> {
    let mut runs = Vec::new();
    bits.lowest(n, |run| runs.push(run));
    runs
}

#[derive(Debug, Clone)]
enum BitsStep {
    Insert(u32),
    Remove(u32),
    InsertRange(Range<u32>),
    RemoveRange(Range<u32>),
    Union(Range<u32>, u32),
    Grow(u32),
    Clear,
}

const LEN: u32 = 200;

fn step() -> impl Strategy<Value = BitsStep> {
    let range = || (0..=LEN, 0..=LEN).prop_map(|(a, b)| a.min(b)..a.max(b));
    prop_oneof![
        8 => (0..LEN).prop_map(BitsStep::Insert),
        8 => (0..LEN).prop_map(BitsStep::Remove),
        4 => range().prop_map(BitsStep::InsertRange),
        4 => range().prop_map(BitsStep::RemoveRange),
        1 => (range(), 0..LEN).prop_map(|(range, one)| BitsStep::Union(range, one)),
        1 => (LEN..2 * LEN).prop_map(BitsStep::Grow),
        1 => Just(BitsStep::Clear),
    ]
}

fn apply(step: BitsStep, bits: &mut Bits, naive: &mut BTreeSet<u32>) {
    match step {
        BitsStep::Insert(at) => assert_eq!(bits.insert(at), naive.insert(at)),
        BitsStep::Remove(at) => assert_eq!(bits.remove(at), naive.remove(&at)),
        BitsStep::InsertRange(range) => {
            let added = range.clone().filter(|at| naive.insert(*at)).count();
            assert_eq!(bits.insert_range(range) as usize, added);
        }
        BitsStep::RemoveRange(range) => {
            let removed = range.clone().filter(|at| naive.remove(at)).count();
            assert_eq!(bits.remove_range(range) as usize, removed);
        }
        BitsStep::Union(range, one) => {
            let mut other = Bits::new(LEN);
            other.insert_range(range.clone());
            other.insert(one);
            bits.union_with(&other);
            naive.extend(range.chain([one]));
        }
        BitsStep::Grow(len) => bits.grow(len),
        BitsStep::Clear => {
            bits.clear();
            naive.clear();
        }
    }
}

fn naive_runs(naive: &BTreeSet<u32>) -> Vec<Range<u32>> {
    let mut runs: Vec<Range<u32>> = Vec::new();
    for at in naive {
        match runs.last_mut() {
            Some(run) if run.end == *at => run.end += 1,
            _ => runs.push(*at..at + 1),
        }
    }
    runs
}

proptest! {
    #[test]
    fn it_is_the_set_that_it_stands_for(
        steps in prop::collection::vec(step(), 1..60), n in 0..LEN, at in 0..LEN, size in 0..LEN,
    ) {
        let (mut bits, mut naive) = (Bits::new(LEN), BTreeSet::new());
        for step in steps {
            apply(step, &mut bits, &mut naive);
            let range = at..at + size;
            let runs = naive_runs(&naive);
            let first = runs.iter().find(|run| run.len() as u32 >= n.max(1)).map(|run| run.start);
            prop_assert_eq!(bits.count() as usize, naive.len());
            prop_assert_eq!(bits.contains(at), naive.contains(&at));
            prop_assert_eq!(bits.count_range(range.clone()) as usize, naive.range(range.clone()).count());
            prop_assert_eq!(bits.contains_range(range.clone()), range.clone().all(|at| naive.contains(&at)));
            prop_assert_eq!(bits.intersects_range(range.clone()), naive.range(range).next().is_some());
            prop_assert_eq!(bits.first_run(n), first);
            prop_assert_eq!(bits.runs().collect::<Vec<_>>(), runs);
            prop_assert!(bits.iter().eq(naive.iter().copied()));
            let fewer: BTreeSet<u32> = naive.iter().take(n as usize).copied().collect();
            prop_assert_eq!(lowest(&bits, n), naive_runs(&fewer));
        }
    }
}
