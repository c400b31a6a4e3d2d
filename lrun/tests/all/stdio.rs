//! stdin, stdout and stderr carry any bytes, independently, at the speed of their readers.

use std::os::fd::OwnedFd;
use std::process::Stdio;

use bytes::Bytes;
use limo_fake::FakeMaster;
use limo_model::Outcome;
use limo_proto::{Channel, ClientToMaster, Frame, Inbox, MasterToClient, Outbox, StreamId};
use nix::fcntl::OFlag;
use nix::libc::SIGPIPE;
use nix::unistd::pipe2;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::stage::{JOB, Stage, end, lrun};

/// Job that copies stdin to stdout, as on a node. The ends of its streams outlive connections.
#[derive(Default)]
pub struct Cat {
    stdin: Inbox,
    stdout: Outbox,
    /// Pieces taken from stdin while stdout had no space.
    waiting: Vec<Bytes>,
}

impl Cat {
    /// Serves a connection until stdout is done, or for `frames` frames. Returns true if stdout is done.
    pub async fn serve(&mut self, stage: &mut Stage, frames: usize) -> bool {
        for _ in 0..frames {
            self.push(stage).await;
            if self.stdout.is_done() {
                return true;
            }
            match stage.peer.hear().await.expect("a connection").expect("a frame") {
                Frame::Data(data) => {
                    assert_eq!(data.stream, StreamId::new(JOB, Channel::Stdin));
                    if let Some(new) = self.stdin.accept(data.offset, data.bytes).expect("no gap") {
                        self.waiting.push(new);
                    }
                }
                Frame::Message(ClientToMaster::StreamAck { stream, offset }) => {
                    assert_eq!(stream, StreamId::new(JOB, Channel::Stdout));
                    self.stdout.acknowledge(offset).expect("sent");
                }
                Frame::Message(other) => panic!("{other:?}"),
            }
        }
        false
    }

    async fn push(&mut self, stage: &mut Stage) {
        while let Some(first) = self.waiting.first() {
            if self.stdout.room() < first.len() {
                break;
            }
            let piece = self.waiting.remove(0);
            self.stdin.consume_bytes((piece.len() as u64).max(1));
            if piece.is_empty() { self.stdout.close() } else { self.stdout.push(piece) }
        }
        if let Some(offset) = self.stdin.due_ack() {
            let stream = StreamId::new(JOB, Channel::Stdin);
            stage.say(MasterToClient::StreamAck { stream, offset }).await;
        }
        while let Some((offset, bytes)) = self.stdout.next_chunk() {
            stage.peer.data(JOB, Channel::Stdout, offset, &bytes).await.expect("sent");
        }
    }

    /// Accepts a client that returns: checks its `Attach` and continues at its offsets.
    pub async fn attach(&mut self, stage: &mut Stage, key: [u8; 16]) {
        let ClientToMaster::Attach { job, key: shown, stdout, stderr, .. } = stage.hear().await else {
            panic!("no attach")
        };
        assert_eq!((job, shown, stderr), (JOB, key, 0));
        self.stdout.resume(stdout).expect("kept");
        stage.say(MasterToClient::Attached { job: JOB, stdin_offset: self.stdin.offset() }).await;
    }
}

/// Returns bytes of all values in a pattern that does not repeat with the chunks.
pub fn binary(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    SplitMix64::seed_from_u64(0).fill_bytes(&mut bytes);
    bytes
}

#[tokio::test]
async fn megabytes_pass_through_cat() {
    let master = FakeMaster::start().await.expect("a master");
    let mut child = lrun(master.address(), &["cat"]).stdin(Stdio::piped()).spawn().expect("lrun");
    let mut stdin = child.stdin.take().expect("piped");
    let sent = binary(9_000_001);
    let expected = sent.clone();
    let feed = tokio::spawn(async move { stdin.write_all(&sent).await });
    let output = tokio::spawn(child.wait_with_output());
    let mut stage = Stage::client(&master).await;
    stage.start().await;
    assert!(Cat::default().serve(&mut stage, usize::MAX).await);
    stage.peer.data(JOB, Channel::Stderr, 0, b"").await.expect("sent");
    stage.finish(Outcome::Exited(0)).await;
    feed.await.expect("a task").expect("lrun reads all of it");
    let output = output.await.expect("a task").expect("an end");
    assert_eq!((output.status.code(), output.stdout == expected), (Some(0), true), "{} bytes", output.stdout.len());
}

#[tokio::test]
async fn a_slow_reader_stops_the_job_and_bounds_the_memory() {
    let master = FakeMaster::start().await.expect("a master");
    let mut child = lrun(master.address(), &["yes"]).spawn().expect("lrun");
    let mut stage = Stage::client(&master).await;
    stage.start().await;
    // stdout has no reader, so `lrun` acknowledges only as much as the pipe holds.
    let mut outbox = Outbox::new();
    let data = binary(2_000_000);
    let mut at = 0;
    let mut stdout = child.stdout.take().expect("piped");
    let mut got = Vec::new();
    while got.len() < data.len() {
        while outbox.room() > 0 && at < data.len() {
            let take = outbox.room().min(50_000).min(data.len() - at);
            outbox.push(Bytes::copy_from_slice(&data[at..at + take]));
            at += take;
        }
        while let Some((offset, bytes)) = outbox.next_chunk() {
            stage.peer.data(JOB, Channel::Stdout, offset, &bytes).await.expect("sent");
        }
        tokio::select! {
            message = stage.hear() => {
                let ClientToMaster::StreamAck { offset, .. } = message else { panic!("{message:?}") };
                let pipe = 64 * 1024;
                assert!(offset <= got.len() as u64 + pipe, "{offset} acknowledged, {} read", got.len());
                outbox.acknowledge(offset).expect("sent");
            }
            read = stdout.read_buf(&mut got) => assert!(read.expect("a pipe") > 0),
        }
    }
    assert!(got == data);
    stage.end_streams(data.len() as u64, 0).await;
    stage.finish(Outcome::Exited(0)).await;
    assert_eq!(end(child).await, "exit 0\n--- stdout\n--- stderr\n");
}

#[tokio::test]
async fn a_closed_stdout_becomes_the_jobs_sigpipe() {
    let master = FakeMaster::start().await.expect("a master");
    let (reader, writer): (OwnedFd, OwnedFd) = pipe2(OFlag::O_CLOEXEC).expect("a pipe");
    let child = lrun(master.address(), &["yes"]).stdout(Stdio::from(writer)).spawn().expect("lrun");
    let mut stage = Stage::client(&master).await;
    stage.start().await;
    drop(reader);
    stage.peer.data(JOB, Channel::Stdout, 0, b"y\n").await.expect("sent");
    assert_eq!(stage.hear().await, ClientToMaster::Signal { job: JOB, signal: SIGPIPE });
    // Output that still arrives is discarded.
    stage.peer.data(JOB, Channel::Stdout, 2, b"y\n").await.expect("sent");
    stage.end_streams(4, 0).await;
    stage.finish(Outcome::Signaled(SIGPIPE)).await;
    assert_eq!(end(child).await, "exit 141\n--- stdout\n--- stderr\n");
}

#[tokio::test]
async fn output_that_cannot_be_written_is_an_error() {
    let master = FakeMaster::start().await.expect("a master");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let child = lrun(master.address(), &["a"]).stdout(full).spawn().expect("lrun");
    let mut stage = Stage::client(&master).await;
    stage.start().await;
    stage.peer.data(JOB, Channel::Stdout, 0, b"result\n").await.expect("sent");
    assert_eq!(stage.hear().await, ClientToMaster::Signal { job: JOB, signal: SIGPIPE });
    stage.end_streams(7, 0).await;
    stage.finish(Outcome::Exited(0)).await;
    let text = "lrun: error: cannot write standard output: No space left on device\n";
    assert_eq!(end(child).await, format!("exit 125\n--- stdout\n--- stderr\n{text}"));
}

#[tokio::test]
async fn a_job_that_does_not_start_consumes_no_input() {
    let master = FakeMaster::start().await.expect("a master");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "one\ntwo\n").expect("written");
    let mut input = file.reopen().expect("a file");
    let child = lrun(master.address(), &["a"]).stdin(input.try_clone().expect("a descriptor")).spawn().expect("lrun");
    let mut stage = Stage::client(&master).await;
    stage.accept().await;
    stage.finish(Outcome::Lost { reason: "n1 was restarted".into() }).await;
    assert!(end(child).await.starts_with("exit 125\n"));
    let mut left = String::new();
    std::io::Read::read_to_string(&mut input, &mut left).expect("read");
    assert_eq!(left, "one\ntwo\n");
}
