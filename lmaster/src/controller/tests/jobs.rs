//! The life of a job. Each message follows its precondition on disk.

use limo_model::{Energy, JobEnd, Outcome};
use limo_proto::{Change, JobState};

use super::*;

#[test]
fn nothing_is_reported_before_it_is_on_disk() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let client = bench.client(7);
    bench.orders(node);
    bench.slow_disk = true;
    bench.say(client, exec(1));
    assert!(bench.heard(client).is_empty() && bench.orders(node).is_empty());
    // The submission and the assignment are one transaction.
    assert_eq!(bench.committing.len(), 1);
    bench.commit();
    assert_eq!(words(&bench.heard(client)), ["Accepted"]);
    assert_eq!(words(&bench.orders(node)), ["DoExec"]);
    let (job, attempt) = (JobId(1), Attempt(1));
    // All preconditions of Go are already on disk.
    bench.report(node, NodeToMaster::JobAck { job, attempt });
    assert_eq!(words(&bench.orders(node)), ["Go"]);
    // The node reports the start to every master again, so the message does not wait for the disk.
    bench.report(node, NodeToMaster::Started { job, attempt });
    assert_eq!(words(&bench.heard(client)), ["Running", "Attached"]);
    assert_eq!(words(&bench.orders(node)), ["ReadFrom"]);
    assert!(bench.committing.is_empty());
    bench.report(node, ended(job, attempt, 3));
    assert!(bench.heard(client).is_empty() && bench.orders(node).is_empty(), "the end is not on disk");
    assert_eq!(bench.committing.len(), 1, "it goes there with the start");
    bench.commit();
    assert_eq!(words(&bench.orders(node)), ["EndedAck"]);
    let heard = bench.heard(client);
    let [MasterToClient::Finished { report, .. }] = heard.as_slice() else { panic!("{heard:?}") };
    assert_eq!(report.end, Some(JobEnd::Ran { outcome: Outcome::Exited(3), stopped: None }));
    assert_eq!((report.state, report.user.as_str(), report.command.as_str()), (JobState::Failed, "user7", "cg 'a b'"));
    assert_eq!((report.units.as_slice(), report.emulated), (&["n1/cpu".to_owned()][..], true));
}

#[test]
fn a_start_is_on_disk_soon_or_with_the_next_awaited_event() {
    let mut bench = Bench::new();
    let (node, client) = (bench.node("n1"), bench.client(7));
    let started = |bench: &Bench| {
        bench.disk.entries.iter().filter(|(_, entry)| format!("{entry:?}").starts_with("Event(Started")).count()
    };
    let start = |bench: &mut Bench, key: u8| {
        let job = bench.submit(client, key);
        bench.report(node, NodeToMaster::JobAck { job, attempt: Attempt(1) });
        bench.report(node, NodeToMaster::Started { job, attempt: Attempt(1) });
        job
    };
    let first = start(&mut bench, 1);
    assert_eq!(started(&bench), 0);
    bench.pass(Span::from_ms(5));
    assert_eq!(started(&bench), 1);
    bench.report(node, ended(first, Attempt(1), 0));
    let second = start(&mut bench, 2);
    assert_eq!(started(&bench), 1);
    assert_eq!(bench.jobs().iter().find(|job| job.job == second).map(|job| job.state), Some(JobState::Running));
    assert_eq!(started(&bench), 2, "what a list shows is on disk");
}

#[test]
fn the_kernel_identifies_the_submitter() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let client = bench.client(7);
    bench.submit(client, 1);
    let orders = bench.orders(node);
    let Some(MasterToNode::DoExec(exec)) = orders.last() else { panic!("{orders:?}") };
    assert_eq!((exec.user.as_str(), exec.launch.uid), ("user7", 7));
}

#[test]
fn events_during_a_commit_are_one_batch() {
    let mut bench = Bench::new();
    let client = bench.client(7);
    bench.slow_disk = true;
    for key in 1..=20 {
        bench.say(client, exec(key));
    }
    bench.commit();
    assert_eq!(words(&bench.heard(client)), ["Accepted", "Waiting"]);
    assert_eq!(bench.committing.len(), 1);
    bench.commit();
    assert_eq!(words(&bench.heard(client))[..19], ["Accepted"; 19]);
    assert!(bench.committing.is_empty());
}

/// Looks up a submission on three connections before it is accepted on the first one. Its job is over before the others are
/// served.
#[test]
fn a_submission_on_three_connections_is_one_job_that_ends_early() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let clients = [7; 3].map(|uid| bench.client(uid));
    bench.slow_answers = true;
    for client in clients {
        bench.say(client, exec_again(1));
    }
    bench.answer_one();
    bench.report(node, NodeToMaster::JobAck { job: JobId(1), attempt: Attempt(1) });
    bench.report(node, NodeToMaster::Started { job: JobId(1), attempt: Attempt(1) });
    bench.report(node, ended(JobId(1), Attempt(1), 0));
    assert_eq!(bench.disk.finished.len(), 1);
    while !bench.answers.is_empty() {
        bench.answer_one();
    }
    for client in clients {
        assert_eq!(bench.heard(client).first(), Some(&MasterToClient::Accepted { job: JobId(1) }));
    }
    assert_eq!(bench.disk.keys.len(), 1);
}

#[test]
fn the_same_submission_again_is_the_same_job() {
    let mut bench = Bench::new();
    let first = bench.client(7);
    bench.slow_disk = true;
    bench.say(first, exec(1));
    bench.input(Input::Gone(first));
    // The key is repeated before the job is on disk, after that, and after the job is over.
    let second = bench.client(7);
    bench.say(second, exec_again(1));
    assert!(bench.heard(second).is_empty(), "accepted before it is on disk");
    bench.slow_disk = false;
    bench.commit();
    assert_eq!(bench.heard(second).first(), Some(&MasterToClient::Accepted { job: JobId(1) }));
    let node = bench.node("n1");
    assert_eq!(bench.submit(second, 1), JobId(1));
    bench.report(node, NodeToMaster::JobAck { job: JobId(1), attempt: Attempt(1) });
    bench.report(node, NodeToMaster::Started { job: JobId(1), attempt: Attempt(1) });
    bench.report(node, ended(JobId(1), Attempt(1), 0));
    let third = bench.client(7);
    bench.say(third, exec_again(1));
    assert_eq!(words(&bench.heard(third)), ["Accepted", "Finished"]);
    let thief = bench.client(8);
    bench.say(thief, exec_again(1));
    assert_eq!(refusal(bench.heard(thief).first()), "the submission key belongs to a job of another user");
    assert_eq!(bench.jobs().len(), 1);
}

/// Returns the numbers of one answer, and the place of the next one.
fn page(bench: &mut Bench, client: PeerId, from: u64) -> (Vec<u64>, Option<JobId>) {
    bench.heard(client);
    let query = Query::Jobs(JobsQuery { filter: JobFilter::default(), from: JobId(from), ended: 0 });
    bench.say(client, ClientToMaster::Ask(Box::new(query)));
    let (mut numbers, mut next) = (Vec::new(), None);
    for message in bench.heard(client) {
        let (MasterToClient::Piece(part) | MasterToClient::Answer(part)) = message else { panic!("{message:?}") };
        let jobs = match *part {
            Answer::JobsUpTo { jobs, next: at } => {
                next = Some(at);
                jobs
            }
            Answer::Jobs(jobs) => jobs,
            other => panic!("{other:?}"),
        };
        numbers.extend(jobs.iter().map(|job| job.job.0));
    }
    (numbers, next)
}

#[test]
fn a_long_queue_is_listed_in_pages() {
    let mut bench = Bench::new();
    let client = bench.client(7);
    bench.slow_disk = true;
    for number in 0..2_005_u64 {
        let submission = exec_with(1, |exec| {
            exec.key[..8].copy_from_slice(&number.to_le_bytes());
            exec.launch.io = Io::Detached;
        });
        bench.say(client, submission);
    }
    bench.slow_disk = false;
    bench.commit();
    let (first, next) = page(&mut bench, client, 0);
    let next = next.expect("more than a page").0;
    assert!((500..2_000).contains(&next) && first.iter().copied().eq(1..next), "{next}");
    assert_eq!(page(&mut bench, client, next), ((next..=2_005).collect(), None), "the rest takes less than a page");
    assert_eq!(page(&mut bench, client, 2_005), (vec![2_005], None));
}

#[test]
fn cancelling_a_waiting_job_ends_it() {
    let mut bench = Bench::new();
    let client = bench.client(7);
    let job = bench.submit(client, 1);
    bench.say(client, ClientToMaster::ChangeConf(Box::new(Change::Cancel(vec![job]))));
    assert_eq!(words(&bench.heard(client)), ["Answer", "Finished"]);
    assert_eq!(bench.jobs()[0].state, JobState::Cancelled);
}

#[test]
fn cancelling_before_go_withdraws_and_after_it_stops() {
    let mut bench = Bench::new();
    let (n1, n2) = (bench.node("n1"), bench.node("n2"));
    let client = bench.client(7);
    let job = bench.submit(client, 1);
    let (running, attempt) = bench.running(client, n2, 2);
    bench.orders(n1);
    bench.say(client, ClientToMaster::ChangeConf(Box::new(Change::Cancel(vec![job, running]))));
    assert_eq!(bench.orders(n1), [MasterToNode::Drop { job, attempt }]);
    let grace = Span::from_secs(30);
    assert_eq!(bench.orders(n2), [MasterToNode::Stop { job: running, attempt, grace }]);
    // An acknowledgement was on its way.
    bench.report(n1, NodeToMaster::JobAck { job, attempt });
    assert_eq!(bench.orders(n1), [MasterToNode::Drop { job, attempt }]);
    let states: Vec<_> = bench.jobs().iter().map(|report| report.state).collect();
    assert_eq!(states, [JobState::Cancelled, JobState::Stopping]);
    let usage = Usage::default();
    bench.report(n2, NodeToMaster::Ended { job: running, attempt, outcome: Outcome::Signaled(15), usage });
    assert_eq!(bench.jobs()[1].state, JobState::Cancelled);
}

#[test]
fn only_good_runs_teach() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let client = bench.client(7);
    for (key, code) in [(1, 0), (2, 1)] {
        let (job, attempt) = bench.running(client, node, key);
        bench.report(node, ended(job, attempt, code));
    }
    let [lesson] = bench.lessons.as_slice() else { panic!("{:?}", bench.lessons) };
    assert_eq!((lesson.job, lesson.key.to_string().as_str()), (JobId(1), "cg on xeon, 1 core"));
    assert_eq!(lesson.energy.over(lesson.duration), Power::from_watts(60));
}

/// The whole run draws 60 W.
#[test]
fn a_packed_run_teaches_what_one_task_needs() {
    let mut bench = Bench::new();
    let mut registration = slave("n1", "boot", Vec::new());
    registration.slave.spec.units[0].cores = 2;
    let node = bench.peer();
    bench.input(Input::NodeConnected(node));
    bench.register(node, registration);
    let client = bench.client(7);
    let submission = exec_with(1, |exec| {
        let tasks = NonZeroU32::new(2).expect("two");
        let cores = Cores::Count(NonZeroU32::MIN);
        exec.request.spread = Some(limo_model::Spread { tasks, cores, nodes: None, per_node: None });
        exec.request.arrange = limo_model::Arrange::Pack;
        exec.launch.parallel = Some(limo_proto::Parallel::default());
    });
    bench.say(client, submission);
    let orders = bench.orders(node);
    let Some(MasterToNode::DoExec(exec)) = orders.last() else { panic!("{orders:?}") };
    assert_eq!(exec.share.as_ref().map(limo_proto::Share::own), Some((0, 2)));
    let (job, attempt) = (JobId(1), Attempt(1));
    bench.report(node, NodeToMaster::JobAck { job, attempt });
    bench.report(node, NodeToMaster::Started { job, attempt });
    bench.report(node, ended(job, attempt, 0));
    let [lesson] = bench.lessons.as_slice() else { panic!("{:?}", bench.lessons) };
    assert_eq!(lesson.key.to_string(), "cg on xeon, 1 core");
    assert_eq!(lesson.energy.over(lesson.duration), Power::from_watts(30));
}

#[test]
fn bad_submissions_are_refused() {
    let mut bench = Bench::new();
    bench.node("n1");
    let client = bench.client(7);
    let mut check = |expected: &str, change: &dyn Fn(&mut SendExec)| {
        bench.heard(client);
        bench.say(client, exec_with(9, change));
        let heard = bench.heard(client);
        let reason = refusal(heard.first());
        assert!(reason.contains(expected), "`{expected}` is not in `{reason}`");
    };
    check("there is no command to run", &|exec| exec.launch.argv.clear());
    check("the application is empty", &|exec| exec.request.application.clear());
    check("control characters", &|exec| exec.request.name = "a\nb".into());
    check("the file for output: `%q` is unknown", &|exec| exec.launch.files.stdout = Some(b"%q".to_vec()));
    // The job came in one frame, but would be sent in a frame that is too large.
    let large = vec![b'x'; limo_proto::BODY_LIMIT - 4096];
    check("the limit is 1044480", &|exec| exec.launch.carried = Some(large.clone()));
    check("the umask 1777", &|exec| exec.launch.umask = 0o1777);
    check("no command for the variant `gpu`", &|exec| exec.request.variants = vec!["gpu".into()]);
    check("the time limit, which must be above zero, is negative", &|exec| {
        exec.request.time_limit = Some(Span::ZERO);
    });
    let spread = |tasks| limo_model::Spread {
        tasks: NonZeroU32::new(tasks).expect("some"),
        cores: Cores::Count(NonZeroU32::MIN),
        nodes: None,
        per_node: None,
    };
    check("only in simulations", &|exec| exec.request.malleable = true);
    check("must state how they share its streams", &|exec| exec.request.spread = Some(spread(1)));
    check("must state how they share its streams", &|exec| exec.request.nodes = NonZeroU32::new(2).expect("two"));
    let parallel = limo_proto::Parallel { reader: Some(1), ..limo_proto::Parallel::default() };
    check("standard input is for task 1: there are 1", &|exec| {
        (exec.request.spread, exec.launch.parallel) = (Some(spread(1)), Some(parallel));
    });
    check("a terminal is for a job of one task", &|exec| {
        (exec.request.spread, exec.launch.parallel) = (Some(spread(2)), Some(limo_proto::Parallel::default()));
        exec.launch.terminal = Some(limo_proto::WindowSize::default());
    });
    check("2 tasks of 1 cores do not fit", &|exec| {
        (exec.request.spread, exec.launch.parallel) = (Some(spread(2)), Some(limo_proto::Parallel::default()));
    });
    check("asks for 2 cores", &|exec| exec.request.cores = Cores::Count(NonZeroU32::new(2).expect("two")));
    check("there is no node `n9`", &|exec| exec.request.include = vec!["n9".into()]);
    assert!(bench.jobs().is_empty());
}

#[test]
fn waiting_for_jobs_ends_with_the_last() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let client = bench.client(7);
    let (first, attempt) = bench.running(client, node, 1);
    let second = bench.submit(client, 2);
    let watcher = bench.client(8);
    bench.say(watcher, ClientToMaster::Ask(Box::new(Query::Wait(WaitQuery(vec![second, first])))));
    bench.report(node, ended(first, attempt, 0));
    assert!(bench.heard(watcher).is_empty());
    bench.say(client, ClientToMaster::ChangeConf(Box::new(Change::Cancel(vec![second]))));
    let heard = bench.heard(watcher);
    let [MasterToClient::Answer(answer)] = heard.as_slice() else { panic!("{heard:?}") };
    let Answer::Jobs(jobs) = answer.as_ref() else { panic!("{answer:?}") };
    assert_eq!(jobs.iter().map(|job| job.state).collect::<Vec<_>>(), [JobState::Completed, JobState::Cancelled]);
    let unknown = bench.ask(watcher, Query::Wait(WaitQuery(vec![JobId(99)])));
    assert_eq!(refusal(Some(&unknown)), "there is no job 99");
}

/// The run draws 60 W, the profile says 50 W: the unit moves by 1/5 of 20 %.
#[test]
fn a_unit_is_compared_with_the_profile_of_its_hardware() {
    let factors_after = |runs: u32| {
        let mut bench = Bench::new();
        let node = bench.node("n1");
        let client = bench.client(7);
        let (job, attempt) = bench.running(client, node, 1);
        let key = limo_model::ProfileKey {
            application: "cg".into(),
            size: String::new(),
            hardware: "xeon".into(),
            cores: Some(1),
            nodes: None,
            cap: None,
        };
        let (power, duration) = (Power::from_watts(50), Span::from_secs(10));
        let (energy, source) = (power * duration, limo_model::EstimateSource::Learned);
        let profile = limo_model::Profile { duration, power, energy, spread_permille: 0, runs, source };
        bench.input(Input::Learned(key, profile));
        let energy = Some(Energy::from_joules(600));
        let usage = Usage { elapsed: duration, energy, confidence: 1_000, ..Usage::default() };
        bench.report(node, NodeToMaster::Ended { job, attempt, outcome: Outcome::Exited(0), usage });
        let factors = bench.controller.tx.core.variation().iter();
        factors.map(|(key, factor)| (key.application, factor.power, factor.duration, factor.runs)).collect::<Vec<_>>()
    };
    assert_eq!(factors_after(4), [("cg".to_owned(), 1_040_000, 1_000_000, 1)]);
    assert_eq!(factors_after(3), [], "the profile is not sure enough");
}
