//! `lrun` acts as its job: standard input, output and error, exit codes.

use std::fs;
use std::io::Write;
use std::thread;

use limo_tests::{Cluster, Ran, finish, until};

fn check(submitter: &limo_tests::Submitter, script: &str, code: i32, stdout: &str, stderr: &str) {
    let expected = Ran { code: Some(code), stdout: stdout.into(), stderr: stderr.into() };
    assert_eq!(submitter.lrun(&["sh", "-c", script]), expected, "{script}");
}

#[test]
fn the_streams_and_the_exit_code_of_a_job_are_those_of_lrun() {
    let cluster = Cluster::of_one_node(2);
    let submitter = cluster.submitter();
    let mut cat = submitter.spawn_lrun(&["cat"]);
    cat.stdin.take().expect("piped").write_all(b"hi\n").expect("written");
    assert_eq!(finish(cat), Ran { code: Some(0), stdout: "hi\n".into(), stderr: String::new() });
    check(submitter, "exit 7", 7, "", "");
    check(submitter, "echo out; echo err >&2; echo out again", 0, "out\nout again\n", "err\n");
    check(submitter, "cat", 0, "", "");
}

#[test]
fn a_job_that_cannot_be_started_says_why() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let missing = submitter.lrun(&["no-such-program"]);
    assert_eq!(missing.code, Some(127), "{missing:?}");
    assert!(missing.stderr.contains("command not found: no-such-program"), "{missing:?}");
    fs::write(submitter.path("plain"), "text").expect("written");
    let plain = submitter.lrun(&["./plain"]);
    assert_eq!(plain.code, Some(126), "{plain:?}");
    assert!(plain.stderr.contains("./plain"), "{plain:?}");
}

#[test]
fn a_job_ended_by_a_signal_gives_128_and_its_number() {
    let cluster = Cluster::of_one_node(1);
    for (signal, code) in [("TERM", 143), ("KILL", 137), ("SEGV", 139)] {
        let ran = cluster.submitter().lrun(&["sh", "-c", &format!("kill -{signal} $$")]);
        assert_eq!(ran.code, Some(code), "{ran:?}");
    }
}

#[test]
fn jobs_stand_in_pipelines() {
    let cluster = Cluster::of_one_node(4);
    let submitter = cluster.submitter();
    let script = "seq 1 100000 | $LRUN grep 7 | $LRUN sort -rn | $LRUN head -n 2; echo ${PIPESTATUS[*]}";
    let ran = submitter.shell(script);
    assert!(ran.stdout.starts_with("99997\n99987\n"), "{ran:?}");
    assert!(ran.stdout.ends_with(" 0\n"), "head ends well: {ran:?}");
}

#[test]
fn jobs_share_a_node_until_its_cores_are_taken() {
    let cluster = Cluster::of_one_node(3);
    let submitter = cluster.submitter();
    // Each job waits for all three, so they end only if they run at the same time.
    let script = "touch here.$LIMO_JOB_ID; until [ $(ls here.* | wc -l) -ge 3 ]; do sleep 0.02; done";
    let jobs: Vec<u64> = (0..3).map(|_| submitter.detach(&["sh", "-c", script])).collect();
    for job in &jobs {
        assert_eq!(submitter.wait(*job), Some(0));
    }
    let blocker = submitter.detach(&["-c", "3", "sh", "-c", "until [ -e go ]; do sleep 0.02; done"]);
    until("the blocker runs", || (submitter.state(blocker) == "running").then_some(()));
    let second = submitter.detach(&["true"]);
    until("the second job waits for cores", || {
        let job = submitter.job(second);
        (job["state"] == "waiting" && job["wait_kind"] == "resources").then_some(())
    });
    fs::write(submitter.path("go"), "").expect("written");
    assert_eq!((submitter.wait(blocker), submitter.wait(second)), (Some(0), Some(0)));
}

#[test]
fn a_detached_job_leaves_its_output_in_files() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let job = submitter.detach(&["sh", "-c", "echo out; echo err >&2; cat; exit 3"]);
    assert_eq!(submitter.wait(job), Some(3));
    assert_eq!(submitter.read(format!("limo-{job}.out")), "out\n");
    assert_eq!(submitter.read(format!("limo-{job}.err")), "err\n");
    let json = submitter.lrun(&["--detach", "--json", "true"]).succeeded();
    assert_eq!(json.trim_end(), format!("{{\"schema\":1,\"id\":{}}}", job + 1));
}

#[test]
fn a_job_that_cannot_start_at_once_is_refused_where_that_was_asked() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    assert_eq!(submitter.lrun(&["--immediate", "echo", "hi"]).succeeded(), "hi\n");
    let mut first = submitter.spawn_lrun(&["cat"]);
    until("the first job runs", || (submitter.jobs().first()?["state"] == "running").then_some(()));
    submitter.lrun(&["--immediate", "true"]).failed("job 3");
    drop(first.stdin.take());
    finish(first).succeeded();
    assert_eq!(submitter.state(3), "refused");
}

#[test]
fn many_at_once() {
    let cluster = limo_tests::Setup::nodes(2, 4).start();
    let submitter = cluster.submitter();
    thread::scope(|scope| {
        let runs: Vec<_> = (0..24)
            .map(|index| scope.spawn(move || submitter.lrun(&["sh", "-c", &format!("echo {index}; exit {index}")])))
            .collect();
        for (index, run) in runs.into_iter().enumerate() {
            let ran = run.join().expect("it ends");
            let code = i32::try_from(index).expect("small");
            assert_eq!((ran.code, ran.stdout), (Some(code), format!("{index}\n")));
        }
    });
}
