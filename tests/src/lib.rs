//! Clusters of real programs for the end-to-end tests: a master and nodes on loopback, each in its own directory, and
//! the clients. Independent of the tests.

mod browser;
pub mod clock;
mod cluster;
mod daemon;
mod dice;
pub mod groups;
mod host;
mod person;
mod processes;
pub mod programs;
mod stranger;
mod submitter;
mod until;

pub use browser::{ARROW_DOWN, Browser, SHIFT};
pub use cluster::{Cluster, MASTER, NodeSetup, Setup};
pub use daemon::Daemon;
pub use dice::Dice;
pub use host::{Host, Switch};
pub use person::Person;
pub use processes::{Process, processes};
pub use stranger::{Hostile, STRANGER, Stranger};
pub use submitter::{MARK, Ran, Submitter, finish, finish_within, sorted_lines};
pub use until::{LIMIT, until};
