//! The model's laws: energy is the integral of draw; a cap never raises the power and never shortens a run.

use std::path::Path;

use limo_model::{Energy, Power, Span, Time};
use limo_power::{Emulated, Hardware, PlanError, Share};
use proptest::prelude::*;

/// A machine with one capped CPU of 4 cores and one accelerator. `noise` is in percent.
fn machine(factor: f64, noise: &str) -> Emulated {
    let text = format!(
        r#"
        [[machine]]
        name = "n1"
        cores = 4
        memory = "2 GiB"
        idle = "10 W"
        reading_noise = "{noise}"
        [[machine.unit]]
        name = "cpu"
        hardware = "xeon"
        kind = "cpu"
        nameplate = "60 W"
        caps = ["8 W", "60 W"]
        cap_factor = {factor}
        power_noise = "{noise}"
        duration_noise = "{noise}"
        application.ft = {{ power = "40 W", duration = "40s" }}
        [[machine.unit]]
        name = "gpu"
        hardware = "quadro"
        kind = "accelerator"
        nameplate = "75 W"
        application.ft = {{ power = "70 W", duration = "10s" }}
        "#
    );
    let hardware = Hardware::parse(Path::new("hw.toml"), &text).expect("a machine");
    Emulated::new(hardware.machines[0].clone())
}

fn cpu(cores: u32, cap: Option<i64>) -> Share {
    Share { unit: 0, cores, cap: cap.map(Power::from_watts) }
}

/// Power in watts and duration in seconds of a run of `application` on the CPU without noise.
fn check(factor: f64, application: &str, share: Share, power: i64, duration: Option<i64>) {
    let plan = machine(factor, "0%").plan(application, "", &[share]).expect("a plan");
    assert_eq!((plan.power, plan.duration), (Power::from_watts(power), duration.map(Span::from_secs)), "{share:?}");
}

#[test]
fn caps_as_in_the_paper() {
    check(1.0, "ft", cpu(4, None), 40, Some(40));
    check(1.0, "ft", cpu(4, Some(50)), 40, Some(40));
    // M = 1/2: proportional with F = 1, three quarters of that with F = 0.75, and never shorter than without a cap.
    check(1.0, "ft", cpu(4, Some(20)), 20, Some(80));
    check(0.75, "ft", cpu(4, Some(20)), 20, Some(60));
    check(0.25, "ft", cpu(4, Some(20)), 20, Some(40));
    // Held to the lowest cap that the unit obeys: M = 1/5.
    check(1.0, "ft", cpu(4, Some(1)), 8, Some(200));
    // A quarter of the cores draws a quarter, under a quarter of the cap.
    check(1.0, "ft", cpu(1, None), 10, Some(40));
    check(1.0, "ft", cpu(1, Some(20)), 5, Some(80));
    // Not in the file: its share of the nameplate, as long as it likes.
    check(1.0, "cg", cpu(2, None), 30, None);
}

#[test]
fn several_units() {
    let shares = [cpu(4, None), Share { unit: 1, cores: 1, cap: Some(Power::from_watts(1)) }];
    let plan = machine(1.0, "0%").plan("ft", "", &shares).expect("a plan");
    assert_eq!(plan.power, Power::from_watts(110), "the accelerator cannot be capped");
    assert_eq!(plan.duration, Some(Span::from_secs(40)), "the slowest counts");
    let no_unit = machine(1.0, "0%").plan("ft", "", &[Share { unit: 2, cores: 1, cap: None }]);
    assert_eq!(no_unit, Err(PlanError::Unit { unit: 2, units: 2 }));
    assert_eq!(machine(1.0, "0%").plan("ft", "", &[cpu(5, None)]), Err(PlanError::Cores { unit: 0, cores: 5, has: 4 }));
}

#[test]
fn equal_seeds_give_equal_noise() {
    let runs = |mut machine: Emulated| (0..50).map(|_| machine.plan("ft", "", &[cpu(4, None)])).collect::<Vec<_>>();
    let first = runs(machine(1.0, "5%"));
    assert_eq!(first, runs(machine(1.0, "5%")));
    assert!(first.iter().any(|plan| plan != &first[0]), "noise differs from run to run");
}

/// What happens to a machine: time passes, then a run starts or the oldest one ends.
#[derive(Debug, Clone)]
struct Step {
    wait_ms: i64,
    start: Option<(u32, Option<i64>)>,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let start = proptest::option::of((1_u32..=4, proptest::option::of(1_i64..80)));
    let step = (0_i64..100_000, start).prop_map(|(wait_ms, start)| Step { wait_ms, start });
    proptest::collection::vec(step, 0..60)
}

proptest! {
    #[test]
    fn energy_is_the_integral_of_draw(steps in steps()) {
        let mut machine = machine(0.5, "5%");
        let (mut now, mut running, mut token) = (Time::from_unix_ms(0), Vec::new(), 0);
        let (mut integral, mut energy) = (Energy::ZERO, Energy::ZERO);
        let idle = machine.machine().spec.idle;
        let count = i64::try_from(steps.len()).expect("few");
        for step in steps {
            integral += (machine.draw() - idle) * Span::from_ms(step.wait_ms);
            now = now + Span::from_ms(step.wait_ms);
            match step.start {
                Some((cores, cap)) => {
                    let plan = machine.plan("ft", "", &[cpu(cores, cap)]).expect("a plan");
                    machine.start(token, plan.power, now);
                    running.push(token);
                    token += 1;
                }
                None if !running.is_empty() => energy += machine.end(running.remove(0), now).expect("running"),
                None => prop_assert_eq!(machine.end(token, now), None),
            }
        }
        for token in running {
            energy += machine.end(token, now).expect("running");
        }
        prop_assert_eq!(machine.draw(), idle);
        // Each interval and each run is rounded once, to half a millijoule.
        prop_assert!((energy - integral).mj().abs() <= count + 1, "{} and {}", energy, integral);
    }

    #[test]
    fn a_cap_never_raises_the_power_nor_shortens_the_run(
        cores in 1_u32..=4, cap in 0_i64..100, factor in 1_u32..=1000, runs in 1_usize..20,
    ) {
        let factor = f64::from(factor) / 1000.0;
        let (mut free, mut capped) = (machine(factor, "10%"), machine(factor, "10%"));
        for _ in 0..runs {
            let without = free.plan("ft", "", &[cpu(cores, None)]).expect("a plan");
            let with = capped.plan("ft", "", &[cpu(cores, Some(cap))]).expect("a plan");
            prop_assert!(with.power <= without.power);
            prop_assert!(with.duration >= without.duration);
            let held = Power::from_watts(cap.clamp(8, 60)).scaled(cores.into(), 4);
            prop_assert!(with.power <= held, "{} above {}", with.power, held);
        }
    }

    #[test]
    fn readings_stay_within_their_noise(at in any::<i64>(), watts in 0_i64..1000) {
        let mut machine = machine(1.0, "3%");
        machine.start(1, Power::from_watts(watts), Time::from_unix_ms(0));
        let (draw, reading) = (machine.draw(), machine.reading(Time::from_unix_ms(at)));
        prop_assert!((reading - draw).mw().abs() <= draw.scaled(3, 100).mw() + 1, "{} and {}", reading, draw);
        prop_assert_eq!(reading, machine.reading(Time::from_unix_ms(at)));
    }
}
