//! Signals and stops. A job leaves nothing behind after its end.

use limo_model::{Attempt, JobId, Outcome, Span, Warning};
use limo_proto::{Channel, MasterToNode};

use crate::master::{Daemon, Master, Session, is_running, shell};

async fn node() -> (Session, Daemon) {
    let master = Master::new().await;
    let daemon = Daemon::start(&master, &[]);
    (master.welcome().await.0, daemon)
}

/// Returns the numbers that a job printed as one line.
pub async fn numbers(node: &mut Session, job: u64) -> Vec<i32> {
    let mut text = String::new();
    while !text.ends_with('\n') {
        let data = node.data(job, Channel::Stdout).await;
        assert!(!data.bytes.is_empty(), "the job ended after `{text}`");
        text.push_str(std::str::from_utf8(&data.bytes).expect("text"));
    }
    text.split_whitespace().map(|number| number.parse().expect("a process number")).collect()
}

#[tokio::test]
async fn signals_reach_the_whole_group() {
    let (mut node, _daemon) = node().await;
    node.run(shell(1, "sh -c 'trap \"echo usr1\" USR1; echo $$; while :; do sleep 0.01; done'; exit $?")).await;
    let child = numbers(&mut node, 1).await;
    let signal = |signal| MasterToNode::Signal { job: JobId(1), attempt: Attempt(1), signal };
    // The outer shell has no trap, so the signal ends it, and must leave nothing behind.
    node.send(signal(nix::libc::SIGUSR1)).await;
    assert_eq!(node.ended(1).await.0, Outcome::Signaled(nix::libc::SIGUSR1));
    assert!(!is_running(child[0]), "a child that caught the signal is gone with its leader");
    // A late signal reaches no process and does no harm.
    node.send(signal(nix::libc::SIGKILL)).await;
    node.run(shell(2, "trap 'echo caught; exit 3' INT; echo 0; while :; do sleep 0.01; done")).await;
    numbers(&mut node, 2).await;
    node.send(MasterToNode::Signal { job: JobId(2), attempt: Attempt(1), signal: nix::libc::SIGINT }).await;
    assert_eq!(node.ended(2).await.0, Outcome::Exited(3), "a job may catch it");
}

#[tokio::test]
async fn a_job_that_obeys_term_ends_within_its_grace() {
    let (mut node, _daemon) = node().await;
    node.run(shell(1, "trap 'exit 12' TERM; echo 0; while :; do sleep 0.01; done")).await;
    numbers(&mut node, 1).await;
    node.stop(1, Span::from_secs(3600)).await;
    assert_eq!(node.ended(1).await.0, Outcome::Exited(12));
    // A job stopped by a signal also gets TERM.
    node.run(shell(2, "echo 0; kill -STOP $$")).await;
    numbers(&mut node, 2).await;
    node.stop(2, Span::from_secs(3600)).await;
    assert_eq!(node.ended(2).await.0, Outcome::Signaled(15));
}

#[tokio::test]
async fn a_job_that_ignores_term_is_killed_with_everything_it_started() {
    let (mut node, _daemon) = node().await;
    let script = "trap '' TERM; setsid sh -c 'sleep 1000; true' & a=$!; sleep 1001 & b=$!
        c=$(sh -c 'setsid sleep 1002 >/dev/null & echo $!'); echo $$ $a $b $c; wait";
    node.run(shell(1, script)).await;
    let processes = numbers(&mut node, 1).await;
    assert!(processes.iter().all(|pid| is_running(*pid)), "{processes:?}");
    node.stop(1, Span::from_ms(1)).await;
    assert_eq!(node.ended(1).await.0, Outcome::Signaled(9));
    assert!(processes.iter().all(|pid| !is_running(*pid)), "{processes:?}");
}

/// Tests a time limit and its warning without a message from the master, whose connection or clock may fail. Both
/// hold even if the daemon is stopped.
#[tokio::test]
async fn a_time_limit_and_its_warning_hold_without_master_and_daemon() {
    let (mut node, daemon) = node().await;
    let file = tempfile::NamedTempFile::new().expect("a file");
    let script = format!("trap 'echo warned > {}' USR1; echo $$; while :; do sleep 0.1; done", file.path().display());
    let mut job = shell(1, &script);
    job.time_limit = Some(Span::from_secs(2));
    job.warning = Some(Warning { signal: nix::libc::SIGUSR1, before: Span::from_secs(1) });
    let before = std::time::Instant::now();
    node.run(job).await;
    let leader = numbers(&mut node, 1).await[0];
    daemon.signal(nix::sys::signal::Signal::SIGSTOP);
    let mut between = tokio::time::interval(std::time::Duration::from_millis(20));
    let gone = async {
        while is_running(leader) {
            between.tick().await;
        }
    };
    crate::master::within(gone).await;
    assert!(before.elapsed() >= std::time::Duration::from_secs(2), "{:?}", before.elapsed());
    assert_eq!(std::fs::read_to_string(file.path()).expect("a file"), "warned\n");
    daemon.signal(nix::sys::signal::Signal::SIGCONT);
    let (outcome, usage) = node.ended(1).await;
    assert_eq!(outcome, Outcome::SignaledAtLimit(15));
    assert!(usage.elapsed >= Span::from_secs(2), "{usage:?}");
}

/// Interrupts the daemon, which does not wait for a job's grace.
#[tokio::test]
async fn an_interrupted_daemon_shortens_a_long_grace() {
    let (mut node, mut daemon) = node().await;
    node.run(shell(1, "trap '' TERM; echo 0; while :; do sleep 0.01; done")).await;
    numbers(&mut node, 1).await;
    node.stop(1, Span::from_secs(3600)).await;
    daemon.signal(nix::sys::signal::Signal::SIGINT);
    assert_eq!(node.ended(1).await.0, Outcome::Signaled(9));
    drop(node);
    assert!(tokio::task::spawn_blocking(move || daemon.wait()).await.expect("no panic").success());
}

/// Checks that all processes of a job end with it, in its group and outside.
#[tokio::test]
async fn leftovers_end_with_their_job() {
    let (mut node, _daemon) = node().await;
    node.run(shell(1, "sleep 1000 & a=$!; setsid sleep 1001 & echo $a $!; exit 2")).await;
    let processes = numbers(&mut node, 1).await;
    assert_eq!(node.ended(1).await.0, Outcome::Exited(2));
    assert!(processes.iter().all(|pid| !is_running(*pid)), "{processes:?}");
    // The processes held the pipe open, so the output ends with them.
    while !node.data(1, Channel::Stdout).await.bytes.is_empty() {}
}

/// Hides a process: without its environment and in its own session, it cannot hold the output open for long.
#[tokio::test]
async fn output_ends_though_a_process_hides() {
    let (mut node, _daemon) = node().await;
    node.run(shell(1, "env -i /usr/bin/setsid /bin/sh -c 'echo $$; exec /bin/sleep 1000' & read line; exit 0")).await;
    let hidden = numbers(&mut node, 1).await;
    node.write(1, 0, "").await;
    assert_eq!(node.ended(1).await.0, Outcome::Exited(0));
    while !node.data(1, Channel::Stdout).await.bytes.is_empty() {}
    for pid in hidden {
        // The daemon cannot find this process, so the test removes it.
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
    }
}
