//! Compares `Waiting` with a `BTreeMap` that is searched completely.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::structure::{Need, Waiting};

#[derive(Debug, Clone)]
enum WaitingStep {
    /// Appends a job with the largest key so far plus this number.
    Append(u64, Need),
    Insert(u64, Need),
    Remove(u64),
    /// Removes this number of jobs from the front.
    Drain(usize),
}

fn need() -> impl Strategy<Value = Need> {
    (0u32..20, 0i64..20, -5i64..20).prop_map(|(parts, span, power)| Need { parts, span, power })
}

fn step() -> impl Strategy<Value = WaitingStep> {
    prop_oneof![
        12 => (1u64..4, need()).prop_map(|(gap, need)| WaitingStep::Append(gap, need)),
        1 => (0u64..600, need()).prop_map(|(key, need)| WaitingStep::Insert(key, need)),
        6 => (0u64..600).prop_map(WaitingStep::Remove),
        1 => (0usize..80).prop_map(WaitingStep::Drain),
    ]
}

fn apply(step: WaitingStep, waiting: &mut Waiting, naive: &mut BTreeMap<u64, Need>, last: &mut u64) {
    match step {
        WaitingStep::Append(gap, need) => {
            *last += gap;
            assert!(waiting.insert(*last, need));
            naive.insert(*last, need);
        }
        WaitingStep::Insert(key, need) => {
            *last = key.max(*last);
            assert_eq!(waiting.insert(key, need), naive.insert(key, need).is_none());
        }
        WaitingStep::Remove(key) => assert_eq!(waiting.remove(key), naive.remove(&key)),
        WaitingStep::Drain(n) => {
            for _ in 0..n {
                let first = naive.pop_first();
                assert_eq!(waiting.first(), first);
                if let Some((key, need)) = first {
                    assert_eq!(waiting.remove(key), Some(need));
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn it_is_the_queue_that_it_stands_for(
        steps in prop::collection::vec(step(), 1..400), from in 0u64..600, limit in need(),
    ) {
        let (mut waiting, mut naive, mut last) = (Waiting::new(), BTreeMap::new(), 0);
        let fits = |need: &Need| need.parts <= limit.parts && need.span <= limit.span && need.power <= limit.power;
        for step in steps {
            apply(step, &mut waiting, &mut naive, &mut last);
            prop_assert_eq!(waiting.len(), naive.len());
            prop_assert_eq!(waiting.is_empty(), naive.is_empty());
            prop_assert_eq!(waiting.first(), naive.first_key_value().map(|(key, need)| (*key, *need)));
            let least = naive.values().copied().reduce(|a, b| Need {
                parts: a.parts.min(b.parts),
                span: a.span.min(b.span),
                power: a.power.min(b.power),
            });
            prop_assert_eq!(waiting.least(), least);
            prop_assert_eq!(waiting.need(from), naive.get(&from).copied());
            let next = naive.range(from..).find(|(_, need)| fits(need)).map(|(key, need)| (*key, *need));
            prop_assert_eq!(waiting.next(from, fits), next);
        }
    }
}
