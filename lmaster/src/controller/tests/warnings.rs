//! Accepted changes without their apparent effect cause warnings with the values.

use limo_model::{Budget, Budgets, CapRule, Curve, Energy, PartRule, Parts, Release};
use limo_proto::Change;

use super::*;

/// Makes a change; returns the warnings about it.
fn warnings(bench: &mut Bench, change: Change) -> Vec<String> {
    let root = bench.client(0);
    bench.say(root, ClientToMaster::ChangeConf(Box::new(change)));
    match bench.heard(root).pop() {
        Some(MasterToClient::Answer(answer)) => match *answer {
            Answer::Done => Vec::new(),
            Answer::Warned(warnings) => warnings,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Returns the names of these presets, such as `limo and easy`.
fn those(which: fn(Parts) -> bool) -> String {
    let mut names: Vec<&str> = Preset::ALL.into_iter().filter(|of| which(of.parts())).map(Preset::name).collect();
    let last = names.pop().expect("a preset");
    format!("{} and {last}", names.join(", "))
}

fn limits(low: i64, high: Option<i64>) -> Change {
    let high = high.map_or(Power::MAX, Power::from_watts);
    Change::Limits(Curve::constant(Band::new(Power::from_watts(low), high).expect("a band")))
}

fn budget(bench: &Bench) -> Change {
    let (from, until) = (bench.now, bench.now + Span::from_secs(3_600));
    let budget = Budget { from, until, energy: Energy::from_joules(7_200_000), release: Release::Even };
    Change::Budgets { budgets: Budgets::new(vec![budget]).expect("one period"), seen: None }
}

#[test]
fn limits_that_the_policy_ignores() {
    let mut bench = Bench::new();
    bench.node("n1");
    warnings(&mut bench, Change::Policy { preset: Preset::Easy, parts: Vec::new() });
    let upper = format!("{} do not", those(Parts::heeds_upper_limit));
    let expected = format!("the policy easy ignores the upper limit 60.0 W: {upper}");
    assert_eq!(warnings(&mut bench, limits(0, Some(60))), [expected.as_str()]);
    // In the other order, the setting exists when the policy changes.
    assert_eq!(warnings(&mut bench, Change::Policy { preset: Preset::Limo, parts: Vec::new() }), [""; 0]);
    assert_eq!(warnings(&mut bench, Change::Policy { preset: Preset::Easy, parts: Vec::new() }), [expected]);
    // Caps can keep a limit that starts do not respect.
    let parts = vec![PartRule::Caps(CapRule::Even)];
    assert_eq!(warnings(&mut bench, Change::Policy { preset: Preset::Easy, parts }), [""; 0]);
    warnings(&mut bench, Change::Policy { preset: Preset::Easy, parts: Vec::new() });
    let expected = format!("the policy easy ignores the lower limit 40.0 W and the upper limit 60.0 W: {upper}");
    assert_eq!(warnings(&mut bench, limits(40, Some(60))), [expected]);
    warnings(&mut bench, Change::Policy { preset: Preset::Powercap, parts: Vec::new() });
    let lower = those(Parts::heeds_lower_limit);
    let expected = format!("the policy powercap ignores the lower limit 40.0 W: {lower} do not");
    assert_eq!(warnings(&mut bench, limits(40, None)), [expected]);
    assert_eq!(warnings(&mut bench, limits(0, None)), [""; 0], "there is nothing to ignore");
}

#[test]
fn budgets_that_the_policy_does_not_keep_and_policies_without_one() {
    let mut bench = Bench::new();
    bench.node("n1");
    let without = |policy: &str| {
        format!("no budget is set for the policy {policy} to keep: `lconf set budget ENERGY --until TIME` sets one")
    };
    assert_eq!(
        warnings(&mut bench, Change::Policy { preset: Preset::Energybud, parts: Vec::new() }),
        [without("energybud")]
    );
    let change = budget(&bench);
    assert_eq!(warnings(&mut bench, change), [""; 0]);
    let keepers = those(Parts::keeps_budget);
    let expected = format!("the policy limo does not keep the budget of 2.000 kWh: {keepers} do");
    assert_eq!(warnings(&mut bench, Change::Policy { preset: Preset::Limo, parts: Vec::new() }), [expected.as_str()]);
    let change = budget(&bench);
    assert_eq!(warnings(&mut bench, change), [expected]);
    warnings(&mut bench, Change::Policy { preset: Preset::Reducepc, parts: Vec::new() });
    let none = Change::Budgets { budgets: Budgets::default(), seen: None };
    assert_eq!(warnings(&mut bench, none), [without("reducepc")]);
}

#[test]
fn a_limit_below_the_idle_draw() {
    let mut bench = Bench::new();
    bench.node("n1");
    bench.node("n2");
    warnings(&mut bench, Change::Policy { preset: Preset::Limo, parts: Vec::new() });
    // There are two nodes of 10 W.
    let expected =
        "the upper limit 15.0 W is below the idle draw of the nodes, 20.0 W: no job starts while it is in force";
    assert_eq!(warnings(&mut bench, limits(0, Some(15))), [expected]);
    assert_eq!(warnings(&mut bench, limits(0, Some(20))), [""; 0]);
    // Warnings also come about a later hour.
    let band = |high| Band::new(Power::ZERO, Power::from_watts(high)).expect("a band");
    let later = bench.now + Span::from_secs(3_600);
    let curve = Curve::new(vec![(bench.now, band(100)), (later, band(15))], None).expect("a curve");
    assert_eq!(warnings(&mut bench, Change::Limits(curve)), [expected]);
}
