//! Tasks of arrays are jobs of the array's user, with the same permissions.

use limo_model::{Condition, Conditions, Dependency, Tasks};
use limo_proto::{Array, Io, Selector};

use super::select::{cancel, selected};
use super::*;

#[test]
fn a_task_has_the_grace_of_its_array() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let client = bench.client(7);
    let grace = Span::from_secs(5);
    let array = Array { tasks: "0-999".parse().expect("tasks"), entries: Vec::new() };
    let exec = exec_with(1, |exec| {
        exec.request.kill_grace = Some(grace);
        (exec.launch.io, exec.launch.array) = (Io::Detached, Some(array));
    });
    bench.say(client, exec);
    let (own, job, attempt) = (JobId(1), JobId(2), Attempt(1));
    bench.report(node, NodeToMaster::JobAck { job, attempt });
    bench.report(node, NodeToMaster::Started { job, attempt });
    bench.orders(node);
    bench.heard(client);
    let cancel = |job| ClientToMaster::ChangeConf(Box::new(limo_proto::Change::Cancel(vec![job])));
    bench.say(client, cancel(JobId(1002)));
    assert_eq!(refusal(bench.heard(client).first()), "there is no waiting or running job 1002");
    bench.say(client, cancel(own));
    assert!(bench.orders(node).contains(&MasterToNode::Stop { job, attempt, grace }));
}

fn array(bench: &mut Bench, client: PeerId, tasks: &str) -> JobId {
    let array = Array { tasks: tasks.parse().expect("tasks"), entries: Vec::new() };
    bench.say(client, exec_with(1, |exec| (exec.launch.io, exec.launch.array) = (Io::Detached, Some(array))));
    bench.heard(client);
    JobId(1)
}

fn named(bench: &mut Bench, client: PeerId, text: &str, live: bool) -> Result<Vec<u64>, String> {
    let selection = vec![Selector::Tasks(JobId(1), text.parse().expect("tasks"))].into();
    selected(&bench.ask(client, Query::Select(SelectQuery { selection, live })))
}

#[test]
fn tasks_are_named_by_their_numbers() {
    let mut bench = Bench::new();
    let client = bench.client(7);
    array(&mut bench, client, "10-1000:10%2");
    assert_eq!(named(&mut bench, client, "10,30", false), Ok(vec![2, 4]));
    assert_eq!(named(&mut bench, client, "10-20:10", true), Ok(vec![2, 3]));
    let no_job = "task 40 of array 1 has not become a job yet: name the array, 1";
    assert_eq!(
        named(&mut bench, client, "20-40:10", true),
        Err("task 30 of array 1 has not become a job yet: name the array, 1".into())
    );
    assert_eq!(named(&mut bench, client, "40", true), Err(no_job.into()));
    let missing = "array 1 has no task 15: it has 10-1000:10%2";
    assert_eq!(named(&mut bench, client, "15", false), Err(missing.into()));
    let other = vec![Selector::Tasks(JobId(9), "1".parse().expect("tasks"))].into();
    let answer = bench.ask(client, Query::Select(SelectQuery { selection: other, live: false }));
    assert_eq!(selected(&answer), Err("there is no array 9".into()));
}

#[test]
fn a_waiting_task_is_cancelled_once_and_the_array_continues() {
    let mut bench = Bench::new();
    let client = bench.client(7);
    array(&mut bench, client, "0-9%1");
    let which = |text: &str| vec![Selector::Tasks(JobId(1), text.parse().expect("tasks"))].into();
    assert_eq!(cancel(&mut bench, client, which("3-5"), None), Ok(vec![5, 6, 7]));
    assert_eq!(cancel(&mut bench, client, which("4-6"), None), Ok(vec![8]), "those that are over are left out");
    let over = "task 4 of array 1 is over";
    assert_eq!(cancel(&mut bench, client, which("4"), None), Err(over.into()));
    let other = bench.client(8);
    let not_own = "job 9 belongs to user7, not to user8";
    assert_eq!(cancel(&mut bench, other, which("7"), None), Err(not_own.into()));
    let jobs = bench.jobs();
    let array = jobs.iter().find_map(|job| job.array.as_ref()).expect("an array");
    assert_eq!(array.waiting.as_ref().map(ToString::to_string).as_deref(), Some("0-2,7-9%1"));
    assert_eq!(array.ended.cancelled, 4);
    let early = "job 10 is a task of array 1 whose turn has not come";
    assert_eq!(refusal(Some(&bench.ask(client, Query::Job(JobQuery(JobId(10)))))), early);
}

/// Checks that the task is over with its array, and has no report.
#[test]
fn a_wait_for_a_task_that_never_becomes_a_job_ends_with_the_array() {
    let mut bench = Bench::new();
    let client = bench.client(7);
    let own = array(&mut bench, client, "0-3%1");
    let (waits, other) = (bench.client(7), bench.client(7));
    let wait =
        |jobs: &[u64]| ClientToMaster::Ask(Box::new(Query::Wait(WaitQuery(jobs.iter().copied().map(JobId).collect()))));
    bench.say(waits, wait(&[5, 4]));
    bench.say(client, exec_with(2, |exec| exec.launch.io = Io::Detached));
    bench.say(other, wait(&[5, 6]));
    bench.say(client, ClientToMaster::ChangeConf(Box::new(limo_proto::Change::Cancel(vec![own]))));
    assert_eq!(bench.heard(waits), [MasterToClient::Answer(Box::new(Answer::Jobs(Vec::new())))]);
    assert_eq!(bench.heard(other), [], "job 6 is not of the array");
    // The same holds if a dependency of the array can never be met.
    let on = Dependency { condition: Condition::AfterOk, job: JobId(6) };
    let exec = exec_with(3, |exec| {
        let array = Array { tasks: "0-3".parse().expect("tasks"), entries: Vec::new() };
        (exec.launch.io, exec.launch.array) = (Io::Detached, Some(array));
        exec.request.conditions = Some(Box::new(Conditions { dependencies: vec![on], ..Conditions::default() }));
    });
    bench.say(client, exec);
    bench.say(waits, wait(&[11]));
    bench.say(client, ClientToMaster::ChangeConf(Box::new(limo_proto::Change::Cancel(vec![JobId(6)]))));
    assert_eq!(bench.heard(waits), [MasterToClient::Answer(Box::new(Answer::Jobs(Vec::new())))]);
}

#[test]
fn tasks_beyond_the_limit_of_an_array_have_a_reason_and_are_counted() {
    let mut bench = Bench::new();
    let client = bench.client(7);
    bench.node("n1");
    let own = array(&mut bench, client, "0-9%1");
    let wait = |bench: &mut Bench| bench.jobs().into_iter().find(|job| job.job == own).expect("the array").wait;
    assert_eq!(wait(&mut bench), Some(limo_model::Wait::ArrayLimit { limit: 1 }));
    let MasterToClient::Answer(answer) = bench.ask(client, Query::Explain(ExplainQuery(own))) else {
        panic!("no answer")
    };
    let Answer::Explanation(explanation) = *answer else { panic!("{answer:?}") };
    assert_eq!(explanation.job.wait, Some(limo_model::Wait::ArrayLimit { limit: 1 }));
    let MasterToClient::Answer(answer) = bench.ask(client, Query::Status(StatusQuery)) else { panic!("no answer") };
    let Answer::Status(status) = *answer else { panic!("{answer:?}") };
    assert_eq!((status.running, status.waiting), (1, 9));
}

/// Uses an array in every user's listing: if it could not be decoded, no listing could.
#[test]
fn an_array_with_thousands_of_gaps_can_be_listed() {
    let mut bench = Bench::new();
    let client = bench.client(7);
    array(&mut bench, client, "0-2999");
    let odd = vec![Selector::Tasks(JobId(1), "101-2999:2".parse().expect("tasks"))].into();
    assert_eq!(cancel(&mut bench, client, odd, None).map(|jobs| jobs.len()), Ok(1_450));
    let answer = Frame::Message(bench.ask(client, Query::Job(JobQuery(JobId(1)))));
    let decoded = Frame::decode(answer.encode().expect("below a frame")).expect("a client can read it");
    assert_eq!(answer, decoded);
    let Frame::Message(MasterToClient::Answer(answer)) = decoded else { panic!("no answer") };
    let Answer::Jobs(jobs) = *answer else { panic!("no jobs") };
    let array = jobs[0].array.as_ref().expect("an array");
    assert_eq!(array.waiting_count() + array.active, 1_550, "all that are not over");
}

#[test]
fn tasks_that_overtook_a_held_one_are_not_counted_as_waiting() {
    let mut bench = Bench::new();
    let client = bench.client(7);
    let own = array(&mut bench, client, "10-12");
    bench.say(client, ClientToMaster::ChangeConf(Box::new(limo_proto::Change::Hold(vec![JobId(3)]))));
    let counts = |bench: &mut Bench| {
        let array = bench.jobs().into_iter().find(|job| job.job == own).and_then(|job| job.array).expect("an array");
        (array.waiting.as_ref().map(Tasks::to_string), array.waiting_count(), array.active)
    };
    assert_eq!(counts(&mut bench), (Some("10-12".into()), 3, 0));
    for name in ["n1", "n2"] {
        bench.node(name);
    }
    let placed =
        |bench: &Bench, job| bench.controller.tx.core.job(JobId(job)).is_some_and(|job| job.assignment().is_some());
    assert_eq!([2, 3, 4].map(|job| placed(&bench, job)), [true, false, true]);
    assert_eq!(counts(&mut bench), (Some("11".into()), 1, 2));
}
