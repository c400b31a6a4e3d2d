//! Allocations and paces, worked out by hand.

use super::*;

#[test]
fn power_moves_to_nodes_that_use_theirs() {
    let mut shares = Shares::new(128);
    assert_eq!(shares.allocate(&[0, 0]), [64, 64]);
    // Node 0 uses 10 < 64 - 5 and keeps 15. The rest, 128 - 15 - 64 = 49, goes to node 1.
    assert_eq!(shares.allocate(&[10, 100]), [15, 113]);
    // Both use theirs. Node 1 gives back a tenth of 113 - 64: 108.1, truncated. The rest, 128 - 15 - 108 = 5, is 2.5 a node,
    // which is rounded up.
    assert_eq!(shares.allocate(&[14, 110]), [18, 111]);
}

#[test]
fn allocations_end_at_the_most_of_a_node_after_the_first_one() {
    let mut shares = Shares::new(2_000);
    assert_eq!(shares.allocate(&[0, 0]), [1_000, 1_000]);
    // Without a node that uses its power nothing is divided.
    assert_eq!(shares.allocate(&[0, 0]), [5, 5]);
    assert_eq!(shares.allocate(&[5, 5]), [400, 400]);
}

#[test]
fn halves_are_rounded_away_from_zero() {
    let mut shares = Shares::new(3);
    assert_eq!(shares.allocate(&[0, 0]), [2, 2]);
    // (3 - 4) / 2 = -0.5, then (3 - 2) / 2 = 0.5.
    assert_eq!(shares.allocate(&[0, 0]), [1, 1]);
    assert_eq!(shares.allocate(&[0, 0]), [2, 2]);
}

/// A job of 100 s and two units of 40 W that has this duration and this power of a unit.
fn paced(duration_s: i64, unit_w: f64) -> RunningPace {
    let full = FullPace { duration_s: 100, job_w: 80.0, unit_w: 40.0 };
    RunningPace { start_s: 1_000, duration_s, job_w: 2.0 * unit_w, unit_w, full }
}

/// Checks the pace after a limit at `elapsed_s`.
fn check(before: RunningPace, (limit_w, elapsed_s, factor): (i64, i64, f64), expected: Option<RunningPace>) {
    assert_eq!(before.limited(limit_w, 1_000 + elapsed_s, factor), expected);
}

#[test]
fn less_power_stretches_the_remaining_time() {
    // Half of the power: twice the remaining 50 s.
    check(paced(100, 40.0), (20, 50, 1.0), Some(paced(150, 20.0)));
    // (1 / 0.5) x 0.5 = 1, and a smaller factor does not shorten it.
    check(paced(100, 40.0), (20, 50, 0.5), Some(paced(100, 20.0)));
    check(paced(100, 40.0), (20, 50, 0.0), Some(paced(100, 20.0)));
    // 51 / 0.75 x 0.95 = 64.6, truncated.
    check(paced(100, 40.0), (30, 49, 0.95), Some(paced(49 + 64, 30.0)));
}

#[test]
fn more_power_shrinks_the_remaining_time() {
    // 50 s at 1.5 times the power: 33.3 s, truncated. With half of the effect: 50 - 17 x 0.5 = 41.5 s.
    check(paced(150, 20.0), (30, 100, 1.0), Some(paced(133, 30.0)));
    check(paced(150, 20.0), (30, 100, 0.5), Some(paced(141, 30.0)));
    // The power is at most the full one, but the time shrinks with the limit: 50 / 4 = 12.5 s.
    check(paced(150, 20.0), (80, 100, 1.0), Some(paced(112, 40.0)));
    // A job takes no less than its time at full power: 20 + 100 / 2 is less than 100.
    check(paced(120, 20.0), (40, 20, 1.0), Some(paced(100, 40.0)));
}

#[test]
fn a_job_at_full_power_loses_its_delay_even_if_its_end_is_then_past() {
    check(paced(112, 40.0), (80, 90, 1.0), Some(paced(100, 40.0)));
    let immortal = paced(112, 40.0).limited(80, 1_105, 1.0).expect("a change");
    assert_eq!((immortal, immortal.end_s()), (paced(100, 40.0), 1_100));
}

#[test]
fn the_end_of_an_overdue_job_moves_back() {
    // -5 s, twice.
    check(paced(100, 40.0), (20, 105, 1.0), Some(paced(95, 20.0)));
    // Its duration is then below that at full power, to which it returns.
    check(paced(95, 20.0), (30, 110, 1.0), Some(paced(100, 30.0)));
}

#[test]
fn a_job_that_would_end_now_does_not_change() {
    check(paced(150, 20.0), (10, 150, 1.0), None);
    check(paced(100, 40.0), (40, 100, 1.0), None);
    // A quarter of 1 s is truncated to 0 s.
    check(paced(150, 20.0), (80, 149, 1.0), None);
}

#[test]
fn a_draw_is_at_least_one_watt() {
    let full = FullPace { duration_s: 100, job_w: 3.0, unit_w: 3.0 };
    let pace = RunningPace { start_s: 0, duration_s: 100, job_w: 1.0, unit_w: 3.0, full };
    // A third of 1 W, which only a draw of less than that of its units can reach.
    let limited = pace.limited(1, 50, 1.0).expect("a change");
    assert_eq!((limited.job_w, limited.unit_w, limited.duration_s), (1.0, 1.0, 200));
}

#[test]
fn a_remaining_time_is_limited() {
    // 40 times 2^40 - 50 s.
    let limited = paced(MOST_REST_S, 40.0).limited(1, 1_050, 1.0).expect("a change");
    assert_eq!(limited.duration_s, MOST_REST_S + 50);
}
