//! Budgets: valid settings, and an account that continues over stages, crashes and snapshots.

use limo_model::{Budget, Budgets, Energy, Release};
use limo_proto::{AttemptState, BudgetAccount, Change, Status};

use super::*;

fn at(secs: i64) -> Time {
    Time::from_unix_ms(START) + Span::from_secs(secs)
}

fn period(from: i64, until: i64, joules: i64) -> Budget {
    Budget { from: at(from), until: at(until), energy: Energy::from_joules(joules), release: Release::Even }
}

fn budgets(periods: &[Budget]) -> Budgets {
    Budgets::new(periods.to_vec()).expect("ascending")
}

fn set(bench: &mut Bench, periods: &[Budget], seen: Option<&[Budget]>) -> MasterToClient {
    let client = bench.client(0);
    let change = Change::Budgets { budgets: budgets(periods), seen: seen.map(budgets) };
    bench.say(client, ClientToMaster::ChangeConf(Box::new(change)));
    bench.heard(client).pop().expect("an answer")
}

fn done(bench: &mut Bench, periods: &[Budget]) {
    assert!(is_done(&set(bench, periods, None)));
}

fn status(bench: &mut Bench) -> Status {
    let client = bench.client(0);
    let MasterToClient::Answer(answer) = bench.ask(client, Query::Status(StatusQuery)) else { panic!("no answer") };
    let Answer::Status(status) = *answer else { panic!("{answer:?}") };
    *status
}

/// Returns the released and the used energy until now, in J.
fn account(bench: &mut Bench) -> (i64, i64) {
    let BudgetAccount { released, spent, .. } = status(bench).account.expect("a period runs");
    (released.mj() / 1_000, spent.mj() / 1_000)
}

/// Lets time pass with a reading of 30 W every 5 s, each of which is recorded a second later.
fn measured(bench: &mut Bench, node: PeerId, secs: i64) {
    for _ in 0..secs / 5 {
        bench.report(node, NodeToMaster::Reading(Sample::once(Power::from_watts(30))));
        bench.pass(Span::from_secs(5));
    }
}

/// Starts a job that is estimated at 60 W and draws 20 W, on a node of 10 W, with 100 W for an hour.
fn with_a_job() -> (Bench, PeerId) {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let client = bench.client(7);
    bench.running(client, node, 1);
    done(&mut bench, &[period(0, 3_600, 360_000)]);
    (bench, node)
}

/// Checks the job after a restart: it continues, and a second after the node's return its reading counts again.
fn back(bench: &mut Bench) -> PeerId {
    let report = attempt_report(JobId(1), Attempt(1), AttemptState::Running);
    bench.node_with("n1", "boot", vec![report])
}

#[test]
fn a_stage_replaces_the_estimate() {
    let (mut bench, node) = with_a_job();
    measured(&mut bench, node, 595);
    assert_eq!(account(&mut bench), (59_500, 70 * 595));
    measured(&mut bench, node, 5);
    // The belief is the estimate for a second, then the reading.
    assert_eq!(account(&mut bench), (60_000, 70 + 30 * 599));
    measured(&mut bench, node, 10);
    assert_eq!(account(&mut bench), (61_000, 70 + 30 * 599 + 70 * 10));
    measured(&mut bench, node, 2_990);
    let status = status(&mut bench);
    assert!(status.account.is_none() && status.budgets.is_empty(), "{status:?}");
}

#[test]
fn the_account_continues_after_a_crash() {
    let (mut bench, node) = with_a_job();
    measured(&mut bench, node, 300);
    let before = account(&mut bench);
    assert_eq!(before, (30_000, 70 * 300));
    let mut bench = bench.killed();
    assert_eq!(account(&mut bench), before);
    let node = back(&mut bench);
    measured(&mut bench, node, 300);
    // No reading counts until 1 s, nor between the last entry on disk, at 296 s, and 301 s.
    assert_eq!(account(&mut bench), (60_000, 70 + 30 * 295 + 70 * 5 + 30 * 299));
}

#[test]
fn the_account_continues_after_a_snapshot() {
    let (mut bench, node) = with_a_job();
    measured(&mut bench, node, 300);
    bench.input(Input::Stop);
    assert!(bench.disk.snapshot.is_some() && bench.disk.entries.is_empty());
    let mut bench = bench.killed();
    assert_eq!(account(&mut bench), (30_000, 70 + 30 * 299));
    let node = back(&mut bench);
    measured(&mut bench, node, 300);
    assert_eq!(account(&mut bench), (60_000, 2 * (70 + 30 * 299)));
}

#[test]
fn a_period_begins_without_an_event() {
    let mut bench = Bench::new();
    bench.node("n1");
    done(&mut bench, &[period(100, 200, 2_000), period(200, 300, 4_000)]);
    assert_eq!(status(&mut bench).account, None);
    bench.pass(Span::from_secs(150));
    assert_eq!(account(&mut bench), (1_000, 500));
    bench.pass(Span::from_secs(75));
    assert_eq!(account(&mut bench), (1_000, 250));
    assert_eq!(status(&mut bench).budgets, budgets(&[period(200, 300, 4_000)]));
}

#[test]
fn what_cannot_be_is_refused() {
    let mut bench = Bench::new();
    bench.node("n1");
    let (first, second) = (period(0, 3_600, 36_000), period(3_600, 7_200, 36_000));
    let refused = set(&mut bench, &[period(0, 3_600, 35_999)], None);
    let least = "the budget of 35999.0 J is impossible: the cluster at rest draws 10.0 W, which is 0.010 kWh over the \
                 period of 1h; give at least that";
    assert_eq!(refusal(Some(&refused)), least);
    let refused = set(&mut bench, &[first, period(3_600, 7_200, 1)], None);
    assert!(refusal(Some(&refused)).starts_with("period 2 of the budgets: the budget of 1.0 J is impossible"));
    let refused = set(&mut bench, &[period(-10, 0, 36_000)], None);
    assert_eq!(refusal(Some(&refused)), "every budget period is over");
    assert!(status(&mut bench).budgets.is_empty());
    done(&mut bench, &[first]);
    let refused = set(&mut bench, &[second], Some(&[]));
    assert_eq!(refusal(Some(&refused)), "another user has just changed the budgets: nothing is done");
    assert!(is_done(&set(&mut bench, &[first, second], Some(&[first]))));
    let mut bench = bench.killed();
    assert_eq!(status(&mut bench).budgets, budgets(&[first, second]));
}
