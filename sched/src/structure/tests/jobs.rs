//! Compares `JobMap` and `JobSet` with the maps and sets of the standard library.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::JobId;
use proptest::prelude::*;

use crate::structure::{JobMap, JobSet};

/// Returns numbers close to each other, and occasionally one far below or above.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 1_000..1_300_u64, 1 => 0..64_u64, 1 => 3_000..3_200_u64]
}

fn copy<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).expect("written")).expect("read back")
}

proptest! {
    #[test]
    fn a_map(steps in proptest::collection::vec((number(), any::<bool>()), 0..400)) {
        let (mut map, mut naive) = (JobMap::default(), BTreeMap::new());
        for (step, (number, is_new)) in steps.into_iter().enumerate() {
            let job = JobId(number);
            let (found, expected) = match is_new {
                true => (map.insert(job, step), naive.insert(job, step)),
                false => (map.remove(job), naive.remove(&job)),
            };
            prop_assert_eq!(found, expected);
            prop_assert_eq!((map.get(job), map.len(), map.is_empty()), (naive.get(&job), naive.len(), naive.is_empty()));
            prop_assert_eq!(map.get_mut(job), naive.get_mut(&job));
        }
        prop_assert!(map.iter().eq(naive.iter().map(|(job, value)| (*job, value))));
        prop_assert_eq!(&copy(&map), &map);
        prop_assert_eq!(serde_json::to_string(&map).expect("text"), serde_json::to_string(&naive).expect("text"));
    }

    #[test]
    fn a_set(steps in proptest::collection::vec((number(), any::<bool>()), 0..400)) {
        let (mut set, mut naive) = (JobSet::default(), BTreeSet::new());
        for (number, is_new) in steps {
            let job = JobId(number);
            let (found, expected) = match is_new {
                true => (set.insert(job), naive.insert(job)),
                false => (set.remove(job), naive.remove(&job)),
            };
            prop_assert_eq!(found, expected);
            prop_assert_eq!((set.contains(job), set.len(), set.is_empty()), (naive.contains(&job), naive.len(), naive.is_empty()));
        }
        prop_assert!(set.iter().eq(naive.iter().copied()));
        prop_assert_eq!(&copy(&set), &set);
        prop_assert_eq!(serde_json::to_string(&set).expect("text"), serde_json::to_string(&naive).expect("text"));
    }
}

#[test]
fn memory_follows_the_stored_jobs() {
    let mut map = JobMap::default();
    for number in 0..1_000_000 {
        map.insert(JobId(number), number);
        if number >= 100 {
            assert_eq!(map.remove(JobId(number - 100)), Some(number - 100));
        }
    }
    // The numbers 999,900 to 999,999 are in the pages 15,623 and 15,624.
    assert_eq!((map.len(), map.pages()), (100, 2));
}

#[test]
fn numbers_that_cannot_be_of_one_queue_are_refused() {
    let error = serde_json::from_str::<JobSet>("[1, 18446744073709551615]").expect_err("too far apart");
    assert_eq!(
        error.to_string(),
        "jobs 1 and 18446744073709551615 are too far apart to be of one queue at line 1 column 25"
    );
    let error = serde_json::from_str::<JobMap<u8>>(r#"{"5000000000": 1, "7": 2}"#).expect_err("too far apart");
    assert!(error.to_string().starts_with("jobs 7 and 5000000000 are too far apart"), "{error}");
}
