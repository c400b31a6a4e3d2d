//! Runs alone, side by side, suspended and hardly sampled; shares add up.

use proptest::prelude::*;

use super::*;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn watts(watts: i64) -> Power {
    Power::from_watts(watts)
}

/// Returns a machine idle at 10 W until the 20th second, with a sample each second.
fn idle_for_20_s() -> Attribution {
    let mut machine = Attribution::new(watts(3));
    (1..=20).for_each(|at| machine.look(secs(at), watts(10), secs(1)));
    machine
}

#[test]
fn a_run_that_is_alone_used_the_measured_energy_above_idle() {
    let mut machine = idle_for_20_s();
    assert_eq!(machine.idle(), watts(10), "samples count, not the operator's value");
    machine.start(1, watts(99), secs(20));
    (21..=50).for_each(|at| machine.look(secs(at), watts(35), secs(1)));
    machine.end(1, secs(50));
    assert!(!machine.awaits_look(1));
    // 25 W for 30 s are 750 J.
    assert_eq!(machine.take(1, secs(50)), Some(Attributed { energy: Energy::from_joules(750), confidence: 1_000 }));
    assert_eq!(machine.take(1, secs(50)), None);
    (51..=60).for_each(|at| machine.look(secs(at), watts(30), secs(1)));
    assert!(machine.idle() > watts(10), "the machine is idle again");
}

#[test]
fn a_sample_with_a_run_that_is_not_known_yet_is_not_idle() {
    let mut machine = Attribution::new(watts(3));
    (1..=5).for_each(|at| machine.look(secs(at), watts(10), secs(1)));
    machine.look(secs(6), watts(60), secs(1));
    machine.start(1, watts(30), secs(6));
    machine.look(secs(8), watts(60), secs(2));
    assert_eq!(machine.idle(), watts(10));
    machine.end(1, secs(8));
    // 50 W above idle for 2 s.
    assert_eq!(machine.take(1, secs(8)).map(|found| found.energy), Some(Energy::from_joules(100)));
}

#[test]
fn simultaneous_runs_share_the_energy_by_their_estimates() {
    let mut machine = idle_for_20_s();
    machine.start(1, watts(30), secs(20));
    machine.start(2, watts(10), secs(30));
    (21..=30).for_each(|at| machine.look(secs(at), watts(40), secs(1)));
    (31..=40).for_each(|at| machine.look(secs(at), watts(50), secs(1)));
    machine.end(1, secs(40));
    machine.end(2, secs(40));
    // Run 1: 30 W for 10 s alone, then 3/4 of 40 W for 10 s; its mean part is (1 + 3/4) / 2.
    // Run 2: 1/4 of 40 W for 10 s.
    assert_eq!(machine.take(1, secs(40)), Some(Attributed { energy: Energy::from_joules(600), confidence: 875 }));
    assert_eq!(machine.take(2, secs(40)), Some(Attributed { energy: Energy::from_joules(100), confidence: 250 }));
}

#[test]
fn few_samples_lower_the_confidence_and_gaps_are_unknown() {
    let mut machine = idle_for_20_s();
    machine.start(1, watts(30), secs(20));
    machine.look(secs(25), watts(40), secs(5));
    machine.end(1, secs(27));
    assert!(machine.awaits_look(1), "its end was not seen");
    machine.look(secs(30), watts(22), secs(5));
    assert!(!machine.awaits_look(1));
    // 30 W for 5 s, and all of 12 W for 5 s, in which it still ran for 2 s. The meter showed 2 values of the 10 needed.
    assert_eq!(machine.take(1, secs(30)), Some(Attributed { energy: Energy::from_joules(210), confidence: 200 }));
    machine.start(2, watts(30), secs(40));
    machine.look(secs(50), watts(40), secs(8));
    machine.end(2, secs(50));
    assert_eq!(machine.take(2, secs(50)), None, "8 s of 10 were seen");
    machine.start(3, watts(30), secs(60));
    machine.look(secs(70), watts(40), secs(9));
    machine.end(3, secs(70));
    // 30 W in the sampled 9 s count for all 10 s.
    assert_eq!(machine.take(3, secs(70)).map(|found| found.energy), Some(Energy::from_joules(300)));
}

#[test]
fn a_paused_run_has_no_part() {
    let mut machine = idle_for_20_s();
    machine.start(1, watts(10), secs(20));
    machine.start(2, watts(10), secs(20));
    machine.look(secs(22), watts(30), secs(2));
    machine.set_paused(1, true, secs(23));
    // 40 W for 2 s are 80 J. Run 1 ran for only one of the two seconds, so it gets a third.
    machine.look(secs(24), watts(50), secs(2));
    machine.look(secs(28), watts(20), secs(4));
    machine.set_paused(1, false, secs(28));
    machine.look(secs(30), watts(30), secs(2));
    let end = |machine: &mut Attribution, token| {
        machine.end(token, secs(30));
        machine.take(token, secs(30)).map(|found| found.energy)
    };
    // By sample: 20, 80/3, 0 and 20 J for run 1; 20, 160/3, 40 and 20 J for run 2. Rounding loses up to a millionth.
    assert_eq!(end(&mut machine, 1), Some(Energy::from_mj(66_666)));
    assert_eq!(end(&mut machine, 2), Some(Energy::from_mj(133_333)));
}

proptest! {
    /// Checks that for all starts, overlaps and ends, the attributed energy is the energy above idle, to a thousandth.
    #[test]
    fn shares_add_up_to_the_measured_energy(
        runs in prop::collection::vec((0_u64..100, 1_u64..100, 1_i64..100_000), 1..12),
        draws in prop::collection::vec(10_000_i64..500_000, 200),
    ) {
        let mut machine = idle_for_20_s();
        let spans = || runs.iter().map(|(from, length, _)| (20 + from, 20 + from + length));
        let mut drawn = 0;
        for (at, draw) in (20_u64..).zip(&draws) {
            for (token, ((from, until), (.., weight))) in (0..).zip(spans().zip(&runs)) {
                if from == at {
                    machine.start(token, Power::from_mw(*weight), secs(at));
                }
                if until == at {
                    machine.end(token, secs(at));
                }
            }
            // Samples without a run show the idle draw, so that it does not change.
            let active = spans().any(|(from, until)| from <= at && at < until);
            let shown = if active { *draw } else { 10_000 };
            drawn += shown - 10_000;
            machine.look(secs(at + 1), Power::from_mw(shown), secs(1));
        }
        let used: i64 = (0..runs.len() as u64).filter_map(|token| machine.take(token, secs(300))).map(|found| found.energy.mj()).sum();
        prop_assert!((used - drawn).abs() <= drawn / 1_000 + 12, "{used} mJ of {drawn} mJ");
    }
}
