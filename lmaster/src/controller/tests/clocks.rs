//! Jumps of the wall clock: running jobs do not change, and times that users gave follow the wall clock.

use limo_model::{Budget, Budgets, Conditions, Curve, Energy, Price, QuotaLimit, Release, Reservation, Wait};
use limo_proto::{Change, JobState, Status, UsersChange};

use super::*;

const HOUR: i64 = 3_600;
const DAY: i64 = 86_400;

fn secs(secs: i64) -> Span {
    Span::from_secs(secs)
}

/// Returns the time `secs` after the beginning, on either clock.
fn at(secs: i64) -> Time {
    Time::from_unix_ms(START) + Span::from_secs(secs)
}

impl Bench {
    /// Sets the wall clock forward.
    fn jump(&mut self, by: i64) {
        self.ahead = self.ahead + secs(by);
        self.input(Input::Timer);
    }
}

fn change(bench: &mut Bench, change: Change) {
    let client = bench.client(0);
    bench.say(client, ClientToMaster::ChangeConf(Box::new(change)));
    let answer = bench.heard(client).pop().expect("an answer");
    assert!(is_done(&answer), "{answer:?}");
}

fn status(bench: &mut Bench) -> Status {
    let client = bench.client(0);
    let MasterToClient::Answer(answer) = bench.ask(client, Query::Status(StatusQuery)) else { panic!("no answer") };
    let Answer::Status(status) = *answer else { panic!("{answer:?}") };
    *status
}

/// Submits a detached job that must not begin before `begin`.
fn beginning(bench: &mut Bench, begin: Time) -> JobId {
    submitted(bench, 1, begin)
}

fn submitted(bench: &mut Bench, key: u8, begin: Time) -> JobId {
    let client = bench.client(7);
    let conditions = Conditions { begin: Some(begin), ..Conditions::default() };
    bench.say(
        client,
        exec_with(key, |exec| {
            exec.request.conditions = Some(Box::new(conditions));
            exec.launch.io = Io::Detached;
        }),
    );
    let heard = bench.heard(client);
    let Some(MasterToClient::Accepted { job }) = heard.first() else { panic!("{heard:?}") };
    *job
}

fn report(bench: &mut Bench, job: JobId) -> JobReport {
    bench.jobs().into_iter().find(|report| report.job == job).expect("it is known")
}

fn stops(orders: &[MasterToNode]) -> usize {
    orders.iter().filter(|order| matches!(order, MasterToNode::Stop { .. })).count()
}

fn is_assignment(order: &MasterToNode) -> bool {
    matches!(order, MasterToNode::DoExec(_))
}

#[test]
fn a_running_job_keeps_its_time_limit() {
    for jump in [HOUR, -HOUR, DAY, -DAY] {
        let mut bench = Bench::new();
        let node = bench.node("n1");
        let client = bench.client(7);
        bench.say(client, exec_with(1, |exec| exec.request.time_limit = Some(secs(1_800))));
        let (job, attempt) = (JobId(1), Attempt(1));
        bench.report(node, NodeToMaster::JobAck { job, attempt });
        bench.report(node, NodeToMaster::Started { job, attempt });
        bench.pass(secs(4));
        bench.orders(node);
        bench.jump(jump);
        bench.pass(secs(1_790));
        assert_eq!(stops(&bench.orders(node)), 0, "after a jump by {jump} s");
        assert_eq!(report(&mut bench, job).state, JobState::Running);
        // The time includes that of the node to end the job.
        bench.pass(secs(60));
        assert_eq!(stops(&bench.orders(node)), 1, "after a jump by {jump} s");
        bench.report(node, ended(job, attempt, 143));
        let report = report(&mut bench.killed(), job);
        let ran = report.ended.expect("it is over") - report.started.expect("it ran");
        assert_eq!((report.state, ran), (JobState::TimedOut, secs(1_854)), "after a jump by {jump} s");
    }
}

#[test]
fn begins_follow_the_wall_clock() {
    for (jump, left) in [(0, 2 * HOUR), (HOUR, HOUR), (-HOUR, 3 * HOUR), (DAY, 0), (-DAY, DAY + 2 * HOUR)] {
        let mut bench = Bench::new();
        let node = bench.node("n1");
        let job = beginning(&mut bench, at(2 * HOUR));
        bench.jump(jump);
        if left > 0 {
            bench.pass(secs(left - 60));
            let report = report(&mut bench, job);
            assert_eq!(report.wait, Some(Wait::Begin { at: at(2 * HOUR) }), "after a jump by {jump} s");
            assert_eq!(report.begin, Some(at(2 * HOUR)));
            let orders = bench.orders(node);
            assert!(!orders.iter().any(is_assignment), "{orders:?} after a jump by {jump} s");
            bench.pass(secs(61));
        }
        let orders = bench.orders(node);
        assert!(orders.iter().any(is_assignment), "{orders:?} after a jump by {jump} s");
        bench.killed();
    }
}

#[test]
fn a_begin_that_is_to_come_again_is_waited_for() {
    let mut bench = Bench::new();
    let job = beginning(&mut bench, at(HOUR));
    bench.pass(secs(HOUR + 60));
    assert_eq!(report(&mut bench, job).wait, Some(Wait::NoNode));
    bench.jump(-HOUR);
    assert_eq!(report(&mut bench, job).wait, Some(Wait::Begin { at: at(HOUR) }));
    bench.node("n1");
    bench.pass(secs(HOUR - 120));
    assert_eq!(report(&mut bench, job).state, JobState::Waiting);
    let mut bench = bench.killed();
    assert_eq!(report(&mut bench, job).wait, Some(Wait::Begin { at: at(HOUR) }), "also after a restart");
}

#[test]
fn a_begin_that_is_to_come_again_is_waited_for_behind_a_quota() {
    let mut bench = Bench::new();
    let quota = |jobs| Change::Users(UsersChange::Quota { user: None, limits: vec![QuotaLimit::Jobs(jobs)] });
    change(&mut bench, quota(Some(1)));
    submitted(&mut bench, 2, at(0));
    let job = beginning(&mut bench, at(HOUR));
    bench.pass(secs(HOUR + 60));
    let wait = report(&mut bench, job).wait;
    assert!(matches!(wait, Some(Wait::Quota { .. })), "{wait:?}");
    bench.jump(-HOUR);
    change(&mut bench, quota(None));
    assert_eq!(report(&mut bench, job).wait, Some(Wait::Begin { at: at(HOUR) }));
    bench.node("n1");
    bench.pass(secs(HOUR - 120));
    assert_eq!(report(&mut bench, job).state, JobState::Waiting);
    bench.killed();
}

#[test]
fn a_curve_that_ended_has_no_value_and_the_status_says_when() {
    let mut bench = Bench::new();
    let band = Band::new(Power::ZERO, Power::from_watts(100)).expect("a band");
    let prices = Curve::new(vec![(at(0), Price::from_milli_per_mwh(40_000))], Some(at(HOUR))).expect("a curve");
    change(&mut bench, Change::Limits(Curve::new(vec![(at(0), band)], Some(at(2 * HOUR))).expect("a curve")));
    change(&mut bench, Change::Prices(Some(prices)));
    bench.pass(secs(HOUR - 1));
    let before = status(&mut bench);
    assert_eq!((before.next_price, before.next_band), (Some((at(HOUR), None)), Some((at(2 * HOUR), Band::UNLIMITED))));
    assert_eq!((before.prices_ended, before.limits_ended), (None, None));
    bench.pass(secs(1));
    let after = status(&mut bench);
    assert_eq!((after.price, after.next_price, after.prices_ended), (None, None, Some(at(HOUR))));
    assert_eq!((after.band, after.limits_ended), (band, None));
    bench.pass(secs(HOUR));
    let after = status(&mut bench);
    assert_eq!((after.band, after.next_band, after.limits_ended), (Band::UNLIMITED, None, Some(at(2 * HOUR))));
}

#[test]
fn limits_prices_and_reservations_follow_the_wall_clock() {
    let mut bench = Bench::new();
    bench.node("n1");
    let band = |watts| Band::new(Power::ZERO, Power::from_watts(watts)).expect("a band");
    let price = |eur: i64| Price::from_milli_per_mwh(eur * 1_000);
    let limits = Curve::new(vec![(at(0), band(100)), (at(HOUR), band(50))], None).expect("ascending");
    let prices = Curve::new(vec![(at(0), price(40)), (at(HOUR), price(80))], None).expect("ascending");
    let reservation = Reservation {
        nodes: vec!["n1".into()],
        from: at(HOUR),
        until: at(2 * HOUR),
        users: Vec::new(),
        reason: String::new(),
    };
    change(&mut bench, Change::Limits(limits));
    change(&mut bench, Change::Prices(Some(prices)));
    change(&mut bench, Change::Reserve { name: "r".into(), reservation: Box::new(reservation.clone()) });
    let check = |bench: &mut Bench, wall: i64, in_force: bool| {
        let status = status(bench);
        assert_eq!(status.now, at(wall));
        let (high, now) = if in_force { (50, 80) } else { (100, 40) };
        assert_eq!((status.band, status.price), (band(high), Some(price(now))), "at {wall} s");
        let next = (!in_force).then_some((at(HOUR), band(50)));
        assert_eq!((status.next_band, status.next_price.map(|(at, _)| at)), (next, next.map(|(at, _)| at)));
        let client = bench.client(7);
        let MasterToClient::Answer(answer) = bench.ask(client, Query::Reservations(ReservationsQuery)) else {
            panic!("no answer")
        };
        let Answer::Reservations(all) = *answer else { panic!("{answer:?}") };
        assert_eq!(all.into_iter().map(|(_, of)| of).collect::<Vec<_>>(), std::slice::from_ref(&reservation));
    };
    check(&mut bench, 0, false);
    bench.jump(HOUR);
    check(&mut bench, HOUR, true);
    bench.jump(600 - HOUR);
    check(&mut bench, 600, false);
    bench.pass(secs(HOUR - 1_200));
    check(&mut bench, HOUR - 600, false);
    let mut bench = bench.killed();
    bench.pass(secs(600));
    check(&mut bench, HOUR, true);
    bench.jump(DAY);
    let client = bench.client(7);
    let answer = bench.ask(client, Query::Reservations(ReservationsQuery));
    assert_eq!(answer, MasterToClient::Answer(Box::new(Answer::Reservations(Vec::new()))), "it is over");
}

#[test]
fn budgets_follow_the_wall_clock_and_release_no_more_than_they_have() {
    let mut bench = Bench::new();
    bench.node("n1");
    let period = |from, energy| Budget { from: at(from), until: at(from + HOUR), energy, release: Release::Even };
    let periods = [0, HOUR].map(|from| period(from, Energy::from_joules(360_000)));
    change(&mut bench, Change::Budgets { budgets: Budgets::new(periods.to_vec()).expect("ascending"), seen: None });
    let account = |bench: &mut Bench| status(bench).account.expect("a period runs");
    bench.pass(secs(600));
    assert_eq!(account(&mut bench).released, Energy::from_joules(60_000));
    // Half an hour is skipped, so the remaining energy is released in the remaining time.
    bench.jump(1_800);
    bench.pass(secs(600));
    assert_eq!(account(&mut bench).budget, periods[0]);
    let released = account(&mut bench).released;
    assert!((209_000..=211_000).contains(&(released.mj() / 1_000)), "{released}");
    bench.jump(HOUR);
    assert_eq!(account(&mut bench).budget, periods[1]);
    assert_eq!(status(&mut bench).budgets.from_then_on(at(0)), &periods[1..]);
    bench.killed();
}

#[test]
fn readings_of_an_hour_that_the_clock_shows_twice_add_up() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let measure = |bench: &mut Bench, minutes: i64| {
        for _ in 0..minutes * 6 {
            bench.report(node, NodeToMaster::Reading(Sample::once(Power::from_watts(60))));
            bench.pass(secs(10));
        }
    };
    measure(&mut bench, 30);
    bench.jump(-1_200);
    measure(&mut bench, 30);
    bench.jump(DAY);
    measure(&mut bench, 3);
    let rows = || bench.disk.readings.iter().filter(|((_, name, _), _)| name == "n1");
    let joules: i64 = rows().map(|(_, drawn)| drawn.energy.mj() / 1_000).sum();
    let minutes = joules / 3_600;
    assert!((60..=63).contains(&minutes), "{minutes} minutes at 60 W");
    assert!(rows().all(|((at, ..), _)| at.unix_ms() % 60_000 == 0), "intervals begin at round wall times");
    assert!(rows().any(|((when, ..), _)| *when >= at(DAY)));
    let twice: i64 = rows().filter(|((when, ..), _)| *when == at(15 * 60)).map(|(_, of)| of.seen.ms()).sum();
    assert_eq!(twice, 120_000, "the minute was there twice");
}
