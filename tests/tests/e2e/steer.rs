//! Running jobs lower their draw when the upper limit falls: real processes of real daemons, with emulated watts.

use limo_tests::{Cluster, Setup, until};
use serde_json::Value;

const HARDWARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/machines/capped.toml");

fn cluster() -> Cluster {
    Setup::default()
        .master(&["--readings-every", "20ms", "--least-off", "100ms", "--least-on", "100ms", "--kill-grace", "1s"])
        .node("n1", &["--hardware", HARDWARE, "--reading-interval", "100ms"])
        .start()
}

fn limit(cluster: &Cluster, high: &str) {
    cluster.submitter().lconf(&["set", "limits", "none", high]).succeeded();
}

/// Waits for the draw of the node and the cap of its unit.
fn await_draw(cluster: &Cluster, is_so: impl Fn(f64, Option<f64>) -> bool, what: &str) {
    until(what, || {
        let node = cluster.node_report("n1")?;
        is_so(node["draw_w"].as_f64()?, node["units"][0]["cap_w"].as_f64()).then_some(())
    });
}

/// Returns the kernel's states of the job's processes.
fn states(cluster: &Cluster) -> Vec<String> {
    let state = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(stat.rsplit(") ").next()?.split(' ').next()?.to_owned())
    };
    cluster.job_processes().iter().filter_map(|process| state(process.pid)).collect()
}

#[test]
fn a_job_is_capped_then_suspended_and_continues() {
    let mut cluster = cluster();
    let submitter = cluster.submitter().clone();
    let job = submitter.detach(&["--app", "steady", "sleep", "1000"]);
    await_draw(&cluster, |draw, cap| draw > 69.0 && cap.is_none(), "70 W without a cap");
    limit(&cluster, "50W");
    await_draw(&cluster, |draw, cap| draw <= 50.0 && cap.is_some_and(|cap| cap <= 40.0), "a cap of 40 W");
    // A reading may come before the report of the job's start.
    until("the job is running", || (submitter.state(job) == "running").then_some(()));
    limit(&cluster, "15W");
    until("the job is suspended", || (submitter.state(job) == "suspended").then_some(()));
    until("its processes stand still", || states(&cluster).iter().all(|state| state == "T").then_some(()));
    await_draw(&cluster, |draw, _| draw < 11.0, "10 W");
    cluster.kill_master();
    cluster.start_master();
    cluster.await_node("n1");
    assert_eq!(submitter.state(job), "suspended", "a master that was killed knows it");
    limit(&cluster, "none");
    until("the job goes on", || (submitter.state(job) == "running").then_some(()));
    until("its processes go on", || states(&cluster).iter().all(|state| state != "T").then_some(()));
    await_draw(&cluster, |draw, cap| draw > 69.0 && cap.is_none(), "70 W without a cap again");
    submitter.lq(&["cancel", &job.to_string()]).succeeded();
    assert_eq!(submitter.wait(job), Some(143));
}

#[test]
fn a_suspended_job_can_be_cancelled() {
    let cluster = cluster();
    let submitter = cluster.submitter();
    let job = submitter.detach(&["--app", "steady", "sleep", "1000"]);
    await_draw(&cluster, |draw, _| draw > 69.0, "70 W");
    limit(&cluster, "15W");
    until("the job is suspended", || (submitter.state(job) == "suspended").then_some(()));
    submitter.lq(&["cancel", &job.to_string()]).succeeded();
    assert_eq!(submitter.wait(job), Some(143));
    until("nothing is left of it", || cluster.job_processes().is_empty().then_some(()));
}

#[test]
fn a_requeued_job_runs_again_from_its_beginning() {
    let cluster = cluster();
    let submitter = cluster.submitter();
    let script = "echo $LIMO_RESTART_COUNT >> ran; test $(wc -l < ran) = 2 && exit 7; sleep 1000";
    let job = submitter.detach(&["--requeue", "--no-suspend", "--app", "steady", "sh", "-c", script]);
    until("it has begun", || (submitter.read("ran") == "0\n").then_some(()));
    await_draw(&cluster, |draw, _| draw > 69.0, "70 W");
    limit(&cluster, "15W");
    until("the job waits again", || (submitter.state(job) == "waiting").then_some(()));
    let shown: Value = submitter.job(job);
    assert_eq!(shown["wait_kind"], "band", "{shown}");
    limit(&cluster, "none");
    assert_eq!(submitter.wait(job), Some(7));
    assert_eq!(submitter.read("ran"), "0\n1\n", "it can tell how often it ran before");
}

/// Uses a job that counts in a file. The file does not grow while the job's processes are stopped.
#[test]
fn a_job_stays_suspended_until_both_causes_have_ended() {
    let mut cluster = cluster();
    let submitter = cluster.submitter().clone();
    let file = cluster.state_dir().join("count");
    let script = format!("while :; do echo >> '{}'; done", file.display());
    let job = submitter.detach(&["--app", "steady", "sh", "-c", &script]);
    let count = || std::fs::metadata(&file).map_or(0, |facts| facts.len());
    let grows = |since: u64| until("the job counts", || (count() > since).then_some(()));
    let stands_still = |cluster: &Cluster| {
        until("its processes stand still", || {
            let states = states(cluster);
            (!states.is_empty() && states.iter().all(|state| state == "T")).then_some(())
        });
    };
    let reason = || submitter.lq(&["--noheader", "-o", "st,reason:60"]).succeeded().trim().to_owned();
    let id = job.to_string();
    grows(0);
    until("the job is running", || (submitter.state(job) == "running").then_some(()));
    submitter.lq(&["suspend", &id]).succeeded();
    stands_still(&cluster);
    let counted = count();
    assert!(reason().starts_with("S  suspended by "), "{}", reason());
    submitter.lq(&["suspend", &id]).failed("is already suspended by");
    cluster.kill_master();
    cluster.start_master();
    cluster.await_node("n1");
    assert_eq!((submitter.state(job).as_str(), count()), ("suspended", counted), "a master that was killed knows it");
    submitter.lq(&["resume", &id]).succeeded();
    grows(counted);
    submitter.lq(&["resume", &id]).failed("is not suspended");
    // The limit suspends the job first, then a person does; the person resumes it first.
    limit(&cluster, "15W");
    until("the job is suspended", || (submitter.state(job) == "suspended").then_some(()));
    submitter.lq(&["resume", &id]).failed("is suspended for the upper limit: it continues as soon as there is room");
    submitter.lq(&["suspend", &id]).succeeded();
    assert!(reason().ends_with(": the upper limit 15.0 W"), "{}", reason());
    submitter.lq(&["resume", &id]).succeeded();
    stands_still(&cluster);
    let counted = count();
    submitter.lq(&["suspend", &id]).succeeded();
    limit(&cluster, "none");
    assert_eq!((submitter.state(job).as_str(), count()), ("suspended", counted), "a person still suspends it");
    submitter.lq(&["resume", &id]).succeeded();
    grows(counted);
    submitter.lq(&["cancel", &id]).succeeded();
    assert_eq!(submitter.wait(job), Some(143));
}
