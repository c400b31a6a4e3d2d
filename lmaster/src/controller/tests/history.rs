//! Changes by operators are recorded, and can be undone.

use limo_model::{Band, Curve, Groups, ModeSetting, Power, Queues};
use limo_proto::{ChangeReport, ChangesQuery, Undo, UndoReport};

use super::*;
use limo_proto::Change;

fn limits(high: i64) -> Change {
    let band = Band::new(Power::ZERO, Power::from_watts(high)).expect("a band");
    Change::Limits(Curve::constant(band))
}

fn change(bench: &mut Bench, peer: PeerId, change: Change) -> MasterToClient {
    bench.say(peer, ClientToMaster::ChangeConf(Box::new(change)));
    bench.heard(peer).pop().expect("an answer")
}

fn changes(bench: &mut Bench, peer: PeerId) -> Vec<ChangeReport> {
    let query = Query::Changes(ChangesQuery { limit: 100, ..ChangesQuery::default() });
    bench.say(peer, ClientToMaster::Ask(Box::new(query)));
    match bench.heard(peer).pop() {
        Some(MasterToClient::Answer(answer)) => match *answer {
            Answer::Changes { changes, more: false } => changes,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn lines(change: &ChangeReport) -> Vec<String> {
    change.items.iter().map(|item| format!("{}: {} -> {}", item.subject, item.old, item.new)).collect()
}

fn undo(bench: &mut Bench, peer: PeerId, number: u64, force: bool) -> Result<UndoReport, String> {
    match change(bench, peer, Change::Undo(Undo { number: Some(number), force, dry_run: false })) {
        MasterToClient::Answer(answer) => match *answer {
            Answer::Undone(report) => Ok(*report),
            other => panic!("{other:?}"),
        },
        MasterToClient::Refused { reason, .. } => Err(reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_act_is_one_change_with_old_and_new() {
    let mut bench = Bench::new();
    bench.node("n1");
    bench.node("n2");
    let (root, user) = (bench.client(0), bench.client(7));
    let first = changes(&mut bench, root).len();
    change(&mut bench, root, limits(60));
    change(&mut bench, root, limits(80));
    change(&mut bench, root, Change::Drain { nodes: vec!["n1".into(), "n2".into()], reason: "fans".into() });
    let job = bench.submit(user, 1);
    change(&mut bench, user, Change::Hold(vec![job]));
    change(&mut bench, root, Change::Cancel(vec![job]));
    let mut bench = bench.killed();
    let root = bench.client(0);
    let list = changes(&mut bench, root);
    // The newest change comes first. A user's change of an own job is not a change of the cluster.
    let newest: Vec<Vec<String>> = list.iter().take(list.len() - first).map(lines).collect();
    assert_eq!(
        newest,
        [
            vec!["job 1:  -> cancelled, of user7"],
            vec!["node n1: in service -> drained: fans", "node n2: in service -> drained: fans"],
            vec!["limits: at most 60.0 W -> at most 80.0 W"],
            vec!["limits: none -> at most 60.0 W"],
        ]
    );
    assert!(list[0].by == "user0" && !list[0].items[0].can_undo && list[1].items[1].can_undo);
}

#[test]
fn an_undo_sets_the_old_value_back_and_is_a_change() {
    let mut bench = Bench::new();
    bench.node("n1");
    let root = bench.client(0);
    change(&mut bench, root, limits(60));
    let set = changes(&mut bench, root)[0].number;
    change(&mut bench, root, Change::Mode(ModeSetting::Low));
    let report = undo(&mut bench, root, set, false).expect("possible");
    assert_eq!((report.change.number, report.items.len()), (set, 1));
    assert_eq!(bench.controller.tx.core.settings().limits, Curve::constant(Band::UNLIMITED));
    assert_eq!(bench.controller.tx.core.settings().mode_setting, ModeSetting::Low, "nothing else");
    let newest = changes(&mut bench, root).remove(0);
    assert_eq!((newest.undo_of, lines(&newest)), (Some(set), vec!["limits: at most 60.0 W -> none".to_owned()]));
    // An undone change cannot be undone again, but the undo can.
    let refused = undo(&mut bench, root, set, false).expect_err("undone already");
    assert_eq!(refused, format!("change {set} of limits was overwritten by change {}", newest.number));
    undo(&mut bench, root, newest.number, false).expect("possible");
    assert_eq!(bench.controller.tx.core.settings().limits.band(bench.now).high(), Power::from_watts(60));
}

#[test]
fn overwritten_changes_are_undone_only_by_force_and_cancellations_never() {
    let mut bench = Bench::new();
    bench.node("n1");
    let (root, user) = (bench.client(0), bench.client(7));
    change(&mut bench, root, limits(60));
    let set = changes(&mut bench, root)[0].number;
    change(&mut bench, root, limits(80));
    let refused = undo(&mut bench, root, set, false).expect_err("changed since");
    assert_eq!(refused, format!("change {set} of limits was overwritten by change {}", set + 1));
    assert_eq!(bench.controller.tx.core.settings().limits.band(bench.now).high(), Power::from_watts(80));
    undo(&mut bench, root, set, true).expect("by force");
    assert_eq!(bench.controller.tx.core.settings().limits, Curve::constant(Band::UNLIMITED));
    let job = bench.submit(user, 1);
    change(&mut bench, root, Change::Cancel(vec![job]));
    let cancelled = changes(&mut bench, root)[0].number;
    let refused = undo(&mut bench, root, cancelled, true).expect_err("it is gone");
    assert_eq!(refused, format!("change {cancelled} by user0 cannot be undone: job 1: cancelled, of user7"));
    assert_eq!(undo(&mut bench, root, 99, false), Err("there is no change 99".into()));
    let refused = undo(&mut bench, user, set, false).expect_err("no operator");
    assert_eq!(refused, "only an operator may do that, not user7");
}

#[test]
fn an_operators_hold_is_undone_while_the_job_waits() {
    let mut bench = Bench::new();
    let (root, user) = (bench.client(0), bench.client(7));
    let job = bench.submit(user, 1);
    change(&mut bench, root, Change::Hold(vec![job]));
    let held = changes(&mut bench, root)[0].number;
    undo(&mut bench, root, held, false).expect("possible");
    assert!(bench.controller.tx.core.job(job).is_some_and(|job| job.held.is_none()));
    change(&mut bench, root, Change::Cancel(vec![job]));
    assert_eq!(undo(&mut bench, root, held, true), Err(format!("change {held} cannot be undone: job 1 is over")));
}

#[test]
fn states_of_queues_and_limits_of_groups_are_listed_and_undone() {
    let mut bench = Bench::new();
    bench.settings.queues = Queues::of_tables(toml::from_str("[short]\n").expect("tables")).expect("queues");
    let groups = toml::from_str("[rack]\nnodes = [\"n1\"]\nlimit = \"90 W\"\n").expect("tables");
    bench.settings.groups = Groups::of_tables(groups).expect("groups");
    bench.input(Input::Configured(Box::new(bench.settings.clone())));
    let root = bench.client(0);
    let configured = changes(&mut bench, root);
    let shown: Vec<String> = configured.iter().rev().flat_map(lines).skip(1).collect();
    let expected = ["queues: short: none -> short: up for all nodes", "groups: rack: none -> rack: 90.0 W for n1"];
    assert_eq!(shown, expected);
    let set_limit = |watts| Change::GroupLimit { group: "rack".into(), limit: Power::from_watts(watts) };
    change(&mut bench, root, Change::QueueState { queue: "short".into(), is_down: true });
    change(&mut bench, root, set_limit(50));
    change(&mut bench, root, set_limit(40));
    let found = changes(&mut bench, root);
    let shown: Vec<String> = found[..3].iter().rev().flat_map(lines).collect();
    let expected = [
        "queue short: up, as configured -> down",
        "limit of group rack: 90.0 W, as configured -> 50.0 W",
        "limit of group rack: 50.0 W -> 40.0 W",
    ];
    assert_eq!(shown, expected);
    let [second, first, queue] = [0, 1, 2].map(|at| found[at].number);
    let refused = undo(&mut bench, root, first, false).expect_err("changed since");
    assert_eq!(refused, format!("change {first} of limit of group rack was overwritten by change {second}"));
    undo(&mut bench, root, second, false).expect("possible");
    undo(&mut bench, root, first, false).expect("possible again");
    undo(&mut bench, root, queue, false).expect("possible");
    let settings = bench.controller.tx.core.settings();
    assert_eq!(settings.groups.get("rack").map(|of| of.limit_by_operator), Some(None));
    assert_eq!(settings.queues.get("short").map(|of| of.down_by_operator), Some(None));
    bench.settings.queues = Queues::default();
    bench.input(Input::Configured(Box::new(bench.settings.clone())));
    let refused = undo(&mut bench, root, queue, true).expect_err("it is gone");
    assert_eq!(refused, format!("change {queue} cannot be undone: queue `short` no longer exists"));
}
