//! What was used, as sums: of finished jobs above idle, or of nodes with all that they drew.

use limo_model::{Energy, Money, Span, Time};
use serde::{Deserialize, Serialize};

use crate::bound::list;
use crate::limits::DAYS_LIMIT;
use crate::select::JobFilter;

/// What each sum is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EnergyBy {
    /// The jobs of one user.
    User,
    /// The runs of one application, by all users.
    Application,
    /// One job.
    Job,
    /// From readings; the filter and the costs are of jobs only.
    Node,
    /// Of jobs that ended between two neighbours of this list, which ascends.
    Days(#[serde(deserialize_with = "list::<_, _, DAYS_LIMIT>")] Vec<Time>),
}

/// Sums of the jobs that ended in `[since, until)`, or of what nodes drew then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnergyQuery {
    /// What each sum is over.
    pub by: EnergyBy,
    /// Of jobs.
    pub filter: JobFilter,
    /// The begin of the time; `None` for the begin of the records.
    pub since: Option<Time>,
    /// The end of the time, which is not part of it; `None` for now.
    pub until: Option<Time>,
    /// The largest sums, at most so many; all days.
    pub limit: u32,
}

/// The parts of `energy` need not be all of it: of some jobs that is not recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EnergySum {
    /// A user, an application, a job's number, a node, or the begin of a day in Unix milliseconds; empty for everything.
    pub key: String,
    /// That ran; 0 for nodes.
    pub jobs: u64,
    /// Above idle for jobs, all that was drawn for nodes.
    pub energy: Energy,
    /// Shown by meters.
    pub measured: Energy,
    /// Estimated from profiles and nameplates.
    pub estimated: Energy,
    /// Modelled by emulated hardware.
    pub emulated: Energy,
    /// Of the jobs whose cost is known; `None` if that is none, and for nodes.
    pub cost: Option<Money>,
    /// What starting each job at once would have cost.
    pub start_now_cost: Option<Money>,
    /// For how long a node's draw is known.
    pub seen: Option<Span>,
}

/// The answer to an [`EnergyQuery`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EnergyReport {
    /// Days in their order, all else from the most energy on.
    pub sums: Vec<EnergySum>,
    /// Of everything, also of what `sums` leaves out. For nodes the whole cluster as the master believed it, in which nodes
    /// without a meter are estimated.
    pub total: EnergySum,
}
