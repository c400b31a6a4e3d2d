//! A full or failed disk under the master's state. New jobs are refused; a running one continues, and its end is not
//! lost. A node with a full disk takes no jobs, and loses none.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Child;
use std::time::{Duration, Instant};

use limo_requirements::SmallDisk;
use limo_tests::{Cluster, Setup, finish, until};

/// Size of the file systems that the tests fill, in bytes.
const SIZE: u64 = 8 << 20;

/// Starts a cluster whose master has its state on the disk, and job 1, which echoes a line and exits with 3. Returns
/// both, and the job's output.
fn with_a_job(disk: &SmallDisk) -> (Cluster, Child, impl Iterator<Item = String>) {
    let cluster = Setup { state_dir: Some(disk.path().join("state")), ..Setup::nodes(1, 2) }.start();
    let mut lrun = cluster.submitter().spawn_lrun(&["sh", "-c", "echo ready; read word; echo $word; exit 3"]);
    let mut lines = BufReader::new(lrun.stdout.take().expect("piped")).lines().map(|line| line.expect("readable"));
    assert_eq!(lines.next().as_deref(), Some("ready"));
    (cluster, lrun, lines)
}

#[test]
fn new_jobs_are_refused_and_the_end_of_a_running_one_is_kept() {
    let Some(disk) = SmallDisk::mount(SIZE) else { return };
    let (mut cluster, mut lrun, mut lines) = with_a_job(&disk);
    let submitter = cluster.submitter().clone();
    disk.fill();
    let mut accepted = Vec::new();
    // Free blocks inside the journal may hold some jobs.
    let refused = until("a job is refused", || {
        let ran = submitter.lrun(&["--detach", "touch", "never"]);
        if ran.code == Some(0) {
            accepted.push(ran.stdout.trim_end().parse::<u64>().expect("a number"));
        }
        (ran.code != Some(0)).then_some(ran)
    });
    assert!(refused.stderr.contains("full"), "{refused:?}");
    let status = submitter.lconf(&["status"]).succeeded();
    assert!(status.contains("TROUBLE") && status.contains("new jobs are refused"), "{status}");

    lrun.stdin.take().expect("piped").write_all(b"on and on\n").expect("lrun reads");
    assert_eq!(lines.next().as_deref(), Some("on and on"));
    assert_eq!(finish(lrun).code, Some(3));
    // The record of the end is on the full disk.
    cluster.kill_master();
    cluster.start_master();
    assert_eq!((&submitter.job(1)["exit_code"], &submitter.job(1)["state"]), (&3.into(), &"failed".into()));

    disk.make_room();
    let job = until("jobs are accepted again", || {
        let ran = submitter.lrun(&["--detach", "sh", "-c", "echo here"]);
        ran.stdout.trim_end().parse::<u64>().ok()
    });
    assert_eq!(submitter.wait(job), Some(0));
    assert_eq!(submitter.read(format!("limo-{job}.out")), "here\n");
    for job in accepted {
        assert_eq!(submitter.wait(job), Some(0), "accepted before the disk was full");
    }
}

/// Checks that submissions alone do not fill the disk: some space is reserved for accepted jobs, and cancelling frees
/// space.
#[test]
fn submissions_leave_room_for_the_ends_of_jobs() {
    let Some(disk) = SmallDisk::mount(64 << 20) else { return };
    let (cluster, mut lrun, mut lines) = with_a_job(&disk);
    let submitter = cluster.submitter();
    let large =
        || submitter.command("lrun", &["--detach", "--hold", "true"]).env("LARGE", "x".repeat(100_000)).output();
    let mut held = 0;
    let refused = loop {
        let output = large().expect("lrun runs");
        if !output.status.success() {
            break String::from_utf8_lossy(&output.stderr).into_owned();
        }
        held += 1;
    };
    assert!(held > 5 && refused.contains("the disk under the journal is almost full"), "{held}: {refused}");
    let status = submitter.lconf(&["status"]).succeeded();
    assert!(
        status.contains("TROUBLE") && status.contains("new jobs are refused") && !status.contains("read-only"),
        "{status}"
    );
    lrun.stdin.take().expect("piped").write_all(b"on and on\n").expect("lrun reads");
    assert_eq!(lines.next().as_deref(), Some("on and on"));
    assert_eq!(finish(lrun).code, Some(3));
    let end = submitter.job(1);
    assert_eq!((&end["exit_code"], &end["state"]), (&3.into(), &"failed".into()));

    submitter.lq(&["cancel", "all"]).succeeded();
    until("jobs are accepted again", || large().expect("lrun runs").status.success().then_some(()));
    assert!(!cluster.master_log().contains("read-only"), "{}", cluster.master_log());
}

/// Starts the master twice without any free space. It answers queries. A job continues with its streams, and its end
/// is recorded when there is space.
#[test]
fn a_read_only_master_answers_and_its_job_continues() {
    let Some(disk) = SmallDisk::mount(SIZE) else { return };
    let (mut cluster, mut lrun, mut lines) = with_a_job(&disk);
    let submitter = cluster.submitter().clone();
    cluster.terminate_master();
    fs::remove_file(disk.path().join("state/ballast")).expect("there");
    disk.fill();
    cluster.launch_master();
    // The master has no space to write its address.
    let answers = || Some(submitter.lconf(&["status"])).filter(|ran| ran.code == Some(0));
    let status = until("the master answers", answers).stdout;
    assert!(status.contains("the master is read-only: the disk under the journal is full"), "{status}");
    lrun.stdin.take().expect("piped").write_all(b"on and on\n").expect("lrun reads");
    assert_eq!(lines.next().as_deref(), Some("on and on"));
    cluster.kill_master();
    cluster.launch_master();
    until("the master answers", answers);
    assert_eq!(submitter.job(1)["state"], "running");
    submitter.lrun(&["--detach", "true"]).failed("new jobs are not accepted: the master is read-only");
    submitter.lq(&["cancel", "1"]).failed("the master is read-only");
    disk.make_room();
    let ran = finish(lrun);
    assert_eq!(ran.code, Some(3), "{ran:?}\n{}", cluster.master_log());
    assert_eq!((&submitter.job(1)["exit_code"], &submitter.job(1)["state"]), (&3.into(), &"failed".into()));
    until("jobs are accepted again", || (submitter.lrun(&["true"]).code == Some(0)).then_some(()));
    assert!(!submitter.lconf(&["status"]).succeeded().contains("TROUBLE"));
    let compacted = submitter.lconf(&["journal", "compact"]).succeeded();
    assert!(compacted.starts_with("journal: ") && compacted.contains(" after"), "{compacted}");
}

/// Makes the kernel set the disk read-only, as after an error. The disk stays so until it is mounted again, for which
/// the master has to end.
#[test]
fn a_master_whose_disk_fails_refuses_new_jobs_and_loses_none() {
    let Some(disk) = SmallDisk::mount_ext4(64 << 20) else { return };
    let (mut cluster, mut lrun, mut lines) = with_a_job(&disk);
    let submitter = cluster.submitter().clone();
    disk.abort();
    submitter.lrun(&["--detach", "true"]).failed("the disk under the journal is read-only");
    let trouble = "the master is read-only: the disk under the journal is read-only";
    let status = until("the master answers", || {
        let status = submitter.lconf(&["status"]);
        status.stdout.contains("TROUBLE").then_some(status.stdout)
    });
    assert!(status.contains(trouble), "{status}");
    submitter.lrun(&["--detach", "true"]).failed("new jobs are not accepted: the master is read-only");
    lrun.stdin.take().expect("piped").write_all(b"on and on\n").expect("lrun reads");
    assert_eq!(lines.next().as_deref(), Some("on and on"));
    assert_eq!(submitter.job(1)["state"], "running");
    cluster.kill_master();
    until("nobody uses the disk", || disk.repair().then_some(()));
    cluster.start_master();
    assert_eq!(finish(lrun).code, Some(3));
    assert_eq!((&submitter.job(1)["exit_code"], &submitter.job(1)["state"]), (&3.into(), &"failed".into()));
    until("jobs are accepted again", || (submitter.lrun(&["true"]).code == Some(0)).then_some(()));
    assert!(!submitter.lconf(&["status"]).succeeded().contains("TROUBLE"));
}

/// Kills the daemon; the next one finds a full disk. It reports this at once, and the master does within 15 s of the
/// first job. No job is lost, and the node accepts jobs again when there is space.
#[test]
fn a_node_that_returns_to_a_full_disk_takes_no_job_until_there_is_room() {
    let Some(disk) = SmallDisk::mount(1 << 20) else { return };
    let state = disk.path().join("state").display().to_string();
    let setup = Setup::default().master(&["--suspect-for", "5s"]);
    let mut cluster = setup.node("n1", &["--cpus", "2", "--state-dir", &state]).start();
    let submitter = cluster.submitter().clone();
    cluster.kill_node("n1");
    disk.fill();
    cluster.start_node("n1");
    cluster.await_node("n1");
    let said = "cannot write the state directory: jobs are refused until this works";
    assert!(cluster.node_log("n1").contains(said), "{}", cluster.node_log("n1"));
    let job = submitter.detach(&["sh", "-c", "exit 8"]);
    let begin = Instant::now();
    until("the node is suspect", || (cluster.node_report("n1")?["state"] == "suspect").then_some(()));
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
    assert!(cluster.master_log().contains("No space left on device"), "{}", cluster.master_log());
    assert_eq!(submitter.state(job), "waiting");
    disk.make_room();
    assert_eq!(submitter.wait(job), Some(8));
}
