//! Jobs that may not run yet: held jobs, jobs with a begin, dependants and singletons. Also requeued jobs.

use limo_tests::{Cluster, Submitter, finish, until};
use serde_json::{Value, json};

/// Waits until a job has a reason of this kind, and returns its report.
fn await_wait(submitter: &Submitter, job: u64, kind: &str) -> Value {
    until(&format!("job {job} is told: {kind}"), || {
        let report = submitter.job(job);
        (report["wait_kind"] == kind).then_some(report)
    })
}

/// Submits a job that appends a word to `log`.
fn detach(submitter: &Submitter, options: &[&str], word: &str) -> u64 {
    let script = format!("echo {word} >> log");
    submitter.detach(&[options, &["sh", "-c", &script]].concat())
}

#[test]
fn a_held_job_waits_until_it_is_released() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let job = detach(submitter, &["-H"], "held");
    let id = job.to_string();
    let report = await_wait(submitter, job, "held");
    let user = report["user"].as_str().expect("a user");
    assert_eq!((&report["held_by"], &report["state"]), (&json!(user), &json!("waiting")));
    assert_eq!(report["wait_reason"], format!("held: by {user}, until it is released"));
    let shown = submitter.lq(&["show", &id]).succeeded();
    assert!(shown.contains(&format!("held by      {user}\n")), "{shown}");
    let explained = submitter.lq(&["explain", &id]).succeeded();
    assert!(explained.starts_with(&format!("job {job} waits: held: by {user}")), "{explained}");
    assert_eq!(submitter.lrun(&["echo", "passed"]).succeeded(), "passed\n");
    assert_eq!(submitter.read("log"), "");
    assert_eq!(
        submitter.lq(&["release", &id, "--json"]).succeeded(),
        format!("{{\"schema\":1,\"released\":[{job}]}}\n")
    );
    assert_eq!((submitter.wait(job), submitter.read("log").as_str()), (Some(0), "held\n"));
    submitter.lq(&["release", &id]).failed(&format!("there is no waiting or running job {job}"));
}

#[test]
fn a_waiting_job_is_held_and_a_running_one_is_not() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let running = submitter.detach(&["sleep", "1000"]);
    until("it runs", || (submitter.state(running) == "running").then_some(()));
    let waiting = detach(submitter, &[], "waited");
    await_wait(submitter, waiting, "resources");
    let both = [running, waiting].map(|job| job.to_string());
    submitter.lq(&["hold", &both[1], &both[0]]).failed("job 1 does not wait: only a waiting job can be held");
    assert_eq!(submitter.job(waiting)["held_by"], Value::Null, "all or none");
    submitter.lq(&["release", &both[1]]).failed("job 2 is not held");
    assert_eq!(submitter.lq(&["hold", &both[1]]).succeeded(), "");
    submitter.lq(&["cancel", &both[0]]).succeeded();
    assert_eq!(submitter.wait(running), Some(143));
    await_wait(submitter, waiting, "held");
    submitter.lq(&["release", &both[1]]).succeeded();
    assert_eq!((submitter.wait(waiting), submitter.read("log").as_str()), (Some(0), "waited\n"));
    submitter.lrun(&["-H", "--immediate", "true"]).failed("--immediate");
}

#[test]
fn a_job_begins_at_its_time_and_not_before() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let late = detach(submitter, &["--begin", "now+1h"], "late");
    let report = await_wait(submitter, late, "begin");
    assert!(report["begin_unix_ms"].as_i64() > report["submit_unix_ms"].as_i64(), "{report}");
    let explained = submitter.lq(&["explain", &late.to_string()]).succeeded();
    assert!(explained.contains("\nbegin        "), "{explained}");
    let soon = detach(submitter, &["--begin", "now+2s"], "soon");
    assert_eq!(submitter.wait(soon), Some(0));
    let report = submitter.job(soon);
    assert!(report["start_unix_ms"].as_i64() >= report["begin_unix_ms"].as_i64(), "{report}");
    assert_eq!((submitter.read("log").as_str(), submitter.state(late).as_str()), ("soon\n", "waiting"));
    submitter.lrun(&["--begin", "now+1h", "--deadline", "now+30min", "true"]).failed("is not after --begin ");
    submitter.lrun(&["--begin", "now+1h", "--start-by", "now+30min", "true"]).failed("--start-by ");
    submitter.lrun(&["--begin", "now+1h", "-I", "true"]).failed("--immediate");
    submitter.lrun(&["--begin", "soon", "true"]).failed("`soon` is not a time");
    let dry = submitter.lrun(&["--dry-run", "--begin", "now+1h", "true"]).succeeded();
    assert!(dry.starts_with("would wait: begin: not before "), "{dry}");
}

#[test]
fn jobs_run_after_one_another_also_over_a_crash() {
    let mut cluster = Cluster::of_one_node(2);
    let submitter = cluster.submitter().clone();
    let first = detach(&submitter, &["-H"], "first");
    let second = detach(&submitter, &["-d", &format!("afterok:{first}")], "second");
    let third = detach(&submitter, &["-d", &format!("after:{first},afterany:{second}")], "third");
    let report = await_wait(&submitter, third, "dependency");
    assert_eq!(report["dependencies"], json!([format!("after:{first}"), format!("afterany:{second}")]));
    let shown = submitter.lq(&["show", &third.to_string()]).succeeded();
    assert!(shown.contains(&format!("depends on   after:{first}, afterany:{second}\n")), "{shown}");
    let dry = submitter.lrun(&["--dry-run", "-d", &format!("afterok:{first}"), "true"]).succeeded();
    assert!(dry.starts_with(&format!("would wait: dependency: job {first} ")), "{dry}");
    cluster.kill_master();
    cluster.start_master();
    cluster.await_node("n1");
    assert_eq!([first, second, third].map(|job| submitter.state(job)), ["waiting", "waiting", "waiting"]);
    submitter.lq(&["release", &first.to_string()]).succeeded();
    assert_eq!((submitter.wait(third), submitter.read("log").as_str()), (Some(0), "first\nsecond\nthird\n"));
}

#[test]
fn ends_of_finished_jobs_count() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    submitter.lrun(&["true"]).succeeded();
    assert_eq!(submitter.lrun(&["sh", "-c", "exit 3"]).code, Some(3));
    assert_eq!(submitter.lrun(&["-d", "afterok:1,afternotok:2,afterany:1:2", "echo", "x"]).succeeded(), "x\n");
    submitter.lrun(&["-d", "afterok:1:2", "true"]).failed("afterok:2 can never be met: job 2 exited with code 3");
    submitter.lrun(&["--dry-run", "-d", "afternotok:1", "true"]).failed("afternotok:1 can never be met");
    submitter.lrun(&["-d", "afterok:99", "true"]).failed("there is no job 99");
    submitter.lrun(&["-d", "afterok:1?afterok:2", "true"]).failed("`?` (any of several) is not supported");
    submitter.lrun(&["-d", "aftercorr:1", "true"]).failed("`aftercorr:1` is not a dependency");
}

#[test]
fn a_job_that_can_never_run_ends_and_says_why() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let held = detach(submitter, &["-H"], "never");
    let after = format!("afterok:{held}");
    let attached = submitter.spawn_lrun(&["-d", &after, "touch", "never"]);
    let waiting = held + 1;
    until("it is handed in", || (submitter.jobs().len() == 2).then_some(()));
    await_wait(submitter, waiting, "dependency");
    let instead = detach(submitter, &["-d", &format!("afternotok:{waiting}")], "instead");
    submitter.lq(&["cancel", &held.to_string()]).succeeded();
    finish(attached)
        .failed(&format!("cancelled before it started: {after} cannot be met because job {held} was cancelled"));
    assert_eq!(submitter.state(waiting), "cancelled");
    assert_eq!((submitter.wait(instead), submitter.read("log").as_str()), (Some(0), "instead\n"));
    assert!(!submitter.path("never").exists());
}

#[test]
fn a_singleton_is_alone_under_its_name() {
    let cluster = Cluster::of_one_node(2);
    let submitter = cluster.submitter();
    let first = detach(submitter, &["-J", "night", "-H"], "first");
    let second = detach(submitter, &["-J", "night", "-d", "singleton"], "second");
    let other = detach(submitter, &["-J", "day", "-d", "singleton"], "other");
    assert_eq!(submitter.wait(other), Some(0));
    let report = await_wait(submitter, second, "singleton");
    assert_eq!(report["wait_reason"], format!("singleton: job {first} of the same name is not over"));
    assert_eq!(report["dependencies"], json!(["singleton"]));
    submitter.lq(&["release", &first.to_string()]).succeeded();
    assert_eq!((submitter.wait(second), submitter.read("log").as_str()), (Some(0), "other\nfirst\nsecond\n"));
}

#[test]
fn a_job_that_may_runs_again_on_request() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let again = submitter.detach(&["--requeue", "sh", "-c", "echo begun >> log; exec sleep 1000"]);
    let begun = |times: usize| {
        until(&format!("it has begun {times} times"), || {
            (submitter.read("log").lines().count() == times && submitter.state(again) == "running").then_some(())
        });
    };
    begun(1);
    let id = again.to_string();
    let said = submitter.lq(&["requeue", &id, "--json"]).succeeded();
    assert_eq!(said, format!("{{\"schema\":1,\"requeued\":[{again}]}}\n"));
    begun(2);
    let once = detach(submitter, &[], "waits");
    submitter.lq(&["requeue", &once.to_string()]).failed("waits: only a running job can be requeued");
    submitter.lq(&["cancel", &id]).succeeded();
    assert_eq!((submitter.wait(again), submitter.wait(once)), (Some(143), Some(0)));
    let once = submitter.detach(&["sleep", "1000"]);
    until("it runs", || (submitter.state(once) == "running").then_some(()));
    submitter.lq(&["requeue", &once.to_string()]).failed("must not run twice: it was submitted without --requeue");
    submitter.lq(&["cancel", &once.to_string()]).succeeded();
}

#[test]
fn a_job_is_warned_ahead_of_its_time_limit_and_has_its_grace() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let script = "trap 'echo warned >> log' USR1; trap 'echo asked >> log' TERM; while :; do sleep 0.1; done";
    let options = ["-t", "3s", "--signal", "USR1@2s", "--kill-grace", "500ms"];
    let job = submitter.detach(&[&options[..], &["sh", "-c", script]].concat());
    assert_eq!((submitter.wait(job), submitter.state(job).as_str()), (Some(137), "timed_out"));
    assert_eq!(submitter.read("log"), "warned\nasked\n");
    let report = submitter.job(job);
    let ran = report["end_unix_ms"].as_i64().zip(report["start_unix_ms"].as_i64()).map(|(end, start)| end - start);
    // The master records a start slightly later, when the node has reported it. By default a job has 30 s of grace.
    assert!(ran.is_some_and(|ms| (3_000..30_000).contains(&ms)), "{report}");
    submitter.lrun(&["--kill-grace", "1h", "true"]).failed("a grace of 1h from TERM to KILL is not within 0 s to 30s");
    submitter.lrun(&["--signal", "USR1", "true"]).failed("--time");
    submitter
        .lrun(&["-t", "30s", "--signal", "USR1", "true"])
        .failed("1min before the end needs a longer time limit than 30s");
    submitter.lrun(&["-t", "1h", "--signal", "B:USR1", "true"]).failed("`B:USR1` is not a signal");
}
