//! Stdio: every byte of three streams arrives once, with bounded memory in any state of the connection.

use limo_model::{JobId, Outcome};
use limo_proto::{CHUNK, Channel, Frame, Inbox, MasterToNode, NodeToMaster, Outbox, WINDOW};

use crate::master::{Daemon, Master, Session, exec, is_running, shell};

/// Returns bytes that show if one is missing, doubled or moved.
fn pattern(length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

#[tokio::test]
async fn three_streams_that_do_not_mix() {
    let master = Master::new().await;
    let _daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    node.run(shell(1, "cat; echo error >&2")).await;
    node.write(1, 0, "hi\n").await;
    node.write(1, 3, "").await;
    assert_eq!(node.read_all(1, Channel::Stdout).await, "hi\n");
    assert_eq!(node.read_all(1, Channel::Stderr).await, "error\n");
    assert_eq!(node.ended(1).await.0, Outcome::Exited(0));
    // The end of stdin counts as a byte, and is acknowledged at once.
    let taken = node.message(|message| match message {
        NodeToMaster::StreamAck { offset, .. } => Some(*offset),
        _ => None,
    });
    assert_eq!(taken.await, 4);
}

/// Sends `data` through `cat` over any connection; breaks the connection after each number of received bytes in
/// `breaks`.
async fn through_cat(breaks: &[usize], data: &[u8]) -> Vec<u8> {
    let master = Master::new().await;
    let _daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    node.run(exec(1, &["cat"])).await;
    let (mut outbox, mut inbox, mut got, mut at) = (Outbox::new(), Inbox::new(), Vec::new(), 0);
    let mut breaks = breaks.iter();
    let mut next_break = breaks.next();
    while !inbox.has_ended() {
        while at < data.len() && outbox.room() > 0 {
            let take = outbox.room().min(data.len() - at).min(CHUNK);
            outbox.push(data[at..at + take].to_vec().into());
            at += take;
        }
        if at == data.len() {
            outbox.close();
        }
        while let Some((offset, bytes)) = outbox.next_chunk() {
            node.write(1, offset, bytes).await;
        }
        let frame = node.find(|frame| Some(frame.clone())).await;
        match frame {
            Frame::Data(data) if data.stream.channel == Channel::Stdout => {
                got.extend_from_slice(&inbox.accept(data.offset, data.bytes).expect("no gap").unwrap_or_default());
                inbox.consume();
                if let Some(offset) = inbox.due_ack() {
                    node.acknowledge(1, Channel::Stdout, offset).await;
                }
            }
            Frame::Message(NodeToMaster::StreamAck { offset, .. }) => outbox.acknowledge(offset).expect("was sent"),
            _ => {}
        }
        if next_break.is_some_and(|most| got.len() > *most) {
            next_break = breaks.next();
            drop(node);
            let (again, new) = master.welcome().await;
            node = again;
            outbox.resume(new.attempts[0].stdin_offset).expect("is kept");
            node.send(MasterToNode::ReadFrom { job: JobId(1), stdout: inbox.offset(), stderr: 0 }).await;
        }
    }
    got
}

#[tokio::test]
async fn every_byte_once() {
    let data = pattern(20_000_000);
    assert!(through_cat(&[], &data).await == data);
}

#[tokio::test]
async fn every_byte_once_over_broken_connections() {
    let data = pattern(3_000_000);
    assert!(through_cat(&[0, 1, 100_000, 400_000, 400_001, 1_000_000, 2_900_000], &data).await == data);
}

/// Runs a job whose output is not read. It stops writing, and the node keeps one window of its output.
#[tokio::test]
async fn unread_output_is_bounded() {
    let master = Master::new().await;
    let _daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    node.run(shell(1, "echo $$ >&2; head -c 10000000 /dev/zero; echo done >&2")).await;
    let mut received = 0;
    while received < WINDOW {
        received += node.data(1, Channel::Stdout).await.bytes.len() as u64;
    }
    assert_eq!(received, WINDOW, "the window is the limit");
    // Another job continues meanwhile.
    node.run(shell(2, "exit 8")).await;
    assert_eq!(node.ended(2).await.0, Outcome::Exited(8));
    assert!(!node.has_early_data(1, Channel::Stdout), "nothing beyond the window");
    let mut errors = String::new();
    while !errors.ends_with('\n') {
        errors.push_str(std::str::from_utf8(&node.data(1, Channel::Stderr).await.bytes).expect("text"));
    }
    assert!(is_running(errors.trim().parse().expect("a process number")), "it waits: {errors}");
    // The output continues to its end as soon as it is read.
    node.acknowledge(1, Channel::Stdout, received).await;
    let mut end = received;
    loop {
        let data = node.data(1, Channel::Stdout).await;
        assert_eq!(data.offset, end);
        if data.bytes.is_empty() {
            break;
        }
        end += data.bytes.len() as u64;
        node.acknowledge(1, Channel::Stdout, end).await;
    }
    assert_eq!(end, 10_000_000);
    assert_eq!(node.ended(1).await.0, Outcome::Exited(0));
}

/// Runs a job that does not read its stdin. It gets no acknowledgement for more than its pipe holds.
#[tokio::test]
async fn stdin_that_is_not_read_is_bounded() {
    let master = Master::new().await;
    let _daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    node.run(shell(1, "read line; echo $line; exec cat >/dev/null")).await;
    node.started(1).await;
    let mut outbox = Outbox::new();
    outbox.push(vec![b'x'; usize::try_from(WINDOW).expect("small")].into());
    while let Some((offset, bytes)) = outbox.next_chunk() {
        node.write(1, offset, bytes).await;
    }
    // This is far more than the credit. An honest sender would have stopped; the node drops the excess.
    for chunk in 0..64 {
        node.write(1, WINDOW + chunk * CHUNK as u64, vec![b'y'; CHUNK]).await;
    }
    let offset = node.message(|message| match message {
        NodeToMaster::StreamAck { offset, .. } => Some(*offset),
        _ => None,
    });
    assert!(offset.await <= WINDOW + CHUNK as u64);
}

#[tokio::test]
async fn a_job_may_close_its_stdin_early() {
    let master = Master::new().await;
    let daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    let go = daemon.path("go");
    nix::unistd::mkfifo(&go, nix::sys::stat::Mode::S_IRWXU).expect("made");
    node.run(shell(1, &format!("exec <&-; echo closed; cat {}", go.display()))).await;
    assert_eq!(node.data(1, Channel::Stdout).await.bytes, "closed\n");
    let mut outbox = Outbox::new();
    outbox.push(vec![b'x'; usize::try_from(WINDOW).expect("small")].into());
    outbox.close();
    while let Some((offset, bytes)) = outbox.next_chunk() {
        node.write(1, offset, bytes).await;
    }
    let end = WINDOW + 1;
    let all = |message: &NodeToMaster| matches!(message, NodeToMaster::StreamAck { offset, .. } if *offset == end);
    node.message(|message| all(message).then_some(())).await;
    tokio::task::spawn_blocking(move || std::fs::write(go, "")).await.expect("no panic").expect("written");
    assert_eq!(node.ended(1).await.0, Outcome::Exited(0), "its sender was not held up, and is not its problem");
}

/// Checks that a job without a reader still runs to its end.
#[tokio::test]
async fn discarded_output_does_not_block_the_job() {
    let master = Master::new().await;
    let _daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    node.run(shell(1, "cat; head -c 10000000 /dev/zero && exit 5")).await;
    node.started(1).await;
    node.send(MasterToNode::Discard { job: JobId(1) }).await;
    assert_eq!(node.ended(1).await.0, Outcome::Exited(5), "stdin has ended, and the output went nowhere");
    // This also holds if the output was discarded before the job began.
    node.send(MasterToNode::DoExec(Box::new(shell(2, "cat; head -c 10000000 /dev/zero && exit 6")))).await;
    node.send(MasterToNode::Discard { job: JobId(2) }).await;
    node.send(MasterToNode::Go { job: JobId(2), attempt: limo_model::Attempt(1), expected: limo_model::Power::ZERO })
        .await;
    assert_eq!(node.ended(2).await.0, Outcome::Exited(6));
    // A later request gets the end of the output.
    node.send(MasterToNode::ReadFrom { job: JobId(2), stdout: 17, stderr: 3 }).await;
    assert_eq!(ends(&mut node, 2).await, (17, 3));
}

async fn ends(node: &mut Session, job: u64) -> (u64, u64) {
    let out = node.data(job, Channel::Stdout).await;
    let err = node.data(job, Channel::Stderr).await;
    assert!(out.bytes.is_empty() && err.bytes.is_empty());
    (out.offset, err.offset)
}
