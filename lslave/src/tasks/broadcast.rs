//! Copies the job's stdin to each task that reads it, at the pace of the slowest.

use std::os::fd::OwnedFd;

use limo_proto::CHUNK;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::process::ChildStdin;

/// Returns the pipe that the daemon fills; `None` if the job has no stdin.
pub fn stdin() -> Option<pipe::Receiver> {
    // SAFETY: descriptor 0 belongs to this process, and nothing else uses it.
    let fd: OwnedFd = unsafe { std::os::fd::FromRawFd::from_raw_fd(0) };
    // A stdin that is not a pipe has nothing to read and is closed.
    pipe::Receiver::from_owned_fd(fd).ok()
}

/// Copies all bytes. A task that stops reading is dropped; without readers the remaining bytes are discarded.
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
