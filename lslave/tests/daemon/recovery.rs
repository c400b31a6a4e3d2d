//! The end of a daemon: its jobs go on with the next one, with their streams, limits and ends.

use std::fs;

use limo_model::{Attempt, JobId, Outcome, Usage};
use limo_proto::{AttemptState, Channel, Inbox, MasterToNode};
use limo_proto::{decode_stored, encode_stored, encode_stored_as};
use limo_requirements::SmallDisk;
use nix::sys::signal::Signal;

use crate::kill::numbers;
use crate::master::{Daemon, Master, New, Session, command, is_running, shell, shepherds, within};

/// Runs a job that prints a line, then waits for one and prints that, and ends with 7.
const ECHO: &str = "echo $$; read line; echo \"$line\"; exit 7";

/// Kills the daemon, or ends it with the signal, and starts it again.
async fn again(daemon: &mut Daemon, master: &Master, signal: Signal) -> (Session, New) {
    daemon.signal(signal);
    daemon.wait();
    daemon.restart(master);
    master.welcome().await
}

async fn a_job_goes_on(signal: Signal) {
    let master = Master::new().await;
    let mut daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    let mark = daemon.path("mark");
    node.run(shell(1, &format!("echo ran >> {}; {ECHO}", mark.display()))).await;
    let leader = numbers(&mut node, 1).await[0];
    let first = leader.to_string().len() as u64 + 1;
    node.acknowledge(1, Channel::Stdout, 2).await;
    // The daemon has seen the acknowledgement when it reports the end of another job.
    node.run(shell(2, "true")).await;
    node.ended(2).await;
    drop(node);
    let (mut node, new) = again(&mut daemon, &master, signal).await;
    let reports: Vec<_> = new.attempts.iter().map(|report| (report.job.0, &report.state)).collect();
    assert!(matches!(reports[..], [(1, AttemptState::Running), (2, AttemptState::Ended { .. })]), "{reports:?}");
    assert_eq!((new.attempts[0].kept.stdout, new.attempts[0].stdin_offset), (2, 0));
    assert!(is_running(leader));
    // A repeated release does not start it again.
    node.send(MasterToNode::Go { job: JobId(1), attempt: Attempt(1), expected: limo_model::Power::ZERO }).await;
    node.send(MasterToNode::ReadFrom { job: JobId(1), stdout: 2, stderr: 0 }).await;
    // The unacknowledged output comes again.
    let mut inbox = Inbox::from(2);
    node.write(1, 0, "more\n").await;
    let output = node.read_on(1, Channel::Stdout, &mut inbox).await;
    assert_eq!(String::from_utf8(output).expect("text"), format!("{leader}\nmore\n")[2..]);
    assert_eq!(inbox.offset(), first + 5 + 1, "the end counts as one");
    assert_eq!(node.ended(1).await.0, Outcome::Exited(7));
    assert_eq!(fs::read_to_string(mark).expect("it ran"), "ran\n", "once");
}

#[tokio::test]
async fn a_job_and_its_streams_survive_a_killed_daemon() {
    a_job_goes_on(Signal::SIGKILL).await;
}

#[tokio::test]
async fn a_job_and_its_streams_survive_a_terminated_daemon() {
    a_job_goes_on(Signal::SIGTERM).await;
}

#[tokio::test]
async fn a_job_that_ends_without_a_daemon_keeps_its_code_and_output() {
    let master = Master::new().await;
    let mut daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    let go = daemon.path("go");
    let script =
        format!("echo $$; while [ ! -e {} ]; do sleep 0.01; done; head -c 100000 /dev/zero; exit 42", go.display());
    node.run(shell(1, &script)).await;
    let leader = numbers(&mut node, 1).await[0];
    daemon.kill();
    drop(node);
    fs::write(go, "").expect("written");
    gone(leader).await;
    daemon.restart(&master);
    let (mut node, _) = master.welcome().await;
    let (outcome, usage) = node.ended(1).await;
    assert_eq!(outcome, Outcome::Exited(42));
    // Once more, after the end is recorded and before any output is acknowledged.
    daemon.kill();
    daemon.restart(&master);
    let (mut node, new) = master.welcome().await;
    assert_eq!(new.attempts[0].state, AttemptState::Ended { outcome, usage });
    node.acknowledge_end(1).await;
    assert_eq!(node.read_all(1, Channel::Stdout).await.len(), leader.to_string().len() + 1 + 100_000);
}

/// Waits for the end of a process.
async fn gone(pid: i32) {
    let look = async {
        let mut between = tokio::time::interval(std::time::Duration::from_millis(5));
        while is_running(pid) {
            between.tick().await;
        }
    };
    within(look).await;
}

#[tokio::test]
async fn a_time_limit_holds_without_a_daemon() {
    let master = Master::new().await;
    let mut daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    let mut job = shell(1, "echo $$; sleep 1000");
    job.time_limit = Some(limo_model::Span::from_secs(1));
    node.run(job).await;
    let leader = numbers(&mut node, 1).await[0];
    daemon.kill();
    gone(leader).await;
    daemon.restart(&master);
    let (mut node, _) = master.welcome().await;
    assert_eq!(node.ended(1).await.0, Outcome::SignaledAtLimit(15));
}

/// Without the directory, the daemon does not know what was started, and starts nothing again.
#[tokio::test]
async fn a_job_is_lost_with_the_directory_of_the_shepherds() {
    let master = Master::new().await;
    let mut daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    node.run(shell(1, "echo $$; exec sleep 1000")).await;
    let leader = numbers(&mut node, 1).await[0];
    daemon.kill();
    fs::remove_dir_all(daemon.path("state/shepherds")).expect("there");
    daemon.restart(&master);
    let (mut node, _) = master.welcome().await;
    assert!(matches!(node.ended(1).await.0, Outcome::Lost { .. }));
    assert!(!is_running(leader));
}

/// A job whose records are gone belongs to nobody.
#[tokio::test]
async fn a_job_without_a_record_is_ended() {
    let master = Master::new().await;
    let mut daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    node.run(shell(1, "setsid sleep 1000 & echo $$ $!; wait")).await;
    let processes = numbers(&mut node, 1).await;
    daemon.kill();
    fs::remove_file(daemon.path("state/records")).expect("there");
    daemon.restart(&master);
    let (mut node, new) = master.welcome().await;
    assert!(new.attempts.is_empty(), "{:?}", new.attempts);
    for pid in processes {
        gone(pid).await;
    }
    node.run(shell(2, "exit 5")).await;
    assert_eq!(node.ended(2).await.0, Outcome::Exited(5));
}

#[tokio::test]
async fn an_end_survives_the_daemon() {
    let master = Master::new().await;
    let mut daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    node.run(shell(1, "exit 42")).await;
    let (outcome, usage) = node.ended(1).await;
    daemon.kill();
    daemon.restart(&master);
    let (_, new) = master.welcome().await;
    assert_eq!(new.attempts[0].state, AttemptState::Ended { outcome, usage });
}

/// Checks that after another boot all unfinished attempts are lost, even a held one.
#[tokio::test]
async fn open_jobs_are_lost_after_a_reboot() {
    let master = Master::new().await;
    let mut daemon = Daemon::start(&master, &[]);
    let (mut node, new) = master.welcome().await;
    node.send(MasterToNode::DoExec(Box::new(shell(1, "true")))).await;
    node.message(|message| matches!(message, limo_proto::NodeToMaster::JobAck { .. }).then_some(())).await;
    daemon.kill();
    // The record gets another boot id of the same length, and a new checksum.
    let path = daemon.path("state/records");
    let mut log = fs::read(&path).expect("the intent");
    let boot = new.boot.as_bytes();
    let at = log.windows(boot.len()).position(|window| window == boot).expect("the boot id is in it");
    log[at] = if log[at] == b'0' { b'1' } else { b'0' };
    let checksum = crc32fast::hash(&log[12..]);
    log[8..12].copy_from_slice(&checksum.to_le_bytes());
    fs::write(&path, log).expect("written");
    daemon.restart(&master);
    let (mut node, _) = master.welcome().await;
    assert_eq!(node.ended(1).await.0, Outcome::Lost { reason: "the node was restarted".into() });
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_a_lost_job() {
    let master = Master::new().await;
    let mut daemon = Daemon::start(&master, &[]);
    let (node, _) = master.welcome().await;
    drop(node);
    daemon.kill();
    // An earlier daemon stored records in this way.
    fs::create_dir(daemon.path("state/attempts")).expect("made");
    fs::write(daemon.path("state/attempts/5.1.intent"), [0xff; 3]).expect("written");
    daemon.restart(&master);
    let (mut node, _) = master.welcome().await;
    assert_eq!(node.ended(5).await.0, Outcome::Lost { reason: "the node cannot read its record of the job".into() });
}

/// The records are those of a running job, its release, and three held jobs. That of the second held one is damaged, as after
/// a failure of the disk.
#[tokio::test]
async fn jobs_with_damaged_records_are_lost_and_others_go_on() {
    let master = Master::new().await;
    let mut daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    node.run(shell(1, ECHO)).await;
    let leader = numbers(&mut node, 1).await[0];
    for job in 2..=4 {
        node.send(MasterToNode::DoExec(Box::new(shell(job, "true")))).await;
        node.message(|message| matches!(message, limo_proto::NodeToMaster::JobAck { .. }).then_some(())).await;
    }
    daemon.kill();
    let path = daemon.path("state/records");
    let mut log = fs::read(&path).expect("five records");
    let length_at = |log: &[u8], at: usize| usize::from(log[at]) + 256 * usize::from(log[at + 1]);
    let damaged = (0..3).fold(0, |at, _| at + 12 + length_at(&log, at));
    log[damaged + 20] ^= 1;
    fs::write(&path, &log).expect("written");
    daemon.restart(&master);
    let (mut node, new) = master.welcome().await;
    assert_eq!(new.attempts[0].state, AttemptState::Running);
    assert!(new.attempts.iter().all(|report| report.job.0 <= 2), "{:?}", new.attempts);
    let reason = "the node does not know whether the command ran".into();
    assert_eq!(node.ended(2).await.0, Outcome::Lost { reason });
    assert!(is_running(leader));
    assert_eq!(fs::read(daemon.path("state/records.damaged")).expect("a copy"), log);
}

/// Uses the records of an earlier daemon, with reasons of any length. Such a daemon reported all its attempts in one
/// message.
#[tokio::test]
async fn thousands_of_ends_with_long_reasons_are_reported_in_pieces() {
    const ENDS: u64 = 10_500;
    let master = Master::new().await;
    let mut daemon = Daemon::start(&master, &[]);
    let (node, _) = master.welcome().await;
    drop(node);
    daemon.kill();
    fs::create_dir(daemon.path("state/attempts")).expect("made");
    let end = (Outcome::NotStarted { code: 126, reason: "\u{fffd}".repeat(1_000) }, Usage::default());
    let end = encode_stored_as(2, &end).expect("below a frame");
    for job in 1..=ENDS {
        fs::write(daemon.path(&format!("state/attempts/{job}.1.intent")), []).expect("written");
        fs::write(daemon.path(&format!("state/attempts/{job}.1.end")), &end).expect("written");
    }
    daemon.restart(&master);
    let (_node, new) = master.welcome().await;
    assert_eq!(new.attempts.len() as u64, ENDS);
    for report in &new.attempts {
        let AttemptState::Ended { outcome: Outcome::NotStarted { code: 126, reason }, .. } = &report.state else {
            panic!("{report:?}");
        };
        assert!(reason.len() <= 1024 && reason.ends_with('…'), "{} bytes", reason.len());
    }
}

#[tokio::test]
async fn one_daemon_for_each_state_directory() {
    let master = Master::new().await;
    let daemon = Daemon::start(&master, &[]);
    let _node = master.welcome().await;
    let second = command(daemon.dir.path(), &master, &[]).output().expect("it runs");
    assert_eq!(second.status.code(), Some(1));
    let text = String::from_utf8(second.stderr).expect("text");
    assert!(text.contains("another lslave uses the state directory"), "{text}");
}

#[tokio::test]
async fn a_full_disk_refuses_new_jobs() {
    let master = Master::new().await;
    let Some(disk) = SmallDisk::mount(64 << 10) else { return };
    let mut child = command(disk.path(), &master, &[]).spawn().expect("lslave starts");
    let (mut node, _) = master.welcome().await;
    node.run(shell(1, "read line; exit 3")).await;
    node.started(1).await;
    disk.fill();
    // The record does not fit in the remaining part of a page.
    node.send(MasterToNode::DoExec(Box::new(shell(2, &format!("true #{}", "x".repeat(8_192)))))).await;
    let reason = node
        .message(|message| match message {
            limo_proto::NodeToMaster::JobRefused { reason, .. } => Some(reason.to_string()),
            _ => None,
        })
        .await;
    assert!(reason.contains("No space left on device"), "{reason}");
    // The running job continues, and its end is reported.
    node.write(1, 0, "").await;
    assert_eq!(node.ended(1).await.0, Outcome::Exited(3));
    node.acknowledge_end(1).await;
    child.kill().and_then(|()| child.wait()).expect("it ends");
    for pid in shepherds(disk.path()) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL).expect("it runs");
    }
}

/// Records contain their format, which is independent of the protocol version.
#[test]
fn records_name_their_format() {
    let bytes = encode_stored(&7_u32).expect("small");
    assert_eq!(decode_stored::<u32>(&bytes).expect("just written"), 7);
    assert_eq!(bytes[0], limo_proto::STORED_FORMAT);
}
