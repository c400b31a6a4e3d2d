//! Sums of energy: of finished jobs above idle, or of nodes in total.

use limo_model::{Energy, Money, Span, Time};
use serde::{Deserialize, Serialize};

use crate::bound::list;
use crate::limits::DAYS_LIMIT;
use crate::select::JobFilter;

/// The grouping of sums.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EnergyBy {
    /// Sums by user.
    User,
    /// Sums by application, over all users.
    Application,
    /// Sums by job.
    Job,
    /// Sums by node, from readings; the filter and the costs apply to jobs only.
    Node,
    /// Sums by group of nodes, from readings, by the present groups.
    Group,
    /// Time and energy by state of the nodes that the filter names, or of all.
    State,
    /// Sums by the time of the end: between two neighbours of this ascending list.
    Days(#[serde(deserialize_with = "list::<_, _, DAYS_LIMIT>")] Vec<Time>),
    /// Sums by account, without those below it.
    Account,
}

/// Asks for sums over jobs that ended in `[since, until)`, or over the draw of nodes in that time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnergyQuery {
    /// The grouping.
    pub by: EnergyBy,
    /// Filter of jobs.
    pub filter: JobFilter,
    /// Begin of the time; `None` for the begin of the records.
    pub since: Option<Time>,
    /// Exclusive end of the time; `None` for now.
    pub until: Option<Time>,
    /// Most sums, the largest first; all days are returned.
    pub limit: u32,
}

/// A sum. The parts of `energy` may add up to less, because they are not recorded for some jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EnergySum {
    /// A user, an application, an account (empty for jobs of none), a job's number, a node, a group (empty for nodes of none), a state, or the begin of a day in Unix milliseconds; empty for everything.
    pub key: String,
    /// Number of jobs that ran; 0 for nodes.
    pub jobs: u64,
    /// Energy above idle for jobs, total for nodes.
    pub energy: Energy,
    /// Energy measured by meters.
    pub measured: Energy,
    /// Energy estimated from profiles and nameplates.
    pub estimated: Energy,
    /// Energy modelled by emulated hardware.
    pub emulated: Energy,
    /// Cost of the jobs with a known cost; `None` without any, and for nodes.
    pub cost: Option<Money>,
    /// Cost if each job had started at once.
    pub start_now_cost: Option<Money>,
    /// Time for which the draw of nodes is known.
    pub seen: Option<Span>,
    /// Time of nodes in a state.
    #[serde(default)]
    pub span: Option<Span>,
}

/// The answer to an [`EnergyQuery`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EnergyReport {
    /// Days in ascending order, other groups in descending order of energy.
    pub sums: Vec<EnergySum>,
    /// Sum over everything, including sums that were omitted. For nodes it is the believed draw of the whole cluster,
    /// which estimates nodes without a meter.
    pub total: EnergySum,
}
