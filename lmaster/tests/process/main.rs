//! The real master as a process, with nodes and clients over real sockets.

mod bad_peers;
mod full_disk;
mod harness;
mod jobs;
mod meters;
mod program;
