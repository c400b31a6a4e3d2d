//! Control groups of jobs: one for each attempt, with its limits. A group is composed per controller: version 2 where
//! its hierarchy has the controller, version 1 for a controller that only version 1 has.
//!
//! `lslave` makes groups in a [`Subtree`]; `lshepherd` starts the job in its [`Group`], freezes, kills and removes it.
//! Without a group, a job is held together by its process group and its environment (`limo_shepherd::processes`).

#![warn(missing_docs)]

mod cores;
mod device;
mod error;
mod group;
mod hold;
mod kill;
mod mounts;
mod nested;
mod subtree;
mod topology;

pub use cores::Cores;
pub use error::ContainError;
pub use group::{Entry, Group, Usage};
pub use hold::{hold, is_held};
pub use mounts::{Controller, Mounts};
pub use subtree::{Limits, Place, Strength, Subtree};
pub use topology::{Domain, Topology};
