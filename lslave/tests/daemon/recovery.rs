//! A killed daemon: attempts that ran are lost and never run again; attempts that had ended are reported.

use std::fs;

use limo_model::{Outcome, Usage};
use limo_proto::{AttemptState, Channel, MasterToNode};
use limo_proto::{decode_stored, encode_stored, encode_stored_as};
use limo_requirements::SmallDisk;

use crate::master::{Daemon, Master, command, is_running, shell};

const KILLED: &str = "the node daemon was killed while the job ran";

#[tokio::test]
async fn running_jobs_are_lost_without_remaining_processes() {
    let master = Master::new().await;
    let mut daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    let mark = daemon.path("mark");
    let script = format!("echo ran >> {}; setsid sleep 1000 & sleep 1001 & echo $$ $!; wait", mark.display());
    node.run(shell(1, &script)).await;
    let line = node.data(1, Channel::Stdout).await.bytes;
    let text = String::from_utf8(line.to_vec()).expect("text");
    let processes: Vec<i32> = text.split_whitespace().map(|number| number.parse().expect("a number")).collect();
    daemon.kill();
    drop(node);
    // `lshepherd` ends the processes, and the next daemon waits for this.
    daemon.restart(&master);
    let (mut node, new) = master.welcome().await;
    let lost = Outcome::Lost { reason: KILLED.into() };
    match &new.attempts[0].state {
        AttemptState::Ended { outcome, .. } => assert_eq!(*outcome, lost),
        other => panic!("{other:?}"),
    }
    assert!(processes.iter().all(|pid| !is_running(*pid)), "{processes:?}");
    node.send(MasterToNode::Go {
        job: limo_model::JobId(1),
        attempt: limo_model::Attempt(1),
        expected: limo_model::Power::ZERO,
    })
    .await;
    assert_eq!(node.ended(1).await.0, lost);
    // A reader of the output gets its end.
    node.send(MasterToNode::ReadFrom { job: limo_model::JobId(1), stdout: line.len() as u64, stderr: 0 }).await;
    let end = node.data(1, Channel::Stdout).await;
    assert_eq!((end.offset, end.bytes.len()), (line.len() as u64, 0));
    assert_eq!(fs::read_to_string(mark).expect("it ran"), "ran\n", "once");
    // A daemon that is killed before the acknowledgement reports the same end again.
    daemon.kill();
    daemon.restart(&master);
    let (mut node, _) = master.welcome().await;
    assert_eq!(node.ended(1).await.0, lost);
    node.acknowledge_end(1).await;
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

#[tokio::test]
async fn damaged_records_are_an_error_that_names_their_place() {
    let master = Master::new().await;
    let mut daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    for job in 1..=2 {
        node.send(MasterToNode::DoExec(Box::new(shell(job, "true")))).await;
        node.message(|message| matches!(message, limo_proto::NodeToMaster::JobAck { .. }).then_some(())).await;
    }
    daemon.kill();
    let path = daemon.path("state/records");
    let mut log = fs::read(&path).expect("two records");
    log[20] ^= 1;
    fs::write(&path, log).expect("written");
    let output = command(daemon.dir.path(), &master, &[]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).expect("text");
    assert!(
        text.contains("state/records is damaged at byte 0: an entry does not match its checksum; if you move the file"),
        "{text}"
    );
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
}

/// Records contain their format, which is independent of the protocol version.
#[test]
fn records_name_their_format() {
    let bytes = encode_stored(&7_u32).expect("small");
    assert_eq!(decode_stored::<u32>(&bytes).expect("just written"), 7);
    assert_eq!(bytes[0], limo_proto::STORED_FORMAT);
}
