//! Searches of waiting jobs, and jobs that come back.

use super::*;

fn need(parts: u32, span: i64) -> Need {
    Need { parts, span, power: 100 }
}

fn queue(jobs: &[(u64, u32, i64)]) -> Waiting {
    let mut waiting = Waiting::new();
    for (key, parts, span) in jobs {
        assert!(waiting.insert(*key, need(*parts, *span)));
    }
    waiting
}

#[test]
fn the_next_job_that_fits() {
    let waiting = queue(&[(1, 8, 10), (4, 2, 90), (5, 2, 10), (9, 1, 10)]);
    let next = |from, parts, span| {
        let found = waiting.next(from, |need| need.parts <= parts && need.span <= span);
        found.map(|(key, _)| key)
    };
    assert_eq!(next(0, 8, 10), Some(1));
    assert_eq!(next(1, 2, 90), Some(4));
    assert_eq!(next(1, 2, 10), Some(5));
    assert_eq!(next(5, 2, 10), Some(5));
    assert_eq!(next(6, 2, 10), Some(9));
    assert_eq!(next(10, 8, 90), None);
    assert_eq!(next(0, 8, 9), None);
    assert_eq!(waiting.least(), Some(need(1, 10)));
}

#[test]
fn the_first_is_the_head_of_the_queue() {
    let mut waiting = queue(&[(1, 8, 10), (4, 2, 90), (5, 2, 10)]);
    assert_eq!(waiting.first(), Some((1, need(8, 10))));
    assert_eq!(waiting.remove(4), Some(need(2, 90)));
    assert_eq!(waiting.remove(1), Some(need(8, 10)));
    assert_eq!(waiting.remove(1), None);
    assert_eq!(waiting.first(), Some((5, need(2, 10))));
    assert_eq!(waiting.least(), Some(need(2, 10)));
    assert_eq!(waiting.remove(5), Some(need(2, 10)));
    assert_eq!((waiting.first(), waiting.least(), waiting.len()), (None, None, 0));
}

#[test]
fn a_job_that_comes_back_stands_where_it_stood() {
    let mut waiting = queue(&[(2, 8, 10), (4, 2, 90), (6, 2, 10)]);
    waiting.remove(2);
    assert!(waiting.insert(2, need(7, 10)), "its key is still known");
    assert!(waiting.insert(5, need(3, 30)), "its key is new");
    assert!(!waiting.insert(4, need(9, 99)), "it waits already");
    let mut keys = Vec::new();
    let mut from = 0;
    while let Some((key, need)) = waiting.next(from, |_| true) {
        keys.push((key, need.parts));
        from = key + 1;
    }
    assert_eq!(keys, [(2, 7), (4, 9), (5, 3), (6, 2)]);
}

/// Compares many changes with an ordered map.
#[test]
fn jobs_that_come_back_keep_the_order() {
    let (mut waiting, mut known) = (Waiting::new(), std::collections::BTreeMap::new());
    // Squares modulo a prime come in a scattered order.
    for step in 0..20_000_u64 {
        let (key, parts) = (step * step % 1_021, (step * 7 % 50 + 1) as u32);
        if known.remove(&key).is_some() {
            assert!(waiting.remove(key).is_some());
        } else {
            assert!(waiting.insert(key, need(parts, 10)));
            known.insert(key, parts);
        }
        let most = (step * 11 % 50) as u32;
        let (from, fits) = (step * 389 % 1_024, |parts: u32| parts <= most);
        let expected = known.range(from..).find(|(_, parts)| fits(**parts)).map(|(key, _)| *key);
        assert_eq!(waiting.next(from, |need| fits(need.parts)).map(|(key, _)| key), expected);
        assert_eq!(waiting.first().map(|(key, _)| key), known.keys().next().copied());
    }
}

#[test]
fn no_job_is_found_after_the_last_place() {
    let mut waiting = Waiting::new();
    for key in 1..=FEWEST_PLACES as u64 {
        waiting.insert(key, need(key as u32, 1));
    }
    assert_eq!(waiting.places(), FEWEST_PLACES);
    assert_eq!(waiting.next(64, |need| need.parts <= 63), None);
    assert_eq!(waiting.next(64, |need| need.parts <= 64), Some((64, need(64, 1))));
}

#[test]
fn memory_follows_the_queue_and_not_the_jobs_that_passed() {
    let mut waiting = Waiting::new();
    for key in 0..100_000 {
        waiting.insert(key, need(1, 1));
        if key >= 1000 {
            waiting.remove(key - 1000);
        }
    }
    assert_eq!(waiting.len(), 1000);
    assert!(waiting.places() <= 2048, "{} places", waiting.places());
}

#[test]
#[should_panic(expected = "job 7 needs 4294967295 parts")]
fn the_mark_of_an_empty_place_is_refused_as_a_need() {
    queue(&[(7, u32::MAX, 1)]);
}
