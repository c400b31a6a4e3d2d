//! Clusters of real programs for the end-to-end tests: a master and nodes on loopback, each in its own directory, and
//! the clients. Independent of the tests.

mod browser;
pub mod clock;
mod cluster;
mod daemon;
mod dice;
mod digest;
pub mod groups;
mod host;
mod ledger;
mod load;
mod person;
mod processes;
pub mod programs;
mod stranger;
mod submitter;
mod torrent;
mod until;

pub use browser::{ARROW_DOWN, Browser, SHIFT};
pub use cluster::{Cluster, MASTER, NodeSetup, Setup};
pub use daemon::Daemon;
pub use dice::Dice;
pub use digest::Digest;
pub use host::{Host, Switch};
pub use ledger::Ledger;
pub use load::{Ending, Load};
pub use person::Person;
pub use processes::{MACHINE, Process, job_processes, kill_all, kill_machine, kill_shepherds, processes};
pub use stranger::{Hostile, STRANGER, Stranger};
pub use submitter::{MARK, Ran, Submitter, finish, finish_within, sorted_lines};
pub use torrent::Torrent;
pub use until::{LIMIT, until};
