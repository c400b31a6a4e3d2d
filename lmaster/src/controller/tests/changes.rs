//! Permissions for changes; accepted changes are in force and recorded.

use limo_model::{Curve, EstimateSource, Mode, Profile, ProfileKey};
use limo_proto::Change;

use super::*;

fn change(bench: &mut Bench, client: PeerId, change: Change) -> MasterToClient {
    bench.heard(client);
    bench.say(client, ClientToMaster::ChangeConf(Box::new(change)));
    bench.heard(client).pop().expect("an answer")
}

fn done() -> MasterToClient {
    MasterToClient::Answer(Box::new(Answer::Done))
}

#[test]
fn operators_change_and_users_do_not() {
    let mut bench = Bench::new();
    bench.node("n1");
    let (root, user) = (bench.client(0), bench.client(7));
    let limits = Curve::constant(Band::new(Power::from_watts(5), Power::from_watts(50)).expect("a band"));
    let key = ProfileKey {
        application: "cg".into(),
        size: String::new(),
        hardware: "xeon".into(),
        cores: None,
        nodes: None,
        cap: None,
    };
    let profile = Profile {
        duration: Span::from_secs(10),
        power: Power::from_watts(20),
        energy: limo_model::Energy::from_joules(200),
        spread_permille: 0,
        runs: 1,
        source: EstimateSource::Imported,
    };
    let changes = [
        Change::Limits(limits.clone()),
        Change::Budgets { budgets: limo_model::Budgets::default(), seen: None },
        Change::Mode(ModeSetting::Low),
        Change::Explore(limo_model::JobShare::ALL),
        Change::Slowdown { key: limo_model::SlowdownKey::of("cg", ""), law: Some(limo_model::Slowdown::Cpi(2_000)) },
        Change::Policy { preset: Preset::LimoPrototype, parts: Vec::new() },
        Change::Prices(Some(Curve::constant(limo_model::Price::ZERO))),
        Change::StopNodes { nodes: vec!["n1".into()], reason: "fire".into() },
        Change::Drain { nodes: vec!["n1".into()], reason: "new fan".into() },
        Change::SetProfiles(vec![(key.clone(), profile)]),
    ];
    for one in changes {
        let refused = change(&mut bench, user, one.clone());
        assert_eq!(refusal(Some(&refused)), "only an operator may do that, not user7");
        assert!(is_done(&change(&mut bench, root, one)));
    }
    // This also holds after a crash.
    let bench = bench.killed();
    let settings = bench.controller.tx.core.settings();
    assert_eq!((&settings.limits, settings.mode, settings.preset), (&limits, Mode::Low, Preset::LimoPrototype));
    assert_eq!(settings.prices, Some(Curve::constant(limo_model::Price::ZERO)));
    assert_eq!(bench.controller.tx.core.nodes()[0].drained().map(|drained| drained.by.as_str()), Some("user0"));
}

#[test]
fn only_owners_and_operators_cancel_jobs() {
    let mut bench = Bench::new();
    let (owner, other, root) = (bench.client(7), bench.client(8), bench.client(0));
    let (job, second) = (bench.submit(owner, 1), bench.submit(owner, 2));
    let mine = bench.submit(other, 3);
    // The change applies to all nodes or none.
    let refused = change(&mut bench, other, Change::Cancel(vec![mine, job]));
    assert_eq!(refusal(Some(&refused)), "job 1 belongs to user7, not to user8");
    assert!(bench.jobs().iter().all(|job| !job.state.is_over()));
    assert_eq!(change(&mut bench, root, Change::Cancel(vec![job, second, job])), done());
    let refused = change(&mut bench, owner, Change::Cancel(vec![job]));
    assert_eq!(refusal(Some(&refused)), "there is no waiting or running job 1");
}

#[test]
fn signals_reach_running_jobs_and_end_waiting_ones() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let (owner, other) = (bench.client(7), bench.client(8));
    let (job, attempt) = bench.running(owner, node, 1);
    let waiting = bench.submit(owner, 2);
    bench.say(other, ClientToMaster::Signal { job, signal: 2 });
    assert_eq!(refusal(bench.heard(other).first()), "job 1 belongs to user7, not to user8");
    bench.say(owner, ClientToMaster::Signal { job, signal: 10 });
    assert_eq!(bench.orders(node), [MasterToNode::Signal { job, attempt, signal: 10 }]);
    bench.heard(owner);
    bench.say(owner, ClientToMaster::Signal { job, signal: 65 });
    assert_eq!(refusal(bench.heard(owner).first()), "65 is not a signal: 1 to 64");
    bench.say(owner, ClientToMaster::Signal { job: waiting, signal: 10 });
    bench.say(owner, ClientToMaster::Signal { job: waiting, signal: 2 });
    assert_eq!(words(&bench.heard(owner)), ["Finished"]);
}

#[test]
fn unknown_nodes_are_named_with_the_known() {
    let mut bench = Bench::new();
    bench.node("n1");
    let root = bench.client(0);
    let refused = change(&mut bench, root, Change::Resume { nodes: vec!["n1".into(), "n2".into()] });
    assert_eq!(refusal(Some(&refused)), "there is no node `n2` (nodes: n1)");
}

#[test]
fn answers_come_in_the_order_of_the_questions() {
    let mut bench = Bench::new();
    let client = bench.client(7);
    bench.slow_disk = true;
    bench.say(client, exec(1));
    bench.say(client, ClientToMaster::Ask(Box::new(Query::Status(StatusQuery))));
    bench.say(client, ClientToMaster::ChangeConf(Box::new(Change::Cancel(vec![JobId(1)]))));
    assert!(bench.heard(client).is_empty(), "an answer shows nothing that is not on disk");
    bench.commit();
    bench.commit();
    let heard = bench.heard(client);
    assert_eq!(words(&heard), ["Accepted", "Waiting", "Answer", "Answer", "Finished"]);
}

#[test]
fn a_configuration_that_is_read_again_is_recorded() {
    let mut bench = Bench::new();
    let entries = bench.disk.entries.len();
    let mut settings = bench.settings.clone();
    settings.options.depth = 3;
    bench.input(Input::Configured(Box::new(settings.clone())));
    bench.input(Input::Configured(Box::new(settings)));
    assert_eq!(bench.disk.entries.len(), entries + 2, "one event, one round");
    assert_eq!(bench.controller.tx.core.settings().options.depth, 3);
}
