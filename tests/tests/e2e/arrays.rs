//! Arrays: many tasks of one submission.

use std::fs;
use std::thread;

use limo_tests::{Cluster, Ledger, Setup, until};

const TELL: &str = "echo $LIMO_ARRAY_JOB_ID $LIMO_ARRAY_TASK_ID/$LIMO_ARRAY_TASK_COUNT \
                    $LIMO_ARRAY_TASK_MIN-$LIMO_ARRAY_TASK_MAX $LIMO_ARRAY_ENTRY";

#[test]
fn each_task_runs_once_with_its_number() {
    let cluster = Cluster::of_one_node(2);
    let submitter = cluster.submitter();
    let array = submitter.detach(&["-a", "1,4-8:2", "sh", "-c", &format!("{TELL}; exit $LIMO_ARRAY_TASK_ID")]);
    assert_eq!(array, 1);
    assert_eq!(submitter.wait(array), Some(8), "the highest exit code");
    for task in [1, 4, 6, 8] {
        assert_eq!(submitter.read(format!("limo-1_{task}.out")), format!("1 {task}/4 1-8\n"));
    }
    let shown = submitter.job(array);
    let counts = &shown["array"];
    assert_eq!((&counts["completed_count"], &counts["failed_count"]), (&0.into(), &4.into()), "{shown}");
    assert_eq!((&shown["state"], &shown["exit_code"]), (&"failed".into(), &8.into()), "{shown}");
    // The tasks have the numbers that follow the array's own. The next job has the number after them.
    let task = submitter.job(3);
    assert_eq!((&task["array_id"], &task["task"], &task["exit_code"]), (&1.into(), &4.into(), &4.into()), "{task}");
    let sums: serde_json::Value = serde_json::from_str(&submitter.lq(&["energy", "--json"]).succeeded()).expect("JSON");
    assert_eq!(sums["total"]["jobs"], 4, "what its tasks used counts once: {sums}");
    assert_eq!(submitter.detach(&["true"]), 6);
}

#[test]
fn a_task_for_each_line_into_files_of_their_own() {
    let cluster = Cluster::of_one_node(2);
    let submitter = cluster.submitter();
    fs::write(submitter.path("lines"), "a\nb b\nc\n").expect("written");
    let array = submitter.detach(&["--each-line", "lines", "-o", "%A-%a-%x", "-J", "t", "sh", "-c", TELL]);
    assert_eq!(submitter.wait(array), Some(0));
    for (task, line) in ["a", "b b", "c"].iter().enumerate() {
        assert_eq!(submitter.read(format!("1-{task}-t")), format!("1 {task}/3 0-2 {line}\n"));
    }
    let some = submitter.detach(&["--each-line", "lines", "-a", "2", "-o", "some", "sh", "-c", TELL]);
    assert_eq!(submitter.wait(some), Some(0));
    assert_eq!(submitter.read("some"), format!("{some} 2/1 2-2 c\n"));
}

#[test]
fn invalid_arrays_are_refused_by_name() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let refused = |arguments: &[&str], words: &str| submitter.lrun(arguments).failed(words);
    refused(&["-a", "5-1", "--detach", "true"], "`5-1` ends before it begins");
    refused(&["-a", "0-10000000", "--detach", "true"], "10000001 tasks: the limit is 10000000");
    refused(&["-a", "0-1", "true"], "--detach");
    refused(&["--each-line", "nothing-here", "--detach", "true"], "nothing-here: No such file or directory");
    assert!(submitter.jobs().is_empty());
}

#[test]
fn at_most_so_many_at_a_time_and_the_whole_is_cancelled() {
    let cluster = Cluster::of_one_node(8);
    let submitter = cluster.submitter();
    let array = submitter.detach(&["-a", "0-999999%3", "sleep", "1000"]);
    let three = || {
        let running = submitter.jobs().iter().filter(|job| job["state"] == "running").count();
        (running == 3).then_some(())
    };
    until("three run", three);
    let jobs = submitter.jobs();
    assert_eq!(jobs.len(), 4, "what waits is folded: {jobs:?}");
    assert_eq!(jobs[0]["array"]["waiting"], "3-999999%3");
    assert!(submitter.lq(&[]).succeeded().contains("1_[3-999999%3]  sleep "));
    submitter.lq(&["cancel", "3"]).succeeded();
    until("the next one has its place", || {
        submitter.jobs().iter().any(|job| job["task"] == 3 && job["state"] == "running").then_some(())
    });
    submitter.lq(&["cancel", &array.to_string()]).succeeded();
    assert_eq!(submitter.wait(array), Some(125));
    assert!(submitter.jobs().is_empty());
    assert_eq!(submitter.job(array)["state"], "cancelled");
    until("nothing is left of it", || cluster.job_processes().is_empty().then_some(()));
}

#[test]
fn tasks_are_named_by_their_numbers() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let script = "until [ -e go ]; do sleep 0.05; done; exit $((LIMO_ARRAY_TASK_ID / 10))";
    let array = submitter.detach(&["-a", "10-500:10%1", "-o", "none", "sh", "-c", script]);
    let later = submitter.detach(&["--hold", "-a", "0-3", "true"]);
    // Most of these tasks are not jobs yet.
    let cancelled = submitter.lq(&["cancel", "--json", "1_[40-480:10]", "1_500"]).succeeded();
    let cancelled: serde_json::Value = serde_json::from_str(&cancelled).expect("JSON");
    assert!(cancelled["cancelled"].as_array().is_some_and(|jobs| jobs.len() > 40), "{cancelled}");
    fs::write(submitter.path("go"), "").expect("written");
    assert_eq!(submitter.wait(array), Some(49), "the highest exit code of those that ran, of task 490");
    let waited = submitter.lrun(&["--wait", "-Q", "-a", "1-2", "-o", "none", "sh", "-c", "exit $LIMO_ARRAY_TASK_ID"]);
    assert_eq!((waited.code, waited.stderr.as_str()), (Some(2), ""));
    let task = |name: &str| submitter.lq(&["wait", name]).code;
    assert_eq!((task("1_20"), task("1_10-20:10"), task("1_480")), (Some(2), Some(2), Some(125)));
    assert!(submitter.lq(&["show", "1_20"]).succeeded().contains("job          1_20\n"));
    submitter.lq(&["show", "1_15"]).failed("array 1 has no task 15: it has 10-500:10%1");
    submitter.lq(&["cancel", "1_20"]).failed("task 20 of array 1 is over");
    submitter.lq(&["show", "99_1"]).failed("there is no array 99");
    submitter.lq(&["hold", &format!("{later}_2")]).failed("has not become a job yet");
    submitter.lq(&["cancel", &format!("{later}_[1-2]")]).succeeded();
    assert!(submitter.lq(&[]).succeeded().contains(&format!("{later}_[0,3]")));
}

#[test]
fn no_task_is_lost_or_runs_twice_when_the_master_is_killed() {
    let mut cluster = Setup::nodes(2, 4).master(&["--snapshot-every", "50"]).start();
    let submitter = cluster.submitter().clone();
    fs::write(submitter.path("ledger"), "").expect("written");
    let array = submitter.detach(&["-a", "0-599", "-o", "none", "sh", "-c", "echo $LIMO_JOB_ID >> ledger"]);
    for part in 1..=4 {
        until("some have run", || (Ledger::read(&submitter, "ledger").count() > part * 100).then_some(()));
        cluster.kill_master();
        cluster.start_master();
    }
    let waited = thread::scope(|scope| scope.spawn(|| submitter.wait(array)).join().expect("it ends"));
    assert_eq!(waited, Some(0));
    let ledger = Ledger::read(&submitter, "ledger");
    assert_eq!((ledger.count(), ledger.twice()), (600, Vec::new()));
    assert_eq!(submitter.job(array)["array"]["completed_count"], 600);
}
