//! The real master as a process, with nodes and clients over real sockets.

mod bad_peers;
mod compact;
mod deploy;
mod feeds;
mod formats;
mod full_disk;
mod grid;
mod harness;
mod hostile;
mod jobs;
mod meters;
mod program;
