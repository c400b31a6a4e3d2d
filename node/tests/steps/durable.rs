//! Messages of a node wait for the records on which they depend. Its registration waits for the processes of an
//! earlier daemon.

use std::time::Duration;

use limo_model::{Attempt, Outcome, Power};
use limo_node::{Connected, Effect, Found, HeldOutput, HeldStreams, Input, Intent, JobsAtExit, Record};
use limo_proto::{Channel, Data, DoExec, Frame, Io, MasterToNode, NodeToMaster};
use limo_shepherd::{Ended, Handle, Order, Why};

use crate::bench::*;

#[test]
fn an_acknowledgement_waits_for_the_intent() {
    let mut bench = Bench::registered();
    bench.master(MasterToNode::DoExec(Box::new(exec())));
    // A repeated request still waits for the record.
    bench.master(MasterToNode::DoExec(Box::new(exec())));
    assert_eq!(bench.told(), []);
    let (ticket, record) = bench.record();
    let Record::Intent(intent) = record else { panic!("{record:?}") };
    assert_eq!((intent.exec, intent.boot.as_str(), intent.cookie.len()), (exec(), BOOT, 32));
    bench.input(Input::Recorded { ticket, result: Ok(()) });
    assert_eq!(bench.told(), [NodeToMaster::JobAck { job: JOB, attempt: ATTEMPT }]);
}

/// The master takes back an attempt that the registration does not report, so the node must not wait for its release.
#[test]
fn an_intent_that_is_recorded_after_the_next_registration_is_dropped() {
    let mut bench = Bench::registered();
    bench.master(MasterToNode::DoExec(Box::new(exec())));
    let (intent, _) = bench.record();
    bench.input(Input::Disconnected);
    bench.connect();
    assert_eq!(bench.told(), [], "the record may soon be written");
    bench.now.since += Duration::from_secs(12);
    bench.input(Input::Deadline);
    let told = bench.told();
    assert!(matches!(told.as_slice(), [NodeToMaster::NewSlave(_), NodeToMaster::RegisterEnd { count: 0 }]), "{told:?}");
    let (forget, record) = bench.record();
    assert_eq!(record, Record::Forget { job: JOB, attempt: ATTEMPT });
    bench.master(MasterToNode::Registered);
    for ticket in [intent, forget] {
        bench.input(Input::Recorded { ticket, result: Ok(()) });
    }
    assert_eq!(bench.told(), []);
    // The next attempt may run here.
    let next = Attempt(ATTEMPT.0 + 1);
    bench.master(MasterToNode::DoExec(Box::new(DoExec { attempt: next, ..exec() })));
    bench.durable();
    assert_eq!(bench.told(), [NodeToMaster::JobAck { job: JOB, attempt: next }]);
}

#[test]
fn an_intent_that_cannot_be_recorded_is_refused_and_may_come_again() {
    let mut bench = Bench::registered();
    bench.master(MasterToNode::DoExec(Box::new(exec())));
    let (ticket, _) = bench.record();
    bench.input(Input::Recorded { ticket, result: Err("no space left on device".into()) });
    let reason = "no space left on device".into();
    assert_eq!(bench.told(), [NodeToMaster::JobRefused { job: JOB, attempt: ATTEMPT, reason }]);
    bench.master(MasterToNode::DoExec(Box::new(exec())));
    bench.durable();
    assert_eq!(bench.told(), [NodeToMaster::JobAck { job: JOB, attempt: ATTEMPT }]);
}

#[test]
fn a_launch_waits_for_the_record_of_the_start_and_the_end_for_its_own() {
    let mut bench = Bench::registered();
    bench.master(MasterToNode::DoExec(Box::new(exec())));
    bench.durable();
    bench.told();
    bench.master(MasterToNode::Go { job: JOB, attempt: ATTEMPT, expected: Power::ZERO });
    assert!(!bench.effects.iter().any(|effect| matches!(effect, Effect::Launch(_))), "{:?}", bench.effects);
    bench.durable();
    let handle = bench.launched();
    bench.input(Input::Started { handle, leader: 1, connected: Connected::default(), freezes: false });
    assert_eq!(bench.told(), [NodeToMaster::Started { job: JOB, attempt: ATTEMPT }]);
    let why = Why::OfItself;
    let ended =
        Ended { status: 3 << 8, elapsed: 5, user_cpu: 0, system_cpu: 0, max_rss: 0, why, exceeded_memory: None };
    bench.input(Input::Exited { handle, ended });
    bench.input(Input::Emptied { handle, left: 0 });
    assert_eq!(bench.told(), []);
    bench.durable();
    let told = bench.told();
    let [NodeToMaster::Ended { job: JOB, attempt: ATTEMPT, outcome: Outcome::Exited(3), .. }] = told.as_slice() else {
        panic!("{told:?}");
    };
}

#[test]
fn a_new_time_limit_reaches_a_job_before_its_launch_and_while_it_runs() {
    let mut bench = Bench::registered();
    let limit = |secs: i64| {
        let limit = Some(limo_model::Span::from_secs(secs));
        MasterToNode::TimeLimit { job: JOB, attempt: ATTEMPT, limit }
    };
    bench.master(MasterToNode::DoExec(Box::new(exec())));
    bench.durable();
    bench.master(limit(9));
    bench.master(MasterToNode::Go { job: JOB, attempt: ATTEMPT, expected: Power::ZERO });
    bench.durable();
    let is_launch = |effect: &Effect| matches!(effect, Effect::Launch(order) if order.launch.time_limit == Some(9_000));
    assert!(bench.effects.iter().any(is_launch), "{:?}", bench.effects);
    let handle = bench.launched();
    // The order waits until the command runs.
    bench.master(limit(5));
    let is_order = |effect: &Effect| matches!(effect, Effect::Order(Order::Limit { handle: of, limit: Some(5_000) }) if *of == handle);
    assert!(!bench.effects.iter().any(is_order), "{:?}", bench.effects);
    bench.input(Input::Started { handle, leader: 1, connected: Connected::default(), freezes: false });
    assert!(bench.effects.iter().any(is_order), "{:?}", bench.effects);
}

#[test]
fn a_registration_waits_until_nothing_of_an_earlier_daemon_runs() {
    let intent = Intent { exec: exec(), cookie: "cookie".into(), boot: BOOT.into() };
    let mut bench = Bench::with(Some(Found { intent: Some(intent), going: true, ..Found::default() }));
    assert_eq!(bench.told(), []);
    let swept = |effect: &Effect| matches!(effect, Effect::Sweep { mark, .. } if mark.cookie == "cookie");
    assert!(bench.effects.iter().any(swept), "{:?}", bench.effects);
    bench.input(Input::Swept { job: JOB, left: 0 });
    assert_eq!(bench.told(), [], "its end is not recorded");
    bench.durable();
    let told = bench.told();
    let [NodeToMaster::NewSlave(_), NodeToMaster::Attempts(attempts), NodeToMaster::RegisterEnd { count: 1 }] =
        told.as_slice()
    else {
        panic!("{told:?}");
    };
    let lost = |report: &limo_proto::AttemptReport| {
        matches!(&report.state, limo_proto::AttemptState::Ended { outcome: Outcome::Lost { .. }, .. })
    };
    assert!(attempts.iter().all(lost), "{attempts:?}");
}

#[test]
fn a_job_with_a_shepherd_goes_on_and_is_released_after_its_end() {
    let mut bench = Bench::recovered(Some(released(Io::Detached)), Some(survivor("cookie", None)));
    let reports = registered(&mut bench);
    assert_eq!(reports.iter().map(|report| &report.state).collect::<Vec<_>>(), [&limo_proto::AttemptState::Running]);
    bench.master(MasterToNode::Registered);
    bench.told();
    bench.input(Input::Started { handle: Handle(9), leader: 1, connected: Connected::default(), freezes: false });
    assert_eq!(bench.told(), [NodeToMaster::Started { job: JOB, attempt: ATTEMPT }]);
    let ended = Ended {
        status: 3 << 8,
        elapsed: 5,
        user_cpu: 0,
        system_cpu: 0,
        max_rss: 0,
        why: Why::OfItself,
        exceeded_memory: None,
    };
    bench.input(Input::Exited { handle: Handle(9), ended });
    bench.input(Input::Emptied { handle: Handle(9), left: 0 });
    let is_release = |effect: &Effect| matches!(effect, Effect::Release { handle: Some(Handle(9)), .. });
    assert!(!bench.effects.iter().any(is_release), "the end is not recorded");
    bench.durable();
    assert!(bench.effects.iter().any(is_release), "{:?}", bench.effects);
}

#[test]
fn a_shepherd_with_another_cookie_is_ended_and_its_attempt_is_lost() {
    let mut bench = Bench::recovered(Some(released(Io::Detached)), Some(survivor("other", None)));
    let stops = |effect: &Effect| {
        matches!(effect, Effect::Order(limo_shepherd::Order::Stop { handle: Handle(9), grace: 0, .. }))
    };
    assert!(bench.effects.iter().any(stops), "{:?}", bench.effects);
    bench.input(Input::Swept { job: JOB, left: 0 });
    bench.durable();
    let reports = registered(&mut bench);
    let lost = |report: &limo_proto::AttemptReport| {
        matches!(&report.state, limo_proto::AttemptState::Ended { outcome: Outcome::Lost { .. }, .. })
    };
    assert!(reports.len() == 1 && reports.iter().all(lost), "{reports:?}");
}

#[test]
fn a_launch_that_no_shepherd_has_taken_is_ordered_again() {
    let mut bench = Bench::with(Some(released(Io::Detached)));
    bench.master(MasterToNode::Registered);
    bench.master(MasterToNode::Go { job: JOB, attempt: ATTEMPT, expected: Power::ZERO });
    bench.durable();
    bench.launched();
}

#[test]
fn streams_continue_at_their_offsets() {
    let connected = Connected { stdin: true, stdout: true, stderr: true };
    let streams = HeldStreams {
        connected,
        stdin_taken: 10,
        stdin: 30,
        stdin_ended: false,
        stdout: HeldOutput { acknowledged: 100, is_done: false },
        stderr: HeldOutput { acknowledged: 8, is_done: true },
    };
    let mut bench = Bench::recovered(Some(released(Io::Attached)), Some(survivor("cookie", Some(streams))));
    let reports = registered(&mut bench);
    let kept = &reports[0].kept;
    assert_eq!((reports[0].stdin_offset, kept.stdin, kept.stdout, kept.stderr), (10, 30, 100, 8));
    let stream = |channel| limo_proto::StreamId::new(JOB, channel);
    let reads = |effect: &Effect| matches!(effect, Effect::Read { stream: of, .. } if *of == stream(Channel::Stdout));
    let reads_errors =
        |effect: &Effect| matches!(effect, Effect::Read { stream: of, .. } if *of == stream(Channel::Stderr));
    assert!(bench.effects.iter().any(reads) && !bench.effects.iter().any(reads_errors), "{:?}", bench.effects);
    bench.master(MasterToNode::Registered);
    bench.effects.clear();
    // The client sends everything again that the job has not read; 20 bytes of it are already there.
    let data = Data { stream: stream(Channel::Stdin), offset: 10, bytes: vec![b'x'; 25].into() };
    bench.input(Input::FromMaster(Frame::Data(data)));
    bench.input(Input::Output { stream: stream(Channel::Stdout), bytes: "more".into() });
    let written = bench.effects.iter().find_map(|effect| match effect {
        Effect::Stdin { bytes, .. } => Some(bytes.len()),
        _ => None,
    });
    assert_eq!(written, Some(5));
    let sent = bench.effects.iter().find_map(|effect| match effect {
        Effect::SendData(data) => Some((data.offset, data.bytes.clone())),
        _ => None,
    });
    assert_eq!(sent, Some((100, "more".into())));
}

/// The output of a job may be read after the master has forgotten its end. Until then the next daemon needs the records.
#[test]
fn records_stay_until_the_output_is_delivered() {
    let connected = Connected { stdin: false, stdout: true, stderr: false };
    let streams = HeldStreams { connected, ..HeldStreams::default() };
    let end = limo_node::End { outcome: Outcome::Exited(0), usage: limo_model::Usage::default() };
    let found = Found { end: Some(end), ..released(Io::Attached) };
    let mut bench = Bench::recovered(Some(found), Some(survivor("cookie", Some(streams))));
    bench.master(MasterToNode::Registered);
    bench.master(MasterToNode::EndedAck { job: JOB, attempt: ATTEMPT });
    let forgets = |effect: &Effect| matches!(effect, Effect::Record { record: Record::Forget { .. }, .. });
    assert!(!bench.effects.iter().any(forgets), "{:?}", bench.effects);
    bench.told();
    // Another master must hear of the output, which it has to pass on or drop.
    bench.input(Input::Disconnected);
    bench.connect();
    let reports = registered(&mut bench);
    assert_eq!(reports.iter().map(|report| report.job).collect::<Vec<_>>(), [JOB]);
    assert!(matches!(reports[0].state, limo_proto::AttemptState::Ended { .. }), "{reports:?}");
    bench.master(MasterToNode::Registered);
    for (channel, bytes) in [(Channel::Stdout, 0), (Channel::Stderr, 0)] {
        let stream = limo_proto::StreamId::new(JOB, channel);
        if channel == Channel::Stdout {
            bench.input(Input::Output { stream, bytes: bytes::Bytes::new() });
        }
        bench.master(MasterToNode::StreamAck { stream, offset: bytes + 1 });
    }
    assert!(bench.effects.iter().any(forgets), "{:?}", bench.effects);
}

#[test]
fn a_terminated_daemon_keeps_its_jobs_and_an_interrupted_one_ends_them() {
    for (jobs, stops) in [(JobsAtExit::Keep, false), (JobsAtExit::End, true)] {
        let mut bench = Bench::recovered(Some(released(Io::Detached)), Some(survivor("cookie", None)));
        bench.master(MasterToNode::Registered);
        bench.input(Input::Started { handle: Handle(9), leader: 1, connected: Connected::default(), freezes: false });
        bench.effects.clear();
        bench.input(Input::Terminate(jobs));
        let stopped = bench.effects.iter().any(|effect| matches!(effect, Effect::Order(_)));
        let hangs_up = bench.effects.iter().any(|effect| matches!(effect, Effect::HangUp));
        assert_eq!((stopped, hangs_up), (stops, !stops), "{jobs:?}");
        bench.input(Input::Disconnected);
        let exits = bench.effects.iter().any(|effect| matches!(effect, Effect::Exit(Ok(()))));
        assert_eq!(exits, !stops, "{jobs:?}");
    }
}

/// A signal would be seen by the job when it continues.
#[test]
fn a_job_that_can_be_frozen_gets_no_signal_when_it_is_suspended() {
    let suspended = |freezes: bool| {
        let mut bench = Bench::registered();
        bench.master(MasterToNode::DoExec(Box::new(exec())));
        bench.durable();
        bench.master(MasterToNode::Go { job: JOB, attempt: ATTEMPT, expected: Power::ZERO });
        bench.durable();
        let handle = bench.launched();
        bench.input(Input::Started { handle, leader: 1, connected: Connected::default(), freezes });
        bench.effects.clear();
        bench.master(MasterToNode::Suspend { job: JOB, attempt: ATTEMPT });
        bench.master(MasterToNode::Resume { job: JOB, attempt: ATTEMPT });
        let frozen =
            |on| move |effect: &Effect| matches!(effect, Effect::Order(Order::Frozen { on: is, .. }) if *is == on);
        assert!([true, false].into_iter().all(|on| bench.effects.iter().any(frozen(on))), "{:?}", bench.effects);
        let signals = |effect: &&Effect| matches!(effect, Effect::Order(Order::Signal { .. }) | Effect::Reach { .. });
        bench.effects.iter().filter(signals).count()
    };
    // SIGSTOP, one pass over other processes (the second waits for its end), and SIGCONT.
    assert_eq!((suspended(false), suspended(true)), (3, 0));
}
