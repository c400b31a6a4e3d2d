//! The scheduling core: records events, runs policies, checks plans. The live master and the simulator use the same
//! core.
//!
//! Pure: uses no clock, file, socket or thread, takes random numbers from a seed only, and iterates no hash map. Equal
//! inputs give equal results, byte for byte, on every machine.

mod account;
mod apply;
mod books;
pub mod budget;
mod check;
mod cluster;
mod core;
mod engine;
mod event;
mod explain;
mod facts;
mod fairshare;
mod future;
mod index;
mod mode;
mod offer;
mod options;
mod plan;
mod policy;
mod refused;
mod round;
pub mod solve;
mod state;
mod structure;
mod view;

pub use account::Bill;
pub use core::{Core, LicenceUse};
pub use event::Event;
pub use explain::{PlannedPlace, PlannedStart, Possibility, Prospect, possibilities};
pub use index::Occupants;
pub use offer::OnHardware;
pub use options::{
    Allocation, Horizon, Knowledge, ListBy, ListOptions, MarginRule, Options, PoolOptions, PoolRank, Preempt,
    PriceRule, RankBy, RankOptions, RestRule, Ties,
};
pub use plan::{Plan, Start, Violation};
pub use policy::Weighed;
pub use refused::Refused;
pub use round::{Account, Await, Command, Finished, NewLimit, Round};
pub use state::{
    Array, Arrivals, Assignment, Charge, Clock, Drained, Ended, Held, Job, Node, Owner, PartEnd, Phase, Reading,
    Running, SearchResult, Settings, Sleep, Slept, State, Sums, Used, joined,
};
pub use structure::JobMap;
pub use view::{Choice, View};
