//! Each kind of change is undone: to the previous value and in the operator's name, but not after a later change.

use limo_model::{
    Budget, Budgets, Curve, EstimateSource, Price, Profile, ProfileKey, QuotaLimit, Release, Reservation,
};
use limo_proto::{Change, ChangeReport, ChangesQuery, FairshareChange, Undo, UsersChange};
use std::sync::Arc;

use super::*;
use crate::controller::News;

fn change(bench: &mut Bench, peer: PeerId, change: Change) -> MasterToClient {
    bench.say(peer, ClientToMaster::ChangeConf(Box::new(change)));
    bench.heard(peer).pop().expect("an answer")
}

fn done(bench: &mut Bench, peer: PeerId, one: Change) {
    let answer = change(bench, peer, one);
    assert!(is_done(&answer), "{answer:?}");
}

/// Returns the changes, newest first, and true if there are more.
fn changes(bench: &mut Bench, limit: u32) -> (Vec<ChangeReport>, bool) {
    let root = bench.client(0);
    let query = Query::Changes(ChangesQuery { limit, ..ChangesQuery::default() });
    let MasterToClient::Answer(answer) = bench.ask(root, query) else { panic!("no answer") };
    let Answer::Changes { changes, more } = *answer else { panic!("{answer:?}") };
    (changes, more)
}

fn newest(bench: &mut Bench) -> ChangeReport {
    changes(bench, 1).0.remove(0)
}

fn undo(bench: &mut Bench, number: u64) -> Result<(), String> {
    let root = bench.client(0);
    match change(bench, root, Change::Undo(Undo { number: Some(number), force: false, dry_run: false })) {
        MasterToClient::Answer(_) => Ok(()),
        MasterToClient::Refused { reason, .. } => Err(reason),
        other => panic!("{other:?}"),
    }
}

/// Returns everything that operators change.
fn state(bench: &Bench) -> String {
    let core = &bench.controller.tx.core;
    let nodes: Vec<_> = core.nodes().iter().map(|node| node.drained().map(|drained| &drained.reason)).collect();
    let job = core.job(JobId(1)).map(|job| (job.request.priority, job.request.time_limit, job.held.is_some()));
    let (settings, reservations, slowdowns) = (core.settings(), core.reservations(), core.slowdowns());
    format!("{settings:?}\n{reservations:?}\n{slowdowns:?}\n{nodes:?} {job:?}")
}

fn with_parts(parts: &[&str]) -> Change {
    let parts = parts.iter().map(|part| part.parse().expect("a part")).collect();
    Change::Policy { preset: Preset::Easy, parts }
}

fn budgets(bench: &Bench, periods: &[(i64, i64)]) -> Change {
    let at = |hours: i64| bench.now + Span::from_secs(hours * 3_600);
    let energy = limo_model::Energy::from_joules(1_000_000);
    let of = |(from, until): &(i64, i64)| Budget { from: at(*from), until: at(*until), energy, release: Release::Even };
    let budgets = Budgets::new(periods.iter().map(of).collect()).expect("ascending");
    Change::Budgets { budgets, seen: None }
}

fn quota(text: &str) -> Change {
    let limits = vec![text.parse::<QuotaLimit>().expect("a limit")];
    Change::Users(UsersChange::Quota { user: Some("ada".into()), limits })
}

fn denied(name: &str) -> Change {
    Change::Users(UsersChange::Denied { names: vec![name.into()], denied: true })
}

fn explore(share: &str) -> Change {
    Change::Explore(share.parse().expect("a share"))
}

fn slowdown(law: &str) -> Change {
    Change::Slowdown { key: limo_model::SlowdownKey::of("cg", "xeon"), law: Some(law.parse().expect("a law")) }
}

fn weight(weight: u32) -> Change {
    Change::Users(UsersChange::Fairshare(FairshareChange { weight: Some(weight), ..FairshareChange::default() }))
}

fn drain(nodes: &[&str], reason: &str) -> Change {
    Change::Drain { nodes: nodes.iter().map(|node| (*node).to_owned()).collect(), reason: reason.into() }
}

fn limits(high: i64) -> Change {
    Change::Limits(Curve::constant(Band::new(Power::ZERO, Power::from_watts(high)).expect("a band")))
}

fn prices(milli: i64) -> Change {
    Change::Prices(Some(Curve::constant(Price::from_milli_per_mwh(milli))))
}

#[test]
fn each_kind_of_change_is_undone() {
    let mut bench = Bench::new();
    bench.node("n1");
    let (root, user) = (bench.client(0), bench.client(7));
    done(&mut bench, root, drain(&["n1"], "fans"));
    assert_eq!(bench.submit(user, 1), JobId(1));
    let (from, until) = (bench.now + Span::from_secs(3_600), bench.now + Span::from_secs(7_200));
    let reservation = Reservation { nodes: vec!["n1".into()], from, until, users: Vec::new(), reason: "fans".into() };
    let reserve = Change::Reserve { name: "maint".into(), reservation: Box::new(reservation) };
    let job = || vec![JobId(1)];
    let time_limit = |secs| Change::TimeLimit { jobs: job(), limit: Some(Span::from_secs(secs)) };
    // Each pair has a change and another one of the same kind.
    let pairs = [
        [limits(60), limits(80)],
        [Change::Mode(ModeSetting::Low), Change::Mode(ModeSetting::High)],
        [
            Change::Policy { preset: Preset::Easy, parts: Vec::new() },
            Change::Policy { preset: Preset::Limo, parts: Vec::new() },
        ],
        [with_parts(&["placement=least-energy"]), with_parts(&["placement=least-energy", "idle=power-off"])],
        [prices(5), prices(6)],
        [budgets(&bench, &[(0, 4)]), budgets(&bench, &[(0, 5)])],
        [drain(&["n1"], "a disk"), drain(&["n1"], "new disks")],
        [reserve, Change::Unreserve { name: "maint".into() }],
        [quota("jobs=2"), quota("jobs=3")],
        [weight(7), weight(8)],
        [explore("2%"), explore("0.5%")],
        [slowdown("F=0.5"), slowdown("CPI=2")],
        [denied("bob"), denied("eve")],
        [Change::Priority { jobs: job(), priority: 5 }, Change::Priority { jobs: job(), priority: 6 }],
        [time_limit(5), time_limit(6)],
        [Change::Hold(job()), Change::Release(job())],
    ];
    for [first, second] in pairs {
        let name = format!("{first:?}");
        let before = state(&bench);
        done(&mut bench, root, first);
        let (number, between) = (newest(&mut bench).number, state(&bench));
        assert_ne!(before, between, "{name}");
        done(&mut bench, root, second);
        let later = newest(&mut bench);
        assert_eq!((later.undo_of, later.by.as_str()), (None, "user0"), "{name}");
        let refused = undo(&mut bench, number).expect_err(&name);
        assert!(refused.ends_with(&format!("was overwritten by change {}", later.number)), "{name}: {refused}");
        assert_eq!(undo(&mut bench, later.number), Ok(()), "{name}");
        assert_eq!(state(&bench), between, "{name}");
        assert_eq!(undo(&mut bench, number), Ok(()), "{name}");
        assert_eq!(state(&bench), before, "{name}");
        let undone = newest(&mut bench);
        assert_eq!((undone.undo_of, undone.by.as_str()), (Some(number), "user0"), "{name}");
    }
}

#[test]
fn items_of_one_change_are_undone_in_reverse_order() {
    let mut bench = Bench::new();
    bench.node("n1");
    let root = bench.client(0);
    done(&mut bench, root, drain(&["n1", "n1"], "fans"));
    let number = newest(&mut bench).number;
    assert_eq!(undo(&mut bench, number), Ok(()));
    assert!(bench.controller.tx.core.nodes()[0].drained().is_none());
}

#[test]
fn a_priority_is_not_set_back_when_the_job_runs() {
    let mut bench = Bench::new();
    let (root, user) = (bench.client(0), bench.client(7));
    let job = bench.submit(user, 1);
    done(&mut bench, root, Change::Priority { jobs: vec![job], priority: 5 });
    let number = newest(&mut bench).number;
    bench.node("n1");
    let refused = undo(&mut bench, number).expect_err("it is on its way");
    assert_eq!(
        refused,
        format!("change {number} cannot be undone: job 1 does not wait: only a waiting job has a priority")
    );
}

#[test]
fn budgets_are_set_back_without_the_periods_that_are_over() {
    let mut bench = Bench::new();
    bench.node("n1");
    let root = bench.client(0);
    let (two, one) = (budgets(&bench, &[(0, 1), (1, 4)]), budgets(&bench, &[(0, 1), (1, 5)]));
    done(&mut bench, root, two);
    done(&mut bench, root, one);
    let number = newest(&mut bench).number;
    bench.pass(Span::from_secs(3_601));
    assert_eq!(undo(&mut bench, number), Ok(()), "what was set is still so, from now on");
    let until = bench.now + Span::from_secs(3 * 3_600 - 1);
    let periods: Vec<Time> = bench
        .controller
        .tx
        .core
        .settings()
        .budgets
        .from_then_on(Time::from_unix_ms(0))
        .iter()
        .map(|of| of.until)
        .collect();
    assert_eq!(periods, [until]);
}

#[test]
fn changes_of_feeds_and_the_configuration_are_not_by_operators() {
    let mut bench = Bench::new();
    let first = changes(&mut bench, 100).0;
    assert!(
        first.iter().flat_map(|change| &change.items).all(|item| !item.can_undo && item.old != item.new),
        "{first:?}"
    );
    let mut settings = bench.settings.clone();
    settings.options.depth = 3;
    bench.input(Input::Configured(Box::new(settings)));
    let words = |change: ChangeReport| {
        let items: Vec<String> =
            change.items.iter().map(|item| format!("{}: {} -> {}", item.subject, item.old, item.new)).collect();
        (change.by, items.join("; "), change.items.iter().any(|item| item.can_undo))
    };
    let expected = ("configuration".to_owned(), "options of the policy:  -> as configured".to_owned(), false);
    assert_eq!(words(newest(&mut bench)), expected);
    let news = |milli| {
        let prices = Some(Curve::constant(Price::from_milli_per_mwh(milli)));
        Input::Feeds(Box::new(News { prices, ..News::default() }))
    };
    bench.input(news(80_000));
    let (by, _, can_undo) = words(newest(&mut bench));
    assert_eq!((by.as_str(), can_undo), ("price feed", false));
    // After the undo of an operator's prices, the present prices of the feeds are in force.
    let root = bench.client(0);
    done(&mut bench, root, prices(5));
    let number = newest(&mut bench).number;
    bench.input(news(90_000));
    assert_eq!(undo(&mut bench, number), Ok(()));
    assert_eq!(bench.controller.tx.core.prices(), Some(&Curve::constant(Price::from_milli_per_mwh(90_000))));
}

#[test]
fn changes_in_one_batch_are_separate_and_pages_mark_further_ones() {
    let mut bench = Bench::new();
    let root = bench.client(0);
    let before = changes(&mut bench, 100).0.len();
    bench.slow_disk = true;
    for high in [60, 70, 80] {
        bench.say(root, ClientToMaster::ChangeConf(Box::new(limits(high))));
    }
    bench.slow_disk = false;
    bench.commit();
    bench.pass(Span::from_secs(1));
    assert_eq!(changes(&mut bench, 100).0.len(), before + 3);
    let (all, most) = (u32::try_from(before + 3).expect("few"), u32::try_from(before + 2).expect("few"));
    assert_eq!((changes(&mut bench, all).1, changes(&mut bench, most).1), (false, true));
    assert_eq!(changes(&mut bench, most).0.len(), before + 2);
}

#[test]
fn a_change_of_thousands_of_things_is_several() {
    let mut bench = Bench::new();
    let root = bench.client(0);
    let before = changes(&mut bench, 100).0.len();
    let profile = |number: u32| {
        let key = ProfileKey {
            application: format!("a{number}"),
            size: String::new(),
            hardware: "xeon".into(),
            cores: None,
            nodes: None,
            cap: None,
        };
        let (duration, power) = (Span::from_secs(10), Power::from_watts(20));
        let energy = power * duration;
        (key, Profile { duration, power, energy, spread_permille: 0, runs: 1, source: EstimateSource::Imported })
    };
    done(&mut bench, root, Change::SetProfiles((0..1_001).map(profile).collect()));
    let items: Vec<u32> = changes(&mut bench, 100)
        .0
        .iter()
        .map(|change| change.more + u32::try_from(change.items.len()).expect("few"))
        .collect();
    assert_eq!((items.len(), &items[..2]), (before + 2, &[1, 1_000][..]));
}

#[test]
fn nodes_are_added_all_or_none_and_stay_awake() {
    let mut bench = Bench::new();
    let root = bench.client(0);
    let switch = limo_model::Switch { span: Span::from_secs(1), draw: Power::ZERO };
    let rest = Some(Arc::new(limo_model::Rest { draw: Power::ZERO, down: switch, up: switch, wake: None }));
    let spec = |name: &str| limo_model::NodeSpec { rest: rest.clone(), ..slave(name, "boot", Vec::new()).slave.spec };
    let refused = change(&mut bench, root, Change::AddNodes(vec![spec("n1"), spec("n2"), spec("n1")]));
    assert_eq!(refusal(Some(&refused)), "there is a node `n1` already");
    assert_eq!(bench.controller.tx.core.nodes().len(), 0);
    done(&mut bench, root, Change::AddNodes(vec![spec("n1"), spec("n2")]));
    let nodes = bench.controller.tx.core.nodes();
    assert!(nodes.len() == 2 && nodes.iter().all(|node| node.spec().rest.is_none()), "{nodes:?}");
}

#[test]
fn reservations_are_not_many_and_not_long() {
    let mut bench = Bench::new();
    bench.node("n1");
    let root = bench.client(0);
    let (now, hour) = (bench.now, Span::from_secs(3_600));
    let reserve = |number: i64, reason: &str| {
        let from = now + Span::from_secs(3_600 * number);
        let (nodes, users) = (vec!["n1".to_owned()], Vec::new());
        let reservation = Reservation { nodes, from, until: from + hour, users, reason: reason.into() };
        Change::Reserve { name: format!("r{number}"), reservation: Box::new(reservation) }
    };
    let refused = change(&mut bench, root, reserve(0, &"x".repeat(1_001)));
    assert_eq!(refusal(Some(&refused)), "a user, a node or the reason is longer than 1000 bytes");
    for number in 0..1_000 {
        done(&mut bench, root, reserve(number, ""));
    }
    let refused = change(&mut bench, root, reserve(1_000, ""));
    assert_eq!(refusal(Some(&refused)), "the limit is 1000 reservations at a time");
}
