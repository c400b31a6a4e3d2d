//! A policy with parts of its own: as an operator sets it, over what is configured, and over restarts.

use limo_model::{AdmissionRule, IdleRule, Overrides, PlacementRule};
use limo_proto::{Change, ChangesQuery};

use super::*;

fn set(bench: &mut Bench, preset: Preset, parts: &[&str]) -> Result<(), String> {
    let root = bench.client(0);
    let parts = parts.iter().map(|part| part.parse().expect("a part")).collect();
    bench.say(root, ClientToMaster::ChangeConf(Box::new(Change::Policy { preset, parts })));
    match bench.heard(root).pop() {
        Some(MasterToClient::Refused { reason, .. }) => Err(reason),
        Some(MasterToClient::Answer(_)) => Ok(()),
        other => panic!("{other:?}"),
    }
}

/// Returns the policy in force with the parts that are not the preset's, as `lconf status` knows them.
fn status(bench: &mut Bench) -> String {
    let root = bench.client(0);
    let MasterToClient::Answer(answer) = bench.ask(root, Query::Status(limo_proto::StatusQuery)) else {
        panic!("no answer")
    };
    let Answer::Status(status) = *answer else { panic!("{answer:?}") };
    let others = status.parts.other_than(status.policy).into_iter().map(|part| format!(" {part}"));
    std::iter::once(status.policy.to_string()).chain(others).collect()
}

/// Configures these parts in the section `[policy]`.
fn configure(bench: &mut Bench, parts: Overrides) {
    bench.settings.options.parts = parts;
    bench.input(Input::Configured(Box::new(bench.settings.clone())));
}

#[test]
fn parts_stay_over_a_restart_until_a_policy_is_set_without_them() {
    let mut bench = Bench::new();
    bench.node("n1");
    assert_eq!(set(&mut bench, Preset::Easy, &["placement=least-energy", "idle=power-off"]), Ok(()));
    assert_eq!(status(&mut bench), "easy placement=least-energy idle=power-off");
    let mut bench = bench.killed();
    assert_eq!(status(&mut bench), "easy placement=least-energy idle=power-off");
    assert_eq!(set(&mut bench, Preset::Easy, &["idle=power-off"]), Ok(()));
    assert_eq!(status(&mut bench), "easy idle=power-off");
    assert_eq!(set(&mut bench, Preset::Easy, &[]), Ok(()));
    assert_eq!(status(&mut bench), "easy");
}

#[test]
fn the_history_tells_parts() {
    let mut bench = Bench::new();
    set(&mut bench, Preset::Easy, &[]).expect("set");
    set(&mut bench, Preset::Easy, &["idle=power-off"]).expect("set");
    let root = bench.client(0);
    let query = Query::Changes(ChangesQuery { limit: 1, ..ChangesQuery::default() });
    let MasterToClient::Answer(answer) = bench.ask(root, query) else { panic!("no answer") };
    let Answer::Changes { changes, .. } = *answer else { panic!("{answer:?}") };
    let item = &changes[0].items[0];
    let told = (item.subject.as_str(), item.old.as_str(), item.new.as_str(), item.can_undo);
    assert_eq!(told, ("policy", "easy", "easy idle=power-off", true));
}

#[test]
fn parts_that_do_not_go_together_are_refused_and_change_nothing() {
    let mut bench = Bench::new();
    set(&mut bench, Preset::Easy, &["idle=power-off"]).expect("set");
    let refused = set(&mut bench, Preset::Fifo, &["placement=by-price"]).expect_err("refused");
    assert_eq!(
        refused,
        "the parts of the policy do not go together: the placement `by-price` plans starts for later, which the order \
         `strict` does not keep"
    );
    let twice = set(&mut bench, Preset::Fifo, &["idle=stay-on", "idle=power-off"]).expect_err("refused");
    assert_eq!(twice, "idle=power-off: `idle` is set twice");
    assert_eq!(status(&mut bench), "easy idle=power-off");
}

#[test]
fn parts_of_an_operator_are_above_configured_ones() {
    let mut bench = Bench::new();
    set(&mut bench, Preset::Easy, &["placement=least-room"]).expect("set");
    let (placement, idle) = (Some(PlacementRule::LeastEnergy), Some(IdleRule::PowerOff));
    configure(&mut bench, Overrides { placement, idle, ..Overrides::default() });
    assert_eq!(status(&mut bench), "easy idle=power-off", "the operator wants least-room");
    set(&mut bench, Preset::Easy, &[]).expect("set");
    assert_eq!(status(&mut bench), "easy placement=least-energy idle=power-off");
    let refused = set(&mut bench, Preset::LimoPrototype, &[]).expect_err("refused");
    assert!(refused.ends_with("(the settings of lmaster have placement=least-energy idle=power-off)"), "{refused}");
    assert_eq!(set(&mut bench, Preset::LimoPrototype, &["placement=first-fit"]), Ok(()));
    assert_eq!(status(&mut bench), "limo-prototype idle=power-off");
}

#[test]
fn configured_parts_that_contradict_the_policy_in_force_are_left_out() {
    let mut bench = Bench::new();
    set(&mut bench, Preset::Fifo, &[]).expect("set");
    let (admission, idle) = (Some(AdmissionRule::Ledger), Some(IdleRule::PowerOff));
    configure(&mut bench, Overrides { admission, idle, ..Overrides::default() });
    assert_eq!(status(&mut bench), "fifo idle=power-off", "`ledger` is for the order `easy`");
    set(&mut bench, Preset::Easy, &[]).expect("set");
    assert_eq!(status(&mut bench), "easy admission=ledger idle=power-off", "now they go together");
}

/// Warnings go by the parts in force, not by the name of the preset.
#[test]
fn a_budget_that_the_parts_keep_needs_no_warning() {
    let mut bench = Bench::new();
    set(&mut bench, Preset::Easy, &["admission=ledger"]).expect("set");
    let root = bench.client(0);
    bench.say(root, ClientToMaster::ChangeConf(Box::new(Change::Policy { preset: Preset::Easy, parts: Vec::new() })));
    assert!(is_done(&bench.heard(root).pop().expect("an answer")));
    let admission = "admission=ledger".parse().expect("a part");
    let change = Change::Policy { preset: Preset::Easy, parts: vec![admission] };
    bench.say(root, ClientToMaster::ChangeConf(Box::new(change)));
    let Some(MasterToClient::Answer(answer)) = bench.heard(root).pop() else { panic!("no answer") };
    let Answer::Warned(warnings) = *answer else { panic!("{answer:?}") };
    assert!(warnings[0].starts_with("no budget is set for the policy easy to keep"), "{warnings:?}");
}
