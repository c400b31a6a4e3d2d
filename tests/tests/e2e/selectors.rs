//! Jobs selected by ranges and words, and cancelled by their properties.

use limo_tests::{Cluster, Submitter, until};

/// Submits jobs that wait behind one on the only core. Returns its number, and the numbers of the waiting jobs.
fn queue(submitter: &Submitter, names: &[&str]) -> (u64, Vec<u64>) {
    let blocker = submitter.detach(&["-J", "blocker", "sleep", "1000"]);
    until("the blocker runs", || (submitter.state(blocker) == "running").then_some(()));
    (blocker, names.iter().map(|name| submitter.detach(&["-J", name, "true"])).collect())
}

fn states(submitter: &Submitter, jobs: &[u64]) -> Vec<String> {
    jobs.iter().map(|job| submitter.state(*job)).collect()
}

fn numbers(submitter: &Submitter, arguments: &[&str]) -> Vec<u64> {
    let all: Vec<&str> = ["show", "--json"].iter().chain(arguments).copied().collect();
    let json: serde_json::Value = serde_json::from_str(&submitter.lq(&all).succeeded()).expect("JSON");
    json["jobs"].as_array().expect("jobs").iter().map(|job| job["id"].as_u64().expect("a number")).collect()
}

#[test]
fn ranges_and_words_name_jobs() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    submitter.lq(&["show", "last"]).failed("has not submitted a job yet");
    submitter.lq(&["show", "2-5"]).failed("there is no job of 2-5: none was submitted yet");
    assert_eq!(submitter.lq(&["cancel", "all"]).code, Some(0), "nothing is a fine number of jobs");
    let over = submitter.detach(&["sh", "-c", "exit 3"]);
    // `last` is the newest job, even if it is over.
    assert_eq!((submitter.lq(&["wait", "last"]).code, numbers(submitter, &["last"])), (Some(3), vec![over]));
    let (blocker, waiting) = queue(submitter, &["a", "b", "c"]);
    let last = waiting[2];
    assert_eq!(numbers(submitter, &["1-99"]), [vec![over, blocker], waiting.clone()].concat());
    assert_eq!(numbers(submitter, &["last,2-3", "all", "1"]), [over, 2, 3, 4, last], "each once, in order");
    submitter.lq(&["show", "7-9"]).failed("there is no job of 7-9: the newest is 5");
    submitter.lq(&["explain", "1"]).failed("there is no waiting or running job 1");
    let text = until("the last jobs have a reason", || {
        let text = submitter.lq(&["explain", "4-5"]).succeeded();
        (text.matches(" waits: resources").count() == 2).then_some(text)
    });
    assert!(text.starts_with("job 4 waits") && text.contains("\n\njob 5 waits"), "{text}");
    let json = submitter.lq(&["explain", "all", "--json"]).succeeded();
    assert_eq!(json.lines().count(), 4, "one a line: {json}");
    // A range selects only its unfinished jobs.
    assert_eq!(submitter.lq(&["cancel", "1-3", "--json"]).succeeded(), "{\"schema\":1,\"cancelled\":[2,3]}\n");
    submitter.lq(&["cancel", "1"]).failed("there is no waiting or running job 1");
    assert_eq!(submitter.lq(&["wait", "2-3"]).code, Some(143));
    until("the rest is over", || (submitter.lq(&["wait", "all"]).code == Some(0)).then_some(()));
    assert_eq!(states(submitter, &[2, 3, 4, 5]), ["cancelled", "cancelled", "completed", "completed"]);
    submitter.lq(&["cancel", "1-9"]).failed("no job of 1-9 waits or runs");
}

#[test]
fn cancel_selects_by_user_state_name_and_node() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let (blocker, waiting) = queue(submitter, &["a", "b", "a", "c"]);
    let cancelled = |arguments: &[&str]| {
        let all: Vec<&str> = ["cancel", "--json"].iter().chain(arguments).copied().collect();
        submitter.lq(&all).succeeded()
    };
    let of = |jobs: &[u64]| format!("{{\"schema\":1,\"cancelled\":{jobs:?}}}\n").replace(", ", ",");
    assert_eq!(cancelled(&["-u", "nobody"]), of(&[]));
    assert_eq!(cancelled(&["--name", "a"]), of(&[waiting[0], waiting[2]]));
    // A listed job that does not match the filter is kept.
    assert_eq!(cancelled(&["-t", "running", &waiting[1].to_string()]), of(&[]));
    let user = submitter.job(blocker)["user"].as_str().expect("a name").to_owned();
    assert_eq!(cancelled(&["-u", &user, "-t", "PD"]), of(&[waiting[1], waiting[3]]));
    assert_eq!(submitter.state(blocker), "running");
    assert_eq!(cancelled(&["-w", "n1"]), of(&[blocker]));
    assert_eq!(submitter.wait(blocker), Some(143));
}

#[test]
fn a_signal_in_place_of_an_end() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let script = "trap 'echo got it; exit 9' USR1; touch ready; while :; do sleep 0.05; done";
    let job = submitter.detach(&["sh", "-c", script]);
    until("the trap is set", || submitter.path("ready").exists().then_some(()));
    let waiting = submitter.detach(&["true"]);
    let number = waiting.to_string();
    submitter.lq(&["cancel", "-s", "USR1", &number]).failed("does not run yet: no process can receive signal 10");
    // With a signal, `all` selects the user's own running jobs.
    let said = submitter.lq(&["cancel", "-s", "USR1", "all", "--json"]).succeeded();
    assert_eq!(said, format!("{{\"schema\":1,\"signal\":10,\"signalled\":[{job}]}}\n"));
    assert_eq!((submitter.wait(job), submitter.wait(waiting)), (Some(9), Some(0)));
    assert_eq!(submitter.read(format!("limo-{job}.out")), "got it\n");
    submitter.lq(&["cancel", "-s", "65", "1"]).failed("`65` is not a signal");
}
