//! The master's state is lost, or replaced by an older copy. Nodes end the earlier jobs, and never confuse them with
//! jobs of the new journal that have the same number.

use std::fs;
use std::process::Command;

use limo_requirements::{Requirement, skip};
use limo_tests::{Cluster, finish, until};

/// Script that prints its identity about ten times a second.
const SECRET: &str = "while :; do echo secret; sleep 0.1; done";

fn wipe(cluster: &Cluster) {
    fs::remove_dir_all(cluster.state_dir()).expect("wiped");
    fs::create_dir(cluster.state_dir()).expect("made again");
}

#[test]
fn a_job_of_a_lost_master_is_ended_and_its_output_reaches_no_other_job() {
    let mut cluster = Cluster::of_one_node(2);
    let submitter = cluster.submitter().clone();
    let mut victim = submitter.spawn_lrun(&["sh", "-c", SECRET]);
    until("job 1 runs", || submitter.jobs().iter().any(|job| job["state"] == "running").then_some(()));
    let old = cluster.job_processes();
    assert!(!old.is_empty());
    cluster.kill_master();
    victim.kill().expect("it is there");
    victim.wait().expect("an own child");
    wipe(&cluster);
    cluster.start_master();
    // The job is submitted before the node is back, so that both jobs have the number 1 and could be confused.
    let lrun = submitter.spawn_lrun(&["sh", "-c", "echo mine; exit 4"]);
    let ran = finish(lrun);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(4), "mine\n"), "{}", ran.stderr);
    assert_eq!(submitter.jobs().len(), 0);
    cluster.await_node("n1");
    until("nothing of the old job is left", || {
        let left = cluster.job_processes();
        old.iter().all(|process| !left.iter().any(|left| left.pid == process.pid)).then_some(())
    });
    let status = submitter.lconf(&["status"]).succeeded();
    assert!(status.contains("FOREIGN") && status.contains("of another journal"), "{status}");
    let log = cluster.master_log();
    assert!(log.contains("a node had a job of another journal") && log.contains("job=1"), "{log}");
}

#[test]
fn a_restored_backup_ends_unknown_jobs_and_numbers_continue_above_them() {
    let mut cluster = Cluster::of_one_node(4);
    let submitter = cluster.submitter().clone();
    let held = submitter.detach(&["-H", "sh", "-c", "echo restored"]);
    submitter.lconf(&["backup", "limo.tar"]).succeeded();
    let later: Vec<u64> = (0..3).map(|_| submitter.detach(&["sleep", "1000"])).collect();
    until("they run", || (submitter.jobs().iter().filter(|job| job["state"] == "running").count() == 3).then_some(()));
    cluster.kill_master();
    wipe(&cluster);
    let archive = submitter.path("limo.tar");
    let tar = Command::new("tar").arg("-xpf").arg(archive).arg("-C").arg(cluster.state_dir()).status();
    if !tar.is_ok_and(|status| status.success()) {
        return skip(Requirement::Platform, "there is no tar to restore the backup with");
    }
    cluster.start_master();
    cluster.await_node("n1");
    until("what the backup does not know is ended", || cluster.job_processes().is_empty().then_some(()));
    assert_eq!(submitter.jobs().len(), 1);
    submitter.lq(&["release", &held.to_string()]).succeeded();
    assert_eq!(submitter.wait(held), Some(0));
    let next = submitter.detach(&["true"]);
    assert_eq!(next, later[2] + 1, "numbers that were given are not given again");
    assert_eq!(submitter.wait(next), Some(0));
    // A second start of the restored journal is an ordinary restart: running jobs continue.
    let running = submitter.detach(&["sh", "-c", "until [ -e go ]; do sleep 0.05; done"]);
    until("it runs", || (submitter.state(running) == "running").then_some(()));
    cluster.kill_master();
    cluster.start_master();
    cluster.await_node("n1");
    fs::write(submitter.path("go"), "").expect("written");
    assert_eq!(submitter.wait(running), Some(0));
}
