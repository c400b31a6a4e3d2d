//! Suspended jobs stop, with all processes in their group and outside, and later continue, end or die.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use limo_model::{Attempt, JobId, Outcome, Span};
use limo_proto::{Channel, MasterToNode, NodeToMaster};
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::kill::numbers;
use crate::master::{Daemon, Master, Session, is_running, shell, within};

async fn node() -> (Session, Daemon) {
    let master = Master::new().await;
    let daemon = Daemon::start(&master, &[]);
    (master.welcome().await.0, daemon)
}

async fn until(wanted: impl Fn() -> bool) {
    let look = async {
        let mut between = tokio::time::interval(Duration::from_millis(5));
        while !wanted() {
            between.tick().await;
        }
    };
    within(look).await;
}

/// Returns true if the process is stopped, or waits for a stopped child. A shell that starts a child waits until the
/// child has its own program.
fn is_stopped(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    match stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()) {
        Some('T') => true,
        Some('D') => {
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            children.split_whitespace().any(|child| child.parse().is_ok_and(is_stopped))
        }
        _ => false,
    }
}

async fn all_stopped(pids: &[i32]) {
    until(|| pids.iter().all(|pid| is_stopped(*pid))).await;
}

async fn suspend(node: &mut Session, job: u64) {
    node.send(MasterToNode::Suspend { job: JobId(job), attempt: Attempt(1) }).await;
}

async fn resume(node: &mut Session, job: u64) {
    node.send(MasterToNode::Resume { job: JobId(job), attempt: Attempt(1) }).await;
}

async fn signal(node: &mut Session, job: u64, signal: i32) {
    node.send(MasterToNode::Signal { job: JobId(job), attempt: Attempt(1), signal }).await;
}

/// Runs another job to its end, so that all earlier requests have been handled.
async fn heard(node: &mut Session, job: u64) {
    node.run(shell(job, "true")).await;
    assert_eq!(node.ended(job).await.0, Outcome::Exited(0));
}

/// Returns a shell script that appends to a file without end.
fn counting(file: &Path) -> String {
    format!("while :; do echo >> {}; sleep 0.005; done", file.display())
}

fn count(file: &Path) -> usize {
    fs::read(file).map_or(0, |bytes| bytes.len())
}

async fn counts_on(files: &[PathBuf]) {
    let before: Vec<usize> = files.iter().map(|file| count(file)).collect();
    until(|| files.iter().zip(&before).all(|(file, before)| count(file) > before + 2)).await;
}

/// Starts three processes that count: a leader, a child in its group and a child in its own session. Returns their
/// numbers.
async fn three(node: &mut Session, daemon: &Daemon, trap: &str) -> (Vec<PathBuf>, Vec<i32>) {
    let files: Vec<PathBuf> = ["a", "b", "c"].map(|name| daemon.path(name)).into();
    let loops: Vec<String> = files.iter().map(|file| counting(file)).collect();
    let script =
        format!("{trap}\nsh -c '{}' & a=$!; setsid sh -c '{}' & echo $$ $a $!; {}", loops[0], loops[1], loops[2]);
    node.run(shell(1, &script)).await;
    let processes = numbers(node, 1).await;
    counts_on(&files).await;
    (files, processes)
}

#[tokio::test]
async fn all_processes_of_a_job_are_suspended_and_continue() {
    let (mut node, daemon) = node().await;
    let (files, processes) = three(&mut node, &daemon, "").await;
    // Resuming a job that is not suspended has no effect.
    resume(&mut node, 1).await;
    for _ in 0..2 {
        suspend(&mut node, 1).await;
    }
    all_stopped(&processes).await;
    let before: Vec<usize> = files.iter().map(|file| count(file)).collect();
    heard(&mut node, 2).await;
    assert_eq!(files.iter().map(|file| count(file)).collect::<Vec<_>>(), before);
    for _ in 0..2 {
        resume(&mut node, 1).await;
    }
    counts_on(&files).await;
    suspend(&mut node, 1).await;
    all_stopped(&processes).await;
    resume(&mut node, 1).await;
    counts_on(&files).await;
    node.stop(1, Span::from_secs(3600)).await;
    assert_eq!(node.ended(1).await.0, Outcome::Signaled(libc::SIGTERM));
    assert!(processes.iter().all(|pid| !is_running(*pid)), "{processes:?}");
}

/// Checks that the last request counts for every process, however fast requests follow each other.
#[tokio::test]
async fn the_last_order_of_suspension_counts() {
    let (mut node, daemon) = node().await;
    let (files, processes) = three(&mut node, &daemon, "").await;
    for round in 0..30 {
        suspend(&mut node, 1).await;
        resume(&mut node, 1).await;
        if round % 3 == 0 {
            suspend(&mut node, 1).await;
            all_stopped(&processes).await;
            resume(&mut node, 1).await;
        }
        if round % 5 == 0 {
            counts_on(&files).await;
        }
    }
    counts_on(&files).await;
    suspend(&mut node, 1).await;
    all_stopped(&processes).await;
    node.stop(1, Span::from_ms(1)).await;
    node.ended(1).await;
}

/// The leader ends only after its child, which was stopped in its own session.
#[tokio::test]
async fn a_suspended_job_that_is_stopped_can_end_in_order() {
    let (mut node, daemon) = node().await;
    let go = daemon.path("go");
    let script = format!(
        "setsid sh -c 'while [ ! -e {0} ]; do sleep 0.01; done' & child=$!
        trap 'touch {0}; wait $child; exit 12' TERM; echo $$ $child; while :; do sleep 0.01; done",
        go.display()
    );
    node.run(shell(1, &script)).await;
    let processes = numbers(&mut node, 1).await;
    suspend(&mut node, 1).await;
    all_stopped(&processes).await;
    node.stop(1, Span::from_secs(3600)).await;
    assert_eq!(node.ended(1).await.0, Outcome::Exited(12));
    // Late requests find no process and do no harm.
    suspend(&mut node, 1).await;
    resume(&mut node, 1).await;
    heard(&mut node, 2).await;
}

#[tokio::test]
async fn a_suspended_job_that_ignores_term_is_killed() {
    let (mut node, daemon) = node().await;
    let (_, processes) = three(&mut node, &daemon, "trap '' TERM").await;
    suspend(&mut node, 1).await;
    all_stopped(&processes).await;
    node.stop(1, Span::from_ms(1)).await;
    assert_eq!(node.ended(1).await.0, Outcome::Signaled(libc::SIGKILL));
    assert!(processes.iter().all(|pid| !is_running(*pid)), "{processes:?}");
}

#[tokio::test]
async fn signals_wait_for_the_job_to_go_on() {
    let (mut node, _daemon) = node().await;
    node.run(shell(1, "trap 'echo 1001' USR1; echo $$; while :; do sleep 0.01; done")).await;
    let leader = numbers(&mut node, 1).await;
    suspend(&mut node, 1).await;
    all_stopped(&leader).await;
    signal(&mut node, 1, libc::SIGUSR1).await;
    signal(&mut node, 1, libc::SIGCONT).await;
    heard(&mut node, 2).await;
    assert!(is_stopped(leader[0]), "only the master lets it go on");
    assert!(!node.has_early_data(1, Channel::Stdout));
    resume(&mut node, 1).await;
    assert_eq!(numbers(&mut node, 1).await, [1001]);
    // A job that stopped itself is continued by a signal, as before.
    signal(&mut node, 1, libc::SIGSTOP).await;
    all_stopped(&leader).await;
    signal(&mut node, 1, libc::SIGCONT).await;
    signal(&mut node, 1, libc::SIGUSR1).await;
    assert_eq!(numbers(&mut node, 1).await, [1001]);
    suspend(&mut node, 1).await;
    all_stopped(&leader).await;
    signal(&mut node, 1, libc::SIGKILL).await;
    assert_eq!(node.ended(1).await.0, Outcome::Signaled(libc::SIGKILL), "no process waits with that one");
}

/// Checks that if the submitter stops a job (Ctrl-Z at `lrun`), only the submitter continues it, whatever the master
/// requests meanwhile.
#[tokio::test]
async fn a_job_that_its_submitter_stopped_is_not_resumed() {
    let (mut node, daemon) = node().await;
    let file = daemon.path("a");
    node.run(shell(1, &format!("echo $$; {}", counting(&file)))).await;
    let leader = numbers(&mut node, 1).await;
    counts_on(std::slice::from_ref(&file)).await;
    signal(&mut node, 1, libc::SIGSTOP).await;
    all_stopped(&leader).await;
    suspend(&mut node, 1).await;
    resume(&mut node, 1).await;
    node.expect(NodeToMaster::Paused { job: JobId(1), attempt: Attempt(1), paused: false }).await;
    // The shell may just have started a child: processes that are not continued stop soon.
    all_stopped(&leader).await;
    signal(&mut node, 1, libc::SIGCONT).await;
    counts_on(std::slice::from_ref(&file)).await;
    // The submitter continues and stops the job during the suspension. Its last request counts when the job is
    // resumed.
    suspend(&mut node, 1).await;
    signal(&mut node, 1, libc::SIGSTOP).await;
    signal(&mut node, 1, libc::SIGCONT).await;
    resume(&mut node, 1).await;
    counts_on(&[file]).await;
    suspend(&mut node, 1).await;
    signal(&mut node, 1, libc::SIGSTOP).await;
    resume(&mut node, 1).await;
    heard(&mut node, 2).await;
    all_stopped(&leader).await;
    node.stop(1, Span::from_secs(3600)).await;
    assert_eq!(node.ended(1).await.0, Outcome::Signaled(libc::SIGTERM));
}

/// Kills a suspended job from outside: the job is over, and its stopped processes also end.
#[tokio::test]
async fn a_job_may_die_while_it_is_suspended() {
    let (mut node, daemon) = node().await;
    let (_, processes) = three(&mut node, &daemon, "").await;
    suspend(&mut node, 1).await;
    all_stopped(&processes).await;
    kill(Pid::from_raw(processes[0]), Signal::SIGKILL).expect("it is there");
    assert_eq!(node.ended(1).await.0, Outcome::Signaled(libc::SIGKILL));
    assert!(processes.iter().all(|pid| !is_running(*pid)), "{processes:?}");
}

#[tokio::test]
async fn a_suspended_job_survives_its_daemon_and_continues() {
    let master = Master::new().await;
    let mut daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    let (files, processes) = three(&mut node, &daemon, "trap 'exit 12' TERM").await;
    suspend(&mut node, 1).await;
    all_stopped(&processes).await;
    daemon.kill();
    drop(node);
    daemon.restart(&master);
    let (mut node, _) = master.welcome().await;
    heard(&mut node, 2).await;
    assert!(processes.iter().all(|pid| is_stopped(*pid)), "{processes:?}");
    resume(&mut node, 1).await;
    counts_on(&files).await;
    node.stop(1, Span::from_secs(3600)).await;
    assert_eq!(node.ended(1).await.0, Outcome::Exited(12));
    assert!(processes.iter().all(|pid| !is_running(*pid)), "{processes:?}");
}

/// The submitter has stopped the job, so a resumption by the master does not continue it.
#[tokio::test]
async fn a_job_that_its_submitter_has_stopped_stays_so_with_the_next_daemon() {
    let master = Master::new().await;
    let mut daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    let (_, processes) = three(&mut node, &daemon, "").await;
    let leader = [processes[0]];
    signal(&mut node, 1, libc::SIGSTOP).await;
    all_stopped(&leader).await;
    suspend(&mut node, 1).await;
    heard(&mut node, 2).await;
    daemon.kill();
    drop(node);
    daemon.restart(&master);
    let (mut node, _) = master.welcome().await;
    resume(&mut node, 1).await;
    heard(&mut node, 3).await;
    all_stopped(&leader).await;
    node.stop(1, Span::ZERO).await;
    assert!(matches!(node.ended(1).await.0, Outcome::Signaled(_)));
}

#[tokio::test]
async fn an_interrupted_daemon_ends_its_suspended_jobs() {
    let (mut node, mut daemon) = node().await;
    let (_, processes) = three(&mut node, &daemon, "trap 'exit 12' TERM").await;
    suspend(&mut node, 1).await;
    all_stopped(&processes).await;
    daemon.signal(Signal::SIGINT);
    assert_eq!(node.ended(1).await.0, Outcome::Exited(12));
    drop(node);
    assert!(tokio::task::spawn_blocking(move || daemon.wait()).await.expect("no panic").success());
    assert!(processes.iter().all(|pid| !is_running(*pid)), "{processes:?}");
}

/// Checks that an unreleased attempt cannot be suspended, and an unknown one is lost.
#[tokio::test]
async fn attempts_that_do_not_run() {
    let (mut node, _daemon) = node().await;
    node.send(MasterToNode::DoExec(Box::new(shell(1, "exit 5")))).await;
    suspend(&mut node, 1).await;
    node.expect(NodeToMaster::JobAck { job: JobId(1), attempt: Attempt(1) }).await;
    node.send(MasterToNode::Go { job: JobId(1), attempt: Attempt(1), expected: limo_model::Power::ZERO }).await;
    assert_eq!(node.ended(1).await.0, Outcome::Exited(5));
    for job in [7, 8] {
        if job == 7 {
            suspend(&mut node, job).await
        } else {
            resume(&mut node, job).await
        }
        assert!(matches!(node.ended(job).await.0, Outcome::Lost { .. }));
    }
}
