//! Stdin of the job, to each of its tasks that read it. The slowest of them sets the pace.

use std::os::fd::OwnedFd;

use limo_proto::CHUNK;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::process::ChildStdin;

/// The pipe that the daemon fills; `None` where the job has no stdin.
pub fn stdin() -> Option<pipe::Receiver> {
    // SAFETY: descriptor 0 is this process's own for as long as it lives, and nothing else uses it.
    let fd: OwnedFd = unsafe { std::os::fd::FromRawFd::from_raw_fd(0) };
    // What is no pipe is nothing to read from: closing it is right.
    pipe::Receiver::from_owned_fd(fd).ok()
}

/// Passes everything on. A task that reads no more is left out; where none is left, the rest is thrown away.
pub async fn broadcast(mut stdin: pipe::Receiver, mut sinks: Vec<ChildStdin>) {
    let mut buffer = vec![0; CHUNK];
    while let Ok(count @ 1..) = stdin.read(&mut buffer).await {
        let mut left = Vec::with_capacity(sinks.len());
        for mut sink in sinks {
            if sink.write_all(&buffer[..count]).await.is_ok() {
                left.push(sink);
            }
        }
        sinks = left;
    }
}
