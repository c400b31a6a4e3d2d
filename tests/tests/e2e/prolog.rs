//! The prolog and epilog of a node.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use limo_tests::{Cluster, NodeSetup, Setup, finish, sorted_lines, until};
use tempfile::TempDir;

/// Directory of the programs and the files that they write.
struct Programs(TempDir);

impl Programs {
    fn new() -> Self {
        Self(tempfile::Builder::new().prefix("limo-").tempdir().expect("a directory"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a shell script, which runs in the directory.
    fn write(&self, name: &str, script: &str) -> String {
        let path = self.path().join(name);
        let fresh = self.path().join(format!("{name}.new"));
        fs::write(&fresh, format!("#!/bin/sh\ncd {}\n{script}\n", self.path().display())).expect("written");
        fs::set_permissions(&fresh, Permissions::from_mode(0o755)).expect("own file");
        // The kernel may still execute the old file.
        fs::rename(fresh, &path).expect("renamed");
        path.display().to_string()
    }

    /// Returns a node with these scripts; an empty one stands for none.
    fn node(&self, name: &str, (prolog, epilog): (&str, &str), time_limit: &str) -> NodeSetup {
        let mut settings = String::new();
        for (table, script) in [("prolog", prolog), ("epilog", epilog)] {
            if !script.is_empty() {
                let program = self.write(&format!("{name}-{table}"), script);
                settings += &format!("[{table}]\nprogram = \"{program}\"\ntime_limit = \"{time_limit}\"\n");
            }
        }
        let path = self.path().join(format!("{name}.toml"));
        fs::write(&path, settings).expect("written");
        let options = ["--cpus".to_owned(), "1".to_owned(), "--config".to_owned(), path.display().to_string()];
        NodeSetup { name: name.to_owned(), options: options.into() }
    }

    /// Returns the lines that the scripts wrote to `log`.
    fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path().join("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn await_file(&self, name: &str) {
        until(&format!("{name} exists"), || self.path().join(name).exists().then_some(()));
    }
}

fn cluster(nodes: Vec<NodeSetup>) -> Cluster {
    Setup { nodes, ..Setup::default() }.start()
}

/// Waits until the node is drained, and returns the reason.
fn drained(cluster: &Cluster, node: &str) -> String {
    let report = || cluster.node_report(node).filter(|report| report["state"] == "drained");
    let report = until(&format!("{node} is drained"), report);
    let reason = report["reason"].as_str().expect("a reason");
    reason.strip_suffix(" (lslave)").expect("the node asked for it").to_owned()
}

#[test]
fn a_prolog_and_an_epilog_surround_a_job() {
    let programs = Programs::new();
    let epilog = "test $LIMO_RESTART_COUNT = 0 && test -z \"$HOME\" && echo epilog $LIMO_JOB_ID >> log";
    let prolog = "echo prolog $LIMO_JOB_ID $LIMO_JOB_NAME $LIMO_JOB_USER $LIMO_JOB_UID $LIMO_NODE >> log; echo hello";
    let cluster = cluster(vec![programs.node("n1", (prolog, epilog), "1min")]);
    let submitter = cluster.submitter();
    let job = format!("echo job >> {}/log; cat; exit 5", programs.path().display());
    let ran = submitter.shell(&format!("echo in | $LRUN -J tidy sh -c '{job}'"));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), "in\n"), "{ran:?}");
    let report = submitter.job(1);
    let user = report["user"].as_str().expect("a user");
    let uid = nix::unistd::geteuid();
    // `lrun` has returned after the epilog.
    assert_eq!(programs.log(), [format!("prolog 1 tidy {user} {uid} n1"), "job".into(), "epilog 1".into()]);
    let log = cluster.node_log("n1");
    assert!(log.contains("prolog: hello"), "{log}");
    assert_eq!(cluster.node_report("n1").expect("known")["state"], "up");
}

#[test]
fn a_failed_prolog_drains_its_node_and_the_job_runs_elsewhere() {
    let programs = Programs::new();
    let mut cluster = cluster(vec![programs.node("n1", ("echo no scratch >&2; exit 3", "touch epilog"), "1min")]);
    let submitter = cluster.submitter().clone();
    let mut lrun = submitter.spawn_lrun(&["sh", "-c", "cat; echo $LIMO_NODE"]);
    assert_eq!(drained(&cluster, "n1"), "the prolog of job 1 failed with exit code 3: no scratch");
    // The epilog also cleans up after a failed prolog.
    programs.await_file("epilog");
    until("the job waits", || (submitter.state(1) == "waiting").then_some(()));
    cluster.add_node(&programs.node("n2", ("", ""), "1min"));
    std::io::Write::write_all(&mut lrun.stdin.take().expect("piped"), b"in\n").expect("lrun is there");
    let ran = finish(lrun);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "in\nn2\n"), "{ran:?}");
    let history = submitter.lconf(&["history", "--json"]).succeeded();
    assert!(history.contains("\"by\":\"lslave\""), "{history}");
}

#[test]
fn a_program_above_its_time_limit_is_killed_with_its_children() {
    let programs = Programs::new();
    let cluster = cluster(vec![programs.node("n1", ("sleep 1000 & echo $! > child; wait", ""), "300ms")]);
    cluster.submitter().detach(&["true"]);
    assert_eq!(drained(&cluster, "n1"), "the prolog of job 1 exceeded its time limit of 300ms");
    let child = fs::read_to_string(programs.path().join("child")).expect("written");
    let child = format!("/proc/{}/stat", child.trim());
    until("the child is killed", || {
        let state = fs::read_to_string(&child).unwrap_or_default();
        (state.is_empty() || state.contains(") Z ")).then_some(())
    });
}

#[test]
fn a_failed_epilog_drains_its_node_and_the_end_of_the_job_is_unharmed() {
    let programs = Programs::new();
    let cluster = cluster(vec![programs.node("n1", ("", "kill -9 $$"), "1min")]);
    let submitter = cluster.submitter();
    assert_eq!(submitter.lrun(&["sh", "-c", "exit 7"]).code, Some(7));
    assert_eq!(drained(&cluster, "n1"), "the epilog of job 1 was ended by signal 9");
    submitter.lconf(&["node", "resume", "n1"]).succeeded();
    programs.write("n1-epilog", "true");
    assert_eq!(submitter.lrun(&["true"]).code, Some(0));
}

#[test]
fn the_cancellation_of_a_job_ends_its_prolog() {
    let programs = Programs::new();
    let scripts = ("touch prolog; sleep 1000", "touch epilog");
    let cluster = cluster(vec![programs.node("n1", scripts, "1min")]);
    let submitter = cluster.submitter();
    let job = submitter.detach(&["touch", "ran"]);
    programs.await_file("prolog");
    submitter.lq(&["cancel", &job.to_string()]).succeeded();
    until("the job is cancelled", || (submitter.state(job) == "cancelled").then_some(()));
    programs.await_file("epilog");
    assert!(!submitter.path("ran").exists());
    assert_eq!(cluster.node_report("n1").expect("known")["state"], "up");
}

#[test]
fn a_job_whose_prolog_a_killed_daemon_interrupted_runs_once() {
    let programs = Programs::new();
    let prolog = "echo prolog >> log; touch prolog; until [ -e go ]; do sleep 0.02; done";
    let nodes = vec![programs.node("n1", (prolog, "echo epilog >> log"), "1min")];
    let mut cluster = Setup { nodes, ..Setup::default() }.master(&["--suspect-for", "100ms"]).start();
    let submitter = cluster.submitter().clone();
    let job = submitter.detach(&["sh", "-c", &format!("echo job >> {}/log; exit 6", programs.path().display())]);
    programs.await_file("prolog");
    cluster.kill_node("n1");
    fs::write(programs.path().join("go"), "").expect("written");
    cluster.start_node("n1");
    assert_eq!(submitter.wait(job), Some(6));
    // The master has taken the first attempt back.
    assert_eq!(programs.log(), ["prolog", "epilog", "prolog", "job", "epilog"]);
    assert_eq!(cluster.node_report("n1").expect("known")["state"], "up");
}

#[test]
fn a_prolog_goes_on_while_the_master_is_replaced() {
    let programs = Programs::new();
    let prolog = "echo prolog >> log; touch prolog; until [ -e go ]; do sleep 0.02; done";
    let mut cluster = cluster(vec![programs.node("n1", (prolog, "echo epilog >> log"), "1min")]);
    let submitter = cluster.submitter().clone();
    let job = submitter.detach(&["sh", "-c", &format!("echo job >> {}/log", programs.path().display())]);
    programs.await_file("prolog");
    cluster.kill_master();
    cluster.start_master();
    cluster.await_node("n1");
    fs::write(programs.path().join("go"), "").expect("written");
    assert_eq!(submitter.wait(job), Some(0));
    assert_eq!(programs.log(), ["prolog", "job", "epilog"]);
}

#[test]
fn an_epilog_that_a_killed_daemon_interrupted_runs_again() {
    let programs = Programs::new();
    let epilog = "echo epilog >> log; touch epilog; until [ -e go ]; do sleep 0.02; done";
    let mut cluster = cluster(vec![programs.node("n1", ("", epilog), "1min")]);
    let submitter = cluster.submitter().clone();
    let job = submitter.detach(&["sh", "-c", &format!("echo job >> {}/log; exit 6", programs.path().display())]);
    programs.await_file("epilog");
    assert_eq!(submitter.state(job), "running", "its resources stay taken");
    cluster.kill_node("n1");
    fs::write(programs.path().join("go"), "").expect("written");
    cluster.start_node("n1");
    assert_eq!(submitter.wait(job), Some(6));
    assert_eq!(programs.log(), ["job", "epilog", "epilog"]);
}

#[test]
fn a_job_over_several_nodes_waits_again_if_one_of_them_is_not_prepared() {
    let programs = Programs::new();
    let nodes = vec![programs.node("n1", ("true", ""), "1min"), programs.node("n2", ("exit 1", ""), "1min")];
    let cluster = cluster(nodes);
    let submitter = cluster.submitter();
    let mut lrun = submitter.spawn_lrun(&["-N", "2", "sh", "-c", "cat; echo $LIMO_NODE | tee ran-$LIMO_NODE"]);
    assert_eq!(drained(&cluster, "n2"), "the prolog of job 1 failed with exit code 1");
    until("the job waits", || (submitter.state(1) == "waiting").then_some(()));
    assert!(!submitter.path("ran-n1").exists(), "no node starts it before all are prepared");
    programs.write("n2-prolog", "true");
    submitter.lconf(&["node", "resume", "n2"]).succeeded();
    std::io::Write::write_all(&mut lrun.stdin.take().expect("piped"), b"in\n").expect("lrun is there");
    let ran = finish(lrun);
    assert_eq!((ran.code, sorted_lines(&ran.stdout).as_str()), (Some(0), "in\nin\nn1\nn2\n"), "{ran:?}");
}
