//! Valid and invalid settings.

use limo_model::{IdleRule, Overrides, Price, Span};
use limo_sched::{Allocation, PriceRule, RestRule};

use super::*;

fn chosen(preset: Preset, texts: &[&str]) -> Result<Options, String> {
    let settings: Vec<Setting> = texts.iter().map(|text| text.parse().expect("a setting")).collect();
    choose(preset, (&[], &settings)).map(|(options, _)| options).map_err(|error| error.to_string())
}

fn refused(preset: Preset, texts: &[&str], expected: &str) {
    assert_eq!(chosen(preset, texts).expect_err("refused"), expected);
}

#[test]
fn values() {
    let texts = ["allocation=contiguous", "rest=idle:10min", "monitor-every=5min", "depth=7", "default-duration=2h"];
    let powers_off = Overrides { idle: Some(IdleRule::PowerOff), ..Overrides::default() };
    let expected = Options {
        parts: powers_off,
        allocation: Allocation::Contiguous,
        rest: RestRule::Idle(Span::from_secs(600)),
        monitor_every: Span::from_secs(300),
        depth: 7,
        default_duration: Span::from_secs(7200),
        ..Options::default()
    };
    assert_eq!(chosen(Preset::Energybud, &texts), Ok(expected));
    let options = |preset, text: &str| chosen(preset, &[text]);
    let rest = |rule| Ok(Options { rest: rule, parts: powers_off, ..Options::default() });
    assert_eq!(options(Preset::Easy, "rest=idle"), rest(RestRule::Idle(Span::ZERO)));
    assert_eq!(options(Preset::Easy, "rest=idle-in-budget"), rest(RestRule::IdleInBudget(Span::ZERO)));
    assert_eq!(options(Preset::Easy, "rest=never"), Ok(Options::default()));
    assert_eq!(options(Preset::Limo, "idle=power-off"), rest(RestRule::Never));
    let price_rule = PriceRule::Threshold(Price::from_milli_per_mwh(40_000));
    assert_eq!(options(Preset::Limo, "price-threshold=40EUR/MWh"), Ok(Options { price_rule, ..Options::default() }));
}

/// Checks that the shown defaults are the real ones.
#[test]
fn defaults() {
    for key in KEYS.iter().filter(|key| !matches!(key.default, "off" | "none")) {
        let mut options = Options::default();
        (key.read)(&mut options, key.default).expect(key.name);
        assert_eq!(options, Options::default(), "{}", key.name);
    }
    assert!(KEYS.windows(2).all(|pair| pair[0].name < pair[1].name));
}

#[test]
fn keys_of_other_policies() {
    let setting = "lead=2s".parse().expect("a setting");
    let (_, notes) = choose(Preset::Easy, (&[], &[setting])).expect("understood");
    assert_eq!(notes, ["--set lead: `easy` ignores it (it is for limo)"]);
}

#[test]
fn parts_are_options_of_their_own() {
    let settings = |texts: &[&str]| -> Vec<Setting> { texts.iter().map(|text| text.parse().expect("one")).collect() };
    let chosen = |parts: &[&str], set: &[&str]| {
        choose(Preset::Easy, (&settings(parts), &settings(set))).map(|(options, _)| options)
    };
    let same = chosen(&[], &["idle=power-off", "depth=3"]).expect("understood");
    assert_eq!(chosen(&["idle=power-off"], &["depth=3"]).expect("understood"), same);
    let refused = |parts: &[&str], set: &[&str]| chosen(parts, set).expect_err("refused").to_string();
    assert_eq!(
        refused(&["depth=3"], &[]),
        "--part depth=3: `depth` is not a part of a policy: order, admission, placement, caps, idle"
    );
    assert_eq!(refused(&["idle=power-off"], &["idle=stay-on"]), "--set idle=stay-on: `idle` is set twice");
    assert_eq!(
        refused(&["caps=moved"], &[]),
        "--policy easy: caps can be `moved` only with the admission `band`, which knows what they free; `lsim policies` lists the parts of each policy"
    );
}

#[test]
fn refusals() {
    refused(
        Preset::Easy,
        &["depht=3"],
        "--set: unknown key `depht` (known: admission, allocation, band-weight, cap-factor-permille, caps, confidence-permille, default-duration, depth, hold-after, idle, lead, least-off, least-on, list-by, margin, max-delay, max-evicted-run, max-owner-restarts, max-reboot-restarts, max-restarts, monitor-every, order, placement, plan-steps, pool-knowledge, pool-rank, pool-seed, pool-ties, pool-window, preempt, price-hysteresis, price-quantile-permille, price-threshold, rank-by, rare-gap, relaxed-factor, reserve-permille, rest, sparing, steer-lead, steer-margin-permille, think-every, waiting-weight, window-permille, window-waits); `lsim policies` explains them",
    );
    refused(
        Preset::Easy,
        &["placement=best-fit"],
        "--set placement=best-fit: `best-fit` is not a rule for placement: first-fit, by-price, least-room, least-energy, ranked, window, assignment, pool",
    );
    refused(
        Preset::Easy,
        &["admission=ledger", "order=strict"],
        "--policy easy: the placement `least-room` needs an order that lets jobs pass: `easy` or `conservative`; `lsim policies` lists the parts of each policy",
    );
    refused(Preset::Easy, &["depth=0"], "--set depth=0: `0` is not a whole number from 1 to 4294967295");
    refused(Preset::Easy, &["depth=3", "depth=4"], "--set depth=4: `depth` is set twice");
    refused(
        Preset::Easy,
        &["rest=10min"],
        "--set rest=10min: `10min` is not a rule for rest: never, idle, idle:10min, idle-in-budget",
    );
    refused(
        Preset::Powercap,
        &["monitor-every=600"],
        "--set monitor-every=600: `600` has no unit: write for example `30min` (units: s, min, h, d, w, ms, m)",
    );
    refused(Preset::Powercap, &["monitor-every=0s"], "--set monitor-every=0s: `0s` is below 1ms");
    refused(
        Preset::Easy,
        &["compat=2017"],
        "--set compat: the scheduler of 2017 is now in `lab`, which is not installed: in Limo's sources, type `cargo lab run --compat 2017` with the other options",
    );
}
