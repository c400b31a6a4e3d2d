//! The model's laws: energy is the integral of draw; caps and suspensions neither lose nor add work. A cap never
//! raises the power or shortens a run.

use std::path::Path;

use limo_model::{Energy, Power, Span, Time};
use limo_power::{CapRefused, Emulated, Hardware, PlanError, Share};
use proptest::prelude::*;

/// Makes a machine with one capped CPU of 4 cores, and two accelerators, the second capped. `noise` is in percent.
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
        [[machine.unit]]
        name = "gpu2"
        hardware = "tesla"
        kind = "accelerator"
        nameplate = "200 W"
        caps = ["50 W", "200 W"]
        application.ft = {{ power = "100 W", duration = "10s" }}
        "#
    );
    let hardware = Hardware::parse(Path::new("hw.toml"), &text).expect("a machine");
    Emulated::new(hardware.machines[0].clone())
}

fn on(unit: usize, cores: u32) -> Share {
    Share { unit, cores, cap: None }
}

fn cpu(cores: u32, cap: Option<i64>) -> Share {
    Share { cap: cap.map(Power::from_watts), ..on(0, cores) }
}

fn at(ms: i64) -> Time {
    Time::from_unix_ms(ms)
}

fn watts(caps: &[Option<i64>]) -> Vec<Option<Power>> {
    caps.iter().map(|cap| cap.map(Power::from_watts)).collect()
}

fn start(machine: &mut Emulated, token: u64, shares: &[Share], ms: i64) {
    let plan = machine.plan("ft", "", shares).expect("a plan");
    machine.start(token, plan, at(ms));
}

/// Returns the draw of all runs, in watts.
fn drawn(machine: &Emulated) -> i64 {
    (machine.draw() - machine.machine().spec.idle).mw() / 1000
}

/// Checks the power in watts and the duration in seconds of a run of `application` on the CPU without noise.
fn check(factor: f64, application: &str, share: Share, power: i64, duration: Option<i64>) {
    let mut machine = machine(factor, "0%");
    let plan = machine.plan(application, "", &[share]).expect("a plan");
    machine.start(7, plan, at(5));
    let expected = duration.map(|secs| (at(5 + 1000 * secs), 7));
    assert_eq!((drawn(&machine), machine.next_end(at(5))), (power, expected), "{share:?}");
}

#[test]
fn caps_as_in_the_paper() {
    check(1.0, "ft", cpu(4, None), 40, Some(40));
    check(1.0, "ft", cpu(4, Some(50)), 40, Some(40));
    // M = 1/2: proportional with F = 1, three quarters of that with F = 0.75, and never shorter than without a cap.
    check(1.0, "ft", cpu(4, Some(20)), 20, Some(80));
    check(0.75, "ft", cpu(4, Some(20)), 20, Some(60));
    check(0.25, "ft", cpu(4, Some(20)), 20, Some(40));
    // The lowest cap of the unit applies: M = 1/5.
    check(1.0, "ft", cpu(4, Some(1)), 8, Some(200));
    // A quarter of the cores draws a quarter, under a quarter of the cap.
    check(1.0, "ft", cpu(1, None), 10, Some(40));
    check(1.0, "ft", cpu(1, Some(20)), 5, Some(80));
    // An application that is not in the file draws its share of the nameplate, for any time; a cap still limits its
    // draw.
    check(1.0, "cg", cpu(2, None), 30, None);
    check(1.0, "cg", cpu(2, Some(20)), 10, None);
}

#[test]
fn several_units() {
    let mut three = machine(1.0, "0%");
    start(&mut three, 1, &[on(2, 1), cpu(4, None), Share { cap: Some(Power::from_watts(1)), ..on(1, 1) }], 0);
    assert_eq!(drawn(&three), 210, "the accelerator cannot be capped");
    assert_eq!(three.next_end(at(0)), Some((at(40_000), 1)), "the slowest counts");
    // The slowest pace counts: three quarters on the CPU, a half on the second accelerator.
    three.set_caps(&watts(&[Some(30), None, Some(50)]), at(0));
    assert_eq!((drawn(&three), three.next_end(at(0))), (150, Some((at(80_000), 1))));
    let unit = machine(1.0, "0%").plan("ft", "", &[on(3, 1)]);
    assert_eq!(unit, Err(PlanError::Unit { unit: 3, units: 3 }));
    assert_eq!(machine(1.0, "0%").plan("ft", "", &[on(0, 5)]), Err(PlanError::Cores { unit: 0, cores: 5, has: 4 }));
}

/// Follows a run of 40 s at 40 W: 10 s without a cap, 10 s at half its pace, 10 s suspended, then without a cap.
#[test]
fn the_draw_follows_caps_and_suspension() {
    let mut machine = machine(1.0, "0%");
    start(&mut machine, 1, &[cpu(4, None)], 0);
    machine.set_caps(&watts(&[Some(20)]), at(10_000));
    assert_eq!((drawn(&machine), machine.next_end(at(10_000))), (20, Some((at(70_000), 1))), "30 s at half the pace");
    machine.suspend(1, at(20_000));
    machine.suspend(1, at(21_000));
    assert_eq!((drawn(&machine), machine.next_end(at(20_000))), (0, None));
    machine.set_caps(&[], at(25_000));
    assert_eq!(drawn(&machine), 0, "still suspended");
    machine.resume(1, at(30_000));
    machine.resume(1, at(31_000));
    assert_eq!((drawn(&machine), machine.next_end(at(30_000))), (40, Some((at(55_000), 1))));
    assert_eq!(machine.take_done(at(54_999)), Vec::<u64>::new());
    assert_eq!(machine.take_done(at(55_000)), [1]);
    assert_eq!((machine.take_done(at(55_001)), machine.next_end(at(55_001))), (vec![], None), "once");
    assert_eq!(drawn(&machine), 40, "until its process is gone");
    // The run draws 40 W for 10 s, 20 W for 10 s, 40 W for 25 s, and 40 W for one second more.
    assert_eq!(machine.end(1, at(56_000)), Some(Energy::from_joules(400 + 200 + 1000 + 40)));
    for unknown in [1, 2] {
        machine.suspend(unknown, at(57_000));
        machine.resume(unknown, at(57_000));
        assert_eq!((machine.end(unknown, at(57_000)), drawn(&machine)), (None, 0));
    }
}

#[test]
fn a_start_or_an_end_that_is_learned_late_changes_no_energy() {
    let mut machine = machine(1.0, "0%");
    let end = |machine: &mut Emulated, secs, now| machine.end_after(1, Span::from_secs(secs), at(now));
    start(&mut machine, 1, &[cpu(2, None)], 0);
    let watts = drawn(&machine);
    // The work done meanwhile was counted.
    machine.suspend(7, at(50_000));
    assert_eq!(end(&mut machine, 10, 60_000), Some(Energy::from_joules(watts * 10)));
    start(&mut machine, 1, &[cpu(2, None)], 100_000);
    assert_eq!(end(&mut machine, 30, 120_000), Some(Energy::from_joules(watts * 30)));
}

#[test]
fn a_unit_has_the_lowest_of_its_caps() {
    let mut machine = machine(1.0, "0%");
    start(&mut machine, 1, &[cpu(2, None)], 0);
    start(&mut machine, 2, &[cpu(1, Some(24))], 0);
    assert_eq!(drawn(&machine), 12 + 6, "what one run brings holds the other");
    assert_eq!(machine.end(2, at(0)), Some(Energy::ZERO));
    assert_eq!(drawn(&machine), 20, "for as long as it lasts");
    start(&mut machine, 3, &[cpu(1, Some(24))], 0);
    machine.set_caps(&watts(&[Some(32)]), at(0));
    assert_eq!(drawn(&machine), 16 + 8, "until the unit is told otherwise");
    machine.set_caps(&watts(&[None]), at(0));
    assert_eq!(drawn(&machine), 20 + 10);
}

#[test]
fn caps_that_do_not_hold_are_named() {
    let mut machine = machine(1.0, "0%");
    let failed = machine.set_caps(&watts(&[Some(5), Some(50), Some(500), None, Some(9)]), at(0));
    let cap = Power::from_watts;
    let expected = [
        (0, CapRefused::Low { unit: "cpu".into(), cap: cap(5), low: cap(8) }),
        (1, CapRefused::Never { unit: "gpu".into(), cap: cap(50) }),
        (4, CapRefused::Unit { unit: 4, units: 3 }),
    ];
    assert_eq!(failed, expected);
    start(&mut machine, 1, &[cpu(4, None)], 0);
    assert_eq!(drawn(&machine), 8, "the others hold, and this one as low as it can be");
    assert_eq!(machine.set_caps(&watts(&[None, None, Some(50)]), at(0)), []);
}

#[test]
fn equal_seeds_give_equal_noise() {
    let runs = |mut machine: Emulated| (0..50).map(|_| machine.plan("ft", "", &[cpu(4, None)])).collect::<Vec<_>>();
    let first = runs(machine(1.0, "5%"));
    assert_eq!(first, runs(machine(1.0, "5%")));
    assert!(first.iter().any(|plan| plan != &first[0]), "noise differs from run to run");
}

/// Change of a machine after some time.
#[derive(Debug, Clone)]
enum Step {
    Start(u32, Option<i64>),
    EndOldest,
    Caps(Option<i64>),
    Suspend(usize),
    Resume(usize),
}

fn caps() -> impl Strategy<Value = Option<i64>> {
    proptest::option::of(1_i64..80)
}

fn steps() -> impl Strategy<Value = Vec<(i64, Step)>> {
    let step = prop_oneof![
        (1_u32..=4, caps()).prop_map(|(cores, cap)| Step::Start(cores, cap)),
        Just(Step::EndOldest),
        caps().prop_map(Step::Caps),
        (0_usize..4).prop_map(Step::Suspend),
        (0_usize..4).prop_map(Step::Resume),
    ];
    proptest::collection::vec((0_i64..20_000, step), 0..60)
}

/// Plays many runs; returns the energy that they report, the integral of the draw, and all reports.
fn play(steps: &[(i64, Step)]) -> (Energy, Energy, Vec<String>) {
    let mut machine = machine(0.5, "5%");
    let (mut now, mut running, mut token) = (0, Vec::new(), 0);
    let (mut integral, mut energy, mut said) = (Energy::ZERO, Energy::ZERO, Vec::new());
    let idle = machine.machine().spec.idle;
    for (wait_ms, step) in steps {
        integral += (machine.draw() - idle) * Span::from_ms(*wait_ms);
        now += wait_ms;
        match step {
            Step::Start(cores, cap) => {
                start(&mut machine, token, &[cpu(*cores, *cap)], now);
                running.push(token);
                token += 1;
            }
            Step::EndOldest if running.is_empty() => assert_eq!(machine.end(token, at(now)), None),
            Step::EndOldest => energy += machine.end(running.remove(0), at(now)).expect("running"),
            Step::Caps(cap) => assert!(machine.set_caps(&watts(&[*cap]), at(now)).len() <= 1),
            Step::Suspend(index) => machine.suspend(running.get(*index).copied().unwrap_or(u64::MAX), at(now)),
            Step::Resume(index) => machine.resume(running.get(*index).copied().unwrap_or(u64::MAX), at(now)),
        }
        said.push(format!("{now} {} {:?}", machine.reading(at(now)), machine.next_end(at(now))));
        said.push(format!("{:?}", machine.take_done(at(now))));
    }
    for token in running {
        energy += machine.end(token, at(now)).expect("running");
    }
    assert_eq!(machine.draw(), idle);
    (energy, integral, said)
}

proptest! {
    #[test]
    fn energy_is_the_integral_of_draw(steps in steps()) {
        let (energy, integral, said) = play(&steps);
        // Each interval and each run is rounded once, to half a millijoule.
        let count = i64::try_from(steps.len()).expect("few");
        prop_assert!((energy - integral).mj().abs() <= count + 1, "{} and {}", energy, integral);
        prop_assert_eq!(said, play(&steps).2, "equal calls give equal results");
    }

    #[test]
    fn work_is_neither_lost_nor_gained(
        factor in 1_u32..=1000, cores in 1_u32..=4,
        pieces in proptest::collection::vec((0_i64..9_000, caps(), any::<bool>()), 0..40),
    ) {
        let factor = f64::from(factor) / 1000.0;
        let mut machine = machine(factor, "5%");
        let plan = machine.plan("ft", "", &[cpu(cores, None)]).expect("a plan");
        let (work, power) = (plan.work.expect("known"), plan.power().watts());
        machine.start(1, plan, at(0));
        let (mut now, mut done, mut pace) = (0, 0.0, 1.0);
        for (ms, cap, suspended) in pieces {
            if let Some((end, _)) = machine.next_end(at(now)).filter(|(end, _)| *end <= at(now + ms)) {
                // A run never ends before its time, and at most a millisecond after it.
                prop_assert_eq!(machine.take_done(end - Span::from_ms(1)), Vec::<u64>::new());
                done += pace * (end - at(now)).secs();
                now = end.unix_ms();
                break;
            }
            now += ms;
            done += pace * ms as f64 / 1e3;
            machine.set_caps(&watts(&[cap]), at(now));
            if suspended { machine.suspend(1, at(now)) } else { machine.resume(1, at(now)) }
            let share = cap.map_or(f64::INFINITY, |cap| cap.clamp(8, 60) as f64 * f64::from(cores) / 4.0);
            pace = if suspended { 0.0 } else { (share / power / factor).min(1.0) };
        }
        if machine.take_done(at(now)).is_empty() {
            machine.set_caps(&[], at(now));
            machine.resume(1, at(now));
            let (end, _) = machine.next_end(at(now)).expect("it goes on");
            done += (end - at(now)).secs();
            prop_assert_eq!(machine.take_done(end), [1]);
        }
        let over = done - work.secs();
        prop_assert!((-1e-5..0.001).contains(&over), "{} s of {}", done, work);
    }

    #[test]
    fn a_cap_never_raises_the_power_nor_shortens_the_run(
        cores in 1_u32..=4, cap in 0_i64..100, factor in 1_u32..=1000, runs in 1_usize..20,
    ) {
        let factor = f64::from(factor) / 1000.0;
        let (mut free, mut capped) = (machine(factor, "10%"), machine(factor, "10%"));
        for _ in 0..runs {
            start(&mut free, 1, &[cpu(cores, None)], 0);
            start(&mut capped, 1, &[cpu(cores, Some(cap))], 0);
            prop_assert!(capped.draw() <= free.draw());
            prop_assert!(capped.next_end(at(0)) >= free.next_end(at(0)));
            let held = Power::from_watts(10) + Power::from_watts(cap.clamp(8, 60)).scaled(cores.into(), 4);
            prop_assert!(capped.draw() <= held, "{} above {}", capped.draw(), held);
        }
    }

    /// Checks that lower caps never end a run earlier or raise its draw.
    #[test]
    fn lower_caps_are_nowhere_faster(
        factor in 1_u32..=1000, pieces in proptest::collection::vec((0_i64..9_000, 1_i64..80, 0_i64..40), 0..20),
    ) {
        let factor = f64::from(factor) / 1000.0;
        let (mut high, mut low) = (machine(factor, "0%"), machine(factor, "0%"));
        for machine in [&mut high, &mut low] {
            start(machine, 1, &[cpu(4, None)], 0);
        }
        let mut now = 0;
        for (ms, cap, less) in pieces {
            high.set_caps(&watts(&[Some(cap)]), at(now));
            low.set_caps(&watts(&[Some(cap - less)]), at(now));
            prop_assert!(low.draw() <= high.draw());
            prop_assert!(low.next_end(at(now)) >= high.next_end(at(now)), "{:?}", at(now));
            now += ms;
        }
    }

    #[test]
    fn readings_stay_within_their_noise(ms in any::<i64>(), cores in 1_u32..=4) {
        let mut machine = machine(1.0, "3%");
        start(&mut machine, 1, &[cpu(cores, None)], 0);
        let (draw, reading) = (machine.draw(), machine.reading(at(ms)));
        prop_assert!((reading - draw).mw().abs() <= draw.scaled(3, 100).mw() + 1, "{} and {}", reading, draw);
        prop_assert_eq!(reading, machine.reading(at(ms)));
    }
}
