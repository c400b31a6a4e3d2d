//! A user's command that never starts does not affect other users' jobs on the node, and the node ends the launch.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use limo_tests::{Cluster, MARK, Person, processes, until};

/// Limit for the other user's command. These programs are not optimized, and other tests run at the same time.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns true if a process belongs to this user.
fn is_of(pid: i32, uid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.split_whitespace().take(2).eq(["Uid:", &uid.to_string()]))
}

#[test]
fn a_launch_that_its_user_stops_ends_with_a_reason_and_blocks_no_job() {
    let cluster = Cluster::of_one_node(4);
    let submitter = cluster.submitter();
    let Some(enemy) = Person::of(submitter, "daemon", &["limo-hostile", "lrun"]) else { return };
    let Some(honest) = Person::of(submitter, "bin", &["lrun"]) else { return };
    // The attack holds a write lease on its job's script for longer than a launch may take.
    let mut attack = enemy.command("limo-hostile", &["lease", "--for", "60s", "--master", &submitter.address]);
    attack.arg("--programs").arg(enemy.programs()).arg("--scratch").arg(&enemy.submitter.directory);
    let mut attack = attack.spawn().expect("executable");
    let uid = enemy.user.uid.as_raw();
    let held = until("the launch is held up", || {
        let all = processes(MARK, &submitter.mark);
        all.into_iter().find(|process| process.is_called("lshepherd") && is_of(process.pid, uid))
    });
    // The process already belongs to the user, who may stop it.
    let stopped = Command::new("kill").args(["-STOP", &held.pid.to_string()]).uid(uid).status();
    assert!(stopped.is_ok_and(|status| status.success()));
    let report = until("the launch is given up", || {
        let begin = Instant::now();
        assert_eq!(honest.run("lrun", &["-Q", "id", "-un"]).succeeded(), "bin\n");
        assert!(begin.elapsed() < PATIENCE, "another user waited for {:?}", begin.elapsed());
        let node = cluster.node_report("n1").expect("the master knows it");
        assert_eq!(node["state"], "up", "{node}");
        let report = submitter.job(1);
        report["end_unix_ms"].is_number().then_some(report)
    });
    let reason = report["end_reason"].as_str().expect("a reason");
    assert!(reason.contains("30 s"), "{report}");
    assert_eq!((&report["state"], &report["user"]), (&"failed".into(), &"daemon".into()), "{report}");
    attack.kill().expect("an own child");
    attack.wait().expect("an own child");
}
