//! Assignments: no command runs before its release, or twice, and the node reports every end until it is acknowledged.

use std::fs;

use limo_model::{Attempt, JobId, Memory, Outcome, Power, Span};
use limo_proto::{AttemptState, Channel, MasterToNode, NodeToMaster};

use crate::master::{Daemon, Master, Session, detached, exec, shell};

const JOB: JobId = JobId(1);
const FIRST: Attempt = Attempt(1);
const ACK: NodeToMaster = NodeToMaster::JobAck { job: JOB, attempt: FIRST };
const GO: MasterToNode = MasterToNode::Go { job: JOB, attempt: FIRST, expected: Power::ZERO };

async fn refusal(node: &mut Session) -> (Attempt, String) {
    node.message(|message| match message {
        NodeToMaster::JobRefused { attempt, reason, .. } => Some((*attempt, reason.to_string())),
        _ => None,
    })
    .await
}

#[tokio::test]
async fn a_node_registers_its_hardware() {
    let master = Master::new().await;
    let mut daemon = Daemon::start(&master, &["--idle", "12 W", "--nameplate", "80 W"]);
    let (_, new) = master.welcome().await;
    assert_eq!((new.spec.name.as_str(), new.spec.units.len()), ("n1", 1));
    let unit = &new.spec.units[0];
    assert_eq!((unit.name.as_str(), unit.cores, unit.nameplate.mw()), ("cpu", 4, 80_000));
    assert_eq!(new.spec.idle.mw(), 12_000);
    assert!(new.spec.memory > Memory::ZERO);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("readable");
    assert_eq!(new.boot, boot.trim());
    daemon.kill();
    daemon.restart(&master);
    assert_eq!(master.welcome().await.1.instance, new.instance, "the same node, though another daemon");
}

/// Checks that without Go the command never runs, even after a reconnection or a restart of the daemon.
#[tokio::test]
async fn an_acknowledged_job_waits_for_go() {
    let master = Master::new().await;
    let mut daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    let mark = daemon.path("mark");
    let script = format!("echo ran >> {}", mark.display());
    node.send(MasterToNode::DoExec(Box::new(shell(1, &script)))).await;
    node.expect(ACK).await;
    drop(node);
    let (node, new) = master.welcome().await;
    assert_eq!(new.attempts[0].state, AttemptState::Held);
    drop(node);
    daemon.kill();
    daemon.restart(&master);
    let (mut node, new) = master.welcome().await;
    assert_eq!(
        (new.attempts.len(), &new.attempts[0].state),
        (1, &AttemptState::Held),
        "its record outlives the daemon"
    );
    assert!(!mark.exists());
    // The attempt can still be released, once.
    node.send(GO).await;
    assert_eq!(node.ended(1).await.0, Outcome::Exited(0));
    node.send(GO).await;
    assert_eq!(node.ended(1).await.0, Outcome::Exited(0), "told again, not run again");
    node.acknowledge_end(1).await;
    node.send(MasterToNode::Discard { job: JobId(1) }).await;
    node.send(GO).await;
    node.send(MasterToNode::DoExec(Box::new(shell(1, &script)))).await;
    assert_eq!(refusal(&mut node).await.1, "attempt 1 of job 1 has already ended here");
    assert_eq!(fs::read_to_string(&mark).expect("it ran"), "ran\n", "once");
    daemon.kill();
    daemon.restart(&master);
    let (_, new) = master.welcome().await;
    assert!(new.attempts.is_empty(), "nothing is kept after the acknowledgement: {:?}", new.attempts);
}

#[tokio::test]
async fn a_dropped_assignment_is_forgotten() {
    let master = Master::new().await;
    let _daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    node.send(MasterToNode::DoExec(Box::new(shell(1, "true")))).await;
    node.expect(ACK).await;
    node.send(MasterToNode::Drop { job: JOB, attempt: FIRST }).await;
    node.send(GO).await;
    let mut second = shell(1, "exit 5");
    second.attempt = Attempt(2);
    node.send(MasterToNode::DoExec(Box::new(second))).await;
    node.expect(NodeToMaster::JobAck { job: JOB, attempt: Attempt(2) }).await;
    node.send(MasterToNode::Go { job: JOB, attempt: Attempt(2), expected: Power::ZERO }).await;
    assert_eq!(node.ended(1).await.0, Outcome::Exited(5), "only the second attempt has run");
}

#[tokio::test]
async fn repeated_and_crossed_assignments() {
    let master = Master::new().await;
    let _daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    let attempt = |number| {
        let mut exec = exec(1, &["cat"]);
        exec.attempt = Attempt(number);
        MasterToNode::DoExec(Box::new(exec))
    };
    for _ in 0..2 {
        node.send(attempt(2)).await;
        node.expect(NodeToMaster::JobAck { job: JOB, attempt: Attempt(2) }).await;
    }
    node.send(attempt(1)).await;
    assert_eq!(refusal(&mut node).await, (FIRST, "attempt 1 of job 1 is older than attempt 2".into()));
    node.send(attempt(3)).await;
    node.expect(NodeToMaster::JobAck { job: JOB, attempt: Attempt(3) }).await;
    let go = MasterToNode::Go { job: JOB, attempt: Attempt(3), expected: Power::ZERO };
    for _ in 0..2 {
        node.send(go.clone()).await;
        node.expect(NodeToMaster::Started { job: JOB, attempt: Attempt(3) }).await;
    }
    node.send(attempt(4)).await;
    assert_eq!(refusal(&mut node).await, (Attempt(4), "attempt 3 of job 1 was started here".into()));
    node.write(1, 0, "once\n").await;
    node.write(1, 5, "").await;
    assert_eq!(node.read_all(1, Channel::Stdout).await, "once\n", "one cat, although Go came twice");
}

#[tokio::test]
async fn impossible_assignments_are_refused() {
    let master = Master::new().await;
    let _daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    let mut check = async |change: fn(&mut limo_proto::DoExec), expected: &str| {
        let mut exec = shell(1, "true");
        change(&mut exec);
        node.send(MasterToNode::DoExec(Box::new(exec))).await;
        assert_eq!(refusal(&mut node).await.1, expected);
    };
    check(|exec| exec.placement[0].unit.unit = 3, "node `n1` has no unit 3: it has 1").await;
    check(|exec| exec.placement[0].cores = 5, "5 cores of unit `cpu`: it has 4").await;
    check(|exec| exec.placement[0].cores = 0, "0 cores of unit `cpu`: it has 4").await;
    check(|exec| exec.placement.clear(), "the assignment names no unit or no command").await;
    check(|exec| exec.launch.argv.clear(), "the assignment names no unit or no command").await;
    let mut large = shell(1, "true");
    large.placement[0].memory = Memory::from_bytes(1 << 60);
    node.send(MasterToNode::DoExec(Box::new(large))).await;
    assert!(refusal(&mut node).await.1.starts_with("1048576 TiB of memory: node `n1` has "));
    // The node reports unknown attempts as lost, because they may have run.
    node.send(MasterToNode::Go { job: JobId(77), attempt: FIRST, expected: Power::ZERO }).await;
    assert_eq!(node.ended(77).await.0, Outcome::Lost { reason: "the node does not know the job".into() });
}

#[tokio::test]
async fn an_end_is_repeated_until_it_is_acknowledged() {
    let master = Master::new().await;
    let daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    node.run(detached(1, "exit 4", daemon.dir.path())).await;
    assert_eq!(node.ended(1).await.0, Outcome::Exited(4));
    drop(node);
    for _ in 0..2 {
        let (mut node, new) = master.welcome().await;
        assert!(matches!(new.attempts[0].state, AttemptState::Ended { outcome: Outcome::Exited(4), .. }));
        assert_eq!(node.ended(1).await.0, Outcome::Exited(4));
    }
    let (mut node, _) = master.welcome().await;
    node.acknowledge_end(1).await;
    // An answer to a later query shows that the acknowledgement arrived.
    node.send(MasterToNode::Go { job: JobId(77), attempt: FIRST, expected: Power::ZERO }).await;
    node.ended(77).await;
    drop(node);
    assert_eq!(master.welcome().await.1.attempts, []);
}

/// Lets jobs continue while the master is unreachable. Their output of that time is available when it returns.
#[tokio::test]
async fn jobs_run_on_without_the_master() {
    let master = Master::new().await;
    let daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    let go = daemon.path("go");
    nix::unistd::mkfifo(&go, nix::sys::stat::Mode::S_IRWXU).expect("made");
    node.run(shell(1, &format!("echo before; cat {}; echo after; exit 6", go.display()))).await;
    assert_eq!(node.data(1, Channel::Stdout).await.bytes, "before\n");
    drop(node);
    // Opening the pipe for writing waits for the job, so the job must still run.
    tokio::task::spawn_blocking(move || fs::write(go, "meanwhile\n")).await.expect("no panic").expect("written");
    let (mut node, _) = master.welcome().await;
    assert_eq!(node.ended(1).await.0, Outcome::Exited(6));
    let output = node.read_all(1, Channel::Stdout).await;
    assert_eq!(output, "before\nmeanwhile\nafter\n", "what was not acknowledged comes again, unasked");
}

#[tokio::test]
async fn several_jobs_at_once() {
    let master = Master::new().await;
    let _daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    for job in 1..=8 {
        node.run(exec(job, &["cat"])).await;
        node.started(job).await;
    }
    for job in (1..=8).rev() {
        node.write(job, 0, format!("job {job}")).await;
        node.write(job, 5, "").await;
        assert_eq!(node.read_all(job, Channel::Stdout).await, format!("job {job}"));
        assert_eq!(node.ended(job).await.0, Outcome::Exited(0));
    }
}

#[tokio::test]
async fn an_interrupted_daemon_stops_and_reports_its_jobs() {
    let master = Master::new().await;
    let mut daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    node.run(shell(1, "trap 'echo bye; exit 9' TERM; echo ready; while :; do sleep 0.01; done")).await;
    assert_eq!(node.data(1, Channel::Stdout).await.bytes, "ready\n");
    daemon.signal(nix::sys::signal::Signal::SIGINT);
    assert_eq!(node.ended(1).await.0, Outcome::Exited(9));
    assert_eq!(node.data(1, Channel::Stdout).await.bytes, "bye\n");
    node.send(MasterToNode::DoExec(Box::new(shell(2, "true")))).await;
    assert_eq!(refusal(&mut node).await.1, "the node is shutting down");
    for channel in [Channel::Stdout, Channel::Stderr] {
        let mut end = node.data(1, channel).await;
        while !end.bytes.is_empty() {
            end = node.data(1, channel).await;
        }
        node.acknowledge(1, channel, end.offset + 1).await;
    }
    node.acknowledge_end(1).await;
    assert!(tokio::task::spawn_blocking(move || daemon.wait()).await.expect("no panic").success());
}

#[tokio::test]
async fn a_held_job_that_is_stopped_never_runs() {
    let master = Master::new().await;
    let _daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    node.send(MasterToNode::DoExec(Box::new(shell(1, "echo ran")))).await;
    node.expect(ACK).await;
    node.stop(1, Span::from_secs(1)).await;
    assert_eq!(node.ended(1).await.0, Outcome::Signaled(15));
    node.send(GO).await;
    assert_eq!(node.ended(1).await.0, Outcome::Signaled(15));
    assert_eq!(node.read_all(1, Channel::Stdout).await, "");
}
